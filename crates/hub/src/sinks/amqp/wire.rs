//! Frames and methods of AMQP 0-9-1, as far as a publisher needs them.

use super::super::SinkError;
use crate::message::HOPS_PROPERTY;

pub(super) const METHOD: u8 = 1;
pub(super) const HEADER: u8 = 2;
const BODY: u8 = 3;
pub(super) const HEARTBEAT: u8 = 8;
pub(super) const FRAME_END: u8 = 0xCE;
/// Bytes of a frame beside its payload.
pub(super) const FRAME_OVERHEAD: usize = 8;
/// Bytes of a frame before its payload: type, channel, length.
pub(super) const FRAME_HEAD: usize = 7;
/// The channel for all but the connection itself.
pub(super) const CHANNEL: u16 = 1;
/// Longest short string.
const MAX_SHORT: usize = 255;

/// A method: its class and its number.
pub(super) type Method = (u16, u16);

pub(super) const START: Method = (10, 10);
pub(super) const START_OK: Method = (10, 11);
pub(super) const TUNE: Method = (10, 30);
pub(super) const TUNE_OK: Method = (10, 31);
pub(super) const OPEN: Method = (10, 40);
pub(super) const OPEN_OK: Method = (10, 41);
pub(super) const CLOSE: Method = (10, 50);
pub(super) const CHANNEL_OPEN: Method = (20, 10);
pub(super) const CHANNEL_OPEN_OK: Method = (20, 11);
pub(super) const CHANNEL_CLOSE: Method = (20, 40);
pub(super) const CHANNEL_CLOSE_OK: Method = (20, 41);
pub(super) const EXCHANGE_DECLARE: Method = (40, 10);
pub(super) const EXCHANGE_DECLARE_OK: Method = (40, 11);
pub(super) const QUEUE_DECLARE: Method = (50, 10);
pub(super) const QUEUE_DECLARE_OK: Method = (50, 11);
const PUBLISH: Method = (60, 40);
pub(super) const RETURN: Method = (60, 50);
pub(super) const ACK: Method = (60, 80);
pub(super) const NACK: Method = (60, 120);
pub(super) const CONFIRM: Method = (85, 10);
pub(super) const CONFIRM_OK: Method = (85, 11);

/// Capabilities of the client: the server says why a login fails.
pub(super) const CAPABILITIES: &[u8] = b"\x0ccapabilitiesF\0\0\0\x1f\x1cauthentication_failure_closet\x01";

/// Appends a frame.
fn frame(kind: u8, channel: u16, payload: &[&[u8]], out: &mut Vec<u8>) {
    let len: usize = payload.iter().map(|part| part.len()).sum();
    out.push(kind);
    out.extend_from_slice(&channel.to_be_bytes());
    out.extend_from_slice(&(len as u32).to_be_bytes());
    for part in payload {
        out.extend_from_slice(part);
    }
    out.push(FRAME_END);
}

/// A method as a frame.
pub(super) fn method(channel: u16, (class, number): Method, arguments: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(FRAME_OVERHEAD + 4 + arguments.len());
    frame(METHOD, channel, &[&class.to_be_bytes(), &number.to_be_bytes(), arguments], &mut out);
    out
}

/// The part of a text that a short string holds.
pub(super) fn cut(text: &[u8]) -> &[u8] {
    &text[..text.len().min(MAX_SHORT)]
}

/// Appends a short string; a longer text is cut off.
pub(super) fn short(text: &[u8], out: &mut Vec<u8>) {
    let text = cut(text);
    out.push(text.len() as u8);
    out.extend_from_slice(text);
}

/// Appends a long string.
pub(super) fn long(text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u32).to_be_bytes());
    out.extend_from_slice(text);
}

/// A message to an exchange.
#[derive(Clone, Copy, Debug)]
pub(super) struct Publication<'a> {
    pub(super) exchange: &'a str,
    pub(super) routing_key: &'a str,
    pub(super) id: &'a str,
    pub(super) topic: &'a str,
    /// Pipelines that have published it one after the other.
    pub(super) hops: u8,
    pub(super) content_type: &'a str,
    /// Unix milliseconds.
    pub(super) timestamp: u64,
    pub(super) body: &'a [u8],
}

impl Publication<'_> {
    /// Appends its frames. The server keeps it on disk, and returns it when no queue takes it.
    pub(super) fn encode(&self, frame_max: usize, out: &mut Vec<u8>) {
        let mut arguments = vec![0, 0];
        short(self.exchange.as_bytes(), &mut arguments);
        short(self.routing_key.as_bytes(), &mut arguments);
        // Mandatory.
        arguments.push(1);
        out.extend(method(CHANNEL, PUBLISH, &arguments));
        let mut header = PUBLISH.0.to_be_bytes().to_vec();
        header.extend_from_slice(&[0, 0]);
        header.extend_from_slice(&(self.body.len() as u64).to_be_bytes());
        // Content type, headers, delivery mode, message id and timestamp follow.
        header.extend_from_slice(&0b1011_0000_1100_0000_u16.to_be_bytes());
        short(self.content_type.as_bytes(), &mut header);
        let mut table = Vec::new();
        short(b"mqtt-topic", &mut table);
        table.push(b'S');
        long(self.topic.as_bytes(), &mut table);
        short(HOPS_PROPERTY.as_bytes(), &mut table);
        table.push(b'S');
        long(self.hops.to_string().as_bytes(), &mut table);
        long(&table, &mut header);
        header.push(2);
        short(self.id.as_bytes(), &mut header);
        header.extend_from_slice(&(self.timestamp / 1000).to_be_bytes());
        frame(HEADER, CHANNEL, &[&header], out);
        for part in self.body.chunks(frame_max.saturating_sub(FRAME_OVERHEAD).max(1)) {
            frame(BODY, CHANNEL, &[part], out);
        }
    }
}

/// The message id in the header of content; empty when it has none.
pub(super) fn message_id(header: &[u8]) -> Result<Vec<u8>, SinkError> {
    let mut header = Arguments(header);
    // The class, the weight and the length of the body.
    header.take(12)?;
    let flags = header.u16()?;
    let has = |bit: u16| flags >> bit & 1 == 1;
    // Content type and encoding.
    for _ in [15, 14].into_iter().filter(|bit| has(*bit)) {
        header.short()?;
    }
    if has(13) {
        let len = header.u32()? as usize;
        header.take(len)?;
    }
    // Delivery mode and priority.
    for _ in [12, 11].into_iter().filter(|bit| has(*bit)) {
        header.u8()?;
    }
    // Correlation id, where to reply, and expiration.
    for _ in [10, 9, 8].into_iter().filter(|bit| has(*bit)) {
        header.short()?;
    }
    if !has(7) {
        return Ok(Vec::new());
    }
    let len = usize::from(header.u8()?);
    Ok(header.take(len)?.to_vec())
}

/// The arguments of a method, read from their front.
#[derive(Debug)]
pub(super) struct Arguments<'a>(pub(super) &'a [u8]);

impl<'a> Arguments<'a> {
    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], SinkError> {
        let short = || SinkError::away("the answer is not that of an AMQP 0-9-1 server");
        let (front, rest) = self.0.split_at_checked(len).ok_or_else(short)?;
        self.0 = rest;
        Ok(front)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], SinkError> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    pub(super) fn u8(&mut self) -> Result<u8, SinkError> {
        self.array().map(u8::from_be_bytes)
    }

    pub(super) fn u16(&mut self) -> Result<u16, SinkError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, SinkError> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, SinkError> {
        self.array().map(u64::from_be_bytes)
    }

    pub(super) fn short(&mut self) -> Result<String, SinkError> {
        let len = usize::from(self.u8()?);
        Ok(String::from_utf8_lossy(self.take(len)?).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_split_at_the_largest_frame() {
        let publication = Publication {
            exchange: "x",
            routing_key: "a.b",
            id: "7",
            topic: "a/b",
            hops: 3,
            content_type: "t",
            timestamp: 2_999,
            body: b"0123456789",
        };
        let mut out = Vec::new();
        publication.encode(FRAME_OVERHEAD + 4, &mut out);
        let method = b"\x01\0\x01\0\0\0\x0d\0\x3c\0\x28\0\0\x01x\x03a.b\x01\xce";
        assert_eq!(out[..method.len()], *method);
        let header = b"\x02\0\x01\0\0\0\x4a\0\x3c\0\0\0\0\0\0\0\0\0\x0a\xb0\xc0\x01t\0\0\0\x2b\x0amqtt-topicS\0\0\0\x03a/b\x11tidegate-hub-hopsS\0\0\0\x013\x02\x017\0\0\0\0\0\0\0\x02\xce";
        let rest = &out[method.len()..];
        assert_eq!(rest[..header.len()], *header);
        let payload = &header[FRAME_HEAD..header.len() - 1];
        assert_eq!(message_id(payload).unwrap(), b"7");
        assert!(message_id(&payload[..payload.len() - 9]).is_err());
        let bodies = b"\x03\0\x01\0\0\0\x040123\xce\x03\0\x01\0\0\0\x044567\xce\x03\0\x01\0\0\0\x0289\xce";
        assert_eq!(rest[header.len()..], *bodies);
    }

    #[test]
    fn arguments_end_where_they_end() {
        let mut arguments = Arguments(b"\x02ab\0\x07");
        assert_eq!((arguments.short().unwrap(), arguments.u16().unwrap()), ("ab".to_owned(), 7));
        assert!(arguments.u8().is_err() && Arguments(b"\x05ab").short().is_err());
    }
}
