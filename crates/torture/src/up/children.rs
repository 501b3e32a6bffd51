//! The processes that a manager has started, as its state directory names them, and its own account of them.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tidegate_proc::Stat;

use crate::failure::Failure;

/// Longest wait for the manager's endpoint.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);
/// Partitions of a cluster of orchestrators.
const PARTITIONS: u64 = 1_024;

/// A level of a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Broker,
    Orchestrator,
}

/// A process of the fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FleetProcess {
    pub(super) name: String,
    pub(super) level: Level,
    /// The port for clients.
    pub(super) port: u16,
    pid: u32,
    /// When it started, in clock ticks since the start of the system.
    started: u64,
}

impl FleetProcess {
    /// A process from its `resource.json`; `None` while none was started.
    fn read(text: &str) -> Option<Self> {
        let resource: Value = serde_json::from_str(text).ok()?;
        let level = match resource["wanted"]["level"].as_str()? {
            "broker" => Level::Broker,
            "orchestrator" => Level::Orchestrator,
            _ => return None,
        };
        Some(Self {
            name: resource["wanted"]["name"].as_str()?.to_owned(),
            level,
            port: u16::try_from(resource["ports"]["mqtt"].as_u64()?).ok()?,
            pid: u32::try_from(resource["process"]["pid"].as_u64()?).ok()?,
            started: resource["process"]["started"].as_u64()?,
        })
    }

    /// True if it runs. Its number may belong to another process by now, which has started at another time.
    pub(super) fn is_alive(&self) -> bool {
        Stat::of(self.pid).is_some_and(|stat| !stat.has_ended() && stat.started == self.started)
    }

    pub(super) fn kill(&self) -> Result<(), Failure> {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        match pid.filter(|_| self.is_alive()).map(|pid| kill_process(pid, Signal::KILL)) {
            Some(Err(error)) if error != rustix::io::Errno::SRCH => {
                Err(Failure::system("killing a process of the fleet")(error.into()))
            }
            _ => Ok(()),
        }
    }
}

/// All processes of a state directory, by name.
pub(super) fn processes(state: &Path) -> Vec<FleetProcess> {
    let folders = std::fs::read_dir(state.join("resources")).into_iter().flatten().flatten();
    let texts = folders.filter_map(|folder| std::fs::read_to_string(folder.path().join("resource.json")).ok());
    let mut found: Vec<_> = texts.filter_map(|text| FleetProcess::read(&text)).collect();
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found
}

/// The manager's account of its fleet; `None` while it does not answer.
pub(super) fn status(api: u16) -> Option<Value> {
    let ask = || -> io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, api)), ANSWER_LIMIT)?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        stream.set_write_timeout(Some(ANSWER_LIMIT))?;
        stream.write_all(b"GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer)
    };
    let answer = ask().ok()?;
    let head = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    serde_json::from_slice(&answer[head + 4..]).ok()
}

/// True if the manager sees the whole fleet serve: all members, no action, every partition at an orchestrator.
pub(super) fn is_whole(status: &Value, brokers: u64, orchestrators: u64) -> bool {
    let serving = |level: &str| status["levels"][level]["serving"].as_u64();
    let members = status["cluster"]["members"].as_object();
    let shares = members.map(|members| members.values().filter_map(Value::as_u64).filter(|share| *share > 0));
    let (homes, partitions) =
        shares.map_or((0, 0), |shares| shares.fold((0, 0), |sum, share| (sum.0 + 1, sum.1 + share)));
    status["state"] == "running"
        && status["action"].is_null()
        && serving("broker") == Some(brokers)
        && serving("orchestrator") == Some(orchestrators)
        && (homes, partitions) == (orchestrators, PARTITIONS)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_process_is_read_from_its_file() {
        let text = r#"{"wanted":{"name":"orchestrator-1","level":"orchestrator"},"ports":{"admin":9,"mqtt":8},"process":{"pid":7,"started":9}}"#;
        let process = FleetProcess::read(text).unwrap();
        assert_eq!((process.name.as_str(), process.level, process.port), ("orchestrator-1", Level::Orchestrator, 8));
        assert_eq!(FleetProcess::read(r#"{"wanted":{"name":"broker-1","level":"broker"}}"#), None);
    }

    #[test]
    fn a_number_of_another_process_is_not_killed() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (name, level) = ("broker-1".to_owned(), Level::Broker);
        let mut process = FleetProcess { name, level, port: 1, pid: child.id(), started: 0 };
        assert!(!process.is_alive());
        process.kill().unwrap();
        assert!(child.try_wait().unwrap().is_none());
        process.started = Stat::of(child.id()).unwrap().started;
        assert!(process.is_alive());
        process.kill().unwrap();
        child.wait().unwrap();
        assert!(!process.is_alive());
    }

    #[test]
    fn a_fleet_without_a_share_of_a_member_is_not_whole() {
        let status = |share: u64| {
            json!({
                "state": "running", "action": null,
                "levels": { "broker": { "serving": 2 }, "orchestrator": { "serving": 2 } },
                "cluster": { "members": { "orchestrator-1": PARTITIONS - share, "orchestrator-2": share } }
            })
        };
        assert!(is_whole(&status(512), 2, 2));
        assert!(!is_whole(&status(0), 2, 2));
        assert!(!is_whole(&status(512), 3, 2));
        assert!(!is_whole(&Value::Null, 2, 2));
    }
}
