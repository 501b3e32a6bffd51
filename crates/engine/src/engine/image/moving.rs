//! Partitions are held, released, copied and forgotten.

use crate::cluster::transfer::error::ImageError;
use crate::engine::facets::MoveCalls;
use crate::events::reason::Reason;
use crate::flows::contexts::dealing;
use crate::flows::contexts::ending;
use crate::flows::contexts::imaging;
use crate::flows::contexts::moving;
use crate::flows::contexts::subscribing;
use crate::flows::image::export::due_of_moved;
use crate::flows::image::moving::{Beside, Held};
use crate::ids::{PartitionId, Partitions, SessionKey, TenantId};
use crate::image::Owed;
use crate::image::moving::{PartitionImage, Snapshot};
use crate::journal::keys::Key;
use crate::now::Now;
use crate::orchestrator::homes::Home;
use crate::timers::Timer;
use crate::topics::is_own_topic;

impl MoveCalls<'_> {
    /// Stops to serve the clients of these partitions; their sessions stay and collect messages. Held ones stay held
    /// until [`MoveCalls::release_partitions`](crate::MoveCalls::release_partitions). MQTT 5 clients get `reference`,
    /// the new home, in their DISCONNECT, if it is given.
    pub fn hold_partitions(&mut self, now: Now, partitions: Partitions, reference: Option<&str>) {
        self.engine.state.journal.now = now;
        self.engine.state.moving = self.engine.state.moving.with(partitions);
        self.engine.handover.parting = self.engine.handover.parting.without(partitions);
        self.engine.handover.exporting = true;
        self.close_clients_of(now, partitions, Reason::UseAnotherServer, reference);
        self.engine.handover.exporting = false;
        self.engine.after_frame(now);
    }

    /// Ends the hold; who serves the partitions is in the table again.
    pub fn release_partitions(&mut self, now: Now, partitions: Partitions) {
        let moving = self.engine.state.moving;
        self.engine.state.moving = moving.without(partitions);
        let homes = &self.engine.homes;
        self.engine.state.exchanges.note_served(partitions.filtered(|it| homes.meant(it) == Home::Here));
        self.engine.handover.sent.forget(partitions);
        self.schedule_wills(now, moving.without(self.engine.state.moving));
        self.engine.handover.parting = self.engine.handover.parting.without(partitions);
        moving!(self.engine).release_transfers(now, partitions);
        subscribing!(self.engine).drop_groups_dealt_elsewhere(now);
        ending!(self.engine).publish_held(now);
        dealing!(self.engine).deal_waiting(now);
        self.engine.after_frame(now);
    }

    /// Gives wills a time whose clients were disconnected for a move that was called off. Wills that have come with a move
    /// have one.
    fn schedule_wills(&mut self, now: Now, released: Partitions) {
        if released == Partitions::NONE {
            return;
        }
        self.engine.state.journal.now = now;
        let sessions = self.engine.state.sessions.by_partition(self.engine.place.own(released));
        for key in sessions.all().copied().collect::<Vec<_>>() {
            self.schedule_will_of_moved(now, key);
        }
    }

    /// Gives the will of a client a time whose connection has ended by no fault of its own, unless it has one.
    pub(crate) fn schedule_will_of_moved(&mut self, now: Now, key: SessionKey) {
        let state = &mut self.engine.state;
        let Some(session) = state.sessions.get_mut(key.0).filter(|it| it.connection.is_none()) else { return };
        let expiry = session.expiry_seconds;
        let Some(rare) = session.rare.as_mut().filter(|rare| rare.will_due.is_none()) else { return };
        let Some(due) = rare.will.as_ref().map(|will| due_of_moved(now, will, expiry)) else { return };
        rare.will_due = Some(due);
        state.timers.set(due, Timer::Will(key));
        state.sessions.store_session(&mut state.journal, key);
    }

    /// Takes images of the held partitions of this shard. Later messages are collected by
    /// [`MoveCalls::begin_leaving`](crate::MoveCalls::begin_leaving) or
    /// [`OrchestratorMoves::begin_forwarding`](crate::OrchestratorMoves::begin_forwarding), in the same turn.
    ///
    /// # Errors
    /// When they hold more than `max_bytes`.
    pub fn snapshot_partitions(
        &mut self,
        now: Now,
        partitions: Partitions,
        max_bytes: u64,
    ) -> Result<Snapshot, ImageError> {
        self.snapshot(now, partitions, max_bytes, Partitions::NONE)
    }

    /// The same for a dead node, whose complete store this engine has loaded. Groups may have left that node before:
    /// the messages that it kept for them and had dealt to them go along with the first image.
    ///
    /// # Errors
    /// When they hold more than `max_bytes`.
    pub fn snapshot_of_dead(
        &mut self,
        now: Now,
        partitions: Partitions,
        max_bytes: u64,
    ) -> Result<Snapshot, ImageError> {
        moving!(self.engine).keep_undealt(now, partitions);
        self.snapshot(now, partitions, max_bytes, Partitions::ALL.without(partitions))
    }

    /// Takes images. The first one contains the state of groups of `others` that this shard has.
    fn snapshot(
        &mut self,
        now: Now,
        partitions: Partitions,
        max_bytes: u64,
        others: Partitions,
    ) -> Result<Snapshot, ImageError> {
        self.engine.state.journal.now = now;
        let own = self.engine.place.own(partitions);
        let mut bytes = 0;
        let mut loading = false;
        let sessions = self.engine.state.sessions.by_partition(own);
        for key in sessions.all() {
            let Some(session) = self.engine.state.sessions.get(key.0) else { continue };
            let Some(flow) = session.flow.as_ref() else { continue };
            bytes += flow.queue_bytes + flow.inflight_bytes;
            let Some(tail) = flow.tail.as_deref() else { continue };
            let sent = self.engine.handover.sent.of(session);
            bytes += if sent.is_some() { tail.copies().1 } else { tail.bytes };
            loading |= !sent.is_some_and(|sent| sent.covers(tail));
        }
        if bytes > max_bytes {
            return Err(ImageError::TooLarge { bytes, max_bytes });
        }
        if loading {
            for key in sessions.all() {
                let sent = &self.engine.handover.sent;
                let session = self.engine.state.sessions.get_mut(key.0);
                if let Some(session) = session.filter(|session| sent.of(session).is_none()) {
                    session.load_tail_to_move(&self.engine.state.journal, &mut self.engine.state.events);
                }
            }
            return Ok(Snapshot::Loading);
        }
        let (retained, removed) =
            (self.engine.retaining.store.by_partition(own), self.engine.retaining.store.removed_by_partition(own));
        let (mut images, mut beside) = (Vec::new(), Beside { marks: own, others });
        // Counted in the same turn.
        for (partition, owed) in self.engine.questions().owed_of(own) {
            let held = Held {
                sessions: sessions.of(partition),
                retained: retained.of(partition),
                removed: removed.of(partition),
                sent: &self.engine.handover.sent,
            };
            let image = imaging!(self.engine).image_of(now, partition, &held, &std::mem::take(&mut beside));
            images.push(PartitionImage { partition, image, owed });
        }
        Ok(Snapshot::Taken(images))
    }

    /// Forgets the sessions of partitions that have moved elsewhere; returns the counts of their messages here.
    /// Retained messages stay: every orchestrator has the retained messages of its clients' subscriptions.
    pub fn forget_partitions(&mut self, now: Now, partitions: Partitions) -> Owed {
        self.engine.state.journal.now = now;
        let aside = moving!(self.engine).abandon_transfers(partitions);
        self.engine.waiting().send_on_all_of(now, partitions);
        self.engine.state.exchanges.note_left(partitions);
        let own = self.engine.place.own(partitions);
        self.engine.state.exchanges.leave_marks(self.engine.place, &mut self.engine.state.journal, own);
        self.engine.peers.outgoing.forget_outgoing(&mut self.engine.state, partitions);
        self.engine.handover.forget(now, &mut self.engine.state.journal, partitions);
        self.engine.handover.tell_departures(&mut self.engine.state);
        let mut all = Owed::default();
        for (_, owed) in self.engine.questions().owed_of(own) {
            all.add(&Owed { retained: 0, ..owed });
        }
        for key in self.engine.state.sessions.by_partition(own).all() {
            moving!(self.engine).forget_session(now, *key);
        }
        dealing!(self.engine).give_back_aside(now, aside);
        subscribing!(self.engine).drop_groups_dealt_elsewhere(now);
        self.engine.after_frame(now);
        all
    }

    /// Forgets the retained messages of partitions that other nodes of the cluster keep from now on. Messages of `$SYS` stay.
    pub fn forget_retained(&mut self, now: Now, partitions: Partitions) {
        self.engine.state.journal.now = now;
        let own = self.engine.place.own(partitions);
        let its = self.engine.retaining.store.by_partition(own);
        let elsewhere = its.all().filter(|(_, topic)| !is_own_topic(topic));
        let topics: Vec<(TenantId, String)> = elsewhere.map(|(tenant, topic)| (*tenant, (*topic).to_owned())).collect();
        for (tenant, topic) in topics {
            if self.engine.retaining.store.values.clear(tenant, &topic).is_some() {
                self.engine.state.journal.delete(Key::Retained(tenant, &topic));
            }
        }
        self.engine.retaining.store.forget_removed(&mut self.engine.state, own);
        self.engine.after_frame(now);
    }

    /// Imports the images of partitions whose home is this shard, and holds them. Copies that are here already are
    /// discarded: they come from an earlier attempt, or from a time when the partition was served here. Returns the
    /// counts of each imported partition and of the discarded copies.
    ///
    /// # Errors
    /// When an image cannot be taken in; then nothing of these partitions is here.
    pub fn arrive(
        &mut self,
        now: Now,
        images: &[PartitionImage],
    ) -> Result<(Vec<(PartitionId, Owed)>, Owed), ImageError> {
        self.engine.state.journal.now = now;
        let partitions: Partitions = images.iter().map(|image| image.partition).collect();
        self.hold_partitions(now, partitions, None);
        let given_up = self.forget_partitions(now, partitions);
        let here = self.engine.place.own(partitions);
        for PartitionImage { partition, image, .. } in images {
            let is_here = here.has(*partition);
            let taken =
                if is_here { self.import_image(now, image, here).map(drop) } else { self.import_marks(image, here) };
            if let Err(error) = taken {
                self.forget_partitions(now, partitions);
                return Err(error);
            }
        }
        let owed = self.engine.questions().owed_of(here);
        self.engine.state.exchanges.note_arrived(here);
        Ok((owed, given_up))
    }

    /// The number of the batch that holds everything written so far; it is in the store once
    /// [`StoreCalls::handle_committed`](crate::StoreCalls::handle_committed) has named the number. `None` if this
    /// engine has no store.
    pub fn written_batch(&mut self) -> Option<u64> {
        self.engine.state.journal.is_on().then(|| self.engine.state.journal.awaited_batch())
    }

    /// Ends the connections of the clients of partitions; MQTT 5 clients get `reference` in their DISCONNECT.
    pub(super) fn close_clients_of(
        &mut self,
        now: Now,
        partitions: Partitions,
        reason: Reason,
        reference: Option<&str>,
    ) {
        for key in self.engine.state.sessions.by_partition(partitions).all() {
            if let Some(connection) = self.engine.state.sessions.get(key.0).and_then(|session| session.connection) {
                self.engine.close_towards(now, connection, reason, None, reference);
            }
        }
    }
}
