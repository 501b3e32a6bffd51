//! Peers: the brokers that are measured, each described by a template, started afresh for each run, probed, and stopped.
//!
//! A template is a TOML file; those that are shipped are in the binary, and a directory may add to them or replace them. A peer can also be an
//! address: then it is only spoken to, and what it uses can be sampled only when its process is named.

mod error;
mod install;
mod left_behind;
mod placeholder;
mod ports;
mod readiness;
mod running;
mod spawn;
mod template;

pub use error::PeerError;
pub use install::{install, is_installed};
pub use ports::Ports;
pub use running::{GatewayOrder, Running, Stopped};
pub use spawn::Place;
pub use template::{Catalogue, Template};

/// What a run is made against.
#[derive(Clone, Debug)]
pub enum Peer {
    /// A broker that is started and stopped for each run.
    Template(Box<Template>),
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
            Self::Template(template) => &template.name,
            Self::Address { name, .. } => name,
        }
    }

    /// Reads a peer as a command line names it: the name of a template, `NAME=mqtt://HOST:PORT` or `mqtt://HOST:PORT`, with `#PID` behind an
    /// address when the process is to be sampled.
    ///
    /// # Errors
    /// When no template has that name.
    pub fn read(text: &str, catalogue: &Catalogue) -> Result<Self, PeerError> {
        if !text.contains("://") {
            return Ok(Self::Template(Box::new(catalogue.get(text)?.clone())));
        }
        let (name, rest) = match text.split_once('=') {
            Some((name, rest)) if !name.contains("://") => (Some(name), rest),
            _ => (None, text),
        };
        let (address, pid) = match rest.split_once('#') {
            Some((address, pid)) => {
                (address, Some(pid.parse().map_err(|_| PeerError::Address { text: text.to_owned() })?))
            }
            None => (rest, None),
        };
        let host = address.split_once("://").map_or(address, |(_, host)| host);
        if host.is_empty() {
            return Err(PeerError::Address { text: text.to_owned() });
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
        assert!(matches!(Peer::read("mosquitto", &catalogue), Ok(Peer::Template(_))));
        let Ok(Peer::Address { name, address, pid }) = Peer::read("edge=mqtt://127.0.0.1:1884#42", &catalogue) else {
            panic!("an address");
        };
        assert_eq!((name.as_str(), address.as_str(), pid), ("edge", "mqtt://127.0.0.1:1884", Some(42)));
        assert_eq!(Peer::read("mqtt://h:1", &catalogue).unwrap().name(), "h:1");
        assert!(matches!(Peer::read("mosquito", &catalogue), Err(PeerError::Unknown { .. })));
        assert!(matches!(Peer::read("mqtt://h:1#x", &catalogue), Err(PeerError::Address { .. })));
    }
}
