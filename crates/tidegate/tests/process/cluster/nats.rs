//! A NATS server for one test.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::Bus;
use crate::broker::Folder;

/// A server with JetStream, at a port that it keeps over a restart.
pub(crate) struct Nats {
    process: Option<Child>,
    port: u16,
    folder: Folder,
}

/// The server: from the path, or where `./test` has put it.
fn program() -> PathBuf {
    let installed = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/servers/bin/nats-server"));
    if installed.exists() { installed } else { "nats-server".into() }
}

impl Nats {
    pub(crate) fn start() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut nats = Self { process: None, port, folder: Folder::new() };
        nats.resume();
        nats
    }
}

impl Bus for Nats {
    fn address(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    fn kill(&mut self) {
        let mut process = self.process.take().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
    }

    fn resume(&mut self) {
        let mut command = Command::new(program());
        command.args(["-a", "127.0.0.1", "-p", &self.port.to_string(), "-js", "-sd"]).arg(self.folder.file("nats"));
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap_or_else(|error| {
            panic!("nats-server cannot be started ({error}); ./test installs it, or go install github.com/nats-io/nats-server/v2")
        });
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        assert!(log.any(|line| line.contains("Server is ready")), "nats-server did not become ready");
        // What it says later is read, too: writing to a pipe that nobody reads from would end it.
        std::thread::spawn(move || log.for_each(drop));
        self.process = Some(child);
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
