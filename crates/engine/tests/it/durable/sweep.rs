//! Records without an owner are deleted, and others stay.

use tidegate_engine::{Sweep, describe};
use tidegate_mqtt::QoS::{self, AtLeastOnce, ExactlyOnce};

use super::*;

fn swept(pairs: &Pairs) -> (Pairs, Pairs) {
    let mut sweep = Sweep::default();
    pairs.clone().into_iter().partition(|(key, value)| sweep.keep(key, value))
}

#[test]
fn ended_sessions_leave_nothing() {
    for shards in [1, 3] {
        let world = stored(shards);
        everything(&world);
        for name in ["publisher", "away", "slow", "brief"] {
            world.connect(v5(name)).disconnect();
        }
        let publisher = world.connect(v5("p"));
        for topic in ["r/1", "t/3"] {
            publisher.publish(message(topic, "").qos1().retain());
        }
        world.run();
        let (kept, garbage) = swept(&world.pairs());
        let text = |pairs: &Pairs| pairs.iter().map(|(key, value)| describe(key, value).unwrap()).collect::<Vec<_>>();
        assert!(text(&kept).iter().all(|pair| pair.contains("numbers sessions below")), "{:?}", text(&kept));
        assert!(!garbage.is_empty(), "parts of ended sessions");
        world.crash(Crash::now(shards));
        assert!(owed(&world).iter().all(|owed| *owed == Owed::default()));
    }
}

#[test]
fn what_this_version_cannot_read_is_kept() {
    let mut sweep = Sweep::default();
    for key in [&[0x7f, 1][..], &[0x10, 1], &[0x90], &[]] {
        assert!(sweep.keep(key, &[1, 2, 3]), "{key:?}");
    }
}

/// Everything that a sweep keeps is owed to someone, and everything that is owed is kept.
#[test]
fn a_sweep_keeps_owed_records_and_nothing_else() {
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let shards = 1 + random.below(3) as u16;
        let world = stored(shards);
        let names = ["a", "b", "c", "d"];
        let publisher = world.connect(v311("p").lasting());
        for _ in 0..60 {
            let name = random.pick(&names);
            match random.below(8) {
                0 => world.connect(v5(name)).disconnect(),
                1..=3 => {
                    let client = world.connect(v5(name).lasting().manual());
                    let filter = random.pick(&["t/#", "t/1", "$share/g/s", "t/+"]);
                    client.subscribe_later(filter);
                    if random.percent(30) {
                        client.unsubscribe_whatever_comes(random.pick(&["t/#", "t/1"]));
                    }
                    if random.percent(70) {
                        client.lose();
                    }
                }
                _ => {
                    let topic = random.pick(&["t/1", "t/2", "s"]);
                    let qos: QoS = random.pick(&[AtLeastOnce, ExactlyOnce]);
                    let payload = if random.percent(10) { "" } else { "x" };
                    let sent = message(topic, payload).qos(qos);
                    publisher.publish_later(if random.percent(20) { sent.retain() } else { sent });
                }
            }
        }
        let before = owed(&world);
        let (kept, garbage) = swept(&world.pairs());
        world.crash(Crash { swept: true, ..Crash::now(1 + random.below(3) as u16) });
        assert_eq!(owed(&world), before, "seed {seed}");
        let total = |owed: &[Owed]| {
            owed.iter().fold((0, 0), |(sessions, rest), owed| {
                let of_messages = owed.queued + owed.await_pub_ack + owed.await_pub_rec + owed.await_pub_comp;
                let rest = rest + owed.subscriptions + of_messages + owed.await_pub_rel + owed.retained;
                (sessions + owed.sessions, rest)
            })
        };
        let (sessions, rest) = total(&before);
        // Each of these is a pair; what says how far a message has come, and messages that are shared, are more.
        let counted = |pairs: &Pairs, start: &[&str]| {
            let texts = pairs.iter().map(|(key, value)| describe(key, value).unwrap());
            texts.filter(|text| start.iter().any(|start| text.contains(start))).count() as u64
        };
        assert_eq!(counted(&kept, &[" of \""]), sessions, "seed {seed}");
        let parts = [": subscribed to", ": QoS 2 packet id", ": owed", "retained "];
        assert_eq!(counted(&kept, &parts), rest, "seed {seed}");
        assert_eq!(counted(&garbage, &[" of \"", "retained "]), 0, "seed {seed}");
    }
}
