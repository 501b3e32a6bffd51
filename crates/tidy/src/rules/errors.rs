//! Errors are types with their context and remedy, not texts.
//!
//! Each `Result<_, String>` outside tests counts for its crate: a caller cannot tell such errors apart. So does one whose
//! error is an alias of `String`, and `type Err = String` of a trait.

use std::collections::BTreeSet;

use crate::Violation;
use crate::ceilings::Ceiling;
use crate::rules::structure::{against, crates};
use crate::source::{Source, Sources, Token};

/// Crates with more texts as errors than their ceilings.
pub fn violations(sources: &Sources, ceilings: &[Ceiling]) -> Vec<Violation> {
    let mut counts = Vec::new();
    for name in crates(sources) {
        let files: Vec<&Source> = sources.of_crate(name).collect();
        let aliases: BTreeSet<&str> = files.iter().flat_map(|source| aliases(source)).collect();
        let number = files.iter().map(|source| texts(source, &aliases)).sum();
        if number > 0 || ceilings.iter().any(|ceiling| ceiling.of == name) {
            counts.push((name.to_owned(), number));
        }
    }
    against(
        &counts,
        ceilings,
        0,
        "results with a text as their error",
        "give them an error type with a variant for each cause",
    )
}

/// The names that a file gives to `String`.
fn aliases(source: &Source) -> impl Iterator<Item = &str> {
    let is_alias =
        |position: &usize| source.reads(*position, &["type"]) && source.reads(position + 2, &["=", "String", ";"]);
    (0..source.tokens.len()).filter(is_alias).map(|position| source.tokens[position + 1].text.as_str())
}

/// How many results of a file have a text as their error.
fn texts(source: &Source, aliases: &BTreeSet<&str>) -> usize {
    let positions = (0..source.tokens.len()).filter(|position| source.reads(*position, &["Result", "<"]));
    let is_text = |position: usize| match last_parameter(source, position + 1) {
        Some((2, [only])) => only.text == "String" || aliases.contains(only.text.as_str()),
        _ => false,
    };
    let of_traits = self::aliases(source).filter(|name| ["Err", "Error"].contains(name)).count();
    of_traits + positions.filter(|position| is_text(*position)).count()
}

/// The last parameter in the angle brackets at a position, as its tokens, and how many parameters there are.
fn last_parameter(source: &Source, position: usize) -> Option<(usize, &[Token])> {
    if !source.reads(position, &["<"]) {
        return None;
    }
    let (mut depth, mut number, mut before, mut start) = (0_usize, 1, "", position + 1);
    for (place, token) in source.tokens.iter().enumerate().skip(position) {
        match token.text.as_str() {
            "<" | "(" | "[" | "{" => depth += 1,
            ">" if before == "-" => {}
            ">" | ")" | "]" | "}" => depth = depth.saturating_sub(1),
            "," if depth == 1 => {
                number += 1;
                start = place + 1;
            }
            _ => {}
        }
        if depth == 0 {
            return Some((number, &source.tokens[start..place]));
        }
        before = &token.text;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    #[test]
    fn a_text_as_an_error_counts_and_a_text_as_a_value_does_not() {
        let text = "fn a() -> Result<(), String> {}\nfn b() -> Result<String, Error> {}\n\
                    type T = std::result::Result<Vec<(u8, String)>, String>;\nfn c() -> io::Result<String> {}\n";
        assert_count(text, 2);
    }

    #[test]
    fn a_text_with_another_name_counts() {
        assert_count("type Name = String;\nfn a() -> Result<Name, Error> {}\n", 0);
        assert_count("type Fault = String;\nfn a() -> Result<(), Fault> {}\nfn b() -> Result<(), Fault> {}\n", 2);
        let of_trait = "impl FromStr for A { type Err = String; fn from_str(_: &str) -> Result<Self, Self::Err> {} }\n";
        assert_count(of_trait, 1);
    }

    fn assert_count(text: &str, count: usize) {
        let sources = Sources::load(&Tree::of(&[("crates/x/src/lib.rs", text)])).unwrap();
        let ceiling = |count| [Ceiling { of: "x", count }];
        if count == 0 {
            assert!(violations(&sources, &[]).is_empty());
            return;
        }
        assert!(violations(&sources, &ceiling(count)).is_empty());
        assert_eq!(violations(&sources, &ceiling(count - 1)).len(), 1);
        assert_eq!(violations(&sources, &ceiling(count + 1)).len(), 1);
        assert_eq!(violations(&sources, &[]).len(), 1);
    }
}
