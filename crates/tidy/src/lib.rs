//! The house rules that no compiler lint can hold: layering, purity, budgets, documented tables, clean text.
//!
//! Nothing ships from this crate. `cargo test -p tidegate-tidy` reads the working tree and fails with the file, the
//! line and the remedy. Each rule is in its own file below `rules` and has a test of its failures. Exceptions are in
//! [`exceptions`], each with its reason; an unneeded one fails, too.

mod attributes;
pub mod ceilings;
pub mod exceptions;
pub mod rules;
pub mod source;
pub mod tree;

use std::fmt;

/// One place that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The file, relative to the repository.
    pub path: String,
    /// The line, counted from 1; 0 when the whole file is meant.
    pub line: usize,
    /// The violation and its remedy.
    pub text: String,
}

impl Violation {
    /// A violation in a line of a file.
    pub fn new(path: &str, line: usize, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, text: text.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            write!(f, "{}: {}", self.path, self.text)
        } else {
            write!(f, "{}:{}: {}", self.path, self.line, self.text)
        }
    }
}

/// Puts violations one to a line, for an assertion's message.
pub fn report(violations: &[Violation]) -> String {
    violations.iter().fold(String::from("\n"), |text, violation| text + "  " + &violation.to_string() + "\n")
}
