//! Topics: made, described, trimmed.

use std::sync::Arc;
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

pub(super) struct Admin {
    common: Arc<Common>,
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
        Ok(Self { common, client, consumer, runtime })
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
        let config = [("cleanup.policy", policy), ("retention.ms", &age), ("retention.bytes", "-1")];
        self.until(deadline, || {
            self.make(&topic, spec.partitions, &config)?;
            let mismatch = |what| Err(Failure::Final(BusError::Mismatch { log: spec.name.to_string(), what }));
            if self.partitions(&topic)? != spec.partitions {
                return mismatch(PARTITIONS);
            }
            let options = AdminOptions::new().request_timeout(Some(ANSWER_WITHIN));
            let topics = [ResourceSpecifier::Topic(&topic)];
            let found = self.runtime.block_on(self.client.describe_configs(&topics, &options))?.pop();
            let found = found.ok_or_else(|| Failure::Again("nothing was described".to_owned()))?;
            let found = found.map_err(|code| Failure::Again(code.to_string()))?;
            let found = found.get("cleanup.policy").and_then(|entry| entry.value.clone()).unwrap_or_default();
            if found.contains("compact") != (spec.keep == Keep::LatestOfKey) {
                return mismatch("way of keeping records");
            }
            Ok(())
        })
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
            Some(Err((_, code))) => Err(Failure::Again(code.to_string())),
            // It exists when all brokers say so.
            Some(Ok(_)) => self.partitions(topic).map(drop),
            None => Err(Failure::Again("no topic was made".to_owned())),
        }
    }

    fn partitions(&self, topic: &str) -> Result<u32, Failure> {
        let metadata = self.consumer.fetch_metadata(Some(topic), ANSWER_WITHIN)?;
        let found = metadata.topics().iter().find(|found| found.name() == topic && found.error().is_none());
        let count = found.map_or(0, |found| found.partitions().len());
        let led = found.is_some_and(|found| found.partitions().iter().all(|partition| partition.leader() >= 0));
        if count > 0 && led { Ok(count as u32) } else { Err(Failure::Again("the topic has no leader yet".to_owned())) }
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
