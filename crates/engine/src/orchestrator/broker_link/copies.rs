//! Messages that come more than once: one copy for each filter that matches, and again after a restart.
//!
//! A broker may send a message once for each subscription that it matches (section 3.3.4). A message with an id is
//! recognised by it, also across a restart: the store keeps the ids of the last exactly-once messages. A message
//! published to a broker directly has no id; its copies follow each other, and each names a subscription that the
//! earlier ones did not.

use super::BrokerLink;
use super::BrokerLinkCounters;
use super::BrokerLinks;
use super::id::MessageId;
use crate::events::reason::Reason;
use crate::events::refused::Refused;
use crate::hash::hash_bytes;
use crate::ids::SessionKey;
use crate::journal::keys::{Key, StoredSession};
use crate::state::ShardState;
use crate::wire::{WireError, WireReader, WireWrite};
use tidegate_mqtt::{MAX_SUBSCRIPTION_IDENTIFIER, PublishProperties, QoS, RawPublish};

/// Ids kept for each broker: more than it may have under way to the orchestrator.
const KEPT_IDS: u16 = 4096;

/// Messages above QoS 0 that a broker may have under way to the orchestrator.
pub(crate) const RECEIVE_MAXIMUM: u16 = KEPT_IDS / 4;

/// Unacknowledged messages above QoS 0 that a broker may send when it ignores [`RECEIVE_MAXIMUM`], as Mosquitto 2.0 does
/// when it resumes a session: as many as there are packet identifiers. Beyond it the connection ends. A lower bound would
/// end the connection before anything is acknowledged, and the broker would send the same again on the next one.
pub(super) const UNACKNOWLEDGED_MAX: usize = u16::MAX as usize;

impl BrokerLinkCounters {
    /// Counts a message above QoS 0 from a broker with this number of unacknowledged ones. Beyond [`RECEIVE_MAXIMUM`]
    /// it is counted as excess, beyond [`UNACKNOWLEDGED_MAX`] refused.
    pub(crate) fn note_received(&mut self, unacknowledged: Option<usize>) -> Result<(), Refused> {
        let unacknowledged = unacknowledged.unwrap_or(0);
        if unacknowledged >= UNACKNOWLEDGED_MAX {
            let detail = format!("the broker has {UNACKNOWLEDGED_MAX} messages under way to the orchestrator");
            return Err(Refused::new(Reason::ReceiveMaximumExceeded, detail));
        }
        self.received += 1;
        self.beyond_window += u64::from(unacknowledged >= usize::from(RECEIVE_MAXIMUM));
        Ok(())
    }
}

/// The identifier of all subscriptions without wildcards: no two of them match one topic.
const LITERAL: u32 = 1;

/// The subscription identifier of a filter: the same in each process, since a broker may remember it.
pub(crate) fn subscription_identifier(filter: &str) -> u32 {
    if !filter.contains(['+', '#']) {
        return LITERAL;
    }
    let others = u64::from(MAX_SUBSCRIPTION_IDENTIFIER - LITERAL);
    LITERAL + 1 + (hash_bytes(0, filter.as_bytes()) % others) as u32
}

/// The last message of a broker that had no id.
#[derive(Debug, Default)]
pub(crate) struct LastMessage {
    hash: u64,
    /// Subscriptions whose copies have arrived.
    subscriptions: Vec<u32>,
}

impl LastMessage {
    /// Whether a message is a copy of the last one, for another subscription.
    pub(crate) fn is_copy(&mut self, raw: &RawPublish<'_>, properties: &PublishProperties<'_>) -> bool {
        let mut forwarded = Vec::new();
        properties.copy_forwardable(&mut forwarded);
        let hash = hash_bytes(hash_bytes(hash_bytes(raw.qos as u64, raw.topic), raw.payload), &forwarded);
        let mut named = properties.subscription_identifiers.iter().peekable();
        let copy = hash == self.hash && named.peek().is_some() && {
            let known = &self.subscriptions;
            named.clone().all(|id| !known.contains(&id))
        };
        if !copy {
            self.hash = hash;
            self.subscriptions.clear();
        }
        self.subscriptions.extend(named);
        copy
    }
}

/// Where the next id of a broker is kept.
#[derive(Debug, Default)]
pub(crate) struct KeptIds {
    /// Counts the ids that were kept, over restarts.
    next: u64,
}

impl BrokerLink {
    /// Stores the id of an exactly-once message in the batch with its outcome.
    pub(crate) fn keep_id(&mut self, state: &mut ShardState, session: SessionKey, qos: QoS, id: &MessageId) {
        let stored = state.sessions.get(session.0).and_then(|session| session.stored);
        let (Some(stored), QoS::ExactlyOnce) = (stored, qos) else { return };
        let number = self.kept.next;
        self.kept.next += 1;
        let place = (number % u64::from(KEPT_IDS)) as u16;
        state.journal.put(Key::Seen(stored, place), |out| {
            out.put_u64(number);
            out.put_u64(id.origin);
            out.put_u64(id.number);
        });
    }
}

impl BrokerLinks {
    /// Takes in the id of a message that came before the restart.
    pub(crate) fn restore_seen(&mut self, session: StoredSession, value: &[u8]) -> Result<(), WireError> {
        let mut reader = WireReader::new(value);
        let number = reader.u64("the number of an id")?;
        let (origin, of_origin) = (reader.u64("an origin")?, reader.u64("a number of an origin")?);
        if !reader.is_empty() {
            return Err(WireError { reading: "the end of an id" });
        }
        self.settlement.seen.insert(&MessageId { origin, number: of_origin, entered: 0, publisher: 0, retain: false });
        let next = self.settlement.restored_ids.entry(session).or_default();
        *next = (*next).max(number + 1);
        Ok(())
    }

    /// The number at which a broker with a restored session continues to keep ids.
    pub(crate) fn kept_ids_of(&mut self, session: Option<StoredSession>) -> KeptIds {
        KeptIds { next: session.and_then(|session| self.settlement.restored_ids.remove(&session)).unwrap_or(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message<'a>(payload: &'a [u8], properties: &'a [u8]) -> (RawPublish<'a>, PublishProperties<'a>) {
        let raw = RawPublish {
            dup: false,
            qos: QoS::AtMostOnce,
            retain: false,
            topic: b"a/b",
            packet_id: None,
            properties,
            payload,
        };
        (raw, PublishProperties::decode(properties).unwrap())
    }

    #[test]
    fn a_broker_beyond_its_window_is_counted_and_then_refused() {
        let mut counters = BrokerLinkCounters::default();
        for (unacknowledged, beyond) in [(0, 0), (1_023, 0), (1_024, 1), (65_534, 2)] {
            assert!(counters.note_received(Some(unacknowledged)).is_ok());
            assert_eq!(counters.beyond_window, beyond);
        }
        assert_eq!(counters.note_received(Some(65_535)).unwrap_err().reason, Reason::ReceiveMaximumExceeded);
    }

    #[test]
    fn copies_for_other_subscriptions_are_no_repetitions() {
        let mut last = LastMessage::default();
        let mut is_copy = |payload: &[u8], properties: &[u8]| {
            let (raw, properties) = message(payload, properties);
            last.is_copy(&raw, &properties)
        };
        assert!(!is_copy(b"1", &[0x0b, 5]));
        assert!(is_copy(b"1", &[0x0b, 6]), "for another subscription");
        assert!(!is_copy(b"1", &[0x0b, 5]), "the same value was published again");
        assert!(is_copy(b"1", &[0x0b, 6]));
        assert!(!is_copy(b"2", &[0x0b, 6]), "another value");
        assert!(!is_copy(b"2", &[]) && !is_copy(b"2", &[]), "without identifiers no copy is recognised");
    }

    #[test]
    fn identifiers_are_in_their_range_and_stay() {
        assert_eq!(subscription_identifier("a/b"), LITERAL);
        for filter in ["#", "+", "a/+/b", "$share-like/#"] {
            let id = subscription_identifier(filter);
            assert!(id > LITERAL && id <= MAX_SUBSCRIPTION_IDENTIFIER && id == subscription_identifier(filter));
        }
    }
}
