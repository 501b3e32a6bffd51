//! The messages that are too long for a broker. Such a message goes to another broker, or is refused.
//!
//! A CONNACK announces the longest packet. A refusal does not say whether the broker has measured the packet or its
//! payload. So a refusal excludes only messages whose packet and payload are both as long as refused ones: those are too
//! long by either measure.

use crate::link::fleet_word::FleetWord;
use crate::message::Publication;
use crate::now::Millis;
use crate::publish::layouts::{Shape, packet_len};
use tidegate_mqtt::Version;

/// How long a limit is remembered that a broker has shown by a refusal, milliseconds. Then it is tried again.
const LEARNED_MS: u64 = 600_000;

/// Bytes of the longest PUBLISH packet to a broker without topic, forwarded properties and payload: the first byte, two
/// lengths of four bytes, the length of the topic, the packet identifier, and the expiry with its identifier.
const OTHER_BYTES_MAX: usize = 1 + 4 + 4 + 2 + 2 + 5;

/// Whether a message is no longer than `limit` bytes by any reckoning. `parts` are the bytes of its topic, its properties
/// and its payload. It spares the exact length, which few messages need.
#[inline]
pub(crate) fn fits_surely(parts: usize, limit: u32) -> bool {
    parts + OTHER_BYTES_MAX <= limit as usize
}

/// The length of a message to a broker, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessageLen {
    /// Its PUBLISH packet.
    pub(crate) packet: u32,
    /// Its payload.
    pub(crate) payload: u32,
}

impl MessageLen {
    pub(crate) fn of(publication: &Publication<'_>, now: Millis) -> Self {
        let bytes = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        Self { packet: bytes(len_for_broker(publication, now)), payload: bytes(publication.payload.len()) }
    }
}

/// The length of a message's packet for a broker of MQTT 5, bytes.
fn len_for_broker(publication: &Publication<'_>, now: Millis) -> usize {
    let shape = Shape {
        version: Version::V5,
        qos: publication.qos,
        retain: publication.retain,
        dup: false,
        packet_id: None,
        subscription_ids: &[],
        alias: None,
        is_for_hub: false,
    };
    packet_len(publication, &shape, now)
}

/// A message is too long if both its packet and its payload are longer than these, bytes. No packet is longer than
/// `u32::MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LenLimit {
    pub(crate) packet: u32,
    /// `None` where any payload is long enough.
    pub(crate) payload: Option<u32>,
}

impl Default for LenLimit {
    fn default() -> Self {
        Self::NONE
    }
}

impl LenLimit {
    /// No message is too long.
    pub(crate) const NONE: Self = Self { packet: u32::MAX, payload: None };

    /// The limit as sent to other shards.
    pub(crate) fn word(self) -> FleetWord<'static> {
        FleetWord::Limit { packet: self.packet, payload: self.payload }
    }

    pub(crate) fn takes(self, len: MessageLen) -> bool {
        len.packet <= self.packet || self.payload.is_some_and(|payload| len.payload <= payload)
    }

    /// A message that is too long by the result is too long by both.
    pub(crate) fn larger(self, other: Self) -> Self {
        Self { packet: self.packet.max(other.packet), payload: self.payload.max(other.payload) }
    }
}

/// The messages that a broker takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketLimit {
    /// The longest packet by the broker's last CONNACK, bytes.
    pub(crate) announced: u32,
    /// As it has shown by refusals.
    learned: LenLimit,
    learned_until: Millis,
}

impl Default for PacketLimit {
    fn default() -> Self {
        Self { announced: u32::MAX, learned: LenLimit::NONE, learned_until: Millis::NEVER }
    }
}

impl PacketLimit {
    /// Whether the broker takes a message.
    pub(crate) fn takes(self, len: MessageLen) -> bool {
        len.packet <= self.announced && self.learned.takes(len)
    }

    /// The broker takes every packet of at most this length, bytes.
    pub(crate) fn always_taken(self) -> u32 {
        self.announced.min(self.learned.packet)
    }

    /// A limit for which the broker takes no message that is too long.
    pub(crate) fn bound(self) -> LenLimit {
        if self.announced <= self.learned.packet {
            LenLimit { packet: self.announced, payload: None }
        } else {
            self.learned
        }
    }

    /// The broker has refused a message of this length.
    pub(crate) fn learn(&mut self, now: Millis, refused: MessageLen) {
        let packet = refused.packet.saturating_sub(1).min(self.learned.packet);
        // An empty payload cannot have been too long.
        let payload = refused.payload.checked_sub(1);
        let before = if self.learned == LenLimit::NONE { payload } else { self.learned.payload };
        self.learned = LenLimit { packet, payload: payload.min(before) };
        self.learned_until = now.plus(LEARNED_MS);
    }

    /// Forgets a limit that was learned long ago.
    pub(super) fn forget_old(&mut self, now: Millis) {
        if self.learned_until <= now {
            (self.learned, self.learned_until) = (LenLimit::NONE, Millis::NEVER);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::TenantId;
    use tidegate_mqtt::QoS;

    fn len(packet: u32, payload: u32) -> MessageLen {
        MessageLen { packet, payload }
    }

    #[test]
    fn a_refusal_excludes_messages_too_long_by_either_measure() {
        let mut limit = PacketLimit::default();
        assert!(limit.always_taken() == u32::MAX && limit.takes(len(u32::MAX, u32::MAX)));
        limit.learn(Millis(0), len(1_000, 800));
        assert!(!limit.takes(len(1_000, 800)) && !limit.takes(len(1_100, 900)));
        assert!(limit.takes(len(1_000, 799)), "the broker may measure payloads");
        assert!(limit.takes(len(999, 900)), "the broker may measure packets");
        limit.learn(Millis(0), len(1_100, 700));
        assert!(!limit.takes(len(1_000, 700)) && limit.takes(len(999, 700)) && limit.takes(len(2_000, 699)));
        limit.forget_old(Millis(LEARNED_MS));
        assert!(limit.takes(len(1_000, 800)) && limit.always_taken() == u32::MAX);
    }

    #[test]
    fn a_message_that_fits_surely_is_not_longer() {
        let (topic, bytes) = ("t".repeat(300), vec![0; 20_000]);
        for (topic_len, properties_len, payload_len) in
            [(1, 0, 0), (1, 0, 110), (20, 75, 20), (300, 127, 3), (1, 128, 0), (1, 16_384, 16_384)]
        {
            let (properties, payload) = (&bytes[..properties_len], &bytes[..payload_len]);
            let mut message = Publication::new(
                TenantId::BROKER_LINK,
                &topic[..topic_len],
                QoS::AtLeastOnce,
                false,
                properties,
                Millis(5_000),
                payload,
                0,
            );
            let packet = MessageLen::of(&message, Millis(0)).packet;
            let parts = topic_len + properties_len + payload_len;
            assert!(!fits_surely(parts, packet - 1), "{packet}");
            assert!(
                fits_surely(parts, packet + OTHER_BYTES_MAX as u32),
                "the exact length is needed near the limit only"
            );
            message.expires_at = Millis::NEVER;
            assert!(MessageLen::of(&message, Millis(0)).packet < packet, "the expiry is counted");
        }
    }

    #[test]
    fn a_packet_without_a_payload_teaches_the_packet_length() {
        let mut limit = PacketLimit::default();
        limit.learn(Millis(0), len(1_000, 0));
        assert!(!limit.takes(len(1_000, 0)) && limit.takes(len(999, 900)));
    }

    #[test]
    fn a_message_beyond_the_larger_limit_is_beyond_both() {
        let announced = PacketLimit { announced: 400, ..PacketLimit::default() };
        let mut learned = PacketLimit::default();
        learned.learn(Millis(0), len(1_000, 800));
        let both = announced.bound().larger(learned.bound());
        assert!(!both.takes(len(1_000, 800)) && both.takes(len(1_000, 799)) && both.takes(len(999, 900)));
        assert_eq!(LenLimit::NONE.larger(both).packet, u32::MAX, "a broker without a limit takes all");
    }
}
