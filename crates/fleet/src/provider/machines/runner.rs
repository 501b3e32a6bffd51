//! Runs commands beside the manager's loop, each with a time limit.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::call::Call;
use super::error::MachineError;
use super::secrets::Secrets;

/// Most bytes of an output that are kept; more fails the call.
const MAX_OUTPUT: u64 = 16 * 1024 * 1024;
/// Most bytes of standard error that are kept: the first ones.
const MAX_STDERR: u64 = 64 * 1024;
/// Longest pause between two looks at a command under way.
const LOOK: Duration = Duration::from_millis(50);
/// Time for the rest of the output after the end of a command: a child process that it left may hold the output open.
const REST: Duration = Duration::from_secs(1);
/// The same for `list`, whose output is used. Then it has failed: a part of a list would show machines as absent.
const REST_OF_LIST: Duration = Duration::from_secs(3);

/// The end of a call: its output, or why it failed.
pub(super) type Outcome = Result<String, MachineError>;

/// Carries calls out.
pub(super) trait Runner: Send {
    /// Begins a call. `ended` returns its end later. Errors name the command as `shown`, without secrets.
    fn begin(&mut self, call: Call, command: Vec<String>, shown: String);

    /// The calls that have ended since, waiting at most so long for the next end.
    fn ended(&mut self, patience: Duration) -> Vec<(Call, Outcome)>;

    /// Ends the calls under way, drops their outcomes, and returns when none is left.
    fn end_all(&mut self);
}

/// Runs commands as processes.
pub(super) struct CommandRunner {
    directory: PathBuf,
    limit: Duration,
    secrets: Secrets,
    results: (Sender<Ended>, Receiver<Ended>),
    under_way: usize,
    /// Whether calls under way have to end.
    ends: Arc<AtomicBool>,
}

/// A call that has ended.
type Ended = (Call, Outcome);

impl CommandRunner {
    /// Runs commands in a directory, each for at most so long. Errors have no `secrets`.
    pub(super) fn new(directory: PathBuf, limit: Duration, secrets: Secrets) -> Self {
        Self { directory, limit, secrets, results: channel(), under_way: 0, ends: Arc::default() }
    }
}

impl Runner for CommandRunner {
    fn begin(&mut self, call: Call, command: Vec<String>, shown: String) {
        let (directory, limit, results) = (self.directory.clone(), self.limit, self.results.0.clone());
        let (of_call, secrets, ends) = (call.clone(), self.secrets.clone(), self.ends.clone());
        self.under_way += 1;
        let run = {
            let shown = shown.clone();
            move || {
                // The receiver is gone when the manager has ended; a later one lists the machines.
                let outcome = run(&of_call, &command, shown, (&directory, Until { limit, ends: &ends }), &secrets);
                let _ = results.send((of_call, outcome));
            }
        };
        if let Err(error) = thread::Builder::new().name("fleet-command".to_owned()).spawn(run) {
            let failed = MachineError::NotStarted { command: shown, problem: error.to_string() };
            // The receiver lives as long as this.
            let _ = self.results.0.send((call, Err(failed)));
        }
    }

    fn ended(&mut self, patience: Duration) -> Vec<(Call, Outcome)> {
        let first = self.results.1.recv_timeout(patience).ok();
        let ended: Vec<Ended> = first.into_iter().chain(self.results.1.try_iter()).collect();
        self.under_way -= ended.len();
        ended
    }

    fn end_all(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        // Each call looks at `ends`, and returns its outcome once its processes are killed; one whose thread has panicked
        // never does.
        let until = Instant::now() + REST_OF_LIST + REST + REST;
        while self.under_way > 0 && Instant::now() < until {
            self.ended(LOOK);
        }
        self.ends.store(false, Ordering::Relaxed);
    }
}

/// When a command is killed.
#[derive(Clone, Copy)]
struct Until<'e> {
    /// After this time.
    limit: Duration,
    /// As soon as this is set.
    ends: &'e AtomicBool,
}

/// A program with `/` is relative to the directory; another one is looked for in `PATH`.
fn program(name: &str, directory: &Path) -> PathBuf {
    if name.contains('/') { directory.join(name) } else { PathBuf::from(name) }
}

fn run(
    call: &Call,
    command: &[String],
    shown: String,
    (directory, until): (&Path, Until<'_>),
    secrets: &Secrets,
) -> Outcome {
    let not_started = |problem: String| MachineError::NotStarted { command: shown.clone(), problem };
    let (name, arguments) = command.split_first().ok_or_else(|| not_started("it is empty".to_owned()))?;
    let mut child = Command::new(program(name, directory))
        .args(arguments)
        .current_dir(if directory.as_os_str().is_empty() { Path::new(".") } else { directory })
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|error| not_started(error.to_string()))?;
    let stdout = read(child.stdout.take(), MAX_OUTPUT + 1).map_err(|error| not_started(error.to_string()));
    let stderr = read(child.stderr.take(), MAX_STDERR).map_err(|error| not_started(error.to_string()));
    let (Ok(stdout), Ok(stderr)) = (stdout, stderr) else {
        end(&mut child);
        return Err(not_started("no thread for its output".to_owned()));
    };
    let status = wait(&mut child, until);
    let output = rest(&stdout, if *call == Call::List { REST_OF_LIST } else { REST });
    let stderr = rest(&stderr, REST).bytes;
    let is_cut = stderr.len() as u64 >= MAX_STDERR;
    let stderr = secrets.hide(&String::from_utf8_lossy(&stderr), is_cut);
    if *call == Call::List && !output.is_whole && matches!(&status, Ok(Some(status)) if status.success()) {
        let problem = "a process that it left holds the output open, and the list may not be whole".to_owned();
        return Err(MachineError::Answer { command: shown, problem });
    }
    match status {
        Ok(Some(status)) if status.success() => match String::from_utf8(output.bytes) {
            Ok(output) if output.len() as u64 <= MAX_OUTPUT => Ok(output),
            Ok(_) => Err(MachineError::Answer { command: shown, problem: "it is longer than 16 MiB".to_owned() }),
            Err(error) => Err(MachineError::Answer { command: shown, problem: error.to_string() }),
        },
        Ok(Some(status)) => Err(match status.code() {
            Some(code) => MachineError::Exited { command: shown, code, stderr },
            None => MachineError::Signalled { command: shown, stderr },
        }),
        Ok(None) => Err(MachineError::TooLong { command: shown, limit: until.limit, stderr }),
        Err(error) => Err(not_started(error.to_string())),
    }
}

/// Waits for the end of a command; `None` when it was killed.
fn wait(child: &mut Child, until: Until<'_>) -> std::io::Result<Option<ExitStatus>> {
    let deadline = Instant::now() + until.limit;
    let mut pause = Duration::from_millis(1);
    let (_never, nothing) = channel::<()>();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || until.ends.load(Ordering::Relaxed) {
            end(child);
            return Ok(None);
        }
        // It ends with its time: nothing is sent.
        let _ = nothing.recv_timeout(pause.min(left));
        pause = (pause * 2).min(LOOK);
    }
}

/// Kills a command with its child processes.
fn end(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // It may have ended meanwhile; it is not reaped before the next line.
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
}

/// Reads an output on another thread, piece by piece, so that a part is there although the end is not.
fn read<R: Read + Send + 'static>(output: Option<R>, most: u64) -> std::io::Result<Receiver<Vec<u8>>> {
    let (pieces, received) = channel();
    let Some(mut output) = output else { return Ok(received) };
    let read = move || {
        let (mut piece, mut left) = (vec![0; 16 * 1024], most);
        // Beyond the limit it is read and dropped: a full pipe would stop the command.
        while let Ok(count @ 1..) = output.read(&mut piece) {
            let kept = usize::try_from(left).unwrap_or(usize::MAX).min(count);
            left -= kept as u64;
            if kept > 0 && pieces.send(piece[..kept].to_vec()).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("fleet-output".to_owned()).spawn(read)?;
    Ok(received)
}

/// The part of an output that was read.
struct Output {
    bytes: Vec<u8>,
    /// Whether its end was read.
    is_whole: bool,
}

/// All pieces of an output whose command has ended.
fn rest(pieces: &Receiver<Vec<u8>>, patience: Duration) -> Output {
    let deadline = Instant::now() + patience;
    let mut bytes = Vec::new();
    loop {
        match pieces.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(piece) => bytes.extend(piece),
            Err(error) => return Output { bytes, is_whole: error == RecvTimeoutError::Disconnected },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(300);

    fn shell(script: &str, limit: Duration) -> Outcome {
        call(&Call::List, script, limit)
    }

    fn call(call: &Call, script: &str, limit: Duration) -> Outcome {
        let command = ["sh", "-c", script].map(str::to_owned);
        let mut runner = CommandRunner::new(PathBuf::from("/"), limit, Secrets::default());
        runner.begin(call.clone(), command.to_vec(), command.join(" "));
        let (ended, outcome) = runner.ended(LONG).pop().unwrap();
        assert_eq!(ended, *call);
        outcome
    }

    #[test]
    fn an_error_has_the_command_its_exit_code_and_stderr() {
        assert_eq!(shell("pwd; echo no >&2", LONG).as_deref(), Ok("/\n"));
        let error = shell("echo no quota >&2; echo ask >&2; exit 7", LONG).unwrap_err().to_string();
        assert_eq!(error, "`sh -c echo no quota >&2; echo ask >&2; exit 7` ended with exit code 7: no quota / ask");
        assert!(shell("kill -9 $$", LONG).unwrap_err().to_string().contains("was ended by a signal"));
        let mut runner = CommandRunner::new(PathBuf::from("/"), LONG, Secrets::default());
        runner.begin(Call::List, vec!["./no-such-program".to_owned()], "./no-such-program".to_owned());
        let error = runner.ended(LONG).pop().unwrap().1.unwrap_err();
        assert!(error.to_string().contains("cannot start `./no-such-program`"), "{error}");
    }

    #[test]
    fn a_command_is_killed_at_its_limit_with_its_children() {
        let limit = Duration::from_millis(200);
        let error = shell("echo begun >&2; sleep 300; true", limit).unwrap_err();
        assert!(matches!(&error, MachineError::TooLong { stderr, .. } if stderr == "begun\n"), "{error}");
    }

    #[test]
    fn a_process_that_a_command_left_does_not_delay_its_end() {
        // It holds the output open, as a virtual machine does that is started without a redirection.
        let allocate = Call::Allocate("broker-1".parse().unwrap());
        let script = "sleep 20 & echo $!";
        assert_eq!(call(&allocate, script, LONG).map(|id| id.trim().parse::<u32>().is_ok()), Ok(true));
        // A list may not be whole then.
        let error = shell(script, LONG).unwrap_err().to_string();
        assert!(error.contains("holds the output open"), "{error}");
    }

    #[test]
    fn a_long_output_is_refused_and_does_not_stop_the_command() {
        let error = shell("head -c 17000000 /dev/zero | tr '\\0' a; head -c 1000000 /dev/zero >&2", LONG).unwrap_err();
        assert!(error.to_string().contains("longer than 16 MiB"), "{error}");
    }
}
