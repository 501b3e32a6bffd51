//! A CONNECT that waits for the move of its client's partition.

use tidegate_engine::{Reason, partition_of};
use tidegate_mqtt::ReasonCode;

use super::T;
use crate::harness::*;

/// The partition of the client `a` begins to move.
fn moving(world: &World) {
    let partitions = std::iter::once(partition_of(T, "a")).collect();
    world.engine(0, |engine, now| engine.moves().hold_partitions(now, partitions, None));
}

fn release(world: &World) {
    let partitions = std::iter::once(partition_of(T, "a")).collect();
    world.engine(0, |engine, now| engine.moves().release_partitions(now, partitions));
}

#[test]
fn the_last_connection_that_waited_keeps_its_client() {
    let world = World::new(1);
    let earlier: Vec<Client> = ["x", "y"].into_iter().map(|name| world.connect(v5(name))).collect();
    moving(&world);
    let mut older = world.try_connect(v5("a").lasting());
    // The engine may use the places of these again.
    earlier.iter().for_each(Client::disconnect);
    world.advance(1);
    let mut newer = world.try_connect(v5("a").lasting());
    older.expect_nothing();
    newer.expect_nothing();
    release(&world);
    older.expect_accepted();
    older.expect_disconnect(ReasonCode::SessionTakenOver);
    newer.expect_accepted();
    newer.ping();
}

#[test]
fn a_stop_ends_connections_that_wait_for_a_move() {
    let world = World::new(1);
    moving(&world);
    let client = world.try_connect(v5("a"));
    client.expect_nothing();
    world.shut_down();
    assert_eq!(client.expect_closed(), Reason::ServerShuttingDown);
    assert_eq!(world.gauges().connections, 0);
}
