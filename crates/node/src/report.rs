//! Reports of a shard and a node.

use std::collections::BTreeMap;

use tidegate_engine::{Counters, Gauges, Highest, Reason, ShardId, Sum, TenantId, Usage, summed};

use crate::admission::AdmissionReport;
use crate::flight::FlightCounters;

/// Connections that admission refused at accept, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AcceptRefusals([u64; AcceptRefusals::REASONS.len()]);

impl AcceptRefusals {
    /// The reasons for which admission refuses at accept.
    pub const REASONS: [Reason; 5] = [
        Reason::Banned,
        Reason::TooManyFromAddress,
        Reason::ListenerRateExceeded,
        Reason::AddressRateExceeded,
        Reason::LoopLag,
    ];

    /// Counts one.
    pub(crate) fn count(&mut self, reason: Reason) {
        let place = Self::REASONS.iter().position(|it| *it == reason);
        if let Some(count) = place.and_then(|place| self.0.get_mut(place)) {
            *count += 1;
        }
    }

    /// Each reason with its number.
    pub fn by_reason(&self) -> impl Iterator<Item = (Reason, u64)> {
        Self::REASONS.into_iter().zip(self.0)
    }
}

impl Sum for AcceptRefusals {
    const NONE: Self = Self(Sum::NONE);

    fn add(&mut self, other: &Self) {
        self.0.add(&other.0);
    }
}

summed! {
    /// Counters of a shard's shell; they only grow.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ShellCounters {
        /// Turns of the event loop.
        pub turns: u64,
        /// Reads from sockets.
        pub reads: u64,
        /// Writes to sockets.
        pub writes: u64,
        /// Writes that the socket did not take completely.
        pub writes_blocked: u64,
        /// The most writes to sockets in one turn.
        pub most_writes: Highest,
        /// Connections accepted by listeners.
        pub accepted: u64,
        /// Connections refused because of the node's limit of connections.
        pub refused_full: u64,
        /// Connections refused by the limits of addresses and listeners, by bans and for overload.
        pub refused: AcceptRefusals,
        /// Connections that the engine refused before their first byte.
        pub refused_by_engine: u64,
        /// Times that a connection could not be accepted for lack of files or memory.
        pub accept_exhausted: u64,
        /// Times that accepting failed for the one connection that was next.
        pub accept_failed: u64,
        /// Connections handed to the home shard of their client.
        pub handed_over: u64,
        /// Connections taken in as home shard.
        pub adopted: u64,
        /// Clients relayed to their home, an orchestrator elsewhere.
        pub relayed: u64,
        /// Relays that have ended.
        pub relays_ended: u64,
        /// Clients refused because their home could not be reached.
        pub relays_failed: u64,
        /// Connections that have left this home for another.
        pub moved: u64,
        /// Connections that have left another home and continue here.
        pub continued: u64,
        /// Connections that have left another home and were refused here.
        pub not_continued: u64,
        /// Connections closed because of their header of the PROXY protocol, or for want of one.
        pub proxy_refused: u64,
        /// Completed TLS handshakes, resumed ones included.
        pub tls_handshakes: u64,
        /// TLS handshakes completed by the ticket of an earlier one.
        pub tls_resumed: u64,
        /// TLS handshakes that failed, and sessions in which the client broke the protocol.
        pub tls_failed: u64,
        /// Connections closed at once because too many TLS handshakes were under way.
        pub tls_refused_full: u64,
        /// WebSocket handshakes refused.
        pub websocket_refused: u64,
        /// WebSocket connections closed because the client broke that protocol.
        pub websocket_violations: u64,
        /// Begun QUIC connections, failed handshakes included.
        pub quic_begun: u64,
        /// QUIC handshakes that failed, and connections in which the client broke the protocol.
        pub quic_failed: u64,
        /// Clients that were asked to prove their address before a QUIC handshake.
        pub quic_retries: u64,
        /// Requests for a QUIC connection that were dropped because too many handshakes were under way; clients repeat
        /// them.
        pub quic_deferred: u64,
        /// Times that a QUIC client went on from another address or port.
        pub quic_moved: u64,
        /// Datagrams received by QUIC sockets.
        pub quic_datagrams_in: u64,
        /// System calls that sent datagrams of QUIC connections.
        pub quic_sends: u64,
        /// Sends that the socket did not take at once.
        pub quic_sends_blocked: u64,
        /// Datagrams handed to the shard of their connection.
        pub quic_passed_on: u64,
        /// Datagrams dropped because too many waited for that shard.
        pub quic_dropped: u64,
        /// Connections closed although output was waiting, because the limit for flushing it had passed.
        pub closed_unflushed: u64,
        /// Times that memory was given back after a peak.
        pub memory_trims: u64,
    }
}

/// The numbers of one shard at one moment.
#[derive(Clone, Debug)]
pub struct ShardReport {
    /// The shard.
    pub shard: ShardId,
    /// The counters of its engine.
    pub counters: Counters,
    /// The gauges of its engine.
    pub gauges: Gauges,
    /// The usage of each tenant on it.
    pub usage: Vec<(TenantId, Usage)>,
    /// The usage of each user on it, where users are metered and the question was for them.
    pub users: Vec<(TenantId, Box<str>, Usage)>,
    /// Clients that read slowly, do not acknowledge, or whose queue is full.
    pub slow_sessions: u64,
    /// The counters of its shell.
    pub shell: ShellCounters,
    /// The counters of its flight recorder.
    pub flight: FlightCounters,
    /// Length of its turns in the mean of the last seconds, milliseconds.
    pub lag_ms: u64,
}

/// The numbers of all shards, each read at its own moment.
#[derive(Clone, Debug, Default)]
pub struct NodeReport {
    /// Sum over the engines.
    pub counters: Counters,
    /// Sum over the engines.
    pub gauges: Gauges,
    /// Sum over the engines, by tenant.
    pub usage: BTreeMap<TenantId, Usage>,
    /// Sum over the engines, by tenant and user name, where users are metered and the question was for them.
    pub users: BTreeMap<(TenantId, Box<str>), Usage>,
    /// Sum over the engines: clients that read slowly, do not acknowledge, or whose queue is full.
    pub slow_sessions: u64,
    /// Sum over the shells.
    pub shell: ShellCounters,
    /// Sum over the flight recorders.
    pub flight: FlightCounters,
    /// The longest of the shards' mean turns, milliseconds.
    pub lag_ms: u64,
    /// The state and counters of admission.
    pub admission: AdmissionReport,
    /// Each shard, in order.
    pub shards: Vec<ShardReport>,
}

impl NodeReport {
    /// Adds the counters of a node that has ended.
    pub(crate) fn add_counted(&mut self, other: &Self) {
        self.counters.add(&other.counters);
        // Sessions and messages of an ended node do not exist any more.
        let (connections, sessions, retained_bytes, stored_bytes) = (0, 0, 0, 0);
        let counted = |usage: &Usage| Usage { connections, sessions, retained_bytes, stored_bytes, ..*usage };
        for (tenant, usage) in &other.usage {
            self.usage.entry(*tenant).or_default().add(&counted(usage));
        }
        for (user, usage) in &other.users {
            self.users.entry(user.clone()).or_default().add(&counted(usage));
        }
        self.shell.add(&other.shell);
        self.flight.add(&other.flight);
    }

    /// Adds one shard.
    pub(crate) fn add(&mut self, report: ShardReport) {
        self.counters.add(&report.counters);
        self.gauges.add(&report.gauges);
        for (tenant, usage) in &report.usage {
            self.usage.entry(*tenant).or_default().add(usage);
        }
        for (tenant, user, usage) in &report.users {
            self.users.entry((*tenant, user.clone())).or_default().add(usage);
        }
        self.slow_sessions += report.slow_sessions;
        self.shell.add(&report.shell);
        self.flight.add(&report.flight);
        self.lag_ms = self.lag_ms.max(report.lag_ms);
        self.shards.push(report);
    }
}
