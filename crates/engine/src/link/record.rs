//! The records between two shards.

use std::sync::Arc;

use tidegate_mqtt::{QoS, ReasonCode};

use self::put::{put_awaited, put_group, put_member, put_numbered, put_waiting};
use crate::events::reason::Reason;
use crate::ids::{ConnectionKey, TenantId};
use crate::link::awaited::Awaited;
use crate::link::counts::Counts;
use crate::link::dealing_word::{DEALING_KIND, DealingWord};
use crate::link::envelope::{BatchHead, Envelope, ReadHead, Ticket, put_connection, put_ticket};
use crate::link::exchange_word::{EXCHANGE_KIND, ExchangeWord};
use crate::link::fleet_word::{FLEET_KIND, FleetWord};
use crate::link::transfer_word::{TRANSFER_KIND, TransferWord};
use crate::wire::{WireError, WireReader, WireWrite};

/// A shared group by name: its home is `partition_of(tenant, "share/filter")`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupName<'a> {
    pub tenant: TenantId,
    /// The share name.
    pub share: &'a str,
    /// The topic filter behind it.
    pub filter: &'a str,
}

/// How a member of a shared group wants its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemberOptions {
    /// Packed subscription options.
    pub options: u8,
    /// Subscription identifier, 0 for none.
    pub subscription_id: u32,
}

/// One message from shard to shard.
#[derive(Debug)]
pub(crate) enum Record<'a> {
    /// An application message to deliver, to retain, or both.
    Publish(Envelope<'a>),
    /// The request of the ticket is done at the sender, or was refused there.
    ///
    /// `promises` is true if an operation was written into a journal for it.
    Confirm { ticket: Ticket, refused: Option<Reason>, promises: bool },
    /// The sender has (or no longer has) subscribers for a filter.
    Interest { tenant: TenantId, filter: &'a str, present: bool, ticket: Option<Ticket> },
    /// Asks for a report when everything sent before has been noted.
    InterestBarrier { ticket: Ticket },
    /// The sender has taken note of an interest.
    InterestSeen { ticket: Ticket },
    /// No broker of the fleet takes a filter of the ticket's request.
    InterestRefused { ticket: Ticket, filter: &'a str, code: ReasonCode },
    /// Asks for retained messages behind `after` that match the filter.
    RetainedQuery { fetch: u32, tenant: TenantId, filter: &'a str, after: &'a str },
    /// One retained message for a fetch.
    RetainedItem { fetch: u32, envelope: Envelope<'a> },
    /// The step is over; `after` is where the next one continues, empty when there is no more.
    RetainedEnd { fetch: u32, after: &'a str },
    /// A session of the sender joins a group of the receiver.
    GroupJoin { group: GroupName<'a>, session: u32, client: u64, member: MemberOptions, ticket: Option<Ticket> },
    /// A session of the sender leaves a group of the receiver.
    GroupLeave { group: GroupName<'a>, session: u32 },
    /// A member of a group went online or offline.
    GroupPresence { group: GroupName<'a>, session: u32, online: bool },
    /// There is a group that is dealt at the sender. The receiver is its next home, whether it hears of members or not.
    GroupExists { group: GroupName<'a> },
    /// The receiver's session is dealt a message of a group.
    Deal {
        session: u32,
        client: u64,
        group: GroupName<'a>,
        member: MemberOptions,
        insists: bool,
        /// Under which id the sender keeps it until it hears [`Record::Dealt`]; 0 if it does not.
        id: u64,
        envelope: Envelope<'a>,
    },
    /// A message goes back to its group's home, to be dealt to another: from the deal `of`, kept by the sender under
    /// `id`; 0 for none. `client` is the hash of the client id of the only member that may get it, since it may have it
    /// already; 0 for any.
    Return { group: GroupName<'a>, not_to: u32, of: u64, id: u64, client: u64, envelope: Envelope<'a> },
    /// No shard has to keep this message of a group any more: the sender has it, or it has ended.
    Dealt { id: u64 },
    /// A queue is full: the receiver's connection shall wait with publishing.
    Park { connection: ConnectionKey },
    /// Asks all queues with the policy `reject` for room for a message; `waits` has no negative acknowledgement, and
    /// waits.
    Reserve { number: u32, tenant: TenantId, topic: &'a str, qos: QoS, cost: u64, waits: Option<ConnectionKey> },
    /// The number of queues without room; 0 means that room is reserved.
    Reserved { number: u32, full: u32 },
    /// The next message of the sender uses the room kept under this number.
    Commit { number: u32 },
    /// No message will use the room kept under this number.
    Release { number: u32 },
    /// The queue has room again.
    Unpark { connection: ConnectionKey },
    /// The receiver's queues no longer wait with this publisher: it has waited too long.
    GiveUp { connection: ConnectionKey },
    /// Asks for the numbers that `$SYS` shows, for a round.
    SysQuery { round: u32 },
    /// The numbers that `$SYS` shows, of the sender.
    SysReport { round: u32, values: &'a [u8] },
    /// The sender has worked off this many bytes of the receiver's batches.
    Credit { bytes: u64 },
    /// The message before was written down under this number until it arrives.
    Crossing { number: u64 },
    /// It has arrived, and its outcome is written.
    Crossed { number: u64 },
    /// The sender has delivered messages that an earlier process left on their way.
    Replayed,
    /// About the brokers of a fleet.
    Fleet(FleetWord<'a>),
    /// Asks for a report when everything sent before has arrived.
    Mark { number: u64 },
    /// Everything sent before this mark has arrived.
    Marked { number: u64 },
    /// The outcomes of a message at the nodes of the sender, for the shard where it entered.
    Counted { number: u64, counts: Counts },
    /// Partitions move between nodes. Words with sets of partitions are boxed: a set has 128 bytes, and every record
    /// would have its size.
    Transfer(Box<TransferWord>),
    /// News about dealers of groups.
    Dealing(Box<DealingWord>),
    /// The name of the next message.
    Exchange(Box<ExchangeWord>),
}

impl<'a> GroupName<'a> {
    fn read(reader: &mut WireReader<'a>) -> Result<Self, WireError> {
        let tenant = TenantId(reader.u16("a tenant")?);
        Ok(Self { tenant, share: reader.text("a share name")?, filter: reader.text("a topic filter")? })
    }
}

fn read_code(reader: &mut WireReader<'_>) -> Result<ReasonCode, WireError> {
    ReasonCode::from_byte(reader.u8("a reason code")?).ok_or(WireError { reading: "a reason code" })
}

/// The code for no reason.
const NOT_REFUSED: u8 = u8::MAX;

fn read_refused(reader: &mut WireReader<'_>) -> Result<Option<Reason>, WireError> {
    match reader.u8("a reason")? {
        NOT_REFUSED => Ok(None),
        number => Reason::of_number(number).map(Some).ok_or(WireError { reading: "a reason" }),
    }
}

impl MemberOptions {
    fn read(reader: &mut WireReader<'_>) -> Result<Self, WireError> {
        Ok(Self { options: reader.u8("options")?, subscription_id: reader.u32("a subscription identifier")? })
    }
}

/// The kind of [`Record::Publish`], which nearly all records are.
pub(crate) const PUBLISH_KIND: u8 = 1;

impl<'a> Record<'a> {
    /// The envelope within, if there is one.
    #[inline]
    pub(crate) fn envelope(&self) -> Option<&Envelope<'a>> {
        match self {
            Self::Publish(envelope)
            | Self::RetainedItem { envelope, .. }
            | Self::Deal { envelope, .. }
            | Self::Return { envelope, .. } => Some(envelope),
            _ => None,
        }
    }

    /// The ticket under which an answer is awaited, and whether it is about interest.
    pub(super) fn awaits(&self) -> Option<Awaited> {
        let (ticket, interest) = match self {
            Self::Interest { ticket, .. } => (*ticket, true),
            Self::InterestBarrier { ticket } => (Some(*ticket), true),
            Self::GroupJoin { ticket, .. } => (*ticket, false),
            other => (other.envelope().and_then(|envelope| envelope.ticket), false),
        };
        ticket.map(|ticket| Awaited { ticket, interest })
    }

    /// Appends the record.
    #[inline]
    pub(crate) fn write(&mut self, head: BatchHead, out: &mut Vec<u8>, shared: &mut Vec<Arc<[u8]>>) {
        match self {
            Self::Publish(envelope) => {
                out.put_u8(PUBLISH_KIND);
                envelope.write(head, out, shared);
            }
            Self::Confirm { ticket, refused, promises } => {
                out.put_u8(2);
                put_ticket(out, Some(*ticket));
                out.put_u8(refused.map_or(NOT_REFUSED, |reason| reason as u8));
                out.put_u8(u8::from(*promises));
            }
            other => other.write_rare(head, out, shared),
        }
    }

    fn write_rare(&mut self, head: BatchHead, out: &mut Vec<u8>, shared: &mut Vec<Arc<[u8]>>) {
        match self {
            Self::Publish(_) | Self::Confirm { .. } => {}
            Self::Interest { tenant, filter, present, ticket } => {
                out.put_u8(3);
                out.put_u16(tenant.0);
                out.put_bytes(filter.as_bytes());
                out.put_u8(u8::from(*present));
                put_ticket(out, *ticket);
            }
            Self::RetainedQuery { fetch, tenant, filter, after } => {
                out.put_u8(4);
                out.put_u32(*fetch);
                out.put_u16(tenant.0);
                out.put_bytes(filter.as_bytes());
                out.put_bytes(after.as_bytes());
            }
            Self::RetainedItem { fetch, envelope } => {
                out.put_u8(5);
                out.put_u32(*fetch);
                envelope.write(head, out, shared);
            }
            Self::RetainedEnd { fetch, after } => {
                out.put_u8(6);
                out.put_u32(*fetch);
                out.put_bytes(after.as_bytes());
            }
            Self::InterestBarrier { ticket } => put_awaited(out, 19, *ticket),
            Self::InterestSeen { ticket } => put_awaited(out, 15, *ticket),
            Self::InterestRefused { ticket, filter, code } => {
                put_awaited(out, 43, *ticket);
                out.put_bytes(filter.as_bytes());
                out.put_u8(code.byte());
            }
            Self::Park { connection } => put_waiting(out, 12, *connection),
            Self::Unpark { connection } => put_waiting(out, 13, *connection),
            Self::GiveUp { connection } => put_waiting(out, 16, *connection),
            Self::SysQuery { round } => {
                out.put_u8(17);
                out.put_u32(*round);
            }
            Self::SysReport { round, values } => {
                out.put_u8(18);
                out.put_u32(*round);
                out.put_bytes(values);
            }
            Self::Credit { bytes } => {
                out.put_u8(14);
                out.put_u64(*bytes);
            }
            Self::Reserve { .. } | Self::Reserved { .. } | Self::Commit { .. } | Self::Release { .. } => {
                self.write_reservation(out);
            }
            Self::Crossing { .. } | Self::Crossed { .. } | Self::Replayed => self.write_crossing(out),
            Self::Dealt { id } => put_numbered(out, 23, *id),
            Self::Mark { number } => put_numbered(out, 41, *number),
            Self::Marked { number } => put_numbered(out, 42, *number),
            Self::Transfer(word) => word.write(out),
            Self::Dealing(word) => word.write(out),
            Self::Fleet(word) => word.write(out),
            Self::Exchange(word) => word.write(out),
            group => group.write_group(head, out, shared),
        }
    }

    fn write_reservation(&self, out: &mut Vec<u8>) {
        match self {
            Self::Reserve { number, tenant, topic, qos, cost, waits } => {
                out.put_u8(30);
                out.put_u32(*number);
                out.put_u16(tenant.0);
                out.put_bytes(topic.as_bytes());
                out.put_u8(qos.bits());
                out.put_u64(*cost);
                put_connection(out, *waits);
            }
            Self::Reserved { number, full } => {
                out.put_u8(31);
                out.put_u32(*number);
                out.put_u32(*full);
            }
            Self::Commit { number } => {
                out.put_u8(32);
                out.put_u32(*number);
            }
            Self::Release { number } => {
                out.put_u8(33);
                out.put_u32(*number);
            }
            _ => {}
        }
    }

    fn write_crossing(&self, out: &mut Vec<u8>) {
        match self {
            Self::Crossing { number } => put_numbered(out, 20, *number),
            Self::Crossed { number } => put_numbered(out, 21, *number),
            Self::Replayed => out.put_u8(22),
            _ => {}
        }
    }

    fn write_group(&mut self, head: BatchHead, out: &mut Vec<u8>, shared: &mut Vec<Arc<[u8]>>) {
        match self {
            Self::GroupJoin { group, session, client, member, ticket } => {
                out.put_u8(7);
                put_group(out, group);
                out.put_u32(*session);
                out.put_u64(*client);
                put_member(out, *member);
                put_ticket(out, *ticket);
            }
            Self::Counted { number, counts } => {
                out.put_u8(60);
                out.put_u64(*number);
                counts.write(out);
            }
            Self::GroupLeave { group, session } => {
                out.put_u8(8);
                put_group(out, group);
                out.put_u32(*session);
            }
            Self::GroupPresence { group, session, online } => {
                out.put_u8(9);
                put_group(out, group);
                out.put_u32(*session);
                out.put_u8(u8::from(*online));
            }
            Self::GroupExists { group } => {
                out.put_u8(24);
                put_group(out, group);
            }
            Self::Deal { session, client, group, member, insists, id, envelope } => {
                out.put_u8(10);
                out.put_u32(*session);
                out.put_u64(*client);
                put_group(out, group);
                put_member(out, *member);
                out.put_u8(u8::from(*insists));
                out.put_u64(*id);
                envelope.write(head, out, shared);
            }
            Self::Return { group, not_to, of, id, client, envelope } => {
                out.put_u8(11);
                put_group(out, group);
                out.put_u32(*not_to);
                out.put_u64(*of);
                out.put_u64(*id);
                out.put_u64(*client);
                envelope.write(head, out, shared);
            }
            _ => {}
        }
    }

    /// Reads the next record.
    #[inline]
    pub(crate) fn read(
        head: &mut ReadHead,
        reader: &mut WireReader<'a>,
        shared: &mut std::slice::Iter<'a, Arc<[u8]>>,
    ) -> Result<Self, WireError> {
        match reader.u8("a record's kind")? {
            PUBLISH_KIND => Ok(Self::Publish(head.envelope(reader, shared)?)),
            2 => Ok(Self::Confirm {
                ticket: Ticket::read(reader)?,
                refused: read_refused(reader)?,
                promises: reader.flag("whether it promises")?,
            }),
            kind => Self::read_rare(kind, head, reader, shared),
        }
    }

    fn read_crossing(kind: u8, reader: &mut WireReader<'a>) -> Result<Self, WireError> {
        Ok(match kind {
            20 => Self::Crossing { number: reader.u64("a message's number")? },
            21 => Self::Crossed { number: reader.u64("a message's number")? },
            _ => Self::Replayed,
        })
    }

    fn read_reservation(kind: u8, reader: &mut WireReader<'a>) -> Result<Self, WireError> {
        Ok(match kind {
            30 => Self::Reserve {
                number: reader.u32("a reservation")?,
                tenant: TenantId(reader.u16("a tenant")?),
                topic: reader.text("a topic")?,
                qos: QoS::from_bits(reader.u8("a QoS")?).ok_or(WireError { reading: "a QoS" })?,
                cost: reader.u64("a cost")?,
                waits: ConnectionKey::read_optional(reader)?,
            },
            31 => Self::Reserved { number: reader.u32("a reservation")?, full: reader.u32("a number of queues")? },
            32 => Self::Commit { number: reader.u32("a reservation")? },
            _ => Self::Release { number: reader.u32("a reservation")? },
        })
    }

    fn read_dealt(
        kind: u8,
        head: &mut ReadHead,
        reader: &mut WireReader<'a>,
        shared: &mut std::slice::Iter<'a, Arc<[u8]>>,
    ) -> Result<Self, WireError> {
        Ok(match kind {
            10 => Self::Deal {
                session: reader.u32("a session")?,
                client: reader.u64("a client")?,
                group: GroupName::read(reader)?,
                member: MemberOptions::read(reader)?,
                insists: reader.u8("a flag")? != 0,
                id: reader.u64("a deal")?,
                envelope: head.envelope(reader, shared)?,
            },
            _ => Self::Return {
                group: GroupName::read(reader)?,
                not_to: reader.u32("a session")?,
                of: reader.u64("a deal")?,
                id: reader.u64("a deal")?,
                client: reader.u64("a client")?,
                envelope: head.envelope(reader, shared)?,
            },
        })
    }

    fn read_rare(
        kind: u8,
        head: &mut ReadHead,
        reader: &mut WireReader<'a>,
        shared: &mut std::slice::Iter<'a, Arc<[u8]>>,
    ) -> Result<Self, WireError> {
        Ok(match kind {
            3 => Self::Interest {
                tenant: TenantId(reader.u16("a tenant")?),
                filter: reader.text("a topic filter")?,
                present: reader.u8("a flag")? != 0,
                ticket: Ticket::read_optional(reader)?,
            },
            4 => Self::RetainedQuery {
                fetch: reader.u32("a fetch")?,
                tenant: TenantId(reader.u16("a tenant")?),
                filter: reader.text("a topic filter")?,
                after: reader.text("a cursor")?,
            },
            5 => Self::RetainedItem { fetch: reader.u32("a fetch")?, envelope: head.envelope(reader, shared)? },
            6 => Self::RetainedEnd { fetch: reader.u32("a fetch")?, after: reader.text("a cursor")? },
            7 => Self::GroupJoin {
                group: GroupName::read(reader)?,
                session: reader.u32("a session")?,
                client: reader.u64("a client")?,
                member: MemberOptions::read(reader)?,
                ticket: Ticket::read_optional(reader)?,
            },
            8 => Self::GroupLeave { group: GroupName::read(reader)?, session: reader.u32("a session")? },
            9 => Self::GroupPresence {
                group: GroupName::read(reader)?,
                session: reader.u32("a session")?,
                online: reader.u8("a flag")? != 0,
            },
            10 | 11 => Self::read_dealt(kind, head, reader, shared)?,
            12 => Self::Park { connection: ConnectionKey::read(reader)? },
            13 => Self::Unpark { connection: ConnectionKey::read(reader)? },
            FLEET_KIND => Self::Fleet(FleetWord::read(reader)?),
            19 => Self::InterestBarrier { ticket: Ticket::read(reader)? },
            15 => Self::InterestSeen { ticket: Ticket::read(reader)? },
            16 => Self::GiveUp { connection: ConnectionKey::read(reader)? },
            17 => Self::SysQuery { round: reader.u32("a round")? },
            18 => Self::SysReport { round: reader.u32("a round")?, values: reader.bytes("numbers")? },
            20..=22 => Self::read_crossing(kind, reader)?,
            23 => Self::Dealt { id: reader.u64("a deal")? },
            24 => Self::GroupExists { group: GroupName::read(reader)? },
            30..=33 => Self::read_reservation(kind, reader)?,
            43 => Self::InterestRefused {
                ticket: Ticket::read(reader)?,
                filter: reader.text("a topic filter")?,
                code: read_code(reader)?,
            },
            TRANSFER_KIND => Self::Transfer(Box::new(TransferWord::read(reader)?)),
            DEALING_KIND => Self::Dealing(Box::new(DealingWord::read(reader)?)),
            EXCHANGE_KIND => Self::Exchange(Box::new(ExchangeWord::read(reader)?)),
            41 => Self::Mark { number: reader.u64("a mark")? },
            42 => Self::Marked { number: reader.u64("a mark")? },
            60 => Self::Counted { number: reader.u64("a message's number")?, counts: Counts::read(reader)? },
            14 => Self::Credit { bytes: reader.u64("a credit")? },
            _ => return Err(WireError { reading: "a record of a known kind" }),
        })
    }
}

mod put;

#[cfg(test)]
mod tests;
