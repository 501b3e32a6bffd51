//! One turn of a shard: input, its effects, and output.
//!
//! The order matters in one place: the journal goes to the store first, then batches to other shards, and then sockets
//! are written. So the effects of an acknowledgement are on their way before the acknowledgement.

use crate::shard::facets::OrderCalls;
use std::sync::mpsc::Sender;
use std::time::Instant;

use mio::Events;
use mio::event::Event as Readiness;
use tidegate_engine::{ConnectionKey, Event, Highest, MembershipChange, MembershipOutcome, Reason, ShardId, Sum};

use crate::flight::FlightSubject;
use crate::limits::{
    INBOX_MESSAGES_PER_TURN, LINE_BYTES_PER_TURN, LINE_MICROS_PER_TURN, LINE_WRITES_PER_LOOK, LINE_WRITES_PER_TURN,
    READ_BYTES_PER_TURN, SHORT_LINE,
};
use crate::memory::program_pages::release_program_pages;
use crate::memory::{self, Held, return_free_pages};
use crate::observer::{Answer, Occasion};
use crate::orders::{Admin, ToShard};
use crate::relay::NodeHomes;
use crate::shard::table::Flags;
use crate::shard::{Shard, Stage};

impl Shard {
    /// Works off a bounded part of everything that waits.
    pub(crate) fn turn(&mut self, events: &Events) {
        self.now = self.clock.now();
        self.counters.turns += 1;
        if self.engine.homes().keep_lease(self.now) {
            self.drop_blocked();
        }
        self.storing().watch_store();
        self.read_budget = if self.stalled { 0 } else { READ_BYTES_PER_TURN };
        self.read_ring();
        for event in events {
            self.take_readiness(event);
        }
        self.datagrams().receive_datagrams();
        self.take_events();
        self.accepting().accept_connections();
        self.peering().work_links();
        self.orders().take_inbox();
        self.note_taken();
        self.run_timers();
        self.relaying().work_relays();
        self.take_events();
        self.send_batches();
        self.write_outputs();
        self.settle();
        self.datagrams().flush_quic();
    }

    /// Closes connections whose transport holds unwritten output: since the lease has ended it must not be sent.
    fn drop_blocked(&mut self) {
        for key in self.table.keys() {
            if self.table.flags(key).is_some_and(|flags| flags.has(Flags::BLOCKED)) {
                self.sockets().lose(key);
            }
        }
    }

    /// Reads sockets that had more to give than their last turn allowed.
    fn read_ring(&mut self) {
        for _ in 0..self.ring.len() {
            if self.read_budget == 0 {
                return;
            }
            let Some(key) = self.ring.pop_front() else { return };
            let Some(flags) = self.table.flags(key) else { continue };
            if flags.has(Flags::READABLE) && !flags.has(Flags::PAUSED | Flags::HELD) {
                self.sockets().read_connection(key);
            }
        }
    }

    fn take_readiness(&mut self, event: &Readiness) {
        let token = event.token();
        let Some(key) = self.table.key_of(token) else {
            if self.peering().take_links_readiness(token)
                || self.relaying().take_relay_readiness(token, event)
                || self.datagrams().take_quic_readiness(token, event)
            {
                return;
            }
            if let Some(acceptor) = self.acceptors.iter_mut().find(|acceptor| acceptor.is_named(token)) {
                acceptor.ready = true;
            }
            return;
        };
        if event.is_writable() || event.is_error() {
            self.sockets().unblock(key);
        }
        let ends = event.is_read_closed() || event.is_error();
        if ends && let Some(flags) = self.table.flags(key) {
            flags.set(Flags::PEER_CLOSED);
            if event.is_error() && flags.has(Flags::PAUSED | Flags::HELD) {
                // A reset discards unread bytes; there is no input to wait for.
                self.sockets().lose(key);
                return;
            }
        }
        if ends || event.is_readable() {
            self.become_readable(key);
        }
    }
}

impl OrderCalls<'_> {
    fn take_inbox(&mut self) {
        self.shard.inbox.awake();
        self.shard.engine.cluster().begin_matching();
        self.take_messages();
        // A publisher of this shard is not charged for it.
        self.shard.engine.cluster().begin_matching();
    }

    fn take_messages(&mut self) {
        for _ in 0..INBOX_MESSAGES_PER_TURN {
            match self.shard.inbox.next() {
                None => return,
                Some(ToShard::Batch(batch)) => {
                    if let Some(rest) = self.shard.peering().take_batch(batch) {
                        self.shard.inbox.put_back(ToShard::Batch(rest));
                        return;
                    }
                    if self.shard.engine.cluster().has_matched_for_a_turn() {
                        return;
                    }
                }
                Some(ToShard::Adopt(adoption)) => self.shard.sockets().adopt(*adoption),
                Some(ToShard::AuthOutcome { key, outcome }) => self.shard.admission().take_auth_outcome(key, outcome),
                Some(ToShard::Pass { key, door, accepted }) => self.shard.accepting().pass_through(key, door, accepted),
                Some(ToShard::Read(read)) => self.shard.storing().take_queue_read(*read),
                Some(ToShard::Committed(sequence)) => self.shard.peering().take_committed(sequence),
                Some(ToShard::QuicBatch(batch)) => self.shard.datagrams().take_quic_batch(*batch),
                Some(ToShard::QuicNotice(notice)) => self.shard.datagrams().take_quic_notice(*notice),
                Some(ToShard::WorkLinks(links)) => self.shard.peering().attach_links(links),
                Some(ToShard::Dialed(attempt, dialed)) => self.take_dialed(attempt, dialed),
                Some(ToShard::Admin(admin)) => {
                    let visited = self.shard.engine.cluster().pause_matching();
                    self.handle_admin(admin);
                    self.shard.engine.cluster().resume_matching(visited);
                }
            }
        }
    }

    fn handle_admin(&mut self, admin: Admin) {
        let Shard { engine, flight, place, now, .. } = &mut *self.shard;
        let now = *now;
        match admin {
            Admin::Report { by_user, answer } => {
                // The caller may have given up waiting.
                let _ = answer.send(self.report(by_user));
            }
            Admin::Disconnect { tenant, client_id, reason, answer } => {
                let _ = answer.send(engine.control().disconnect_client(now, tenant, &client_id, reason));
            }
            Admin::SetAccess { access, done } => {
                let shard = place.shard;
                engine.control().set_access(access.map(|access| access.make(shard)));
                // The caller may have given up waiting.
                let _ = done.send(());
            }
            Admin::SetLimits { settings, done } => {
                engine.control().set_limits(&settings);
                let _ = done.send(());
            }
            Admin::Membership { changes, answer } => self.shard.change_memberships(&changes, answer),
            Admin::Why { subject, tenant, answer } => {
                let mut known = flight.answer(&subject, tenant);
                if let FlightSubject::Client(client_id) = &subject {
                    known.suppressed += engine.questions().omitted(tenant, client_id);
                }
                let _ = answer.send(known);
            }
            Admin::Slow { limit, answer } => {
                let _ = answer.send(engine.questions().slow_sessions(now, limit));
            }
            Admin::Clients { query, answer } => {
                let _ = answer.send(self.clients(&query));
            }
            Admin::Enforce { target, answer } => {
                let _ = answer.send(self.shard.admission().enforce(&target));
            }
            Admin::DisconnectUsers { users, reason, answer } => {
                let ended = engine.control().disconnect_users(now, |_, name| users.contains(name), reason);
                // The caller may have given up waiting.
                let _ = answer.send(ended);
            }
            Admin::LeaveWills => engine.control().leave_wills_to_another(),
            Admin::LastWills { sent } => self.shard.publish_last_wills(&sent),
            Admin::Stop { drained } => self.shard.begin_stop(drained),
            Admin::Serve(journal) => {
                self.shard.journal = Some(journal);
                self.shard.serving = true;
            }
            Admin::ForgetUsage(keys) => self.shard.storing().forget_usage(keys),
            Admin::Fleet(order) => self.take_fleet_order(order),
            Admin::Move(order) => self.shard.peering().take_move_order(order),
            Admin::RenewLease { until } => engine.homes().renew_lease(now, until),
            // The caller may have given up waiting.
            Admin::Served(answer) => drop(answer.send(engine.questions().served())),
            Admin::Detours(detours) => self.shard.relaying().set_detours(detours),
            Admin::Homes { homes, done } => self.take_homes(homes.as_deref(), &done),
            Admin::Service(order) => self.take_service_order(order),
            Admin::Roster(order) => self.shard.peering().set_roster(*order),
            Admin::PeerNews(news) => self.shard.peering().record_peer_news(&news),
            Admin::Exit => self.shard.stage = Stage::Exiting,
            #[cfg(test)]
            Admin::Panic => std::panic::panic_any("a test asked for it"),
        }
    }

    fn take_homes(&mut self, homes: Option<&NodeHomes>, done: &Sender<()>) {
        self.shard.relaying().set_homes(homes);
        // The caller may have given up waiting.
        let _ = done.send(());
    }
}

impl Shard {
    fn change_memberships(&mut self, changes: &[MembershipChange], answer: Sender<Vec<MembershipOutcome>>) {
        let now = self.now;
        let made = changes.iter().map(|change| self.engine.insiders().change_membership(now, change)).collect();
        // Later requests to the other shards arrive after this batch.
        self.send_batches();
        self.peering().answer_committed(answer, made);
    }

    fn publish_last_wills(&mut self, sent: &Sender<ShardId>) {
        // Dropping a listener closes it, and removes the file of a Unix socket.
        self.acceptors.clear();
        self.quic.stop_accepting();
        self.engine.control().publish_last_wills(self.now);
        self.send_batches();
        // The caller may have given up waiting.
        let _ = sent.send(self.place.shard);
    }

    fn begin_stop(&mut self, drained: Sender<ShardId>) {
        self.relaying().end_relays();
        self.engine.control().begin_shutdown(self.now);
        self.stage = Stage::Draining(drained);
    }

    /// Notes by when all input was taken that had arrived.
    fn note_taken(&mut self) {
        let datagrams = self.serving && self.quic.has_datagrams();
        let drained = !self.inbox.has_more() && !datagrams && !self.accepting().wants_to_accept();
        self.heard.note_taken(drained, self.table.len());
    }

    fn run_timers(&mut self) {
        if self.engine.next_deadline() <= self.now.monotonic {
            if self.engine.questions().is_about_to_tell(self.now)
                && let Some(bytes) = memory::of_process()
            {
                self.engine.control().set_process_memory(bytes);
            }
            self.engine.handle_timers(self.now);
        }
        let heard = self.heard.until();
        if self.engine.questions().next_silence() <= heard {
            let table = &self.table;
            self.engine.timing().handle_silence(self.now, heard, |key| table.is_unread(key));
        }
        self.datagrams().run_quic_timers();
        self.sockets().close_overdue();
        let held =
            Held { bytes: self.engine.questions().held_bytes() + self.index_bytes(), connections: self.table.len() };
        self.trim_policy.note(self.now.monotonic, held);
        if self.trim_policy.is_due(self.now.monotonic, held) {
            self.give_memory_back();
        }
    }

    fn give_memory_back(&mut self) {
        self.counters.memory_trims += 1;
        self.engine.control().shrink();
        self.table.shrink();
        self.gate.shrink();
        self.relays.shrink();
        self.quic.shrink();
        self.ring.shrink_to_fit();
        self.dirty.shrink_to_fit();
        self.spare.shrink_to_fit();
        self.ended.shrink_to_fit();
        self.strangers.shrink();
        self.flushing.shrink_to_fit();
        self.lingering.shrink_to_fit();
        return_free_pages();
        release_program_pages();
    }

    /// Carries out the engine's events. Ended connections are only noted: their last output is written like any other.
    pub(crate) fn take_events(&mut self) {
        while let Some(event) = self.engine.poll_event() {
            match event {
                Event::Close { key, reason } => {
                    if reason == Reason::LeaseEnded
                        && let Some(flags) = self.table.flags(key)
                    {
                        // The pending output may acknowledge messages that belong to another home now.
                        flags.set(Flags::BROKEN);
                    }
                    self.ended.push((key, reason));
                }
                Event::HandOver { key, home, listener, bytes } => self.sockets().hand_over(key, home, listener, bytes),
                Event::Relay { key, place } => self.relaying().begin_relay(key, place),
                Event::Continue { key, proven } => self.sockets().take_image(key, &proven),
                Event::PauseReading { key } => {
                    if let Some(flags) = self.table.flags(key) {
                        flags.set(Flags::PAUSED);
                    }
                }
                Event::ResumeReading { key } => self.resume_reading(key),
                Event::Authenticate { key, request } => self.admission().authenticate(key, request),
                Event::AnswerChallenge { key, data } => {
                    if let Some(shard) = self.inboxes.get(usize::from(self.place.shard.0)).cloned() {
                        let answer = Answer { shard, place: self.place.shard, key };
                        self.shared.observer.answer_challenge(data, answer);
                    }
                }
                Event::ReadQueue(wanted) => self.storing().read_queue(wanted),
                Event::Dial { broker_link, attempt } => self.orders().dial(&broker_link, attempt),
                Event::Pong { tenant, client_id } => self.orders().take_pong(tenant, client_id),
                Event::Observed { observer, message } => {
                    let engine = (&mut self.engine, self.now);
                    self.services.observers.take(engine, self.place.shard, observer, *message);
                }
                Event::Published { principal, number, outcome } => {
                    if let Some(taken) = self.services.principals.take(principal, number, outcome) {
                        self.services.tell_taken(number, taken);
                    }
                }
                Event::Log(event) => self.log(&event),
            }
        }
    }

    fn resume_reading(&mut self, key: ConnectionKey) {
        let Some(flags) = self.table.flags(key) else { return };
        flags.clear(Flags::PAUSED);
        if flags.has(Flags::READABLE) {
            self.ring.push_back(key);
        }
    }

    fn log(&mut self, event: &tidegate_engine::LogEvent) {
        use tidegate_engine::LogEvent::{
            BadPacket, BrokerIsOlder, BrokerLost, BrokerOpensEarly, BrokerServes, Connected, Delayed, Denied,
            Disconnected, Dropped, KeptBackLost, QueueFull, Refused, TopicDenied,
        };
        self.admission().record(event);
        if !self.shared.observer.wants(event) {
            return;
        }
        let key = match event {
            Connected { key, .. }
            | Disconnected { key, .. }
            | Refused { key, .. }
            | BadPacket { key, .. }
            | Delayed { key, .. } => Some(*key),
            QueueFull { .. }
            | Dropped { .. }
            | Denied { .. }
            | BrokerServes { .. }
            | BrokerLost { .. }
            | BrokerIsOlder { .. }
            | BrokerOpensEarly { .. }
            | KeptBackLost { .. }
            | TopicDenied { .. } => None,
        };
        let peer = key.and_then(|key| self.table.peer(key));
        let listener = key.filter(|_| peer.is_some()).map(|key| self.table.listener(key));
        self.shared.observer.log(&Occasion { shard: self.place.shard, listener, peer, event });
    }

    /// Sends the collected batches to other shards, and wakes sleeping ones.
    pub(crate) fn send_batches(&mut self) {
        let mut submitted = None;
        loop {
            submitted = self.storing().submit_journal().lets_leave(submitted);
            self.peering().send_to_nodes(submitted);
            for other in self.place.others() {
                if let Some(batch) = self.engine.take_batch(other)
                    && let Some(inbox) = self.inboxes.get(usize::from(other.0))
                {
                    inbox.send(ToShard::Batch(batch));
                }
            }
            if !self.engine.batches_due() {
                break;
            }
        }
        // Batches for other nodes may wait for one that was not submitted yet.
        if self.cluster.is_some() {
            self.storing().submit_journal();
        }
        self.peering().announce_to_nodes();
    }

    /// Writes every connection once whose output few share, and then some of those in line. Connections that become
    /// writable meanwhile wait for the next turn, so that one fast reader of a long queue does not delay the others.
    fn write_outputs(&mut self) {
        let before = self.counters.writes;
        self.gather_dirty();
        let mut batch = std::mem::replace(&mut self.dirty, std::mem::take(&mut self.spare));
        for key in batch.drain(..) {
            if self.sockets().write_connection(key) {
                self.dirty.push(key);
            }
        }
        self.spare = batch;
        self.write_line();
        self.counters.most_writes.add(&Highest(self.counters.writes - before));
    }

    fn gather_dirty(&mut self) {
        while let Some(key) = self.engine.outputs().pop_first() {
            self.dirty.push(key);
        }
    }

    /// Writes the connections that have been in line for longest, as many as one turn may. The others wait for the next
    /// turn, and so do connections with more output.
    fn write_line(&mut self) {
        let in_line = self.engine.outputs().in_line();
        // A short line is written whole: returning to it would cost its receivers more than it gives the others.
        let short = in_line <= SHORT_LINE;
        let most = if short { in_line } else { LINE_WRITES_PER_TURN };
        if most == 0 {
            return;
        }
        let (began, bytes_before) = (Instant::now(), self.engine.questions().counters().bytes_out);
        for number in 1..=most {
            let Some(key) = self.engine.outputs().pop_in_line() else { return };
            if self.sockets().write_connection(key) {
                self.engine.outputs().stand_in_line(key);
            }
            let bytes = self.engine.questions().counters().bytes_out - bytes_before;
            let looks = number % LINE_WRITES_PER_LOOK == 0;
            if !short
                && (bytes >= LINE_BYTES_PER_TURN || (looks && began.elapsed().as_micros() >= LINE_MICROS_PER_TURN))
            {
                return;
            }
        }
    }

    /// Ends a turn: carries out closes and sends the batches that writing and closing caused, so that no work is left
    /// without an event that announces it.
    fn settle(&mut self) {
        loop {
            self.take_events();
            if self.ended.is_empty() {
                break;
            }
            for (key, reason) in std::mem::take(&mut self.ended) {
                self.sockets().begin_close(key, reason);
            }
        }
        self.send_batches();
        self.gather_dirty();
        self.storing().tell_settled();
        self.peering().tell_settled_with_nodes();
        if self.table.len() == 0
            && let Stage::Draining(drained) = &self.stage
            && self.relays.is_empty()
        {
            let _ = drained.send(self.place.shard);
            self.stage = Stage::Drained;
        }
    }
}
