//! Dealt and waiting messages of groups when their home moves and a node dies.

use tidegate_engine::OverflowPolicy;

use super::*;

/// Four nodes of one shard whose stores are on the bus.
fn four() -> World {
    World::cluster(4, 1, |settings| settings.durability = Durability::Commit)
}

/// A member of the group of a topic, with its session at a node and away.
fn member_at(world: &World, node: u16, topic: &str) -> Connecting {
    let member = v5(&world.name_on(node, "member ")).clean(false).expiry(u32::MAX);
    world.absent_subscriber(member.clone(), &format!("$share/group/{topic}"), ExactlyOnce);
    member
}

/// Commits a move of a group from node 0, and no node has read so.
fn commit_move_of(world: &World, topic: &str, to: usize) {
    world.begin_move(0, to, &format!("group/{topic}"));
    for _ in 0..5 {
        world.advance_move();
    }
}

/// The member returns and gets the message once.
fn comes_to(world: &World, member: Connecting) {
    let client = world.connect(member.accept_on(2));
    assert_eq!(client.payloads(), ["x"]);
    assert_eq!(world.gauges().kept_deals, 0);
    world.advance(minutes(5));
    client.expect_nothing();
}

#[test]
fn a_deal_of_an_old_home_arrives_if_that_home_dies() {
    // Node 1 takes the place of the old home, and is the new one or not.
    for (qos, to) in [(AtLeastOnce, 1), (ExactlyOnce, 1), (AtLeastOnce, 2), (ExactlyOnce, 2)] {
        let world = four();
        let topic = group_at(&world, 0);
        let member = member_at(&world, 3, &topic);
        let publisher = world.connect(v5(&world.name_on(2, "publisher ")));
        world.hold(0, 3);
        assert_eq!(publisher.publish(message(&topic, "x").qos(qos)), ReasonCode::Success);
        commit_move_of(&world, &topic, to);
        world.read_all_tables();
        world.run();
        assert_eq!(world.gauges().kept_deals, 1, "{qos:?}: the old home has not heard of it");
        world.fall_unnoticed(0, usize::MAX, 0);
        world.run();
        world.take_place_of(0);
        comes_to(&world, member);
    }
}

/// Node 0 has handed over its partitions to node 1, and the shard of node 2 has its messages dealt there until it has
/// read the table.
fn handed_over(world: &World) {
    world.begin_move_of_all(0, 1);
    for _ in 0..5 {
        world.advance_move();
    }
    world.read_table(0);
    world.read_table(1);
}

/// Whether node 0 has ended its exchanges with the others, after some steps. A message that is given to its next home is
/// answered first, and then the last answers are confirmed.
fn has_left(world: &World, gives_kept: bool) -> bool {
    (0..4).any(|_| {
        let left = world.has_left(0, gives_kept);
        world.run();
        left
    })
}

#[test]
fn a_home_that_leaves_waits_for_answers_to_its_deals() {
    let world = four();
    let topic = group_at(&world, 0);
    let member = member_at(&world, 3, &topic);
    let publisher = world.connect(v5(&world.name_on(2, "publisher ")).clean(false).expiry(u32::MAX));
    handed_over(&world);
    assert!(!has_left(&world, false), "node 2 has messages dealt at node 0");
    world.hold(0, 2);
    let id = publisher.send_publish(message(&topic, "x").qos2()).expect("a packet id");
    world.run();
    world.read_all_tables();
    world.run();
    assert!(publisher.answers().is_empty() && !has_left(&world, false), "node 2 has not read the answer");
    world.release(0, 2);
    world.run();
    assert!(!publisher.expect_answer(PacketType::PubRec, id).is_error());
    publisher.expect_answer(PacketType::PubComp, id);
    assert!(has_left(&world, false));
    world.stop_node(0);
    world.run();
    world.read_all_tables();
    world.revive(0);
    world.run();
    comes_to(&world, member);
}

#[test]
fn a_home_that_leaves_gives_unanswered_deals_to_the_next_home() {
    let world = four();
    let topic = group_at(&world, 0);
    let member = world.connect(v5(&world.name_on(3, "member ")).manual());
    member.subscribe(&format!("$share/group/{topic}"), AtLeastOnce);
    let publisher = world.connect(v5(&world.name_on(2, "publisher ")));
    handed_over(&world);
    publisher.publish(message(&topic, "x").qos1());
    world.read_all_tables();
    world.run();
    let first = member.expect_publish(&topic, "x");
    assert!(!has_left(&world, false), "its member has not acknowledged it");
    assert!(has_left(&world, true));
    world.stop_node(0);
    world.run();
    world.read_all_tables();
    assert_eq!(world.gauges().kept_deals, 1, "its next home keeps it");
    let second = member.expect_publish(&topic, "x");
    for got in [first, second] {
        member.puback(got.id.expect("a packet id"));
    }
    world.run();
    assert_eq!(world.gauges().kept_deals, 0);
    world.revive(0);
    world.run();
    member.expect_nothing();
}

#[test]
fn an_orchestrator_that_leaves_waits_for_its_last_deals() {
    let world = World::stored_orchestrators(4, 1);
    let broker = world.broker("a");
    let topic = group_at(&world, 0);
    let member = member_at(&world, 3, &topic);
    world.hold(0, 3);
    broker.publish(&message(&topic, "x").qos2());
    handed_over(&world);
    world.read_all_tables();
    world.run();
    assert_eq!(world.gauges().kept_deals, 1, "it is under way to its member");
    assert!(!has_left(&world, false), "the home still keeps it");
    world.release(0, 3);
    world.run();
    assert!(has_left(&world, false));
    world.stop_node(0);
    world.run();
    world.revive(0);
    world.run();
    comes_to(&world, member);
}

#[test]
fn a_deal_of_an_old_home_is_not_repeated_if_its_node_dies() {
    let world = four();
    let topic = group_at(&world, 0);
    let member = member_at(&world, 3, &topic);
    let publisher = world.connect(v5(&world.name_on(2, "publisher ")));
    commit_move_of(&world, &topic, 1);
    world.read_table(1);
    world.hold(3, 0);
    assert_eq!(publisher.publish(message(&topic, "x").qos2()), ReasonCode::Success);
    assert_eq!(world.uncommitted_of(3), 0, "it is in the store of its member");
    world.read_all_tables();
    world.run();
    assert_eq!(world.gauges().kept_deals, 1, "and its group does not know");
    world.fall_unnoticed(3, usize::MAX, 0);
    world.run();
    let other = world.connect(v5(&world.name_on(2, "other ")).clean(false).expiry(u32::MAX));
    other.subscribe(&format!("$share/group/{topic}"), ExactlyOnce);
    world.take_place_of(3);
    comes_to(&world, member);
    other.expect_nothing();
}

#[test]
fn a_waiting_deal_is_not_lost_between_two_homes() {
    for qos in [AtLeastOnce, ExactlyOnce] {
        let world = four();
        let topic = group_at(&world, 0);
        let member = member_at(&world, 3, &topic);
        let publisher = world.connect(v5(&world.name_on(2, "publisher ")));
        world.hold(0, 3);
        assert_eq!(publisher.publish(message(&topic, "x").qos(qos)), ReasonCode::Success);
        world.fall_unnoticed(3, usize::MAX, 0);
        world.run();
        commit_move_of(&world, &topic, 1);
        // The old home gives it to the new one, which takes the old one for the home and yet does not give it back: that one would answer that it
        // has the message, and both would forget it.
        world.read_table(0);
        assert_eq!(world.gauges().kept_deals, 1, "{qos:?}");
        world.read_all_tables();
        world.run();
        world.take_place_of(3);
        comes_to(&world, member);
    }
}

#[test]
fn a_message_returned_by_a_new_home_skips_the_old_home() {
    for qos in [AtLeastOnce, ExactlyOnce] {
        let world = World::cluster(3, 1, |settings| {
            settings.queue.max_messages = 1;
            settings.queue.overflow = OverflowPolicy::DropOldest;
        });
        let topic = group_at(&world, 0);
        let member = member(&world, &topic);
        let publisher = world.connect(v5(&world.name_on(2, "publisher ")));
        publisher.publish(message(&topic, "a").qos(qos));
        move_until_cut(&world, &member);
        // There is no room for it, so that it returns before it takes the place of the other.
        publisher.publish(message(&topic, "x").qos(qos));
        world.end_move();
        world.run();
        let client = world.connect(member);
        assert_eq!(client.payloads(), ["x"], "{qos:?}");
        assert_eq!(world.dropped(Reason::QueueFullOldest), 1, "{qos:?}");
    }
}

#[test]
fn a_deal_set_aside_for_an_absent_member_is_dealt_once() {
    for (qos, called_off_first) in
        [(AtLeastOnce, true), (ExactlyOnce, true), (AtLeastOnce, false), (ExactlyOnce, false)]
    {
        let world = four();
        let topic = group_at(&world, 2);
        let member = member(&world, &topic);
        let publisher = world.connect(v5(&world.name_on(3, "publisher ")));
        move_until_cut(&world, &member);
        assert_eq!(publisher.publish(message(&topic, "x").qos(qos)), ReasonCode::Success);
        assert_eq!(world.gauges().kept_deals, 1, "{qos:?}: its dealer keeps it for as long as the member may not come");
        world.fall_unnoticed(2, usize::MAX, 0);
        world.run();
        if called_off_first {
            world.call_off_move();
            world.read_all_tables();
            world.run();
            world.take_place_of(2);
        } else {
            world.take_place_of(2);
            world.call_off_move();
            world.read_all_tables();
            world.run();
        }
        let client = world.connect(member.accept_on(2));
        let mut got = client.payloads();
        world.advance(minutes(5));
        got.extend(client.payloads());
        // At QoS 1 the node that takes over from the dealer may deal it once more.
        got.truncate(if qos == ExactlyOnce { usize::MAX } else { 1 });
        assert_eq!(got, ["x"], "{qos:?}");
        assert_eq!(world.gauges().kept_deals, 0, "{qos:?}");
    }
}

/// A group of node 0 whose only steady member is at node 3, which dies before or while the group moves to node 1. Then all have read that it has.
fn move_while_members_die(world: &World, topic: &str, stage: u32) -> Connecting {
    let filter = format!("$share/group/{topic}");
    let early = (stage != 4).then(|| member_at(world, 3, topic));
    if stage == 0 {
        world.fall_unnoticed(3, usize::MAX, 0);
        world.run();
    }
    let other = world.connect(v5(&world.name_on(2, "other ")));
    if stage == 3 {
        other.subscribe(&filter, ExactlyOnce);
    }
    commit_move_of(world, topic, 1);
    // The new home learns of the group as long as no node knows that its members are about to be gone.
    if stage > 0 {
        world.read_table(0);
    }
    if stage >= 2 {
        world.read_table(1);
    }
    if stage == 3 {
        world.read_table(2);
        other.unsubscribe(&filter);
    }
    let member = early.unwrap_or_else(|| member_at(world, 3, topic));
    if stage > 0 {
        world.fall_unnoticed(3, usize::MAX, 0);
        world.run();
    }
    world.read_all_tables();
    world.run();
    member
}

#[test]
fn a_moved_group_keeps_messages_for_members_at_a_dead_node() {
    // The node dies before the move, when the old home has read that it is not the home any more, or when the new one
    // has read it as well; then while another member leaves, or when the group has begun at the old home.
    for stage in 0..5 {
        for qos in [AtLeastOnce, ExactlyOnce] {
            let world = four();
            let topic = group_at(&world, 0);
            let publisher = world.connect(v5(&world.name_on(2, "publisher ")));
            let member = move_while_members_die(&world, &topic, stage);
            assert_eq!(publisher.publish(message(&topic, "x").qos(qos)), ReasonCode::Success, "{stage}, {qos:?}");
            assert_eq!(world.gauges().kept_deals, 1, "{stage}, {qos:?}: it waits");
            world.take_place_of(3);
            comes_to(&world, member);
        }
    }
}

#[test]
fn a_moved_group_without_members_is_forgotten_in_the_end() {
    for stage in 0..4 {
        let world = four();
        let topic = group_at(&world, 0);
        let publisher = world.connect(v5(&world.name_on(2, "publisher ")));
        let member = move_while_members_die(&world, &topic, stage);
        world.take_place_of(3);
        let client = world.connect(member.accept_on(2));
        assert_eq!(client.unsubscribe(&format!("$share/group/{topic}")), [ReasonCode::Success]);
        assert_eq!(publisher.publish(message(&topic, "x").qos2()), ReasonCode::NoMatchingSubscribers, "{stage}");
    }
}

#[test]
fn a_group_deals_once_if_its_next_home_dies_early() {
    for (qos, at) in [(AtLeastOnce, 0), (ExactlyOnce, 0), (AtLeastOnce, 2), (ExactlyOnce, 2), (ExactlyOnce, 3)] {
        let world = four();
        let topic = group_at(&world, 0);
        let member = member_at(&world, 3, &topic);
        let publisher = world.connect(v5(&world.name_on(at, "publisher ")));
        commit_move_of(&world, &topic, 1);
        // No other node learns of its interest, or that it would deal.
        for node in [0, 2, 3] {
            world.hold(1, node);
        }
        world.read_all_tables();
        world.run();
        world.fall_unnoticed(1, usize::MAX, 0);
        world.run();
        assert_eq!(publisher.publish(message(&topic, "x").qos(qos)), ReasonCode::Success, "{qos:?} at node {at}");
        world.take_place_of(1);
        comes_to(&world, member);
    }
}

/// A member whose session ends with its connection, with a message of the group that it has yet to be sent; the old home of the group keeps it.
fn with_a_message_that_waits(world: &World, topic: &str) -> Client {
    let client = world.connect(v5(&world.name_on(3, "fleeting ")).clean(true).receive_maximum(1).manual());
    client.subscribe(&format!("$share/group/{topic}"), ExactlyOnce);
    client.subscribe("first", AtLeastOnce);
    let publisher = world.connect(v5(&world.name_on(2, "publisher ")));
    publisher.publish(message("first", "").qos1());
    assert_eq!(publisher.publish(message(topic, "x").qos2()), ReasonCode::Success);
    assert_eq!(world.gauges().kept_deals, 1);
    client
}

#[test]
fn a_returned_message_goes_to_its_keeper_after_a_move() {
    // The node of the member dies before the old home, or the new one, has heard of it.
    for unheard in [0, 1] {
        let world = four();
        let topic = group_at(&world, 0);
        let client = with_a_message_that_waits(&world, &topic);
        commit_move_of(&world, &topic, 1);
        world.read_all_tables();
        world.run();
        let other = world.connect(v5(&world.name_on(2, "other ")).clean(false).expiry(u32::MAX));
        other.subscribe(&format!("$share/group/{topic}"), ExactlyOnce);
        world.hold(3, unheard);
        client.disconnect();
        world.run();
        world.fall_unnoticed(3, usize::MAX, 0);
        world.run();
        world.take_place_of(3);
        world.advance(minutes(5));
        assert_eq!(other.payloads(), ["x"], "node {unheard} has not heard of it");
        assert_eq!(world.gauges().kept_deals, 0);
    }
}

#[test]
fn a_deal_to_a_client_that_left_is_dealt_on_unless_it_arrived() {
    for arrives in [true, false] {
        let world = four();
        // Not where another node replaces node 3: that node knows which messages the client has.
        let topic = group_at(&world, 1);
        let filter = format!("$share/group/{topic}");
        let member = v5(&world.name_on(3, "member ")).clean(false).expiry(u32::MAX);
        let client = world.connect(member.clone());
        client.subscribe(&filter, ExactlyOnce);
        let publisher = world.connect(v5(&world.name_on(2, "publisher ")));
        world.hold(3, 1);
        if !arrives {
            world.hold(1, 3);
        }
        assert_eq!(publisher.publish(message(&topic, "x").qos2()), ReasonCode::Success);
        assert_eq!(client.payloads().len(), usize::from(arrives));
        client.unsubscribe(&filter);
        world.fall_unnoticed(3, usize::MAX, 0);
        world.run();
        let other = world.connect(v5(&world.name_on(2, "other ")).clean(false).expiry(u32::MAX));
        other.subscribe(&filter, ExactlyOnce);
        world.take_place_of(3);
        world.advance(minutes(5));
        assert_eq!(other.payloads().len(), usize::from(!arrives), "it came to the client: {arrives}");
        assert_eq!(world.gauges().kept_deals, 0);
    }
}

/// Where much waits for one group, each of thousands who come to others would have it looked at.
#[test]
fn a_new_member_of_a_group_skips_other_groups_messages() {
    let world = four();
    let topic = group_at(&world, 0);
    let _member = member_at(&world, 3, &topic);
    let publisher = world.connect(v5(&world.name_on(2, "publisher ")));
    world.fall_unnoticed(3, usize::MAX, 0);
    world.run();
    publisher.publish(message(&topic, "x").qos1().expiry(10));
    // A look at it finds that its time is over.
    world.advance(seconds(20));
    let another =
        (0..1000).map(|number| format!("u{number}")).find(|name| world.home_of(&format!("group/{name}")) == 0);
    let other = world.connect(v5(&world.name_on(2, "other ")).clean(false).expiry(u32::MAX));
    other.subscribe(&format!("$share/group/{}", another.unwrap()), ExactlyOnce);
    assert_eq!((world.gauges().kept_deals, world.dropped(Reason::MessageExpired)), (1, 0));
    other.subscribe(&format!("$share/group/{topic}"), ExactlyOnce);
    assert_eq!((world.gauges().kept_deals, world.dropped(Reason::MessageExpired)), (0, 1));
}

/// A steady member of a group that node 2 deals for, with its session at node 0, and a publisher at node 2.
fn with_member_elsewhere(world: &World) -> (String, Connecting, Client) {
    let topic = group_at(world, 2);
    let member = member_at(world, 0, &topic);
    let publisher = world.connect(v5(&world.name_on(2, "publisher ")));
    (topic, member, publisher)
}

/// A message is dealt to the member. Under way stays its answer if the message arrives, else the message.
fn deal_under_way(world: &World, [home, dealer]: [u16; 2], arrives: bool, topic: &str, publisher: &Client) {
    if arrives {
        world.hold(home, dealer);
    } else {
        world.hold(dealer, home);
    }
    assert_eq!(publisher.publish(message(topic, "x").qos2()), ReasonCode::Success);
}

/// Another member at node 2 has joined since.
fn with_another(world: &World, topic: &str) -> Client {
    let other = world.connect(v5(&world.name_on(2, "other ")).clean(false).expiry(u32::MAX));
    other.subscribe(&format!("$share/group/{topic}"), ExactlyOnce);
    other
}

/// The message has come to the member, once, and to no other client.
fn comes_to_member_alone(world: &World, member: Connecting, other: &Client) {
    let client = world.connect(member);
    assert_eq!(client.payloads(), ["x"]);
    world.advance(minutes(5));
    assert!(client.payloads().is_empty() && other.payloads().is_empty());
    assert_eq!(world.gauges().kept_deals, 0);
}

#[test]
fn a_message_on_a_lost_link_stays_if_a_move_is_cancelled() {
    // It has come to the session before the link was lost, or it has not.
    for arrives in [true, false] {
        let world = four();
        let (topic, member, publisher) = with_member_elsewhere(&world);
        deal_under_way(&world, [0, 2], arrives, &topic, &publisher);
        world.break_link(0, 2, 0);
        world.run();
        // The session comes to the node that deals for its group, which gives it the message.
        world.begin_move(0, 2, &member.client_id);
        world.advance_move();
        world.advance_move();
        let other = with_another(&world, &topic);
        world.call_off_move();
        world.read_all_tables();
        world.mend_links();
        world.run();
        comes_to_member_alone(&world, member, &other);
    }
}

#[test]
fn a_message_waits_for_a_member_that_has_not_come() {
    for arrives in [true, false] {
        let world = four();
        let (topic, member, publisher) = with_member_elsewhere(&world);
        deal_under_way(&world, [0, 2], arrives, &topic, &publisher);
        world.break_link(0, 2, 0);
        world.run();
        // The message is under way to the next home of the session when the move is called off.
        world.hold(2, 1);
        world.begin_move(0, 1, &member.client_id);
        world.advance_move();
        world.advance_move();
        let other = with_another(&world, &topic);
        world.call_off_move();
        world.read_all_tables();
        world.run();
        world.release(2, 1);
        world.run();
        world.mend_links();
        world.run();
        comes_to_member_alone(&world, member, &other);
    }
}

#[test]
fn a_message_is_not_for_a_session_whose_rest_was_given_out() {
    let world = four();
    let (topic, member, publisher) = with_member_elsewhere(&world);
    world.hold(2, 0);
    assert_eq!(publisher.publish(message(&topic, "x").qos2()), ReasonCode::Success);
    world.break_link(0, 2, 0);
    world.run();
    // Node 2, which deals for the group, reaches neither home of the session until the move is committed.
    world.hold(2, 1);
    world.begin_move(0, 1, &member.client_id);
    for _ in 0..5 {
        world.advance_move();
    }
    world.break_link(1, 2, 0);
    world.run();
    world.mend_links();
    world.hold(1, 2);
    world.run();
    world.release(1, 2);
    world.read_all_tables();
    world.run();
    let other = with_another(&world, &topic);
    comes_to_member_alone(&world, member, &other);
}

#[test]
fn a_group_keeps_a_message_for_another_shard_of_its_node() {
    for arrives in [true, false] {
        let world = World::cluster(2, 2, |settings| settings.durability = Durability::Commit);
        let topic = group_at(&world, 2);
        let member = member_at(&world, 1, &topic);
        let publisher = world.connect(v5(&world.name_on(2, "publisher ")));
        deal_under_way(&world, [1, 2], arrives, &topic, &publisher);
        world.break_link(0, 1, 0);
        world.run();
        world.begin_move(0, 1, &member.client_id);
        world.advance_move();
        world.advance_move();
        let other = with_another(&world, &topic);
        world.call_off_move();
        world.read_all_tables();
        world.mend_links();
        world.run();
        comes_to_member_alone(&world, member, &other);
    }
}

#[test]
fn a_deal_comes_once_if_its_home_is_killed_after_handing_over() {
    // The old home has the message in its store or not, and has reached its next home or not.
    for (kept, reaches) in [(usize::MAX, false), (0, false), (usize::MAX, true), (0, true)] {
        let world = four();
        let topic = group_at(&world, 0);
        let members = ["one ", "other "].map(|name| v5(&world.name_on(3, name)).clean(false).expiry(u32::MAX));
        for member in &members {
            world.absent_subscriber(member.clone(), &format!("$share/group/{topic}"), ExactlyOnce);
        }
        let publisher = v5(&world.name_on(2, "publisher ")).clean(false).expiry(u32::MAX);
        let client = world.connect(publisher.clone());
        handed_over(&world);
        world.hold(0, 2);
        if !reaches {
            world.hold(0, 1);
        }
        let id = client.send_publish(message(&topic, "x").qos2());
        world.run();
        assert!(client.answers().is_empty(), "node 2 has not read the answer");
        world.fall_unnoticed(0, kept, 0);
        world.run();
        world.bury(0);
        world.read_all_tables();
        world.run();
        client.expect_disconnect(ReasonCode::ServerBusy);
        assert_eq!(client.expect_closed(), Reason::NodeLost);
        let client = world.connect(publisher);
        let mut again = message(&topic, "x").qos2();
        (again.dup, again.id) = (true, id);
        client.send_publish(again);
        world.run();
        assert!(!client.expect_answer(PacketType::PubRec, id.expect("a packet id")).is_error());
        let got = || -> Vec<String> {
            let clients = members.iter().map(|member| world.connect(member.clone().accept_on(2)));
            clients.flat_map(|client| client.payloads()).collect()
        };
        assert_eq!(got(), ["x"], "{kept}, {reaches}");
        world.revive(0);
        world.run();
        world.advance(minutes(5));
        assert!(got().is_empty(), "{kept}, {reaches}: not again when the old home returns");
        assert_eq!(world.gauges().kept_deals, 0);
    }
}

#[test]
fn a_message_does_not_wait_for_the_deal_of_another() {
    let world = four();
    let topic = group_at(&world, 0);
    let member = member_at(&world, 3, &topic);
    let publisher = v5(&world.name_on(2, "publisher ")).clean(false).expiry(u32::MAX);
    let client = world.connect(publisher.clone());
    commit_move_of(&world, &topic, 1);
    world.read_table(0);
    world.read_table(1);
    world.hold(2, 0);
    let id = client.send_publish(message(&topic, "x").qos2()).expect("a packet id");
    world.run();
    // The session of the publisher comes to node 0, which passes the message on to node 1.
    world.begin_move(2, 0, &publisher.client_id);
    world.advance_move();
    world.advance_move();
    world.hold(0, 1);
    world.release(2, 0);
    assert_eq!(world.gauges().kept_deals, 1, "node 1 has not got it");
    for _ in 0..3 {
        world.advance_move();
    }
    // Node 3 has its messages dealt at node 0 still, and so has node 0.
    world.read_table(0);
    world.read_table(2);
    world.run();
    let client = world.connect(publisher.accept_on(0));
    let mut again = message(&topic, "x").qos2();
    (again.dup, again.id) = (true, Some(id));
    client.send_publish(again);
    world.run();
    world.release(0, 1);
    assert!(!client.expect_answer(PacketType::PubRec, id).is_error());
    client.expect_answer(PacketType::PubComp, id);
    world.read_all_tables();
    world.run();
    let plain = world.connect(v5(&world.name_on(0, "plain ")));
    plain.subscribe("plain", ExactlyOnce);
    let other = world.connect(v5(&world.name_on(3, "other ")));
    assert_eq!(other.publish(message("plain", "y").qos2()), ReasonCode::Success);
    assert_eq!(plain.payloads(), ["y"]);
    comes_to(&world, member);
}

#[test]
fn an_orchestrator_gives_unanswered_deals_to_the_next_home() {
    let world = World::stored_orchestrators(4, 1);
    let broker = world.broker("a");
    let topic = group_at(&world, 0);
    let member = member_at(&world, 3, &topic);
    world.hold(0, 3);
    broker.publish(&message(&topic, "x").qos2());
    handed_over(&world);
    world.read_all_tables();
    world.run();
    assert_eq!(world.gauges().kept_deals, 1, "it is under way to its member");
    assert!(!has_left(&world, false), "the home still keeps it");
    assert!(!has_left(&world, true), "the member's orchestrator has not read the last words");
    assert_eq!(world.gauges().kept_deals, 0, "the next home has dealt it");
    world.release(0, 3);
    world.run();
    assert!(has_left(&world, true));
    world.stop_node(0);
    world.run();
    world.read_all_tables();
    world.revive(0);
    world.run();
    comes_to(&world, member);
}
