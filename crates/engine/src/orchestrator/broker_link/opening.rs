//! A broker that has connected is given no messages before the other members have their filters there.
//!
//! A broker that joins, or has lost its sessions, gets the filters of each member from that member alone. A message that
//! one member gives it before reaches no subscriber at the others. So the window of each member stays closed until all
//! others have answered the question of `passed.rs`, which they do when the broker has granted their filters. Messages
//! wait in its queue meanwhile.

use super::{Brokers, Stage};
use crate::event::{Event, LogEvent};
use crate::ids::{BrokerLinkKey, ShardId};
use crate::now::{Millis, Now};
use crate::roster::Shards;
use crate::state::ShardState;

/// Longest time for the other members, milliseconds. A broker that one of them does not reach is given messages then
/// (`BrokerOpensEarly`): subscribers there may miss them, and others need not wait for ever.
const OPENING_MAX_MS: u64 = 10_000;

/// Time between two questions, milliseconds: a member forgets a question when it loses the broker, or does not have it yet.
const OPENING_INTERVAL_MS: u64 = 100;

/// The wait of a broker for the filters of other members.
#[derive(Debug)]
pub(crate) struct Opening {
    /// When it waits no longer, [`Millis::NEVER`] where it does not wait.
    until: Millis,
    /// The number of the question that members were asked.
    number: u32,
    /// Shards of members that have not answered it; `None` until they were asked.
    unanswered: Option<Shards>,
    /// When they are asked, or asked again.
    ask_at: Millis,
}

impl Default for Opening {
    fn default() -> Self {
        Self { until: Millis::NEVER, number: 0, unanswered: None, ask_at: Millis::NEVER }
    }
}

impl Opening {
    /// Whether the broker waits.
    pub(super) fn is_on(&self) -> bool {
        self.until != Millis::NEVER
    }

    /// When the next step is due.
    pub(super) fn due(&self) -> Millis {
        self.until.min(self.ask_at)
    }

    /// The connection has ended.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    /// The link to a member's shard has ended: all members are asked anew.
    pub(super) fn note_gone(&mut self, gone: ShardId) {
        if self.unanswered.is_some_and(|unanswered| unanswered.has(gone)) {
            self.unanswered = None;
        }
    }

    /// A member's shard has answered; returns whether it was the last one.
    fn note_answer(&mut self, from: ShardId, number: u32) -> bool {
        let Some(unanswered) = self.unanswered.as_mut().filter(|it| number == self.number && it.has(from)) else {
            return false;
        };
        *unanswered = unanswered.without(Shards::of(from));
        *unanswered == Shards::default()
    }
}

/// The next step of a broker that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpeningStep {
    /// Something has to happen before.
    Wait,
    /// These members are asked the question of this number.
    Ask(u32, Shards),
    /// It waits no longer.
    Open,
}

impl Brokers {
    /// A broker has connected: it waits if there are other members. The connection of a dead member gets no messages.
    pub(crate) fn begin_opening(&mut self, now: Now, key: BrokerLinkKey) {
        let has_members = self.has_members;
        let Some(broker_link) = self.all.get_mut(&key) else { return };
        broker_link.opening.forget();
        if has_members && broker_link.adopted.is_none() {
            broker_link.opening.until = now.monotonic.plus(OPENING_MAX_MS);
            broker_link.opening.ask_at = now.monotonic;
        }
    }

    /// Takes the next step for a broker that waits for `members`, which are `None` while some of them have no link or no
    /// successor.
    pub(crate) fn continue_opening(
        &mut self,
        now: Now,
        state: &mut ShardState,
        key: BrokerLinkKey,
        members: Option<Shards>,
    ) -> OpeningStep {
        let Some(broker_link) = self.all.get_mut(&key).filter(|it| it.stage == Stage::Open) else {
            return OpeningStep::Wait;
        };
        let opening = &mut broker_link.opening;
        if opening.until <= now.monotonic {
            let broker = broker_link.name.to_string();
            state.events.push_back(Event::Log(LogEvent::BrokerOpensEarly { broker }));
            return OpeningStep::Open;
        }
        if opening.ask_at > now.monotonic {
            return OpeningStep::Wait;
        }
        opening.ask_at = now.monotonic.plus(OPENING_INTERVAL_MS);
        let Some(members) = members else {
            opening.unanswered = None;
            return OpeningStep::Wait;
        };
        if members == Shards::default() {
            return OpeningStep::Open;
        }
        if let Some(unanswered) = opening.unanswered {
            return OpeningStep::Ask(opening.number, unanswered);
        }
        opening.unanswered = Some(members);
        broker_link.questions_asked = broker_link.questions_asked.wrapping_add(1);
        broker_link.opening.number = broker_link.questions_asked;
        OpeningStep::Ask(broker_link.opening.number, members)
    }

    /// A member's shard has answered; returns the broker if it waits no longer.
    pub(crate) fn note_filters_there(&mut self, broker: &str, (from, number): (ShardId, u32)) -> Option<BrokerLinkKey> {
        let key = self.find(broker)?;
        self.all.get_mut(&key)?.opening.note_answer(from, number).then_some(key)
    }
}
