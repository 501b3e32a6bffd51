//! Topics: made, described, trimmed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::topic_partition_list::TopicPartitionListElem;
use rdkafka::{Offset, TopicPartitionList};
use tokio::runtime::Runtime;

use super::client::{ANSWER_WITHIN, Common, client_error, remaining};
use super::message::index_of;
use crate::{Bounds, BusError, Keep, LogSpec, Place, Position};

/// How long is waited before something is asked again.
const AGAIN_AFTER: Duration = Duration::from_millis(100);
/// What is different of a topic that Kafka has made for a client that asked for it before this program did.
const PARTITIONS: &str = "number of partitions (Kafka makes a topic for any client that asks for it, unless auto.create.topics.enable=false)";

/// How many copies of a topic have to be in sync, for Kafka to take a record.
const MIN_IN_SYNC: &str = "min.insync.replicas";
/// From so many brokers on, one copy is less than people mean.
const MANY_BROKERS: usize = 3;

/// What a lease has to be at least where one of several brokers may die. The others miss it after `broker.session.timeout.ms`, 9 s unless
/// set otherwise, then choose new leaders, which clients have to find, and end transactions that it coordinated: nothing was confirmed for
/// up to 16 s (docs/bus.md has the measurements). A member shows each quarter of its lease that it lives, so three quarters of it have to
/// be longer than that.
const LEAST_LEASE: Duration = Duration::from_secs(22);

/// How often a topic that is not as it should be is looked at again, until that is believed: with several brokers one may be asked that has
/// yet to hear how the topic was made a moment ago.
const LOOKS: u32 = 10;

/// How a topic is kept.
struct TopicSettings {
    is_compacted: bool,
    /// How many copies have to be in sync.
    min_in_sync: usize,
}

/// What there is of a topic.
struct Found {
    partitions: u32,
    /// Copies of the partition that has the fewest.
    copies: usize,
    brokers: usize,
}

/// How many of so many copies have to be in sync when a record is confirmed: more than half of them. Otherwise a single copy could be all
/// that has it, and Kafka confirms before any of them has written it to its disk.
fn in_sync(replicas: u8) -> usize {
    usize::from(replicas) / 2 + 1
}

/// Whether a lease ends before so many brokers go on without one of them. One that is alone is away until it is back, whatever the lease is.
fn is_short(lease: Duration, brokers: usize) -> bool {
    brokers > 1 && lease < LEAST_LEASE
}

pub(super) struct Admin {
    common: Arc<Common>,
    told_of_one_copy: AtomicBool,
    told_of_short_lease: AtomicBool,
    client: AdminClient<DefaultClientContext>,
    consumer: BaseConsumer,
    /// What the futures of the client are waited for with.
    runtime: Runtime,
}

/// Why an attempt failed.
enum Failure {
    /// It may go better another time.
    Again(String),
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
        let (told_of_one_copy, told_of_short_lease) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Self { common, told_of_one_copy, told_of_short_lease, client, consumer, runtime })
    }

    fn until<T>(&self, deadline: Instant, mut attempt: impl FnMut() -> Result<T, Failure>) -> Result<T, BusError> {
        loop {
            self.common.connected(deadline)?;
            match attempt() {
                Ok(outcome) => return Ok(outcome),
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Again(reason)) if Instant::now() >= deadline => return Err(self.common.away(&reason)),
                Err(Failure::Again(_)) => std::thread::park_timeout(AGAIN_AFTER.min(remaining(deadline))),
            }
        }
    }

    /// Makes a log's topic, or finds it as it should be.
    pub(super) fn create(&self, spec: &LogSpec, deadline: Instant) -> Result<(), BusError> {
        let topic = self.common.topic(&spec.name);
        let policy = if spec.keep == Keep::LatestOfKey { "compact,delete" } else { "delete" };
        let age = spec.keep_for.map_or("-1".to_owned(), |age| age.as_millis().to_string());
        let least_in_sync = in_sync(self.common.settings.replicas);
        let in_sync = least_in_sync.to_string();
        let config =
            [("cleanup.policy", policy), ("retention.ms", &age), ("retention.bytes", "-1"), (MIN_IN_SYNC, &in_sync)];
        let mut looks = LOOKS;
        self.until(deadline, || {
            self.make(&topic, spec.partitions, &config)?;
            let mismatch = |what| Err(Failure::Final(BusError::Mismatch { log: spec.name.to_string(), what }));
            let there = self.found(&topic)?;
            if there.partitions != spec.partitions {
                return mismatch(PARTITIONS);
            }
            let settings = self.settings_of(&topic)?;
            let is_kept_right = settings.is_compacted == (spec.keep == Keep::LatestOfKey);
            if !(is_kept_right && settings.min_in_sync >= least_in_sync) && looks > 0 {
                looks -= 1;
                return Err(Failure::Again("the topic is not as it should be".to_owned()));
            }
            if !is_kept_right {
                return mismatch("way of keeping records");
            }
            self.warn_of_few_copies(&topic, &there, settings.min_in_sync);
            if spec.name.is_of_group() {
                self.warn_of_short_lease(&topic, there.brokers);
            }
            Ok(())
        })
    }

    /// How a topic is kept, as one of the brokers says.
    fn settings_of(&self, topic: &str) -> Result<TopicSettings, Failure> {
        let options = AdminOptions::new().request_timeout(Some(ANSWER_WITHIN));
        let topics = [ResourceSpecifier::Topic(topic)];
        let found = self.runtime.block_on(self.client.describe_configs(&topics, &options))?.pop();
        let found = found.ok_or_else(|| Failure::Again("nothing was described".to_owned()))?;
        let found = found.map_err(|code| Failure::Again(code.to_string()))?;
        let value = |name| found.get(name).and_then(|entry| entry.value.clone()).unwrap_or_default();
        let min_in_sync = value(MIN_IN_SYNC).parse().unwrap_or(1);
        Ok(TopicSettings { is_compacted: value("cleanup.policy").contains("compact"), min_in_sync })
    }

    /// The topic of live messages: they are for those who listen now, and a topic has to keep something.
    pub(super) fn create_live(&self, deadline: Instant) -> Result<(), BusError> {
        let topic = self.common.live_topic();
        let config = [("cleanup.policy", "delete"), ("retention.ms", "60000"), ("segment.ms", "60000")];
        self.until(deadline, || self.make(&topic, 1, &config))
    }

    fn make(&self, topic: &str, partitions: u32, config: &[(&str, &str)]) -> Result<(), Failure> {
        let replicas = TopicReplication::Fixed(i32::from(self.common.settings.replicas));
        let mut new = NewTopic::new(topic, partitions.cast_signed(), replicas);
        for (name, value) in config {
            new = new.set(name, value);
        }
        let options = AdminOptions::new().request_timeout(Some(ANSWER_WITHIN));
        let results = self.runtime.block_on(self.client.create_topics(&[new], &options))?;
        match results.into_iter().next() {
            Some(Err((_, RDKafkaErrorCode::TopicAlreadyExists))) => Ok(()),
            Some(Err((_, code @ RDKafkaErrorCode::InvalidReplicationFactor))) => {
                let copies = self.common.settings.replicas;
                Err(Failure::Again(format!(
                    "{copies} copies are asked for (`bus_replicas`), and fewer brokers run: {code}"
                )))
            }
            Some(Err((_, code))) => Err(Failure::Again(code.to_string())),
            // It exists when all brokers say so.
            Some(Ok(_)) => self.found(topic).map(drop),
            None => Err(Failure::Again("no topic was made".to_owned())),
        }
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

    /// Says what of a topic is less safe than it could be, or was asked for. It may have been made by others, or when there were fewer brokers.
    fn warn_of_few_copies(&self, topic: &str, found: &Found, min_in_sync: usize) {
        let (asked, copies) = (usize::from(self.common.settings.replicas), found.copies);
        let least = in_sync(self.common.settings.replicas);
        if copies < asked {
            tracing::warn!(
                topic,
                copies,
                asked,
                "a topic has fewer copies than are asked for; give it more with kafka-reassign-partitions.sh"
            );
        } else if min_in_sync < least {
            tracing::warn!(
                topic,
                "a topic takes records with {min_in_sync} of {copies} copies in sync, and what is acknowledged may be lost with a broker: \
                 kafka-configs.sh --alter --entity-type topics --entity-name {topic} --add-config {MIN_IN_SYNC}={least}"
            );
        } else if asked == 1 && found.brokers >= MANY_BROKERS && !self.told_of_one_copy.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                brokers = found.brokers,
                "what is kept on the bus has one copy, and is away with the broker that has it; set `bus_replicas` to 3 before topics are made"
            );
        }
    }

    /// Says that members of a group will be given up together when a broker dies.
    fn warn_of_short_lease(&self, topic: &str, brokers: usize) {
        let lease = self.common.settings.lease;
        if is_short(lease, brokers) && !self.told_of_short_lease.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                topic,
                brokers,
                lease = ?lease,
                "when one of its brokers dies, Kafka is away for up to 16 s, and whoever has so short a lease loses its place: leave `lease` out, \
                 or let it be at least {} s",
                LEAST_LEASE.as_secs()
            );
        }
    }

    pub(super) fn bounds(&self, place: &Place, deadline: Instant) -> Result<Bounds, BusError> {
        self.until(deadline, || Ok(self.common.bounds(place)?))
    }

    pub(super) fn trim(&self, place: &Place, below: Position, deadline: Instant) -> Result<(), BusError> {
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
    fn a_lease_has_to_be_longer_where_one_of_several_brokers_may_die() {
        let usual = Settings::default().lease;
        assert!(is_short(usual, 3) && is_short(usual, 2) && !is_short(usual, 1));
        let of_kafka = "kafka://h".parse::<Address>().unwrap().usual_lease();
        assert!(!is_short(of_kafka, 3) && !is_short(LEAST_LEASE, 3));
    }

    #[test]
    fn more_than_half_of_all_copies_have_what_is_confirmed() {
        assert_eq!([1, 2, 3, 4, 5].map(in_sync), [1, 2, 2, 3, 3]);
    }
}
