//! The settings of a server.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hickory_proto::rr::Name;

use crate::endpoint::NameError;
use crate::number::NumberError;
use crate::places::Places;
use crate::policy::Policy;

/// Longest zone name, bytes on the wire: the longest name below it (a label of 63) must fit into 255 (RFC 1035, section
/// 2.3.4).
const ZONE_BYTES: usize = 255 - 64;

/// The name of a zone or host, such as `fleet.example`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneName(Name);

impl ZoneName {
    /// Takes labels with dots between, with or without a dot at the end.
    ///
    /// # Errors
    /// When it is no name, the root, or too long for names below it.
    pub fn new(text: &str) -> Result<Self, NameError> {
        let wrong = || NameError::NotALabel(text.chars().take(64).collect());
        let mut name = Name::from_ascii(text).map_err(|_| wrong())?.to_lowercase();
        name.set_fqdn(true);
        let clean =
            name.iter().all(|label| label.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte)));
        if name.is_root() || !clean || wire_bytes(&name) > ZONE_BYTES {
            return Err(wrong());
        }
        Ok(Self(name))
    }

    pub(crate) fn name(&self) -> &Name {
        &self.0
    }
}

impl fmt::Display for ZoneName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0.to_ascii().trim_end_matches('.'))
    }
}

/// The length of a name as it is sent, without compression.
fn wire_bytes(name: &Name) -> usize {
    name.iter().map(|label| label.len() + 1).sum::<usize>() + 1
}

/// How long an answer may be kept by others, from 5 to 30 s.
///
/// A drain has to wait for at least this long, since a client may hold an address until then (BRK-33).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ttl(u32);

impl Ttl {
    /// A TTL in seconds, from 5 to 30.
    ///
    /// # Errors
    /// When it is outside.
    pub fn new(seconds: u32) -> Result<Self, NumberError> {
        if (5..=30).contains(&seconds) { Ok(Self(seconds)) } else { Err(NumberError::Ttl(seconds)) }
    }

    /// The TTL in seconds.
    pub fn seconds(self) -> u32 {
        self.0
    }
}

impl Default for Ttl {
    fn default() -> Self {
        Self(10)
    }
}

/// The answer while endpoints exist and none of them is healthy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NoneHealthy {
    /// An unhealthy endpoint that is not draining. If the probe itself is at fault, as with a broken network, the fleet
    /// stays reachable. The default.
    #[default]
    LeastBad,
    /// SERVFAIL: clients try again or ask another server of the zone.
    ServerFailure,
}

/// A server of the zone, for its NS records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameServer {
    /// Its whole name, in the zone or elsewhere.
    pub name: ZoneName,
    /// Its addresses; needed where the name is in the zone, not used where it is not. At most 16.
    pub addresses: Vec<IpAddr>,
}

/// The limits of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Queries per second of one network (/24 of IPv4, /56 of IPv6), over UDP and over TCP each; 0 for no limit. A
    /// query above it is dropped, or answered as [`slip`](Self::slip) says.
    pub queries_per_second: u32,
    /// Queries that a network may ask at once after a rest, at least 1.
    pub burst: u32,
    /// Over UDP, every n-th query above the limit is answered with the TC bit, so that a client whose address is forged
    /// by others can ask over TCP; 0 for none. Over TCP the connection is closed.
    pub slip: u32,
    /// TCP connections at once; a further one is closed.
    pub tcp_connections: usize,
    /// TCP connections at once of one network; a further one is closed.
    pub tcp_connections_per_network: usize,
    /// Time for the next query of a TCP connection to be complete, and for an answer to be taken (RFC 7766, section
    /// 6.2.3).
    pub tcp_idle: Duration,
    /// Longest life of a TCP connection.
    pub tcp_life: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            queries_per_second: 200,
            burst: 400,
            slip: 2,
            tcp_connections: 256,
            tcp_connections_per_network: 32,
            tcp_idle: Duration::from_secs(5),
            tcp_life: Duration::from_secs(60),
        }
    }
}

/// The settings of a server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The zone that it answers for.
    pub zone: ZoneName,
    /// The addresses to listen on, over UDP and TCP; port 0 takes any that is free for both. On a machine with several
    /// addresses name each one, since an answer over UDP from `0.0.0.0` or `::` leaves with the address that the system prefers.
    pub listen: Vec<SocketAddr>,
    /// How an endpoint is chosen.
    pub policy: Policy,
    /// How long an answer may be cached, a negative one included.
    pub ttl: Ttl,
    /// The answer when no endpoint is healthy.
    pub none_healthy: NoneHealthy,
    /// The servers of the zone, for NS and SOA, at most 13. Empty: `ns` in the zone, at those addresses of `listen`
    /// that name one interface.
    pub name_servers: Vec<NameServer>,
    /// Locations of askers, for [`Policy::Nearest`].
    pub places: Places,
    /// The limits.
    pub limits: Limits,
    /// The first turn, so that several servers of a zone do not all begin with the same endpoint; `None` for chance.
    pub seed: Option<u64>,
}

impl Settings {
    /// The defaults for a zone: 127.0.0.1 with any free port, round robin, 10 s.
    pub fn new(zone: ZoneName) -> Self {
        Self {
            zone,
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
            policy: Policy::default(),
            ttl: Ttl::default(),
            none_healthy: NoneHealthy::default(),
            name_servers: Vec::new(),
            places: Places::default(),
            limits: Limits::default(),
            seed: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_is_5_to_30_seconds() {
        assert!(Ttl::new(4).is_err() && Ttl::new(31).is_err());
        assert_eq!((Ttl::new(5).unwrap().seconds(), Ttl::new(30).unwrap().seconds()), (5, 30));
        assert_eq!(Ttl::default().seconds(), 10);
    }

    #[test]
    fn a_zone_has_a_name_that_leaves_room_below() {
        assert_eq!(ZoneName::new("Fleet.Example.").unwrap().to_string(), "fleet.example");
        let long = [["x".repeat(62).as_str(); 3].join("."), "y".repeat(10)].join(".");
        for wrong in ["", ".", "a..b", "a b", "fleet.exämple", &long] {
            assert!(ZoneName::new(wrong).is_err(), "{wrong}");
        }
    }
}
