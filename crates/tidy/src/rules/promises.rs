//! Each promise of a success answer has a test. Whether the tests exist is checked by [`named`](super::named).

use crate::Violation;
use crate::tree::Tree;

/// The page of the promises.
const PAGE: &str = "docs/success.md";
/// The header of the last column of its tables.
const TESTS: &str = "test";

/// Rows of `docs/success.md` without the name of a test.
pub fn violations(tree: &Tree) -> Vec<Violation> {
    let Some(page) = tree.get(PAGE) else {
        return vec![Violation::new(PAGE, 0, "the page of the promises is missing")];
    };
    let mut found = Vec::new();
    let mut in_table = false;
    for (number, line) in (1..).zip(page.text.lines()) {
        let Some(row) = line.strip_prefix('|').and_then(|rest| rest.trim_end().strip_suffix('|')) else {
            in_table = false;
            continue;
        };
        let cell = row.rsplit('|').next().unwrap_or_default().trim();
        let is_header = !std::mem::replace(&mut in_table, true);
        if is_header && cell != TESTS {
            found.push(Violation::new(PAGE, number, "the last column of a table names the tests"));
        }
        if !is_header && !cell.starts_with("---") && !names_a_test(cell) {
            found.push(Violation::new(
                PAGE,
                number,
                "the promise has no test: name one, and write it if it is missing",
            ));
        }
    }
    found
}

/// Whether a text has a test name in backquotes: lower-case words with underscores between them.
fn names_a_test(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let mut quoted = text.split('`').skip(1).step_by(2);
    quoted.any(|name| name.contains('_') && name.bytes().all(is_plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(page: &str) -> usize {
        violations(&Tree::of(&[(PAGE, page)])).len()
    }

    #[test]
    fn each_row_names_a_test() {
        let table = |cell: &str| format!("| answer | test |\n| --- | --- |\n| PUBACK | {cell} |\n\nText.\n");
        assert_eq!(found(&table("`a_message_is_kept`, `test_it_all`")), 0);
        assert_eq!(found(&table("")), 1);
        assert_eq!(found(&table("the same")), 1);
        assert_eq!(found(&table("`e2e/test_http.py`")), 1, "a file is no test");
        assert_eq!(found("| answer | promises |\n| --- | --- |\n"), 1, "a table without the column");
    }
}
