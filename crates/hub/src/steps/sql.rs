//! SQL as a step: `SELECT payload.temp AS temp, clientid FROM 'plant/+/temp' WHERE payload.temp > 30`.
//!
//! The text is read by `sqlparser`; its meaning is in [`compile`](super::compile) and [`node`](super::node). Names are
//! resolved when it is read, so that an unknown name is an error of the configuration and not of each message.

use serde_json::{Map, Value};
use sqlparser::ast::{
    Expr, GroupByExpr, ObjectName, ObjectNamePart, Query, Select, SelectItem, SetExpr, Spanned, Statement, TableFactor,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::{Parser, ParserError};
use tidegate_client::TopicFilterBuf;

use super::compile::compile;
use super::environment::Environment;
use super::error::ComputeError;
use super::node::Node;
use super::{At, StepError};
use crate::format::Wanted;
use crate::message::FieldName;

/// Longest text, bytes.
const MAX_TEXT: usize = 8_192;
/// Deepest nesting of brackets and functions.
const MAX_NESTING: usize = 40;
/// Stack for reading a statement, bytes.
const PARSER_STACK_BYTES: usize = 32 << 20;

/// A statement that was read.
#[derive(Debug)]
pub(crate) struct Sql {
    from: Vec<TopicFilterBuf>,
    select: Vec<Column>,
    condition: Option<Node>,
}

/// An entry between SELECT and FROM.
#[derive(Debug)]
enum Column {
    /// `*`.
    All,
    /// A value, and where it goes in the row: a field, and below it nested objects.
    Value { name: FieldName, below: Vec<String>, node: Node },
}

impl Sql {
    /// Reads a statement.
    ///
    /// # Errors
    /// With the place in the text, when it is not SQL or asks for something that is not there.
    pub(crate) fn new(text: &str) -> Result<Self, StepError> {
        if text.len() > MAX_TEXT {
            return Err(StepError::new(format!("it is longer than {MAX_TEXT} bytes")));
        }
        // A long sum is a deep tree, which its reader walks through before its depth is known here.
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(PARSER_STACK_BYTES);
            let failed = |said: String| StepError::new(format!("it could not be read: {said}"));
            let thread = thread.spawn_scoped(scope, || Self::read(text)).map_err(|error| failed(error.to_string()))?;
            thread.join().map_err(|_| failed("the parser broke off".to_owned()))?
        })
    }

    fn read(text: &str) -> Result<Self, StepError> {
        let dialect = GenericDialect {};
        let parser = Parser::new(&dialect).with_recursion_limit(MAX_NESTING);
        let statements = parser.try_with_sql(text).and_then(|mut parser| parser.parse_statements());
        let statements = statements.map_err(|error| syntax(text, &error))?;
        let [Statement::Query(query)] = statements.as_slice() else {
            return Err(StepError::new("it must be one statement: SELECT ... FROM ... [WHERE ...]"));
        };
        Self::of_query(query)
    }

    fn of_query(query: &Query) -> Result<Self, StepError> {
        let has_more = query.with.is_some()
            || query.order_by.is_some()
            || query.limit_clause.is_some()
            || query.fetch.is_some()
            || !query.pipe_operators.is_empty();
        let SetExpr::Select(select) = query.body.as_ref() else {
            return Err(StepError::new("it must be one SELECT"));
        };
        if has_more || has_clauses(select) {
            let message = "each message is evaluated alone: only SELECT, FROM and WHERE are understood";
            return Err(StepError::new(message).at(At::of(query.span())));
        }
        let columns: Result<Vec<_>, _> = select.projection.iter().map(column).collect();
        let condition = select.selection.as_ref().map(|condition| compile(condition, 0)).transpose()?;
        Ok(Self { from: filters(select)?, select: columns?, condition })
    }

    /// Notes the parts of the payload that it looks at.
    pub(super) fn look(&self, wanted: &mut Wanted) {
        let columns = self.select.iter().filter_map(|column| match column {
            // All fields are made without the parts of the environment.
            Column::All => None,
            Column::Value { node, .. } => Some(node),
        });
        columns.chain(&self.condition).for_each(|node| node.look(wanted));
    }

    /// The topic filters behind FROM.
    pub(crate) fn from(&self) -> &[TopicFilterBuf] {
        &self.from
    }

    /// The row that it makes of a message; nothing when FROM does not match its topic or it does not fulfil WHERE.
    ///
    /// # Errors
    /// When the message cannot be computed with.
    pub(crate) fn row(&self, environment: &Environment<'_>) -> Result<Option<Vec<(FieldName, Value)>>, ComputeError> {
        if !self.from.iter().any(|filter| filter.matches_text(&environment.message.topic)) {
            return Ok(None);
        }
        if let Some(condition) = &self.condition
            && condition.value(environment)? != Value::Bool(true)
        {
            return Ok(None);
        }
        let mut row = Vec::with_capacity(self.select.len());
        for column in &self.select {
            match column {
                Column::All => {
                    for (name, value) in environment.message.fields(environment.format) {
                        put(&mut row, &name, &[], value);
                    }
                }
                Column::Value { name, below, node } => put(&mut row, name, below, node.value(environment)?),
            }
        }
        Ok(Some(row))
    }
}

/// Puts a value into a field of a row, within nested objects if there are names below.
pub(super) fn put(row: &mut Vec<(FieldName, Value)>, name: &FieldName, below: &[String], value: Value) {
    let at = row.iter().position(|(known, _)| known == name);
    let index = at.unwrap_or_else(|| {
        row.push((FieldName::clone(name), Value::Null));
        row.len() - 1
    });
    let mut place = &mut row[index].1;
    for name in below {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        let Value::Object(fields) = place else { return };
        place = fields.entry(name.clone()).or_insert(Value::Null);
    }
    *place = value;
}

fn syntax(statement: &str, error: &ParserError) -> StepError {
    let text = match error {
        ParserError::TokenizerError(text) | ParserError::ParserError(text) => text.clone(),
        ParserError::RecursionLimitExceeded => format!("brackets are nested more than {MAX_NESTING} deep"),
    };
    // The parser writes the place into its text, unless it is the end.
    if let Some(said) = text.strip_suffix("found: EOF") {
        return StepError::new(format!("{said}found: the end")).at(last_place(statement));
    }
    let Some((said, place)) = text.rsplit_once(" at Line: ") else { return StepError::new(text) };
    let Some((line, column)) = place.split_once(", Column: ") else { return StepError::new(text.clone()) };
    match (line.trim().parse(), column.trim().parse()) {
        (Ok(line), Ok(column)) => StepError::new(said).at(At::point(line, column)),
        _ => StepError::new(text.clone()),
    }
}

/// The place of the last character.
fn last_place(text: &str) -> At {
    let text = text.trim_end();
    let last = text.rsplit('\n').next().unwrap_or_default();
    At::point(text.matches('\n').count() + 1, last.chars().count().max(1))
}

/// Whether there is anything but SELECT, FROM and WHERE.
fn has_clauses(select: &Select) -> bool {
    let grouped = !matches!(&select.group_by, GroupByExpr::Expressions(by, with) if by.is_empty() && with.is_empty());
    select.distinct.is_some()
        || select.top.is_some()
        || select.into.is_some()
        || select.having.is_some()
        || select.prewhere.is_some()
        || select.qualify.is_some()
        || !select.lateral_views.is_empty()
        || !select.sort_by.is_empty()
        || grouped
}

fn column(item: &SelectItem) -> Result<Column, StepError> {
    match item {
        SelectItem::Wildcard(_) => Ok(Column::All),
        SelectItem::ExprWithAlias { expr, alias } => {
            Ok(Column::Value { name: alias.value.as_str().into(), below: Vec::new(), node: compile(expr, 0)? })
        }
        SelectItem::UnnamedExpr(expr) => {
            let (name, below) = path_of(expr);
            Ok(Column::Value { name, below, node: compile(expr, 0)? })
        }
        SelectItem::QualifiedWildcard(..) => {
            let said = "`name.*` is not understood: select the field, or `*`";
            Err(StepError::new(said).at(At::of(item.span())))
        }
    }
}

/// Where a value without a name goes: `payload.temp` to the field `temp` of the object `payload`, all else under its
/// text.
fn path_of(expr: &Expr) -> (FieldName, Vec<String>) {
    match expr {
        Expr::Identifier(name) => (name.value.as_str().into(), Vec::new()),
        Expr::CompoundIdentifier(names) => {
            let mut names = names.iter().map(|name| name.value.clone());
            (names.next().unwrap_or_default().into(), names.collect())
        }
        other => (other.to_string().into(), Vec::new()),
    }
}

fn filters(select: &Select) -> Result<Vec<TopicFilterBuf>, StepError> {
    if select.from.is_empty() {
        return Err(StepError::new("it has no FROM: name the topics, as in FROM 'plant/+/temp'"));
    }
    let filter = |name: &ObjectName| {
        let part = |part: &ObjectNamePart| match part {
            ObjectNamePart::Identifier(name) => name.value.clone(),
            ObjectNamePart::Function(function) => function.to_string(),
        };
        let text = name.0.iter().map(part).collect::<Vec<_>>().join(".");
        TopicFilterBuf::new(text.as_str())
            .map_err(|error| StepError::new(format!("FROM {text:?}: {error}")).at(At::of(name.span())))
    };
    let tables = select.from.iter().map(|table| match &table.relation {
        TableFactor::Table { name, .. } if table.joins.is_empty() => filter(name),
        _ => Err(StepError::new("FROM takes topic filters alone, as in FROM 'plant/+/temp', 'plant/+/hum'")),
    });
    tables.collect()
}
