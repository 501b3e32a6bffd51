//! The progress of a series of runs: a live view on a terminal, or lines without one.

mod view;

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use view::{View, wrapped};

use crate::load::Second;

/// Columns of a terminal that does not say how many it has.
const USUAL_COLUMNS: usize = 80;
/// Without a terminal, a line for this many seconds of load shows that it continues.
const LINE_EVERY_S: u32 = 60;

/// A report about a series of runs in progress.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// The number of planned runs; some of them exist already.
    Begin {
        /// All of them.
        runs: usize,
        /// Number of runs kept from earlier.
        kept: usize,
        /// How long the others take by their plans, without the start and the end of brokers.
        about: Duration,
    },
    /// A run begins.
    Run {
        /// Its case, its broker and its repetition.
        case: String,
        /// How long it takes by its plan, without the time in which clients connect.
        about: Duration,
    },
    /// A second of load.
    Second(Second),
    /// Something happened to the broker, or the load came into another phase.
    Event(String),
    /// A run ended: a line about it.
    Done(String),
    /// A note for the user.
    Note(String),
}

/// Receives the progress of a series.
pub trait Report {
    /// Receives one report.
    fn say(&mut self, said: Said);
}

/// A view on the standard error, when that is a terminal; lines, when it is not.
#[derive(Debug)]
pub struct Live {
    view: View,
    begin: Instant,
    is_terminal: bool,
    /// How long the rows are that stand on the terminal now.
    drawn: Vec<usize>,
}

impl Default for Live {
    fn default() -> Self {
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        Self {
            view: View::new(speaks_unicode()),
            begin: Instant::now(),
            is_terminal: std::io::stderr().is_terminal() && !is_dumb,
            drawn: Vec::new(),
        }
    }
}

/// Whether the terminal's characters are more than ASCII, as the system's settings say.
fn speaks_unicode() -> bool {
    let said = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    said.is_some_and(|said| said.to_ascii_lowercase().replace('-', "").contains("utf8"))
}

fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stderr());
    size.ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(USUAL_COLUMNS)
}

impl Live {
    /// The output: lines that stay, and the view below them.
    fn write(&mut self, lines: &[String]) {
        let width = columns();
        let mut out = erased(&self.drawn, width);
        for line in lines {
            for row in wrapped(line, width) {
                out.push_str(&row);
                out.push_str("\r\n");
            }
        }
        let rows = self.view.rows(width, self.begin.elapsed());
        out.push_str(&rows.join("\r\n"));
        self.drawn = rows.iter().map(|row| row.chars().count()).collect();
        // A closed terminal takes nothing, and the run continues.
        let _ = std::io::stderr().write_all(out.as_bytes());
    }
}

/// The escape sequence that removes rows from a terminal with this number of columns. A terminal that has become
/// narrower has wrapped long rows.
fn erased(drawn: &[usize], columns: usize) -> String {
    let height: usize = drawn.iter().map(|len| len.div_ceil(columns.max(1)).max(1)).sum();
    match height {
        0 => String::new(),
        1 => "\r\x1b[J".to_owned(),
        _ => format!("\r\x1b[{}A\x1b[J", height - 1),
    }
}

/// The text that stays on the terminal, or is a line of its own without one.
fn line(said: &Said) -> Option<String> {
    match said {
        Said::Begin { runs, kept, about } => begins(*runs, *kept, *about),
        Said::Done(line) => Some(line.clone()),
        Said::Note(line) => Some(format!("note: {line}")),
        _ => None,
    }
}

/// The amount of work; `None` for a single run, which reports it itself.
fn begins(runs: usize, kept: usize, about: Duration) -> Option<String> {
    let there = if kept > 0 { format!("{kept} of {runs} runs are there already") } else { format!("{runs} runs") };
    let seconds = about.as_millis().div_ceil(1000);
    let load = Duration::from_secs(u64::try_from(seconds).unwrap_or(u64::MAX));
    let load = humantime::format_duration(load);
    match runs.saturating_sub(kept) {
        0 => Some(there),
        1 if runs == 1 => None,
        _ if about.is_zero() => Some(there),
        _ if kept > 0 => {
            Some(format!("{there}; the others take {load} of load, and each of them the start and the end of a broker"))
        }
        _ => Some(format!("{there}: {load} of load, and for each the start and the end of a broker")),
    }
}

impl Report for Live {
    fn say(&mut self, said: Said) {
        self.view.take(&said, self.begin.elapsed());
        let line = line(&said);
        if self.is_terminal {
            self.write(line.as_slice());
            return;
        }
        let line = match &said {
            Said::Run { case, about } => Some(format!("{case}, about {} s", about.as_secs().max(1))),
            Said::Second(second) if second.second > 0 && second.second.is_multiple_of(LINE_EVERY_S) => {
                Some(self.view.second_line(second))
            }
            _ => line,
        };
        if let Some(line) = line {
            eprintln!("{line}");
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if !self.drawn.is_empty() {
            let _ = std::io::stderr().write_all(erased(&self.drawn, columns()).as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_erased_from_a_narrowed_terminal() {
        assert_eq!(erased(&[], 80), "");
        assert_eq!(erased(&[70], 80), "\r\x1b[J");
        assert_eq!(erased(&[70, 10, 0], 80), "\r\x1b[2A\x1b[J");
        assert_eq!(erased(&[70, 10, 0], 40), "\r\x1b[3A\x1b[J");
    }

    #[test]
    fn a_series_says_first_how_long_it_takes() {
        let begins = |runs, kept, ms| begins(runs, kept, Duration::from_millis(ms)).unwrap_or_default();
        assert_eq!(begins(18, 0, 44_900), "18 runs: 45s of load, and for each the start and the end of a broker");
        assert!(begins(18, 3, 60_000).starts_with("3 of 18 runs are there already; the others take 1m of load"));
        assert_eq!((begins(18, 18, 0), begins(1, 0, 5)), ("18 of 18 runs are there already".to_owned(), String::new()));
        assert_eq!(begins(4, 0, 0), "4 runs", "tests whose time is not planned");
    }
}
