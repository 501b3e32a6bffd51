//! The receivers of messages to addresses.

use tidegate_engine::{Access, ListenerSettings, MembershipError, Reason, Right, Subject};
use tidegate_mqtt::SubscriptionOptions;

use super::*;

const ALL_QOS: [QoS; 3] = [AtMostOnce, AtLeastOnce, ExactlyOnce];

#[test]
fn a_node_gets_its_messages_without_subscribing() {
    everywhere_with(open, |world| {
        let sender = world.connect(v5("sender"));
        for number in 0..4 {
            let id = format!("n{number}");
            let node = world.connect(if number % 2 == 0 { v311(&id) } else { v5(&id) });
            for qos in ALL_QOS {
                let code = sender.publish(message(&format!("ctx/to/node/{id}/do/it"), "x").qos(qos));
                assert_eq!(code, ReasonCode::Success);
                assert_eq!(node.expect_publish(&format!("ctx/to/node/{id}/do/it"), "x").qos, qos);
            }
            sender.publish(message(&format!("ctx/to/node/{id}"), "y").qos1());
            let got = node.expect_message();
            assert_eq!((got.text().as_str(), got.retain, got.subscription_ids), ("y", false, vec![]));
            node.expect_nothing();
        }
        sender.expect_nothing();
    });
}

#[test]
fn a_broadcast_reaches_every_node_once() {
    everywhere_with(open, |world| {
        let nodes: Vec<Client> = (0..6).map(|number| world.connect(v311(&format!("n{number}")))).collect();
        let own = SubscriptionOptions::new(AtMostOnce);
        nodes[0].subscribe("#", AtMostOnce);
        nodes[1].subscribe("ctx/to/all/#", AtLeastOnce);
        let reader = world.connect(v5("reader"));
        reader.subscribe_with("ctx/to/all/+", own, Some(7));
        for qos in ALL_QOS {
            assert_eq!(nodes[5].publish(message("ctx/to/all/news", "x").qos(qos)), ReasonCode::Success);
            for node in &nodes {
                assert_eq!(node.expect_publish("ctx/to/all/news", "x").qos, qos, "as high as any of its subscriptions");
                node.expect_nothing();
            }
            let got = reader.expect_publish("ctx/to/all/news", "x");
            assert_eq!((got.qos, got.subscription_ids), (qos, vec![7]));
            reader.expect_nothing();
        }
        nodes[1].unsubscribe("ctx/to/all/#");
        nodes[2].unsubscribe_whatever_comes("ctx/to/all/#");
        nodes[5].publish(message("ctx/to/all", "z").qos1());
        for node in &nodes {
            node.expect_publish("ctx/to/all", "z");
            node.expect_nothing();
        }
    });
}

#[test]
fn a_groupcast_reaches_the_present_members_of_the_group() {
    everywhere_with(open, |world| {
        let nodes: Vec<Client> = (0..6).map(|number| world.connect(v5(&format!("n{number}")).lasting())).collect();
        let sender = world.connect(v5("sender").clean(true));
        let mut members = std::collections::BTreeSet::new();
        let changes: [(usize, &[&str], &[&str]); 8] = [
            (0, &["7"], &[]),
            (1, &["7", "8"], &[]),
            (2, &["8"], &["7"]),
            (3, &["7"], &["7"]),
            (0, &[], &["7"]),
            (4, &["7", "7"], &["8"]),
            (1, &[], &["8", "9"]),
            (1, &[], &["7"]),
        ];
        for (round, (node, add, remove)) in changes.into_iter().enumerate() {
            assert_eq!(change(world, &format!("n{node}"), add, remove), MembershipOutcome::Done);
            if remove.contains(&"7") {
                members.remove(&node);
            }
            if add.contains(&"7") {
                members.insert(node);
            }
            sender.publish(message("ctx/to/group/7/all", round.to_string()).qos1());
            for (number, node) in nodes.iter().enumerate() {
                let wanted = members.contains(&number).then(|| round.to_string());
                assert_eq!(node.payloads(), wanted.into_iter().collect::<Vec<_>>(), "node {number}, round {round}");
            }
        }
        assert_eq!(sender.publish(message("ctx/to/group/none", "x").qos1()), ReasonCode::NoMatchingSubscribers);
    });
}

#[test]
fn groups_outlive_the_connection_and_end_with_the_session() {
    everywhere_with(open, |world| {
        let node = world.connect(v5("n").lasting());
        assert_eq!(change(world, "n", &["g"], &[]), MembershipOutcome::Done);
        node.lose();
        let sender = world.connect(v5("sender"));
        sender.publish(message("ctx/to/group/g", "kept").qos1());
        let node = world.connect(v5("n").lasting());
        node.expect_publish("ctx/to/group/g", "kept");
        let home = world.home_of("n");
        assert_eq!(world.engine(home, |engine, _| engine.questions().groups_of(TenantId::DEFAULT, "n")), ["g"]);
    });
}

#[test]
fn changes_that_cannot_be_made_change_nothing() {
    let world = World::with(3, |settings| {
        open(settings);
        settings.addresses.as_mut().unwrap().max_groups_per_node = 2;
        let plain = ListenerSettings { mobile_nodes: false, ..ListenerSettings::default() };
        settings.listeners.push(plain);
    });
    let _node = world.connect(v5("n"));
    let _plain = world.connect(v5("plain").through(1));
    assert_eq!(change(&world, "unknown", &["g"], &[]), MembershipOutcome::NoSuchNode);
    assert_eq!(change(&world, "plain", &["g"], &[]), MembershipOutcome::NoSuchNode);
    for name in ["", "a/b", "+", "#"] {
        let refused = MembershipError::InvalidName { name: name.to_owned() };
        assert_eq!(change(&world, "n", &["g", name], &[]), MembershipOutcome::Refused(refused));
    }
    assert_eq!(change(&world, "n", &["a", "b"], &[]), MembershipOutcome::Done);
    assert_eq!(change(&world, "n", &["a", "c"], &["b"]), MembershipOutcome::Done);
    let refused = MembershipError::TooMany { client_id: "n".to_owned(), groups: 3, max: 2 };
    assert_eq!(change(&world, "n", &["d"], &[]), MembershipOutcome::Refused(refused));
    let groups = world.engine(world.home_of("n"), |engine, _| engine.questions().groups_of(TenantId::DEFAULT, "n"));
    assert_eq!(groups, ["a", "c"]);
}

#[test]
fn only_named_clients_of_node_listeners_are_nodes() {
    let world = World::with(3, |settings| {
        open(settings);
        settings.listeners.push(ListenerSettings { mobile_nodes: false, ..ListenerSettings::default() });
    });
    let plain = world.connect(v5("plain").through(1));
    let unnamed = world.connect(v5(""));
    let node = world.connect(v5("node"));
    plain.publish(message("ctx/to/all", "x").qos1());
    plain.publish(message("ctx/to/node/plain", "x").qos1());
    node.expect_publish("ctx/to/all", "x");
    plain.expect_nothing();
    unnamed.expect_nothing();
    // The same client through another listener is a node no longer.
    let node = world.connect(v5("node").through(1));
    plain.publish(message("ctx/to/all", "y").qos1());
    plain.publish(message("ctx/to/node/node", "y").qos1());
    node.expect_nothing();
}

#[test]
fn client_ids_are_escaped_in_addresses() {
    everywhere_with(open, |world| {
        let sender = world.connect(v5("sender"));
        for (id, level) in [("a/b", "a%2Fb"), ("+", "%2B"), ("#%", "%23%25"), ("50%", "50%")] {
            let node = world.connect(v5(id));
            sender.publish(message(&format!("ctx/to/node/{level}/x"), "x").qos1());
            node.expect_publish(&format!("ctx/to/node/{level}/x"), "x");
        }
    });
}

#[test]
fn no_retained_messages_are_brought_to_nodes() {
    let world = World::with(3, open);
    let sender = world.connect(v5("sender"));
    sender.publish(message("ctx/to/node/n", "kept").qos1().retain());
    let node = world.connect(v5("n"));
    node.expect_nothing();
    node.subscribe("ctx/to/node/n", AtLeastOnce);
    assert!(node.expect_publish("ctx/to/node/n", "kept").retain, "its own subscription brings it");
}

#[test]
fn without_addresses_these_are_topics_like_others() {
    let world = World::new(2);
    let client = world.connect(v5("n"));
    assert_eq!(client.publish(message("ctx/to/node/n", "x").qos1()), ReasonCode::NoMatchingSubscribers);
    assert_eq!(change(&world, "n", &["g"], &[]), MembershipOutcome::NoSuchNode);
    client.subscribe("ctx/#", AtLeastOnce);
    client.publish(message("ctx/to/all", "x").qos1());
    client.expect_publish("ctx/to/all", "x");
}

/// Allows everything by default, and `boss` by a rule.
#[derive(Debug)]
struct Boss;

impl Access for Boss {
    fn may_publish(&self, _: Subject<'_>, _: &str, _: QoS, _: bool) -> bool {
        true
    }

    fn may_subscribe(&self, _: Subject<'_>, _: &str, _: QoS, _: bool) -> bool {
        true
    }

    fn has_right(&self, subject: Subject<'_>, _: Right<'_>) -> bool {
        subject.client_id == "boss"
    }
}

#[test]
fn what_reaches_many_and_what_others_are_sent_needs_a_rule() {
    let guarded = |settings: &mut Settings| settings.addresses = Some(AddressSettings::default());
    everywhere_with(guarded, |world| {
        for with_rules in [false, true] {
            if with_rules {
                for shard in 0..world.shards() {
                    world.engine(shard, |engine, _| engine.control().set_access(Some(Box::new(Boss))));
                }
                world.run();
            }
            let node = world.connect(v5("node"));
            let boss = world.connect(v5("boss"));
            let allowed = if with_rules { ReasonCode::Success } else { ReasonCode::NotAuthorized };
            assert_eq!(change(world, "node", &["g"], &[]), MembershipOutcome::Done);
            let spy = world.connect(v5("spy"));
            spy.subscribe("#", AtLeastOnce);
            boss.subscribe("ctx/to/node/#", AtLeastOnce);
            for topic in ["ctx/to/all", "ctx/to/group/g", "ctx/receipts/node"] {
                assert_eq!(spy.publish(message(topic, "x").qos1()), ReasonCode::NotAuthorized, "{topic}");
                assert_eq!(boss.publish(message(topic, "x").qos1()), allowed, "{topic}");
                assert_eq!(node.payloads().len(), usize::from(with_rules), "{topic}");
                boss.payloads();
            }
            // Nodes find their gateways by this list.
            assert_eq!(spy.publish(message("ctx/gateways", "[]").qos1()), ReasonCode::NotAuthorized);
            assert_eq!(boss.publish(message("ctx/gateways", "[]").qos1()).is_error(), !with_rules);
            assert_eq!(spy.payloads().contains(&"[]".to_owned()), with_rules);
            spy.publish(message("ctx/to/node/node", "to one").qos1());
            node.expect_publish("ctx/to/node/node", "to one");
            assert_eq!(boss.payloads().len(), usize::from(with_rules));
            let others: Vec<_> = spy.messages().into_iter().filter(|got| got.topic != "ctx/to/all").collect();
            assert_eq!(others, [], "with rules: {with_rules}");
            spy.publish(message("ctx/to/app/x", "open").qos1());
            spy.expect_publish("ctx/to/app/x", "open");
            assert_eq!(spy.subscribe_code("$share/s/ctx/+/node/#", AtLeastOnce), Some(ReasonCode::NotAuthorized));
            assert_eq!(
                boss.subscribe_code("$share/s/ctx/+/node/#", AtLeastOnce).map(ReasonCode::is_error),
                Some(!with_rules)
            );
            for client in [node, boss, spy] {
                client.disconnect();
            }
        }
    });
}

#[test]
fn contexts_of_others_and_advertisements_need_a_rule() {
    let guarded = |settings: &mut Settings| settings.addresses = Some(AddressSettings::default());
    everywhere_with(guarded, |world| {
        for with_rules in [false, true] {
            if with_rules {
                for shard in 0..world.shards() {
                    world.engine(shard, |engine, _| engine.control().set_access(Some(Box::new(Boss))));
                }
                world.run();
            }
            let (node, boss, spy) = (world.connect(v5("no/de")), world.connect(v5("boss")), world.connect(v5("spy")));
            node.subscribe("ctx/context/#", AtLeastOnce);
            boss.subscribe("ctx/context/+", AtLeastOnce);
            spy.subscribe("#", AtLeastOnce);
            let own = message("ctx/context/no%2Fde", "{}");
            assert!(!node.publish(own.qos1()).is_error(), "its own");
            node.expect_publish("ctx/context/no%2Fde", "{}");
            assert_eq!(boss.payloads().len(), usize::from(with_rules));
            for topic in ["ctx/context/no%2Fde", "ctx/GroupAdvertisement/spy"] {
                assert_eq!(spy.publish(message(topic, "{}").qos1()), ReasonCode::NotAuthorized, "{topic}");
                assert_eq!(boss.publish(message(topic, "{}").qos1()).is_error(), !with_rules, "{topic}");
            }
            assert_eq!(spy.payloads(), Vec::<String>::new(), "with rules: {with_rules}");
            for filter in ["$share/s/ctx/context/#", "$share/s/ctx/GroupAdvertisement/+", "$share/s/ctx/+/x"] {
                assert_eq!(spy.subscribe_code(filter, AtLeastOnce), Some(ReasonCode::NotAuthorized), "{filter}");
            }
            for client in [node, boss, spy] {
                client.disconnect();
            }
        }
    });
}

#[test]
fn only_mobile_nodes_are_listed_for_balancing() {
    everywhere_with(open, |world| {
        let (_node, _application) = (world.connect(v5("truck")), world.connect(v5("")));
        let on = |shard: u16| {
            let names = |engine: &mut tidegate_engine::Engine| {
                engine.questions().connected_clients().map(|(_, name, _)| name.to_owned()).collect::<Vec<_>>()
            };
            world.engine(shard, |engine, _| names(engine))
        };
        assert_eq!((0..world.shards()).flat_map(on).collect::<Vec<_>>(), ["truck"]);
    });
}

/// The rules of the documentation, by what clients are called: the operator may speak to everybody, applications to
/// single nodes, nodes to applications.
#[derive(Debug)]
struct Roles;

impl Roles {
    fn allows(subject: Subject<'_>, topic: &str) -> bool {
        let to = |address: &str| topic.starts_with(address);
        match subject.client_id {
            "operator" => true,
            "application" => to("ctx/to/node/") || to("ctx/to/app/"),
            _ => to("ctx/to/app/"),
        }
    }
}

impl Access for Roles {
    fn may_publish(&self, subject: Subject<'_>, topic: &str, _: QoS, _: bool) -> bool {
        Self::allows(subject, topic)
    }

    fn may_subscribe(&self, _: Subject<'_>, _: &str, _: QoS, _: bool) -> bool {
        true
    }

    fn has_right(&self, subject: Subject<'_>, _: Right<'_>) -> bool {
        subject.client_id == "operator"
    }
}

#[test]
fn rules_on_address_topics_decide_who_may_publish_to_nodes() {
    let guarded = |settings: &mut Settings| settings.addresses = Some(AddressSettings::default());
    everywhere_with(guarded, |world| {
        for shard in 0..world.shards() {
            world.engine(shard, |engine, _| engine.control().set_access(Some(Box::new(Roles))));
        }
        world.run();
        let node = world.connect(v5("node"));
        assert_eq!(change(world, "node", &["g"], &[]), MembershipOutcome::Done);
        let topics = ["ctx/to/node/node/x", "ctx/to/group/g/x", "ctx/to/all/x"];
        for (who, served) in [("operator", 3), ("application", 1), ("other", 0)] {
            let client = world.connect(v5(who));
            for (number, topic) in topics.into_iter().enumerate() {
                let is_served = number < served;
                let expected = if is_served { ReasonCode::Success } else { ReasonCode::NotAuthorized };
                let before = world.counters().dropped[Reason::NotAuthorized.number()];
                assert_eq!(client.publish(message(topic, who).qos1()), expected, "{who} {topic}");
                let refused = world.counters().dropped[Reason::NotAuthorized.number()] - before;
                assert_eq!(refused, u64::from(!is_served), "{who} {topic}");
                assert_eq!(node.payloads(), vec![who; usize::from(is_served)], "{who} {topic}");
                client.payloads();
            }
            client.disconnect();
        }
    });
}
