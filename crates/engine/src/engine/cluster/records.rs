//! Records from other shards.

use crate::cluster::{FAREWELL_INDEX, WELCOME_INDEX};
use crate::durable::RESTORING_INDEX;
use crate::engine::facets::ClusterCalls;
use crate::event::Delay;
use crate::events::reason::Reason;
use crate::flows::contexts::Answering;
use crate::flows::contexts::Peering;
use crate::flows::contexts::answering;
use crate::flows::contexts::broker_linking;
use crate::flows::contexts::dealing;
use crate::flows::contexts::deciding;
use crate::flows::contexts::ending;
use crate::flows::contexts::fetching;
use crate::flows::contexts::moving;
use crate::flows::contexts::parking;
use crate::flows::contexts::peering;
use crate::flows::contexts::publishing;
use crate::flows::contexts::subscribing;
use crate::groups::{JOINING_INDEX, Returned, Seat, Taker};
use crate::ids::{SessionKey, ShardId, TenantId, partition_of};
use crate::link::envelope::{BROUGHT, DELIVER, Envelope, FROM_RETAINED, RETAIN_AT_HOME, ReadHead, Ticket, VERSIONED};
use crate::link::fleet_word::FleetWord;
use crate::link::got::Got;
use crate::link::record::{PUBLISH_KIND, Record};
use crate::link::transfer_word::TransferWord;
use crate::link::{Batch, BatchPosition, Links};
use crate::message::Publication;
use crate::now::Now;
use crate::orchestrator::broker_link::Gate;
use crate::orchestrator::broker_link::packet_limits::LenLimit;
use crate::publish::admission::Wanted;
use crate::publish::dispatch::Source;
use crate::publish::turn_share::{DELIVERIES_MAX, VISITS_PER_DELIVERY};
use crate::session::BlockedPublisher;
use crate::session::table::Sessions;
use crate::settings::fleet_topics::owner_of;
use crate::wire::{WireError, WireReader};
use std::collections::BTreeSet;
use tidegate_mqtt::QoS;

/// A message that passed more places than this is not passed on: it goes round in a circle.
const HOPS_MAX: u8 = 32;

impl ClusterCalls<'_> {
    /// Takes a batch from another shard. If finding the receivers of its messages takes as long as a turn may, the
    /// answer is the batch again, with the records that are left: the caller hands it over in the next turn, before any
    /// later batch or roster.
    ///
    /// # Errors
    /// If a shard of another node has sent a record that cannot be read: the rest of the batch is lost, and
    /// the shell ends the link.
    pub fn handle_batch(&mut self, now: Now, mut batch: Batch) -> Result<Option<Batch>, WireError> {
        self.engine.state.journal.now = now;
        let whole = self.read_batch(now, &mut batch);
        // In one process both ends are this program, so anything else is a defect in it.
        debug_assert!(
            whole.is_ok() || batch.head.foreign.is_some(),
            "{} sent a batch that cannot be read: {whole:?}",
            batch.from
        );
        if whole.is_ok() && !batch.is_read() {
            return Ok(Some(batch));
        }
        self.engine.links.finish_batch(batch);
        whole.map(|()| None)
    }

    /// Begins or ends a turn's share of finding the receivers of messages from other shards.
    #[inline]
    pub fn begin_matching(&mut self) {
        self.engine.router.index.take_visited();
    }

    /// Interrupts the share of a turn for a publication that no other shard has sent: it is not charged for theirs.
    /// Returns the work so far, in visited nodes of filters, for [`Self::resume_matching`].
    #[must_use = "the share continues with it"]
    pub fn pause_matching(&mut self) -> usize {
        self.engine.router.index.take_visited()
    }

    /// Continues the share of a turn.
    pub fn resume_matching(&mut self, visited: usize) {
        self.engine.router.index.put_back_visited(visited);
    }

    /// True if finding these receivers has taken as long as a turn may: further records wait for the next one.
    #[inline]
    pub fn has_matched_for_a_turn(&self) -> bool {
        self.engine.router.index.has_visited(DELIVERIES_MAX * VISITS_PER_DELIVERY)
    }

    /// Processes the unread records of a batch, until the share of the turn is used up or a record cannot be read. In the
    /// latter case the rest is lost and counted once.
    fn read_batch(&mut self, now: Now, batch: &mut Batch) -> Result<(), WireError> {
        let mut reader = WireReader::new(batch.bytes.get(batch.position.bytes..).unwrap_or_default());
        let mut head = ReadHead::new(batch.head, batch.position.envelopes, now.monotonic);
        let mut shared = batch.shared.get(batch.position.shared..).unwrap_or_default().iter();
        while !reader.is_empty() {
            // Nearly all records carry messages; those are not moved through the enumeration of all kinds.
            let is_message = reader.skip(PUBLISH_KIND);
            let read = if is_message {
                head.envelope(&mut reader, &mut shared).map(|envelope| self.handle_envelope(now, batch.from, envelope))
            } else {
                Record::read(&mut head, &mut reader, &mut shared)
                    .map(|record| self.handle_record(now, batch.from, record))
            };
            if let Err(error) = read {
                self.engine.state.counters.drop_message(Reason::ShardInboxFull);
                return Err(error);
            }
            self.engine.after_frame(now);
            // Never between a record about a message and the message.
            if is_message && self.has_matched_for_a_turn() {
                break;
            }
        }
        batch.position = BatchPosition {
            bytes: batch.bytes.len() - reader.remaining(),
            shared: batch.shared.len() - shared.len(),
            envelopes: head.envelopes(),
        };
        Ok(())
    }

    #[inline]
    fn handle_record(&mut self, now: Now, from: ShardId, record: Record<'_>) {
        match record {
            Record::Publish(envelope) => self.handle_envelope(now, from, envelope),
            Record::Confirm { ticket, refused, promises } => {
                let ticket = self.engine.links.answered(from, ticket, false);
                answering!(self.engine).confirm(now, ticket, refused, promises);
            }
            other => self.handle_rare_record(now, from, other),
        }
    }

    fn handle_rare_record(&mut self, now: Now, from: ShardId, record: Record<'_>) {
        if record.envelope().is_some_and(|envelope| !self.engine.links.is_new(from, envelope.sequence)) {
            self.engine.state.exchanges.take_coming();
            return;
        }
        match record {
            Record::Interest { tenant, filter, present, ticket } => {
                self.handle_interest(now, from, tenant, filter, present, ticket);
            }
            Record::InterestBarrier { ticket } => {
                if ticket.connection.index == WELCOME_INDEX {
                    self.note_heard(now, from);
                }
                if ticket.connection.index == RESTORING_INDEX {
                    self.engine.store().note_restored(now);
                }
                let waits_for_brokers =
                    self.engine.links.roster.is_own(from) && self.engine.broker_links.wanted.wait_behind(from, ticket);
                if !waits_for_brokers {
                    self.engine.links.confirm_interest(from, ticket);
                }
            }
            Record::Crossing { number } => self.handle_crossing(from, number),
            Record::Crossed { number } => {
                self.engine.state.crossings.handle_crossed(
                    self.engine.place,
                    &mut self.engine.state.journal,
                    from,
                    number,
                );
            }
            Record::Replayed => self.engine.recovery.handle_replayed(self.engine.place, &mut self.engine.state),
            Record::Fleet(word) => self.handle_fleet_word(now, from, word),
            Record::InterestRefused { ticket, filter, code } => {
                broker_linking!(self.engine).refuse_filter(now, ticket, filter, code);
            }
            Record::InterestSeen { ticket } => {
                self.engine.links.answered(from, ticket, true);
                answering!(self.engine).handle_interest_seen(now, ticket);
            }
            Record::Mark { number } => self.engine.links.send(from, Record::Marked { number }),
            Record::Counted { number, counts } => self.take_counts(from, number, counts),
            Record::Marked { number } => self.engine.links.marked(from, number),
            Record::Transfer(word) => {
                if matches!(*word, TransferWord::Ask { .. }) {
                    // A message that has reached some of its receivers here went to the old home alone: it was sent
                    // before.
                    self.engine.pipeline().finish_fan_outs(now);
                }
                moving!(self.engine).handle_transfer(from, *word);
            }
            Record::Dealing(word) => {
                if peering!(self.engine).handle_dealing(now, from, *word) {
                    self.forget_those_replaced(now);
                }
            }
            Record::Exchange(word) => self.engine.state.exchanges.note_coming(word),
            Record::SysQuery { round } => self.engine.sys_rounds().answer_sys_query(now, from, round),
            Record::SysReport { round, values } => self.engine.sys_rounds().handle_sys_report(now, from, round, values),
            Record::Dealt { id } => drop(self.engine.groups.kept.forget_deal(&mut self.engine.state, id)),
            other => self.handle_room_record(now, from, other),
        }
    }

    fn handle_fleet_word(&mut self, now: Now, from: ShardId, word: FleetWord<'_>) {
        match word {
            FleetWord::Room { gate } => {
                broker_linking!(self.engine).set_gate(Gate::from_number(gate));
                ending!(self.engine).publish_held(now);
            }
            FleetWord::Denied { topic } => self.engine.broker_links.quarantine.add(topic, now.monotonic),
            FleetWord::Limit { packet, payload } => {
                self.engine.broker_links.set_largest(LenLimit { packet, payload });
            }
            FleetWord::AskPassed { round, broker } => {
                broker_linking!(self.engine).take_question(now, from, round, broker);
            }
            FleetWord::Passed { round, broker } => {
                broker_linking!(self.engine).note_passed(now, from, round, broker);
            }
        }
    }

    /// Takes records of publishers that wait for room in queues and links, and passes on all others.
    fn handle_room_record(&mut self, now: Now, from: ShardId, record: Record<'_>) {
        match record {
            // A publisher that is gone need not wait, and receives no notice of free space.
            Record::Park { connection } => {
                self.engine.state.reports().tell_delayed(Delay::Queue(None), connection);
                parking!(self.engine).park_for(now, connection, from);
            }
            Record::Unpark { connection } => self.unpark_for(now, connection, from),
            Record::GiveUp { connection } => self.give_up_blocking(BlockedPublisher { shard: from, connection }),
            Record::Credit { bytes } => {
                for publisher in self.engine.links.credit(from, bytes) {
                    self.engine.waiting().unpark(now, publisher);
                }
            }
            Record::Reserve { number, tenant, topic, qos, cost, waits } => {
                deciding!(self.engine).handle_reserve(
                    now.monotonic,
                    from,
                    number,
                    &Wanted { tenant, topic, qos, cost },
                    waits,
                );
            }
            Record::Reserved { number, full } => deciding!(self.engine).handle_reserved(now, from, number, full),
            Record::Commit { number } => self.engine.state.reservations.commit((from, number)),
            Record::Release { number } => deciding!(self.engine).release((from, number)),
            other => peering!(self.engine).handle_retained_record(now, from, other),
        }
    }

    /// A message from another shard: retained if its topic's home is here, delivered if someone here wants it.
    #[inline]
    fn handle_envelope(&mut self, now: Now, from: ShardId, mut envelope: Envelope<'_>) {
        let named = self.engine.state.exchanges.take_coming();
        if !self.engine.links.is_new(from, envelope.sequence) {
            return;
        }
        self.engine.state.counters.shard_messages_in += 1;
        self.engine.state.reservations.use_committed(from);
        let source = source_of(&envelope);
        let mark = self.engine.state.journal.mark();
        // These have got it, when it was on its way before.
        let name = named.as_ref().map(|word| word.name);
        let known = named.map(|word| deciding!(self.engine).mark_coming(from, &word)).filter(|known| !known.is_empty());
        let mut refused = None;
        envelope.publication.from_retained = envelope.purpose & FROM_RETAINED != 0;
        envelope.publication.beyond_quota = envelope.purpose & crate::link::envelope::BEYOND_QUOTA != 0;
        envelope.publication.retain_is_done = true;
        self.engine.state.transfers.source = from;
        let is_kept = |it: &Publication<'_>| {
            let (tenant, topic) = owner_of(&self.engine.state.settings, it.tenant, it.topic);
            known.as_ref().is_some_and(|known| known.sessions.has(partition_of(tenant, topic)))
        };
        if envelope.purpose & RETAIN_AT_HOME != 0 && !is_kept(&envelope.publication) {
            refused = self.retain_at_home(now, &mut envelope);
        }
        if envelope.publication.expires_at <= now.monotonic {
            self.discard_expired(&mut envelope.publication, known.as_ref());
        } else if envelope.purpose & DELIVER != 0 && envelope.hops < HOPS_MAX {
            let (tenant, topic) = (envelope.publication.tenant, envelope.publication.topic);
            let slot = match self.engine.router.cache.lookup(self.engine.router.index.epoch(), tenant, topic.as_bytes())
            {
                Some(slot) => slot,
                None => publishing!(self.engine).make_route(tenant, topic),
            };
            let receivers = self.engine.router.cache.get(slot).1.targets().len();
            self.engine.state.gave_up = false;
            if self.engine.handover.forwards() && self.engine.links.roster.is_own(from) {
                moving!(self.engine).note_of_brokers(slot, &mut envelope.publication);
            }
            publishing!(self.engine).dispatch_coming(
                now,
                slot,
                &mut envelope.publication,
                &source,
                (name, known.as_ref()),
            );
            let gave_up = self.engine.state.gave_up && envelope.publication.qos == QoS::AtLeastOnce;
            refused = refused.or(gave_up.then_some(Reason::BlockedTooLong));
            self.engine.state.charge_others_loop_lag(now, &source, receivers, &envelope.publication);
            if envelope.publication.tenant == TenantId::BROKER_LINK && self.engine.broker_links.count_message() {
                broker_linking!(self.engine).work_after_message(now);
            }
        }
        self.engine.state.transfers.source = self.engine.place.shard;
        let promises = self.engine.state.journal.has_written_since(mark);
        if self.engine.groups.kept.passed.has_present() {
            self.engine.groups.kept.hold(envelope.origin, envelope.ticket, refused);
        } else if let Some(ticket) = envelope.ticket {
            answering!(self.engine).confirm_to(now, envelope.origin, ticket, refused, promises);
        }
    }

    /// Retains a message whose topic's home is here; returns why it is refused.
    fn retain_at_home(&mut self, now: Now, envelope: &mut Envelope<'_>) -> Option<Reason> {
        let publication = &mut envelope.publication;
        let kept_by_a_broker = publication.from_retained && publication.tenant == TenantId::BROKER_LINK;
        if envelope.purpose & VERSIONED != 0 {
            let engine = &mut *self.engine;
            engine.retaining.store.take_stray(now, engine.place, &engine.links.roster, &mut engine.state, publication)
        } else if kept_by_a_broker {
            publishing!(self.engine).take_over_at_home(now, publication)
        } else {
            let entered_at = Some(envelope.entered_at).filter(|_| envelope.purpose & BROUGHT == 0);
            publishing!(self.engine).retain(now, publication, entered_at)
        }
    }

    /// The way here took longer than the message has to live ([MQTT-3.3.2-5]).
    #[cold]
    fn discard_expired(&mut self, publication: &mut Publication<'_>, known: Option<&Got>) {
        let mut reports = self.engine.state.reports();
        reports.discard_publication(Reason::MessageExpired, publication);
        let (place, roster) = (self.engine.place, &self.engine.links.roster);
        let has = |partition| known.is_some_and(|known| known.sessions.has(partition));
        let own = |partition| roster.is_of_process(partition) && place.owns(partition) && !has(partition);
        reports.report_expired_on_way(publication, own);
    }

    fn handle_interest(
        &mut self,
        now: Now,
        from: ShardId,
        tenant: TenantId,
        filter: &str,
        present: bool,
        ticket: Option<Ticket>,
    ) {
        if self.engine.router.index.set_remote(tenant, filter, from, present) {
            subscribing!(self.engine).note_sys_interest(now, tenant, filter, present);
        }
        // Another orchestrator asks its own brokers.
        let later = self.engine.links.roster.is_own(from)
            && self.engine.broker_links.wanted.note_wanted(
                &mut self.engine.state,
                &mut self.engine.broker_links.brokers,
                (tenant, filter),
                from,
                present,
                ticket,
            );
        if let Some(ticket) = ticket.filter(|_| !later) {
            self.engine.links.confirm_interest(from, ticket);
        }
        broker_linking!(self.engine).end_decided_waits(now);
    }

    /// This publisher waits no longer for queues of this shard: messages that still do not fit are dropped.
    pub(crate) fn give_up_blocking(&mut self, publisher: BlockedPublisher) {
        self.engine.state.overload.give_up(&publisher);
        self.engine.state.loop_lag.give_up(&publisher);
        self.engine.state.sessions.give_up_blocking(&mut self.engine.state.blockers, |other| *other == publisher);
    }
}

impl Peering<'_> {
    fn handle_retained_record(&mut self, now: Now, from: ShardId, record: Record<'_>) {
        match record {
            Record::RetainedQuery { fetch, tenant, filter, after } => {
                let (asker, wanted) = ((from, fetch), (tenant, filter));
                self.retaining.store.answer_retained_query(now, self.state, self.links, asker, wanted, after);
            }
            Record::RetainedItem { fetch, mut envelope } => {
                fetching!(self).handle_retained_item(now, from, fetch, &mut envelope.publication);
            }
            Record::RetainedEnd { fetch, after } => {
                self.retaining.fetches.handle_retained_end(&mut self.state.sessions, fetch, after);
            }
            group => self.handle_group_record(now, from, group),
        }
    }

    fn handle_group_record(&mut self, now: Now, from: ShardId, record: Record<'_>) {
        match record {
            Record::GroupJoin { group, session, client, member, ticket } => {
                self.handle_group_join(now, from, group, session, Seat { client, member, full: false }, ticket);
            }
            Record::GroupLeave { group, session } => subscribing!(self).handle_group_leave(now, from, group, session),
            Record::GroupExists { group } => subscribing!(self).handle_group_exists(now, group),
            Record::GroupPresence { group, session, online } => {
                self.groups.set_online(group, from, session, online);
                dealing!(self).deal_waiting_of(now, group);
            }
            Record::Deal { session, client, group, member: _, insists, id, mut envelope } => {
                self.state.counters.shard_messages_in += 1;
                let source = source_of(&envelope);
                let to = Taker { session: SessionKey(session), client, group, insists, id };
                dealing!(self).handle_deal(now, from, to, &mut envelope.publication, &source);
            }
            Record::Return { group, not_to, of, id, client, mut envelope } => {
                let source = source_of(&envelope);
                let name = self.state.exchanges.take_coming().map(|word| word.name);
                let returned = Returned { group, not_to, of, id, client, name };
                dealing!(self).handle_return(now, from, returned, &mut envelope.publication, &source);
            }
            _ => {}
        }
    }
}

impl Answering<'_> {
    pub(crate) fn handle_interest_seen(&mut self, now: Now, ticket: Ticket) {
        self.peers.interest_under_way = self.peers.interest_under_way.saturating_sub(1);
        if ticket.connection.index == JOINING_INDEX {
            self.confirm_joining(now, ticket.connection.generation);
        } else if ticket.connection.index == WELCOME_INDEX {
            self.peers.welcomes = self.peers.welcomes.saturating_sub(1);
        } else if ticket.connection.index == FAREWELL_INDEX {
            self.peers.farewells.confirm(ticket.connection.generation);
        } else {
            self.confirm(now, ticket, None, false);
        }
    }
}

impl Links {
    /// Gives credit for a batch that is worked off, and its buffers back.
    fn finish_batch(&mut self, batch: Batch) {
        self.worked_off(batch.from, batch.cost);
        self.recycle(batch.from, batch);
    }
}

fn source_of(envelope: &Envelope<'_>) -> Source {
    Source {
        session: None,
        connection: envelope.from,
        origin: envelope.origin,
        ticket: envelope.ticket,
        entered_at: envelope.entered_at,
        hops: envelope.hops + 1,
    }
}

impl Sessions {
    /// These publishers wait no longer for queues of this shard.
    pub(crate) fn give_up_blocking(
        &mut self,
        blockers: &mut BTreeSet<u32>,
        gives_up: impl Fn(&BlockedPublisher) -> bool,
    ) {
        let sessions = self;
        blockers.retain(|key| {
            let Some(flow) = sessions.get_mut(*key).and_then(|session| session.flow.as_mut()) else { return false };
            if flow.blocking.iter().any(&gives_up) {
                flow.blocking.retain(|other| !gives_up(other));
                flow.block_given_up |= !flow.pace.holds();
            }
            !flow.blocking.is_empty()
        });
    }
}

#[cfg(test)]
mod tests;
