//! Acknowledged messages that a broker may not have sent to the subscribers at other members.
//!
//! A broker that dies without a disk loses messages that it has acknowledged. A member therefore keeps an acknowledged
//! message until each other member says that the broker has sent it all that it had for it (`Passed`). The members are
//! asked in rounds, each about all messages acknowledged before it. If the broker is lost meanwhile, the messages are
//! sent again; members recognise them by their ids.

use super::id::MessageId;
use super::settled::Awaited;
use super::{Brokers, Settlement, Stage};
use crate::ids::{BrokerLinkKey, ConnectionKey, ShardId};
use crate::now::{Millis, Now};
use crate::publish::layouts::Layouts;
use crate::roster::Shards;
use crate::session::{Delivery, InFlight};
use crate::state::ShardState;
use std::collections::VecDeque;

/// Time between the starts of two rounds at a broker, milliseconds: each costs the broker one PINGREQ per member.
const ROUND_INTERVAL_MS: u64 = 50;

/// Time after which a round without all answers is given up, milliseconds. Its messages are settled: a member that
/// does not answer for so long has another list of brokers, or its broker is busy without a pause.
const ROUND_MAX_MS: u64 = 60_000;

/// Bytes that are kept for each broker. Beyond it the oldest messages are settled without the members' answers.
const UNPASSED_MAX_BYTES: u64 = 64 << 20;

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
        self.round.about = self.round.about.saturating_sub(1);
        Some((id, in_flight))
    }

    /// Takes all messages, which are sent again.
    pub(crate) fn take_all(&mut self) -> VecDeque<(MessageId, InFlight)> {
        self.bytes = 0;
        self.round.about = 0;
        self.round.due = Millis(0);
        std::mem::take(&mut self.messages)
    }

    /// Begins a round if one may begin; returns its number.
    fn begin_round(&mut self, now: Now, connection: Option<ConnectionKey>, members: Shards) -> Option<u32> {
        let may_begin = self.round.about == 0 && self.round.due <= now.monotonic && !self.messages.is_empty();
        if !may_begin || connection.is_none() {
            return None;
        }
        let number = self.round.number.wrapping_add(1);
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
    pub(crate) awaited: Awaited,
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
            let is_first = broker_link.unpassed.is_empty();
            let cost = cost(&in_flight);
            broker_link.unpassed.push(id, in_flight);
            self.unpassed_bytes += cost;
            state.memory.held += cost;
            if is_first {
                brokers.set_broker_link_timer(state, key);
            }
            while brokers.all.get(&key).is_some_and(|broker_link| broker_link.unpassed.bytes > UNPASSED_MAX_BYTES) {
                self.settle_oldest(state, layouts, brokers, key, 1);
            }
            return;
        }
        self.forget_come(state, layouts, brokers, session, &id, &in_flight);
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
        }
    }

    /// A kept message is settled, or sent again.
    pub(crate) fn forget_unpassed(&mut self, state: &mut ShardState, in_flight: &InFlight) {
        let cost = cost(in_flight);
        self.unpassed_bytes -= cost;
        state.memory.held -= cost;
    }

    /// Begins the next round of questions about a broker, or gives up one that is open for too long. Returns the number
    /// of a new round, which the caller asks `members`.
    pub(crate) fn continue_rounds(
        &mut self,
        now: Now,
        state: &mut ShardState,
        layouts: &mut Layouts,
        brokers: &mut Brokers,
        key: BrokerLinkKey,
        members: Shards,
    ) -> Option<u32> {
        let broker_link = brokers.all.get_mut(&key)?;
        // Messages of a broker that is away are sent again when it is back.
        if broker_link.unpassed.due() > now.monotonic || broker_link.stage != Stage::Open {
            return None;
        }
        let given_up = broker_link.unpassed.round.about;
        if given_up > 0 {
            self.end_round(now, state, layouts, brokers, key, given_up);
        }
        let broker_link = brokers.all.get_mut(&key)?;
        if members == Shards::default() {
            let all = broker_link.unpassed.messages.len();
            self.settle_oldest(state, layouts, brokers, key, all);
            return None;
        }
        let connection = broker_link.connection;
        broker_link.unpassed.begin_round(now, connection, members)
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
            broker_link.unpassed.round.due = now.monotonic.plus(ROUND_INTERVAL_MS);
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

    /// A member's shard is gone and answers no more.
    pub(crate) fn ask_no_longer(
        &mut self,
        now: Now,
        state: &mut ShardState,
        layouts: &mut Layouts,
        brokers: &mut Brokers,
        gone: ShardId,
    ) {
        let open: Vec<(BrokerLinkKey, u32)> =
            brokers.all.iter().map(|(key, broker_link)| (*key, broker_link.unpassed.round.number)).collect();
        for (key, number) in open {
            let Some(broker_link) = brokers.all.get_mut(&key) else { continue };
            broker_link.questions.retain(|question| question.from != gone);
            let connection = broker_link.unpassed.round.connection;
            let count = broker_link.unpassed.note_answer(gone, number, connection);
            if count > 0 {
                self.end_round(now, state, layouts, brokers, key, count);
            }
        }
    }
}

impl super::BrokerLinks {
    /// These are the shards of the other members.
    pub(crate) fn follow_members(&mut self, members: Shards) {
        self.brokers.has_members = members != Shards::default();
    }
}
