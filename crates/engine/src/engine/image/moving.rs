//! Partitions are held, released, copied and forgotten.

use crate::cluster::transfer::error::ImageError;
use crate::engine::facets::MoveCalls;
use crate::flows::cluster::ending::ending;
use crate::flows::groups::dealing::dealing;
use crate::flows::image::imaging::imaging;
use crate::flows::image::leaving::moving;
use crate::ids::{PartitionId, Partitions, SessionKey, TenantId};
use crate::image::Owed;
use crate::image::moving::{PartitionImage, Snapshot};
use crate::journal::keys::Key;
use crate::now::Now;
use crate::telling::reason::Reason;

impl MoveCalls<'_> {
    /// Serves nobody of these partitions from now on; their sessions stay and collect. Held ones stay held until
    /// [`MoveCalls::release_partitions`](crate::MoveCalls::release_partitions). MQTT 5 clients are told to use `reference`, the new home, as far as one is
    /// given.
    pub fn hold_partitions(&mut self, now: Now, partitions: Partitions, reference: Option<&str>) {
        self.engine.state.journal.now = now;
        self.engine.state.moving = self.engine.state.moving.with(partitions);
        self.engine.handover.exporting = true;
        for partition in partitions.iter() {
            self.close_clients_of(now, partition, Reason::UseAnotherServer, reference);
        }
        self.engine.handover.exporting = false;
        self.engine.after_frame(now);
    }

    /// Ends the hold; who serves the partitions is in the table again.
    pub fn release_partitions(&mut self, now: Now, partitions: Partitions) {
        self.engine.state.moving = self.engine.state.moving.without(partitions);
        moving!(self.engine).release_transfers(now, partitions);
        ending!(self.engine).publish_held(now);
        dealing!(self.engine).deal_waiting(now);
        self.engine.after_frame(now);
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

    /// The same of a dead node, whose store this engine has taken in as a whole. Groups may have left that node before:
    /// what it still kept for them, and what it had dealt to them, goes along with the first image.
    ///
    /// # Errors
    /// When they hold more than `max_bytes`.
    pub fn snapshot_of_dead(
        &mut self,
        now: Now,
        partitions: Partitions,
        max_bytes: u64,
    ) -> Result<Snapshot, ImageError> {
        self.snapshot(now, partitions, max_bytes, Partitions::ALL.without(partitions))
    }

    /// Takes images. What is known here of groups of `others` goes along with the first one.
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
        let sessions: Vec<SessionKey> =
            own.iter().flat_map(|partition| self.engine.state.sessions.sessions_of(*partition)).collect();
        for key in &sessions {
            if let Some(flow) = self.engine.state.sessions.get(key.0).and_then(|session| session.flow.as_ref()) {
                bytes += flow.waiting().1 + flow.inflight_bytes;
                loading |= flow.tail.is_some();
            }
        }
        if bytes > max_bytes {
            return Err(ImageError::TooLarge { bytes, max_bytes });
        }
        if loading {
            for key in sessions {
                if let Some(session) = self.engine.state.sessions.get_mut(key.0) {
                    session.load_tail(&self.engine.state.journal, &mut self.engine.state.events);
                }
            }
            return Ok(Snapshot::Loading);
        }
        let (mut images, mut others) = (Vec::new(), others);
        for partition in own {
            // Counted behind the image, in the same turn.
            let image = imaging!(self.engine).image_of(now, partition, std::mem::take(&mut others));
            images.push(PartitionImage { partition, image, owed: self.engine.questions().owed(partition) });
        }
        Ok(Snapshot::Taken(images))
    }

    /// Forgets the sessions of partitions that live elsewhere from now on; returns what they were owed here. Retained
    /// messages stay: every orchestrator has those that its clients subscribe to.
    pub fn forget_partitions(&mut self, now: Now, partitions: Partitions) -> Owed {
        self.engine.state.journal.now = now;
        let aside = moving!(self.engine).abandon_transfers(partitions);
        self.engine.waiting().send_on_all_of(now, partitions);
        self.engine.state.exchanges.note_left(partitions);
        let own = self.engine.place.own(partitions).into_iter().collect();
        self.engine.state.exchanges.leave_marks(self.engine.place, &mut self.engine.state.journal, own);
        self.engine.outgoing.forget_outgoing(&mut self.engine.state, partitions);
        let mut all = Owed::default();
        for partition in self.engine.place.own(partitions) {
            all.add(&Owed { retained: 0, ..self.engine.questions().owed(partition) });
            for key in self.engine.state.sessions.sessions_of(partition) {
                moving!(self.engine).forget_session(now, key);
            }
        }
        dealing!(self.engine).give_back_aside(now, aside);
        self.engine.after_frame(now);
        all
    }

    /// Forgets the retained messages of partitions that other nodes of the cluster keep from now on. Those of topics that
    /// do not cross to other nodes stay.
    pub fn forget_retained(&mut self, now: Now, partitions: Partitions) {
        self.engine.state.journal.now = now;
        for partition in self.engine.place.own(partitions) {
            let retained = self.engine.retained.retained_of(partition);
            let elsewhere = retained.filter(|(_, topic)| self.engine.links.roster.crosses(topic));
            let topics: Vec<(TenantId, String)> = elsewhere.map(|(tenant, topic)| (tenant, topic.to_owned())).collect();
            for (tenant, topic) in topics {
                if self.engine.retained.values.clear(tenant, &topic).is_some() {
                    self.engine.state.journal.delete(Key::Retained(tenant, &topic));
                }
            }
            self.engine.retained.forget_removed(&mut self.engine.state, partition);
        }
        self.engine.after_frame(now);
    }

    /// Takes in the images of partitions, as far as they are at home on this shard, and holds them. Copies that are
    /// here already are given up: they come from an earlier attempt, or from a time when the partition was served here.
    /// Returns what each partition owes, and what was given up.
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
        let mut owed = Vec::new();
        let place = self.engine.place;
        for image in images.iter().filter(|image| place.owns(image.partition)) {
            if let Err(error) = self.import_partition(now, &image.image) {
                self.forget_partitions(now, partitions);
                return Err(error);
            }
            owed.push((image.partition, self.engine.questions().owed(image.partition)));
        }
        self.engine.state.exchanges.note_arrived(owed.iter().map(|(partition, _)| *partition).collect());
        Ok((owed, given_up))
    }

    /// The number of the batch that holds all that was written so far; what was written is in the store once
    /// [`StoreCalls::handle_committed`](crate::StoreCalls::handle_committed) has named it. `None` where nothing is kept.
    pub fn written_batch(&mut self) -> Option<u64> {
        self.engine.state.journal.is_on().then(|| self.engine.state.journal.awaited_batch())
    }

    /// Ends the connections of a partition's clients; MQTT 5 clients are told to use `reference` instead.
    pub(super) fn close_clients_of(
        &mut self,
        now: Now,
        partition: PartitionId,
        reason: Reason,
        reference: Option<&str>,
    ) {
        for key in self.engine.state.sessions.sessions_of(partition) {
            if let Some(connection) = self.engine.state.sessions.get(key.0).and_then(|session| session.connection) {
                self.engine.close_towards(now, connection, reason, None, reference);
            }
        }
    }
}
