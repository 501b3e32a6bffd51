//! Probes of resources that are not processes of this machine, all at once and beside the manager's loop.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::process::Probe;
use super::process::probe::{self, ProbeError};

/// Time for an answer to a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// Time that an observation waits for all probes together. A name that cannot be resolved may take longer; its result
/// is used later.
pub(super) const PATIENCE: Duration = Duration::from_millis(2500);

/// An MQTT port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ProbeTarget {
    pub(super) host: String,
    pub(super) port: u16,
    /// Whether it uses TLS. Then only the TCP connection is checked: the manager has neither authorities nor a
    /// certificate.
    pub(super) secure: bool,
}

/// Why a target does not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Unanswered(pub(super) String);

impl ProbeTarget {
    fn probe(&self) -> Result<(), ProbeError> {
        let ports = BTreeMap::from([("mqtt".to_owned(), self.port)]);
        let port = "mqtt".to_owned();
        let asked = if self.secure { Probe::Tcp(port) } else { Probe::Mqtt(port) };
        probe::ask(&asked, &self.host, &ports, PROBE_TIMEOUT)
    }
}

/// Probes under way, one for each target at most.
#[derive(Debug, Default)]
pub(super) struct Probes(BTreeMap<ProbeTarget, Asked>);

impl Probes {
    /// Whether each target answers; otherwise the reason.
    pub(super) fn ask(&mut self, targets: &[ProbeTarget], patience: Duration) -> Vec<Result<(), Unanswered>> {
        let deadline = Instant::now() + patience;
        let wanted: BTreeSet<&ProbeTarget> = targets.iter().collect();
        self.0.retain(|target, _| wanted.contains(target));
        // Who has kept one observation waiting keeps no other one.
        let late: BTreeSet<ProbeTarget> = self.0.keys().cloned().collect();
        let mut answers: BTreeMap<ProbeTarget, Result<(), Unanswered>> = BTreeMap::new();
        for target in wanted.iter().copied().filter(|target| !late.contains(*target)) {
            match Asked::begin(target) {
                Ok(asked) => drop(self.0.insert(target.clone(), asked)),
                Err(error) => drop(answers.insert(target.clone(), Err(Unanswered(error.to_string())))),
            }
        }
        for target in wanted {
            let left =
                if late.contains(target) { Duration::ZERO } else { deadline.saturating_duration_since(Instant::now()) };
            let Some(asked) = self.0.remove(target) else { continue };
            let answer = match asked.0.recv_timeout(left) {
                Err(RecvTimeoutError::Timeout) => {
                    // Its answer is waited for at the next observation.
                    self.0.insert(target.clone(), asked);
                    let ProbeTarget { host, port, .. } = target;
                    Err(Unanswered(format!(
                        "no answer at {host}:{port} yet: the address of {host} is still looked for"
                    )))
                }
                Ok(answer) => answer.map_err(|error| Unanswered(error.to_string())),
                Err(RecvTimeoutError::Disconnected) => Err(Unanswered(ProbeError::Failed.to_string())),
            };
            answers.insert(target.clone(), answer);
        }
        let unknown = || Err(Unanswered(ProbeError::Failed.to_string()));
        targets.iter().map(|target| answers.get(target).cloned().unwrap_or_else(unknown)).collect()
    }
}

/// A probe that has been sent and not answered.
#[derive(Debug)]
struct Asked(Receiver<Result<(), ProbeError>>);

impl Asked {
    /// Asks beside the manager's loop, which must not wait for names.
    fn begin(target: &ProbeTarget) -> Result<Self, ProbeError> {
        let (result, answer) = channel();
        let target = target.clone();
        let ask = move || {
            // The receiver is gone if the manager has ended meanwhile.
            let _ = result.send(target.probe());
        };
        let begun = thread::Builder::new().name("fleet-probe".to_owned()).spawn(ask);
        begun.map(|_| Self(answer)).map_err(ProbeError::Thread)
    }
}
