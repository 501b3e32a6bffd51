//! The counts of a partition: they prove that a move lost nothing.

use crate::ids::{Partitions, SessionKey, partition_of};
use crate::partitions::ByPartition;
use crate::retained::RetainedStore;
use crate::session::packet_ids::State;
use crate::session::table::Sessions;
use crate::session::{Flow, Session};
use crate::summed;

summed! {
    /// Counts of a partition: its sessions that outlive their connections, their messages, and its retained messages.
    /// They are the same before and after a move.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Owed {
        /// Sessions.
        pub sessions: u64,
        /// Ordinary subscriptions and memberships in shared groups.
        pub subscriptions: u64,
        /// Subscriptions that have not been brought all of their retained messages.
        pub fetches: u64,
        /// Messages waiting in queues, those in the store alone included.
        pub queued: u64,
        /// Messages sent that wait for PUBACK.
        pub await_pub_ack: u64,
        /// Messages sent that wait for PUBREC.
        pub await_pub_rec: u64,
        /// Exchanges that wait for PUBCOMP.
        pub await_pub_comp: u64,
        /// QoS 2 packet ids received that wait for PUBREL.
        pub await_pub_rel: u64,
        /// Wills that wait, or are under way.
        pub wills: u64,
        /// Retained messages.
        pub retained: u64,
    }
}

impl Sessions {
    /// The sessions of partitions, without the sessions of broker links: these belong to the process and never move.
    pub(crate) fn by_partition(&self, partitions: Partitions) -> ByPartition<SessionKey> {
        let here = self.iter().filter(|(_, session)| !session.is_broker_link());
        let placed =
            |(key, session): (u32, &Session)| (partition_of(session.tenant, &session.client_id), SessionKey(key));
        ByPartition::new(partitions, here.map(placed))
    }
}

impl RetainedStore {
    /// Tenants and topics of the retained messages of partitions, without the topics that the broker publishes itself.
    pub(crate) fn by_partition(&self, partitions: Partitions) -> ByPartition<(crate::TenantId, &str)> {
        let all = self.values.iter().filter(|(_, topic, _)| !crate::topics::is_own_topic(topic));
        ByPartition::new(partitions, all.map(|(tenant, topic, _)| (partition_of(tenant, topic), (tenant, topic))))
    }
}

impl Owed {
    pub(crate) fn add_session(&mut self, session: &Session) {
        self.sessions += 1;
        self.subscriptions += session.subscriptions() as u64;
        if let Some(rare) = &session.rare {
            self.fetches += rare.fetches.len() as u64 + u64::from(rare.fetches_starting);
            self.wills += u64::from(rare.will.is_some());
        }
        if let Some(flow) = &session.flow {
            self.add_flow(flow);
        }
    }

    fn add_flow(&mut self, flow: &Flow) {
        self.queued += flow.waiting().0 as u64;
        self.await_pub_rel += flow.received.len() as u64;
        for entry in flow.inflight.iter() {
            match entry.state {
                State::AwaitPubAck => self.await_pub_ack += 1,
                State::AwaitPubRec => self.await_pub_rec += 1,
                State::AwaitPubComp => self.await_pub_comp += 1,
            }
        }
    }
}
