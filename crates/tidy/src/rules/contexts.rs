//! A context of the engine borrows few parts, so that its borrows show the state that a flow can change.

use crate::Violation;
use crate::tree::Tree;

/// The file that declares the contexts.
const PATH: &str = "crates/engine/src/flows/contexts.rs";
/// The line before the contexts.
const START: &str = "contexts! { ($)";
/// Parts that one context may borrow.
const PARTS: usize = 16;

/// Contexts that borrow more parts than a context may.
pub fn violations(tree: &Tree) -> Vec<Violation> {
    let text = tree.get(PATH).map_or("", |file| file.text.as_str());
    let (before, declared) = text.split_once(START).unwrap_or((text, ""));
    let mut line = before.lines().count();
    let mut context: Option<(&str, usize, usize)> = None;
    let mut found = Vec::new();
    let mut contexts = 0;
    for at in declared.lines() {
        line += 1;
        let code = at.trim();
        if let Some((_, name)) = code.strip_suffix(" {").and_then(|code| code.split_once(" => ")) {
            context = Some((name, line, 0));
        } else if let Some((name, line, parts)) = context.as_mut() {
            if code != "}" {
                *parts += code.split([',', ';']).filter(|part| !part.trim().is_empty()).count();
                continue;
            }
            contexts += 1;
            if *parts > PARTS {
                let text =
                    format!("`{name}` borrows {parts} parts, more than {PARTS}: join parts that change together");
                found.push(Violation::new(PATH, *line, text));
            }
            context = None;
        }
    }
    if contexts == 0 {
        found.push(Violation::new(PATH, 0, format!("no context follows `{START}`: correct the rule")));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(parts: usize) -> Vec<Violation> {
        let names: Vec<String> = (1..parts).map(|number| format!("part_{number}")).collect();
        let text = format!(
            "{START}\n    /// Doc.\n    a => A {{\n        mut {},\n            x;\n    }}\n}}\n",
            names.join(", ")
        );
        violations(&Tree::of(&[(PATH, &text)]))
    }

    #[test]
    fn a_context_borrows_a_limited_number_of_parts() {
        assert!(count(PARTS).is_empty());
        let found = count(PARTS + 1);
        assert_eq!((found.len(), found[0].line), (1, 3));
    }

    #[test]
    fn a_file_without_contexts_is_reported() {
        assert_eq!(violations(&Tree::of(&[(PATH, "")])).len(), 1);
    }
}
