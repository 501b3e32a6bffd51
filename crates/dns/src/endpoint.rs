//! The endpoints of a fleet, which a zone names.

use std::fmt;
use std::net::IpAddr;

use crate::location::Location;
use crate::number::NumberError;

/// Longest label of a name, bytes (RFC 1035, section 2.3.4).
const LABEL_BYTES: usize = 63;
/// The port of MQTT at IANA.
const MQTT_PORT: u16 = 1883;

/// Why a text is not the name of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It is not one label of a host name.
    #[error("`{0}` cannot be a name in DNS: write 1 to 63 letters, digits and inner hyphens")]
    NotALabel(String),
    /// The zone uses the name itself.
    #[error("`{0}` is a name of the zone itself: choose another one")]
    Reserved(String),
}

/// The name of an endpoint: one label below the zone, in lower case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointName(Box<str>);

impl EndpointName {
    /// Takes 1 to 63 letters, digits and inner hyphens; upper case becomes lower case.
    ///
    /// # Errors
    /// When the name is invalid, or is `mqtt`, the name for all endpoints.
    pub fn new(text: &str) -> Result<Self, NameError> {
        let fits = (1..=LABEL_BYTES).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !text.starts_with('-')
            && !text.ends_with('-');
        if !fits {
            return Err(NameError::NotALabel(text.chars().take(LABEL_BYTES + 1).collect()));
        }
        let lower = text.to_ascii_lowercase();
        if lower == "mqtt" {
            return Err(NameError::Reserved(lower));
        }
        Ok(Self(lower.into_boxed_str()))
    }

    /// The label, in lower case.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EndpointName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// How busy an endpoint is, from 0 (idle) to 1 (it can do no more).
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Load(f64);

impl Load {
    /// A load from 0 to 1.
    ///
    /// # Errors
    /// When it is outside, or no number.
    pub fn new(part: f64) -> Result<Self, NumberError> {
        if (0.0..=1.0).contains(&part) { Ok(Self(part)) } else { Err(NumberError::Load(part)) }
    }

    /// The nearest load to a measured number. NaN counts as a full load, so that no client is sent to an endpoint of
    /// unknown load.
    pub fn saturating(part: f64) -> Self {
        Self(if part.is_nan() { 1.0 } else { part.clamp(0.0, 1.0) })
    }

    /// The load as a part of 1.
    pub fn part(self) -> f64 {
        self.0
    }
}

/// One endpoint of the fleet, as its manager sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Endpoint {
    /// Its name, unique within the zone.
    pub name: EndpointName,
    /// Its addresses; at least one, at most 16. Of several of one family each answer holds one, in turns.
    pub addresses: Vec<IpAddr>,
    /// Its port for MQTT, 1 to 65535; only SRV answers contain it.
    pub port: u16,
    /// Its port for MQTT over TLS; without one it is not among the answers for `_secure-mqtt._tcp`.
    pub secure_port: Option<u16>,
    /// Its weight with [`Policy::Weighted`](crate::Policy::Weighted), relative to the others' weights. One with 0 is
    /// not named while another one has more.
    pub weight: u16,
    /// How busy it is, for [`Policy::LeastLoaded`](crate::Policy::LeastLoaded).
    pub load: Load,
    /// Whether it can take clients.
    pub healthy: bool,
    /// Whether it is about to go: it is in no answer any more (BRK-33).
    pub draining: bool,
    /// Its location on the earth, for [`Policy::Nearest`](crate::Policy::Nearest); without one it counts as the
    /// farthest.
    pub location: Option<Location>,
}

impl Endpoint {
    /// A healthy, idle endpoint at some addresses, with port 1883 and weight 1.
    pub fn new(name: EndpointName, addresses: Vec<IpAddr>) -> Self {
        Self {
            name,
            addresses,
            port: MQTT_PORT,
            secure_port: None,
            weight: 1,
            load: Load::default(),
            healthy: true,
            draining: false,
            location: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_label_of_a_host() {
        assert_eq!(EndpointName::new("Orch-1").unwrap().as_str(), "orch-1");
        for wrong in ["", "-a", "a-", "a.b", "a_b", "ü", &"x".repeat(64)] {
            assert!(matches!(EndpointName::new(wrong), Err(NameError::NotALabel(_))), "{wrong}");
        }
        assert!(EndpointName::new(&"x".repeat(63)).is_ok());
        assert_eq!(EndpointName::new("MQTT"), Err(NameError::Reserved("mqtt".to_owned())));
    }

    #[test]
    fn a_load_is_a_part_and_the_unknown_is_full() {
        assert!(Load::new(1.01).is_err() && Load::new(f64::NAN).is_err() && Load::new(-0.1).is_err());
        assert_eq!(Load::saturating(1.7), Load(1.0));
        assert_eq!(Load::saturating(-3.0), Load(0.0));
        assert_eq!(Load::saturating(f64::NAN), Load(1.0));
    }
}
