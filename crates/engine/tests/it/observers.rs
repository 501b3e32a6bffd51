//! Observers: each must have a message of its topics before the publisher is acknowledged.

use std::collections::BTreeSet;

use proptest::prelude::*;
use tidegate_engine::{
    Access, Delay, Durability, InnerPublication, LogEvent, Millis, ObservedMessage, ObservedTicket, Observer,
    ObserverAnswer, ObserverError, ObserverId, ObserverPolicy, ObserverWindow, PrincipalKind, Reason, Settings,
    Subject, TenantId,
};
use tidegate_mqtt::QoS::{AtLeastOnce, ExactlyOnce};
use tidegate_mqtt::{PacketType, QoS, ReasonCode};

use crate::harness::*;

fn observer(filter: &str, messages: u64, policy: ObserverPolicy) -> Observer {
    Observer {
        name: "sink".into(),
        filters: vec![filter.into()],
        tenant: None,
        window: ObserverWindow { messages, bytes: 1_000 },
        policy,
        refusal: Reason::ObserverRefused,
    }
}

/// Adds an observer to every shard. All of them give it the same id.
fn observe(world: &World, observer: &Observer) -> ObserverId {
    let ids: Vec<_> = (0..world.shards())
        .map(|shard| world.engine(shard, |engine, _| engine.insiders().observe(observer.clone())).expect("an observer"))
        .collect();
    ids[0]
}

fn confirm(world: &World, shard: u16, ticket: ObservedTicket, answer: ObserverAnswer) {
    world.engine(shard, |engine, now| engine.insiders().confirm_observed(now, ticket, answer));
    world.run();
}

/// Confirms all messages of observers; returns the payloads in their order.
fn confirm_all(world: &World) -> Vec<String> {
    let observed = world.take_observed();
    for (shard, _, message) in &observed {
        confirm(world, *shard, message.ticket, ObserverAnswer::Taken);
    }
    observed.into_iter().map(|(_, _, message)| String::from_utf8_lossy(&message.payload).into_owned()).collect()
}

#[test]
fn a_message_is_acknowledged_when_every_observer_has_it() {
    everywhere(|world| {
        let subscriber = world.connect(v5("s"));
        subscriber.subscribe("meter/#", ExactlyOnce);
        let first = observe(world, &observer("meter/+/value", 10, ObserverPolicy::Refuse));
        let second = observe(world, &observer("#", 10, ObserverPolicy::Hold));
        let publisher = world.connect(v5("p"));
        for qos in [AtLeastOnce, ExactlyOnce] {
            let id = publisher.send_publish(message("meter/1/value", "42").qos(qos)).expect("a packet id");
            let observed = world.take_observed();
            let told: Vec<_> = observed.iter().map(|(_, id, it)| (*id, &*it.client_id, &*it.payload)).collect();
            assert_eq!(told, [(first, "p", &b"42"[..]), (second, "p", &b"42"[..])], "each once");
            subscriber.expect_publish("meter/1/value", "42");
            confirm(world, observed[1].0, observed[1].2.ticket, ObserverAnswer::Taken);
            // A ticket counts once.
            confirm(world, observed[1].0, observed[1].2.ticket, ObserverAnswer::Taken);
            assert_eq!(publisher.answers(), [], "one of two has it");
            confirm(world, observed[0].0, observed[0].2.ticket, ObserverAnswer::Taken);
            let kind = if qos == AtLeastOnce { PacketType::PubAck } else { PacketType::PubRec };
            assert_eq!(publisher.expect_answer(kind, id), ReasonCode::Success);
            publisher.answers();
        }
        publisher.send_publish(message("other", "x").qos1());
        assert_eq!(world.take_observed().len(), 1, "only one of them observes the topic");
    });
}

#[test]
fn a_refusal_of_one_observer_reaches_the_publisher() {
    everywhere(|world| {
        observe(world, &observer("t", 10, ObserverPolicy::Refuse));
        observe(world, &observer("t", 10, ObserverPolicy::Refuse));
        for version in [v5("p"), v311("p")] {
            let publisher = world.connect(version);
            let id = publisher.send_publish(message("t", "x").qos1()).expect("a packet id");
            let observed = world.take_observed();
            confirm(world, observed[0].0, observed[0].2.ticket, ObserverAnswer::Later);
            confirm(world, observed[1].0, observed[1].2.ticket, ObserverAnswer::Taken);
            if publisher.is_v5() {
                assert_eq!(publisher.expect_answer(PacketType::PubAck, id), ReasonCode::QuotaExceeded);
                publisher.disconnect();
            } else {
                assert_eq!(publisher.expect_closed(), Reason::ObserverRefused);
            }
        }
        assert_eq!(world.dropped(Reason::ObserverRefused), 2);
    });
}

#[test]
fn a_late_refusal_of_qos_2_does_not_free_the_packet_id() {
    everywhere(|world| {
        let subscriber = world.connect(v5("s"));
        subscriber.subscribe("t", ExactlyOnce);
        observe(world, &observer("t", 10, ObserverPolicy::Refuse));
        for version in [v5("p"), v311("p")] {
            let publisher = world.connect(version.clone().lasting());
            let id = publisher.send_publish(message("t", "x").qos2()).expect("a packet id");
            let observed = world.take_observed();
            confirm(world, observed[0].0, observed[0].2.ticket, ObserverAnswer::Later);
            world.run();
            assert_eq!(publisher.closed(), Some(Reason::ObserverRefused));
            assert_eq!(subscriber.payloads(), ["x"]);
            // It sends the message again, and only the observer gets it.
            let again = world.connect(version.lasting());
            again.send_publish(message("t", "x").qos2().id(id.get()).dup());
            assert_eq!(confirm_all(world), ["x"]);
            assert_eq!(again.expect_answer(PacketType::PubRec, id), ReasonCode::Success);
            assert!(subscriber.payloads().is_empty(), "it came once");
            again.disconnect();
        }
    });
}

fn never(message: &ObservedMessage) -> ObserverAnswer {
    ObserverAnswer::Never { tenant: message.tenant, client_id: message.client_id.clone(), topic: message.topic.clone() }
}

#[test]
fn a_refusal_for_good_ends_the_exchange() {
    everywhere(|world| {
        let subscriber = world.connect(v5("s"));
        subscriber.subscribe("t", ExactlyOnce);
        observe(world, &observer("t", 10, ObserverPolicy::Refuse));
        for (version, qos) in
            [v5("p"), v311("p")].into_iter().flat_map(|it| [(it.clone(), AtLeastOnce), (it, ExactlyOnce)])
        {
            let publisher = world.connect(version.lasting());
            let id = publisher.send_publish(message("t", "x").qos(qos)).expect("a packet id");
            let (shard, _, told) = world.take_observed().remove(0);
            confirm(world, shard, told.ticket, never(&told));
            let code = if publisher.is_v5() { ReasonCode::ImplementationSpecificError } else { ReasonCode::Success };
            let kind = if qos == AtLeastOnce { PacketType::PubAck } else { PacketType::PubRec };
            assert_eq!(publisher.expect_answer(kind, id), code);
            publisher.answers();
            assert_eq!(publisher.closed(), None);
            assert_eq!(subscriber.payloads(), ["x"], "others get it once");
            publisher.disconnect();
        }
        assert_eq!(world.dropped(Reason::ObserverRejected), 4);
        let explains = |event: &LogEvent| {
            matches!(event, LogEvent::Denied { client_id, topic, reason: Reason::ObserverRejected, .. }
                if client_id == "p" && topic == "t")
        };
        assert!(world.take_log().iter().any(explains), "why can tell it");
        assert!(!Reason::ObserverRejected.is_temporary());
    });
}

#[test]
fn a_refusal_for_now_outlives_one_for_good() {
    everywhere(|world| {
        observe(world, &observer("t", 10, ObserverPolicy::Refuse));
        observe(world, &observer("t", 10, ObserverPolicy::Refuse));
        let publisher = world.connect(v5("p"));
        for first_is_for_good in [false, true] {
            let id = publisher.send_publish(message("t", "x").qos1()).expect("a packet id");
            let observed = world.take_observed();
            for (at, (shard, _, told)) in observed.iter().enumerate() {
                let is_for_good = (at == 0) == first_is_for_good;
                let answer = if is_for_good { never(told) } else { ObserverAnswer::Later };
                confirm(world, *shard, told.ticket, answer);
            }
            assert_eq!(publisher.expect_answer(PacketType::PubAck, id), ReasonCode::QuotaExceeded);
        }
    });
}

/// A publisher of MQTT 3.1.1 whose second message waits for the observer, and the observed first message.
fn publisher_that_waits(world: &World) -> (ObserverId, Client, Client, (u16, ObserverId, ObservedMessage)) {
    let subscriber = world.connect(v5("s"));
    subscriber.subscribe("t", AtLeastOnce);
    let id = observe(world, &observer("t", 1, ObserverPolicy::Hold));
    let publisher = world.connect(v311("p").lasting());
    publisher.send_publish(message("t", "1").qos1());
    publisher.send_publish(message("t", "2").qos1());
    let told = world.take_observed().remove(0);
    assert_eq!(subscriber.payloads(), ["1"]);
    (id, subscriber, publisher, told)
}

#[test]
fn a_refused_publisher_that_waits_publishes_nothing_more() {
    everywhere_with(soon, |world| {
        let (_, subscriber, publisher, (shard, _, told)) = publisher_that_waits(world);
        confirm(world, shard, told.ticket, ObserverAnswer::Later);
        assert_eq!(publisher.expect_closed(), Reason::ObserverRefused);
        assert!(subscriber.payloads().is_empty(), "the client sends the second message again");
        assert!(world.take_observed().is_empty());
    });
}

#[test]
fn a_publisher_of_an_ended_observer_publishes_nothing_more() {
    everywhere_with(soon, |world| {
        let (id, subscriber, publisher, _) = publisher_that_waits(world);
        for shard in 0..world.shards() {
            world.engine(shard, |engine, now| engine.insiders().end_observer(now, id));
        }
        assert_eq!(publisher.expect_closed(), Reason::ObserverRefused);
        assert!(subscriber.payloads().is_empty(), "the client sends the second message again");
    });
}

#[test]
fn a_refused_message_is_recognised_when_its_answer_is_lost() {
    everywhere(|world| {
        let subscriber = world.connect(v5("s"));
        subscriber.subscribe("t", ExactlyOnce);
        observe(world, &observer("t", 10, ObserverPolicy::Refuse));
        let publisher = world.connect(v5("p").lasting());
        let id = publisher.send_publish(message("t", "x").qos2()).expect("a packet id");
        let (shard, _, told) = world.take_observed().remove(0);
        confirm(world, shard, told.ticket, never(&told));
        assert_eq!(subscriber.payloads(), ["x"]);
        publisher.lose();
        for _ in 0..2 {
            let publisher = world.connect(v5("p").lasting());
            publisher.send_publish(message("t", "x").qos2().id(id.get()).dup());
            let refused = publisher.expect_answer(PacketType::PubRec, id);
            assert_eq!(refused, ReasonCode::ImplementationSpecificError);
            publisher.lose();
        }
        assert!(world.take_observed().is_empty() && subscriber.payloads().is_empty(), "no client gets it again");
        // The client has got the answer and takes the identifier for another message.
        let publisher = world.connect(v5("p").lasting());
        publisher.send_publish(message("t", "y").qos2().id(id.get()).dup());
        assert_eq!(confirm_all(world), ["y"]);
        assert_eq!(publisher.expect_answer(PacketType::PubRec, id), ReasonCode::Success);
        assert_eq!(subscriber.payloads(), ["y"]);
        publisher.answers();
        // The same content in a new message.
        for _ in 0..2 {
            publisher.send_publish(message("t", "x").qos2().id(id.get()));
            let (shard, _, told) = world.take_observed().remove(0);
            confirm(world, shard, told.ticket, never(&told));
            publisher.expect_answer(PacketType::PubRec, id);
        }
        assert_eq!(subscriber.payloads(), ["x", "x"]);
    });
}

#[test]
fn a_refused_message_is_recognised_after_a_restart() {
    let world = World::with(1, |settings| settings.durability = Durability::Commit);
    let subscriber = world.connect(v5("s").lasting());
    subscriber.subscribe("t", ExactlyOnce);
    observe(&world, &observer("t", 10, ObserverPolicy::Refuse));
    let publisher = world.connect(v5("p").lasting());
    let id = publisher.send_publish(message("t", "x").qos2()).expect("a packet id");
    let (shard, _, told) = world.take_observed().remove(0);
    confirm(&world, shard, told.ticket, never(&told));
    assert_eq!(subscriber.payloads(), ["x"]);
    world.crash(Crash::now(1));
    let subscriber = world.connect(v5("s").lasting());
    observe(&world, &observer("t", 10, ObserverPolicy::Refuse));
    let publisher = world.connect(v5("p").lasting());
    publisher.send_publish(message("t", "x").qos2().id(id.get()).dup());
    assert_eq!(publisher.expect_answer(PacketType::PubRec, id), ReasonCode::ImplementationSpecificError);
    assert!(world.take_observed().is_empty() && subscriber.payloads().is_empty(), "others have it");
}

#[test]
fn a_full_window_refuses_before_anybody_gets_the_message() {
    everywhere(|world| {
        let subscriber = world.connect(v5("s"));
        subscriber.subscribe("t", AtLeastOnce);
        observe(world, &observer("t", 1, ObserverPolicy::Refuse));
        let publisher = world.connect(v5("p"));
        let first = publisher.send_publish(message("t", "1").qos1()).unwrap();
        publisher.send_publish(message("t", "2").qos1());
        publisher.send_publish(message("t", "3"));
        assert_eq!(confirm_all(world), ["1"]);
        assert_eq!(subscriber.payloads(), ["1", "3"], "QoS 0 is delivered without the observer");
        assert_eq!(publisher.expect_answer(PacketType::PubAck, first), ReasonCode::Success);
        let rest = publisher.answers();
        assert_eq!(rest.iter().map(|it| it.2).collect::<Vec<_>>(), [ReasonCode::QuotaExceeded]);
        assert_eq!(world.dropped(Reason::ObserverRefused), 2);
        publisher.send_publish(message("t", "4").qos1());
        assert_eq!(confirm_all(world), ["4"]);
        let old = world.connect(v311("old"));
        old.send_publish(message("t", "5").qos1());
        old.send_publish(message("t", "6").qos1());
        world.run();
        assert_eq!(old.expect_closed(), Reason::ObserverRefused, "it has the message still");
    });
}

#[test]
fn a_window_that_drops_lets_the_message_go_on() {
    everywhere(|world| {
        let subscriber = world.connect(v5("s"));
        subscriber.subscribe("t", AtLeastOnce);
        observe(world, &observer("t", 1, ObserverPolicy::Drop));
        let publisher = world.connect(v5("p"));
        publisher.send_publish(message("t", "1").qos1());
        publisher.send_publish(message("t", "2").qos1());
        assert_eq!(confirm_all(world), ["1"]);
        assert_eq!(subscriber.payloads(), ["1", "2"]);
        assert_eq!(publisher.answers().len(), 2);
        assert_eq!(world.dropped(Reason::ObserverRefused), 1);
    });
}

fn soon(settings: &mut Settings) {
    settings.limits.block_timeout_ms = seconds(5);
}

#[test]
fn a_window_that_holds_makes_publishers_wait_in_order() {
    everywhere_with(soon, |world| {
        let subscriber = world.connect(v5("s"));
        subscriber.subscribe("t", AtLeastOnce);
        observe(world, &observer("t", 2, ObserverPolicy::Hold));
        let publisher = world.connect(v311("p"));
        for n in 1..=5 {
            publisher.send_publish(message("t", n.to_string()).qos1());
        }
        publisher.send_publish(message("t", "6"));
        let mut observed = Vec::new();
        while observed.len() < 6 {
            let before = observed.len();
            observed.extend(confirm_all(world));
            assert!(observed.len() > before, "{observed:?}");
        }
        let all: Vec<String> = (1..=6).map(|n| n.to_string()).collect();
        assert_eq!((observed, subscriber.payloads()), (all.clone(), all));
        assert_eq!(publisher.answers().len(), 5);
        let delays: Vec<_> = world
            .take_log()
            .into_iter()
            .filter_map(|event| if let LogEvent::Delayed { delay, .. } = event { Some(delay) } else { None })
            .collect();
        assert_eq!(delays.first(), Some(&Delay::Observer("sink".into())));
    });
}

#[test]
fn a_publisher_is_answered_after_too_long_an_observer_wait() {
    everywhere_with(soon, |world| {
        for version in [v5("p"), v311("p")] {
            let id = observe(world, &observer("t", 1, ObserverPolicy::Hold));
            let publisher = world.connect(version);
            publisher.send_publish(message("t", "1").qos1());
            publisher.send_publish(message("t", "2").qos1());
            let told = world.take_observed();
            assert_eq!(told.len(), 1);
            world.advance(seconds(4));
            assert_eq!(world.dropped(Reason::ObserverRefused), u64::from(!publisher.is_v5()));
            world.advance(seconds(2));
            if publisher.is_v5() {
                confirm(world, told[0].0, told[0].2.ticket, ObserverAnswer::Taken);
                let codes: Vec<_> = publisher.answers().into_iter().map(|answer| answer.2).collect();
                assert_eq!(codes, [ReasonCode::Success, ReasonCode::QuotaExceeded]);
                publisher.disconnect();
            } else {
                assert_eq!(publisher.expect_closed(), Reason::ObserverRefused);
            }
            for shard in 0..world.shards() {
                world.engine(shard, |engine, now| engine.insiders().end_observer(now, id));
            }
        }
        assert_eq!(world.dropped(Reason::ObserverRefused), 2);
    });
}

#[test]
fn a_wait_that_was_too_long_counts_for_its_message_alone() {
    everywhere_with(soon, |world| {
        observe(world, &observer("#", 1, ObserverPolicy::Hold));
        let publisher = world.connect(v5("p"));
        publisher.send_publish(message("a", "1").qos1());
        publisher.send_publish(message("secret", "2").qos1());
        let told = world.take_observed();
        assert_eq!(told.len(), 1);
        // Meanwhile it loses the right, so the message that has waited does not come to its observer.
        for shard in 0..world.shards() {
            world.engine(shard, |engine, _| engine.control().set_access(Some(Box::new(NoSecrets))));
        }
        world.advance(seconds(6));
        publisher.send_publish(message("b", "3").qos1());
        world.run();
        assert_eq!(publisher.answers(), [], "the next message waits as any other");
        confirm(world, told[0].0, told[0].2.ticket, ObserverAnswer::Taken);
        assert_eq!(confirm_all(world), ["3"]);
        let codes: Vec<_> = publisher.answers().into_iter().map(|answer| answer.2).collect();
        assert_eq!(codes.len(), 3, "{codes:?}");
        assert_eq!((codes[1], codes[2].is_error()), (ReasonCode::NotAuthorized, false));
    });
}

#[test]
fn retained_messages_wills_and_group_messages_are_observed_once() {
    everywhere(|world| {
        let members = [world.connect(v5("m1")), world.connect(v5("m2"))];
        for member in &members {
            member.subscribe("$share/g/t", AtLeastOnce);
        }
        observe(world, &observer("#", 100, ObserverPolicy::Refuse));
        let publisher = world.connect(v5("p").will(message("t", "will").qos1()));
        publisher.send_publish(message("t", "kept").qos1().retain());
        let observed = world.take_observed();
        assert_eq!(observed.len(), 1, "one shard tells it");
        assert!(observed[0].2.retain && observed[0].2.is_awaited);
        confirm(world, observed[0].0, observed[0].2.ticket, ObserverAnswer::Taken);
        assert_eq!(publisher.answers().len(), 1);
        publisher.lose();
        let observed = world.take_observed();
        assert_eq!(observed.len(), 1);
        assert_eq!((&*observed[0].2.client_id, observed[0].2.is_awaited), ("p", false));
        confirm(world, observed[0].0, observed[0].2.ticket, ObserverAnswer::Taken);
        let late = world.connect(v5("late"));
        late.subscribe("t", AtLeastOnce);
        late.expect_publish("t", "kept");
        assert!(world.take_observed().is_empty(), "a fetched message is not published again");
    });
}

#[test]
fn a_repetition_at_qos_2_is_observed_again_and_sent_once() {
    everywhere(|world| {
        let subscriber = world.connect(v5("s"));
        subscriber.subscribe("t", ExactlyOnce);
        observe(world, &observer("t", 10, ObserverPolicy::Refuse));
        let publisher = world.connect(v5("p").lasting());
        let id = publisher.send_publish(message("t", "x").qos2()).unwrap();
        let first = world.take_observed();
        publisher.lose();
        let back = world.connect(v5("p").lasting());
        back.send_publish(message("t", "x").qos2().dup().id(id.get()));
        let second = world.take_observed();
        assert_eq!((first.len(), second.len()), (1, 1));
        confirm(world, first[0].0, first[0].2.ticket, ObserverAnswer::Taken);
        assert_eq!(back.answers(), [], "the confirmation of the earlier connection");
        confirm(world, second[0].0, second[0].2.ticket, ObserverAnswer::Taken);
        assert_eq!(back.expect_answer(PacketType::PubRec, id), ReasonCode::Success);
        assert_eq!(subscriber.payloads(), ["x"]);
    });
}

/// Topics that begin with "secret" are nobody's.
#[derive(Debug)]
struct NoSecrets;

impl Access for NoSecrets {
    fn may_publish(&self, _: Subject<'_>, topic: &str, _: QoS, _: bool) -> bool {
        !topic.starts_with("secret")
    }

    fn may_subscribe(&self, _: Subject<'_>, _: &str, _: QoS, _: bool) -> bool {
        true
    }
}

#[test]
fn a_repetition_with_a_forbidden_topic_is_not_observed() {
    everywhere(|world| {
        observe(world, &observer("#", 10, ObserverPolicy::Refuse));
        for shard in 0..world.shards() {
            world.engine(shard, |engine, _| engine.control().set_access(Some(Box::new(NoSecrets))));
        }
        let publisher = world.connect(v5("p").lasting());
        let id = publisher.send_publish(message("open", "x").qos2()).unwrap();
        assert_eq!(world.take_observed().len(), 1);
        publisher.lose();
        let back = world.connect(v5("p").lasting());
        back.send_publish(message("secret", "forged").qos2().dup().id(id.get()));
        assert_eq!(confirm_all(world), Vec::<String>::new());
        assert_eq!(back.expect_answer(PacketType::PubRec, id), ReasonCode::Success);
    });
}

#[test]
fn a_waiting_message_that_does_not_fit_stays_the_first() {
    everywhere(|world| {
        observe(world, &observer("t", 10, ObserverPolicy::Hold));
        let publishers = [0, 1, 2, 3].map(|number| world.connect(v5(&format!("p{number}"))));
        let sizes = [500, 250, 450, 100];
        for (publisher, size) in publishers.iter().zip(sizes) {
            publisher.send_publish(message("t", "x".repeat(size)).qos1());
        }
        let mut observed = Vec::new();
        // The second of two gives too little room for the third publisher.
        let first = world.take_observed();
        for (shard, _, told) in first.iter().rev() {
            observed.push(told.payload.len());
            confirm(world, *shard, told.ticket, ObserverAnswer::Taken);
        }
        while observed.len() < sizes.len() {
            let next = world.take_observed();
            assert!(!next.is_empty(), "all of them come: {observed:?}");
            for (shard, _, told) in next {
                observed.push(told.payload.len());
                confirm(world, shard, told.ticket, ObserverAnswer::Taken);
            }
        }
        observed.sort_unstable();
        assert_eq!(observed, [100, 250, 450, 500]);
    });
}

#[test]
fn a_restarted_shard_observes_unacknowledged_messages_again() {
    for shards in [1, 3] {
        let world = World::with(shards, |settings| settings.durability = Durability::Commit);
        observe(&world, &observer("t", 10, ObserverPolicy::Refuse));
        let publisher = world.connect(v5("p").lasting());
        let id = publisher.send_publish(message("t", "x").qos2()).unwrap();
        let lost = world.take_observed();
        assert_eq!(lost.len(), 1);
        world.crash(Crash::now(shards));
        observe(&world, &observer("t", 10, ObserverPolicy::Refuse));
        let back = world.connect(v5("p").lasting());
        back.send_publish(message("t", "x").qos2().dup().id(id.get()));
        world.run();
        assert_eq!(back.answers(), [], "the observer has not confirmed it to this process");
        assert_eq!(confirm_all(&world), ["x"]);
        assert_eq!(back.expect_answer(PacketType::PubRec, id), ReasonCode::Success);
    }
}

#[test]
fn an_ending_observer_refuses_its_unconfirmed_messages() {
    everywhere_with(soon, |world| {
        let id = observe(world, &observer("t", 1, ObserverPolicy::Hold));
        let publisher = world.connect(v5("p"));
        publisher.send_publish(message("t", "1").qos1());
        publisher.send_publish(message("t", "2").qos1());
        assert_eq!(world.take_observed().len(), 1);
        for shard in 0..world.shards() {
            world.engine(shard, |engine, now| engine.insiders().end_observer(now, id));
        }
        let codes: Vec<_> = publisher.answers().into_iter().map(|answer| answer.2).collect();
        assert_eq!(codes, [ReasonCode::QuotaExceeded, ReasonCode::NoMatchingSubscribers], "the second one has none");
        assert!(world.take_observed().is_empty());
    });
}

#[test]
fn filters_tenants_and_the_number_of_observers_are_checked() {
    let world = World::new(1);
    let wrong = |filter: &str| {
        let observer = observer(filter, 1, ObserverPolicy::Drop);
        world.engine(0, |engine, _| engine.insiders().observe(observer))
    };
    for filter in ["a/#/b", "", "$share/g/t"] {
        assert_eq!(wrong(filter), Err(ObserverError::InvalidFilter(filter.into())));
    }
    let of_other = Observer { tenant: Some(TenantId(3)), ..observer("t", 1, ObserverPolicy::Refuse) };
    observe(&world, &of_other);
    world.connect(v5("p")).publish(message("t", "x").qos1());
    assert!(world.take_observed().is_empty());
    let added = std::iter::from_fn(|| wrong("t").ok()).count();
    assert_eq!(added + 3, tidegate_engine::MAX_OBSERVERS, "two are kept for the observers of the settings");
    assert_eq!(wrong("t"), Err(ObserverError::TooMany));
}

#[test]
fn a_service_does_not_observe_its_own_messages() {
    everywhere(|world| {
        let id = observe(world, &observer("t", 10, ObserverPolicy::Refuse));
        let other = observe(world, &observer("t", 10, ObserverPolicy::Refuse));
        let bridge =
            tidegate_engine::Principal { unobserved_by: vec![id], ..principal(PrincipalKind::Broker, "bridge") };
        let publication = InnerPublication {
            tenant: TenantId::DEFAULT,
            topic: "t".into(),
            qos: AtLeastOnce,
            retain: false,
            properties: Vec::new(),
            payload: b"x".to_vec(),
            expires_at: Millis::NEVER,
        };
        world.engine(0, |engine, now| {
            let principal = engine.insiders().add_principal(now, bridge);
            engine.insiders().publish_as(now, principal, publication, 1);
        });
        let observed = world.take_observed();
        assert_eq!(observed.iter().map(|it| it.1).collect::<Vec<_>>(), [other]);
        assert_eq!(world.take_published(), []);
        confirm(world, 0, observed[0].2.ticket, ObserverAnswer::Taken);
        assert_eq!(world.take_published(), [(1, Ok(ReasonCode::Success))]);
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn each_publish_is_answered_once_in_any_order(
        seed in 0..u64::MAX,
        shards in 1..4_u16,
        policies in prop::collection::vec(
            prop_oneof![Just(ObserverPolicy::Hold), Just(ObserverPolicy::Refuse), Just(ObserverPolicy::Drop)],
            1..4,
        ),
        window in 1..4_u64,
        steps in prop::collection::vec((0..3_u8, any::<prop::sample::Index>(), any::<bool>()), 1..60),
    ) {
        let world = World::seeded(shards, seed, "observers", |settings| {
            settings.durability = Durability::Commit;
            soon(settings);
        });
        for policy in &policies {
            observe(&world, &observer("t/#", window, *policy));
        }
        let publishers: Vec<Client> = (0..3).map(|n| world.connect(v5(&format!("p{n}")))).collect();
        let (mut unconfirmed, mut sent, mut answered) = (Vec::new(), BTreeSet::new(), Vec::new());
        for (at, (kind, index, refuse)) in steps.iter().enumerate() {
            if *kind > 0 || unconfirmed.is_empty() {
                let which = index.index(publishers.len());
                let qos = if *refuse { ExactlyOnce } else { AtLeastOnce };
                let id = 1_000 + at as u16;
                publishers[which].send_publish(message("t/x", "x").qos(qos).id(id));
                sent.insert((which, id));
            } else {
                let (shard, ticket, qos) = unconfirmed.swap_remove(index.index(unconfirmed.len()));
                // A refusal of one of QoS 2 would end the connection.
                let refuses = *refuse && qos != ExactlyOnce;
                confirm(&world, shard, ticket, if refuses { ObserverAnswer::Later } else { ObserverAnswer::Taken });
            }
            unconfirmed.extend(world.take_observed().into_iter().map(|(shard, _, it)| (shard, it.ticket, it.qos)));
        }
        while let Some((shard, ticket, _)) = unconfirmed.pop() {
            confirm(&world, shard, ticket, ObserverAnswer::Taken);
            unconfirmed.extend(world.take_observed().into_iter().map(|(shard, _, it)| (shard, it.ticket, it.qos)));
        }
        for (which, publisher) in publishers.iter().enumerate() {
            let acks = publisher.answers().into_iter().filter(|it| it.0 != PacketType::PubComp);
            answered.extend(acks.map(|(_, id, _)| (which, id)));
        }
        answered.sort_unstable();
        prop_assert_eq!(answered, sent.into_iter().collect::<Vec<_>>());
    }
}
