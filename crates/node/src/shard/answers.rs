//! Answers of a shard to questions of the control plane.

use std::net::IpAddr;

use tidegate_engine::{ClientQuery, ClientSummary, Millis};

use crate::report::ShardReport;
use crate::shard::facets::OrderCalls;

impl OrderCalls<'_> {
    /// Clients with their addresses.
    pub(super) fn clients(&mut self, query: &ClientQuery) -> Vec<(ClientSummary, Option<IpAddr>)> {
        let clients = self.shard.engine.questions().clients(query).into_iter();
        clients
            .map(|client| {
                let address = client.connection.and_then(|key| self.shard.admission().address_of(key));
                (client, address)
            })
            .collect()
    }

    /// This shard's numbers, with the usage of users on demand.
    pub(super) fn report(&self, by_user: bool) -> ShardReport {
        let questions = self.shard.engine.questions();
        ShardReport {
            shard: self.shard.place.shard,
            counters: questions.counters().clone(),
            gauges: questions.gauges(),
            usage: questions.usage(self.shard.now),
            users: if by_user { questions.usage_by_user(self.shard.now) } else { Vec::new() },
            slow_sessions: questions.count_slow_sessions(self.shard.now),
            shell: self.shard.counters,
            flight: self.shard.flight.counters(),
            lag_ms: self.shard.lag.at(Millis(self.shard.clock.now().monotonic.0)),
        }
    }
}
