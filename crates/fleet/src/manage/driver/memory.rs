//! The file with the memory of the policies.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Driver, DriverError, io_at, write};
use crate::manage::Manager;

/// The memory of the policies.
const MEMORY_FILE: &str = "policies.json";
/// Most bytes of it that are read: a season of a week, observed every 15 s, takes about one for each level.
const MAX_MEMORY: u64 = 16 * 1024 * 1024;
/// Time between two writings: a fleet that is observed more often forgets so much when its manager is killed.
const PAUSE: Duration = Duration::from_secs(1);

/// Restores the memory of an earlier manager. A malformed file, or one of another version, only costs the memory.
pub(super) fn recall(manager: &mut Manager, directory: &Path) -> Result<(), DriverError> {
    if let Some(problem) = restore(directory, manager)? {
        tracing::warn!(problem, "cannot restore the state of policies; their observations start again");
    }
    Ok(())
}

/// Restores readable state; returns a description of the rest, if there is any.
fn restore(directory: &Path, manager: &mut Manager) -> Result<Option<String>, DriverError> {
    let path = directory.join(MEMORY_FILE);
    let file = match File::open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(io_at("open", &path))?,
    };
    let mut text = String::new();
    let read = file.take(MAX_MEMORY).read_to_string(&mut text).map_err(|error| error.to_string());
    let problems = match read.and_then(|_| serde_json::from_str::<Value>(&text).map_err(|error| error.to_string())) {
        Ok(memory) => manager.recall(&memory),
        Err(error) => vec![format!("{}: {error}", path.display())],
    };
    Ok((!problems.is_empty()).then(|| problems.join("; ")))
}

impl Driver {
    /// Saves the memory of the policies.
    pub(super) fn keep_memory(&mut self) -> Result<(), DriverError> {
        if self.remembered.is_some_and(|at| at.elapsed() < PAUSE) {
            return Ok(());
        }
        self.remembered = Some(Instant::now());
        write(&self.directory.join(MEMORY_FILE), &self.manager.memory())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::decide::PolicyName;
    use crate::level::Level;
    use crate::manage::tests::memory::manager;

    #[test]
    fn a_file_that_is_damaged_costs_memories_and_nothing_else() {
        let directory = std::env::temp_dir().join(format!("tidegate-memory-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let mut manager = manager(PolicyName::Consecutive);
        recall(&mut manager, &directory).unwrap();
        for damaged in [&b"{\"broker\": {\"lead_time_ms\""[..], b"\xff\xfe", b"", b"[1]"] {
            fs::write(directory.join(MEMORY_FILE), damaged).unwrap();
            recall(&mut manager, &directory).unwrap();
        }
        assert!(manager.decisions.lead_times.is_empty());
        write(&directory.join(MEMORY_FILE), &serde_json::json!({"broker": {"lead_time_ms": 1500}})).unwrap();
        recall(&mut manager, &directory).unwrap();
        assert_eq!(manager.decisions.lead_times.get(&Level::Broker), Some(&Duration::from_millis(1500)));
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_memory_of_an_older_version_is_one_line_and_starts_again() {
        let directory = std::env::temp_dir().join(format!("tidegate-older-memory-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        for policy in [PolicyName::Default, PolicyName::HoltWinters, PolicyName::Latency] {
            let fresh = manager(policy).memory();
            let mut older = fresh.clone();
            for level in Level::ALL {
                // Earlier versions remembered fewer parts.
                older[level.name()]["policy"]["remembered"] = serde_json::json!([null]);
            }
            write(&directory.join(MEMORY_FILE), &older).unwrap();
            let mut next = manager(policy);
            let problem = restore(&directory, &mut next).unwrap().unwrap();
            assert!(problem.contains("level broker") && problem.contains("level orchestrator"), "{problem}");
            assert!(!problem.contains('\n'), "{problem}");
            assert_eq!(next.memory(), fresh);
        }
        fs::remove_dir_all(&directory).unwrap();
    }
}
