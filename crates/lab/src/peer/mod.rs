//! Peers: the brokers that are measured, each described by a template, started afresh for each run, probed, and
//! stopped.
//!
//! A template is a TOML file; the shipped ones are in the binary, and a directory may add to them or replace them. A
//! peer can also be an address: then the lab only connects to it, and can sample its use of the machine only if its
//! process is named.

mod error;
mod install;
mod left_behind;
mod placeholder;
mod ports;
mod readiness;
mod running;
mod spawn;
mod template;
mod watchdog;
mod without_credentials;

pub use error::PeerError;
pub use install::{install, is_installed};
pub(crate) use left_behind::MARK;
pub use ports::Ports;
pub use running::{GatewayOrder, Running, Stopped};
pub use spawn::{PeerPaths, Site, broker_of};
pub(crate) use spawn::{is_root, within};
pub use template::{Catalogue, Template};
pub use watchdog::{Watchdog, watch};
pub use without_credentials::without_credentials;

/// The peer that needs no broker.
const ZEROMQ: &str = "zeromq";

/// The counterpart of a run.
#[derive(Clone, Debug)]
pub enum Peer {
    /// A broker that is started and stopped for each run.
    Template {
        /// The template to start it from.
        template: Box<Template>,
        /// The address to connect to; empty means MQTT's.
        by: Option<String>,
        /// The name in reports.
        name: String,
    },
    /// A broker that runs already.
    Address {
        /// The name in reports.
        name: String,
        /// Such as `mqtt://192.0.2.1:1883`.
        address: String,
        /// A process to sample, when it is on this machine.
        pid: Option<u32>,
    },
}

impl Peer {
    /// The name in reports.
    pub fn name(&self) -> &str {
        match self {
            Self::Template { name, .. } | Self::Address { name, .. } => name,
        }
    }

    /// Reads a peer as a command line names it: the name of a template, that with one of its addresses as in
    /// `rabbitmq:amqp`, `zeromq`, which needs no broker, `NAME=mqtt://HOST:PORT` or `mqtt://HOST:PORT`, with `#PID`
    /// behind an address when the process is to be sampled.
    ///
    /// # Errors
    /// When no template has that name.
    pub fn read(text: &str, catalogue: &Catalogue) -> Result<Self, PeerError> {
        if text == ZEROMQ {
            // Publishers listen themselves, on ports that the system chooses.
            return Ok(Self::Address {
                name: ZEROMQ.to_owned(),
                address: "zeromq://127.0.0.1:0".to_owned(),
                pid: None,
            });
        }
        if !text.contains("://") {
            if text.contains('@') {
                return Err(PeerError::Address { text: without_credentials(text) });
            }
            let (name, by) = text.split_once(':').map_or((text, None), |(name, by)| (name, Some(by)));
            let template = catalogue.get(name)?;
            if let Some(by) = by.filter(|by| !template.addresses.contains_key(*by)) {
                let known = template.addresses.keys().cloned().collect();
                return Err(PeerError::NoAddress { peer: name.to_owned(), asked: by.to_owned(), known });
            }
            let by = by.map(str::to_owned);
            return Ok(Self::Template { template: Box::new(template.clone()), by, name: text.to_owned() });
        }
        let (name, rest) = match text.split_once('=') {
            Some((name, rest)) if !name.contains("://") => (Some(name), rest),
            _ => (None, text),
        };
        let (address, pid) = match rest.split_once('#') {
            Some((address, pid)) => {
                (address, Some(pid.parse().map_err(|_| PeerError::Address { text: without_credentials(text) })?))
            }
            None => (rest, None),
        };
        // The name is shown; user name and password are not.
        let host = address.split_once("://").map_or(address, |(_, host)| host);
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        if host.is_empty() {
            return Err(PeerError::Address { text: without_credentials(text) });
        }
        Ok(Self::Address { name: name.unwrap_or(host).to_owned(), address: address.to_owned(), pid })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_a_template_or_an_address() {
        let catalogue = Catalogue::shipped().unwrap();
        assert!(matches!(Peer::read("mosquitto", &catalogue), Ok(Peer::Template { by: None, .. })));
        let by_amqp = Peer::read("rabbitmq:amqp", &catalogue).unwrap();
        assert_eq!(by_amqp.name(), "rabbitmq:amqp");
        assert!(matches!(by_amqp, Peer::Template { by: Some(by), .. } if by == "amqp"));
        assert!(matches!(Peer::read("mosquitto:amqp", &catalogue), Err(PeerError::NoAddress { .. })));
        assert!(matches!(Peer::read("zeromq", &catalogue), Ok(Peer::Address { .. })));
        let Ok(Peer::Address { name, address, pid }) = Peer::read("edge=mqtt://127.0.0.1:1884#42", &catalogue) else {
            panic!("an address");
        };
        assert_eq!((name.as_str(), address.as_str(), pid), ("edge", "mqtt://127.0.0.1:1884", Some(42)));
        assert_eq!(Peer::read("mqtt://h:1", &catalogue).unwrap().name(), "h:1");
        assert_eq!(Peer::read("mqtt://me:secret@h:1", &catalogue).unwrap().name(), "h:1");
        for wrong in ["me:secret@h:1", "mqtt://me:secret@", "mqtt://me:secret@h:1#x"] {
            let refused = Peer::read(wrong, &catalogue).unwrap_err().to_string();
            assert!(!refused.contains("secret"), "{refused}");
        }
        assert!(matches!(Peer::read("mosquito", &catalogue), Err(PeerError::Unknown { .. })));
        assert!(matches!(Peer::read("mqtt://h:1#x", &catalogue), Err(PeerError::Address { .. })));
    }
}
