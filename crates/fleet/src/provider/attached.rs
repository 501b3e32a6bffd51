//! Resources that were there before the fleet and belong to somebody else, such as three Mosquittos that are put behind
//! orchestrators. They are observed, never made, never taken away.

use std::collections::BTreeMap;
use std::time::Duration;

use super::process::{Probe, probe};
use super::{Allocation, Condition, Look, Observed, Provider, ProviderError, Release, Resource, ResourceName, Stack};
use crate::level::Level;

/// The template that attached resources seem to be made from.
pub const ATTACHED: &str = "attached";
/// Time for an answer to a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// One that is attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// The name by which the fleet knows it.
    pub name: ResourceName,
    /// What it is.
    pub level: Level,
    /// `HOST`, and the port where it speaks MQTT.
    pub mqtt: (String, u16),
    /// Whether it speaks MQTT over TLS there.
    pub secure: bool,
    /// Where its admin API is, for orchestrators.
    pub admin: Option<String>,
    /// Where other orchestrators relay clients to, `HOST:PORT`, where it takes them.
    pub relay: Option<String>,
}

/// Attached resources, and beside them a provider of others.
pub struct WithAttached {
    attached: Vec<Attached>,
    others: Box<dyn Provider>,
}

impl WithAttached {
    /// A provider that has both.
    pub fn new(attached: Vec<Attached>, others: Box<dyn Provider>) -> Self {
        Self { attached, others }
    }

    fn knows(&self, name: &ResourceName) -> bool {
        self.attached.iter().any(|attached| attached.name == *name)
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
            relay: self.relay.clone(),
            pid: None,
            note: "attached: its CPU is not known".to_owned(),
        }
    }

    fn observe(&self) -> Observed {
        let ports = BTreeMap::from([("mqtt".to_owned(), self.mqtt.1)]);
        let port = "mqtt".to_owned();
        // Behind TLS only an orchestrator can tell whether MQTT is spoken: the manager has neither authorities nor a certificate.
        let asked = if self.secure { Probe::Tcp(port) } else { Probe::Mqtt(port) };
        let answer = probe::ask(&asked, &self.mqtt.0, &ports, PROBE_TIMEOUT);
        let condition = answer.map_or_else(Condition::Down, |()| Condition::Online);
        Observed { resource: self.resource(), condition, cpu: None }
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
        let mut all: Vec<Observed> = self.attached.iter().map(Attached::observe).collect();
        all.extend(self.others.observe(look)?);
        Ok(all)
    }
}
