//! The stream between gateways and hubs, made by the protocol of NATS.

use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

pub(super) const STREAM: &str = "DEVICES";
/// The beginning of its subjects.
pub(super) const SUBJECT: &str = "devices";
/// Bytes of the stream at most.
const MAX_BYTES: u64 = 1 << 30;
/// Time for an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// Most bytes of an answer.
const MAX_ANSWER: usize = 1 << 20;

/// Why there is no stream.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// The server cannot be reached, or does not answer.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The server refuses it.
    #[error("{0}")]
    Refused(String),
    /// The answer is not one.
    #[error("the answer of the server cannot be read: {0}")]
    Answer(String),
}

/// Makes the stream with this number of copies. For an existing stream the server gives the same answer.
pub(super) fn make_stream(host: &str, port: u16, replicas: usize) -> Result<(), BusError> {
    let mut stream = TcpStream::connect((host, port))?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    let request = json!({
        "name": STREAM, "subjects": [format!("{SUBJECT}.>")], "storage": "file", "num_replicas": replicas, "max_bytes": MAX_BYTES
    });
    let request = request.to_string();
    let length = request.len();
    let sent = format!(
        "CONNECT {{\"verbose\":false}}\r\nSUB answers 1\r\nPUB $JS.API.STREAM.CREATE.{STREAM} answers {length}\r\n{request}\r\n"
    );
    stream.write_all(sent.as_bytes())?;
    let answer = message(&mut BufReader::new(stream))?;
    match answer.get("error") {
        None => Ok(()),
        Some(error) => Err(BusError::Refused(error["description"].as_str().unwrap_or("no reason given").to_owned())),
    }
}

/// The body of the next message.
fn message(lines: &mut impl BufRead) -> Result<Value, BusError> {
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line)? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        if line.starts_with("-ERR") {
            return Err(BusError::Refused(line.trim_end().to_owned()));
        }
        if !line.starts_with("MSG ") {
            continue;
        }
        let length = line.split_whitespace().last().and_then(|word| word.parse::<usize>().ok());
        let length = length.filter(|length| *length <= MAX_ANSWER).ok_or_else(|| BusError::Answer(line.clone()))?;
        let mut body = vec![0; length];
        lines.read_exact(&mut body)?;
        return serde_json::from_slice(&body).map_err(|error| BusError::Answer(error.to_string()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_the_bus_is_read_between_other_lines() {
        let read = |text: &str| message(&mut text.as_bytes());
        assert_eq!(read("INFO {}\r\nPING\r\nMSG answers 1 7\r\n{\"a\":1}\r\n").unwrap(), json!({ "a": 1 }));
        assert!(matches!(read("-ERR 'no'\r\n"), Err(BusError::Refused(_))));
        assert!(matches!(read("MSG answers 1 99999999999\r\n"), Err(BusError::Answer(_))));
        assert!(matches!(read("MSG a 1 7\r\n{"), Err(BusError::Io(_))));
        assert!(matches!(read(""), Err(BusError::Io(_))));
    }
}
