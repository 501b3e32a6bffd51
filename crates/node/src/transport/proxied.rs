//! A transport behind a proxy, whose connections may begin with a header of the PROXY protocol.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use super::{Ended, Input, Transport};
use crate::proxy_protocol::{HEADER_MAX, Header, Network, Progress, ProxyError, begins_header, parse};

/// What is below a header of the PROXY protocol, and what the header says.
pub(crate) struct Proxied {
    pub(super) inner: Transport,
    state: State,
}

enum State {
    /// The first bytes have not told yet. A header must come, or none may.
    Waiting { expected: bool },
    /// They have told; where the client is, unless that is where the connection comes from.
    Known(Option<SocketAddr>),
    /// They were wrong; what still arrives is thrown away.
    Refused,
}

impl Proxied {
    /// A connection from `peer` to a listener that believes proxies in these networks.
    pub(super) fn new(inner: Transport, peer: IpAddr, networks: &Arc<[Network]>) -> Self {
        let expected = networks.iter().any(|network| network.contains(peer));
        Self { inner, state: State::Waiting { expected } }
    }

    pub(super) fn is_introduced(&self) -> bool {
        matches!(self.state, State::Known(_))
    }

    pub(super) fn source(&self) -> Option<SocketAddr> {
        match self.state {
            State::Known(source) => source,
            State::Waiting { .. } | State::Refused => None,
        }
    }

    /// Reads once into `buffer`; the header is a read of its own.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Input> {
        let expected = match self.state {
            State::Known(_) => return self.inner.read(buffer),
            State::Refused => return self.inner.discard(buffer),
            State::Waiting { expected } => expected,
        };
        // The bytes stay in the socket until the header is complete, so that none has to be kept here and what follows
        // is read by whom it is for.
        let room = buffer.get_mut(..HEADER_MAX).unwrap_or_default();
        let length = match self.inner.peek(room) {
            Ok(0) => return Ok(Input::Closed),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Input::Blocked),
            Err(error) => return Err(error),
        };
        let arrived = room.get(..length).unwrap_or_default();
        match judge(arrived, expected) {
            Ok(Progress::Partial) => Ok(Input::Blocked),
            Ok(Progress::Complete(header)) => {
                self.inner.take(room.get_mut(..header.length).unwrap_or_default())?;
                self.state = State::Known(header.source);
                Ok(Input::Introduced)
            }
            Err(error) => {
                self.state = State::Refused;
                Ok(Input::Last { payload: 0..0, ended: Ended::Proxy(error) })
            }
        }
    }
}

/// What the first bytes come to: a header where one is expected, and otherwise none, which is one of no length.
fn judge(arrived: &[u8], expected: bool) -> Result<Progress, ProxyError> {
    if expected {
        return parse(arrived);
    }
    match begins_header(arrived) {
        None => Ok(Progress::Partial),
        Some(true) => Err(ProxyError::Untrusted),
        Some(false) => Ok(Progress::Complete(Header { length: 0, source: None })),
    }
}
