//! The bus and its gateways, as processes.

use std::io;
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::stop::Stop;

/// Between two looks at processes and signals.
const LOOK: Duration = Duration::from_millis(50);
/// How long the bus, and then each gateway, may take until it accepts connections.
const START_LIMIT: Duration = Duration::from_secs(60);
/// How long all of them may take to stop before they are killed.
const STOP_LIMIT: Duration = Duration::from_secs(8);
/// The gateway that is killed and started again when asked for.
const VICTIM: usize = 1;

/// A process among them: its name in messages, its program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its name in messages.
    pub name: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The address at which it accepts connections once it is ready, `HOST:PORT`; `None` without one.
    pub accepts: Option<String>,
}

/// The processes to run.
#[derive(Clone, Debug)]
pub struct Gateways {
    /// The bus, which is started first and stopped last; `None` where it runs already.
    pub bus: Option<Part>,
    /// The gateways.
    pub gateways: Vec<Part>,
    /// Services beside them.
    pub services: Vec<Part>,
    /// The directory in which they are started.
    pub directory: PathBuf,
    /// The address that accepts connections once all are ready, `HOST:PORT`.
    pub gate: String,
    /// How long they are left to themselves before that.
    pub settle: Duration,
}

/// Why they do not run.
#[derive(Debug, thiserror::Error)]
pub enum GatewaysError {
    /// A program could not be started.
    #[error("{name} cannot be started: {source}; is `{program}` installed?")]
    Start {
        /// The name.
        name: String,
        /// Its program.
        program: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The readiness of all could not be reported.
    #[error("cannot listen on {at}: {source}")]
    Gate {
        /// The address.
        at: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// It exited.
    #[error("{name} ended unexpectedly: {how}; its output shows why")]
    Ended {
        /// The name.
        name: String,
        /// How.
        how: String,
    },
    /// It accepts no connections.
    #[error("{name} accepts no connection on {at} within {} s", START_LIMIT.as_secs())]
    NotReady {
        /// The name.
        name: String,
        /// The address.
        at: String,
    },
}

/// Requests of the owner of these processes.
pub trait Requests {
    /// Whether the second gateway is to be killed, since the last time it was asked.
    fn kill(&mut self) -> bool;
    /// Whether it is to be started again, since the last call.
    fn start(&mut self) -> bool;
}

/// A process that runs.
struct Alive {
    part: Part,
    child: Option<Child>,
}

impl Alive {
    fn signal(&self, signal: Signal) {
        let pid = self.child.as_ref().and_then(|child| i32::try_from(child.id()).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // An exited process needs no signal: it is our child, so its number is not reused yet.
            let _ = kill_process(pid, signal);
        }
    }

    /// How it exited.
    fn ended(&mut self) -> Option<String> {
        let status = self.child.as_mut()?.try_wait().ok().flatten()?;
        Some(status.to_string())
    }
}

impl Gateways {
    /// Runs all of them until `stop` is asked.
    ///
    /// # Errors
    /// When one cannot be started, is not ready in time, or exits.
    pub fn run(&self, stop: &Stop, requests: &mut dyn Requests) -> Result<(), GatewaysError> {
        let mut alive = Vec::new();
        let result = self.attend(&mut alive, stop, requests);
        end(&mut alive);
        result
    }

    fn attend(&self, alive: &mut Vec<Alive>, stop: &Stop, requests: &mut dyn Requests) -> Result<(), GatewaysError> {
        // When the first gateway accepts connections, the others are ready.
        let parts = self.bus.iter().chain(self.gateways.iter().rev()).chain(&self.services);
        for part in parts {
            alive.push(self.start(part)?);
            let started = alive.last_mut().map_or(Ok(()), |last| ready(last, stop));
            started?;
        }
        // Nodes of a cluster that have just met still share out their work.
        stop.wait(self.settle);
        let _gate =
            TcpListener::bind(&self.gate).map_err(|source| GatewaysError::Gate { at: self.gate.clone(), source })?;
        let victim = self.gateways.get(VICTIM).map(|part| part.name.clone());
        while !stop.wait(LOOK) {
            let victim = alive.iter_mut().find(|process| Some(&process.part.name) == victim.as_ref());
            if let Some(process) = victim {
                if requests.kill()
                    && let Some(mut child) = process.child.take()
                {
                    // SIGKILL ends it in any state. Once it has ended, its ports are free.
                    let _ = child.kill();
                    let _ = child.wait();
                }
                if requests.start() && process.child.is_none() {
                    *process = self.start(&process.part)?;
                }
            }
            for process in alive.iter_mut() {
                if let Some(how) = process.ended() {
                    return Err(GatewaysError::Ended { name: process.part.name.clone(), how });
                }
            }
        }
        Ok(())
    }

    fn start(&self, part: &Part) -> Result<Alive, GatewaysError> {
        let (program, args) = part.command.split_first().map_or(("", &[][..]), |(program, args)| (program, args));
        let child = Command::new(program).args(args).current_dir(&self.directory).spawn();
        let child = child.map_err(|source| GatewaysError::Start {
            name: part.name.clone(),
            program: program.to_owned(),
            source,
        })?;
        Ok(Alive { part: part.clone(), child: Some(child) })
    }
}

/// Waits until it accepts connections.
fn ready(process: &mut Alive, stop: &Stop) -> Result<(), GatewaysError> {
    let Some(at) = process.part.accepts.clone() else { return Ok(()) };
    let since = Instant::now();
    while since.elapsed() < START_LIMIT {
        let name = || process.part.name.clone();
        let accepts = at.to_socket_addrs().ok().and_then(|mut found| found.next());
        if accepts.is_some_and(|address| TcpStream::connect_timeout(&address, LOOK).is_ok()) {
            return Ok(());
        }
        let name = name();
        if let Some(how) = process.ended() {
            return Err(GatewaysError::Ended { name, how });
        }
        if stop.wait(LOOK) {
            return Ok(());
        }
    }
    Err(GatewaysError::NotReady { name: process.part.name.clone(), at })
}

/// Stops them in the reverse order of their start: the bus last. Slow ones are killed.
fn end(alive: &mut [Alive]) {
    let (bus, others) = alive.split_first_mut().map_or((None, &mut [][..]), |(bus, others)| (Some(bus), others));
    let since = Instant::now();
    for process in others.iter() {
        process.signal(Signal::TERM);
    }
    // Never used: only its timeout matters.
    let never = Stop::default();
    while others.iter_mut().any(|process| process.child.is_some() && process.ended().is_none())
        && since.elapsed() < STOP_LIMIT
    {
        never.wait(LOOK);
    }
    for process in others.iter_mut().chain(bus) {
        if let Some(mut child) = process.child.take() {
            // It may have exited already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests one kill, then a start once the process has ended, then the end.
    struct Once {
        directory: PathBuf,
        killed: bool,
        stop: Stop,
    }

    impl Once {
        fn lives(&self) -> usize {
            std::fs::read_to_string(self.directory.join("lives")).unwrap_or_default().lines().count()
        }
    }

    impl Requests for Once {
        fn kill(&mut self) -> bool {
            let due = !self.killed && self.lives() == 1;
            self.killed |= due;
            due
        }

        fn start(&mut self) -> bool {
            if self.lives() == 2 {
                self.stop.ask();
            }
            self.killed
        }
    }

    fn part(name: &str, script: &str) -> Part {
        let command = ["sh", "-c", script].map(str::to_owned).to_vec();
        Part { name: name.to_owned(), command, accepts: None }
    }

    fn gateways(second: &str) -> Gateways {
        let directory = std::env::temp_dir().join(format!("gateways-{}-{}", std::process::id(), second.len()));
        std::fs::create_dir_all(&directory).unwrap();
        Gateways {
            bus: Some(part("bus", "exec sleep 600")),
            gateways: vec![part("first", "exec sleep 600"), part("second", second)],
            services: Vec::new(),
            directory,
            gate: "127.0.0.1:0".to_owned(),
            settle: Duration::ZERO,
        }
    }

    #[test]
    fn the_second_gateway_is_killed_and_started_again() {
        let gateways = gateways("echo life >> lives; exec sleep 600");
        let stop = Stop::default();
        let mut once = Once { directory: gateways.directory.clone(), killed: false, stop: stop.clone() };
        gateways.run(&stop, &mut once).unwrap();
        assert_eq!(once.lives(), 2);
        std::fs::remove_dir_all(&gateways.directory).unwrap();
    }

    #[test]
    fn the_end_of_one_gateway_ends_all() {
        let gateways = gateways("exit 3");
        let stop = Stop::default();
        let mut never = Once { directory: PathBuf::from("/nowhere"), killed: true, stop: stop.clone() };
        let error = gateways.run(&stop, &mut never).unwrap_err().to_string();
        assert!(error.contains("second") && error.contains('3'), "{error}");
        std::fs::remove_dir_all(&gateways.directory).unwrap();
    }
}
