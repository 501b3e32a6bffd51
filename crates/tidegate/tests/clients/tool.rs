//! Runs `tidegate pub`, `sub` and `rr`.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;

use crate::target::Target;

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
}

impl Ended {
    /// Standard output of a command that succeeded.
    pub(crate) fn text(self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.err);
        String::from_utf8(self.out).unwrap()
    }
}

fn command(target: &Target, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.arg(arguments[0]).args(&target.flags).args(&arguments[1..]);
    // Somebody's files of options are not part of the test.
    command.env("XDG_CONFIG_HOME", "does/not/exist").env("TZ", "UTC");
    command
}

/// Runs a command to its end.
pub(crate) fn run(target: &Target, arguments: &[&str]) -> Ended {
    run_with(target, arguments, b"")
}

/// Runs a command to its end, with something on its standard input.
pub(crate) fn run_with(target: &Target, arguments: &[&str], input: &[u8]) -> Ended {
    let mut command = command(target, arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || {
        // A command that ends early does not read everything.
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    Ended { code: output.status.code(), out: output.stdout, err }
}

/// A command that is under way; it is killed when the test forgets it.
pub(crate) struct Running {
    child: Child,
    stdout: Option<ChildStdout>,
    /// Reads standard error to its end, so that the pipe never fills up.
    stderr: Option<JoinHandle<String>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts `sub` and returns when the server has acknowledged its subscriptions. It gives up after half a minute, unless
/// `arguments` say otherwise; nothing takes that long when all is well.
pub(crate) fn subscribed(target: &Target, arguments: &[&str]) -> Running {
    let mut command = command(target, &[&["sub", "-d", "-W", "30"], arguments].concat());
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let stdout = child.stdout.take();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    wait_for(&mut stderr, "received SUBACK");
    let stderr = std::thread::spawn(move || {
        let mut text = String::new();
        stderr.read_to_string(&mut text).unwrap();
        text
    });
    Running { child, stdout, stderr: Some(stderr) }
}

/// Reads up to a line that starts so.
fn wait_for(stderr: &mut BufReader<ChildStderr>, start: &str) {
    let mut line = String::new();
    while !line.starts_with(start) {
        line.clear();
        assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "it ended before {start}");
    }
}

impl Running {
    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("sh").args(["-c", "kill -s \"$0\" \"$1\"", name, &id]).status().unwrap();
        assert!(sent.success());
    }

    /// Closes the pipe that it writes to, as a reader does who has seen enough.
    pub(crate) fn close_output(&mut self) {
        self.stdout = None;
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Ended {
        let mut out = Vec::new();
        if let Some(stdout) = &mut self.stdout {
            stdout.read_to_end(&mut out).unwrap();
        }
        let err = self.stderr.take().unwrap().join().unwrap();
        Ended { code: self.child.wait().unwrap().code(), out, err }
    }
}
