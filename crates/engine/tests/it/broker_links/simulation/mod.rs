//! Orchestrators under weather: brokers die, hang, forget and return, connections break at any byte, the
//! orchestrator dies and another process takes over, and in the end everything has arrived. A seed decides about
//! everything; see `it/simulation` for the variables that choose seeds.

mod checks;
mod profile;

use tidegate_engine::{BrokerLinkReport, BrokerLinkState};
use tidegate_mqtt::{Disconnect, QoS, ReasonCode, SubscriptionOptions};

use crate::harness::*;
use crate::simulation::seeds;
use profile::{Kind, Profile};

/// Things that clients, brokers, the network and the clock do in one run.
const ACTIONS: usize = 400;
/// Topics that clients publish to.
const TOPICS: [&str; 5] = ["t/1", "t/2", "t/2/x", "u", "v/1"];
/// Their subscriptions, which stay.
const FILTERS: [&[&str]; 4] = [&["t/#", "v/1"], &["t/+", "u"], &["#"], &["t/1", "t/2/x", "+/1"]];

#[derive(Clone, Debug)]
struct Sent {
    publisher: usize,
    topic: &'static str,
    payload: String,
    qos: QoS,
}

struct FleetRun {
    seed: u64,
    profile: Profile,
    world: World,
    random: Random,
    devices: Vec<Device>,
    brokers: Vec<Broker>,
    published: Vec<Sent>,
    crashes: u32,
}

impl FleetRun {
    fn new(kind: Kind, seed: u64) -> Self {
        let mut random = Random::salted(seed, 11);
        let profile = Profile::new(kind, &mut random);
        let title = format!("fleet, {kind:?}, TIDEGATE_SEED={seed}");
        let world = World::seeded(profile.shards, seed, &title, |settings| *settings = profile.settings.clone());
        let names = ["a", "b", "c", "d"];
        let brokers = names[..profile.brokers].iter().map(|name| {
            let ways = profile.ways(&mut random);
            world.broker_with(name, profile.options(), ways)
        });
        let brokers = brokers.collect();
        let name = |number: usize| world.name_on(number as u16, &format!("device {number} "));
        let devices = (0..FILTERS.len()).map(|number| Device::new(&world, &name(number))).collect();
        Self { seed, profile, world, random, devices, brokers, published: Vec::new(), crashes: 0 }
    }

    /// Plays the whole of it and checks it; returns a digest of everything that happened.
    fn play(mut self) -> u64 {
        for device in 0..self.devices.len() {
            self.connect(device);
        }
        settle(&self.world, &mut self.devices);
        for (device, filters) in FILTERS.iter().enumerate() {
            for filter in *filters {
                self.devices[device].subscribe(filter, SubscriptionOptions::new(QoS::ExactlyOnce), None);
            }
        }
        settle(&self.world, &mut self.devices);
        for (device, filters) in self.devices.iter().zip(FILTERS) {
            assert_eq!(device.subscribed.len(), filters.len(), "seed {}", self.seed);
        }
        for _ in 0..ACTIONS {
            self.act();
        }
        self.calm_down();
        self.check_outcome();
        self.go_home();
        self.world.digest()
    }

    // ---- what happens ----------------------------------------------------------------------------------------------

    fn act(&mut self) {
        let device = self.random.below(self.devices.len());
        let online = self.devices[device].online;
        match self.random.below(100) {
            0..=34 => {
                let steps = 1 + self.random.below(12);
                self.world.run_some(steps);
            }
            50..=71 => self.publish(device),
            72..=74 if online => self.break_connection(device),
            75..=79 if !online => self.connect(device),
            80..=83 if self.profile.kind == Kind::Moving => {
                self.hurry();
                let milliseconds = self.random.pick(&[1, 50, 400, 1000, 3000]);
                self.world.advance(milliseconds);
            }
            80..=82 => {
                let milliseconds = self.random.pick(&[1, 50, 400, 1000, 3000]);
                self.world.skip(milliseconds);
            }
            83 => {
                let milliseconds = self.random.pick(&[400, 1500, 6000, 12_000]);
                self.world.advance(milliseconds);
            }
            84..=87 => self.change_broker_s_pace(),
            88..=93 if self.profile.kind.loses_brokers() => self.strike_broker(),
            88..=93 if self.profile.kind == Kind::Moving => self.move_topics(),
            94..=95 => {
                let survives = self.random.pick(&[0, 1, 5, 40, usize::MAX]);
                let name = self.any_broker().name().to_owned();
                if self.profile.kind.loses_brokers() {
                    self.world.cut_broker(&name, survives);
                }
            }
            96 if self.profile.kind.crashes() => self.crash(),
            97 if self.profile.kind.crashes() => {
                if self.random.percent(50) {
                    self.world.hold_commits();
                } else {
                    self.world.release_commits_later();
                }
            }
            _ => {
                self.devices[device].process();
                self.devices[device].notice_close();
            }
        }
    }

    fn any_broker(&mut self) -> Broker {
        let number = self.random.below(self.brokers.len());
        self.brokers[number].clone()
    }

    fn connect(&mut self, device: usize) {
        let connecting = Profile::connecting(device, &mut self.random);
        self.devices[device].connect(connecting);
    }

    fn break_connection(&mut self, device: usize) {
        if self.random.percent(25) {
            self.devices[device].disconnect(&Disconnect::new(ReasonCode::Success));
        } else {
            let survives = self.random.pick(&[0, 1, 17, 400, usize::MAX]);
            self.devices[device].cut(survives);
        }
    }

    fn publish(&mut self, device: usize) {
        let topic = self.random.pick(&TOPICS);
        let qos = self.random.pick(&[QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce, QoS::ExactlyOnce]);
        let payload = format!("{device}-{}", self.published.len());
        self.published.push(Sent { publisher: device, topic, payload: payload.clone(), qos });
        self.devices[device].publish(message(topic, &payload).qos(qos));
    }

    /// Acknowledgements and messages of a broker wait for a while.
    fn change_broker_s_pace(&mut self) {
        let broker = self.any_broker();
        let (which, slow) = (self.random.below(3), self.random.percent(50));
        broker.with(|broker| {
            match which {
                0 => broker.ways.withholds_acknowledgements = slow,
                1 => broker.ways.withholds_messages = slow,
                _ => broker.ways.withholds_sub_acks = slow,
            }
            broker.go_on();
        });
    }

    /// A broker is given nothing any more, or is again.
    fn move_topics(&mut self) {
        let broker = self.any_broker();
        if self.random.percent(50) {
            // The last one stays.
            let _ = broker.drain();
        } else {
            broker.set(self.profile.options());
        }
    }

    /// Ends the slow ways of brokers.
    fn hurry(&mut self) {
        for broker in &self.brokers {
            broker.with(|broker| {
                broker.ways.withholds_acknowledgements = false;
                broker.ways.withholds_messages = false;
                broker.ways.withholds_sub_acks = false;
                broker.go_on();
            });
        }
        settle(&self.world, &mut self.devices);
    }

    fn strike_broker(&mut self) {
        let broker = self.any_broker();
        let survives = self.random.pick(&[0, 1, 5, 40, usize::MAX]);
        let name = broker.name().to_owned();
        match self.random.below(13) {
            0 | 1 => self.world.kill_broker(&name, survives),
            2 => {
                self.world.kill_broker(&name, survives);
                self.profile.lose_memory(&broker, &mut self.random);
            }
            3 => broker.with(|broker| broker.ways.hangs = true),
            4 if self.profile.kind.brings_back() => broker.with(|broker| broker.ways.loses = true),
            5 => broker.save(),
            6 if self.profile.kind.brings_back() => {
                broker.with(|broker| broker.ways.answers = ReasonCode::QuotaExceeded);
            }
            _ => broker.with(|broker| {
                broker.ways.reachable = true;
                broker.ways.answers = ReasonCode::Success;
                broker.ways.hangs = false;
                broker.ways.loses = false;
                broker.go_on();
            }),
        }
    }

    /// The process dies with a part of its uncommitted batches, and another one with this number of shards takes over.
    fn crash(&mut self) {
        let waiting = self.world.uncommitted();
        let crash = Crash {
            kept: self.random.pick(&[0, self.random.clone().below(waiting + 1), waiting]),
            shards: self.random.pick(&[1, 2, 3]),
            away: self.random.pick(&[0, 1, 700, 3000]),
            stepped: 0,
            swept: self.random.percent(50),
        };
        self.crashes += 1;
        self.world.crash(crash);
        for device in &mut self.devices {
            device.notice_close();
        }
    }

    // ---- the end ---------------------------------------------------------------------------------------------------

    /// The weather is over: brokers are there and everyone returns, until nothing is owed to anybody.
    fn calm_down(&mut self) {
        self.world.note("the weather is over".to_owned());
        self.world.release_commits_later();
        for broker in &self.brokers {
            if self.profile.kind == Kind::Moving {
                broker.set(self.profile.options());
            }
            broker.with(|broker| {
                broker.ways.reachable = true;
                broker.ways.hangs = false;
                broker.ways.loses = false;
                broker.ways.answers = ReasonCode::Success;
            });
        }
        self.hurry();
        for _ in 0..200 {
            for device in 0..self.devices.len() {
                self.devices[device].cut_abandoned();
                if self.devices[device].client().is_none() {
                    self.connect(device);
                }
            }
            settle_a_second(&self.world, &mut self.devices);
            if self.is_at_rest() {
                return;
            }
        }
        panic!("seed {}: owed for ever: {:?}, {:?}", self.seed, self.world.broker_links(), self.world.gauges());
    }

    fn is_at_rest(&self) -> bool {
        let broker_links = self.world.broker_links();
        let serving =
            |broker_link: &BrokerLinkReport| broker_link.state == BrokerLinkState::Serving && broker_link.owed() == 0;
        let brokers_owe: usize = self.brokers.iter().map(|broker| broker.with(|broker| broker.owes())).sum();
        broker_links.iter().all(serving) && nothing_is_owed(&self.world, &self.devices) && brokers_owe == 0
    }

    /// Everyone leaves for good, and nothing may be left behind.
    fn go_home(&mut self) {
        for device in &mut self.devices {
            device.connect(v5("").clean(true));
        }
        settle(&self.world, &mut self.devices);
        for device in &mut self.devices {
            device.disconnect(&Disconnect::default());
        }
        settle(&self.world, &mut self.devices);
        self.world.advance(minutes(1));
        self.check_nothing_left();
    }
}

#[test]
fn topics_keep_their_order_while_brokers_are_slow() {
    for seed in seeds() {
        FleetRun::new(Kind::Slow, seed).play();
    }
}

#[test]
fn topics_keep_their_order_while_they_move_between_brokers() {
    for seed in seeds() {
        FleetRun::new(Kind::Moving, seed).play();
    }
}

#[test]
fn nothing_is_lost_or_repeated_whatever_happens_to_brokers() {
    for seed in seeds() {
        FleetRun::new(Kind::Stormy, seed).play();
    }
}

#[test]
fn nothing_is_lost_or_repeated_in_a_fleet_under_faults() {
    for seed in seeds() {
        FleetRun::new(Kind::Crashing, seed).play();
    }
}

#[test]
fn mqtt_3_brokers_with_safe_disks_lose_and_repeat_nothing() {
    for seed in seeds() {
        FleetRun::new(Kind::Old, seed).play();
    }
}

#[test]
fn a_seed_of_a_fleet_plays_the_same_run_again() {
    for kind in [Kind::Stormy, Kind::Crashing] {
        assert_eq!(FleetRun::new(kind, 3).play(), FleetRun::new(kind, 3).play());
    }
}
