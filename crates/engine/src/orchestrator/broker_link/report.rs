//! Reports about the brokers of a fleet.

use super::{BrokerLink, BrokerLinkReport, BrokerLinkState, Drain, Stage};
use crate::now::Millis;
use crate::state::ShardState;

impl BrokerLink {
    /// Whether its broker holds all filters, and is not drained.
    pub(super) fn is_serving(&self) -> bool {
        matches!((self.draining, self.stage), (None, Stage::Open)) && self.filters.is_complete()
    }

    /// Whether its broker gets messages: it is not drained, and it is connected or was away only briefly.
    pub(crate) fn keeps_its_share(&self, now: Millis) -> bool {
        let is_there = self.stage == Stage::Open;
        self.draining.is_none() && (is_there || self.reassign_at != Millis::NEVER && self.reassign_at > now)
    }

    pub(crate) fn report(&self, state: &ShardState) -> BrokerLinkReport {
        let (queued, in_flight) = state.sessions.owed_by(self.session);
        let in_flight = in_flight.saturating_sub(self.released);
        let unreturned = self.unreturned.len() as u64;
        let owed = queued + in_flight + unreturned;
        let state = match (self.draining, self.stage) {
            (Some(drain), _) if owed == 0 && self.unpassed.is_empty() && is_worked_off(self, drain) => {
                BrokerLinkState::Drained
            }
            (Some(_), _) => BrokerLinkState::Draining,
            (None, Stage::Open) if self.is_serving() => BrokerLinkState::Serving,
            (None, Stage::Open) => BrokerLinkState::Subscribing,
            (None, _) if self.accepted.is_some() => BrokerLinkState::Down,
            (None, _) => BrokerLinkState::Connecting,
        };
        let mut counters = self.counters;
        // The field itself counts QoS 0.
        counters.sent += counters.acknowledged + in_flight;
        BrokerLinkReport {
            name: self.name.to_string(),
            state,
            since: self.since,
            version: self.accepted,
            filters: self.filters.held(),
            filters_pending: self.filters.pending(),
            filters_refused: self.filters.refused.len() as u64,
            queued,
            in_flight,
            unreturned,
            counters,
            last_error: self.last_error.clone(),
        }
    }
}

/// Whether a drained broker has answered a probe behind the last message. One that is away has nothing under way.
fn is_worked_off(broker_link: &BrokerLink, drain: Drain) -> bool {
    broker_link.stage != Stage::Open || broker_link.probe.answered >= drain.answers_wanted
}
