//! One of several processes that carry out a plan together: its orders and answers are lines of JSON.

use std::io::{BufRead, Write};
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use serde::{Deserialize, Serialize};

use super::core::Totals;
use super::error::LoadError;
use super::outcome::{LoadOutcome, Second};
use super::plan::LoadPlan;
use super::shell::{Clock, Coordinator, Shell};

/// The task of a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) plan: LoadPlan,
    /// Its number among the plan's processes, from 0.
    pub(super) worker: u32,
    /// The run's zero on the monotonic clock.
    pub(super) zero_ns: u64,
}

/// A notice to a worker while it works.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Told {
    /// All clients of all are there: publishing begins then.
    Begin(u64),
    /// All is sent by all: this.
    Sent(Totals),
    /// The run ends early.
    Stop,
}

/// A report of a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Said {
    /// Its clients are there.
    Gathered,
    /// It has sent all.
    Sent(Totals),
    /// A second has passed.
    Second(Second),
    /// It is done.
    Done(Box<LoadOutcome>),
    /// It could not go on.
    Failed(String),
}

/// Carries out a part of a plan, read from `input`, and writes the outcome to `output`. A process whose command line
/// ends in this is a worker.
///
/// # Errors
/// When the other end sends invalid lines, or has closed.
pub fn work(mut input: impl BufRead + Send + 'static, mut output: impl Write) -> Result<(), LoadError> {
    let mut line = String::new();
    let lost = |problem: String| LoadError::Worker { worker: 0, problem };
    input.read_line(&mut line).map_err(|error| lost(error.to_string()))?;
    let job: Job = serde_json::from_str(&line).map_err(|error| lost(error.to_string()))?;
    let (told, hears) = channel();
    std::thread::spawn(move || {
        let mut lines = input.lines();
        while let Some(Ok(line)) = lines.next() {
            let Ok(message) = serde_json::from_str(&line) else { return };
            if told.send(message).is_err() {
                return;
            }
        }
    });
    let mut piped = Piped {
        worker: job.worker,
        output: &mut output,
        hears,
        said: Asked::Nothing,
        stop: false,
        begin: None,
        sent: None,
    };
    let ended = Shell::new(job.plan, job.worker, Clock::at(job.zero_ns), &mut piped).and_then(Shell::run);
    piped.say(&match ended {
        Ok(outcome) => Said::Done(Box::new(outcome)),
        Err(error) => Said::Failed(error.to_string()),
    })
}

/// The reports of a worker, so that each is sent once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Asked {
    Nothing,
    Gathered,
    Sent,
}

/// A worker's connection to the coordinator.
struct Piped<'a, W: Write> {
    worker: u32,
    output: &'a mut W,
    hears: Receiver<Told>,
    said: Asked,
    stop: bool,
    begin: Option<u64>,
    sent: Option<Totals>,
}

impl<W: Write> Piped<'_, W> {
    fn say(&mut self, message: &Said) -> Result<(), LoadError> {
        let lost = |error: std::io::Error| LoadError::Worker { worker: self.worker, problem: error.to_string() };
        serde_json::to_writer(&mut *self.output, message).map_err(|error| lost(error.into()))?;
        self.output.write_all(b"\n").and_then(|()| self.output.flush()).map_err(lost)
    }

    fn hear(&mut self) {
        loop {
            match self.hears.try_recv() {
                Ok(Told::Begin(at_ns)) => self.begin = Some(at_ns),
                Ok(Told::Sent(totals)) => self.sent = Some(totals),
                // The caller of the run has gone, and no one reads the result.
                Ok(Told::Stop) | Err(TryRecvError::Disconnected) => {
                    self.stop = true;
                    return;
                }
                Err(TryRecvError::Empty) => return,
            }
        }
    }
}

impl<W: Write> Coordinator for Piped<'_, W> {
    fn is_stopped(&mut self) -> bool {
        self.hear();
        self.stop
    }

    fn gathered(&mut self, _: u64) -> Result<Option<u64>, LoadError> {
        if self.said < Asked::Gathered {
            self.said = Asked::Gathered;
            self.say(&Said::Gathered)?;
        }
        Ok(self.begin)
    }

    fn all_sent(&mut self, totals: &Totals) -> Result<Option<Totals>, LoadError> {
        if self.said < Asked::Sent {
            self.said = Asked::Sent;
            self.say(&Said::Sent(totals.clone()))?;
        }
        Ok(self.sent.take())
    }

    fn second(&mut self, second: &Second) {
        // Without the listener, the next question fails.
        let _ = self.say(&Said::Second(*second));
    }
}
