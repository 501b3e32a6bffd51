//! CEL as a step: `payload.temp > 30 && clientid.startsWith('pump-')`.

use std::sync::Arc;

use serde_json::Value;
use tidegate_context::{Expression, ExpressionError, HostError, HostFunction, Variables};

use super::environment::Environment;
use super::error::ComputeError;
use super::tables::{Table, Tables};
use super::{At, StepError};
use crate::format::Wanted;
use crate::message::FIELDS;

/// An expression over a message, and the row that earlier steps have made of it.
#[derive(Debug)]
pub(super) struct Cel {
    expression: Expression,
    /// The fields of the message that it looks at.
    fields: Vec<&'static str>,
    /// The parts of the payload that it looks at.
    payload: Vec<Vec<String>>,
    needs_row: bool,
    /// The tables that it looks into.
    tables: Tables,
}

/// The function that finds a row of a table, in SQL, too.
pub(super) const LOOKUP: &str = "lookup";

/// The value of `row` for a step before the first row.
static NO_ROW: Value = Value::Null;

impl Cel {
    /// Reads an expression, which may look into `tables`.
    pub(super) fn new(text: &str, tables: &Tables) -> Result<Self, StepError> {
        let names: Vec<&'static str> =
            FIELDS.iter().copied().filter(|name| *name != "payload").chain(["row", "payload"]).collect();
        let expression = Expression::calling(text, &names, Some(LOOKUP)).map_err(|error| error_of(text, &error))?;
        let wanted = expression.subjects().iter().map(String::as_str);
        let tables = tables.only(wanted).map_err(|error| StepError::new(error.to_string()))?;
        let parts = |name: &str| expression.parts_of(name);
        let fields = FIELDS.iter().copied().filter(|name| *name != "payload" && !parts(name).is_empty()).collect();
        let (payload, needs_row) = (parts("payload"), !parts("row").is_empty());
        Ok(Self { expression, fields, payload, needs_row, tables })
    }

    /// Refuses a result that is of the wrong kind for each message, as that of `5` or `1 + 1`. The kind of all other results
    /// is known with a message.
    pub(super) fn giving(self, is_right: fn(&Value) -> bool, kind: &str) -> Result<Self, StepError> {
        let is_constant =
            self.fields.is_empty() && self.payload.is_empty() && !self.needs_row && self.tables.is_empty();
        match is_constant.then(|| self.expression.json(&Variables::of_all([]))) {
            Some(Ok(Value::String(text))) if text.contains("${") => Err(StepError::new(format!(
                "its result is always {text:?}: names in ${{}} are not filled in; write `'out/' + clientid`"
            ))),
            Some(Ok(value)) if !is_right(&value) => {
                Err(StepError::new(format!("its result is always {value}, and has to be {kind}")))
            }
            Some(Err(error)) => Err(StepError::new(format!("it fails for each message: {error}"))),
            _ => Ok(self),
        }
    }

    /// Notes the parts of the payload that it looks at.
    pub(super) fn look(&self, wanted: &mut Wanted) {
        self.payload.iter().for_each(|path| wanted.add(path.iter().map(String::as_str)));
    }

    /// Whether it looks at the row that earlier steps have made.
    pub(super) fn needs_row(&self) -> bool {
        self.needs_row
    }

    fn with<T>(
        &self,
        environment: &Environment<'_>,
        row: Option<&Value>,
        ask: impl FnOnce(&Expression, &Variables) -> Result<T, ExpressionError>,
    ) -> Result<T, ComputeError> {
        let payload = if self.payload.is_empty() { &NO_ROW } else { environment.payload()? };
        let fields: Vec<(&str, Value)> =
            self.fields.iter().filter_map(|name| Some((*name, environment.message.field(name)?))).collect();
        let rest = [("payload", payload), ("row", row.unwrap_or(&NO_ROW))];
        let all = fields.iter().map(|(name, value)| (*name, value)).chain(rest);
        let variables = Variables::of_all(all);
        if self.tables.is_empty() {
            return Ok(ask(&self.expression, &variables)?);
        }
        let (tables, now) = (self.tables.clone(), environment.now);
        let lookup: Arc<HostFunction> = Arc::new(move |arguments| look_up(&tables, arguments, now));
        let variables = variables.with_function(LOOKUP, lookup);
        let variables = variables.map_err(|error| ExpressionError::Failed(error.to_string()))?;
        Ok(ask(&self.expression, &variables)?)
    }

    /// Whether it holds.
    pub(super) fn truth(&self, environment: &Environment<'_>, row: Option<&Value>) -> Result<bool, ComputeError> {
        self.with(environment, row, Expression::truth)
    }

    /// Its result.
    pub(super) fn json(&self, environment: &Environment<'_>, row: Option<&Value>) -> Result<Value, ComputeError> {
        self.with(environment, row, Expression::json)
    }

    /// Its result, as text.
    pub(super) fn text(&self, environment: &Environment<'_>, row: Option<&Value>) -> Result<String, ComputeError> {
        Ok(match self.json(environment, row)? {
            Value::String(text) => text,
            other => other.to_string(),
        })
    }
}

/// `lookup(TABLE, KEY)` gives a row, and `lookup(TABLE, KEY, FIELD)` one of its fields.
fn look_up(tables: &Tables, arguments: &[Value], now: u64) -> Result<Value, HostError> {
    let failed = |error: &dyn std::fmt::Display| HostError(error.to_string());
    let (table, key, field) = match arguments {
        [Value::String(table), key] => (table, key, None),
        [Value::String(table), key, Value::String(field)] => (table, key, Some(field.as_str())),
        _ => return Err(HostError("`lookup` takes a table, a key and the name of a field".to_owned())),
    };
    let table: &Table = tables.get(table).map_err(|error| failed(&error))?;
    table.find(key, field, now).map_err(|error| failed(&error))
}

/// The library writes places as `ERROR: <input>:LINE:COLUMN: text`; names have none, and are looked for.
fn error_of(text: &str, error: &ExpressionError) -> StepError {
    let name = match error {
        ExpressionError::Name { name, .. } | ExpressionError::Function(name) => Some(name),
        _ => None,
    };
    if let Some(name) = name {
        let column = text.find(name.as_str()).map(|at| text[..at].chars().count() + 1);
        return StepError::new(error.to_string()).at(column.map(|column| At {
            line: 1,
            column,
            len: name.chars().count(),
        }));
    }
    let said = error.to_string();
    let place = said.find("<input>:").and_then(|at| {
        let mut parts = said[at + "<input>:".len()..].splitn(3, ':');
        let (line, column, rest) = (parts.next()?, parts.next()?, parts.next()?);
        let brief = rest.lines().next().unwrap_or_default().trim().to_owned();
        Some((At::point(line.parse().ok()?, column.trim().parse().ok()?), brief))
    });
    match place {
        Some((at, brief)) => StepError::new(format!("the expression cannot be read: {brief}")).at(at),
        None => StepError::new(said.lines().next().unwrap_or_default()),
    }
}
