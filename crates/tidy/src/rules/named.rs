//! The files, folders and tests that a page names exist.

use crate::Violation;
use crate::tree::{File, Tree};

/// The pages that lead to folders of the tree; others name folders that a running broker makes.
const MAPS: &[&str] = &["ARCHITECTURE.md", "CONTRIBUTING.md"];
/// How the name of each metric begins: they look like names of tests.
const METRIC_PREFIXES: &[&str] = &["mqtt_", "tidegate_", "process_"];
/// A single word with this number of underscores is a sentence, and so a test; shorter ones are keys and reasons.
const SENTENCE: usize = 5;

/// Files and folders that are not in the tree.
pub fn files(tree: &Tree) -> Vec<Violation> {
    let is_there = |name: &str| {
        let (middle, end) = (format!("/{name}/"), format!("/{name}"));
        tree.files
            .iter()
            .map(|file| format!("/{}", file.path))
            .any(|path| path.contains(&middle) || path.ends_with(&end))
    };
    violations(tree, |page, name| {
        let is_file = is_code(name);
        let is_folder = name.ends_with('/') && MAPS.contains(&page);
        let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte));
        let missing = plain && (is_file || is_folder) && !is_there(name.trim_matches('/'));
        missing.then(|| format!("`{name}` is not in the tree: say where it is now"))
    })
}

/// Tests, and modules of tests (`module::*`), that no crate has.
pub fn tests(tree: &Tree) -> Vec<Violation> {
    let code: Vec<&File> = tree.files.iter().filter(|file| is_code(&file.path)).collect();
    let python: Vec<&File> = tree.files.iter().filter(|file| file.path.rsplit('.').next() == Some("py")).collect();
    let has = |files: &[&File], declared: &str| files.iter().any(|file| file.text.contains(declared));
    violations(tree, |_, name| {
        if !is_test(name) {
            return None;
        }
        let all = name.strip_suffix("::*");
        let last = all.unwrap_or(name).rsplit("::").next().unwrap_or(name);
        let is_there = match all {
            Some(_) => has(&code, &format!("mod {last};")),
            None => has(&code, &format!("fn {last}(")) || has(&python, &format!("def {last}(")),
        };
        (!is_there).then(|| format!("no test is called `{name}`: name the test that shows it"))
    })
}

/// Violations in the quoted code of all pages.
fn violations(tree: &Tree, wrong: impl Fn(&str, &str) -> Option<String>) -> Vec<Violation> {
    let mut found = Vec::new();
    for page in tree.files.iter().filter(|file| file.path.rsplit('.').next() == Some("md")) {
        for (number, line) in (1..).zip(page.text.lines()) {
            let quoted = line.split('`').skip(1).step_by(2);
            found.extend(quoted.filter_map(|name| Some(Violation::new(&page.path, number, wrong(&page.path, name)?))));
        }
    }
    found
}

fn is_code(path: &str) -> bool {
    path.rsplit('.').next() == Some("rs")
}

fn is_test(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_:*".contains(&byte);
    let is_metric = METRIC_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    let is_sentence = name.bytes().filter(|byte| *byte == b'_').count() >= SENTENCE;
    name.bytes().all(plain) && !is_metric && (name.ends_with("::*") || is_sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "mod moving;\n#[test]\nfn a_move_keeps_all_messages_of_its_session() {}\n";

    fn found(page: &str, text: &str) -> usize {
        let python = ("e2e/test_a.py", "    async def test_what_one_client_sends_reaches_another(self):\n");
        let tree = Tree::of(&[(page, text), ("crates/engine/tests/it/main.rs", CODE), python]);
        files(&tree).len() + super::tests(&tree).len()
    }

    #[test]
    fn files_that_moved_away_are_caught() {
        assert_eq!(found("docs/a.md", "`tests/it/main.rs` and `engine/tests/it/main.rs`"), 0);
        assert_eq!(found("docs/a.md", "`it/other.rs`"), 1);
        assert_eq!(found("ARCHITECTURE.md", "`it/` `tests/`"), 0);
        assert_eq!(found("ARCHITECTURE.md", "`attic/`"), 1);
        assert_eq!(found("docs/a.md", "`data/`"), 0, "a folder of a running broker");
    }

    #[test]
    fn tests_that_are_called_otherwise_are_caught() {
        assert_eq!(found("docs/a.md", "`moving::*`, `moving::a_move_keeps_all_messages_of_its_session`"), 0);
        assert_eq!(found("docs/a.md", "`a_move_keeps_all_messages_of_its_session`"), 0);
        assert_eq!(found("docs/a.md", "`test_what_one_client_sends_reaches_another`"), 0);
        assert_eq!(found("docs/a.md", "`test_what_one_client_sends_reaches_nothing`"), 1);
        assert_eq!(found("docs/a.md", "`moved::*`, `a_move_drops_all_messages_of_its_session`"), 2);
        assert_eq!(found("docs/a.md", "`tidegate_tls_revocation_lists_next_update_seconds` `queue_full_newest`"), 0);
    }
}
