//! Files of groups, in TOML.

use tidegate_document::{FileText, Findings, Keys, Value};

use super::definition::{Definition, DefinitionError, Group};
use super::geofence::{Circle, GeofenceError, Polygon, Position};
use super::rule::{PositionFields, Rule, Threshold};
use crate::expression::Expression;

/// The remedy of a wrong area.
const POSITIONS: &str = "write degrees, latitude first, and a polygon with at least three corners";

/// Why a file of groups was refused.
#[derive(Debug, thiserror::Error)]
pub enum GroupsFileError {
    /// Keys or values are wrong.
    #[error("{0}")]
    Wrong(Findings),
    /// Names or numbers of the groups together.
    #[error("{file}: {error}")]
    Definition {
        /// The file.
        file: String,
        /// The fault.
        error: DefinitionError,
    },
}

/// Reads the groups of a definer.
///
/// # Errors
/// When it is not TOML, has keys that are not known, or a group is not valid.
pub fn read_groups(file: &FileText) -> Result<Definition, GroupsFileError> {
    let read = |keys: &mut Keys<'_>| {
        let definer = keys.need("definer", "\"city\"", Keys::text);
        let fields = keys.table("position", |keys| {
            let latitude = keys.need("latitude", "\"lat\"", Keys::text);
            let longitude = keys.need("longitude", "\"lon\"", Keys::text);
            Some(PositionFields { latitude: latitude?, longitude: longitude? })
        });
        let groups = keys.tables("group", group);
        Some((definer?, fields.unwrap_or_default(), groups))
    };
    let (definer, fields, groups) = file.read(read).map_err(GroupsFileError::Wrong)?;
    Definition::new(&definer, fields, groups)
        .map_err(|error| GroupsFileError::Definition { file: file.name.clone(), error })
}

fn group(keys: &mut Keys<'_>) -> Option<Group> {
    let name = keys.need("name", "\"near\"", Keys::text);
    let rules = [when(keys), circle(keys), polygon(keys), threshold(keys)];
    let written = ["when", "circle", "polygon", "threshold"].into_iter().filter(|key| keys.has(key)).count();
    if written != 1 {
        let name = name.as_deref().unwrap_or_default();
        let fault = format!("group `{name}` needs one of `when`, `circle`, `polygon` and `threshold`");
        keys.note(keys.offset(), fault, "write one of them; several groups may share a definer");
    }
    Some(Group { name: name?, rule: rules.into_iter().flatten().next()? })
}

fn when(keys: &mut Keys<'_>) -> Option<Rule> {
    let text = keys.text("when")?;
    let condition = Expression::condition(&text).map_err(|error| {
        keys.refuse("when", &format!("is wrong: {error}"), "write a condition, such as when = 'context.speed > 20'");
    });
    condition.ok().map(Rule::When)
}

fn circle(keys: &mut Keys<'_>) -> Option<Rule> {
    let any = f64::MIN..=f64::MAX;
    let numbers = keys.table("circle", |keys| {
        let latitude = keys.need("latitude", "41.9", |keys, key| keys.fraction(key, any.clone()));
        let longitude = keys.need("longitude", "12.5", |keys, key| keys.fraction(key, any.clone()));
        let radius_m = keys.need("radius_m", "500", |keys, key| keys.fraction(key, any.clone()));
        let margin_m = keys.fraction("margin_m", any.clone());
        Some((latitude?, longitude?, radius_m?, margin_m.unwrap_or(0.0)))
    });
    let (latitude, longitude, radius_m, margin_m) = numbers?;
    let circle = Position::new(latitude, longitude).and_then(|centre| Circle::new(centre, radius_m, margin_m));
    area(keys, "circle", circle).map(Rule::Circle)
}

fn polygon(keys: &mut Keys<'_>) -> Option<Rule> {
    let corners =
        keys.value("polygon", "a list of corners such as [[41.9, 12.4], [41.9, 12.6], [42.0, 12.5]]", |value| {
            value.as_array()?.iter().map(|corner| corner_of(corner.get_ref())).collect::<Option<Vec<_>>>()
        })?;
    let positions = corners.into_iter().map(|(latitude, longitude)| Position::new(latitude, longitude));
    let polygon = positions.collect::<Result<Vec<_>, _>>().and_then(|corners| Polygon::new(&corners));
    area(keys, "polygon", polygon).map(Rule::Polygon)
}

fn corner_of(value: &Value<'_>) -> Option<(f64, f64)> {
    match value.as_array()?.iter().map(|number| tidegate_document::float(number.get_ref())).collect::<Vec<_>>()[..] {
        [Some(latitude), Some(longitude)] => Some((latitude, longitude)),
        _ => None,
    }
}

/// The area, or a finding about its key.
fn area<T>(keys: &mut Keys<'_>, key: &str, area: Result<T, GeofenceError>) -> Option<T> {
    area.map_err(|error| keys.refuse(key, &format!("is wrong: {error}"), POSITIONS)).ok()
}

fn threshold(keys: &mut Keys<'_>) -> Option<Rule> {
    let any = f64::MIN..=f64::MAX;
    let (field, above, below, until) = keys.table("threshold", |keys| {
        let field = keys.need("field", "\"speed\"", Keys::text);
        let [above, below, until] = ["above", "below", "until"].map(|key| keys.fraction(key, any.clone()));
        Some((field?, above, below, until))
    })?;
    let rule = match (above, below) {
        (Some(bound), None) => Some((bound, true)),
        (None, Some(bound)) => Some((bound, false)),
        _ => None,
    };
    let rule = rule.and_then(|(enter, above)| {
        let leave = until.unwrap_or(enter);
        let is_apart = if above { leave <= enter } else { leave >= enter };
        is_apart.then_some(Rule::Threshold(Threshold { field, enter, leave, above }))
    });
    if rule.is_none() {
        let hint = "write `above` with `until` at most as high, or `below` with `until` at least as high";
        keys.refuse("threshold", "has no such bounds", hint);
    }
    rule
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(rest: &str) -> String {
        let text = format!("definer = \"gd\"\n[[group]]\nname = \"g\"\n{rest}\n");
        read_groups(&FileText::new("g.toml", text)).unwrap_err().to_string()
    }

    #[test]
    fn the_examples_are_read() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/context");
        let mut read = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap().to_string_lossy().starts_with("groups") {
                read_groups(&FileText::load(&path).unwrap())
                    .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                read += 1;
            }
        }
        assert!(read >= 2, "{read}");
    }

    #[test]
    fn a_fault_is_reported_with_its_group() {
        assert!(error("").contains("`g` needs one of"));
        assert!(error("when = 'true'\npolygon = []").contains("needs one of"));
        assert!(error("when = 'context.'").contains("`group.when` is wrong: the expression cannot be read"));
        assert!(error("circle = { latitude = 91, longitude = 0, radius_m = 5 }").contains("latitude"));
        assert!(error("polygon = [[0.0, 0.0], [1.0, 1.0]]").contains("corners"));
        assert!(error("threshold = { field = 'x', above = 1, until = 2 }").contains("`until`"));
        assert!(error("threshold = { field = 'x', above = 1, below = 2 }").contains("`until`"));
        assert!(error("wenn = 'true'").contains("unknown key `group.wenn`\n  --> g.toml:4:1"));
        assert!(read_groups(&FileText::new("g.toml", "definer = 'gd'")).is_err());
    }

    #[test]
    fn a_wrong_group_refuses_the_whole_file() {
        for rest in [
            "when = 1",
            "when = ''",
            "circle = 'x'",
            "circle = { latitude = 1, longitude = 1 }",
            "circle = { latitude = 1, longitude = 1, radius_m = inf }",
            "circle = { latitude = 1, longitude = 1, radius_m = 5, margin_m = nan }",
            "circle = { latitude = 1, longitude = 1, radius_m = 5, margin = 1 }",
            "polygon = [[0, 0], [1, 1], [0]]",
            "polygon = [[0, 0], [1, 1], [0, 1, 2]]",
            "polygon = [[0, 0], [1, 1], 'x']",
            "polygon = { a = 1 }",
            "threshold = { field = '', above = 1 }",
            "threshold = { field = 'x' }",
            "threshold = { field = 'x', above = '1' }",
            "threshold = { field = 'x', above = 1, below = nan }",
            "when = 'true'\nname = 'h'",
            "when = 'true'\n[position]\nlatitude = 'lat'",
            "when = 'true'\n[position]\nlatitude = 'lat'\nlongitude = ''",
        ] {
            let right = "\n[[group]]\nname = 'all'\nwhen = 'true'";
            assert!(!error(&format!("{rest}{right}")).is_empty());
        }
    }
}
