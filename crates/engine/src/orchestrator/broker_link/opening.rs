//! A broker that has connected is given no messages before the other members have their filters there.
//!
//! A broker that joins, or has lost its sessions, gets the filters of each member from that member alone. A message that
//! one member gives it before reaches no subscriber at the others. So the window of each member stays closed until all
//! others have answered the question of `passed.rs`, which they do when the broker has granted their filters. Messages
//! wait in its queue meanwhile.

use crate::ids::ShardId;
use crate::now::{Millis, Now};
use crate::roster::Shards;

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

    /// The broker has connected, and waits for other members.
    pub(crate) fn begin(&mut self, now: Now) {
        *self = Self { until: now.monotonic.plus(OPENING_MAX_MS), ask_at: now.monotonic, ..Self::default() };
    }

    /// The connection has ended, or the broker waits no longer.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    /// The next step of a broker that waits for `members`, which are `None` while some of them have no link or no successor.
    /// A new question gets the next number.
    pub(crate) fn next_step(
        &mut self,
        now: Now,
        members: Option<Shards>,
        next_number: impl FnOnce() -> u32,
    ) -> OpeningStep {
        if self.until <= now.monotonic {
            return OpeningStep::OpenEarly;
        }
        if self.ask_at > now.monotonic {
            return OpeningStep::Wait;
        }
        self.ask_at = now.monotonic.plus(OPENING_INTERVAL_MS);
        let Some(members) = members else {
            self.unanswered = None;
            return OpeningStep::Wait;
        };
        if members == Shards::default() {
            return OpeningStep::Open;
        }
        if self.unanswered.is_none() {
            self.number = next_number();
        }
        OpeningStep::Ask(self.number, *self.unanswered.get_or_insert(members))
    }

    /// The link to a member's shard has ended: all members are asked again.
    pub(super) fn note_gone(&mut self, gone: ShardId) {
        if self.unanswered.is_some_and(|unanswered| unanswered.has(gone)) {
            self.unanswered = None;
        }
    }

    /// A member's shard has answered; returns whether it was the last one.
    pub(crate) fn note_answer(&mut self, from: ShardId, number: u32) -> bool {
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
    /// It has waited long enough.
    OpenEarly,
}
