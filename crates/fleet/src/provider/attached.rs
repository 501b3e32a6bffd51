//! Resources that existed before the fleet and are not its own, such as three Mosquittos behind orchestrators. They are
//! observed, never created, never removed.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::process::Probe;
use super::process::probe::{self, ProbeError};
use super::{Allocation, Condition, Look, Observed, Provider, ProviderError, Release, Resource, ResourceName, Stack};
use crate::level::Level;

/// The template that attached resources seem to be made from.
pub const ATTACHED: &str = "attached";
/// Time for an answer to a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// Time that an observation waits for all probes together. A name that cannot be resolved may take longer; its result
/// is used later.
const PATIENCE: Duration = Duration::from_millis(2500);

/// An attached resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// The name by which the fleet knows it.
    pub name: ResourceName,
    /// Its level.
    pub level: Level,
    /// `HOST`, and its MQTT port.
    pub mqtt: (String, u16),
    /// Whether the port uses TLS.
    pub secure: bool,
    /// Where its admin API is, for orchestrators.
    pub admin: Option<String>,
}

/// Attached resources, and beside them a provider of others.
pub struct WithAttached {
    attached: Vec<Attached>,
    /// Probes under way, one for each at most.
    asked: BTreeMap<ResourceName, Asked>,
    others: Box<dyn Provider>,
}

impl WithAttached {
    /// A provider that has both.
    pub fn new(attached: Vec<Attached>, others: Box<dyn Provider>) -> Self {
        Self { attached, asked: BTreeMap::new(), others }
    }

    fn knows(&self, name: &ResourceName) -> bool {
        self.attached.iter().any(|attached| attached.name == *name)
    }

    /// All that are attached, asked at once.
    fn observe_attached(&mut self, patience: Duration) -> Vec<Observed> {
        let deadline = Instant::now() + patience;
        let mut problems = BTreeMap::new();
        // Who has kept one observation waiting keeps no other one.
        let late: Vec<ResourceName> = self.asked.keys().cloned().collect();
        for attached in &self.attached {
            if let Entry::Vacant(place) = self.asked.entry(attached.name.clone()) {
                match Asked::begin(attached) {
                    Ok(asked) => drop(place.insert(asked)),
                    Err(error) => drop(problems.insert(attached.name.clone(), error.to_string())),
                }
            }
        }
        let asked = &mut self.asked;
        let observe = |attached: &Attached| {
            let name = &attached.name;
            let left =
                if late.contains(name) { Duration::ZERO } else { deadline.saturating_duration_since(Instant::now()) };
            let Some(under_way) = asked.remove(name) else {
                let why = problems.remove(name).unwrap_or_default();
                return Observed {
                    resource: attached.resource(),
                    condition: Condition::Down(why),
                    cpu: None,
                    memory: None,
                };
            };
            let condition = match under_way.0.recv_timeout(left) {
                Err(RecvTimeoutError::Timeout) => {
                    // Its answer is waited for at the next observation.
                    asked.insert(name.clone(), under_way);
                    let (host, port) = &attached.mqtt;
                    Condition::Down(format!(
                        "no answer at {host}:{port} yet: the address of {host} is still looked for"
                    ))
                }
                Ok(Ok(())) => Condition::Online,
                Ok(Err(error)) => Condition::Down(error.to_string()),
                Err(RecvTimeoutError::Disconnected) => Condition::Down(ProbeError::Failed.to_string()),
            };
            Observed { resource: attached.resource(), condition, cpu: None, memory: None }
        };
        self.attached.iter().map(observe).collect()
    }

    fn resources(&self) -> Vec<Resource> {
        self.attached.iter().map(Attached::resource).collect()
    }
}

impl Attached {
    fn resource(&self) -> Resource {
        Resource {
            name: self.name.clone(),
            level: self.level,
            template: ATTACHED.to_owned(),
            address: format!("{}://{}:{}", if self.secure { "mqtts" } else { "mqtt" }, self.mqtt.0, self.mqtt.1),
            admin: self.admin.clone(),
            pid: None,
            note: "attached: its CPU and memory are not known".to_owned(),
        }
    }

    fn probe(&self) -> Result<(), ProbeError> {
        let ports = BTreeMap::from([("mqtt".to_owned(), self.mqtt.1)]);
        let port = "mqtt".to_owned();
        // Behind TLS only an orchestrator can check MQTT: the manager has neither authorities nor a certificate.
        let asked = if self.secure { Probe::Tcp(port) } else { Probe::Mqtt(port) };
        probe::ask(&asked, &self.mqtt.0, &ports, PROBE_TIMEOUT)
    }
}

/// A probe that has been sent and not answered.
#[derive(Debug)]
struct Asked(Receiver<Result<(), ProbeError>>);

impl Asked {
    /// Asks beside the manager's loop, which must not wait for names.
    fn begin(attached: &Attached) -> Result<Self, ProbeError> {
        let (result, answer) = channel();
        let attached = attached.clone();
        let ask = move || {
            // The receiver is gone if the manager has ended meanwhile.
            let _ = result.send(attached.probe());
        };
        let begun = thread::Builder::new().name("fleet-probe".to_owned()).spawn(ask);
        begun.map(|_| Self(answer)).map_err(ProbeError::Thread)
    }
}

impl Provider for WithAttached {
    fn allocate(&mut self, wanted: &Allocation) -> Result<Resource, ProviderError> {
        match self.attached.iter().find(|attached| attached.name == wanted.name) {
            Some(attached) => Ok(attached.resource()),
            None => self.others.allocate(wanted),
        }
    }

    fn list(&mut self) -> Result<Vec<Resource>, ProviderError> {
        let mut all = self.resources();
        all.extend(self.others.list()?);
        Ok(all)
    }

    fn release(&mut self, name: &ResourceName) -> Result<Release, ProviderError> {
        if self.knows(name) {
            return Err(ProviderError::Attached(name.clone()));
        }
        self.others.release(name)
    }

    fn discard(&mut self, name: &ResourceName) -> Result<Release, ProviderError> {
        if self.knows(name) {
            return Err(ProviderError::Attached(name.clone()));
        }
        self.others.discard(name)
    }

    fn stop(&mut self, name: &ResourceName) -> Result<Release, ProviderError> {
        if self.knows(name) {
            return Err(ProviderError::Attached(name.clone()));
        }
        self.others.stop(name)
    }

    fn set_aside(&mut self, name: &ResourceName) -> Result<Release, ProviderError> {
        if self.knows(name) {
            return Err(ProviderError::Attached(name.clone()));
        }
        self.others.set_aside(name)
    }

    fn stack(&self, level: Level) -> Option<Stack> {
        self.others.stack(level)
    }

    fn observe(&mut self, look: Look) -> Result<Vec<Observed>, ProviderError> {
        let mut all = self.observe_attached(PATIENCE);
        all.extend(self.others.observe(look)?);
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// A provider without other resources.
    struct Nothing;

    impl Provider for Nothing {
        fn allocate(&mut self, wanted: &Allocation) -> Result<Resource, ProviderError> {
            Err(ProviderError::UnknownTemplate(wanted.template.clone()))
        }

        fn list(&mut self) -> Result<Vec<Resource>, ProviderError> {
            Ok(Vec::new())
        }

        fn release(&mut self, _: &ResourceName) -> Result<Release, ProviderError> {
            Ok(Release::Gone)
        }

        fn stop(&mut self, _: &ResourceName) -> Result<Release, ProviderError> {
            Ok(Release::Gone)
        }

        fn observe(&mut self, _: Look) -> Result<Vec<Observed>, ProviderError> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn a_slow_answer_is_used_later_and_delays_no_observation() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let attached = |name: &str, port| Attached {
            secure: false,
            name: name.parse().unwrap(),
            level: Level::Broker,
            mqtt: ("127.0.0.1".to_owned(), port),
            admin: None,
        };
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let all = vec![attached("slow", port), attached("closed", closed)];
        let mut provider = WithAttached::new(all, Box::new(Nothing));
        let conditions = |provider: &mut WithAttached, patience| -> Vec<Condition> {
            provider.observe_attached(patience).into_iter().map(|observed| observed.condition).collect()
        };
        let first = conditions(&mut provider, Duration::ZERO);
        assert!(matches!(&first[0], Condition::Down(why) if why.contains("still looked for")), "{first:?}");
        assert!(provider.asked.contains_key(&provider.attached[0].name), "it is asked again each time");
        let (mut stream, _) = listener.accept().unwrap();
        let mut connect = [0; 28];
        stream.read_exact(&mut connect).unwrap();
        stream.write_all(b"\x20\x02\x00\x00").unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let then = loop {
            let then = conditions(&mut provider, Duration::from_secs(60));
            if then[0] == Condition::Online {
                break then;
            }
            assert!(Instant::now() < deadline, "{then:?}");
            thread::yield_now();
        };
        assert!(matches!(&then[1], Condition::Down(why) if why.contains("no answer")), "{then:?}");
    }
}
