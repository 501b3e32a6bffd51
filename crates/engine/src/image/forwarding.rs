//! Messages of brokers for partitions that have moved from one orchestrator of a cluster to another.
//!
//! A broker sends its messages to a connection, and does not know partitions. So the old home still receives messages
//! for sessions that have left. It collects them from the image on, and forwards them in pieces, until every broker has
//! confirmed the filters of the new home and has delivered all earlier messages. A collected message of QoS 1 or 2 is
//! acknowledged to the broker when the new home has stored it. The new home serves the sessions from
//! the image on. It keeps the messages of its own brokers for these sessions back until the last piece, so that each
//! topic keeps its order. A message of QoS 1 or 2 that is kept back is in the store. Message ids identify messages that arrive both ways.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::arrivals::Arrivals;
use super::for_groups::ForGroups;
use super::last_copies::{LastCopy, StoredCopies};
use super::noted::{Id, NOTED_MAX_BYTES, number_of, put_noted};
use super::{begin, seal};
use crate::durable::crossing::Way;
use crate::ids::{ConnectionKey, Partitions};
use crate::journal::Journal;
use crate::journal::keys::Key;
use crate::link::envelope::Ticket;
use crate::message::MessageRef;
use crate::now::Now;
use crate::orchestrator::broker_link::adopted::Awaiting;
use crate::orchestrator::broker_link::id::MessageId;
use crate::state::departures::Departures;
use tidegate_mqtt::QoS;

/// Bytes of the messages that the new home keeps back for one move. Beyond it they are delivered at once, before the
/// messages that the old home has still to forward.
pub(crate) const KEPT_BACK_MAX_BYTES: usize = 64 * 1024 * 1024;

/// Moves whose messages still come to the old home, by their ids.
#[derive(Debug, Default)]
pub(crate) struct Forwarding {
    pub(crate) left: BTreeMap<u64, Departed>,
    pub(crate) come: BTreeMap<u64, Come>,
    pub(crate) at_hand: AtHand,
    /// Last copies whose partitions this process does not forward yet.
    pub(crate) copies: Vec<LastCopy>,
    pub(crate) stored: StoredCopies,
    /// Messages that an earlier process had noted for the groups of partitions that were about to leave.
    pub(crate) undealt: ForGroups,
}

/// The message of a broker that is being handled.
#[derive(Debug, Default)]
pub(crate) struct AtHand {
    /// The transfers of a dead orchestrator whose connection delivers it.
    pub(crate) former: Vec<u64>,
    /// The ticket of its acknowledgement; `None` at QoS 0.
    pub(crate) ticket: Option<Ticket>,
    /// New homes that have to store it before it is acknowledged.
    pub(crate) waits: u32,
    /// No broker brings it again.
    pub(crate) is_last: bool,
}

/// Messages for partitions that have left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forwarded {
    /// For the new home ([`OrchestratorMoves::take_piece`](crate::OrchestratorMoves::take_piece)).
    pub messages: Vec<u8>,
    /// Messages that the brokers wait to have acknowledged
    /// ([`OrchestratorMoves::confirm_forwarded`](crate::OrchestratorMoves::confirm_forwarded)).
    pub unanswered: usize,
}

/// The messages that follow a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// More pieces, before the messages that were kept back.
    Pieces,
    /// More pieces, after the messages that were kept back. These messages are delivered now.
    LatePieces,
    /// No piece: it is the last one.
    Nothing,
}

/// Partitions that have left.
#[derive(Debug)]
pub(crate) struct Departed {
    pub(crate) partitions: Partitions,
    pub(crate) noted: Vec<u8>,
    /// Whether the sessions here get no more messages, since they are served at the new home.
    pub(crate) is_over: bool,
    /// Whether it began in an earlier life of this process, which has forgotten the partitions that have returned.
    pub(crate) is_resumed: bool,
    /// Partitions that have returned, and are not served here yet: their sessions get the messages, too.
    pub(crate) back: Partitions,
    /// Entries that wait until the new home has the messages, in the order of the messages.
    pub(crate) unanswered: VecDeque<Awaiting>,
    /// The messages that the sessions had when they left.
    pub(crate) had: Vec<u8>,
    /// Messages that the groups of the partitions on this shard get here if the move is called off.
    pub(crate) for_groups: ForGroups,
}

/// Partitions that have arrived.
#[derive(Debug)]
pub(crate) struct Come {
    pub(crate) partitions: Partitions,
    /// Messages of the own brokers that wait for the last piece; `None` where they are delivered at once.
    pub(crate) kept_back: Option<KeptBack>,
}

/// A message in the store that is kept back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeptRecord {
    number: u64,
    /// See [`Way::KeptBack`]. Readers of an earlier state of the store know the message by it as well.
    name: u64,
}

impl KeptRecord {
    fn put(journal: &mut Journal, partitions: Partitions, name: u64, message: &MessageRef) -> Self {
        let number = journal.put_crossing(&message.publication(), &Way::KeptBack { partitions, name });
        Self { number, name }
    }
}

/// Messages of the own brokers that wait for the last piece.
#[derive(Debug)]
pub(crate) struct KeptBack {
    pub(crate) noted: Vec<u8>,
    /// The ids among them that were not passed on, each with its record in the store, if it has one.
    pub(crate) alone: BTreeMap<Id, Option<KeptRecord>>,
    /// The ids among them that were passed on, and the partitions to which they were so delivered.
    pub(crate) delivered: BTreeMap<Id, Partitions>,
    /// The numbers in the store of all that are not delivered.
    pub(crate) stored: BTreeSet<u64>,
}

impl KeptBack {
    pub(crate) fn new() -> Self {
        Self { noted: super::begin(), alone: BTreeMap::new(), delivered: BTreeMap::new(), stored: BTreeSet::new() }
    }

    fn put(
        &mut self,
        now: Now,
        journal: &mut Journal,
        partitions: Partitions,
        id: Option<&MessageId>,
        message: &MessageRef,
    ) {
        put_noted(&mut self.noted, now, id, message);
        let is_stored = journal.is_on() && message.qos != QoS::AtMostOnce;
        let record = is_stored.then(|| {
            let name = journal.names.make();
            KeptRecord::put(journal, partitions, name, message)
        });
        self.stored.extend(record.map(|record| record.number));
        self.alone.extend(id.map(|id| (number_of(id), record)));
    }

    /// A message was passed on for `wanted` of these partitions. Returns the partitions of `wanted` that do not have it; `None` if
    /// it is not kept back.
    fn take_passed_on(
        &mut self,
        journal: &mut Journal,
        partitions: Partitions,
        wanted: Partitions,
        (id, message): (Id, &MessageRef),
    ) -> Option<Partitions> {
        let record = *self.alone.get(&id)?;
        let delivered = self.delivered.entry(id).or_default();
        let missing = wanted.without(*delivered);
        *delivered = delivered.with(wanted);
        let left = partitions.without(*delivered);
        if let Some(KeptRecord { number, name }) = record {
            journal.delete(Key::Crossing(number));
            self.stored.remove(&number);
            if !left.is_empty() {
                let record = KeptRecord::put(journal, left, name, message);
                self.stored.insert(record.number);
                self.alone.insert(id, Some(record));
            }
        }
        Some(missing)
    }

    /// The partitions that have a message already.
    pub(crate) fn have(&self, id: Option<&MessageId>) -> Partitions {
        id.and_then(|id| self.delivered.get(&number_of(id))).copied().unwrap_or_default()
    }
}

impl Forwarding {
    /// The partitions that leave or come.
    pub(crate) fn departures(&self) -> Departures {
        let left = self.left.values().map(|left| left.partitions.without(left.back));
        let come = self.come.values().map(|come| come.partitions);
        Departures {
            left: left.fold(Partitions::NONE, Partitions::with),
            come: come.fold(Partitions::NONE, Partitions::with),
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.left.is_empty() && self.come.values().all(|come| come.kept_back.is_none())
    }

    /// The partitions for which this message is kept back.
    pub(crate) fn keeping_back(&self, id: &MessageId) -> Partitions {
        let keeps = |kept_back: &KeptBack| kept_back.alone.contains_key(&number_of(id));
        let keeping = self.come.values().filter(|come| come.kept_back.as_ref().is_some_and(keeps));
        keeping.fold(Partitions::NONE, |all, come| all.with(come.partitions))
    }

    /// These partitions are here again, while earlier moves of theirs are open.
    pub(crate) fn note_back(&mut self, partitions: Partitions) {
        for left in self.left.values_mut() {
            left.back = left.back.with(left.partitions.among(partitions));
        }
    }

    /// How many messages of a connection wait for new homes with their answers.
    pub(crate) fn unanswered_of(&self, connection: ConnectionKey) -> u64 {
        let waiting = self.left.values().flat_map(|left| &left.unanswered);
        let is_its = |it: &&Awaiting| matches!(it, Awaiting::Answer(ticket) if ticket.connection == connection);
        waiting.filter(is_its).count() as u64
    }

    /// Whether the collected messages fill their limit, so that brokers have to keep further ones.
    pub(super) fn is_full(&self) -> bool {
        self.left.values().any(|left| left.noted.len() > NOTED_MAX_BYTES)
    }

    /// Notes the present message for partitions that have left. Returns whether there was space for it.
    pub(crate) fn note_left(
        at_hand: &mut AtHand,
        left: &mut Departed,
        now: Now,
        id: Option<&MessageId>,
        message: &MessageRef,
    ) -> bool {
        if message.qos == QoS::AtMostOnce && left.noted.len() > NOTED_MAX_BYTES {
            return false;
        }
        put_noted(&mut left.noted, now, id, message);
        if let Some(ticket) = at_hand.ticket {
            left.unanswered.push_back(Awaiting::Answer(ticket));
            at_hand.waits += 1;
        }
        true
    }
}

impl Departed {
    pub(crate) fn new(partitions: Partitions, had: Vec<u8>) -> Self {
        let (noted, unanswered) = (super::begin(), VecDeque::new());
        let (back, for_groups) = (Partitions::NONE, ForGroups::default());
        Self { partitions, noted, is_over: false, is_resumed: false, back, unanswered, had, for_groups }
    }

    /// The partitions whose sessions here get no more messages.
    pub(crate) fn passed_over(&self) -> Partitions {
        if self.is_over { self.partitions.without(self.back) } else { Partitions::NONE }
    }
}

impl Come {
    pub(crate) fn new(partitions: Partitions, kept_back: Option<KeptBack>) -> Self {
        Self { partitions, kept_back }
    }

    /// Returns the partitions that do not get a message of a broker now: they get it later. `having` are partitions that
    /// have it. `concerns` says whether it is for one of them.
    pub(crate) fn keeps_back(
        &mut self,
        now: Now,
        journal: &mut Journal,
        (id, having): (Option<&MessageId>, Partitions),
        message: &MessageRef,
        concerns: bool,
    ) -> Partitions {
        let having = having.among(self.partitions);
        let others = self.partitions.without(having);
        let kept_back = self.kept_back.as_mut().filter(|_| concerns && !others.is_empty());
        let Some(kept_back) = kept_back else { return Partitions::NONE };
        kept_back.put(now, journal, others, id, message);
        if let Some(id) = id.filter(|_| !having.is_empty()) {
            kept_back.delivered.insert(number_of(id), having);
        }
        self.partitions
    }

    /// The partitions among `wanted` whose sessions do not have a message that was passed on, and get it now. `is_here`
    /// says whether a broker has delivered it here.
    pub(crate) fn wants(
        &mut self,
        arrivals: &mut Arrivals,
        journal: &mut Journal,
        wanted: Partitions,
        (id, message): (Option<&MessageId>, &MessageRef),
        (is_here, place_is_whole): (bool, bool),
    ) -> Partitions {
        let wanted = wanted.among(self.partitions);
        let Some(id) = id else { return wanted };
        let partitions = self.partitions;
        let kept_back = self.kept_back.as_mut();
        let missing = kept_back.and_then(|it| it.take_passed_on(journal, partitions, wanted, (number_of(id), message)));
        if let Some(missing) = missing {
            return missing;
        }
        let missing = arrivals.lacking(wanted, id, is_here);
        // A message that a broker has still to deliver goes to all shards then.
        if !missing.is_empty() && (is_here || place_is_whole) {
            arrivals.note_passed(journal, id, message, missing);
        }
        missing
    }
}

impl Departed {
    /// Keeps a message that was noted last in the store, since no broker brings it again and there is room.
    pub(crate) fn keep_copy(
        &mut self,
        journal: &mut Journal,
        stored: &mut StoredCopies,
        id: Option<&MessageId>,
        message: &MessageRef,
    ) {
        let way = Way::ForLeft { of: None, partitions: self.partitions };
        self.unanswered.extend(stored.put(journal, &way, id, message).map(Awaiting::Copy));
    }

    fn note_copy(&mut self, now: Now, copy: &LastCopy) {
        if Forwarding::note_left(&mut AtHand::default(), self, now, copy.id.as_ref(), &copy.message) {
            self.unanswered.extend(copy.number.map(Awaiting::Copy));
        }
    }
}

impl Forwarding {
    /// Takes a last copy that was in the store. It is forwarded with the move of its partitions, which may begin later.
    pub(crate) fn take_copy(&mut self, now: Now, copy: LastCopy) {
        match self.left.values_mut().find(|left| !left.partitions.among(copy.partitions).is_empty()) {
            Some(left) => left.note_copy(now, &copy),
            None => self.copies.push(copy),
        }
    }

    /// Notes the last copies for the partitions of a move.
    pub(crate) fn note_copies(&mut self, now: Now, move_id: u64) {
        let Some(left) = self.left.get_mut(&move_id) else { return };
        let partitions = left.partitions;
        for copy in self.copies.extract_if(.., |copy| !copy.partitions.among(partitions).is_empty()) {
            left.note_copy(now, &copy);
        }
    }

    /// The last copies of this process, or of a dead orchestrator, for the member that takes over from this process.
    pub(crate) fn put_copies(&self, now: Now, of: Option<&str>) -> Vec<u8> {
        let mut copies = self.copies.iter().filter(|copy| copy.of.as_deref() == of).peekable();
        if copies.peek().is_none() {
            return Vec::new();
        }
        let mut out = begin();
        copies.for_each(|copy| put_noted(&mut out, now, copy.id.as_ref(), &copy.message));
        seal(out)
    }

    /// Takes the last copies of a dead orchestrator.
    pub(crate) fn take_copies_of_dead(&mut self, of: &str) -> impl Iterator<Item = LastCopy> {
        self.copies.extract_if(.., |copy| copy.of.as_deref() == Some(of))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::durable::crossing::Replay;
    use crate::ids::{PartitionId, ShardId, TenantId};
    use crate::message::Publication;
    use crate::now::Millis;
    use crate::settings::Durability;
    use crate::wire::WireReader;

    /// The names in the records that are written now.
    fn names(journal: &mut Journal) -> Vec<u64> {
        let operations = journal.take().expect("a batch").operations;
        let (mut reader, mut names) = (WireReader::new(&operations), Vec::new());
        while !reader.is_empty() {
            let is_put = reader.u8("an operation") == Ok(1);
            let len = reader.u16("the length of a key").unwrap();
            let key = Key::read(reader.take(usize::from(len), "a key").unwrap()).unwrap();
            if is_put {
                let value = reader.bytes("a value").unwrap();
                let Key::Crossing(number) = key else { continue };
                let mut replay = Replay::default();
                replay.add(number, value, journal.now).unwrap();
                let Way::KeptBack { name, .. } = replay.left[&number].way else { panic!("it is kept back") };
                names.push(name);
            }
        }
        names
    }

    #[test]
    fn the_rest_of_a_message_kept_back_keeps_its_name() {
        let now = Now::default();
        let mut journal = Journal::new(Durability::Commit, ShardId(0), now);
        let [one, two] = [3, 4].map(|number| Partitions::of(PartitionId(number)));
        let id = MessageId { origin: 1, number: 2, entered: 0, publisher: 0, retain: false };
        let message =
            Publication::new(TenantId::DEFAULT, "t", QoS::ExactlyOnce, false, &[], Millis::NEVER, b"x", 0).keep();
        let mut kept_back = KeptBack::new();
        kept_back.put(now, &mut journal, one.with(two), Some(&id), &message);
        let before = names(&mut journal);
        kept_back.take_passed_on(&mut journal, one.with(two), one, (number_of(&id), &message));
        assert_eq!((before.len(), names(&mut journal)), (1, before));
    }
}
