//! The entries of a store that holds the state of a file.
//!
//! An engine restores the state as if clients had connected and subscribed, and its journal is the result. So the
//! format of the store has one writer.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tidegate_engine::{
    ConnectionKey, Durability, Engine, InnerPublication, Limits, ListenerId, ListenerSettings, Now, Settings,
    ShardPosition, TenantId,
};
use tidegate_mqtt::{
    Connect, ConnectProperties, PacketId, RetainHandling, Subscribe, SubscriptionOptions, Subscriptions, TopicFilter,
    UserProperties, Version,
};

use crate::{Client, Database, Retained, Subscription};

/// Filters in one SUBSCRIBE.
const FILTERS: usize = 64;
/// Parts of an output that are read at once; an answer has one.
const SLICES: usize = 4;
/// Reason codes from here on are failures.
const FAILURE: u8 = 0x80;
/// The engine's only shard; a broker that opens the store distributes the sessions again.
const SEED: u64 = 1;

/// The entries of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries {
    /// Keys and values of the store.
    pub entries: BTreeMap<Vec<u8>, Vec<u8>>,
    /// How many sessions are in them.
    pub sessions: usize,
    /// How many subscriptions.
    pub subscriptions: usize,
    /// How many retained messages.
    pub retained: usize,
    /// The parts without a counterpart, with the reason.
    pub left_out: Vec<String>,
}

/// Converts the content of a file to entries. `now` decides which sessions and messages have expired.
pub fn entries(database: &Database, now: Now) -> Entries {
    let mut import = Import::new(now);
    for retained in &database.retained {
        import.retain(retained);
    }
    let mut by_client: HashMap<&str, Vec<&Subscription>> = HashMap::new();
    for subscription in &database.subscriptions {
        by_client.entry(&subscription.client_id).or_default().push(subscription);
    }
    for client in &database.clients {
        import.session(client, by_client.get(&*client.id).map_or(&[], Vec::as_slice));
    }
    if database.queued > 0 {
        let text = format!(
            "{} messages that wait for clients: let the clients fetch them from Mosquitto first",
            database.queued
        );
        import.done.left_out.push(text);
    }
    import.done
}

struct Import {
    engine: Engine,
    now: Now,
    done: Entries,
}

impl Import {
    fn new(now: Now) -> Self {
        // All state of Mosquitto is kept: the broker that opens the store applies its own limits.
        let limits = Limits {
            max_sessions: 0,
            max_session_expiry_seconds: u32::MAX,
            max_subscriptions_per_client: u32::MAX,
            ..Limits::default()
        };
        let listener =
            ListenerSettings { keep_alive_maximum: 0, max_client_id_len: u16::MAX, ..ListenerSettings::default() };
        let settings = Settings {
            listeners: vec![listener],
            limits,
            durability: Durability::Commit,
            sys_interval_seconds: 0,
            sys_events: false,
            ..Settings::default()
        };
        Self { engine: Engine::new(Arc::new(settings), ShardPosition::ALONE, SEED, now), now, done: Entries::default() }
    }

    fn retain(&mut self, retained: &Retained) {
        let expires_at = match retained.expires_at {
            0 => tidegate_engine::Millis::NEVER,
            at => match at.saturating_mul(1000).checked_sub(self.now.unix) {
                Some(left) if left > 0 => self.now.monotonic.plus(left),
                _ => return,
            },
        };
        let message = InnerPublication {
            tenant: TenantId::DEFAULT,
            topic: retained.topic.clone(),
            qos: retained.qos,
            retain: true,
            properties: retained.properties.clone(),
            payload: retained.payload.clone(),
            expires_at,
        };
        // Mosquitto keeps the state of its bridges there; ours have their own.
        if retained.topic.starts_with("$SYS/") {
            return;
        }
        if self.engine.insiders().publish_inner(self.now, &message) {
            self.done.retained += 1;
        } else {
            self.done.left_out.push(format!("the retained message of \"{}\": the topic is not valid", retained.topic));
        }
        self.take_journal();
    }

    fn session(&mut self, client: &Client, subscriptions: &[&Subscription]) {
        let Some(expiry) = self.expiry(client) else { return };
        let Some(key) = self.connect(client, expiry) else {
            self.done.left_out.push(format!("the session of \"{}\": its client id is not valid", client.id));
            return;
        };
        self.done.sessions += 1;
        // Mosquitto's identifiers are of a subscription, and a SUBSCRIBE has one for all its filters.
        let mut waiting: BTreeMap<u32, Vec<&Subscription>> = BTreeMap::new();
        for subscription in subscriptions {
            waiting.entry(subscription.identifier).or_default().push(subscription);
        }
        for (identifier, subscriptions) in waiting {
            for some in subscriptions.chunks(FILTERS) {
                self.subscribe(key, identifier, some);
            }
        }
        self.input(key, b"\xe0\x00");
        self.engine.release_connection(key);
        self.take_journal();
    }

    /// Seconds that a session still has; `None` when it has expired.
    fn expiry(&self, client: &Client) -> Option<u32> {
        if client.expiry_interval == 0 {
            return None;
        }
        if client.expiry_interval == u32::MAX || client.expires_at == 0 {
            return Some(client.expiry_interval);
        }
        let left = client.expires_at.checked_sub(self.now.unix / 1000).filter(|left| *left > 0)?;
        Some(u32::try_from(left).unwrap_or(u32::MAX).min(client.expiry_interval))
    }

    fn connect(&mut self, client: &Client, expiry: u32) -> Option<ConnectionKey> {
        let properties = ConnectProperties { session_expiry_interval: Some(expiry), ..ConnectProperties::default() };
        let connect = Connect {
            version: Version::V5,
            bridge: false,
            clean_start: true,
            keep_alive: 0,
            client_id: &client.id,
            will: None,
            // A store holds proven user names alone; the client proves its own when it returns.
            username: None,
            password: None,
            properties,
        };
        let mut packet = Vec::new();
        connect.encode(&mut packet).ok().filter(|()| !client.id.is_empty())?;
        let key = self.engine.open_connection(self.now, ListenerId(0)).ok()?;
        // A CONNACK has its reason code behind the fixed header and a byte of flags.
        self.input(key, &packet).get(3).filter(|code| **code == 0)?;
        Some(key)
    }

    fn subscribe(&mut self, key: ConnectionKey, identifier: u32, subscriptions: &[&Subscription]) {
        let mut filters = Vec::new();
        for it in subscriptions {
            match TopicFilter::new(&it.filter) {
                Ok(filter) => filters.push((filter, options(it))),
                Err(error) => self.done.left_out.push(format!("\"{}\" of \"{}\": {error}", it.filter, it.client_id)),
            }
        }
        let subscribe = Subscribe {
            packet_id: PacketId::MIN,
            subscription_identifier: Some(identifier).filter(|identifier| *identifier > 0),
            user_properties: UserProperties::EMPTY,
            subscriptions: Subscriptions::new(&filters),
        };
        let mut packet = Vec::new();
        match subscribe.encode(Version::V5, &mut packet) {
            Ok(()) => {
                let answer = self.input(key, &packet);
                // A SUBACK ends with a reason code for each filter, and 0x80 and above are failures.
                let codes = answer.get(answer.len().saturating_sub(filters.len())..).unwrap_or_default();
                for ((filter, _), code) in filters.iter().zip(codes) {
                    if *code < FAILURE {
                        self.done.subscriptions += 1;
                    } else {
                        self.done.left_out.push(format!("\"{filter}\": refused with 0x{code:02x}"));
                    }
                }
            }
            Err(_) if filters.is_empty() => {}
            Err(error) => self.done.left_out.push(format!("subscriptions: {error}")),
        }
    }

    /// Passes bytes of a client to the engine, lets it finish its steps, and returns its answer.
    fn input(&mut self, key: ConnectionKey, bytes: &[u8]) -> Vec<u8> {
        self.engine.handle_input(self.now, key, bytes);
        while self.engine.next_deadline() <= self.now.monotonic {
            self.engine.handle_timers(self.now);
        }
        while self.engine.poll_event().is_some() {}
        // The answer is held back until the commit.
        self.take_journal();
        let mut answer = Vec::new();
        if let Some(output) = self.engine.output(key) {
            let mut slices = [std::io::IoSlice::new(&[]); SLICES];
            let filled = output.slices(&mut slices);
            slices.iter().take(filled).for_each(|slice| answer.extend_from_slice(slice));
            output.advance(answer.len());
            self.engine.outputs().handle_written(self.now, key);
        }
        answer
    }

    /// Applies the engine's journal.
    fn take_journal(&mut self) {
        while let Some(batch) = self.engine.store().take_journal() {
            apply(&mut self.done.entries, &batch.operations);
            self.engine.store().handle_committed(batch.sequence);
        }
    }
}

fn options(it: &Subscription) -> SubscriptionOptions {
    SubscriptionOptions {
        qos: it.qos,
        no_local: it.no_local,
        retain_as_published: it.retain_as_published,
        // The client has had them from Mosquitto.
        retain_handling: RetainHandling::DoNotSend,
    }
}

/// Puts and deletes entries, in the format of `JournalBatch`.
fn apply(entries: &mut BTreeMap<Vec<u8>, Vec<u8>>, mut operations: &[u8]) {
    const PUT: u8 = 1;
    fn part<'a>(bytes: &mut &'a [u8], length: usize) -> &'a [u8] {
        let (part, rest) = bytes.split_at(length.min(bytes.len()));
        *bytes = rest;
        part
    }
    while let [kind, low, high, rest @ ..] = operations {
        operations = rest;
        let key = part(&mut operations, usize::from(u16::from_le_bytes([*low, *high]))).to_vec();
        if *kind != PUT {
            entries.remove(&key);
            continue;
        }
        let length = part(&mut operations, 4).iter().rev().fold(0, |length, byte| length << 8 | usize::from(*byte));
        entries.insert(key, part(&mut operations, length).to_vec());
    }
}
