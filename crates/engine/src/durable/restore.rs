//! Taking in what a store holds, before any client is served.

use crate::cluster::ending::ending;
use crate::desk::{Desk, Timer};
use crate::subscribe::subscribing::{Subscribing, subscribing};
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasherDefault;
use std::rc::Rc;

use tidegate_mqtt::PacketId;

use crate::addresses::{NODE_GROUP, group_of_stored};
use crate::cluster::exchanges::{Exchange, Got};
use crate::engine::Engine;
use crate::hash::NameHasher;
use crate::ids::{ConnectionKey, SessionKey, TenantId};
use crate::link::envelope::Ticket;
use crate::link::record::{GroupName, MemberOptions, Record};
use crate::message::MessageRef;
use crate::now::{Millis, Now};
use crate::session::packet_ids::{Inflight, State};
use crate::session::{FilterList, InFlight, Membership, Session};
use crate::topics::{Subscriber, SubscriberOptions, is_own_topic};
use crate::wire::{WireError, WireReader};

use super::crossing::Replay;
use super::journal::Reserved;
use super::keys::{Key, StoredSession};
use super::records::{Content, Numbers, ReadEntry, SentRecord};
use super::records::{delivery, end, read_message, read_subscription};
use super::restoring::{RestoredEntry, Restoring};
use super::session_record::SessionRecord;

/// Why what a store holds was not taken in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestoreError {
    /// A pair is not of this version, or damaged in a way that its checksum did not show.
    Malformed {
        /// The key, in hexadecimal.
        key: String,
        /// What was being read.
        error: WireError,
    },
    /// A part of a session came without the session.
    NoSession {
        /// The session's number.
        session: u64,
    },
    /// Messages that sessions are owed are missing.
    MissingMessages {
        /// How many.
        messages: u64,
    },
}

impl std::fmt::Display for RestoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Malformed { key, error } => write!(f, "the value of key {key} cannot be read: {error}"),
            Self::NoSession { session } => write!(f, "a part of session {session} is there and the session is not"),
            Self::MissingMessages { messages } => {
                write!(f, "{messages} messages that sessions are owed are missing")
            }
        }
    }
}

impl std::error::Error for RestoreError {}

/// What was taken in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Sessions.
    pub sessions: u64,
    /// Their subscriptions, shared ones included.
    pub subscriptions: u64,
    /// Messages that sessions are owed.
    pub messages: u64,
    /// Retained messages.
    pub retained: u64,
}

impl Restored {
    /// Adds what another shard has taken in.
    pub fn add(&mut self, other: &Self) {
        self.sessions += other.sessions;
        self.subscriptions += other.subscriptions;
        self.messages += other.messages;
        self.retained += other.retained;
    }
}

/// The barrier behind a restore carries this connection index, which no connection has.
pub(crate) const RESTORING_INDEX: u32 = u32::MAX - 2;

/// Everything that is being taken in.
#[derive(Debug, Default)]
pub(crate) struct Restoration {
    /// The session whose parts are coming in.
    current: Option<(StoredSession, Restoring)>,
    /// Sessions that are owed messages that come behind all sessions.
    pending: Vec<(StoredSession, Restoring)>,
    bodies: HashMap<u64, MessageRef, BuildHasherDefault<NameHasher>>,
    /// Sessions whose end or will is reckoned from now on, which another restart must not begin anew.
    broken_off: Vec<SessionKey>,
    replay: Replay,
    done: Restored,
}

impl Restoration {
    /// The message of an entry, unless it is missing.
    fn message_of(&self, content: &Content) -> Option<MessageRef> {
        match content {
            Content::Here(message) => Some(Rc::clone(message)),
            Content::Body(body) => self.bodies.get(body).map(Rc::clone),
        }
    }
}

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

impl Restoration {
    /// All parts of a session have come: what it is owed is put together, unless some of that comes later.
    fn close_restored(&mut self, desk: &mut Desk) -> Result<(), RestoreError> {
        let Some((stored, mut restoring)) = self.current.take() else { return Ok(()) };
        restoring.leave_tail(desk.memory.queue_share());
        let shares = |restored: &RestoredEntry| matches!(restored.entry.content, Content::Body(_));
        if restoring.entries.values().any(shares) {
            self.pending.push((stored, restoring));
            return Ok(());
        }
        match self.restore_queue(desk, stored, restoring) {
            0 => Ok(()),
            messages => Err(RestoreError::MissingMessages { messages }),
        }
    }

    /// A QoS 2 packet id that a publisher has not released, with the name that its message crossed under, if it did.
    fn restore_received(&self, desk: &mut Desk, id: PacketId, value: &[u8]) -> Result<(), WireError> {
        let known = self.current.as_ref().map(|(_, restoring)| restoring.key);
        let Some(session) = known.and_then(|key| desk.sessions.get_mut(key.0)) else { return Ok(()) };
        session.flow_mut().received.insert(id);
        if !value.is_empty() {
            let exchange = Exchange::read_stored(&mut WireReader::new(value))?;
            session.rare_mut().exchanges.push((id, exchange));
        }
        Ok(())
    }

    /// Puts together what a session is owed; returns how many messages are missing.
    fn restore_queue(&mut self, desk: &mut Desk, stored: StoredSession, restoring: Restoring) -> u64 {
        let mut missing = 0;
        let mut sent = Vec::new();
        let mut queue = Vec::new();
        let next = restoring.entries.keys().next_back().map_or(0, |last| *last).max(restoring.last);
        for (number, RestoredEntry { entry, sent: record }) in restoring.entries {
            let Some(message) = self.message_of(&entry.content) else {
                missing += 1;
                continue;
            };
            let delivery = delivery(entry, message, number);
            if number <= restoring.mailbox_from && record.is_none() && desk.gives_up_restored(restoring.key, &delivery)
            {
                continue;
            }
            self.done.messages += 1;
            match record {
                Some(record) => sent.push((record, delivery)),
                None => queue.push(delivery),
            }
        }
        sent.sort_by_key(|(record, _)| record.order);
        let last_sent = sent.last().map_or(0, |(record, _)| record.order);
        let Some(session) = desk.sessions.get_mut(restoring.key.0) else { return missing };
        if sent.is_empty() && queue.is_empty() && restoring.tail.is_none() {
            session.settle();
            if restoring.mailbox_from != 0 {
                self.broken_off.push(restoring.key);
            }
            return missing;
        }
        debug_assert_eq!(session.stored, Some(stored), "the session was made for these entries");
        let of_uplink = session.is_uplink();
        let flow = session.flow_mut();
        flow.next_number = next.max(last_sent);
        flow.mailbox_from = restoring.mailbox_from;
        let unanswered = sent.into_iter().map(|(record, delivery)| {
            let numbers = Numbers { entry: delivery.number, separate: true };
            let keep = !record.released && (record.state != State::AwaitPubComp || of_uplink);
            (record.id, record.state, InFlight { delivery: keep.then_some(delivery), numbers })
        });
        let unanswered: Vec<_> = unanswered.collect();
        let kept = unanswered.iter().filter_map(|(_, _, item)| item.delivery.as_ref());
        flow.inflight_bytes = kept.map(crate::session::Delivery::cost).sum();
        match Inflight::from_entries(unanswered) {
            Some(restored) => flow.inflight = restored,
            None => missing += 1,
        }
        let queue_bytes: u64 = queue.iter().map(crate::session::Delivery::cost).sum();
        flow.queue = queue.into_iter().collect();
        flow.queue_bytes = queue_bytes;
        if let Some(tail) = restoring.tail {
            self.done.messages += tail.messages;
            desk.memory.stored_messages += tail.messages;
            desk.memory.stored_bytes += tail.bytes;
            flow.tail = Some(Box::new(tail));
        }
        flow.note_taken_in();
        let (waiting, inflight_bytes) = (flow.queue.len() as u64, flow.inflight_bytes);
        session.settle();
        desk.memory.queued_messages += waiting;
        desk.memory.queued_bytes += queue_bytes;
        desk.memory.held += queue_bytes + inflight_bytes;
        desk.sessions.count_runs(&mut desk.memory, restoring.key);
        desk.sessions.watch_expiry(&mut desk.timers, restoring.key);
        missing
    }
}

impl Engine {
    /// Takes in one pair of a store. Pairs come in the order of their keys, those that
    /// [`RestoreRoute::takers`](crate::RestoreRoute::takers) names for this shard; [`Engine::finish_restore`] follows
    /// the last one.
    ///
    /// # Errors
    /// When the pair cannot be taken in. The engine is of no use then: something of what was promised is missing.
    pub fn restore(&mut self, now: Now, key: &[u8], value: &[u8]) -> Result<(), RestoreError> {
        let mut restoration = self.recovery.restoration.take().unwrap_or_default();
        let done = self.restore_pair(now, &mut restoration, key, value);
        self.recovery.restoration = Some(restoration);
        done
    }

    fn restore_pair(&mut self, now: Now, all: &mut Restoration, key: &[u8], value: &[u8]) -> Result<(), RestoreError> {
        let wrong = |error| malformed(key, error);
        let read = Key::read(key).map_err(wrong)?;
        let part = |all: &Restoration, session: StoredSession| {
            let here = all.current.as_ref().is_some_and(|(current, _)| *current == session);
            if here { Ok(()) } else { Err(RestoreError::NoSession { session: session.0.get() }) }
        };
        if !matches!(read, Key::Subscription(..) | Key::Received(..) | Key::Entry(..) | Key::Sent(..) | Key::Seen(..)) {
            all.close_restored(&mut self.desk)?;
        }
        match read {
            Key::Numbers(_) => self.desk.journal.note_used(Reserved::read(value).map_err(wrong)?),
            Key::Session(session) => {
                let record = SessionRecord::read(value, now).map_err(wrong)?;
                subscribing!(self).restore_session(now, all, session, record).map_err(wrong)?;
            }
            Key::Will(number) => ending!(self).restore_will(now, number, value).map_err(wrong)?,
            Key::Subscription(session, filter) => {
                part(all, session)?;
                let (options, id) = read_subscription(value).map_err(wrong)?;
                subscribing!(self).restore_subscription(now, all, session, filter, options, id).map_err(wrong)?;
            }
            Key::Received(session, id) => {
                part(all, session)?;
                all.restore_received(&mut self.desk, id, value).map_err(wrong)?;
            }
            Key::Entry(session, number) => {
                part(all, session)?;
                let Some((_, restoring)) = all.current.as_mut() else { return Ok(()) };
                let entry = ReadEntry::read(value, now, restoring.tenant, &restoring.memberships).map_err(wrong)?;
                let state = crate::publish::deliver::awaited(entry.qos);
                let sent = entry.sent.map(|id| SentRecord { id, state, order: number, released: false });
                restoring.last = restoring.last.max(number);
                restoring.entries.insert(number, RestoredEntry { entry, sent });
            }
            Key::Sent(session, number) => {
                part(all, session)?;
                let sent = SentRecord::read(value).map_err(wrong)?;
                let entry = all.current.as_mut().and_then(|(_, restoring)| restoring.entries.get_mut(&number));
                entry.ok_or(WireError { reading: "the message that was sent" }).map_err(wrong)?.sent = Some(sent);
            }
            Key::Seen(session, _) => {
                part(all, session)?;
                self.uplinks.restore_seen(session, value).map_err(wrong)?;
            }
            Key::Body(number) => {
                let mut reader = WireReader::new(value);
                let tenant = TenantId(reader.u16("a tenant").map_err(wrong)?);
                let message = read_message(&mut reader, now, tenant).map_err(wrong)?;
                end(&reader).map_err(wrong)?;
                all.bodies.insert(number, message);
            }
            Key::Crossing(number) => all.replay.add(number, value, now).map_err(wrong)?,
            Key::Crossed(number, place) => all.replay.add_crossed(number, place).map_err(wrong)?,
            Key::Outgoing(number) => {
                self.outgoing.restore_outgoing(now, &mut self.desk, number, value).map_err(wrong)?;
            }
            Key::Mark(name, shard) => {
                let by = Got::read_stored(&mut WireReader::new(value)).map_err(wrong)?;
                self.desk.exchanges.marks.restore(name, shard, by);
            }
            Key::Retained(tenant, topic) => {
                let message = read_retained(value, now, tenant, topic).map_err(wrong)?;
                all.done.retained += u64::from(!message.payload().is_empty());
                self.retained.restore_retained(now, &mut self.desk, tenant, message);
            }
            Key::Foreign => {}
        }
        Ok(())
    }

    /// Completes what was taken in, and asks the other shards to say when they know of it: the shell serves no client
    /// and lets no timers run before [`Engine::is_settled`] says so for all of them. Called for every shard of a
    /// process, also for one that has taken nothing in.
    ///
    /// # Errors
    /// When messages are missing that sessions are owed.
    pub fn finish_restore(&mut self, now: Now) -> Result<Restored, RestoreError> {
        let mut all = self.recovery.restoration.take().unwrap_or_default();
        all.close_restored(&mut self.desk)?;
        let mut missing = 0;
        for (stored, restoring) in std::mem::take(&mut all.pending) {
            missing += all.restore_queue(&mut self.desk, stored, restoring);
        }
        if missing > 0 {
            return Err(RestoreError::MissingMessages { messages: missing });
        }
        for key in std::mem::take(&mut all.broken_off) {
            self.desk.sessions.store_session(&mut self.desk.journal, key);
        }
        let ticket = Ticket { connection: ConnectionKey { index: RESTORING_INDEX, generation: 0 }, sequence: 0 };
        for shard in self.place.others() {
            self.links.send(shard, Record::InterestBarrier { ticket });
            self.peers.interest_under_way += 1;
        }
        self.rules.recheck();
        self.recovery.replay = Some(all.replay);
        self.go_on_restoring(now);
        self.after_frame(now);
        Ok(all.done)
    }
}

impl Subscribing<'_> {
    fn restore_session(
        &mut self,
        now: Now,
        all: &mut Restoration,
        stored: StoredSession,
        record: SessionRecord,
    ) -> Result<(), WireError> {
        if self.desk.sessions.find_session(record.tenant, &record.client_id).is_some() {
            return Err(WireError { reading: "a client id that no other session has" });
        }
        let tenant = record.tenant;
        let ends_at = record.ends_at_after_restart(now, self.desk.settings.mailbox_ends_at(now));
        let mut session = Session {
            client_id: record.client_id,
            connection: None,
            filters: FilterList::default(),
            flow: None,
            rare: None,
            expiry_seconds: record.expiry_seconds,
            tenant,
            listener: record.listener,
            receive_maximum: record.receive_maximum,
            rights_epoch: 0,
            standing: record.standing,
            stored: Some(stored),
            identity: record.identity,
        };
        if ends_at != Millis::NEVER {
            session.rare_mut().ends_at = Some(ends_at);
        }
        let mut will_due = None;
        if let Some(will) = record.will {
            let delay = will.delay_seconds.min(record.expiry_seconds);
            // A wall clock that was set back does not delay it further.
            let due = record.will_due.min(now.monotonic.plus_seconds(delay));
            session.rare_mut().will = Some(will);
            session.rare_mut().will_due = Some(due);
            will_due = Some(due);
        }
        let key = self.desk.insert_session(session);
        if ends_at != Millis::NEVER {
            self.desk.timers.set(ends_at, Timer::SessionEnd(key));
        }
        if let Some(due) = will_due {
            self.desk.timers.set(due, Timer::Will(key));
        }
        self.restore_standing(now, tenant, record.standing);
        if record.connected && (will_due.is_some() || ends_at != Millis::NEVER) {
            all.broken_off.push(key);
        }
        all.done.sessions += 1;
        let restoring = Restoring {
            key,
            tenant,
            memberships: Vec::new(),
            entries: BTreeMap::new(),
            tail: None,
            last: 0,
            mailbox_from: record.mailbox_from,
        };
        all.current = Some((stored, restoring));
        Ok(())
    }

    fn restore_subscription(
        &mut self,
        now: Now,
        all: &mut Restoration,
        stored: StoredSession,
        filter: &str,
        options: u8,
        subscription_id: u32,
    ) -> Result<(), WireError> {
        if options & NODE_GROUP != 0 {
            let node = all.current.as_ref().map(|(_, restoring)| restoring.key);
            self.restore_node_group(now, node, group_of_stored(filter));
            return Ok(());
        }
        let wrong = WireError { reading: "a topic filter" };
        let filter = tidegate_mqtt::TopicFilter::new(filter).map_err(|_| wrong)?;
        let Some((_, restoring)) = all.current.as_mut().filter(|(current, _)| *current == stored) else {
            return Ok(());
        };
        all.done.subscriptions += 1;
        let (key, tenant) = (restoring.key, restoring.tenant);
        if let Some((share, filter)) = filter.shared() {
            let partition = crate::groups::group_partition(tenant, share, filter.as_str());
            let group = GroupName { tenant, share, filter: filter.as_str() };
            let membership = Rc::new(Membership::new(group, partition, MemberOptions { options, subscription_id }));
            restoring.memberships.push(Rc::clone(&membership));
            self.rejoin_group(now, key, &membership);
        } else {
            let options = SubscriberOptions::from_bits(options);
            let subscriber = Subscriber { session: key, options, subscription_id };
            self.adopt_subscription(now, tenant, filter.as_str(), subscriber);
        }
        Ok(())
    }
}

/// What cannot be read, with its key.
pub(super) fn malformed(key: &[u8], error: WireError) -> RestoreError {
    use std::fmt::Write;
    let key = key.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    RestoreError::Malformed { key, error }
}
