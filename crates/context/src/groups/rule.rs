//! The rules for membership in a group.

use serde_json::Value;

use super::geofence::{Circle, Polygon, Position};
use crate::expression::{Expression, Variables};

/// Where in a context the position of a node is. Dots lead into objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PositionFields {
    /// The field of the latitude, degrees.
    pub latitude: String,
    /// The field of the longitude, degrees.
    pub longitude: String,
}

impl Default for PositionFields {
    fn default() -> Self {
        Self { latitude: "latitude".to_owned(), longitude: "longitude".to_owned() }
    }
}

/// A number that has to be beyond one bound to become a member, and back at another one to cease to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    /// The field of the number; dots lead into objects.
    pub field: String,
    /// The bound beyond which a node enters, itself excluded.
    pub enter: f64,
    /// The bound at which it leaves, itself included.
    pub leave: f64,
    /// Whether members are above the bounds.
    pub above: bool,
}

impl Threshold {
    fn holds(&self, value: f64, was: bool) -> bool {
        let bound = if was { self.leave } else { self.enter };
        if self.above { value > bound } else { value < bound }
    }
}

/// A rule. A node whose context lacks the rule's fields is not a member.
#[derive(Debug)]
pub enum Rule {
    /// An expression over `context`.
    When(Expression),
    /// Within a circle.
    Circle(Circle),
    /// Within a polygon.
    Polygon(Polygon),
    /// Beyond a threshold.
    Threshold(Threshold),
}

/// A context, looked at once for all rules.
#[derive(Debug)]
pub(super) struct Seen<'a> {
    context: &'a Value,
    position: Option<Position>,
    variables: Option<Variables>,
}

impl<'a> Seen<'a> {
    /// Reads the fields that all rules share. Values for expressions are only made if some rule has one.
    pub(super) fn new(context: &'a Value, fields: &PositionFields, expressions: bool) -> Self {
        let number = |field| number(context, field);
        let position = number(&fields.latitude).zip(number(&fields.longitude));
        let position = position.and_then(|(latitude, longitude)| Position::new(latitude, longitude).ok());
        let variables = expressions.then(|| Variables::of("context", context));
        Self { context, position, variables }
    }
}

impl Rule {
    /// Whether a node with this context is a member; `was` says whether it was before.
    pub(super) fn holds(&self, seen: &Seen<'_>, was: bool) -> bool {
        match self {
            Self::When(expression) => {
                seen.variables.as_ref().is_some_and(|variables| expression.truth(variables).unwrap_or(false))
            }
            Self::Circle(circle) => seen.position.is_some_and(|position| circle.contains(position, was)),
            Self::Polygon(polygon) => seen.position.is_some_and(|position| polygon.contains(position)),
            Self::Threshold(threshold) => {
                number(seen.context, &threshold.field).is_some_and(|value| threshold.holds(value, was))
            }
        }
    }
}

/// The number in a field; dots lead into objects.
fn number(context: &Value, field: &str) -> Option<f64> {
    let mut value = context;
    for name in field.split('.') {
        value = value.get(name)?;
    }
    value.as_f64()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn holds(rule: &Rule, context: &Value, was: bool) -> bool {
        rule.holds(&Seen::new(context, &PositionFields::default(), true), was)
    }

    #[test]
    fn a_threshold_has_hysteresis_both_ways() {
        let threshold =
            |enter, leave, above| Rule::Threshold(Threshold { field: "engine.heat".into(), enter, leave, above });
        let hot = threshold(90.0, 80.0, true);
        let at = |rule: &Rule, heat: f64, was| holds(rule, &json!({ "engine": { "heat": heat } }), was);
        assert!(!at(&hot, 90.0, false) && at(&hot, 90.1, false) && at(&hot, 80.1, true) && !at(&hot, 80.0, true));
        let cold = threshold(5.0, 8.0, false);
        assert!(!at(&cold, 5.0, false) && at(&cold, 4.9, false) && at(&cold, 7.9, true) && !at(&cold, 8.0, true));
        assert!(
            !holds(&hot, &json!({ "engine": { "heat": "hot" } }), true),
            "a value that is not a number makes no member"
        );
    }

    #[test]
    fn a_missing_field_makes_no_member() {
        let when = Rule::When(Expression::condition("context.speed > 5").unwrap());
        assert!(holds(&when, &json!({ "speed": 6 }), false) && !holds(&when, &json!({ "heat": 6 }), true));
        let circle = Rule::Circle(Circle::new(Position::new(0.0, 0.0).unwrap(), 1_000.0, 0.0).unwrap());
        assert!(holds(&circle, &json!({ "latitude": 0.001, "longitude": 0 }), false));
        assert!(!holds(&circle, &json!({ "latitude": 0.001 }), false));
        assert!(!holds(&circle, &json!({ "latitude": 500, "longitude": 0 }), false));
    }
}
