//! A node without a lease keeps its clients and acknowledges nothing. When their server is known, it serves them again
//! or redirects them.

use tidegate_engine::{Home, Homes, Millis, PARTITIONS, Reason};
use tidegate_mqtt::QoS::{AtLeastOnce, ExactlyOnce};
use tidegate_mqtt::{Disconnect, Packet, PacketType, ReasonCode, SubscriptionOptions};

use crate::harness::*;

/// Puts a table in force on all shards.
fn set_homes(world: &World, home: Home, lease: Option<u64>) {
    for shard in 0..world.shards() {
        world.engine(shard, |engine, now| {
            let table = Homes {
                homes: [home; PARTITIONS as usize],
                references: vec!["other.example".to_owned()],
                redirect: true,
                lease_until: lease.map_or(Millis::NEVER, |lease| now.monotonic.plus(lease)),
                patience_ms: minutes(10),
            };
            engine.homes().set_homes(now, Some(table));
        });
    }
    world.run();
}

/// Lets time pass as a shell does.
fn pass(world: &World, milliseconds: u64) {
    world.advance(milliseconds);
    for shard in 0..world.shards() {
        world.engine(shard, |engine, now| engine.homes().keep_lease(now));
    }
    world.run();
}

#[test]
fn without_a_lease_only_pings_are_answered_until_the_next_one() {
    in_one_process(|world| {
        let subscriber = world.connect(v5("s").lasting());
        subscriber.subscribe("t", ExactlyOnce);
        let publisher = world.connect(v5("p").keep_alive(10));
        let old = world.connect(v311("o"));
        set_homes(world, Home::Here, Some(seconds(5)));
        publisher.publish(message("t", "before").qos1());
        subscriber.expect_publish("t", "before");
        pass(world, seconds(5));
        let first = publisher.send_publish(message("t", "1").qos1()).unwrap();
        let second = publisher.send_publish(message("t", "2").qos2()).unwrap();
        let wanted = old.send_subscribe(&[("x", SubscriptionOptions::new(AtLeastOnce))], None);
        for _ in 0..12 {
            publisher.ping();
            old.ping();
            pass(world, seconds(10));
        }
        subscriber.expect_nothing();
        publisher.expect_nothing();
        old.expect_nothing();
        world.try_connect(v5("late")).expect_refused(ReasonCode::ServerUnavailable);
        // Another table without a lease changes nothing.
        set_homes(world, Home::Here, Some(0));
        publisher.ping();
        publisher.expect_nothing();
        set_homes(world, Home::Here, None);
        publisher.expect_answer(PacketType::PubAck, first);
        publisher.expect_answer(PacketType::PubRec, second);
        old.expect_sub_ack(wanted);
        subscriber.expect_publish("t", "1");
        publisher.expect_answer(PacketType::PubComp, second);
        subscriber.expect_publish("t", "2");
        publisher.publish(message("t", "3").qos1());
        subscriber.expect_publish("t", "3");
    });
}

#[test]
fn a_will_is_published_when_the_lease_is_renewed() {
    let world = World::new(1);
    let watcher = world.connect(v5("watcher"));
    watcher.subscribe("w", AtLeastOnce);
    let client = world.connect(v5("client").will(message("w", "gone").qos1()));
    set_homes(&world, Home::Here, Some(seconds(5)));
    pass(&world, seconds(5));
    client.lose();
    watcher.expect_nothing();
    world.engine(0, |engine, now| engine.homes().renew_lease(now, now.monotonic.plus(seconds(5))));
    world.run();
    watcher.expect_publish("w", "gone");
}

/// A process that stood still for less than its lease: a renewal was on its way when the shards' lease ended.
#[test]
fn a_renewed_lease_resumes_where_it_had_ended() {
    in_one_process(|world| {
        let subscriber = world.connect(v5("s").lasting());
        subscriber.subscribe("t", ExactlyOnce);
        let publisher = world.connect(v5("p"));
        set_homes(world, Home::Here, Some(seconds(5)));
        let renew = |milliseconds: u64| {
            for shard in 0..world.shards() {
                world.engine(shard, |engine, now| engine.homes().renew_lease(now, now.monotonic.plus(milliseconds)));
            }
            world.run();
        };
        let served = || -> usize {
            (0..world.shards())
                .map(|shard| world.engine(shard, |engine, _| engine.questions().served().iter().count()))
                .sum()
        };
        assert_eq!(served(), usize::from(PARTITIONS));
        pass(world, seconds(5));
        let id = publisher.send_publish(message("t", "1").qos2()).unwrap();
        world.run();
        // One that is over already says nothing.
        renew(0);
        publisher.expect_nothing();
        assert_eq!(served(), 0);
        renew(seconds(2));
        publisher.expect_answer(PacketType::PubRec, id);
        publisher.expect_answer(PacketType::PubComp, id);
        subscriber.expect_publish("t", "1");
        assert_eq!(served(), usize::from(PARTITIONS));
        world.connect(v5("late"));
        // It ends again when its time has come.
        pass(world, seconds(2));
        assert_eq!(served(), 0);
        publisher.send_publish(message("t", "2").qos1());
        world.run();
        publisher.expect_nothing();
    });
}

#[test]
fn a_replaced_node_redirects_and_promises_nothing_new() {
    in_one_process(|world| {
        let idle = world.connect(v5("idle"));
        let subscriber = world.connect(v5("s").lasting().manual());
        subscriber.subscribe("t", ExactlyOnce);
        let publisher = world.connect(v5("p").will(message("wills", "gone")));
        let watcher = world.connect(v5("w"));
        watcher.subscribe("wills", AtLeastOnce);
        set_homes(world, Home::Here, Some(seconds(5)));
        publisher.publish(message("t", "1").qos2());
        let delivered = subscriber.expect_message();
        pass(world, seconds(5));
        // Its PUBREL is another's to say.
        subscriber.pubrec(delivered.id.unwrap());
        publisher.send_publish(message("t", "2").qos1());
        world.run();
        set_homes(world, Home::At(0), None);
        let arrival = idle.expect_disconnect(ReasonCode::UseAnotherServer);
        let Packet::Disconnect(disconnect) = arrival.packet() else { unreachable!() };
        assert_eq!(disconnect.server_reference, Some("other.example"));
        assert!(subscriber.take_arrival().is_none() && subscriber.expect_closed() == Reason::UseAnotherServer);
        publisher.expect_disconnect(ReasonCode::UseAnotherServer);
        assert_eq!(world.counters().messages_in.iter().sum::<u64>(), 1);
    });
}

/// So a client knows that it has to connect again, and hears no promise of a node whose place may be taken.
#[test]
fn a_node_stopping_without_a_lease_notifies_settled_clients() {
    in_one_process(|world| {
        let idle = world.connect(v5("idle"));
        let subscriber = world.connect(v5("s").lasting().manual());
        subscriber.subscribe("t", ExactlyOnce);
        let publisher = world.connect(v5("p"));
        set_homes(world, Home::Here, Some(seconds(5)));
        publisher.publish(message("t", "1").qos2());
        let delivered = subscriber.expect_message();
        pass(world, seconds(5));
        subscriber.pubrec(delivered.id.unwrap());
        publisher.send_publish(message("t", "2").qos1());
        world.run();
        world.shut_down();
        idle.expect_disconnect(ReasonCode::ServerShuttingDown);
        publisher.expect_disconnect(ReasonCode::ServerShuttingDown);
        assert!(subscriber.take_arrival().is_none() && subscriber.expect_closed() == Reason::ServerShuttingDown);
    });
}

#[test]
fn waiting_clients_are_refused_in_the_end_and_others_stay() {
    in_one_process(|world| {
        let (idle, publisher) = (world.connect(v5("i")), world.connect(v5("p")));
        set_homes(world, Home::Here, Some(seconds(5)));
        pass(world, seconds(5));
        publisher.send_publish(message("t", "1").qos1());
        pass(world, minutes(9));
        publisher.ping();
        pass(world, minutes(2));
        publisher.expect_disconnect(ReasonCode::ServerBusy);
        idle.ping();
        set_homes(world, Home::Here, None);
        idle.ping();
        assert_eq!(idle.publish(message("t", "1").qos1()), ReasonCode::NoMatchingSubscribers);
    });
}

#[test]
fn a_disconnect_without_a_lease_publishes_no_will() {
    in_one_process(|world| {
        let watcher = world.connect(v5("w"));
        watcher.subscribe("#", AtLeastOnce);
        let publisher = world.connect(v5("p").will(message("wills", "gone")));
        set_homes(world, Home::Here, Some(seconds(5)));
        pass(world, seconds(5));
        publisher.send_publish(message("t", "1").qos2());
        publisher.send(&Packet::Disconnect(Disconnect::new(ReasonCode::Success)));
        publisher.lose();
        set_homes(world, Home::Here, None);
        watcher.expect_nothing();
        assert_eq!(world.gauges().connections, 1);
    });
}

#[test]
fn pings_are_answered_while_acknowledgements_wait_for_the_store() {
    let world = World::with(1, |settings| settings.durability = tidegate_engine::Durability::Commit);
    world.absent_subscriber(v5("s").lasting(), "t", AtLeastOnce);
    let publisher = world.connect(v5("p"));
    world.hold_commits();
    let id = publisher.send_publish(message("t", "1").qos1()).unwrap();
    world.run();
    publisher.ping();
    publisher.expect_nothing();
    world.release_commits();
    publisher.expect_answer(PacketType::PubAck, id);
}
