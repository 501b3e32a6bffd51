//! Dispatch of a message: to this shard's subscribers and shared groups, to other shards, and to its topic's home.

use crate::ids::{ConnectionKey, SessionKey, ShardId};
use crate::link::envelope::OUTGOING_INDEX;
use crate::link::envelope::{Envelope, Passage, Ticket};
use crate::message::Publication;
use crate::now::{Millis, Now};
use crate::session::BlockedPublisher;
use crate::settings::overflow::OverflowRules;
use tidegate_mqtt::QoS;

/// The origin of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    /// The publishing session, when it lives on this shard.
    pub session: Option<SessionKey>,
    /// The publishing connection on its shard, which waits when a queue is full and blocks.
    pub connection: Option<ConnectionKey>,
    /// The shard where the message entered.
    pub origin: ShardId,
    /// Under which others confirm.
    pub ticket: Option<Ticket>,
    /// When the message entered.
    pub entered_at: Millis,
    /// Places passed.
    pub hops: u8,
}

impl Source {
    /// True if the message may leave for another node before this node has stored that: its publisher is not answered
    /// yet and repeats it if this node dies, or QoS 0 promises nothing.
    #[inline]
    pub(crate) fn may_repeat(&self, qos: QoS) -> bool {
        self.connection.is_some() && qos != QoS::ExactlyOnce
    }

    /// Whether it is a message that this node sends until all nodes have confirmed it.
    #[inline]
    pub(crate) fn is_outgoing(&self) -> bool {
        self.ticket.is_some_and(|ticket| ticket.connection.index == OUTGOING_INDEX)
    }

    /// A client or a principal of this shard.
    #[inline]
    pub(crate) fn publisher_here(
        origin: ShardId,
        now: Now,
        session: Option<SessionKey>,
        connection: ConnectionKey,
        ticket: Option<Ticket>,
    ) -> Self {
        let connection = Some(connection);
        Self { session, connection, origin, ticket, entered_at: now.monotonic, hops: 0 }
    }

    /// The broker itself: wills, `$SYS`.
    pub(crate) fn inside(origin: ShardId, now: Now) -> Self {
        Self { session: None, connection: None, origin, ticket: None, entered_at: now.monotonic, hops: 0 }
    }

    /// The form in which a message leaves this shard.
    pub(crate) fn envelope<'p>(
        &self,
        overflow: &OverflowRules,
        purpose: u8,
        publication: &mut Publication<'p>,
        ticket: Option<Ticket>,
    ) -> Envelope<'p> {
        publication.share();
        let Passage { purpose, origin, entered_at, priority, hops, from, ticket } =
            self.passage(overflow, purpose, ticket, publication.priority);
        // The link numbers it.
        let sequence = 0;
        let publication = publication.clone();
        Envelope { purpose, origin, sequence, entered_at, priority, hops, from, ticket, publication }
    }

    /// How a message leaves this shard.
    #[inline]
    pub(crate) fn passage(
        &self,
        overflow: &OverflowRules,
        purpose: u8,
        ticket: Option<Ticket>,
        priority: u8,
    ) -> Passage {
        let tells = overflow.tells_publisher();
        Passage {
            purpose,
            origin: self.origin,
            entered_at: self.entered_at,
            priority,
            hops: self.hops,
            // The other shard needs the sender only if it may have to report to it.
            from: self.connection.filter(|_| tells).or(ticket.map(|ticket| ticket.connection)),
            ticket,
        }
    }

    pub(crate) fn publisher(&self) -> Option<BlockedPublisher> {
        self.connection.map(|connection| BlockedPublisher { shard: self.origin, connection })
    }
}

/// The result of a dispatch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Dispatched {
    /// Confirmations to wait for.
    pub waits: u16,
    /// Shards whose links are full now.
    pub full: u64,
    /// Whether any client got it, as far as this shard knows.
    pub reached: bool,
}
