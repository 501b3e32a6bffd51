//! Nodes that were handed over a while ago, and where they count.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use super::nodes::GatewayNodes;

/// Nodes that were handed over lately. Reports of two gateways arrive in any order: the former gateway may still report
/// a node after the new one has. A manager that believed it would send other nodes in its place, which then stay for
/// their cool-down. So a node counts at its destination for as long as it may travel.
#[derive(Debug, Default)]
pub(super) struct Travelling(HashMap<String, Journey>);

#[derive(Debug)]
struct Journey {
    to: String,
    until: Duration,
    /// Whether the gateway that it was sent to has said that it is there.
    has_arrived: bool,
}

impl Travelling {
    /// A node was handed over; it counts at `to` until `until`.
    pub(super) fn depart(&mut self, node: &str, to: &str, until: Duration) {
        self.0.insert(node.to_owned(), Journey { to: to.to_owned(), until, has_arrived: false });
    }

    /// Looks at who has arrived. Nodes that take too long, or that have left again, are where the reports say.
    pub(super) fn look(&mut self, now: Duration, connections: &BTreeMap<String, GatewayNodes>) {
        if self.0.is_empty() {
            return;
        }
        let was_sent = |node: &str, gateway: &str| self.0.get(node).is_some_and(|journey| journey.to == gateway);
        let there: HashSet<&str> = connections
            .iter()
            .flat_map(|(gateway, nodes)| nodes.nodes.iter().map(move |node| (gateway, node.id.as_str())))
            .filter_map(|(gateway, node)| was_sent(node, gateway).then_some(node))
            .collect();
        self.0.retain(|node, journey| {
            let is_there = there.contains(node.as_str());
            let has_left = journey.has_arrived && !is_there;
            journey.has_arrived = is_there;
            now < journey.until && !has_left
        });
    }

    /// Whether a node that a gateway reports counts there.
    pub(super) fn is_at(&self, node: &str, gateway: &str) -> bool {
        self.0.get(node).is_none_or(|journey| journey.has_arrived && journey.to == gateway)
    }

    /// How many are on their way to each gateway.
    pub(super) fn coming(&self) -> BTreeMap<&str, u64> {
        let mut coming = BTreeMap::new();
        for journey in self.0.values().filter(|journey| !journey.has_arrived) {
            *coming.entry(journey.to.as_str()).or_default() += 1;
        }
        coming
    }
}
