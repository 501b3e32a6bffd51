//! One update over TCP, and its answer.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hickory_proto::ProtoError;
use hickory_proto::op::ResponseCode;

use super::{UpdateSettings, message};
use crate::endpoint::{Endpoint, EndpointName};

/// Time for a connection, and as much for the whole exchange.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Why an update failed.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    /// The connection.
    #[error("cannot exchange a message with the server: {0}")]
    Connection(#[from] io::Error),
    /// A message cannot be written or read.
    #[error("the message or its signature is wrong: {0}; check the key and the clocks of both ends")]
    Message(#[from] ProtoError),
    /// The server refuses.
    #[error("the server answers {0}; check that it allows this key to update the zone")]
    Refused(ResponseCode),
}

/// Sends an update of all endpoints, and waits for the answer.
pub(super) fn send(
    settings: &UpdateSettings,
    endpoints: &[Endpoint],
    labels: &BTreeSet<EndpointName>,
) -> Result<(), UpdateError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // The TCP connection and the signature tie the answer to the request; the id need not be hard to guess.
    let id = u16::try_from(now.subsec_micros() & 0xFFFF).unwrap_or_default();
    let mut update = message::update(settings, id, endpoints, labels)?;
    let verifier = update.finalize(settings.key.signer(), now.as_secs())?;
    let bytes = update.to_vec()?;
    let mut stream = TcpStream::connect_timeout(&settings.server, TIMEOUT)?;
    let deadline = Instant::now() + TIMEOUT;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let length = u16::try_from(bytes.len())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "the update has more than 65,535 bytes"))?;
    let mut framed = length.to_be_bytes().to_vec();
    framed.extend_from_slice(&bytes);
    stream.write_all(&framed)?;
    let mut length = [0; 2];
    read_before(&mut stream, &mut length, deadline)?;
    let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
    read_before(&mut stream, &mut answer, deadline)?;
    let code = hickory_proto::op::Message::from_vec(&answer).map_err(ProtoError::from)?.response_code;
    if code != ResponseCode::NoError {
        return Err(UpdateError::Refused(code));
    }
    if let Some(mut verifier) = verifier {
        verifier.verify(&answer)?;
    }
    Ok(())
}

/// Fills a buffer. Single bytes do not extend the time.
fn read_before(stream: &mut TcpStream, mut buffer: &mut [u8], deadline: Instant) -> io::Result<()> {
    while !buffer.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the answer is too slow"));
        }
        stream.set_read_timeout(Some(left))?;
        let count = stream.read(buffer)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buffer = buffer.get_mut(count..).unwrap_or_default();
    }
    Ok(())
}
