//! Admission on a shard: at accept, at CONNECT, and at the end of connections. Its events are recorded here, too.

use std::collections::HashMap;
use std::net::IpAddr;

use tidegate_engine::{
    Accepted, AuthOutcome, AuthRequest, ConnectionImage, ConnectionKey, ListenerId, LogEvent, Reason, ShownCertificate,
    TenantId,
};

use crate::admission::{Ban, BanTarget, OwnAddress, Seat, TooLong};
use crate::clock::claimed_time_us;
use crate::flight::{FlightEvent, FlightKind};
use crate::observer::Answer;
use crate::peer::Peer;
use crate::shard::facets::AdmissionCalls;
use crate::shard::table::Flags;
use crate::tls::IdentityRole;
use crate::transport::Transport;

/// A client as its CONNECT names it.
#[derive(Clone, Debug)]
struct Applicant {
    tenant: TenantId,
    client_id: Box<str>,
    user: Option<Box<str>>,
}

/// A shard's clients that are not admitted yet, and its clients whose user has a limit. Each connection has at most one
/// entry of each.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    /// CONNECTs that are not answered yet.
    pending: HashMap<ConnectionKey, Applicant>,
    /// Connections that are counted for their user.
    counted: HashMap<ConnectionKey, Applicant>,
    /// The newest connection of each client that is counted.
    newest: HashMap<(TenantId, Box<str>), ConnectionKey>,
    /// The certificates of clients whose connections have come from other nodes.
    shown: HashMap<ConnectionKey, ShownCertificate>,
}

impl Gate {
    /// A client waits for its answer no longer here.
    pub(crate) fn forget_pending(&mut self, key: ConnectionKey) {
        self.pending.remove(&key);
    }

    /// Keeps the certificate that a client has shown to another node.
    pub(crate) fn keep_shown(&mut self, key: ConnectionKey, shown: ShownCertificate) {
        self.shown.insert(key, shown);
    }

    /// The certificate that a client has shown to another node.
    pub(crate) fn shown(&self, key: ConnectionKey) -> Option<&ShownCertificate> {
        self.shown.get(&key)
    }

    /// Gives memory back after a peak.
    pub(crate) fn shrink(&mut self) {
        self.shown.shrink_to_fit();
        self.pending.shrink_to_fit();
        self.counted.shrink_to_fit();
        self.newest.shrink_to_fit();
    }
}

/// Whether a refusal counts as a failed login.
fn is_failed_login(reason: Reason) -> bool {
    matches!(reason, Reason::BadCredentials | Reason::NotAuthorized)
}

pub(crate) fn ip_of(peer: Peer) -> Option<IpAddr> {
    match peer {
        Peer::Address(address) => Some(address.ip()),
        Peer::Unix | Peer::Gone => None,
    }
}

impl AdmissionCalls<'_> {
    /// Lets a socket in that a listener has accepted. Only such a socket can be the broker's own: a datagram has any
    /// sender, and a UDP port may have the number of a TCP port.
    pub(crate) fn admit_accepted(&mut self, transport: Transport, listener: ListenerId, peer: Peer) {
        let address = match peer {
            Peer::Address(at) => Some(OwnAddress::Tcp(at)),
            Peer::Unix => transport.own_abstract_name().map(OwnAddress::Unix),
            Peer::Gone => None,
        };
        if transport.is_introduced() && address.is_some_and(|address| self.shard.shared.admission.is_own(address)) {
            return self.shard.sockets().take_in(transport, listener, Seat::OWN, peer);
        }
        self.admit(transport, listener, peer);
    }

    /// Lets a transport in, or closes it at once and says why in metrics, log and recorder.
    pub(crate) fn admit(&mut self, transport: Transport, listener: ListenerId, peer: Peer) {
        // Behind a proxy, the address is checked once the proxy has sent it.
        let address = if transport.is_introduced() { ip_of(peer) } else { None };
        match self.shard.shared.admission.admit(self.shard.now, Some(listener), address) {
            Ok(seat) => self.shard.sockets().take_in(transport, listener, seat, peer),
            Err(reason) => {
                self.shard.counters.accepted += 1;
                self.refuse_at_accept(address, reason);
            }
        }
    }

    /// Counts a connection for its address, once its proxy has sent it. Returns whether it may stay; if not, it is
    /// closed.
    pub(crate) fn admit_introduced(&mut self, key: ConnectionKey) -> bool {
        let Some(address) = self.address_of(key) else { return true };
        match self.shard.shared.admission.admit(self.shard.now, None, Some(address)) {
            Ok(seat) => {
                let before = self.shard.table.seat(key, seat);
                self.shard.shared.admission.release(before.unwrap_or(seat));
                true
            }
            Err(reason) => {
                self.refuse_at_accept(Some(address), reason);
                if let Some((flags, _)) = self.shard.table.get(key) {
                    flags.set(Flags::BROKEN);
                }
                if !self.shard.engine.control().close_unheard(key, reason) {
                    // A client that has moved to this address is a client already.
                    self.shard.sockets().lose(key);
                }
                false
            }
        }
    }

    pub(crate) fn refuse_at_accept(&mut self, address: Option<IpAddr>, reason: Reason) {
        self.shard.counters.refused.count(reason);
        self.record_refusal(address, reason);
    }

    /// The engine has no room for a connection: a limit of its listener or of memory is reached, or the broker stops.
    pub(crate) fn refuse_for_engine(&mut self, address: Option<IpAddr>, reason: Reason) {
        self.shard.counters.refused_by_engine += 1;
        self.record_refusal(address, reason);
    }

    fn record_refusal(&mut self, address: Option<IpAddr>, reason: Reason) {
        self.shard.flight.record(
            self.shard.now,
            self.flown(FlightKind::Refused).address(address).reason(reason).detail("at accept"),
        );
        if let Some(times) = self.shard.refusing.note(self.shard.now.monotonic) {
            let address = address.map(tracing::field::display);
            tracing::warn!(times, reason = reason.label(), address, "new connections are closed immediately");
        }
    }

    /// A connection was closed again since too many handshakes are under way.
    pub(crate) fn record_too_many_handshakes(&mut self, address: IpAddr) {
        let event = self.flown(FlightKind::Refused).reason(Reason::TooManyHandshakes).detail("at accept");
        self.shard.flight.record(self.shard.now, event.address(Some(address)));
    }

    /// A client has sent bytes that do not begin a connection.
    #[cfg(feature = "quic")]
    pub(crate) fn record_failed_handshake(&mut self, address: IpAddr, detail: &str) {
        let event = self.flown(FlightKind::Refused).reason(Reason::HandshakeFailed).detail(detail);
        self.shard.flight.record(self.shard.now, event.address(Some(address)));
    }

    /// A connection is refused for the limit of all connections.
    pub(crate) fn refuse_full(&mut self, address: Option<IpAddr>) {
        self.shard.counters.refused_full += 1;
        let event = self.flown(FlightKind::Refused).reason(Reason::TooManyConnections).detail("at accept");
        self.shard.flight.record(self.shard.now, event.address(address));
        if let Some(times) = self.shard.full.note(self.shard.now.monotonic) {
            let limit = self.shard.shared.max_connections;
            tracing::warn!(
                limit,
                times,
                "the connection limit is reached: connections without CONNECT are closed first, the oldest first, then new ones"
            );
        }
    }

    fn flown(&self, kind: FlightKind) -> FlightEvent {
        FlightEvent::new(self.shard.now.unix, self.shard.place.shard, kind)
    }

    pub(crate) fn address_of(&mut self, key: ConnectionKey) -> Option<IpAddr> {
        ip_of(self.shard.table.peer(key)?)
    }

    /// A CONNECT waits for its authentication: bans are checked first, then external authentication.
    pub(crate) fn authenticate(&mut self, key: ConnectionKey, request: AuthRequest) {
        let facts = self.shard.sockets().facts(key);
        let address = facts.peer.map(|peer| peer.ip()).filter(|_| !self.shard.table.is_own(key));
        if let Some(address) = address.filter(|_| !request.again) {
            self.shard.engine.control().name_host(key, &address.to_canonical());
        }
        let identity = facts.tls.as_ref().and_then(|tls| tls.identity.as_ref());
        // A user name proved by a certificate takes precedence.
        let proved = identity.filter(|it| it.role == IdentityRole::Username).map(|it| &*it.value);
        let user = proved.or(request.user_name.as_deref());
        let allowed =
            self.shard.shared.admission.check_client(self.shard.now, request.tenant, &request.client_id, user, address);
        let applicant = Applicant {
            tenant: request.tenant,
            client_id: request.client_id.as_str().into(),
            user: user.map(Into::into),
        };
        // A client that re-authenticates was admitted before; only the authentication is awaited.
        if !request.again {
            self.shard.gate.pending.insert(key, applicant);
        }
        let admitted = self.shard.accepting().take_admitted();
        if let Err(reason) = allowed {
            self.shard.engine.entry().handle_auth_outcome(self.shard.now, key, AuthOutcome::Refuse(reason));
        } else if let Some(outcome) = admitted {
            self.take_auth_outcome(key, outcome);
        } else if !self.shard.shared.asks_outside && request.enhanced.is_some() {
            self.shard.engine.entry().handle_auth_outcome(
                self.shard.now,
                key,
                AuthOutcome::Refuse(Reason::BadAuthenticationMethod),
            );
        } else if !self.shard.shared.asks_outside {
            self.take_auth_outcome(key, AuthOutcome::Accept(Accepted::default()));
        } else if let Some(shard) = self.shard.inboxes.get(usize::from(self.shard.place.shard.0)).cloned() {
            let answer = Answer { shard, place: self.shard.place.shard, key };
            self.shard.shared.observer.authenticate(request, facts, answer);
        }
    }

    /// The answer to a CONNECT. A refusal counts as a failed login; a user who is let in counts its connections.
    pub(crate) fn take_auth_outcome(&mut self, key: ConnectionKey, mut outcome: AuthOutcome) {
        if let (AuthOutcome::Accept(accepted), Some(secret)) = (&mut outcome, &self.shard.shared.cluster_secret) {
            secret.seal_proof(accepted);
        }
        match &outcome {
            AuthOutcome::Refuse(reason) if is_failed_login(*reason) => self.note_failed_login(key),
            AuthOutcome::Accept(accepted) => {
                let proved = accepted.identity.as_ref().and_then(|identity| identity.user_name.as_deref());
                if let Err(reason) = self.check_user(key, proved).and_then(|()| self.count_user(key, false)) {
                    outcome = AuthOutcome::Refuse(reason);
                }
            }
            AuthOutcome::Refuse(_) | AuthOutcome::Challenge(_) => {}
        }
        self.shard.engine.entry().handle_auth_outcome(self.shard.now, key, outcome);
    }

    /// Takes note of the user name that was proved, which need not be the one in the CONNECT, and asks about its bans.
    fn check_user(&mut self, key: ConnectionKey, proved: Option<&str>) -> Result<(), Reason> {
        let Some(applicant) = self.shard.gate.pending.get_mut(&key) else { return Ok(()) };
        let Some(proved) = proved.filter(|proved| applicant.user.as_deref() != Some(*proved)) else { return Ok(()) };
        applicant.user = Some(proved.into());
        self.shard.shared.admission.check_client(
            self.shard.now,
            applicant.tenant,
            &applicant.client_id,
            Some(proved),
            None,
        )
    }

    fn note_failed_login(&mut self, key: ConnectionKey) {
        if self.shard.table.is_own(key) {
            // A wrong password in the configuration must not ban other clients of the same address or user.
            return;
        }
        let address = self.address_of(key);
        let applicant = self.shard.gate.pending.get(&key);
        let user = applicant.and_then(|applicant| applicant.user.as_deref());
        let tenant = applicant.map_or(TenantId::DEFAULT, |applicant| applicant.tenant);
        let bans = self.shard.shared.admission.note_failed_login(self.shard.now, tenant, user, address);
        for ban in bans {
            self.tell_of_ban(&ban, address);
        }
    }

    /// Counts a connection of its user. `was_counted` says that another node has counted it.
    fn count_user(&mut self, key: ConnectionKey, was_counted: bool) -> Result<(), Reason> {
        if self.shard.shared.admission.settings().max_connections_per_user == 0 || self.shard.table.is_own(key) {
            return Ok(());
        }
        let Some(applicant) = self.shard.gate.pending.get(&key) else { return Ok(()) };
        let Some(user) = &applicant.user else { return Ok(()) };
        let client = (applicant.tenant, applicant.client_id.clone());
        // Both connections are on this shard, the home of their client.
        let old = self.shard.gate.newest.get(&client).and_then(|old| self.shard.gate.counted.get(old));
        let takes_over = was_counted || old.is_some_and(|old| old.user == applicant.user);
        self.shard.shared.admission.claim_user(applicant.tenant, user, takes_over)?;
        self.shard.gate.counted.insert(key, applicant.clone());
        self.shard.gate.newest.insert(client, key);
        Ok(())
    }

    /// A client continues here that another node has let in: bans hold here, and its user counts its connections.
    pub(crate) fn count_continued(
        &mut self,
        key: ConnectionKey,
        image: &ConnectionImage,
        proven: Option<&str>,
    ) -> Result<(), Reason> {
        let user: Option<Box<str>> = proven.map(Box::from).or_else(|| image.counted_user.clone());
        let (now, address) = (self.shard.now, self.address_of(key));
        let admission = &self.shard.shared.admission;
        admission.check_client(now, image.tenant, &image.client_id, user.as_deref(), address)?;
        let Some(user) = user else { return Ok(()) };
        let client_id: Box<str> = image.client_id.clone();
        let applicant = Applicant { tenant: image.tenant, client_id, user: Some(user) };
        self.shard.gate.pending.insert(key, applicant);
        let counted = self.count_user(key, image.counted_user.is_some());
        // It is no new connection of its client.
        self.shard.gate.pending.remove(&key);
        counted
    }

    /// The user whose connections include this one.
    pub(crate) fn counted_user(&self, key: ConnectionKey) -> Option<Box<str>> {
        self.shard.gate.counted.get(&key)?.user.clone()
    }

    /// A connection has ended: its slot of the user is released.
    pub(crate) fn uncount_user(&mut self, key: ConnectionKey) {
        self.shard.gate.shown.remove(&key);
        let Some(applicant) = self.shard.gate.counted.remove(&key) else { return };
        if let Some(user) = &applicant.user {
            self.shard.shared.admission.release_user(applicant.tenant, user);
        }
        let client = (applicant.tenant, applicant.client_id);
        if self.shard.gate.newest.get(&client) == Some(&key) {
            self.shard.gate.newest.remove(&client);
        }
    }

    fn tell_of_ban(&mut self, ban: &Ban, address: Option<IpAddr>) {
        let event =
            self.flown(FlightKind::Banned).reason(Reason::Banned).detail(&format!("{}: {}", ban.target, ban.reason));
        let event = match &ban.target {
            BanTarget::Client(tenant, client_id) => event.client(*tenant, client_id),
            BanTarget::Address(_) | BanTarget::User(..) => event,
        };
        self.shard.flight.record(self.shard.now, event.address(address));
        let seconds = ban.until.since(self.shard.now.monotonic) / 1000;
        tracing::warn!(shard = self.shard.place.shard.0, banned = %ban.target, seconds, why = &*ban.reason, "banned");
    }

    /// Records an event of the engine, besides its other observers.
    pub(crate) fn record(&mut self, event: &LogEvent) {
        let note = match event {
            // Brokers are not clients: their events are in the log and in the fleet's status.
            LogEvent::BrokerServes { .. }
            | LogEvent::BrokerLost { .. }
            | LogEvent::BrokerIsOlder { .. }
            | LogEvent::BrokerOpensEarly { .. }
            | LogEvent::KeptBackLost { .. }
            | LogEvent::TopicDenied { .. } => return,
            LogEvent::Connected { key, client_id, tenant, version, session_present } => {
                self.note_connect(*key);
                let session = if *session_present { "session resumed" } else { "new session" };
                let event = self.flown(FlightKind::Connected).client(*tenant, client_id);
                event.detail(&format!("MQTT {version}, {session}")).address(self.address_of(*key))
            }
            LogEvent::Disconnected { key, client_id, tenant, reason } => {
                self.uncount_user(*key);
                let event = self.flown(FlightKind::Disconnected).client(*tenant, client_id).reason(*reason);
                event.address(self.address_of(*key))
            }
            LogEvent::Refused { key, reason, detail } => {
                self.uncount_user(*key);
                let event = self.flown(FlightKind::Refused).reason(*reason).detail(detail);
                let event = event.address(self.address_of(*key));
                match self.shard.gate.pending.remove(key) {
                    Some(applicant) => event.client(applicant.tenant, &applicant.client_id),
                    None => event,
                }
            }
            LogEvent::BadPacket { key, client_id, tenant, detail } => {
                let event = self.flown(FlightKind::BadPacket).client(*tenant, client_id).detail(detail);
                event.address(self.address_of(*key))
            }
            LogEvent::QueueFull {
                client_id,
                tenant,
                reason,
                connected,
                unacknowledged,
                oldest_packet_id,
                waiting_ms,
            } => {
                let event = self.flown(FlightKind::QueueFull).client(*tenant, client_id).reason(*reason);
                event.detail(&held_up_by(*connected, *unacknowledged, *oldest_packet_id, *waiting_ms))
            }
            LogEvent::Dropped { client_id, tenant, topic, reason, publisher, omitted } => {
                let event = self.flown(FlightKind::Dropped).client(*tenant, client_id).topic(topic).reason(*reason);
                let publisher = publisher.as_ref().map(|publisher| format!("published by {publisher}"));
                event.detail(&publisher.unwrap_or_default()).after(*omitted)
            }
            LogEvent::Denied { client_id, tenant, attempt, topic, reason, held_up_by, omitted } => {
                let event = self.flown(FlightKind::Denied).client(*tenant, client_id).topic(topic).reason(*reason);
                let whose =
                    held_up_by.as_ref().map_or_else(String::new, |whose| format!("; the queue of {whose} is full"));
                event.detail(&format!("it wanted {}{whose}", attempt.text())).after(*omitted)
            }
            LogEvent::Delayed { client_id, tenant, delay, omitted, .. } => {
                let event = self.flown(FlightKind::Delayed).client(*tenant, client_id);
                event.detail(&format!("it may not publish: {delay}")).after(*omitted)
            }
        };
        self.shard.flight.record(self.shard.now, note);
    }

    fn note_connect(&mut self, key: ConnectionKey) {
        let Some(applicant) = self.shard.gate.pending.remove(&key) else { return };
        if self.shard.table.is_own(key) {
            return;
        }
        let ban = self.shard.shared.admission.note_connect(self.shard.now, applicant.tenant, &applicant.client_id);
        if let Some(ban) = ban {
            let address = self.address_of(key);
            self.tell_of_ban(&ban, address);
        }
    }

    /// Closes the connections that match a new ban, and returns their number. An unproved user name is known only while
    /// its connections are counted.
    pub(crate) fn enforce(&mut self, target: &BanTarget) -> u64 {
        let mut ended = 0;
        let clients: Vec<(TenantId, Box<str>)> = match target {
            BanTarget::Client(tenant, client_id) => vec![(*tenant, client_id.clone())],
            BanTarget::User(tenant, user) => {
                let is_meant = |of: TenantId, name: &str| of == *tenant && name == &**user;
                ended += self.shard.engine.control().disconnect_users(
                    self.shard.now,
                    is_meant,
                    Reason::AdministrativeAction,
                );
                let counted = self.shard.gate.counted.values();
                let banned = counted.filter(|it| it.tenant == *tenant && it.user.as_ref() == Some(user));
                banned.map(|it| (it.tenant, it.client_id.clone())).collect()
            }
            BanTarget::Address(network) => {
                for key in self.shard.table.keys() {
                    let is_meant = self.address_of(key).is_some_and(|address| network.contains(address));
                    if is_meant && !self.shard.table.is_own(key) {
                        self.shard.sockets().lose(key);
                        ended += 1;
                    }
                }
                return ended;
            }
        };
        for (tenant, client_id) in clients {
            ended += u64::from(self.shard.engine.control().disconnect_client(
                self.shard.now,
                tenant,
                &client_id,
                Reason::AdministrativeAction,
            ));
        }
        ended
    }

    /// Ends a turn for the measure of overload.
    pub(crate) fn note_turn(&mut self) {
        let ended = self.shard.clock.now();
        let mark = self.shard.shared.admission.lag_mark_ms();
        let began = self.shard.lag.busy_from(self.shard.now.monotonic, ended.monotonic, claimed_time_us);
        if let Some(TooLong { until, still }) = self.shard.lag.note(began, ended.monotonic, mark) {
            self.shard.shared.admission.announce_overload(until);
            self.shard.engine.control().note_loop_lag(ended, until, still);
            if let Some(times) = self.shard.overloaded.note(ended.monotonic) {
                let mean_ms = self.shard.lag.at(ended.monotonic);
                tracing::warn!(
                    shard = self.shard.place.shard.0,
                    mean_ms,
                    mark_ms = mark,
                    times,
                    "overloaded: turns take too long, so new connections are refused, and who gives the shard most to do waits"
                );
            }
        }
    }

    /// A closed connection's seat is free.
    pub(crate) fn free_seat(&self, seat: Seat) {
        self.shard.shared.admission.release(seat);
    }
}

/// The reason why a queue does not drain, for people.
fn held_up_by(connected: bool, unacknowledged: u64, oldest_packet_id: Option<u16>, waiting_ms: u64) -> String {
    let seconds = waiting_ms / 1000;
    match oldest_packet_id {
        _ if !connected => "the client is away".to_owned(),
        Some(id) => {
            format!("packet id {id} is the oldest of {unacknowledged} not acknowledged; nothing was for {seconds} s")
        }
        None => "the client does not read as fast as messages come".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::held_up_by;

    #[test]
    fn a_full_queue_says_what_holds_it_up() {
        let waits = "packet id 7 is the oldest of 3 not acknowledged; nothing was for 6 s";
        assert_eq!(held_up_by(true, 3, Some(7), 6_000), waits);
        assert_eq!(held_up_by(true, 0, None, 0), "the client does not read as fast as messages come");
        assert_eq!(held_up_by(false, 3, Some(7), 0), "the client is away");
    }
}
