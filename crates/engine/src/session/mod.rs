//! The state that the server keeps for a client id, with or without a connection.

pub(crate) mod acknowledge;
pub(crate) mod ended;
pub(crate) mod exchange;
pub(crate) mod expiring;
pub(crate) mod filters;
pub(crate) mod overflow;
pub(crate) mod pace;
pub(crate) mod packet_ids;
pub(crate) mod promise;
pub(crate) mod queue;
pub(crate) mod refused;
pub(crate) mod reservations;
pub(crate) mod table;
pub(crate) mod tail;
pub(crate) mod terms;
pub(crate) mod will;

use crate::hash::NameHasher;
use crate::identity::Identity;
use crate::ids::{BROKER_LINK_LISTENER, ConnectionKey, ListenerId, PartitionId, ShardId, TenantId, counted_for};
use crate::journal::Numbers;
use crate::journal::keys::StoredSession;
use crate::link::record::{GroupName, MemberOptions};
use crate::message::{DELIVERY_BYTES, Message, MessageRef};
use crate::now::Millis;
use crate::session::exchange::Exchange;
pub(crate) use crate::session::filters::FilterList;
use crate::session::pace::Pace;
use crate::session::packet_ids::{Inflight, InflightEntry, ReceivedIds, State};
use crate::session::promise::Promise;
use crate::session::queue::SessionQueue;
use crate::session::refused::RefusedMessages;
use crate::session::tail::Tail;
pub(crate) use crate::session::will::{FORMER_WILLS_MAX, FormerWill, Will};
use crate::settings::Settings;
use crate::settings::overflow::Bounds;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::hash::BuildHasherDefault;
use std::rc::Rc;
use std::sync::Arc;
use tidegate_mqtt::{PacketId, QoS};

/// A client's session. Most sessions are idle, so whatever a busy one needs hangs on a pointer.
#[derive(Debug)]
pub(crate) struct Session {
    pub client_id: Box<str>,
    pub connection: Option<ConnectionKey>,
    pub filters: FilterList,
    /// Message flow; present once a message above QoS 0 or a queue was needed.
    pub flow: Option<Box<Flow>>,
    /// Fields that few sessions need.
    pub rare: Option<Box<Rare>>,
    /// Session Expiry Interval, seconds; 0 ends the session with its connection, `u32::MAX` never.
    pub expiry_seconds: u32,
    pub tenant: TenantId,
    pub listener: ListenerId,
    /// How many unacknowledged messages the client takes.
    pub receive_maximum: u16,
    /// Epoch of the access rules under which the subscriptions were compiled; a higher epoch asks again.
    pub rights_epoch: u16,
    /// Whether it is a mobile node's.
    pub standing: Standing,
    /// The number under which it is stored, if it is.
    pub stored: Option<StoredSession>,
    /// The identity of the client, if authentication was configured.
    pub identity: Option<Arc<Identity>>,
}

/// The kind of a session's client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Standing {
    /// A client that is reached by its subscriptions alone.
    #[default]
    Client,
    /// A mobile node, which is reached by address as well.
    Node,
    /// A mobile node whose session has ended: messages addressed to it are kept.
    Mailbox,
}

impl Standing {
    /// Whether it is reached by address.
    #[inline]
    pub(crate) fn is_node(self) -> bool {
        self != Self::Client
    }
}

/// Messages on their way to and from a session.
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent, and each is read in another place")]
#[derive(Debug, Default)]
pub(crate) struct Flow {
    /// Sent and not finished. What ends with its connection keeps no message: it will not be sent again.
    pub inflight: Inflight<InFlight>,
    /// Cost in bytes of the messages that `inflight` keeps.
    pub inflight_bytes: u64,
    /// Waiting for the client to return, to read, or to acknowledge.
    pub queue: SessionQueue,
    /// Cost of the queue in bytes.
    pub queue_bytes: u64,
    /// When the queue is looked at for messages that have expired; also its key among the timers.
    pub expiry_timer: Option<Millis>,
    /// A message of QoS 0 was kept as one of QoS 1 while the client was away. As long as messages wait, also to be sent
    /// again, further ones of QoS 0 wait behind it in the same way, so that they keep their order. This concerns
    /// messages that are addressed to a mobile node.
    pub keeps_qos0: bool,
    /// QoS 2 packet ids received and not yet released.
    pub received: ReceivedIds,
    /// How many of `received` are from earlier connections, which the receive maximum does not count.
    pub received_before: usize,
    /// Publishers parked by this queue.
    pub blocking: Vec<BlockedPublisher>,
    /// Whether they wait for a pipeline, and not for room.
    pub pace: Pace,
    /// A publisher waited too long: until the queue has space again, new messages are dropped.
    pub block_given_up: bool,
    /// Under which bounds the queue was full last; it counts as full until it is half empty.
    pub full_at: Option<Bounds>,
    /// A message of a shared group was returned since the queue is full: its groups are notified when it has space.
    pub gave_back: bool,
    /// True if the log has reported the full queue.
    pub full_logged: bool,
    /// How many at the back of `inflight` are still to be sent again after the session was resumed.
    pub to_resend: usize,
    /// Whether no message is sent while one is in flight, QoS 0 included.
    pub one_at_a_time: bool,
    /// Time since which no message in flight was acknowledged.
    pub waiting_since: Millis,
    /// The last number given to a stored entry.
    pub next_number: u64,
    /// The messages behind the queue, which are in the store alone.
    pub tail: Option<Box<Tail>>,
    /// The last number given out when the session became a mailbox: messages of the tail up to it may be for
    /// subscriptions that have ended.
    pub mailbox_from: u64,
}

/// Sent messages whose exchange is not finished.
#[derive(Clone, Debug, Default)]
pub(crate) struct InFlight {
    /// The message, as long as it may have to be sent again.
    pub delivery: Option<Delivery>,
    /// The numbers of its records in the store.
    pub numbers: Numbers,
}

impl InflightEntry<InFlight> {
    /// Whether the entry has all that is needed to send it again. In a session that lasts all have.
    pub(crate) fn is_whole(&self) -> bool {
        self.item.delivery.is_some() || self.state == State::AwaitPubComp
    }
}

impl Flow {
    /// A number for something that is stored, greater than all before.
    #[inline]
    pub(crate) fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// True if the next message has to wait until the messages in flight have been answered.
    #[inline]
    pub(crate) fn waits_alone(&self) -> bool {
        self.one_at_a_time && !self.inflight.is_empty()
    }

    /// Whether nothing waits: no message, no publisher, and no end of a full queue.
    #[inline]
    pub(crate) fn is_at_rest(&self) -> bool {
        self.queue.is_empty()
            && self.tail.is_none()
            && self.to_resend == 0
            && self.full_at.is_none()
            && self.blocking.is_empty()
            && self.expiry_timer.is_none()
            && !(self.gave_back | self.block_given_up | self.full_logged | self.keeps_qos0)
    }

    /// Whether messages of QoS 0 wait as ones of QoS 1.
    #[inline]
    pub(crate) fn is_keeping_qos0(&self) -> bool {
        self.keeps_qos0 && (!self.queue.is_empty() || self.tail.is_some() || self.to_resend > 0)
    }

    /// Notes whether the queue has messages of QoS 0 that are sent as QoS 1. The queue has come from the store or from
    /// another shard.
    pub(crate) fn find_raised(&mut self) {
        // The content of a tail is not known before it is read.
        self.keeps_qos0 = self.tail.is_some() || self.queue.iter().any(Delivery::was_raised) || self.has_sent_raised();
    }

    /// Replaces the queue by these messages.
    pub(crate) fn make_queue(&mut self, messages: Vec<Delivery>) {
        self.queue = messages.into_iter().collect();
        self.find_raised();
    }

    /// Whether a message of QoS 0 that was kept as one of QoS 1 is in flight.
    fn has_sent_raised(&self) -> bool {
        self.inflight.iter().filter_map(|entry| entry.item.delivery.as_ref()).any(Delivery::was_raised)
    }

    /// A client is back: everything in flight is to be sent again.
    pub(crate) fn begin_resending(&mut self, now: Millis) {
        self.to_resend = self.inflight.len();
        self.received_before = self.received.len();
        self.waiting_since = now;
        // The queue may have been empty since these were sent.
        self.keeps_qos0 |= self.has_sent_raised();
    }

    /// Whether no message is queued, in flight or remembered.
    pub(crate) fn is_idle(&self) -> bool {
        self.inflight.is_empty()
            && self.queue.is_empty()
            && self.received.is_empty()
            && self.blocking.is_empty()
            && self.tail.is_none()
            && self.expiry_timer.is_none()
    }
}

/// A publisher that has to wait for a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BlockedPublisher {
    /// The publisher's shard.
    pub shard: ShardId,
    pub connection: ConnectionKey,
}

const _: () = assert!(size_of::<Delivery>() <= DELIVERY_BYTES, "the cost of a message covers its place in a queue");

/// A message in the queue of one session.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub message: MessageRef,
    /// QoS of this delivery.
    pub qos: QoS,
    /// RETAIN as the receiver will see it.
    pub retain: bool,
    /// Whether a newer message of its topic takes its place while it waits.
    pub latest: bool,
    pub ids: SubscriptionIds,
    /// Set when it was dealt by a shared group: it goes back there if it stays unfinished.
    pub group: Option<Rc<Membership>>,
    /// The number under which it is stored; 0 if it is not.
    pub number: u64,
}

impl Delivery {
    /// Bytes that this delivery counts for in a queue.
    pub(crate) fn cost(&self) -> u64 {
        self.message.cost() + size_of::<Self>() as u64
    }

    /// Whether its message has QoS 0 and is kept as one of QoS 1.
    pub(crate) fn was_raised(&self) -> bool {
        self.message.qos < self.qos
    }

    /// Whether it has outlived its expiry.
    pub(crate) fn is_expired(&self, now: Millis) -> bool {
        Message::is_expired(&self.message, now)
    }
}

/// Subscription identifiers of a delivery.
#[derive(Clone, Debug, Default)]
pub(crate) enum SubscriptionIds {
    #[default]
    None,
    One(u32),
    Many(Rc<[u32]>),
}

impl SubscriptionIds {
    pub(crate) fn from_slice(ids: &[u32]) -> Self {
        match ids {
            [] => Self::None,
            [one] => Self::One(*one),
            many => Self::Many(Rc::from(many)),
        }
    }

    pub(crate) fn as_slice(&self) -> &[u32] {
        match self {
            Self::None => &[],
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
}

/// Fields that few sessions need.
#[derive(Debug, Default)]
pub(crate) struct Rare {
    /// The will of the present or last connection.
    pub will: Option<Will>,
    /// Under which number the will is stored, where the session itself is not.
    pub stored_will: Option<StoredSession>,
    /// When a will that waits is due; also its key among the timers.
    pub will_due: Option<Millis>,
    /// The wills of connections that are still on their way here, where their client has connected again, oldest first.
    pub former_wills: Vec<FormerWill>,
    /// When a session without a connection ends; also its key among the timers.
    pub ends_at: Option<Millis>,
    /// Until when QoS 0 messages are kept for a client that was sent on and has not returned.
    pub sent_on_until: Option<Millis>,
    /// Memberships in shared groups, in the order of their names; see [`Rare::find_membership`].
    pub memberships: Vec<Rc<Membership>>,
    /// Retained messages being fetched, by their numbers.
    pub fetches: BTreeSet<u32>,
    /// Subscriptions whose fetches begin in one of the next turns.
    pub fetches_starting: u32,
    /// SUBACKs that wait, and fetches behind them.
    pub fetches_expected: u32,
    /// QoS 2 messages of the client that have crossed to other nodes, by their packet ids.
    pub exchanges: Vec<(PacketId, Exchange)>,
    /// QoS 2 messages of the client that were refused after they were routed, by their packet ids, oldest first.
    pub refused: RefusedMessages,
    /// Topics that arrived live while a fetch was under way or expected, with the newest version: the fetched value is
    /// not newer, unless its version is.
    pub fresh_topics: HashMap<Box<str>, u64, BuildHasherDefault<NameHasher>>,
}

impl Rare {
    /// The index of the membership in a group, or the index at which to insert it.
    pub(crate) fn find_membership(&self, share: &str, filter: &str) -> Result<usize, usize> {
        self.memberships.binary_search_by(|other| (&*other.filter, &*other.share).cmp(&(filter, share)))
    }

    /// Whether retained messages are fetched for it now or later.
    pub(crate) fn awaits_retained(&self) -> bool {
        !self.fetches.is_empty() || self.fetches_starting > 0 || self.fetches_expected > 0
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.will.is_none()
            && self.former_wills.is_empty()
            && self.ends_at.is_none()
            && self.sent_on_until.is_none()
            && self.memberships.is_empty()
            && self.fetches.is_empty()
            && self.fetches_starting == 0
            && self.fetches_expected == 0
            && self.exchanges.is_empty()
            && self.refused.is_empty()
    }
}

/// Beside the options of a kept membership: the home of its group has confirmed it, so that its brokers keep the messages
/// while the home is away.
pub(crate) const CONFIRMED: u8 = 1 << 5;

/// A session's place in a shared group.
#[derive(Debug)]
pub(crate) struct Membership {
    pub tenant: TenantId,
    pub share: Box<str>,
    pub filter: Box<str>,
    /// Its home deals.
    pub partition: PartitionId,
    pub member: MemberOptions,
    /// Whether the group's home has not confirmed it.
    is_unconfirmed: Cell<bool>,
    /// Set for one delivery: the notice that its group is promised.
    promise: RefCell<Option<Promise>>,
}

impl Membership {
    pub(crate) fn new(group: GroupName<'_>, partition: PartitionId, member: MemberOptions) -> Self {
        let GroupName { tenant, share, filter } = group;
        let (is_unconfirmed, promise) = (Cell::new(false), RefCell::new(None));
        Self { tenant, share: share.into(), filter: filter.into(), partition, member, is_unconfirmed, promise }
    }

    /// A SUBACK waits for the group's home, or no longer.
    pub(crate) fn set_unconfirmed(&self, is_unconfirmed: bool) {
        self.is_unconfirmed.set(is_unconfirmed);
    }

    /// Whether the group's home has confirmed it.
    pub(crate) fn is_confirmed(&self) -> bool {
        !self.is_unconfirmed.get()
    }

    /// Its options in the store and in images, with [`CONFIRMED`].
    pub(crate) fn kept_options(&self) -> u8 {
        self.member.options | if self.is_confirmed() { CONFIRMED } else { 0 }
    }

    /// A membership from the store or from an image. Earlier versions did not note whether it was confirmed.
    pub(crate) fn from_kept(group: GroupName<'_>, partition: PartitionId, kept: u8, subscription_id: u32) -> Self {
        let options = kept & !CONFIRMED;
        let membership = Self::new(group, partition, MemberOptions { options, subscription_id });
        membership.set_unconfirmed(kept & CONFIRMED == 0);
        membership
    }

    /// A copy for one delivery, at whose end its group is notified.
    pub(crate) fn with(&self, promise: Promise) -> Self {
        let same = Self::new(self.group(), self.partition, self.member);
        same.promise.replace(Some(promise));
        same
    }

    /// The shard that keeps the message of this delivery for its group, and under which id.
    pub(crate) fn promised(&self) -> Option<(ShardId, u64)> {
        self.promise.borrow().as_ref().map(|promise| (promise.home, promise.id))
    }

    /// Another shard keeps the message of this delivery under its id from now on. Returns false if it has another id.
    pub(crate) fn renew_promise(&self, keeper: ShardId, id: u64) -> bool {
        self.promise.borrow_mut().as_mut().is_some_and(|promise| promise.renew(keeper, id))
    }

    /// The message of this delivery goes back to the shard that keeps it for its group.
    pub(crate) fn withdraw_promise(&self) {
        self.promise.take().into_iter().for_each(Promise::withdraw);
    }

    /// A QoS 2 message was sent: no other member may get it, so the group need not keep it ([MQTT-4.8.2-5]).
    pub(crate) fn note_sent_once(&self) {
        self.promise.replace(None);
    }

    pub(crate) fn group(&self) -> GroupName<'_> {
        GroupName { tenant: self.tenant, share: &self.share, filter: &self.filter }
    }
}

impl Session {
    /// The tenant whose quota counts this session, its connection and its subscriptions.
    pub(crate) fn counted_for(&self) -> TenantId {
        counted_for(self.tenant, &self.client_id)
    }

    /// The tenant that pays for this session and its connection.
    pub(crate) fn payer(&self, settings: &Settings) -> TenantId {
        let for_hub = settings.listeners.get(usize::from(self.listener.0)).is_some_and(|listener| listener.for_hub);
        if for_hub { TenantId::BROKER_LINK } else { self.tenant }
    }

    /// True if the session outlives its connection, so that its messages must be kept.
    #[inline]
    pub(crate) fn lasts(&self) -> bool {
        self.expiry_seconds > 0 || self.standing.is_node()
    }

    /// Whether the session belongs to a broker link and not to a client.
    #[inline]
    pub(crate) fn is_broker_link(&self) -> bool {
        self.listener == BROKER_LINK_LISTENER
    }

    /// How many subscriptions it has, shared ones included.
    pub(crate) fn subscriptions(&self) -> usize {
        self.filters.len() + self.rare.as_ref().map_or(0, |rare| rare.memberships.len())
    }

    /// The flow, made on first use.
    #[inline]
    pub(crate) fn flow_mut(&mut self) -> &mut Flow {
        self.flow.get_or_insert_default()
    }

    /// Its will, if it has one.
    pub(crate) fn will(&self) -> Option<&Will> {
        self.rare.as_ref()?.will.as_ref()
    }

    pub(crate) fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// Gives memory back after a peak.
    pub(crate) fn shrink(&mut self) {
        if let Some(flow) = &mut self.flow {
            flow.queue.shrink();
            flow.inflight.shrink();
            flow.received.shrink();
            flow.blocking.shrink_to_fit();
        }
    }

    /// Frees the unused memory of an idle session.
    pub(crate) fn settle(&mut self) {
        if self.flow.as_ref().is_some_and(|flow| flow.is_idle()) && !self.is_broker_link() {
            self.flow = None;
        }
        if self.rare.as_ref().is_some_and(|rare| rare.is_idle()) {
            self.rare = None;
        }
    }
}
