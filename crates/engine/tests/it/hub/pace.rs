//! Publishers wait for a pipeline that keeps up with them, and not for one whose sink is slow.

use tidegate_engine::{OverflowPolicy, Settings};

use super::*;

/// Messages of a flood: more than a pipeline gets before publishers wait, and fewer than a queue takes.
const FLOOD: usize = 1600;
/// Messages that the pipeline works on at once.
const WINDOW: u16 = 256;
/// Messages that are taken before publishers wait: those in flight, those in the queue, and some on their way.
const TAKEN: std::ops::Range<usize> = 1280..1350;
/// Longer than publishers wait for a pipeline, milliseconds, and shorter than they wait for a full queue.
const LONGEST: u64 = 25;

fn with_block(settings: &mut Settings) {
    with_hub(settings);
    settings.queue.overflow = OverflowPolicy::Block;
}

/// A pipeline's session that has a number of messages in flight.
fn working(world: &World) -> Client {
    let connecting = v5(&session()).lasting().receive_maximum(WINDOW).manual().through(1);
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

/// The pipeline takes all messages. Returns their payloads.
fn work_off(hub: &Client) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        let messages = hub.messages();
        if messages.is_empty() {
            return all;
        }
        messages.iter().filter_map(|message| message.id).for_each(|id| hub.puback(id));
        all.extend(messages.iter().map(Delivered::text));
    }
}

#[test]
fn publishers_wait_for_a_pipeline_that_keeps_up() {
    everywhere_with(with_block, |world| {
        let (hub, publisher) = (working(world), world.connect(v311("flood")));
        let taken = flood(world, &publisher);
        assert!(TAKEN.contains(&taken), "{taken}");
        let numbers: Vec<String> = (0..FLOOD).map(|number| number.to_string()).collect();
        assert_eq!(work_off(&hub), numbers);
        assert_eq!((taken + publisher.answers().len(), world.counters().dropped_total()), (FLOOD, 0));
    });
}

#[test]
fn no_publisher_waits_for_long_for_a_slow_sink() {
    in_one_process_with(with_block, |world| {
        let (hub, publisher) = (working(world), world.connect(v311("flood")));
        assert!(flood(world, &publisher) < FLOOD);
        world.advance(LONGEST);
        assert!(publisher.answers().len() >= FLOOD - TAKEN.end);
        assert_eq!(flood(world, &publisher), FLOOD, "none waits for a pipeline that was slow just now");
        assert_eq!((work_off(&hub).len(), world.counters().dropped_total()), (2 * FLOOD, 0));
        world.advance(1_000);
        assert!(flood(world, &publisher) < FLOOD);
    });
}

#[test]
fn publishers_go_on_when_their_pipeline_leaves() {
    in_one_process_with(with_block, |world| {
        let (hub, publisher) = (working(world), world.connect(v311("flood")));
        let taken = flood(world, &publisher);
        hub.lose();
        assert_eq!((taken + publisher.answers().len(), world.counters().dropped_total()), (FLOOD, 0));
    });
}

#[test]
fn no_publisher_waits_where_full_queues_drop() {
    in_one_process_with(with_hub, |world| {
        let (_hub, publisher) = (working(world), world.connect(v311("flood")));
        assert_eq!(flood(world, &publisher), FLOOD);
    });
}
