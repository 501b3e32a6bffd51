//! A process that outlives a killed lab to end its remaining processes.

use std::fs;
use std::io::{self, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::{PeerPaths, left_behind};
use crate::stop::Stop;

/// The command of this program that watches: `tidegate lab watch`.
const WATCH: &str = "watch";
/// The message of a lab that ends in order, with its brokers stopped.
const FAREWELL: u8 = b'.';
/// Number of searches for left processes: a process that was just being started has no name yet.
const LOOKS: u32 = 5;
/// Between two of them.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The lab's end of a watchdog.
#[derive(Debug)]
pub struct Watchdog {
    child: Child,
}

impl Watchdog {
    /// Starts one for all brokers of a place, in its own process group: Ctrl-C does not reach it.
    ///
    /// # Errors
    /// When the system gives no process.
    pub fn start(place: &PeerPaths) -> io::Result<Self> {
        let mut command = Command::new(&place.executable);
        command.arg(WATCH).arg(&place.scratch).process_group(0);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        Ok(Self { child })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        if let Some(mut input) = self.child.stdin.take() {
            // A killed lab sends no farewell.
            let _ = input.write_all(&[FAREWELL]);
        }
        let _ = self.child.wait();
    }
}

/// Waits for the end of the lab at the other end of `input`, and kills all brokers below `scratch` when it had not
/// stopped them, with their files.
pub fn watch(scratch: &Path, mut input: impl Read) {
    let mut said = Vec::new();
    // A broken input counts as closed.
    let _ = input.read_to_end(&mut said);
    if said.contains(&FAREWELL) {
        return;
    }
    // This wait cannot be interrupted.
    let wait = Stop::default();
    for _ in 0..LOOKS {
        left_behind::kill(scratch);
        wait.wait(LOOK_EVERY);
    }
    // A failure leaves files in the temporary directory alone.
    let _ = fs::remove_dir_all(scratch);
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn only_processes_of_a_killed_lab_are_ended() {
        let scratch = std::env::temp_dir().join(format!("tidegate-lab-watched-{}", std::process::id()));
        let broker = scratch.join("broker-1");
        fs::create_dir_all(&broker).unwrap();
        let mut left = Command::new("sleep").arg("3600").env(left_behind::MARK, &broker).spawn().unwrap();
        watch(&scratch, &[FAREWELL][..]);
        assert!(left.try_wait().unwrap().is_none() && broker.exists());
        watch(&scratch, io::empty());
        assert!(!left.wait().unwrap().success());
        assert!(!scratch.exists());
    }
}
