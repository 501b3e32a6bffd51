//! Messages kept for nodes that are away.

use tidegate_engine::{Attempt, Durability, ListenerSettings, LogEvent, Reason};
use tidegate_mqtt::{Packet, PacketId, PacketType, PubRec};

use super::*;

/// The digits at the end of each payload of a node's messages.
fn numbers(messages: &[Delivered]) -> Vec<usize> {
    messages.iter().map(|got| got.text().trim_start_matches(char::is_alphabetic).parse().unwrap()).collect()
}

/// Clients whose session ends with their connection, and one whose session lasts.
fn ways(id: &str) -> [Connecting; 4] {
    [v311(id), v5(id), v5(id).clean(false), v5(id).lasting()]
}

#[test]
fn a_burst_that_is_cut_loses_nothing() {
    everywhere_with(open, |world| {
        let sender = world.connect(v5("sender"));
        for (way, node) in ways("n").into_iter().enumerate() {
            for (burst, acknowledged) in [(3, 0), (3, 1), (100, 0), (100, 37)] {
                for qos in [AtLeastOnce, ExactlyOnce] {
                    let first = world.connect(node.clone().manual());
                    for number in 0..burst {
                        sender.publish_later(message("ctx/to/node/n", format!("m{number}")).qos(qos));
                    }
                    let got = first.messages();
                    assert_eq!(got.len(), burst);
                    for message in &got[..acknowledged] {
                        let id = message.id.unwrap();
                        if qos == AtLeastOnce { first.puback(id) } else { first.pubrec(id) }
                    }
                    world.run();
                    first.lose();
                    sender.publish_later(message("ctx/to/node/n", format!("m{burst}")).qos(qos));
                    let again = world.connect(node.clone());
                    let wanted: Vec<usize> = (acknowledged..=burst).collect();
                    let all = again.messages_among_others();
                    assert_eq!(
                        numbers(&all),
                        wanted,
                        "way {way}, {burst} messages, {acknowledged} acknowledged, {qos:?}"
                    );
                    again.disconnect();
                    // Nothing is left.
                    let after = world.connect(node.clone());
                    assert_eq!(numbers(&after.messages_among_others()), Vec::<usize>::new());
                    after.disconnect();
                }
            }
        }
    });
}

#[test]
fn messages_to_an_offline_node_are_kept_in_order() {
    everywhere_with(open, |world| {
        let sender = world.connect(v5("sender"));
        for node in ways("n") {
            let first = world.connect(node.clone());
            assert_eq!(change(world, "n", &["g"], &[]), MembershipOutcome::Done);
            first.subscribe("other", AtLeastOnce);
            first.disconnect();
            for (number, topic) in ["node/n/a", "all/x", "group/g", "node/n/b", "all", "node/n"].iter().enumerate() {
                let qos = [AtMostOnce, AtLeastOnce, ExactlyOnce][number % 3];
                sender.publish_later(message(&format!("ctx/to/{topic}"), number.to_string()).qos(qos));
            }
            let lasts = !node.clean_start && node.expiry.is_some();
            let again = world.connect(node.clone());
            assert_eq!(again.session_present(), lasts);
            let got = again.messages_among_others();
            assert_eq!(numbers(&got), [0, 1, 2, 3, 4, 5]);
            let qos: Vec<QoS> = got.iter().map(|message| message.qos).collect();
            assert_eq!(qos, [AtLeastOnce, AtLeastOnce, ExactlyOnce, AtLeastOnce, AtLeastOnce, ExactlyOnce]);
            again.disconnect();
        }
        sender.messages_among_others();
    });
}

#[test]
fn messages_sent_again_stay_before_new_ones_of_qos_0() {
    everywhere_with(open, |world| {
        let sender = world.connect(v5("sender"));
        for node in &ways("n")[1..] {
            world.connect(node.clone()).disconnect();
            for number in 0..3 {
                sender.publish_later(message("ctx/to/node/n", number.to_string()));
            }
            world.run();
            let unanswered = world.connect(node.clone().manual());
            assert_eq!(numbers(&unanswered.messages()), [0, 1, 2]);
            unanswered.lose();
            let again = world.connect(node.clone().receive_maximum(1).manual());
            sender.publish_later(message("ctx/to/node/n", "3"));
            world.run();
            let mut got = Vec::new();
            while again.has_arrived(PacketType::Publish) {
                let message = again.expect_message();
                got.push(message.text().parse::<usize>().unwrap());
                message.id.into_iter().for_each(|id| again.puback(id));
                world.run();
            }
            assert_eq!(got, [0, 1, 2, 3]);
            again.disconnect();
        }
    });
}

#[test]
fn a_clean_start_keeps_only_addressed_messages() {
    everywhere_with(open, |world| {
        let sender = world.connect(v5("sender"));
        let node = world.connect(v5("n").lasting());
        node.subscribe("t", AtLeastOnce);
        node.lose();
        sender.publish(message("t", "1").qos1());
        sender.publish(message("ctx/to/node/n", "2").qos1());
        sender.publish(message("t", "3").qos1());
        let node = world.connect(v5("n"));
        assert!(!node.session_present());
        assert_eq!(node.payloads(), ["2"]);
        assert_eq!(world.dropped(Reason::SessionDiscarded), 2);
        assert_eq!(sender.publish(message("t", "4").qos1()), ReasonCode::NoMatchingSubscribers);
        node.expect_nothing();
    });
}

#[test]
fn messages_expire_by_their_sender_by_default_or_by_force() {
    for (default, forced, asked, lives) in
        [(60, 0, None, 60), (60, 0, Some(30), 30), (60, 0, Some(90), 90), (60, 10, Some(90), 10), (0, 10, None, 10)]
    {
        let world = World::with(3, |settings| {
            open(settings);
            let addresses = settings.addresses.as_mut().unwrap();
            (addresses.expiry_default_seconds, addresses.expiry_forced_seconds) = (default, forced);
        });
        let sender = world.connect(v5("sender"));
        for (after, arrives) in [(lives - 1, true), (lives + 1, false)] {
            world.connect(v311("n")).disconnect();
            let sent = message("ctx/to/node/n", "x").qos1();
            sender.publish(if let Some(asked) = asked { sent.expiry(asked) } else { sent });
            world.advance(seconds(after));
            let node = world.connect(v311("n"));
            assert_eq!(node.payloads().len(), usize::from(arrives), "{default} {forced} {asked:?} {after}");
            node.disconnect();
        }
        assert_eq!(world.dropped(Reason::MessageExpired), 1);
    }
}

#[test]
fn a_node_that_is_away_for_too_long_is_given_up() {
    let world = World::with(3, |settings| {
        open(settings);
        settings.addresses.as_mut().unwrap().node_expiry_seconds = 100;
    });
    let sender = world.connect(v5("sender"));
    world.connect(v311("n")).disconnect();
    world.connect(v5("later").expiry(50)).disconnect();
    sender.publish(message("ctx/to/node/n", "x").qos1().expiry(1000));
    world.advance(seconds(101));
    assert_eq!(world.dropped(Reason::SessionExpired), 1);
    assert_eq!(world.gauges().sessions_disconnected, 1, "the other one has ended 51 s ago");
    world.advance(seconds(50));
    assert_eq!(world.gauges().sessions_disconnected, 0);
    world.connect(v311("n")).expect_nothing();
}

#[test]
fn a_drain_tells_mailboxes_in_the_store_from_other_messages() {
    for durability in [Durability::Memory, Durability::Commit] {
        let world = World::with(3, |settings| {
            open(settings);
            settings.durability = durability;
        });
        world.connect(v311("mailbox")).disconnect();
        world.connect(v5("away").lasting()).lose();
        let sender = world.connect(v5("sender"));
        for id in ["mailbox", "mailbox", "away"] {
            sender.publish(message(&format!("ctx/to/node/{id}"), "x").qos1());
        }
        let here = world.connect(v311("here").manual());
        sender.publish(message("ctx/to/node/here", "x").qos1());
        let gauges = world.gauges();
        assert_eq!((gauges.queued_messages, gauges.inflight_messages), (3, 1), "{durability:?}");
        let kept = if durability == Durability::Commit { 3 } else { 0 };
        assert_eq!(gauges.absent_messages, kept, "{durability:?}");
        here.lose();
        let kept = if durability == Durability::Commit { 4 } else { 0 };
        assert_eq!(world.gauges().absent_messages, kept, "{durability:?}");
    }
}

#[test]
fn as_much_is_kept_as_may_be() {
    let world = World::with(1, |settings| {
        open(settings);
        settings.queue.max_messages = 3;
        settings.addresses.as_mut().unwrap().max_mailboxes = 2;
    });
    for id in ["a", "b", "c"] {
        world.connect(v311(id)).disconnect();
    }
    let sender = world.connect(v5("sender"));
    for number in 0..5 {
        sender.publish(message("ctx/to/all", number.to_string()).qos1());
    }
    sender.messages_among_others();
    assert_eq!(world.gauges().queued_messages, 6);
    assert_eq!(world.dropped(Reason::QueueFullNewest), 4);
    assert_eq!(world.connect(v311("a")).payloads(), ["0", "1", "2"]);
    assert_eq!(world.connect(v311("c")).payloads(), Vec::<String>::new(), "there was no room for it");
}

#[test]
fn nothing_is_kept_where_nothing_is_to_be_kept() {
    let world = World::with(3, |settings| {
        open(settings);
        let addresses = settings.addresses.as_mut().unwrap();
        (addresses.node_expiry_seconds, addresses.keep_qos0) = (0, false);
    });
    let sender = world.connect(v5("sender"));
    world.connect(v311("n")).disconnect();
    let away = world.connect(v311("lasting").lasting());
    away.disconnect();
    sender.publish(message("ctx/to/node/n", "x").qos1());
    sender.publish(message("ctx/to/node/lasting", "x"));
    assert_eq!(world.dropped(Reason::OfflineQos0), 1);
    world.connect(v311("n")).expect_nothing();
    world.connect(v311("lasting").lasting()).expect_nothing();
}

#[test]
fn a_will_of_a_node_is_published_when_its_session_ends() {
    everywhere_with(open, |world| {
        let watcher = world.connect(v5("watcher").clean(true));
        watcher.subscribe("w", AtLeastOnce);
        world.connect(v311("n").will(message("w", "gone").qos1())).lose();
        watcher.expect_publish("w", "gone");
        world.connect(v311("n")).disconnect();
        watcher.expect_nothing();
    });
}

#[test]
fn kept_messages_survive_the_process() {
    for (from, to) in [(1, 1), (1, 3), (3, 2)] {
        for swept in [false, true] {
            let durable = |settings: &mut Settings| {
                open(settings);
                settings.durability = Durability::Commit;
            };
            let world = World::with(from, durable);
            let sender = world.connect(v5("sender"));
            for (number, way) in ways("x").into_iter().enumerate() {
                let id = format!("n{number}");
                let node = world.connect(Connecting { client_id: id.clone(), ..way.manual() });
                node.subscribe("t", AtLeastOnce);
                assert_eq!(change(&world, &id, &["g"], &[]), MembershipOutcome::Done);
                for (text, qos) in [("0", ExactlyOnce), ("1", AtLeastOnce), ("2", ExactlyOnce)] {
                    sender.publish_later(message(&format!("ctx/to/node/{id}"), text).qos(qos));
                }
                let got = node.messages();
                node.pubrec(got[0].id.unwrap());
                node.expect(PacketType::PubRel);
                if number != 1 {
                    node.lose();
                }
                sender.publish_later(message("t", "9").qos1());
                sender.publish_later(message("ctx/to/group/g", "3").qos(AtMostOnce).expiry(500));
                sender.publish_later(message("ctx/to/all", "4").qos2());
                assert_eq!(change(&world, &id, &["h"], &["g"]), MembershipOutcome::Done);
            }
            world.run();
            world.crash(Crash { away: seconds(5), swept, ..Crash::now(to) });
            let sender = world.connect(v5("again"));
            sender.publish(message("ctx/to/group/h", "5").qos1());
            sender.publish(message("ctx/to/group/g", "6").qos1());
            for number in 0..3 {
                let id = format!("n{number}");
                let node = world.connect(v311(&id));
                let got = numbers(&node.messages_among_others());
                let own: Vec<usize> = got.iter().copied().filter(|number| *number != 4).collect();
                let wanted = if number == 1 { vec![1, 2, 5] } else { vec![1, 2, 3, 5] };
                assert_eq!(own, wanted, "{id}, from {from} to {to}, swept: {swept}");
                assert_eq!(got.iter().filter(|number| **number == 4).count(), 4 - number, "{id}");
            }
        }
    }
}

#[test]
fn a_stored_tail_is_sorted_out_when_it_is_read() {
    let world = World::with(1, |settings| {
        open(settings);
        settings.durability = Durability::Commit;
        settings.queue.memory_bytes = 2_000;
    });
    let sender = world.connect(v5("sender"));
    for crash in [false, true] {
        let node = world.connect(v5("n").lasting());
        node.subscribe("t", AtLeastOnce);
        node.lose();
        let payload = |number: usize| format!("{}{number}", "x".repeat(300));
        for number in 0..60 {
            let topic = if number % 3 == 0 { "t" } else { "ctx/to/node/n" };
            sender.publish_later(message(topic, payload(number)).qos1());
        }
        world.run();
        assert!(world.gauges().stored_messages > 30);
        let node = world.connect(v5("n").manual());
        assert!(!node.session_present());
        node.lose();
        if crash {
            world.crash(Crash { away: 0, swept: true, ..Crash::now(1) });
        }
        let node = world.connect(v311("n"));
        let wanted: Vec<usize> = (0..60).filter(|number| number % 3 != 0).collect();
        assert_eq!(numbers(&node.messages_among_others()), wanted, "crash: {crash}");
        node.disconnect();
        if crash {
            return;
        }
    }
}

/// A client that has taken a QoS 2 message and returns without its session is not sent it again.
#[test]
fn messages_taken_over_by_a_node_are_not_sent_again() {
    everywhere_with(open, |world| {
        let sender = world.connect(v5("sender"));
        let node = world.connect(v311("n").manual());
        sender.publish_later(message("ctx/to/node/n", "0").qos2());
        let id: PacketId = node.messages()[0].id.unwrap();
        node.send(&Packet::PubRec(PubRec::new(id, ReasonCode::Success)));
        world.run();
        node.lose();
        let node = world.connect(v311("n"));
        node.expect_nothing();
    });
}

#[test]
fn a_mailbox_has_no_subscriptions_after_a_restart() {
    let world = World::with(1, |settings| {
        open(settings);
        settings.durability = Durability::Commit;
    });
    let node = world.connect(v311("n"));
    node.subscribe("t", AtLeastOnce);
    node.subscribe("$share/s/u", AtLeastOnce);
    assert_eq!(change(&world, "n", &["g"], &[]), MembershipOutcome::Done);
    node.disconnect();
    world.crash(Crash::now(1));
    let sender = world.connect(v5("sender"));
    sender.publish(message("t", "1").qos1());
    sender.publish(message("u", "2").qos1());
    sender.publish(message("ctx/to/group/g", "3").qos1());
    assert_eq!(numbers(&world.connect(v311("n").lasting()).messages()), [3]);
}

#[test]
fn a_filter_and_a_group_of_one_text_are_stored_apart() {
    let world = World::with(1, |settings| {
        open(settings);
        settings.durability = Durability::Commit;
    });
    let node = world.connect(v311("n").lasting());
    node.subscribe("g", AtLeastOnce);
    assert_eq!(change(&world, "n", &["g"], &[]), MembershipOutcome::Done);
    node.subscribe("h", AtLeastOnce);
    assert_eq!(change(&world, "n", &["h"], &[]), MembershipOutcome::Done);
    node.unsubscribe("h");
    node.disconnect();
    world.crash(Crash::now(1));
    let sender = world.connect(v5("sender"));
    for (number, topic) in [("1", "g"), ("2", "ctx/to/group/g"), ("3", "h"), ("4", "ctx/to/group/h")] {
        sender.publish(message(topic, number).qos1());
    }
    assert_eq!(numbers(&world.connect(v311("n").lasting()).messages()), [1, 2, 4]);
}

/// The second listener is for HTTP, the third for CoAP.
fn with_others(settings: &mut Settings) {
    open(settings);
    settings.limits.max_sessions = 2;
    for (name, for_http) in [("web", true), ("sensors", false)] {
        let of_others = ListenerSettings { for_http, for_coap: !for_http, ..ListenerSettings::default() };
        settings.listeners.push(ListenerSettings { name: name.into(), ..of_others });
    }
}

#[test]
fn sessions_of_http_and_coap_leave_no_mailbox() {
    let world = World::with(1, with_others);
    for number in 0..5 {
        world.connect(v5(&format!("http-{number}")).through(1)).disconnect();
        world.connect(v5(&format!("coap-{number}")).through(2)).disconnect();
    }
    let queue = world.connect(v5("http-queue//q").lasting().through(1));
    queue.disconnect();
    assert_eq!(world.gauges().sessions_disconnected, 1, "the queue alone");
    world.connect(v5("http-queue//q").through(1)).disconnect();
    assert_eq!(world.gauges().sessions_disconnected, 0, "a queue that is deleted leaves none");
}

#[test]
fn a_session_of_http_comes_in_at_the_limit_of_sessions() {
    let world = World::with(1, with_others);
    for id in ["a", "b"] {
        world.connect(v5(id).lasting()).disconnect();
    }
    world.try_connect(v5("c")).expect_refused(ReasonCode::QuotaExceeded);
    world.try_connect(v5("http-queue//q").lasting().through(1)).expect_refused(ReasonCode::QuotaExceeded);
    world.connect(v5("http-1").through(1)).disconnect();
    world.connect(v5("coap-1").through(2)).disconnect();
    world.connect(v5("a").clean(true)).disconnect();
}

#[test]
fn a_node_without_a_mailbox_is_logged_and_counted() {
    let world = World::with(1, |settings| {
        open(settings);
        settings.addresses.as_mut().unwrap().max_mailboxes = 1;
    });
    world.connect(v5("first")).disconnect();
    let node = world.connect(v5("truck-7").manual());
    node.subscribe("t", AtLeastOnce);
    let sender = world.connect(v5("sender"));
    sender.publish(message("ctx/to/node/truck-7/x", "1").qos1());
    sender.publish(message("t", "2").qos1());
    world.take_log();
    node.lose();
    let dropped = [Reason::MailboxLimit, Reason::SessionDiscarded].map(|reason| world.dropped(reason));
    assert_eq!(dropped, [1, 1]);
    assert_eq!(world.counters().requests_refused[Reason::MailboxLimit.number()], 1);
    let is_logged = |event: &LogEvent| {
        matches!(event, LogEvent::Denied { client_id, attempt: Attempt::Mailbox, reason: Reason::MailboxLimit, .. }
            if client_id == "truck-7")
    };
    assert!(world.take_log().iter().any(is_logged));
}
