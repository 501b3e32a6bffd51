//! Homes are put in force, and clients are sent to theirs.

use crate::connection::Phase;
use crate::connection::input::Flow;
use crate::engine::facets::{HomeCalls, ShardQuestions};
use crate::event::Event;
use crate::events::reason::Reason;
use crate::flows::contexts::answering;
use crate::flows::contexts::dealing;
use crate::flows::contexts::ending;
use crate::flows::contexts::parking;
use crate::ids::BROKER_LINK_LISTENER;
use crate::ids::{ConnectionKey, PartitionId, Partitions, TenantId, partition_of};
use crate::now::{Millis, Now};
use crate::orchestrator::homes::{Home, Homes, HomesInForce};
use tidegate_mqtt::Version;

impl HomeCalls<'_> {
    /// Puts a table in force; `None` has everything at home here. Clients that are served elsewhere now are sent there.
    pub fn set_homes(&mut self, now: Now, table: Option<Homes>) {
        self.engine.state.journal.now = now;
        let ended = table.as_ref().is_some_and(|table| table.lease_until <= now.monotonic);
        let patient_until = match &table {
            // Suspended clients have already waited since the lease ended.
            Some(table) if ended && !self.engine.homes.ended => now.monotonic.plus(table.patience_ms),
            _ => self.engine.homes.patient_until,
        };
        self.engine.groups.kept.rests = table.as_ref().is_some_and(Homes::are_nowhere);
        self.engine.homes = HomesInForce { table: table.map(Box::new), ended, patient_until };
        self.engine.waiting().end_suspension(now);
        self.close_those_elsewhere(now, Reason::NotServedHere);
        ending!(self.engine).publish_held(now);
        dealing!(self.engine).deal_waiting(now);
        self.engine.after_frame(now);
    }
}

impl ShardQuestions<'_> {
    /// When the lease ends, unless it has.
    pub fn lease_deadline(&self) -> Millis {
        let table = self.engine.homes.table.as_ref().filter(|_| !self.engine.homes.ended);
        table.map_or(Millis::NEVER, |table| table.lease_until)
    }
}

impl HomeCalls<'_> {
    /// Lengthens the lease on the table in force. A lease that has ended here continues, and clients that wait are served:
    /// the caller renews only a lease that never ended for the others, so no other node can have taken these partitions.
    /// A caller that cannot say so puts another table in force. A renewal that is over already changes nothing.
    pub fn renew_lease(&mut self, now: Now, until: Millis) {
        let Some(table) = self.engine.homes.table.as_mut().filter(|_| until > now.monotonic) else { return };
        table.lease_until = until;
        if std::mem::take(&mut self.engine.homes.ended) {
            self.engine.state.journal.now = now;
            self.engine.waiting().end_suspension(now);
            ending!(self.engine).publish_held(now);
            self.engine.after_frame(now);
        }
    }
}

impl ShardQuestions<'_> {
    /// The home at which a connection that has left its own can continue, on this shard or another one.
    pub fn home_to_continue_at(&self, partition: PartitionId) -> Home {
        if self.engine.handover.parting.has(partition) {
            return Home::Nowhere;
        }
        self.engine.homes.home_of(&self.engine.state, partition)
    }

    /// The partitions of this shard that are served here now.
    pub fn served(&self) -> Partitions {
        Partitions::that(|partition| {
            self.engine.place.owns(partition) && self.engine.homes.home_of(&self.engine.state, partition) == Home::Here
        })
    }
}

impl HomeCalls<'_> {
    /// Ends the lease when it is due, before any other work of a turn: other nodes may serve these clients from now on.
    /// If the table has patience, the clients wait, and only pings are answered. Otherwise, or after the patience,
    /// their connections end with [`Reason::LeaseEnded`], and the shell writes no more of their output, which may
    /// contain acknowledgements. Returns whether the lease has ended just now.
    pub fn keep_lease(&mut self, now: Now) -> bool {
        if self.engine.questions().lease_deadline() > now.monotonic {
            return false;
        }
        self.engine.state.journal.now = now;
        self.engine.homes.ended = true;
        let patience = self.engine.homes.table.as_ref().map_or(0, |table| table.patience_ms);
        self.engine.homes.patient_until = now.monotonic.plus(patience);
        self.close_those_elsewhere(now, Reason::LeaseEnded);
        answering!(self.engine).refuse_all_of_principals(Reason::LeaseEnded);
        self.engine.after_frame(now);
        true
    }

    /// Ends the connections of clients that are not at home here.
    fn close_those_elsewhere(&mut self, now: Now, unserved: Reason) {
        let connected = self.engine.state.sessions.iter().filter_map(|(_, session)| {
            let key = session.connection.filter(|_| session.listener != BROKER_LINK_LISTENER)?;
            let partition = partition_of(session.tenant, &session.client_id);
            Some((
                key,
                self.engine.homes.home_of(&self.engine.state, partition),
                self.engine.homes.meant(partition) == Home::Here,
            ))
        });
        let away: Vec<(ConnectionKey, Home, bool)> = connected.filter(|(_, home, _)| *home != Home::Here).collect();
        for (key, home, waits) in away {
            if waits && self.engine.homes.is_patient(now) && parking!(self.engine).suspend(now, key) {
                continue;
            }
            let reason = if matches!(home, Home::At(_)) { Reason::UseAnotherServer } else { unserved };
            self.engine.close_connection(now, key, reason, None);
        }
    }

    /// The home of a CONNECT's client; `None` when this shard serves it. An empty client id is at home
    /// wherever a name can be given to it.
    pub(crate) fn send_home(
        &mut self,
        now: Now,
        key: ConnectionKey,
        tenant: TenantId,
        client_id: &str,
    ) -> Option<Flow> {
        let home = if client_id.is_empty() {
            let shard = self.engine.homes.naming_shard(self.engine.place, &self.engine.state);
            match (shard, self.engine.homes.any_place()) {
                (Some(shard), _) if shard == self.engine.place.shard => return None,
                (Some(shard), _) => return Some(Flow::HandOver(shard)),
                (None, Some(place)) => Home::At(place),
                (None, None) => Home::Nowhere,
            }
        } else {
            let partition = partition_of(tenant, client_id);
            let home = self.engine.homes.home_of(&self.engine.state, partition);
            if home == Home::Here {
                let shard = self.engine.place.home_of(partition);
                return (shard != self.engine.place.shard).then_some(Flow::HandOver(shard));
            }
            home
        };
        // A pipeline runs at the home of its session, and no other node knows its password.
        let may_go = self.engine.state.connections.get(key).is_some_and(|connection| !connection.is_of_hub());
        match home {
            Home::At(place) if may_go => Some(self.send_to_place(now, key, place)),
            Home::At(_) | Home::Here | Home::Nowhere => {
                self.engine.entry().refuse_connect(now, key, Reason::NotServedHere, String::new());
                Some(Flow::Next)
            }
        }
    }

    fn send_to_place(&mut self, now: Now, key: ConnectionKey, place: u16) -> Flow {
        let Some(connection) = self.engine.state.connections.get_mut(key) else { return Flow::Hold };
        let (version, listener) = (connection.version, connection.listener);
        if self.engine.state.settings.listener(listener).is_some_and(|listener| listener.relayed) {
            // The place that sent it here has another table. One of both is older, and it must not go round in circles.
            self.engine.entry().refuse_connect(now, key, Reason::NotServedHere, String::new());
            return Flow::Next;
        }
        let redirect = self.engine.homes.table.as_ref().is_some_and(|table| table.redirect);
        if redirect && version == Version::V5 {
            let reference = self.engine.homes.reference(place);
            self.engine.entry().refuse_with_reference(
                now,
                key,
                Reason::UseAnotherServer,
                String::new(),
                reference.as_deref(),
            );
            return Flow::Next;
        }
        let Some(connection) = self.engine.state.connections.get_mut(key) else { return Flow::Hold };
        connection.phase = Phase::AwaitHome;
        // Later input stays in the socket, so no more than one read is ever kept here.
        connection.paused = true;
        self.engine.state.events.push_back(Event::PauseReading { key });
        self.engine.state.events.push_back(Event::Relay { key, place });
        Flow::Hold
    }

    /// The home of a client has been reached: its connection is the shell's alone from now on. Returns all that the
    /// client has sent, from its CONNECT on; `None` when the connection has ended meanwhile.
    pub fn leave_for_home(&mut self, key: ConnectionKey) -> Option<Vec<u8>> {
        let connection = self.engine.state.connections.get_mut(key).filter(|it| it.phase == Phase::AwaitHome)?;
        let bytes = connection.tail.as_deref().cloned().unwrap_or_default();
        self.engine.release_connection(key);
        Some(bytes)
    }

    /// The home of a client cannot be reached.
    pub fn fail_relay(&mut self, now: Now, key: ConnectionKey, detail: &str) {
        if self.engine.state.connections.get(key).is_some_and(|it| it.phase == Phase::AwaitHome) {
            self.engine.entry().refuse_connect(now, key, Reason::HomeUnreachable, detail.to_owned());
            self.engine.after_frame(now);
        }
    }
}
