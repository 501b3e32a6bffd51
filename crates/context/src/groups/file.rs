//! Files of groups, in TOML.

use serde::Deserialize;

use super::definition::{Definition, DefinitionError, Group};
use super::geofence::{Circle, GeofenceError, Polygon, Position};
use super::rule::{PositionFields, Rule, Threshold};
use crate::expression::Expression;
use crate::expression_limits::ExpressionError;

/// Why a file of groups was refused.
#[derive(Debug, thiserror::Error)]
pub enum GroupsFileError {
    /// Not TOML, or keys that are not known.
    #[error("the file of groups cannot be read: {0}")]
    Toml(String),
    /// A group without a rule, or with several.
    #[error("group `{0}` needs one of `when`, `circle`, `polygon` and `threshold`")]
    Rule(String),
    /// An expression.
    #[error("group `{group}`: {error}")]
    Expression {
        /// Of this group.
        group: String,
        /// The fault.
        error: ExpressionError,
    },
    /// An area.
    #[error("group `{group}`: {error}")]
    Geofence {
        /// Of this group.
        group: String,
        /// The fault.
        error: GeofenceError,
    },
    /// A threshold.
    #[error(
        "group `{0}`: a threshold has `above` with `until` at most as high, or `below` with `until` at least as high"
    )]
    Threshold(String),
    /// Names or numbers.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    definer: String,
    #[serde(default)]
    position: Option<FieldsTable>,
    #[serde(default, rename = "group")]
    groups: Vec<GroupTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FieldsTable {
    latitude: String,
    longitude: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupTable {
    name: String,
    when: Option<String>,
    circle: Option<CircleTable>,
    polygon: Option<Vec<(f64, f64)>>,
    threshold: Option<ThresholdTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CircleTable {
    latitude: f64,
    longitude: f64,
    radius_m: f64,
    #[serde(default)]
    margin_m: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ThresholdTable {
    field: String,
    above: Option<f64>,
    below: Option<f64>,
    until: Option<f64>,
}

/// Reads the groups of a definer from the text of a file.
///
/// # Errors
/// When it is not TOML, has keys that are not known, or a group is not valid.
pub fn read_groups(text: &str) -> Result<Definition, GroupsFileError> {
    let file: File =
        toml::from_str(text).map_err(|error| GroupsFileError::Toml(error.to_string().trim_end().to_owned()))?;
    let fields = file.position.map_or_else(PositionFields::default, |fields| PositionFields {
        latitude: fields.latitude,
        longitude: fields.longitude,
    });
    let groups = file.groups.into_iter().map(group).collect::<Result<Vec<_>, _>>()?;
    Ok(Definition::new(&file.definer, fields, groups)?)
}

fn group(table: GroupTable) -> Result<Group, GroupsFileError> {
    let name = table.name;
    let rule = match (table.when, table.circle, table.polygon, table.threshold) {
        (Some(text), None, None, None) => Expression::condition(&text)
            .map(Rule::When)
            .map_err(|error| GroupsFileError::Expression { group: name.clone(), error }),
        (None, Some(table), None, None) => circle(&table).map_err(|error| geofence(&name, error)),
        (None, None, Some(corners), None) => polygon(&corners).map_err(|error| geofence(&name, error)),
        (None, None, None, Some(table)) => threshold(table).ok_or_else(|| GroupsFileError::Threshold(name.clone())),
        _ => Err(GroupsFileError::Rule(name.clone())),
    };
    Ok(Group { name, rule: rule? })
}

fn geofence(group: &str, error: GeofenceError) -> GroupsFileError {
    GroupsFileError::Geofence { group: group.to_owned(), error }
}

fn circle(table: &CircleTable) -> Result<Rule, GeofenceError> {
    let centre = Position::new(table.latitude, table.longitude)?;
    Circle::new(centre, table.radius_m, table.margin_m).map(Rule::Circle)
}

fn polygon(corners: &[(f64, f64)]) -> Result<Rule, GeofenceError> {
    let corners = corners.iter().map(|(latitude, longitude)| Position::new(*latitude, *longitude));
    Polygon::new(&corners.collect::<Result<Vec<_>, _>>()?).map(Rule::Polygon)
}

fn threshold(table: ThresholdTable) -> Option<Rule> {
    let (enter, above) = match (table.above, table.below) {
        (Some(bound), None) => (bound, true),
        (None, Some(bound)) => (bound, false),
        _ => return None,
    };
    let leave = table.until.unwrap_or(enter);
    let apart = if above { leave <= enter } else { leave >= enter };
    (apart && !table.field.is_empty()).then_some(Rule::Threshold(Threshold { field: table.field, enter, leave, above }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(rest: &str) -> String {
        read_groups(&format!("definer = \"gd\"\n[[group]]\nname = \"g\"\n{rest}\n")).unwrap_err().to_string()
    }

    #[test]
    fn the_examples_are_read() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/context");
        let mut read = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap().to_string_lossy().starts_with("groups") {
                let text = std::fs::read_to_string(&path).unwrap();
                read_groups(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                read += 1;
            }
        }
        assert!(read >= 2, "{read}");
    }

    #[test]
    fn a_fault_is_reported_with_its_group() {
        assert!(error("").contains("`g` needs one of"));
        assert!(error("when = 'true'\npolygon = []").contains("needs one of"));
        assert!(error("when = 'context.'").contains("group `g`: the expression cannot be read"));
        assert!(error("circle = { latitude = 91, longitude = 0, radius_m = 5 }").contains("latitude"));
        assert!(error("polygon = [[0.0, 0.0], [1.0, 1.0]]").contains("corners"));
        assert!(error("threshold = { field = 'x', above = 1, until = 2 }").contains("`until`"));
        assert!(error("threshold = { field = 'x', above = 1, below = 2 }").contains("`until`"));
        assert!(error("wenn = 'true'").contains("unknown field"));
        assert!(read_groups("definer = 'gd'").is_err());
    }
}
