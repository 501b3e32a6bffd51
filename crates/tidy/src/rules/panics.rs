//! Nothing that a peer sends may end a thread: the crates that see its bytes neither unwrap nor panic outside tests,
//! and the codec does not index.

use crate::Violation;
use crate::exceptions::Exception;
use crate::source::{Source, Sources};

/// The crates that process bytes of peers: clients, other nodes, queried servers, and writers to the bus.
const CAREFUL: &[&str] = &[
    "mqtt",
    "engine",
    "node",
    "client",
    "dns",
    "acl",
    "auth",
    "bus",
    "cluster",
    "mirror",
    "context",
    "console",
    "fleet",
    "bridge",
    "coap",
    "visitor",
    "connections",
];

/// The crates in which an index must be shown to lie inside.
const UNINDEXED: &[&str] = &["mqtt"];

const CALLS: &[&str] = &["unwrap", "expect", "unwrap_err", "expect_err"];
const MACROS: &[&str] = &["panic", "todo", "unimplemented", "unreachable"];

/// The places that could panic, and exceptions that nothing needs any more.
pub fn violations(sources: &Sources, exceptions: &[Exception]) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut used = vec![false; exceptions.len()];
    for source in CAREFUL.iter().flat_map(|name| sources.of_crate(name)) {
        let indexed = UNINDEXED.iter().any(|name| source.path.starts_with(&format!("crates/{name}/")));
        let mut places = calls(source);
        if indexed {
            places.extend(indexing(source));
        }
        places.retain(|place| !Exception::covers(exceptions, &mut used, &source.path, &place.function));
        found.extend(places.into_iter().map(|place| Violation::new(&source.path, place.line, place.text)));
    }
    found.extend(Exception::unused(exceptions, &used));
    found
}

struct Occurrence {
    line: usize,
    function: String,
    text: String,
}

fn calls(source: &Source) -> Vec<Occurrence> {
    let mut places = Vec::new();
    for (position, token) in source.tokens.iter().enumerate() {
        let called = CALLS.iter().find(|name| source.reads(position, &[".", name, "("]));
        let expanded = MACROS.iter().find(|name| source.reads(position, &[name, "!"]));
        if called.or(expanded).is_none() {
            continue;
        }
        let shown = called.map_or_else(|| format!("{}!", token.text), |name| format!(".{name}()"));
        let text = format!(
            "`{shown}` may end a thread; return an error, close with a reason, or argue for it in crates/tidy/src/exceptions.rs"
        );
        places.push(Occurrence { line: token.line, function: holder(source, token.line), text });
    }
    places
}

fn indexing(source: &Source) -> Vec<Occurrence> {
    let text = "an index may lie outside and end a thread; use `get`, `split_at_checked`, `split_first` or a reader";
    source
        .indexing
        .iter()
        .map(|(line, function)| Occurrence { line: *line, function: function.clone(), text: text.to_owned() })
        .collect()
}

/// The innermost function around a line.
fn holder(source: &Source, line: usize) -> String {
    let around =
        source.functions.iter().filter(|function| (function.line..function.line + function.lines).contains(&line));
    around.min_by_key(|function| function.lines).map(|function| function.name.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    fn found(path: &str, text: &str, exceptions: &[Exception]) -> Vec<Violation> {
        violations(&Sources::load(&Tree::of(&[(path, text)])).unwrap(), exceptions)
    }

    #[test]
    fn unwraps_and_panics_are_caught_with_their_line() {
        let text = "fn f(x: Option<u8>) {\n    x.unwrap();\n    x\n        .expect(\"some\");\n    panic!();\n}";
        let lines: Vec<usize> = found("crates/node/src/lib.rs", text, &[]).iter().map(|place| place.line).collect();
        assert_eq!(lines, [2, 4, 5]);
    }

    #[test]
    fn words_in_strings_comments_attributes_and_tests_are_not() {
        let text = "#[expect(dead_code)]\n// x.unwrap()\nfn f() -> &'static str { \"panic!\" }\n#[test]\nfn t() { None::<u8>.unwrap(); }";
        assert!(found("crates/node/src/lib.rs", text, &[]).is_empty());
    }

    #[test]
    fn the_codec_does_not_index() {
        let text = "fn f(x: &[u8]) -> u8 { x[0] }";
        assert_eq!(found("crates/mqtt/src/lib.rs", text, &[]).len(), 1);
        assert_eq!(found("crates/node/src/lib.rs", text, &[]).len(), 0);
    }

    #[test]
    fn an_exception_holds_for_its_function_and_fails_once_unused() {
        let allowed = [Exception { path: "crates/mqtt/src/lib.rs", function: "f", reason: "a fixed array" }];
        assert!(found("crates/mqtt/src/lib.rs", "fn f(x: [u8; 2]) -> u8 { x[0] }", &allowed).is_empty());
        assert_eq!(found("crates/mqtt/src/lib.rs", "fn g() {}", &allowed).len(), 1);
    }
}
