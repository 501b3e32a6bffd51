//! Members of a cluster whose wall clocks differ: the later of two retained values wins.

use tidegate_engine::{Durability, Home, Homes, Millis, PARTITIONS, Roster, RoutingPolicy, Settings, ShardPosition};

use super::linked_members::{kept_at, pairs};
use crate::harness::fleet::lasting;
use crate::harness::*;

/// By how much the clock of one member is ahead.
const SKEW_MS: u64 = 300_000;

/// Time between two messages.
const LATER_MS: u64 = 10;

/// Two members in front of one broker, each with a client. The clock of the first one is ahead.
struct Pair {
    worlds: [World; 2],
    brokers: [Broker; 2],
    clients: [Client; 2],
}

impl Pair {
    fn new() -> Self {
        let worlds = [0, 1].map(|number| {
            let world = World::seeded(1, number, &format!("member {number}"), |settings| {
                fleet_settings(settings, RoutingPolicy::TopicHash);
            });
            world.become_member(100 * (number + 1));
            let (homes, references) = ([Home::Here; PARTITIONS as usize], Vec::new());
            let table = Homes { homes, references, redirect: false, lease_until: Millis::NEVER, patience_ms: 0 };
            world.engine(0, |engine, now| engine.homes().set_homes(now, Some(table)));
            world
        });
        worlds[0].step_wall_clock(SKEW_MS.cast_signed());
        let brokers = [0, 1].map(|at: usize| worlds[at].broker("a"));
        let clients = [0, 1].map(|at: usize| worlds[at].connect(v5("client")));
        Self { worlds, brokers, clients }
    }

    /// Publishes a value at one member. The broker gives it to the other one, if that has subscribed.
    fn publish(&self, at: usize, value: &str) {
        self.clients[at].publish(message("t", value).qos1().retain());
        for carried in self.brokers[at].taken() {
            self.brokers[1 - at].carry(&carried);
        }
        self.worlds.iter().for_each(|world| world.advance(LATER_MS));
    }

    /// The values that new subscribers get.
    fn kept(&self) -> [Vec<String>; 2] {
        [0, 1].map(|at| {
            let reader = self.worlds[at].connect(v5("reader"));
            reader.subscribe_later("t");
            let values = reader.messages_among_others().iter().map(Delivered::text).collect();
            reader.disconnect();
            values
        })
    }
}

#[test]
fn a_member_that_has_seen_a_value_makes_a_later_one() {
    let pair = Pair::new();
    pair.clients.iter().for_each(|client| client.subscribe_later("t"));
    pair.publish(0, "old");
    pair.publish(1, "new");
    assert_eq!(pair.kept(), [["new"], ["new"]]);
    pair.publish(1, "");
    assert_eq!(pair.kept(), [const { Vec::<String>::new() }; 2]);
}

#[test]
fn a_member_follows_the_clock_of_a_linked_one() {
    let pair = Pair::new();
    pair.clients[0].subscribe_later("t");
    pair.worlds[1].engine(0, |engine, now| {
        engine.cluster().set_roster(now, Roster::alone(ShardPosition::ALONE).with_clock_lead(SKEW_MS));
    });
    pair.publish(0, "old");
    pair.publish(1, "new");
    assert_eq!(pair.kept(), [["new"], ["new"]]);
}

/// By how much a clock is ahead until it is set.
const AHEAD_MS: i64 = 2 * 60 * 60 * 1000;

/// The values that a new subscriber gets.
fn kept(world: &World) -> Vec<String> {
    let reader = world.connect(v5("reader"));
    reader.subscribe_later("t");
    let values = reader.messages_among_others().iter().map(Delivered::text).collect();
    reader.disconnect();
    values
}

#[test]
fn a_value_replaces_one_of_a_clock_that_was_set_since() {
    for brought in [false, true] {
        replace_old_value(brought);
    }
}

/// `brought` says whether the broker brings the old value before the new one.
fn replace_old_value(brought: bool) {
    let world = World::seeded(1, 1, "member", |settings| {
        fleet_settings(settings, RoutingPolicy::TopicHash);
        settings.durability = Durability::Commit;
    });
    let broker = world.broker("a");
    let publish = |value: &str| {
        let client = world.connect(v5("client"));
        client.publish(message("t", value).qos1().retain());
        client.disconnect();
        world.advance(LATER_MS);
    };
    let set_and_restart = || {
        world.step_wall_clock(-AHEAD_MS);
        world.run();
        world.crash(Crash { kept: usize::MAX, shards: 1, away: 100, stepped: 0, swept: false });
        world.advance(seconds(2));
    };
    world.step_wall_clock(AHEAD_MS);
    publish("old");
    let old = broker.taken();
    set_and_restart();
    if brought {
        assert_eq!(kept(&world), ["old"]);
    }
    publish("new");
    assert_eq!(kept(&world), ["new"]);
    for carried in &old {
        broker.carry(carried);
    }
    world.run();
    assert_eq!(kept(&world), ["new"], "a broker brings the old one again");
    publish("newer");
    publish("");
    assert!(kept(&world).is_empty());
    publish("last");
    assert_eq!(kept(&world), ["last"]);
}

/// Two linked members, each with a broker, and a topic whose home is the second one. The clock of the first one was ahead.
struct Linked {
    world: World,
    topic: String,
}

impl Linked {
    fn new() -> Self {
        let commit = |settings: &mut Settings| settings.durability = Durability::Commit;
        let world = World::seeded_orchestrators(2, 1, 1, "a clock was ahead", commit);
        world.broker("a");
        world.broker_unknown("b", Ways::default());
        world.engine(1, |engine, now| {
            engine.fleet().set_broker_link(now, "b", lasting()).expect("an orchestrator");
        });
        world.run();
        let linked = Self { topic: world.name_on(1, "value "), world };
        linked.world.step_wall_clock(AHEAD_MS);
        linked.publish(0, "ahead");
        linked.world.step_wall_clock(-AHEAD_MS);
        // The second one follows.
        linked.publish(0, "set");
        linked
    }

    /// The next life of the first member has not seen the clock that was ahead.
    fn restart_first(&self) {
        self.world.fall(0, usize::MAX, 0);
        self.world.run();
        self.world.revive(0);
        self.world.broker("c");
        self.world.advance(seconds(10));
    }

    fn client(&self, member: u16) -> Client {
        self.world.connect(v5(&self.world.name_on(member, "client ")).accept_on(member))
    }

    fn publish(&self, member: u16, value: &str) {
        let client = self.client(member);
        client.publish(message(&self.topic, value).qos1().retain());
        client.disconnect();
        self.world.advance(LATER_MS);
    }

    fn expect(&self, value: Option<&str>) {
        let value = value.map(|value| pairs(&[(&self.topic, value)])).unwrap_or_default();
        for member in 0..2 {
            assert_eq!(kept_at(&self.world, member, &[&self.topic]), value, "at {member}");
        }
    }
}

#[test]
fn members_replace_values_of_a_clock_that_was_ahead() {
    for restarts in [false, true] {
        let linked = Linked::new();
        linked.world.advance(seconds(10));
        linked.publish(1, "old");
        if restarts {
            linked.restart_first();
        }
        linked.publish(0, "new");
        linked.expect(Some("new"));
        linked.publish(1, "newer");
        linked.publish(0, "");
        linked.expect(None);
    }
}

#[test]
fn a_late_value_of_a_clock_behind_replaces_no_newer_one() {
    for restarts in [false, true] {
        let linked = Linked::new();
        if restarts {
            linked.restart_first();
        }
        linked.world.hold(0, 1);
        let late = linked.client(0);
        late.send_publish(message(&linked.topic, "late").qos1().retain());
        linked.world.advance(seconds(2));
        linked.publish(1, "new");
        linked.world.release(0, 1);
        assert_eq!(late.answers().len(), 1);
        linked.expect(Some("new"));
    }
}
