//! Parts stay small enough to be read at once: functions fit a screen, files fit a sitting.

use crate::Violation;
use crate::exceptions::Exception;
use crate::source::Sources;

/// Lines of a file without its tests, above which a reason is asked for.
const FILE_LINES: usize = 500;
/// Lines of a file without its tests that no reason excuses.
const FILE_LINES_MAX: usize = 800;
/// Lines of a function above which a reason is asked for.
const FUNCTION_LINES: usize = 70;
/// Lines of a function that no reason excuses.
const FUNCTION_LINES_MAX: usize = 120;

/// Files that are too long.
pub fn files(sources: &Sources, exceptions: &[Exception]) -> Vec<Violation> {
    let mut used = vec![false; exceptions.len()];
    let mut found = Vec::new();
    for source in sources.files.iter().filter(|source| source.lines > FILE_LINES) {
        let excused = Exception::covers(exceptions, &mut used, &source.path, "");
        if source.lines > FILE_LINES_MAX || !excused {
            let text = format!(
                "{} lines without tests, more than {FILE_LINES}: split it by noun (one packet, command or policy per file)",
                source.lines
            );
            found.push(Violation::new(&source.path, 0, text));
        }
    }
    found.extend(Exception::unused(exceptions, &used));
    found
}

/// Functions that are too long.
pub fn functions(sources: &Sources, exceptions: &[Exception]) -> Vec<Violation> {
    let mut used = vec![false; exceptions.len()];
    let mut found = Vec::new();
    for source in &sources.files {
        for function in source.functions.iter().filter(|function| function.lines > FUNCTION_LINES) {
            let excused = Exception::covers(exceptions, &mut used, &source.path, &function.name);
            if function.lines > FUNCTION_LINES_MAX || !excused {
                let text = format!(
                    "`{}` has {} lines, more than {FUNCTION_LINES}: keep the branching here and move the leaves out",
                    function.name, function.lines
                );
                found.push(Violation::new(&source.path, function.line, text));
            }
        }
    }
    found.extend(Exception::unused(exceptions, &used));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    const PATH: &str = "crates/x/src/lib.rs";
    const EXCUSE: [Exception; 1] = [Exception { path: PATH, function: "f", reason: "a table" }];

    fn sources(text: &str) -> Sources {
        Sources::load(&Tree::of(&[(PATH, text)])).unwrap()
    }

    fn function(lines: usize) -> Sources {
        sources(&format!("fn f() {{\n{}}}\n", "    g();\n".repeat(lines - 2)))
    }

    #[test]
    fn a_function_needs_a_reason_exactly_if_over_the_budget() {
        assert!(functions(&function(70), &[]).is_empty());
        assert_eq!(functions(&function(71), &[]).len(), 1);
        assert!(functions(&function(120), &EXCUSE).is_empty());
        assert_eq!(functions(&function(121), &EXCUSE).len(), 1);
    }

    #[test]
    fn an_excuse_for_a_short_function_is_caught() {
        assert_eq!(functions(&function(10), &EXCUSE).len(), 1);
    }

    #[test]
    fn tests_do_not_count_towards_a_file() {
        let code = "const A: u8 = 1;\n".repeat(500);
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "    const A: u8 = 1;\n".repeat(500));
        assert!(files(&sources(&(code.clone() + &tests)), &[]).is_empty());
        assert_eq!(files(&sources(&(code + "const B: u8 = 1;\n")), &[]).len(), 1);
    }
}
