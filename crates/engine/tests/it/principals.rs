//! Principals: they publish without an MQTT session, and each message is answered once, when that is certain.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tidegate_engine::{
    Access, Delay, Durability, Home, Homes, HubFilter, InnerPublication, LogEvent, Millis, OverflowPolicy, PARTITIONS,
    Principal, PrincipalId, PrincipalKind, Reason, Settings, Subject, TenantId, TenantQuota,
};
use tidegate_mqtt::QoS::{AtLeastOnce, AtMostOnce, ExactlyOnce};
use tidegate_mqtt::{QoS, ReasonCode};

use crate::harness::*;

fn publication(topic: &str, payload: &str, qos: QoS) -> InnerPublication {
    InnerPublication {
        tenant: TenantId::DEFAULT,
        topic: topic.into(),
        qos,
        retain: false,
        properties: Vec::new(),
        payload: payload.into(),
        expires_at: Millis::NEVER,
    }
}

/// A user called `name` at the first shard.
fn user(world: &World, name: &str) -> PrincipalId {
    world.engine(0, |engine, now| engine.insiders().add_principal(now, principal(PrincipalKind::User, name)))
}

fn publish(world: &World, id: PrincipalId, message: InnerPublication, number: u64) {
    world.engine(0, |engine, now| engine.insiders().publish_as(now, id, message, number));
}

/// Allows topics that begin with the name of the client.
#[derive(Debug)]
struct OwnTopics;

impl Access for OwnTopics {
    fn may_publish(&self, subject: Subject<'_>, topic: &str, _: QoS, _: bool) -> bool {
        topic.starts_with(subject.client_id)
    }

    fn may_subscribe(&self, subject: Subject<'_>, filter: &str, _: QoS, _: bool) -> bool {
        filter.starts_with(subject.client_id)
    }
}

fn enforce(world: &World) {
    for shard in 0..world.shards() {
        world.engine(shard, |engine, _| engine.control().set_access(Some(Box::new(OwnTopics))));
    }
    world.run();
}

#[test]
fn a_publication_is_answered_as_by_a_puback() {
    everywhere(|world| {
        let subscriber = world.connect(v5("s"));
        subscriber.subscribe("meter/#", ExactlyOnce);
        let id = user(world, "meter");
        for (number, qos) in [(1, AtMostOnce), (2, AtLeastOnce), (3, ExactlyOnce)] {
            publish(world, id, publication("meter/1", &number.to_string(), qos), number);
            assert_eq!(world.take_published(), [(number, Ok(ReasonCode::Success))]);
        }
        assert_eq!(subscriber.payloads(), ["1", "2", "3"]);
        publish(world, id, publication("unwanted", "x", AtLeastOnce), 4);
        assert_eq!(world.take_published(), [(4, Ok(ReasonCode::NoMatchingSubscribers))]);
        assert_eq!(world.gauges().connections, 1, "a principal is no connection");
    });
}

#[test]
fn a_principal_is_asked_for_its_rights() {
    everywhere(|world| {
        enforce(world);
        let id = user(world, "meter");
        let other_tenant = InnerPublication { tenant: TenantId(3), ..publication("meter/1", "x", AtLeastOnce) };
        publish(world, id, publication("meter/1", "x", AtLeastOnce), 1);
        publish(world, id, publication("other/1", "x", AtLeastOnce), 2);
        publish(world, id, publication("$SYS/x", "x", AtLeastOnce), 3);
        publish(world, id, other_tenant, 4);
        publish(world, id, publication("a/#", "x", AtLeastOnce), 5);
        let answers: BTreeMap<_, _> = world.take_published().into_iter().collect();
        assert_eq!(answers[&1], Ok(ReasonCode::NoMatchingSubscribers));
        for number in 2..=4 {
            assert_eq!(answers[&number], Err(Reason::NotAuthorized), "{number}");
        }
        assert_eq!(answers[&5], Err(Reason::InvalidTopicName));
        // A part of the broker is not asked.
        world.publish_as_broker(0, &publication("other/1", "x", AtLeastOnce), 6);
        assert_eq!(world.take_published(), [(6, Ok(ReasonCode::NoMatchingSubscribers))]);
    });
}

#[test]
fn what_limits_forbid_is_refused() {
    let limits = |settings: &mut Settings| {
        settings.retained.available = false;
        settings.limits.max_payload = 10;
    };
    everywhere_with(limits, |world| {
        let id = user(world, "meter");
        let retained = InnerPublication { retain: true, ..publication("meter", "x", AtLeastOnce) };
        publish(world, id, retained, 1);
        publish(world, id, publication("meter", "12345678901", AtMostOnce), 2);
        let expired = InnerPublication { expires_at: Millis(1), ..publication("meter", "x", AtLeastOnce) };
        publish(world, id, expired, 3);
        let reasons = [Reason::RetainNotSupported, Reason::PayloadTooLong, Reason::MessageExpired];
        let expected: Vec<_> = (1..).zip(reasons.map(Err)).collect();
        assert_eq!(world.take_published(), expected);
    });
}

#[test]
fn success_is_reported_when_the_message_is_committed() {
    for shards in [1, 3] {
        let world = World::with(shards, |settings| settings.durability = Durability::Commit);
        for shard in 0..shards {
            world.absent_subscriber(v5(&world.name_on(shard, "away")).lasting(), "meter/#", AtLeastOnce);
        }
        let id = user(&world, "meter");
        world.hold_commits();
        publish(&world, id, publication("meter/1", "x", AtLeastOnce), 1);
        assert_eq!(world.take_published(), [], "{shards} shards: it could be lost still");
        world.release_commits();
        assert_eq!(world.take_published(), [(1, Ok(ReasonCode::Success))], "{shards} shards");
        world.crash(Crash::now(shards));
        for shard in 0..shards {
            let back = world.connect(v5(&world.name_on(shard, "away")).lasting());
            assert_eq!(back.payloads(), ["x"]);
        }
    }
}

#[test]
fn a_full_store_and_a_full_queue_are_reported() {
    let change = |settings: &mut Settings| {
        settings.queue.overflow = OverflowPolicy::Reject;
        settings.queue.max_messages = 1;
    };
    everywhere_with(change, |world| {
        let slow = world.connect(v5("slow").lasting().receive_maximum(1).manual());
        slow.subscribe("t", AtLeastOnce);
        let id = user(world, "p");
        for number in 1..=4 {
            publish(world, id, publication("t", &number.to_string(), AtLeastOnce), number);
        }
        let taken = |number| (number, Ok(ReasonCode::Success));
        let full = |number| (number, Err(Reason::QueueFullReject));
        assert_eq!(world.take_published(), [taken(1), taken(2), full(3), full(4)]);
        assert_eq!(slow.drain(), ["1", "2"]);
    });
    let world = World::with(1, |settings| settings.durability = Durability::Commit);
    world.connect(v5("owed").lasting()).subscribe("t", AtLeastOnce);
    world.engine(0, |engine, _| engine.store().set_store_full(true));
    let id = user(&world, "p");
    publish(&world, id, publication("t", "x", AtLeastOnce), 1);
    assert_eq!(world.take_published(), [(1, Err(Reason::StoreFull))]);
    assert!(Reason::StoreFull.is_temporary() && !Reason::NotAuthorized.is_temporary());
}

/// A subscriber whose queue blocks publishers once it has one message in flight and one that waits.
fn blocking(settings: &mut Settings) {
    settings.queue.overflow = OverflowPolicy::Block;
    settings.queue.max_messages = 1;
    settings.limits.block_timeout_ms = seconds(30);
}

#[test]
fn messages_of_a_principal_that_waits_are_held_within_bounds() {
    everywhere_with(blocking, |world| {
        let slow = world.connect(v5("slow").lasting().receive_maximum(1).manual());
        slow.subscribe("t", AtLeastOnce);
        let id = user(world, "p");
        for number in 1..=14 {
            publish(world, id, publication("t", &number.to_string(), AtLeastOnce), number);
            world.run();
        }
        let answered = world.take_published();
        let refused: Vec<u64> =
            answered.iter().filter(|(_, answer)| *answer == Err(Reason::PublisherHeld)).map(|it| it.0).collect();
        let taken = answered.iter().filter(|(_, answer)| answer.is_ok()).count() as u64;
        assert_eq!(refused.len() as u64, 14 - 10 - taken, "ten are held: {answered:?}");
        let is_delay = |event: &LogEvent| matches!(event, LogEvent::Delayed { client_id, delay: Delay::Queue(_), .. } if client_id == "p");
        assert!(world.take_log().iter().any(is_delay), "its delay is in the log");
        let expected: Vec<String> = (1..=taken + 10).map(|number| number.to_string()).collect();
        assert_eq!(slow.drain(), expected, "in their order");
        let later: Vec<u64> = world.take_published().into_iter().map(|(number, _)| number).collect();
        assert_eq!(later, (taken + 1..=taken + 10).collect::<Vec<_>>());
    });
}

#[test]
fn held_messages_are_refused_when_the_broker_stops() {
    everywhere_with(blocking, |world| {
        let slow = world.connect(v5("slow").lasting().receive_maximum(1).manual());
        slow.subscribe("t", AtLeastOnce);
        let (id, other) = (user(world, "p"), user(world, "q"));
        for number in 1..=6 {
            publish(world, id, publication("t", "x", AtLeastOnce), number);
            publish(world, other, publication("t", "x", AtLeastOnce), 100 + number);
            world.run();
        }
        world.engine(0, |engine, now| engine.insiders().remove_principal(now, other));
        world.shut_down();
        let mut answered: Vec<u64> = world.take_published().into_iter().map(|(number, _)| number).collect();
        answered.sort_unstable();
        assert_eq!(answered, (1..=6).chain(101..=106).collect::<Vec<_>>(), "each once");
        publish(world, other, publication("t", "x", AtLeastOnce), 7);
        assert_eq!(world.take_published(), [(7, Err(Reason::ConnectionLost))], "it is gone");
    });
}

#[test]
fn a_retained_value_is_read_by_who_may_subscribe() {
    everywhere(|world| {
        let id = user(world, "meter");
        let retained = InnerPublication { retain: true, ..publication("meter/1", "42", AtLeastOnce) };
        publish(world, id, retained, 1);
        world.run();
        enforce(world);
        let home = world.home_of("meter/1");
        let read = |shard: u16, name: &str, topic: &str| {
            let principal = principal(PrincipalKind::User, name);
            world.engine(shard, |engine, now| engine.questions().retained_for(now, &principal, topic))
        };
        let value = read(home, "meter", "meter/1").unwrap().unwrap();
        assert_eq!((value.payload.as_slice(), value.qos), (&b"42"[..], AtLeastOnce));
        assert_eq!(read(home, "other", "meter/1"), Err(Reason::NotAuthorized));
        assert_eq!(read(home, "meter", "meter/+"), Err(Reason::InvalidTopicName));
        assert_eq!(read(world.home_of("meter/2"), "meter", "meter/2"), Ok(None));
        if world.shards() > 1 {
            assert_eq!(read((home + 1) % world.shards(), "meter", "meter/1"), Err(Reason::NotServedHere));
        }
    });
}

#[test]
fn a_retained_value_is_read_without_its_publisher() {
    let of_pipeline =
        |settings: &mut Settings| settings.hub_filters = vec![HubFilter::unchecked(TenantId::DEFAULT, "p/#")];
    everywhere_with(of_pipeline, |world| {
        let publisher = world.connect(v5("secret"));
        publisher.publish(message("p/1", "v").qos1().retain().user("k", "v"));
        let principal = principal(PrincipalKind::User, "reader");
        let home = world.home_of("p/1");
        let read = world.engine(home, |engine, now| engine.questions().retained_for(now, &principal, "p/1"));
        let properties = read.unwrap().unwrap().properties;
        assert_eq!(properties, b"\x26\0\x01k\0\x01v", "its user property alone");
        let late = world.connect(v5("late"));
        late.subscribe("p/#", AtLeastOnce);
        assert_eq!(late.expect_message().user_properties, [("k".to_owned(), "v".to_owned())]);
    });
}

#[test]
fn shared_groups_get_each_message_of_a_principal_once() {
    everywhere(|world| {
        let members: Vec<Client> = (0..3).map(|n| world.connect(v5(&format!("m{n}")))).collect();
        for member in &members {
            member.subscribe("$share/g/t", AtLeastOnce);
        }
        let id = user(world, "p");
        for number in 1..=9 {
            publish(world, id, publication("t", &number.to_string(), AtLeastOnce), number);
            world.run();
        }
        assert_eq!(world.take_published().len(), 9);
        let mut got: Vec<String> = members.iter().flat_map(Client::payloads).collect();
        got.sort();
        assert_eq!(got, (1..=9).map(|number| number.to_string()).collect::<Vec<_>>());
    });
}

#[test]
fn a_node_that_dies_leaves_no_publication_unanswered() {
    let world = World::cluster(2, 1, |_| {});
    let there = world.connect(v5(&world.name_on(1, "there")));
    there.subscribe("t", AtLeastOnce);
    let here = world.connect(v5(&world.name_on(0, "here")));
    here.subscribe("u", AtLeastOnce);
    let id = user(&world, "p");
    world.hold(0, 1);
    publish(&world, id, publication("t", "x", AtLeastOnce), 1);
    publish(&world, id, publication("u", "x", AtLeastOnce), 2);
    assert_eq!(world.take_published(), [], "answers keep their order");
    world.end_node(1);
    assert_eq!(world.take_published(), [(1, Err(Reason::NodeLost)), (2, Ok(ReasonCode::Success))]);
}

#[test]
fn a_principal_shares_the_rate_of_its_tenant() {
    let tenant = TenantId(7);
    let quota = |settings: &mut Settings| {
        settings.tenant_quotas.insert(tenant, TenantQuota { max_message_rate: 10, ..TenantQuota::default() });
    };
    everywhere_with(quota, |world| {
        let user = Principal { tenant, max_held_messages: 100, ..principal(PrincipalKind::User, "p") };
        let id = world.engine(0, |engine, now| engine.insiders().add_principal(now, user));
        for number in 1..=40 {
            publish(world, id, InnerPublication { tenant, ..publication("t", "x", AtLeastOnce) }, number);
        }
        assert_eq!(world.take_published().len(), 11, "a second's worth, and one above the limit");
        world.advance(seconds(10));
        assert_eq!(world.take_published().len(), 29);
    });
}

#[test]
fn nothing_is_promised_to_a_principal_when_the_lease_has_ended() {
    let world = World::with(1, |settings| settings.durability = Durability::Commit);
    world.absent_subscriber(v5("away").lasting(), "t", AtLeastOnce);
    world.engine(0, |engine, now| {
        let lease_until = now.monotonic.plus(seconds(5));
        let homes = [Home::Here; PARTITIONS as usize];
        let table = Homes { homes, references: Vec::new(), redirect: false, lease_until, patience_ms: minutes(10) };
        engine.homes().set_homes(now, Some(table));
    });
    let id = user(&world, "p");
    world.hold_commits();
    publish(&world, id, publication("t", "x", AtLeastOnce), 1);
    world.advance(seconds(5));
    world.engine(0, |engine, now| engine.homes().keep_lease(now));
    publish(&world, id, publication("t", "y", AtLeastOnce), 2);
    world.release_commits();
    let lost = |number| (number, Err(Reason::LeaseEnded));
    assert_eq!(world.take_published(), [lost(1), lost(2)], "another node may have taken the place");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn each_publication_is_answered_once(
        seed in 0..u64::MAX,
        shards in 1..4_u16,
        policy in prop_oneof![Just(OverflowPolicy::Block), Just(OverflowPolicy::Reject), Just(OverflowPolicy::DropOldest)],
        steps in prop::collection::vec((0..3_u8, 0..3_u8, 0..4_usize), 1..40),
    ) {
        let change = |settings: &mut Settings| {
            blocking(settings);
            settings.queue.overflow = policy;
            settings.durability = Durability::Commit;
        };
        let world = World::seeded(shards, seed, "principals", change);
        let clients: Vec<Client> = (0..3)
            .map(|n| {
                let client = world.connect(v5(&format!("c{n}")).lasting().receive_maximum(1).manual());
                client.subscribe(&format!("t{n}"), AtLeastOnce);
                client.subscribe("all", AtLeastOnce);
                client
            })
            .collect();
        let id = user(&world, "p");
        for (number, (kind, client, some)) in (1..).zip(&steps) {
            let topic = if *kind == 0 { "all".to_owned() } else { format!("t{client}") };
            publish(&world, id, publication(&topic, "x", AtLeastOnce), number);
            world.run_some(*some);
            if *kind == 2 {
                clients[usize::from(*client)].drain();
            }
        }
        for _ in 0..=steps.len() {
            for client in &clients {
                client.drain();
            }
        }
        world.advance(minutes(5));
        let mut answered: Vec<u64> = world.take_published().into_iter().map(|(number, _)| number).collect();
        answered.sort_unstable();
        prop_assert_eq!(answered, (1..=steps.len() as u64).collect::<Vec<_>>());
    }
}
