//! The engine of one shard: what comes in, what goes out, and the calls that its shell makes.

mod access;
mod addresses;
mod audit;
mod cluster;
mod connection;
pub(crate) mod durable;
mod groups;
pub(crate) mod image;
mod limits;
mod observers;
mod orchestrator;
mod principals;
mod publish;
mod retained;
mod service;
mod session;
mod silence;
mod subscribe;
mod telling;
mod uplink;

use crate::access::Rules;
use crate::addresses::Nodes;
use crate::cluster::exchanges::Exchanges;
use crate::cluster::outgoing::Outgoing;
use crate::cluster::peers::Peers;
use crate::connection::output::Output;
use crate::connection::{Connection, Phase, Preset};
use crate::durable::Recovery;
use crate::engine::connection::redirecting::Redirecting;
use crate::event::Event;
use crate::flows::cluster::ending::ending;
use crate::flows::groups::dealing::dealing;
use crate::flows::publish::answering::answering;
use crate::flows::retained::fetching::fetching;
use crate::groups::Groups;
use crate::ids::{AssignedNames, ConnectionKey, ListenerId, MAX_SHARDS, Place, ShardId, TenantId};
use crate::image::Handover;
use crate::journal::JournalBatch;
use crate::limits::usage::Usage;
use crate::link::{Batch, Links};
use crate::memory::KERNEL_BUFFER_BYTES;
use crate::now::{Millis, Now};
use crate::observers::Observers;
use crate::orchestrator::homes::HomesInForce;
use crate::orchestrator::uplink::Uplinks;
use crate::principals::Principals;
use crate::publish::admission::Admissions;
use crate::publish::fan_out::FanOuts;
use crate::publish::layouts::Layouts;
use crate::publish::turn_share::TurnShare;
use crate::retained::RetainedStore;
use crate::retained::fetch::Fetches;
use crate::session::Flow;
use crate::session::ended::EndedSessions;
use crate::settings::Settings;
use crate::state::{ShardState, high_water};
use crate::sys::Sys;
use crate::telling::counters::{Counters, Gauges};
use crate::telling::reason::Reason;
use crate::timers::Timer;
use crate::topics::{Route, RouteCache, SubscriptionIndex};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The broker logic of one shard, without sockets, clock or threads.
///
/// In which order a shell calls what, the [crate's page](crate) tells. It is built on its shard's thread and stays
/// there.
#[derive(Debug)]
pub struct Engine {
    pub(crate) settings: Arc<Settings>,
    pub(crate) place: Place,
    pub(crate) state: ShardState,
    pub(crate) index: SubscriptionIndex,
    pub(crate) cache: RouteCache,
    /// A route that is not cached, reused.
    pub(crate) scratch_route: Route,
    /// Properties of the message at hand that are passed on, reused.
    pub(crate) scratch_properties: Vec<u8>,
    pub(crate) layouts: Layouts,
    pub(crate) links: Links,
    pub(crate) retained: RetainedStore,
    pub(crate) fetches: Fetches,
    pub(crate) groups: Groups,
    /// Which sessions are those of mobile nodes, and their groups.
    pub(crate) nodes: Nodes,
    /// The brokers of a fleet, where there is one.
    pub(crate) uplinks: Uplinks,
    pub(crate) sys: Sys,
    pub(crate) rules: Rules,
    /// The shards of other nodes and their subscriptions.
    pub(crate) peers: Peers,
    /// The state of a restart.
    pub(crate) recovery: Recovery,
    /// Partitions that move to another process, or have come from one.
    pub(crate) handover: Handover,
    /// For client ids that the server assigns.
    pub(crate) assigned: AssignedNames,
    pub(crate) stopping: bool,
    /// Clients are sent elsewhere.
    pub(crate) redirecting: Option<Redirecting>,
    /// Which partitions are worked here.
    pub(crate) homes: HomesInForce,
    /// Messages for which other shards were asked for room.
    pub(crate) admissions: Admissions,
    /// Messages that some of their receivers have got.
    pub(crate) fan_outs: FanOuts,
    /// What the present turn has delivered.
    pub(crate) turn_share: TurnShare,
    /// Sessions that have ended and are being removed.
    pub(crate) endings: EndedSessions,
    /// Sessions and packet ids of pings that were not acknowledged so far; whether they are of this round, so that what
    /// acknowledges them is told.
    pub(crate) pings: BTreeMap<(u32, u16), bool>,
    /// Who must have messages before they are acknowledged.
    pub(crate) observers: Observers,
    /// Who publishes without a session.
    pub(crate) principals: Principals,
    /// Messages that are owed to all nodes and that nobody sends again.
    pub(crate) outgoing: Outgoing,
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
    pub fn new(settings: Arc<Settings>, place: Place, seed: u64, now: Now) -> Self {
        assert!(place.shards <= MAX_SHARDS && place.shard.0 < place.shards, "no such place: {place:?}");
        let mut state = ShardState::new(Arc::clone(&settings), place.shard, now);
        state.exchanges = Exchanges::new(seed, place);
        Self {
            place,
            state,
            index: SubscriptionIndex::default(),
            cache: RouteCache::new(Arc::clone(&settings)),
            scratch_route: Route::default(),
            scratch_properties: Vec::new(),
            layouts: Layouts::default(),
            links: Links::new(place, settings.limits.shard_link_bytes),
            retained: RetainedStore::new(&settings),
            fetches: Fetches::new(settings.retained.step),
            groups: Groups::new(seed, place),
            nodes: Nodes::default(),
            uplinks: Uplinks::new(settings.uplinks.clone(), seed, place),
            sys: Sys::new(now),
            rules: Rules::default(),
            peers: Peers::default(),
            recovery: Recovery::default(),
            handover: Handover::default(),
            assigned: AssignedNames { seed, next: 0 },
            stopping: false,
            redirecting: None,
            homes: HomesInForce::default(),
            admissions: Admissions::default(),
            fan_outs: FanOuts::default(),
            turn_share: TurnShare::default(),
            endings: EndedSessions::default(),
            pings: BTreeMap::new(),
            observers: Observers::of_settings(&settings),
            principals: Principals::default(),
            outgoing: Outgoing::default(),
            working_off: false,
            settings,
        }
    }

    /// Takes a new connection in.
    ///
    /// # Errors
    ///
    /// The reason when the connection has to be refused; the shell closes it at once.
    pub fn open_connection(&mut self, now: Now, listener: ListenerId) -> Result<ConnectionKey, Reason> {
        let refused = if self.stopping {
            Some(Reason::ServerShuttingDown)
        } else if self.state.memory.is_far_over_ceiling() {
            Some(Reason::MemoryCeiling)
        } else {
            let open = self.state.connections_by_listener.get(usize::from(listener.0)).copied().unwrap_or(0);
            let limit = self.state.settings.listener(listener).map_or(0, |listener| listener.max_connections);
            (limit != 0 && open >= limit).then_some(Reason::TooManyConnections)
        };
        if let Some(reason) = refused {
            self.state.counters.connects_refused[reason.number()] += 1;
            return Err(reason);
        }
        let of_settings =
            || self.state.settings.listener(listener).map_or(TenantId::DEFAULT, |listener| listener.tenant);
        let known = self.settings.tenants.as_ref().and_then(|tenants| tenants.of_listener(listener));
        let tenant = known.unwrap_or_else(of_settings);
        let mut connection = Connection::new(listener, tenant, now.monotonic);
        connection.is_of_hub = self.state.settings.listener(listener).is_some_and(|listener| listener.for_hub);
        let key = self.state.connections.insert(connection);
        if let Some(open) = self.state.connections_by_listener.get_mut(usize::from(listener.0)) {
            *open += 1;
        }
        self.state.counters.sockets_opened += 1;
        let deadline = now.monotonic.plus(self.settings.limits.connect_timeout_ms);
        self.state.connections.set_connection_timer(&mut self.state.timers, key, deadline);
        Ok(key)
    }

    /// Tells what is known of a client before its CONNECT arrives, such as what its certificate says.
    pub fn preset_connection(&mut self, key: ConnectionKey, preset: Preset) {
        let Some(connection) = self.state.connections.get_mut(key) else { return };
        if connection.phase != Phase::AwaitConnect {
            return;
        }
        if let Some(tenant) = preset.instead_of_listener {
            connection.tenant = tenant;
        }
        if preset.settled.is_some() || preset.client_id.is_some() {
            connection.extra_mut().preset = Some(Box::new(preset));
        }
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
            self.state.high_water = high_water(&self.settings, self.state.blocked_connections);
        }
        if let Some(tail) = &connection.tail {
            self.state.memory.held -= tail.len() as u64;
            self.state.memory.input_bytes -= tail.len() as u64;
        }
        if let Some(output) = connection.output {
            self.state.pool.put(output);
        }
    }

    /// The output of a connection, while there is any.
    #[inline]
    pub fn output(&mut self, key: ConnectionKey) -> Option<&mut Output> {
        self.state.connections.get_mut(key)?.output.as_deref_mut()
    }

    /// Tells that output was written as far as the transport took it. Frees the buffer if that was all, and sends from
    /// the session's queue what there is room for.
    #[inline]
    pub fn handle_written(&mut self, now: Now, key: ConnectionKey) {
        let Some(connection) = self.state.connections.get_mut(key) else { return };
        let written = connection.output.as_mut().map_or(0, |output| output.take_written());
        self.state.counters.bytes_out += written;
        self.state.meters.of(connection.payer).bytes_out += written;
        let done = connection.output.as_ref().is_none_or(|output| !output.is_writable());
        if connection.output.as_ref().is_some_and(|output| output.is_empty())
            && !connection.is_suspended()
            && let Some(output) = connection.output.take()
        {
            self.state.pool.put(output);
        }
        if done == connection.blocked {
            // A socket that takes no more holds a full kernel buffer, which is memory like any other.
            connection.blocked = !done;
            if done {
                self.state.memory.held -= KERNEL_BUFFER_BYTES;
                self.state.blocked_connections -= 1;
            } else {
                self.state.memory.held += KERNEL_BUFFER_BYTES;
                self.state.blocked_connections += 1;
            }
            self.state.high_water = high_water(&self.settings, self.state.blocked_connections);
        }
        if connection.paused && connection.phase == Phase::Open {
            // It reads, so it lives, and what it sends may be read again once it has caught up.
            connection.last_seen = now.monotonic;
            if !connection.is_parked() && connection.output_len() <= self.settings.limits.output_high_water as usize / 2
            {
                connection.paused = false;
                self.state.events.push_back(Event::ResumeReading { key });
            }
        }
        let Some(session) = connection.session else { return };
        let waiting = self.state.sessions.get(session.0).is_some_and(|session| {
            let waits = |flow: &Flow| !flow.queue.is_empty() || !flow.blocking.is_empty() || flow.to_resend > 0;
            session.flow.as_deref().is_some_and(waits)
                || session.rare.as_ref().is_some_and(|rare| !rare.fetches.is_empty())
        });
        if waiting && connection.phase == Phase::Open {
            // Whoever has a queue is behind anyway, and must not keep those waiting who are not.
            let before = self.state.to_write.widen(self.state.to_write.in_line() > 0);
            self.state.refill(now.monotonic, &mut self.layouts, session);
            self.state.to_write.widen(before);
            self.after_frame(now);
        }
    }

    /// The next thing that the shell has to do.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.state.events.pop_front()
    }

    /// What was gathered for another shard since the last call.
    #[inline]
    pub fn take_batch(&mut self, to: ShardId) -> Option<Batch> {
        self.links.take_batch(to)
    }

    /// Whether batches should be taken before the turn is over: some shard's work can begin, or its turn to be told has
    /// come now that everything before was taken.
    #[inline]
    pub fn batches_due(&self) -> bool {
        self.links.is_due()
    }

    /// When [`Engine::handle_timers`] has something to do: a time that has passed when work is waiting already,
    /// [`Millis::NEVER`] when nothing is.
    pub fn next_deadline(&self) -> Millis {
        if self.fetches.has_runnable()
            || self.rules.is_rechecking()
            || self.links.has_noted()
            || self.turn_share.has_work(&self.fan_outs, &self.state.to_write)
            || !self.endings.is_empty()
            || !self.state.hungry.is_empty()
        {
            return Millis(0);
        }
        if self.recovery.replay.is_some() {
            // Other shards' subscribers are not known yet, and what is published now would not reach them.
            return Millis::NEVER;
        }
        self.state.timers.next().min(self.retained.values.next_expiry())
    }

    /// Does what is due and counts no silence, a bounded part of it at a time.
    pub fn handle_timers(&mut self, now: Now) {
        self.state.journal.now = now;
        let timers = if self.recovery.replay.is_some() { 0 } else { TIMERS_PER_TURN };
        for _ in 0..timers {
            let Some((_, timer)) = self.state.timers.pop_due(now.monotonic) else { break };
            self.handle_timer(now, timer);
        }
        self.retained.values.expire(now.monotonic, RETAINED_EXPIRED_PER_TURN);
        self.retained.forget_expired(&mut self.state);
        self.recheck_rights(now);
        self.begin_turn(now);
        fetching!(self).run_fetches(now);
        self.after_frame(now);
    }

    pub(crate) fn handle_timer(&mut self, now: Now, timer: Timer) {
        match timer {
            Timer::Connection(key) => self.handle_connection_timer(now, key),
            Timer::Parked(key) => self.give_up_parking(now, key),
            Timer::Rate(key) => self.handle_rate_timer(now, key),
            Timer::Will(session) => ending!(self).handle_will_timer(now, session),
            Timer::Expiry(session) => self.handle_expiry_timer(now, session),
            Timer::SessionEnd(session) => ending!(self).handle_session_timer(now, session),
            Timer::LoopLag => self.handle_loop_lag_timer(now),
            Timer::Deals => dealing!(self).handle_deal_timer(now),
            Timer::Sys => self.publish_sys(now),
            Timer::Receipts => self.handle_receipts_timer(),
            Timer::Uplink(key) => self.handle_uplink_timer(now, key),
            Timer::FormerUplinks => self.handle_former_timer(now),
        }
    }

    /// This shard's counters.
    pub fn counters(&self) -> &Counters {
        &self.state.counters
    }

    /// What there is at this moment.
    pub fn gauges(&self) -> Gauges {
        let state = &self.state;
        let uplinks = &self.uplinks;
        let connected = state.sessions_connected - uplinks.brokers.connected() as u64;
        let (mut inflight_messages, mut absent_messages) = (0, 0);
        for (session, flow) in state.sessions.iter().filter_map(|(_, session)| Some((session, session.flow.as_ref()?)))
        {
            inflight_messages += flow.inflight.len() as u64;
            if session.connection.is_none() && session.stored.is_some() && !session.is_uplink() {
                let tail = flow.tail.as_ref().map_or(0, |tail| tail.messages);
                absent_messages += (flow.inflight.len() + flow.queue.len()) as u64 + tail;
            }
        }
        Gauges {
            connections: (state.connections.len() - self.principals.len()) as u64,
            sessions_connected: connected,
            sessions_disconnected: (state.sessions.len() - uplinks.brokers.len()) as u64 - connected,
            subscriptions: self.index.subscriptions(),
            shared_subscriptions: state.shared_memberships,
            retained_messages: self.retained.values.len(),
            retained_bytes: self.retained.values.bytes(),
            queued_messages: state.memory.queued_messages,
            queued_bytes: state.memory.queued_bytes,
            stored_messages: state.memory.stored_messages,
            stored_bytes: state.memory.stored_bytes,
            inflight_messages,
            absent_messages,
            input_bytes: state.memory.input_bytes,
            link_bytes: self.links.bytes(),
            kept_deals: self.groups.kept.len() as u64,
        }
    }

    /// The usage of each tenant on this shard, in the order of their numbers; tenants without any are left out. Looks
    /// at every session.
    pub fn usage(&self, now: Now) -> Vec<(TenantId, Usage)> {
        let mut all = self.state.meters.read(now.monotonic);
        for (_, session) in self.state.sessions.iter() {
            let payer = session.payer(&self.settings);
            if payer == TenantId::UPLINK {
                continue;
            }
            let place = usize::from(payer.0);
            if place >= all.len() {
                all.resize(place + 1, Usage::default());
            }
            if let Some(usage) = all.get_mut(place) {
                usage.sessions += 1;
                usage.stored_bytes += session.flow.as_ref().map_or(0, |flow| flow.waiting().1);
            }
        }
        for (tenant, bytes) in self.retained.values.bytes_of_tenants() {
            let place = usize::from(tenant.0);
            if place >= all.len() && tenant != TenantId::UPLINK {
                all.resize(place + 1, Usage::default());
            }
            if let Some(usage) = all.get_mut(place) {
                usage.retained_bytes = bytes;
            }
        }
        let numbered = (0..).map(TenantId).zip(all);
        numbered.filter(|(_, usage)| *usage != Usage::default()).collect()
    }

    /// What was written for the store since the last call. The shell gives it to the store before it hands over batches
    /// for other shards, and before it writes outputs.
    #[inline]
    pub fn take_journal(&mut self) -> Option<JournalBatch> {
        self.state.journal.take()
    }

    /// All batches up to the one of this sequence are committed: what promised them may leave.
    pub fn handle_committed(&mut self, sequence: u64) {
        self.state.journal.note_committed(sequence);
        self.state.read_committed(sequence);
        let before = self.state.to_write.begin_commit();
        while let Some(key) = self.state.journal.pop_released(sequence) {
            let Some(connection) = self.state.connections.get_mut(key) else { continue };
            let released = connection.output.as_mut().is_some_and(|output| output.release(sequence));
            if released {
                self.state.to_write.note(connection, key);
            }
        }
        self.state.to_write.end_input(before);
        self.links.send_promised(sequence);
        answering!(self).tell_committed(sequence);
    }

    /// Whether the store is nearly full. As long as it is, what would have to be stored is refused with
    /// [`Reason::StoreFull`], so that there is room for what gives room back.
    pub fn set_store_full(&mut self, full: bool) {
        self.state.journal.full = full;
    }

    /// Bytes that this shard holds, as far as it keeps sums of them: messages, what is kept for connections and sessions,
    /// retained messages, subscriptions, and what goes to other shards. Costs the same whatever there is.
    pub fn held_bytes(&self) -> u64 {
        let sessions = self.state.sessions.len() as u64 * SESSION_BYTES;
        self.state.memory.held + self.retained.values.bytes() + self.index.bytes() + self.links.bytes() + sessions
    }

    /// Gives memory back after a peak: every container keeps as much as it holds. Looks at every session.
    pub fn shrink(&mut self) {
        self.state.shrink();
        self.layouts.trim();
        self.links.shrink();
        self.fan_outs.shrink();
        self.cache.clear();
        self.retained.values.shrink();
    }
}

/// What a session is taken to hold beside its messages and subscriptions, bytes.
const SESSION_BYTES: u64 = 512;

/// Timers worked off in one turn; the rest is due in the next.
pub(crate) const TIMERS_PER_TURN: usize = 1024;

/// Expired retained messages removed in one turn.
const RETAINED_EXPIRED_PER_TURN: u32 = 1024;
