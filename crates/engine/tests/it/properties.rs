//! Random clients do random things, and a small model of MQTT says what each has to receive.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tidegate_engine::{Durability, Reason, Settings};
use tidegate_mqtt::{Disconnect, QoS, ReasonCode, RetainHandling, SubscriptionOptions};

use crate::harness::*;
use crate::model::{ClientNumber, Ending, Expected, Model, OneOf, Published, SESSION_SECONDS, Subscription};

/// Clients with ordinary subscriptions.
const CLIENTS: usize = 4;
/// Clients with shared subscriptions, numbered behind the others. They acknowledge at once and leave no session.
const MEMBERS: usize = 2;

const TOPICS: [&str; 6] = ["a", "a/b", "a/c", "b", "$d/a", "/"];
const FILTERS: [&str; 9] = ["a", "a/b", "#", "+", "a/#", "a/+", "+/b", "$d/#", "+/+"];
const SHARED: [&str; 4] = ["$share/g/a/#", "$share/g/#", "$share/h/a/#", "$share/h/+"];

#[derive(Clone, Debug)]
enum Op {
    Connect { client: usize, clean: bool, lasts: bool, will: Option<(usize, u8, bool)>, version: u8 },
    End { client: usize, ending: u8 },
    Subscribe { client: usize, filter: usize, qos: u8, no_local: bool, as_published: bool, handling: u8, id: u32 },
    Unsubscribe { client: usize, filter: usize },
    Publish { client: usize, topic: usize, qos: u8, retain: bool, empty: bool, twice: bool },
    Burst { first: usize, second: usize, topic: usize, qos: u8, count: usize },
    Hold { client: usize, holds: bool },
    Advance { seconds: u64 },
}

fn op() -> impl Strategy<Value = Op> {
    let client = || 0..CLIENTS + MEMBERS;
    let qos = || 0..3_u8;
    let will = prop::option::weighted(0.3, (0..TOPICS.len(), qos(), any::<bool>()));
    prop_oneof![
        5 => (client(), prop::bool::weighted(0.3), any::<bool>(), will, 0..3_u8)
            .prop_map(|(client, clean, lasts, will, version)| Op::Connect { client, clean, lasts, will, version }),
        2 => (client(), 0..3_u8).prop_map(|(client, ending)| Op::End { client, ending }),
        6 => (client(), 0..FILTERS.len(), qos(), prop::bool::weighted(0.2), any::<bool>(), 0..3_u8, 0..4_u32).prop_map(
            |(client, filter, qos, no_local, as_published, handling, id)| {
                Op::Subscribe { client, filter, qos, no_local, as_published, handling, id }
            }
        ),
        1 => (client(), 0..FILTERS.len()).prop_map(|(client, filter)| Op::Unsubscribe { client, filter }),
        8 => (client(), 0..TOPICS.len(), qos(), prop::bool::weighted(0.3), prop::bool::weighted(0.1), any::<bool>())
            .prop_map(|(client, topic, qos, retain, empty, twice)| {
                Op::Publish { client, topic, qos, retain, empty, twice }
            }),
        3 => (client(), client(), 0..TOPICS.len(), qos(), 2..12_usize)
            .prop_map(|(first, second, topic, qos, count)| Op::Burst { first, second, topic, qos, count }),
        2 => (0..CLIENTS, any::<bool>()).prop_map(|(client, holds)| Op::Hold { client, holds }),
        1 => (1..SESSION_SECONDS * 2).prop_map(|seconds| Op::Advance { seconds }),
    ]
}

fn qos(bits: u8) -> QoS {
    QoS::from_bits(bits).unwrap()
}

struct Play {
    world: World,
    devices: Vec<Device>,
    model: Model,
    /// Number of the next message of each publisher.
    next: Vec<u32>,
    /// How many connects of each client the devices have made: members leave no session.
    step: usize,
}

impl Play {
    fn new(world: World) -> Self {
        let name = |number: usize| world.name_on(number as u16, &format!("client {number} "));
        let devices = (0..CLIENTS + MEMBERS).map(|number| Device::new(&world, &name(number))).collect();
        Self { world, devices, model: Model::default(), next: vec![0; CLIENTS + MEMBERS], step: 0 }
    }

    /// Lets everything come to rest, the devices too.
    fn settle(&mut self) {
        loop {
            self.world.run();
            let busy = self.devices.iter_mut().filter_map(|device| device.process().then_some(())).count();
            if busy == 0 {
                break;
            }
        }
        for device in &mut self.devices {
            device.notice_close();
        }
    }

    fn new_payload(&mut self, client: ClientNumber) -> String {
        self.next[client] += 1;
        format!("{client}-{}", self.next[client])
    }

    fn play(&mut self, op: &Op) {
        self.step += 1;
        self.world.note(format!("op {}: {op:?}", self.step));
        match *op {
            Op::Connect { client, clean, lasts, will, version } => self.connect(client, clean, lasts, will, version),
            Op::End { client, ending } => self.end(client, ending),
            Op::Subscribe { .. } => self.subscribe(op),
            Op::Unsubscribe { client, filter } => self.unsubscribe(client, filter),
            Op::Publish { .. } => self.publish(op),
            Op::Burst { first, second, topic, qos, count } => self.burst([first, second], topic, qos, count),
            Op::Hold { client, holds } => self.hold(client, holds),
            Op::Advance { seconds: count } => {
                self.world.advance(seconds(count));
                self.model.advance(count);
            }
        }
        self.settle();
        self.check();
    }

    fn connect(
        &mut self,
        client: ClientNumber,
        clean: bool,
        lasts: bool,
        will: Option<(usize, u8, bool)>,
        version: u8,
    ) {
        let member = client >= CLIENTS;
        let (clean, lasts, version) = if member { (true, false, 2) } else { (clean, lasts, version) };
        // A member whose own will goes to its own group is too much for a small model.
        let will = will.filter(|_| !member).map(|(topic, bits, retain)| Published {
            topic: TOPICS[topic].to_owned(),
            // A will is published later than messages that were sent after it was left.
            payload: self.new_payload(client).replace('-', " will "),
            qos: qos(bits),
            retain,
        });
        let mut connecting = match version {
            0 => v31("").clean(clean),
            1 => v311("").clean(clean),
            _ => v5("").clean(clean).aliases(2),
        };
        // Before MQTT 5 one flag means both.
        let lasts = if version == 2 { lasts } else { !clean };
        if version == 2 && lasts {
            connecting = connecting.expiry(SESSION_SECONDS as u32);
        }
        if let Some(will) = &will {
            let mut left = message(&will.topic, &will.payload).qos(will.qos);
            left.retain = will.retain;
            connecting = connecting.will(left);
        }
        self.devices[client].connect(connecting);
        self.settle();
        let present = self.model.connect(client, clean, lasts, version == 2, will);
        let device = &self.devices[client];
        assert!(device.online, "{} is not accepted: {:?}", device.name, device.refused);
        if version > 0 {
            assert_eq!(device.session_present, present, "session present of {}", device.name);
        }
    }

    fn end(&mut self, client: ClientNumber, ending: u8) {
        let device = &mut self.devices[client];
        if !device.online {
            return;
        }
        let v5 = device.client().is_some_and(Client::is_v5);
        let ending = match ending {
            0 => Ending::Goodbye,
            1 if v5 => Ending::GoodbyeWithWill,
            _ => Ending::Lost,
        };
        match ending {
            Ending::Goodbye => device.disconnect(&Disconnect::default()),
            Ending::GoodbyeWithWill => device.disconnect(&Disconnect::new(ReasonCode::DisconnectWithWillMessage)),
            Ending::Lost => device.cut(usize::MAX),
        }
        self.model.end_connection(client, ending);
    }

    fn filter_of(client: ClientNumber, filter: usize) -> &'static str {
        if client >= CLIENTS { SHARED[filter % SHARED.len()] } else { FILTERS[filter] }
    }

    fn subscribe(&mut self, op: &Op) {
        let Op::Subscribe { client, filter, qos: bits, no_local, as_published, handling, id } = *op else { return };
        let device = &mut self.devices[client];
        if !device.online {
            return;
        }
        let v5 = device.client().is_some_and(Client::is_v5);
        let filter = Self::filter_of(client, filter);
        let shared = client >= CLIENTS;
        let handling = match handling {
            1 if v5 => RetainHandling::SendIfNew,
            2 if v5 => RetainHandling::DoNotSend,
            _ => RetainHandling::SendAtSubscribe,
        };
        let subscription = Subscription {
            qos: qos(bits),
            no_local: no_local && v5 && !shared,
            retain_as_published: as_published && v5,
            id: if v5 { id } else { 0 },
        };
        let options = SubscriptionOptions {
            qos: subscription.qos,
            no_local: subscription.no_local,
            retain_as_published: subscription.retain_as_published,
            retain_handling: handling,
        };
        device.subscribe(filter, options, Some(subscription.id).filter(|id| *id != 0));
        self.model.subscribe(client, filter, subscription, handling);
    }

    fn unsubscribe(&mut self, client: ClientNumber, filter: usize) {
        if self.devices[client].online {
            let filter = Self::filter_of(client, filter);
            self.devices[client].unsubscribe(filter);
            self.model.unsubscribe(client, filter);
        }
    }

    fn publish(&mut self, op: &Op) {
        let Op::Publish { client, topic, qos: bits, retain, empty, twice } = *op else { return };
        if !self.devices[client].online {
            return;
        }
        let payload = if empty { String::new() } else { self.new_payload(client) };
        let published = Published { topic: TOPICS[topic].to_owned(), payload, qos: qos(bits), retain };
        let mut sent = message(&published.topic, &published.payload).qos(published.qos);
        sent.retain = retain;
        self.devices[client].publish(sent);
        if twice {
            self.devices[client].repeat_last();
        }
        self.model.publish(Some(client), &published);
    }

    /// Two clients send at once.
    fn burst(&mut self, clients: [ClientNumber; 2], topic: usize, bits: u8, count: usize) {
        for number in 0..count {
            let client = clients[number % 2];
            if !self.devices[client].online {
                continue;
            }
            let payload = self.new_payload(client);
            let published = Published { topic: TOPICS[topic].to_owned(), payload, qos: qos(bits), retain: false };
            self.devices[client].publish(message(&published.topic, &published.payload).qos(published.qos));
            self.model.publish(Some(client), &published);
        }
    }

    fn hold(&mut self, client: ClientNumber, holds: bool) {
        if holds {
            self.devices[client].habits.holds_acknowledgements = true;
        } else {
            self.devices[client].release();
        }
        self.model.set_holding(client, holds);
    }

    // ---- what must hold at rest ------------------------------------------------------------------------------------

    fn check(&mut self) {
        let mut due = std::mem::take(&mut self.model.due);
        let one_of = std::mem::take(&mut self.model.due_one_of);
        for client in 0..CLIENTS {
            let mut got = self.take_inbox(client);
            let mut wanted = due.remove(&client).unwrap_or_default();
            check_order(&self.devices[client].name, &got);
            got.sort();
            wanted.sort();
            assert_eq!(got, wanted, "the messages of {}, and the expected ones", self.devices[client].name);
        }
        assert!(due.is_empty(), "members have no ordinary subscriptions: {due:?}");
        self.check_groups(one_of);
        self.check_counts();
    }

    fn take_inbox(&mut self, client: ClientNumber) -> Vec<Expected> {
        let inbox = std::mem::take(&mut self.devices[client].inbox);
        let expected = |got: Received| {
            let mut ids = got.message.subscription_ids.clone();
            ids.sort_unstable();
            Expected {
                payload: got.message.text(),
                topic: got.message.topic,
                qos: got.message.qos.bits(),
                retain: got.message.retain,
                dup: got.message.dup,
                ids,
            }
        };
        inbox.into_iter().map(expected).collect()
    }

    /// Each message for a group is with exactly one of its members.
    fn check_groups(&mut self, one_of: Vec<OneOf>) {
        let mut got: BTreeMap<ClientNumber, Vec<Expected>> =
            (CLIENTS..CLIENTS + MEMBERS).map(|client| (client, self.take_inbox(client))).collect();
        // Each message is a riddle of its own: which of its copies is for which group?
        let mut riddles: BTreeMap<(String, String), Vec<OneOf>> = BTreeMap::new();
        for one in one_of {
            let expected = one.0.values().next().expect("a group has members");
            riddles.entry((expected.topic.clone(), expected.payload.clone())).or_default().push(one);
        }
        for riddle in riddles.values() {
            assert!(assign(riddle, &mut got), "each of {riddle:#?} has to be with one member; they have {got:#?}");
        }
        assert!(got.values().all(Vec::is_empty), "members have got messages for others: {got:?}");
    }

    fn check_counts(&self) {
        let gauges = self.world.gauges();
        let model = &self.model;
        let found = [
            gauges.sessions_connected,
            gauges.sessions_disconnected,
            gauges.subscriptions,
            gauges.shared_subscriptions,
        ];
        assert_eq!(found, model.counts(), "sessions on and off, subscriptions, memberships");
        assert_eq!(gauges.retained_messages, model.retained.len() as u64, "retained messages");
        let (queued, in_flight) = model.waiting();
        let outside = gauges.stored_messages;
        assert_eq!(gauges.queued_messages + outside, queued, "queued messages");
        assert_eq!(gauges.inflight_messages, in_flight, "messages in flight");
        assert_eq!((gauges.input_bytes, self.world.batches_under_way()), (0, 0));
        let dropped = self.world.counters().dropped;
        assert_eq!(dropped[Reason::OfflineQos0.number()], model.dropped_offline, "dropped for those away");
        let with_session = dropped[Reason::SessionDiscarded.number()] + dropped[Reason::SessionExpired.number()];
        assert_eq!(with_session, model.dropped_with_session, "dropped with sessions");
        let others: u64 = dropped.iter().sum::<u64>() - with_session - model.dropped_offline;
        assert_eq!(others, 0, "dropped for no reason of the model");
    }
}

/// Takes one copy for each group out of the members' messages, if that is possible.
fn assign(groups: &[OneOf], got: &mut BTreeMap<ClientNumber, Vec<Expected>>) -> bool {
    let Some((OneOf(candidates), rest)) = groups.split_first() else { return true };
    for (client, expected) in candidates {
        let messages = got.get_mut(client).unwrap();
        let Some(place) = messages.iter().position(|message| message == expected) else { continue };
        messages.swap_remove(place);
        if assign(rest, got) {
            return true;
        }
        got.get_mut(client).unwrap().push(expected.clone());
    }
    false
}

/// Messages of one publisher to one topic come in the order in which they were sent. Retained and repeated ones are not
/// checked.
fn check_order(name: &str, got: &[Expected]) {
    let mut last: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    for message in got.iter().filter(|message| !message.dup && !message.retain) {
        let Some((publisher, number)) = message.payload.split_once('-') else { continue };
        let number: u32 = number.parse().unwrap();
        if let Some(before) = last.insert((publisher, &message.topic), number) {
            assert!(before < number, "{name} has got {number} of publisher {publisher} after {before}");
        }
    }
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: 600, max_shrink_iters: 4000, failure_persistence: None, ..ProptestConfig::default() }
}

/// Sessions of all versions wait equally long.
fn settings(settings: &mut Settings) {
    settings.limits.max_session_expiry_seconds = SESSION_SECONDS as u32;
}

/// The same with a store whose promises have to be waited for.
fn stored(settings: &mut Settings) {
    self::settings(settings);
    settings.durability = Durability::Commit;
    settings.queue.memory_bytes = 500;
}

fn play(world: World, ops: &[Op]) {
    let mut play = Play::new(world);
    for op in ops {
        play.play(op);
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_client_gets_what_the_model_says(ops in prop::collection::vec(op(), 1..60)) {
        play(World::with(1, settings), &ops);
        play(World::with(1, stored), &ops);
    }

    #[test]
    fn shards_change_nothing_but_the_order_of_events(ops in prop::collection::vec(op(), 1..60), seed in any::<u64>()) {
        play(World::with(3, settings), &ops);
        play(World::seeded_links(3, seed, &format!("random order {seed}"), settings), &ops);
        play(World::seeded_links(3, seed, &format!("random order {seed}, with a store"), stored), &ops);
    }
}

#[test]
fn a_retained_message_comes_again_after_held_answers() {
    let (client, no_local, as_published, handling, id) = (2, false, false, 0, 0);
    let subscribe = || Op::Subscribe { client, filter: 1, qos: 2, no_local, as_published, handling, id };
    let connect = |client, version| Op::Connect { client, clean: false, lasts: false, will: None, version };
    let ops = [
        connect(0, 0),
        Op::Publish { client: 0, topic: 1, qos: 2, retain: true, empty: false, twice: false },
        connect(2, 2),
        Op::Hold { client, holds: true },
        subscribe(),
        connect(2, 0),
        subscribe(),
    ];
    play(World::with(1, settings), &ops);
    play(World::with(3, settings), &ops);
    for seed in 0..20 {
        play(World::seeded_links(3, seed, &format!("random order {seed}"), settings), &ops);
    }
}
