//! A partition as one value: how its sessions and retained messages move to another place.

use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;

use tidegate_mqtt::{PacketId, TopicFilter};

use super::fields::{put_delivery, put_message, read_delivery, read_message};
use crate::desk::Timer;
use crate::engine::Engine;
use crate::ids::{ListenerId, PartitionId, SessionKey, TenantId, partition_of};
use crate::link::record::MemberOptions;
use crate::now::{Millis, Now};
use crate::packet_ids::State;
use crate::reason::Reason;
use crate::session::{FilterList, Membership, Session, Will};
use crate::topics::{Subscriber, SubscriberOptions};
use crate::wire::{WireError, WireReader, WireWrite};

/// Version of the layout; a reader refuses others.
const IMAGE_VERSION: u8 = 1;

/// What a partition owes and keeps, by number. What was owed before a move is owed after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owed {
    /// Sessions.
    pub sessions: u64,
    /// Ordinary subscriptions and memberships in shared groups.
    pub subscriptions: u64,
    /// Messages waiting in queues, those moved out of memory included.
    pub queued: u64,
    /// Messages sent that wait for PUBACK.
    pub await_pub_ack: u64,
    /// Messages sent that wait for PUBREC.
    pub await_pub_rec: u64,
    /// Exchanges that wait for PUBCOMP.
    pub await_pub_comp: u64,
    /// QoS 2 packet ids received that wait for PUBREL.
    pub await_pub_rel: u64,
    /// Wills that wait.
    pub wills: u64,
    /// Retained messages.
    pub retained: u64,
}

/// Why an image was not taken in. Nothing of it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageError {
    /// The bytes are no image.
    Malformed(WireError),
    /// The image is of another version of the layout.
    Version(u8),
    /// The partition's home is another shard.
    NotAtHome(PartitionId),
    /// A session of the same client id lives here already.
    SessionExists(String),
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => write!(f, "not the image of a partition: {error}"),
            Self::Version(version) => write!(f, "the image has version {version}, this program reads {IMAGE_VERSION}"),
            Self::NotAtHome(partition) => write!(f, "partition {} is worked by another shard", partition.0),
            Self::SessionExists(client_id) => write!(f, "a session of client id {client_id:?} lives here already"),
        }
    }
}

impl std::error::Error for ImageError {}

impl From<WireError> for ImageError {
    fn from(error: WireError) -> Self {
        Self::Malformed(error)
    }
}

/// A session that was read and not yet taken in.
struct SessionImage {
    session: Session,
    filters: Vec<(String, Subscriber)>,
    memberships: Vec<Rc<Membership>>,
}

impl Engine {
    /// What a partition owes and keeps.
    pub fn owed(&self, partition: PartitionId) -> Owed {
        let mut owed = Owed::default();
        for key in self.sessions_of(partition) {
            let Some(session) = self.desk.sessions.get(key.0) else { continue };
            owed.sessions += 1;
            owed.subscriptions += session.filters.len() as u64;
            if let Some(rare) = &session.rare {
                owed.subscriptions += rare.memberships.len() as u64;
                owed.wills += u64::from(rare.will.is_some());
                owed.queued += rare.paged.as_ref().map_or(0, |paged| paged.messages);
            }
            let Some(flow) = &session.flow else { continue };
            owed.queued += flow.queue.len() as u64;
            owed.await_pub_rel += flow.received.len() as u64;
            for entry in flow.inflight.iter() {
                match entry.state {
                    State::AwaitPubAck => owed.await_pub_ack += 1,
                    State::AwaitPubRec => owed.await_pub_rec += 1,
                    State::AwaitPubComp => owed.await_pub_comp += 1,
                }
            }
        }
        let retained = self.retained.iter().filter(|(tenant, topic, _)| partition_of(*tenant, topic) == partition);
        owed.retained = retained.count() as u64;
        owed
    }

    fn sessions_of(&self, partition: PartitionId) -> Vec<SessionKey> {
        let here = self.desk.sessions.iter().filter(|(key, session)| {
            partition_of(session.tenant, &session.client_id) == partition && !self.inner.is_inner(SessionKey(*key))
        });
        here.map(|(key, _)| SessionKey(key)).collect()
    }

    /// Moves a partition out: its clients are asked to go elsewhere, its lasting sessions and retained messages become one
    /// value and are forgotten here. No will is published: it goes along.
    pub fn export_partition(&mut self, now: Now, partition: PartitionId) -> Vec<u8> {
        self.exporting = true;
        for key in self.sessions_of(partition) {
            if let Some(connection) = self.desk.sessions.get(key.0).and_then(|session| session.connection) {
                self.close_connection(now, connection, Reason::UseAnotherServer, None);
            }
        }
        self.exporting = false;
        let mut out = Vec::new();
        out.put_u8(IMAGE_VERSION);
        out.put_u16(partition.0);
        let sessions = self.sessions_of(partition);
        out.put_u32(sessions.len() as u32);
        for key in &sessions {
            self.put_session(&mut out, now, *key);
        }
        let topics: Vec<(TenantId, String)> = self
            .retained
            .iter()
            .filter(|(tenant, topic, _)| partition_of(*tenant, topic) == partition && !topic.starts_with("$SYS/"))
            .map(|(tenant, topic, _)| (tenant, topic.to_owned()))
            .collect();
        out.put_u32(topics.len() as u32);
        for (tenant, topic) in topics {
            if let Some(message) = self.retained.clear(tenant, &topic) {
                put_message(&mut out, now, &message);
            }
        }
        for key in sessions {
            self.forget_session(now, key);
        }
        self.after_frame(now);
        out
    }

    fn put_session(&self, out: &mut Vec<u8>, now: Now, key: SessionKey) {
        let Some(session) = self.desk.sessions.get(key.0) else { return };
        out.put_u16(session.tenant.0);
        out.put_bytes(session.client_id.as_bytes());
        out.put_u32(session.expiry_seconds);
        out.put_u16(session.receive_maximum);
        out.put_u16(session.listener.0);
        let rare = session.rare.as_deref();
        out.put_u64(rare.and_then(|rare| rare.ends_at).map_or(u64::MAX, |at| now.to_unix(at)));
        put_will(out, now, rare.and_then(|rare| rare.will.as_ref()), rare.and_then(|rare| rare.will_due));
        out.put_u32(session.filters.len() as u32);
        for filter in session.filters.iter() {
            let subscriber = self.index.subscriber(filter, key);
            out.put_bytes(self.index.filter(filter).unwrap_or_default().as_bytes());
            out.put_u8(subscriber.map_or(0, |subscriber| subscriber.options.bits()));
            out.put_u32(subscriber.map_or(0, |subscriber| subscriber.subscription_id));
        }
        let memberships = rare.map_or(&[][..], |rare| &rare.memberships);
        out.put_u32(memberships.len() as u32);
        for membership in memberships {
            out.put_bytes(membership.share.as_bytes());
            out.put_bytes(membership.filter.as_bytes());
            out.put_u8(membership.member.options);
            out.put_u32(membership.member.subscription_id);
        }
        self.put_flow(out, now, session);
    }

    fn put_flow(&self, out: &mut Vec<u8>, now: Now, session: &Session) {
        let flow = session.flow.as_deref();
        let paged = session.rare.as_ref().and_then(|rare| rare.paged.as_ref());
        out.put_u64(paged.map_or(0, |paged| paged.messages));
        out.put_u32(flow.map_or(0, |flow| flow.inflight.len() as u32));
        for entry in flow.into_iter().flat_map(|flow| flow.inflight.iter()) {
            out.put_u16(entry.id().get());
            out.put_u8(match entry.state {
                State::AwaitPubAck => 0,
                State::AwaitPubRec => 1,
                State::AwaitPubComp => 2,
            });
            out.put_u8(u8::from(entry.item.is_some()));
            if let Some(delivery) = &entry.item {
                put_delivery(out, now, delivery);
            }
        }
        out.put_u32(flow.map_or(0, |flow| flow.queue.len() as u32));
        for delivery in flow.into_iter().flat_map(|flow| &flow.queue) {
            put_delivery(out, now, delivery);
        }
        out.put_u32(flow.map_or(0, |flow| flow.received.len() as u32));
        for id in flow.into_iter().flat_map(|flow| flow.received.iter()) {
            out.put_u16(id.get());
        }
    }

    /// Removes a session that lives elsewhere from now on: nothing of it is published, returned or counted as lost.
    fn forget_session(&mut self, now: Now, key: SessionKey) {
        self.cancel_session_timers(key);
        self.end_fetches(key);
        self.remove_subscriptions(now, key);
        let Some(session) = self.desk.remove_session(key) else { return };
        for delivery in session.flow.iter().flat_map(|flow| &flow.queue) {
            self.desk.forget_queued(delivery.cost());
        }
    }

    /// Takes a partition in that another place has moved out. All of it or, on an error, nothing.
    ///
    /// # Errors
    ///
    /// When the bytes are no such image, the partition is at home elsewhere, or one of its sessions exists here.
    pub fn import_partition(&mut self, now: Now, image: &[u8]) -> Result<PartitionId, ImageError> {
        let mut reader = WireReader::new(image);
        let version = reader.u8("a version")?;
        if version != IMAGE_VERSION {
            return Err(ImageError::Version(version));
        }
        let partition = PartitionId(reader.u16("a partition")?);
        if !self.place.owns(partition) {
            return Err(ImageError::NotAtHome(partition));
        }
        let mut sessions = Vec::new();
        for _ in 0..reader.u32("a number of sessions")? {
            let image = self.read_session(&mut reader, now)?;
            if self.desk.find_session(image.session.tenant, &image.session.client_id).is_some() {
                return Err(ImageError::SessionExists(image.session.client_id.into()));
            }
            sessions.push(image);
        }
        let mut retained = Vec::new();
        for _ in 0..reader.u32("a number of retained messages")? {
            retained.push(read_message(&mut reader, now)?);
        }
        if !reader.is_empty() {
            return Err(WireError { reading: "the end of the image" }.into());
        }
        for session in sessions {
            self.adopt_session(now, session);
        }
        for message in retained {
            let (tenant, topic) = (message.tenant, message.topic().to_owned());
            if let Err(reason) = self.retained.set(tenant, &topic, message, now.monotonic) {
                self.desk.counters.drop_message(reason);
            }
        }
        self.after_frame(now);
        Ok(partition)
    }

    fn read_session(&self, reader: &mut WireReader<'_>, now: Now) -> Result<SessionImage, WireError> {
        let tenant = TenantId(reader.u16("a tenant")?);
        let client_id = reader.text("a client id")?;
        let mut session = Session {
            client_id: client_id.into(),
            connection: None,
            filters: FilterList::default(),
            flow: None,
            rare: None,
            expiry_seconds: reader.u32("a session expiry")?,
            tenant,
            receive_maximum: reader.u16("a receive maximum")?,
            listener: ListenerId(reader.u16("a listener")?),
            rights_epoch: 0,
        };
        let ends_at = now.from_unix(reader.u64("a session's end")?);
        if ends_at != Millis::NEVER {
            session.rare_mut().ends_at = Some(ends_at);
        }
        read_will(reader, now, &mut session)?;
        let mut filters = Vec::new();
        for _ in 0..reader.u32("a number of subscriptions")? {
            let filter = read_filter(reader)?;
            let options = SubscriberOptions::from_bits(reader.u8("options")?);
            let subscription_id = reader.u32("a subscription identifier")?;
            filters.push((filter, Subscriber { session: SessionKey(0), options, subscription_id }));
        }
        let mut memberships = Vec::new();
        for _ in 0..reader.u32("a number of memberships")? {
            let share: Box<str> = reader.text("a share name")?.into();
            let filter = read_filter(reader)?.into_boxed_str();
            let member = MemberOptions {
                options: reader.u8("options")?,
                subscription_id: reader.u32("a subscription identifier")?,
            };
            let home = self.place.home_of(partition_of(tenant, &format!("{share}/{filter}")));
            memberships.push(Rc::new(Membership { tenant, share, filter, home, member }));
        }
        read_flow(reader, now, &mut session, &memberships)?;
        Ok(SessionImage { session, filters, memberships })
    }

    fn adopt_session(&mut self, now: Now, image: SessionImage) {
        let SessionImage { session, filters, memberships } = image;
        let (ends_at, will_due) = session.rare.as_ref().map_or((None, None), |rare| (rare.ends_at, rare.will_due));
        let tenant = session.tenant;
        if let Some(flow) = &session.flow {
            self.desk.queued_messages += flow.queue.len() as u64;
            self.desk.queued_bytes += flow.queue_bytes;
            self.desk.memory += flow.queue_bytes;
        }
        let key = self.desk.insert_session(session);
        if let Some(at) = ends_at {
            self.desk.timers.set(at, Timer::SessionEnd(key));
        }
        if let Some(due) = will_due {
            self.desk.timers.set(due, Timer::Will(key));
        }
        for (filter, subscriber) in filters {
            let subscribed = self.index.subscribe(tenant, &filter, Subscriber { session: key, ..subscriber });
            if subscribed.replaced.is_none()
                && let Some(session) = self.desk.sessions.get_mut(key.0)
            {
                session.filters.push(subscribed.entry);
            }
            if subscribed.first_local {
                self.announce_interest(tenant, &filter, true, None);
                self.note_sys_interest(now, &filter, true);
            }
        }
        for membership in memberships {
            self.rejoin_group(now, key, membership);
        }
    }
}

fn put_will(out: &mut Vec<u8>, now: Now, will: Option<&Will>, due: Option<Millis>) {
    out.put_u8(u8::from(will.is_some()));
    let Some(will) = will else { return };
    put_message(out, now, &will.message);
    out.put_u32(will.delay_seconds);
    out.put_u8(u8::from(will.expiry_seconds.is_some()));
    out.put_u32(will.expiry_seconds.unwrap_or(0));
    // A client that was moved has its delay, from now on, to come back.
    let due = due.unwrap_or_else(|| now.monotonic.plus_seconds(will.delay_seconds));
    out.put_u64(now.to_unix(due));
}

fn read_will(reader: &mut WireReader<'_>, now: Now, session: &mut Session) -> Result<(), WireError> {
    if reader.u8("a flag")? == 0 {
        return Ok(());
    }
    let message = read_message(reader, now)?;
    let delay_seconds = reader.u32("a will delay")?;
    let expires = reader.u8("a flag")? != 0;
    let expiry = reader.u32("a will's expiry")?;
    let due = now.from_unix(reader.u64("a will's time")?);
    let rare = session.rare_mut();
    rare.will = Some(Will { message, delay_seconds, expiry_seconds: expires.then_some(expiry) });
    rare.will_due = Some(due);
    Ok(())
}

fn read_filter(reader: &mut WireReader<'_>) -> Result<String, WireError> {
    let filter = reader.text("a topic filter")?;
    TopicFilter::new(filter).map_err(|_| WireError { reading: "a topic filter" })?;
    Ok(filter.to_owned())
}

fn read_packet_id(reader: &mut WireReader<'_>) -> Result<PacketId, WireError> {
    PacketId::new(reader.u16("a packet id")?).ok_or(WireError { reading: "a packet id" })
}

fn read_flow(
    reader: &mut WireReader<'_>,
    now: Now,
    session: &mut Session,
    memberships: &[Rc<Membership>],
) -> Result<(), WireError> {
    let paged = reader.u64("a number of paged messages")?;
    if paged > 0 {
        session.rare_mut().paged = Some(crate::session::Paged { messages: paged, loading: false });
    }
    let flow = session.flow_mut();
    for _ in 0..reader.u32("a number of messages in flight")? {
        let id = read_packet_id(reader)?;
        let state = match reader.u8("a state")? {
            0 => State::AwaitPubAck,
            1 => State::AwaitPubRec,
            2 => State::AwaitPubComp,
            _ => return Err(WireError { reading: "a state" }),
        };
        let kept = reader.u8("a flag")? != 0;
        let delivery = if kept { Some(read_delivery(reader, now, memberships)?) } else { None };
        flow.inflight.adopt(id, state, delivery);
    }
    let mut queue = VecDeque::new();
    for _ in 0..reader.u32("a number of queued messages")? {
        let delivery = read_delivery(reader, now, memberships)?;
        flow.queue_bytes += delivery.cost();
        queue.push_back(delivery);
    }
    flow.queue = queue;
    for _ in 0..reader.u32("a number of received packet ids")? {
        flow.received.insert(read_packet_id(reader)?);
    }
    session.settle();
    Ok(())
}
