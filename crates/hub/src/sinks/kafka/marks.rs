//! The ids of the records that transactions of a sink have written. They lie in pages, in a compacted topic beside that of
//! the records: each page has a key, so Kafka keeps its last version.

use std::collections::{HashSet, VecDeque};
use std::time::Instant;

use ring::digest;

use super::connection::{Access, BrokerConnection};
use super::records::{self, BatchEntry};
use super::wire::{self, AnswerReader, code, string};
use super::{Cluster, Seeker, batches, fetch, is_refusal};
use crate::sinks::SinkError;
use crate::sinks::place::LaneIds;

/// The topic of the marks, which is made when it is not there. It is compacted: Kafka keeps the last mark of each key.
pub(super) const MARKS_TOPIC: &str = "tidegate-hub-marks";
/// Partitions of the topic of marks, where it is made here. All lanes of a sink of a pipeline use one.
const MARKS_PARTITIONS: i32 = 16;
/// Replicas as the brokers' settings say.
const USUAL_REPLICAS: i16 = -1;
/// Settings of the topic of marks: it stays short.
const MARKS_SETTINGS: [(&str, &str); 4] = [
    ("cleanup.policy", "compact"),
    ("segment.bytes", "4194304"),
    ("min.cleanable.dirty.ratio", "0.1"),
    ("max.message.bytes", "1048588"),
];
/// Largest `window` of a pipeline, and most messages of a batch, whose records a sink writes exactly once.
pub const MAX_MARKED_WINDOW: u32 = 4096;
/// Messages that a source has under way at most: that of Kafka takes a second window before it stops.
const UNDER_WAY: usize = 2 * MAX_MARKED_WINDOW as usize;
/// Lanes of a sink at most: the limit of `parallel`.
const MAX_LANES: usize = 64;
/// Ids of a page.
const PAGE_IDS: usize = 256;
/// Pages of a lane. A record that may come again has as many records before it that may come again as behind it.
const PAGES: u64 = (2 * UNDER_WAY / PAGE_IDS) as u64 + 1;
/// Ids that a lane remembers, its own and the ids of other lanes. A page that is written again brings up to a page of earlier
/// ids of each lane to the end.
const IDS_KEPT: usize = 2 * UNDER_WAY + MAX_LANES * PAGE_IDS;
/// Pages that are read at once; the next question begins behind them.
const MAX_PAGES_READ: usize = 10_000;
/// The version of pages.
const FORMAT: u8 = 1;
/// Bytes of an id in a page: the first ones of its hash.
const ID_BYTES: usize = 16;
/// Why a lane does not begin while it reads marks.
const MARKS_MISSING: &str = "the marks of earlier batches are not all there yet";
/// How long a broker waits for the first mark, milliseconds.
const FETCH_WAIT_MS: i32 = 200;

/// The hash of an id. Ids of any length take the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct IdHash([u8; ID_BYTES]);

impl IdHash {
    pub(super) fn of(id: &str) -> Self {
        let hash = digest::digest(&digest::SHA256, id.as_bytes());
        let mut first = [0; ID_BYTES];
        first.iter_mut().zip(hash.as_ref()).for_each(|(to, from)| *to = *from);
        Self(first)
    }
}

/// A page that was read.
#[derive(Debug, PartialEq, Eq)]
struct Page {
    lane: usize,
    number: u64,
    ids: Vec<IdHash>,
}

/// The ids that a lane knows as written.
#[derive(Debug)]
pub(super) struct Marks {
    ids: LaneIds,
    known: HashSet<IdHash>,
    order: VecDeque<IdHash>,
    /// The page of this lane that is being filled.
    number: u64,
    page: Vec<IdHash>,
    /// The offset of the first mark that was not read.
    next: Option<i64>,
}

impl Marks {
    pub(super) fn new(ids: LaneIds) -> Self {
        let (known, order, page) = (HashSet::new(), VecDeque::new(), Vec::new());
        Self { ids, known, order, number: 0, page, next: None }
    }

    /// The id by which the coordinator knows the transactions of the lane.
    pub(super) fn transactions_id(&self) -> String {
        self.ids.of_lane(self.ids.lane)
    }

    /// The same of each lane that the sink can have.
    pub(super) fn transactions_ids(&self) -> impl Iterator<Item = String> {
        (0..MAX_LANES).map(|lane| self.ids.of_lane(lane))
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        self.known.contains(&IdHash::of(id))
    }

    /// The partition of the marks, out of this number.
    pub(super) fn partition(&self, partitions: &[i32]) -> Option<i32> {
        partitions.get(records::partition(self.ids.of_sink().as_bytes(), partitions.len())).copied()
    }

    fn remember(&mut self, id: IdHash) {
        if self.known.insert(id) {
            self.order.push_back(id);
        }
        while self.order.len() > IDS_KEPT {
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
        }
    }

    /// The pages that a transaction with these ids writes: their numbers and their ids.
    fn pages(&self, ids: &[IdHash]) -> Vec<(u64, Vec<IdHash>)> {
        let mut pages = vec![(self.number, self.page.clone())];
        for id in ids {
            if pages.last().is_some_and(|(_, page)| page.len() >= PAGE_IDS) {
                let number = self.number + pages.len() as u64;
                pages.push((number, Vec::new()));
            }
            if let Some((_, page)) = pages.last_mut() {
                page.push(*id);
            }
        }
        if self.page.len() >= PAGE_IDS {
            // The first page is written as it is.
            pages.remove(0);
        }
        pages
    }

    /// The records of these pages.
    pub(super) fn records(&self, ids: &[IdHash], timestamp: u64) -> Vec<BatchEntry> {
        let record = |(number, ids): (u64, Vec<IdHash>)| {
            let mut value = vec![FORMAT];
            value.extend_from_slice(&number.to_be_bytes());
            value.extend(ids.iter().flat_map(|id| id.0));
            let key = format!("{}/{}", self.transactions_id(), number % PAGES).into_bytes();
            BatchEntry { key, value, timestamp, headers: Vec::new() }
        };
        self.pages(ids).into_iter().map(record).collect()
    }

    /// The transaction with these ids is committed.
    pub(super) fn add(&mut self, ids: &[IdHash]) {
        if let Some((number, page)) = self.pages(ids).pop() {
            (self.number, self.page) = (number, page);
        }
        for id in ids {
            self.remember(*id);
        }
    }

    /// Reads a page of any lane of this sink; nothing when it is of another sink.
    fn read(&self, key: &[u8], value: &[u8]) -> Option<Page> {
        let place = std::str::from_utf8(key).ok()?.strip_prefix(self.ids.of_sink())?.strip_prefix('/')?;
        let (lane, slot) = place.split_once('/')?;
        slot.parse::<u64>().ok()?;
        let (number, ids) = value.strip_prefix(&[FORMAT])?.split_first_chunk()?;
        let id = |bytes: &[u8]| bytes.try_into().ok().map(IdHash);
        let ids = ids.chunks(ID_BYTES).map(id).collect::<Option<_>>()?;
        Some(Page { lane: lane.parse().ok()?, number: u64::from_be_bytes(*number), ids })
    }

    fn take(&mut self, page: Page) {
        for id in &page.ids {
            self.remember(*id);
        }
        if page.lane == self.ids.lane && page.number >= self.number {
            (self.number, self.page) = (page.number, page.ids);
        }
    }

    /// Reads further marks, up to the end that the topic has now. Marks of open transactions may stand before the end; these
    /// come to their end within the limit of transactions. Marks that were read when the time is up stay.
    pub(super) fn catch_up(
        &mut self,
        cluster: &mut Cluster,
        partition: i32,
        (access, deadline): (&Access, Instant),
    ) -> Result<(), SinkError> {
        let leader = cluster.leader_of(partition)?;
        let connection = cluster.connection(leader, access, deadline)?;
        let body = fetch::list_offsets(MARKS_TOPIC, partition, fetch::OLDEST);
        let answer = connection.ask(wire::LIST_OFFSETS, &body)?;
        let (error, oldest) = fetch::listed(&mut AnswerReader(&answer))?;
        judged(error)?;
        let mut at = self.next.unwrap_or(oldest).max(oldest);
        let (mut end, mut is_held) = (i64::MAX, false);
        while at < end {
            let is_late = || Instant::now() >= deadline;
            if is_late() {
                return Err(if is_held { held(partition, at) } else { SinkError::away(MARKS_MISSING) });
            }
            let body = fetch::fetch(MARKS_TOPIC, &[(partition, at)], FETCH_WAIT_MS);
            let answer = connection.ask(wire::FETCH, &body);
            let answer = answer.map_err(|error| if is_held && is_late() { held(partition, at) } else { error })?;
            let all = fetch::fetched(&mut AnswerReader(&answer))?;
            let one = all.first().ok_or_else(|| SinkError::away("the broker says nothing of the marks"))?;
            if one.error == code::OFFSET_OUT_OF_RANGE {
                // The topic was made again.
                self.next = None;
            }
            judged(one.error)?;
            end = end.min(one.end);
            let found = batches::records(one.batches, at, &one.aborted, MAX_PAGES_READ, &mut None);
            let (records, next) = found.map_err(SinkError::away)?;
            for record in records {
                let page = record.key.zip(record.value).and_then(|(key, value)| self.read(&key, &value));
                if let Some(page) = page {
                    self.take(page);
                }
            }
            is_held = next == at;
            at = next;
            self.next = Some(at);
        }
        Ok(())
    }
}

/// An open transaction holds the marks back. It is still open for its coordinator: `ends` has ended the others of this sink.
fn held(partition: i32, at: i64) -> SinkError {
    SinkError::Away(format!(
        "{MARKS_MISSING}: partition {partition} of the topic {MARKS_TOPIC} has an open transaction at offset {at}; if it stays open, kafka-transactions.sh finds it (`find-hanging`)"
    ))
}

/// Success, or whether a record is to blame.
pub(super) fn judged(error: i16) -> Result<(), SinkError> {
    match error {
        0 => Ok(()),
        error if is_refusal(error) => Err(SinkError::Refused(wire::in_words(error))),
        error => Err(SinkError::Away(wire::in_words(error))),
    }
}

/// The brokers of the marks. The topic is made when it is not there.
pub(super) fn cluster(seeker: &Seeker<'_>, deadline: Instant) -> Result<Cluster, SinkError> {
    let own = Seeker { makes_topics: false, takes_parts: true, ..*seeker };
    let metadata = own.ask(deadline, |connection| own.describe(connection, MARKS_TOPIC))?;
    if metadata.topic_error != code::UNKNOWN_TOPIC {
        return own.cluster(MARKS_TOPIC, deadline);
    }
    let controller = metadata.addresses()?.remove(&metadata.controller);
    let controller = controller.ok_or_else(|| SinkError::away("the brokers have no controller"))?;
    let mut connection = BrokerConnection::open(&controller, seeker.access, deadline)?;
    let answer = connection.ask(wire::CREATE_TOPICS, &make_topic())?;
    made(&mut AnswerReader(&answer))?;
    // Brokers learn of the topic one after the other.
    Seeker { awaits_topics: true, ..own }.cluster(MARKS_TOPIC, deadline)
}

fn make_topic() -> Vec<u8> {
    let mut body = 1_i32.to_be_bytes().to_vec();
    string(MARKS_TOPIC, &mut body);
    body.extend_from_slice(&MARKS_PARTITIONS.to_be_bytes());
    body.extend_from_slice(&USUAL_REPLICAS.to_be_bytes());
    body.extend_from_slice(&0_i32.to_be_bytes());
    body.extend_from_slice(&(MARKS_SETTINGS.len() as u32).to_be_bytes());
    for (name, value) in MARKS_SETTINGS {
        string(name, &mut body);
        string(value, &mut body);
    }
    body.extend_from_slice(&5_000_i32.to_be_bytes());
    body.push(0);
    body
}

fn made(answer: &mut AnswerReader<'_>) -> Result<(), SinkError> {
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
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::time::Duration;

    use super::*;
    use crate::sinks::kafka::SaslMechanism;
    use crate::sinks::place::{Ids, SinkLane};
    use crate::sinks::socket::ServerAddress;

    fn marks(lane: usize) -> Marks {
        let ids = Ids::new(&SinkLane { pipeline: "hot", lane, dead_letters: false }, "bus");
        Marks::new(LaneIds::new(&ids, "tidegate-hub", lane))
    }

    fn ids(numbers: std::ops::Range<usize>) -> Vec<IdHash> {
        numbers.map(|number| IdHash::of(&format!("a-{number}"))).collect()
    }

    /// Takes what another process of the lane, or another lane, has written.
    fn hand_over(from: &Marks, batch: &[IdHash], to: &mut Marks) {
        for record in from.records(batch, 0) {
            let page = to.read(&record.key, &record.value).unwrap();
            to.take(page);
        }
    }

    #[test]
    fn a_process_that_begins_continues_the_page() {
        let (mut first, mut second) = (marks(0), marks(0));
        for batch in [ids(0..3), ids(3..300), ids(300..301)] {
            hand_over(&first, &batch, &mut second);
            first.add(&batch);
        }
        assert_eq!((first.number, &first.page), (second.number, &second.page));
        assert_eq!((second.number, second.page.len()), (1, 301 - PAGE_IDS));
        assert!(second.contains("a-0") && second.contains("a-300") && !second.contains("a-301"));
        let keys: Vec<Vec<u8>> = second.records(&ids(301..302), 0).into_iter().map(|record| record.key).collect();
        assert_eq!(keys, [b"tidegate-hub/hot/bus/0/1".to_vec()]);
    }

    #[test]
    fn each_lane_knows_the_records_of_the_others() {
        let (two, mut one) = (marks(2), marks(1));
        hand_over(&two, &ids(0..2), &mut one);
        assert!(one.contains("a-1"));
        assert_eq!((one.number, one.page.len()), (0, 0), "the page is that of the other lane");
        let record = &two.records(&ids(0..1), 0)[0];
        let other = Ids::new(&SinkLane { pipeline: "hot", ..SinkLane::default() }, "b");
        assert_eq!(Marks::new(LaneIds::new(&other, "tidegate-hub", 2)).read(&record.key, &record.value), None);
        let prefix = LaneIds::new(&Ids::new(&SinkLane { pipeline: "hot", ..SinkLane::default() }, "bus"), "plant-2", 2);
        assert_eq!(Marks::new(prefix).read(&record.key, &record.value), None);
        assert_eq!(one.read(&record.key, b"0\na-1"), None, "the format is another one");
    }

    #[test]
    fn a_lane_remembers_a_bounded_number_of_ids() {
        let mut marks = marks(0);
        for from in (0..2 * IDS_KEPT).step_by(64) {
            marks.add(&ids(from..from + 64));
        }
        assert_eq!((marks.known.len(), marks.order.len()), (IDS_KEPT, IDS_KEPT));
        assert!(!marks.contains("a-0") && marks.contains(&format!("a-{}", 2 * IDS_KEPT - UNDER_WAY)));
        assert!(marks.number > PAGES, "keys come again");
        let largest = marks.records(&ids(0..MAX_MARKED_WINDOW as usize), 0);
        let bytes: usize = largest.iter().map(|record| record.key.len() + record.value.len()).sum();
        assert!(bytes < 256 << 10, "the marks of the largest batch fit a message of Kafka");
    }

    /// Answers the questions for the oldest offset and, once, for records: there are some that an open transaction holds.
    fn serve_an_open_transaction(listener: &TcpListener) {
        let (mut stream, _) = listener.accept().unwrap();
        let topic = |answer: &mut Vec<u8>| {
            answer.extend(1_i32.to_be_bytes());
            string(MARKS_TOPIC, answer);
            answer.extend([1_i32.to_be_bytes(), 0_i32.to_be_bytes()].concat());
            answer.extend(0_i16.to_be_bytes());
        };
        // Before the topics: the throttle, the error and the session.
        let (mut offsets, mut records) = (Vec::new(), vec![0; 4 + 2 + 4]);
        topic(&mut offsets);
        offsets.extend([0_i64.to_be_bytes(), 4_i64.to_be_bytes()].concat());
        topic(&mut records);
        records.extend([7_i64.to_be_bytes(), 4_i64.to_be_bytes(), 0_i64.to_be_bytes()].concat());
        records.extend([0; 8]);
        for (correlation, answer) in (1_i32..).zip([offsets, records]) {
            let mut len = [0; 4];
            stream.read_exact(&mut len).unwrap();
            stream.read_exact(&mut vec![0; u32::from_be_bytes(len) as usize]).unwrap();
            let len = u32::try_from(4 + answer.len()).unwrap().to_be_bytes();
            stream.write_all(&[&len[..], &correlation.to_be_bytes(), &answer].concat()).unwrap();
        }
        // The client goes when its time is up.
        std::io::copy(&mut stream, &mut std::io::sink()).unwrap();
    }

    #[test]
    fn an_open_transaction_before_the_marks_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = ServerAddress { host: "127.0.0.1".to_owned(), port: listener.local_addr().unwrap().port() };
        let server = std::thread::spawn(move || serve_an_open_transaction(&listener));
        let mut cluster = Cluster {
            brokers: [(1, at)].into(),
            partitions: vec![wire::Led { partition: 0, leader: 1 }],
            ..Cluster::default()
        };
        let access = Access { tls: None, login: None, mechanism: SaslMechanism::Plain };
        let deadline = Instant::now() + Duration::from_secs(5);
        let why = marks(0).catch_up(&mut cluster, 0, (&access, deadline)).unwrap_err().to_string();
        assert!(why.contains("open transaction at offset 4"), "{why}");
        drop(cluster);
        server.join().unwrap();
    }

    #[test]
    fn a_full_page_is_not_written_again() {
        let mut marks = marks(0);
        marks.add(&ids(0..PAGE_IDS));
        assert_eq!((marks.number, marks.page.len()), (0, PAGE_IDS));
        let pages = marks.pages(&ids(PAGE_IDS..PAGE_IDS + 1));
        assert_eq!(pages, [(1, ids(PAGE_IDS..PAGE_IDS + 1))]);
    }
}
