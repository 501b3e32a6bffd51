//! Steps of a pipeline: they make a record of a message, for the sinks. They are pure: the input is a message and the
//! time, the output a record, nothing, or an error.
//!
//! First `filter`, then `sql`, then `set`; at last `topic` and `key` are computed.

mod cel;
mod compile;
mod environment;
mod error;
mod functions;
mod node;
mod sql;
#[cfg(test)]
mod tests;
mod values;

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use sqlparser::tokenizer::Span;
use tidegate_client::TopicFilterBuf;

use self::cel::Cel;
use self::environment::Environment;
pub use self::error::ComputeError;
use self::sql::Sql;
use crate::format::{Format, Wanted};
use crate::message::{FieldName, Message};
use crate::record::{Content, Record, WholeMessage};

/// A place in the text of a step, and how far it goes; both counted from 1, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
    /// Characters.
    pub len: usize,
}

impl At {
    fn point(line: usize, column: usize) -> Self {
        Self { line, column, len: 1 }
    }

    /// A span; nothing where the parser has not kept it.
    fn of(span: Span) -> Option<Self> {
        let narrow = |number: u64| usize::try_from(number).unwrap_or(1);
        let (start, end) = (span.start, span.end);
        let len = if start.line == end.line { narrow(end.column.saturating_sub(start.column)).max(1) } else { 1 };
        (start.line != 0).then(|| Self { line: narrow(start.line), column: narrow(start.column), len })
    }

    /// The bytes of a text that it is.
    pub fn bytes_in(self, text: &str) -> Option<std::ops::Range<usize>> {
        let mut start = 0;
        for _ in 1..self.line {
            start += text[start..].find('\n')? + 1;
        }
        let place = |count: usize| text[start..].char_indices().nth(count).map_or(text.len(), |(at, _)| start + at);
        let from = place(self.column.saturating_sub(1));
        Some(from..place(self.column.saturating_sub(1) + self.len))
    }
}

/// Why a step is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepError {
    /// The error.
    pub message: String,
    /// Where, if that is known.
    pub at: Option<At>,
}

impl StepError {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), at: None }
    }

    fn at(self, at: impl Into<Option<At>>) -> Self {
        Self { at: at.into(), ..self }
    }
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for StepError {}

/// The steps of a pipeline, as text.
#[derive(Clone, Debug, Default)]
pub struct StepSettings {
    /// How payloads are read.
    pub format: Format,
    /// How payloads are written, for sinks with topics; nothing sends them as they came, or fields as JSON.
    pub encode: Option<Format>,
    /// A condition (CEL).
    pub filter: Option<String>,
    /// A SELECT.
    pub sql: Option<String>,
    /// Fields that are set: `NAME = EXPRESSION` (CEL).
    pub set: Vec<String>,
    /// The topic of the record (CEL).
    pub topic: Option<String>,
    /// The key of the record (CEL).
    pub key: Option<String>,
    /// The record is the whole message, for a log on the bus: the process that takes it from there does the steps.
    /// Here they give the key.
    pub forwards: bool,
}

/// A text of [`StepSettings`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// `filter`.
    Filter,
    /// `sql`.
    Sql,
    /// `set`, and which one.
    Set(usize),
    /// `topic`.
    Topic,
    /// `key`.
    Key,
}

/// Steps that were read.
#[derive(Debug)]
pub struct Steps {
    format: Format,
    encode: Option<Format>,
    filter: Option<Cel>,
    sql: Option<Sql>,
    set: Vec<(FieldName, Cel)>,
    topic: Option<Cel>,
    key: Option<Cel>,
    /// The parts of the payload that they look at.
    wanted: Wanted,
    forwards: bool,
}

impl Steps {
    /// Reads them.
    ///
    /// # Errors
    /// The first text that is wrong.
    pub fn new(settings: &StepSettings) -> Result<Self, (Part, StepError)> {
        let cel = |text: &String, part: Part| Cel::new(text).map_err(|error| (part, error));
        let sql = settings.sql.as_deref().map(|text| Sql::new(text).map_err(|error| (Part::Sql, error)));
        let set = settings.set.iter().enumerate().map(|(index, text)| {
            let part = Part::Set(index);
            let (name, expression) = text
                .split_once('=')
                .filter(|(name, rest)| is_name(name.trim()) && !rest.starts_with('='))
                .ok_or_else(|| (part, StepError::new("it must be `NAME = EXPRESSION`")))?;
            Ok((name.trim().into(), cel(&expression.to_owned(), part)?))
        });
        let mut steps = Self {
            format: settings.format,
            encode: settings.encode,
            filter: settings.filter.as_ref().map(|text| cel(text, Part::Filter)).transpose()?,
            sql: sql.transpose()?,
            set: set.collect::<Result<_, _>>()?,
            topic: settings.topic.as_ref().map(|text| cel(text, Part::Topic)).transpose()?,
            key: settings.key.as_ref().map(|text| cel(text, Part::Key)).transpose()?,
            wanted: Wanted::nothing(),
            forwards: settings.forwards,
        };
        steps.wanted = steps.look();
        Ok(steps)
    }

    /// The parts of the payload that the steps look at. An expression of CEL gets the whole payload.
    fn look(&self) -> Wanted {
        let expressions = self.set.iter().map(|(_, cel)| cel);
        let mut cels = expressions.chain(&self.filter).chain(&self.topic).chain(&self.key);
        if cels.any(Cel::needs_payload) {
            return Wanted::All;
        }
        let mut wanted = Wanted::nothing();
        self.sql.iter().for_each(|sql| sql.look(&mut wanted));
        wanted
    }

    /// The topic filters of FROM.
    pub fn from(&self) -> &[TopicFilterBuf] {
        self.sql.as_ref().map_or(&[], Sql::from)
    }

    /// The record of a message; nothing when a step drops it. `now` is in Unix milliseconds.
    ///
    /// # Errors
    /// When the message cannot be computed with.
    pub fn run(&self, message: &Arc<Message>, now: u64) -> Result<Option<Record>, ComputeError> {
        if self.forwards {
            return Ok(Some(self.logged(message, now)));
        }
        self.compute(message, now, None)
    }

    /// The whole message. Without a key of its own, also when a step fails, it has the topic as its key.
    fn logged(&self, message: &Arc<Message>, now: u64) -> Record {
        let computed = self.key.as_ref().and_then(|_| self.compute(message, now, None).ok().flatten());
        let content = Content::Logged(message.to_bytes());
        let computed_key = computed.and_then(|record| record.computed_key);
        Record { computed_key, ..Record::new(Arc::clone(message), content) }
    }

    /// The same, and what each step gave.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_shown(
        &self,
        message: &Arc<Message>,
        now: u64,
        shown: &mut dyn FnMut(&'static str, Value),
    ) -> Result<Option<Record>, ComputeError> {
        self.compute(message, now, Some(shown))
    }

    fn compute(
        &self,
        message: &Arc<Message>,
        now: u64,
        mut shown: Option<Shown<'_>>,
    ) -> Result<Option<Record>, ComputeError> {
        let environment = Environment::new(message, self.format, &self.wanted, now);
        if let Some(filter) = &self.filter {
            let passes = filter.truth(&environment, None).map_err(at("filter"))?;
            show(&mut shown, "filter", || Value::Bool(passes));
            if !passes {
                return Ok(None);
            }
        }
        let changed = self.sql.is_some() || !self.set.is_empty();
        let is_computed = self.topic.is_some() || self.key.is_some();
        let mut fields = match &self.sql {
            None if changed || is_computed => message.fields(self.format),
            // Sinks that send the payload as it came need no fields.
            None => Vec::new(),
            Some(sql) => {
                let Some(row) = sql.row(&environment).map_err(at("sql"))? else {
                    show(&mut shown, "sql", || Value::Null);
                    return Ok(None);
                };
                show(&mut shown, "sql", || object(&row));
                row
            }
        };
        for (name, expression) in &self.set {
            let value = expression.json(&environment, Some(&object(&fields))).map_err(at("set"))?;
            sql::put(&mut fields, name, &[], value);
        }
        if !self.set.is_empty() {
            show(&mut shown, "set", || object(&fields));
        }
        let row = is_computed.then(|| object(&fields));
        let mut text = |cel: &Option<Cel>, step: &'static str| {
            let Some(cel) = cel else { return Ok(None) };
            let text = cel.text(&environment, row.as_ref()).map_err(at(step))?;
            show(&mut shown, step, || Value::String(text.clone()));
            Ok::<_, ComputeError>(Some(text))
        };
        let (computed_topic, computed_key) = (text(&self.topic, "topic")?, text(&self.key, "key")?);
        let encoded = self.encode(message, changed.then_some(&fields)).map_err(at("encode"))?;
        let content = if changed { Content::Row(fields) } else { Content::Whole(WholeMessage::new(self.format)) };
        let message = Arc::clone(message);
        Ok(Some(Record { message, computed_topic, computed_key, content, encoded, reason: None }))
    }

    /// The payload in the format of `encode`: that of the fields, or without them of the message. Nothing where it is the
    /// format that the payload has anyway.
    fn encode(
        &self,
        message: &Message,
        fields: Option<&Vec<(FieldName, Value)>>,
    ) -> Result<Option<Vec<u8>>, ComputeError> {
        let present = if fields.is_some() { Format::Json } else { self.format };
        let Some(format) = self.encode.filter(|format| *format != present) else { return Ok(None) };
        let value = match fields {
            Some(fields) => object(fields),
            None => self.format.decode(&message.payload)?,
        };
        Ok(Some(format.encode(&value)?))
    }
}

/// Receives the result of each step.
type Shown<'a> = &'a mut dyn FnMut(&'static str, Value);

/// Shows the result of a step, which is computed only if it is asked for.
fn show(shown: &mut Option<Shown<'_>>, step: &'static str, value: impl FnOnce() -> Value) {
    if let Some(shown) = shown {
        shown(step, value());
    }
}

/// Names the step in an error.
fn at(step: &'static str) -> impl Fn(ComputeError) -> ComputeError {
    move |error| ComputeError::Step { step, error: Box::new(error) }
}

fn object(fields: &[(FieldName, Value)]) -> Value {
    Value::Object(fields.iter().map(|(name, value)| (name.to_string(), value.clone())).collect())
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= 64 && text.chars().all(|one| one.is_alphanumeric() || "_-.".contains(one))
}
