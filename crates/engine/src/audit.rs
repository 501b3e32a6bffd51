//! Checks the engine's books: every running sum, and everything that is kept in two places, is compared with its
//! source.

pub(crate) mod checks;

use crate::audit::checks::Audit;
use crate::connection::reserving::Reserving;
use crate::connection::{Answer, Connection, Phase};
use crate::ids::{ConnectionKey, PRINCIPAL_LISTENER, SessionKey};
use crate::memory::KERNEL_BUFFER_BYTES;
use crate::publish::dead_letter::DeadLetters;
use crate::session::{BlockedPublisher, Session, Standing, Will};
use crate::settings::OverflowPolicy;

/// The faults found.
#[derive(Debug, Default)]
pub(crate) struct Findings(pub(crate) Vec<String>);

impl Findings {
    fn equal(&mut self, name: &str, kept: u64, counted: u64) {
        if kept != counted {
            self.0.push(format!("{name}: {kept} is kept, {counted} is true"));
        }
    }

    fn holds(&mut self, holds: bool, fault: impl FnOnce() -> String) {
        if !holds {
            self.0.push(fault());
        }
    }
}

impl Audit<'_> {
    pub(crate) fn audit_sums(&self, found: &mut Findings) {
        let state = &self.state;
        let input: usize = state.connections.iter().map(|(_, connection)| input_len(connection)).sum();
        let input = input as u64 + self.principals.held_bytes();
        found.equal("input_bytes", state.memory.input_bytes, input);
        let awaiting = state.connections.iter().map(|(_, connection)| connection.unfinished_connect()).sum();
        found.equal("connect_bytes", state.memory.connect_bytes, awaiting);
        let flows = || state.sessions.iter().filter_map(|(_, session)| session.flow.as_ref());
        let ending = || self.endings.iter();
        let waiting: usize =
            flows().map(|flow| flow.queue.len()).chain(ending().map(|ending| ending.queue.len())).sum();
        found.equal("queued_messages", state.memory.queued_messages, waiting as u64);
        let left = ending().flat_map(|ending| &ending.queue);
        let queued = flows().flat_map(|flow| &flow.queue).chain(left).map(crate::session::Delivery::cost).sum();
        found.equal("queued_bytes", state.memory.queued_bytes, queued);
        let kept: u64 = flows().map(|flow| flow.inflight_bytes).sum();
        let tails: u64 = flows().filter_map(|flow| flow.tail.as_ref()).map(|tail| tail.memory()).sum();
        let extras = state.connections.iter().filter_map(|(_, connection)| connection.extra.as_ref());
        let aliases: u64 = extras.map(|extra| extra.aliases_in.bytes()).sum();
        let blocked = state.connections.iter().filter(|(_, connection)| connection.blocked).count() as u64;
        let wills: u64 = state.sessions.iter().filter_map(|(_, session)| session.will()).map(Will::cost).sum();
        let settlement = &self.broker_links.settlement;
        let of_brokers = settlement.unreturned_bytes() + settlement.unpassed_bytes;
        let elsewhere = of_brokers + self.fan_outs.bytes() + self.groups.kept.bytes();
        let outgoing = self.outgoing.bytes();
        let lists = aliases + tails + outgoing + self.fetches.starting_bytes();
        let former = state.sessions.iter().filter_map(|(_, session)| session.rare.as_ref());
        let former = former.flat_map(|rare| &rare.former_wills);
        let wills = wills + former.map(|former| former.will.cost()).sum::<u64>();
        let held = elsewhere + input + queued + kept + lists + wills + blocked * KERNEL_BUFFER_BYTES;
        found.equal("memory", state.memory.held, held);
        let connected = state.sessions.iter().filter(|(_, session)| session.connection.is_some()).count();
        found.equal("sessions_connected", state.sessions_connected, connected as u64);
        let memberships = state.sessions.iter().filter_map(|(_, session)| session.rare.as_ref());
        let left = ending().map(|ending| ending.memberships.len());
        let memberships: usize = memberships.map(|rare| rare.memberships.len()).chain(left).sum();
        found.equal("shared_memberships", state.shared_memberships, memberships as u64);
        let left = ending().map(|ending| ending.filters.len());
        let filters: usize = state.sessions.iter().map(|(_, session)| session.filters.len()).chain(left).sum();
        found.equal("subscriptions", self.index.subscriptions(), filters as u64 + self.nodes.subscriptions());
        let nodes = state.sessions.iter().filter(|(_, session)| session.standing.is_node()).count();
        found.equal("nodes", self.nodes.len(), nodes as u64);
        let mailboxes = state.sessions.iter().filter(|(_, session)| session.standing == Standing::Mailbox).count();
        found.equal("mailboxes", self.nodes.mailboxes(), mailboxes as u64);
        for (number, open) in state.connections_by_listener.iter().enumerate() {
            let of_listener = |connection: &Connection| usize::from(connection.listener.0) == number;
            let counted = state.connections.iter().filter(|(_, connection)| of_listener(connection)).count();
            found.equal("connections_by_listener", u64::from(*open), counted as u64);
        }
        let idle = state.to_park.is_empty() && state.to_unpark.is_empty() && state.to_close.is_empty();
        let told = state.has_capacity.is_empty()
            && state.receipts.is_empty()
            && !state.dead_letters.as_ref().is_some_and(DeadLetters::has_waiting);
        found.holds(idle && told && state.needs_fetch.is_empty(), || "a caused effect is pending".into());
    }

    pub(crate) fn audit_timers(&self, found: &mut Findings) {
        let state = &self.state;
        let never = crate::now::Millis::NEVER;
        let connections = state.connections.iter();
        let of_connections: usize = connections
            .map(|(_, connection)| {
                let rate = connection.extra.as_ref().and_then(|extra| extra.rate.as_ref());
                let waits = rate.is_some_and(|rate| rate.waits_until != never);
                usize::from(connection.timer != never) + usize::from(connection.is_parked()) + usize::from(waits)
            })
            .sum();
        let rare = state.sessions.iter().filter_map(|(_, session)| session.rare.as_ref());
        let of_sessions: usize = rare
            .map(|rare| {
                let mut expected: Vec<crate::now::Millis> =
                    rare.former_wills.iter().map(|former| former.expected_until).collect();
                expected.dedup();
                let due = [rare.will_due, rare.ends_at];
                expected.len() + due.iter().flatten().filter(|due| **due != never).count()
            })
            .sum();
        let flows = state.sessions.iter().filter_map(|(_, session)| session.flow.as_ref());
        let of_queues = flows.filter(|flow| flow.expiry_timer.is_some()).count();
        let of_sys = usize::from(self.sys.has_timer())
            + usize::from(state.tallies.has_timer())
            + usize::from(state.loop_lag.has_timer())
            + usize::from(state.pace_timer.is_some())
            + usize::from(self.groups.kept.has_timer());
        found.equal(
            "timers",
            state.timers.len() as u64,
            (of_connections + of_sessions + of_queues + of_sys + self.broker_links.timers()) as u64,
        );
    }

    pub(crate) fn audit_connection(&self, found: &mut Findings, key: ConnectionKey, connection: &Connection) {
        let session = connection.session.and_then(|session| self.state.sessions.get(session.0));
        let bound = session.is_some_and(|session| session.connection == Some(key));
        let open = connection.phase == Phase::Open && connection.listener != PRINCIPAL_LISTENER;
        found.holds(bound == open, || format!("{key:?} and its session do not agree"));
        let reads = connection.output_len() > self.settings.limits.output_high_water as usize / 2;
        let waits = connection.is_parked() || reads || connection.phase == Phase::Closing;
        found.holds(!connection.paused || waits, || format!("{key:?} is not read and nothing will change that"));
        let Some(extra) = &connection.extra else { return };
        let pub_acks = extra.acks.iter().filter(|ack| matches!(ack.answer, Answer::PubAck(_))).count();
        found.equal("pub_acks", extra.acks.pub_acks() as u64, pub_acks as u64);
        let first = extra.acks.iter().next();
        found.holds(first.is_none_or(|ack| ack.waits > 0), || format!("{key:?}: an answer waits for nothing"));
        // Another shard of this process may have asked it to wait.
        if let Some(parked) = extra.parked.as_ref().filter(|_| self.place.shards == 1) {
            let publisher = BlockedPublisher { shard: self.place.shard, connection: key };
            let flows = self.state.sessions.iter().filter_map(|(_, session)| session.flow.as_ref());
            let held = flows.filter(|flow| flow.blocking.contains(&publisher)).count();
            let waits = |rate: &crate::limits::rate::Rate| rate.waits_until != crate::now::Millis::NEVER;
            let slowed = extra.rate.as_deref().is_some_and(waits);
            let short = self.state.overload.holds(&publisher) || self.state.loop_lag.holds(&publisher);
            let short = short
                || self.observers.holds(key)
                || self.turn_share.holds(key)
                || self.broker_links.holds(key)
                || extra.suspended;
            let asked = !parked.askers.is_empty() || matches!(extra.reserving, Reserving::Asked(_));
            let missed = self.groups.dealers.waiting.contains(&key) || self.links.holds(key);
            found.holds(held > 0 || slowed || short || asked || missed, || {
                format!("{key:?} is parked and no owner will release it")
            });
        }
    }

    pub(crate) fn audit_session(&self, found: &mut Findings, key: SessionKey, session: &Session) {
        let name = || format!("{:?}", session.client_id);
        found.holds(self.state.sessions.find_session(session.tenant, &session.client_id) == Some(key), || {
            format!("{} is not found by name", name())
        });
        let connection = session.connection.and_then(|key| self.state.connections.get(key));
        let agreed = session.connection.is_none() || connection.is_some_and(|other| other.session == Some(key));
        found.holds(agreed, || format!("{} and its connection do not agree", name()));
        for filter in session.filters.iter() {
            let known = self.index.subscriber(filter, key).is_some();
            found.holds(known, || format!("{}: a subscription is not in the index", name()));
        }
        let Some(rare) = &session.rare else { return };
        found.holds(session.stored.is_none() || rare.stored_will.is_none(), || {
            format!("{}: its will is stored with it and alone", name())
        });
        let away = session.connection.is_none();
        found.holds(!away || rare.fetches_expected == 0, || format!("{} expects fetches while it is away", name()));
        let ends = match session.standing {
            Standing::Mailbox => self.settings.addresses.as_ref().is_some_and(|it| it.node_expiry_seconds != u32::MAX),
            _ => session.lasts() && session.expiry_seconds != u32::MAX,
        };
        found.holds(rare.ends_at.is_some() == (away && ends), || format!("{}: its end is not set right", name()));
    }

    pub(crate) fn audit_flow(&self, found: &mut Findings, key: SessionKey, session: &Session) {
        let Some(flow) = &session.flow else { return };
        let name = || format!("{:?}", session.client_id);
        found.equal("queue_bytes", flow.queue_bytes, flow.queue.iter().map(crate::session::Delivery::cost).sum());
        let kept = flow.inflight.iter().filter_map(|entry| entry.item.delivery.as_ref());
        found.equal("inflight_bytes", flow.inflight_bytes, kept.map(crate::session::Delivery::cost).sum());
        let watched = flow.expiry_timer.is_some() || flow.queue.next_expiry() == crate::now::Millis::NEVER;
        found.holds(watched, || format!("{}: no timer watches the expiry in its queue", name()));
        found.holds(flow.to_resend <= flow.inflight.len(), || format!("{}: more to resend than there is", name()));
        let known = flow.blocking.is_empty() || self.state.blockers.contains(&key.0);
        found.holds(known, || format!("{} holds publishers up unnoticed", name()));
        let Some(connection) = session.connection.and_then(|key| self.state.connections.get(key)) else {
            let rejects = flow.full_at.is_some_and(|bounds| bounds.policy == OverflowPolicy::Reject);
            found.holds(flow.to_resend == 0 && (flow.blocking.is_empty() || rejects), || {
                format!("{} is away and busy", name())
            });
            return;
        };
        let room = connection.output_len() <= self.state.high_water / 2;
        let window = usize::from(session.receive_maximum);
        let sent = flow.inflight.len() - flow.to_resend.min(flow.inflight.len());
        // If memory was scarce, messages before others in the store wait for an acknowledgement of the client.
        let bounded = self.state.memory.ceiling != 0 && flow.tail.is_some();
        let bytes = flow.inflight_bytes == 0 || (!bounded && flow.inflight_bytes < self.settings.queue.max_bytes);
        let open = flow.to_resend == 0 && sent < window && bytes;
        let next = flow.queue.front(self.settings.queue.lower_priority_share, open);
        let stuck = (flow.to_resend > 0 && sent < window) || (next.is_some() && !flow.waits_alone());
        found.holds(!(stuck && room), || format!("{}: messages wait for nothing", name()));
    }
}

/// Bytes of input that a connection keeps.
fn input_len(connection: &Connection) -> usize {
    let tail = connection.tail.as_ref().map_or(0, |tail| tail.len());
    let extra = connection.extra.as_ref();
    let parked = extra.and_then(|extra| extra.parked.as_ref()).map_or(0, |parked| parked.bytes.len());
    tail + parked + extra.and_then(|extra| extra.packet_left.as_ref()).map_or(0, |packet| packet.bytes())
}
