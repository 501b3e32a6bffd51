//! Counters, reports and requests of engines.

use tidegate_engine::{
    Counters, Gauges, InnerPublication, LogEvent, ObservedMessage, ObserverId, Principal, PrincipalKind, Reason,
    TenantId, Usage,
};
use tidegate_mqtt::ReasonCode;

use super::World;

/// A principal of the default tenant that may hold ten messages.
pub(crate) fn principal(kind: PrincipalKind, name: &str) -> Principal {
    let (max_held_messages, max_held_bytes) = (10, 100_000);
    Principal {
        kind,
        tenant: TenantId::DEFAULT,
        name: name.into(),
        identity: None,
        listener: None,
        max_held_messages,
        max_held_bytes,
        unobserved_by: Vec::new(),
    }
}

impl World {
    /// All shards' counters, also of processes that have died.
    pub(crate) fn counters(&self) -> Counters {
        let mut sum = self.0.borrow().past.clone();
        for engine in &self.0.borrow().engines {
            sum.add(engine.questions().counters());
        }
        sum
    }

    /// The usage of a tenant on all shards.
    pub(crate) fn usage(&self, tenant: TenantId) -> Usage {
        let mut sum = Usage::default();
        for shard in 0..self.shards() {
            for (owner, usage) in self.engine(shard, |engine, now| engine.questions().usage(now)) {
                if owner == tenant {
                    sum.add(&usage);
                }
            }
        }
        sum
    }

    /// All shards' gauges.
    pub(crate) fn gauges(&self) -> Gauges {
        let mut sum = Gauges::default();
        for engine in &self.0.borrow().engines {
            sum.add(&engine.questions().gauges());
        }
        sum
    }

    /// Messages that were not delivered for this reason.
    pub(crate) fn dropped(&self, reason: Reason) -> u64 {
        self.counters().dropped[reason.number()]
    }

    /// Runs, and takes the names of the clients that have acknowledged a ping.
    pub(crate) fn take_pongs(&self) -> Vec<String> {
        self.run();
        std::mem::take(&mut self.0.borrow_mut().pongs)
    }

    /// Runs, and takes the reports of nodes, each with its shard.
    pub(crate) fn take_reports(&self) -> Vec<(u16, ObservedMessage)> {
        self.run();
        let reports = std::mem::take(&mut self.0.borrow_mut().reports);
        reports.into_iter().map(|(shard, message)| (shard as u16, message)).collect()
    }

    /// Runs, and takes the messages for applications, each with its shard.
    pub(crate) fn take_records(&self) -> Vec<(u16, ObservedMessage)> {
        self.run();
        let records = std::mem::take(&mut self.0.borrow_mut().records);
        records.into_iter().map(|(shard, message)| (shard as u16, message)).collect()
    }

    /// Runs, and takes the messages for observers that tests have added.
    pub(crate) fn take_observed(&self) -> Vec<(u16, ObserverId, ObservedMessage)> {
        self.run();
        let observed = std::mem::take(&mut self.0.borrow_mut().observed);
        observed.into_iter().map(|(shard, id, message)| (shard as u16, id, message)).collect()
    }

    /// Runs, and takes the answers to publications of principals.
    pub(crate) fn take_published(&self) -> Vec<(u64, Result<ReasonCode, Reason>)> {
        self.run();
        std::mem::take(&mut self.0.borrow_mut().published)
    }

    /// Publishes at a shard as a part of the broker.
    pub(crate) fn publish_as_broker(&self, shard: u16, message: &InnerPublication, number: u64) {
        self.engine(shard, |engine, now| {
            let id = engine.insiders().add_principal(now, principal(PrincipalKind::Broker, "broker"));
            engine.insiders().publish_as(now, id, message.clone(), number);
        });
    }

    /// Takes the log events.
    pub(crate) fn take_log(&self) -> Vec<LogEvent> {
        std::mem::take(&mut self.0.borrow_mut().log)
    }

    /// A digest of everything that happened so far.
    pub(crate) fn digest(&self) -> u64 {
        self.0.borrow().trace.digest
    }

    pub(crate) fn note(&self, line: String) {
        self.0.borrow_mut().trace.note(line);
    }

    pub(crate) fn batches_under_way(&self) -> usize {
        self.0.borrow().batches_under_way()
    }
}
