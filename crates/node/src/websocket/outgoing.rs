//! Output to a client: one binary frame around the bytes of each write, with pongs and the close frame between frames.
//!
//! The MQTT bytes themselves are not copied. [`Outgoing`] holds only the bytes before them (`prefix`) and counts how
//! many more of them belong to the open frame.

use super::close_code::CloseCode;
use super::frame::{Opcode, put_close, put_header, put_pong};

/// Framing of one connection's output.
#[derive(Debug, Default)]
pub struct Outgoing {
    /// Bytes that go out before any payload: the handshake's response, control frames, the open frame's header.
    prefix: Vec<u8>,
    /// How much of the prefix is written; it is no longer than a refusal's text or a pong.
    prefix_written: u32,
    /// Payload bytes that the open frame still takes. Its header is in the prefix or written.
    frame_left: usize,
    /// The last ping that waits for its pong; of several, only the last needs one [RFC 6455, section 5.5.3].
    pong: Option<Box<[u8]>>,
    close: Goodbye,
}

/// The stage of the connection's end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Goodbye {
    /// It is not in sight.
    #[default]
    None,
    /// The close frame, with or without a code, is sent when everything else is written.
    Waiting(Option<CloseCode>),
    /// The close frame is in the prefix or written: no bytes may follow it.
    Said,
}

impl Outgoing {
    /// Queues bytes that are no frame: the handshake's response.
    pub(super) fn put_raw(&mut self, bytes: &[u8]) {
        self.prefix.extend_from_slice(bytes);
    }

    /// Queues the answer to a ping.
    pub(super) fn put_pong(&mut self, payload: Box<[u8]>) {
        self.pong = Some(payload);
    }

    /// Queues the close frame after the pending output. The first one counts.
    pub(super) fn put_close(&mut self, code: Option<CloseCode>) {
        if self.close == Goodbye::None {
            self.close = Goodbye::Waiting(code);
        }
    }

    /// Prepares a write when `waiting` bytes of MQTT wait: returns how many of them may be written, behind
    /// [`Outgoing::prefix`].
    pub fn prepare(&mut self, waiting: usize) -> usize {
        if self.frame_left == 0 && self.close != Goodbye::Said {
            if let Some(payload) = self.pong.take() {
                put_pong(&mut self.prefix, &payload);
            }
            if waiting > 0 {
                put_header(&mut self.prefix, Opcode::Binary, waiting);
                self.frame_left = waiting;
            } else if let Goodbye::Waiting(code) = self.close {
                put_close(&mut self.prefix, code);
                self.close = Goodbye::Said;
            }
        }
        self.frame_left.min(waiting)
    }

    /// The bytes to write before the payload.
    pub fn prefix(&self) -> &[u8] {
        self.prefix.get(self.prefix_written as usize..).unwrap_or_default()
    }

    /// Takes note of a write of prefix and payload and returns how many bytes of it were payload.
    pub fn written(&mut self, bytes: usize) -> usize {
        let of_prefix = bytes.min(self.prefix().len());
        self.prefix_written += of_prefix as u32;
        if self.prefix_written as usize == self.prefix.len() {
            // An idle connection keeps no buffer, however small.
            self.prefix_written = 0;
            self.prefix = Vec::new();
        }
        let payload = bytes - of_prefix;
        self.frame_left -= payload.min(self.frame_left);
        payload
    }

    /// Whether bytes other than MQTT's are pending.
    pub fn is_waiting(&self) -> bool {
        !self.prefix.is_empty()
            || match self.close {
                Goodbye::None => self.pong.is_some(),
                Goodbye::Waiting(_) => true,
                Goodbye::Said => false,
            }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Writes everything, at most `step` bytes at a time.
    fn drain(outgoing: &mut Outgoing, payload: &[u8], step: usize) -> Vec<u8> {
        let (mut wire, mut rest) = (Vec::new(), payload);
        loop {
            let allowed = outgoing.prepare(rest.len());
            let mut write = outgoing.prefix().to_vec();
            write.extend_from_slice(&rest[..allowed]);
            write.truncate(step);
            if write.is_empty() {
                return wire;
            }
            let payload = outgoing.written(write.len());
            rest = &rest[payload..];
            wire.extend_from_slice(&write);
        }
    }

    #[test]
    fn one_frame_surrounds_the_output_of_a_turn() {
        for step in 1..12 {
            let mut outgoing = Outgoing::default();
            assert_eq!(drain(&mut outgoing, b"abcde", step), b"\x82\x05abcde", "step {step}");
            assert!(!outgoing.is_waiting());
        }
    }

    #[test]
    fn the_close_frame_comes_last_and_nothing_follows_it() {
        for step in 1..20 {
            let mut outgoing = Outgoing::default();
            outgoing.put_close(Some(CloseCode::GOING_AWAY));
            outgoing.put_close(Some(CloseCode::NORMAL));
            outgoing.put_pong(Box::from(*b"p"));
            let wire = drain(&mut outgoing, b"ab", step);
            assert_eq!(wire, b"\x8a\x01p\x82\x02ab\x88\x02\x03\xe9", "step {step}");
            outgoing.put_pong(Box::from(*b"late"));
            assert_eq!(drain(&mut outgoing, b"late", step), b"");
            assert!(!outgoing.is_waiting());
        }
    }

    #[test]
    fn a_pong_waits_for_the_end_of_an_unfinished_frame() {
        let mut outgoing = Outgoing::default();
        assert_eq!(outgoing.prepare(4), 4);
        assert_eq!(outgoing.written(3), 1);
        outgoing.put_pong(Box::default());
        assert!(outgoing.is_waiting());
        // Two more bytes of MQTT came in the meantime; they do not belong to the frame that was begun.
        assert_eq!(drain(&mut outgoing, b"bcdXY", 100), b"bcd\x8a\x00\x82\x02XY");
    }

    #[test]
    fn of_several_pings_the_last_is_answered() {
        let mut outgoing = Outgoing::default();
        outgoing.put_pong(Box::from(*b"1"));
        outgoing.put_pong(Box::from(*b"2"));
        assert_eq!(drain(&mut outgoing, b"", 100), b"\x8a\x012");
    }

    proptest! {
        #[test]
        fn a_slow_socket_changes_nothing_but_the_frames(
            payload in prop::collection::vec(any::<u8>(), 0..300),
            step in 1usize..64,
        ) {
            let mut outgoing = Outgoing::default();
            outgoing.put_raw(b"HTTP");
            let wire = drain(&mut outgoing, &payload, step);
            let mut whole = Outgoing::default();
            whole.put_raw(b"HTTP");
            prop_assert_eq!(wire, drain(&mut whole, &payload, usize::MAX));
        }
    }
}
