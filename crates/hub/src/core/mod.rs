//! A pipeline without any I/O: messages, outcomes and the time go in; batches, acknowledgements and what people should
//! know come out. Runs can be repeated from their inputs.
//!
//! - `ledger`: a message is acknowledged once each sink has confirmed it, and not before.
//! - `parked`: messages that wait for memory.
//! - `windows`: one record of many messages.
//! - `lane`: batches, retries, and the search for the record that a sink refuses.

mod lane;
mod ledger;
mod no_records;
mod numbers;
mod parked;
mod reason;
#[cfg(test)]
mod tests;
mod windows;

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use serde_json::Value;
use tidegate_random::SplitMix64;

pub use self::lane::{Batching, Outcome};
use self::lane::{Item, Lane};
use self::ledger::{Arrival, Confirmed, Ledger, NewEntry};
use self::no_records::NoRecords;
pub use self::numbers::Numbers;
use self::parked::{Parked, ParkedMessage};
pub use self::reason::REASON_FIELD;
use self::windows::Windows;
use crate::format::Format;
use crate::message::{MAX_HOPS, Message};
use crate::record::{Content, Record};
use crate::spares::{SpareMessages, SpareRecords};
use crate::steps::{Records, Steps};

/// Where records go.
#[derive(Clone, Copy, Debug)]
pub struct SinkPlan {
    /// Lanes: records of one key share one.
    pub lanes: usize,
    /// Batches and retries.
    pub batching: Batching,
}

/// Bounds of a pipeline.
#[derive(Clone, Debug)]
pub struct CoreSettings {
    /// The sinks, in the order of `to`.
    pub sinks: Vec<SinkPlan>,
    /// Whether the last sink keeps each message as it came, also one that a step leaves out or fails for.
    pub archives: bool,
    /// Where messages go that no sink takes; without it they are counted and logged.
    pub dead_letter: Option<Batching>,
    /// Messages that are held at most; beyond it messages of QoS 0 are dropped, which the broker does not keep. The
    /// window of the session bounds the others.
    pub max_held: usize,
    /// Messages above QoS 0 that the source hands out at once. Windows with as many end early, as no other comes.
    pub max_unacknowledged: usize,
    /// Whether the source hands out no more when as many have come since the oldest one that is not done.
    pub in_order: bool,
    /// Bytes of these messages and of their records, all parts of a FOREACH among them. Beyond it messages of QoS 0 are
    /// dropped, and records of others are made later.
    pub max_held_bytes: usize,
    /// Where chance begins.
    pub seed: u64,
}

/// Records that go to a sink together. The thread of the sink drops its share before it reports the outcome, so that
/// records end on the thread that has made them.
pub type Batch = Arc<Vec<Arc<Record>>>;

/// An action that the caller has to carry out.
#[derive(Debug)]
pub enum Action<D> {
    /// Brings these records to the sink of a lane, and reports the outcome.
    Send {
        /// The lane.
        lane: usize,
        /// In order.
        batch: Batch,
    },
    /// The sender may forget a message, which has ended like this.
    Acknowledge(D, Ending),
    /// People should know.
    Tell(News),
}

/// How a message has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All sinks have it, or it is a dead letter, or a filter or WHERE has left it out.
    Delivered,
    /// A step failed or a sink refused it, and it is not kept.
    Dropped,
    /// The pipeline does not take its topic.
    NotTaken,
}

/// A notice for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// A sink does not take batches at the moment.
    Away {
        /// The place of the sink in `to`; behind the last is that of dead letters.
        sink: usize,
        /// Why.
        why: String,
    },
    /// It takes them again.
    Back {
        /// The same place.
        sink: usize,
    },
    /// A message is not delivered.
    Failed {
        /// The topic of the message.
        topic: String,
        /// Why.
        why: String,
        /// Whether it is kept as a dead letter.
        kept: bool,
    },
}

/// A pipeline.
#[derive(Debug)]
pub struct Core<D> {
    steps: Steps,
    settings: CoreSettings,
    lanes: Vec<Lane>,
    /// The first lane of each sink, that of dead letters and the end of all.
    first_lanes: Vec<usize>,
    ledger: Ledger<D>,
    parked: Parked<D>,
    windows: Option<Windows>,
    actions: VecDeque<Action<D>>,
    numbers: Numbers,
    paused: bool,
    chance: SplitMix64,
    spares: SpareRecords,
    ended: SpareMessages,
}

impl<D> Core<D> {
    /// A pipeline that has nothing yet.
    pub fn new(steps: Steps, settings: CoreSettings) -> Self {
        let (mut lanes, mut first_lanes) = (Vec::new(), Vec::new());
        for (sink, plan) in settings.sinks.iter().enumerate() {
            first_lanes.push(lanes.len());
            lanes.extend((0..plan.lanes.max(1)).map(|_| Lane::new(sink, plan.batching)));
        }
        first_lanes.push(lanes.len());
        lanes.extend(settings.dead_letter.map(|batching| Lane::new(settings.sinks.len(), batching)));
        let chance = SplitMix64::new(settings.seed);
        let (most, in_order) = (settings.max_unacknowledged.max(1), settings.in_order);
        let windows = steps.gathers_for().map(|every| Windows::new(every, most, in_order));
        Self {
            steps,
            settings,
            lanes,
            first_lanes,
            ledger: Ledger::default(),
            parked: Parked::default(),
            windows,
            actions: VecDeque::new(),
            numbers: Numbers::default(),
            paused: false,
            chance,
            spares: SpareRecords::default(),
            ended: SpareMessages::default(),
        }
    }

    /// The sink of each lane, by its place in `to`.
    pub fn lanes(&self) -> impl Iterator<Item = usize> + '_ {
        self.lanes.iter().map(|lane| lane.sink)
    }

    /// Takes a message. `token` acknowledges it, at QoS 1; `clock` is the wall clock in Unix milliseconds, `now` one
    /// that never goes back.
    pub fn take(&mut self, now: u64, clock: u64, message: &Arc<Message>, mut token: Option<D>) {
        match self.ledger.arrive(message, &mut token) {
            Arrival::New => {}
            Arrival::Known => return,
            Arrival::Settled(token) => return self.acknowledge(token, Ending::Delivered),
        }
        if let Some(windows) = &mut self.windows {
            windows.arrivals += u64::from(token.is_some());
            self.end_full(now);
        }
        match token {
            Some(token) if self.parked.len() > 0 || !self.has_room() => self.parked.push(clock, message, token),
            token => self.work(now, clock, message, token),
        }
    }

    /// Whether there is memory for the records of one more message.
    fn has_room(&self) -> bool {
        self.ledger.bytes() + self.windows.as_ref().map_or(0, Windows::bytes) < self.settings.max_held_bytes
    }

    /// Makes the records of a message that is new.
    fn work(&mut self, now: u64, clock: u64, message: &Arc<Message>, token: Option<D>) {
        // The broker does not keep a message of QoS 0.
        if token.is_none() && (self.ledger.len() >= self.settings.max_held || !self.has_room()) {
            self.numbers.dropped += 1;
            return;
        }
        self.numbers.taken += 1;
        let mut entry = NewEntry { token, pending: 0, left_out: false, message: Arc::clone(message), record_bytes: 0 };
        if self.windows.is_some() {
            return self.gather(now, clock, entry);
        }
        if let Some(format) = self.steps.passes_all() {
            return match self.check(message) {
                Ok(()) => self.pass(now, entry, format),
                Err(why) => self.fail_new(now, entry, &why),
            };
        }
        match self.records_of(message, clock) {
            Ok(records) if !records.is_empty() => {
                // The archive keeps the message once, whatever is made of it.
                let archives = usize::from(self.archive().is_some());
                let sinks = self.settings.sinks.len() - archives;
                (entry.pending, entry.record_bytes) = (sinks * records.len() + archives, records.bytes);
                let entry = self.ledger.add(entry);
                for (place, record) in records.into_iter().enumerate() {
                    let record = self.spares.share(record);
                    for sink in 0..sinks + if place == 0 { archives } else { 0 } {
                        let lane = self.lane_of(sink, record.key());
                        self.lanes[lane].push(now, Item { entry, record: Arc::clone(&record) });
                    }
                }
            }
            Ok(_) => self.leave_out(now, entry),
            Err(why) => self.fail_new(now, entry, &why),
        }
    }

    /// Sends a new message on as it came.
    fn pass(&mut self, now: u64, mut entry: NewEntry<D>, format: Format) {
        entry.pending = self.settings.sinks.len();
        let record = self.spares.share_whole(&entry.message, format);
        let entry = self.ledger.add(entry);
        for (sink, record) in std::iter::repeat_n(record, self.settings.sinks.len()).enumerate() {
            let lane = self.lane_of(sink, record.key());
            self.lanes[lane].push(now, Item { entry, record });
        }
    }

    /// A step drops a new message.
    fn leave_out(&mut self, now: u64, mut entry: NewEntry<D>) {
        self.numbers.filtered += 1;
        let Some(archive) = self.archive() else {
            return self.acknowledge(entry.token, Ending::Delivered);
        };
        (entry.pending, entry.left_out) = (1, true);
        let message = Arc::clone(&entry.message);
        let entry = self.ledger.add(entry);
        self.keep(now, archive, entry, &message);
    }

    /// There are no records of a new message.
    fn fail_new(&mut self, now: u64, mut entry: NewEntry<D>, why: &NoRecords) {
        let (archive, message) = (self.archive(), Arc::clone(&entry.message));
        (entry.pending, entry.left_out) = (1 + usize::from(archive.is_some()), true);
        let entry = self.ledger.add(entry);
        if let Some(archive) = archive {
            self.keep(now, archive, entry, &message);
        }
        // A dead letter of a loop is published once, and not again when it comes back.
        let may_be_kept = message.hops <= MAX_HOPS;
        let fields = message.fields(Format::Json);
        let record = Arc::new(Record::new(message, Content::Row(fields)));
        self.fail(now, &Item { entry, record }, why.to_string(), may_be_kept);
    }

    /// Makes the records of a message. Fails for a looped message, and when a step fails.
    fn records_of(&mut self, message: &Arc<Message>, clock: u64) -> Result<Records, NoRecords> {
        self.check(message)?;
        Ok(self.steps.run(message, clock)?)
    }

    /// Refuses a message that has passed as many pipelines as it may, or without all its headers.
    fn check(&mut self, message: &Message) -> Result<(), NoRecords> {
        if message.is_looped() {
            self.numbers.looped += 1;
            return Err(NoRecords::Looped);
        }
        if message.headers_cut {
            return Err(NoRecords::LongHeaders);
        }
        Ok(())
    }

    /// The lane of the archive.
    fn archive(&self) -> Option<usize> {
        let last = self.settings.sinks.len().checked_sub(1)?;
        self.settings.archives.then(|| self.first_lanes[last])
    }

    /// Has the archive keep a message that reaches no other sink.
    fn keep(&mut self, now: u64, archive: usize, entry: u64, message: &Arc<Message>) {
        let record = Arc::new(Record::new(Arc::clone(message), Content::default()));
        self.lanes[archive].push(now, Item { entry, record });
    }

    fn lane_of(&self, sink: usize, key: &str) -> usize {
        let (first, end) = (self.first_lanes[sink], self.first_lanes[sink + 1]);
        if end - first <= 1 {
            return first;
        }
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let lanes = u64::try_from(end - first).unwrap_or(1).max(1);
        first + usize::try_from(hasher.finish() % lanes).unwrap_or_default()
    }

    /// A message is not delivered. It goes where dead letters go, if it may.
    fn fail(&mut self, now: u64, item: &Item, why: String, may_be_kept: bool) {
        self.numbers.failed += 1;
        let why = reason::shortened(why);
        let dead = self.first_lanes[self.settings.sinks.len()];
        let lane = self.lanes.get_mut(dead).filter(|_| may_be_kept);
        self.numbers.dead_letters += u64::from(lane.is_some());
        let topic = item.record.topic().to_owned();
        self.actions.push_back(Action::Tell(News::Failed { topic, why: why.clone(), kept: lane.is_some() }));
        let Some(lane) = lane else {
            self.ledger.mark_dropped(item.entry);
            return self.confirm(item.entry, false);
        };
        let record = &item.record;
        let mut fields = match &record.content {
            Content::Logged(bytes) => {
                Message::from_bytes(bytes).map(|message| message.fields(Format::Json)).unwrap_or_default()
            }
            Content::Row(_) | Content::Whole(_) => record.fields().to_vec(),
        };
        fields.push((REASON_FIELD.into(), Value::String(why.clone())));
        let letter = Record {
            message: Arc::clone(&record.message),
            own_id: record.own_id.clone(),
            computed_topic: record.computed_topic.clone(),
            computed_key: record.computed_key.clone(),
            content: Content::Row(fields),
            encoded: None,
            reason: Some(why),
        };
        lane.push(now, Item { entry: item.entry, record: Arc::new(letter) });
    }

    fn confirm(&mut self, entry: u64, delivered: bool) {
        if let Confirmed::Done { tokens, dropped, left_out, message } = self.ledger.confirm(entry) {
            self.ended.put(message);
            self.numbers.delivered += u64::from(delivered && !left_out);
            self.acknowledge(tokens, if dropped { Ending::Dropped } else { Ending::Delivered });
            self.confirm_members(entry, delivered, dropped);
        }
    }

    fn acknowledge(&mut self, tokens: impl IntoIterator<Item = D>, ending: Ending) {
        self.actions.extend(tokens.into_iter().map(|token| Action::Acknowledge(token, ending)));
    }

    /// The batch of a lane has come to an end.
    pub fn settle(&mut self, now: u64, lane: usize, outcome: Outcome) {
        let chance = self.chance.number();
        let dead = self.first_lanes[self.settings.sinks.len()];
        let Some(at) = self.lanes.get_mut(lane) else { return };
        let sink = at.sink;
        self.numbers.batches += 1;
        self.numbers.batch_ms += at.age(now);
        let settled = at.settle(now, outcome, chance);
        self.actions.extend(at.news(now, sink).map(Action::Tell));
        self.numbers.retried += u64::from(settled.retried);
        if lane != dead && Some(lane) != self.archive() {
            self.numbers.sink_deliveries += settled.done.len() as u64;
        }
        for record in Arc::into_inner(settled.records).into_iter().flatten() {
            self.spares.put(record);
        }
        for entry in settled.done {
            self.confirm(entry, lane != dead);
        }
        if let Some((item, why)) = settled.poison {
            self.fail(now, &item, why, lane != dead);
        }
    }

    /// The connection to the broker has ended: tokens of it are of no use any more.
    pub fn lose_connection(&mut self) {
        self.ledger.lose_connection();
        self.parked = Parked::default();
        self.actions.retain(|action| !matches!(action, Action::Acknowledge(..)));
    }

    /// Another process takes these messages over: they are not acknowledged here, and no batch begins with them. A batch
    /// that is under way comes to its end.
    pub fn forget(&mut self, is_gone: impl Fn(&D) -> bool) {
        let mut gone = self.ledger.forget(&is_gone);
        self.forget_members(&mut gone);
        self.lanes.iter_mut().for_each(|lane| lane.forget(&gone));
        self.parked.forget(&is_gone);
        self.actions.retain(|action| !matches!(action, Action::Acknowledge(token, _) if is_gone(token)));
    }

    /// The next action. Nothing until [`Self::deadline`], unless something comes.
    pub fn next_action(&mut self, now: u64) -> Option<Action<D>> {
        if !self.paused {
            self.end_due(now);
        }
        while self.has_room()
            && let Some(ParkedMessage { clock, message, tokens }) = self.parked.pop()
        {
            let mut tokens = tokens.into_iter();
            self.work(now, clock, &message, tokens.next());
            for token in tokens {
                self.take(now, clock, &message, Some(token));
            }
        }
        if let Some(action) = self.actions.pop_front() {
            return Some(action);
        }
        if self.paused {
            return None;
        }
        let due = |(lane, at): (usize, &mut Lane)| at.begin(now).map(|batch| Action::Send { lane, batch });
        self.lanes.iter_mut().enumerate().find_map(due)
    }

    /// When there is something to do, if nothing comes before.
    pub fn deadline(&self) -> Option<u64> {
        if !self.actions.is_empty() {
            return Some(0);
        }
        if self.paused {
            return None;
        }
        let windows = self.windows.as_ref().and_then(Windows::deadline);
        self.lanes.iter().filter_map(Lane::deadline).chain(windows).min()
    }

    /// A message that has ended, and whose memory may be used again.
    pub(crate) fn next_ended(&mut self) -> Option<Arc<Message>> {
        self.ended.pop()
    }

    /// Begins no batch while it is paused; batches under way come to their end.
    pub fn pause(&mut self, paused: bool) {
        self.paused = paused;
    }

    /// Batches that have not come to an end.
    pub fn under_way(&self) -> usize {
        self.lanes.iter().filter(|lane| lane.is_under_way()).count()
    }

    /// Its numbers.
    pub fn numbers(&self) -> Numbers {
        self.numbers
    }

    /// Messages that are not acknowledged yet.
    pub fn held(&self) -> usize {
        self.ledger.len() + self.parked.len()
    }

    /// When the broker took the oldest of these, Unix milliseconds.
    pub fn oldest(&self) -> Option<u64> {
        self.ledger.oldest()
    }

    /// Records that each lane's sink does not have, with the place of the sink in `to`, and why it takes none.
    pub fn queues(&self) -> impl Iterator<Item = (usize, usize, Option<&str>)> {
        self.lanes.iter().map(|lane| (lane.sink, lane.len(), lane.error.as_deref()))
    }

    /// Why sinks do not take batches, by their place in `to`.
    pub fn errors(&self) -> impl Iterator<Item = (usize, &str)> {
        self.lanes.iter().filter_map(|lane| Some((lane.sink, lane.error.as_deref()?)))
    }
}
