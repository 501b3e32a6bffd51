//! A connection to a broker of Kafka: requests and their answers, one after the other, after the login.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use ring::rand::{SecureRandom, SystemRandom};
use rustls::ClientConfig;

use super::super::socket::{ServerAddress, Socket};
use super::SaslMechanism;
use super::scram::{Hash, Scram};
use super::wire::{self, AnswerReader, Api};
use crate::sinks::SinkError;

/// Longest answer, bytes.
const MAX_ANSWER: usize = 8 << 20;
/// Silence after which a new connection is made: brokers close silent connections.
const MAX_SILENCE: Duration = Duration::from_secs(60);

/// How connections are made.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) tls: Option<Arc<ClientConfig>>,
    /// User name and password.
    pub(crate) login: Option<(String, String)>,
    pub(crate) mechanism: SaslMechanism,
}

#[derive(Debug)]
pub(crate) struct BrokerConnection {
    socket: Socket,
    correlation: i32,
    last_used: Instant,
}

impl BrokerConnection {
    pub(crate) fn open(at: &ServerAddress, access: &Access, deadline: Instant) -> Result<Self, SinkError> {
        let socket = Socket::connect(at, access.tls.as_ref(), deadline)?;
        let mut connection = Self { socket, correlation: 0, last_used: Instant::now() };
        if let Some((user, password)) = &access.login {
            connection.log_in(access.mechanism, user, password)?;
        }
        Ok(connection)
    }

    /// Whether it may have been closed in the meantime.
    pub(crate) fn is_stale(&self) -> bool {
        self.last_used.elapsed() > MAX_SILENCE
    }

    pub(crate) fn set_deadline(&mut self, deadline: Instant) {
        self.socket.set_deadline(deadline);
    }

    /// Sends a request and reads its answer.
    pub(crate) fn ask(&mut self, api: Api, body: &[u8]) -> Result<Vec<u8>, SinkError> {
        self.send(api, body)?;
        self.receive()
    }

    /// Sends a request, whose answer has to be received before the next one.
    pub(crate) fn send(&mut self, api: Api, body: &[u8]) -> Result<(), SinkError> {
        self.correlation = self.correlation.wrapping_add(1);
        self.last_used = Instant::now();
        self.socket.send(&wire::request(api, self.correlation, body))
    }

    /// Waits for the first byte of an answer, for `limit` at most. Returns whether it is there.
    pub(crate) fn is_answered(&mut self, limit: Duration) -> Result<bool, SinkError> {
        self.socket.has_bytes(limit)
    }

    /// Reads the answer to the last request.
    pub(crate) fn receive(&mut self) -> Result<Vec<u8>, SinkError> {
        let mut len = [0; 4];
        self.socket.receive(&mut len)?;
        let len = u32::from_be_bytes(len) as usize;
        let unexpected = || SinkError::away("the answer is not that of a Kafka broker");
        if !(4..=MAX_ANSWER).contains(&len) {
            return Err(unexpected());
        }
        let mut answer = vec![0; len];
        self.socket.receive(&mut answer)?;
        if answer[..4] != self.correlation.to_be_bytes() {
            return Err(unexpected());
        }
        answer.drain(..4);
        Ok(answer)
    }

    fn log_in(&mut self, mechanism: SaslMechanism, user: &str, password: &str) -> Result<(), SinkError> {
        let (name, hash) = match mechanism {
            SaslMechanism::Plain => ("PLAIN", None),
            SaslMechanism::ScramSha256 => ("SCRAM-SHA-256", Some(Hash::Sha256)),
            SaslMechanism::ScramSha512 => ("SCRAM-SHA-512", Some(Hash::Sha512)),
        };
        let mut body = Vec::new();
        wire::string(name, &mut body);
        let answer = self.ask(wire::SASL_HANDSHAKE, &body)?;
        match AnswerReader(&answer).i16()? {
            0 => {}
            error => return Err(SinkError::Away(wire::in_words(error))),
        }
        let Some(hash) = hash else {
            return self.authenticate(format!("\0{user}\0{password}").as_bytes()).map(drop);
        };
        let mut nonce = [0; 24];
        SystemRandom::new().fill(&mut nonce).map_err(|_| SinkError::away("the system gives no random numbers"))?;
        let scram = Scram::new(hash, user, password, STANDARD_NO_PAD.encode(nonce));
        let server = self.authenticate(scram.first().as_bytes())?;
        let (last, expected) = scram.finish(&server).map_err(SinkError::away)?;
        if self.authenticate(last.as_bytes())? != expected {
            return Err(SinkError::away("the server does not know the password"));
        }
        Ok(())
    }

    fn authenticate(&mut self, bytes: &[u8]) -> Result<String, SinkError> {
        let mut body = Vec::new();
        wire::bytes(bytes, &mut body);
        let answer = self.ask(wire::SASL_AUTHENTICATE, &body)?;
        let mut answer = AnswerReader(&answer);
        let (error, said) = (answer.i16()?, answer.string()?);
        match error {
            0 => Ok(String::from_utf8_lossy(answer.bytes()?).into_owned()),
            error if said.is_empty() => Err(SinkError::Away(wire::in_words(error))),
            _ => Err(SinkError::Away(said)),
        }
    }
}
