//! The state of a shard: connections, sessions, and their common parts.
//!
//! It hands packets to outputs and messages to queues. It knows no topics: the receivers of a message are decided
//! before.

pub(crate) mod acknowledge;
pub(crate) mod admission;
pub(crate) mod dead_letter;
pub(crate) mod deliver;
pub(crate) mod departures;
pub(crate) mod events;
pub(crate) mod expiring;
pub(crate) mod groups;
pub(crate) mod loop_lag;
pub(crate) mod overflow;
pub(crate) mod overload;
pub(crate) mod pub_acks;
pub(crate) mod receipts;
pub(crate) mod restore;
pub(crate) mod tail;
pub(crate) mod tally;

use crate::addresses::{Receipts, Tallies};
use crate::cluster::exchanges::Exchanges;
use crate::cluster::transfer::Transfers;
use crate::connection::Connection;
use crate::connection::output::{Output, OutputPool};
use crate::connection::table::Connections;
use crate::connection::to_write::ToWrite;
use crate::durable::Crossings;
use crate::event::Event;
use crate::events::EventLimit;
use crate::events::counters::Counters;
use crate::events::reason::Reason;
use crate::ids::{AssignedNames, ConnectionKey, Partitions, SessionKey, ShardId, ShardPosition, TenantId};
use crate::journal::Journal;
use crate::journal::keys::Key;
use crate::limits::loop_lag::LoopLag;
use crate::limits::overload::Overload;
use crate::limits::rate::Published;
use crate::limits::tenants::TenantUses;
use crate::limits::usage::Meters;
use crate::memory::MemoryUse;
use crate::now::{Millis, Now};
use crate::publish::dead_letter::DeadLetters;
use crate::session::reservations::Reservations;
use crate::session::table::Sessions;
use crate::session::{BlockedPublisher, Session, Will};
use crate::settings::overflow::OverflowRules;
use crate::settings::{Holding, Settings};
use crate::timers::Schedule;
use crate::timers::Timer;
use departures::Departures;
use pub_acks::PubAcks;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use tidegate_mqtt::PacketType;

/// The state of a shard: its connections and sessions, their timers and limits, and the events, counters and changes that
/// they cause.
#[derive(Debug)]
pub(crate) struct ShardState {
    pub settings: Arc<Settings>,
    pub shard: ShardId,
    pub overflow: OverflowRules,
    /// Publishers that wait for memory.
    pub overload: Overload,
    /// Publishers that wait for shorter turns.
    pub loop_lag: LoopLag,
    /// Room that is kept in queues.
    pub reservations: Reservations,
    /// Whether there are addresses of mobile nodes.
    pub has_addresses: bool,
    /// Receipts to be sent.
    pub receipts: Receipts,
    /// The counts of messages to several nodes.
    pub tallies: Tallies,
    /// Dropped messages on their way to being published again, if that is wanted.
    pub dead_letters: Option<DeadLetters>,
    /// Whether someone gave up waiting for a queue that the message at hand was promised to.
    pub gave_up: bool,
    /// The logged and counted events of messages.
    pub event_limit: EventLimit,
    pub connections: Connections,
    /// Partitions that move: their clients are not served, and their messages are kept in memory.
    pub moving: Partitions,
    /// Partitions that leave, and whose messages the brokers still deliver here.
    pub departures: Departures,
    /// Arriving parts of these partitions.
    pub transfers: Transfers,
    pub sessions: Sessions,
    /// Connections with output.
    pub to_write: ToWrite,
    /// Answers to the input at hand.
    pub pub_acks: PubAcks,
    pub events: VecDeque<Event>,
    pub pool: OutputPool,
    pub counters: Counters,
    pub timers: Schedule<Timer>,
    /// Open connections by listener.
    pub connections_by_listener: Vec<u32>,
    /// Recent publications of clients, by listener.
    pub published_by_listener: Vec<Published>,
    /// Memory in use by the shard.
    pub memory: MemoryUse,
    pub sessions_connected: u64,
    pub shared_memberships: u64,
    /// Uses of tenants with a quota.
    pub tenants: TenantUses,
    /// The usage of each tenant, for its bill.
    pub meters: Meters,
    /// Sessions whose queues may delay publishers.
    pub blockers: BTreeSet<u32>,
    /// When publishers have waited for the pace of a pipeline for too long; also its key among the timers.
    pub pace_timer: Option<Millis>,
    /// Publishers that a queue asks to wait; worked off before the next packet.
    pub to_park: Vec<BlockedPublisher>,
    /// Publishers that may go on.
    pub to_unpark: Vec<BlockedPublisher>,
    /// Connections to be closed by policy; worked off before the next packet. They take no packet until then.
    pub to_close: Vec<(ConnectionKey, Reason, Option<String>)>,
    /// Sessions with an empty queue that have retained messages to fetch.
    pub needs_fetch: Vec<SessionKey>,
    /// Sessions whose queue has space again, which is to be reported to their shared groups.
    pub has_capacity: Vec<SessionKey>,
    /// Sessions whose queue has another message at its front, which may be sent at once.
    pub to_refill: Vec<SessionKey>,
    /// Connections whose socket accepts no output.
    pub blocked_connections: u64,
    /// Encoded output per connection beyond which messages wait in the session's queue.
    pub high_water: usize,
    /// Changes for the store.
    pub journal: Journal,
    /// Sessions that may have messages both in the store and in memory.
    pub copied: BTreeSet<SessionKey>,
    /// Sessions whose queue is read on when a batch is committed.
    pub to_read: VecDeque<(u64, SessionKey)>,
    /// Messages on their way to other shards that are stored until they have arrived.
    pub crossings: Crossings,
    /// QoS 2 messages that cross between nodes.
    pub exchanges: Exchanges,
    /// For client ids that the server assigns.
    pub assigned: AssignedNames,
}

/// Whether a session is connected from a pipeline or a bridge of the broker.
pub(crate) fn is_of_own(session: Option<SessionKey>, (sessions, connections): (&Sessions, &Connections)) -> bool {
    let connection = session.and_then(|session| sessions.get(session.0)?.connection);
    connection.and_then(|key| connections.get(key)).is_some_and(Connection::is_own)
}

impl ShardState {
    pub(crate) fn new(settings: Arc<Settings>, shard: ShardId, now: Now) -> Self {
        let listeners = settings.listeners.len();
        let high_water = settings.limits.output_high_water as usize;
        let journal = Journal::new(settings.durability, shard, now);
        let overflow = OverflowRules::new(&settings);
        let tenants = TenantUses::new(&settings);
        let memory = MemoryUse::new(settings.limits.memory_ceiling, settings.queue.memory_bytes);
        let has_addresses = settings.addresses.is_some();
        let dead_letters = settings.dead_letter.clone().map(DeadLetters::new);
        Self {
            settings,
            shard,
            overflow,
            overload: Overload::default(),
            loop_lag: LoopLag::default(),
            reservations: Reservations::default(),
            has_addresses,
            receipts: Receipts::default(),
            tallies: Tallies::default(),
            dead_letters,
            gave_up: false,
            event_limit: EventLimit::default(),
            connections: Connections::default(),
            moving: Partitions::NONE,
            departures: Departures::default(),
            transfers: Transfers::new(shard),
            sessions: Sessions::default(),
            to_write: ToWrite::default(),
            pub_acks: PubAcks::default(),
            events: VecDeque::new(),
            pool: OutputPool::default(),
            counters: Counters::default(),
            timers: Schedule::default(),
            connections_by_listener: vec![0; listeners],
            published_by_listener: vec![Published::default(); listeners],
            memory,
            sessions_connected: 0,
            shared_memberships: 0,
            tenants,
            meters: Meters::default(),
            blockers: BTreeSet::new(),
            pace_timer: None,
            to_park: Vec::new(),
            to_unpark: Vec::new(),
            to_close: Vec::new(),
            needs_fetch: Vec::new(),
            has_capacity: Vec::new(),
            to_refill: Vec::new(),
            blocked_connections: 0,
            high_water,
            journal,
            copied: BTreeSet::new(),
            to_read: VecDeque::new(),
            crossings: Crossings::default(),
            exchanges: Exchanges::new(0, ShardPosition::ALONE),
            assigned: AssignedNames { seed: 0, next: 0 },
        }
    }

    /// Adds a session. The caller has made sure that its client id is new.
    pub(crate) fn insert_session(&mut self, session: Session) -> SessionKey {
        self.memory.held += session.will().map_or(0, Will::cost);
        self.tenants.add(session.counted_for(), Holding::Sessions);
        SessionKey(self.sessions.insert(session))
    }

    /// Takes a session out of its tables. Its key stays in use until nothing refers to it, see [`Sessions::release`].
    pub(crate) fn withdraw_session(&mut self, key: SessionKey) -> Option<Session> {
        let session = self.sessions.withdraw(key.0)?;
        self.reservations.forget_session(key);
        if let Some(at) = session.flow.as_ref().and_then(|flow| flow.expiry_timer) {
            self.timers.cancel(at, Timer::Expiry(key));
        }
        self.memory.held -= session.will().map_or(0, Will::cost);
        if let Some(stored) = session.rare.as_ref().and_then(|rare| rare.stored_will) {
            self.journal.delete(Key::Will(stored));
        }
        self.tenants.release(session.counted_for(), Holding::Sessions, 1);
        Some(session)
    }

    /// Counts a place in a shared group that a session has taken.
    pub(crate) fn count_membership(&mut self, tenant: TenantId) {
        self.shared_memberships += 1;
        self.tenants.add(tenant, Holding::Subscriptions);
    }

    /// The output of a connection for appending a packet; it is written at the end of the turn.
    #[inline]
    pub(crate) fn output_for(&mut self, key: ConnectionKey) -> Option<&mut Output> {
        let connection = self.connections.get_mut(key)?;
        Some(open_output(connection, key, &mut self.to_write, &mut self.pool))
    }

    /// Appends a packet of the given type to a connection's output and counts it.
    /// `encode` says whether it appended the packet: one that the client's limit does not allow is left out.
    #[inline]
    pub(crate) fn send(
        &mut self,
        key: ConnectionKey,
        packet_type: PacketType,
        encode: impl FnOnce(&mut Vec<u8>) -> bool,
    ) {
        if let Some(output) = self.output_for(key)
            && encode(output.buffer())
        {
            self.counters.packets_out[packet_type as usize] += 1;
        }
    }

    /// The same for a packet that promises nothing, and overtakes the waiting ones.
    pub(crate) fn send_ahead(&mut self, key: ConnectionKey, packet_type: PacketType, packet: &[u8]) {
        if let Some(output) = self.output_for(key) {
            output.push_ahead(packet);
            self.counters.packets_out[packet_type as usize] += 1;
        }
    }

    /// The same for a packet that promises changes written in this turn, or (`promises`) changes of other shards: it
    /// leaves when those are committed.
    #[inline]
    pub(crate) fn send_promise(
        &mut self,
        key: ConnectionKey,
        packet_type: PacketType,
        promises: bool,
        encode: impl FnOnce(&mut Vec<u8>) -> bool,
    ) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let output = open_output(connection, key, &mut self.to_write, &mut self.pool);
        let at = output.buffer().len();
        if encode(output.buffer()) {
            self.counters.packets_out[packet_type as usize] += 1;
            if promises && let Some(batch) = self.journal.hold(key) {
                output.hold(at, batch);
            }
        }
    }

    /// Gives memory back after a peak.
    pub(crate) fn shrink(&mut self) {
        self.pool.clear();
        self.memory.spare.clear();
        self.connections.shrink();
        self.sessions.shrink();
        self.to_write.shrink();
        self.pub_acks.shrink();
        self.events.shrink_to_fit();
        self.to_read.shrink_to_fit();
        self.receipts.shrink();
        if let Some(letters) = &mut self.dead_letters {
            letters.shrink();
        }
        for sessions in [&mut self.needs_fetch, &mut self.has_capacity, &mut self.to_refill] {
            sessions.shrink_to_fit();
        }
        self.to_park.shrink_to_fit();
        self.to_unpark.shrink_to_fit();
        self.to_close.shrink_to_fit();
        self.journal.shrink();
    }
}

/// Output that a connection may hold in any case, bytes.
const OUTPUT_LEAST_BYTES: u64 = 4 * 1024;

/// Encoded output that a connection may hold with this number of blocked connections of the shard: all together a
/// quarter of the shard's ceiling.
pub(crate) fn high_water(settings: &Settings, blocked: u64) -> usize {
    let (most, ceiling) = (settings.limits.output_high_water as usize, settings.limits.memory_ceiling);
    let share = (ceiling / 4 / blocked.max(1)).max(OUTPUT_LEAST_BYTES);
    if ceiling == 0 { most } else { most.min(usize::try_from(share).unwrap_or(most)) }
}

/// A connection's output, taken from the pool on first use in a turn, and the connection noted for writing.
#[inline]
pub(crate) fn open_output<'a>(
    connection: &'a mut Connection,
    key: ConnectionKey,
    to_write: &mut ToWrite,
    pool: &mut OutputPool,
) -> &'a mut Output {
    to_write.note(connection, key);
    connection.output.get_or_insert_with(|| pool.take(connection.listed.has_large_output()))
}

impl Connections {
    /// Sets the one timer that a connection has.
    pub(crate) fn set_connection_timer(&mut self, timers: &mut Schedule<Timer>, key: ConnectionKey, deadline: Millis) {
        let Some(connection) = self.get_mut(key) else { return };
        if connection.timer != Millis::NEVER {
            timers.cancel(connection.timer, Timer::Connection(key));
        }
        connection.timer = deadline;
        if deadline != Millis::NEVER {
            timers.set(deadline, Timer::Connection(key));
        }
    }
}

/// The parts of a shard that count and report events of messages: dropped, denied, delayed or delivered. No
/// queue changes by it.
pub(crate) struct Reporting<'d> {
    pub settings: &'d Settings,
    pub shard: ShardId,
    /// The time of the packet or timer at hand.
    pub now: Millis,
    pub has_addresses: bool,
    pub sessions: &'d Sessions,
    pub connections: &'d Connections,
    pub counters: &'d mut Counters,
    pub dead_letters: &'d mut Option<DeadLetters>,
    pub events: &'d mut VecDeque<Event>,
    pub event_limit: &'d mut EventLimit,
    pub receipts: &'d mut Receipts,
    pub tallies: &'d mut Tallies,
    pub timers: &'d mut Schedule<Timer>,
}

impl ShardState {
    /// The parts that count and report events of messages.
    #[inline]
    pub(crate) fn reports(&mut self) -> Reporting<'_> {
        Reporting {
            settings: &self.settings,
            shard: self.shard,
            now: self.journal.now.monotonic,
            has_addresses: self.has_addresses,
            sessions: &self.sessions,
            connections: &self.connections,
            counters: &mut self.counters,
            dead_letters: &mut self.dead_letters,
            events: &mut self.events,
            event_limit: &mut self.event_limit,
            receipts: &mut self.receipts,
            tallies: &mut self.tallies,
            timers: &mut self.timers,
        }
    }
}
