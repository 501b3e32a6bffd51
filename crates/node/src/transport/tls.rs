//! TLS on its socket. The session keeps keys and states; bytes pass through the shard's one buffer.
//!
//! A record is decrypted when it is complete, and only an incomplete one is kept, so an idle connection owns no buffer.

use std::io::{self, IoSlice, Write};
use std::sync::Arc;

use mio::net::TcpStream;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, InsufficientSizeError, UnbufferedStatus};
use rustls::{HandshakeKind, ProtocolVersion, ServerConfig};
use tidegate_engine::Output;

use super::socket::read;
use super::{Ended, Input, Wrote};
use crate::limits::SLICES_PER_WRITE;
use crate::tls::{
    HandshakeSlot, TlsFacts, TlsSettings, TlsVersion, certificate_problem, client_facts, take_server_name,
};

/// Room at the front of the buffer for the plaintext of one record, which is at most 2^14 bytes
/// [RFC 8446, section 5.1].
const HEADROOM: usize = 16 * 1024;

/// Bytes that are kept until a message of the handshake, or a record, is complete. The longest message that is
/// reasonable is the certificate chain of a client.
const HELD_MAX: usize = 32 * 1024;

/// Plaintext that one write encrypts; two records less the overhead of encryption.
const PLAIN_PER_WRITE: usize = 30 * 1024;

/// Why a TLS session ended.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum TlsFailure {
    /// Before it was established.
    #[error("the TLS handshake failed: {}", explain(.0))]
    Handshake(rustls::Error),
    /// Later.
    #[error("the client broke the TLS protocol: {}", explain(.0))]
    Session(rustls::Error),
    /// In a session with a broker.
    #[error("TLS with the broker failed: {}", crate::tls::explain(.0))]
    Broker(rustls::Error),
    /// A message or a record is longer than any that is reasonable.
    #[error("a TLS message is longer than {HELD_MAX} bytes")]
    TooLong,
}

/// An explanation for people.
fn explain(error: &rustls::Error) -> String {
    use rustls::{AlertDescription, Error, InvalidMessage};
    match error {
        Error::InvalidMessage(InvalidMessage::InvalidContentType | InvalidMessage::InvalidEmptyPayload) => {
            "the client does not speak TLS".to_owned()
        }
        Error::NoCertificatesPresented => "the client has no certificate, and this listener requires one".to_owned(),
        Error::AlertReceived(alert @ (AlertDescription::UnknownCA | AlertDescription::BadCertificate)) => {
            format!("the client does not trust the server's certificate ({alert:?})")
        }
        Error::InvalidCertificate(reason) => {
            format!("the client's certificate is not accepted: {}", certificate_problem(reason))
        }
        other => other.to_string(),
    }
}

/// TLS over TCP.
pub(crate) struct Tls {
    stream: TcpStream,
    session: UnbufferedServerConnection,
    /// Received, and not yet a whole record or message.
    held: Vec<u8>,
    /// Encrypted, and not yet accepted by the socket.
    waiting: Vec<u8>,
    /// The name that the client asked for.
    server_name: Option<Box<str>>,
    phase: Phase,
    goodbye: Goodbye,
}

/// How far the session is.
#[derive(Debug)]
enum Phase {
    Handshake(#[expect(dead_code, reason = "dropping it gives the place back")] HandshakeSlot),
    Open,
    /// The client has ended its output.
    PeerClosed,
    /// The session has failed; further input is dropped.
    Failed,
}

/// How far our own goodbye is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goodbye {
    None,
    /// It is sent after all output.
    Wanted,
    Said,
}

/// The result of sending output.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    /// How many bytes of it are written, or encrypted and kept.
    pub bytes: usize,
    /// Whether the socket takes no more until it says so.
    pub blocked: bool,
}

/// The next action after one step of the session.
enum Step {
    Again,
    Wait,
    Fail(TlsFailure),
}

impl Tls {
    /// A session that waits for its `ClientHello`.
    pub(super) fn new(stream: TcpStream, config: Arc<ServerConfig>, slot: HandshakeSlot) -> io::Result<Self> {
        let session = UnbufferedServerConnection::new(config).map_err(io::Error::other)?;
        Ok(Self {
            stream,
            session,
            held: Vec::new(),
            waiting: Vec::new(),
            server_name: None,
            phase: Phase::Handshake(slot),
            goodbye: Goodbye::None,
        })
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(super) fn stream_mut(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    pub(super) fn is_handshaking(&self) -> bool {
        matches!(self.phase, Phase::Handshake(_))
    }

    /// Whether the session was established, and by a ticket.
    pub(super) fn is_resumed(&self) -> bool {
        self.session.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::PeerClosed | Phase::Failed)
    }

    /// Whether bytes of TLS itself wait to be written.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty() || (self.goodbye == Goodbye::Wanted && self.can_send())
    }

    /// Whether the session is established, so that output can be encrypted.
    pub(super) fn can_send(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::PeerClosed)
    }

    pub(super) fn close(&mut self) {
        if self.goodbye == Goodbye::None {
            self.goodbye = Goodbye::Wanted;
        }
    }

    /// Reads once and leaves the plaintext at the front of `buffer`.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Input> {
        match self.phase {
            Phase::PeerClosed => {
                // The answer that is owed [RFC 8446, section 6.1]; whether it still arrives is the same to us.
                self.close();
                let _ = self.finish();
                return Ok(Input::Closed);
            }
            Phase::Failed => {
                let input = read(&mut self.stream, buffer)?;
                let Input::Bytes { full, .. } = input else { return Ok(input) };
                return Ok(Input::Bytes { payload: 0..0, full });
            }
            Phase::Handshake(_) | Phase::Open => {}
        }
        let start = HEADROOM.min(buffer.len());
        let (kept, room) = match buffer.get_mut(start..).and_then(|back| back.split_at_mut_checked(self.held.len())) {
            Some((kept, room)) if !room.is_empty() => (kept, room),
            _ => return Ok(self.fail(0, TlsFailure::TooLong)),
        };
        kept.copy_from_slice(&self.held);
        let input = read(&mut self.stream, room)?;
        let Input::Bytes { payload, full } = input else { return Ok(input) };
        let end = start + self.held.len() + payload.len();
        let (filled, failure) = self.open_records(buffer, start, end);
        Ok(match failure {
            Some(failure) => self.fail(filled, failure),
            None => Input::Bytes { payload: 0..filled, full: full || matches!(self.phase, Phase::PeerClosed) },
        })
    }

    fn fail(&mut self, filled: usize, failure: TlsFailure) -> Input {
        self.phase = Phase::Failed;
        self.held = Vec::new();
        Input::Last { payload: 0..filled, ended: Ended::Tls(failure) }
    }

    /// Works off the records in `buffer[start..end]`, and puts their plaintext together at the front. It never reaches
    /// a record that is still to come: a record's plaintext is shorter than the record, and there is room for one
    /// before the first. Returns the length of the plaintext, and why the session is at its end.
    fn open_records(&mut self, buffer: &mut [u8], mut start: usize, end: usize) -> (usize, Option<TlsFailure>) {
        let (mut filled, mut failure) = (0, None);
        while let Some((front, back)) = buffer.split_at_mut_checked(start) {
            let records = back.get_mut(..end - start).unwrap_or_default();
            let (step, discard) = self.step(records, front, &mut filled);
            start = (start + discard).min(end);
            match step {
                Step::Again => {}
                Step::Wait => break,
                Step::Fail(first) => failure = failure.or(Some(first)),
            }
            // A failed session still offers the alert for the client; no other call is allowed.
            if failure.is_some() && !self.session.wants_write() {
                break;
            }
        }
        let rest = buffer.get(start..end).unwrap_or_default();
        if rest.len() > HELD_MAX {
            return (filled, failure.or(Some(TlsFailure::TooLong)));
        }
        // Exactly as large as needed; an empty rest allocates nothing.
        self.held = rest.to_vec();
        self.settle();
        (filled, failure)
    }

    /// One step of the session: how to go on, and how many bytes of `records` it is done with.
    fn step(&mut self, records: &mut [u8], plain: &mut [u8], filled: &mut usize) -> (Step, usize) {
        let handshaking = self.is_handshaking();
        let UnbufferedStatus { mut discard, state } = self.session.process_tls_records(records);
        let step = match state {
            Err(error) if handshaking => Step::Fail(TlsFailure::Handshake(error)),
            Err(error) => Step::Fail(TlsFailure::Session(error)),
            Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                let mut step = Step::Again;
                while let Some(record) = traffic.next_record() {
                    match record {
                        Ok(record) => {
                            discard += record.discard;
                            let place = plain.get_mut(*filled..).and_then(|room| room.get_mut(..record.payload.len()));
                            match place {
                                Some(place) => place.copy_from_slice(record.payload),
                                None => step = Step::Fail(TlsFailure::TooLong),
                            }
                            *filled += record.payload.len();
                        }
                        Err(error) => step = Step::Fail(TlsFailure::Session(error)),
                    }
                }
                step
            }
            Ok(ConnectionState::EncodeTlsData(mut data)) => {
                append(&mut self.waiting, |out| data.encode(out));
                Step::Again
            }
            Ok(ConnectionState::TransmitTlsData(data)) => {
                data.done();
                Step::Again
            }
            Ok(ConnectionState::PeerClosed) => {
                self.phase = Phase::PeerClosed;
                Step::Again
            }
            // Early data is never offered, so none is accepted; otherwise more bytes are needed.
            Ok(_) => Step::Wait,
        };
        if let Some(name) = handshaking.then(take_server_name).flatten() {
            self.server_name = Some(name);
        }
        (step, discard)
    }

    /// Notes the end of the handshake.
    fn settle(&mut self) {
        if self.is_handshaking() && !self.session.is_handshaking() {
            self.phase = Phase::Open;
        }
    }

    /// Writes encrypted bytes. False when the socket does not accept all of them.
    pub(super) fn flush(&mut self) -> io::Result<bool> {
        while !self.waiting.is_empty() {
            let written = write_once(&mut self.stream, &self.waiting)?;
            if written == 0 {
                return Ok(false);
            }
            self.waiting.drain(..written);
        }
        // An idle connection keeps no buffer, however small.
        self.waiting = Vec::new();
        Ok(true)
    }

    /// Writes once: pending bytes, then a part of `output`, at the end the `close_notify`.
    pub(super) fn write(&mut self, output: Option<&mut Output>, scratch: &mut [u8]) -> io::Result<Wrote> {
        if !self.flush()? {
            return Ok(Wrote::Blocked);
        }
        let Some(output) = output.filter(|output| output.is_writable()).filter(|_| self.can_send()) else {
            return self.finish();
        };
        let mut slices = [IoSlice::new(&[]); SLICES_PER_WRITE];
        let filled = output.slices(&mut slices);
        let sent = self.send(slices.get(..filled).unwrap_or_default(), scratch)?;
        output.advance(sent.bytes);
        Ok(match sent.blocked {
            true => Wrote::Blocked,
            false if !output.is_writable() && !self.is_waiting() => Wrote::All,
            false => Wrote::Some,
        })
    }

    /// Says goodbye once that is wanted, now that everything else is written.
    pub(super) fn finish(&mut self) -> io::Result<Wrote> {
        if self.goodbye == Goodbye::Wanted && self.can_send() {
            self.goodbye = Goodbye::Said;
            if let Ok(ConnectionState::WriteTraffic(mut traffic)) =
                self.session.process_tls_records(&mut self.held).state
            {
                append(&mut self.waiting, |out| {
                    traffic.queue_close_notify(out).map_err(|error| match error {
                        rustls::unbuffered::EncryptError::InsufficientSize(size) => EncodeError::InsufficientSize(size),
                        rustls::unbuffered::EncryptError::EncryptExhausted => EncodeError::AlreadyEncoded,
                    })
                });
            }
        }
        Ok(if self.flush()? { Wrote::All } else { Wrote::Blocked })
    }

    /// Encrypts a part of `slices` and writes it once. Bytes that the socket does not accept are kept. No bytes may be
    /// pending.
    pub(super) fn send(&mut self, slices: &[IoSlice<'_>], scratch: &mut [u8]) -> io::Result<Sent> {
        let (gathered, encrypted) = scratch.split_at_mut(PLAIN_PER_WRITE.min(scratch.len() / 2));
        let plain = match slices {
            [only] => only.get(..only.len().min(gathered.len())).unwrap_or(only),
            _ => gather(slices, gathered),
        };
        if plain.is_empty() {
            return Ok(Sent { bytes: 0, blocked: false });
        }
        // The held bytes are not processed, for they contain no complete record; but the session needs them for a
        // message that is split over records.
        let UnbufferedStatus { state, .. } = self.session.process_tls_records(&mut self.held);
        let length = match state {
            Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                traffic.encrypt(plain, encrypted).map_err(|error| io::Error::other(error.to_string()))?
            }
            Ok(ConnectionState::EncodeTlsData(mut data)) => {
                // An answer of the session itself goes first; the output follows in the next turn.
                append(&mut self.waiting, |out| data.encode(out));
                let blocked = !self.flush()?;
                return Ok(Sent { bytes: 0, blocked });
            }
            Ok(ConnectionState::TransmitTlsData(data)) => {
                data.done();
                return Ok(Sent { bytes: 0, blocked: false });
            }
            Ok(_) => return Err(io::ErrorKind::NotConnected.into()),
            Err(error) => return Err(io::Error::other(error)),
        };
        let encrypted = encrypted.get(..length).unwrap_or_default();
        let written = write_once(&mut self.stream, encrypted)?;
        let rest = encrypted.get(written..).unwrap_or_default();
        self.waiting.extend_from_slice(rest);
        Ok(Sent { bytes: plain.len(), blocked: !rest.is_empty() })
    }

    /// The certificates that the client has shown, DER.
    pub(super) fn client_chain(&self) -> Vec<Box<[u8]>> {
        let chain = self.session.peer_certificates().unwrap_or_default();
        chain.iter().map(|certificate| certificate.as_ref().into()).collect()
    }

    /// The result of the handshake, and the client's identity by the listener's rule.
    pub(super) fn facts(&self, settings: &TlsSettings) -> Option<TlsFacts> {
        let version = match self.session.protocol_version()? {
            ProtocolVersion::TLSv1_3 => TlsVersion::Tls13,
            _ => TlsVersion::Tls12,
        };
        let client = self.session.peer_certificates().and_then(|chain| chain.first());
        let (client, identity) = client.map_or((None, None), |certificate| client_facts(certificate, settings));
        Some(TlsFacts {
            version,
            server_name: self.server_name.clone(),
            alpn: self.session.alpn_protocol().map(Box::from),
            client,
            identity,
        })
    }
}

/// Puts the front of `slices` together in `room`.
fn gather<'a>(slices: &[IoSlice<'_>], room: &'a mut [u8]) -> &'a [u8] {
    let mut filled = 0;
    for slice in slices {
        let free = room.get_mut(filled..).unwrap_or_default();
        let count = slice.len().min(free.len());
        if let (Some(place), Some(part)) = (free.get_mut(..count), slice.get(..count)) {
            place.copy_from_slice(part);
        }
        filled += count;
    }
    room.get(..filled).unwrap_or_default()
}

/// Appends the output of an encoder, which returns the needed size if the buffer is too small.
fn append(waiting: &mut Vec<u8>, mut encode: impl FnMut(&mut [u8]) -> Result<usize, EncodeError>) {
    if let Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) = encode(&mut []) {
        let before = waiting.len();
        waiting.resize(before + required_size, 0);
        let written = encode(waiting.get_mut(before..).unwrap_or_default()).unwrap_or(0);
        waiting.truncate(before + written);
    }
}

/// Writes once and returns how many bytes the socket took, 0 when it would block.
fn write_once(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<usize> {
    loop {
        return match stream.write(bytes) {
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => Ok(written),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
    }
}
