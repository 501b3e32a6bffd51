//! What the core asks of this broker.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_context::groups::MembershipChange;
use tidegate_context::service::{Bell, Host, HostLoad, HostNode, NodeContext};
use tidegate_engine::{InnerPublication, Millis, TenantId};
use tidegate_mqtt::QoS;
use tidegate_node::{Feed, FeedError, NodeHandle, Pongs};

use super::machine::{Processors, memory};
use crate::status::BrokerStatus;

/// Nodes belong to the tenant of all who have none.
const TENANT: TenantId = TenantId::DEFAULT;

/// This broker as a gateway.
pub(super) struct NodeHost {
    node: NodeHandle,
    status: Arc<BrokerStatus>,
    prefix: String,
    contexts: Feed,
    advertisements: Feed,
    pongs: Pongs,
    processors: Processors,
}

impl NodeHost {
    pub(super) fn new(
        node: NodeHandle,
        prefix: &str,
        status: Arc<BrokerStatus>,
        bell: &Bell,
    ) -> Result<Self, FeedError> {
        let listen = |name: &str, topic: &str| {
            let filters = vec![(format!("{prefix}/{topic}/+"), QoS::AtLeastOnce)];
            node.listen(TENANT, name, filters, bell.wake())
        };
        let contexts = listen("$context/contexts", "context")?;
        let advertisements = listen("$context/advertisements", "GroupAdvertisement")?;
        let pongs = node.pongs(&bell.wake());
        let (prefix, processors) = (prefix.to_owned(), Processors::default());
        Ok(Self { node, status, prefix, contexts, advertisements, pongs, processors })
    }
}

/// What was published below a topic of ours: the last level, and the payload.
fn take(feed: &Feed, max: usize) -> Vec<(String, Vec<u8>)> {
    let named = feed.take(max).into_iter();
    named.filter_map(|message| Some((decoded(message.topic.rsplit('/').next()?), message.payload))).collect()
}

/// A level of a topic as the name that it stands for: `%2F`, `%2B`, `%23` and `%25` are `/`, `+`, `#` and `%`.
pub(super) fn decoded(level: &str) -> String {
    let plain = [("%2F", "/"), ("%2B", "+"), ("%23", "#"), ("%25", "%")];
    plain.iter().fold(level.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// A name as a level of a topic.
fn encoded(name: &str) -> String {
    let escaped = [("%", "%25"), ("/", "%2F"), ("+", "%2B"), ("#", "%23")];
    escaped.iter().fold(name.to_owned(), |text, (from, to)| text.replace(from, to))
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
            draining: self.status.drainer().is_running(),
        })
    }

    fn nodes(&mut self, rtt: bool) -> Option<Vec<HostNode>> {
        let links = self.node.client_links(rtt).ok()?.into_iter().filter(|link| link.tenant == TENANT);
        Some(links.map(|link| HostNode { id: link.client_id, rtt_us: link.rtt_us }).collect())
    }

    fn ping(&mut self, nodes: &[Arc<str>], window: Duration) -> Vec<Option<Instant>> {
        let window = u64::try_from(window.as_millis()).unwrap_or(u64::MAX);
        let expires_at = self.node.now().monotonic.plus(window);
        let topic = |node: &str| format!("{}/to/node/{}/ping", self.prefix, encoded(node));
        let pings = nodes.iter().map(|node| (TENANT, node.to_string(), topic(node))).collect();
        self.node.ping(pings, expires_at).unwrap_or_else(|error| {
            tracing::warn!(%error, "nodes were not pinged");
            vec![None; nodes.len()]
        })
    }

    fn forget_pings(&mut self) {
        self.node.forget_pings();
    }

    fn pong(&mut self) -> Option<(String, Instant)> {
        loop {
            let pong = self.pongs.take()?;
            if pong.tenant == TENANT {
                return Some((pong.client_id, pong.at));
            }
        }
    }

    fn advertisements(&mut self, max: usize) -> Vec<(String, Vec<u8>)> {
        take(&self.advertisements, max)
    }

    fn contexts(&mut self, max: usize) -> Vec<NodeContext> {
        let taken = take(&self.contexts, max).into_iter();
        taken.map(|(node, context)| NodeContext { node, context }).collect()
    }

    fn tell_list(&mut self, list: &[u8]) {
        self.node.publish_inner(InnerPublication {
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
        if let Err(error) = self.node.send_elsewhere(TENANT, node, address) {
            tracing::warn!(%error, node, "a node was not handed over");
        }
    }

    fn set_groups(&mut self, changes: Vec<MembershipChange>) {
        let change = |change: MembershipChange| tidegate_engine::MembershipChange {
            tenant: TENANT,
            client_id: change.node,
            add: change.add,
            remove: change.remove,
        };
        if let Err(error) = self.node.set_memberships(changes.into_iter().map(change).collect()) {
            tracing::warn!(%error, "groups of nodes were not changed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_nodes_go_through_levels_of_topics() {
        for name in ["truck-7", "a/b", "100%", "%2F", "+#", "a%252Fb"] {
            let level = encoded(name);
            assert!(!level.contains(['/', '+', '#']), "{level}");
            assert_eq!(decoded(&level), name);
        }
    }
}
