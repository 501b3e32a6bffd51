//! The layers between MQTT and TCP: TLS, WebSocket, or WebSocket in TLS.

use std::io::{self, Read, Write};
use std::sync::Arc;

use mio::net::TcpStream;
use rustls::pki_types::ServerName;
use tidegate_client::net::{WebSocket, WebSocketError};

use super::tls::{self, Tls};
use crate::load::error::LoadError;
use crate::load::plan::{LoadPlan, Target, Transport};

/// Bytes that are read at a time.
const READ_BYTES: usize = 16 * 1024;
/// Sealed bytes above which no more bytes are sealed.
const CROWDED: usize = 64 * 1024;

/// Settings of the layers of all connections of a run.
pub(crate) struct LayerSettings {
    tls: Option<(Arc<rustls::ClientConfig>, ServerName<'static>)>,
    /// The protocol that TLS must agree on (ALPN).
    must_agree: Option<&'static [u8]>,
    /// Host, port and path.
    websocket: Option<(String, u16, String)>,
}

impl LayerSettings {
    /// The layers of a plan; `None` for plain TCP.
    ///
    /// # Errors
    /// When the certificates cannot be used.
    pub(super) fn of(plan: &LoadPlan) -> Result<Option<Self>, LoadError> {
        let target = &plan.target;
        let (secured, wrapped) = match target.transport {
            Transport::Tcp | Transport::Quic => return Ok(None),
            Transport::Tls => (true, false),
            Transport::WebSocket => (false, true),
            Transport::SecureWebSocket => (true, true),
        };
        let tls = if secured {
            Some((tls::config(target, wrapped.then_some(b"http/1.1"))?, tls::server_name(target)?))
        } else {
            None
        };
        let websocket = wrapped.then(|| (target.host.clone(), target.port, target.path.clone()));
        Ok(Some(Self { tls, must_agree: None, websocket }))
    }

    /// TLS alone, and a protocol that it has to agree to.
    ///
    /// # Errors
    /// When the host is no name of a certificate.
    pub(crate) fn secured(target: &Target, must_agree: &'static [u8]) -> Result<Self, LoadError> {
        let tls = Some((tls::config(target, Some(must_agree))?, tls::server_name(target)?));
        Ok(Self { tls, must_agree: Some(must_agree), websocket: None })
    }

    /// The layers of a new connection.
    pub(super) fn begin(&self) -> Layers {
        let mut layers = Layers {
            tls: self.tls.as_ref().and_then(|(config, name)| Tls::new(config, name, self.must_agree)),
            websocket: self.websocket.as_ref().map(|(host, port, path)| WebSocket::new(host, *port, path)),
            sealed: Vec::new(),
            written: 0,
        };
        // Nothing can fail yet: TLS keeps the request until its handshake is done.
        let _ = layers.seal_frames();
        layers
    }
}

/// The layers of a connection.
pub(in crate::load) struct Layers {
    tls: Option<Tls>,
    websocket: Option<WebSocket>,
    /// Bytes in transit to TCP.
    sealed: Vec<u8>,
    written: usize,
}

impl Layers {
    /// Whether MQTT may begin.
    pub(super) fn is_open(&self) -> bool {
        self.tls.as_ref().is_none_or(Tls::is_open) && self.websocket.as_ref().is_none_or(WebSocket::is_open)
    }

    /// Whether there is something to be written.
    pub(super) fn has_output(&self) -> bool {
        self.written < self.sealed.len() || self.tls.as_ref().is_some_and(Tls::has_output)
    }

    /// Whether enough is on its way.
    pub(super) fn is_crowded(&self) -> bool {
        self.sealed.len() - self.written > CROWDED
    }

    /// Takes in bytes of MQTT.
    pub(super) fn seal(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(websocket) = &mut self.websocket else {
            return encrypt(self.tls.as_mut(), bytes, &mut self.sealed);
        };
        websocket.wrap(bytes);
        self.seal_frames()
    }

    /// Takes in the frames of the WebSocket.
    fn seal_frames(&mut self) -> io::Result<()> {
        let Some(websocket) = self.websocket.as_mut().filter(|websocket| !websocket.output().is_empty()) else {
            return Ok(());
        };
        encrypt(self.tls.as_mut(), websocket.output(), &mut self.sealed)?;
        websocket.advance_output(websocket.output().len());
        Ok(())
    }

    /// Ends the output.
    pub(super) fn say_last(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.say_last();
        }
    }

    /// Writes the sealed bytes.
    pub(super) fn write(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            tls.take_output(&mut self.sealed)?;
        }
        while self.written < self.sealed.len() {
            match stream.write(&self.sealed[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        (self.sealed, self.written) = (Vec::new(), 0);
        Ok(())
    }

    /// Reads once; how many bytes came from TCP, if it was asked in time, and whether there may be more.
    pub(super) fn read(&mut self, stream: &mut TcpStream, plain: &mut Vec<u8>) -> io::Result<(Option<usize>, bool)> {
        let mut raw = [0; READ_BYTES];
        let count = match stream.read(&mut raw) {
            Ok(count) => count,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return Ok((None, false));
            }
            Err(error) => return Err(error),
        };
        let bytes = &raw[..count];
        match (&mut self.tls, &mut self.websocket) {
            (Some(tls), None) => tls.decrypt(bytes, plain)?,
            (None, Some(websocket)) => websocket.handle_input(bytes, plain).map_err(refused)?,
            (Some(tls), Some(websocket)) => {
                let mut framed = Vec::new();
                tls.decrypt(bytes, &mut framed)?;
                websocket.handle_input(&framed, plain).map_err(refused)?;
            }
            (None, None) => plain.extend_from_slice(bytes),
        }
        // The answers to pings.
        self.seal_frames()?;
        Ok((Some(count), count == READ_BYTES))
    }
}

fn encrypt(tls: Option<&mut Tls>, bytes: &[u8], sealed: &mut Vec<u8>) -> io::Result<()> {
    if let Some(tls) = tls {
        return tls.encrypt(bytes, sealed);
    }
    sealed.extend_from_slice(bytes);
    Ok(())
}

fn refused(error: WebSocketError) -> io::Error {
    let kind = match error {
        WebSocketError::Closed => io::ErrorKind::ConnectionAborted,
        _ => io::ErrorKind::ConnectionRefused,
    };
    io::Error::new(kind, error)
}
