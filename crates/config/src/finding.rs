//! Errors in a configuration, shown so that they can be corrected.

use std::fmt;

use tidegate_units::excerpt::{Excerpt, excerpt};

use super::credentials::shown_line;
use super::source::{FileText, Source};
use super::value::Problem;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The problem.
    pub problem: Problem,
    /// The source of the value.
    pub source: Source,
}

/// All that is wrong with a configuration, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    list: Vec<Finding>,
    file: Option<FileText>,
}

impl Findings {
    /// An empty list of findings about this file.
    pub fn about(file: Option<FileText>) -> Self {
        Self { list: Vec::new(), file }
    }

    /// Adds one.
    pub fn push(&mut self, problem: Problem, source: Source) {
        self.list.push(Finding { problem, source });
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Puts the findings of the file in its order, before the findings of the environment and the command line.
    pub fn sort(&mut self) {
        self.list.sort_by_key(|finding| match &finding.source {
            Source::Default => (0, 0),
            Source::File(span) => (1, span.start),
            Source::Environment(_) => (2, 0),
            Source::Flag(_) => (3, 0),
        });
    }
}

impl std::error::Error for Findings {}

impl fmt::Display for Findings {
    /// Each finding with its place, the line it is about, and what to do; a blank line between two.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, finding) in self.list.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            writeln!(f, "error: {}", finding.problem.message)?;
            match (&finding.source, &self.file) {
                (Source::Default, _) => {}
                (Source::File(span), Some(file)) => quote_line(f, file, span)?,
                (source, _) => writeln!(f, "  --> {source}")?,
            }
            if let Some(hint) = &finding.problem.hint {
                writeln!(f, "hint: {hint}")?;
            }
        }
        Ok(())
    }
}

/// The line that a span begins in, with marks below the span.
fn quote_line(f: &mut fmt::Formatter<'_>, file: &FileText, span: &std::ops::Range<usize>) -> fmt::Result {
    let place = file.line_column(span.start);
    let written = file.line(place.line).trim_end();
    let line =
        shown_line(file.text.lines().take(place.line.saturating_sub(1)).collect::<Vec<_>>().into_iter(), written);
    let number = place.line.to_string();
    let margin = " ".repeat(number.len());
    let inside = file.text.get(span.clone()).unwrap_or_default();
    let marked = inside.lines().next().unwrap_or_default().chars().count();
    let Excerpt { text, column } = excerpt(&line, place.column);
    let room = text.chars().count().saturating_sub(column - 1);
    // A tab before the span is as wide above as below.
    let before: String =
        text.chars().take(column - 1).map(|character| if character == '\t' { '\t' } else { ' ' }).collect();
    writeln!(f, "{margin}--> {}:{}:{}", file.name, place.line, place.column)?;
    if line.contains("://") && line.contains('@') {
        // An address with a password is repeated nowhere.
        return Ok(());
    }
    writeln!(f, "{margin} |")?;
    writeln!(f, "{number} | {text}")?;
    if line != written {
        // The omitted text has moved the place.
        return Ok(());
    }
    writeln!(f, "{margin} | {before}{}", "^".repeat(marked.min(room).max(1)))
}
