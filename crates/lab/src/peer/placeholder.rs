//! `{name}` in the texts of a template.

use std::collections::BTreeMap;

/// Replaces each `{name}` that has a value. Braces around anything else stay, since configurations are full of them.
pub(super) fn fill(text: &str, values: &BTreeMap<String, String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        let (before, from) = rest.split_at(start);
        out.push_str(before);
        let named = from.find('}').and_then(|end| Some((values.get(&from[1..end])?, end)));
        if let Some((value, end)) = named {
            out.push_str(value);
            rest = &from[end + 1..];
        } else {
            out.push('{');
            rest = &from[1..];
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced_and_other_braces_stay() {
        let values = BTreeMap::from([("port".to_owned(), "1883".to_owned())]);
        assert_eq!(fill("mqtt { listen: {port}, {other} } {", &values), "mqtt { listen: 1883, {other} } {");
    }
}
