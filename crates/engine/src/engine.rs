//! The engine of one shard: its inputs, its outputs, and the calls of its shell.

mod access;
mod addresses;
mod audit;
mod broker_link;
mod cluster;
mod connection;
mod control;
pub(crate) mod durable;
mod events;
pub(crate) mod facets;
mod groups;
pub(crate) mod image;
mod limits;
mod observers;
mod orchestrator;
mod principals;
mod publish;
mod questions;
mod retained;
mod service;
mod session;
mod silence;
mod subscribe;
mod timing;

use crate::access::Rules;
use crate::addresses::Nodes;
use crate::cluster::exchanges::Exchanges;
use crate::cluster::peers::Peers;
use crate::connection::output::Output;
use crate::durable::Recovery;
use crate::engine::connection::redirecting::Redirecting;
use crate::event::Event;
use crate::events::reason::Reason;
use crate::flows::contexts::fetching;
use crate::groups::Groups;
use crate::ids::{AssignedNames, ConnectionKey, ListenerId, MAX_SHARDS, ShardId, ShardPosition};
use crate::image::Handover;
use crate::journal::Names;
use crate::link::{Batch, Links};
use crate::memory::KERNEL_BUFFER_BYTES;
use crate::now::{Millis, Now};
use crate::orchestrator::broker_link::BrokerLinks;
use crate::orchestrator::homes::HomesInForce;
use crate::principals::Services;
use crate::publish::admission::Admissions;
use crate::publish::fan_out::FanOuts;
use crate::publish::layouts::Layouts;
use crate::publish::origin::OriginWriter;
use crate::publish::turn_share::TurnShare;
use crate::retained::Retaining;
use crate::session::ended::EndedSessions;
use crate::settings::Settings;
use crate::state::{ShardState, high_water};
use crate::sys::Sys;
use crate::topics::Router;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The broker logic of one shard, without sockets, clock or threads.
///
/// In which order a shell calls what, the [crate's page](crate) tells. It is built on its shard's thread and stays
/// there.
#[derive(Debug)]
pub struct Engine {
    pub(crate) place: ShardPosition,
    pub(crate) state: ShardState,
    pub(crate) router: Router,
    pub(crate) layouts: Layouts,
    /// Writes who has published a message, for pipelines.
    pub(crate) origins: OriginWriter,
    pub(crate) links: Links,
    pub(crate) retaining: Retaining,
    pub(crate) groups: Groups,
    /// The sessions of mobile nodes, and their groups.
    pub(crate) nodes: Nodes,
    /// The brokers of a fleet, where there is one.
    pub(crate) broker_links: BrokerLinks,
    pub(crate) sys: Sys,
    pub(crate) rules: Rules,
    /// The shards of other nodes and their subscriptions.
    pub(crate) peers: Peers,
    /// The state of a restart.
    pub(crate) recovery: Recovery,
    /// Partitions that move to another process, or have come from one.
    pub(crate) handover: Handover,
    pub(crate) stopping: bool,
    /// Clients are sent elsewhere.
    pub(crate) redirecting: Option<Redirecting>,
    /// The homes of the partitions.
    pub(crate) homes: HomesInForce,
    /// Messages for which other shards were asked for room.
    pub(crate) admissions: Admissions,
    /// Messages that reached only some of their receivers.
    pub(crate) fan_outs: FanOuts,
    /// Messages that the present turn has delivered.
    pub(crate) turn_share: TurnShare,
    /// Sessions that have ended and are being removed.
    pub(crate) endings: EndedSessions,
    /// Unacknowledged pings by session and packet id; true if they are of this round, so that their acknowledgement is
    /// reported.
    pub(crate) pings: BTreeMap<(u32, u16), bool>,
    /// The observers and the principals of this process.
    pub(crate) services: Services,
    /// Whether [`Engine::work_off`] is running.
    pub(crate) working_off: bool,
}

impl Engine {
    /// An engine for the shard at `place`. `seed` makes assigned client ids differ between runs.
    ///
    /// # Panics
    ///
    /// When `place` names more than [`MAX_SHARDS`] shards or a shard beyond their number: both are the caller's
    /// constants.
    pub fn new(settings: Arc<Settings>, place: ShardPosition, seed: u64, now: Now) -> Self {
        assert!(place.shards <= MAX_SHARDS && place.shard.0 < place.shards, "no such place: {place:?}");
        let mut state = ShardState::new(Arc::clone(&settings), place.shard, now);
        state.journal.names = Names::new(seed, place.shard);
        state.exchanges = Exchanges::new(seed, place);
        state.assigned = AssignedNames { seed, next: 0 };
        Self {
            place,
            state,
            layouts: Layouts::default(),
            origins: OriginWriter::default(),
            links: Links::new(place, settings.limits.shard_link_bytes),
            retaining: Retaining::new(&settings),
            groups: Groups::new(seed, place),
            nodes: Nodes::default(),
            broker_links: BrokerLinks::new(settings.broker_links.clone(), seed, place),
            sys: Sys::new(now),
            rules: Rules::default(),
            peers: Peers::default(),
            recovery: Recovery::default(),
            handover: Handover::default(),
            stopping: false,
            redirecting: None,
            homes: HomesInForce::default(),
            admissions: Admissions::default(),
            fan_outs: FanOuts::default(),
            turn_share: TurnShare::default(),
            endings: EndedSessions::default(),
            pings: BTreeMap::new(),
            services: Services::new(&settings),
            working_off: false,
            router: Router::new(settings),
        }
    }

    /// Takes a new connection in.
    ///
    /// # Errors
    ///
    /// The reason when the connection has to be refused; the shell closes it at once.
    pub fn open_connection(&mut self, now: Now, listener: ListenerId) -> Result<ConnectionKey, Reason> {
        self.entry().take_connection(now, listener, false)
    }

    /// Forgets a connection whose transport the shell has closed after [`Event::Close`].
    pub fn release_connection(&mut self, key: ConnectionKey) {
        self.state.connections.set_connection_timer(&mut self.state.timers, key, Millis::NEVER);
        let Some(connection) = self.state.connections.remove(key) else { return };
        if let Some(open) = self.state.connections_by_listener.get_mut(usize::from(connection.listener.0)) {
            *open = open.saturating_sub(1);
        }
        if connection.blocked {
            self.state.memory.held -= KERNEL_BUFFER_BYTES;
            self.state.blocked_connections -= 1;
            self.state.high_water = high_water(&self.state.settings, self.state.blocked_connections);
        }
        if let Some(tail) = &connection.tail {
            self.state.memory.held -= tail.len() as u64;
            self.state.memory.input_bytes -= tail.len() as u64;
            self.state.memory.connect_bytes -= connection.unfinished_connect();
        }
        if let Some(output) = connection.output {
            let _large = self.state.pool.put(output);
        }
    }

    /// The output of a connection, while there is any.
    #[inline]
    pub fn output(&mut self, key: ConnectionKey) -> Option<&mut Output> {
        self.state.connections.get_mut(key)?.output.as_deref_mut()
    }

    /// The next thing that the shell has to do.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.state.events.pop_front()
    }

    /// Takes the records for another shard since the last call.
    #[inline]
    pub fn take_batch(&mut self, to: ShardId) -> Option<Batch> {
        self.links.take_batch(to)
    }

    /// True if batches should be taken before the turn is over: a shard's work can begin, or its batch is due now that
    /// earlier ones were taken.
    #[inline]
    pub fn batches_due(&self) -> bool {
        self.links.is_due()
    }

    /// When [`Engine::handle_timers`] has something to do: a time that has passed when work is waiting already,
    /// [`Millis::NEVER`] when nothing is.
    pub fn next_deadline(&self) -> Millis {
        if self.retaining.fetches.has_runnable()
            || self.rules.is_rechecking()
            || self.links.has_noted()
            || self.turn_share.has_work(&self.fan_outs, &self.state.to_write)
            || !self.endings.is_empty()
            || !self.state.needs_fetch.is_empty()
        {
            return Millis(0);
        }
        if self.recovery.replay.is_some() {
            // Other shards' subscribers are not known yet, and a message published now would not reach them.
            return Millis::NEVER;
        }
        self.state.timers.next().min(self.retaining.store.values.next_expiry())
    }

    /// Handles due timers that count no silence, a bounded part of them at a time.
    pub fn handle_timers(&mut self, now: Now) {
        self.state.journal.now = now;
        self.state.memory.lower_excess();
        let timers = if self.recovery.replay.is_some() { 0 } else { TIMERS_PER_TURN };
        for _ in 0..timers {
            let Some((_, timer)) = self.state.timers.pop_due(now.monotonic) else { break };
            self.timing().handle_timer(now, timer);
        }
        self.retaining.store.values.expire(now.monotonic, RETAINED_EXPIRED_PER_TURN);
        self.retaining.store.forget_expired(&mut self.state);
        self.control().recheck_rights(now);
        self.timing().begin_turn(now);
        fetching!(self).run_fetches(now);
        self.after_frame(now);
    }
}

/// Timers worked off in one turn; the rest is due in the next.
pub(crate) const TIMERS_PER_TURN: usize = 1024;

/// Expired retained messages removed in one turn.
const RETAINED_EXPIRED_PER_TURN: u32 = 1024;
