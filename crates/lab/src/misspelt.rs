//! Errors in a file of TOML, with their line and the nearest known word.

use tidegate_document::with_suggestion;
use tidegate_units::suggestion::nearest;
use toml::de::{DeTable, DeValue};

/// Formats an error of a table within a file: the line, the path, and the likely right word. `root` is the path of the
/// table in the file.
pub(crate) fn of_table(file: &str, root: &str, error: &toml::de::Error) -> String {
    let said = error.to_string();
    let (problem, path) = match said.trim_end().rsplit_once("\nin `") {
        Some((problem, path)) => (problem, path.trim_end_matches('`')),
        None => (said.trim_end(), ""),
    };
    let unknown = quoted(problem).filter(|_| problem.starts_with("unknown field"));
    let keys: Vec<&str> =
        std::iter::once(root).chain(path.split('.')).chain(unknown).filter(|key| !key.is_empty()).collect();
    let at = line_of(file, &keys).map(|line| format!("line {line}, ")).unwrap_or_default();
    let inside = if path.is_empty() { root.to_owned() } else { format!("{root}.{path}") };
    format!("{at}in `{inside}`: {}", with_suggestion(problem))
}

/// The line, from 1, of the first key whose path ends with the last of `keys` and has the others before it, in their
/// order.
fn line_of(file: &str, keys: &[&str]) -> Option<usize> {
    let document = DeTable::parse(file).ok()?;
    let mut found: Vec<usize> = Vec::new();
    visit_table(document.get_ref(), keys, &mut found);
    let first = found.into_iter().min()?;
    Some(file.get(..first)?.matches('\n').count() + 1)
}

/// Notes where `keys` end below a table; keys that are not found on the path are searched at any depth, since names of
/// variants are not in a path.
fn visit_table(table: &DeTable<'_>, keys: &[&str], found: &mut Vec<usize>) {
    for (key, value) in table {
        let left = match keys {
            [wanted] if key.get_ref() == wanted => {
                found.push(key.span().start);
                continue;
            }
            [wanted, rest @ ..] if key.get_ref() == wanted => rest,
            _ => keys,
        };
        visit_value(value.get_ref(), left, found);
    }
}

fn visit_value(value: &DeValue<'_>, keys: &[&str], found: &mut Vec<usize>) {
    match value {
        DeValue::Table(table) => visit_table(table, keys, found),
        DeValue::Array(values) => values.iter().for_each(|value| visit_value(value.get_ref(), keys, found)),
        _ => {}
    }
}

/// ` (did you mean ...?)` where one of the words differs in little, or nothing.
pub(crate) fn meant(wrong: &str, words: &[String]) -> String {
    let near = nearest(wrong, words.iter().map(String::as_str));
    near.map_or_else(String::new, |word| format!(" (did you mean `{word}`?)"))
}

fn quoted(text: &str) -> Option<&str> {
    text.split('`').nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_below_names_that_a_path_leaves_out() {
        let file =
            "title = 'x'\n[load]\nduration_ms = 1\n[[load.groups]]\nname = 'a'\nrole = { relay = {\n work_us = 2 } }\n";
        assert_eq!(line_of(file, &["load", "groups", "role", "work_us"]), Some(7));
        assert_eq!(line_of(file, &["load", "duration_ms"]), Some(3));
        assert_eq!(line_of(file, &["load", "nothing"]), None);
    }
}
