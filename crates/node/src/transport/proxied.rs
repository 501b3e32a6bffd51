//! A transport behind a proxy, whose connections may begin with a header of the PROXY protocol.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use super::{Ended, Input, Proxies, Transport};
use crate::proxy_protocol::{
    HEADER_MAX, Header, HeaderFields, Progress, ProxyError, RelayedConnection, RelayedTenant, begins_header, parse,
};
use crate::secret::Secret;
use crate::tls::TlsFacts;

/// The transport below a header of the PROXY protocol, and the content of the header.
pub(crate) struct Proxied {
    pub(super) inner: Transport,
    state: State,
    secret: Option<Secret>,
    /// The TLS session of the client, which another part of the process has ended.
    tls: Option<Arc<TlsFacts>>,
}

enum State {
    /// The first bytes are incomplete. A header is required, or forbidden.
    Waiting { expected: bool },
    /// They are complete.
    Known(Known),
    /// They were invalid; further input is dropped.
    Refused,
}

/// The content of a header.
#[derive(Clone, Copy, Default)]
struct Known {
    /// The client's address, unless it is the peer's.
    source: Option<SocketAddr>,
    tenant: Option<RelayedTenant>,
    /// A header was there, and its sender's action when a home moves.
    relayed: Option<bool>,
    /// The home that another node asks to carry the client to.
    carry_to: Option<SocketAddr>,
}

impl Proxied {
    /// A connection from `peer` to a listener that believes these proxies.
    pub(super) fn new(inner: Transport, peer: IpAddr, proxies: &Proxies) -> Self {
        let expected = proxies.networks.iter().any(|network| network.contains(peer));
        Self { inner, state: State::Waiting { expected }, secret: proxies.secret.clone(), tls: None }
    }

    /// A connection from within the process, for a client at `source`, over this TLS session if it has one.
    pub(super) fn introduced(inner: Transport, source: SocketAddr, tls: Option<Arc<TlsFacts>>) -> Self {
        let state = State::Known(Known { source: Some(source), ..Known::default() });
        Self { inner, state, secret: None, tls }
    }

    /// The TLS session of a client that another part of the process serves.
    pub(super) fn tls(&self) -> Option<&Arc<TlsFacts>> {
        self.tls.as_ref()
    }

    pub(super) fn is_introduced(&self) -> bool {
        matches!(self.state, State::Known(_))
    }

    pub(super) fn source(&self) -> Option<SocketAddr> {
        self.known().source
    }

    /// The tenant that another node has found for the client.
    pub(super) fn tenant(&self) -> Option<RelayedTenant> {
        self.known().tenant
    }

    /// Whether another node relays the client.
    pub(super) fn relayed(&self) -> RelayedConnection {
        match self.known().relayed {
            None => RelayedConnection::Not,
            Some(true) => RelayedConnection::Continues,
            Some(false) => RelayedConnection::Ends,
        }
    }

    /// The home that another node asks to carry the client to.
    pub(super) fn carry_to(&self) -> Option<SocketAddr> {
        self.known().carry_to
    }

    fn known(&self) -> Known {
        match self.state {
            State::Known(known) => known,
            State::Waiting { .. } | State::Refused => Known::default(),
        }
    }

    /// Reads once into `buffer`; the header is a read of its own.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Input> {
        let expected = match self.state {
            State::Known(_) => return self.inner.read(buffer),
            State::Refused => return self.inner.discard(buffer),
            State::Waiting { expected } => expected,
        };
        // The bytes stay in the socket until the header is complete, so that none is kept here and the layer above
        // reads the rest.
        let room = buffer.get_mut(..HEADER_MAX).unwrap_or_default();
        let length = match self.inner.peek(room) {
            Ok(0) => return Ok(Input::Closed),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Input::Blocked),
            Err(error) => return Err(error),
        };
        let arrived = room.get(..length).unwrap_or_default();
        let proven = |progress| match (&self.secret, &progress) {
            (Some(secret), Progress::Complete(header)) if !secret.proves(header) => Err(ProxyError::Unproven),
            _ => Ok(progress),
        };
        match judge(arrived, expected).and_then(proven) {
            Ok(Progress::Partial) => Ok(Input::Blocked),
            Ok(Progress::Complete(header)) => {
                self.inner.take(room.get_mut(..header.length).unwrap_or_default())?;
                // Only nodes of the cluster know the secret, and only their listener has it.
                let HeaderFields { tenant, continues, carry_to, .. } = header.fields;
                let relayed = (self.secret.is_some() && header.length > 0).then_some(continues);
                let carry_to = carry_to.filter(|_| self.secret.is_some());
                self.state = State::Known(Known { source: header.source, tenant, relayed, carry_to });
                Ok(Input::Introduced)
            }
            Err(error) => {
                self.state = State::Refused;
                Ok(Input::Last { payload: 0..0, ended: Ended::Proxy(error) })
            }
        }
    }
}

/// Classifies the first bytes: a header where one is expected, otherwise none, which counts as a header of length 0.
fn judge(arrived: &[u8], expected: bool) -> Result<Progress, ProxyError> {
    if expected {
        return parse(arrived);
    }
    match begins_header(arrived) {
        None => Ok(Progress::Partial),
        Some(true) => Err(ProxyError::Untrusted),
        Some(false) => Ok(Progress::Complete(Header { length: 0, source: None, fields: HeaderFields::default() })),
    }
}
