//! `tidegate reload`: has a running broker read its configuration anew.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args as ClapArgs;
use rustix::process::{Pid, Signal, kill_process};

use tidegate_terminal::{Exit, complain, print_and_exit, report};

/// Time within which the broker must be reached.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time within which it must have read its files and answered.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest answer, bytes.
const MAX_ANSWER: u64 = 4 * 1024 * 1024;
/// Longest file with a process id, bytes.
const MAX_PID_FILE: u64 = 64;

/// Which broker.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Args {
    /// Its admin listener
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:18083")]
    admin: String,
    /// Send SIGHUP to the process whose id is in this file instead; what came of it is then in the broker's log
    #[arg(long, value_name = "FILE", conflicts_with = "admin")]
    pid: Option<PathBuf>,
}

/// Why it could not be asked.
#[derive(Debug, thiserror::Error)]
enum ReloadError {
    #[error("{0:?} is no address of an admin listener; write http://ADDRESS:PORT")]
    Address(String),
    #[error(
        "cannot reach the broker's admin listener at {address}: {source}; name another one with --admin, or use --pid"
    )]
    Connect { address: String, source: io::Error },
    #[error("the broker at {address} gave no answer: {source}")]
    Exchange { address: String, source: io::Error },
    #[error("what answers at {0} is no broker that can be told to reload")]
    Answer(String),
    #[error("cannot read {}: {source}", path.display())]
    PidFile { path: PathBuf, source: io::Error },
    #[error("{} holds no process id", .0.display())]
    PidText(PathBuf),
    #[error("cannot send SIGHUP to process {pid}: {source}")]
    Signal { pid: i32, source: io::Error },
}

/// Exit code 0 when the new configuration is in force, 1 when it is not.
pub(crate) fn run(args: &Args) -> Exit {
    let done = match &args.pid {
        Some(path) => {
            signal(path).map(|pid| (format!("sent SIGHUP to process {pid}; its log says what came of it\n"), true))
        }
        None => ask(&args.admin),
    };
    match done {
        Ok((text, true)) => print_and_exit(&text, Exit::Ok),
        Ok((text, false)) => {
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
    // 0, 1 and negative numbers would mean groups of processes, or the one that starts all others.
    let number = text.trim().parse().ok().filter(|pid| *pid > 1);
    let (number, pid) = number
        .and_then(|number| Some((number, Pid::from_raw(number)?)))
        .ok_or_else(|| ReloadError::PidText(path.to_owned()))?;
    kill_process(pid, Signal::HUP).map_err(|error| ReloadError::Signal { pid: number, source: error.into() })?;
    Ok(number)
}

/// What the broker says, and whether it has done it.
fn ask(url: &str) -> Result<(String, bool), ReloadError> {
    let address = url.strip_prefix("http://").unwrap_or(url).trim_end_matches('/');
    let target = address.to_socket_addrs().ok().and_then(|mut found| found.next());
    let target = target.ok_or_else(|| ReloadError::Address(url.to_owned()))?;
    let stream = TcpStream::connect_timeout(&target, CONNECT_TIMEOUT)
        .map_err(|source| ReloadError::Connect { address: address.to_owned(), source })?;
    let answer =
        exchange(stream, address).map_err(|source| ReloadError::Exchange { address: address.to_owned(), source })?;
    understand(&answer).ok_or_else(|| ReloadError::Answer(address.to_owned()))
}

fn exchange(mut stream: TcpStream, address: &str) -> io::Result<String> {
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_write_timeout(Some(CONNECT_TIMEOUT))?;
    write!(
        stream,
        "POST /api/v1/reload HTTP/1.1\r\nHost: {address}\r\nTidegate-Command: reload\r\nContent-Length: 0\r\n\
         Connection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.take(MAX_ANSWER).read_to_string(&mut answer)?;
    Ok(answer)
}

/// The text of an answer, and whether its status code is 200.
fn understand(answer: &str) -> Option<(String, bool)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?;
    let body: serde_json::Value = serde_json::from_str(body).ok()?;
    let text = body.get("text")?.as_str()?.to_owned();
    Some((text, status == "200" && body.get("applied")?.as_bool()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_applied_counts_as_done() {
        let answer = |status: &str, body: &str| format!("HTTP/1.1 {status}\r\nContent-Type: x\r\n\r\n{body}");
        let done = understand(&answer("200 OK", "{\"applied\":true,\"text\":\"a\"}"));
        assert_eq!(done, Some(("a".to_owned(), true)));
        let refused = understand(&answer("409 Conflict", "{\"applied\":false,\"text\":\"b\"}"));
        assert_eq!(refused, Some(("b".to_owned(), false)));
        assert_eq!(understand(&answer("404 Not Found", "there is /metrics")), None);
        assert_eq!(understand("nonsense"), None);
    }

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
