//! The bus as services use it: logs by their names in the register, waiting where a service has nothing else to do.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tidegate_bus::{
    Append, Bounds, Bus, BusError, Done, LogName, LogPartition, Membership, Partition, Position, Reader, Record, Tally,
};

use super::answer::{Answer, DeliveryOutcome};
use super::complaints::Complaints;
use super::{Bell, CoreCounters, Course, KnownContexts, LeftOut};
use crate::messages::Payload;
use crate::partition::partition_of;
use crate::register::{RecordLimits, Topic};

/// The interval of retries while the bus is away, or does not do a request.
pub(crate) const RETRY: Duration = Duration::from_secs(1);
/// How long a service that ends waits until others know that it has left their group.
const LEAVE_WITHIN: Duration = Duration::from_secs(2);

/// Carries the records of services.
#[derive(Clone)]
pub struct Courier {
    bus: Bus,
    /// Partitions of the logs that nodes are dealt to.
    partitions: u32,
    limits: RecordLimits,
    counters: Arc<CoreCounters>,
    contexts: Arc<KnownContexts>,
    complaints: Arc<Complaints>,
    told: Arc<Told>,
}

/// Events as frequent as records, which are logged only now and then.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// Something was not even handed to the bus.
    pub(crate) not_appended: Tally,
    /// Something that is said again soon was not stored.
    pub(crate) not_stored: Tally,
    /// An advertisement of a definer about a node was not stored.
    pub(crate) not_advertised: Tally,
    /// A message for applications was refused by the bus.
    pub(crate) refused: Tally,
    /// A record of an application is no message.
    pub(crate) rejected: Tally,
    /// Such a record could not be put aside.
    pub(crate) not_aside: Tally,
    /// How far records are delivered was not noted.
    pub(crate) not_noted: Tally,
    /// A log could not be read, which is tried again each second for each of them.
    pub(crate) not_read: Tally,
}

impl std::fmt::Debug for Courier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Courier").field("partitions", &self.partitions).finish_non_exhaustive()
    }
}

impl Courier {
    /// Over a bus; nodes are hashed to this number of partitions, at least 1. All users of the bus have to agree on the
    /// number.
    pub fn new(bus: Bus, partitions: u32) -> Self {
        let (limits, counters, contexts, complaints, told) = Default::default();
        Self { bus, partitions: partitions.max(1), limits, counters, contexts, complaints, told }
    }

    /// With other limits for the logs between nodes and applications.
    #[must_use]
    pub fn with_limits(mut self, limits: RecordLimits) -> Self {
        self.limits = limits;
        self
    }

    /// The counters of all services that use this courier.
    pub fn counters(&self) -> &Arc<CoreCounters> {
        &self.counters
    }

    /// Contexts of the nodes that have sent one here.
    pub(crate) fn contexts(&self) -> &KnownContexts {
        &self.contexts
    }

    /// Counts unusable data from or about `whose`, and logs it now and then.
    pub(crate) fn leave_out(&self, why: LeftOut, whose: &str) {
        self.complaints.note(&self.counters, why, whose);
    }

    /// The events that are logged now and then.
    pub(crate) fn told(&self) -> &Arc<Told> {
        &self.told
    }

    /// Reads a record between services. Another record is ignored, since any client of the bus may append. An empty one
    /// deletes its key.
    pub(crate) fn read_as<P: Payload>(&self, record: &Record) -> Option<P> {
        if record.payload.is_empty() {
            return None;
        }
        let read = P::read(&record.payload);
        if let Err(error) = &read {
            let (key, position) = (key_of(record).unwrap_or_default(), record.position.0);
            tracing::debug!(key, position, %error, "a record of the core was left out");
            self.leave_out(LeftOut::Record, &format!("{} {key}", P::NAME));
        }
        read.ok()
    }

    /// The bus itself.
    pub fn bus(&self) -> &Bus {
        &self.bus
    }

    /// Leaves a group, so that others take its work over at once. A bus that is away is not waited for.
    pub(crate) fn leave(&self, membership: Membership) {
        if self.bus.connection().is_connected() {
            membership.leave(LEAVE_WITHIN);
        }
    }

    pub(crate) fn partitions(&self) -> u32 {
        self.partitions
    }

    /// Makes the logs of topics, as often as it takes: all at once, since some buses take their time for each. `None`
    /// when the service is to end before that.
    pub(crate) fn prepare(&self, topics: &[Topic], course: &Course) -> Option<()> {
        let create = |topic: &Topic| {
            let spec = topic.spec(self.partitions, self.limits);
            let spec = spec.map_err(|_| BusError::Malformed("a topic's name is invalid"))?;
            begin(|done| self.bus.create(spec, done))
        };
        until(course, || {
            let begun = topics.iter().map(create).collect::<Result<Vec<_>, BusError>>()?;
            begun.into_iter().try_for_each(|outcome| wait(course, &outcome))
        })
    }

    /// The first and the next position of a partition. It asks until the bus answers.
    pub(crate) fn bounds(&self, topic: Topic, partition: u32, course: &Course) -> Option<Bounds> {
        let place = place(topic, partition)?;
        until(course, || ask(course, |done| self.bus.bounds(&place, done)))
    }

    pub(crate) fn read(&self, topic: Topic, partition: u32, from: Position, bell: &Bell) -> Option<Reader> {
        let place = place(topic, partition)?;
        match self.bus.read(&place, from, bell.wake()) {
            Ok(reader) => Some(reader),
            Err(error) => {
                if let Some(times) = self.told.not_read.note() {
                    tracing::error!(%error, log = topic.name(), times, "cannot read a log of the core");
                }
                None
            }
        }
    }

    /// Appends to a partition of a topic's log. An append that is not begun is an error, and `done` is not called.
    pub(crate) fn try_append(
        &self,
        topic: Topic,
        partition: u32,
        append: Append,
        done: Done<Position>,
    ) -> Result<(), BusError> {
        let place = place(topic, partition).ok_or(BusError::Malformed("a topic's name is invalid"))?;
        self.bus.append(&place, append, done)
    }

    /// Appends the context of a node. When the bus has it, this process remembers it and calls `answer`: a refused
    /// context is read nowhere.
    pub(crate) fn keep_context(&self, node: &str, context: Vec<u8>, answer: Answer) {
        let (contexts, turn) = (Arc::clone(&self.contexts), self.contexts.turn());
        let (whose, copy) = (node.to_owned(), context.clone());
        let remember = Answer::new(move |outcome| {
            if outcome == DeliveryOutcome::Done {
                contexts.put(turn, &whose, &copy);
            }
            answer.tell(outcome);
        });
        self.keep(Topic::ContextReport, node, node, context, remember);
    }

    /// Appends a client's message; `answer` is called when the bus has it. A message that the bus does not take is
    /// counted as left out.
    pub(crate) fn keep(&self, topic: Topic, node: &str, key: &str, payload: Vec<u8>, answer: Answer) {
        let partition = partition_of(node.as_bytes(), topic.partitions(self.partitions));
        let append = Append::new(payload).with_key(Bytes::copy_from_slice(key.as_bytes()));
        let (courier, whose, refused) = (self.clone(), key.to_owned(), answer.clone());
        let done: Done<Position> = Box::new(move |outcome| match outcome {
            Ok(_) => answer.done(),
            Err(error) => {
                tracing::debug!(%error, log = topic.name(), "the bus has not stored a client's message");
                courier.leave_out(LeftOut::NotStored, &whose);
                answer.refuse(&error);
            }
        });
        if let Err(error) = self.try_append(topic, partition, append, done) {
            tracing::debug!(%error, log = topic.name(), "the bus does not take a client's message");
            self.leave_out(LeftOut::NotStored, key);
            refused.refuse(&error);
        }
    }

    /// Appends a message that is repeated soon anyway: a failure is only logged.
    pub(crate) fn tell(&self, topic: Topic, node: Option<&str>, key: &str, payload: Vec<u8>) {
        self.tell_or(topic, node, key, payload, || {});
    }

    /// The same; `failed` is called if the bus does not store it.
    pub(crate) fn tell_or(
        &self,
        topic: Topic,
        node: Option<&str>,
        key: &str,
        payload: Vec<u8>,
        failed: impl Fn() + Clone + Send + 'static,
    ) {
        let partition = node.map_or(0, |node| partition_of(node.as_bytes(), topic.partitions(self.partitions)));
        let append = Append::new(payload).with_key(Bytes::copy_from_slice(key.as_bytes()));
        let (told, failed_later) = (Arc::clone(&self.told), failed.clone());
        let done: Done<Position> = Box::new(move |outcome| {
            let Err(error) = outcome else { return };
            if let Some(times) = told.not_stored.note() {
                tracing::warn!(%error, log = topic.name(), times, "an event of the core was not stored");
            }
            failed_later();
        });
        if let Err(error) = self.try_append(topic, partition, append, done) {
            if let Some(times) = self.told.not_appended.note() {
                tracing::warn!(%error, log = topic.name(), times, "cannot append to a log of the core");
            }
            failed();
        }
    }
}

/// Asks, and asks again while the bus is away.
fn until<T>(course: &Course, mut attempt: impl FnMut() -> Result<T, BusError>) -> Option<T> {
    let mut told = false;
    loop {
        if course.is_over() {
            return None;
        }
        match attempt() {
            Ok(found) => return Some(found),
            // It ends, and no result follows.
            Err(BusError::Stopped) => return None,
            Err(error) => {
                course.is_hindered(&error);
                if !std::mem::replace(&mut told, true) {
                    tracing::warn!(%error, "a service of the core is waiting for the bus");
                }
                let bell = Bell::default();
                let until = Instant::now() + RETRY;
                bell.wait_until(until);
            }
        }
    }
}

/// The outcome of a call.
type Outcome<T> = Receiver<Result<T, BusError>>;

fn begin<T: Send + 'static>(call: impl FnOnce(Done<T>) -> Result<(), BusError>) -> Result<Outcome<T>, BusError> {
    let (sender, outcome) = sync_channel(1);
    call(Box::new(move |result| drop(sender.send(result))))?;
    Ok(outcome)
}

/// Waits for the end of a call.
fn ask<T: Send + 'static>(course: &Course, call: impl FnOnce(Done<T>) -> Result<(), BusError>) -> Result<T, BusError> {
    wait(course, &begin(call)?)
}

fn wait<T>(course: &Course, outcome: &Outcome<T>) -> Result<T, BusError> {
    loop {
        match outcome.recv_timeout(RETRY) {
            Ok(outcome) => return outcome,
            Err(RecvTimeoutError::Timeout) if course.is_over() => return Err(BusError::Stopped),
            // The bus ends each call in time.
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(BusError::Stopped),
        }
    }
}

fn place(topic: Topic, partition: u32) -> Option<LogPartition> {
    let log = LogName::new(topic.name()).ok()?;
    Some(LogPartition { log, partition: Partition(partition) })
}

/// The text of a record's key.
pub(crate) fn key_of(record: &Record) -> Option<&str> {
    std::str::from_utf8(&record.key).ok()
}

/// A reader that is opened again where it stopped when it ends with an error.
pub(crate) struct Following {
    topic: Topic,
    partition: u32,
    from: Position,
    reader: Option<Reader>,
    /// When a log that could not be read is tried again: a bus that refuses is not asked without pause.
    again: Option<Instant>,
}

impl Following {
    pub(crate) fn new(courier: &Courier, topic: Topic, partition: u32, from: Position, bell: &Bell) -> Self {
        let mut following = Self { topic, partition, from, reader: None, again: None };
        following.open(courier, bell);
        following
    }

    fn open(&mut self, courier: &Courier, bell: &Bell) {
        self.reader = courier.read(self.topic, self.partition, self.from, bell);
        if self.reader.is_none() {
            self.open_later(bell);
        }
    }

    fn open_later(&mut self, bell: &Bell) {
        let again = Instant::now() + RETRY;
        self.again = Some(again);
        bell.ring_at(again);
    }

    /// Takes the received records, at most `max`.
    pub(crate) fn take(&mut self, courier: &Courier, bell: &Bell, max: usize) -> Vec<Record> {
        match self.again {
            Some(again) if Instant::now() < again => bell.ring_at(again),
            Some(_) => {
                self.again = None;
                self.open(courier, bell);
            }
            None => {}
        }
        let Some(reader) = &mut self.reader else { return Vec::new() };
        match reader.take(max) {
            Ok(taken) => {
                self.from = taken.next;
                if taken.records.len() == max {
                    // There may be more.
                    bell.ring();
                }
                taken.records
            }
            Err(error) => {
                if let Some(times) = courier.told().not_read.note() {
                    let log = self.topic.name();
                    tracing::warn!(%error, log, times, "reading a log of the core ended; it is begun again");
                }
                self.reader = None;
                if let BusError::Trimmed { first, .. } = &error {
                    self.from = *first;
                    self.open(courier, bell);
                } else {
                    self.open_later(bell);
                }
                Vec::new()
            }
        }
    }

    /// Everything below was taken.
    pub(crate) fn next(&self) -> Position {
        self.from
    }
}

#[cfg(test)]
mod tests {
    use tidegate_bus::{Address, Settings};

    use super::*;
    use crate::messages::HelloPoA;

    fn courier() -> Courier {
        let address: Address = "embedded".parse().unwrap();
        Courier::new(Bus::open(&address, Settings::default(), Arc::new(|_| {})).unwrap(), 1)
    }

    #[test]
    fn records_that_are_none_are_counted() {
        let courier = courier();
        let hello = HelloPoA { gateway: "gw".to_owned(), address: "gw:1883".to_owned(), life: 1 };
        let read = |payload: Vec<u8>| {
            let record =
                Record { position: Position(7), key: "gw".into(), headers: Vec::new(), payload: payload.into() };
            courier.read_as::<HelloPoA>(&record)
        };
        assert_eq!(read(hello.write()), Some(hello));
        assert_eq!(read(Vec::new()), None);
        assert_eq!(courier.counters().figures().left_out_records, 0);
        for payload in ["{}", "[]", "\0"] {
            assert_eq!(read(payload.into()), None);
        }
        assert_eq!(courier.counters().figures().left_out_records, 3);
    }

    #[test]
    fn a_client_is_answered_when_the_bus_has_its_message() {
        let courier = courier();
        let said = || {
            let (sender, answer) = sync_channel(1);
            let tell = Answer::new(move |done| sender.send(done).unwrap());
            courier.keep(Topic::ContextReport, "node", "node", b"{}".to_vec(), tell);
            answer.recv().unwrap()
        };
        assert_eq!(said(), DeliveryOutcome::Later, "there is no such log yet");
        assert_eq!(courier.counters().figures().left_out_not_stored, 1);
        courier.prepare(&Topic::ALL, &Course::new("test")).unwrap();
        assert_eq!(said(), DeliveryOutcome::Done);
        assert_eq!(courier.counters().figures().left_out_not_stored, 1);
    }

    #[test]
    fn a_sender_learns_that_the_bus_does_not_take_its_message() {
        let courier = courier();
        let (sender, failures) = sync_channel(2);
        let tell = |payload| {
            let sender = sender.clone();
            courier.tell_or(Topic::PingConfig, None, "gw", payload, move || sender.send(()).unwrap());
        };
        tell(b"{}".to_vec());
        failures.recv().expect("there is no such log yet");
        courier.prepare(&Topic::ALL, &Course::new("test")).unwrap();
        tell(vec![b' '; 2_000_000]);
        failures.recv().expect("it is too large");
        drop(sender);
        assert!(failures.recv().is_err(), "each failure is said once");
    }

    #[test]
    fn a_context_too_large_for_the_bus_is_refused_for_good() {
        let courier = courier();
        courier.prepare(&Topic::ALL, &Course::new("test")).unwrap();
        let (sender, answer) = sync_channel(1);
        let tell = Answer::new(move |outcome| sender.send(outcome).unwrap());
        courier.keep_context("node", vec![b' '; 2_000_000], tell);
        assert_eq!(answer.recv(), Ok(DeliveryOutcome::Never));
        assert!(answer.recv().is_err(), "it answers once");
    }

    #[test]
    fn the_last_acknowledged_context_is_read_back_in_overload() {
        let address: Address = "embedded".parse().unwrap();
        let settings = Settings { max_embedded_bytes: 20_000, ..Settings::default() };
        let courier = Courier::new(Bus::open(&address, settings, Arc::new(|_| {})).unwrap(), 1);
        courier.prepare(&Topic::ALL, &Course::new("test")).unwrap();
        let bell = Bell::default();
        let (mut acknowledged, mut refused) = (std::collections::BTreeMap::new(), 0);
        for number in 0..2_000 {
            // Each third context is large: the bus has no room for one of each node.
            let padding = "x".repeat(if number % 3 == 0 { 12_000 } else { 0 });
            let context = format!("{{\"number\":{number},\"padding\":\"{padding}\"}}").into_bytes();
            let node = format!("n{}", number % 7);
            let (sender, answer) = sync_channel(1);
            courier.keep_context(&node, context.clone(), Answer::new(move |done| sender.send(done).unwrap()));
            if answer.recv().unwrap() == DeliveryOutcome::Done {
                acknowledged.insert(node, context);
            } else {
                refused += 1;
            }
        }
        assert!(refused > 0 && acknowledged.len() == 7, "{refused} of 2000 were refused");
        assert_eq!(courier.counters().figures().left_out_not_stored, refused, "each refusal is counted");
        let mut stored = std::collections::BTreeMap::new();
        let mut reader = courier.read(Topic::ContextReport, 0, Position::START, &bell).unwrap();
        let end = courier.bounds(Topic::ContextReport, 0, &Course::new("test")).unwrap().next;
        loop {
            let taken = reader.take(1_000).unwrap();
            let records = taken.records.iter().map(|it| (key_of(it).unwrap().to_owned(), it.payload.to_vec()));
            stored.extend(records);
            if taken.next >= end {
                break;
            }
            bell.wait_until(Instant::now() + Duration::from_secs(60));
        }
        assert_eq!(stored, acknowledged, "on the bus");
        for (node, context) in &acknowledged {
            assert_eq!(courier.contexts().get(node).as_deref(), Some(&context[..]), "at this gateway");
        }
    }

    #[test]
    fn failed_appends_are_logged_rarely() {
        let courier = courier();
        for _ in 0..20 {
            // There is no such log yet.
            courier.tell(Topic::Handover, None, "key", b"said".to_vec());
        }
        assert_eq!(courier.told().not_appended.note_at(Instant::now() + Duration::from_secs(60)), Some(20));
    }

    #[test]
    fn of_logs_that_cannot_be_read_the_log_hears_now_and_then() {
        let (courier, bell) = (courier(), Bell::default());
        for _ in 0..20 {
            assert!(courier.read(Topic::Handover, 0, Position::START, &bell).is_none(), "there is no such log yet");
        }
        assert_eq!(courier.told().not_read.note_at(Instant::now() + Duration::from_secs(60)), Some(20));
    }

    #[test]
    fn a_log_that_could_not_be_read_is_read_when_it_can_be() {
        let courier = courier();
        let (bell, course) = (Bell::default(), Course::new("test"));
        let mut following = Following::new(&courier, Topic::Handover, 0, Position::START, &bell);
        assert!(following.reader.is_none(), "there is no such log yet");
        courier.prepare(&Topic::ALL, &course).unwrap();
        courier.tell(Topic::Handover, None, "key", b"said".to_vec());
        let record = loop {
            // Only time has to pass: the bell wakes the services.
            if let Some(record) = following.take(&courier, &bell, 1).pop() {
                break record;
            }
            bell.wait_until(Instant::now() + Duration::from_secs(60));
        };
        assert_eq!(&record.payload[..], b"said");
    }
}
