//! Evaluation of expressions of SQL. A missing value is null. A computation with null gives null, and a condition that
//! is null does not hold.

use std::cmp::Ordering;
use std::rc::Rc;
use std::sync::Arc;

use serde_json::Value;
use tidegate_client::TopicFilterBuf;

use super::environment::{Environment, WindowView};
use super::error::ComputeError;
use super::functions::Function;
use super::regular::Regular;
use super::tables::Table;
use super::values::{element, elements, kind, number_of, order, real, text_of, whole};
use crate::format::Wanted;

/// An operator between two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    Plus,
    Minus,
    Multiply,
    Divide,
    DivideWhole,
    Modulo,
    Concat,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    And,
    Or,
}

/// A step into a value.
#[derive(Debug)]
pub(crate) enum Step {
    /// A field of an object.
    Field(String),
    /// An element of an array, counted from 1, or from the end below 0.
    Index(Node),
    /// The elements from one number to another one.
    Range(Node, Node),
}

/// A part of an expression.
#[derive(Debug)]
pub(crate) enum Node {
    Literal(Value),
    /// Of the message, but for its payload.
    Field(&'static str),
    Payload,
    /// The present element of a FOREACH.
    Item,
    /// A column of the SELECT, by its name.
    Alias(Arc<Alias>),
    Array(Vec<Node>),
    /// Whether a topic matches a filter.
    Matches(Box<Node>, TopicFilterBuf),
    /// The result of an aggregate, by its number.
    Aggregated(usize),
    /// The begin of the window, Unix milliseconds.
    WindowStart,
    /// The end of the window, Unix milliseconds.
    WindowEnd,
    Path(Box<Node>, Vec<Step>),
    Not(Box<Node>),
    Minus(Box<Node>),
    Binary(Binary, Box<Node>, Box<Node>),
    IsNull(Box<Node>),
    Is(bool, Box<Node>),
    In(Box<Node>, Vec<Node>),
    Between(Box<Node>, Box<Node>, Box<Node>),
    /// The last says whether case does not matter.
    Like(Box<Node>, Box<Node>, bool),
    Case {
        operand: Option<Box<Node>>,
        cases: Vec<(Node, Node)>,
        otherwise: Option<Box<Node>>,
    },
    Call(Function, Vec<Node>),
    Regex(Box<Regular>, Box<Node>),
    Lookup(Box<Lookup>),
}

/// A row of a table, or one of its fields.
#[derive(Debug)]
pub(crate) struct Lookup {
    pub(super) table: Arc<Table>,
    pub(super) key: Node,
    pub(super) field: Option<Node>,
}

impl Lookup {
    fn value(&self, environment: &Environment<'_>) -> Result<Value, ComputeError> {
        let field = self.field.as_ref().map(|field| field.value(environment)).transpose()?;
        let field = field.as_ref().map(text_of);
        self.table.find(&self.key.value(environment)?, field.as_deref(), environment.now)
    }
}

/// A column with a name.
#[derive(Debug)]
pub(crate) struct Alias {
    /// Its place among the columns with names.
    pub(super) number: usize,
    /// How deep its expression is, with the columns that it names.
    pub(super) depth: usize,
    /// Whether it is of a window and not of one message.
    pub(super) is_of_window: bool,
    /// Its expression.
    pub(super) node: Node,
}

impl Alias {
    /// Its value, computed once for a record.
    ///
    /// # Errors
    /// When the message cannot be computed with.
    pub(super) fn value(&self, environment: &Environment<'_>) -> Result<Rc<Value>, ComputeError> {
        let known = environment.columns.borrow().get(self.number).cloned().flatten();
        if let Some(known) = known {
            return Ok(known);
        }
        let value = Rc::new(self.node.value(environment)?);
        let mut columns = environment.columns.borrow_mut();
        if columns.len() <= self.number {
            columns.resize(self.number + 1, None);
        }
        columns[self.number] = Some(Rc::clone(&value));
        Ok(value)
    }
}

impl Node {
    /// Notes the parts of the payload that it looks at.
    pub(super) fn look(&self, wanted: &mut Wanted) {
        let mut all = |nodes: &mut dyn Iterator<Item = &Self>| nodes.for_each(|node| node.look(wanted));
        match self {
            // The list of a FOREACH is wanted as a whole, and a column for itself.
            // The operands of aggregates are wanted for each message.
            Self::Literal(_)
            | Self::Field(_)
            | Self::Item
            | Self::Alias(_)
            | Self::Aggregated(_)
            | Self::WindowStart
            | Self::WindowEnd => {}
            Self::Payload => wanted.add(std::iter::empty()),
            Self::Path(root, steps) => {
                all(&mut steps.iter().flat_map(|step| match step {
                    Step::Index(index) => vec![index],
                    Step::Range(from, to) => vec![from, to],
                    Step::Field(_) => Vec::new(),
                }));
                if !matches!(**root, Self::Payload) {
                    return root.look(wanted);
                }
                wanted.add(steps.iter().map_while(|step| match step {
                    Step::Field(name) => Some(name.as_str()),
                    Step::Index(_) | Step::Range(..) => None,
                }));
            }
            Self::Not(operand)
            | Self::Minus(operand)
            | Self::IsNull(operand)
            | Self::Is(_, operand)
            | Self::Matches(operand, _)
            | Self::Regex(_, operand) => operand.look(wanted),
            Self::Binary(_, left, right) | Self::Like(left, right, _) => {
                all(&mut [left, right].into_iter().map(|side| &**side));
            }
            Self::In(operand, list) => all(&mut std::iter::once(&**operand).chain(list)),
            Self::Between(operand, low, high) => all(&mut [operand, low, high].into_iter().map(|side| &**side)),
            Self::Case { operand, cases, otherwise } => {
                all(&mut operand.iter().chain(otherwise).map(|side| &**side));
                all(&mut cases.iter().flat_map(|(when, then)| [when, then]));
            }
            Self::Call(_, nodes) | Self::Array(nodes) => all(&mut nodes.iter()),
            Self::Lookup(lookup) => all(&mut std::iter::once(&lookup.key).chain(&lookup.field)),
        }
    }

    /// Its result.
    ///
    /// # Errors
    /// When types do not fit, a number is divided by 0, or the payload is not of its format.
    pub(crate) fn value(&self, environment: &Environment<'_>) -> Result<Value, ComputeError> {
        Ok(match self {
            Self::Literal(value) => value.clone(),
            Self::Field(name) => environment.message.field(name).unwrap_or_default(),
            Self::Payload => environment.payload()?.clone(),
            Self::Item => environment.item.clone(),
            Self::Alias(alias) => Value::clone(&*alias.value(environment)?),
            Self::Array(nodes) => {
                let values: Result<Vec<_>, _> = nodes.iter().map(|node| node.value(environment)).collect();
                Value::Array(values?)
            }
            Self::Matches(topic, filter) => match topic.value(environment)? {
                Value::Null => Value::Null,
                topic => topic.as_str().is_some_and(|topic| filter.matches_text(topic)).into(),
            },
            Self::Aggregated(number) => of_window(environment, |window| window.values.get(*number).cloned()),
            Self::WindowStart => of_window(environment, |window| Some(window.start.into())),
            Self::WindowEnd => of_window(environment, |window| Some(window.end.into())),
            Self::Path(root, steps) => return path(root, steps, environment),
            Self::Lookup(lookup) => return lookup.value(environment),
            Self::Not(operand) => match operand.value(environment)? {
                Value::Bool(truth) => Value::Bool(!truth),
                Value::Null => Value::Null,
                other => return Err(ComputeError::Kind { needed: "NOT needs true or false", found: kind(&other) }),
            },
            Self::Minus(operand) => arithmetic(Binary::Minus, &Value::from(0), &operand.value(environment)?)?,
            Self::Binary(op @ (Binary::And | Binary::Or), left, right) => return logic(*op, left, right, environment),
            Self::Binary(op, left, right) => binary(*op, &left.value(environment)?, &right.value(environment)?)?,
            Self::IsNull(operand) => Value::Bool(operand.value(environment)?.is_null()),
            Self::Is(truth, operand) => Value::Bool(operand.value(environment)? == Value::Bool(*truth)),
            Self::In(operand, list) => return is_in(operand, list, environment),
            Self::Between(operand, low, high) => {
                let value = operand.value(environment)?;
                let low = binary(Binary::GreaterOrEqual, &value, &low.value(environment)?)?;
                let high = binary(Binary::LessOrEqual, &value, &high.value(environment)?)?;
                match (low, high) {
                    (Value::Bool(low), Value::Bool(high)) => Value::Bool(low && high),
                    _ => Value::Null,
                }
            }
            Self::Like(operand, pattern, ignores_case) => {
                match (operand.value(environment)?, pattern.value(environment)?) {
                    (Value::String(text), Value::String(pattern)) => {
                        Value::Bool(is_like(&text, &pattern, *ignores_case))
                    }
                    _ => Value::Null,
                }
            }
            Self::Case { operand, cases, otherwise } => {
                return case((operand.as_deref(), cases, otherwise.as_deref()), environment);
            }
            Self::Call(function, arguments) => {
                let values: Result<Vec<_>, _> = arguments.iter().map(|argument| argument.value(environment)).collect();
                return function.call(values?, environment);
            }
            Self::Regex(regular, operand) => match operand.value(environment)? {
                Value::Null => Value::Null,
                value => return regular.apply(&text_of(&value)),
            },
        })
    }
}

fn of_window(environment: &Environment<'_>, read: impl Fn(&WindowView) -> Option<Value>) -> Value {
    environment.window.as_ref().and_then(read).unwrap_or_default()
}

fn path(root: &Node, steps: &[Step], environment: &Environment<'_>) -> Result<Value, ComputeError> {
    match root {
        Node::Payload => walk(environment.payload()?, steps, environment),
        Node::Item => walk(&environment.item, steps, environment),
        Node::Alias(alias) => walk(&*alias.value(environment)?, steps, environment),
        _ => walk(&root.value(environment)?, steps, environment),
    }
}

/// Goes steps into a value; null where there is no such part.
fn walk(mut value: &Value, steps: &[Step], environment: &Environment<'_>) -> Result<Value, ComputeError> {
    let mut steps = steps.iter();
    while let Some(step) = steps.next() {
        let next = match step {
            Step::Field(name) => value.get(name),
            Step::Index(index) => match (value, index.value(environment)?) {
                (Value::Array(items), Value::Number(number)) => number.as_i64().and_then(|at| element(items, at)),
                (Value::Object(fields), Value::String(name)) => fields.get(&name),
                _ => None,
            },
            Step::Range(from, to) => {
                let bounds = (from.value(environment)?.as_i64(), to.value(environment)?.as_i64());
                let (Value::Array(items), (Some(from), Some(to))) = (value, bounds) else { return Ok(Value::Null) };
                return walk(&elements(items, from, to), steps.as_slice(), environment);
            }
        };
        let Some(next) = next else { return Ok(Value::Null) };
        value = next;
    }
    Ok(value.clone())
}

/// The value of the first case that holds.
fn case(
    (operand, cases, otherwise): (Option<&Node>, &[(Node, Node)], Option<&Node>),
    environment: &Environment<'_>,
) -> Result<Value, ComputeError> {
    let operand = operand.map(|operand| operand.value(environment)).transpose()?;
    for (when, then) in cases {
        let when = when.value(environment)?;
        let holds = match &operand {
            Some(operand) => !operand.is_null() && order(operand, &when) == Some(Ordering::Equal),
            None => when == Value::Bool(true),
        };
        if holds {
            return then.value(environment);
        }
    }
    otherwise.map_or(Ok(Value::Null), |otherwise| otherwise.value(environment))
}

fn logic(op: Binary, left: &Node, right: &Node, environment: &Environment<'_>) -> Result<Value, ComputeError> {
    let decides = op == Binary::Or;
    let mut unknown = false;
    for side in [left, right] {
        match side.value(environment)? {
            Value::Bool(truth) if truth == decides => return Ok(Value::Bool(decides)),
            Value::Bool(_) => {}
            Value::Null => unknown = true,
            other => return Err(ComputeError::Kind { needed: "AND and OR need true or false", found: kind(&other) }),
        }
    }
    Ok(if unknown { Value::Null } else { Value::Bool(!decides) })
}

fn is_in(operand: &Node, list: &[Node], environment: &Environment<'_>) -> Result<Value, ComputeError> {
    let value = operand.value(environment)?;
    let mut unknown = value.is_null();
    for item in list {
        match binary(Binary::Equal, &value, &item.value(environment)?)? {
            Value::Bool(true) => return Ok(Value::Bool(true)),
            Value::Null => unknown = true,
            _ => {}
        }
    }
    Ok(if unknown { Value::Null } else { Value::Bool(false) })
}

fn binary(op: Binary, left: &Value, right: &Value) -> Result<Value, ComputeError> {
    if left.is_null() || right.is_null() {
        return Ok(Value::Null);
    }
    let order = || order(left, right);
    Ok(match op {
        Binary::Plus if left.is_string() && right.is_string() => concat(left, right),
        Binary::Plus | Binary::Minus | Binary::Multiply | Binary::Divide | Binary::DivideWhole | Binary::Modulo => {
            return arithmetic(op, left, right);
        }
        Binary::Concat => concat(left, right),
        // Values that cannot be compared are not equal; which is less is not known.
        Binary::Equal => Value::Bool(order() == Some(Ordering::Equal)),
        Binary::NotEqual => Value::Bool(order() != Some(Ordering::Equal)),
        Binary::Less => order().map_or(Value::Null, |order| Value::Bool(order.is_lt())),
        Binary::LessOrEqual => order().map_or(Value::Null, |order| Value::Bool(order.is_le())),
        Binary::Greater => order().map_or(Value::Null, |order| Value::Bool(order.is_gt())),
        Binary::GreaterOrEqual => order().map_or(Value::Null, |order| Value::Bool(order.is_ge())),
        Binary::And | Binary::Or => Value::Null,
    })
}

fn concat(left: &Value, right: &Value) -> Value {
    Value::String(text_of(left) + &text_of(right))
}

fn arithmetic(op: Binary, left: &Value, right: &Value) -> Result<Value, ComputeError> {
    if left.is_null() || right.is_null() {
        return Ok(Value::Null);
    }
    if let (Some(one), Some(other)) = (left.as_i64(), right.as_i64()) {
        let whole = match op {
            Binary::Plus => one.checked_add(other),
            Binary::Minus => one.checked_sub(other),
            Binary::Multiply => one.checked_mul(other),
            Binary::Modulo | Binary::DivideWhole if other == 0 => return Err(ComputeError::DividedByZero),
            Binary::Modulo => one.checked_rem(other),
            Binary::DivideWhole => one.checked_div(other),
            _ => None,
        };
        if let Some(whole) = whole {
            return Ok(Value::from(whole));
        }
    }
    let (one, other) = (number_of(left)?, number_of(right)?);
    match op {
        Binary::Plus => real(one + other),
        Binary::Minus => real(one - other),
        Binary::Multiply => real(one * other),
        Binary::Divide | Binary::DivideWhole | Binary::Modulo if other == 0.0 => Err(ComputeError::DividedByZero),
        Binary::Divide => real(one / other),
        Binary::DivideWhole => whole((one / other).trunc()),
        Binary::Modulo => real(one % other),
        _ => Ok(Value::Null),
    }
}

/// `%` matches any text, `_` any one character. Steps are at most the product of both lengths.
fn is_like(text: &str, pattern: &str, ignores_case: bool) -> bool {
    let characters = |text: &str| -> Vec<char> {
        if ignores_case { text.to_lowercase().chars().collect() } else { text.chars().collect() }
    };
    let (text, pattern) = (characters(text), characters(pattern));
    let (mut at, mut place) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while at < text.len() {
        match pattern.get(place) {
            Some('%') => {
                back = Some((place, at));
                place += 1;
            }
            Some(wanted) if *wanted == '_' || *wanted == text[at] => {
                at += 1;
                place += 1;
            }
            _ => match back {
                Some((star, from)) => {
                    back = Some((star, from + 1));
                    place = star + 1;
                    at = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[place..].iter().all(|rest| *rest == '%')
}
