//! Nodes of a cluster come, go and die; stories without such faults are played in clusters everywhere.

use tidegate_engine::{Reason, TenantId, partition_of};
use tidegate_mqtt::QoS::{self, AtLeastOnce, ExactlyOnce};
use tidegate_mqtt::{ReasonCode, SubscriptionOptions};

use crate::harness::*;

/// Three nodes of one shard, and a client at home on each.
fn three() -> (World, Vec<Client>) {
    let world = World::cluster(3, 1, |_| {});
    let clients = (0..3).map(|node| world.connect(v5(&world.name_on(node, "client ")))).collect();
    (world, clients)
}

fn crossings(world: &World) -> u64 {
    world.counters().shard_messages_out
}

#[test]
fn a_message_goes_only_to_nodes_with_interest() {
    let (world, clients) = three();
    clients[1].subscribe("t/+", AtLeastOnce);
    clients[0].publish(message("u", "unwanted").qos1());
    assert_eq!(crossings(&world), 0);
    clients[0].publish(message("t/1", "one").qos1());
    assert_eq!(crossings(&world), 1);
    clients[2].subscribe("t/1", AtLeastOnce);
    clients[0].publish(message("t/1", "two").qos1());
    assert_eq!(
        (crossings(&world), clients[1].payloads(), clients[2].payloads().len()),
        (3, vec!["one".into(), "two".into()], 1)
    );
    clients[1].unsubscribe("t/+");
    clients[0].publish(message("t/1", "three").qos1());
    assert_eq!(crossings(&world), 4);
}

#[test]
fn sys_topics_of_a_node_stay_there() {
    let (world, clients) = three();
    clients[1].subscribe("$SYS/#", AtLeastOnce);
    world.advance(seconds(30));
    assert!(!clients[1].messages().is_empty());
    assert_eq!(crossings(&world), 0);
}

#[test]
fn a_value_that_is_on_its_way_to_its_home_is_not_missed() {
    let world = World::cluster(3, 1, |_| {});
    let topic = world.name_on(2, "topic ");
    let publisher = world.connect(v5(&world.name_on(0, "publisher ")));
    let late = world.connect(v5(&world.name_on(1, "late ")));
    publisher.publish(message(&topic, "old").qos1().retain());
    // The new value is still on its way to its topic's home while another client begins to ask for it.
    world.hold(0, 2);
    publisher.send_publish(message(&topic, "new").qos1().retain());
    world.run();
    late.send_subscribe(&[(&topic, tidegate_mqtt::SubscriptionOptions::new(AtLeastOnce))], None);
    world.run();
    late.expect_nothing();
    world.release(0, 2);
    let got: Vec<_> = late.messages_among_others().into_iter().map(|got| got.payload).collect();
    assert_eq!(got, [b"new"]);
}

#[test]
fn a_client_waiting_for_a_dead_node_asks_again() {
    for qos in [AtLeastOnce, ExactlyOnce] {
        let (world, clients) = three();
        clients[1].subscribe("t", qos);
        let survivor = world.connect(v5(&world.name_on(2, "survivor ")));
        survivor.subscribe("t", qos);
        let publisher = v5(&world.name_on(0, "publisher ")).lasting();
        let first = world.connect(publisher.clone());
        world.hold(0, 1);
        first.send_publish(message("t", "x").qos(qos));
        world.run();
        assert!(first.answers().is_empty(), "a node has not confirmed it");
        world.end_node(1);
        first.expect_disconnect(ReasonCode::ServerBusy);
        assert_eq!(first.expect_closed(), Reason::NodeLost);
        let again = world.connect(publisher.clean(false));
        again.publish(message("t", "x").qos(qos));
        // It had arrived at the living nodes, and only the acknowledgement was missing. At QoS 2 its packet id is
        // known.
        let wanted: &[&str] = if qos == ExactlyOnce { &["x"] } else { &["x", "x"] };
        assert_eq!(survivor.payloads(), wanted);
        clients[0].expect_open();
    }
}

#[test]
fn a_dead_nodes_interest_holds_acks_until_it_is_replaced() {
    for qos in [AtLeastOnce, ExactlyOnce] {
        let (world, clients) = three();
        clients[1].subscribe("wanted/#", qos);
        let connect = |stem| world.connect(v5(&world.name_on(0, stem)));
        let [first, second, third] = ["first ", "second ", "third "].map(connect);
        let topic = world.name_on(1, "topic ");
        world.await_node(1);
        // No client of the dead node wants these.
        first.publish(message("other", "x").qos(qos));
        first.send_publish(message("wanted/a", "x").qos(QoS::AtMostOnce));
        world.run();
        first.expect_open();
        first.send_publish(message("wanted/a", "x").qos(qos));
        world.run();
        first.expect_disconnect(ReasonCode::ServerBusy);
        assert_eq!(first.expect_closed(), Reason::NodeLost);
        // A value whose home is gone would be missed there.
        second.send_publish(message(&topic, "x").qos(qos).retain());
        world.run();
        second.expect_disconnect(ReasonCode::ServerBusy);
        assert_eq!(second.expect_closed(), Reason::NodeLost);
        world.replace_node(1);
        third.publish(message("wanted/a", "x").qos(qos));
        third.publish(message(&topic, "x").qos(qos).retain());
    }
}

#[test]
fn others_hear_nothing_of_a_node_that_dies() {
    let (world, clients) = three();
    let subscriber = world.connect(v5(&world.name_on(2, "s")));
    subscriber.subscribe("t", AtLeastOnce);
    clients[0].publish(message("t", "before").qos1());
    world.end_node(1);
    assert_eq!(clients[1].expect_closed(), Reason::ConnectionLost);
    for (number, client) in clients.iter().enumerate().filter(|(number, _)| *number != 1) {
        client.expect_open();
        assert_eq!(client.publish(message("t", number.to_string()).qos1()), ReasonCode::Success);
    }
    assert_eq!(subscriber.payloads(), ["before", "0", "2"]);
}

#[test]
fn a_subscribe_does_not_wait_for_a_node_that_dies() {
    let (world, clients) = three();
    world.hold(0, 1);
    let id = clients[0].send_subscribe(&[("t/#", tidegate_mqtt::SubscriptionOptions::new(AtLeastOnce))], None);
    world.run();
    clients[0].expect_nothing();
    world.end_node(1);
    assert_eq!(clients[0].expect_sub_ack(id).len(), 1);
    clients[2].publish(message("t/1", "x").qos1());
    assert_eq!(clients[0].payloads(), ["x"]);
}

#[test]
fn a_fetch_continues_without_a_dead_node() {
    let (world, clients) = three();
    let topics: Vec<String> = (0..3).map(|node| world.name_on(node, "t/")).collect();
    for topic in &topics {
        clients[0].publish(message(topic, "kept").qos1().retain());
    }
    world.hold(0, 1);
    clients[0].subscribe_later("t/#");
    world.run();
    world.end_node(1);
    let got: Vec<String> = clients[0].messages_among_others().into_iter().map(|got| got.topic).collect();
    assert!(got.contains(&topics[0]) && got.contains(&topics[2]) && got.len() == 2, "{got:?}");
}

#[test]
fn a_publisher_does_not_wait_for_the_link_to_a_node_that_dies() {
    let world = World::cluster(2, 1, |settings| settings.limits.shard_link_bytes = 1000);
    let here = world.connect(v5(&world.name_on(0, "here ")));
    here.subscribe("t", QoS::AtMostOnce);
    let there = world.connect(v5(&world.name_on(1, "there ")));
    there.subscribe("t", QoS::AtMostOnce);
    let publisher = world.connect(v5(&world.name_on(0, "publisher ")));
    world.hold(0, 1);
    for number in 0..50_u32 {
        publisher.send_publish(message("t", format!("{number:0>100}")));
    }
    world.run();
    assert_eq!(world.counters().publishers_parked, 1);
    world.end_node(1);
    assert_eq!(here.payloads().len(), 50);
    assert_eq!(world.gauges().link_bytes, 0);
}

#[test]
fn a_group_continues_with_its_living_members() {
    for home in 0..3 {
        let (world, clients) = three();
        let group = world.name_on(home, "group ").replace('/', " ");
        let group =
            (0..1000).map(|number| format!("{group}{number}")).find(|it| world.home_of(&format!("{it}/t")) == home);
        let filter = format!("$share/{}/t", group.expect("one of many names"));
        for client in &clients {
            client.subscribe(&filter, AtLeastOnce);
        }
        for number in 0..6 {
            clients[0].publish(message("t", number.to_string()).qos1());
        }
        let got: Vec<usize> = clients.iter().map(|client| client.messages().len()).collect();
        assert_eq!(got, [2, 2, 2], "home {home}");
        world.end_node(1);
        for number in 0..6 {
            assert_eq!(clients[0].publish(message("t", number.to_string()).qos1()), ReasonCode::Success);
        }
        let got: Vec<usize> = [0, 2].iter().map(|node| clients[*node].messages().len()).collect();
        assert_eq!(got, [3, 3], "home {home}");
    }
}

#[test]
fn a_joining_node_knows_all_interest_before_it_serves() {
    let (world, clients) = three();
    world.end_node(1);
    for filter in ["t/#", "exact"] {
        clients[0].subscribe(filter, AtLeastOnce);
    }
    clients[2].subscribe("$share/g/t/#", AtLeastOnce);
    world.hold(0, 1);
    world.begin_node(1);
    assert!(!world.engine(1, |engine, _| engine.questions().is_settled()), "it does not know of all");
    world.release(0, 1);
    assert!(world.engine(1, |engine, _| engine.questions().is_settled()));
    let new = world.connect(v5(&world.name_on(1, "new ")));
    new.publish(message("t/1", "x").qos1());
    new.publish(message("exact", "y").qos1());
    assert_eq!((clients[0].payloads(), clients[2].payloads()), (vec!["x".into(), "y".into()], vec!["x".to_owned()]));
    new.subscribe("back", AtLeastOnce);
    clients[0].publish(message("back", "z").qos1());
    assert_eq!(new.payloads(), ["z"]);
}

#[test]
fn nodes_that_keep_dying_and_returning_leave_nothing_behind() {
    let world = World::cluster(3, 2, |_| {});
    let steady: Vec<Client> = (0..2).map(|shard| world.connect(v5(&world.name_on(shard, "steady ")))).collect();
    steady[0].subscribe("t/#", ExactlyOnce);
    steady[1].subscribe("$share/g/t/#", ExactlyOnce);
    for round in 0..10 {
        let node = 1 + round % 2;
        let guests: Vec<Client> =
            (0..4).map(|number| world.connect(v5(&world.name_on(2 + number, &format!("guest {round} "))))).collect();
        for guest in &guests {
            guest.subscribe("t/+", AtLeastOnce);
            guest.subscribe("$share/g/t/#", AtLeastOnce);
            guest.publish(message("t/1", "hello").qos2());
        }
        world.end_node(node);
        steady[1].publish(message("t/2", "between").qos2());
        world.begin_node(node);
    }
    steady[0].messages();
    steady[1].messages();
    for number in 0..10 {
        steady[1].publish(message("t/3", number.to_string()).qos2());
    }
    assert_eq!(steady[0].payloads().len(), 10);
}

/// A group with a member at node 1, which holds a message dealt by the group at node 0.
fn dealt_elsewhere(settings: impl FnOnce(&mut tidegate_engine::Settings)) -> (World, Client, Client, String) {
    let world = World::cluster(3, 1, settings);
    let names = (0..1000).map(|number| format!("t{number}"));
    let topic = names.into_iter().find(|it| world.home_of(&format!("g/{it}")) == 0).expect("one of many names");
    let member = world.connect(v5(&world.name_on(1, "member ")).manual());
    member.subscribe(&format!("$share/g/{topic}"), ExactlyOnce);
    let publisher = world.connect(v5(&world.name_on(2, "publisher ")));
    (world, member, publisher, topic)
}

fn texts(client: &Client) -> Vec<String> {
    client.messages_among_others().into_iter().map(|got| got.text()).collect()
}

#[test]
fn a_dead_members_unacknowledged_messages_go_to_another() {
    let (world, member, publisher, topic) = dealt_elsewhere(|_| {});
    publisher.publish(message(&topic, "x").qos1());
    member.expect_publish(&topic, "x");
    assert_eq!(world.gauges().kept_deals, 1);
    world.end_node(1);
    let other = world.connect(v5(&world.name_on(2, "other ")).accept_on(0));
    other.subscribe_later(&format!("$share/g/{topic}"));
    world.run();
    assert_eq!(texts(&other), ["x"]);
    world.run();
    assert_eq!(world.gauges().kept_deals, 0, "it has acknowledged");
}

#[test]
fn a_qos_2_message_sent_to_a_dead_member_goes_to_no_other() {
    let (world, member, publisher, topic) = dealt_elsewhere(|_| {});
    publisher.publish(message(&topic, "x").qos2());
    member.expect_publish(&topic, "x");
    assert_eq!(world.gauges().kept_deals, 0, "it may have arrived");
    world.end_node(1);
    let other = world.connect(v5(&world.name_on(2, "other ")).accept_on(0));
    other.subscribe(&format!("$share/g/{topic}"), ExactlyOnce);
    world.advance(minutes(5));
    other.expect_nothing();
}

#[test]
fn a_qos_2_message_waits_for_its_member_before_another() {
    for returns in [true, false] {
        let (world, member, publisher, topic) = dealt_elsewhere(|_| {});
        let other = world.connect(v5(&world.name_on(2, "other ")));
        world.hold(0, 1);
        publisher.publish(message(&topic, "x").qos2());
        world.end_node(1);
        let filter = format!("$share/g/{topic}");
        other.subscribe(&filter, ExactlyOnce);
        other.expect_nothing();
        if returns {
            world.begin_node(1);
            let again = world.connect(v5(member.id()).accept_on(1));
            again.subscribe_later(&filter);
            world.run();
            assert_eq!(texts(&again), ["x"]);
            other.expect_nothing();
        } else {
            world.advance(seconds(61));
            assert_eq!(other.payloads(), ["x"]);
        }
        world.advance(minutes(5));
        assert_eq!(world.gauges().kept_deals, 0);
    }
}

#[test]
fn a_message_that_no_member_comes_for_is_counted() {
    let (world, member, publisher, topic) = dealt_elsewhere(|_| {});
    publisher.publish(message(&topic, "x").qos1());
    member.expect_publish(&topic, "x");
    world.end_node(1);
    world.advance(seconds(59));
    assert_eq!((world.gauges().kept_deals, world.dropped(Reason::NoGroupMember)), (1, 0));
    world.advance(seconds(2));
    assert_eq!((world.gauges().kept_deals, world.dropped(Reason::NoGroupMember)), (0, 1));
}

#[test]
fn more_than_may_be_kept_is_dealt_without_being_kept() {
    let (world, member, publisher, topic) = dealt_elsewhere(|settings| settings.limits.kept_deal_bytes = 150);
    for payload in ["1", "2", "3"] {
        publisher.publish(message(&topic, payload).qos1());
        member.expect_publish(&topic, payload);
    }
    let counted = world.counters().deals_not_kept;
    assert!(counted > 0 && world.gauges().kept_deals + counted == 3, "{counted}");
}

#[test]
fn messages_wait_while_all_members_are_at_a_dead_node() {
    let (world, member, publisher, topic) = dealt_elsewhere(|_| {});
    let here = world.connect(v5(&world.name_on(0, "here ")));
    let survivor = world.name_on(2, "again ");
    world.await_node(1);
    assert_eq!(member.expect_closed(), Reason::ConnectionLost);
    assert_eq!(publisher.publish(message(&topic, "from afar").qos1()), ReasonCode::Success);
    assert_eq!(here.publish(message(&topic, "from home").qos2()), ReasonCode::Success);
    world.advance(minutes(5));
    assert_eq!((world.gauges().kept_deals, world.dropped(Reason::NoGroupMember)), (2, 0));
    let again = world.connect(v5(&survivor));
    again.subscribe_later(&format!("$share/g/{topic}"));
    world.run();
    assert_eq!(texts(&again), ["from afar", "from home"]);
    world.replace_node(1);
    assert_eq!(world.gauges().kept_deals, 0);
}

#[test]
fn waiting_messages_are_dropped_when_no_member_returns() {
    let (world, _, publisher, topic) = dealt_elsewhere(|_| {});
    world.await_node(1);
    publisher.publish(message(&topic, "x").qos1());
    world.replace_node(1);
    let crossed = crossings(&world);
    publisher.publish(message(&topic, "y").qos1());
    assert_eq!(crossings(&world), crossed, "no member wants it");
    world.advance(minutes(2));
    assert_eq!((world.gauges().kept_deals, world.dropped(Reason::NoGroupMember)), (0, 1));
}

#[test]
fn more_than_may_wait_for_members_of_a_dead_node_is_refused() {
    let (world, _, publisher, topic) = dealt_elsewhere(|settings| settings.limits.kept_deal_bytes = 150);
    world.await_node(1);
    let codes: Vec<ReasonCode> =
        (0..3).map(|number| publisher.publish(message(&topic, number.to_string()).qos1())).collect();
    assert_eq!(codes[0], ReasonCode::Success);
    assert!(codes[2].is_error(), "{codes:?}");
    let refused = codes.iter().filter(|code| code.is_error()).count() as u64;
    assert_eq!((world.gauges().kept_deals, world.dropped(Reason::NoGroupMember)), (3 - refused, refused));
}

#[test]
fn a_new_group_is_confirmed_when_all_shards_know_its_home() {
    for joins_at in [0, 1] {
        let (world, clients) = three();
        // Its group is dealt at node 0 and later at node 1, where a client wants the topic already.
        let moves = |name: &String| partition_of(TenantId::DEFAULT, &format!("group/{name}")).0.is_multiple_of(6);
        let topic = (0..1000).map(|number| format!("t{number}")).find(moves).expect("one of many names");
        clients[1].subscribe(&topic, AtLeastOnce);
        world.hold(1, 2);
        world.give_some(1);
        // Node 2 does not know that node 1 knows all members.
        let member = world.connect(v5(&world.name_on(joins_at, "member ")));
        let filter = format!("$share/group/{topic}");
        let id = member.send_subscribe(&[(&filter, SubscriptionOptions::new(AtLeastOnce))], None);
        world.run();
        member.expect_nothing();
        world.release(1, 2);
        member.expect_sub_ack(id);
        clients[2].publish(message(&topic, "x").qos1());
        assert_eq!(member.payloads(), ["x"]);
    }
}
