//! Steps of a pipeline: they make a record of a message, for the sinks. They are pure: the input is a message and the
//! time, the output a record, nothing, or an error.
//!
//! First comes `schema`, then `filter`, then `sql`, then `set`; at last `topic` and `key` are computed. FOREACH of `sql` makes several records of a
//! message. With `every`, `sql` makes one record of the messages of a window.

mod aggregate;
mod aliases;
mod avro;
mod budget;
mod cel;
mod compile;
mod dates;
mod decoder;
mod dialect;
mod digests;
mod environment;
mod error;
mod foreach;
mod functions;
mod gate;
mod node;
mod regular;
mod schema;
mod sql;
mod tables;
#[cfg(test)]
mod tests;
mod texts;
mod unit;
mod values;
mod window;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use sqlparser::tokenizer::Span;
use tidegate_client::TopicFilterBuf;

pub(crate) use self::aggregate::{Totals, WindowShare};
use self::budget::Budget;
use self::cel::Cel;
use self::environment::Environment;
pub use self::error::ComputeError;
pub(crate) use self::error::MAX_ELEMENTS;
pub use self::gate::PayloadGate;
use self::schema::PayloadSchema;
use self::sql::Sql;
use self::tables::Tables;
pub(crate) use self::window::Ended;
use crate::format::{Format, Wanted};
use crate::message::{FieldName, Message};
use crate::record::{Content, Record, Row, RowText, WholeMessage};

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
    /// The file of a JSON Schema that payloads have to fulfil, or of a schema of Avro or Protobuf that decodes them to JSON.
    pub schema: Option<PathBuf>,
    /// The name of the message in a schema of Protobuf.
    pub schema_type: Option<String>,
    /// Whether a message that is not of the schema is dropped, and does not fail.
    pub drops_invalid: bool,
    /// Tables of `lookup`, each `NAME = FILE#KEY`.
    pub tables: Vec<String>,
    /// Whether a key that a table does not have is an error, and not null.
    pub demands_rows: bool,
    /// A condition (CEL).
    pub filter: Option<String>,
    /// A SELECT.
    pub sql: Option<String>,
    /// The length of windows, milliseconds: the SELECT makes a record of all messages of a group within this time.
    pub every: Option<u64>,
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
    /// `schema`.
    Schema,
    /// `tables`.
    Tables,
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
    schema: Option<PayloadSchema>,
    drops_invalid: bool,
    filter: Option<Cel>,
    sql: Option<Sql>,
    every: Option<u64>,
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
        let tables = Tables::open(&settings.tables, settings.demands_rows);
        let tables = &tables.map_err(|error| (Part::Tables, StepError::new(error.to_string())))?;
        let cel = |text: &String, part: Part| {
            let expression = Cel::new(text, tables).and_then(|cel| match part {
                Part::Filter => cel.giving(Value::is_boolean, "true or false"),
                Part::Topic => cel.giving(Value::is_string, "text in single quotes: `topic = \"'plant/a'\"`"),
                _ => Ok(cel),
            });
            expression.map_err(|error| (part, error))
        };
        let sql = settings
            .sql
            .as_deref()
            .map(|text| Sql::new(text, settings.every.is_some(), tables).map_err(|error| (Part::Sql, error)));
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
            schema: Self::schema_of(settings)?,
            drops_invalid: settings.drops_invalid,
            filter: settings.filter.as_ref().map(|text| cel(text, Part::Filter)).transpose()?,
            sql: sql.transpose()?,
            every: settings.every,
            set: set.collect::<Result<_, _>>()?,
            topic: settings.topic.as_ref().map(|text| cel(text, Part::Topic)).transpose()?,
            key: settings.key.as_ref().map(|text| cel(text, Part::Key)).transpose()?,
            wanted: Wanted::nothing(),
            forwards: settings.forwards,
        };
        steps.wanted = steps.look();
        Ok(steps)
    }

    /// The parts of the payload that the steps look at.
    fn look(&self) -> Wanted {
        let mut wanted = Wanted::nothing();
        if matches!(self.schema, Some(PayloadSchema::Json(_))) {
            wanted.add(std::iter::empty());
        }
        let expressions = self.set.iter().map(|(_, cel)| cel);
        let cels = expressions.chain(&self.filter).chain(&self.topic).chain(&self.key);
        cels.for_each(|cel| cel.look(&mut wanted));
        self.sql.iter().for_each(|sql| sql.look(&mut wanted));
        wanted
    }

    /// The topic filters of FROM.
    pub fn from(&self) -> &[TopicFilterBuf] {
        self.sql.as_ref().map_or(&[], Sql::from)
    }

    /// Whether a message may give several records.
    pub fn is_foreach(&self) -> bool {
        self.sql.as_ref().is_some_and(Sql::is_foreach)
    }

    /// The format of payloads, where each message is sent as it came.
    pub(crate) fn passes_all(&self) -> Option<Format> {
        let expressions = [&self.filter, &self.topic, &self.key];
        let is_read = self.sql.is_some() || expressions.into_iter().any(Option::is_some) || self.schema.is_some();
        let is_changed = !self.set.is_empty() || self.every.is_some() || self.encode.is_some();
        (!self.forwards && !is_read && !is_changed).then_some(self.format)
    }

    /// Whether they make a record of each message: no condition leaves one out.
    pub fn takes_all(&self) -> bool {
        self.filter.is_none()
            && !(self.schema.is_some() && self.drops_invalid)
            && self.every().is_none()
            && self.sql.as_ref().is_none_or(Sql::takes_all)
    }

    /// The records of a message; none when a step drops it. `now` is in Unix milliseconds.
    ///
    /// # Errors
    /// When the message cannot be computed with.
    pub fn run(&self, message: &Arc<Message>, now: u64) -> Result<Records, ComputeError> {
        if self.forwards {
            return Ok(Records::one(self.logged(message, now)));
        }
        self.compute(message, now, None)
    }

    /// The whole message. It has the key of its first record. Without its own key, also when a step fails, the topic is
    /// its key.
    fn logged(&self, message: &Arc<Message>, now: u64) -> Record {
        let computed = self.key.as_ref().and_then(|_| self.compute(message, now, None).ok()?.first);
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
        shown: &mut dyn FnMut(&'static str, StepResult<'_>),
    ) -> Result<Records, ComputeError> {
        self.compute(message, now, Some(shown))
    }

    fn compute(&self, message: &Arc<Message>, now: u64, mut shown: Option<Shown<'_>>) -> Result<Records, ComputeError> {
        if self.every().is_some() {
            let record = self.window_of_one(message, now, &mut shown)?;
            return Ok(record.map(Records::one).unwrap_or_default());
        }
        let Some(message) = &self.decoded(message)? else {
            show(&mut shown, "schema", || StepResult::Value(Value::Null));
            return Ok(Records::default());
        };
        // A decoded payload is held beside the payload that came.
        let decoded_bytes = if self.decodes() { message.payload.len() } else { 0 };
        let mut environment = Environment::new(message, self.format, &self.wanted, now);
        if !self.is_valid(&environment)? {
            show(&mut shown, "schema", || StepResult::Value(Value::Null));
            return Ok(Records::default());
        }
        if let Some(filter) = &self.filter {
            let passes = filter.truth(&environment, None).map_err(at("filter"))?;
            show(&mut shown, "filter", || StepResult::Value(Value::Bool(passes)));
            if !passes {
                return Ok(Records::default());
            }
        }
        let Some(sql) = &self.sql else {
            return self
                .finish(message, &environment, None, &mut shown)
                .map(|record| Records { bytes: decoded_bytes, ..Records::one(record) });
        };
        if !sql.is_foreach() {
            let Some(row) = sql.row(&environment).map_err(at("sql"))? else {
                show(&mut shown, "sql", || StepResult::Value(Value::Null));
                return Ok(Records::default());
            };
            return self
                .finish(message, &environment, Some(row), &mut shown)
                .map(|record| Records { bytes: decoded_bytes, ..Records::one(record) });
        }
        let rows = sql.rows(&mut environment).map_err(at("sql"))?;
        if rows.is_empty() {
            show(&mut shown, "sql", || StepResult::Value(Value::Null));
        }
        // The steps behind it add to each record.
        let mut budget = Budget::default();
        let records = rows.into_iter().map(|(number, row)| {
            let record = self.finish(message, &environment, Some(row), &mut shown)?;
            let record = Record { own_id: Some(format!("{}.{number}", message.id)), ..record };
            budget.take(record.memory()).map_err(at("sql"))?;
            Ok(record)
        });
        let mut records = records.collect::<Result<Vec<_>, ComputeError>>()?.into_iter();
        Ok(Records { first: records.next(), rest: records.collect(), bytes: budget.taken() + decoded_bytes })
    }

    /// The record of a row, or without one of the whole message.
    fn finish(
        &self,
        message: &Arc<Message>,
        environment: &Environment<'_>,
        row: Option<Row>,
        shown: &mut Option<Shown<'_>>,
    ) -> Result<Record, ComputeError> {
        if let Some(row) = &row {
            show(shown, "sql", || StepResult::Fields(row));
        }
        let changed = row.is_some() || !self.set.is_empty();
        let looks_at_row = [&self.topic, &self.key].into_iter().flatten().any(Cel::needs_row);
        let mut fields = match row {
            Some(row) => row,
            None if changed || looks_at_row => message.fields(self.format),
            // Sinks that send the payload as it came need no fields.
            None => Row::new(),
        };
        for (name, expression) in &self.set {
            let row = expression.needs_row().then(|| object(&fields));
            let value = expression.json(environment, row.as_ref()).map_err(at("set"))?;
            sql::put(&mut fields, name, &[], value);
        }
        if !self.set.is_empty() {
            show(shown, "set", || StepResult::Fields(&fields));
        }
        let row = looks_at_row.then(|| object(&fields));
        let mut text = |cel: &Option<Cel>, step: &'static str| {
            let Some(cel) = cel else { return Ok(None) };
            let text = cel.text(environment, row.as_ref()).map_err(at(step))?;
            show(shown, step, || StepResult::Value(Value::String(text.clone())));
            Ok::<_, ComputeError>(Some(text))
        };
        let (computed_topic, computed_key) = (text(&self.topic, "topic")?, text(&self.key, "key")?);
        let encoded = self.encode(message, changed.then_some(&fields)).map_err(at("encode"))?;
        let content = if changed { Content::Row(fields) } else { Content::Whole(WholeMessage::new(self.format)) };
        Ok(Record { computed_topic, computed_key, encoded, ..Record::new(Arc::clone(message), content) })
    }

    /// The payload in the format of `encode`: that of the fields in their order, or without them of the message. Nothing where
    /// it is the format that the payload has anyway.
    fn encode(&self, message: &Message, fields: Option<&Row>) -> Result<Option<Vec<u8>>, ComputeError> {
        let present = if fields.is_some() { Format::Json } else { self.format };
        let Some(format) = self.encode.filter(|format| *format != present) else { return Ok(None) };
        Ok(Some(match fields {
            Some(fields) => format.encode(&RowText(fields))?,
            None => format.encode(&self.format.decode(&message.payload)?)?,
        }))
    }
}

/// The records of a message: usually one, and with FOREACH one of each element.
#[derive(Debug, Default, PartialEq)]
pub struct Records {
    /// The first one.
    pub first: Option<Record>,
    /// The others.
    pub rest: Vec<Record>,
    /// Memory of the records of a FOREACH, bytes; 0 for a single record, which counts as its message.
    pub bytes: usize,
}

impl Records {
    fn one(record: Record) -> Self {
        Self { first: Some(record), ..Self::default() }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    /// Whether a step has dropped the message.
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }
}

impl IntoIterator for Records {
    type Item = Record;
    type IntoIter = std::iter::Chain<std::option::IntoIter<Record>, std::vec::IntoIter<Record>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.rest)
    }
}

/// The result of a step. As text it is JSON.
#[derive(Debug, PartialEq)]
pub enum StepResult<'a> {
    /// A value; null where the step drops the message.
    Value(Value),
    /// Fields, in the order of the SELECT.
    Fields(&'a Row),
}

impl fmt::Display for StepResult<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(value) => value.fmt(f),
            Self::Fields(fields) => RowText(fields).fmt(f),
        }
    }
}

/// Receives the result of each step.
type Shown<'a> = &'a mut dyn FnMut(&'static str, StepResult<'_>);

/// Shows the result of a step, which is computed only if it is asked for.
fn show<'v>(shown: &mut Option<Shown<'_>>, step: &'static str, value: impl FnOnce() -> StepResult<'v>) {
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
