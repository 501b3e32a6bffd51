//! A peer while it runs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::install::check_installed;
use super::left_behind;
use super::placeholder::fill;
use super::readiness::answers;
use super::spawn::{LOG, PeerPaths, Plan, Site, Spawned};
use super::{PeerError, Ports, Template};
use crate::stop::Stop;

/// Clients that every node of a cluster has to let in before it is taken for ready: their homes are all over it.
const CLUSTER_CLIENTS: u32 = 16;
/// Between two looks at whether it is ready or has ended.
const LOOK: Duration = Duration::from_millis(50);
/// Number of lines of a log in an error.
const TAIL_LINES: usize = 15;

/// A broker that this program has started. It is killed when this value goes, with all that it has spawned.
#[derive(Debug)]
pub struct Running {
    template: Template,
    site: Site,
    values: BTreeMap<String, String>,
    directory: PathBuf,
    child: Option<Child>,
    /// From the start of the process to the first answer.
    pub ready_after: Duration,
    /// Its own version; `unknown` without one.
    pub version: String,
    /// Notes about how it runs.
    pub notes: Vec<String>,
}

/// A request to a peer that consists of several gateways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatewayOrder {
    /// Kill the second one.
    Kill,
    /// Start it again.
    Start,
}

/// How a peer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// After a request.
    InTime,
    /// It had to be killed.
    Killed,
    /// It had ended before it was asked to.
    Before(String),
}

impl Running {
    /// Starts one and waits until it answers.
    ///
    /// # Errors
    /// When it is not installed, does not get ready, or `stop` was asked.
    pub fn start(
        template: &Template,
        place: &PeerPaths,
        site: &Site,
        ports: &mut Ports,
        stop: &Stop,
    ) -> Result<Self, PeerError> {
        check_installed(template, place)?;
        // In its own namespace every port is free; these keep its directory apart from others.
        let here = if site.namespace.is_some() { "127.0.0.1" } else { &site.host };
        let taken = ports.take(here, template.ports.len())?;
        let directory = place.scratch.join(format!("{}-{}", template.name, taken.first().copied().unwrap_or_default()));
        if directory.exists() {
            fs::remove_dir_all(&directory).map_err(PeerError::io("remove", &directory))?;
        }
        let mut values = place.values(template);
        values.insert("host".to_owned(), site.host.clone());
        values.insert("dir".to_owned(), directory.display().to_string());
        for (place, (name, port)) in template.ports.iter().zip(taken).enumerate() {
            values.insert(format!("port.{name}"), port.to_string());
            if place == 0 {
                values.insert("port".to_owned(), port.to_string());
            }
        }
        let mut running = Self {
            template: template.clone(),
            site: site.clone(),
            values,
            directory,
            child: None,
            ready_after: Duration::ZERO,
            version: String::new(),
            notes: template.notes.iter().cloned().chain(template.slow_build().map(str::to_owned)).collect(),
        };
        running.plan().write_files()?;
        running.plan().prepare()?;
        let program = running.spawn()?;
        running.version = running.find_version(&program);
        running.wait_ready(stop)?;
        Ok(running)
    }

    /// Starts the program again in the same directory on the same ports, after [`Running::kill`].
    ///
    /// # Errors
    /// As for [`Running::start`].
    pub fn start_again(&mut self, stop: &Stop) -> Result<(), PeerError> {
        self.spawn()?;
        self.wait_ready(stop)
    }

    /// The started process, for sampling; processes that it spawned are its children.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Whether it brings messages to clients by their address.
    pub const fn has_addresses(&self) -> bool {
        self.template.addresses_nodes
    }

    /// Sends a request to a peer that consists of several gateways.
    ///
    /// # Errors
    /// When it is a single broker, which such a signal would end.
    pub fn signal_gateways(&self, order: GatewayOrder) -> Result<(), PeerError> {
        let signal = match order {
            GatewayOrder::Kill => Signal::USR1,
            GatewayOrder::Start => Signal::USR2,
        };
        let pid = self.pid().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        let gateways = self.template.args.iter().any(|word| word == "gateways");
        let Some(pid) = pid.filter(|_| gateways) else {
            return Err(PeerError::OneGateway { peer: self.template.name.clone() });
        };
        // Its own end is noticed elsewhere.
        let _ = kill_process(pid, signal);
        Ok(())
    }

    /// The address for clients of a protocol.
    pub fn address(&self, protocol: &str) -> Option<String> {
        self.template.addresses.get(protocol).map(|address| fill(address, &self.values))
    }

    /// The directory of its files and its log.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// How it ended, if it has ended without a request.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.as_mut().and_then(|child| child.try_wait().ok().flatten())
    }

    /// The configuration that it was given, by file, and its arguments.
    pub fn configuration(&self) -> BTreeMap<String, String> {
        let files = self.template.files.iter().map(|(name, text)| (name.clone(), fill(text, &self.values)));
        let args: Vec<String> = self.template.args.iter().map(|word| fill(word, &self.values)).collect();
        files.chain([("command line".to_owned(), args.join(" "))]).collect()
    }

    /// Asks it to stop, and kills it when it does not in time.
    pub fn stop(&mut self) -> Stopped {
        let Some(mut child) = self.child.take() else {
            return Stopped::Before("it was killed by the scenario".to_owned());
        };
        if let Ok(Some(status)) = child.try_wait() {
            self.end(&mut child);
            return Stopped::Before(status.to_string());
        }
        signal_group(&child, Signal::TERM);
        let until = Instant::now() + self.template.stop.limit.0;
        // This wait cannot be interrupted: it has a limit.
        let wait = Stop::default();
        while Instant::now() < until {
            if matches!(child.try_wait(), Ok(Some(_)) | Err(_)) {
                self.end(&mut child);
                return Stopped::InTime;
            }
            wait.wait(LOOK);
        }
        self.end(&mut child);
        Stopped::Killed
    }

    /// Kills it with all its children, as a crash would.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            self.end(&mut child);
        }
    }

    /// Removes its files.
    pub fn remove_files(&self) {
        // A file that stays behind in the temporary directory does no harm.
        let _ = fs::remove_dir_all(&self.directory);
    }

    /// Kills its remaining processes, also processes that have left its process group.
    fn end(&self, child: &mut Child) {
        signal_group(child, Signal::KILL);
        left_behind::kill(&self.directory);
        // It was killed; there is nothing more to do when it cannot be waited for.
        let _ = child.wait();
    }

    fn plan(&self) -> Plan<'_> {
        Plan { template: &self.template, directory: &self.directory, values: &self.values, site: &self.site }
    }

    fn spawn(&mut self) -> Result<PathBuf, PeerError> {
        let Spawned { child, program, note } = self.plan().spawn()?;
        self.child = Some(child);
        if let Some(note) = note
            && !self.notes.contains(&note)
        {
            self.notes.push(note);
        }
        Ok(program)
    }

    fn wait_ready(&mut self, stop: &Stop) -> Result<(), PeerError> {
        let started = Instant::now();
        let ready = self.template.ready.clone();
        let port =
            |name: &String| self.values.get(&format!("port.{name}")).and_then(|port| port.parse().ok()).unwrap_or(0);
        let ports: Vec<u16> = std::iter::once(&ready.port).chain(&ready.also).map(port).collect();
        let clients = if ports.len() > 1 { CLUSTER_CLIENTS } else { 1 };
        let mut last = String::new();
        while started.elapsed() < ready.limit.0 {
            if let Some(status) = self.ended() {
                return Err(self.not_ready(format!("it ended with {status}"), true));
            }
            match ports.iter().try_for_each(|port| answers(ready.kind, &self.site.host, *port, clients)) {
                Ok(()) => {
                    self.ready_after = started.elapsed();
                    return Ok(());
                }
                Err(why) => last = why.to_string(),
            }
            if stop.wait(LOOK) {
                return Err(PeerError::Stopped { peer: self.template.name.clone() });
            }
        }
        Err(self.not_ready(format!("it did not answer within {} s: {last}", ready.limit.seconds()), false))
    }

    fn not_ready(&self, why: String, ended: bool) -> PeerError {
        let log = self.directory.join(LOG);
        let text = fs::read_to_string(&log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let tail = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n");
        PeerError::NotReady { peer: self.template.name.clone(), why, ended, log, tail }
    }

    fn find_version(&self, program: &Path) -> String {
        let version = &self.template.version;
        if let Some(fixed) = &version.fixed {
            return fixed.clone();
        }
        let mut words = version.command.iter().map(|word| fill(word, &self.values));
        let named = words.next().unwrap_or_default();
        let program = if named == "{program}" { program.to_owned() } else { PathBuf::from(named) };
        let mut command = Command::new(program);
        command.args(words).envs(self.template.environment.iter().map(|(name, text)| (name, fill(text, &self.values))));
        let Ok(output) = command.output() else { return "unknown".to_owned() };
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        version_in(&text, &version.after).unwrap_or_else(|| "unknown".to_owned())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Signals a child's process group: the child made it its own when it was spawned.
fn signal_group(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // A group whose last process has ended needs no signal.
        let _ = kill_process_group(pid, signal);
    }
}

/// The word behind `after`.
fn version_in(text: &str, after: &str) -> Option<String> {
    let (_, rest) = text.split_once(after)?;
    let word = rest.split_whitespace().next()?;
    Some(word.trim_matches(|character: char| !character.is_ascii_alphanumeric()).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_word_after_its_prefix() {
        let mosquitto = "mosquitto version 2.0.11\n\nmosquitto is an MQTT broker.";
        assert_eq!(version_in(mosquitto, "mosquitto version "), Some("2.0.11".to_owned()));
        assert_eq!(version_in("nats-server: v2.15.2\n", "nats-server: "), Some("v2.15.2".to_owned()));
        assert_eq!(version_in("", "x"), None);
    }
}
