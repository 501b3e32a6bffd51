//! A topic of Kafka. Records of one key go to one partition. A batch is done when all replicas in sync have it. The
//! producer numbers its batches, so the broker drops one that comes again after a lost connection.
//!
//! - `connection`: requests and answers of one broker, and the login; `scram` is one way of it.
//! - `wire` and `fetch`: requests and answers as bytes; `records` and `batches`, with `unpack`: batches, written and read.
//! - `transactions`: exactly once through the end of this process; `marks`: the ids of the records that they have written;
//!   `ends`: ends of transactions that Kafka has lost, with requests in the encoding of `compact`.

pub(crate) mod batches;
mod compact;
pub(crate) mod connection;
mod ends;
pub(crate) mod fetch;
mod marks;
pub(crate) mod records;
mod scram;
mod transactions;
mod unpack;
pub(crate) mod wire;

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use self::connection::{Access, BrokerConnection};
pub use self::marks::MAX_MARKED_WINDOW;
use self::marks::{IdHash, Marks};
use self::records::{BatchEntry, Sequence};
use self::transactions::{Transaction, Transactions};
use self::wire::{AnswerReader, Led, Metadata, code};
use super::place::{Ids, LaneIds};
use super::socket::{ServerAddress, ServiceUrl, share_of};
use super::{Sink, SinkError, tls};
use crate::message::HOPS_PROPERTY;
use crate::open_error::OpenError;
use crate::record::Record;

/// The usual port of a broker.
const PORT: u16 = 9092;
/// Longest name of a topic, bytes.
const MAX_TOPIC: usize = 249;
/// Pause before a topic that is being made is looked at again.
const PAUSE: Duration = Duration::from_millis(100);

/// The SASL mechanism that proves the password.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SaslMechanism {
    /// As it is.
    #[default]
    Plain,
    /// Brokers learn only that it is known.
    ScramSha256,
    /// The same with a longer hash.
    ScramSha512,
}

/// Which brokers, and the topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KafkaSettings {
    /// `kafka://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]...]`, or `kafkas://` for TLS.
    pub url: String,
    /// The SASL mechanism that proves the password.
    pub mechanism: SaslMechanism,
    /// Authorities that are trusted; without a file, the system's.
    pub ca_file: Option<PathBuf>,
    /// The topic, which brokers make when their settings say so.
    pub topic: String,
    /// Whether each batch is a transaction, so that a record is there once whatever ends.
    pub exactly_once: bool,
    /// The prefix of ids of transactions. Processes with one prefix take the transactions of a pipeline's sink over.
    pub transactions_prefix: String,
    /// Time for a batch.
    pub timeout: Duration,
}

impl KafkaSettings {
    /// Reads the address, or names the key whose value is of no use, and why.
    pub(crate) fn check(&self) -> Result<ServiceUrl, (&'static str, String)> {
        let form =
            || ("url", "`url` is kafka://[USER:PASSWORD@]HOST[:PORT][,HOST...], or kafkas://... for TLS".to_owned());
        let url = ServiceUrl::parse(&self.url, ("kafka", PORT), ("kafkas", PORT)).ok_or_else(form)?;
        if url.path.as_ref().is_some_and(|path| !path.is_empty()) {
            return Err(form());
        }
        let topic = &self.topic;
        let fits = |one: char| one.is_ascii_alphanumeric() || "._-".contains(one);
        if topic.is_empty()
            || topic.len() > MAX_TOPIC
            || matches!(topic.as_str(), "." | "..")
            || !topic.chars().all(fits)
        {
            let why = format!("`{topic}` is no name of a topic of Kafka: it has letters, digits, `.`, `_` and `-`");
            return Err(("topic", why));
        }
        if self.exactly_once && self.transactions_prefix.is_empty() {
            return Err(("transactions_prefix", "ids of transactions begin with some text".to_owned()));
        }
        if !url.secure && self.ca_file.is_some() {
            return Err(("ca", "`ca` is for TLS: begin the URL with kafkas://".to_owned()));
        }
        Ok(url)
    }
}

pub(super) struct KafkaSink {
    settings: KafkaSettings,
    servers: Vec<ServerAddress>,
    access: Access,
    ids: Ids,
    cluster: Option<Cluster>,
    producer: Option<Producer>,
    /// The ids that transactions have written, where there are some.
    marks: Option<Marks>,
    /// Nothing after a failure whose end is not known: further marks are read then.
    transactions: Option<Transactions>,
    /// Ids of records that brokers have out of batches that failed: these come again without them.
    accepted: HashSet<String>,
}

/// The brokers that lead the partitions of a topic.
#[derive(Debug, Default)]
pub(crate) struct Cluster {
    brokers: BTreeMap<i32, ServerAddress>,
    pub(crate) partitions: Vec<Led>,
    connections: BTreeMap<i32, BrokerConnection>,
}

/// The number of the producer, and its state at each partition.
#[derive(Debug)]
struct Producer {
    id: i64,
    epoch: i16,
    partitions: BTreeMap<i32, Numbering>,
}

#[derive(Debug, Default)]
struct Numbering {
    next: i32,
    /// The ids of the batch whose answer has not come. It comes again with the same number, and the broker drops it if
    /// it is there.
    uncertain: Option<Vec<String>>,
}

/// Records for one partition.
type Group = Vec<Arc<Record>>;

impl KafkaSink {
    pub(super) fn new(settings: &KafkaSettings, ids: Ids, lane: usize) -> Result<Self, OpenError> {
        let url = settings.check()?;
        let tls = if url.secure { Some(tls::client(settings.ca_file.as_deref())?) } else { None };
        let access = Access { tls, login: url.login, mechanism: settings.mechanism };
        let lane_ids = || LaneIds::new(&ids, &settings.transactions_prefix, lane);
        let marks = settings.exactly_once.then(|| Marks::new(lane_ids()));
        Ok(Self {
            settings: settings.clone(),
            servers: url.servers,
            access,
            ids,
            cluster: None,
            producer: None,
            marks,
            transactions: None,
            accepted: HashSet::new(),
        })
    }

    fn seeker(&self) -> Seeker<'_> {
        Seeker {
            servers: &self.servers,
            access: &self.access,
            makes_topics: true,
            takes_parts: false,
            awaits_topics: true,
        }
    }

    /// Finds the leaders of the partitions, and asks for a producer where it is missing.
    fn find(&mut self, deadline: Instant) -> Result<Cluster, SinkError> {
        let cluster = self.seeker().cluster(&self.settings.topic, deadline)?;
        let producer = match self.producer.take() {
            Some(producer) => producer,
            None => self.seeker().ask(deadline, new_producer)?,
        };
        self.producer = Some(producer);
        Ok(cluster)
    }

    /// Writes the records that are not there yet, as one transaction.
    fn write_once(&mut self, marks: &mut Marks, batch: &[Arc<Record>], deadline: Instant) -> Result<(), SinkError> {
        let mut transactions = if let Some(transactions) = self.transactions.take() {
            transactions
        } else {
            ends::mend(marks, &self.seeker(), &self.settings.topic, deadline)?;
            Transactions::open(marks, &self.seeker(), deadline)?
        };
        let mut cluster = match self.cluster.take() {
            Some(cluster) => cluster,
            None => self.seeker().cluster(&self.settings.topic, deadline)?,
        };
        let (mut groups, mut ids) = (BTreeMap::<i32, Vec<BatchEntry>>::new(), Vec::new());
        for record in batch.iter().filter(|record| !marks.contains(record.id())) {
            groups.entry(cluster.partition_of(record.key())).or_default().push(self.entry(record));
            ids.push(IdHash::of(record.id()));
        }
        let mut written = Ok(());
        if !ids.is_empty() {
            let batch = Transaction { topic: &self.settings.topic, groups: &groups, ids: &ids };
            written = transactions.write(&batch, &mut cluster, marks, (&self.access, deadline));
        }
        if written.as_ref().map_or_else(|failed| failed.is_aborted, |()| true) {
            (self.transactions, self.cluster) = (Some(transactions), Some(cluster));
        }
        written.map_err(|failed| failed.error)
    }

    fn entry(&self, record: &Record) -> BatchEntry {
        let own = [
            ("message_id", self.ids.of(record.id())),
            ("mqtt_topic", record.topic().to_owned()),
            (HOPS_PROPERTY, record.hops().to_string()),
        ];
        let own = own.into_iter().map(|(name, value)| (name.into(), value));
        let headers = own.chain(crate::headers::KAFKA.of(record)).map(|(name, value)| (name, value.into_bytes()));
        let (key, value, timestamp) = (record.key().as_bytes().to_vec(), record.body(), record.timestamp());
        BatchEntry { key, value, timestamp, headers: headers.collect() }
    }

    /// Writes groups of records to their partitions and returns the error of each partition, 0 for none.
    fn produce(&mut self, groups: &BTreeMap<i32, Group>, deadline: Instant) -> Result<Vec<(i32, i16)>, SinkError> {
        let mut cluster = match self.cluster.take() {
            Some(cluster) if self.producer.is_some() => cluster,
            _ => self.find(deadline)?,
        };
        let is_other = |producer: &Producer| {
            groups.iter().any(|(partition, group)| {
                let numbering = producer.partitions.get(partition);
                numbering.is_some_and(|numbering| numbering.cannot_take(group))
            })
        };
        if self.producer.as_ref().is_some_and(is_other) {
            // A number means one batch, and this is another one, so a new producer begins.
            self.producer = None;
            cluster = self.find(deadline)?;
        }
        let mut leaders: BTreeMap<i32, Vec<(i32, Vec<u8>)>> = BTreeMap::new();
        for (partition, group) in groups {
            let leader = cluster.leader_of(*partition)?;
            let entries: Vec<BatchEntry> = group.iter().map(|record| self.entry(record)).collect();
            let Some(producer) = &mut self.producer else { return Err(SinkError::away("there is no producer")) };
            let numbering = producer.partitions.entry(*partition).or_default();
            numbering.uncertain = Some(ids_of(group));
            let (producer, epoch, first) = (producer.id, producer.epoch, numbering.next);
            let sequence = Sequence { producer, epoch, first, in_transaction: false };
            leaders.entry(leader).or_default().push((*partition, records::batch(sequence, &entries)));
        }
        let timeout = i32::try_from(self.settings.timeout.as_millis()).unwrap_or(i32::MAX);
        let mut outcomes = Vec::new();
        for (leader, batches) in leaders {
            let body = wire::produce(None, &self.settings.topic, timeout, &batches);
            let answer = cluster.connection(leader, &self.access, deadline)?.ask(wire::PRODUCE, &body)?;
            outcomes.extend(wire::produced(&mut AnswerReader(&answer))?);
        }
        self.cluster = Some(cluster);
        Ok(outcomes)
    }

    /// Notes the outcome of each group, and returns why the batch is not done, if it is not.
    fn settle(&mut self, groups: &BTreeMap<i32, Group>, outcomes: &[(i32, i16)]) -> Result<(), SinkError> {
        let (mut refused, mut away) = (None, None);
        for (partition, group) in groups {
            let outcome = outcomes.iter().find(|(of, _)| of == partition).map(|(_, error)| *error);
            let numbering = self.producer.as_mut().and_then(|producer| producer.partitions.get_mut(partition));
            match outcome {
                Some(0 | code::DUPLICATE_SEQUENCE) => {
                    if let Some(numbering) = numbering {
                        numbering.advance(group.len());
                    }
                    self.accepted.extend(group.iter().map(|record| record.id().to_owned()));
                }
                None => away = Some("the broker says nothing of a partition".to_owned()),
                Some(error) if is_refusal(error) => {
                    if let Some(numbering) = numbering {
                        numbering.uncertain = None;
                    }
                    refused = Some(wire::in_words(error));
                }
                Some(error) => {
                    if is_about_numbers(error) {
                        self.producer = None;
                    }
                    self.cluster = None;
                    away = Some(wire::in_words(error));
                }
            }
        }
        match (away, refused) {
            (Some(why), _) => Err(SinkError::Away(why)),
            (None, Some(why)) => Err(SinkError::Refused(why)),
            (None, None) => Ok(()),
        }
    }

    fn groups(&mut self, batch: &[Arc<Record>], deadline: Instant) -> Result<BTreeMap<i32, Group>, SinkError> {
        if self.cluster.is_none() || self.producer.is_none() {
            self.cluster = Some(self.find(deadline)?);
        }
        let mut groups: BTreeMap<i32, Group> = BTreeMap::new();
        let Some(cluster) = &self.cluster else { return Ok(groups) };
        for record in batch.iter().filter(|record| !self.accepted.contains(record.id())) {
            groups.entry(cluster.partition_of(record.key())).or_default().push(Arc::clone(record));
        }
        Ok(groups)
    }
}

impl Numbering {
    /// Whether a batch waits for its answer that is not this one.
    fn cannot_take(&self, group: &[Arc<Record>]) -> bool {
        let is_full = i32::try_from(group.len()).ok().and_then(|len| self.next.checked_add(len)).is_none();
        is_full || self.uncertain.as_ref().is_some_and(|ids| *ids != ids_of(group))
    }

    fn advance(&mut self, len: usize) {
        self.uncertain = None;
        self.next = self.next.saturating_add(i32::try_from(len).unwrap_or(i32::MAX));
    }
}

fn ids_of(group: &[Arc<Record>]) -> Vec<String> {
    group.iter().map(|record| record.id().to_owned()).collect()
}

/// Whether a record is to blame, which no retry mends.
fn is_refusal(error: i16) -> bool {
    matches!(
        error,
        code::MESSAGE_TOO_LARGE | code::RECORD_LIST_TOO_LARGE | code::INVALID_TIMESTAMP | code::INVALID_RECORD
    )
}

/// Whether the broker does not know the numbers of this producer.
fn is_about_numbers(error: i16) -> bool {
    matches!(error, code::OUT_OF_ORDER_SEQUENCE | code::INVALID_PRODUCER_EPOCH | code::UNKNOWN_PRODUCER)
}

fn new_producer(connection: &mut BrokerConnection) -> Result<Producer, SinkError> {
    // No transactions, whose longest time is of no account then.
    let mut body = (-1_i16).to_be_bytes().to_vec();
    body.extend_from_slice(&0_i32.to_be_bytes());
    let answer = connection.ask(wire::INIT_PRODUCER_ID, &body)?;
    let mut answer = AnswerReader(&answer);
    answer.i32()?;
    match answer.i16()? {
        0 => Ok(Producer { id: answer.i64()?, epoch: answer.i16()?, partitions: BTreeMap::new() }),
        error => Err(SinkError::Away(wire::in_words(error))),
    }
}

/// Asks the brokers that the settings name.
pub(crate) struct Seeker<'a> {
    pub(crate) servers: &'a [ServerAddress],
    pub(crate) access: &'a Access,
    /// Whether brokers make a topic that is not there.
    pub(crate) makes_topics: bool,
    /// Whether a topic is of use while some of its partitions have no leader.
    pub(crate) takes_parts: bool,
    /// Whether a topic that is not there is being made.
    pub(crate) awaits_topics: bool,
}

impl Seeker<'_> {
    /// Asks one broker after the other, until one answers.
    pub(crate) fn ask<T>(
        &self,
        deadline: Instant,
        mut ask: impl FnMut(&mut BrokerConnection) -> Result<T, SinkError>,
    ) -> Result<T, SinkError> {
        let mut last = SinkError::away("no broker answers");
        for (at, left) in self.servers.iter().zip((1..=self.servers.len()).rev()) {
            let until = share_of(Instant::now(), deadline, left);
            match BrokerConnection::open(at, self.access, until).and_then(|mut connection| ask(&mut connection)) {
                Ok(found) => return Ok(found),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// The brokers that lead the partitions of a topic.
    pub(crate) fn cluster(&self, topic: &str, deadline: Instant) -> Result<Cluster, SinkError> {
        self.ask(deadline, |connection| {
            let metadata = self.metadata(connection, topic, deadline)?;
            let brokers = metadata.addresses()?;
            Ok(Cluster { brokers, partitions: metadata.partitions, connections: BTreeMap::new() })
        })
    }

    /// The metadata of a topic, as one broker has it now.
    fn describe(&self, connection: &mut BrokerConnection, topic: &str) -> Result<Metadata, SinkError> {
        let answer = connection.ask(wire::METADATA, &wire::metadata(topic, self.makes_topics))?;
        Metadata::read(&mut AnswerReader(&answer))
    }

    /// The partitions of a topic, once the brokers have made it.
    fn metadata(
        &self,
        connection: &mut BrokerConnection,
        topic: &str,
        deadline: Instant,
    ) -> Result<Metadata, SinkError> {
        loop {
            let metadata = self.describe(connection, topic)?;
            let error = if self.takes_parts { metadata.topic_error } else { metadata.error };
            if error == 0 && !metadata.partitions.is_empty() {
                return Ok(metadata);
            }
            let is_coming = match error {
                code::LEADER_NOT_AVAILABLE => true,
                code::UNKNOWN_TOPIC => self.awaits_topics,
                _ => false,
            };
            if !is_coming || Instant::now() + 2 * PAUSE > deadline {
                return Err(SinkError::Away(format!("topic {topic}: {}", wire::in_words(error))));
            }
            std::thread::park_timeout(PAUSE);
        }
    }
}

impl Cluster {
    /// The numbers of the partitions.
    pub(crate) fn numbers(&self) -> Vec<i32> {
        self.partitions.iter().map(|led| led.partition).collect()
    }

    /// Takes over what the brokers say now. Connections to brokers with the same address stay.
    pub(crate) fn renew(&mut self, found: Self) {
        let Self { brokers, connections, .. } = std::mem::replace(self, found);
        let stays = |(id, _): &(i32, BrokerConnection)| self.brokers.get(id) == brokers.get(id);
        self.connections = connections.into_iter().filter(stays).collect();
    }

    /// Drops the connection to a broker that has not answered.
    pub(crate) fn forget(&mut self, broker: i32) {
        self.connections.remove(&broker);
    }

    pub(crate) fn leader_of(&self, partition: i32) -> Result<i32, SinkError> {
        let led = self.partitions.iter().find(|led| led.partition == partition);
        led.map(|led| led.leader).ok_or_else(|| SinkError::away("a partition has gone"))
    }

    /// The partition of a key. There is one at least.
    fn partition_of(&self, key: &str) -> i32 {
        let place = records::partition(key.as_bytes(), self.partitions.len());
        self.partitions.get(place).map_or(0, |led| led.partition)
    }

    pub(crate) fn connection(
        &mut self,
        broker: i32,
        access: &Access,
        deadline: Instant,
    ) -> Result<&mut BrokerConnection, SinkError> {
        let known = self.connections.remove(&broker).filter(|connection| !connection.is_stale());
        let mut connection = if let Some(connection) = known {
            connection
        } else {
            let at = self.brokers.get(&broker).ok_or_else(|| SinkError::away("a partition has no leader"))?;
            BrokerConnection::open(at, access, deadline)?
        };
        connection.set_deadline(deadline);
        Ok(self.connections.entry(broker).or_insert(connection))
    }
}

impl Sink for KafkaSink {
    fn write(&mut self, batch: &[Arc<Record>]) -> Result<(), SinkError> {
        let deadline = Instant::now() + self.settings.timeout;
        if let Some(mut marks) = self.marks.take() {
            let written = self.write_once(&mut marks, batch, deadline);
            self.marks = Some(marks);
            return written;
        }
        let groups = self.groups(batch, deadline)?;
        if !groups.is_empty() {
            let outcomes = self.produce(&groups, deadline)?;
            self.settle(&groups, &outcomes)?;
        }
        // The other half of a batch that failed may still come.
        for record in batch {
            self.accepted.remove(record.id());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Message;
    use crate::record::Content;

    fn group(ids: &[&str]) -> Group {
        let message = |id: &&str| Arc::new(Message { id: (*id).to_owned(), ..Message::default() });
        ids.iter().map(|id| Arc::new(Record::new(message(id), Content::default()))).collect()
    }

    fn sink() -> KafkaSink {
        let settings = KafkaSettings { url: "kafka://h".into(), topic: "t".into(), ..KafkaSettings::default() };
        let mut sink = KafkaSink::new(&settings, Ids::default(), 0).unwrap();
        let numbering = |ids: &Group| Numbering { next: 5, uncertain: Some(ids_of(ids)) };
        let partitions = [(0, numbering(&group(&["a", "b"]))), (1, numbering(&group(&["c"])))].into();
        sink.producer = Some(Producer { id: 1, epoch: 0, partitions });
        sink.cluster = Some(Cluster::default());
        sink
    }

    fn groups() -> BTreeMap<i32, Group> {
        [(0, group(&["a", "b"])), (1, group(&["c"]))].into()
    }

    fn next(sink: &KafkaSink, partition: i32) -> Option<(i32, bool)> {
        let numbering = sink.producer.as_ref()?.partitions.get(&partition)?;
        Some((numbering.next, numbering.uncertain.is_some()))
    }

    #[test]
    fn a_silent_broker_leaves_time_for_the_others() {
        let listen = || std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (silent, closed) = (listen(), listen());
        let port = |listener: &std::net::TcpListener| listener.local_addr().unwrap().port();
        let settings = KafkaSettings {
            url: format!("kafka://127.0.0.1:{},127.0.0.1:{}", port(&silent), port(&closed)),
            topic: "t".into(),
            timeout: Duration::from_secs(4),
            ..KafkaSettings::default()
        };
        let other = std::thread::spawn(move || drop(closed.accept().unwrap()));
        let mut sink = KafkaSink::new(&settings, Ids::default(), 0).unwrap();
        let why = sink.write(&group(&["a"])).unwrap_err().to_string();
        other.join().unwrap();
        assert!(!why.contains("in time"), "{why}");
    }

    #[test]
    fn records_that_a_broker_has_do_not_come_again() {
        let mut sink = sink();
        let outcome = sink.settle(&groups(), &[(0, 0), (1, code::MESSAGE_TOO_LARGE)]);
        assert!(matches!(outcome, Err(SinkError::Refused(_))), "{outcome:?}");
        assert_eq!((next(&sink, 0), next(&sink, 1)), (Some((7, false)), Some((5, false))));
        assert_eq!(sink.accepted, HashSet::from(["a".to_owned(), "b".to_owned()]));
    }

    #[test]
    fn a_batch_without_an_answer_keeps_its_number() {
        let mut sink = sink();
        let outcome = sink.settle(&groups(), &[(0, code::DUPLICATE_SEQUENCE), (1, 7)]);
        assert!(matches!(outcome, Err(SinkError::Away(_))), "{outcome:?}");
        assert_eq!((next(&sink, 0), next(&sink, 1)), (Some((7, false)), Some((5, true))));
        assert!(sink.cluster.is_none(), "the leaders are asked for again");
        let numbering = &sink.producer.as_ref().unwrap().partitions[&1];
        assert!(!numbering.cannot_take(&group(&["c"])));
        assert!(numbering.cannot_take(&group(&["d"])), "the number of another batch would have it dropped");
        assert!(Numbering { next: i32::MAX, uncertain: None }.cannot_take(&group(&["a"])));
    }

    #[test]
    fn a_producer_that_the_broker_does_not_know_is_replaced() {
        let mut sink = sink();
        let outcome = sink.settle(&groups(), &[(0, code::UNKNOWN_PRODUCER), (1, 0)]);
        assert!(matches!(outcome, Err(SinkError::Away(_))), "{outcome:?}");
        assert!(sink.producer.is_none());
    }

    #[test]
    fn settings_that_are_of_no_use_name_their_key() {
        let key = |url: &str, topic: &str, ca: bool| {
            let ca_file = ca.then(|| PathBuf::from("ca.pem"));
            let settings = KafkaSettings { url: url.into(), topic: topic.into(), ca_file, ..KafkaSettings::default() };
            settings.check().err().map(|(key, _)| key)
        };
        assert_eq!(key("kafka://u:p@a,b:1", "t.x", false), None);
        assert_eq!(key("a:9092", "t", false), Some("url"));
        assert_eq!(key("kafka://a/x", "t", false), Some("url"));
        assert_eq!(key("kafka://a", "a/b", false), Some("topic"));
        assert_eq!(key("kafka://a", "t", true), Some("ca"));
    }
}
