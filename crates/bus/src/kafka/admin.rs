//! Topics: made, described, trimmed.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rdkafka::admin::{
    AdminClient, AdminOptions, ConfigResourceResult, NewTopic, ResourceSpecifier, TopicReplication, TopicResult,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::topic_partition_list::TopicPartitionListElem;
use rdkafka::{Offset, TopicPartitionList};
use tokio::runtime::Runtime;

use super::client::{ANSWER_WITHIN, Common, client_error, remaining};
use super::message::index_of;
use crate::completion::Completion;
use crate::{Bounds, BusError, Keep, LogPartition, LogSpec, Position};

/// How long is waited before something is asked again.
const AGAIN_AFTER: Duration = Duration::from_millis(100);
/// The difference of a topic that Kafka has made for a client that asked for it before this program did.
const PARTITIONS: &str = "number of partitions (Kafka makes a topic for any client that asks for it, unless auto.create.topics.enable=false)";

/// How many copies of a topic have to be in sync, for Kafka to take a record.
const MIN_IN_SYNC: &str = "min.insync.replicas";
/// From this number of brokers on, the log warns about a single copy.
const MANY_BROKERS: usize = 3;

/// The least lease where one of several brokers may die. The others miss it after
/// `broker.session.timeout.ms`, 9 s unless set otherwise, then choose new leaders, which clients have to find, and end
/// transactions that it coordinated: nothing was confirmed for up to 16 s (docs/bus.md has the measurements). A member
/// shows each quarter of its lease that it lives, so three quarters of it have to be longer than that.
const LEAST_LEASE: Duration = Duration::from_secs(22);

/// How often a topic that is not as it should be is looked at again, until that is believed: with several brokers one
/// may be asked that has yet to hear how the topic was made a moment ago.
const LOOKS: u32 = 10;

/// The properties of a topic that exists.
struct Found {
    partitions: u32,
    /// Copies of the partition that has the fewest.
    copies: usize,
    brokers: usize,
}

/// The copies that have to be in sync when a record is confirmed: more than half of all. Otherwise a single
/// copy could be all that has it, and Kafka confirms before any of them has written it to its disk.
fn in_sync(replicas: u8) -> usize {
    usize::from(replicas) / 2 + 1
}

/// True if a lease ends before the other brokers replace a dead one. A single broker is away until its restart,
/// whatever the lease is.
fn is_short(lease: Duration, brokers: usize) -> bool {
    brokers > 1 && lease < LEAST_LEASE
}

/// A log that is to be there, and who waits for it.
pub(super) type Wanted = (Arc<LogSpec>, Completion<()>);

/// The topic of a log.
struct Topic<'a> {
    spec: &'a LogSpec,
    name: String,
    /// How long a record is kept, milliseconds.
    age: String,
}

impl<'a> Topic<'a> {
    fn of(spec: &'a LogSpec, common: &Common) -> Self {
        let age = spec.keep_for.map_or("-1".to_owned(), |age| age.as_millis().to_string());
        Self { spec, name: common.topic(&spec.name), age }
    }

    /// The request to Kafka: with `copies` copies; `in_sync` is the least number in sync.
    fn with<'t>(&'t self, copies: u8, in_sync: &'t str) -> NewTopic<'t> {
        let policy = if self.spec.keep == Keep::LatestOfKey { "compact,delete" } else { "delete" };
        let replicas = TopicReplication::Fixed(i32::from(copies));
        NewTopic::new(&self.name, self.spec.partitions.cast_signed(), replicas)
            .set("cleanup.policy", policy)
            .set("retention.ms", &self.age)
            .set("retention.bytes", "-1")
            .set(MIN_IN_SYNC, in_sync)
    }
}

/// The first of each name, and all others: a request may name a topic once.
fn one_of_each(wanted: Vec<Wanted>) -> (Vec<Wanted>, Vec<Wanted>) {
    let mut names = HashSet::new();
    wanted.into_iter().partition(|(spec, _)| names.insert(spec.name.clone()))
}

pub(super) struct Admin {
    common: Arc<Common>,
    warned_of_one_copy: AtomicBool,
    warned_of_short_lease: AtomicBool,
    client: AdminClient<DefaultClientContext>,
    consumer: BaseConsumer,
    /// The runtime that waits for the futures of the client.
    runtime: Runtime,
}

/// Why an attempt failed.
enum Failure {
    /// It may go better another time.
    Again(String),
    /// Something is not as it should be, as far as the broker has heard that was asked.
    Doubtful,
    Final(BusError),
}

impl From<KafkaError> for Failure {
    fn from(error: KafkaError) -> Self {
        Self::Again(error.to_string())
    }
}

impl Admin {
    pub(super) fn new(common: Arc<Common>) -> Result<Self, BusError> {
        let client = common.config().create().map_err(|error| client_error(&error))?;
        let consumer = common.consumer().create().map_err(|error| client_error(&error))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| BusError::Client(error.to_string()))?;
        let (warned_of_one_copy, warned_of_short_lease) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Self { common, warned_of_one_copy, warned_of_short_lease, client, consumer, runtime })
    }

    fn until<T>(&self, deadline: Instant, mut attempt: impl FnMut() -> Result<T, Failure>) -> Result<T, BusError> {
        loop {
            self.common.connected(deadline)?;
            match attempt() {
                Ok(outcome) => return Ok(outcome),
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Again(reason)) if Instant::now() >= deadline => return Err(self.common.away(&reason)),
                Err(Failure::Again(_) | Failure::Doubtful) => {
                    std::thread::park_timeout(AGAIN_AFTER.min(remaining(deadline)));
                }
            }
        }
    }

    /// Makes the topics of logs, or finds them as they should be: all by one request, since Kafka takes its time for
    /// each.
    pub(super) fn create(&self, mut wanted: Vec<Wanted>) {
        while !wanted.is_empty() {
            let (together, again) = one_of_each(wanted);
            self.create_together(together);
            wanted = again;
        }
    }

    fn create_together(&self, mut wanted: Vec<Wanted>) {
        let mut looks = LOOKS;
        while !wanted.is_empty() {
            let outcomes = self.attempt(&wanted, looks == 0);
            looks -= u32::from(outcomes.iter().any(|outcome| matches!(outcome, Err(Failure::Doubtful))));
            let now = Instant::now();
            let mut again = Vec::new();
            for ((spec, completion), outcome) in wanted.into_iter().zip(outcomes) {
                match outcome {
                    Ok(()) => completion.finish(Ok(())),
                    Err(Failure::Final(error)) => completion.finish(Err(error)),
                    Err(Failure::Again(reason)) if now >= completion.deadline() => {
                        completion.finish(Err(self.common.away(&reason)));
                    }
                    Err(Failure::Again(_) | Failure::Doubtful) => again.push((spec, completion)),
                }
            }
            wanted = again;
            if !wanted.is_empty() {
                std::thread::park_timeout(AGAIN_AFTER);
            }
        }
    }

    /// One attempt for all. An outcome for each of them, in their order. `believes` is whether a broker is taken at its
    /// word.
    fn attempt(&self, wanted: &[Wanted], believes: bool) -> Vec<Result<(), Failure>> {
        let for_all = |reason: String| wanted.iter().map(|_| Err(Failure::Again(reason.clone()))).collect();
        let first = wanted.iter().map(|(_, completion)| completion.deadline()).min();
        if first.is_some_and(|deadline| self.common.connected(deadline).is_err()) {
            return for_all("there is no connection".to_owned());
        }
        let topics: Vec<Topic<'_>> = wanted.iter().map(|(spec, _)| Topic::of(spec, &self.common)).collect();
        let (made, described) = match self.make(&topics).and_then(|made| Ok((made, self.describe(&topics)?))) {
            Ok(answers) => answers,
            Err(error) => return for_all(error.to_string()),
        };
        if made.len() != topics.len() || described.len() != topics.len() {
            return for_all("the brokers did not answer for all topics".to_owned());
        }
        let judge = |((topic, made), config): ((&Topic<'_>, Result<(), Failure>), ConfigResourceResult)| {
            made.and_then(|()| self.judge(topic, config, believes))
        };
        topics.iter().zip(made).zip(described).map(judge).collect()
    }

    /// Whether a topic that is there is as it should be.
    fn judge(&self, topic: &Topic<'_>, config: ConfigResourceResult, believes: bool) -> Result<(), Failure> {
        let mismatch =
            |difference| Err(Failure::Final(BusError::Mismatch { log: topic.spec.name.to_string(), difference }));
        let there = self.found(&topic.name)?;
        if there.partitions != topic.spec.partitions {
            return mismatch(PARTITIONS);
        }
        let config = config.map_err(|code| Failure::Again(code.to_string()))?;
        let value = |name| config.get(name).and_then(|entry| entry.value.clone()).unwrap_or_default();
        let min_in_sync = value(MIN_IN_SYNC).parse().unwrap_or(1);
        let is_kept_right = value("cleanup.policy").contains("compact") == (topic.spec.keep == Keep::LatestOfKey);
        let is_right = is_kept_right && min_in_sync >= in_sync(self.common.settings.copies(there.brokers));
        if !is_right && !believes {
            return Err(Failure::Doubtful);
        }
        if !is_kept_right {
            return mismatch("way of keeping records");
        }
        self.warn_of_few_copies(&topic.name, &there, min_in_sync);
        if topic.spec.name.is_of_group() {
            self.warn_of_short_lease(&topic.name, there.brokers);
        }
        Ok(())
    }

    /// How many copies a topic gets.
    fn copies(&self) -> KafkaResult<u8> {
        match self.common.settings.replicas {
            0 => {
                let brokers = self.consumer.fetch_metadata(None, ANSWER_WITHIN)?.brokers().len();
                Ok(self.common.settings.copies(brokers))
            }
            asked => Ok(asked),
        }
    }

    /// The topic of live messages: they are for present listeners only, but a topic has to keep some records.
    pub(super) fn create_live(&self, deadline: Instant) -> Result<(), BusError> {
        let name = self.common.live_topic();
        self.until(deadline, || {
            let replicas = TopicReplication::Fixed(i32::from(self.copies()?));
            let new = NewTopic::new(&name, 1, replicas).set("cleanup.policy", "delete");
            let new = [new.set("retention.ms", "60000").set("segment.ms", "60000")];
            self.ask_for(&new)?.pop().unwrap_or_else(|| Err(Failure::Again("no topic was made".to_owned())))?;
            // It exists when all brokers say so.
            self.found(&name).map(drop)
        })
    }

    /// Makes topics that do not exist. Returns an outcome for each of them, in their order.
    fn make(&self, topics: &[Topic<'_>]) -> KafkaResult<Vec<Result<(), Failure>>> {
        let copies = self.copies()?;
        let in_sync = in_sync(copies).to_string();
        let new: Vec<NewTopic<'_>> = topics.iter().map(|topic| topic.with(copies, &in_sync)).collect();
        self.ask_for(&new)
    }

    fn ask_for(&self, new: &[NewTopic<'_>]) -> KafkaResult<Vec<Result<(), Failure>>> {
        let options = AdminOptions::new().request_timeout(Some(ANSWER_WITHIN));
        // The client returns the results in the order of the request.
        let results = self.runtime.block_on(self.client.create_topics(new, &options))?;
        let outcome = |result: TopicResult| match result {
            Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => Ok(()),
            Err((_, code @ RDKafkaErrorCode::InvalidReplicationFactor)) => {
                let copies = self.common.settings.replicas;
                Err(Failure::Again(format!(
                    "{copies} copies are asked for (`bus_replicas`), and fewer brokers run: {code}"
                )))
            }
            Err((_, code)) => Err(Failure::Again(code.to_string())),
        };
        Ok(results.into_iter().map(outcome).collect())
    }

    /// How topics are set up, in their order.
    fn describe(&self, topics: &[Topic<'_>]) -> KafkaResult<Vec<ConfigResourceResult>> {
        let options = AdminOptions::new().request_timeout(Some(ANSWER_WITHIN));
        let named: Vec<_> = topics.iter().map(|topic| ResourceSpecifier::Topic(&topic.name)).collect();
        self.runtime.block_on(self.client.describe_configs(&named, &options))
    }

    fn found(&self, topic: &str) -> Result<Found, Failure> {
        let metadata = self.consumer.fetch_metadata(Some(topic), ANSWER_WITHIN)?;
        let found = metadata.topics().iter().find(|found| found.name() == topic && found.error().is_none());
        let partitions = found.map_or(&[][..], |found| found.partitions());
        if partitions.is_empty() || partitions.iter().any(|partition| partition.leader() < 0) {
            return Err(Failure::Again("the topic has no leader yet".to_owned()));
        }
        let copies = partitions.iter().map(|partition| partition.replicas().len()).min().unwrap_or_default();
        Ok(Found { partitions: partitions.len() as u32, copies, brokers: metadata.brokers().len() })
    }

    /// Says what of a topic is less safe than it could be, or was asked for. It may have been made by others, or when
    /// there were fewer brokers.
    fn warn_of_few_copies(&self, topic: &str, found: &Found, min_in_sync: usize) {
        let wanted = self.common.settings.copies(found.brokers);
        let (asked, copies, least) = (usize::from(wanted), found.copies, in_sync(wanted));
        if copies < asked {
            tracing::warn!(
                topic,
                copies,
                asked,
                "a topic has fewer replicas than configured; raise them with kafka-reassign-partitions.sh"
            );
        } else if min_in_sync < least {
            tracing::warn!(
                topic,
                "a topic takes records with {min_in_sync} of {copies} copies in sync, and acknowledged records may be lost with a broker: \
                 kafka-configs.sh --alter --entity-type topics --entity-name {topic} --add-config {MIN_IN_SYNC}={least}"
            );
        } else if asked == 1 && found.brokers >= MANY_BROKERS && !self.warned_of_one_copy.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(
                brokers = found.brokers,
                "topics on the bus have one replica and are unavailable without its broker; set `bus_replicas` to 3 before topics are created"
            );
        }
    }

    /// Says that members of a group will be given up together when a broker dies.
    fn warn_of_short_lease(&self, topic: &str, brokers: usize) {
        let lease = self.common.settings.lease;
        if is_short(lease, brokers) && !self.warned_of_short_lease.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                topic,
                brokers,
                lease = ?lease,
                "when one of its brokers dies, Kafka is away for up to 16 s, and a member with so short a lease loses its place: leave `lease` out, \
                 or let it be at least {} s",
                LEAST_LEASE.as_secs()
            );
        }
    }

    pub(super) fn bounds(&self, place: &LogPartition, deadline: Instant) -> Result<Bounds, BusError> {
        self.until(deadline, || Ok(self.common.bounds(place)?))
    }

    pub(super) fn trim(&self, place: &LogPartition, below: Position, deadline: Instant) -> Result<(), BusError> {
        let topic = self.common.topic(&place.log);
        let options = AdminOptions::new().request_timeout(Some(ANSWER_WITHIN));
        self.until(deadline, || {
            let offset = Offset::Offset(i64::try_from(below.0).unwrap_or(i64::MAX));
            let mut partitions = TopicPartitionList::new();
            partitions.add_partition_offset(&topic, index_of(place), offset)?;
            let trimmed = self.runtime.block_on(self.client.delete_records(&partitions, &options))?;
            let outcome: KafkaResult<()> = trimmed.elements().iter().try_for_each(TopicPartitionListElem::error);
            outcome.map_err(Failure::from)
        })
    }

    /// Asks whether the brokers answer.
    pub(super) fn answers<C: ConsumerContext>(consumer: &BaseConsumer<C>, topic: &str) -> KafkaResult<()> {
        consumer.fetch_metadata(Some(topic), Duration::from_secs(1)).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Address, Settings};

    #[test]
    fn a_lease_must_outlast_the_death_of_one_of_several_brokers() {
        let usual = Settings::default().lease;
        assert!(is_short(usual, 3) && is_short(usual, 2) && !is_short(usual, 1));
        let of_kafka = "kafka://h".parse::<Address>().unwrap().usual_lease();
        assert!(!is_short(of_kafka, 3) && !is_short(LEAST_LEASE, 3));
    }

    #[test]
    fn more_than_half_of_all_copies_have_confirmed_records() {
        assert_eq!([1, 2, 3, 4, 5].map(in_sync), [1, 2, 2, 3, 3]);
    }
}
