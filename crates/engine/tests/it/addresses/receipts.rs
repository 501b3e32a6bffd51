//! Receipts for the senders of messages to nodes.

use tidegate_engine::{ListenerSettings, Reason};

use super::*;

fn asking(topic: &str, value: &str) -> Message {
    message(topic, "x").qos1().user("receipt", value)
}

/// The outcomes of the received receipts.
fn told(client: &Client) -> Vec<String> {
    let word = |got: Delivered| {
        let text = got.text();
        let after = text.strip_prefix("{\"receipt\":\"").unwrap_or(&text).to_owned();
        after.split('"').next().unwrap().to_owned()
    };
    client.messages_among_others().into_iter().map(word).collect()
}

fn texts(client: &Client) -> Vec<String> {
    client.messages_among_others().iter().map(Delivered::text).collect()
}

#[test]
fn a_sender_gets_the_outcome_of_a_message_to_one_node() {
    everywhere_with(open, |world| {
        let sender = world.connect(v5("the/sender"));
        let node = world.connect(v311("n"));
        for qos in [AtMostOnce, AtLeastOnce, ExactlyOnce] {
            sender.publish_later(asking("ctx/to/node/n/a", "delivered").qos(qos).response("no/where", b"12"));
            sender.publish_later(message("ctx/to/node/n", "unasked").qos(qos));
        }
        world.run();
        node.messages_among_others();
        assert_eq!(sender.messages_among_others().len(), 0);
        sender.subscribe("replies", AtLeastOnce);
        sender.publish_later(asking("ctx/to/node/n/a", "delivered").response("replies", b"12"));
        let got = sender.messages_among_others();
        assert_eq!(got.len(), 1);
        assert_eq!((got[0].topic.as_str(), got[0].correlation_data.as_deref()), ("replies", Some(&b"12"[..])));
        assert_eq!(got[0].text(), "{\"receipt\":\"delivered\",\"node\":\"n\",\"topic\":\"ctx/to/node/n/a\"}");
        sender.publish_later(asking("ctx/to/node/n", "delivered"));
        assert_eq!(sender.messages_among_others()[0].topic, "ctx/receipts/the%2Fsender", "it is a node itself");
        sender.publish_later(asking("ctx/to/node/unknown", "delivered"));
        assert_eq!(told(&sender), ["unknown"]);
        node.disconnect();
        sender.publish_later(asking("ctx/to/node/n", "delivered"));
        assert_eq!(told(&sender), Vec::<String>::new());
        sender.publish_later(asking("ctx/to/node/n", "all"));
        assert_eq!(told(&sender), ["stored"]);
        let node = world.connect(v311("n"));
        assert_eq!(node.messages_among_others().len(), 2);
        assert_eq!(told(&sender), ["delivered", "delivered"]);
    });
}

#[test]
fn a_sender_gets_the_reason_of_a_drop() {
    let world = World::with(3, |settings| {
        open(settings);
        settings.queue.max_messages = 2;
        settings.addresses.as_mut().unwrap().node_expiry_seconds = 100;
    });
    let sender = world.connect(v5("sender"));
    world.connect(v311("n")).disconnect();
    sender.publish_later(asking("ctx/to/node/n", "delivered").expiry(10));
    sender.publish_later(asking("ctx/to/node/n", "delivered"));
    sender.publish_later(asking("ctx/to/node/n", "delivered"));
    let got = sender.messages_among_others();
    assert_eq!(got.len(), 1);
    assert!(got[0].text().contains("\"dropped\"") && got[0].text().contains("\"reason\":\"queue_full_drop_newest\""));
    world.advance(seconds(11));
    let node = world.connect(v311("n").manual());
    assert_eq!(node.messages().len(), 1);
    assert_eq!(told(&sender), ["expired"]);
    node.lose();
    world.advance(seconds(101));
    assert_eq!(told(&sender), ["dropped"]);
    assert_eq!(world.dropped(Reason::SessionExpired), 1);
}

#[test]
fn a_sender_learns_of_expiry_while_the_node_is_away() {
    for lasting in [false, true] {
        everywhere_with(open, |world| {
            let sender = world.connect(v5("sender"));
            let node = v311("n");
            world.connect(if lasting { node.lasting() } else { node }).disconnect();
            sender.publish_later(asking("ctx/to/node/n", "delivered").expiry(10));
            sender.publish_later(asking("ctx/to/node/n", "delivered").expiry(20));
            world.advance(seconds(9));
            assert_eq!(told(&sender), Vec::<String>::new());
            world.advance(seconds(2));
            assert_eq!(told(&sender), ["expired"]);
            world.advance(seconds(10));
            assert_eq!(told(&sender), ["expired"]);
            assert_eq!(world.connect(v311("n")).messages_among_others().len(), 0);
            assert_eq!(told(&sender), Vec::<String>::new());
        });
    }
}

#[test]
fn counts_tell_of_expiry_while_the_nodes_are_away() {
    everywhere_with(open, |world| {
        let sender = world.connect(v5("sender"));
        for name in ["n1", "n2"] {
            world.connect(v311(name)).disconnect();
            assert_eq!(change(world, name, &["g"], &[]), MembershipOutcome::Done);
        }
        sender.publish_later(asking("ctx/to/group/g/x", "delivered").expiry(10));
        world.advance(seconds(3));
        let of = |expired: u32, done: bool| {
            format!(
                "{{\"receipt\":\"counts\",\"topic\":\"ctx/to/group/g/x\",\"members\":2,\"delivered\":0,\"stored\":2,\
                 \"expired\":{expired},\"dropped\":0,\"final\":{done}}}"
            )
        };
        assert_eq!(texts(&sender), [of(0, false)]);
        world.advance(seconds(11));
        assert_eq!(texts(&sender).last(), Some(&of(2, true)));
    });
}

#[test]
fn a_sender_gets_counts_of_a_message_to_many() {
    everywhere_with(open, |world| {
        let plain = world.connect(v5("plain"));
        assert_eq!(change(world, "plain", &["h"], &[]), MembershipOutcome::Done);
        let nodes: Vec<Client> = (0..8).map(|number| world.connect(v311(&format!("n{number}")))).collect();
        for number in 0..8 {
            assert_eq!(change(world, &format!("n{number}"), &["g"], &[]), MembershipOutcome::Done);
        }
        for node in &nodes[5..] {
            node.disconnect();
        }
        // A subscriber that is no member gets it, and is not counted.
        let curious = world.connect(v5("curious"));
        curious.subscribe("ctx/to/group/+/x", QoS::AtLeastOnce);
        plain.publish_later(asking("ctx/to/group/g/x", "delivered").expiry(100));
        assert_eq!(plain.messages_among_others().len(), 0);
        world.advance(seconds(3));
        let counts = |d: u32, e: u32, done: bool| {
            format!(
                "{{\"receipt\":\"counts\",\"topic\":\"ctx/to/group/g/x\",\"members\":8,\"delivered\":{d},\"stored\":3,\
                 \"expired\":{e},\"dropped\":0,\"final\":{done}}}"
            )
        };
        assert_eq!(texts(&plain), [counts(5, 0, false)]);
        assert_eq!(curious.messages().len(), 1);
        world.connect(v311("n5"));
        world.connect(v311("n6"));
        world.advance(seconds(3));
        assert_eq!(texts(&plain).last(), Some(&counts(7, 0, false)));
        world.advance(seconds(100));
        world.connect(v311("n7"));
        world.advance(seconds(3));
        assert_eq!(texts(&plain), [counts(7, 1, true)]);
        world.advance(seconds(10));
        assert_eq!(texts(&plain), Vec::<String>::new());
        plain.publish_later(asking("ctx/to/group/unknown", "delivered"));
        world.advance(seconds(3));
        let got = texts(&plain);
        assert!(got.len() == 1 && got[0].contains("\"members\":0") && got[0].contains("\"final\":true"), "{got:?}");
    });
}

#[test]
fn an_unknown_receipt_is_refused_if_the_sender_can_know() {
    everywhere_with(open, |world| {
        let (sender, node) = (world.connect(v5("office")), world.connect(v311("truck")));
        for (qos, topic) in [(QoS::AtLeastOnce, "ctx/to/node/truck"), (QoS::ExactlyOnce, "ctx/to/all/x")] {
            let refused = sender.publish(asking(topic, "bogus").qos(qos));
            assert_eq!(refused, ReasonCode::ImplementationSpecificError, "{topic}");
        }
        assert_eq!(node.messages().len(), 0);
        assert_eq!(world.dropped(Reason::NotUnderstood), 2);
        assert_eq!(sender.publish(asking("ctx/to/node/truck", "all")), ReasonCode::Success);
        assert_eq!(sender.publish(asking("elsewhere", "bogus")), ReasonCode::NoMatchingSubscribers, "it is no address");
        assert_eq!(node.messages().len(), 1);
    });
}

#[test]
fn receipts_do_not_go_where_their_sender_may_not_publish() {
    let world = World::with(2, |settings| {
        settings.addresses = Some(AddressSettings::default());
        settings.listeners.push(ListenerSettings { mobile_nodes: false, ..ListenerSettings::default() });
    });
    let _node = world.connect(v311("n"));
    let sender = world.connect(v5("sender"));
    let other = world.connect(v5("other").through(1));
    other.subscribe("#", AtLeastOnce);
    for forbidden in ["ctx/to/all", "$SYS/x"] {
        sender.publish_later(asking("ctx/to/node/n", "delivered").response(forbidden, b""));
        let got = sender.messages_among_others();
        assert_eq!(got.len(), 1, "{forbidden}");
        assert_eq!(got[0].topic, "ctx/receipts/sender");
    }
    // No other client reads its receipts.
    assert_eq!(other.messages_among_others().len(), 0);
}

#[test]
fn messages_beyond_the_limit_are_not_counted() {
    let world = World::with(1, open);
    let sender = world.connect(v5("sender"));
    world.connect(v311("n")).disconnect();
    for _ in 0..1_030 {
        sender.publish_later(asking("ctx/to/all", "delivered").qos(AtMostOnce));
    }
    sender.messages_among_others();
    world.advance(seconds(2));
    assert_eq!(told(&sender).len(), 1_024);
}

/// The broker sets the address of receipts. A client that could set it would make the broker publish to forbidden or
/// invalid topics.
#[test]
fn a_sender_cannot_set_the_address_of_receipts() {
    everywhere_with(open, |world| {
        let (sender, other) = (world.connect(v5("office")), world.connect(v5("other")));
        for filter in ["victim", "victim/#", "ctx/receipts/+"] {
            other.subscribe(filter, AtLeastOnce);
        }
        let node = world.connect(v5("truck"));
        let forged = |topic: &str, to: &str| message(topic, "x").qos1().user("receipt-to", to).user("receipt-id", "1");
        for to in ["victim", "victim/#", "ctx/receipts/other"] {
            for topic in ["ctx/to/node/truck", "ctx/to/group/g", "ctx/to/all"] {
                sender.publish_later(forged(topic, to));
            }
            world.connect(v5("gone").will(forged("ctx/to/node/truck", to))).lose();
        }
        let to_nodes = |got: &Delivered| !got.topic.starts_with("ctx/to/");
        world.advance(seconds(3));
        assert_eq!(other.messages_among_others().into_iter().filter(to_nodes).count(), 0);
        let got = node.messages_among_others();
        assert_eq!(got.len(), 9);
        assert!(got.iter().all(|message| message.user_properties.is_empty()), "{got:?}");
        // User properties on other topics are the client's own.
        sender.publish_later(message("elsewhere/x", "x"));
        other.subscribe("elsewhere", AtLeastOnce);
        sender.publish_later(forged("elsewhere", "a"));
        assert_eq!(other.messages_among_others()[0].user_properties.len(), 2);
    });
}

/// Each `+` of it takes three bytes of a topic.
#[test]
fn a_sender_with_the_longest_client_id_has_no_receipts() {
    let world = World::with(1, |settings| {
        open(settings);
        settings.listeners[0].max_client_id_len = 65_535;
    });
    let sender = world.connect(v5(&"+".repeat(65_535)));
    let node = world.connect(v5("n"));
    sender.publish_later(asking("ctx/to/node/n/a", "all"));
    let got = node.messages_among_others();
    assert_eq!(got.iter().map(Delivered::text).collect::<Vec<_>>(), ["x"]);
    assert!(told(&sender).is_empty());
    let level = "n".repeat(65_535 - "ctx/to/node/".len());
    let longest = world.connect(v5(&level));
    sender.publish_later(message(&format!("ctx/to/node/{level}"), "longest").qos1());
    assert_eq!(longest.messages_among_others()[0].text(), "longest");
}
