//! Requests of the core to this broker.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_context::groups::MembershipChange;
use tidegate_context::service::{
    Answer, Bell, ClientAdvertisement, DeliveryOutcome, Host, HostLoad, HostNode, NodeContext,
};
use tidegate_context::{ContextTopics, Said, level_of};
use tidegate_engine::{InnerPublication, MembershipOutcome, Millis, TenantId};
use tidegate_mqtt::{PublishProperties, QoS};
use tidegate_node::{NodeHandle, Observation, Pongs, Reports};

use tidegate_administration::BrokerStatus;
use tidegate_process::machine::{Processors, memory};

/// Nodes belong to the tenant of all who have none.
const TENANT: TenantId = TenantId::DEFAULT;
/// The user property that a context may come in.
const CARRIED_IN: &str = "context";

/// Messages that are sorted at once.
const SORTED_AT_ONCE: usize = 4_096;

/// Tells the publisher of a message its outcome.
pub(super) fn answer_of(observation: Observation) -> Answer {
    Answer::new(move |outcome| match outcome {
        DeliveryOutcome::Done => observation.confirm(),
        DeliveryOutcome::Later => observation.refuse(),
        DeliveryOutcome::Never => observation.reject(),
    })
}

/// This broker as a gateway.
pub(super) struct NodeHost {
    node: NodeHandle,
    status: Arc<BrokerStatus>,
    prefix: String,
    topics: ContextTopics,
    reports: Reports,
    /// Contexts that have come and were not taken yet.
    contexts: VecDeque<NodeContext>,
    advertisements: VecDeque<ClientAdvertisement>,
    pongs: Pongs,
    processors: Processors,
    bell: Bell,
}

impl NodeHost {
    pub(super) fn new(
        node: NodeHandle,
        prefix: &str,
        topics: ContextTopics,
        status: Arc<BrokerStatus>,
        bell: &Bell,
    ) -> Self {
        let (reports, pongs) = (node.insiders().reports(&bell.wake()), node.insiders().pongs(&bell.wake()));
        let (contexts, advertisements, processors) = Default::default();
        let (prefix, bell) = (prefix.to_owned(), bell.clone());
        Self { node, status, prefix, topics, reports, contexts, advertisements, pongs, processors, bell }
    }

    /// Sorts the reports of nodes and definers.
    fn sort(&mut self) {
        if !self.contexts.is_empty() || !self.advertisements.is_empty() {
            return;
        }
        for _ in 0..SORTED_AT_ONCE {
            let Some(report) = self.reports.take() else { return };
            let message = report.message();
            let properties = PublishProperties::decode(&message.properties).ok();
            let mut pairs = properties.iter().flat_map(|properties| properties.user_properties.iter());
            let carried = pairs.find_map(|(name, value)| (name == CARRIED_IN).then_some(value));
            let said = self.topics.read(&message.client_id, &message.topic, carried, message.payload.clone());
            let answer = answer_of(report);
            match said {
                Some(Said::Context { node, context }) => {
                    self.contexts.push_back(NodeContext { node, context, answer });
                }
                Some(Said::Advertisement { definer, payload }) => {
                    self.advertisements.push_back(ClientAdvertisement { definer, payload, answer });
                }
                // It says nothing of a node.
                None => answer.done(),
            }
        }
        // There may be more.
        self.bell.ring();
    }
}

impl Host for NodeHost {
    fn load(&mut self) -> Option<HostLoad> {
        let report = self.node.report().ok()?;
        let (memory_total, memory_available) = memory();
        Some(HostLoad {
            cpu: self.processors.share(),
            memory_total,
            memory_available,
            loop_lag_ms: report.lag_ms,
            shards: u64::from(self.node.shards()),
            connections: report.gauges.sessions_connected,
            queue_bytes: report.gauges.queued_bytes,
            draining: self.status.drain().is_running(),
        })
    }

    fn nodes(&mut self, rtt: bool) -> Option<Vec<HostNode>> {
        let links = self.node.insiders().client_links(rtt).ok()?.into_iter().filter(|link| link.tenant == TENANT);
        Some(links.map(|link| HostNode { id: link.client_id, rtt_us: link.rtt_us }).collect())
    }

    fn ping(&mut self, nodes: &[Arc<str>], window: Duration) -> Vec<Option<Instant>> {
        let window = u64::try_from(window.as_millis()).unwrap_or(u64::MAX);
        let expires_at = self.node.now().monotonic.plus(window);
        let topic = |node: &str| format!("{}/to/node/{}/ping", self.prefix, level_of(node));
        let pings = nodes.iter().map(|node| (TENANT, node.to_string(), topic(node))).collect();
        self.node.insiders().ping(pings, expires_at).unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot ping nodes");
            vec![None; nodes.len()]
        })
    }

    fn forget_pings(&mut self) {
        self.node.insiders().forget_pings();
    }

    fn pong(&mut self) -> Option<(String, Instant)> {
        loop {
            let pong = self.pongs.take()?;
            if pong.tenant == TENANT {
                return Some((pong.client_id, pong.at));
            }
        }
    }

    fn advertisements(&mut self, max: usize) -> Vec<ClientAdvertisement> {
        self.sort();
        self.advertisements.drain(..max.min(self.advertisements.len())).collect()
    }

    fn contexts(&mut self, max: usize) -> Vec<NodeContext> {
        self.sort();
        self.contexts.drain(..max.min(self.contexts.len())).collect()
    }

    fn tell_list(&mut self, list: &[u8]) {
        // In a cluster all gateways have the list, and their clients are to see it once.
        self.node.insiders().publish_at_home(InnerPublication {
            tenant: TENANT,
            topic: format!("{}/gateways", self.prefix),
            qos: QoS::AtLeastOnce,
            retain: true,
            properties: Vec::new(),
            payload: list.to_vec(),
            expires_at: Millis::NEVER,
        });
    }

    fn hand_over(&mut self, node: &str, address: &str) {
        if let Err(error) = self.node.insiders().send_elsewhere(TENANT, node, address) {
            tracing::warn!(%error, node, "a mobile node was not handed over");
        }
    }

    fn set_groups(&mut self, changes: Vec<MembershipChange>) -> Vec<String> {
        let names: Vec<String> = changes.iter().map(|change| change.node.clone()).collect();
        let change = |change: MembershipChange| tidegate_engine::MembershipChange {
            tenant: TENANT,
            client_id: change.node,
            add: change.add,
            remove: change.remove,
        };
        let outcomes =
            self.node.insiders().set_memberships(changes.into_iter().map(change).collect()).unwrap_or_else(|error| {
                tracing::warn!(%error, "cannot change groups of nodes");
                Vec::new()
            });
        let is_refused = |outcome: &MembershipOutcome| matches!(outcome, MembershipOutcome::Refused(_));
        let refused = names.into_iter().zip(outcomes).filter(|(_, outcome)| is_refused(outcome));
        refused.map(|(name, _)| name).collect()
    }
}
