//! `tidegate reload`: has a running broker read its configuration again.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args as ClapArgs;
use rustix::process::{Pid, Signal, kill_process};
use tidegate_admin::ReloadRequest;
use tidegate_admin::members::RELOAD_PATIENCE;
use tidegate_terminal::{Exit, complain, print_and_exit, report};

use crate::admin_client::{AdminArgs, AdminError, name_unreachable};

/// Time within which it must have read its files and answered, with the answers of the other nodes of its cluster.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
const _: () =
    assert!(ANSWER_TIMEOUT.as_secs() > RELOAD_PATIENCE.as_secs() + 5, "the answer comes before it is given up");
/// Longest file with a process id, bytes.
const MAX_PID_FILE: u64 = 64;

/// The broker.
#[derive(Clone, Debug, ClapArgs)]
pub struct Args {
    /// Its admin listener
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:18083")]
    admin: String,
    /// Send SIGHUP to the process whose id is in this file instead; the outcome is then in the broker's log
    #[arg(long, value_name = "FILE", conflicts_with = "admin")]
    pid: Option<PathBuf>,
    /// File with the token of the broker's `admin.token_file`; needed where the broker is on another machine
    #[arg(long, value_name = "FILE", conflicts_with = "pid")]
    token_file: Option<PathBuf>,
}

/// Why it could not be asked.
#[derive(Debug, thiserror::Error)]
enum ReloadError {
    #[error(transparent)]
    Admin(#[from] AdminError),
    #[error("cannot read {}: {source}", path.display())]
    PidFile { path: PathBuf, source: io::Error },
    #[error("{} holds no process id", .0.display())]
    PidText(PathBuf),
    #[error("cannot send SIGHUP to process {pid}: {source}")]
    Signal { pid: i32, source: io::Error },
}

/// Exit code 0 when the new configuration is in force, 1 when it is not.
pub fn run(args: &Args) -> Exit {
    let done = match &args.pid {
        Some(path) => signal(path)
            .map(|pid| (format!("sent SIGHUP to process {pid}; its log has the outcome\n"), true, Vec::new())),
        None => ask(&AdminArgs { admin: args.admin.clone(), token_file: args.token_file.clone() }),
    };
    match done {
        Ok((text, true, unreachable)) => print_and_exit(&text, name_unreachable(&unreachable)),
        Ok((text, false, _)) => {
            complain(text);
            Exit::Failure
        }
        Err(error) => {
            report(&error);
            Exit::Failure
        }
    }
}

fn signal(path: &Path) -> Result<i32, ReloadError> {
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(MAX_PID_FILE).read_to_string(&mut text))
        .map_err(|source| ReloadError::PidFile { path: path.to_owned(), source })?;
    // 0, 1 and negative numbers would mean groups of processes, or the process `init`.
    let number = text.trim().parse().ok().filter(|pid| *pid > 1);
    let (number, pid) = number
        .and_then(|number| Some((number, Pid::from_raw(number)?)))
        .ok_or_else(|| ReloadError::PidText(path.to_owned()))?;
    kill_process(pid, Signal::HUP).map_err(|error| ReloadError::Signal { pid: number, source: error.into() })?;
    Ok(number)
}

/// The answer of the broker, whether it has reloaded, and nodes of its cluster that did not answer.
fn ask(admin: &AdminArgs) -> Result<(String, bool, Vec<String>), ReloadError> {
    let outcome = admin.client(ANSWER_TIMEOUT)?.send_either(&ReloadRequest).map_err(AdminError::from)?;
    Ok((outcome.text, outcome.applied, outcome.unreachable))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_process_id_is_refused() {
        let path = std::env::temp_dir().join(format!("tidegate-pid-{}", std::process::id()));
        for text in ["", "x", "0", "1", "-5", "99999999999999"] {
            std::fs::write(&path, text).unwrap();
            assert!(matches!(signal(&path), Err(ReloadError::PidText(_))), "{text:?}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(signal(&path), Err(ReloadError::PidFile { .. })));
    }
}
