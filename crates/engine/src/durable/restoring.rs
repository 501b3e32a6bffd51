//! A session of a store while its parts are taken in, and the end of its queue, which stays there.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::ids::{SessionKey, TenantId};
use crate::now::Millis;
use crate::session::Membership;
use crate::session::tail::Tail;

use crate::records::stored::Content;
use crate::records::stored::ReadEntry;
use crate::records::stored::SentRecord;

/// A session during its restoration.
#[derive(Debug)]
pub(crate) struct Restoring {
    pub(crate) key: SessionKey,
    pub(crate) tenant: TenantId,
    pub(crate) memberships: Vec<Rc<Membership>>,
    pub(crate) entries: BTreeMap<u64, RestoredEntry>,
    /// The part of the queue that stays in the store alone.
    pub(crate) tail: Option<Tail>,
    /// The highest number of its entries.
    pub(crate) last: u64,
    /// See [`SessionRecord::mailbox_from`].
    pub(crate) mailbox_from: u64,
    /// Bytes of `entries`.
    pub(crate) in_memory: u64,
    /// Messages up to this number stay in memory, although some of them have left it: the first reading has shown that
    /// too late. They are read again.
    pub(crate) stays_to: Option<u64>,
}

/// How many times its share of memory a queue may take while it is read. Which messages are in flight is known only after
/// all messages, so this avoids that they are read again.
pub const SHARES_WHILE_READ: u64 = 16;

impl Restoring {
    pub(crate) fn new(key: SessionKey, tenant: TenantId, mailbox_from: u64) -> Self {
        Self {
            key,
            tenant,
            memberships: Vec::new(),
            entries: BTreeMap::new(),
            tail: None,
            last: 0,
            mailbox_from,
            in_memory: 0,
            stays_to: None,
        }
    }

    /// Takes in the next message of the queue. One beyond the memory of a queue stays in the store.
    pub(crate) fn add_entry(&mut self, number: u64, restored: RestoredEntry, share: u64) {
        let cost = restored.cost();
        self.last = self.last.max(number);
        let may_leave = restored.may_leave_memory() && self.stays_to.is_none_or(|to| number > to);
        let is_full = self.in_memory > 0 && self.in_memory + cost > share.saturating_mul(SHARES_WHILE_READ);
        if may_leave && (is_full || self.tail.is_some()) {
            let tail = self.tail.get_or_insert_with(|| Tail::beginning_at(number));
            tail.add(number, restored.expires_at(), cost);
            return;
        }
        if self.tail.is_some() {
            // Only the end of a queue may be in the store alone.
            self.stays_to = Some(number);
        }
        self.in_memory += cost;
        self.entries.insert(number, restored);
    }

    /// A message was sent. False if it does not exist.
    pub(crate) fn set_sent(&mut self, number: u64, sent: SentRecord) -> bool {
        if let Some(entry) = self.entries.get_mut(&number) {
            entry.sent = Some(sent);
            return true;
        }
        let has_left = self.tail.as_ref().is_some_and(|tail| tail.first <= number) && number <= self.last;
        if has_left {
            self.stays_to = self.stays_to.max(Some(number));
        }
        has_left
    }

    /// Whether the queue has to be read again.
    pub(crate) fn is_wanted_again(&self) -> bool {
        self.stays_to.is_some()
    }

    /// Forgets the queue, which is read again.
    pub(crate) fn begin_again(&mut self) {
        self.entries.clear();
        self.tail = None;
        self.in_memory = 0;
    }

    /// Leaves the end of a long queue to the store: the plain messages beyond `share` bytes.
    pub(crate) fn leave_tail(&mut self, share: u64) {
        let stays = |(_, restored): &(&u64, &RestoredEntry)| restored.may_leave_memory();
        let Some((first, _)) = self.entries.iter().rev().take_while(stays).last() else { return };
        let mut in_memory = 0;
        let beyond = self.entries.iter().find(|(number, restored)| {
            let full = in_memory > 0 && in_memory + restored.cost() > share;
            in_memory += if restored.sent.is_none() { restored.cost() } else { 0 };
            full && *number >= first
        });
        let Some((first, _)) = beyond else { return };
        let first = *first;
        let left = self.entries.split_off(&first);
        let mut tail = Tail::beginning_at(first);
        for (number, restored) in &left {
            tail.add(*number, restored.expires_at(), restored.cost());
        }
        if let Some(end) = self.tail.take() {
            tail.append(end);
        }
        self.tail = Some(tail);
    }
}

#[derive(Debug)]
pub(crate) struct RestoredEntry {
    pub(crate) entry: ReadEntry,
    pub(crate) sent: Option<SentRecord>,
}

impl RestoredEntry {
    /// Whether it simply waits for its turn, and can be read again by its own key.
    fn may_leave_memory(&self) -> bool {
        let Content::Here(message) = &self.entry.content else { return false };
        self.sent.is_none() && !self.entry.dealt && !self.entry.latest && message.priority == 0
    }

    /// When it expires, as far as that is known here.
    fn expires_at(&self) -> Millis {
        match &self.entry.content {
            Content::Here(message) => message.expires_at,
            Content::Body(_) => Millis::NEVER,
        }
    }

    /// Bytes that it costs in memory, as far as they are its own.
    fn cost(&self) -> u64 {
        let message = match &self.entry.content {
            Content::Here(message) => message.cost(),
            Content::Body(_) => 0,
        };
        message + size_of::<crate::session::Delivery>() as u64
    }
}

#[cfg(test)]
mod tests {
    use tidegate_mqtt::{PacketId, QoS};

    use super::*;
    use crate::message::Publication;
    use crate::session::SubscriptionIds;
    use crate::session::packet_ids::State;

    const SHARE: u64 = 1_000;

    fn restored() -> RestoredEntry {
        let mut publication =
            Publication::new(TenantId(0), "t", QoS::AtLeastOnce, false, &[], Millis::NEVER, &[b'x'; 500], 0);
        let entry = ReadEntry {
            qos: QoS::AtLeastOnce,
            retain: false,
            latest: false,
            dealt: false,
            group: None,
            ids: SubscriptionIds::default(),
            sent: None,
            content: Content::Here(publication.keep()),
        };
        RestoredEntry { entry, sent: None }
    }

    fn sent() -> SentRecord {
        SentRecord { id: PacketId::MIN, state: State::AwaitPubAck, order: 1, released: false }
    }

    fn queue(restoring: &mut Restoring) {
        for number in 1..=1_000 {
            restoring.add_entry(number, restored(), SHARE);
        }
    }

    #[test]
    fn a_long_queue_takes_little_memory_while_it_is_read() {
        let mut restoring = Restoring::new(SessionKey(0), TenantId(0), 0);
        queue(&mut restoring);
        assert!(restoring.in_memory <= SHARE * SHARES_WHILE_READ);
        assert!(restoring.set_sent(1, sent()) && !restoring.set_sent(1_001, sent()));
        assert!(!restoring.is_wanted_again());
        restoring.leave_tail(SHARE);
        let in_memory = restoring.entries.len() as u64;
        let tail = restoring.tail.expect("a tail");
        assert_eq!((tail.first, tail.messages), (in_memory + 1, 1_000 - in_memory));
    }

    #[test]
    fn a_message_in_flight_beyond_the_memory_is_wanted_again() {
        let mut restoring = Restoring::new(SessionKey(0), TenantId(0), 0);
        queue(&mut restoring);
        assert!(restoring.set_sent(500, sent()) && restoring.is_wanted_again());
        restoring.begin_again();
        queue(&mut restoring);
        assert!(restoring.set_sent(500, sent()));
        assert_eq!(restoring.entries.len(), 500);
        assert_eq!(restoring.tail.map(|tail| (tail.first, tail.messages)), Some((501, 500)));
    }
}
