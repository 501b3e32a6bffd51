//! A broker that has acknowledged messages dies before it has sent them to another member.

use tidegate_engine::{BrokerLinkImage, BrokerLinkState, OrchestratorMoves};
use tidegate_mqtt::QoS::{AtLeastOnce, ExactlyOnce};

use crate::harness::*;

/// Two members in front of two brokers, and a client at home on each; the second one has subscribed to `t`. The broker
/// that gets messages of this topic comes first.
fn with_subscriber() -> (World, [Broker; 2], [Client; 2]) {
    let world = World::orchestrators(2, 1);
    let [a, b] = ["a", "b"].map(|name| world.broker(name));
    a.set_at(1);
    b.set_at(1);
    world.advance(seconds(1));
    let [here, there] = [0, 1].map(|member| world.connect(v5(&world.name_on(member, "client "))));
    there.subscribe("t", ExactlyOnce);
    here.publish(message("t", "scout").qos1());
    there.expect_publish("t", "scout");
    let brokers = if a.taken().is_empty() { [b, a] } else { [a, b] };
    settled(&world);
    (world, brokers, [here, there])
}

/// Three members without the second one.
struct Bereaved {
    world: World,
    brokers: [Broker; 2],
    /// The connections of the dead one.
    images: Vec<BrokerLinkImage>,
    /// Bytes that the first member kept before its messages.
    before: u64,
}

/// The first of three members publishes, and the broker has acknowledged all. Then the second one dies, which got nothing.
fn after_death() -> Bereaved {
    let world = World::orchestrators(3, 1);
    let brokers = ["a", "b"].map(|name| world.broker(name));
    for broker in &brokers {
        broker.set_at(1);
        broker.set_at(2);
    }
    world.advance(seconds(1));
    let [here, there] = [0, 1].map(|member| world.connect(v5(&world.name_on(member, "client "))));
    there.subscribe("t", ExactlyOnce);
    here.publish(message("t", "scout").qos1());
    there.expect_publish("t", "scout");
    let [a, b] = brokers;
    let [holder, other] = if a.taken().is_empty() { [b, a] } else { [a, b] };
    let before = settled(&world);
    hold_up_second(&holder);
    for number in numbers() {
        here.publish(message("t", &number).qos1());
    }
    assert_eq!(world.owed(), 0, "the broker has acknowledged all");
    let images = world.engine(1, |engine, now| OrchestratorMoves::of(engine).broker_link_images(now));
    world.await_node(1);
    Bereaved { world, brokers: [holder, other], images, before }
}

/// A broker sends the second member nothing from now on.
fn hold_up_second(broker: &Broker) {
    let second = format!("member-1-{}", broker.name());
    broker.now(|ways| ways.holds_up = Some(second));
}

/// Bytes that the first member keeps, without memory that waits for the next messages.
fn held(world: &World) -> u64 {
    world.engine(0, |engine, _| {
        engine.control().shrink();
        engine.questions().held_bytes()
    })
}

/// The same when members have answered.
fn settled(world: &World) -> u64 {
    world.advance(seconds(1));
    held(world)
}

fn numbers() -> Vec<String> {
    (0..10).map(|number| number.to_string()).collect()
}

#[test]
fn a_dead_broker_costs_other_members_no_message() {
    for qos in [AtLeastOnce, ExactlyOnce] {
        let (world, [holder, other], [here, there]) = with_subscriber();
        let before = settled(&world);
        hold_up_second(&holder);
        for number in numbers() {
            here.publish(message("t", &number).qos(qos));
        }
        assert_eq!(world.owed(), 0, "the broker has acknowledged all");
        there.expect_nothing();
        holder.die_and_forget();
        world.advance(seconds(3));
        assert_eq!(there.payloads(), numbers());
        assert_eq!(other.payloads(), numbers());
        world.advance(seconds(120));
        there.expect_nothing();
        assert_eq!(held(&world), before, "something is still kept");
    }
}

#[test]
fn a_broker_that_returns_without_messages_gets_them_again() {
    let (world, [holder, _], [here, there]) = with_subscriber();
    holder.save();
    let before = settled(&world);
    hold_up_second(&holder);
    for number in numbers() {
        here.publish(message("t", &number).qos(ExactlyOnce));
    }
    // It knows both members, and no message that it had acknowledged since it last wrote to its disk.
    holder.die();
    holder.with(|broker| {
        broker.roll_back();
        broker.ways.holds_up = None;
    });
    holder.come_back();
    assert_eq!(holder.state(), BrokerLinkState::Serving);
    assert_eq!(there.payloads(), numbers());
    assert_eq!(settled(&world), before);
}

#[test]
fn messages_that_all_members_have_are_settled() {
    let (world, [holder, other], [here, there]) = with_subscriber();
    let before = settled(&world);
    for number in numbers() {
        here.publish(message("t", &number).qos1());
    }
    assert_eq!(there.payloads(), numbers());
    assert!(held(&world) > before, "no member has answered");
    assert_eq!(settled(&world), before, "the other member has answered");
    holder.die_and_forget();
    world.advance(seconds(5));
    assert!(other.payloads().is_empty(), "settled messages are sent again");
}

#[test]
fn messages_are_kept_for_a_member_for_a_bounded_time() {
    let (world, [holder, _], [here, _]) = with_subscriber();
    hold_up_second(&holder);
    here.publish(message("t", "x").qos1());
    holder.drain().expect("another broker");
    world.advance(seconds(30));
    assert_eq!(holder.state(), BrokerLinkState::Draining);
    world.advance(seconds(40));
    assert_eq!(holder.state(), BrokerLinkState::Drained);
}

#[test]
fn few_messages_are_kept_for_a_member_that_does_not_answer() {
    let (world, [holder, _], [here, there]) = with_subscriber();
    let before = settled(&world);
    hold_up_second(&holder);
    for _ in 0..2_000 {
        here.publish_later(message("t", "x").qos1());
    }
    world.run();
    let each = (held(&world) - before) / 1_024;
    assert!((1..1_000).contains(&each), "{each} bytes for each of 1,024 messages");
    assert_eq!(holder.report().counters.unconfirmed, 2_000 - 1_024);
    holder.die_and_forget();
    world.advance(seconds(3));
    assert_eq!(there.payloads().len(), 1_024);
    assert_eq!(settled(&world), before);
}

#[test]
fn a_message_is_kept_while_a_member_has_no_link() {
    let (world, [holder, _], [here, there]) = with_subscriber();
    hold_up_second(&holder);
    world.break_link(0, 1, 0);
    world.run();
    here.publish(message("t", "x").qos(ExactlyOnce));
    world.advance(seconds(3));
    world.mend_links();
    world.run();
    holder.die_and_forget();
    world.advance(seconds(3));
    assert_eq!(there.payloads(), ["x"]);
    world.advance(seconds(120));
    there.expect_nothing();
}

#[test]
fn messages_for_a_dead_member_wait_for_its_heirs() {
    let Bereaved { world, brokers: [holder, other], .. } = after_death();
    world.advance(seconds(5));
    holder.die_and_forget();
    world.advance(seconds(3));
    assert_eq!(other.payloads(), numbers(), "its sessions are at no member, and get them from the other broker");
}

#[test]
fn the_heir_of_a_dead_member_answers_for_it() {
    for dies_early in [true, false] {
        let Bereaved { world, brokers: [holder, other], images, before } = after_death();
        let name = format!("{}@member-1", holder.name());
        let left = world.broker_unknown(&name, Ways { hangs: true, ..Ways::default() });
        let image = images.iter().find(|image| image.broker == holder.name()).expect("its connection");
        world.engine(2, |engine, now| {
            let adopted = OrchestratorMoves::of(engine).adopt_broker_link(now, "member-1", image, 1, fleet::lasting());
            assert_eq!(adopted.as_deref(), Ok(&*name));
        });
        world.replace_node(1);
        world.advance(seconds(5));
        assert!(held(&world) > before, "the connection of the dead member has brought nothing");
        if !dies_early {
            left.now(|ways| ways.hangs = false);
            world.advance(seconds(10));
            assert_eq!(held(&world), before, "it has brought all");
        }
        holder.die_and_forget();
        world.advance(seconds(3));
        assert_eq!(other.payloads(), if dies_early { numbers() } else { Vec::new() });
    }
}

#[test]
fn an_older_value_sent_again_replaces_no_newer_one() {
    let (world, [holder, _], [here, there]) = with_subscriber();
    hold_up_second(&holder);
    here.publish(message("t", "older").qos1().retain());
    holder.now(|ways| ways.withholds_acknowledgements = true);
    here.publish(message("t", "newer").qos1().retain());
    holder.die();
    holder.with(|broker| (broker.ways.holds_up, broker.ways.withholds_acknowledgements) = (None, false));
    holder.come_back();
    world.advance(seconds(1));
    assert_eq!(holder.payloads(), ["scout", "older", "newer", "newer", "older"], "both are sent again");
    assert_eq!(holder.kept("t").as_deref(), Some("newer"));
    assert_eq!(there.payloads(), ["older", "newer"]);
}
