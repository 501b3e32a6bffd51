//! A NATS server for one test. Tests of several crates start one: each takes this file in by its path, since crates for
//! tests would be crates that others could come to depend on.

#![allow(dead_code, reason = "each crate needs a part of it")]

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

/// Ports that are tried until one stays free.
const ATTEMPTS: u32 = 20;

/// A server at a port that it keeps over a restart, and its directory.
pub(crate) struct Nats {
    process: Option<Child>,
    pub(crate) port: u16,
    pub(crate) directory: PathBuf,
    /// Further options of the server.
    options: Vec<String>,
}

/// The server: where `./test` has put it, or from the path.
fn program() -> PathBuf {
    let installed = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/servers/bin/nats-server"));
    if installed.exists() { installed } else { "nats-server".into() }
}

impl Nats {
    /// One with JetStream.
    pub(crate) fn start() -> Self {
        // Logs reserve their limits. They need less, and are not refused for a disk that others have filled.
        Self::start_with(|directory| {
            let file = directory.join("nats.conf");
            std::fs::write(&file, "jetstream { max_file_store: 1TB }\n").unwrap();
            vec!["-c".to_owned(), file.to_str().unwrap().to_owned()]
        })
    }

    /// A server with the options that `options` makes of its directory.
    pub(crate) fn start_with(options: impl FnOnce(&Path) -> Vec<String>) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("tidegate-nats-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir_all(&directory).unwrap();
        let options = options(&directory);
        let mut nats = Self { process: None, port: 0, directory, options };
        // A port that is free now may be another's a moment later: then it is tried again with another one.
        for _ in 0..ATTEMPTS {
            nats.port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            nats.process = nats.spawn();
            if nats.process.is_some() {
                return nats;
            }
        }
        panic!("nats-server did not become ready");
    }

    pub(crate) fn address(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// As by power loss.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// It loses its disk.
    #[allow(dead_code, reason = "not every test that starts a server wipes it")]
    pub(crate) fn wipe(&mut self) {
        assert!(self.process.is_none(), "a server that runs has its files open");
        let _ = std::fs::remove_dir_all(self.directory.join("jetstream"));
    }

    /// Starts it again where it was.
    pub(crate) fn resume(&mut self) {
        self.process = (0..ATTEMPTS).find_map(|_| self.spawn());
        assert!(self.process.is_some(), "nats-server did not become ready again");
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
        // Its later output is read, too: writing to a pipe without a reader would end it.
        std::thread::spawn(move || lines.for_each(drop));
        if !is_ready {
            let _ = child.wait();
        }
        is_ready.then_some(child)
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
