//! Windows that are open. A window has the messages of a group that the broker took within a time, and ends in one record. A
//! message is acknowledged once each sink has the record of its window.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::ledger::NewEntry;
use super::no_records::NoRecords;
use super::{Core, Item};
use crate::message::Message;
use crate::record::{Content, Record};
use crate::steps::{Ended, Steps, Totals, WindowShare};

/// Milliseconds that a window stays open behind its end, and behind a message that comes later than that: messages are under
/// way from the broker for so long.
const LATENESS: u64 = 1_000;
/// Windows of a pipeline that are open. Beyond it, all end early.
const MAX_OPEN: usize = 10_000;

/// A message of a window that the broker keeps until it is acknowledged.
#[derive(Debug)]
struct WindowMember {
    entry: u64,
    message: Arc<Message>,
    /// Its value for each aggregate.
    values: Vec<serde_json::Value>,
}

/// A window of a group.
#[derive(Debug)]
pub(super) struct OpenWindow {
    start: u64,
    first: Arc<Message>,
    last: Arc<Message>,
    hops: u8,
    /// Messages of all QoS.
    count: u64,
    totals: Totals,
    members: Vec<WindowMember>,
}

impl OpenWindow {
    /// The message that its record carries: it has the id of the record, and the topic and the publisher of the last message.
    fn message(&self) -> Message {
        Message {
            id: format!("{}.w{}", self.first.id, self.count),
            lasting_id: self.first.lasting_id,
            topic: self.last.topic.clone(),
            client_id: self.last.client_id.clone(),
            user_name: self.last.user_name.clone(),
            peer_host: self.last.peer_host.clone(),
            qos: self.last.qos,
            retain: false,
            timestamp: self.start,
            content_type: None,
            response_topic: None,
            correlation_data: None,
            expires_at: None,
            hops: self.hops,
            user_properties: Vec::new(),
            payload: Vec::new(),
            archived: false,
            headers_cut: false,
        }
    }

    /// Computes all of it again of the members that are left.
    fn rebuild(&mut self, none: &Totals) {
        self.totals = none.clone();
        self.members.iter().for_each(|member| self.totals.add(&member.values));
        self.hops = self.members.iter().map(|member| member.message.hops).max().unwrap_or_default();
        if let (Some(first), Some(last)) = (self.members.first(), self.members.last()) {
            (self.first, self.last) = (Arc::clone(&first.message), Arc::clone(&last.message));
        }
    }

    /// Memory beside the ledger's, bytes.
    fn memory(&self, group: &str) -> usize {
        size_of::<Self>() + group.len() + self.first.size() + self.last.size() + self.totals.memory()
    }
}

/// The messages of a window whose record is on its way.
#[derive(Debug)]
struct SentWindow {
    entries: Vec<u64>,
    /// Messages of QoS 0.
    others: u64,
}

/// The windows that begin at one time.
#[derive(Debug)]
struct Start {
    /// When they end, on the clock that never goes back.
    ends_at: u64,
    /// When they end at the latest, also where timestamps are wrong.
    latest: u64,
    /// The number of the first message above QoS 0 that came for them.
    first_arrival: u64,
    groups: HashMap<String, OpenWindow>,
}

/// The windows of a pipeline.
#[derive(Debug)]
pub(super) struct Windows {
    /// Their length, milliseconds.
    every: u64,
    /// Messages above QoS 0 that the source hands out at once: with as many in open windows, no other comes.
    max_members: usize,
    /// Whether the source hands out no more when as many messages have come since the oldest one that is not done.
    in_order: bool,
    /// Messages above QoS 0 that have come.
    pub(super) arrivals: u64,
    starts: BTreeMap<u64, Start>,
    /// Windows that are open, their members, and their memory.
    open: usize,
    members: usize,
    bytes: usize,
    /// By the entry of their record.
    sent: HashMap<u64, SentWindow>,
    /// Milliseconds from the clock that never goes back to the wall clock.
    clock_offset: u64,
}

impl Windows {
    /// Windows of `every` milliseconds.
    pub(super) fn new(every: u64, max_members: usize, in_order: bool) -> Self {
        Self {
            every: every.max(1),
            max_members,
            in_order,
            arrivals: 0,
            starts: BTreeMap::new(),
            open: 0,
            members: 0,
            bytes: 0,
            sent: HashMap::new(),
            clock_offset: 0,
        }
    }

    /// Memory that they hold beside the messages of the ledger, bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// When the next ones end.
    pub(super) fn deadline(&self) -> Option<u64> {
        self.starts.values().map(|start| start.ends_at).min()
    }

    /// Whether they can take no more.
    fn are_full(&self) -> bool {
        let since_oldest = || {
            let oldest = self.starts.values().map(|start| start.first_arrival).min().unwrap_or(self.arrivals);
            usize::try_from(self.arrivals - oldest).unwrap_or(usize::MAX)
        };
        let waits = if self.in_order && self.members > 0 { since_oldest() } else { self.members };
        self.open >= MAX_OPEN || waits >= self.max_members
    }

    /// The wall clock, Unix milliseconds.
    fn clock(&self, now: u64) -> u64 {
        now.saturating_add(self.clock_offset)
    }

    /// Adds a message to its window, and returns the begin of that.
    fn add(&mut self, (now, clock): (u64, u64), message: &Arc<Message>, share: &WindowShare, none: Totals) -> u64 {
        // A message that has waited came with an earlier time.
        self.clock_offset = self.clock_offset.max(clock.saturating_sub(now));
        let clock = self.clock(now);
        let begin = Steps::window_of(self.every, message);
        let arrivals = self.arrivals;
        let start = self.starts.entry(begin).or_insert_with(|| Start {
            ends_at: 0,
            latest: now.saturating_add(self.every).saturating_add(LATENESS),
            first_arrival: arrivals,
            groups: HashMap::new(),
        });
        let until_end = begin.saturating_add(self.every).saturating_sub(clock);
        let ends_at = now.saturating_add(until_end).saturating_add(LATENESS);
        start.ends_at = start.ends_at.max(ends_at).min(start.latest);
        let (window, before) = match start.groups.entry(share.group.clone()) {
            Entry::Occupied(window) => {
                let window = window.into_mut();
                let before = window.memory(&share.group);
                (window, before)
            }
            Entry::Vacant(place) => {
                self.open += 1;
                let (first, last) = (Arc::clone(message), Arc::clone(message));
                let window =
                    OpenWindow { start: begin, first, last, hops: 0, count: 0, totals: none, members: Vec::new() };
                (place.insert(window), 0)
            }
        };
        window.totals.add(&share.values);
        window.last = Arc::clone(message);
        window.hops = window.hops.max(message.hops);
        window.count += 1;
        self.bytes = self.bytes + window.memory(&share.group) - before;
        begin
    }

    /// Notes the entry of the message that was added last, which waits for the record of its window.
    fn note_member(&mut self, begin: u64, share: WindowShare, entry: u64) {
        let window = self.starts.get_mut(&begin).and_then(|start| start.groups.get_mut(&share.group));
        if let Some(window) = window {
            self.members += 1;
            window.members.push(WindowMember { entry, message: Arc::clone(&window.last), values: share.values });
        }
    }

    /// Takes the windows of the starts that a condition holds for.
    fn take(&mut self, is_wanted: impl Fn(&Start) -> bool) -> Vec<OpenWindow> {
        let begins: Vec<u64> = self.starts.iter().filter(|(_, it)| is_wanted(it)).map(|(begin, _)| *begin).collect();
        let starts = begins.into_iter().filter_map(|begin| self.starts.remove(&begin));
        let mut taken = Vec::new();
        for (group, window) in starts.flat_map(|start| start.groups) {
            self.open -= 1;
            self.members -= window.members.len();
            self.bytes = self.bytes.saturating_sub(window.memory(&group));
            taken.push(window);
        }
        // The order of a map is not that of the messages.
        taken.sort_by(|one, other| (one.start, &one.first.id).cmp(&(other.start, &other.first.id)));
        taken
    }

    /// Drops messages that another process takes over. Returns the entries of records that were made of these alone.
    fn forget(&mut self, gone: &BTreeSet<u64>, none: &Totals) -> BTreeSet<u64> {
        for (group, window) in self.starts.values_mut().flat_map(|start| start.groups.iter_mut()) {
            let before = (window.members.len(), window.memory(group));
            window.members.retain(|member| !gone.contains(&member.entry));
            let left = before.0 - window.members.len();
            if left > 0 {
                self.members -= left;
                window.count -= u64::try_from(left).unwrap_or(window.count);
                window.rebuild(none);
                self.bytes = (self.bytes + window.memory(group)).saturating_sub(before.1);
            }
        }
        for start in self.starts.values_mut() {
            start.groups.retain(|group, window| {
                let stays = window.count > 0;
                if !stays {
                    self.open -= 1;
                    self.bytes = self.bytes.saturating_sub(window.memory(group));
                }
                stays
            });
        }
        self.starts.retain(|_, start| !start.groups.is_empty());
        let is_gone = |sent: &SentWindow| sent.others == 0 && sent.entries.iter().all(|entry| gone.contains(entry));
        let records: BTreeSet<u64> =
            self.sent.iter().filter(|(_, sent)| is_gone(sent)).map(|(entry, _)| *entry).collect();
        self.sent.retain(|entry, _| !records.contains(entry));
        records
    }
}

impl<D> Core<D> {
    /// Ends all windows when they can take no more, or when there is no memory for more messages.
    pub(super) fn end_full(&mut self, now: u64) {
        if !self.has_room() || self.windows.as_ref().is_some_and(Windows::are_full) {
            self.end_windows(now, |_| true);
        }
    }

    /// Adds a new message to its window.
    pub(super) fn gather(&mut self, now: u64, clock: u64, entry: NewEntry<D>) {
        match self.share_of(now, clock, &entry.message) {
            Ok(Some((begin, share))) => self.join(now, entry, begin, share),
            Ok(None) => self.leave_out(now, entry),
            Err(why) => self.fail_new(now, entry, &why),
        }
    }

    /// Adds a message to its window. Returns the begin of the window and the share of the message.
    fn share_of(
        &mut self,
        now: u64,
        clock: u64,
        message: &Arc<Message>,
    ) -> Result<Option<(u64, WindowShare)>, NoRecords> {
        self.check(message)?;
        let share = self.steps.share(message, clock)?;
        let (Some(share), Some(windows), Some(none)) = (share, &mut self.windows, self.steps.no_totals()) else {
            return Ok(None);
        };
        let begin = windows.add((now, clock), message, &share, none);
        Ok(Some((begin, share)))
    }

    /// Has a message above QoS 0 wait for the record of its window.
    fn join(&mut self, now: u64, mut entry: NewEntry<D>, begin: u64, share: WindowShare) {
        let (archive, message) = (self.archive(), Arc::clone(&entry.message));
        let waits = entry.token.is_some();
        entry.pending = usize::from(waits) + usize::from(archive.is_some());
        entry.left_out = !waits;
        entry.record_bytes = share.memory();
        if entry.pending == 0 {
            return;
        }
        let entry = self.ledger.add(entry);
        if let Some(archive) = archive {
            self.keep(now, archive, entry, &message);
        }
        if let Some(windows) = self.windows.as_mut().filter(|_| waits) {
            windows.note_member(begin, share, entry);
        }
        self.end_full(now);
    }

    /// Ends the windows whose time is over.
    pub(super) fn end_due(&mut self, now: u64) {
        if self.windows.as_ref().and_then(Windows::deadline).is_some_and(|at| at <= now) {
            self.end_windows(now, |start| start.ends_at <= now);
        }
    }

    fn end_windows(&mut self, now: u64, is_wanted: impl Fn(&Start) -> bool) {
        let Some(windows) = &mut self.windows else { return };
        let (clock, every) = (windows.clock(now), windows.every);
        let ended = windows.take(is_wanted);
        let early = ended.iter().filter(|window| window.start.saturating_add(every) > clock);
        self.numbers.ended_early += early.count() as u64;
        for window in ended {
            self.end_window(now, clock, window);
        }
    }

    /// Sends the record of a window to the sinks.
    fn end_window(&mut self, now: u64, clock: u64, window: OpenWindow) {
        let message = Arc::new(window.message());
        let ended = Ended { start: window.start, message: &message, totals: &window.totals };
        let record = match self.steps.end(&ended, &window.last, clock) {
            Ok(record) => Arc::new(record),
            Err(why) => return self.fail_window(now, window, &why.to_string()),
        };
        let sinks = self.settings.sinks.len() - usize::from(self.archive().is_some());
        let entry = self.ledger.add(NewEntry {
            token: None,
            pending: sinks,
            left_out: true,
            message: Arc::clone(&message),
            record_bytes: record.memory(),
        });
        let entries: Vec<u64> = window.members.iter().map(|member| member.entry).collect();
        let others = window.count.saturating_sub(entries.len() as u64);
        if let Some(windows) = &mut self.windows {
            windows.sent.insert(entry, SentWindow { entries, others });
        }
        for sink in 0..sinks {
            let lane = self.lane_of(sink, record.key());
            self.lanes[lane].push(now, Item { entry, record: Arc::clone(&record) });
        }
    }

    /// There is no record of a window: each of its messages fails, and becomes a dead letter.
    fn fail_window(&mut self, now: u64, window: OpenWindow, why: &str) {
        let members = window.members.len() as u64;
        self.numbers.failed += window.count.saturating_sub(members);
        for WindowMember { entry, message, .. } in window.members {
            let fields = message.fields(crate::Format::Json);
            let record = Arc::new(Record::new(message, Content::Row(fields)));
            self.fail(now, &Item { entry, record }, why.to_owned(), true);
        }
    }

    /// The record of a window has ended: so have its messages.
    pub(super) fn confirm_members(&mut self, entry: u64, delivered: bool, dropped: bool) {
        let sent = self.windows.as_mut().and_then(|windows| windows.sent.remove(&entry));
        let Some(SentWindow { entries, others }) = sent else { return };
        self.numbers.delivered += if delivered && !dropped { others } else { 0 };
        for entry in entries {
            if dropped {
                self.ledger.mark_dropped(entry);
            }
            self.confirm(entry, delivered && !dropped);
        }
    }

    /// Drops messages that another process takes over from windows. Adds the records that were made of these alone.
    pub(super) fn forget_members(&mut self, gone: &mut BTreeSet<u64>) {
        let (Some(windows), Some(none)) = (&mut self.windows, self.steps.no_totals()) else { return };
        let records = windows.forget(gone, &none);
        for entry in &records {
            self.ledger.discard(*entry);
        }
        gone.extend(records);
    }
}
