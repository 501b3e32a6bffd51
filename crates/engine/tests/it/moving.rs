//! Partitions that move: exported by one engine, imported by another.

use tidegate_engine::{
    ImageError, ListenerSettings, Now, Owed, PARTITIONS, PartitionId, PartitionImage, Partitions, Reason, Settings,
    Snapshot, TenantId, partition_of,
};
use tidegate_mqtt::QoS::{self, AtLeastOnce, AtMostOnce, ExactlyOnce};
use tidegate_mqtt::{Packet, PacketId, PacketType, ReasonCode, SubscriptionOptions};

use crate::harness::*;
use crate::interrupted::{exchange_ends_once, messages_in_flight, open_exchange};

mod continuing;
mod deadlines;
mod proven;
mod refused;
mod retained;
mod twins;
mod wills;

const T: TenantId = TenantId::DEFAULT;

/// From how many shards to how many.
const MOVES: [(u16, u16); 4] = [(1, 1), (1, 2), (2, 3), (3, 1)];

/// Engines that began at another time than any other and have nothing yet, at the present of `world` on the wall.
fn elsewhere(world: &World, shards: u16, after: u64) -> World {
    elsewhere_with(world, shards, after, |_| {})
}

/// The same with other settings.
fn elsewhere_with(world: &World, shards: u16, after: u64, change: impl FnOnce(&mut Settings)) -> World {
    let there = World::with(shards, |settings| {
        settings.listeners.push(ListenerSettings { tenant: TenantId(7), ..ListenerSettings::default() });
        change(settings);
    });
    there.skip(123_456_789);
    let Now { unix, .. } = world.now();
    let signed = |time: u64| i64::try_from(time).unwrap();
    there.step_wall_clock(signed(unix + after) - signed(there.now().unix));
    there
}

/// The image of a partition, which leaves its place.
fn export(world: &World, partition: u16) -> PartitionImage {
    let one = Partitions::from_iter([PartitionId(partition)]);
    let image = world.engine(world.home_of_partition(partition), |engine, now| {
        let mut moves = engine.moves();
        moves.hold_partitions(now, one, None);
        let Ok(Snapshot::Taken(mut images)) = moves.snapshot_partitions(now, one, u64::MAX) else {
            panic!("all of it is in memory");
        };
        moves.forget_partitions(now, one);
        moves.forget_retained(now, one);
        moves.release_partitions(now, one);
        images.remove(0)
    });
    world.run();
    image
}

fn import(world: &World, image: PartitionImage) {
    let partition = image.partition;
    world.engine(world.home_of_partition(partition.0), |engine, now| {
        engine.moves().arrive(now, &[image]).unwrap();
        engine.moves().release_partitions(now, Partitions::from_iter([partition]));
    });
}

fn owed(world: &World, partition: u16) -> Owed {
    world.engine(world.home_of_partition(partition), |engine, _| engine.questions().owed(PartitionId(partition)))
}

/// Moves everything; debts before the move remain after it.
fn move_all(from: &World, to: &World) {
    from.run();
    for partition in 0..PARTITIONS {
        let before = owed(from, partition);
        let image = export(from, partition);
        assert_eq!(owed(from, partition), Owed::default(), "partition {partition} is forgotten");
        import(to, image);
        assert_eq!(owed(to, partition), before, "partition {partition}");
    }
    to.run();
    let left = from.gauges();
    assert_eq!((left.sessions_disconnected, left.retained_messages, left.queued_messages), (0, 0, 0));
    assert_eq!((left.subscriptions, left.shared_subscriptions, left.queued_bytes), (0, 0, 0));
}

/// Plays `before`, moves everything for a number of milliseconds, and plays `after` with the result of `before`.
fn moved<S>(way: u64, before: impl Fn(&World) -> S, after: impl Fn(&World, S)) {
    for (from, to) in MOVES {
        let here = World::with(from, |settings| {
            settings.listeners.push(ListenerSettings { tenant: TenantId(7), ..ListenerSettings::default() });
        });
        let state = before(&here);
        let there = elsewhere(&here, to, way);
        move_all(&here, &there);
        after(&there, state);
    }
}

#[test]
fn messages_that_wait_move_with_their_session() {
    moved(
        millis(1),
        |here| {
            let client = here.connect(v5("a").lasting());
            client.subscribe_with("t/#", SubscriptionOptions::new(ExactlyOnce), Some(77));
            client.lose();
            let publisher = here.connect(v5("p"));
            publisher.publish(message("t/1", "1").qos1().user("name", "value").content_type("text"));
            publisher.publish(message("t/2", "2").qos2());
            publisher.publish(message("t/3", vec![b'x'; 40_000]).qos1());
        },
        |there, ()| {
            let client = there.connect(v5("a").lasting());
            assert!(client.session_present());
            let got = client.messages();
            assert_eq!(got.iter().map(|got| &got.topic[..]).collect::<Vec<_>>(), ["t/1", "t/2", "t/3"]);
            assert!(got.iter().all(|got| !got.dup && got.subscription_ids == [77]));
            assert_eq!(got[0].user_properties, [("name".into(), "value".into())]);
            assert_eq!(got[0].content_type.as_deref(), Some("text"));
            assert_eq!((got[0].qos, got[1].qos, got[2].payload.len()), (AtLeastOnce, ExactlyOnce, 40_000));
            assert_eq!(there.gauges().queued_bytes, 0);
        },
    );
}

#[test]
fn messages_in_flight_keep_state_and_packet_id() {
    moved(millis(1), messages_in_flight, |there, ()| {
        let client = there.connect(v311("a").lasting().manual());
        let first = client.expect_publish("t", "1");
        assert_eq!((first.dup, first.id, first.qos), (true, Some(id(1)), AtLeastOnce));
        let second = client.expect_publish("t", "2");
        assert_eq!((second.dup, second.id, second.qos), (true, Some(id(2)), ExactlyOnce));
        let arrival = client.expect(PacketType::PubRel);
        assert!(matches!(arrival.packet(), Packet::PubRel(release) if release.packet_id == id(3)));
        let queued = client.expect_publish("t", "5");
        assert!(!queued.dup && ![Some(id(1)), Some(id(2)), Some(id(3))].contains(&queued.id), "{queued:?}");
        client.expect_nothing();
        client.puback(id(1));
        client.pubrec(id(2));
        client.pubcomp(id(3));
        client.expect(PacketType::PubRel);
        client.pubcomp(id(2));
        client.pubrec(queued.id.unwrap());
        client.expect(PacketType::PubRel);
        client.pubcomp(queued.id.unwrap());
        client.ping();
        assert_eq!(there.gauges().inflight_messages, 0);
    });
}

#[test]
fn a_qos_2_message_of_a_moved_publisher_is_taken_once() {
    moved(millis(1), open_exchange, |there, ()| exchange_ends_once(there));
}

#[test]
fn subscriptions_hold_in_the_new_place_with_their_options() {
    moved(
        millis(1),
        |here| {
            let client = here.connect(v5("a").lasting());
            let options = SubscriptionOptions { retain_as_published: true, ..SubscriptionOptions::new(AtLeastOnce) };
            client.subscribe_with("kept/+", options, Some(1));
            client.subscribe("t", AtMostOnce);
            let options = SubscriptionOptions { no_local: true, ..SubscriptionOptions::new(AtLeastOnce) };
            client.subscribe_with("own", options, Some(3));
            client
        },
        |there, before| {
            before.expect_disconnect(ReasonCode::UseAnotherServer);
            assert_eq!(there.gauges().subscriptions, 3);
            let client = there.connect(v5("a").lasting());
            for shard in 0..there.shards() {
                let publisher = there.connect(v5(&there.name_on(shard, "p")));
                publisher.publish(message("kept/1", "x").qos2().retain());
                let got = client.expect_publish("kept/1", "x");
                assert_eq!((got.qos, got.retain, &got.subscription_ids[..]), (AtLeastOnce, true, &[1][..]));
                publisher.publish(message("t", "y").qos1());
                assert_eq!(client.expect_publish("t", "y").qos, AtMostOnce);
            }
            assert_eq!(client.publish(message("own", "z").qos1()), ReasonCode::Success);
            client.expect_nothing();
            assert_eq!(client.unsubscribe("t"), [ReasonCode::Success]);
            assert_eq!(client.unsubscribe("kept/+"), [ReasonCode::Success]);
            assert_eq!(client.unsubscribe("own"), [ReasonCode::Success]);
            assert_eq!(there.gauges().subscriptions, 0);
        },
    );
}

#[test]
fn members_of_a_shared_group_meet_again() {
    moved(
        millis(1),
        |here| {
            for name in ["a", "b", "c"] {
                here.absent_subscriber(v5(name).lasting(), "$share/g/t", AtLeastOnce);
            }
            let publisher = here.connect(v5("p"));
            for number in 0..3 {
                publisher.publish(message("t", number.to_string()).qos1());
            }
        },
        |there, ()| {
            assert_eq!(there.gauges().shared_subscriptions, 3);
            let mut members: Vec<Client> = ["a", "b"].map(|name| there.connect(v5(name).lasting())).into();
            let waited: Vec<String> = members.iter().flat_map(Client::payloads).collect();
            assert_eq!(waited.len(), 2, "one each, as they were dealt");
            // The third one gives up; its message goes to one of the others.
            there.connect(v5("c")).disconnect();
            let returned: Vec<String> = members.iter().flat_map(Client::payloads).collect();
            let mut all = [waited, returned].concat();
            all.sort();
            assert_eq!(all, ["0", "1", "2"]);
            let publisher = there.connect(v5("p"));
            for number in 0..6 {
                publisher.publish(message("t", number.to_string()).qos1());
            }
            assert_eq!(members.iter().map(|member| member.payloads().len()).collect::<Vec<_>>(), [3, 3]);
            members.pop().unwrap().unsubscribe("$share/g/t");
            assert_eq!(there.gauges().shared_subscriptions, 1);
        },
    );
}

#[test]
fn rules_of_the_new_place_check_earlier_subscriptions() {
    #[derive(Debug)]
    struct NothingSecret;
    impl tidegate_engine::Access for NothingSecret {
        fn may_publish(&self, _: tidegate_engine::Subject<'_>, _: &str, _: QoS, _: bool) -> bool {
            true
        }

        fn may_subscribe(&self, _: tidegate_engine::Subject<'_>, filter: &str, _: QoS, _: bool) -> bool {
            !filter.contains("secret")
        }
    }
    for (from, to) in MOVES {
        let here = World::new(from);
        let client = here.connect(v5("a").lasting());
        client.subscribe("secret/#", AtLeastOnce);
        client.subscribe("open/#", AtLeastOnce);
        let there = elsewhere(&here, to, 0);
        for shard in 0..to {
            there.engine(shard, |engine, _| engine.control().set_access(Some(Box::new(NothingSecret))));
        }
        there.run();
        move_all(&here, &there);
        assert_eq!(there.gauges().subscriptions, 1);
    }
}

#[test]
fn one_partition_moves_and_the_others_notice_nothing() {
    everywhere(|world| {
        let mover = world.connect(v5("a").lasting());
        let home = partition_of(T, "a").0;
        let stays = (0..1000)
            .map(|number| format!("s{number}"))
            .find(|name| partition_of(T, name).0 != home && world.home_of(name) == world.home_of_partition(home));
        let stays = world.connect(v5(&stays.unwrap()));
        for client in [&mover, &stays] {
            client.subscribe("t", AtLeastOnce);
        }
        let image = export(world, home);
        mover.expect_disconnect(ReasonCode::UseAnotherServer);
        stays.ping();
        let publisher = world.connect(v5(&world.name_on(1, "p")));
        publisher.publish(message("t", "x").qos1());
        stays.expect_publish("t", "x");
        import(world, image);
        world.run();
        publisher.publish(message("t", "y").qos1());
        stays.expect_publish("t", "y");
        assert_eq!(world.connect(v5("a").lasting()).payloads(), ["y"]);
    });
}

#[test]
fn publishers_that_a_reader_held_up_go_on_when_it_moves() {
    let blocking = |settings: &mut tidegate_engine::Settings| {
        settings.queue.overflow = tidegate_engine::OverflowPolicy::Block;
        settings.queue.max_messages = 2;
    };
    everywhere_with(blocking, |world| {
        let reader = world.connect(v5("a").lasting().manual().receive_maximum(1));
        reader.subscribe("t", AtLeastOnce);
        let publisher = world.connect(v5(&world.name_on(1, "p")));
        for number in 0..10 {
            publisher.send_publish(message("t", number.to_string()).qos1());
        }
        world.run();
        assert_eq!(world.counters().publishers_parked, 1);
        export(world, partition_of(T, "a").0);
        publisher.ping();
        assert_eq!(publisher.answers().len(), 10);
    });
}

#[test]
fn an_image_is_taken_in_as_a_whole_or_not_at_all() {
    let here = World::new(2);
    here.absent_subscriber(v5("a").lasting(), "t", AtLeastOnce);
    here.connect(v5("p")).publish(message("t", "x").qos1());
    let partition = partition_of(T, "a");
    let image = export(&here, partition.0);
    let there = elsewhere(&here, 2, 0);
    let arrive = |image: &[u8]| {
        let images = [PartitionImage { partition, image: image.to_vec(), owed: Owed::default() }];
        there.engine(partition.0 % 2, |engine, now| engine.moves().arrive(now, &images).map(|(arrived, _)| arrived))
    };
    let bytes = &image.image;
    let newer = [&[bytes[0] + 1], &bytes[1..]].concat();
    assert_eq!(arrive(&bytes[..bytes.len() - 1]), Err(ImageError::Damaged));
    assert!(matches!(arrive(&bytes[..4]), Err(ImageError::Malformed(_))));
    assert_eq!(arrive(&newer), Err(ImageError::Version(newer[0])));
    assert_eq!(owed(&there, partition.0), Owed::default());
    let arrived = arrive(bytes).unwrap();
    assert_eq!(arrived, [(partition, image.owed)]);
    assert_eq!((image.owed.sessions, image.owed.queued), (1, 1));
    assert_eq!(arrive(bytes), Ok(arrived), "the copy of an earlier attempt gives way");
}
