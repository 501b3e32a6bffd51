//! Messages to a node are served by priority, from clients and from the bus.

use tidegate_engine::{InnerPublication, Millis, PriorityRule, PrioritySource, TenantId};

use super::*;

fn by_property(settings: &mut Settings) {
    open(settings);
    settings.priority = vec![PriorityRule { filter: "ctx/to/#".into(), source: PrioritySource::Property, default: 4 }];
    settings.queue.lower_priority_share = 0;
}

/// The property by which a record from the bus names its priority.
fn property(level: &str) -> Vec<u8> {
    let text = |text: &str| [&(text.len() as u16).to_be_bytes()[..], text.as_bytes()].concat();
    [vec![0x26], text("priority"), text(level)].concat()
}

#[test]
fn messages_to_a_node_come_by_priority_from_every_source() {
    everywhere_with(by_property, |world| {
        let sender = world.connect(v5("office"));
        for node in [v311("n"), v5("n")] {
            world.connect(node.clone()).disconnect();
            assert_eq!(change(world, "n", &["g"], &[]), MembershipOutcome::Done);
            // One to each kind of address, the least urgent first; a message without a level has 4.
            for (topic, level) in [("ctx/to/node/n/a", "0"), ("ctx/to/group/g/a", "2"), ("ctx/to/all/a", "9")] {
                sender.publish(message(topic, level).qos1().user("priority", level));
            }
            sender.publish(message("ctx/to/node/n", "4").qos(ExactlyOnce));
            let record = InnerPublication {
                tenant: TenantId::DEFAULT,
                topic: "ctx/to/node/n/record".into(),
                qos: AtLeastOnce,
                retain: false,
                properties: property("7"),
                payload: "7".into(),
                expires_at: Millis::NEVER,
            };
            world.publish_as_broker(world.home_of(&record.topic), &record, 1);
            assert_eq!(world.take_published(), [(1, Ok(ReasonCode::Success))]);
            let back = world.connect(node);
            let got: Vec<String> = back.messages_among_others().iter().map(Delivered::text).collect();
            assert_eq!(got, ["9", "7", "4", "2", "0"]);
            back.disconnect();
        }
    });
}

#[test]
fn kept_qos0_messages_in_flight_stay_before_later_ones() {
    everywhere_with(open, |world| {
        let node = || v5("n").lasting().receive_maximum(1).manual();
        world.connect(node()).lose();
        let sender = world.connect(v5("sender"));
        for text in ["1", "2"] {
            sender.publish(message("ctx/to/node/n", text));
        }
        // Both are in flight when the connection breaks, and only one may be at the next one.
        world.connect(node().clean(false).receive_maximum(2)).lose();
        let back = world.connect(node().clean(false));
        sender.publish(message("ctx/to/node/n", "3"));
        let mut got = Vec::new();
        for _ in 0..3 {
            world.run();
            for message in back.messages_among_others() {
                got.push(message.text());
                if let Some(id) = message.id {
                    back.puback(id);
                }
            }
        }
        assert_eq!(got, ["1", "2", "3"]);
    });
}
