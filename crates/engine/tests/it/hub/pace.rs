//! Publishers wait for a pipeline that keeps up with them, and not for one whose sink is slow.

use tidegate_engine::{OverflowPolicy, Settings};

use super::*;

/// Messages of a flood: more than a pipeline gets before publishers wait, and fewer than a queue takes.
const FLOOD: usize = 1500;
/// Messages that are taken before publishers wait: those in the queue, and some in flight and on their way.
const TAKEN: std::ops::Range<usize> = 1024..1100;
/// Longer than publishers wait for a pipeline, milliseconds, and shorter than they wait for a full queue.
const LONGEST: u64 = 25;

fn with_block(settings: &mut Settings) {
    with_hub(settings);
    settings.queue.overflow = OverflowPolicy::Block;
}

/// A pipeline's session that takes one message at once.
fn working(world: &World) -> Client {
    let connecting = v5(&session()).lasting().receive_maximum(1).manual().through(1);
    let mut client = world.try_connect(connecting.accept_on(world.home_of(&session())));
    world.decide(AuthOutcome::Accept(Accepted::default()));
    client.expect_accepted();
    client.subscribe("#", AtLeastOnce);
    client
}

/// Sends messages, some at a time as a network brings them. Returns how many are answered.
fn flood(world: &World, publisher: &Client) -> usize {
    for number in 0..FLOOD {
        publisher.send_publish(message("plant/a/temp", number.to_string()).qos1());
        if number % 8 == 7 {
            world.run();
        }
    }
    publisher.answers().len()
}

#[test]
fn publishers_wait_for_a_pipeline_that_keeps_up() {
    everywhere_with(with_block, |world| {
        let (hub, publisher) = (working(world), world.connect(v311("flood")));
        let taken = flood(world, &publisher);
        assert!(TAKEN.contains(&taken), "{taken}");
        let numbers: Vec<String> = (0..FLOOD).map(|number| number.to_string()).collect();
        assert_eq!(hub.drain(), numbers);
        assert_eq!((taken + publisher.answers().len(), world.counters().dropped_total()), (FLOOD, 0));
    });
}

#[test]
fn no_publisher_waits_for_long_for_a_slow_sink() {
    everywhere_with(with_block, |world| {
        let (hub, publisher) = (working(world), world.connect(v311("flood")));
        assert!(flood(world, &publisher) < FLOOD);
        world.advance(LONGEST);
        assert!(publisher.answers().len() >= FLOOD - TAKEN.end);
        assert_eq!(flood(world, &publisher), FLOOD, "none waits for a pipeline that was slow just now");
        assert_eq!((hub.drain().len(), world.counters().dropped_total()), (2 * FLOOD, 0));
        world.advance(1_000);
        assert!(flood(world, &publisher) < FLOOD);
    });
}

#[test]
fn publishers_go_on_when_their_pipeline_leaves() {
    everywhere_with(with_block, |world| {
        let (hub, publisher) = (working(world), world.connect(v311("flood")));
        let taken = flood(world, &publisher);
        hub.lose();
        assert_eq!((taken + publisher.answers().len(), world.counters().dropped_total()), (FLOOD, 0));
    });
}

#[test]
fn no_publisher_waits_where_full_queues_drop() {
    everywhere_with(with_hub, |world| {
        let (_hub, publisher) = (working(world), world.connect(v311("flood")));
        assert_eq!(flood(world, &publisher), FLOOD);
    });
}
