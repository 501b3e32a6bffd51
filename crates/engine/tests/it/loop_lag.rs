//! A shard whose turns take too long: who waits for that, and for how long.

use tidegate_engine::{Delay, LogEvent, Reason, Settings};
use tidegate_mqtt::QoS::{AtLeastOnce, ExactlyOnce};

use crate::harness::*;

/// Bytes of a message of the busy publisher.
const LARGE: usize = 1000;
/// How many of them it sends in a second.
const MANY: usize = 50;

/// With a high ceiling, as the broker has it, so that publishers are known on other shards.
fn settings(settings: &mut Settings) {
    settings.limits.memory_ceiling = 1 << 40;
}

/// Tells all shards that turns take too long, and whether the last one did.
fn lag(world: &World, long: bool) {
    for shard in 0..world.shards() {
        world.engine(shard, |engine, now| engine.control().note_loop_lag(now, now.monotonic.plus(seconds(3)), long));
    }
}

/// Lets a second pass in which turns took too long.
fn long_second(world: &World) {
    lag(world, true);
    world.advance(seconds(1));
}

/// Publishes many messages, numbered from there on.
fn flood(world: &World, publisher: &Client, from: usize) {
    for number in from..from + MANY {
        publisher.send_publish(message("flood", format!("{number:0>LARGE$}")).qos1());
        world.run();
    }
}

fn numbers(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{number:0>LARGE$}")).collect()
}

/// A subscriber of everything, a publisher that has published much in a long second, and some that have not.
struct Scene {
    subscriber: Client,
    flood: Client,
    sensors: Vec<Client>,
    got: Vec<Delivered>,
}

impl Scene {
    fn new(world: &World) -> Self {
        let subscriber = world.connect(v5("subscriber"));
        subscriber.subscribe("#", AtLeastOnce);
        let sensors: Vec<Client> = (0..4).map(|number| world.connect(v5(&format!("sensor {number}")))).collect();
        let mut scene = Self { subscriber, flood: world.connect(v5("flood")), sensors, got: Vec::new() };
        world.take_log();
        lag(world, true);
        flood(world, &scene.flood, 0);
        assert_eq!(scene.take_flood(), MANY, "there is nothing to compare with in the first second");
        scene.measure(world);
        long_second(world);
        scene
    }

    /// Sensors publish.
    fn measure(&mut self, world: &World) {
        for sensor in &self.sensors {
            for value in ["1", "2", "3"] {
                sensor.publish(message("sensor", value).qos1());
            }
        }
        world.run();
        self.got.extend(self.subscriber.messages());
    }

    /// How many messages of the flood have come since the start.
    fn take_flood(&mut self) -> usize {
        self.got.extend(self.subscriber.messages());
        self.of("flood").len()
    }

    fn of(&self, topic: &str) -> Vec<String> {
        self.got.iter().filter(|got| got.topic == topic).map(Delivered::text).collect()
    }
}

#[test]
fn only_the_publishers_with_most_work_wait() {
    everywhere_with(settings, |world| {
        let mut scene = Scene::new(world);
        flood(world, &scene.flood, MANY);
        let passed = scene.take_flood() - MANY;
        assert!(0 < passed && passed < MANY / 2, "{passed} have passed");
        scene.measure(world);
        assert_eq!(scene.of("sensor").len(), 2 * 4 * 3, "sensors do not wait");
        let mut seconds_passed = 0;
        while scene.take_flood() < 2 * MANY {
            long_second(world);
            seconds_passed += 1;
            assert!(seconds_passed < 20, "it continues, a part in each second");
        }
        // The parked packets of one shard are all processed before another one can say that it is too much.
        assert!(seconds_passed > 2 || world.shards() > 1, "all of it at once");
        assert_eq!(scene.of("flood"), numbers(2 * MANY));
        assert_eq!(scene.flood.answers().len(), 2 * MANY);
        assert!(world.counters().held_for_lag > 0);
        assert_eq!((world.counters().dropped_total(), world.gauges().input_bytes), (0, 0));
    });
}

#[test]
fn a_held_publisher_is_answered_and_receives() {
    everywhere_with(settings, |world| {
        let scene = Scene::new(world);
        let publisher = &scene.flood;
        publisher.subscribe("news", ExactlyOnce);
        flood(world, publisher, MANY);
        publisher.ping();
        scene.sensors[0].publish(message("news", "1").qos2());
        publisher.expect_publish("news", "1");
        publisher.ping();
        let before = publisher.answers().len();
        world.advance(seconds(1));
        assert!(before < 2 * MANY && !publisher.answers().is_empty());
    });
}

#[test]
fn parked_packets_are_bounded_by_pausing_the_socket() {
    let bounded = |it: &mut Settings| {
        settings(it);
        it.limits.parked_bytes = 10_000;
    };
    everywhere_with(bounded, |world| {
        let mut scene = Scene::new(world);
        flood(world, &scene.flood, MANY);
        assert!(scene.flood.is_paused() && scene.flood.unread_len() > MANY * LARGE / 3, "{}", scene.flood.unread_len());
        assert!(world.gauges().input_bytes < 13_000, "{:?}", world.gauges());
        world.advance(seconds(10));
        assert_eq!(scene.take_flood(), 2 * MANY);
        assert_eq!(scene.of("flood"), numbers(2 * MANY));
        assert!(!scene.flood.is_paused());
        assert_eq!(world.counters().dropped_total(), 0);
    });
}

#[test]
fn it_ends_with_the_overload() {
    everywhere_with(settings, |world| {
        let mut scene = Scene::new(world);
        flood(world, &scene.flood, MANY);
        assert!(scene.take_flood() < 2 * MANY);
        // No report follows. Until the time is over, each short second allows twice as much.
        world.advance(seconds(4));
        assert_eq!(scene.take_flood(), 2 * MANY);
        flood(world, &scene.flood, 2 * MANY);
        assert_eq!(scene.take_flood(), 3 * MANY);
        let held = world.counters().held_for_lag;
        world.advance(seconds(10));
        assert_eq!(world.counters().held_for_lag, held);
    });
}

#[test]
fn no_publisher_waits_longer_than_the_limit() {
    let brief = |it: &mut Settings| {
        settings(it);
        it.limits.block_timeout_ms = seconds(5);
    };
    everywhere_with(brief, |world| {
        let mut scene = Scene::new(world);
        for number in 1..4 {
            flood(world, &scene.flood, number * MANY);
            long_second(world);
        }
        assert!(scene.take_flood() < 4 * MANY);
        long_second(world);
        assert_eq!(scene.take_flood(), 4 * MANY);
        for number in 4..10 {
            flood(world, &scene.flood, number * MANY);
            assert_eq!(
                scene.take_flood(),
                (number + 1) * MANY,
                "turns are as long as before, and no publisher is held"
            );
            long_second(world);
        }
        assert_eq!(world.counters().dropped_total(), 0);
        scene.flood.ping();
        // It is over, and another time begins.
        world.advance(seconds(10));
        lag(world, true);
        flood(world, &scene.flood, 10 * MANY);
        scene.measure(world);
        long_second(world);
        flood(world, &scene.flood, 11 * MANY);
        assert!(scene.take_flood() < 12 * MANY);
        world.advance(seconds(10));
        assert_eq!(scene.of("flood"), numbers(12 * MANY)[..scene.of("flood").len()]);
        assert_eq!(scene.take_flood(), 12 * MANY);
    });
}

/// A process that stood still for a while has had one long turn, and that is nobody's doing.
#[test]
fn short_turns_hold_no_publisher_despite_a_high_mean() {
    everywhere_with(settings, |world| {
        let subscriber = world.connect(v5("subscriber"));
        subscriber.subscribe("#", AtLeastOnce);
        let publisher = world.connect(v5("p"));
        lag(world, true);
        world.advance(seconds(1));
        for number in 0..10 {
            lag(world, false);
            flood(world, &publisher, number * MANY);
            assert_eq!(subscriber.messages().len(), MANY);
            world.advance(seconds(1));
        }
        assert_eq!(world.counters().held_for_lag, 0);
    });
}

#[test]
fn a_message_to_many_counts_for_each_of_them() {
    let world = World::with(1, settings);
    let subscribers: Vec<Client> = (0..100).map(|number| world.connect(v5(&format!("s{number}")))).collect();
    for subscriber in &subscribers {
        subscriber.subscribe("all", AtLeastOnce);
    }
    let (to_all, to_none) = (world.connect(v5("to all")), world.connect(v5("to none")));
    let publish = || {
        for _ in 0..20 {
            to_all.send_publish(message("all", "x").qos1());
            to_none.send_publish(message("none", "x").qos1());
            world.run();
        }
    };
    lag(&world, true);
    publish();
    long_second(&world);
    to_all.answers();
    to_none.answers();
    lag(&world, true);
    publish();
    assert_eq!(to_none.answers().len(), 20);
    assert!(to_all.answers().len() < 15);
    world.advance(seconds(10));
    assert_eq!(subscribers[99].messages().len(), 40);
}

#[test]
fn the_log_names_the_cause_of_a_publishers_wait() {
    let world = World::with(1, settings);
    let scene = Scene::new(&world);
    flood(&world, &scene.flood, MANY);
    let told = world.take_log().into_iter().filter_map(|event| match event {
        LogEvent::Delayed { client_id, delay, .. } => Some((client_id, delay)),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), [("flood".to_owned(), Delay::LoopLag)]);
    assert!(Delay::LoopLag.to_string().contains("turns"), "{}", Delay::LoopLag);
}

#[test]
fn a_held_publisher_that_leaves_has_published_its_input() {
    everywhere_with(settings, |world| {
        let mut scene = Scene::new(world);
        flood(world, &scene.flood, MANY);
        assert!(scene.take_flood() < 2 * MANY);
        scene.flood.send_bytes(&[0xE0, 0]);
        world.run();
        scene.flood.expect_open();
        world.advance(seconds(10));
        assert_eq!(scene.flood.expect_closed(), Reason::NormalDisconnect);
        assert_eq!(scene.take_flood(), 2 * MANY);
    });
}
