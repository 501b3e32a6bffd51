//! Shared subscriptions: each message goes to one member of the group, and to another when that one is lost.

use std::collections::BTreeMap;

use tidegate_engine::{Reason, SharedStrategy};
use tidegate_mqtt::QoS::{AtLeastOnce, AtMostOnce, ExactlyOnce};
use tidegate_mqtt::{PacketType, ReasonCode, SubscriptionOptions};

use crate::harness::*;

const GROUP: &str = "$share/g/t/#";

/// Members of one group, on all shards.
fn members(world: &World, count: u16) -> Vec<Client> {
    (0..count)
        .map(|number| {
            let member = world.connect(v5(&world.name_on(number, &format!("m{number}-"))));
            member.subscribe(GROUP, ExactlyOnce);
            member
        })
        .collect()
}

fn counts(members: &[Client]) -> Vec<usize> {
    members.iter().map(|member| member.messages().len()).collect()
}

#[test]
fn each_message_goes_to_one_member() {
    everywhere(|world| {
        let members = members(world, 3);
        let outsider = world.connect(v5("outsider"));
        outsider.subscribe("t/+", AtLeastOnce);
        let publisher = world.connect(v5("p"));
        for number in 0..9 {
            assert_eq!(publisher.publish(message("t/1", number.to_string()).qos1()), ReasonCode::Success);
        }
        assert_eq!(counts(&members), [3, 3, 3], "in turn");
        assert_eq!(outsider.messages().len(), 9);
    });
}

#[test]
fn groups_of_other_names_and_filters_get_their_own_copy() {
    everywhere(|world| {
        let one = world.connect(v5("one"));
        one.subscribe_with("$share/a/t/#", SubscriptionOptions::new(AtLeastOnce), Some(1));
        one.subscribe_with("$share/b/t/#", SubscriptionOptions::new(AtMostOnce), Some(2));
        one.subscribe_with("$share/a/t/+", SubscriptionOptions::new(AtLeastOnce), None);
        one.subscribe_with("t/1", SubscriptionOptions::new(AtLeastOnce), Some(4));
        world.connect(v5("p")).publish(message("t/1", "x").qos1());
        let mut ids: Vec<_> = one.messages().into_iter().map(|got| got.subscription_ids).collect();
        ids.sort();
        assert_eq!(ids, [vec![], vec![1], vec![2], vec![4]]);
    });
}

#[test]
fn the_sticky_strategy_stays_with_one_member_until_it_leaves() {
    everywhere_with(
        |settings| settings.shared.strategy = SharedStrategy::Sticky,
        |world| {
            let members = members(world, 3);
            let publisher = world.connect(v5("p"));
            for _ in 0..6 {
                publisher.publish(message("t/1", "x").qos1());
            }
            let counts_before = counts(&members);
            let favourite = counts_before.iter().position(|count| *count == 6).expect("one takes all");
            members[favourite].lose();
            for _ in 0..6 {
                publisher.publish(message("t/1", "x").qos1());
            }
            let rest: Vec<Client> =
                members.iter().enumerate().filter(|(at, _)| *at != favourite).map(|(_, m)| m.clone()).collect();
            assert!(counts(&rest).contains(&6));
        },
    );
}

#[test]
fn hashing_by_topic_sends_a_topic_to_one_member() {
    everywhere_with(
        |settings| settings.shared.strategy = SharedStrategy::HashTopic,
        |world| {
            let members = members(world, 3);
            let publishers = [world.connect(v5("p")), world.connect(v5("q"))];
            for number in 0..60 {
                publishers[number % 2].publish(message(&format!("t/{}", number % 20), "x").qos1());
            }
            let mut owner: BTreeMap<String, String> = BTreeMap::new();
            for member in &members {
                let got = member.messages();
                assert!(!got.is_empty(), "20 topics spread over three members");
                for got in got {
                    let known = owner.entry(got.topic).or_insert_with(|| member.id().to_owned());
                    assert_eq!(known, member.id());
                }
            }
        },
    );
}

#[test]
fn hashing_by_client_sends_a_publisher_to_one_member() {
    everywhere_with(
        |settings| settings.shared.strategy = SharedStrategy::HashClient,
        |world| {
            let members = members(world, 3);
            let publishers: Vec<Client> = (0..12).map(|number| world.connect(v5(&format!("p{number}")))).collect();
            for number in 0..5 {
                for publisher in &publishers {
                    publisher.publish(message(&format!("t/{number}"), publisher.id()).qos1());
                }
            }
            let mut owner: BTreeMap<String, String> = BTreeMap::new();
            for member in &members {
                for got in member.messages() {
                    let known = owner.entry(got.text()).or_insert_with(|| member.id().to_owned());
                    assert_eq!(known, member.id());
                }
            }
            assert_eq!(owner.len(), 12);
        },
    );
}

#[test]
fn online_members_come_before_offline_ones() {
    everywhere(|world| {
        let away = world.connect(v5("away").lasting());
        away.subscribe(GROUP, AtLeastOnce);
        let here = world.connect(v5("here").lasting());
        here.subscribe(GROUP, AtLeastOnce);
        away.lose();
        let publisher = world.connect(v5("p"));
        for _ in 0..4 {
            publisher.publish(message("t/1", "x").qos1());
        }
        assert_eq!(here.messages().len(), 4);
        here.lose();
        for _ in 0..4 {
            publisher.publish(message("t/1", "y").qos1());
        }
        assert_eq!(world.gauges().queued_messages, 4);
        let (away, here) = (world.connect(v5("away").lasting()), world.connect(v5("here").lasting()));
        assert_eq!(counts(&[away, here]).iter().sum::<usize>(), 4);
    });
}

#[test]
fn a_lost_members_unacknowledged_messages_go_to_another() {
    everywhere(|world| {
        let lost = world.connect(v5("lost").receive_maximum(2).manual());
        lost.subscribe(GROUP, AtLeastOnce);
        let publisher = world.connect(v5("p"));
        for number in 1..=4 {
            publisher.publish(message("t/1", number.to_string()).qos1());
        }
        assert_eq!(lost.payloads(), ["1", "2"]);
        let other = world.connect(v5("other"));
        other.subscribe(GROUP, AtLeastOnce);
        lost.lose();
        assert_eq!(other.payloads(), ["1", "2", "3", "4"]);
        assert_eq!(world.counters().dropped_total(), 0);
    });
}

#[test]
fn a_sent_qos_2_message_goes_to_no_other_member() {
    everywhere(|world| {
        let lost = world.connect(v5("lost").receive_maximum(1).manual());
        lost.subscribe(GROUP, ExactlyOnce);
        let publisher = world.connect(v5("p"));
        publisher.publish(message("t/1", "sent").qos2());
        publisher.publish(message("t/1", "waiting").qos2());
        lost.expect_publish("t/1", "sent");
        let other = world.connect(v5("other"));
        other.subscribe(GROUP, ExactlyOnce);
        lost.lose();
        assert_eq!(other.payloads(), ["waiting"]);
        assert_eq!(world.dropped(Reason::SessionDiscarded), 1, "the message that may have arrived");
    });
}

#[test]
fn an_offline_member_keeps_sent_messages_until_its_end() {
    everywhere(|world| {
        let away = world.connect(v5("away").expiry(60).manual());
        away.subscribe(GROUP, AtLeastOnce);
        let publisher = world.connect(v5("p"));
        publisher.publish(message("t/1", "1").qos1());
        away.expect_publish("t/1", "1");
        away.lose();
        let other = world.connect(v5("other"));
        other.subscribe(GROUP, AtLeastOnce);
        other.expect_nothing();
        let back = world.connect(v5("away").clean(false).expiry(60).manual());
        assert!(back.expect_publish("t/1", "1").dup);
        back.lose();
        world.advance(seconds(60));
        other.expect_publish("t/1", "1");
    });
}

#[test]
fn messages_without_a_member_left_are_counted() {
    everywhere(|world| {
        let only = world.connect(v5("only").receive_maximum(1).manual());
        only.subscribe(GROUP, AtLeastOnce);
        let publisher = world.connect(v5("p"));
        for number in 1..=3 {
            publisher.publish(message("t/1", number.to_string()).qos1());
        }
        only.expect_publish("t/1", "1");
        only.lose();
        assert_eq!(world.dropped(Reason::NoGroupMember), 3);
        assert_eq!(publisher.publish(message("t/1", "4").qos1()), ReasonCode::NoMatchingSubscribers);
        assert_eq!(world.gauges().shared_subscriptions, 0);
    });
}

#[test]
fn unsubscribing_returns_queued_and_keeps_sent_messages() {
    everywhere(|world| {
        let leaver = world.connect(v5("leaver").receive_maximum(1).manual());
        leaver.subscribe_with(GROUP, SubscriptionOptions::new(AtLeastOnce), Some(1));
        let publisher = world.connect(v5("p"));
        for number in 1..=2 {
            publisher.publish(message("t/1", number.to_string()).qos1());
        }
        // The same membership with another identifier.
        leaver.expect_publish("t/1", "1");
        leaver.subscribe_with(GROUP, SubscriptionOptions::new(AtLeastOnce), Some(2));
        publisher.publish(message("t/1", "3").qos1());
        let other = world.connect(v5("other"));
        other.subscribe(GROUP, AtLeastOnce);
        assert_eq!(leaver.unsubscribe(GROUP), [ReasonCode::Success]);
        assert_eq!(other.payloads(), ["2", "3"]);
        leaver.puback(tidegate_mqtt::PacketId::MIN);
        leaver.expect_nothing();
        assert_eq!(world.gauges().queued_messages, 0);
    });
}

#[test]
fn a_leaving_member_loses_no_message_under_way() {
    let world = World::new(3);
    let name = world.name_on(0, "g/t");
    let (group, topic) = (format!("$share/{name}"), name.strip_prefix("g/").unwrap().to_owned());
    let publisher = world.connect(v5(&world.name_on(0, "p")));
    let leaver = world.connect(v5(&world.name_on(1, "leaver")));
    leaver.subscribe(&group, AtLeastOnce);
    world.hold(0, 1);
    publisher.send_publish(message(&topic, "x").qos1());
    world.run();
    let stays = world.connect(v5(&world.name_on(2, "stays")));
    stays.subscribe_later(&group);
    leaver.send_bytes(&[0xE0, 0]);
    world.release(0, 1);
    stays.expect(PacketType::SubAck);
    stays.expect_publish(&topic, "x");
    assert_eq!(world.counters().dropped_total(), 0);
}

#[test]
fn shared_subscriptions_may_be_switched_off() {
    everywhere_with(
        |settings| settings.shared.available = false,
        |world| {
            let client = world.connect(v5("a"));
            let id = client.send_subscribe(&[(GROUP, SubscriptionOptions::new(AtLeastOnce))], None);
            assert_eq!(client.expect_sub_ack(id), [ReasonCode::SharedSubscriptionsNotSupported]);
        },
    );
}

#[test]
fn a_group_may_share_topics_of_the_broker() {
    everywhere(|world| {
        let client = world.connect(v5("a"));
        client.subscribe_later("$share/g/$SYS/broker/uptime");
        world.advance(seconds(10));
        assert_eq!(client.messages_among_others().len(), 2);
    });
}
