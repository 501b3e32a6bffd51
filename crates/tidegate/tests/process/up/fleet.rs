//! A fleet of real processes in its own folder.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use super::PATIENCE;
use crate::broker::{Ended, Folder, command, pause, run};

/// The exit code of a client that is refused with CONNACK return code 3.
const SERVER_UNAVAILABLE: i32 = 3;

/// A fleet in its own folder, whose processes are ended with the test.
pub(crate) struct Fleet {
    pub(crate) folder: Folder,
    pub(super) process: Option<(Child, BufReader<ChildStdout>)>,
}

impl Fleet {
    pub(crate) fn new() -> Self {
        Self { folder: Folder::new(), process: None }
    }

    /// Writes the fleet file with such numbers of resources.
    pub(crate) fn file(&self, brokers: &str, orchestrators: &str) -> String {
        let text = format!(
            "[fleet]\nname = \"test\"\ninterval = \"200ms\"\ncheck = \"50ms\"\ndrain_limit = \"60s\"\nevict_per_second = 1000\n\
             [sla]\nbrokers = {brokers}\norchestrators = {orchestrators}\n"
        );
        self.folder.write("fleet.toml", &text)
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command(arguments);
        command.env("XDG_STATE_HOME", self.folder.file("state"));
        command
    }

    /// Starts a manager, and gives the line that says that it is ready.
    pub(crate) fn start(&mut self, arguments: &[&str]) -> String {
        let mut child = self.command(arguments).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        self.process = Some((child, stdout));
        assert!(line.contains(" ready: "), "{line:?}");
        line
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.process.as_ref().unwrap().0.id();
        kill(name, u64::from(id));
    }

    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.process.take().unwrap().0.wait().unwrap().code()
    }

    /// Asks again and again until the process ends: signals within a second of the first are one request.
    pub(crate) fn insist(&mut self, signal: &str) -> Option<i32> {
        let mut process = self.process.take().unwrap().0;
        loop {
            if let Some(status) = process.try_wait().unwrap() {
                return status.code();
            }
            kill(signal, u64::from(process.id()));
            pause(100);
        }
    }

    /// Kills the manager.
    pub(crate) fn end(&mut self) {
        if let Some((mut child, _)) = self.process.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub(crate) fn fleet(&self, arguments: &[&str]) -> Ended {
        self.command(&[&["fleet"], arguments].concat()).output().unwrap().into()
    }

    pub(crate) fn status(&self) -> serde_json::Value {
        self.status_with(0)
    }

    pub(super) fn status_with(&self, code: i32) -> serde_json::Value {
        let ended = self.fleet(&["status", "--json"]);
        assert_eq!(ended.code, Some(code), "{}", ended.err);
        serde_json::from_str(&ended.out).unwrap()
    }

    /// The first status for which something holds.
    pub(crate) fn status_when(&self, awaited: &str, holds: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = self.status();
            if holds(&status) {
                return status;
            }
            assert!(Instant::now() < deadline, "{awaited} did not happen: {status:#}");
        }
    }

    /// Waits until this number of members serves and no action is under way.
    pub(crate) fn sized(&self, brokers: u64, orchestrators: u64) -> serde_json::Value {
        self.status_when(&format!("a fleet of {brokers} and {orchestrators}"), |status| {
            let levels = &status["levels"];
            let count = |level: &serde_json::Value| level["resources"].as_array().unwrap().len() as u64;
            levels["broker"]["serving"] == brokers
                && levels["orchestrator"]["serving"] == orchestrators
                && (count(&levels["broker"]), count(&levels["orchestrator"])) == (brokers, orchestrators)
                && status["actions"].as_array().unwrap().is_empty()
                && status["endpoints"].as_array().unwrap().len() as u64 == orchestrators
        })
    }

    /// Sends a message through an orchestrator of the fleet and waits until it has come. A client whose partition moves
    /// is refused, and tries again.
    pub(crate) fn carries_messages(status: &serde_json::Value) {
        let (host, port) = Self::endpoint(status);
        let deadline = Instant::now() + PATIENCE;
        let subscribe = ["sub", "-h", host, "-p", port, "-t", "a/#", "-q", "1", "-C", "1", "-W", "120"];
        let ended = loop {
            let mut subscriber = command(&subscribe).stdout(Stdio::piped()).spawn().unwrap();
            // The subscription may come after the first message; one of them finds it.
            while subscriber.try_wait().unwrap().is_none() {
                assert!(Instant::now() < deadline, "no message came");
                let sent = run(&["pub", "-h", host, "-p", port, "-t", "a/b", "-m", "hello", "-q", "1"]);
                assert!(matches!(sent.code, Some(0 | SERVER_UNAVAILABLE)), "{}", sent.err);
            }
            let ended = Ended::from(subscriber.wait_with_output().unwrap());
            if ended.code != Some(SERVER_UNAVAILABLE) {
                break ended;
            }
        };
        assert_eq!((ended.code, ended.out.as_str()), (Some(0), "hello\n"));
    }

    /// Host and port of the first endpoint.
    fn endpoint(status: &serde_json::Value) -> (&str, &str) {
        let address = status["endpoints"][0].as_str().unwrap();
        address.strip_prefix("mqtt://").unwrap_or(address).rsplit_once(':').unwrap()
    }

    /// Subscribes to this number of filters at QoS 1: all brokers grant all of them.
    pub(crate) fn grants_filters(status: &serde_json::Value, filters: u32) {
        let (host, port) = Self::endpoint(status);
        let filters: Vec<String> = (0..filters).map(|number| format!("filters/{number}/+")).collect();
        let mut arguments = vec!["sub", "-h", host, "-p", port, "-q", "1", "-E"];
        arguments.extend(filters.iter().flat_map(|filter| ["-t", filter.as_str()]));
        let ended = run(&arguments);
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.end();
        // Whatever a test has left running carries the folder in its environment.
        let mark = format!("TIDEGATE_FLEET_RESOURCE={}", self.folder.file("state"));
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            let marked = environment.split(|byte| *byte == 0).any(|it| it.starts_with(mark.as_bytes()));
            if let Some(id) = name.parse().ok().filter(|_| marked) {
                kill("KILL", id);
            }
        }
    }
}

pub(crate) fn kill(signal: &str, id: u64) {
    let _ = Command::new("sh").args(["-c", "kill -s \"$0\" \"$1\"", signal, &id.to_string()]).status();
}

pub(crate) fn pids(status: &serde_json::Value) -> Vec<u64> {
    let levels =
        ["broker", "orchestrator"].map(|level| status["levels"][level]["resources"].as_array().unwrap().clone());
    levels.into_iter().flatten().map(|resource| resource["pid"].as_u64().unwrap()).collect()
}

pub(crate) fn lives(pid: u64) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|text| !text.contains(") Z "))
}
