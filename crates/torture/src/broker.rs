//! The broker under test as a process: started by a command, known by its answers, ended by a signal.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::failure::Failure;

/// Lines of the broker's output that are kept.
const KEPT_LINES: usize = 200;
/// Longest wait for a line between two looks at the broker.
const LOOK: Duration = Duration::from_millis(3);

/// How to start the broker.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    /// A shell command with `{port}`, `{data}` and `{dir}`, the data folder's parent.
    pub(crate) command: String,
    pub(crate) port: u16,
    pub(crate) data: PathBuf,
    /// More environment, such as the preload library.
    pub(crate) environment: Vec<(String, String)>,
}

/// Why a broker that was started does not answer.
#[derive(Clone, Debug)]
pub(crate) enum NotUp {
    /// It ended.
    Ended(ExitStatus),
    /// It took longer than it may.
    TooSlow,
}

/// A running broker. It is killed when dropped.
#[derive(Debug)]
pub(crate) struct Broker {
    child: Child,
    lines: Receiver<String>,
    kept: VecDeque<String>,
    pub(crate) started: Instant,
}

impl Recipe {
    /// Starts the broker. It need not answer yet.
    pub(crate) fn start(&self) -> Result<Broker, Failure> {
        let parent = self.data.parent().unwrap_or(Path::new("/"));
        let command = self
            .command
            .replace("{port}", &self.port.to_string())
            .replace("{data}", &self.data.display().to_string())
            .replace("{dir}", &parent.display().to_string());
        let started = Instant::now();
        let mut child = Command::new("sh")
            .args(["-c", &format!("exec {command}")])
            .envs(self.environment.iter().map(|(key, value)| (key, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(Failure::system("starting the broker"))?;
        let (sender, lines) = mpsc::channel();
        if let Some(pipe) = child.stdout.take() {
            follow(pipe, sender.clone());
        }
        if let Some(pipe) = child.stderr.take() {
            follow(pipe, sender);
        }
        Ok(Broker { child, lines, kept: VecDeque::new(), started })
    }
}

/// Reads a pipe to its end, so that the broker never waits for us.
fn follow(pipe: impl Read + Send + 'static, sender: Sender<String>) {
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
            // The receiver may be gone while the pipe still has to be emptied.
            let _ = sender.send(String::from_utf8_lossy(&line).into_owned());
        }
    });
}

impl Broker {
    /// The process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the port takes connections.
    pub(crate) fn wait_until_listening(&mut self, port: u16, limit: Duration) -> Result<(), NotUp> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        while self.started.elapsed() < limit {
            if let Some(status) = self.ended() {
                return Err(NotUp::Ended(status));
            }
            if TcpStream::connect_timeout(&address, limit).is_ok() {
                return Ok(());
            }
            self.pause();
        }
        Err(NotUp::TooSlow)
    }

    /// The exit status once it has ended without a request.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits for a line of output, briefly.
    fn pause(&mut self) {
        if let Ok(line) = self.lines.recv_timeout(LOOK) {
            self.keep(line);
        }
    }

    fn keep(&mut self, line: String) {
        if self.kept.len() == KEPT_LINES {
            self.kept.pop_front();
        }
        self.kept.push_back(line);
    }

    /// The last lines of its output. After its end, all of them.
    pub(crate) fn output(&mut self) -> Vec<String> {
        while let Ok(line) = self.lines.try_recv() {
            self.keep(line);
        }
        if self.ended().is_some() {
            // Pipes are closed with the process, so this ends.
            while let Ok(line) = self.lines.recv_timeout(Duration::from_secs(1)) {
                self.keep(line);
            }
        }
        self.kept.iter().cloned().collect()
    }

    /// Ends it at once.
    pub(crate) fn kill(&mut self) -> Result<(), Failure> {
        self.child.kill().map_err(Failure::system("killing the broker"))?;
        self.child.wait().map_err(Failure::system("waiting for the broker"))?;
        Ok(())
    }

    /// Asks it to end, and kills it after the limit. True when it ended within the limit.
    pub(crate) fn terminate(&mut self, limit: Duration) -> Result<bool, Failure> {
        self.signal(Signal::TERM)?;
        let asked = Instant::now();
        while asked.elapsed() < limit {
            if self.ended().is_some() {
                return Ok(true);
            }
            self.pause();
        }
        self.kill()?;
        Ok(false)
    }

    /// Sends SIGTERM and does not wait.
    pub(crate) fn ask_to_end(&self) -> Result<(), Failure> {
        self.signal(Signal::TERM)
    }

    /// Suspends the process (SIGSTOP).
    pub(crate) fn freeze(&self) -> Result<(), Failure> {
        self.signal(Signal::STOP)
    }

    /// Lets a stopped process go on.
    pub(crate) fn thaw(&self) -> Result<(), Failure> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<(), Failure> {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        match pid.map(|pid| kill_process(pid, signal)) {
            Some(Err(error)) => Err(Failure::system("sending a signal to the broker")(error.into())),
            _ => Ok(()),
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // It may have ended already, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
