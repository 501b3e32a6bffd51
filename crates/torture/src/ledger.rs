//! The books: sent, acknowledged and delivered messages, and the resulting debts.
//!
//! One thread keeps them, so each event has one place in one order, the [`Clock`]. A message is *owed* to a
//! subscription when the subscription had been acknowledged before the message was first sent, the message was
//! acknowledged to its publisher, and the end of the subscription has not been requested since.

mod asked;
mod findings;
mod receipts;
mod retained;
mod trace;

pub(crate) use asked::{ReceiptArrival, Terms};
pub(crate) use findings::{CHECKS, Finding, Findings};
pub(crate) use retained::RetainedOperation;
pub(crate) use trace::Trace;

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;

use tidegate_mqtt::QoS;

use asked::AskedReceipts;
use receipts::Receipts;
use retained::RetainedTopic;

use crate::workload::{self, Kind, MessageId};

/// A place in the order of all that was seen.
pub(crate) type Clock = u64;

/// A subscription that a message is for, as it stood when the message was first sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Expectation {
    pub(crate) subscriber: u16,
    pub(crate) subscription: u16,
    /// Grows when the subscription is given up, which ends its debts.
    pub(crate) generation: u32,
}

/// How far a message has come with its publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Sent, and maybe sent again.
    Sent,
    /// PUBACK or PUBREC was received: it must not be lost.
    Acknowledged,
    /// The broker said no, or has forgotten the publisher's session: nothing is owed.
    Void,
}

/// A message under observation.
#[derive(Clone, Debug)]
struct Entry {
    topic: u32,
    qos: QoS,
    sent: Clock,
    progress: Progress,
    /// Set for a retained message.
    retained: Option<usize>,
    expected: Vec<Expectation>,
}

/// The messages of one publisher from the oldest under observation on.
#[derive(Clone, Debug, Default)]
struct Track {
    first: u32,
    entries: VecDeque<Entry>,
}

/// A message as its publisher sends it for the first time.
#[derive(Debug)]
pub(crate) struct Outgoing<'a> {
    pub(crate) id: MessageId,
    pub(crate) topic: &'a str,
    pub(crate) qos: QoS,
    /// The retained topic that it sets, and the operation.
    pub(crate) retained: Option<(usize, RetainedOperation)>,
    pub(crate) expected: Vec<Expectation>,
}

/// A message as a subscriber got it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) id: MessageId,
    pub(crate) subscriber: u16,
    /// The QoS that the subscription was granted.
    pub(crate) granted: QoS,
    /// When UNSUBACK came for the subscription, while it is ended.
    pub(crate) ended: Option<Clock>,
}

/// All books.
#[derive(Debug)]
pub(crate) struct Ledger {
    clock: Clock,
    tracks: Vec<Track>,
    topics: Topics,
    receipts: Receipts,
    retained: Vec<RetainedTopic>,
    /// Messages sent and not yet received, by their subscriptions.
    backlog: HashMap<Expectation, u64>,
    /// Declared lost, so that one loss counts once and a late arrival is recognised.
    lost: HashSet<(u16, MessageId)>,
    /// Whether order is promised: not where topics go from one broker of a fleet to another.
    pub(crate) keeps_order: bool,
    /// Per publisher, the numbers of QoS 2 messages that may come again: they were under way when the process of a bridge
    /// ended.
    repeatable: Vec<Range<u32>>,
    /// Messages that came to a guest of a group at QoS 1, and may come to a member as well; true once the accounts were
    /// settled since.
    at_guests: HashMap<MessageId, bool>,
    asked: AskedReceipts,
    pub(crate) findings: Findings,
    pub(crate) trace: Trace,
}

/// Names of topics as numbers.
#[derive(Debug, Default)]
struct Topics {
    numbers: HashMap<String, u32>,
    names: Vec<String>,
}

impl Topics {
    fn kind(&self, topic: u32) -> Kind {
        self.names.get(topic as usize).map_or(Kind::Lasting, |name| Kind::of(name))
    }

    fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }
}

impl Ledger {
    /// Empty books for these numbers of clients and retained topics.
    pub(crate) fn new(publishers: usize, subscribers: usize, retained: usize) -> Self {
        Self {
            clock: 0,
            tracks: vec![Track::default(); publishers],
            topics: Topics::default(),
            receipts: Receipts::new(subscribers, publishers),
            retained: vec![RetainedTopic::default(); retained],
            backlog: HashMap::new(),
            lost: HashSet::new(),
            keeps_order: true,
            repeatable: vec![0..0; publishers],
            at_guests: HashMap::new(),
            asked: AskedReceipts::default(),
            findings: Findings::default(),
            trace: Trace::default(),
        }
    }

    /// The next place in the order.
    pub(crate) fn tick(&mut self) -> Clock {
        self.clock += 1;
        self.clock
    }

    /// The largest number of messages that one subscriber has yet to receive.
    pub(crate) fn backlog(&self) -> u64 {
        let mut subscribers: HashMap<u16, u64> = HashMap::new();
        for (expectation, count) in &self.backlog {
            *subscribers.entry(expectation.subscriber).or_default() += count;
        }
        subscribers.into_values().max().unwrap_or(0)
    }

    /// A subscription is given up: nothing is owed to it any more.
    pub(crate) fn released(&mut self, expectation: Expectation) {
        self.backlog.remove(&expectation);
    }

    /// A message is sent for the first time. Numbers of a publisher come without a gap.
    pub(crate) fn sent(&mut self, outgoing: Outgoing<'_>) {
        let sent = self.tick();
        let topic = self.topics.number(outgoing.topic);
        if let Some((index, operation)) = outgoing.retained
            && let Some(retained) = self.retained.get_mut(index)
        {
            retained.sent(outgoing.id, operation);
        }
        for expectation in &outgoing.expected {
            *self.backlog.entry(*expectation).or_default() += 1;
        }
        let entry = Entry {
            topic,
            qos: outgoing.qos,
            sent,
            progress: Progress::Sent,
            retained: outgoing.retained.map(|(index, _)| index),
            expected: outgoing.expected,
        };
        self.tracks[usize::from(outgoing.id.publisher)].entries.push_back(entry);
        self.findings.totals.sent += 1;
        self.trace.note(topic, sent, outgoing.id, "sent", "");
    }

    /// PUBACK or PUBREC with success was received.
    pub(crate) fn acknowledged(&mut self, id: MessageId) {
        let clock = self.tick();
        self.owe_receipt(id);
        let Some(entry) = entry_mut(&mut self.tracks, id) else {
            return;
        };
        if entry.progress == Progress::Sent {
            entry.progress = Progress::Acknowledged;
            let totals = &mut self.findings.totals;
            let kind = self.topics.kind(entry.topic);
            let owed = match (kind, entry.qos) {
                (Kind::Will, _) => &mut totals.owed_wills,
                (Kind::Shared, _) => &mut totals.owed_groups,
                (_, QoS::ExactlyOnce) => &mut totals.owed_qos2,
                _ => &mut totals.owed_qos1,
            };
            *owed += entry.expected.len() as u64;
            match (kind, entry.qos) {
                (Kind::Will, _) => {}
                (_, QoS::ExactlyOnce) => totals.acknowledged_qos2 += 1,
                _ => totals.acknowledged_qos1 += 1,
            }
            let event = if kind == Kind::Will { "owed" } else { "acknowledged" };
            self.trace.note(entry.topic, clock, id, event, "");
        }
    }

    /// PUBACK or PUBCOMP was received: the broker has published the message.
    pub(crate) fn completed(&mut self, id: MessageId) {
        self.acknowledged(id);
        if let Some(index) = entry_mut(&mut self.tracks, id).and_then(|entry| entry.retained)
            && let Some(retained) = self.retained.get_mut(index)
        {
            retained.confirmed(id);
        }
    }

    /// The broker refused the message with a reason code.
    pub(crate) fn refused(&mut self, id: MessageId) {
        self.findings.totals.refused += 1;
        if let Some(index) = self.void(id, "refused").and_then(|entry| entry.retained)
            && let Some(retained) = self.retained.get_mut(index)
        {
            retained.refused(id);
        }
    }

    /// The publisher's session is gone, and with it the right to send the message again.
    pub(crate) fn abandoned(&mut self, id: MessageId) {
        self.void(id, "abandoned");
    }

    fn void(&mut self, id: MessageId, event: &'static str) -> Option<&mut Entry> {
        let clock = self.tick();
        self.asked.void(id);
        let entry = entry_mut(&mut self.tracks, id)?;
        // An acknowledged message stays owed, whatever happens to the publisher's session.
        if entry.progress == Progress::Sent {
            entry.progress = Progress::Void;
            for expectation in &entry.expected {
                lighten(&mut self.backlog, *expectation);
            }
        }
        self.trace.note(entry.topic, clock, id, event, "");
        Some(entry)
    }

    /// A subscriber has received a message, in a PUBLISH that its state says is new.
    pub(crate) fn delivered(&mut self, arrival: Arrival, topic: &str, subscriber: &str) {
        let clock = self.tick();
        let topic = self.topics.number(topic);
        let Arrival { id, subscriber: index, granted, ended } = arrival;
        self.findings.totals.delivered += 1;
        self.asked.arrived(id);
        self.trace.note(topic, clock, id, "delivered to", subscriber);
        let entry = entry_mut(&mut self.tracks, id);
        let qos = entry.as_ref().map(|entry| entry.qos);
        let is_guest = granted == QoS::AtLeastOnce && self.topics.kind(topic) == Kind::Shared;
        if let (Some(ended), Some(entry)) = (ended, &entry)
            && entry.sent > ended
        {
            self.found(Finding::Subscription, topic, id, subscriber, "came after UNSUBACK");
        }
        if !self.receipts.first(index, id) {
            // A publisher's messages that are settled have left the books; their QoS is that of their topic.
            let exactly_once = qos.map_or_else(|| self.is_exactly_once(topic), |qos| qos == QoS::ExactlyOnce);
            let kind = self.topics.kind(topic);
            let may_repeat = self.at_guests.contains_key(&id)
                || kind != Kind::Will
                    && self.repeatable.get(usize::from(id.publisher)).is_some_and(|range| range.contains(&id.number));
            if exactly_once && (granted == QoS::ExactlyOnce || is_guest) && !may_repeat {
                let finding = match kind {
                    Kind::Will => Finding::WillTwice,
                    Kind::Shared => Finding::GroupTwice,
                    _ => Finding::Twice,
                };
                self.found(finding, topic, id, subscriber, "came twice");
            } else {
                self.findings.totals.repeated += 1;
            }
            return;
        }
        if is_guest {
            self.at_guests.insert(id, false);
        }
        // A message sent again by right may meet a subscription that was not there the first time, and come late to it.
        let mut expected = false;
        if let Some(entry) = entry_mut(&mut self.tracks, id) {
            for expectation in entry.expected.iter().filter(|expectation| expectation.subscriber == index) {
                lighten(&mut self.backlog, *expectation);
                expected = true;
            }
        }
        if self.lost.remove(&(index, id)) {
            self.findings.totals.late += 1;
        }
        if self.topics.kind(topic).has_order() && !self.receipts.in_order(index, topic, id) && expected {
            if self.keeps_order {
                self.found(Finding::Order, topic, id, subscriber, "came after a later message");
            } else {
                self.findings.totals.reordered += 1;
            }
        }
    }

    /// A guest has acknowledged these messages, and its connection lived on until everything was finished: they may come to no
    /// other member.
    pub(crate) fn kept_by_guest(&mut self, ids: &[MessageId]) {
        for id in ids {
            self.at_guests.remove(id);
        }
    }

    /// The process of a bridge has ended: the messages sent since the accounts were settled last may come again.
    pub(crate) fn allow_repeats(&mut self) {
        for (range, track) in self.repeatable.iter_mut().zip(&self.tracks) {
            *range = track.first..track.first + track.entries.len() as u32;
        }
    }

    /// The messages that were allowed to come again have had their time.
    pub(crate) fn forbid_repeats(&mut self) {
        self.repeatable.fill(0..0);
    }

    fn is_exactly_once(&self, topic: u32) -> bool {
        self.topics.names.get(topic as usize).is_some_and(|name| workload::qos_of(name) == QoS::ExactlyOnce)
    }

    /// A PUBLISH was ignored since its packet id is that of another message whose PUBREL has not come.
    pub(crate) fn swallowed(&mut self, id: MessageId, topic: &str, subscriber: &str) {
        let clock = self.tick();
        let topic = self.topics.number(topic);
        self.findings.totals.swallowed += 1;
        self.trace.note(topic, clock, id, "ignored, its packet id is in use, by", subscriber);
    }

    /// A PUBREL for a message has come.
    pub(crate) fn note_release(&mut self, id: MessageId, subscriber: &str) {
        let clock = self.tick();
        if let Some(topic) = entry_mut(&mut self.tracks, id).map(|entry| entry.topic) {
            self.trace.note(topic, clock, id, "released by", subscriber);
        }
    }

    /// The number of acknowledged messages that have not been received, and of receipts that are due; `holds` says whether a subscription is
    /// unchanged.
    pub(crate) fn outstanding(&self, holds: impl Fn(Expectation) -> bool) -> usize {
        let owed = |id: MessageId, entry: &Entry| {
            let missing = entry.expected.iter().filter(|expectation| self.is_missing(id, **expectation, &holds));
            if entry.progress == Progress::Acknowledged { missing.count() } else { 0 }
        };
        self.entries().map(|(id, entry)| owed(id, entry)).sum::<usize>() + self.asked.outstanding()
    }

    fn entries(&self) -> impl Iterator<Item = (MessageId, &Entry)> {
        (0u16..).zip(&self.tracks).flat_map(|(publisher, track)| {
            let numbered = (track.first..).zip(&track.entries);
            numbered.map(move |(number, entry)| (MessageId { publisher, number }, entry))
        })
    }

    fn is_missing(&self, id: MessageId, owed: Expectation, holds: &impl Fn(Expectation) -> bool) -> bool {
        !self.receipts.has(owed.subscriber, id) && !self.lost.contains(&(owed.subscriber, id)) && holds(owed)
    }

    /// Everything had its time: missing messages are lost. Settled messages leave the books.
    pub(crate) fn settle(&mut self, holds: impl Fn(Expectation) -> bool, name: impl Fn(u16) -> String) {
        let mut missing = Vec::new();
        for (id, entry) in self.entries().filter(|(_, entry)| entry.progress == Progress::Acknowledged) {
            let finding = match (self.topics.kind(entry.topic), entry.qos) {
                (Kind::Will, _) => Finding::WillMissed,
                (Kind::Shared, _) => Finding::GroupLost,
                (_, QoS::ExactlyOnce) => Finding::LostQos2,
                _ => Finding::LostQos1,
            };
            let owed = entry.expected.iter().filter(|owed| self.is_missing(id, **owed, &holds));
            missing.extend(owed.map(|owed| (finding, entry.topic, id, owed.subscriber)));
        }
        for (finding, topic, id, subscriber) in missing {
            self.lost.insert((subscriber, id));
            self.found(finding, topic, id, &name(subscriber), "never received it");
        }
        self.settle_receipts();
        for track in &mut self.tracks {
            while track.entries.front().is_some_and(|entry| entry.progress != Progress::Sent) {
                track.entries.pop_front();
                track.first += 1;
            }
        }
        self.backlog.clear();
        // A guest that left before this may have kept a message; another member had its time until the next settlement.
        self.at_guests.retain(|_, was_settled| !std::mem::replace(was_settled, true));
    }

    /// Checks the retained messages of a new subscriber: the number of the message per topic.
    pub(crate) fn check_retained(&mut self, seen: &[Option<MessageId>], name: impl Fn(usize) -> String) {
        let wrong: Vec<_> = self
            .retained
            .iter()
            .zip(seen)
            .enumerate()
            .filter_map(|(index, (topic, seen))| {
                self.findings.totals.retained_checked += 1;
                topic.judge(*seen).map(|why| (index, *seen, why))
            })
            .collect();
        for (index, seen, why) in wrong {
            let name = name(index);
            let topic = self.topics.number(&name);
            let id = seen.or(self.retained[index].latest()).unwrap_or(MessageId { publisher: 0, number: 0 });
            self.found(Finding::Retained, topic, id, "a new subscriber", &why);
        }
    }

    /// Compares the retained values that new subscribers received at several nodes while no client published.
    pub(crate) fn compare_retained(&mut self, seen: &[Vec<Option<MessageId>>], name: impl Fn(usize) -> String) {
        let Some((first, others)) = seen.split_first() else { return };
        for (index, value) in first.iter().enumerate() {
            if others.iter().any(|other| other.get(index) != Some(value)) {
                let number = |value: Option<MessageId>| value.map_or("none".to_owned(), |id| id.number.to_string());
                let values: Vec<String> =
                    seen.iter().map(|values| number(values.get(index).copied().flatten())).collect();
                let topic = self.topics.number(&name(index));
                let id = self.retained.get(index).and_then(RetainedTopic::latest).or(*value);
                let id = id.unwrap_or(MessageId { publisher: 0, number: 0 });
                let text = format!("nodes give the values {}", values.join(", "));
                self.found(Finding::Disagreement, topic, id, "new subscribers", &text);
            }
        }
    }

    /// True if every retained value that was seen is right.
    pub(crate) fn fits_retained(&self, seen: &[Option<MessageId>]) -> bool {
        self.retained.iter().zip(seen).all(|(topic, seen)| topic.judge(*seen).is_none())
    }

    /// True when a retained value must be there, so that one may wait for it.
    pub(crate) fn must_have(&self, index: usize) -> bool {
        self.retained.get(index).is_some_and(RetainedTopic::must_have)
    }

    /// Operations on a retained topic that are not confirmed yet.
    pub(crate) fn unconfirmed(&self, index: usize) -> usize {
        self.retained.get(index).map_or(0, RetainedTopic::unconfirmed)
    }

    fn found(&mut self, finding: Finding, topic: u32, id: MessageId, who: &str, why: &str) {
        let name = self.topics.names.get(topic as usize).map_or("?", String::as_str);
        let text = format!("{}:{} on {name}, {who}: {why}", id.publisher, id.number);
        let trace = if self.findings.wants_trace(finding) { self.trace.of(topic) } else { Vec::new() };
        self.findings.add(finding, text, trace);
    }
}

fn lighten(backlog: &mut HashMap<Expectation, u64>, expectation: Expectation) {
    if let Some(count) = backlog.get_mut(&expectation) {
        *count = count.saturating_sub(1);
    }
}

fn entry_mut(tracks: &mut [Track], id: MessageId) -> Option<&mut Entry> {
    let track = tracks.get_mut(usize::from(id.publisher))?;
    track.entries.get_mut(id.number.checked_sub(track.first)? as usize)
}

#[cfg(test)]
mod broken;
#[cfg(test)]
mod tests;
