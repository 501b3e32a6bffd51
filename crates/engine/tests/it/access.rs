//! Rules that are made elsewhere and asked here.

use tidegate_engine::{Access, ListenerSettings, Millis, Reason, Settings, Subject, TenantId};
use tidegate_mqtt::QoS::{self, AtLeastOnce, AtMostOnce};
use tidegate_mqtt::{Packet, PacketType, ReasonCode, SubscriptionOptions};

use crate::harness::*;

/// Forbids whatever holds a word.
#[derive(Debug)]
struct Forbids(&'static str);

impl Access for Forbids {
    fn may_publish(&self, subject: Subject<'_>, topic: &str, _: QoS, _: bool) -> bool {
        subject.client_id == "admin" || !topic.contains(self.0)
    }

    fn may_subscribe(&self, subject: Subject<'_>, filter: &str, _: QoS, _: bool) -> bool {
        subject.client_id == "admin" || !filter.contains(self.0)
    }
}

fn forbid(world: &World, topic: &'static str) {
    for shard in 0..world.shards() {
        world.engine(shard, |engine, _| engine.control().set_access(Some(Box::new(Forbids(topic)))));
    }
    world.run();
}

#[test]
fn denied_actions_are_refused_and_counted() {
    everywhere(|world| {
        forbid(world, "secret");
        let admin = world.connect(v5("admin"));
        admin.subscribe("secret/#", AtLeastOnce);
        let client = world.connect(v5("a"));
        assert_eq!(client.publish(message("secret/1", "x").qos1()), ReasonCode::NotAuthorized);
        assert_eq!(client.publish(message("secret/1", "x").qos2()), ReasonCode::NotAuthorized);
        client.publish(message("secret/1", "x").retain());
        assert_eq!(world.dropped(Reason::NotAuthorized), 3);
        for filter in ["secret/1", "$share/g/secret/1"] {
            let id = client.send_subscribe(&[(filter, SubscriptionOptions::new(AtMostOnce))], None);
            assert_eq!(client.expect_sub_ack(id), [ReasonCode::NotAuthorized]);
        }
        admin.expect_nothing();
        admin.publish(message("secret/1", "y").qos1());
        admin.expect_publish("secret/1", "y");
    });
}

#[test]
fn new_rules_end_subscriptions_that_they_do_not_allow() {
    everywhere(|world| {
        let client = world.connect(v5("a").lasting());
        client.subscribe("secret/#", AtLeastOnce);
        client.subscribe("$share/g/secret/+", AtLeastOnce);
        client.subscribe("open/#", AtLeastOnce);
        let publisher = world.connect(v5("admin"));
        forbid(world, "secret");
        publisher.publish(message("secret/1", "x").qos1());
        publisher.publish(message("open/1", "y").qos1());
        client.expect_publish("open/1", "y");
        client.expect_nothing();
        assert_eq!(world.counters().requests_refused[Reason::NotAuthorized.number()], 2);
        assert_eq!((world.gauges().subscriptions, world.gauges().shared_subscriptions), (1, 0));
    });
}

#[test]
fn a_will_is_published_by_the_rules_of_its_time() {
    everywhere(|world| {
        let watcher = world.connect(v5("admin"));
        watcher.subscribe("#", AtMostOnce);
        let client = world.connect(v5("a").will(message("secret/will", "gone")));
        let admin = world.connect(v5("b").will(message("open/will", "gone")));
        forbid(world, "secret");
        client.lose();
        watcher.expect_nothing();
        assert_eq!(world.dropped(Reason::NotAuthorized), 1);
        admin.lose();
        watcher.expect_publish("open/will", "gone");
    });
}

#[test]
fn a_will_that_may_not_be_published_is_refused_at_connect() {
    everywhere(|world| {
        forbid(world, "secret");
        let old = world.connect(v5("a").lasting());
        for connecting in [v5("a"), v311("a"), v31("a")] {
            let connecting = connecting.will(message("secret/will", "gone"));
            world.try_connect(connecting).expect_refused(ReasonCode::NotAuthorized);
        }
        old.ping();
        assert_eq!(world.counters().connects_refused[Reason::NotAuthorized.number()], 3);
        world.connect(v5("admin").will(message("secret/will", "gone")));
        world.connect(v5("a").will(message("open/will", "gone")));
    });
}

#[test]
fn a_denied_publisher_is_answered_by_its_version() {
    everywhere(|world| {
        forbid(world, "secret");
        let v5 = world.connect(v5("a"));
        let v311 = world.connect(v311("b"));
        for (client, code) in [(&v5, ReasonCode::NotAuthorized), (&v311, ReasonCode::Success)] {
            assert_eq!(client.publish(message("secret/1", "x").qos1().id(9)), code);
            assert_eq!(client.publish(message("secret/1", "x").qos2().id(9)), code, "and the id is free again");
            assert_eq!(
                client.publish(message("open/1", "x").qos2().id(9)),
                if client.id() == "a" { ReasonCode::NoMatchingSubscribers } else { code }
            );
            client.publish(message("secret/1", "x"));
            client.ping();
        }
        assert_eq!(world.dropped(Reason::NotAuthorized), 6);
    });
}

#[test]
fn rights_may_hang_on_the_tenant() {
    #[derive(Debug)]
    struct OnlyDefault;
    impl Access for OnlyDefault {
        fn may_publish(&self, subject: Subject<'_>, _: &str, _: QoS, _: bool) -> bool {
            subject.tenant == TenantId::DEFAULT
        }

        fn may_subscribe(&self, subject: Subject<'_>, _: &str, _: QoS, _: bool) -> bool {
            subject.tenant == TenantId::DEFAULT
        }
    }
    let other = ListenerSettings { tenant: TenantId(7), ..ListenerSettings::default() };
    everywhere_with(
        |settings| settings.listeners.push(other.clone()),
        |world| {
            for shard in 0..world.shards() {
                world.engine(shard, |engine, _| engine.control().set_access(Some(Box::new(OnlyDefault))));
            }
            let (a, b) = (world.connect(v5("a")), world.connect(v5("a").through(1)));
            assert_eq!(a.publish(message("t", "x").qos1()), ReasonCode::NoMatchingSubscribers);
            assert_eq!(b.publish(message("t", "x").qos1()), ReasonCode::NotAuthorized);
        },
    );
}

#[test]
fn new_rules_are_applied_in_bounded_steps() {
    let world = World::new(1);
    let clients: Vec<Client> = (0..1000).map(|number| world.connect(v5(&format!("c{number}")))).collect();
    for client in &clients {
        client.subscribe("secret/1", AtLeastOnce);
        client.subscribe("open/1", AtLeastOnce);
    }
    world.engine(0, |engine, _| engine.control().set_access(Some(Box::new(Forbids("secret")))));
    let mut before = world.gauges().subscriptions;
    assert_eq!(before, 2000);
    let mut turns = 0;
    while world.next_deadline() <= world.now().monotonic {
        world.engine(0, tidegate_engine::Engine::handle_timers);
        let now = world.gauges().subscriptions;
        assert!(before - now <= 512, "{} in one turn", before - now);
        before = now;
        turns += 1;
    }
    assert!(turns > 3);
    assert_eq!(world.gauges().subscriptions, 1000);
    // The same rules again end nothing, and none at all allow everything.
    forbid(&world, "secret");
    assert_eq!(world.gauges().subscriptions, 1000);
    world.engine(0, |engine, _| engine.control().set_access(None));
    assert_eq!(world.next_deadline(), Millis::NEVER);
    clients[0].subscribe("secret/1", AtLeastOnce);
}

#[test]
fn rules_that_change_again_before_all_were_asked_reach_everyone() {
    let world = World::new(1);
    let clients: Vec<Client> = (0..1000).map(|number| world.connect(v5(&format!("c{number}")))).collect();
    for client in &clients {
        client.subscribe("one/1", AtLeastOnce);
        client.subscribe("two/1", AtLeastOnce);
    }
    world.engine(0, |engine, _| engine.control().set_access(Some(Box::new(Forbids("one")))));
    world.engine(0, tidegate_engine::Engine::handle_timers);
    world.engine(0, |engine, _| engine.control().set_access(Some(Box::new(Forbids("two")))));
    world.run();
    let publisher = world.connect(v5("admin"));
    publisher.publish(message("two/1", "x").qos1());
    publisher.publish(message("one/1", "y").qos1());
    let got: Vec<usize> = clients.iter().map(|client| client.payloads().len()).collect();
    assert!(got[999] == 1 && got.iter().all(|count| *count <= 1), "{got:?}");
    assert_eq!(world.gauges().subscriptions, got.iter().sum::<usize>() as u64);
}

#[test]
fn retained_messages_and_group_messages_stop_with_the_right() {
    everywhere_with(
        |settings| settings.retained.step = 1,
        |world| {
            let admin = world.connect(v5("admin"));
            for number in 0..20 {
                admin.publish(message(&format!("secret/{number}"), "x").qos1().retain());
            }
            let client = world.connect(v5("a").receive_maximum(1).manual());
            client.subscribe("secret/#", AtLeastOnce);
            let first = client.expect_message();
            client.subscribe("$share/g/secret/+", AtLeastOnce);
            admin.subscribe("$share/g/secret/+", AtLeastOnce);
            forbid(world, "secret");
            client.puback(first.id.unwrap());
            world.run();
            let rest = client.messages().len();
            assert!(rest <= 1, "what waited was allowed when it came: {rest}");
            for _ in 0..4 {
                admin.publish(message("secret/new", "y").qos1());
            }
            client.expect_nothing();
            assert_eq!(admin.payloads().len(), 4, "another member gets what the group is dealt");
        },
    );
}

#[test]
fn a_refusal_is_a_code_without_words_for_who_wants_none() {
    everywhere(|world| {
        forbid(world, "secret");
        let client = world.connect(v5("a").request_problem(false).manual());
        client.send_publish(message("secret/1", "x").qos1());
        let arrival = client.expect(PacketType::PubAck);
        let Packet::PubAck(ack) = arrival.packet() else { unreachable!() };
        assert_eq!((ack.reason_code, ack.reason_string), (ReasonCode::NotAuthorized, None));
        let id = client.send_subscribe(&[("secret/1", SubscriptionOptions::new(AtMostOnce))], None);
        assert_eq!(client.expect_sub_ack(id), [ReasonCode::NotAuthorized]);
    });
}

/// Allows filters through the first listener alone.
#[derive(Debug)]
struct FirstListener;

impl Access for FirstListener {
    fn may_publish(&self, _: Subject<'_>, _: &str, _: QoS, _: bool) -> bool {
        true
    }

    fn may_subscribe(&self, subject: Subject<'_>, _: &str, _: QoS, _: bool) -> bool {
        subject.listener.0 == 0
    }
}

#[test]
fn another_listener_has_the_rights_of_a_session_asked_again() {
    let two = |settings: &mut Settings| settings.listeners.push(ListenerSettings::default());
    everywhere_with(two, |world| {
        for shard in 0..world.shards() {
            world.engine(shard, |engine, _| engine.control().set_access(Some(Box::new(FirstListener))));
        }
        let client = world.connect(v5("a").lasting());
        client.subscribe("a", AtLeastOnce);
        let same = world.connect(v5("a").lasting());
        assert_eq!(world.gauges().subscriptions, 1);
        let other = world.connect(v5("a").lasting().through(1));
        assert_eq!(world.gauges().subscriptions, 0);
        drop((client, same, other));
    });
}

/// Allows everything through the first listener, and of a topic with a word nothing through another one.
#[derive(Debug)]
struct SecretsThroughFirst;

impl Access for SecretsThroughFirst {
    fn may_publish(&self, _: Subject<'_>, _: &str, _: QoS, _: bool) -> bool {
        true
    }

    fn may_subscribe(&self, subject: Subject<'_>, filter: &str, _: QoS, _: bool) -> bool {
        self.may_receive(subject, filter)
    }

    fn may_receive(&self, subject: Subject<'_>, topic: &str) -> bool {
        subject.listener.0 == 0 || !topic.contains("secret")
    }

    fn decides_on_delivery(&self) -> bool {
        true
    }
}

fn with_two_listeners(play: impl Fn(&World)) {
    let two = |settings: &mut Settings| settings.listeners.push(ListenerSettings::default());
    everywhere_with(two, |world| {
        for shard in 0..world.shards() {
            world.engine(shard, |engine, _| engine.control().set_access(Some(Box::new(SecretsThroughFirst))));
        }
        world.run();
        play(world);
    });
}

#[test]
fn messages_in_flight_are_not_sent_again_without_the_right() {
    with_two_listeners(|world| {
        let client = world.connect(v5("a").lasting().receive_maximum(3).manual());
        for filter in ["secret/#", "open/#"] {
            client.subscribe(filter, QoS::ExactlyOnce);
        }
        let publisher = world.connect(v5("p"));
        publisher.publish(message("secret/1", "1").qos1());
        publisher.publish(message("secret/1", "2").qos2());
        publisher.publish(message("open/1", "3").qos1());
        publisher.publish(message("secret/1", "waiting").qos1());
        assert_eq!(client.messages().len(), 3);
        client.lose();
        let other = world.connect(v5("a").lasting().through(1));
        assert_eq!(other.payloads(), ["3"]);
        assert_eq!(world.dropped(Reason::NotAuthorized), 3);
        other.lose();
        let back = world.connect(v5("a").lasting());
        back.expect_nothing();
        assert_eq!(world.gauges().queued_messages, 0);
    });
}

#[test]
fn a_withdrawn_message_of_qos_2_gives_its_identifier_back() {
    with_two_listeners(|world| {
        let client = world.connect(v5("a").lasting().manual());
        for filter in ["secret/#", "open/#"] {
            client.subscribe(filter, QoS::ExactlyOnce);
        }
        let publisher = world.connect(v5("p"));
        publisher.publish(message("secret/1", "1").qos2());
        let id = client.expect_publish("secret/1", "1").id.unwrap();
        client.lose();
        let back = world.connect(v5("a").lasting().through(1).manual());
        // A client that has the message would take the next one under this identifier for its repetition.
        let arrival = back.expect(PacketType::PubRel);
        assert!(matches!(arrival.packet(), Packet::PubRel(release) if release.packet_id == id));
        publisher.publish(message("open/1", "2").qos2());
        assert_ne!(back.expect_publish("open/1", "2").id, Some(id));
    });
}

#[test]
fn new_rules_withdraw_messages_in_flight_of_absent_clients() {
    everywhere(|world| {
        let client = world.connect(v5("a").lasting().manual());
        client.subscribe("secret/#", AtLeastOnce);
        let publisher = world.connect(v5("p"));
        publisher.publish(message("secret/1", "x").qos1());
        client.expect_publish("secret/1", "x");
        client.lose();
        for shard in 0..world.shards() {
            world.engine(shard, |engine, _| engine.control().set_access(Some(Box::new(NoSecrets))));
        }
        world.run();
        let back = world.connect(v5("a").lasting());
        back.expect_nothing();
        assert_eq!(world.dropped(Reason::NotAuthorized), 1);
    });
}

/// Forbids to receive secrets.
#[derive(Debug)]
struct NoSecrets;

impl Access for NoSecrets {
    fn may_publish(&self, _: Subject<'_>, _: &str, _: QoS, _: bool) -> bool {
        true
    }

    fn may_subscribe(&self, _: Subject<'_>, _: &str, _: QoS, shared: bool) -> bool {
        !shared
    }

    fn may_receive(&self, _: Subject<'_>, topic: &str) -> bool {
        !topic.contains("secret")
    }

    fn decides_on_delivery(&self) -> bool {
        true
    }
}

#[test]
fn messages_of_a_group_go_to_members_that_keep_the_right() {
    with_two_listeners(|world| {
        let client = world.connect(v5("a").lasting().receive_maximum(1).manual());
        client.subscribe("$share/g/secret/+", AtLeastOnce);
        let publisher = world.connect(v5("p"));
        for payload in ["sent", "waiting"] {
            publisher.publish(message("secret/1", payload).qos1());
        }
        client.expect_publish("secret/1", "sent");
        client.lose();
        let member = world.connect(v5("member"));
        member.subscribe("$share/g/secret/+", AtLeastOnce);
        let other = world.connect(v5("a").lasting().through(1));
        other.expect_nothing();
        let mut payloads = member.payloads();
        payloads.sort();
        assert_eq!(payloads, ["sent", "waiting"]);
        assert_eq!(world.dropped(Reason::NotAuthorized), 0);
    });
}
