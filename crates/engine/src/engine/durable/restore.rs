//! The state of an engine is read from the entries of a store.

use crate::durable::restore::{RESTORING_INDEX, Restoration, RestoreError, Restored, malformed};
use crate::durable::restoring::{RestoredEntry, Restoring};
use crate::durable::session_record::{SessionRecord, is_ahead};
use crate::engine::Engine;
use crate::engine::facets::StoreCalls;
use crate::flows::contexts::ending;
use crate::flows::contexts::subscribing;
use crate::ids::{ConnectionKey, ShardId, TenantId};
use crate::journal::Reserved;
use crate::journal::keys::Key;
use crate::journal::keys::StoredSession;
use crate::link::envelope::Ticket;
use crate::link::exchange_word::ExchangeName;
use crate::link::got::Got;
use crate::link::record::{GroupName, Record};
use crate::message::MessageRef;
use crate::now::Now;
use crate::records::stored::ReadEntry;
use crate::records::stored::SentRecord;
use crate::records::stored::end;
use crate::records::stored::read_message;
use crate::records::stored::read_subscription;
use crate::session::refused::RefusedMessage;
use crate::state::ShardState;
use crate::topics::is_own_topic;
use crate::wire::{WireError, WireReader};

/// The retained message of a topic; an empty one says that it was removed.
fn read_retained(value: &[u8], now: Now, tenant: TenantId, topic: &str) -> Result<MessageRef, WireError> {
    let mut reader = WireReader::new(value);
    let message = read_message(&mut reader, now, tenant)?;
    end(&reader)?;
    if message.topic() != topic || is_own_topic(topic) {
        return Err(WireError { reading: "the retained message of this topic" });
    }
    Ok(message)
}

/// A message that several sessions share.
fn read_body(value: &[u8], now: Now) -> Result<MessageRef, WireError> {
    let mut reader = WireReader::new(value);
    let tenant = TenantId(reader.u16("a tenant")?);
    let message = read_message(&mut reader, now, tenant)?;
    end(&reader)?;
    Ok(message)
}

fn restore_entry(now: Now, restoring: &mut Restoring, number: u64, value: &[u8], share: u64) -> Result<(), WireError> {
    let entry = ReadEntry::read(value, now, restoring.tenant, &restoring.memberships)?;
    let state = crate::session::terms::awaited(entry.qos);
    let sent = entry.sent.map(|id| SentRecord { id, state, order: number, released: false });
    restoring.add_entry(number, RestoredEntry { entry, sent }, share);
    Ok(())
}

fn restore_sent(restoring: &mut Restoring, number: u64, value: &[u8]) -> Result<(), WireError> {
    let is_there = restoring.set_sent(number, SentRecord::read(value)?);
    if is_there { Ok(()) } else { Err(WireError { reading: "the message that was sent" }) }
}

fn is_part_of_session(key: &Key<'_>) -> bool {
    matches!(
        key,
        Key::Subscription(..) | Key::Received(..) | Key::Entry(..) | Key::Sent(..) | Key::Seen(..) | Key::Refused(..)
    )
}

/// The session whose queue a pair of a store belongs to, by its number.
pub fn session_of_queue(key: &[u8]) -> Option<u64> {
    match Key::read(key) {
        Ok(Key::Entry(session, _) | Key::Sent(session, _)) => Some(session.0.get()),
        _ => None,
    }
}

impl StoreCalls<'_> {
    /// Restores one pair of a store. Pairs come in the order of their keys;
    /// [`RestoreRoute::takers`](crate::RestoreRoute::takers) names the shards of each.
    /// [`StoreCalls::finish_restore`](crate::StoreCalls::finish_restore) follows the last one.
    ///
    /// # Errors
    /// When the pair cannot be restored. The engine is unusable then: a promised change is missing.
    pub fn restore(&mut self, now: Now, key: &[u8], value: &[u8]) -> Result<(), RestoreError> {
        let mut restoration = self.engine.recovery.restoration.take().unwrap_or_default();
        let done = self.restore_pair(now, &mut restoration, key, value);
        self.engine.recovery.restoration = Some(restoration);
        done
    }

    fn restore_pair(&mut self, now: Now, all: &mut Restoration, key: &[u8], value: &[u8]) -> Result<(), RestoreError> {
        let wrong = |error| malformed(key, error);
        let read = Key::read(key).map_err(wrong)?;
        let part = |all: &Restoration, session: StoredSession| {
            let here = all.current.as_ref().is_some_and(|(current, _)| *current == session);
            if here { Ok(()) } else { Err(RestoreError::NoSession { session: session.0.get() }) }
        };
        if !is_part_of_session(&read) {
            all.close_restored(&mut self.engine.state)?;
        }
        match read {
            Key::Numbers(_) => self.engine.state.journal.note_used(Reserved::read(value).map_err(wrong)?),
            Key::Session(session) => self.restore_session(now, all, session, value).map_err(wrong)?,
            Key::Entry(session, _) if all.dropped == Some(session) => {}
            Key::Will(number) => ending!(self.engine).restore_will(now, number, value).map_err(wrong)?,
            Key::Subscription(session, filter) => {
                part(all, session)?;
                let read = read_subscription(value).map_err(wrong)?;
                subscribing!(self.engine).restore_subscription(now, all, session, filter, read).map_err(wrong)?;
            }
            Key::Received(session, id) => {
                part(all, session)?;
                all.restore_received(&mut self.engine.state, id, value).map_err(wrong)?;
            }
            Key::Refused(session, id) => {
                part(all, session)?;
                let message = RefusedMessage::read_stored(value).map_err(wrong)?;
                all.restore_refused(&mut self.engine.state, id, message);
            }
            Key::Entry(session, number) => {
                part(all, session)?;
                let Some((_, restoring)) = all.current.as_mut() else { return Ok(()) };
                restore_entry(now, restoring, number, value, self.engine.state.memory.queue_share()).map_err(wrong)?;
            }
            Key::Sent(session, number) => {
                part(all, session)?;
                let Some((_, restoring)) = all.current.as_mut() else { return Ok(()) };
                restore_sent(restoring, number, value).map_err(wrong)?;
            }
            Key::Seen(session, _) => {
                part(all, session)?;
                self.engine.broker_links.restore_seen(session, value).map_err(wrong)?;
            }
            Key::Body(number) => drop(all.bodies.insert(number, read_body(value, now).map_err(wrong)?)),
            Key::Crossing(number) => all.replay.add(number, value, now).map_err(wrong)?,
            Key::Crossed(number, place) => all.replay.add_crossed(number, place).map_err(wrong)?,
            Key::Outgoing(number) => {
                let (outgoing, state) = (&mut self.engine.peers.outgoing, &mut self.engine.state);
                outgoing.restore_outgoing(now, state, number, value).map_err(wrong)?;
            }
            Key::Mark(name, shard) => self.restore_mark(name, shard, value).map_err(wrong)?,
            Key::Retained(tenant, topic) => {
                let message = read_retained(value, now, tenant, topic).map_err(wrong)?;
                all.done.retained += u64::from(!message.payload().is_empty());
                self.engine.retaining.store.restore_retained(now, &mut self.engine.state, tenant, message);
            }
            Key::Arrival(_) | Key::Passed(..) => self.restore_arrived(now, read, value).map_err(wrong)?,
            Key::Group(tenant, name) => self.restore_group(now, tenant, name).map_err(wrong)?,
            Key::Foreign => {}
        }
        Ok(())
    }

    fn restore_mark(&mut self, name: ExchangeName, shard: ShardId, value: &[u8]) -> Result<(), WireError> {
        let by = Got::read_stored(&mut WireReader::new(value))?;
        self.engine.state.exchanges.marks.restore(name, shard, by);
        Ok(())
    }

    /// A session begins. The queue of one that was still to come is dropped: its move was cancelled.
    fn restore_session(
        &mut self,
        now: Now,
        all: &mut Restoration,
        session: StoredSession,
        value: &[u8],
    ) -> Result<(), WireError> {
        if is_ahead(value) {
            self.engine.state.journal.delete(Key::Session(session));
            all.dropped = Some(session);
            return Ok(());
        }
        let record = SessionRecord::read(value, now)?;
        subscribing!(self.engine).restore_session(now, all, session, record)
    }

    /// The store has the name of a group, whose members take their seats later.
    fn restore_group(&mut self, now: Now, tenant: TenantId, name: &str) -> Result<(), WireError> {
        let group = GroupName::of_text(tenant, name)?;
        let (key, _) = subscribing!(self.engine).make_group(now, group, None);
        if let Some(dealt) = self.engine.groups.dealt.get_mut(key.0) {
            dealt.is_stored = true;
        }
        Ok(())
    }

    fn restore_arrived(&mut self, now: Now, key: Key<'_>, value: &[u8]) -> Result<(), WireError> {
        let arrivals = &mut self.engine.handover.arrivals;
        match key {
            Key::Arrival(number) if self.engine.place.shards == 1 => arrivals.restore(number, now, value),
            Key::Passed(origin, number) if self.engine.place.shards == 1 => {
                arrivals.restore_passed((origin, number), value)
            }
            _ => {
                // With several shards, no shard knows which messages the sessions of others have.
                self.engine.state.journal.delete(key);
                Ok(())
            }
        }
    }

    /// The store is that of a dead node, for images of it: messages of groups are not dealt to the sessions here, since
    /// each image goes to another node. Called before the first pair.
    pub fn restore_for_others(&mut self) {
        self.engine.groups.kept.rests = true;
    }

    /// Completes the restored state, and asks the other shards to report when they know its interest: the shell serves
    /// no client and lets no timers run before [`ShardQuestions::is_settled`](crate::ShardQuestions::is_settled) is
    /// true for all of them. Called for every shard of a process, also for one without restored state.
    ///
    /// # Errors
    /// When messages are missing that sessions are owed.
    pub fn finish_restore(&mut self, now: Now) -> Result<Restored, RestoreError> {
        let mut all = self.engine.recovery.restoration.take().unwrap_or_default();
        all.close_restored(&mut self.engine.state)?;
        let mut missing = 0;
        for (stored, mut restoring) in std::mem::take(&mut all.again).into_values() {
            restoring.leave_tail(self.engine.state.memory.queue_share());
            all.pending.push((stored, restoring));
        }
        for (stored, restoring) in std::mem::take(&mut all.pending) {
            missing += all.restore_queue(&mut self.engine.state, stored, restoring);
        }
        if missing > 0 {
            return Err(RestoreError::MissingMessages { messages: missing });
        }
        self.engine.state.memory.allow_excess();
        for key in std::mem::take(&mut all.broken_off) {
            self.engine.state.sessions.store_session(&mut self.engine.state.journal, key);
        }
        let ticket = Ticket { connection: ConnectionKey { index: RESTORING_INDEX, generation: 0 }, sequence: 0 };
        for shard in self.engine.place.others() {
            self.engine.links.send(shard, Record::InterestBarrier { ticket });
            self.engine.peers.interest_under_way += 1;
        }
        self.engine.rules.recheck();
        self.engine.recovery.replay = Some(all.replay);
        self.go_on_restoring(now);
        self.engine.after_frame(now);
        Ok(all.done)
    }
}

/// Reads queues of a store once more. Most messages of a long queue do not stay in memory while it is read. Afterwards it
/// can turn out that some have to.
#[derive(Debug)]
pub struct SecondReading<'e> {
    restoration: &'e mut Restoration,
    state: &'e mut ShardState,
}

impl<'e> SecondReading<'e> {
    /// For an engine that all its pairs have come to, before [`StoreCalls::finish_restore`](crate::StoreCalls::finish_restore).
    pub fn of(engine: &'e mut Engine) -> Self {
        Self { restoration: engine.recovery.restoration.get_or_insert_default(), state: &mut engine.state }
    }

    /// The sessions whose queues it needs, by their numbers in the store.
    ///
    /// # Errors
    /// When messages are missing that sessions are owed.
    pub fn sessions(&mut self) -> Result<Vec<u64>, RestoreError> {
        self.restoration.close_restored(self.state)?;
        Ok(self.restoration.again.keys().copied().collect())
    }

    /// Takes in a pair for which [`session_of_queue`] gives one of the sessions. Pairs come in the order of their keys.
    ///
    /// # Errors
    /// When the pair cannot be taken in.
    pub fn restore(&mut self, now: Now, key: &[u8], value: &[u8]) -> Result<(), RestoreError> {
        let again = &mut self.restoration.again;
        let restored = match Key::read(key) {
            Ok(Key::Entry(session, number)) => again
                .get_mut(&session.0.get())
                .map(|(_, restoring)| restore_entry(now, restoring, number, value, self.state.memory.queue_share())),
            Ok(Key::Sent(session, number)) => {
                again.get_mut(&session.0.get()).map(|(_, restoring)| restore_sent(restoring, number, value))
            }
            _ => None,
        };
        restored.unwrap_or(Ok(())).map_err(|error| malformed(key, error))
    }
}
