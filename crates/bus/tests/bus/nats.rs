//! The bus on a real NATS server, which each test starts for itself.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;

use tidegate_bus::{Address, Bus, Observer, Settings};

use crate::client::PATIENCE;
use crate::{Deployment, Outages, settings};

/// A server with JetStream, and what it keeps.
pub(crate) struct Nats {
    process: Option<Child>,
    port: u16,
    directory: PathBuf,
    /// What else the server is told.
    options: Vec<String>,
}

/// The server: from the path, or where `./test` has put it.
fn program() -> PathBuf {
    let installed = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/servers/bin/nats-server"));
    if installed.exists() { installed } else { "nats-server".into() }
}

impl Nats {
    fn start() -> Self {
        Self::start_with(|_| vec!["-js".to_owned()])
    }

    /// One that is told what `options` makes of its directory.
    fn start_with(options: impl FnOnce(&Path) -> Vec<String>) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("tidegate-bus-nats-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir_all(&directory).unwrap();
        let options = options(&directory);
        let mut nats = Self { process: None, port: 0, directory, options };
        nats.resume();
        nats
    }

    fn spawn(&self) -> Option<Child> {
        let mut command = Command::new(program());
        command.args(["-a", "127.0.0.1", "-p", &self.port.to_string(), "-sd"]).arg(&self.directory);
        command.args(&self.options);
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap_or_else(|error| {
            panic!("nats-server cannot be started ({error}); ./test installs it, or go install github.com/nats-io/nats-server/v2")
        });
        let log = child.stderr.take().map(BufReader::new);
        let mut lines = log.into_iter().flat_map(BufRead::lines).map_while(Result::ok);
        let is_ready = lines.any(|line| line.contains("Server is ready"));
        // What it says later is read, too: writing to a pipe that nobody reads from would end it.
        std::thread::spawn(move || lines.for_each(drop));
        if !is_ready {
            let _ = child.wait();
        }
        is_ready.then_some(child)
    }
}

impl Nats {
    /// A bus whose servers are asked by somebody: `user:password@`, or nothing.
    fn bus_as(&self, user: &str, settings: Settings, observer: Observer) -> Bus {
        let address: Address = format!("nats://{user}127.0.0.1:{}", self.port).parse().unwrap();
        Bus::open(&address, settings, observer).unwrap()
    }
}

impl Deployment for Nats {
    const LIMITS_LOGS: bool = true;

    fn bus(&self) -> Bus {
        let (connected, wait) = channel();
        let bus = self.bus_with(
            settings(),
            Arc::new(move |connection| {
                let _ = connected.send(connection);
            }),
        );
        // Live messages do not wait for the servers.
        wait.recv_timeout(PATIENCE).expect("a connection");
        bus
    }
}

impl Outages for Nats {
    fn bus_with(&self, settings: Settings, observer: Observer) -> Bus {
        self.bus_as("", settings, observer)
    }

    fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    fn resume(&mut self) {
        // A port that is free now may be another's a moment later: then it is tried again with another one.
        for _ in 0..20 {
            if self.port == 0 {
                self.port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
                self.process = self.spawn();
                if self.process.is_some() {
                    return;
                }
                self.port = 0;
            } else {
                self.process = self.spawn();
                if self.process.is_some() {
                    return;
                }
            }
        }
        panic!("nats-server did not become ready");
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

mod servers;
mod strangers;

mod promises {
    crate::suite!(a_test_each, super::Nats::start());
}

mod outages {
    crate::outages!(a_test_each, super::Nats::start());
}
