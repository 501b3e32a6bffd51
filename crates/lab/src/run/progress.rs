//! A live view of runs on a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::load::Second;

/// What is told of a series of runs while it goes on.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// So many runs are to be made; some of them are there already.
    Begin {
        /// All of them.
        runs: usize,
        /// Those that are kept from an earlier time.
        kept: usize,
    },
    /// A run begins.
    Run {
        /// Its case, its broker and its repetition.
        what: String,
        /// How long it takes by its plan, without the time in which clients connect.
        about: Duration,
    },
    /// A second of load.
    Second(Second),
    /// Something happened to the broker, or the load came into another phase.
    Event(String),
    /// A run ended: a line about it.
    Done(String),
    /// Something that one has to know.
    Note(String),
}

/// Is told how a series goes.
pub trait Report {
    /// Is told one thing.
    fn say(&mut self, said: Said);
}

/// Bars on the standard error, when that is a terminal; lines, when it is not.
#[derive(Debug)]
pub struct Bars {
    all: ProgressBar,
    terminal: bool,
    doing: String,
}

impl Default for Bars {
    fn default() -> Self {
        Self {
            all: ProgressBar::hidden(),
            terminal: std::io::IsTerminal::is_terminal(&std::io::stderr()),
            doing: String::new(),
        }
    }
}

impl Bars {
    fn line(&self, text: &str) {
        if self.terminal {
            self.all.suspend(|| eprintln!("{text}"));
        } else {
            eprintln!("{text}");
        }
    }
}

impl Report for Bars {
    fn say(&mut self, said: Said) {
        match said {
            Said::Begin { runs, kept } => {
                if self.terminal {
                    self.all =
                        ProgressBar::new(runs as u64).with_style(style("{pos}/{len} runs [{bar:24}] {elapsed} {msg}"));
                    self.all.enable_steady_tick(Duration::from_secs(1));
                }
                self.all.set_position(kept as u64);
                if kept > 0 {
                    self.line(&format!("{kept} of {runs} runs are there already"));
                }
            }
            Said::Run { what, about } => {
                if self.terminal {
                    self.all.set_message(what.clone());
                } else {
                    self.line(&format!("{what}, about {} s", about.as_secs()));
                }
                self.doing = what;
            }
            Said::Second(second) => {
                let Second { second: at, connected, sent, received, p99_ns, .. } = second;
                let p99 = Duration::from_nanos(p99_ns);
                self.all.set_message(format!(
                    "{}: {at} s, {connected} clients, {sent}/s sent, {received}/s received, p99 {p99:.1?}",
                    self.doing
                ));
            }
            Said::Event(what) => {
                if self.terminal {
                    self.all.set_message(format!("{}: {what}", self.doing));
                }
            }
            Said::Done(line) => {
                self.line(&line);
                self.all.inc(1);
            }
            Said::Note(line) => self.line(&format!("note: {line}")),
        }
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        self.all.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_style_is_one() {
        assert!(ProgressStyle::with_template("{pos}/{len} runs [{bar:24}] {elapsed} {msg}").is_ok());
    }
}
