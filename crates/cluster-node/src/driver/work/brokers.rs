//! A member that starts connects to its brokers when no other member works off the connections of its last life: a broker
//! knows both by the same client id.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use tidegate_node::OrchestratorMoves;

use super::Worker;

/// Pause before the others are asked again.
const PAUSE: Duration = Duration::from_millis(20);
/// How long a connection of a member's last life is worked off once the member is back, where the broker is away.
pub(super) const BACK_LIMIT: Duration = Duration::from_secs(30);
/// How long the others may take to say that nothing is worked off: longer than they work off.
const HELD_LIMIT: Duration = Duration::from_secs(60);

/// Whether brokers may be connected to.
#[derive(Default)]
pub(super) struct BrokersHeld {
    /// The table from which on this life is a member, and since when it is known.
    joined: Option<(u64, Instant)>,
    /// Whether no broker is held.
    is_over: bool,
}

impl BrokersHeld {
    /// A table is in force.
    pub(super) fn note_table(&mut self, is_member: bool, epoch: u64) {
        if is_member && self.joined.is_none() {
            self.joined = Some((epoch, Instant::now()));
        }
    }

    /// When it is looked again whether brokers may be connected to.
    pub(super) fn next_look(&self) -> Option<Duration> {
        (self.joined.is_some() && !self.is_over).then_some(PAUSE)
    }
}

impl Worker {
    /// Connects to the brokers whose connections no other member works off.
    pub(super) fn release_brokers(&mut self) {
        let Some((epoch, since)) = self.brokers.joined.filter(|_| self.brokers.next_look().is_some()) else {
            return;
        };
        let held = if since.elapsed() < HELD_LIMIT {
            let Some(held) = self.members.worked_off_elsewhere(&self.node, epoch) else { return };
            held
        } else {
            tracing::warn!(
                "other members do not say that they have worked off the connections of this one's last life"
            );
            BTreeSet::new()
        };
        self.brokers.is_over = held.is_empty();
        OrchestratorMoves::of(&self.node).release_brokers(held);
    }

    /// Notes the brokers whose connections are worked off here, for members that ask.
    pub(super) fn note_adopted_brokers(&self) {
        let mut of: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (member, broker) in self.adopted.brokers() {
            of.entry(member.to_owned()).or_default().insert(broker.to_owned());
        }
        let restoring = self.tasks.iter().flat_map(|task| task.nodes.iter().cloned()).collect();
        self.shared.inheriting.note_worked_off(of, restoring);
    }
}
