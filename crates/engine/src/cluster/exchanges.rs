//! QoS 2 messages that cross between nodes are delivered once, even if one of the nodes dies.
//!
//! A publisher's PUBREC waits until all nodes that want the message have it. If one of these nodes or the publisher's
//! own node dies first, the publisher gets no answer and sends the message again, to the node that then serves its
//! partition. A packet id does not say which nodes have the message by then. So the message has a name. Under this name
//! every node notes the outcome of the message and the partitions that have it; the note is in the node's store and
//! moves with a partition. A message that is sent again has the same name, and goes to the sessions of the partitions
//! that lack it.

use crate::link::got::Got;

pub(crate) mod dealt_before;
pub(crate) mod marks;

use crate::cluster::transfer::Transfers;
use crate::hash::hash_bytes;
use crate::ids::{PartitionId, Partitions, SessionKey, ShardPosition};
use crate::journal::Journal;
use crate::journal::keys::{Key, StoredSession};
use crate::link::envelope::Ticket;
pub(crate) use crate::link::exchange_word::ExchangeName;
use crate::link::exchange_word::ExchangeWord;
use crate::roster::Roster;
use crate::session::Session;
use crate::session::exchange::Exchange;
use crate::session::table::Sessions;
pub(crate) use marks::Marks;
use std::collections::BTreeSet;
use tidegate_mqtt::PacketId;

/// Exchanges of one shard that others remember. An exchange that is older than this number of later ones may come
/// twice.
const OPEN_MAX: u64 = 16_384;

/// The exchanges that a shard has begun, and its knowledge of the exchanges of other shards.
#[derive(Debug)]
pub(crate) struct Exchanges {
    origin: u64,
    last: u64,
    open: BTreeSet<u64>,
    /// Partitions whose sessions are on this shard, and on any shard of this process.
    here: Partitions,
    of_process: Partitions,
    /// Partitions that have been taken in and are not served yet.
    arrived: Partitions,
    /// Partitions whose sessions have left, while the roster may still name this shard as their home.
    forgotten: Partitions,
    /// The name of the next message.
    coming: Option<Box<ExchangeWord>>,
    pub marks: Marks,
}

impl Exchanges {
    pub(crate) fn new(seed: u64, place: ShardPosition) -> Self {
        Self {
            origin: hash_bytes(u64::from(place.shard.0), &seed.to_le_bytes()),
            last: 0,
            open: BTreeSet::new(),
            here: Partitions::NONE,
            of_process: Partitions::NONE,
            arrived: Partitions::NONE,
            forgotten: Partitions::NONE,
            coming: None,
            marks: Marks::default(),
        }
    }

    /// A roster is in force.
    pub(crate) fn set_roster(&mut self, place: ShardPosition, roster: &Roster) {
        let (at_home, missed) = (roster.at_home(place.shard), roster.missed_partitions());
        self.here = at_home.without(missed);
        self.of_process = Partitions::that(|it| roster.is_own(roster.home_of(it))).without(missed);
        self.forgotten = self.forgotten.among(at_home);
    }

    /// The sessions of these partitions are here, before others are notified.
    pub(crate) fn note_arrived(&mut self, partitions: Partitions) {
        self.arrived = self.arrived.with(partitions);
        self.forgotten = self.forgotten.without(partitions);
    }

    /// The sessions of these partitions are not here any more.
    pub(crate) fn note_left(&mut self, partitions: Partitions) {
        self.arrived = self.arrived.without(partitions);
        self.forgotten = self.forgotten.with(partitions);
    }

    /// These partitions are served here, with the sessions that there are.
    pub(crate) fn note_served(&mut self, partitions: Partitions) {
        self.forgotten = self.forgotten.without(partitions);
    }

    /// Whether the sessions of a partition have left before the roster says so.
    pub(crate) fn has_forgotten(&self, partition: PartitionId) -> bool {
        self.forgotten.has(partition)
    }

    /// Partitions whose sessions receive the messages delivered on this shard.
    pub(crate) fn here(&self) -> Partitions {
        self.here.with(self.arrived)
    }

    /// The partitions of [`Self::here`] that come or leave; `cut` are for new homes at other nodes. Their final home is
    /// not decided, so both homes note the delivered messages with the sessions, and the notes go or stay with these.
    fn in_transit(&self, cut: Partitions) -> Partitions {
        self.here().among(cut.with(self.arrived.without(self.here)))
    }

    /// Begins an exchange in which this process deals to the groups of these partitions. `cut` are for new homes at
    /// other nodes.
    pub(crate) fn begin(&mut self, ticket: Option<Ticket>, groups: Partitions, cut: Partitions) -> Exchange {
        self.last += 1;
        self.open.insert(self.last);
        let name = ExchangeName { origin: self.origin, number: self.last };
        let covered = Got { sessions: self.of_process.without(cut), groups };
        Exchange { name, covered, answered: false, doubtful: false, ticket }
    }

    /// Ends an exchange whose message will not be sent again.
    pub(crate) fn end(&mut self, name: ExchangeName) {
        if self.is_own(name) {
            self.open.remove(&name.number);
        }
    }

    /// Whether this shard has begun an exchange.
    pub(crate) fn is_own(&self, name: ExchangeName) -> bool {
        name.origin == self.origin
    }

    pub(crate) fn word(&mut self, name: ExchangeName, covered: Got) -> ExchangeWord {
        let oldest = self.last.saturating_sub(OPEN_MAX);
        while self.open.first().is_some_and(|first| *first < oldest) {
            self.open.pop_first();
        }
        let done_below = if self.is_own(name) { self.own_done_below() } else { 0 };
        ExchangeWord { name, done_below, covered }
    }

    /// All exchanges of this shard with smaller numbers have ended.
    fn own_done_below(&self) -> u64 {
        self.open.first().copied().unwrap_or(self.last + 1)
    }

    /// Forgets the marks of exchanges of this shard that have ended, as [`Marks::forget_below`].
    pub(crate) fn forget_own_ended(&mut self) -> Vec<(ExchangeName, u64)> {
        let done_below = self.own_done_below();
        self.marks.forget_below(self.origin, done_below)
    }

    /// The next message on the link has this name.
    pub(crate) fn note_coming(&mut self, word: Box<ExchangeWord>) {
        self.coming = Some(word);
    }

    #[inline]
    pub(crate) fn take_coming(&mut self) -> Option<Box<ExchangeWord>> {
        if self.coming.is_some() { self.coming.take() } else { None }
    }
}

impl Journal {
    /// Puts a packet id of a QoS 2 message that was taken.
    pub(crate) fn put_received(&mut self, stored: StoredSession, id: PacketId, exchange: Option<&Exchange>) {
        self.put(Key::Received(stored, id), |out| {
            if let Some(exchange) = exchange {
                exchange.write_stored(out);
            }
        });
    }
}

impl Sessions {
    /// The exchange of a publisher's packet id, if its message has crossed to other nodes.
    pub(crate) fn exchange_of(&self, session: SessionKey, id: PacketId) -> Option<Exchange> {
        let rare = self.get(session.0)?.rare.as_ref()?;
        rare.exchanges.iter().find(|(of, _)| *of == id).map(|(_, exchange)| *exchange)
    }

    /// All nodes have confirmed a message. Of a session that leaves its image says that they have not.
    pub(crate) fn note_exchange_answered(&mut self, transfers: &Transfers, session: SessionKey, id: PacketId) {
        if !transfers.are_none() && self.leaves(transfers, session) {
            return;
        }
        let rare = self.get_mut(session.0).and_then(|session| session.rare.as_mut());
        if let Some((_, exchange)) = rare.and_then(|rare| rare.exchanges.iter_mut().find(|(of, _)| *of == id)) {
            exchange.answered = true;
        }
    }

    /// Notes the state of an exchange, also in the store.
    pub(crate) fn set_exchange(&mut self, journal: &mut Journal, key: SessionKey, id: PacketId, exchange: &Exchange) {
        let Some(session) = self.get_mut(key.0) else { return };
        let exchanges = &mut session.rare_mut().exchanges;
        match exchanges.iter_mut().find(|(of, _)| *of == id) {
            Some((_, known)) => *known = *exchange,
            None => exchanges.push((id, *exchange)),
        }
        if let Some(stored) = session.stored {
            journal.put_received(stored, id, Some(exchange));
        }
    }

    /// A node is gone: it may lack the messages that it has not confirmed.
    pub(crate) fn doubt_exchanges(&mut self) {
        let crosses = |session: &Session| session.rare.as_ref().is_some_and(|rare| !rare.exchanges.is_empty());
        let those: Vec<u32> = self.iter().filter(|(_, session)| crosses(session)).map(|(key, _)| key).collect();
        for key in those {
            let rare = self.get_mut(key).and_then(|session| session.rare.as_mut());
            for (_, exchange) in rare.into_iter().flat_map(|rare| &mut rare.exchanges) {
                exchange.doubtful |= !exchange.answered;
            }
        }
    }

    /// A packet id is free again.
    pub(crate) fn end_exchange(&mut self, exchanges: &mut Exchanges, key: SessionKey, id: PacketId) {
        let Some(session) = self.get_mut(key.0) else { return };
        let Some(rare) = session.rare.as_mut() else { return };
        let Some(at) = rare.exchanges.iter().position(|(of, _)| *of == id) else { return };
        let (_, exchange) = rare.exchanges.swap_remove(at);
        exchanges.end(exchange.name);
    }

    /// A session has moved to another node. Messages without an answer may be sent again there.
    pub(crate) fn end_answered_exchanges(&mut self, exchanges: &mut Exchanges, key: SessionKey) {
        let rare = self.get(key.0).and_then(|session| session.rare.as_ref());
        for (_, exchange) in rare.into_iter().flat_map(|rare| &rare.exchanges).filter(|(_, it)| it.answered) {
            exchanges.end(exchange.name);
        }
    }

    /// A session ends: none of its messages is sent again.
    pub(crate) fn end_exchanges(&mut self, exchanges: &mut Exchanges, key: SessionKey) {
        let rare = self.get_mut(key.0).and_then(|session| session.rare.as_mut());
        for (_, exchange) in rare.map(|rare| std::mem::take(&mut rare.exchanges)).unwrap_or_default() {
            exchanges.end(exchange.name);
        }
    }
}

impl Transfers {
    /// Partitions whose messages go to a new home at another node, as this shard has announced.
    pub(crate) fn cut_away(&self, roster: &Roster) -> Partitions {
        self.cut_for(|shard| !roster.is_own(shard))
    }
}

impl Exchanges {
    /// Notes that the partitions that come or leave here get a message that is published here. Returns these
    /// partitions.
    pub(crate) fn mark_in_transit(
        &mut self,
        place: ShardPosition,
        roster: &Roster,
        transfers: &Transfers,
        journal: &mut Journal,
        name: ExchangeName,
    ) -> Partitions {
        let sessions = self.in_transit(transfers.cut_away(roster));
        if !sessions.is_empty() {
            self.put_mark(place, journal, name, Got { sessions, ..Got::EMPTY });
        }
        sessions
    }
}
