//! A network connection in the engine: an input tail, an output, and the state of the protocol.

pub(crate) mod alias;
pub(crate) mod close;
pub(crate) mod connect;
pub(crate) mod explained;
pub(crate) mod input;
pub(crate) mod output;
pub(crate) mod reserving;
pub(crate) mod suspension;
pub(crate) mod table;
pub(crate) mod terms;
pub(crate) mod to_write;

use std::collections::VecDeque;

use std::rc::Rc;
use tidegate_mqtt::{PacketId, QoS, ReasonCode, Version};

use crate::connection::alias::{InboundAliases, OutboundAliases};
use crate::connection::explained::Explained;
use crate::connection::output::Output;
use crate::connection::reserving::Reserving;
use crate::connection::terms::PromisedTerms;
use crate::connection::to_write::Listed;
use crate::events::reason::Reason;
use crate::ids::{ListenerId, SessionKey, ShardId, TenantId};
use crate::limits::rate::Rate;
use crate::limits::usage::Payer;
use crate::now::Millis;
use crate::session::Membership;
use crate::session::refused::Digest;
use crate::subscribe::refusals::Refusals;
use crate::subscribe::steps::PacketLeft;
use crate::topics::RouteSlot;

/// The phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing but CONNECT is taken.
    AwaitConnect,
    /// A broker link: CONNECT was sent, and nothing but CONNACK is taken.
    AwaitConnAck,
    /// CONNECT came and waits for its authentication; bytes behind it are kept up to a limit.
    Authenticating,
    /// CONNECT came, and the shell connects to the client's home elsewhere; the socket is not read meanwhile.
    AwaitHome,
    /// The client has a challenge to answer with AUTH.
    AwaitAuth,
    /// CONNACK was sent.
    Open,
    /// Output is written, input is ignored, then the transport is closed.
    Closing,
}

/// The program at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    Client,
    /// A bridge of another broker, by its Protocol Level.
    Bridge,
    /// This broker, for a bridge or a pipeline.
    Own,
    /// A bridge of this broker, with the Protocol Level of bridges.
    OwnBridge,
    /// A pipeline of the hub.
    Hub,
    /// A broker of the fleet that takes no RETAIN (section 3.2.2.3.5).
    BrokerWithoutRetain,
}

/// One connection. An idle one owns no buffer.
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent, and each is read in another place")]
#[derive(Debug)]
pub(crate) struct Connection {
    /// Packets waiting to be written.
    pub output: Option<Box<Output>>,
    /// The beginning of a packet that is not complete yet.
    #[expect(clippy::box_collection, reason = "an idle connection pays one pointer")]
    pub tail: Option<Box<Vec<u8>>>,
    pub extra: Option<Box<Extra>>,
    /// The session, once there is one.
    pub session: Option<SessionKey>,
    /// The timer that is set for this connection, or never.
    pub timer: Millis,
    /// When the last packet arrived.
    pub last_seen: Millis,
    /// The client's Maximum Packet Size.
    pub max_packet_out: u32,
    /// Highest QoS that the other end takes: less than 2 only at brokers that say so (section 3.2.2.3.4).
    pub max_qos_out: QoS,
    /// Keep-alive in force, seconds; 0 means none.
    pub keep_alive: u16,
    pub listener: ListenerId,
    pub tenant: TenantId,
    /// Its payer, from the acceptance of its CONNECT on; [`Payer::NONE`] before that, and for connections of the
    /// broker itself.
    pub payer: Payer,
    pub version: Version,
    pub phase: Phase,
    /// The lists of connections with output that it is in.
    pub listed: Listed,
    /// The program at the other end.
    pub peer: Peer,
    /// Whether the client wants reason strings ([MQTT-3.1.2-29]).
    pub problem_information: bool,
    /// Whether the socket is not read at the moment.
    pub paused: bool,
    /// Whether topic aliases are set towards this client.
    pub aliases_out: bool,
    /// Whether the socket did not take all output the last time.
    pub blocked: bool,
    /// Whether the client is gone, so that it is not held back any more.
    pub leaving: bool,
}

/// Fields that few connections need.
#[derive(Debug)]
pub(crate) struct Extra {
    pub acks: AckQueue,
    pub aliases_in: InboundAliases,
    pub aliases_out: OutboundAliases,
    pub parked: Option<Box<Parked>>,
    pub pending_connect: Option<Box<PendingConnect>>,
    /// Its recent publishes, if they are limited.
    pub rate: Option<Box<Rate>>,
    /// The reservation of the message that waits for room.
    pub reserving: Reserving,
    /// Until when the acknowledgement of that message is withheld at most, or never.
    pub withheld_until: Millis,
    /// The state of enhanced authentication, if the client asked for it.
    pub enhanced: Option<Box<EnhancedState>>,
    /// Time at which the client's proof ends, or never.
    pub proof_ends: Option<Millis>,
    /// The terms of its CONNACK, where these are wider than its listener's.
    pub promised: Option<Box<PromisedTerms>>,
    /// Facts known before CONNECT arrives.
    pub preset: Option<Box<Preset>>,
    /// The last thing that the rules allowed this publisher.
    pub allowed: Option<Allowed>,
    /// The host and the user name of this publisher, for pipelines: see `publish::origin`.
    pub publisher: Option<Box<str>>,
    /// A SUBSCRIBE or UNSUBSCRIBE that continues in the next turn.
    pub packet_left: Option<Box<PacketLeft>>,
    /// Whether it waits for the decision about the node of its client.
    pub suspended: bool,
}

/// An enhanced authentication.
#[derive(Debug)]
pub(crate) struct EnhancedState {
    /// Its method, which stays the same for the whole connection ([MQTT-4.12.0-5]).
    pub method: Box<str>,
    /// Whether an exchange is going on in an open connection.
    pub running: bool,
}

/// The shell's knowledge of a client before its CONNECT arrives: from its certificate, or the name of the server it
/// asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preset {
    /// The tenant in place of its listener's. The user that it names may still belong to another one.
    pub instead_of_listener: Option<TenantId>,
    /// The tenant of the connection, also if its user belongs to another one.
    pub settled: Option<TenantId>,
    /// The client id of the connection, in place of the one in its CONNECT.
    pub client_id: Option<Box<str>>,
}

/// A decision of the rules that is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowed {
    /// The slot of the topic's route.
    pub slot: RouteSlot,
    /// How often routes had been made by then: a place may be another topic's since.
    pub fills: u32,
    /// QoS and RETAIN.
    pub bits: u8,
    /// The epoch of the rules.
    pub epoch: u16,
}

impl Default for Extra {
    fn default() -> Self {
        Self {
            acks: AckQueue::default(),
            aliases_in: InboundAliases::default(),
            aliases_out: OutboundAliases::default(),
            parked: None,
            pending_connect: None,
            enhanced: None,
            proof_ends: None,
            promised: None,
            preset: None,
            allowed: None,
            publisher: None,
            rate: None,
            reserving: Reserving::Not,
            withheld_until: Millis::NEVER,
            packet_left: None,
            suspended: false,
        }
    }
}

/// A CONNECT that waits for its authentication.
#[derive(Debug)]
pub(crate) struct PendingConnect {
    /// The packet: its first byte and its body.
    pub packet: Vec<u8>,
    /// The client id that it will have.
    pub client_id: Box<str>,
}

impl Extra {
    fn is_idle(&self) -> bool {
        self.acks.is_empty()
            && self.aliases_in.is_empty()
            && self.aliases_out.is_off()
            && self.parked.is_none()
            && self.pending_connect.is_none()
            && self.rate.is_none()
            && self.reserving == Reserving::Not
            && self.withheld_until == Millis::NEVER
            && self.enhanced.is_none()
            && self.proof_ends.is_none()
            && self.promised.is_none()
            && self.preset.is_none()
            && self.allowed.is_none()
            && self.publisher.is_none()
            && self.packet_left.is_none()
            && !self.suspended
    }
}

/// A publisher that has to wait, and the packets behind.
#[derive(Debug)]
pub(crate) struct Parked {
    /// Whole packets in order, processed when the connection resumes.
    pub bytes: Vec<u8>,
    /// How many queues or links it waits for.
    pub waits: u32,
    /// When waiting ends in any case; also its key among the timers.
    pub until: Millis,
    /// The shards of other nodes that it waits for, each as often as it has asked.
    pub askers: Vec<ShardId>,
}

/// Acknowledgements that wait for others' confirmations. They leave in the order of the packets that they answer
/// ([MQTT-4.6.0-2], [MQTT-4.6.0-3]).
#[derive(Debug, Default)]
pub(crate) struct AckQueue {
    pending: VecDeque<PendingAck>,
    /// Sequence of the first pending one.
    base: u32,
    /// How many of the pending ones are PUBACKs.
    pub_acks: usize,
    /// Why payloads were refused, for pending ones.
    pub explained: Explained,
}

/// An acknowledgement and how many confirmations it lacks.
#[derive(Debug)]
pub(crate) struct PendingAck {
    pub waits: u32,
    pub packet_id: PacketId,
    pub answer: Answer,
    /// Whether it promises an effect that was written into a journal.
    pub promises: bool,
}

/// The outcome of a PUBLISH: a success code, or the reason of the refusal.
pub(crate) type Outcome = Result<ReasonCode, Reason>;

/// The packet that is sent once all confirmations have come.
#[derive(Debug)]
pub(crate) enum Answer {
    PubAck(Outcome),
    /// The digest is that of a message that may be refused after it was routed.
    PubRec(Outcome, Option<Digest>),
    /// The codes, and the subscriptions whose retained messages are fetched then.
    SubAck(Box<SubAckAnswer>),
    UnsubAck(Box<UnsubAckAnswer>),
}

/// A SUBACK and the retained messages after it.
#[derive(Debug, Default)]
pub(crate) struct SubAckAnswer {
    pub codes: Vec<ReasonCode>,
    /// The filters, where brokers may still refuse some.
    pub filters: Vec<Box<str>>,
    /// Filters whose retained messages are fetched.
    pub fetches: Vec<Box<str>>,
    /// Why some are refused, for a client that wants to know.
    pub refusals: Refusals,
    /// Memberships in shared groups whose homes have confirmed them when it leaves.
    pub joined: Vec<Rc<Membership>>,
}

/// The content of an UNSUBACK.
#[derive(Debug, Default)]
pub(crate) struct UnsubAckAnswer {
    pub codes: Vec<ReasonCode>,
    /// As in [`SubAckAnswer`].
    pub refusals: Refusals,
}

impl AckQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// How many answers wait.
    pub(crate) fn len(&self) -> usize {
        self.pending.len()
    }

    /// Forgets all answers that wait: confirmations for them find nothing.
    pub(crate) fn abandon(&mut self) {
        self.base = self.next_sequence();
        self.pending.clear();
        self.pub_acks = 0;
        self.explained = Explained::default();
    }

    /// Whether the answer of this sequence is a PUBREC.
    pub(crate) fn is_pub_rec(&self, sequence: u32) -> bool {
        let ack = self.pending.get(sequence.wrapping_sub(self.base) as usize);
        ack.is_some_and(|ack| matches!(ack.answer, Answer::PubRec(..)))
    }

    /// QoS 1 publishes received and not yet acknowledged.
    #[inline]
    pub(crate) fn pub_acks(&self) -> usize {
        self.pub_acks
    }

    /// The sequence that the next pushed answer will have.
    pub(crate) fn next_sequence(&self) -> u32 {
        self.base.wrapping_add(self.pending.len() as u32)
    }

    pub(crate) fn push(&mut self, ack: PendingAck) {
        self.pub_acks += usize::from(matches!(ack.answer, Answer::PubAck(_)));
        if self.pending.capacity() == 0 && matches!(ack.answer, Answer::SubAck(_)) {
            // After a restart all clients subscribe at once, and most of them once: what each of them makes the server
            // keep for that moment should be small.
            self.pending.reserve_exact(1);
        }
        self.pending.push_back(ack);
    }

    /// One confirmation less is lacking. A refusal that it brings becomes the answer, but a refusal for good does not
    /// replace one for now: the publisher sends the message again. Unknown sequences are ignored: their connection was
    /// replaced.
    pub(crate) fn confirm(&mut self, sequence: u32, refused: Option<Reason>, promises: bool) {
        let Some(ack) = self.pending.get_mut(sequence.wrapping_sub(self.base) as usize) else { return };
        ack.waits = ack.waits.saturating_sub(1);
        ack.promises |= promises;
        if let Answer::PubAck(answer) | Answer::PubRec(answer, _) = &mut ack.answer
            && let Some(reason) = refused
            && (reason.is_temporary() || !answer.is_err_and(Reason::is_temporary))
        {
            *answer = Err(reason);
        }
    }

    /// A SUBACK that is incomplete.
    pub(crate) fn sub_ack_mut(&mut self, sequence: u32) -> Option<&mut SubAckAnswer> {
        match &mut self.pending.get_mut(sequence.wrapping_sub(self.base) as usize)?.answer {
            Answer::SubAck(answer) => Some(answer),
            _ => None,
        }
    }

    /// Takes an answer out that is not complete, until [`AckQueue::put_answer`] brings it back.
    pub(crate) fn take_answer(&mut self, sequence: u32) -> Option<Answer> {
        let ack = self.pending.get_mut(sequence.wrapping_sub(self.base) as usize)?;
        Some(std::mem::replace(&mut ack.answer, Answer::SubAck(Box::default())))
    }

    /// Restores an answer that still lacks this number of confirmations.
    pub(crate) fn put_answer(&mut self, sequence: u32, answer: Answer, waits: u32) {
        if let Some(ack) = self.pending.get_mut(sequence.wrapping_sub(self.base) as usize) {
            ack.answer = answer;
            ack.waits += waits;
        }
    }

    /// The next complete answer, in order.
    pub(crate) fn pop_ready(&mut self) -> Option<PendingAck> {
        if self.pending.front()?.waits > 0 {
            return None;
        }
        self.base = self.base.wrapping_add(1);
        let ack = self.pending.pop_front()?;
        self.pub_acks -= usize::from(matches!(ack.answer, Answer::PubAck(_)));
        Some(ack)
    }

    /// Pending acknowledgements in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &PendingAck> {
        self.pending.iter()
    }

    /// Whether a PUBREC for this packet id is still pending: a repeated PUBLISH needs no second one.
    pub(crate) fn has_pub_rec(&self, id: PacketId) -> bool {
        self.pending.iter().any(|ack| ack.packet_id == id && matches!(ack.answer, Answer::PubRec(..)))
    }
}

impl Connection {
    /// Bytes of its tail while it awaits CONNECT, else 0.
    pub(crate) fn unfinished_connect(&self) -> u64 {
        let tail = self.tail.as_ref().filter(|_| self.phase == Phase::AwaitConnect);
        tail.map_or(0, |tail| tail.len() as u64)
    }

    pub(crate) fn new(listener: ListenerId, tenant: TenantId, now: Millis) -> Self {
        Self {
            output: None,
            tail: None,
            extra: None,
            session: None,
            timer: Millis::NEVER,
            last_seen: now,
            max_packet_out: u32::MAX,
            max_qos_out: QoS::ExactlyOnce,
            keep_alive: 0,
            listener,
            tenant,
            version: Version::V311,
            phase: Phase::AwaitConnect,
            listed: Listed::default(),
            peer: Peer::Client,
            problem_information: true,
            paused: false,
            aliases_out: false,
            blocked: false,
            leaving: false,
            payer: Payer::NONE,
        }
    }

    /// Frees the fields that an idle connection does not need: most connections subscribe once and are quiet then.
    pub(crate) fn settle(&mut self) {
        if self.extra.as_ref().is_some_and(|extra| extra.is_idle()) {
            self.extra = None;
        }
    }

    /// Whether a bridge of another broker is at the other end.
    pub(crate) fn is_bridge(&self) -> bool {
        matches!(self.peer, Peer::Bridge | Peer::OwnBridge)
    }

    /// Whether the broker itself has opened it, for a bridge or a pipeline.
    pub(crate) fn is_own(&self) -> bool {
        matches!(self.peer, Peer::Own | Peer::OwnBridge | Peer::Hub)
    }

    /// Whether a pipeline of the hub is at the other end.
    #[inline]
    pub(crate) fn is_of_hub(&self) -> bool {
        self.peer == Peer::Hub
    }

    /// Whether the other end takes messages with RETAIN.
    #[inline]
    pub(crate) fn takes_retain(&self) -> bool {
        self.peer != Peer::BrokerWithoutRetain
    }

    pub(crate) fn extra_mut(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    /// Whether it waits for the decision about the node of its client.
    pub(crate) fn is_suspended(&self) -> bool {
        self.extra.as_ref().is_some_and(|extra| extra.suspended)
    }

    /// Whether it waits for other clients or shards.
    pub(crate) fn is_parked(&self) -> bool {
        self.extra.as_ref().is_some_and(|extra| extra.parked.is_some())
    }

    /// Bytes waiting to be written.
    #[inline]
    pub(crate) fn output_len(&self) -> usize {
        self.output.as_ref().map_or(0, |output| output.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(id: u16, waits: u32) -> PendingAck {
        PendingAck {
            waits,
            packet_id: PacketId::new(id).unwrap(),
            answer: Answer::PubAck(Ok(ReasonCode::Success)),
            promises: false,
        }
    }

    #[test]
    fn acknowledgements_leave_in_the_order_of_their_packets() {
        let mut queue = AckQueue::default();
        queue.push(ack(1, 1));
        queue.push(ack(2, 0));
        queue.push(ack(3, 1));
        assert!(queue.pop_ready().is_none(), "the first one still waits");
        queue.confirm(0, None, false);
        assert_eq!(queue.pop_ready().unwrap().packet_id.get(), 1);
        assert_eq!(queue.pop_ready().unwrap().packet_id.get(), 2);
        assert!(queue.pop_ready().is_none());
        queue.confirm(2, None, false);
        assert_eq!(queue.pop_ready().unwrap().packet_id.get(), 3);
        assert_eq!(queue.next_sequence(), 3);
        queue.confirm(0, None, false);
        assert!(queue.is_empty(), "a late confirmation changes nothing");
    }

    #[test]
    fn an_idle_connection_is_small() {
        assert!(size_of::<Connection>() <= 72, "{}", size_of::<Connection>());
    }
}
