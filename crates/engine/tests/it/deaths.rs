//! Nodes with stores on the bus die, and others take over their state.

mod exactly_once;
mod ghosts;
mod groups;
mod receipts;
mod retained;
mod starting;
mod wills;

use tidegate_engine::Durability;

use crate::harness::*;

/// Three nodes of one shard whose stores are on the bus.
fn three() -> World {
    World::cluster(3, 1, |settings| settings.durability = Durability::Commit)
}

/// A client whose session outlives its connection, on a node.
fn steady(world: &World, node: u16, stem: &str) -> Connecting {
    v5(&world.name_on(node, stem)).clean(false).expiry(u32::MAX).accept_on(node)
}
