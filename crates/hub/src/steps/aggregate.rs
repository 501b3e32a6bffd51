//! Aggregates of a window: `count`, `sum`, `min`, `max`, `avg`, `first_value` and `last_value`. Null does not count.

use std::cell::RefCell;
use std::cmp::Ordering;

use serde_json::Value;

use super::environment::Environment;
use super::error::ComputeError;
use super::node::Node;
use super::values::{kind, number_of, order, real};
use crate::format::Wanted;
use crate::record::memory_of_value;

/// A function over the messages of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aggregate {
    Count,
    Sum,
    Min,
    Max,
    Avg,
    First,
    Last,
}

impl Aggregate {
    /// The aggregate of a name.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        Some(match name {
            "count" => Self::Count,
            "sum" => Self::Sum,
            "min" => Self::Min,
            "max" => Self::Max,
            "avg" => Self::Avg,
            "first_value" => Self::First,
            "last_value" => Self::Last,
            _ => return None,
        })
    }
}

/// An aggregate and the expression that it takes of each message.
#[derive(Debug)]
struct Call {
    aggregate: Aggregate,
    operand: Node,
}

/// The aggregates of a SELECT, in the order in which they were read.
#[derive(Debug, Default)]
pub(super) struct Aggregates(RefCell<Vec<Call>>);

impl Aggregates {
    /// Adds one, and returns its number.
    pub(super) fn add(&self, aggregate: Aggregate, operand: Node) -> usize {
        let mut calls = self.0.borrow_mut();
        calls.push(Call { aggregate, operand });
        calls.len() - 1
    }

    /// Notes the parts of the payload that they look at.
    pub(super) fn look(&self, wanted: &mut Wanted) {
        self.0.borrow().iter().for_each(|call| call.operand.look(wanted));
    }

    /// The values of a message for each of them.
    ///
    /// # Errors
    /// When the message cannot be computed with, or a value is no number where one is needed.
    pub(super) fn values(&self, environment: &Environment<'_>) -> Result<Vec<Value>, ComputeError> {
        let value = |call: &Call| {
            let value = call.operand.value(environment)?;
            match call.aggregate {
                Aggregate::Sum | Aggregate::Avg if !value.is_null() && !value.is_number() => real(number_of(&value)?),
                Aggregate::Min | Aggregate::Max if !value.is_null() && rank(&value).is_none() => {
                    let needed = "min and max need a number, a text or a truth value";
                    Err(ComputeError::Kind { needed, found: kind(&value) })
                }
                _ => Ok(value),
            }
        };
        self.0.borrow().iter().map(value).collect()
    }

    /// The totals of a window without messages.
    pub(super) fn totals(&self) -> Totals {
        Totals { totals: self.0.borrow().iter().map(|call| Total::new(call.aggregate)).collect() }
    }
}

/// The share of a message in its window.
#[derive(Debug)]
pub(crate) struct WindowShare {
    /// The values of GROUP BY, as text.
    pub(crate) group: String,
    /// A value for each aggregate.
    pub(crate) values: Vec<Value>,
}

impl WindowShare {
    /// Memory that it takes, bytes.
    pub(crate) fn memory(&self) -> usize {
        self.group.len() + self.values.iter().map(memory_of_value).sum::<usize>()
    }
}

/// The aggregates of the messages of a window so far.
#[derive(Clone, Debug)]
pub(crate) struct Totals {
    totals: Vec<Total>,
}

#[derive(Clone, Debug)]
struct Total {
    aggregate: Aggregate,
    count: u64,
    /// The sum; whole as long as all numbers are whole and it has 64 bits.
    sum: Sum,
    /// The least, the greatest, the first or the last value.
    chosen: Value,
}

/// Values of different kinds are in this order: numbers, texts, truth values.
fn rank(value: &Value) -> Option<u8> {
    match value {
        Value::Number(_) => Some(0),
        Value::String(_) => Some(1),
        Value::Bool(_) => Some(2),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn compare(one: &Value, other: &Value) -> Ordering {
    rank(one).cmp(&rank(other)).then_with(|| order(one, other).unwrap_or(Ordering::Equal))
}

#[derive(Clone, Copy, Debug)]
enum Sum {
    Whole(i64),
    Real(f64),
}

impl Sum {
    fn value(self) -> Result<Value, ComputeError> {
        match self {
            Self::Whole(whole) => Ok(whole.into()),
            Self::Real(sum) => real(sum),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "an average is not exact")]
    fn real(self) -> f64 {
        match self {
            Self::Whole(whole) => whole as f64,
            Self::Real(sum) => sum,
        }
    }

    fn plus(self, value: &Value) -> Self {
        let whole = match self {
            Self::Whole(sum) => value.as_i64().and_then(|value| sum.checked_add(value)),
            Self::Real(_) => None,
        };
        whole.map_or_else(|| Self::Real(self.real() + value.as_f64().unwrap_or_default()), Self::Whole)
    }
}

impl Total {
    fn new(aggregate: Aggregate) -> Self {
        Self { aggregate, count: 0, sum: Sum::Whole(0), chosen: Value::Null }
    }

    fn add(&mut self, value: &Value) {
        if value.is_null() {
            return;
        }
        self.count += 1;
        match self.aggregate {
            Aggregate::Count => {}
            Aggregate::Sum | Aggregate::Avg => self.sum = self.sum.plus(value),
            Aggregate::Min => self.choose(value, Ordering::Less),
            Aggregate::Max => self.choose(value, Ordering::Greater),
            Aggregate::First if self.count > 1 => {}
            Aggregate::First | Aggregate::Last => self.chosen = value.clone(),
        }
    }

    fn choose(&mut self, value: &Value, wanted: Ordering) {
        if self.chosen.is_null() || compare(value, &self.chosen) == wanted {
            self.chosen = value.clone();
        }
    }

    fn value(&self) -> Result<Value, ComputeError> {
        match self.aggregate {
            Aggregate::Count => Ok(self.count.into()),
            Aggregate::Sum | Aggregate::Avg if self.count == 0 => Ok(Value::Null),
            Aggregate::Sum => self.sum.value(),
            #[expect(clippy::cast_precision_loss, reason = "an average is not exact")]
            Aggregate::Avg => real(self.sum.real() / self.count as f64),
            Aggregate::Min | Aggregate::Max | Aggregate::First | Aggregate::Last => Ok(self.chosen.clone()),
        }
    }
}

impl Totals {
    /// Adds the values of a message.
    pub(crate) fn add(&mut self, values: &[Value]) {
        self.totals.iter_mut().zip(values).for_each(|(total, value)| total.add(value));
    }

    /// The results.
    ///
    /// # Errors
    /// When a sum is no finite number.
    pub(super) fn values(&self) -> Result<Vec<Value>, ComputeError> {
        self.totals.iter().map(Total::value).collect()
    }

    /// Memory that they take, bytes.
    pub(crate) fn memory(&self) -> usize {
        self.totals.iter().map(|total| size_of::<Total>() + memory_of_value(&total.chosen)).sum()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn total(aggregate: Aggregate, values: &[Value]) -> Value {
        let mut totals = Totals { totals: vec![Total::new(aggregate)] };
        for value in values {
            totals.add(std::slice::from_ref(value));
        }
        totals.values().unwrap().remove(0)
    }

    #[test]
    fn aggregates_leave_null_out() {
        let values = [json!(null), json!(3), json!(1), json!(null), json!(2)];
        for (aggregate, expected) in [
            (Aggregate::Count, json!(3)),
            (Aggregate::Sum, json!(6)),
            (Aggregate::Min, json!(1)),
            (Aggregate::Max, json!(3)),
            (Aggregate::Avg, json!(2.0)),
            (Aggregate::First, json!(3)),
            (Aggregate::Last, json!(2)),
        ] {
            assert_eq!(total(aggregate, &values), expected, "{aggregate:?}");
            let empty = if aggregate == Aggregate::Count { json!(0) } else { json!(null) };
            assert_eq!(total(aggregate, &[json!(null)]), empty, "{aggregate:?} of nothing");
        }
    }

    #[test]
    fn a_sum_stays_whole_while_it_can() {
        assert_eq!(total(Aggregate::Sum, &[json!(i64::MAX - 1), json!(1)]), json!(i64::MAX));
        assert_eq!(total(Aggregate::Sum, &[json!(i64::MAX), json!(1)]), json!(9_223_372_036_854_775_808.0_f64));
        assert_eq!(total(Aggregate::Sum, &[json!(1), json!(0.5), json!(2)]), json!(3.5));
        let mut endless = Totals { totals: vec![Total::new(Aggregate::Sum)] };
        endless.add(&[json!(f64::MAX)]);
        endless.add(&[json!(f64::MAX)]);
        assert_eq!(endless.values(), Err(ComputeError::NotFinite));
    }

    #[test]
    fn values_of_different_kinds_have_an_order() {
        let values = [json!("warm"), json!(5), json!(true), json!("cold"), json!(7)];
        assert_eq!((total(Aggregate::Min, &values), total(Aggregate::Max, &values)), (json!(5), json!(true)));
        assert_eq!(total(Aggregate::Max, &values[..2]), json!("warm"));
    }
}
