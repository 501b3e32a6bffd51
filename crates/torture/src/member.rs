//! A process that is struck and started again when it is due.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use crate::broker::{Broker, Recipe};
use crate::failure::Failure;

/// The last lines of a process that are kept.
const LAST_LINES: usize = 12;
/// Ends without a signal that are remembered.
const ENDS: usize = 3;
/// A process that ends without a signal within this time is started again after a pause.
const SHORT_LIFE: Duration = Duration::from_secs(3);
/// The first pause; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// A process that is started again, or continues, when it is due.
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) recipe: Recipe,
    pub(crate) running: Option<Broker>,
    /// When it is started again, or resumed.
    back_at: Instant,
    is_frozen: bool,
    /// A strike has not ended yet.
    is_struck: bool,
    /// How often it was started again, or went on, after a strike.
    pub(crate) returned: u64,
    /// SIGTERM was sent, so that its end is no fault.
    is_asked: bool,
    /// How often it ended without a signal.
    pub(crate) gave_up: u64,
    /// How often in a row it did so at once.
    short_lives: u32,
    /// Last lines of the process at each end without a signal, the latest last.
    ends: VecDeque<String>,
}

impl Member {
    /// A process that was not started, with its data folder.
    pub(crate) fn new(name: String, command: String, port: u16, data: PathBuf) -> Result<Self, Failure> {
        std::fs::create_dir_all(&data).map_err(Failure::file("creating", &data))?;
        let recipe = Recipe { command, port, data, environment: Vec::new() };
        let back_at = Instant::now();
        let (running, ends) = (None, VecDeque::new());
        Ok(Self {
            name,
            recipe,
            running,
            back_at,
            is_frozen: false,
            is_struck: false,
            returned: 0,
            is_asked: false,
            gave_up: 0,
            short_lives: 0,
            ends,
        })
    }

    /// True if it is started, not frozen, and was not asked to end.
    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some() && !self.is_frozen && !self.is_asked
    }

    /// True while it was stopped where it stands.
    pub(crate) fn is_frozen(&self) -> bool {
        self.is_frozen
    }

    /// Starts it, or lets it continue, when it is due.
    pub(crate) fn tend(&mut self, now: Instant) -> Result<(), Failure> {
        if let Some(status) = self.running.as_mut().and_then(Broker::ended) {
            self.note_end(status, now);
        }
        if self.back_at > now {
            return Ok(());
        }
        match &self.running {
            None => {
                self.running = Some(self.recipe.start()?);
                self.is_asked = false;
            }
            Some(process) if self.is_frozen => process.thaw()?,
            // One that was asked to end has not yet.
            Some(_) => return Ok(()),
        }
        self.is_frozen = false;
        self.returned += u64::from(std::mem::take(&mut self.is_struck));
        Ok(())
    }

    /// It has ended. One that ends without a signal, such as a node that has lost its lease, is started again at once,
    /// and after a pause if it gives up at once each time.
    fn note_end(&mut self, status: ExitStatus, now: Instant) {
        let Some(mut process) = self.running.take() else { return };
        if self.is_asked {
            return;
        }
        self.gave_up += 1;
        let lived = process.started.elapsed();
        if self.ends.len() == ENDS {
            self.ends.pop_front();
        }
        self.ends.push_back(format!("ended ({status}) after {lived:.1?}: {}", last_lines(&mut process)));
        if lived < SHORT_LIFE {
            let pause = FIRST_PAUSE.saturating_mul(1 << self.short_lives.min(8)).min(LONGEST_PAUSE);
            self.short_lives += 1;
            self.back_at = self.back_at.max(now + pause);
        } else {
            self.short_lives = 0;
        }
    }

    /// Makes it due.
    pub(crate) fn return_now(&mut self) {
        self.back_at = Instant::now();
    }

    /// Kills it; it is started again when it is due.
    pub(crate) fn kill(&mut self, back_at: Instant) -> Result<(), Failure> {
        if let Some(mut process) = self.running.take() {
            process.kill()?;
        }
        self.is_struck = true;
        self.back_at = back_at;
        Ok(())
    }

    /// Asks it to end; it is started again once it has ended and is due.
    pub(crate) fn stop(&mut self, back_at: Instant) -> Result<(), Failure> {
        if let Some(process) = &self.running {
            process.ask_to_end()?;
            self.is_asked = true;
        }
        self.is_struck = true;
        self.back_at = back_at;
        Ok(())
    }

    /// Suspends it (SIGSTOP) until it is due.
    pub(crate) fn freeze(&mut self, back_at: Instant) -> Result<(), Failure> {
        if let Some(process) = &self.running {
            process.freeze()?;
            self.is_frozen = true;
        }
        self.is_struck = true;
        self.back_at = back_at;
        Ok(())
    }

    /// Its name, its last lines, and its last lines at earlier ends without a signal.
    pub(crate) fn output(&mut self) -> String {
        let now = self.running.as_mut().map_or_else(|| "not running".to_owned(), last_lines);
        let ends: Vec<&str> = self.ends.iter().map(String::as_str).collect();
        if ends.is_empty() {
            return format!("[{}] {now}", self.name);
        }
        format!("[{}] {now}; before that it {} times {}", self.name, self.gave_up, ends.join("; "))
    }
}

fn last_lines(process: &mut Broker) -> String {
    let lines = process.output();
    lines[lines.len().saturating_sub(LAST_LINES)..].join(" / ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_lines_of_an_ended_process_are_kept() {
        let folder = std::env::temp_dir().join(format!("tidegate-torture-member-{}", std::process::id()));
        let command = "sh -c 'echo the port is taken; exit 3'".to_owned();
        let mut member = Member::new("node".to_owned(), command, 1, folder.join("data")).unwrap();
        let begun = Instant::now();
        member.tend(begun).unwrap();
        while member.gave_up == 0 {
            member.tend(begun).unwrap();
            std::thread::yield_now();
        }
        assert!(member.running.is_none() && member.back_at > begun, "it is not started again at once");
        let said = member.output();
        assert!(said.contains("exit status: 3") && said.contains("the port is taken"), "{said}");
        member.tend(member.back_at).unwrap();
        assert!(member.running.is_some());
        drop(member);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_member_that_was_asked_to_end_is_not_running() {
        let folder = std::env::temp_dir().join(format!("tidegate-torture-asked-{}", std::process::id()));
        let mut member = Member::new("node".to_owned(), "sleep 60".to_owned(), 1, folder.join("data")).unwrap();
        let begun = Instant::now();
        member.tend(begun).unwrap();
        assert!(member.is_running());
        let back_at = begun + Duration::from_secs(60);
        member.stop(back_at).unwrap();
        assert!(!member.is_running(), "it may take its time");
        while member.running.is_some() {
            member.tend(begun).unwrap();
            std::thread::yield_now();
        }
        member.tend(back_at).unwrap();
        assert!(member.is_running());
        drop(member);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
