//! Asks a broker for its versions and features before the first case runs.

use crate::journal::Journal;
use crate::options::Options;
use crate::outcome::Stop;
use crate::scenario::Scenario;
use crate::target::{Capabilities, Target};
use crate::version::Version;
use crate::wire::{Property, Subscribe};
use std::fmt;
use std::rc::Rc;

/// No version of MQTT could be spoken with the broker at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreachable {
    address: String,
    reason: String,
}

impl fmt::Display for Unreachable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "no MQTT broker answers at {}: {}; start one there, or give another address with --broker HOST:PORT",
            self.address, self.reason
        )
    }
}

impl std::error::Error for Unreachable {}

impl Target {
    /// Asks the broker for its versions and features.
    ///
    /// # Errors
    /// When the broker accepts a CONNECT of no version.
    pub fn probe(options: &Options, run: String) -> Result<Self, Unreachable> {
        let mut target = Self { options: options.clone(), capabilities: Capabilities::default(), run };
        let mut reason = String::new();
        let mut spoken = Vec::new();
        for version in Version::ALL {
            match target.probe_version(version) {
                Ok(properties) => {
                    spoken.push(version);
                    for property in &properties {
                        target.capabilities.take(property);
                    }
                }
                Err(Stop::Failed(why) | Stop::Skipped(why)) => reason = why,
            }
        }
        if spoken.is_empty() {
            let address = options.broker.clone();
            return Err(Unreachable { address, reason });
        }
        target.capabilities.shared &= spoken.contains(&Version::V5);
        target.capabilities.versions = spoken;
        Ok(target)
    }

    fn probe_version(&self, version: Version) -> Result<Vec<Property>, Stop> {
        let scenario = Scenario::new(self, 0, version, Rc::new(Journal::new()));
        let mut client = scenario.open("probe")?;
        let connect = scenario.connection("probe").keep_alive(1);
        client.send_connect(&connect)?;
        let connack = client.expect_connack()?;
        // A filter with a wildcard is accepted by every broker that has them, also by one of MQTT 3.1.1, which cannot
        // say.
        client.subscribe_packet(&Subscribe::new(&scenario.topic("+"), 0))?;
        client.disconnect()?;
        Ok(connack.properties)
    }
}
