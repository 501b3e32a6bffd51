//! Runs the binary: to its end, or as a broker until the test is over.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Time after which an answer counts as missing. Nothing waits this long when all is well.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The binary, with an environment without any variable of Tidegate.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let ours = std::env::vars_os().map(|(name, _)| name);
    for name in ours.filter(|name| name.to_string_lossy().starts_with("TIDEGATE__")) {
        command.env_remove(name);
    }
    command.args(arguments).stdin(Stdio::null());
    command
}

/// How a command ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Asks until there is an answer.
pub(crate) fn until<T>(awaited: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "it did not come: {awaited}");
        pause(20);
    }
}

/// Time in which something of another process may go on.
#[expect(clippy::disallowed_methods, reason = "the event is in another process, which does not announce it")]
pub(crate) fn pause(milliseconds: u64) {
    std::thread::sleep(std::time::Duration::from_millis(milliseconds));
}

/// Runs a command to its end.
pub(crate) fn run(arguments: &[&str]) -> Ended {
    command(arguments).output().unwrap().into()
}

/// A running broker; it is killed when the test forgets it.
pub(crate) struct Broker {
    child: Option<Child>,
    stdout: BufReader<ChildStdout>,
    /// The line that says that it is ready.
    pub(crate) ready: String,
}

impl Broker {
    /// Starts one on any free port, with the admin listener on another one.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_with(&[&["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"], arguments].concat())
    }

    /// Starts one with just these arguments.
    pub(crate) fn start_with(arguments: &[&str]) -> Self {
        Self::spawn(command(arguments))
    }

    /// Starts one with this command.
    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut ready = String::new();
        stdout.read_line(&mut ready).unwrap();
        let broker = Self { child: Some(child), stdout, ready };
        if broker.ready.is_empty() {
            let ended = broker.wait();
            panic!("{command:?} did not become ready: {}", ended.err);
        }
        broker
    }

    /// The address behind a prefix in the line that says "ready".
    pub(crate) fn address(&self, prefix: &str) -> &str {
        let word = self.ready.split_whitespace().find_map(|word| word.strip_prefix(prefix));
        word.unwrap_or_else(|| panic!("no {prefix} in {}", self.ready))
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.id().to_string();
        let sent = Command::new("sh").args(["-c", "kill -s \"$0\" \"$1\"", name, &id]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for its end; the output after the line that says "ready" is in `out`.
    pub(crate) fn wait(mut self) -> Ended {
        let mut out = String::new();
        self.stdout.read_to_string(&mut out).unwrap();
        let mut ended = Ended::from(self.child.take().unwrap().wait_with_output().unwrap());
        ended.out = out;
        ended
    }

    /// True if it has ended without a signal of the test.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.as_mut().unwrap().try_wait().unwrap().is_some()
    }

    /// Asks the admin listener for a path, and gives the status code and the body.
    pub(crate) fn get(&self, path: &str) -> (String, String) {
        get(self.address("admin=http://"), path).unwrap()
    }
}

/// Asks an admin listener for a path, and gives the status code and the body.
pub(crate) fn get(address: &str, path: &str) -> std::io::Result<(String, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(std::io::ErrorKind::InvalidData)?;
    let code = head.split(' ').nth(1).ok_or(std::io::ErrorKind::InvalidData)?;
    Ok((code.to_owned(), body.to_owned()))
}

impl Drop for Broker {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A folder that is removed after the test.
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// A new, empty one.
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("process-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self { path }
    }

    /// The path of a file in it.
    pub(crate) fn file(&self, name: &str) -> String {
        self.path.join(name).to_str().unwrap().to_owned()
    }

    /// Writes a file into it, and gives its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path.join(name), text).unwrap();
        self.file(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
