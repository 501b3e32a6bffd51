//! Each function that a walk of ARCHITECTURE.md names is in the file named before it.

use crate::Violation;
use crate::tree::{File, Tree};

const PAGE: &str = "ARCHITECTURE.md";
/// The heading above the walks.
const HEADING: &str = "## Walks";
/// The walks that the page has to contain.
const WALKS: usize = 4;

/// Steps that name a missing or ambiguous file, or a function that their file does not have.
pub fn violations(tree: &Tree) -> Vec<Violation> {
    let text = tree.get(PAGE).map_or("", |page| page.text.as_str());
    let lines = (1..).zip(text.lines());
    let section =
        lines.skip_while(|(_, line)| *line != HEADING).skip(1).take_while(|(_, line)| !line.starts_with("## "));
    let mut walks = 0;
    let mut found = Vec::new();
    for (number, line) in section.filter_map(|(number, line)| Some((number, step(line)?))) {
        walks += usize::from(line.0 == 1);
        found.extend(faults(tree, line.1).into_iter().map(|fault| Violation::new(PAGE, number, fault)));
    }
    if walks != WALKS {
        let text = format!("{walks} walks are below `{HEADING}`, and {WALKS} are expected: correct the page");
        found.push(Violation::new(PAGE, 0, text));
    }
    found
}

/// The number and the text of a step, if the line is one.
fn step(line: &str) -> Option<(usize, &str)> {
    let (number, text) = line.split_once(". ")?;
    Some((number.parse().ok()?, text))
}

/// The faults of one step.
fn faults(tree: &Tree, step: &str) -> Vec<String> {
    let mut file: Option<&File> = None;
    let mut found = Vec::new();
    for name in step.split('`').skip(1).step_by(2) {
        if is_code(name) {
            let mut matching =
                tree.files.iter().filter(|file| format!("/{}", file.path).ends_with(&format!("/{name}")));
            file = matching.next();
            let others = matching.count();
            if file.is_none() || others > 0 {
                found.push(format!(
                    "`{name}` names {} files: write a path that names one",
                    others + usize::from(file.is_some())
                ));
            }
        } else if let Some(function) = function(name) {
            let declared =
                |file: &File| ["(", "<"].iter().any(|end| file.text.contains(&format!("fn {function}{end}")));
            if !file.is_some_and(declared) {
                let path = file.map_or("no file", |file| file.path.as_str());
                found.push(format!("`{name}` is not a function of {path}: name the file that has it before it"));
            }
        }
    }
    found
}

fn is_code(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, end)| end == "rs")
}

/// The function that a quoted name means: `name` or `Type::name`, with or without arguments. Types and folders are
/// none.
fn function(name: &str) -> Option<&str> {
    let name = name.split('(').next()?;
    let last = name.rsplit("::").next()?;
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    (!last.is_empty() && last.bytes().all(plain)).then_some(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(steps: &str) -> Vec<String> {
        let page =
            format!("1. outside `gone`\n\n{HEADING}\n\n{steps}\n1. a\n1. b\n1. c\n\n## Invariants\n\n1. `gone`\n");
        let files = [
            (PAGE, page.as_str()),
            ("crates/a/src/door.rs", "impl Door { fn open<T>(&self) {} }\nfn shut() {}\n"),
            ("crates/a/src/in/mod.rs", "fn enter() {}\n"),
            ("crates/b/src/in/mod.rs", "fn enter() {}\n"),
        ];
        violations(&Tree::of(&files)).into_iter().map(|violation| violation.text).collect()
    }

    #[test]
    fn steps_that_name_functions_of_their_files_pass() {
        let steps =
            "1. `a/src/door.rs`: `Door::open` and `shut` of a `Door` in `src/`; `b/src/in/mod.rs`: `enter(Kind::Big)`";
        assert_eq!(found(steps), Vec::<String>::new());
    }

    #[test]
    fn a_step_with_a_missing_function_or_file_is_caught() {
        assert!(found("1. `a/src/door.rs`: `lock`")[0].contains("`lock` is not a function of crates/a/src/door.rs"));
        assert!(found("1. `shut`")[0].contains("no file"), "no file is named before it");
        assert!(found("1. `in/mod.rs`")[0].contains("names 2 files"));
        assert!(found("1. `a/src/window.rs`")[0].contains("names 0 files"));
    }

    #[test]
    fn a_page_without_its_walks_is_caught() {
        assert!(found("2. `a/src/door.rs`: `shut`")[0].contains("3 walks"));
    }
}
