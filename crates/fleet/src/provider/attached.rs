//! Resources that existed before the fleet and are not its own, such as three Mosquittos behind orchestrators. They are
//! observed, never created, never removed.

use std::time::Duration;

use super::probes::{PATIENCE, ProbeTarget, Probes, Unanswered};
use super::{Allocation, Condition, Look, Observed, Provider, ProviderError, Release, Resource, ResourceName, Stack};
use crate::level::Level;

/// The template that attached resources seem to be made from.
pub const ATTACHED: &str = "attached";

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
    /// The address of its admin API, for orchestrators.
    pub admin: Option<String>,
}

/// Attached resources, and beside them a provider of others.
pub struct WithAttached {
    attached: Vec<Attached>,
    probes: Probes,
    others: Box<dyn Provider>,
}

impl WithAttached {
    /// A provider that has both.
    pub fn new(attached: Vec<Attached>, others: Box<dyn Provider>) -> Self {
        Self { attached, probes: Probes::default(), others }
    }

    fn knows(&self, name: &ResourceName) -> bool {
        self.attached.iter().any(|attached| attached.name == *name)
    }

    /// All that are attached, asked at once.
    fn observe_attached(&mut self, patience: Duration) -> Vec<Observed> {
        let targets: Vec<ProbeTarget> = self.attached.iter().map(Attached::target).collect();
        let answers = self.probes.ask(&targets, patience);
        let observed = |(attached, answer): (&Attached, Result<(), Unanswered>)| Observed {
            resource: attached.resource(),
            condition: answer.map_or_else(|Unanswered(why)| Condition::Down(why), |()| Condition::Online),
            cpu: None,
            memory: None,
        };
        self.attached.iter().zip(answers).map(observed).collect()
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

    fn target(&self) -> ProbeTarget {
        ProbeTarget { host: self.mqtt.0.clone(), port: self.mqtt.1, secure: self.secure }
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

    fn has_ended(&mut self) -> bool {
        self.others.has_ended()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::net::TcpListener;
    use std::thread;
    use std::time::Instant;

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
        conditions(&mut provider, Duration::ZERO);
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
        // It was asked once.
        listener.set_nonblocking(true).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    }
}
