//! Messages cross to where they are wanted, once and in order.

use tidegate_engine::{TenantId, partition_of};

use super::world::*;

const THREE: [(&str, u16); 3] = [("a", 1), ("b", 2), ("c", 3)];

#[test]
fn a_publish_on_one_node_reaches_subscribers_on_all_in_order() {
    let world = World::of(&THREE);
    for qos in 0..3 {
        let mut subscribers: Vec<_> = THREE
            .iter()
            .flat_map(|(node, _)| (0..3).map(move |number| (*node, number)))
            .map(|(node, number)| world.connect(node, &format!("subscriber-{qos}-{node}-{number}")))
            .collect();
        for subscriber in &mut subscribers {
            subscribe_at(subscriber, "t/+", qos);
        }
        for (node, _) in THREE {
            let mut publisher = world.connect(node, &format!("publisher-{qos}-{node}"));
            for number in 0..30 {
                let payload = format!("{node}-{number}");
                publish_and_wait(&mut publisher, &format!("t/{}", number % 2), payload.as_bytes(), qos, false);
            }
            for subscriber in &mut subscribers {
                for number in 0..30 {
                    let expected = Got {
                        topic: format!("t/{}", number % 2),
                        payload: format!("{node}-{number}"),
                        qos,
                        retain: false,
                    };
                    assert_eq!(receive_message(subscriber), expected);
                }
            }
        }
        subscribers.iter_mut().for_each(expect_nothing);
    }
    world.expect_well();
}

#[test]
fn pipelined_messages_keep_the_order_of_their_publisher() {
    const MESSAGES: usize = 3_000;
    let world = World::of(&[("a", 2), ("b", 2)]);
    let mut subscriber = world.connect("b", "subscriber");
    subscribe_at(&mut subscriber, "fast/#", 0);
    let mut publisher = world.connect("a", "publisher");
    let sent: Vec<String> = (0..MESSAGES).map(|number| format!("{number:0100}")).collect();
    for chunk in sent.chunks(100) {
        let packets: Vec<u8> =
            chunk.iter().flat_map(|payload| publish_at("fast/x", payload.as_bytes(), 0, 0, false)).collect();
        publisher.send(&packets);
    }
    let got: Vec<String> = (0..MESSAGES).map(|_| receive_message(&mut subscriber).payload).collect();
    assert!(got == sent, "the order differs");
}

#[test]
fn a_message_crosses_once_to_each_interested_shard() {
    let world = World::of(&THREE);
    let messages = |to: &str| world.link("a", to).counters.messages_out;
    let mut publisher = world.connect("a", "publisher");
    for number in 0..20 {
        publish_and_wait(&mut publisher, "wanted/1", format!("{number}").as_bytes(), 1, false);
    }
    assert_eq!((messages("b"), messages("c")), (0, 0), "no client wants them");
    // Several clients of one shard.
    let mut subscribers: Vec<_> = Vec::new();
    for number in 0.. {
        let client_id = format!("s-{number}");
        if partition_of(TenantId::DEFAULT, &client_id).0 % 2 == 1 {
            subscribers.push(world.connect("b", &client_id));
        }
        if subscribers.len() == 4 {
            break;
        }
    }
    for subscriber in &mut subscribers {
        subscribe_at(subscriber, "wanted/#", 1);
    }
    for number in 0..20 {
        publish_and_wait(&mut publisher, "wanted/1", format!("{number}").as_bytes(), 1, false);
    }
    assert_eq!((messages("b"), messages("c")), (20, 0));
    assert_eq!(world.link("b", "a").counters.messages_in, 20);
    for subscriber in &mut subscribers {
        (0..20).for_each(|number| assert_eq!(receive_message(subscriber).payload, format!("{number}")));
        // The last subscriber is gone.
        subscriber.send(&[0xa2, 12, 0, 2, 0, 8, b'w', b'a', b'n', b't', b'e', b'd', b'/', b'#']);
        subscriber.expect(&[0xb0, 2, 0, 2]);
    }
    // The word of that goes the same way as this message does, and before it.
    let mut last = world.connect("b", "last");
    subscribe_at(&mut last, "after", 1);
    publish_and_wait(&mut publisher, "after", b"x", 1, false);
    let before = messages("b");
    publish_and_wait(&mut publisher, "wanted/1", b"x", 1, false);
    assert_eq!(messages("b"), before);
}

#[test]
fn new_subscribers_of_all_nodes_get_retained_values() {
    let world = World::of(&THREE);
    let mut publishers: Vec<_> =
        THREE.iter().map(|(node, _)| world.connect(node, &format!("publisher-{node}"))).collect();
    // Topics of all homes, and each publisher sets a third of them.
    for number in 0..48 {
        publish_and_wait(&mut publishers[number % 3], &format!("kept/{number}"), b"old", 1, true);
        publish_and_wait(&mut publishers[(number + 1) % 3], &format!("kept/{number}"), b"new", 1, true);
    }
    for (node, _) in THREE {
        let mut by_name = world.connect(node, &format!("by-name-{node}"));
        subscribe_at(&mut by_name, "kept/17", 1);
        let got = receive_message(&mut by_name);
        assert_eq!((got.payload.as_str(), got.retain), ("new", true));
        let mut all = world.connect(node, &format!("all-{node}"));
        subscribe_at(&mut all, "kept/+", 1);
        let mut topics: Vec<String> = (0..48)
            .map(|_| {
                let got = receive_message(&mut all);
                assert_eq!((got.payload.as_str(), got.retain), ("new", true), "{got:?}");
                got.topic
            })
            .collect();
        topics.sort();
        topics.dedup();
        assert_eq!(topics.len(), 48);
        expect_nothing(&mut all);
    }
    // Each value is kept by the home of its topic alone.
    let kept: u64 = world.nodes.values().map(|node| node.handle().report().unwrap().gauges.retained_messages).sum();
    assert_eq!(kept, 48);
}

#[test]
fn a_shared_subscription_over_nodes_deals_each_message_once() {
    let world = World::of(&THREE);
    for (round, filter) in ["$share/g/job/#", "$share/h/job/#", "$share/other/job/#"].into_iter().enumerate() {
        let mut members: Vec<_> = THREE
            .iter()
            .map(|(node, _)| {
                let mut member = world.connect(node, &format!("member-{round}-{node}"));
                subscribe_at(&mut member, filter, 1);
                member
            })
            .collect();
        let mut publisher = world.connect(THREE[round].0, &format!("publisher-{round}"));
        for number in 0..60 {
            publish_and_wait(&mut publisher, "job/1", format!("{number:02}").as_bytes(), 1, false);
        }
        // The home of the group answers for the deal, which may still be under way to the member.
        let mut dealt = vec![Vec::new(); members.len()];
        while dealt.iter().map(Vec::len).sum::<usize>() < 60 {
            members.iter_mut().zip(&mut dealt).for_each(|(member, got)| drain(member, got));
        }
        members.iter_mut().for_each(expect_nothing);
        assert!(dealt.iter().all(|got| !got.is_empty()), "each member has its share");
        let mut dealt = dealt.concat();
        dealt.sort();
        let expected: Vec<String> = (0..60).map(|number| format!("{number:02}")).collect();
        assert_eq!(dealt, expected);
    }
}

/// Takes the messages that a member has received so far.
fn drain(member: &mut crate::wire::Client, got: &mut Vec<String>) {
    member.send(&crate::wire::PINGREQ);
    loop {
        let (first, body) = receive_packet(member);
        if first == crate::wire::PINGRESP[0] {
            return;
        }
        member.send(&[&[0x40, 2][..], &body[7..9]].concat());
        got.push(String::from_utf8(body[9..].to_vec()).unwrap());
    }
}

#[test]
fn a_large_message_crosses_whole() {
    let world = World::of(&[("a", 1), ("b", 2)]);
    let payload: Vec<u8> = (0..1_500_000_u32).map(|byte| (byte % 251) as u8).collect();
    let mut subscriber = world.connect("b", "subscriber");
    subscribe_at(&mut subscriber, "large", 1);
    let mut publisher = world.connect("a", "publisher");
    for _ in 0..4 {
        publisher.send(&crate::wire::publish_qos1("large", &payload));
        publisher.expect(&crate::wire::PUBACK);
        let (first, body) = receive_packet(&mut subscriber);
        assert_eq!(first, 0x32);
        assert!(body[9..] == payload);
        subscriber.send(&[0x40, 2, body[7], body[8]]);
    }
}
