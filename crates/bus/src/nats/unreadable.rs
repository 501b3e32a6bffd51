//! Messages of other programs whose headers the client cannot read. It closes its connection when it meets one. So a
//! reader that read on in the same way would meet it again and again, and block all other work on the connection.

use std::str::FromStr;
use std::time::Instant;

use async_nats::{HeaderMap, HeaderName, HeaderValue};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::json;

use super::naming;
use super::server::{Failure, NO_MESSAGE_FOUND, Server};
use crate::{LogPartition, Position};

/// A message as the server has stored it.
pub(super) struct Stored {
    pub(super) position: Position,
    /// `None` where the client could not read them.
    pub(super) headers: Option<HeaderMap>,
    pub(super) payload: Bytes,
}

impl Server {
    /// The first message at a position or behind it, in an answer in which headers are but bytes.
    pub(super) async fn stored(
        &self,
        place: &LogPartition,
        from: Position,
        deadline: Instant,
    ) -> Result<Option<Stored>, Failure> {
        let stream = naming::stream(&self.settings.prefix, &place.log, place.partition);
        let body = json!({ "seq": from.0, "next_by_subj": ">" });
        let answer = match self.ask(deadline, format!("STREAM.MSG.GET.{stream}"), &body).await {
            Ok(answer) => answer,
            Err(Failure::Refused { code: NO_MESSAGE_FOUND, .. }) => return Ok(None),
            Err(failure) => return Err(failure),
        };
        let message = &answer["message"];
        let bytes = |name: &str| STANDARD.decode(message[name].as_str().unwrap_or_default()).unwrap_or_default();
        let position = message["seq"].as_u64().map(Position);
        let stored = |position| Stored { position, headers: read(&bytes("hdrs")), payload: bytes("data").into() };
        Ok(position.map(stored))
    }
}

/// Headers as the client reads them; none at all are empty ones.
fn read(block: &[u8]) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    if block.is_empty() {
        return Some(headers);
    }
    let mut lines = std::str::from_utf8(block).ok()?.lines().peekable();
    // The text after the version is a status of the server: in a stored record the client misunderstands it.
    if !lines.next()?.strip_prefix("NATS/1.0")?.trim().is_empty() {
        return None;
    }
    while let Some(line) = lines.next() {
        if line.is_empty() {
            continue;
        }
        let (name, value) = line.split_once(':')?;
        let mut value = value.trim_start().to_owned();
        while let Some(more) = lines.next_if(|line| line.starts_with(char::is_whitespace)) {
            value.push_str(more);
        }
        headers.append(HeaderName::from_str(name).ok()?, HeaderValue::from_str(value.trim_end()).ok()?);
    }
    Some(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_the_client_reads_them() {
        let headers = read(b"NATS/1.0\r\na: 1\r\nb:2 \r\n and more\r\na: 3\r\n\r\n").unwrap();
        let all = |name: &str| headers.get_all(name).map(|value| value.as_str().to_owned()).collect::<Vec<_>>();
        assert_eq!((all("a"), all("b")), (vec!["1".to_owned(), "3".to_owned()], vec!["2  and more".to_owned()]));
        assert!(read(b"").is_some_and(|headers| headers.is_empty()));
        for block in
            [&b"NATS/1.0\r\na: \xff\r\n\r\n"[..], b"NATS/1.0\r\nno colon\r\n\r\n", b"NATS/1.0 404 None\r\n\r\n"]
        {
            assert!(read(block).is_none(), "{block:?}");
        }
        for block in [&b"NATS/2.0\r\n\r\n"[..], b"x", b"NATS/1.0\r\na b: 1\r\n\r\n"] {
            assert!(read(block).is_none(), "{block:?}");
        }
    }
}
