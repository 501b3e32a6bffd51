//! Plain words: riddling phrases and comments, long test names and repeated type names may only become fewer.
//!
//! `ceilings.tsv` holds a number of each kind for every area (a crate, the pages below `docs`, a page of the root). A
//! count above its ceiling fails, and so does a ceiling above the count: the second keeps what a rewrite has gained.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::Violation;
use crate::source::is_stand_in;
use crate::tree::{File, Tree};

/// The table of ceilings, relative to the repository.
pub const CEILINGS: &str = "crates/tidy/ceilings.tsv";

/// Characters that a test name may have.
const TEST_NAME_MAX: usize = 60;

/// A count may lie this far below its ceiling, or a twentieth of the ceiling if that is more.
const SLACK: usize = 20;

/// Phrases that hide the noun of a sentence, each with the plain form. They are searched in comments, strings and
/// identifiers (`what_is_left` counts), across the ends of lines.
pub const PHRASES: &[(&str, &str)] = &[
    ("so many", "the number: `so many bytes` -> `` `size` bytes``"),
    ("the one that", "the noun: `the one that has` -> `the owner`"),
    ("stands before", "`comes first`, `is before`"),
    ("stands behind", "`follows`, `is after`"),
    ("what is", "the noun: `what is kept` -> `the retained messages`"),
    ("what was", "the noun: `what was sent` -> `the packet sent`"),
    ("what has", "the noun: `what has come` -> `the received bytes`"),
    ("what it", "the noun: `what it has` -> `its subscriptions`"),
    ("what they", "the noun: `what they carry` -> `their payload`"),
    ("what a", "the noun: `what a client sends` -> `the client's packets`"),
    ("what comes", "the noun: `what comes in` -> `the input`"),
    ("what came", "the noun: `what came of it` -> `the result`"),
    ("what goes", "the noun: `what goes out` -> `the output`"),
    ("what becomes", "the noun: `outcome`"),
    ("what became", "the noun: `outcome`"),
    ("what waits", "the noun: `the queue`, `pending messages`"),
    ("what stands", "the noun: `the text`, `the entry`"),
    ("what follows", "the noun: `the rest of the packet`"),
    ("is what", "say it directly: `X does Y`"),
    ("of what", "the noun"),
    ("with what", "the noun"),
    ("for what", "the noun"),
    ("from what", "the noun"),
    ("nobody", "`no client`, `no node`, or a sentence without it"),
    ("somebody", "`a client`, `another node`: say which"),
    ("whoever", "the noun: `the client that`, `the caller`"),
    ("whichever", "`the first`, `any`"),
    ("whom", "the noun: `to whom it goes` -> `the receiver`"),
    ("is told", "`is notified`, `receives`, or the active verb: `X reports Y to Z`"),
    ("are told", "`are notified`, `receive`, or the active verb"),
    ("was told", "`was notified`, `received`, or the active verb"),
    ("be told", "`be notified`, `receive`, or the active verb"),
    ("told of", "`notified of`, `informed about`"),
    ("hears nothing", "`receives no notification`"),
    ("those that", "repeat the noun: `sessions that`"),
    ("those who", "repeat the noun: `clients that`"),
    ("those of", "repeat the noun: `the topics of`"),
    ("of which", "a second sentence, or `whose`"),
    ("is none", "`does not exist`, `is invalid`"),
    ("goes on", "`continues`, `resumes`"),
    ("goes its way", "`is delivered`, `is processed`"),
    ("is home to", "`owns`, `holds the sessions of`"),
    ("anew", "`again`, `from the start`"),
    ("by itself", "`automatically`, `alone`"),
    ("stands in", "`is in`"),
    ("stands for", "`represents`, `means`"),
    ("for anybody", "the noun: `for any member`"),
    ("as many as may be", "`up to the limit`, with its name"),
    ("as many as it may", "`up to its limit`"),
    ("thread of its own", "`its own thread`, `a separate thread`"),
    ("process of its own", "`its own process`, `a separate process`"),
    ("file of its own", "`its own file`, `a separate file`"),
    ("log of its own", "`its own log`"),
    ("share of its own", "`its own share`"),
    ("fact of its own", "`an independent fact`"),
    ("has a word in it", "`contains a word`"),
    ("how it stands", "`the state`"),
    ("it is looked", "the check: `how often it is looked whether` -> `interval of checks whether`"),
    ("it is waited", "the one that waits: `it is waited for the end` -> `the action waits for the end`"),
    ("is seen whether", "the check: `interval of checks whether`"),
    ("verdict", "the noun of the result: `decision`, `outcome`, `reason`"),
];

/// The counts of one area.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Occurrences of [`PHRASES`].
    pub phrases: usize,
    /// Tests with a name of more than 60 characters.
    pub long_tests: usize,
    /// Types, outside tests, that share their name with another type of the same crate.
    pub repeated_types: usize,
    /// Comments that begin with `What` in the place of a noun.
    pub what_comments: usize,
}

/// Counts of every area that has a ceiling, by name.
pub fn counts(tree: &Tree) -> BTreeMap<String, Counts> {
    let mut areas: BTreeMap<String, Counts> = BTreeMap::new();
    let mut types: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for file in tree.files.iter().filter(|file| !file.binary) {
        let Some(area) = area(file) else { continue };
        let counts = areas.entry(area.clone()).or_default();
        let words = normal(&file.text);
        counts.phrases += PHRASES.iter().map(|(phrase, _)| occurrences(&words, phrase)).sum::<usize>();
        counts.long_tests += long_tests(&file.text).len();
        counts.what_comments += what_comments(&file.text);
        types.entry(area).or_default().extend(type_names(file));
    }
    for (area, names) in types {
        let distinct: BTreeSet<&str> = names.iter().copied().collect();
        areas.entry(area).or_default().repeated_types = names.len() - distinct.len();
    }
    areas
}

/// The smallest count that leaves a ceiling as it is.
///
/// A change that rewrites a few sentences must not fail for a ceiling in another file.
fn slack_below(ceiling: usize) -> usize {
    ceiling - (ceiling / 20).max(SLACK).min(ceiling)
}

/// Areas whose counts are above their ceilings or far below them.
pub fn violations(tree: &Tree) -> Vec<Violation> {
    let ceilings = tree.get(CEILINGS).map(|file| parse(&file.text)).unwrap_or_default();
    let counts = counts(tree);
    let mut found = Vec::new();
    for area in counts.keys().chain(ceilings.keys()).collect::<BTreeSet<_>>() {
        let count = counts.get(area).copied().unwrap_or_default();
        let ceiling = ceilings.get(area).copied().unwrap_or_default();
        let kinds = [
            ("riddling phrases (`PHRASES` in rules/words.rs has the plain forms)", count.phrases, ceiling.phrases),
            ("test names over 60 characters", count.long_tests, ceiling.long_tests),
            ("types named like another one of the crate", count.repeated_types, ceiling.repeated_types),
            (
                "comments that begin with `What` (name the thing: `What was sent` -> `The packet sent`)",
                count.what_comments,
                ceiling.what_comments,
            ),
        ];
        for (kind, count, ceiling) in kinds {
            if count > ceiling {
                let text =
                    format!("{area} has {count} {kind}, and {ceiling} are the ceiling: rewrite {}", count - ceiling);
                found.push(Violation::new(CEILINGS, 0, text));
            } else if count < slack_below(ceiling) {
                let text = format!(
                    "{area} has only {count} {kind}: lower its ceiling of {ceiling} \
                     (`TIDY_LOWER=1 cargo test -p tidegate-tidy` does)"
                );
                found.push(Violation::new(CEILINGS, 0, text));
            }
        }
    }
    found
}

/// The table with each ceiling lowered to its count. No ceiling rises.
pub fn lowered(tree: &Tree) -> String {
    let ceilings = tree.get(CEILINGS).map(|file| parse(&file.text)).unwrap_or_default();
    let mut text = String::from("# area\tphrases\tlong test names\trepeated type names\tcomments with What\n");
    for (area, count) in counts(tree) {
        let ceiling = ceilings.get(&area).copied().unwrap_or_default();
        let _ = writeln!(
            text,
            "{area}\t{}\t{}\t{}\t{}",
            count.phrases.min(ceiling.phrases),
            count.long_tests.min(ceiling.long_tests),
            count.repeated_types.min(ceiling.repeated_types),
            count.what_comments.min(ceiling.what_comments)
        );
    }
    text
}

/// Reads the table; a line that is not a row of five columns is skipped, and its area then has a ceiling of 0.
fn parse(text: &str) -> BTreeMap<String, Counts> {
    let row = |line: &str| {
        let mut columns = line.split('\t');
        let area = columns.next()?.to_owned();
        let mut number = || columns.next()?.parse().ok();
        let (phrases, long_tests, repeated_types, what_comments) = (number()?, number()?, number()?, number()?);
        Some((area, Counts { phrases, long_tests, repeated_types, what_comments }))
    };
    text.lines().filter_map(row).collect()
}

fn has_extension(path: &str, extension: &str) -> bool {
    std::path::Path::new(path).extension().is_some_and(|found| found == extension)
}

/// The area that a file counts for.
fn area(file: &File) -> Option<String> {
    let path = file.path.as_str();
    let is_ours = path.ends_with("crates/tidy/src/rules/words.rs");
    if let Some(rest) = path.strip_prefix("crates/") {
        let name = rest.split('/').next()?;
        return (has_extension(path, "rs") && !is_ours).then(|| format!("crates/{name}"));
    }
    let page = has_extension(path, "md");
    if page && path.starts_with("docs/") {
        return Some("docs".to_owned());
    }
    (page && !path.contains('/')).then(|| path.to_owned())
}

/// The words of a text in lower case, one space between two and at both ends. Marks of comments, line ends and the
/// underscores of identifiers separate words; the method `is_none` is not one of the phrases.
fn normal(text: &str) -> String {
    let mut words = String::with_capacity(text.len() + 2);
    words.push(' ');
    for character in text.replace(".is_none", ".").replace("::is_none", ".").chars() {
        if character.is_alphanumeric() || character == '\'' {
            words.extend(character.to_lowercase());
        } else if character == '.' || character == ',' || character == '`' {
            // A phrase does not cross the end of a clause.
            words.push_str(if words.ends_with(' ') { "| " } else { " | " });
        } else if !words.ends_with(' ') {
            words.push(' ');
        }
    }
    words.push(' ');
    words
}

fn occurrences(words: &str, phrase: &str) -> usize {
    let length = phrase.len();
    words
        .match_indices(phrase)
        .filter(|(at, _)| words[..*at].ends_with(' ') && words[at + length..].starts_with(' '))
        .count()
}

/// Names of tests with more characters than a name may have.
fn long_tests(text: &str) -> Vec<&str> {
    let mut after_test = false;
    let mut long = Vec::new();
    for line in text.lines().map(str::trim_start) {
        if line.starts_with("#[") {
            after_test |= line.starts_with("#[test]") || line.contains("::test]") || line.contains("::test(");
            continue;
        }
        let name = line.trim_start_matches("async ").strip_prefix("fn ").and_then(|rest| rest.split('(').next());
        if let Some(name) = name.filter(|name| after_test && name.len() > TEST_NAME_MAX) {
            long.push(name);
        }
        after_test = false;
    }
    long
}

/// Lines of comments that begin with `What`.
fn what_comments(text: &str) -> usize {
    let begins = |line: &&str| {
        let comment = line.trim_start().strip_prefix("//").unwrap_or_default().trim_start_matches(['/', '!']);
        comment.strip_prefix(" What").is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
    };
    text.lines().filter(begins).count()
}

/// Names of the structs and enums that a file outside tests declares at its top level.
fn type_names(file: &File) -> Vec<&str> {
    let test = file.path.contains("/tests") || !file.path.contains("/src/") || is_stand_in(&file.path);
    let declared = |line: &'_ str| -> Option<usize> {
        let mut rest = line.strip_prefix("pub").unwrap_or(line);
        if let Some(inner) = rest.strip_prefix('(') {
            rest = inner.split_once(')')?.1;
        }
        let rest = rest.trim_start();
        let name = rest.strip_prefix("struct ").or_else(|| rest.strip_prefix("enum "))?;
        Some(line.len() - name.len())
    };
    let name = |line: &'_ str, at: usize| {
        let end = line[at..].find(|c: char| !c.is_alphanumeric()).map_or(line.len(), |length| at + length);
        (at, end)
    };
    file.text
        .lines()
        .filter(|_| !test)
        .filter_map(|line| declared(line).map(|at| name(line, at)).map(|(at, end)| &line[at..end]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_are_found_across_lines_and_in_identifiers() {
        let text = "/// Tells what\n/// is left.\nfn of_what() { \"nobody here\" } // no body, of, what\n\
                    #[serde(skip_serializing_if = \"Option::is_none\")]\n";
        let found = |phrase| occurrences(&normal(text), phrase);
        assert_eq!(["what is", "of what", "nobody", "whom", "is none"].map(found), [1, 1, 1, 0, 0]);
    }

    #[test]
    fn long_names_of_tests_are_found() {
        let name = "a".repeat(61);
        let text = format!("#[test]\nfn {name}() {{}}\n#[tokio::test]\nasync fn b{name}() {{}}\nfn c{name}() {{}}\n");
        assert_eq!(long_tests(&text).len(), 2);
        assert_eq!(long_tests(&format!("#[test]\nfn {}() {{}}\n", &name[1..])).len(), 0);
    }

    #[test]
    fn comments_that_begin_with_what_are_found() {
        let text = "//! What holds.\n    /// What is sent\n// What, then?\n// Whatever\n/// The packet. What\nlet x = 1; // What\n";
        assert_eq!(what_comments(text), 3);
    }

    #[test]
    fn a_count_stays_within_its_ceiling_and_its_slack() {
        let table = |phrases: usize| format!("crates/a\t{phrases}\t0\t1\t0\n");
        let check = |phrases: usize| {
            let source = "// nobody\nstruct Place;\n";
            let files = [("crates/a/src/x.rs", source), ("crates/a/src/y.rs", source), (CEILINGS, &table(phrases))];
            violations(&Tree::of(&files)).len()
        };
        assert_eq!([1, 2, 2 + SLACK, 3 + SLACK].map(check), [1, 0, 0, 1]);
    }

    #[test]
    fn lowering_raises_no_ceiling() {
        let source = "// nobody, nobody\n";
        let files = [("crates/a/src/x.rs", source), ("README.md", "plain\n"), (CEILINGS, "README.md\t4\t0\t0\t0\n")];
        let rows = lowered(&Tree::of(&files));
        assert_eq!(rows.lines().skip(1).collect::<Vec<_>>(), ["README.md\t0\t0\t0\t0", "crates/a\t0\t0\t0\t0"]);
    }
}
