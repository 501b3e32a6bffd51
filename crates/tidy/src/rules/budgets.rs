//! Parts stay small enough to be read at once: functions fit a screen, files fit a sitting.

use crate::Violation;
use crate::exceptions::Exception;
use crate::source::{Function, Source, Sources, Token};

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
        let within_macros = in_macros(source);
        let all = source.functions.iter().chain(&within_macros);
        for function in all.filter(|function| function.lines > FUNCTION_LINES) {
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

/// Functions that the syntax tree does not show, as they are written inside a macro.
fn in_macros(source: &Source) -> Vec<Function> {
    let mut found = Vec::new();
    for (at, token) in source.tokens.iter().enumerate() {
        if token.text != "fn" || source.functions.iter().any(|function| function.line == token.line) {
            continue;
        }
        // The name of a macro's parameter has a dollar before it.
        let rest = &source.tokens[at + 1..];
        let name = rest.iter().map(|token| token.text.as_str()).find(|text| *text != "$").unwrap_or_default();
        if name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && let Some(last) = end_of_body(rest)
        {
            found.push(Function { name: name.to_owned(), line: token.line, lines: last - token.line + 1 });
        }
    }
    found
}

/// The line of the brace that closes the body of the function whose tokens these are; `None` without a body.
fn end_of_body(tokens: &[Token]) -> Option<usize> {
    let (mut depth, mut inside) = (0_usize, false);
    for token in tokens {
        match token.text.as_str() {
            "{" if depth == 0 => {
                inside = true;
                depth = 1;
            }
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" | ";" if depth == 0 => return None,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if inside && depth == 0 {
            return Some(token.line);
        }
    }
    None
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
    fn a_function_within_a_macro_has_the_same_budget() {
        let within = |lines: usize| {
            let body = "        g();\n".repeat(lines - 2);
            sources(&format!(
                "macro_rules! m {{\n    ($name:ident) => {{\n    fn $name() -> [u8; 2] {{\n{body}    }}\n    }};\n}}\n"
            ))
        };
        assert!(functions(&within(70), &[]).is_empty());
        assert_eq!(functions(&within(71), &[]).len(), 1);
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
