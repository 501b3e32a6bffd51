//! The link of a client: TCP with its layers, or a stream of QUIC.

use std::io;
use std::net::{IpAddr, SocketAddr};

use mio::{Interest, Registry, Token};

use super::connection::{Brought, Connection};
use super::dial::dial;
use super::layers::LayerSettings;
use super::quic::{Connections, Quic};
use crate::load::core::Output;
use crate::load::error::LoadError;
use crate::load::plan::LoadPlan;

/// Settings of the links of all clients of a run.
pub(super) struct LinkSettings {
    layers: Option<LayerSettings>,
    quic: Option<Connections>,
}

impl LinkSettings {
    /// The links of a plan.
    ///
    /// # Errors
    /// When the certificates cannot be used.
    pub(super) fn of(plan: &LoadPlan) -> Result<Self, LoadError> {
        Ok(Self { layers: LayerSettings::of(plan)?, quic: Connections::of(plan)? })
    }

    /// Begins a link, and has the poll tell about it by this token.
    ///
    /// # Errors
    /// When the system refuses it at once.
    pub(super) fn dial(
        &self,
        address: SocketAddr,
        source: Option<IpAddr>,
        (registry, token): (&Registry, Token),
    ) -> io::Result<Link> {
        if let Some(settings) = &self.quic {
            let quic = Quic::dial(settings, address, source)?;
            quic.register(registry, token)?;
            return Ok(Link::Quic(Box::new(quic)));
        }
        let mut stream = dial(address, source)?;
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        let layers = self.layers.as_ref().map(LayerSettings::begin);
        Ok(Link::Stream(Box::new(Connection::layered(stream, layers))))
    }
}

/// The link of a client.
pub(super) enum Link {
    /// TCP with its layers.
    Stream(Box<Connection>),
    /// QUIC.
    Quic(Box<Quic>),
}

impl Link {
    pub(super) fn is_connected(&self) -> bool {
        match self {
            Self::Stream(stream) => stream.is_connected(),
            Self::Quic(quic) => quic.is_connected(),
        }
    }

    /// Whether the link has been made by now.
    pub(super) fn connect(&mut self) -> io::Result<bool> {
        match self {
            Self::Stream(stream) => stream.connect(),
            Self::Quic(quic) => quic.connect(),
        }
    }

    /// Whether MQTT may begin; true once.
    pub(super) fn has_opened(&mut self) -> bool {
        match self {
            Self::Stream(stream) => stream.has_opened(),
            Self::Quic(quic) => quic.has_opened(),
        }
    }

    /// Whether something is to be written after a read.
    pub(super) fn has_own_output(&self) -> bool {
        match self {
            Self::Stream(stream) => stream.has_own_output(),
            Self::Quic(quic) => quic.is_blocked(),
        }
    }

    /// The poller has said that the other side has ended it.
    pub(super) fn note_end(&mut self) {
        if let Self::Stream(stream) = self {
            stream.note_end();
        }
    }

    /// Reads behind the incomplete packet, at most `limit` bytes.
    pub(super) fn read(&mut self, buffer: &mut Vec<u8>, limit: usize) -> io::Result<Brought> {
        match self {
            Self::Stream(stream) => stream.read(buffer, limit),
            Self::Quic(quic) => quic.read(buffer, limit),
        }
    }

    /// Keeps the incomplete packet.
    pub(super) fn keep(&mut self, rest: &[u8]) {
        match self {
            Self::Stream(stream) => stream.keep(rest),
            Self::Quic(quic) => quic.keep(rest),
        }
    }

    /// Writes as much as the link takes.
    pub(super) fn flush(&mut self, output: &mut Output, keep: bool) -> io::Result<()> {
        match self {
            Self::Stream(stream) => stream.flush(output, keep),
            Self::Quic(quic) => quic.flush(output, keep),
        }
    }

    /// Writes the link's own output.
    pub(super) fn flush_own(&mut self) -> io::Result<()> {
        match self {
            Self::Stream(stream) => stream.flush_own(),
            Self::Quic(quic) => quic.flush_own(),
        }
    }

    /// Writes the last bytes, and ends the output.
    pub(super) fn say_last(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Stream(stream) => stream.say_last(bytes),
            Self::Quic(quic) => quic.say_last(bytes),
        }
    }

    pub(super) fn deregister(&mut self, registry: &Registry) {
        match self {
            Self::Stream(stream) => stream.deregister(registry),
            Self::Quic(quic) => quic.deregister(registry),
        }
    }
}
