//! Exactly once into Kafka: a batch and its mark are one transaction. The mark has the ids of the batch, in a topic beside
//! that of the records. A process that begins reads the marks first, and leaves out records that come again.
//!
//! After any failure the next batch begins as after a start: the coordinator ends the open transaction either way, and
//! the marks tell which way it was.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::connection::{Access, BrokerConnection};
use super::records::{self, BatchEntry, Sequence};
use super::wire::{self, AnswerReader, Coordinated, code, string};
use super::{Cluster, Seeker, batches, fetch};
use crate::sinks::SinkError;

/// The topic of the marks, which is made when it is not there. It is compacted: Kafka keeps the last mark of each key.
pub(super) const MARKS_TOPIC: &str = "tidegate-hub-marks";
/// Marks of a lane that are kept. As many batches may come again after a crash.
pub(super) const MARKS_KEPT: u64 = 4096;
/// Time after which the coordinator aborts a transaction of a process that has gone.
const TRANSACTION_LIMIT: Duration = Duration::from_secs(30);
/// Pause before the coordinator is asked again.
const PAUSE: Duration = Duration::from_millis(20);
/// Replicas as the brokers' settings say.
const USUAL_REPLICAS: i16 = -1;
/// Settings of the topic of marks: it stays short.
const MARKS_SETTINGS: [(&str, &str); 3] =
    [("cleanup.policy", "compact"), ("segment.bytes", "16777216"), ("min.cleanable.dirty.ratio", "0.1")];

/// Ids of the last batches of a lane.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// The number of the batch that has each id.
    by_id: HashMap<String, u64>,
    batches: VecDeque<(u64, Vec<String>)>,
    next: u64,
}

impl Marks {
    pub(super) fn contains(&self, id: &str) -> bool {
        self.by_id.contains_key(id)
    }

    /// Adds a batch, and forgets the oldest.
    pub(super) fn add(&mut self, number: u64, ids: Vec<String>) {
        for id in &ids {
            self.by_id.insert(id.clone(), number);
        }
        self.batches.push_back((number, ids));
        self.next = self.next.max(number + 1);
        while self.batches.front().is_some_and(|(oldest, _)| oldest + MARKS_KEPT < self.next) {
            for id in self.batches.pop_front().into_iter().flat_map(|(_, ids)| ids) {
                self.by_id.remove(&id);
            }
        }
    }

    /// The key and the value of the next mark: the key comes again after [`MARKS_KEPT`] marks.
    fn record(&self, lane: &str, ids: &[String]) -> (Vec<u8>, Vec<u8>) {
        let key = format!("{lane}/{}", self.next % MARKS_KEPT);
        (key.into_bytes(), format!("{}\n{}", self.next, ids.join("\n")).into_bytes())
    }

    /// Reads a mark of a lane; nothing when it is of another one.
    fn read(lane: &str, key: &[u8], value: &[u8]) -> Option<(u64, Vec<String>)> {
        let place = std::str::from_utf8(key).ok()?.strip_prefix(lane)?.strip_prefix('/')?;
        place.parse::<u64>().ok()?;
        let mut lines = std::str::from_utf8(value).ok()?.lines();
        Some((lines.next()?.parse().ok()?, lines.map(str::to_owned).collect()))
    }
}

/// The transactions of a lane.
#[derive(Debug)]
pub(super) struct Transactions {
    /// The id by which the coordinator knows them.
    id: String,
    coordinator: BrokerConnection,
    producer: i64,
    epoch: i16,
    /// The next sequence of each partition, by its topic.
    next: BTreeMap<(String, i32), i32>,
    marks_cluster: Cluster,
    pub(super) marks: Marks,
}

impl Transactions {
    /// Takes the transactions of this id over, and reads its marks.
    pub(super) fn open(id: &str, seeker: &Seeker<'_>, deadline: Instant) -> Result<Self, SinkError> {
        let make = |connection: &mut BrokerConnection| make_marks_topic(connection);
        seeker.ask(deadline, make)?;
        let marks_cluster = seeker.cluster(MARKS_TOPIC, deadline)?;
        let at = seeker.ask(deadline, |connection| {
            let answer = connection.ask(wire::FIND_COORDINATOR, &wire::coordinator(Coordinated::Transactions, id))?;
            wire::coordinator_of(&mut AnswerReader(&answer))?.map_err(|error| SinkError::Away(wire::in_words(error)))
        })?;
        let mut coordinator = BrokerConnection::open(&at, seeker.access, deadline)?;
        let limit = i32::try_from(TRANSACTION_LIMIT.as_millis()).unwrap_or(i32::MAX);
        let mut body = Vec::new();
        wire::optional_string(Some(id), &mut body);
        body.extend_from_slice(&limit.to_be_bytes());
        let (producer, epoch) = loop {
            let answer = coordinator.ask(wire::INIT_PRODUCER_ID, &body)?;
            let mut answer = AnswerReader(&answer);
            answer.i32()?;
            match answer.i16()? {
                0 => break (answer.i64()?, answer.i16()?),
                error => pause(error, deadline)?,
            }
        };
        let (next, id) = (BTreeMap::new(), id.to_owned());
        let mut found = Self { id, coordinator, producer, epoch, next, marks_cluster, marks: Marks::default() };
        found.read_marks(seeker.access, deadline)?;
        Ok(found)
    }

    /// Reads the marks up to the end that the topic has now. Marks of transactions of others that are open may stand
    /// before the last one of this lane; these come to their end within [`TRANSACTION_LIMIT`].
    fn read_marks(&mut self, access: &Access, deadline: Instant) -> Result<(), SinkError> {
        let mut found: Vec<(u64, Vec<String>)> = Vec::new();
        let leader = self.marks_cluster.leader_of(0)?;
        let connection = self.marks_cluster.connection(leader, access, deadline)?;
        let answer = connection.ask(wire::LIST_OFFSETS, &fetch::list_offsets(MARKS_TOPIC, 0, fetch::OLDEST))?;
        let (error, mut at) = fetch::listed(&mut AnswerReader(&answer))?;
        judged(error)?;
        let mut end = i64::MAX;
        while at < end {
            if Instant::now() >= deadline {
                return Err(SinkError::away("the marks of earlier batches are not all there yet"));
            }
            let answer = connection.ask(wire::FETCH, &fetch::fetch(MARKS_TOPIC, &[(0, at)], 200))?;
            let all = fetch::fetched(&mut AnswerReader(&answer))?;
            let one = all.first().ok_or_else(|| SinkError::away("the broker says nothing of the marks"))?;
            judged(one.error)?;
            end = end.min(one.end);
            let (records, next) = batches::records(one.batches, at, &one.aborted).map_err(SinkError::away)?;
            let read = |record: batches::Taken| Marks::read(&self.id, &record.key?, &record.value?);
            found.extend(records.into_iter().filter_map(read));
            at = next;
        }
        found.sort_unstable();
        for (number, ids) in found {
            self.marks.add(number, ids);
        }
        Ok(())
    }

    /// Writes records to partitions of a topic, and their mark, all or nothing.
    pub(super) fn write(
        &mut self,
        topic: (&str, &mut Cluster),
        groups: &BTreeMap<i32, Vec<BatchEntry>>,
        ids: Vec<String>,
        (access, deadline): (&Access, Instant),
    ) -> Result<(), SinkError> {
        self.coordinator.set_deadline(deadline);
        let (topic, cluster) = topic;
        self.begin(topic, groups.keys().copied().collect(), deadline)?;
        self.produce(topic, cluster, groups, (access, deadline))?;
        let (key, value) = self.marks.record(&self.id, &ids);
        let mark = BatchEntry { key, value, timestamp: crate::time::wall_clock(), headers: Vec::new() };
        let mut marks_cluster = std::mem::take(&mut self.marks_cluster);
        let marked = self.produce(MARKS_TOPIC, &mut marks_cluster, &[(0, vec![mark])].into(), (access, deadline));
        self.marks_cluster = marks_cluster;
        // A mark is never to blame on a record.
        marked.map_err(SinkError::away)?;
        self.end()?;
        self.marks.add(self.marks.next, ids);
        Ok(())
    }

    fn start(&self) -> Vec<u8> {
        let mut body = Vec::new();
        string(&self.id, &mut body);
        body.extend_from_slice(&self.producer.to_be_bytes());
        body.extend_from_slice(&self.epoch.to_be_bytes());
        body
    }

    /// Adds partitions to the transaction, which begins by that.
    fn begin(&mut self, topic: &str, partitions: Vec<i32>, deadline: Instant) -> Result<(), SinkError> {
        let mut body = self.start();
        body.extend_from_slice(&2_i32.to_be_bytes());
        for (topic, partitions) in [(topic, partitions), (MARKS_TOPIC, vec![0])] {
            string(topic, &mut body);
            body.extend_from_slice(&(partitions.len() as u32).to_be_bytes());
            for partition in partitions {
                body.extend_from_slice(&partition.to_be_bytes());
            }
        }
        loop {
            let answer = self.coordinator.ask(wire::ADD_PARTITIONS, &body)?;
            let mut answer = AnswerReader(&answer);
            answer.i32()?;
            let errors = answer.each(|topic| {
                topic.string()?;
                topic.each(|one| {
                    one.i32()?;
                    one.i16()
                })
            })?;
            match errors.into_iter().flatten().find(|error| *error != 0) {
                None => return Ok(()),
                // The markers of the last transaction are being written.
                Some(error) => pause(error, deadline)?,
            }
        }
    }

    fn produce(
        &mut self,
        topic: &str,
        cluster: &mut Cluster,
        groups: &BTreeMap<i32, Vec<BatchEntry>>,
        (access, deadline): (&Access, Instant),
    ) -> Result<(), SinkError> {
        let mut leaders: BTreeMap<i32, Vec<(i32, Vec<u8>)>> = BTreeMap::new();
        for (partition, entries) in groups {
            let next = self.next.entry((topic.to_owned(), *partition)).or_default();
            let (producer, epoch, first) = (self.producer, self.epoch, *next);
            let sequence = Sequence { producer, epoch, first, in_transaction: true };
            *next = next.wrapping_add(i32::try_from(entries.len()).unwrap_or(i32::MAX)) & i32::MAX;
            let leader = cluster.leader_of(*partition)?;
            leaders.entry(leader).or_default().push((*partition, records::batch(sequence, entries)));
        }
        let left = deadline.saturating_duration_since(Instant::now()).as_millis();
        let timeout = i32::try_from(left).unwrap_or(i32::MAX);
        for (leader, batches) in leaders {
            let body = wire::produce(Some(&self.id), topic, timeout, &batches);
            let answer = cluster.connection(leader, access, deadline)?.ask(wire::PRODUCE, &body)?;
            for (_, error) in wire::produced(&mut AnswerReader(&answer))? {
                judged(error)?;
            }
        }
        Ok(())
    }

    /// Commits the transaction.
    fn end(&mut self) -> Result<(), SinkError> {
        let mut body = self.start();
        body.push(1);
        let answer = self.coordinator.ask(wire::END_TRANSACTION, &body)?;
        let mut answer = AnswerReader(&answer);
        answer.i32()?;
        judged(answer.i16()?)
    }
}

/// Success, or whether a record is to blame.
fn judged(error: i16) -> Result<(), SinkError> {
    match error {
        0 => Ok(()),
        error if super::is_refusal(error) => Err(SinkError::Refused(wire::in_words(error))),
        error => Err(SinkError::Away(wire::in_words(error))),
    }
}

/// Waits before the coordinator is asked again; an error where that is of no use, or the time is up.
fn pause(error: i16, deadline: Instant) -> Result<(), SinkError> {
    let passes = matches!(error, code::CONCURRENT_TRANSACTIONS | code::COORDINATOR_LOADS | 15);
    if !passes || Instant::now() + PAUSE > deadline {
        return Err(SinkError::Away(wire::in_words(error)));
    }
    std::thread::park_timeout(PAUSE);
    Ok(())
}

fn make_marks_topic(connection: &mut BrokerConnection) -> Result<(), SinkError> {
    let mut body = 1_i32.to_be_bytes().to_vec();
    string(MARKS_TOPIC, &mut body);
    body.extend_from_slice(&1_i32.to_be_bytes());
    body.extend_from_slice(&USUAL_REPLICAS.to_be_bytes());
    body.extend_from_slice(&0_i32.to_be_bytes());
    body.extend_from_slice(&(MARKS_SETTINGS.len() as u32).to_be_bytes());
    for (name, value) in MARKS_SETTINGS {
        string(name, &mut body);
        string(value, &mut body);
    }
    body.extend_from_slice(&5_000_i32.to_be_bytes());
    body.push(0);
    let answer = connection.ask(wire::CREATE_TOPICS, &body)?;
    let mut answer = AnswerReader(&answer);
    answer.i32()?;
    let errors = answer.each(|topic| {
        topic.string()?;
        let error = topic.i16()?;
        topic.string()?;
        Ok(error)
    })?;
    match errors.into_iter().find(|error| !matches!(*error, 0 | code::TOPIC_EXISTS)) {
        None => Ok(()),
        Some(error) => Err(SinkError::Away(format!("the topic {MARKS_TOPIC}: {}", wire::in_words(error)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(number: u64) -> Vec<String> {
        vec![format!("a-{number}"), format!("b-{number}")]
    }

    #[test]
    fn a_mark_is_read_as_it_was_written() {
        let mut marks = Marks::default();
        (0..7).for_each(|number| marks.add(number, ids(number)));
        let (key, value) = marks.record("hot/bus/0", &ids(7));
        assert_eq!(Marks::read("hot/bus/0", &key, &value), Some((7, ids(7))));
        assert_eq!(Marks::read("hot/bus/1", &key, &value), None);
        assert_eq!(Marks::read("hot/bus", &key, &value), None, "a name may begin another");
    }

    #[test]
    fn the_oldest_marks_are_forgotten() {
        let mut marks = Marks::default();
        (0..=MARKS_KEPT).for_each(|number| marks.add(number, ids(number)));
        assert!(!marks.contains("a-0") && marks.contains("a-1") && marks.contains(&format!("b-{MARKS_KEPT}")));
        let (key, _) = marks.record("l", &[]);
        assert_eq!(key, b"l/1", "it takes the place of the oldest mark");
        assert_eq!(marks.by_id.len(), 2 * usize::try_from(MARKS_KEPT).unwrap());
    }

    #[test]
    fn a_coordinator_that_is_busy_is_asked_again() {
        let later = Instant::now() + Duration::from_secs(30);
        assert_eq!(pause(code::CONCURRENT_TRANSACTIONS, later), Ok(()));
        assert!(pause(code::CONCURRENT_TRANSACTIONS, Instant::now()).is_err(), "the time is up");
        assert!(pause(code::INVALID_PRODUCER_EPOCH, later).unwrap_err().to_string().contains("another process"));
        assert!(matches!(judged(code::MESSAGE_TOO_LARGE), Err(SinkError::Refused(_))));
    }
}
