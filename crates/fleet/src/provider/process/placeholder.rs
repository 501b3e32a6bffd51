//! Placeholders in the texts of a template.
//!
//! | placeholder | value |
//! | --- | --- |
//! | `{name}` | the resource's name |
//! | `{dir}` | its own directory, absolute |
//! | `{host}` | the address that it listens on |
//! | `{port}`, `{port.NAME}` | the first port, and the port of that name |
//! | `{exe}` | this program |
//! | `{user}` | the user that the manager runs as |
//! | `{routing}` | how orchestrators choose a broker for a message |
//! | `{bus}` | the bus that orchestrators share |
//! | `{bus.size}` | the bytes that a bus in a directory keeps, as `"1GiB"` |
//! | `{shards}` | as many threads as its share has cores, 1 to 16 |
//!
//! Braces with anything but lower-case letters and dots between them are left as they are, so that configuration files
//! may have them.

use std::collections::BTreeMap;

/// A placeholder that has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown(pub String);

/// The names of all placeholders of a template with these ports.
pub fn names(ports: &[String]) -> Vec<String> {
    let fixed =
        ["name", "dir", "host", "port", "exe", "user", "routing", "bus", "bus.size", "shards"].map(str::to_owned);
    fixed.into_iter().chain(ports.iter().map(|port| format!("port.{port}"))).collect()
}

/// The text with its placeholders filled in.
///
/// # Errors
/// The first placeholder that has no value.
pub fn fill(text: &str, values: &BTreeMap<String, String>) -> Result<String, Unknown> {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        match after.split_once('}') {
            Some((name, behind)) if is_name(name) => {
                filled.push_str(values.get(name).ok_or_else(|| Unknown(name.to_owned()))?);
                rest = behind;
            }
            _ => {
                filled.push('{');
                rest = after;
            }
        }
    }
    filled.push_str(rest);
    Ok(filled)
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_placeholders_are_replaced() {
        let values = BTreeMap::from([("port".to_owned(), "1".to_owned()), ("port.admin".to_owned(), "2".to_owned())]);
        let fill = |text| fill(text, &values);
        assert_eq!(fill("a{port}b{port.admin}").as_deref(), Ok("a1b2"));
        assert_eq!(fill("jetstream { store: \"x\" } {} {A} {").as_deref(), Ok("jetstream { store: \"x\" } {} {A} {"));
        assert_eq!(fill("{{port}}").as_deref(), Ok("{1}"));
        assert_eq!(fill("{prot}"), Err(Unknown("prot".to_owned())));
    }
}
