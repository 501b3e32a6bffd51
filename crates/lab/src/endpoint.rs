//! The address of a broker: its protocol, transport, nodes and credentials.

use crate::drivers;
use crate::load::plan::{Credentials, Node, Target, Transport};
use crate::peer::without_credentials;

/// Why an address cannot be used. It is shown without its credentials.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// It has no known scheme, or its host or port cannot be read.
    #[error(
        "`{address}` is no address such as mqtt://HOST:PORT, mqtts://, ws://, wss:// or quic://, or {}",
        drivers::Protocol::SCHEMES
    )]
    Unknown {
        /// The address.
        address: String,
    },
    /// It is an address of another protocol.
    #[error("`{address}` is an address of {protocol}, not of MQTT")]
    NotMqtt {
        /// The address.
        address: String,
        /// The protocol.
        protocol: &'static str,
    },
}

/// Reads an address of MQTT such as `mqtt://user:password@host:port`, `wss://host:port/path`, or
/// `mqtt://host:1883,host:1884` for a broker of several nodes.
///
/// # Errors
/// If the address is invalid.
pub fn target_of(address: &str) -> Result<Target, EndpointError> {
    match endpoint_of(address)? {
        (target, None) => Ok(target),
        (_, Some(protocol)) => {
            Err(EndpointError::NotMqtt { address: without_credentials(address), protocol: protocol.name() })
        }
    }
}

/// The same with the protocol, where that is not MQTT: `nats://host:port`, `amqp://`, `zeromq://`.
pub(crate) fn endpoint_of(address: &str) -> Result<(Target, Option<drivers::Protocol>), EndpointError> {
    let wrong = || EndpointError::Unknown { address: without_credentials(address) };
    let (scheme, rest) = address.split_once("://").ok_or_else(wrong)?;
    let (transport, usual, protocol) = match scheme {
        "mqtt" | "tcp" => (Transport::Tcp, 1883, None),
        "mqtts" | "tls" | "ssl" => (Transport::Tls, 8883, None),
        "ws" => (Transport::WebSocket, 80, None),
        "wss" => (Transport::SecureWebSocket, 443, None),
        "quic" => (Transport::Quic, 14_567, None),
        other => {
            let (protocol, port) = drivers::Protocol::of_scheme(other).ok_or_else(wrong)?;
            let transport = if drivers::Protocol::is_within_tls(other) { Transport::Tls } else { Transport::Tcp };
            (transport, port, Some(protocol))
        }
    };
    let (authority, path) = rest.find('/').map_or((rest, None), |slash| (&rest[..slash], Some(&rest[slash..])));
    let (user, places) = authority.rsplit_once('@').map_or((None, authority), |(user, places)| (Some(user), places));
    let mut nodes = places.split(',').map(|place| node(place, usual).ok_or_else(wrong));
    let first = nodes.next().unwrap_or_else(|| Err(wrong()))?;
    let mut target = Target::tcp(&first.host, first.port);
    target.others = nodes.collect::<Result<_, _>>()?;
    target.transport = transport;
    if let Some(path) = path.or(protocol.map(|_| "")) {
        path.clone_into(&mut target.path);
    }
    target.credentials = user.map(|user| {
        let (username, password) = user.split_once(':').unwrap_or((user, ""));
        Credentials { username: username.to_owned(), password: password.to_owned() }
    });
    Ok((target, protocol))
}

/// A host with its port, or with the usual one.
fn node(place: &str, usual: u16) -> Option<Node> {
    let (host, port) = match place.rsplit_once(':') {
        Some((host, digits)) if !digits.ends_with(']') => (host, digits.parse().ok()?),
        _ => (place, usual),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (!host.is_empty()).then(|| Node { host: host.to_owned(), port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_another_protocol_has_its_driver() {
        let (target, protocol) = endpoint_of("amqp://guest:guest@127.0.0.1").unwrap();
        assert_eq!((target.port, protocol), (5672, Some(drivers::Protocol::Amqp091)));
        let (target, protocol) = endpoint_of("h2s://x:token@hub").unwrap();
        assert_eq!((target.port, target.transport, protocol), (443, Transport::Tls, Some(drivers::Protocol::Http2)));
    }

    #[test]
    fn an_address_is_read_with_its_parts() {
        let target = target_of("ws://me:secret@[::1]:9001/mqtt").unwrap();
        assert_eq!((target.host.as_str(), target.port, target.path.as_str()), ("::1", 9001, "/mqtt"));
        assert_eq!(target.transport, Transport::WebSocket);
        assert_eq!(target.credentials.unwrap().password, "secret");
        assert_eq!(target_of("mqtts://broker.example").unwrap().port, 8883);
        let cluster = target_of("mqtt://a:1,b:2,c").unwrap();
        let others: Vec<(&str, u16)> = cluster.others.iter().map(|node| (node.host.as_str(), node.port)).collect();
        assert_eq!((cluster.port, others), (1, vec![("b", 2), ("c", 1883)]));
        for wrong in ["localhost:1883", "mqtt://a:1,", "nats://h:1", "ftp://h:1", "mqtt://", "mqtt://h:x"] {
            assert!(target_of(wrong).is_err(), "{wrong}");
        }
        for wrong in ["nats://me:secret@h", "ftp://me:secret@h", "mqtt://me:se/cret@h"] {
            assert!(!target_of(wrong).unwrap_err().to_string().contains("cret@"), "{wrong}");
        }
    }
}
