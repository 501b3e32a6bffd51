//! `mqtt` and `engine` see no clock, socket, thread, file, async runtime or randomness: their inputs are handed in, so
//! that a run can be repeated from them alone.

use crate::Violation;
use crate::source::{Source, Sources, Written};

/// The crates that this rule is about.
pub const PURE: &[&str] = &["mqtt", "engine"];

/// Paths that a pure crate does not name, and what to do instead.
const BANNED: &[(&str, &str)] = &[
    ("std::time::Instant", "time is handed in with every call"),
    ("std::time::SystemTime", "time is handed in with every call"),
    ("std::time::UNIX_EPOCH", "time is handed in with every call"),
    ("std::net", "sockets belong to `node`; hand in the needed part of an address"),
    ("std::os", "what the system offers belongs to `node`"),
    ("std::fs", "files belong to the binary"),
    ("std::env", "configuration is handed in"),
    ("std::process", "processes belong to the binary"),
    ("std::thread", "threads belong to `node`"),
    ("std::io::stdin", "the terminal belongs to the binary"),
    ("std::io::stdout", "the terminal belongs to the binary"),
    ("std::io::stderr", "the terminal belongs to the binary"),
    ("std::sync::Mutex", "one owner works a partition; nothing is locked"),
    ("std::sync::RwLock", "one owner works a partition; nothing is locked"),
    ("std::sync::Condvar", "one owner works a partition; nothing waits"),
    ("std::sync::Barrier", "one owner works a partition; nothing waits"),
    ("std::sync::mpsc", "inputs and outputs are values; channels belong to `node`"),
    ("std::sync::atomic", "counters are plain numbers of one owner"),
    ("std::future", "state machines, not futures"),
    ("std::task", "state machines, not futures"),
    ("std::hash::RandomState", "iteration order must be the same in every run"),
    ("std::hash::DefaultHasher", "use the hash of `engine::hash`, which is the same everywhere"),
    ("tokio", "state machines, not futures"),
    ("futures", "state machines, not futures"),
    ("mio", "sockets belong to `node`"),
    ("socket2", "sockets belong to `node`"),
    ("rand", "randomness is handed in as a seed"),
    ("getrandom", "randomness is handed in as a seed"),
    ("fastrand", "randomness is handed in as a seed"),
];

/// Maps and sets whose default hasher has a seed of its own in each run, with the number of parameters that name
/// another one.
const SEEDED: &[(&str, usize)] = &[
    ("std::collections::HashMap", 3),
    ("std::collections::hash_map::HashMap", 3),
    ("std::collections::HashSet", 2),
    ("std::collections::hash_set::HashSet", 2),
    ("hashbrown::HashMap", 3),
    ("hashbrown::HashSet", 2),
];

/// Words that a pure crate does not use.
const WORDS: &[(&[&str], &str)] = &[
    (&["async", "fn"], "state machines, not futures"),
    (&["async", "move"], "state machines, not futures"),
    (&["async", "{"], "state machines, not futures"),
    (&[".", "await"], "state machines, not futures"),
    (&["println", "!"], "events and errors are returned"),
    (&["eprintln", "!"], "events and errors are returned"),
    (&["print", "!"], "events and errors are returned"),
    (&["eprint", "!"], "events and errors are returned"),
    (&["thread_local", "!"], "state belongs to a value with an owner"),
    (&["static", "mut"], "state belongs to a value with an owner"),
];

/// The places where a pure crate looks at the world.
pub fn violations(sources: &Sources) -> Vec<Violation> {
    PURE.iter().flat_map(|name| sources.of_crate(name)).flat_map(in_file).collect()
}

fn in_file(source: &Source) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut note = |path: &str, line: usize, advice: &str| {
        found.push(Violation::new(&source.path, line, format!("a pure crate may not name `{path}`: {advice}")));
    };
    for import in &source.imports {
        if let Some(advice) = banned(&import.path) {
            note(&import.path, import.line, advice);
        }
    }
    for written in source.paths() {
        if let Some(advice) = banned(&written.path) {
            note(&written.path, written.line, advice);
        } else if is_seeded(source, &written) {
            let advice = "without a hasher it has a seed of its own; name our hash, or use a `BTreeMap` or `BTreeSet`";
            note(&written.path, written.line, advice);
        }
    }
    for position in 0..source.tokens.len() {
        for (words, advice) in WORDS {
            if source.reads(position, words) {
                let text = format!("a pure crate may not say `{}`: {advice}", words.join(" "));
                found.push(Violation::new(&source.path, source.tokens[position].line, text));
            }
        }
    }
    // An import is seen as a whole and again word by word.
    found.sort_by_key(|violation| violation.line);
    found.dedup_by_key(|violation| violation.line);
    found
}

/// Whether a map or set is named with its default hasher, or made by a function that only that one has.
fn is_seeded(source: &Source, written: &Written) -> bool {
    SEEDED.iter().any(|&(name, parameters)| match written.path.strip_prefix(name) {
        Some("") => source.parameters(written.end).is_some_and(|number| number < parameters),
        Some(rest) => ["::new", "::with_capacity", "::from"].contains(&rest),
        None => false,
    })
}

/// The remedy for a path that is banned. A glob is judged by everything it could bring in.
fn banned(path: &str) -> Option<&'static str> {
    let path = match path.split_once("::") {
        Some(("core" | "alloc", rest)) => format!("std::{rest}"),
        _ => path.to_owned(),
    };
    let below =
        |long: &str, short: &str| long == short || long.strip_prefix(short).is_some_and(|rest| rest.starts_with("::"));
    let hit = |name: &str| match path.strip_suffix("::*") {
        Some(glob) => below(name, glob) || below(glob, name),
        None => below(&path, name),
    };
    BANNED.iter().find(|(name, _)| hit(name)).map(|&(_, advice)| advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> usize {
        in_file(&Source::parse("crates/engine/src/x.rs", text).unwrap()).len()
    }

    #[test]
    fn the_clock_is_caught_however_it_is_named() {
        assert_eq!(count("fn f() { std::time::Instant::now(); }"), 1);
        assert_eq!(count("use std::time::Instant as Clock; fn f() {}"), 1);
        assert_eq!(count("use std::time; fn f() { time::SystemTime::now(); }"), 1);
        assert_eq!(count("use std::time::*;"), 1);
        assert_eq!(count("fn f() { vec![std::time::Instant::now()]; }"), 1);
        assert_eq!(count("use std::time::Duration; fn f(d: Duration) {}"), 0);
    }

    #[test]
    fn sockets_threads_and_seeded_maps_are_caught() {
        assert_eq!(count("use core::net::IpAddr;"), 1);
        assert_eq!(count("fn f() { std::thread::spawn(|| ()); }"), 1);
        assert_eq!(count("use tokio::net::TcpStream;"), 1);
    }

    #[test]
    fn maps_are_caught_by_their_hasher() {
        assert_eq!(count("use std::collections::HashMap; struct A { a: HashMap<u8, Vec<(u8, u8)>> }"), 1);
        assert_eq!(count("use std::collections::HashMap; struct A { a: HashMap<u8, Vec<(u8, u8)>, Ours> }"), 0);
        assert_eq!(count("use std::collections::HashSet; struct A { a: HashSet<Box<str>> }"), 1);
        assert_eq!(count("use std::collections::HashSet; struct A { a: HashSet<fn(u8) -> u8, Ours> }"), 0);
        assert_eq!(count("use std::collections::HashMap; fn f() { HashMap::new(); }"), 1);
        assert_eq!(count("use std::collections::HashMap; fn f() { HashMap::<u8, u8>::default(); }"), 1);
        assert_eq!(count("use std::collections::HashMap; fn f() { HashMap::default(); }"), 0);
    }

    #[test]
    fn async_code_is_caught() {
        assert_eq!(count("async fn f() {}"), 1);
        assert_eq!(count("fn f() { let x = async { 1 }; }"), 1);
    }

    #[test]
    fn tests_may_look_at_the_world() {
        assert_eq!(count("#[cfg(test)] mod tests { use std::thread; }"), 0);
    }
}
