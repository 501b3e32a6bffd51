//! The recorder of one shard.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::rc::Rc;

use tidegate_engine::{Now, TenantId};

use super::{FlightAnswer, FlightCounters, FlightEvent, FlightKind, FlightSettings, FlightSubject};
use crate::admission::{OldestOut, Source};

/// Most events in one answer; a story that is longer than that is not read.
const ANSWER_EVENTS: usize = 500;

/// An event with its number, which grows.
type Numbered = (u64, Rc<FlightEvent>);

/// The subject of kept last events.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Client(TenantId, Box<str>),
    Source(Source),
}

/// Events of one kind in the running second.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    second: u64,
    count: u32,
    /// Events that were not recorded since the last recorded one.
    suppressed: u64,
}

impl Tally {
    /// Counts an event and the events that it summarises; returns whether it is recorded.
    fn take(&mut self, second: u64, limit: u32, summarised: u64) -> bool {
        if self.second != second {
            *self = Self { second, count: 0, ..*self };
        }
        let allowed = self.count < limit;
        if allowed {
            self.count += 1;
        } else {
            self.suppressed += 1 + summarised;
        }
        allowed
    }
}

/// The last events about one client or address.
#[derive(Debug, Default)]
struct Recent {
    events: VecDeque<Numbered>,
    /// The client's last known address: a closed socket no longer knows it.
    address: Option<IpAddr>,
    life: Tally,
    messages: Tally,
}

/// The records of one shard.
#[derive(Debug)]
pub(crate) struct Recorder {
    settings: FlightSettings,
    ring: VecDeque<Numbered>,
    subjects: OldestOut<Key, Recent>,
    next: u64,
    counters: FlightCounters,
}

impl Recorder {
    /// An empty recorder.
    pub(crate) fn new(settings: FlightSettings) -> Self {
        Self {
            settings,
            ring: VecDeque::new(),
            subjects: OldestOut::new(settings.subjects as usize),
            next: 0,
            counters: FlightCounters::default(),
        }
    }

    /// Records an event, or counts it when there were too many of its kind about the same client or address.
    pub(crate) fn record(&mut self, now: Now, mut event: FlightEvent) {
        if self.settings.entries == 0 {
            return;
        }
        let key = match (&event.client_id, event.address) {
            (Some(client_id), _) => Some(Key::Client(event.tenant.unwrap_or_default(), client_id.clone())),
            (None, Some(address)) => Some(Key::Source(Source::of(address))),
            (None, None) => None,
        };
        let number = self.next;
        let Some(key) = key else {
            self.push(number, Rc::new(event));
            return;
        };
        let recent = self.subjects.named(&key, Recent::default);
        let tally = if event.kind.is_of_messages() { &mut recent.messages } else { &mut recent.life };
        // A ban explains all that follows, and there are few.
        let always = event.kind == FlightKind::Banned;
        if !always && !tally.take(now.monotonic.0 / 1000, self.settings.per_second, event.suppressed) {
            self.counters.suppressed += 1;
            return;
        }
        event.suppressed += std::mem::take(&mut tally.suppressed);
        match event.address {
            Some(address) => recent.address = Some(address),
            None => event.address = recent.address,
        }
        let event = Rc::new(event);
        recent.events.push_back((number, Rc::clone(&event)));
        if recent.events.len() > self.settings.entries_per_subject as usize {
            recent.events.pop_front();
        }
        self.push(number, event);
    }

    fn push(&mut self, number: u64, event: Rc<FlightEvent>) {
        self.next += 1;
        self.counters.recorded += 1;
        self.ring.push_back((number, event));
        if self.ring.len() > self.settings.entries as usize {
            self.ring.pop_front();
        }
    }

    /// The events of a subject; with a tenant, only events of its clients.
    pub(crate) fn answer(&self, subject: &FlightSubject, tenant: Option<TenantId>) -> FlightAnswer {
        let is_asked = |event: &FlightEvent| subject.matches(event) && (tenant.is_none() || event.tenant == tenant);
        let mut found: BTreeMap<u64, &Rc<FlightEvent>> = BTreeMap::new();
        let mut suppressed = 0;
        for (number, event) in &self.ring {
            if is_asked(event) {
                found.insert(*number, event);
            }
        }
        for recent in self.subjects.values() {
            let mut about = false;
            for (number, event) in recent.events.iter().filter(|(_, event)| is_asked(event)) {
                found.insert(*number, event);
                about = true;
            }
            // For a topic, the number of a client's suppressed events is unknown.
            if about && !matches!(subject, FlightSubject::Topic(_)) {
                suppressed += recent.life.suppressed + recent.messages.suppressed;
            }
        }
        let skipped = found.len().saturating_sub(ANSWER_EVENTS);
        let events = found.into_values().skip(skipped).map(|event| FlightEvent::clone(event)).collect();
        FlightAnswer { events, suppressed }
    }

    /// The counters.
    pub(crate) fn counters(&self) -> FlightCounters {
        self.counters
    }
}
