//! The end of a long queue in the image of its session: it names messages that the new home has already.

use std::rc::Rc;

use crate::ids::{PartitionId, TenantId};
use crate::journal::Journal;
use crate::now::Now;
use crate::records::image::{put_delivery, read_delivery};
use crate::session::tail::runs::Runs;
use crate::session::tail::{AdoptedPlace, Tail, bounded};
use crate::session::{Delivery, Flow, Membership, Session};
use crate::wire::{WireError, WireReader, WireWrite};

/// The part of a queue that is at the new home before its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentAhead {
    /// The move.
    pub transfer: u64,
    /// The partition of its client.
    pub partition: PartitionId,
    /// The number of its session in this store.
    pub session: u64,
    /// The number of its last message there.
    pub last: u64,
}

impl SentAhead {
    /// Whether the new home has all messages of the tail but the newest, which are in memory as well.
    pub(crate) fn covers(&self, tail: &Tail) -> bool {
        tail.last <= self.last || tail.first_copy().is_some_and(|first| first <= self.last.saturating_add(1))
    }
}

/// The end of a queue as an image has it.
#[derive(Debug, Default)]
pub(crate) struct TailImage {
    /// The move that has brought the messages.
    pub(super) transfer: u64,
    /// The number of the session in the store of the old home.
    pub(super) session: u64,
    /// The number of the last message that the new home has.
    pub(super) last: u64,
    /// These messages.
    pub(super) tail: Tail,
    /// Later ones, each with its number.
    later: Vec<Delivery>,
    /// The last number that the session has given.
    next_number: u64,
    mailbox_from: u64,
    /// The numbers of the messages in flight and in the queue before the end.
    in_flight: Vec<u64>,
    queued: Vec<u64>,
}

/// Writes the end of the queue of a session, if `sent` says that the new home has it.
pub(crate) fn put_tail(out: &mut Vec<u8>, now: Now, flow: Option<&Flow>, sent: Option<&SentAhead>) {
    let Some((flow, tail, sent)) = flow.and_then(|flow| Some((flow, flow.tail.as_deref()?, sent?))) else {
        return out.put_u8(0);
    };
    out.put_u8(1);
    let later = || tail.copied_messages().filter(|delivery| delivery.number > sent.last);
    let (messages, bytes) = later().fold((0u32, 0), |(messages, bytes), it| (messages + 1, bytes + it.cost()));
    for number in [
        sent.transfer,
        sent.session,
        sent.last,
        tail.first,
        tail.messages.saturating_sub(messages.into()),
        tail.bytes.saturating_sub(bytes),
        flow.next_number,
        flow.mailbox_from,
    ] {
        out.put_u64(number);
    }
    tail.runs.write(out, now);
    let in_flight: Vec<u64> =
        flow.inflight.iter().filter(|entry| entry.is_whole()).map(|entry| entry.item.numbers.entry).collect();
    let queued: Vec<u64> = flow.queue.iter().map(|delivery| delivery.number).collect();
    for numbers in [in_flight, queued] {
        out.put_u32(numbers.len() as u32);
        for number in numbers {
            out.put_u64(number);
        }
    }
    out.put_u32(messages);
    for delivery in later() {
        out.put_u64(delivery.number);
        put_delivery(out, now, delivery);
    }
}

impl TailImage {
    /// Reads the end of a queue, if the image has one.
    pub(super) fn read(
        reader: &mut WireReader<'_>,
        now: Now,
        tenant: TenantId,
        memberships: &[Rc<Membership>],
    ) -> Result<Option<Self>, WireError> {
        if !reader.flag("whether the end of the queue was sent before")? {
            return Ok(None);
        }
        let (transfer, session) = (reader.u64("a move")?, reader.u64("a session's number")?);
        let mut number = || reader.u64("a number of the end of a queue").and_then(bounded);
        let last = number()?;
        let (first, messages, bytes) = (number()?, number()?, number()?);
        let (next_number, mailbox_from) = (number()?, number()?);
        let runs = Runs::read(reader, now)?;
        let (in_flight, queued) = (Self::read_numbers(reader)?, Self::read_numbers(reader)?);
        let mut later: Vec<Delivery> = Vec::new();
        for _ in 0..reader.u32("a number of messages")? {
            let number = reader.u64("a message's number")?;
            let before = later.last().map_or(last, |before| before.number);
            if number <= before || number > next_number {
                return Err(WireError { reading: "the number of a message behind the others" });
            }
            later.push(Delivery { number, ..read_delivery(reader, now, tenant, memberships)? });
        }
        let mut tail = Tail::beginning_at(first);
        (tail.messages, tail.bytes, tail.last, tail.runs) = (messages, bytes, last, runs);
        Ok(Some(Self { transfer, session, last, tail, later, next_number, mailbox_from, in_flight, queued }))
    }

    fn read_numbers(reader: &mut WireReader<'_>) -> Result<Vec<u64>, WireError> {
        let mut numbers = Vec::new();
        for _ in 0..reader.u32("a number of messages")? {
            numbers.push(bounded(reader.u64("a message's number")?)?);
        }
        Ok(numbers)
    }

    /// The numbers of the messages that the image brings itself, before the end of the queue or between its messages.
    pub(super) fn brought(&self) -> impl Iterator<Item = u64> {
        self.in_flight.iter().chain(&self.queued).copied().filter(|number| *number != 0)
    }

    /// Whether its numbers are for all messages of a session that was read.
    pub(super) fn fits(&self, session: &Session) -> bool {
        let flow = session.flow.as_deref();
        let (in_flight, queued) = flow.map_or((0, 0), |flow| (flow.inflight.len(), flow.queue.len()));
        in_flight == self.in_flight.len() && queued == self.queued.len() && self.last <= self.next_number
    }

    /// Becomes a part of its session, whose number in the store is known.
    pub(super) fn join(self, journal: &mut Journal, session: &mut Session) {
        let Self { mut tail, later, next_number, mailbox_from, in_flight, queued, .. } = self;
        let stored = session.stored;
        let flow = session.flow_mut();
        (flow.next_number, flow.mailbox_from) = (next_number, mailbox_from);
        let sent: Vec<_> = flow.inflight.drain().collect();
        for (mut entry, number) in sent.into_iter().zip(in_flight) {
            entry.item.numbers.entry = number;
            flow.inflight.push_entry(entry);
        }
        let waiting = std::mem::take(&mut flow.queue).into_iter().zip(queued);
        flow.queue = waiting.map(|(delivery, number)| Delivery { number, ..delivery }).collect();
        for delivery in later {
            // Its expiry is among the runs already.
            tail.count_in(delivery.number, delivery.cost());
            if let Some(stored) = stored {
                journal.put_adopted(stored, &delivery, AdoptedPlace::Queue);
            }
        }
        tail.batch = journal.sequence();
        flow.tail = (tail.messages > 0).then(|| Box::new(tail));
    }
}
