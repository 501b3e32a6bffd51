//! The bounds of packets in a stream, which is not stored.

use tidegate_engine::RELAY_FRAME;
use tidegate_mqtt::PacketType;

/// Longest remaining length, bytes of its encoding ([MQTT 5.0, 1.5.5]).
const LENGTH_BYTES: u8 = 4;

/// The next field in a stream of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// The first byte of a packet.
    First,
    /// A byte of the remaining length; `bytes` of it were read.
    Length { so_far: u32, bytes: u8 },
    /// The rest of a body, after `passed` bytes.
    Body { left: u32, passed: u32 },
    /// The stream is not MQTT: packets cannot be followed from here on.
    Lost,
}

/// Follows the packets that a server sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Follower {
    next: Next,
    /// The packet under way is a CONNACK.
    of_connack: bool,
    /// The server has accepted the client with a CONNACK.
    accepted: bool,
    /// The bytes under way belong to a frame for the relay, and to no packet.
    of_frame: bool,
}

impl Default for Follower {
    fn default() -> Self {
        Self { next: Next::First, of_connack: false, accepted: false, of_frame: false }
    }
}

impl Follower {
    /// Whether a DISCONNECT may come next: between two packets, behind a CONNACK that accepts ([MQTT-3.14.0-1]).
    pub(crate) fn is_between_packets(&self) -> bool {
        self.accepted && self.next == Next::First
    }

    /// A follower of a server that has accepted the client before.
    pub(crate) fn of_accepted() -> Self {
        Self { accepted: true, ..Self::default() }
    }

    /// Whether the next byte begins a packet, or a frame.
    pub(crate) fn is_at_beginning(&self) -> bool {
        self.next == Next::First
    }

    /// Whether the last byte was one of a frame for the relay.
    pub(crate) fn was_in_frame(&self) -> bool {
        self.of_frame
    }

    /// Follows bytes.
    pub(crate) fn follow(&mut self, bytes: &[u8]) {
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            at += self.step(rest);
        }
    }

    /// Follows one byte, or the available part of a body; returns the number of bytes.
    pub(crate) fn step(&mut self, bytes: &[u8]) -> usize {
        let Some(&byte) = bytes.first() else { return 0 };
        match self.next {
            Next::First => {
                self.of_connack = byte >> 4 == PacketType::ConnAck as u8;
                self.of_frame = byte == RELAY_FRAME;
                self.next = Next::Length { so_far: 0, bytes: 0 };
            }
            Next::Length { so_far, bytes } => {
                let length = so_far | u32::from(byte & 0x7f) << (7 * u32::from(bytes));
                self.next = match byte & 0x80 != 0 {
                    true if bytes + 1 < LENGTH_BYTES => Next::Length { so_far: length, bytes: bytes + 1 },
                    true => Next::Lost,
                    false if length == 0 => Next::First,
                    false => Next::Body { left: length, passed: 0 },
                };
            }
            Next::Body { left, passed } => {
                let taken = bytes.len().min(left as usize);
                // The reason code is the second byte of a CONNACK.
                let code = 1_usize.checked_sub(passed as usize).and_then(|at| bytes[..taken].get(at));
                self.accepted |= self.of_connack && code.is_some_and(|code| *code < 0x80);
                let (left, passed) = (left - taken as u32, passed + taken as u32);
                self.next = if left == 0 { Next::First } else { Next::Body { left, passed } };
                return taken;
            }
            Next::Lost => return bytes.len(),
        }
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CONNACK that accepts, with a property; an empty PINGRESP; a PUBLISH of 300 bytes.
    fn stream() -> (Vec<u8>, [usize; 3]) {
        let mut bytes = vec![0x20, 6, 0, 0, 3, 0x21, 0, 9, 0xd0, 0];
        bytes.extend([0x30, 0xac, 0x02]);
        bytes.extend([b'x'; 300]);
        (bytes, [8, 10, 313])
    }

    #[test]
    fn ends_of_packets_are_found_however_the_stream_is_cut() {
        let (bytes, ends) = stream();
        for cut in 0..bytes.len() {
            let mut follower = Follower::default();
            follower.follow(&bytes[..cut]);
            assert_eq!(follower.is_between_packets(), ends.contains(&cut), "{cut}");
            follower.follow(&bytes[cut..]);
            assert!(follower.is_between_packets(), "{cut}");
        }
        let mut one_by_one = Follower::default();
        let between = (1..=bytes.len()).filter(|at| {
            one_by_one.follow(&bytes[at - 1..*at]);
            one_by_one.is_between_packets()
        });
        assert_eq!(between.collect::<Vec<_>>(), ends);
    }

    #[test]
    fn nothing_comes_before_or_without_an_accepting_connack() {
        for bytes in
            [&[0x20, 3, 0, 0x87, 0][..], &[0xf0, 2, 0x18, 0], &[0x20, 2, 0, 0, 0x30, 0xff, 0xff, 0xff, 0xff, 0, 0]]
        {
            let mut follower = Follower::default();
            follower.follow(bytes);
            assert!(!follower.is_between_packets(), "{bytes:02x?}");
        }
    }
}
