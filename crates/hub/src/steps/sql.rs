//! SQL as a step: `SELECT payload.temp AS temp, clientid FROM 'plant/+/temp' WHERE payload.temp > 30`, or FOREACH, which makes
//! a record of each element of a list.
//!
//! The text is read by `sqlparser`; its meaning is in [`compile`](super::compile) and [`node`](super::node). Names are
//! resolved when it is read, so that an unknown name is an error of the configuration and not of each message.

use std::cell::OnceCell;
use std::sync::Arc;

use serde_json::{Map, Value};
use sqlparser::ast::{
    Expr, GroupByExpr, ObjectName, ObjectNamePart, Query, Select, SelectItem, SetExpr, Spanned, Statement, TableFactor,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};
use tidegate_client::TopicFilterBuf;

use super::aggregate::{Aggregates, Totals, WindowShare};
use super::aliases::Aliases;
use super::budget::Budget;
use super::compile::{Scope, compile};
use super::dialect::{WITHIN, known};
use super::environment::Environment;
use super::error::{ComputeError, MAX_ELEMENTS, MAX_GROUP};
use super::foreach::{Foreach, is_foreach};
use super::node::{Alias, Node};
use super::tables::Tables;
use super::values::kind;
use super::{At, StepError};
use crate::format::Wanted;
use crate::message::FieldName;
use crate::record::{Row, memory_of_row};

/// Longest text, bytes.
const MAX_TEXT: usize = 8_192;
/// Deepest nesting of brackets and functions.
const MAX_NESTING: usize = 40;
/// Stack for reading a statement, bytes.
const PARSER_STACK_BYTES: usize = 32 << 20;
/// Topics of EMQX for events of clients, and the topic filters that have these events here.
const EVENTS: [(&str, &str); 2] = [
    ("$events/client_connected", "$SYS/brokers/+/clients/+/connected"),
    ("$events/client_disconnected", "$SYS/brokers/+/clients/+/disconnected"),
];

/// A statement that was read.
#[derive(Debug)]
pub(crate) struct Sql {
    from: Vec<TopicFilterBuf>,
    each: Option<Each>,
    select: Vec<Column>,
    condition: Option<Node>,
    /// The values that the messages of a window share.
    group: Vec<Node>,
    aggregates: Aggregates,
}

/// The FOREACH of a statement.
#[derive(Debug)]
struct Each {
    /// Fields before the list, computed once for a message.
    fields: Vec<Arc<Alias>>,
    list: Node,
    /// INCASE.
    condition: Option<Node>,
}

/// An entry between SELECT and FROM.
#[derive(Debug)]
enum Column {
    /// `*`.
    All,
    /// The element of a FOREACH without DO: its fields, or the element under its name.
    Item(FieldName),
    /// A value, and where it goes in the row: a field, and below it nested objects.
    Value { name: FieldName, below: Vec<String>, column: Arc<Alias> },
}

impl Sql {
    /// Reads a statement.
    ///
    /// # Errors
    /// With the place in the text, when it is not SQL or asks for something that is not there.
    pub(crate) fn new(text: &str, is_windowed: bool, tables: &Tables) -> Result<Self, StepError> {
        if text.len() > MAX_TEXT {
            return Err(StepError::new(format!("it is longer than {MAX_TEXT} bytes")));
        }
        // A long sum is a deep tree, which its reader walks through before its depth is known here.
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(PARSER_STACK_BYTES);
            let failed = |said: String| StepError::new(format!("it could not be read: {said}"));
            let thread = thread
                .spawn_scoped(scope, || Self::read(text, is_windowed, tables))
                .map_err(|error| failed(error.to_string()))?;
            thread.join().map_err(|_| failed("the parser broke off".to_owned()))?
        })
    }

    fn read(text: &str, is_windowed: bool, tables: &Tables) -> Result<Self, StepError> {
        let of_message = Scope::new(tables);
        let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize_with_location();
        let tokens = known(tokens.map_err(|error| syntax(text, &ParserError::from(error)))?);
        if !is_foreach(&tokens) {
            let sql = Self::of_query(&statement(text, tokens)?, of_message, is_windowed, &Aliases::default())?;
            // The parser takes a SELECT without columns, whose records would be empty.
            if sql.select.is_empty() {
                return Err(StepError::new("SELECT names no field: name some, or `*`").at(At::point(1, 1)));
            }
            return Ok(sql);
        }
        if is_windowed {
            return Err(
                StepError::new("FOREACH has no windows: leave out `every`, or write a SELECT").at(At::point(1, 1))
            );
        }
        let foreach = Foreach::new(tokens)?;
        let scope = of_message.of_item(&foreach.item);
        let aliases = Aliases::default();
        let mut fields = Vec::new();
        for (name, tokens) in foreach.fields {
            let node = compile(&expression(text, tokens)?, of_message.naming(&aliases))?;
            fields.push(aliases.add(&name, node));
        }
        let list = compile(&expression(text, foreach.list)?, of_message.naming(&aliases))?;
        let in_scope = |tokens| compile(&expression(text, tokens)?, scope.naming(&aliases));
        let condition = foreach.condition.map(in_scope).transpose()?;
        let mut sql = Self::of_query(&statement(text, foreach.select)?, scope, false, &aliases)?;
        if !foreach.has_columns {
            sql.select = vec![Column::Item(foreach.item.as_str().into())];
        }
        sql.each = Some(Each { fields, list, condition });
        Ok(sql)
    }

    fn of_query(query: &Query, scope: Scope<'_>, is_windowed: bool, aliases: &Aliases) -> Result<Self, StepError> {
        let has_more = query.with.is_some()
            || query.order_by.is_some()
            || query.limit_clause.is_some()
            || query.fetch.is_some()
            || !query.pipe_operators.is_empty();
        let SetExpr::Select(select) = query.body.as_ref() else {
            return Err(StepError::new("it must be one SELECT"));
        };
        let group = group_of(select).filter(|group| is_windowed || group.is_empty());
        let (Some(group), false) = (group, has_more || has_clauses(select)) else {
            let message = "only SELECT, FOREACH, FROM and WHERE are understood, and with `every` GROUP BY";
            return Err(StepError::new(message).at(At::of(query.span())));
        };
        let aggregates = Aggregates::default();
        let row_scope = if is_windowed { scope.of_window(&aggregates) } else { scope }.naming(aliases);
        let columns: Result<Vec<_>, _> =
            select.projection.iter().map(|item| column(item, row_scope, aliases)).collect();
        let columns = columns?;
        if is_windowed && columns.iter().any(|column| matches!(column, Column::All)) {
            let message = "`*` is of one message: name the fields of a window, such as `count(*) AS messages`";
            return Err(StepError::new(message).at(At::of(query.span())));
        }
        // The columns of a FOREACH are of each element, and its WHERE is of the message.
        let condition_scope = scope.of_message();
        let condition_scope = if scope.has_item() { condition_scope } else { condition_scope.naming(aliases) };
        let of_message = |expr: &Expr| compile(expr, condition_scope);
        let condition = select.selection.as_ref().map(of_message).transpose()?;
        let group = group.iter().map(of_message).collect::<Result<_, _>>()?;
        Ok(Self { from: filters(select)?, each: None, select: columns, condition, group, aggregates })
    }

    /// Notes the parts of the payload that it looks at.
    pub(super) fn look(&self, wanted: &mut Wanted) {
        let columns = self.select.iter().filter_map(|column| match column {
            // All fields are made without the parts of the environment.
            Column::All | Column::Item(_) => None,
            Column::Value { column, .. } => Some(&column.node),
        });
        let each = self.each.iter().flat_map(|each| {
            let fields = each.fields.iter().map(|field| &field.node);
            fields.chain(std::iter::once(&each.list)).chain(&each.condition)
        });
        columns.chain(&self.condition).chain(each).chain(&self.group).for_each(|node| node.look(wanted));
        self.aggregates.look(wanted);
    }

    /// The topic filters behind FROM.
    pub(crate) fn from(&self) -> &[TopicFilterBuf] {
        &self.from
    }

    /// Whether it is a FOREACH.
    pub(crate) fn is_foreach(&self) -> bool {
        self.each.is_some()
    }

    /// Whether each message of its topics gives a row.
    pub(crate) fn takes_all(&self) -> bool {
        self.each.is_none() && self.condition.is_none()
    }

    /// The row that a SELECT makes of a message; nothing when FROM does not match its topic or it does not fulfil WHERE.
    ///
    /// # Errors
    /// When the message cannot be computed with.
    pub(super) fn row(&self, environment: &Environment<'_>) -> Result<Option<Row>, ComputeError> {
        if !self.takes(environment)? {
            return Ok(None);
        }
        self.columns(environment, || environment.message.fields(environment.format)).map(Some)
    }

    /// The rows that a FOREACH makes of a message, each with the number of its element, from 1.
    ///
    /// # Errors
    /// When the message cannot be computed with, or the list is too long, or its records are too large.
    pub(super) fn rows(&self, environment: &mut Environment<'_>) -> Result<Vec<(usize, Row)>, ComputeError> {
        let Some(each) = &self.each else { return Ok(Vec::new()) };
        if !self.takes(environment)? {
            return Ok(Vec::new());
        }
        let items = match each.list.value(environment)? {
            Value::Array(items) => items,
            Value::Null => Vec::new(),
            other => return Err(ComputeError::Kind { needed: "FOREACH needs an array", found: kind(&other) }),
        };
        if items.len() > MAX_ELEMENTS {
            return Err(ComputeError::TooManyElements(items.len()));
        }
        let (mut rows, mut budget, all) = (Vec::with_capacity(items.len()), Budget::default(), OnceCell::<Row>::new());
        for (number, item) in (1..).zip(items) {
            environment.set_item(item, each.fields.len());
            let passes = each.condition.as_ref().map(|condition| condition.value(environment)).transpose()?;
            if passes.is_none_or(|passes| passes == Value::Bool(true)) {
                let all = || all.get_or_init(|| environment.message.fields(environment.format)).clone();
                let row = self.columns(environment, all)?;
                budget.take(memory_of_row(&row))?;
                rows.push((number, row));
            }
        }
        Ok(rows)
    }

    /// The share of a message in its window; nothing when FROM does not match its topic or it does not fulfil WHERE.
    ///
    /// # Errors
    /// When the message cannot be computed with.
    pub(super) fn share(&self, environment: &Environment<'_>) -> Result<Option<WindowShare>, ComputeError> {
        if !self.takes(environment)? {
            return Ok(None);
        }
        let group: Result<Vec<_>, _> = self.group.iter().map(|node| node.value(environment)).collect();
        let group = Value::Array(group?).to_string();
        if group.len() > MAX_GROUP {
            return Err(ComputeError::LongGroup);
        }
        Ok(Some(WindowShare { group, values: self.aggregates.values(environment)? }))
    }

    /// The totals of a window without messages.
    pub(super) fn totals(&self) -> Totals {
        self.aggregates.totals()
    }

    /// The row of a window. The environment has its last message.
    ///
    /// # Errors
    /// When its fields cannot be computed.
    pub(super) fn window_row(&self, environment: &Environment<'_>) -> Result<Row, ComputeError> {
        self.columns(environment, Row::new)
    }

    /// Whether FROM has the topic of a message, and it fulfils WHERE.
    fn takes(&self, environment: &Environment<'_>) -> Result<bool, ComputeError> {
        if !self.from.iter().any(|filter| filter.matches_text(&environment.message.topic)) {
            return Ok(false);
        }
        let holds = self.condition.as_ref().map(|condition| condition.value(environment)).transpose()?;
        Ok(holds.is_none_or(|holds| holds == Value::Bool(true)))
    }

    /// The fields of a row. `all` makes the fields of `*`.
    fn columns(&self, environment: &Environment<'_>, all: impl Fn() -> Row) -> Result<Row, ComputeError> {
        let mut row = Vec::with_capacity(self.select.len());
        for column in &self.select {
            match (column, &environment.item) {
                (Column::All, _) => {
                    for (name, value) in all() {
                        put(&mut row, &name, &[], value);
                    }
                }
                (Column::Item(_), Value::Object(fields)) => {
                    row.extend(fields.iter().map(|(name, value)| (name.as_str().into(), value.clone())));
                }
                (Column::Item(name), item) => row.push((FieldName::clone(name), item.clone())),
                (Column::Value { name, below, column }, _) => {
                    put(&mut row, name, below, column.node.value(environment)?);
                }
            }
        }
        Ok(row)
    }
}

fn parser(tokens: Vec<TokenWithSpan>) -> Parser<'static> {
    Parser::new(&GenericDialect {}).with_recursion_limit(MAX_NESTING).with_tokens_with_locations(tokens)
}

/// The one statement of a text.
fn statement(text: &str, tokens: Vec<TokenWithSpan>) -> Result<Query, StepError> {
    let mut statements = parser(tokens).parse_statements().map_err(|error| syntax(text, &error))?;
    match (statements.pop(), statements.is_empty()) {
        (Some(Statement::Query(query)), true) => Ok(*query),
        _ => Err(StepError::new("it must be one statement: SELECT ... FROM ... [WHERE ...]")),
    }
}

/// The one expression of some tokens.
fn expression(text: &str, tokens: Vec<TokenWithSpan>) -> Result<Expr, StepError> {
    let mut parser = parser(tokens);
    let expr = parser.parse_expr().map_err(|error| syntax(text, &error))?;
    let next = parser.peek_token();
    if next.token == Token::EOF {
        return Ok(expr);
    }
    Err(StepError::new(format!("`{}` is not expected here", next.token)).at(At::of(next.span)))
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
        (Ok(line), Ok(column)) => StepError::new(in_words(said)).at(At::point(line, column)),
        _ => StepError::new(text.clone()),
    }
}

/// The parser names a word between two values by its own types.
fn in_words(said: &str) -> &str {
    if said.starts_with("No infix parser") {
        "there is no such operator: there are + - * / % DIV ||, = <> < <= > >= =~, AND, OR, IN, BETWEEN, LIKE and IS"
    } else {
        said
    }
}

/// The place of the last character.
fn last_place(text: &str) -> At {
    let text = text.trim_end();
    let last = text.rsplit('\n').next().unwrap_or_default();
    At::point(text.matches('\n').count() + 1, last.chars().count().max(1))
}

/// Whether there is anything but SELECT, FROM, WHERE and GROUP BY.
fn has_clauses(select: &Select) -> bool {
    select.distinct.is_some()
        || select.top.is_some()
        || select.into.is_some()
        || select.having.is_some()
        || select.prewhere.is_some()
        || select.qualify.is_some()
        || !select.lateral_views.is_empty()
        || !select.sort_by.is_empty()
}

/// The expressions of GROUP BY; nothing where it asks for more.
fn group_of(select: &Select) -> Option<&[Expr]> {
    match &select.group_by {
        GroupByExpr::Expressions(by, with) if with.is_empty() => Some(by),
        GroupByExpr::Expressions(..) | GroupByExpr::All(_) => None,
    }
}

fn column(item: &SelectItem, scope: Scope<'_>, aliases: &Aliases) -> Result<Column, StepError> {
    match item {
        SelectItem::Wildcard(_) => Ok(Column::All),
        SelectItem::ExprWithAlias { expr, alias } => {
            let column = aliases.add(&alias.value, compile(expr, scope)?);
            let mut names = alias.value.split(WITHIN);
            let name = names.next().unwrap_or_default().into();
            Ok(Column::Value { name, below: names.map(str::to_owned).collect(), column })
        }
        SelectItem::UnnamedExpr(expr) => {
            let (name, below) = path_of(expr);
            // Without AS, a column has no name that other columns can use.
            Ok(Column::Value { name, below, column: aliases.add("", compile(expr, scope)?) })
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
        if let Some((_, here)) = EVENTS.iter().find(|(event, _)| *event == text) {
            let said = format!("FROM {text:?}: the events of clients are messages of {here:?} here");
            return Err(StepError::new(said).at(At::of(name.span())));
        }
        if text.starts_with("$events/") {
            let said =
                format!("FROM {text:?}: there is no such event; events of clients are in \"$SYS/brokers/+/clients/#\"");
            return Err(StepError::new(said).at(At::of(name.span())));
        }
        TopicFilterBuf::new(text.as_str())
            .map_err(|error| StepError::new(format!("FROM {text:?}: {error}")).at(At::of(name.span())))
    };
    let tables = select.from.iter().map(|table| match &table.relation {
        TableFactor::Table { name, .. } if table.joins.is_empty() => filter(name),
        _ => Err(StepError::new("FROM takes topic filters alone, as in FROM 'plant/+/temp', 'plant/+/hum'")),
    });
    tables.collect()
}
