//! Asking a broker about a user: a connection that shows the user's credentials and ends with the broker's CONNACK
//! (BRK-10).

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustls::{ClientConnection, Stream};
use tidegate_mqtt::{
    ConnAck, Connect, ConnectProperties, ConnectReturnCode, PacketType, ReasonCode, Version, split_frame,
};

use super::brokers::{Brokers, Known};
use super::dialer::connect_plainly;

/// Longest CONNACK that is read, bytes.
const MAX_ANSWER: u32 = 64 * 1024;
/// Seconds of silence after which a broker may end a connection that asks.
const KEEP_ALIVE_SECONDS: u16 = 10;

/// The clients that brokers are asked about.
pub struct Question<'a> {
    /// The client id of the connection that asks; no other connection may have it.
    pub client_id: &'a str,
    /// The user.
    pub user_name: &'a str,
    /// The user's password, for the proof.
    pub password: Option<&'a [u8]>,
}

impl fmt::Debug for Question<'_> {
    /// Leaves the password out, and the name, which may be a token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Question").field("client_id", &self.client_id).finish_non_exhaustive()
    }
}

/// A broker's answer about a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokerWord {
    /// It lets the user in.
    Welcome,
    /// Refused for its identity.
    Refused(ReasonCode),
}

/// Why no broker has said anything about a user. The texts have no credentials.
#[derive(Debug, thiserror::Error)]
pub enum NoBrokerWord {
    /// The fleet is empty.
    #[error("the fleet has no broker")]
    NoBroker,
    /// The last broker that was asked has not answered.
    #[error("broker {broker}: {source}")]
    NoAnswer {
        /// Its name.
        broker: String,
        /// The error of the connection.
        source: io::Error,
    },
}

impl Brokers {
    /// Asks one broker after another, from number `first` on, until one answers, within `limit`. A draining broker is
    /// asked as well: it still knows its users.
    ///
    /// # Errors
    /// When no broker says anything about the user.
    pub fn ask(&self, question: &Question<'_>, first: usize, limit: Duration) -> Result<BrokerWord, NoBrokerWord> {
        let until = Instant::now() + limit;
        let brokers = self.list();
        let mut last = NoBrokerWord::NoBroker;
        for at in 0..brokers.len() {
            let Some(known) = brokers.get((first + at) % brokers.len()) else { break };
            match ask_one(known, question, until) {
                Ok(word) => return Ok(word),
                Err(source) => last = NoBrokerWord::NoAnswer { broker: known.broker.name.clone(), source },
            }
        }
        Err(last)
    }
}

/// Asks one broker, in each version that may be meant.
fn ask_one(known: &Known, question: &Question<'_>, until: Instant) -> io::Result<BrokerWord> {
    let fixed = known.broker.options.version;
    let versions = fixed.map_or(vec![Version::V311, Version::V5], |version| vec![version]);
    let mut last = too_long();
    for version in versions {
        let (code, reason) = converse(known, question, version, until)?;
        match code {
            code if !code.is_error() => return Ok(BrokerWord::Welcome),
            ReasonCode::BadUserNameOrPassword
            | ReasonCode::NotAuthorized
            | ReasonCode::Banned
            | ReasonCode::BadAuthenticationMethod => return Ok(BrokerWord::Refused(code)),
            _ => last = io::Error::other(format!("it takes no connection: {reason}")),
        }
        if code != ReasonCode::UnsupportedProtocolVersion {
            break;
        }
    }
    Err(last)
}

/// Sends CONNECT and reads CONNACK; returns its code, and that in words.
fn converse(
    known: &Known,
    question: &Question<'_>,
    version: Version,
    until: Instant,
) -> io::Result<(ReasonCode, String)> {
    let place = super::dialer::BrokerEndpoint { at: known.broker.at.clone(), tls: known.broker.tls.clone() };
    let (stream, session) = connect_plainly(&place, || left(until))?;
    let mut talk = Talk { stream, session, until };
    let connect = Connect {
        version,
        bridge: false,
        clean_start: true,
        keep_alive: KEEP_ALIVE_SECONDS,
        client_id: question.client_id,
        will: None,
        username: Some(question.user_name),
        password: question.password,
        properties: ConnectProperties::default(),
    };
    // The buffer with the password is wiped. Copies in rustls and the kernel are out of reach.
    let mut bytes = zeroize::Zeroizing::new(Vec::with_capacity(question.password.map_or(0, <[u8]>::len) + 1024));
    connect.encode(&mut bytes).map_err(|error| io::Error::new(ErrorKind::InvalidInput, error.to_string()))?;
    talk.write(&bytes)?;
    let answer = talk.read_conn_ack(version)?;
    if !answer.0.is_error() {
        // The broker need not wait for more; if the packet is lost, it notices the close.
        let _ = talk.write(&[0xe0, 0]);
    }
    Ok(answer)
}

/// A connection that blocks until a deadline.
struct Talk {
    stream: TcpStream,
    session: Option<Box<ClientConnection>>,
    until: Instant,
}

impl Talk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.set_write_timeout(Some(left(self.until)?))?;
        match &mut self.session {
            Some(session) => {
                let mut tls = Stream::new(&mut **session, &mut self.stream);
                tls.write_all(bytes).and_then(|()| tls.flush())
            }
            None => self.stream.write_all(bytes),
        }
        .map_err(in_time)
    }

    fn read_conn_ack(&mut self, version: Version) -> io::Result<(ReasonCode, String)> {
        let mut bytes = Vec::new();
        let mut buffer = [0; 1024];
        loop {
            self.stream.set_read_timeout(Some(left(self.until)?))?;
            let read = match &mut self.session {
                Some(session) => Stream::new(&mut **session, &mut self.stream).read(&mut buffer),
                None => self.stream.read(&mut buffer),
            };
            let read = read.map_err(in_time)?;
            if read == 0 {
                return Err(io::Error::new(ErrorKind::UnexpectedEof, "it closed the connection without a word"));
            }
            bytes.extend_from_slice(buffer.get(..read).unwrap_or_default());
            let wrong =
                |error: &dyn fmt::Display| io::Error::new(ErrorKind::InvalidData, format!("its answer: {error}"));
            let Some(frame) = split_frame(&bytes, MAX_ANSWER).map_err(|error| wrong(&error))? else { continue };
            if frame.packet_type() != PacketType::ConnAck {
                return Err(wrong(&format_args!("{} instead of CONNACK", frame.packet_type())));
            }
            if let (true, [_, code]) = (version.is_v5() && frame.body.get(1) != Some(&0), frame.body) {
                // A broker without MQTT 5.0 answers in the form of its version.
                let code =
                    ConnectReturnCode::from_byte(*code).map_or(ReasonCode::UnspecifiedError, ConnectReturnCode::reason);
                return Ok((code, format!("{code:?}")));
            }
            let ack = ConnAck::decode(version, frame.first_byte, frame.body).map_err(|error| wrong(&error))?;
            let reason = ack.properties.reason_string.map_or_else(|| format!("{:?}", ack.reason_code), str::to_owned);
            return Ok((ack.reason_code, reason));
        }
    }
}

/// The remaining time, if any.
fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(too_long()) } else { Ok(left) }
}

fn in_time(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => too_long(),
        _ => error,
    }
}

fn too_long() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "it does not answer in time")
}
