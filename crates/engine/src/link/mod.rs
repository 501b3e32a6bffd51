//! Links between shards: records gathered into batches, with a bound on the records in transit.
//!
//! A shard never waits for another. Records for other shards are gathered during a turn and handed over as one batch
//! each. Records in transit to a shard are bounded by parking the publishers that cause them, never by refusing to read
//! an inbox, so that no two inboxes can wait for each other.

pub(crate) mod awaited;
mod between_nodes;
pub(crate) mod counts;
pub(crate) mod dealing_word;
pub(crate) mod envelope;
pub(crate) mod exchange_word;
pub(crate) mod fleet_word;
pub(crate) mod got;
mod group_text;
mod marks;
pub(crate) mod promised;
pub(crate) mod record;
pub(crate) mod transfer_word;

use crate::roster::Roster;
use crate::roster::Shards;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use crate::ids::{ConnectionKey, MAX_SHARDS, ShardId, ShardPosition};
use crate::message::Publication;
use crate::now::Millis;
use awaited::{Awaited, AwaitedAnswers};
use envelope::{BatchHead, Passage, Ticket};
use exchange_word::ExchangeWord;
use marks::SentMarks;
use promised::PromisedAnswers;
use record::{PUBLISH_KIND, Record};

/// Records for one shard from one other.
#[derive(Debug)]
pub struct Batch {
    /// The shard that wrote it.
    pub from: ShardId,
    pub(crate) head: BatchHead,
    pub(crate) bytes: Vec<u8>,
    pub(crate) shared: Vec<Arc<[u8]>>,
    /// Bytes that count as under way until the receiver has worked them off: all but the credit that the batch brings
    /// itself, or two shards at rest would pass credit for credit back and forth for ever.
    pub(crate) cost: u64,
    /// Messages in it.
    messages: u32,
    /// True if a record in it may promise an effect that is not committed.
    promises: bool,
    /// Empty buffers of earlier batches on their way back to where they were allocated.
    spares: Vec<Vec<u8>>,
    pub(crate) position: BatchPosition,
}

/// How far a batch is read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BatchPosition {
    pub(crate) bytes: usize,
    /// Payloads of [`Batch::shared`].
    pub(crate) shared: usize,
    pub(crate) envelopes: u64,
}

impl Batch {
    /// True if all of its records were read.
    pub(crate) fn is_read(&self) -> bool {
        self.position.bytes == self.bytes.len()
    }

    /// Number of its application messages, with the messages that bring a retained value.
    pub fn messages(&self) -> u32 {
        self.messages
    }

    /// Bytes that it holds, shared payloads included.
    pub fn bytes_len(&self) -> usize {
        self.bytes.len() + self.shared.iter().map(|payload| payload.len()).sum::<usize>()
    }
}

/// This shard's end of the link to one other.
#[derive(Debug, Default)]
pub(crate) struct Link {
    head: BatchHead,
    bytes: Vec<u8>,
    shared: Vec<Arc<[u8]>>,
    shared_bytes: u64,
    /// Envelopes in the present batch.
    envelopes: u32,
    /// True if a record in the present batch may promise an effect that is not committed.
    promises: bool,
    /// Sequence of the next envelope.
    next_sequence: u64,
    /// Sequence that the next envelope of the other side has at least.
    expected: u64,
    /// Bytes handed over and not yet worked off by the other side.
    under_way: u64,
    /// Bytes of the other's batches that were processed here and not reported yet.
    owed_credit: u64,
    /// Publishers that wait until less is under way, each once.
    waiting: BTreeSet<ConnectionKey>,
    /// Empty buffers for the next batches.
    own: Vec<Vec<u8>>,
    /// Empty buffers that belong to the other side.
    others: Vec<Vec<u8>>,
    /// Requests that a shard of another node has not answered.
    awaited: AwaitedAnswers,
}

/// Buffers kept per link and side; more are freed.
const SPARE_BUFFERS: usize = 8;
/// A buffer that grew beyond this is freed.
const SPARE_BUFFER_BYTES: usize = 1024 * 1024;
/// A batch of this size is worth handing over before the turn is over.
const BATCH_BYTES: usize = 64 * 1024;

/// Interest of another shard that was noted and is not confirmed yet.
#[derive(Clone, Copy, Debug)]
struct Noted {
    shard: ShardId,
    ticket: Ticket,
    /// Shards with records gathered before the present record and not handed over.
    before: Shards,
    /// The mark that other nodes have to give back first.
    mark: u64,
}

/// All links of a shard, by the other's number.
#[derive(Debug)]
pub(crate) struct Links {
    pub(crate) place: ShardPosition,
    /// All shards, and the partitions of each.
    pub(crate) roster: Roster,
    /// The shards of other nodes that a link is open to.
    peers: Shards,
    by_shard: Vec<Link>,
    /// Bytes under way to one shard beyond which its publishers wait.
    limit: u64,
    /// Worked-off bytes that are reported even when nothing else is to be sent.
    credit_step: u64,
    /// Whether some batch has reached [`BATCH_BYTES`].
    due: bool,
    /// Interest that was noted and is confirmed once everything else is handed over.
    noted: Vec<Noted>,
    marks: SentMarks,
    promised: PromisedAnswers,
    /// The name of the message that is being sent.
    pub(crate) exchange: Option<ExchangeWord>,
}

impl Links {
    pub(crate) fn new(place: ShardPosition, limit: u64) -> Self {
        let by_shard = (0..place.shards).map(|_| Link::default()).collect();
        Self {
            place,
            roster: Roster::alone(place),
            peers: Shards::default(),
            by_shard,
            limit,
            credit_step: (limit / 4).clamp(1, CREDIT_STEP_MAX),
            due: false,
            noted: Vec::new(),
            marks: SentMarks::default(),
            promised: PromisedAnswers::new(),
            exchange: None,
        }
    }

    /// Confirms to `shard` that its interest was noted, once everything that was sent before is handed over to all
    /// shards.
    ///
    /// The receiver then asks the homes of topics for retained messages. The values that this shard has sent there must
    /// arrive first, or the receiver would be given a replaced value.
    pub(crate) fn confirm_interest(&mut self, shard: ShardId, ticket: Ticket) {
        if self.place.shards == 2 && self.peers == Shards::default() {
            // The home is here or there; one link keeps the order without help.
            self.send(shard, Record::InterestSeen { ticket });
            return;
        }
        if shard.0 >= self.place.shards && !self.peers.has(shard) {
            // The link has ended: no batch would take the confirmation.
            return;
        }
        let (mark, to) = self.marks.set();
        for peer in to {
            self.send(peer, Record::Mark { number: mark });
        }
        let gathered = self.by_shard.iter().enumerate().filter(|(_, link)| !link.bytes.is_empty());
        let gathered = Shards(gathered.fold(0, |bits, (at, _)| bits | 1u64 << at));
        let before = gathered.without(self.peers).without(Shards::of(shard));
        self.noted.push(Noted { shard, ticket, before, mark });
    }

    /// Whether confirmations of interest wait only for the rest of a batch to be taken.
    #[inline]
    pub(crate) fn has_noted(&self) -> bool {
        self.noted.iter().any(|noted| self.marks.are_back(noted.mark, noted.shard))
    }

    /// All that was sent to a shard of another node before this mark has arrived.
    pub(crate) fn marked(&mut self, shard: ShardId, number: u64) {
        self.marks.take_back(shard, number);
    }

    /// A shard has sent an awaited answer. Returns the waiter's ticket.
    #[inline]
    pub(crate) fn answered(&mut self, shard: ShardId, ticket: Ticket, interest: bool) -> Ticket {
        if self.peers.has(shard)
            && let Some(link) = self.link(shard)
        {
            return link.awaited.remove(Awaited { ticket, interest }).unwrap_or(ticket);
        }
        ticket
    }

    /// Moves the pending answers of other nodes from one ticket to another. Returns the number of answers to wait
    /// for.
    pub(crate) fn pass_on(&mut self, ticket: Ticket, heir: Ticket) -> u32 {
        let mut owed = 0;
        for peer in self.peers {
            owed += u32::from(self.link(peer).is_some_and(|link| link.awaited.pass_on(ticket, heir)));
        }
        owed
    }

    /// Begins a link to a shard of another node.
    pub(crate) fn open(&mut self, peer: ShardId) {
        if peer.0 < self.place.shards || peer.0 >= MAX_SHARDS {
            return;
        }
        let at = usize::from(peer.0);
        if at >= self.by_shard.len() {
            self.by_shard.resize_with(at + 1, Link::default);
        }
        self.by_shard[at] = Link::default();
        self.peers.add(peer);
    }

    /// Ends the link to a shard of another node. Returns the publishers that waited for it, and the answers that it
    /// owes.
    pub(crate) fn close(&mut self, peer: ShardId) -> (BTreeSet<ConnectionKey>, VecDeque<Awaited>) {
        self.peers = self.peers.without(Shards::of(peer));
        self.noted.retain(|noted| noted.shard != peer);
        self.promised.retain(|(_, shard, _)| *shard != peer);
        self.marks.forget(peer);
        let Some(link) = self.by_shard.get_mut(usize::from(peer.0)) else { return Default::default() };
        let mut gone = std::mem::take(link);
        (gone.waiting, gone.awaited.take().collect())
    }

    /// Appends the confirmations for `shard` that have no earlier records to wait for. The records for `shard` itself
    /// are about to be handed over, so that no confirmation for others waits for them.
    fn append_noted(&mut self, shard: ShardId) {
        if self.noted.is_empty() {
            return;
        }
        for mut noted in std::mem::take(&mut self.noted) {
            noted.before = noted.before.without(Shards::of(shard));
            let is_next = noted.before == Shards::default() && self.marks.are_back(noted.mark, noted.shard);
            if noted.shard == shard && is_next {
                self.send(shard, Record::InterestSeen { ticket: noted.ticket });
            } else {
                self.noted.push(noted);
            }
        }
    }

    fn link(&mut self, shard: ShardId) -> Option<&mut Link> {
        debug_assert_ne!(shard, self.place.shard, "a shard has no link to itself");
        let open = shard.0 < self.place.shards || self.peers.has(shard);
        self.by_shard.get_mut(usize::from(shard.0)).filter(|_| open)
    }

    /// Appends a record for `shard` that may promise an effect that is written and not committed.
    pub(crate) fn send(&mut self, shard: ShardId, record: Record<'_>) {
        self.note_promise(shard);
        self.send_now(shard, record);
    }

    fn note_promise(&mut self, shard: ShardId) {
        if let Some(link) = self.link(shard) {
            link.promises = true;
        }
    }

    /// Appends a record for `shard` without a promise.
    pub(crate) fn send_now(&mut self, shard: ShardId, mut record: Record<'_>) {
        let entered_at = record.envelope().map(|envelope| envelope.entered_at);
        if self.peers.has(shard)
            && let (Some(awaited), Some(link)) = (record.awaits(), self.link(shard))
        {
            link.awaited.add(awaited);
        }
        self.append(shard, entered_at, |head, bytes, shared| record.write(head, bytes, shared));
    }

    /// Appends an application message for `shard`: the bytes of [`Record::Publish`], without building one. `promises`
    /// is true if this shard must remember having sent it.
    #[inline]
    pub(crate) fn send_publish(
        &mut self,
        shard: ShardId,
        passage: &Passage,
        publication: &mut Publication<'_>,
        promises: bool,
    ) {
        if promises {
            self.note_promise(shard);
        }
        if let Some(ticket) = passage.ticket.filter(|_| self.peers.has(shard))
            && let Some(link) = self.link(shard)
        {
            link.awaited.add(Awaited { ticket, interest: false });
        }
        // Also a shard of this process: it may be about to take in sessions that have got the message at a node that is
        // dead by then.
        if let Some(word) = self.exchange {
            self.append(shard, None, |_, bytes, _| word.write(bytes));
        }
        self.append(shard, Some(passage.entered_at), |head, bytes, shared| {
            bytes.push(PUBLISH_KIND);
            passage.write(publication, head, bytes, shared);
        });
    }

    /// Tells `shard` under which number the message that was appended last is stored until it has arrived, if it is.
    #[inline]
    pub(crate) fn send_crossing(&mut self, shard: ShardId, number: Option<u64>) {
        if let Some(number) = number {
            self.send(shard, Record::Crossing { number });
        }
    }

    /// Appends something for `shard`, with an envelope if `entered_at` is given.
    #[inline]
    fn append(
        &mut self,
        shard: ShardId,
        entered_at: Option<Millis>,
        write: impl FnOnce(BatchHead, &mut Vec<u8>, &mut Vec<Arc<[u8]>>),
    ) {
        let from = self.place.shard;
        if entered_at.is_some() && self.peers.has(shard) {
            self.marks.note_message(shard);
        }
        let Some(link) = self.link(shard) else { return };
        if link.bytes.capacity() == 0 {
            link.bytes = link.own.pop().unwrap_or_default();
        }
        if let Some(opened_at) = entered_at {
            if link.envelopes == 0 {
                link.head = BatchHead { from, opened_at, first_sequence: link.next_sequence, foreign: None };
            }
            link.envelopes += 1;
            link.next_sequence += 1;
        }
        let before = link.shared.len();
        write(link.head, &mut link.bytes, &mut link.shared);
        for payload in &link.shared[before..] {
            link.shared_bytes += payload.len() as u64;
        }
        if link.bytes.len() >= BATCH_BYTES {
            self.due = true;
        }
    }

    /// Whether some batch should be taken now: it is large, or everything before it has been taken.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.due || self.has_noted()
    }

    /// Whether more is under way to `shard` than its limit.
    #[inline]
    pub(crate) fn is_full(&self, shard: ShardId) -> bool {
        self.by_shard
            .get(usize::from(shard.0))
            .is_some_and(|link| link.under_way + link.bytes.len() as u64 + link.shared_bytes > self.limit)
    }

    /// Notes a publisher that waits for the link to drain. Returns true if it was not waiting before and will be
    /// notified.
    pub(crate) fn wait(&mut self, shard: ShardId, publisher: ConnectionKey) -> bool {
        self.link(shard).is_some_and(|link| link.waiting.insert(publisher))
    }

    /// Whether a publisher waits for some link.
    pub(crate) fn holds(&self, publisher: ConnectionKey) -> bool {
        self.by_shard.iter().any(|link| link.waiting.contains(&publisher))
    }

    /// A publisher waits for no link any longer.
    pub(crate) fn forget_waiting(&mut self, publisher: ConnectionKey) {
        for link in &mut self.by_shard {
            link.waiting.remove(&publisher);
        }
    }

    /// Takes the records gathered for `shard`.
    pub(crate) fn take_batch(&mut self, shard: ShardId) -> Option<Batch> {
        let from = self.place.shard;
        if shard == from {
            return None;
        }
        self.due = false;
        self.append_noted(shard);
        let credit_step = self.credit_step;
        let link = self.link(shard)?;
        let cost = link.bytes.len() as u64 + link.shared_bytes;
        // Credit alone is not worth a wake-up of the other side until a good part of its limit is owed.
        let credit_due = link.owed_credit > 0 && (cost > 0 || link.owed_credit >= credit_step);
        if credit_due {
            let bytes = std::mem::take(&mut link.owed_credit);
            Record::Credit { bytes }.write(link.head, &mut link.bytes, &mut link.shared);
        }
        if link.bytes.is_empty() {
            return None;
        }
        let messages = std::mem::take(&mut link.envelopes);
        let promises = std::mem::take(&mut link.promises);
        link.shared_bytes = 0;
        link.under_way += cost;
        Some(Batch {
            from,
            head: link.head,
            bytes: std::mem::take(&mut link.bytes),
            shared: std::mem::take(&mut link.shared),
            cost,
            messages,
            promises,
            spares: std::mem::take(&mut link.others),
            position: BatchPosition::default(),
        })
    }

    /// Takes back the buffers of a batch from `shard`: own ones, and the batch's own buffer once it is processed.
    pub(crate) fn recycle(&mut self, shard: ShardId, batch: Batch) {
        // A batch from another node was allocated here.
        let foreign = self.peers.has(shard);
        let Some(link) = self.link(shard) else { return };
        let room = SPARE_BUFFERS.saturating_sub(link.own.len());
        link.own.extend(batch.spares.into_iter().take(room));
        let mut buffer = batch.bytes;
        if !foreign && link.others.len() < SPARE_BUFFERS && buffer.capacity() <= SPARE_BUFFER_BYTES {
            buffer.clear();
            link.others.push(buffer);
        }
    }

    /// Gives memory back after a peak.
    pub(crate) fn shrink(&mut self) {
        for link in &mut self.by_shard {
            link.own = Vec::new();
            link.others = Vec::new();
        }
    }

    /// Whether an envelope from `shard` is new; a lower sequence than the last one's is a repetition.
    #[inline]
    pub(crate) fn is_new(&mut self, shard: ShardId, sequence: u64) -> bool {
        let Some(link) = self.link(shard) else { return false };
        let new = sequence >= link.expected;
        if new {
            link.expected = sequence + 1;
        }
        new
    }

    /// Notes that a batch of this cost from `shard` is worked off.
    pub(crate) fn worked_off(&mut self, shard: ShardId, cost: u64) {
        if let Some(link) = self.link(shard) {
            link.owed_credit += cost;
        }
    }

    /// The other side worked off `bytes`; returns the publishers that may go on.
    pub(crate) fn credit(&mut self, shard: ShardId, bytes: u64) -> BTreeSet<ConnectionKey> {
        let limit = self.limit;
        let Some(link) = self.link(shard) else { return BTreeSet::new() };
        link.under_way = link.under_way.saturating_sub(bytes);
        if link.under_way <= limit / 2 { std::mem::take(&mut link.waiting) } else { BTreeSet::new() }
    }

    /// Bytes gathered or under way on all links.
    pub(crate) fn bytes(&self) -> u64 {
        self.by_shard.iter().map(|link| link.under_way + link.bytes.len() as u64 + link.shared_bytes).sum()
    }
}

/// Largest amount of credit that may wait for other traffic to ride on.
const CREDIT_STEP_MAX: u64 = 256 * 1024;

#[cfg(test)]
mod tests;
