//! Wills of clients of an orchestrator that is a member of a cluster.

use tidegate_engine::{Durability, Home, Homes, Millis, PARTITIONS, RoutingPolicy};

use crate::harness::*;

fn member() -> World {
    let world = World::with(1, |settings| {
        fleet_settings(settings, RoutingPolicy::TopicHash);
        settings.durability = Durability::Commit;
    });
    world.become_member(1);
    world
}

/// All partitions are served here, or elsewhere.
fn serve(world: &World, home: Home) {
    world.engine(0, |engine, now| {
        let homes = [home; PARTITIONS as usize];
        let lease_until = Millis::NEVER;
        let table = Homes { homes, references: Vec::new(), redirect: false, lease_until, patience_ms: 0 };
        engine.homes().set_homes(now, Some(table));
    });
    world.run();
}

/// Connects a client whose session ends with its connection, and one whose session stays.
fn connect_with_wills(world: &World) {
    for (name, connecting) in [("ends", v5("a")), ("stays", v5("b").lasting())] {
        world.connect(connecting.will(message("w", name).qos2()));
    }
}

#[test]
fn a_returned_member_publishes_only_wills_of_its_own_clients() {
    for (home, wills) in [(Home::Here, 2), (Home::At(0), 0)] {
        let world = member();
        let broker = world.broker("a");
        serve(&world, Home::Here);
        connect_with_wills(&world);
        world.crash(Crash::now(1));
        world.advance(seconds(5));
        assert!(broker.payloads().is_empty(), "no table says who serves these clients");
        serve(&world, home);
        world.advance(seconds(5));
        assert_eq!(broker.payloads().len(), wills, "{home:?}");
    }
}

#[test]
fn wills_of_a_member_wait_for_its_first_broker() {
    let world = member();
    serve(&world, Home::Here);
    connect_with_wills(&world);
    world.crash(Crash::now(1));
    serve(&world, Home::Here);
    world.advance(seconds(5));
    let broker = world.broker("a");
    world.advance(seconds(1));
    let mut wills = broker.payloads();
    wills.sort();
    assert_eq!(wills, ["ends", "stays"]);
}
