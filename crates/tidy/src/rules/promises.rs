//! Each promise of a success answer has a test.

use std::collections::BTreeSet;

use crate::Violation;
use crate::tree::Tree;

/// The page of the promises.
const PAGE: &str = "docs/success.md";
/// The header of the last column of its tables.
const TESTS: &str = "test";

/// Rows of `docs/success.md` without a test, and tests named there that do not exist.
pub fn violations(tree: &Tree) -> Vec<Violation> {
    let Some(page) = tree.get(PAGE) else {
        return vec![Violation::new(PAGE, 0, "the page of the promises is missing")];
    };
    let tests = tests(tree);
    let mut found = Vec::new();
    let mut header = "";
    for (number, line) in (1..).zip(page.text.lines()) {
        let Some(row) = line.strip_prefix('|').and_then(|rest| rest.trim_end().strip_suffix('|')) else {
            header = "";
            found.extend(unknown(line, &tests).map(|name| unknown_test(number, name)));
            continue;
        };
        if header.is_empty() {
            header = row;
            if last_cell(row) != TESTS {
                found.push(Violation::new(PAGE, number, "the last column of a table names the tests"));
            }
            continue;
        }
        if row.trim_start().starts_with("---") {
            continue;
        }
        let cell = last_cell(row);
        if names(cell).next().is_none() {
            found.push(Violation::new(
                PAGE,
                number,
                "the promise has no test: name one, and write it if it is missing",
            ));
        }
        found.extend(unknown(cell, &tests).map(|name| unknown_test(number, name)));
    }
    found
}

fn unknown_test(line: usize, name: &str) -> Violation {
    Violation::new(PAGE, line, format!("no test has the name `{name}`: correct it"))
}

fn last_cell(row: &str) -> &str {
    row.rsplit('|').next().unwrap_or_default().trim()
}

/// The names of tests in a text: in backticks, in lower case, with a line below between their words.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter(move |name| name.matches('_').count() > 1 && name.bytes().all(is_word))
}

fn unknown<'a>(text: &'a str, tests: &BTreeSet<&str>) -> impl Iterator<Item = &'a str> {
    names(text).filter(|name| !tests.contains(name))
}

/// The names of all test functions in Rust and Python.
fn tests(tree: &Tree) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    for file in &tree.files {
        let is_python = match file.path.rsplit_once('.') {
            Some((_, "py")) => true,
            Some((_, "rs")) => false,
            _ => continue,
        };
        let mut is_test = false;
        for line in file.text.lines().map(str::trim_start) {
            is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            let keyword = if is_python { "def " } else { "fn " };
            let Some((before, rest)) = line.split_once(keyword) else { continue };
            let name = rest.split('(').next().unwrap_or_default();
            let is_function = before.is_empty() || before == "async ";
            if is_function && (is_test || (is_python && name.starts_with("test_"))) {
                found.insert(name);
            }
            is_test = false;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "#[test]\nfn a_message_is_kept() {}\nfn an_ordinary_function() {}\n";

    fn found(page: &str) -> Vec<String> {
        let tree = Tree::of(&[
            (PAGE, page),
            ("crates/a/src/lib.rs", CODE),
            ("e2e/test_a.py", "    async def test_it_all(self):\n"),
        ]);
        violations(&tree).into_iter().map(|violation| violation.text).collect()
    }

    #[test]
    fn each_row_names_tests_that_exist() {
        let table = |cell: &str| format!("| answer | test |\n| --- | --- |\n| PUBACK | {cell} |\n");
        assert!(found(&table("`a_message_is_kept`, `test_it_all`")).is_empty());
        assert_eq!(found(&table("")).len(), 1, "a row without a test");
        assert_eq!(found(&table("the same")).len(), 1);
        assert_eq!(found(&table("`a_message_is_lost`")).len(), 1);
        assert_eq!(found(&table("`an_ordinary_function`")).len(), 1);
        assert_eq!(found("| answer | promises |\n| --- | --- |\n").len(), 1, "a table without the column");
        assert_eq!(found("A text with `a_message_is_lost`.\n").len(), 1);
        assert!(found("A text with `max_payload`.\n").is_empty());
    }
}
