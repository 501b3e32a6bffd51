//! Wills of clients of an orchestrator that is a member of a cluster.

use tidegate_engine::{BrokerLinkSettings, Durability, Home, Homes, Millis, PARTITIONS, Reason, RoutingPolicy};

use crate::harness::*;

fn member() -> World {
    member_with(|_| ())
}

fn member_with(change: impl Fn(&mut BrokerLinkSettings)) -> World {
    let world = World::with(1, |settings| {
        fleet_settings(settings, RoutingPolicy::TopicHash);
        change(settings.broker_links.as_mut().unwrap());
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

#[test]
fn wills_of_a_full_member_wait_for_its_first_limit() {
    let world = member_with(|links| links.max_owed_messages = 10);
    serve(&world, Home::Here);
    connect_with_wills(&world);
    world.crash(Crash::now(1));
    serve(&world, Home::Here);
    let broker = world.broker_with("a", fleet::lasting(), Ways { reachable: false, ..Ways::default() });
    let publisher = world.connect(v5("p"));
    for _ in 0..20 {
        publisher.publish(message("t", "telemetry"));
    }
    assert_eq!(world.dropped(Reason::FleetFull), 9);
    let owed = world.owed();
    world.advance(seconds(5));
    assert_eq!(world.owed(), owed, "the wills are not given to a broker");
    broker.come_back();
    let wills = broker.payloads().into_iter().filter(|it| it != "telemetry").count();
    assert_eq!(wills, 2);
}
