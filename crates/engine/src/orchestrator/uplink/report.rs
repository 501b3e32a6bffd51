//! What is told of the brokers of a fleet.

use super::{Drain, Stage, Uplink, UplinkKey, UplinkReport, UplinkState};
use crate::engine::Engine;

impl Engine {
    /// How all uplinks are.
    pub fn uplinks(&self) -> Vec<UplinkReport> {
        self.uplinks.all.keys().filter_map(|key| self.report_uplink(*key)).collect()
    }

    /// Filters that the clients of this process want of brokers.
    pub fn wanted_filters(&self) -> u64 {
        self.uplinks.wanted.len() as u64
    }

    pub(super) fn report_uplink(&self, key: UplinkKey) -> Option<UplinkReport> {
        let uplink = self.uplinks.all.get(&key)?;
        let (queued, in_flight) = self.desk.owed_by(uplink.session);
        let in_flight = in_flight.saturating_sub(uplink.released);
        let unreturned = uplink.unreturned.len() as u64;
        let owed = queued + in_flight + unreturned;
        let state = match (uplink.draining, uplink.stage) {
            (Some(drain), _) if owed == 0 && is_worked_off(uplink, drain) => UplinkState::Drained,
            (Some(_), _) => UplinkState::Draining,
            (None, Stage::Open) if uplink.filters.is_complete() => UplinkState::Serving,
            (None, Stage::Open) => UplinkState::Subscribing,
            (None, _) if uplink.accepted.is_some() => UplinkState::Down,
            (None, _) => UplinkState::Connecting,
        };
        let mut counters = uplink.counters;
        counters.sent = counters.acknowledged + in_flight;
        Some(UplinkReport {
            name: uplink.name.to_string(),
            state,
            since: uplink.since,
            version: uplink.accepted,
            filters: uplink.filters.held(),
            filters_pending: uplink.filters.pending(),
            filters_refused: uplink.filters.refused.len() as u64,
            queued,
            in_flight,
            unreturned,
            counters,
            last_error: uplink.last_error.clone(),
        })
    }
}

/// Whether a drained broker has answered a probe behind the last message. One that is away has nothing under way.
fn is_worked_off(uplink: &Uplink, drain: Drain) -> bool {
    uplink.stage != Stage::Open || uplink.probe.answered >= drain.answers_wanted
}
