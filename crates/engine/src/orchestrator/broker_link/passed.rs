//! Acknowledged messages that a broker may not have sent to the subscribers at other members.
//!
//! A broker that dies without a disk loses messages that it has acknowledged. A member therefore keeps an acknowledged
//! message until each other member says that the broker has sent it all that it had for it (`Passed`). The members are
//! asked in rounds, each about all messages acknowledged before it. If the broker is lost meanwhile, the messages are
//! sent again; members recognise them by their ids. The member that continues the connection of a dead one answers for it.

use super::id::MessageId;
use super::settled::Awaited;
use super::{Brokers, Settlement, Stage};
use crate::ids::{BrokerLinkKey, ConnectionKey, ShardId};
use crate::now::{Millis, Now};
use crate::publish::layouts::Layouts;
use crate::roster::{Roster, Shards};
use crate::session::{Delivery, InFlight};
use crate::state::ShardState;
use std::collections::VecDeque;

/// Time between the starts of two rounds at a broker, milliseconds: each costs the broker one PINGREQ per member.
const ROUND_INTERVAL_MS: u64 = 50;

/// Time after which a round without all answers is given up, milliseconds. Its messages are settled: a member that
/// does not answer for so long has another list of brokers, or its broker is busy without a pause.
const ROUND_MAX_MS: u64 = 60_000;

/// The next round begins this early when many messages are kept, milliseconds.
const ROUND_INTERVAL_MIN_MS: u64 = 5;

/// Messages that are many: a quarter of the most.
const MANY: usize = UNPASSED_MAX_MESSAGES as usize / 4;

/// Messages and bytes that are kept for each broker. Beyond them the oldest messages are settled without the members'
/// answers (`unconfirmed`). A kept message still has its packet id in the store, and a start has to know its id, so
/// there are few.
pub(super) const UNPASSED_MAX_MESSAGES: u16 = 1024;
const UNPASSED_MAX_BYTES: u64 = 16 << 20;

/// How far the number of a message may be behind the newest one if it is sent again, half of the numbers that members
/// know at least.
const RECOGNISED_MAX: u64 = super::id::WINDOW_MIN / 2;

/// Time until members are asked if one of them has no link to this one, or its place is being taken, milliseconds.
const LACKING_PAUSE_MS: u64 = 1_000;

/// The acknowledged messages of one broker that it may not have sent to all members, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Unpassed {
    messages: VecDeque<(MessageId, InFlight)>,
    bytes: u64,
    round: Round,
}

/// The question that members are asked.
#[derive(Debug)]
struct Round {
    number: u32,
    /// The connection to the broker when it began: after another one the messages are sent again.
    connection: Option<ConnectionKey>,
    /// The first messages, which it is about; 0 if no round is open.
    about: usize,
    /// Shards of members that have not answered.
    open: Shards,
    /// When it is given up, or the next one may begin.
    due: Millis,
}

impl Default for Round {
    fn default() -> Self {
        Self { number: 0, connection: None, about: 0, open: Shards::default(), due: Millis(0) }
    }
}

fn cost(in_flight: &InFlight) -> u64 {
    in_flight.delivery.as_ref().map_or(0, Delivery::cost)
}

impl Unpassed {
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// When the next step is due.
    pub(super) fn due(&self) -> Millis {
        if self.messages.is_empty() { Millis::NEVER } else { self.round.due }
    }

    fn push(&mut self, id: MessageId, in_flight: InFlight) {
        self.bytes += cost(&in_flight);
        self.messages.push_back((id, in_flight));
    }

    fn pop(&mut self) -> Option<(MessageId, InFlight)> {
        let (id, in_flight) = self.messages.pop_front()?;
        self.bytes -= cost(&in_flight);
        if self.round.about > 0 {
            self.round.about -= 1;
            // A round about nothing is over.
            self.round.due = if self.round.about == 0 { Millis(0) } else { self.round.due };
        }
        Some((id, in_flight))
    }

    fn is_beyond_limits(&self) -> bool {
        self.messages.len() > usize::from(UNPASSED_MAX_MESSAGES) || self.bytes > UNPASSED_MAX_BYTES
    }

    /// Takes all messages, which are sent again where `is_recognised` says so.
    pub(crate) fn take_all(&mut self) -> VecDeque<(MessageId, InFlight)> {
        self.bytes = 0;
        self.cancel_round(Millis(0));
        std::mem::take(&mut self.messages)
    }

    fn cancel_round(&mut self, due: Millis) {
        (self.round.about, self.round.due) = (0, due);
    }

    /// The number of the next question about the broker.
    pub(crate) fn next_number(&mut self) -> u32 {
        self.round.number = self.round.number.wrapping_add(1);
        self.round.number
    }

    /// Begins a round if one may begin; returns its number.
    fn begin_round(&mut self, now: Now, connection: Option<ConnectionKey>, members: Shards) -> Option<u32> {
        let may_begin = self.round.about == 0 && self.round.due <= now.monotonic && !self.messages.is_empty();
        if !may_begin || connection.is_none() {
            return None;
        }
        let number = self.next_number();
        let (about, due) = (self.messages.len(), now.monotonic.plus(ROUND_MAX_MS));
        self.round = Round { number, connection, about, open: members, due };
        Some(number)
    }

    /// A member's shard has all messages of a round; returns the number of messages that all members have now.
    fn note_answer(&mut self, from: ShardId, number: u32, connection: Option<ConnectionKey>) -> usize {
        let is_of_round = number == self.round.number && connection == self.round.connection;
        if !is_of_round || self.round.about == 0 {
            return 0;
        }
        self.round.open = self.round.open.without(Shards::of(from));
        if self.round.open == Shards::default() { self.round.about } else { 0 }
    }
}

/// The question of another member whether the broker has sent all that it had for this one.
#[derive(Debug)]
pub(crate) struct MemberQuestion {
    pub(crate) from: ShardId,
    pub(crate) number: u32,
    /// The messages to come on the connection of this process, and on the connections of dead orchestrators.
    pub(crate) awaited: Vec<Awaited>,
}

impl Settlement {
    /// A message is settled if no other member can want it; otherwise it is kept until they have answered.
    pub(crate) fn settle_or_keep(
        &mut self,
        state: &mut ShardState,
        layouts: &mut Layouts,
        brokers: &mut Brokers,
        key: BrokerLinkKey,
        (id, in_flight): (MessageId, InFlight),
    ) {
        let Some(broker_link) = brokers.all.get_mut(&key) else { return };
        let session = broker_link.session;
        if brokers.has_members && broker_link.adopted.is_none() && broker_link.version.is_v5() {
            let cost = cost(&in_flight);
            self.unpassed_bytes += cost;
            state.memory.held += cost;
            brokers.note_no_longer_under_way(state, layouts, &in_flight);
            let Some(broker_link) = brokers.all.get_mut(&key) else { return };
            broker_link.unpassed.push(id, in_flight);
            let kept = broker_link.unpassed.messages.len();
            if kept == MANY && broker_link.unpassed.round.about == 0 {
                broker_link.unpassed.round.due = Millis(0);
            }
            if kept == 1 || kept == MANY {
                brokers.set_broker_link_timer(state, key);
            }
            while brokers.all.get(&key).is_some_and(|broker_link| broker_link.unpassed.is_beyond_limits()) {
                self.settle_unconfirmed(state, layouts, brokers, key, 1);
            }
            return;
        }
        self.forget_come(state, layouts, brokers, session, &id, &in_flight);
        in_flight.leave_memory(&mut state.memory);
    }

    /// Settles the oldest kept messages of a broker although members have not answered.
    fn settle_unconfirmed(
        &mut self,
        state: &mut ShardState,
        layouts: &mut Layouts,
        brokers: &mut Brokers,
        key: BrokerLinkKey,
        count: usize,
    ) {
        if let Some(broker_link) = brokers.all.get_mut(&key) {
            broker_link.counters.unconfirmed += count as u64;
        }
        self.settle_oldest(state, layouts, brokers, key, count);
    }

    /// Settles the oldest kept messages of a broker.
    fn settle_oldest(
        &mut self,
        state: &mut ShardState,
        layouts: &mut Layouts,
        brokers: &mut Brokers,
        key: BrokerLinkKey,
        count: usize,
    ) {
        for _ in 0..count {
            let Some(broker_link) = brokers.all.get_mut(&key) else { return };
            let session = broker_link.session;
            let Some((id, in_flight)) = broker_link.unpassed.pop() else { return };
            self.forget_unpassed(state, &in_flight);
            self.forget_come(state, layouts, brokers, session, &id, &in_flight);
            in_flight.leave_memory(&mut state.memory);
        }
    }

    /// A kept message is settled, or sent again.
    pub(crate) fn forget_unpassed(&mut self, state: &mut ShardState, in_flight: &InFlight) {
        let cost = cost(in_flight);
        self.unpassed_bytes -= cost;
        state.memory.held -= cost;
    }

    /// Begins the next round of questions about a broker, or gives up one that is open for too long. Returns the number
    /// of a new round, which the caller asks `members`. While a member has no link, none begins: it may be back soon, or
    /// others take its place.
    pub(crate) fn continue_rounds(
        &mut self,
        now: Now,
        state: &mut ShardState,
        layouts: &mut Layouts,
        brokers: &mut Brokers,
        key: BrokerLinkKey,
        members: Option<Shards>,
    ) -> Option<u32> {
        let broker_link = brokers.all.get_mut(&key)?;
        // Messages of a broker that is away are sent again when it is back.
        if broker_link.unpassed.due() > now.monotonic || broker_link.stage != Stage::Open {
            return None;
        }
        let (given_up, all) = (broker_link.unpassed.round.about, broker_link.unpassed.messages.len());
        broker_link.unpassed.cancel_round(now.monotonic);
        self.settle_unconfirmed(state, layouts, brokers, key, given_up);
        if !brokers.has_members {
            self.settle_oldest(state, layouts, brokers, key, all - given_up);
            return None;
        }
        let broker_link = brokers.all.get_mut(&key)?;
        let Some(members) = members else {
            broker_link.unpassed.cancel_round(now.monotonic.plus(LACKING_PAUSE_MS));
            return None;
        };
        broker_link.unpassed.begin_round(now, broker_link.connection, members)
    }

    fn end_round(
        &mut self,
        now: Now,
        state: &mut ShardState,
        layouts: &mut Layouts,
        brokers: &mut Brokers,
        key: BrokerLinkKey,
        count: usize,
    ) {
        self.settle_oldest(state, layouts, brokers, key, count);
        if let Some(broker_link) = brokers.all.get_mut(&key) {
            let many = broker_link.unpassed.messages.len() >= MANY;
            let pause = if many { ROUND_INTERVAL_MIN_MS } else { ROUND_INTERVAL_MS };
            broker_link.unpassed.cancel_round(now.monotonic.plus(pause));
        }
        brokers.set_broker_link_timer(state, key);
    }

    /// A member's shard says that the broker has sent it all messages of a round, or it is gone.
    pub(crate) fn note_passed(
        &mut self,
        now: Now,
        state: &mut ShardState,
        layouts: &mut Layouts,
        brokers: &mut Brokers,
        broker: &str,
        (from, number): (ShardId, u32),
    ) {
        let Some(key) = brokers.find(broker) else { return };
        let Some(broker_link) = brokers.all.get_mut(&key) else { return };
        let connection = broker_link.connection;
        let count = broker_link.unpassed.note_answer(from, number, connection);
        if count > 0 {
            self.end_round(now, state, layouts, brokers, key, count);
        }
    }
}

/// Whether members know a message by its id, so that they drop a repetition.
pub(crate) fn is_recognised(id: &MessageId, newest: u64) -> bool {
    newest.saturating_sub(id.number) <= RECOGNISED_MAX
}

impl super::BrokerLinks {
    /// Whether other members share the brokers, linked or not, or one that is dead still has no successor.
    pub(crate) fn follow_members(&mut self, roster: &Roster) {
        self.brokers.has_members = roster.peers() != Shards::default() || roster.lacks_nodes() || roster.misses_any();
    }

    /// The link to a member's shard has ended. An open round that waits for it begins again when all members are linked
    /// or known to be dead.
    pub(crate) fn ask_no_longer(&mut self, now: Now, state: &mut ShardState, gone: ShardId) {
        let keys: Vec<BrokerLinkKey> = self.brokers.all.keys().copied().collect();
        for key in keys {
            let Some(broker_link) = self.brokers.all.get_mut(&key) else { continue };
            broker_link.questions.retain(|question| question.from != gone);
            broker_link.opening.note_gone(gone);
            let round = &broker_link.unpassed.round;
            if round.about > 0 && round.open.has(gone) {
                broker_link.unpassed.cancel_round(now.monotonic.plus(ROUND_INTERVAL_MS));
                self.brokers.set_broker_link_timer(state, key);
            }
        }
    }
}
