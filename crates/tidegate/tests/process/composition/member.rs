//! A process of a scenario, whether the test or a manager has started it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Instant;

use crate::broker::{Broker, Ended, PATIENCE, command, pause, run};
use crate::up::kill;

/// A process that serves clients.
pub(super) struct Member {
    /// Its addresses, as the line that says "ready" has them.
    ready: String,
    /// The file with the token of its admin API.
    token: Option<String>,
    process: Process,
}

enum Process {
    /// A child of the test.
    Child(Broker),
    /// The child of another process, by its id.
    Other(u64),
}

impl From<Broker> for Member {
    fn from(broker: Broker) -> Self {
        Self { ready: broker.ready.clone(), token: None, process: Process::Child(broker) }
    }
}

impl Member {
    /// One that another process has started, with addresses such as `mqtt://HOST:PORT` and `admin=http://HOST:PORT`.
    pub(super) fn of_another(id: u64, addresses: &[String]) -> Self {
        Self { ready: addresses.join(" "), token: None, process: Process::Other(id) }
    }

    /// The address behind a prefix.
    pub(super) fn address(&self, prefix: &str) -> &str {
        let word = self.ready.split_whitespace().find_map(|word| word.strip_prefix(prefix));
        word.unwrap_or_else(|| panic!("no {prefix} in {}", self.ready))
    }

    /// The same process, whose admin API asks for the token in this file.
    pub(super) fn with_token(self, file: String) -> Self {
        Self { token: Some(file), ..self }
    }

    /// The body that the admin listener answers.
    pub(super) fn get(&self, path: &str) -> String {
        ask(self.address("admin=http://"), self.token.as_deref(), "GET", path, "").unwrap()
    }

    /// Runs a command of the admin API; returns its output.
    pub(super) fn admin(&self, words: &[&str]) -> String {
        let token = self.token.as_ref().map(|file| ["--token-file", file.as_str()]);
        let token = token.as_ref().map_or(&[][..], |token| &token[..]);
        let ended = run(&[words, &["--admin", self.address("admin=")], token].concat());
        assert_eq!(ended.code, Some(0), "{words:?}: {} {}", ended.out, ended.err);
        ended.out
    }

    pub(super) fn kill(self) {
        match self.process {
            Process::Child(child) => {
                child.signal("KILL");
                child.wait();
            }
            Process::Other(id) => kill("KILL", id),
        }
    }

    /// The words that name the listener with this scheme to a client.
    fn to(&self, scheme: &str) -> [&str; 4] {
        let address = self.address(scheme).split('/').next().unwrap();
        let (host, port) = address.rsplit_once(':').unwrap();
        ["-h", host, "-p", port]
    }

    /// Runs a client by the listener with this scheme.
    pub(super) fn client(&self, scheme: &str, arguments: &[&str]) -> Ended {
        run(&[&arguments[..1], &self.to(scheme), &arguments[1..]].concat())
    }

    /// The same as the user of the default tenant.
    pub(super) fn as_app(&self, arguments: &[&str]) -> Ended {
        self.client("mqtt://", &[arguments, &["-u", "app", "-P", "app"]].concat())
    }

    /// Starts such a client and does not wait for it.
    pub(super) fn spawn(&self, arguments: &[&str]) -> Child {
        let login = ["-u", "app", "-P", "app"];
        let mut command = command(&[&arguments[..1], &self.to("mqtt://"), &login, &arguments[1..]].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }
}

/// Asks a member to take a share of the partitions, as the manager of pods does, as soon as it can.
pub(super) fn ask_to_share(address: &str, token: &str) {
    let deadline = Instant::now() + PATIENCE;
    while ask(address, Some(token), "PUT", "/api/v1/cluster/share", r#"{"wanted": true}"#).is_err() {
        assert!(Instant::now() < deadline, "no answer at {address}");
        pause(20);
    }
}

/// A request to an admin API; returns the body of an answer that is no refusal. `token` is the file with the token.
fn ask(address: &str, token: Option<&str>, method: &str, path: &str, body: &str) -> std::io::Result<String> {
    let token = token.map(std::fs::read_to_string).transpose()?;
    let token = token.map(|token| format!("Authorization: Bearer {}\r\n", token.trim())).unwrap_or_default();
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\ntidegate-command: fleet\r\n{token}\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let refused = || std::io::Error::other(answer.clone());
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(refused)?;
    if head.starts_with("HTTP/1.1 2") { Ok(body.to_owned()) } else { Err(refused()) }
}
