//! A process that is struck and started again when it is due.

use std::path::PathBuf;
use std::time::Instant;

use crate::broker::{Broker, Recipe};
use crate::failure::Failure;

/// A process that is started again, or continues, when it is due.
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) recipe: Recipe,
    pub(crate) running: Option<Broker>,
    /// When it is started again, or continues where it stands still.
    back_at: Instant,
    is_frozen: bool,
    /// SIGTERM was sent, so that its end is no fault.
    is_asked: bool,
    /// How often it ended without a signal.
    pub(crate) gave_up: u64,
}

impl Member {
    /// A process that was not started, with its data folder.
    pub(crate) fn new(name: String, command: String, port: u16, data: PathBuf) -> Result<Self, Failure> {
        std::fs::create_dir_all(&data).map_err(Failure::file("creating", &data))?;
        let recipe = Recipe { command, port, data, environment: Vec::new() };
        let back_at = Instant::now();
        Ok(Self { name, recipe, running: None, back_at, is_frozen: false, is_asked: false, gave_up: 0 })
    }

    /// True if it is started and not frozen.
    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some() && !self.is_frozen
    }

    /// Starts it, or lets it continue, when it is due.
    pub(crate) fn tend(&mut self, now: Instant) -> Result<(), Failure> {
        if self.running.as_mut().is_some_and(|process| process.ended().is_some()) {
            // One that ends without a signal, such as a node that has lost its lease, is started again at once.
            self.gave_up += u64::from(!self.is_asked);
            self.running = None;
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
            Some(_) => {}
        }
        self.is_frozen = false;
        Ok(())
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
        self.back_at = back_at;
        Ok(())
    }

    /// Asks it to end; it is started again once it has ended and is due.
    pub(crate) fn stop(&mut self, back_at: Instant) -> Result<(), Failure> {
        if let Some(process) = &self.running {
            process.ask_to_end()?;
            self.is_asked = true;
        }
        self.back_at = back_at;
        Ok(())
    }

    /// Stops it where it stands, until it is due.
    pub(crate) fn freeze(&mut self, back_at: Instant) -> Result<(), Failure> {
        if let Some(process) = &self.running {
            process.freeze()?;
            self.is_frozen = true;
        }
        self.back_at = back_at;
        Ok(())
    }

    /// Its name and the last lines that it wrote.
    pub(crate) fn output(&mut self) -> String {
        let lines = self.running.as_mut().map(Broker::output).unwrap_or_default();
        let last = lines.len().saturating_sub(5);
        format!("[{}] {}", self.name, lines[last..].join(" / "))
    }
}
