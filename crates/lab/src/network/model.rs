//! The network between the broker and the load, as set by a scenario.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::NetworkError;
use crate::span::{BitRate, Span};

/// The longest delay that makes sense: TCP gives up a connection soon after.
const MOST_DELAY: Duration = Duration::from_secs(30);
/// The slowest rate: a packet of 1,500 bytes takes more than a second.
const LEAST_RATE: u64 = 10_000;

/// One link, the same in both directions; unset properties are not changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// How long each packet takes, one way.
    #[serde(default)]
    pub delay: Span,
    /// How much longer or shorter than that it may take, each value as likely as another.
    #[serde(default)]
    pub jitter: Span,
    /// How many packets in a hundred are lost, each by its own chance.
    #[serde(default)]
    pub loss: f64,
    /// Its rate.
    #[serde(default)]
    pub rate: Option<BitRate>,
    /// How many connections wait to be accepted at most (`net.core.somaxconn`), whatever the broker asks for.
    #[serde(default)]
    pub backlog: Option<u32>,
}

impl Network {
    /// True if packets are delayed or lost, which needs netem or its replacement.
    pub(super) fn disturbs(&self) -> bool {
        !self.delay.0.is_zero() || self.loss > 0.0
    }

    /// Checks its values.
    ///
    /// # Errors
    /// When one is outside its range.
    pub fn check(&self) -> Result<(), NetworkError> {
        let wrong = |message: &str| Err(NetworkError::Wrong(message.to_owned()));
        if self.delay.0 > MOST_DELAY {
            return wrong("delay is more than 30 s");
        }
        if self.jitter > self.delay {
            return wrong("jitter is more than delay: nothing arrives before it is sent");
        }
        if !(0.0..100.0).contains(&self.loss) {
            return wrong("loss is a percentage from 0 to below 100");
        }
        if self.rate.is_some_and(|rate| rate.0 < LEAST_RATE) {
            return wrong("rate is below 10kbit");
        }
        Ok(())
    }

    /// In words, such as `20 ms ± 2 ms and 1 % loss each way`.
    pub fn words(&self) -> String {
        let mut parts = Vec::new();
        if !self.delay.0.is_zero() {
            let jitter =
                if self.jitter.0.is_zero() { String::new() } else { format!(" ± {}", milliseconds(self.jitter)) };
            parts.push(format!("{}{jitter}", milliseconds(self.delay)));
        }
        if self.loss > 0.0 {
            parts.push(format!("{} % loss", self.loss));
        }
        parts.extend(self.rate.map(BitRate::words));
        let link = (!parts.is_empty()).then(|| format!("{} each way", parts.join(", ")));
        let backlog = self.backlog.map(|backlog| format!("a backlog of {backlog}"));
        let all: Vec<String> = link.into_iter().chain(backlog).collect();
        if all.is_empty() { "nothing changed".to_owned() } else { all.join("; ") }
    }
}

fn milliseconds(span: Span) -> String {
    format!("{} ms", (span.seconds() * 1e6).round() / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_network_is_read_with_units_and_described() {
        let network = network("delay = '20ms'\njitter = '2ms'\nloss = 1\nrate = '100Mbit'");
        assert_eq!(network.rate, Some(BitRate(100_000_000)));
        assert_eq!(network.words(), "20 ms ± 2 ms, 1 % loss, 100 Mbit/s each way");
        assert!(network.disturbs() && network.check().is_ok());
        assert_eq!(Network::default().words(), "nothing changed");
        assert_eq!(self::network("backlog = 128").words(), "a backlog of 128");
    }

    #[test]
    fn a_rate_has_a_unit_or_is_a_number() {
        assert_eq!(network("rate = 64000").rate, Some(BitRate(64_000)));
        assert_eq!(network("rate = '1 Gbit'").rate, Some(BitRate(1_000_000_000)));
    }

    #[test]
    fn values_that_make_no_link_are_refused_by_name() {
        for (text, name) in [
            ("delay = '31s'", "delay"),
            ("delay = '1ms'\njitter = '2ms'", "jitter"),
            ("loss = 100", "loss"),
            ("loss = -1", "loss"),
            ("rate = '9kbit'", "rate"),
        ] {
            let error = network(text).check().unwrap_err().to_string();
            assert!(error.contains(name), "{text}: {error}");
        }
    }
}
