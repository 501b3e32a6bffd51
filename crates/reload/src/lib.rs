//! A new configuration for a broker that runs: read, checked as a whole, and put in force as a whole or not at all.
//!
//! Each part that can change while the broker runs is a [`Reloadable`] in its own file. First all of them prepare
//! the new values, which reads and checks every file and changes nothing; when none objects, all of them put it in force.

mod access_rules;
mod admin_token;
mod admission;
mod difference;
mod limits;
mod log_level;
mod operations;
mod outcome;
mod serving;
mod tenants;
mod tls_files;

pub use access_rules::AccessRules;
pub use admin_token::AdminToken;
pub use admission::AdmissionRules;
pub use difference::Change;
pub use limits::LimitKeys;
pub use log_level::LogLevels;
pub use operations::BrokerOperations;
pub use outcome::Outcome;
pub use tenants::TenantSections;
pub use tls_files::TlsFiles;

use std::sync::{Mutex, PoisonError};

use tidegate_config::Config;
use tidegate_config::load::Sources;
use tidegate_config::path::KeyPath;
use tidegate_config::reload::Reloadable;
use tidegate_identity::access::Tenancy;

use difference::{Shown, compare};
use serving::Serving;

/// Reads the configuration again, from its sources at the start.
pub struct Reloader {
    sources: Sources,
    parts: Vec<Box<dyn Reloadable>>,
    /// Knows the numbers of tenants, which engines and stored keys go by.
    tenancy: Tenancy,
    running: Mutex<Running>,
}

/// The configuration in force.
struct Running {
    /// The values of keys. Keys that wait for a restart keep their values from the start.
    keys: Shown,
    serving: Serving,
    /// Whether the file of the last configuration set a key.
    file_has_keys: bool,
}

impl Reloader {
    /// For a broker that was started with this configuration, out of these sources.
    pub fn new(sources: Sources, started_with: &Config, tenancy: Tenancy, parts: Vec<Box<dyn Reloadable>>) -> Self {
        let serving = Serving::of(started_with);
        let keys = Shown::of(started_with, &serving);
        let running = Running { keys, serving, file_has_keys: started_with.origins.file_has_keys() };
        Self { sources, parts, tenancy, running: Mutex::new(running) }
    }

    /// Reads, checks, compares and puts in force. One at a time.
    pub fn reload(&self) -> Outcome {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let config = match self.sources.load() {
            Ok(config) => config,
            Err(error) => return Outcome::Refused { problem: error.to_string() },
        };
        let file_has_keys = config.origins.file_has_keys();
        if let Some(file) = self.sources.file.as_ref().filter(|_| running.file_has_keys && !file_has_keys) {
            let file = file.display();
            let problem =
                format!("{file} has no key any more, as if it was cut off; restore it, or restart the broker");
            return Outcome::Refused { problem };
        }
        let serving = match running.serving.after(&config) {
            Ok(serving) => serving,
            Err(error) => return Outcome::Refused { problem: error.to_string() },
        };
        // Parts see tenants and listeners in the order of their numbers; people see tenants as they have written them.
        let numbered = match self.tenancy.numbered(&config) {
            Ok(numbered) => Config { listeners: serving.listeners(), ..numbered },
            Err(error) => return Outcome::Refused { problem: error.to_string() },
        };
        let mut prepared = Vec::new();
        for part in &self.parts {
            match part.prepare(&numbered) {
                Ok(ready) => prepared.push(ready),
                Err(problem) => return Outcome::Refused { problem: format!("{}: {problem}", part.name()) },
            }
        }
        let takes = |key: &KeyPath| {
            let is_current = key.section != "listener" || serving.is_current(key.index);
            is_current && self.parts.iter().any(|part| part.takes(key))
        };
        let mut changes = compare(&running.keys, &Shown::of(&config, &serving), takes);
        let mut files = Vec::new();
        for (part, ready) in self.parts.iter().zip(prepared) {
            files.extend(ready.commit().into_iter().map(|line| format!("{}: {line}", part.name())));
        }
        running.keys.take_live(&changes);
        (running.serving, running.file_has_keys) = (serving, file_has_keys);
        changes.retain(|change| !change.is_unsaid());
        Outcome::Applied { parts: self.parts.iter().map(|part| part.name()).collect(), files, changes }
    }
}

#[cfg(test)]
mod tests;
