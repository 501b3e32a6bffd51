//! Faults of a file.

use std::fmt;

use tidegate_units::excerpt::excerpt;

use super::{FileText, LineColumn};

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The position in the file, bytes.
    pub offset: usize,
    /// The fault, with the key.
    pub message: String,
    /// The remedy.
    pub hint: String,
}

/// All faults of a file. Shown with `FILE:LINE:COLUMN` and the remedy of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Findings {
    file: FileText,
    list: Vec<Finding>,
}

impl Findings {
    /// An empty list of faults of this file.
    pub fn about(file: &FileText) -> Self {
        Self { file: file.clone(), list: Vec::new() }
    }

    /// Adds one.
    pub fn note(&mut self, offset: usize, message: impl Into<String>, hint: impl Into<String>) {
        self.list.push(Finding { offset, message: message.into(), hint: hint.into() });
    }

    /// Whether there are no faults.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The faults.
    pub fn list(&self) -> &[Finding] {
        &self.list
    }

    pub(crate) fn sorted(mut self) -> Self {
        self.list.sort_by_key(|finding| finding.offset);
        if self.list.is_empty() {
            self.note(0, "the file cannot be understood", "compare it with the examples");
        }
        self
    }
}

impl std::error::Error for Findings {}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, finding) in self.list.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            let LineColumn { line, column } = self.file.line_column(finding.offset);
            let text = excerpt(self.file.line(line).trim_end(), column).text;
            if number > 0 {
                // The report of the whole begins with it.
                write!(f, "error: ")?;
            }
            writeln!(f, "{}", finding.message)?;
            writeln!(f, "  --> {}:{line}:{column}", self.file.name)?;
            writeln!(f, "   | {text}")?;
            write!(f, "hint: {}", finding.hint)?;
        }
        Ok(())
    }
}
