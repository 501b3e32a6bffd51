//! Bytes that wait for the transport.

use std::collections::VecDeque;

use crate::PublishToken;

/// A buffer larger than this is given back once it is empty, in bytes.
const KEEP_CAPACITY: usize = 64 << 10;

/// Bytes that wait for the transport, and the QoS 0 messages among them.
#[derive(Debug, Default)]
pub(crate) struct Output {
    bytes: Vec<u8>,
    /// How many bytes at the front of `bytes` have been written.
    written: usize,
    /// How many bytes were dropped from the front of `bytes` since the connection began.
    dropped: u64,
    /// QoS 0 messages, each with the position of its end since the connection began.
    at_most_once: VecDeque<(u64, PublishToken)>,
}

impl Output {
    /// The bytes to write next.
    pub(crate) fn pending(&self) -> &[u8] {
        self.bytes.get(self.written..).unwrap_or(&[])
    }

    /// The buffer to append packets to.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// The bytes appended since the buffer had `len` bytes.
    pub(crate) fn since(&self, len: usize) -> &[u8] {
        self.bytes.get(len..).unwrap_or(&[])
    }

    /// The last packet in the buffer is a message of QoS 0.
    pub(crate) fn note_at_most_once(&mut self, token: PublishToken) {
        self.at_most_once.push_back((self.end(), token));
    }

    /// The position of the end of the last packet since the connection began.
    pub(crate) fn end(&self) -> u64 {
        self.dropped + self.bytes.len() as u64
    }

    /// How many bytes have been written since the connection began.
    pub(crate) fn written(&self) -> u64 {
        self.dropped + self.written as u64
    }

    /// `count` bytes have been written.
    pub(crate) fn advance(&mut self, count: usize) {
        self.written = (self.written + count).min(self.bytes.len());
        if self.written == self.bytes.len() {
            self.dropped += self.written as u64;
            self.written = 0;
            self.bytes.clear();
            if self.bytes.capacity() > KEEP_CAPACITY {
                self.bytes = Vec::new();
            }
        } else if self.written >= KEEP_CAPACITY && self.written > self.bytes.len() / 2 {
            // Fewer bytes are moved than were written, so the cost per byte stays constant.
            self.dropped += self.written as u64;
            self.bytes.drain(..self.written);
            self.written = 0;
        }
    }

    /// The next QoS 0 message that was written completely.
    pub(crate) fn pop_written(&mut self) -> Option<PublishToken> {
        let position = self.written();
        match self.at_most_once.front() {
            Some((end, _)) if *end <= position => self.at_most_once.pop_front().map(|(_, token)| token),
            _ => None,
        }
    }

    /// Forgets the bytes, since the connection is over, and returns the QoS 0 messages that were among them.
    pub(crate) fn clear(&mut self) -> impl Iterator<Item = PublishToken> + use<> {
        let lost = std::mem::take(self).at_most_once;
        lost.into_iter().map(|(_, token)| token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_written_when_its_last_byte_is() {
        let mut output = Output::default();
        output.buffer().extend_from_slice(b"one");
        output.note_at_most_once(PublishToken(1));
        output.buffer().extend_from_slice(b"two");
        output.note_at_most_once(PublishToken(2));
        output.advance(2);
        assert_eq!(output.pop_written(), None);
        assert_eq!(output.pending(), b"etwo");
        output.advance(1);
        assert_eq!(output.pop_written(), Some(PublishToken(1)));
        assert_eq!(output.pop_written(), None);
        assert_eq!(output.clear().collect::<Vec<_>>(), [PublishToken(2)]);
        assert_eq!(output.pending(), b"");
    }

    #[test]
    fn positions_survive_the_dropping_of_written_bytes() {
        let mut output = Output::default();
        output.buffer().extend(std::iter::repeat_n(0, 3 * KEEP_CAPACITY));
        output.note_at_most_once(PublishToken(1));
        output.advance(2 * KEEP_CAPACITY);
        assert_eq!(output.pending().len(), KEEP_CAPACITY);
        assert_eq!(output.pop_written(), None);
        output.buffer().push(1);
        output.note_at_most_once(PublishToken(2));
        output.advance(KEEP_CAPACITY);
        assert_eq!(output.pop_written(), Some(PublishToken(1)));
        assert_eq!(output.pop_written(), None);
        output.advance(1);
        assert_eq!(output.pop_written(), Some(PublishToken(2)));
        assert_eq!(output.pending(), b"");
    }
}
