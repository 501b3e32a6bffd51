//! Random clients in two equal worlds until one of them moves: a returning client gets the same packets in both.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::sample::Index;
use tidegate_engine::Gauges;
use tidegate_mqtt::SubscriptionOptions;

use super::*;

const CLIENTS: usize = 5;
const TOPICS: [&str; 4] = ["a", "a/b", "c", "c/d"];
const FILTERS: [&str; 6] = ["a/#", "+/b", "c/+", "#", "$share/g/a/#", "$share/h/c"];

/// The packet ids of QoS 2 messages begin above the ids that connections choose.
const FIRST_ID: u16 = 1_000;

/// Something that a client does.
#[derive(Clone, Debug)]
enum Act {
    Connect {
        lasting: bool,
        window: u16,
        will: bool,
    },
    Leave {
        goodbye: bool,
    },
    Subscribe {
        filter: usize,
        qos: QoS,
        identifier: Option<u32>,
    },
    Unsubscribe {
        filter: usize,
    },
    Publish {
        topic: usize,
        qos: QoS,
        retain: bool,
        expiry: Option<u32>,
    },
    /// Answers one of the packets that wait for an answer.
    Answer {
        which: Index,
    },
    /// Continues one of the QoS 2 exchanges that it has begun.
    Release {
        which: Index,
    },
    /// Time passes, for everyone.
    Wait {
        seconds: u32,
    },
}

/// The identifier of a shared subscription, which no other subscription has: it marks messages of a group.
fn of_group(filter: usize) -> Option<u32> {
    FILTERS[filter].starts_with("$share").then(|| 100 + u32::try_from(filter).unwrap())
}

fn qos() -> impl Strategy<Value = QoS> {
    prop_oneof![Just(AtMostOnce), Just(AtLeastOnce), Just(ExactlyOnce)]
}

fn act() -> impl Strategy<Value = Act> {
    let expiry = proptest::option::weighted(0.2, 1..60_u32);
    prop_oneof![
        3 => (prop::bool::weighted(0.8), 1..5_u16, any::<bool>())
            .prop_map(|(lasting, window, will)| Act::Connect { lasting, window, will }),
        2 => any::<bool>().prop_map(|goodbye| Act::Leave { goodbye }),
        4 => (0..FILTERS.len(), qos(), proptest::option::of(1..9_u32))
            .prop_map(|(filter, qos, identifier)| Act::Subscribe { filter, qos, identifier: of_group(filter).or(identifier) }),
        1 => (0..FILTERS.len()).prop_map(|filter| Act::Unsubscribe { filter }),
        8 => (0..TOPICS.len(), qos(), prop::bool::weighted(0.2), expiry)
            .prop_map(|(topic, qos, retain, expiry)| Act::Publish { topic, qos, retain, expiry }),
        4 => any::<Index>().prop_map(|which| Act::Answer { which }),
        2 => any::<Index>().prop_map(|which| Act::Release { which }),
        1 => (1..20_u32).prop_map(|seconds| Act::Wait { seconds }),
    ]
}

/// A packet that a client has got and not answered.
#[derive(Clone, Copy, Debug)]
enum Unanswered {
    AtLeastOnce(PacketId),
    ExactlyOnce(PacketId),
    Released(PacketId),
}

/// One client through all of its connections.
struct Actor {
    name: String,
    connection: Option<Client>,
    lasting: bool,
    window: u16,
    unanswered: Vec<Unanswered>,
    /// Packet ids under which it was sent retained messages.
    retained: BTreeSet<PacketId>,
    /// QoS 2 messages that it has published and not released, with their topics.
    unreleased: Vec<(PacketId, &'static str)>,
}

impl Actor {
    fn open(&self) -> Option<&Client> {
        self.connection.as_ref().filter(|client| client.closed().is_none())
    }

    /// Takes the received packets as text, so that two worlds can be compared.
    fn take(&mut self) -> Vec<String> {
        let Some(client) = &self.connection else { return Vec::new() };
        let mut told = Vec::new();
        while let Some(arrival) = client.take_arrival() {
            match arrival.packet() {
                Packet::Publish(publish) => {
                    let got = arrival.delivered().unwrap();
                    let id = got.id.filter(|_| got.dup).map_or(0, PacketId::get);
                    told.push(format!(
                        "{} {} {:?} retain {} dup {} {id} ids {:?} expiry {:?}",
                        got.topic,
                        got.text(),
                        got.qos,
                        got.retain,
                        got.dup,
                        got.subscription_ids,
                        got.expiry
                    ));
                    if let Some(id) = got.id {
                        if got.retain {
                            self.retained.insert(id)
                        } else {
                            self.retained.remove(&id)
                        };
                    }
                    match (publish.qos, publish.packet_id) {
                        (AtLeastOnce, Some(id)) => self.unanswered.push(Unanswered::AtLeastOnce(id)),
                        (ExactlyOnce, Some(id)) => self.unanswered.push(Unanswered::ExactlyOnce(id)),
                        _ => {}
                    }
                }
                Packet::PubRel(release) => {
                    let retained = self.retained.contains(&release.packet_id);
                    told.push(format!("release of retain {retained}"));
                    self.unanswered.push(Unanswered::Released(release.packet_id));
                }
                _ => {}
            }
        }
        told
    }

    fn answer(&mut self, which: usize) {
        let Some(client) = self.connection.as_ref().filter(|client| client.closed().is_none()) else {
            // A client that is gone answers nothing any more.
            self.unanswered.clear();
            return;
        };
        match self.unanswered.remove(which) {
            Unanswered::AtLeastOnce(id) => client.puback(id),
            Unanswered::ExactlyOnce(id) => client.pubrec(id),
            Unanswered::Released(id) => client.pubcomp(id),
        }
    }

    fn connect(&mut self, world: &World, will: Option<Message>) {
        let connecting = if self.lasting { v5(&self.name).lasting() } else { v5(&self.name).clean(false) };
        let connecting = Connecting { will, ..connecting.receive_maximum(self.window).manual() };
        self.unanswered.clear();
        let client = world.connect(connecting);
        if !client.session_present() {
            self.unreleased.clear();
        }
        self.connection = Some(client);
    }
}

/// A world and everyone in it.
struct Stage {
    world: World,
    actors: Vec<Actor>,
    published: u32,
}

impl Stage {
    fn new(shards: u16) -> Self {
        let actor = |number| Actor {
            name: format!("client {number}"),
            connection: None,
            lasting: false,
            window: 1,
            unanswered: Vec::new(),
            retained: BTreeSet::new(),
            unreleased: Vec::new(),
        };
        Self { world: World::new(shards), actors: (0..CLIENTS).map(actor).collect(), published: 0 }
    }

    fn play(&mut self, who: usize, act: &Act) {
        match act {
            Act::Wait { seconds } => self.world.advance(u64::from(*seconds) * 1000),
            Act::Connect { lasting, window, will } => {
                let actor = &mut self.actors[who];
                (actor.lasting, actor.window) = (*lasting, *window);
                // A will that does not go along would find some of its receivers gone already.
                let will = (*will && *lasting).then(|| message("a/b", format!("will of {who}")).qos1().delay(600));
                actor.connect(&self.world, will);
            }
            other => {
                if self.actors[who].open().is_some() {
                    self.play_connected(who, other);
                }
            }
        }
        self.world.run();
        for actor in &mut self.actors {
            actor.take();
        }
    }

    fn play_connected(&mut self, who: usize, act: &Act) {
        let actor = &mut self.actors[who];
        let Some(client) = actor.connection.clone() else { return };
        match *act {
            Act::Leave { goodbye: true } => client.disconnect(),
            Act::Leave { goodbye: false } => client.lose(),
            Act::Subscribe { filter, qos, identifier } => {
                client.send_subscribe(&[(FILTERS[filter], SubscriptionOptions::new(qos))], identifier);
            }
            Act::Unsubscribe { filter } => {
                client.send_unsubscribe(FILTERS[filter]);
            }
            Act::Publish { topic, qos, retain, expiry } => {
                self.published += 1;
                let mut message = message(TOPICS[topic], self.published.to_string()).qos(qos);
                if qos == ExactlyOnce {
                    // A client uses no packet id again that it has not released, in any connection.
                    message = message.id(FIRST_ID + u16::try_from(self.published).unwrap());
                }
                let id = client.send_publish(Message { retain, expiry, ..message });
                if qos == ExactlyOnce {
                    actor.unreleased.extend(id.map(|id| (id, TOPICS[topic])));
                }
            }
            Act::Answer { which } if !actor.unanswered.is_empty() => actor.answer(which.index(actor.unanswered.len())),
            Act::Release { which } if !actor.unreleased.is_empty() => {
                let (id, _) = actor.unreleased.remove(which.index(actor.unreleased.len()));
                client.pubrel(id);
            }
            _ => {}
        }
    }

    fn close_those_without_a_session(&mut self) {
        for actor in self.actors.iter().filter(|actor| !actor.lasting) {
            if let Some(client) = actor.open() {
                client.lose();
            }
        }
    }

    /// Everybody who has a session returns, and takes and answers everything; returns what each was sent.
    fn return_all(&mut self, world: &World) -> Vec<Vec<String>> {
        let mut all = Vec::new();
        for actor in &mut self.actors {
            let mut told = Vec::new();
            if actor.lasting && actor.connection.is_some() {
                actor.connect(world, None);
                assert!(actor.open().is_some_and(Client::session_present), "{}", actor.name);
                told.extend(actor.repeat(world));
                told.extend(actor.take_all(world));
            }
            all.push(told);
        }
        all
    }
}

impl Actor {
    /// Sends its unreleased messages again; returns the packets received meanwhile.
    fn repeat(&mut self, world: &World) -> Vec<String> {
        let Some(client) = self.connection.clone() else { return Vec::new() };
        for (id, topic) in self.unreleased.drain(..) {
            client.send_publish(message(topic, "sent again").qos2().id(id.get()).dup());
            client.pubrel(id);
        }
        world.run();
        self.take()
    }

    /// Takes and answers until nothing more comes.
    fn take_all(&mut self, world: &World) -> Vec<String> {
        let mut told = Vec::new();
        loop {
            told.extend(self.take());
            if self.unanswered.is_empty() || self.open().is_none() {
                return told;
            }
            self.answer(0);
            world.run();
        }
    }
}

/// Live messages in order, by their way: a group may be kept at another shard than its members, so messages of the
/// group and messages to the member itself take ways of different lengths.
fn live(lines: &[String]) -> BTreeMap<&str, Vec<&String>> {
    let mut ways = BTreeMap::<&str, Vec<&String>>::new();
    for line in lines.iter().filter(|line| !line.contains("retain true")) {
        let group = ["ids [104]", "ids [105]", "release"].into_iter().find(|way| line.contains(way));
        ways.entry(group.unwrap_or("direct")).or_default().push(line);
    }
    ways
}

/// Whether a client was sent the same in both worlds. Retained messages that a subscription is still owed are brought
/// from the beginning after a move, so there may be more of them.
fn compare(moved: &[String], stayed: &[String]) -> Result<(), TestCaseError> {
    let is_retained = |line: &&String| line.contains("retain true");
    prop_assert_eq!(live(moved), live(stayed));
    let values = |lines: &[String]| -> BTreeSet<String> {
        lines.iter().filter(is_retained).filter_map(|line| line.split(" dup").next()).map(str::to_owned).collect()
    };
    prop_assert!(values(moved).is_superset(&values(stayed)), "{moved:?} {stayed:?}");
    Ok(())
}

/// The retained messages, as a client finds them.
fn retained(world: &World) -> Vec<String> {
    let finder = world.connect(v5("finder"));
    finder.subscribe("#", AtMostOnce);
    let mut found: Vec<String> = finder.messages().iter().map(|got| format!("{} {}", got.topic, got.text())).collect();
    finder.disconnect();
    found.sort();
    found
}

/// Sessions, subscriptions of both kinds, and messages that wait.
fn counts(world: &World) -> [u64; 4] {
    let Gauges { sessions_disconnected, subscriptions, shared_subscriptions, queued_messages, .. } = world.gauges();
    [sessions_disconnected, subscriptions, shared_subscriptions, queued_messages]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn debts_before_a_move_remain_after_it(
        acts in proptest::collection::vec((0..CLIENTS, act()), 1..80),
        shards in prop_oneof![Just((1, 1)), Just((1, 2)), Just((2, 2)), Just((2, 3)), Just((2, 1))],
    ) {
        let (mut stays, mut moves) = (Stage::new(shards.0), Stage::new(shards.0));
        for (who, act) in &acts {
            stays.play(*who, act);
            moves.play(*who, act);
        }
        for stage in [&mut stays, &mut moves] {
            stage.close_those_without_a_session();
        }
        // Everybody is sent away, here to return to the same place and there to another.
        for number in 0..CLIENTS {
            let name = format!("client {number}");
            let close = |engine: &mut tidegate_engine::Engine, now| {
                engine.control().disconnect_client(now, T, &name, Reason::UseAnotherServer)
            };
            stays.world.engine(stays.world.home_of(&name), close);
        }
        stays.world.run();
        let (here, left) = (stays.world.clone(), moves.world.clone());
        let there = elsewhere(&left, shards.1, 0);
        move_all(&left, &there);
        prop_assert_eq!(counts(&there), counts(&here));
        for (moved, stayed) in moves.return_all(&there).iter().zip(stays.return_all(&here)) {
            compare(moved, &stayed)?;
        }
        prop_assert_eq!(retained(&there), retained(&here));
        // Later messages reach the same clients. The turn in a shared group is not owed, so messages are only counted.
        let counted = [(&mut moves, &there), (&mut stays, &here)].map(|(stage, world)| {
            let publisher = world.connect(v5("publisher"));
            for topic in TOPICS {
                publisher.publish(message(topic, "new").qos1());
            }
            stage.actors.iter_mut().map(|actor| actor.take_all(world).len()).sum::<usize>()
        });
        prop_assert_eq!(counted[0], counted[1]);
        prop_assert_eq!(left.counters().dropped_total() + there.counters().dropped_total(), here.counters().dropped_total());
    }
}
