//! Producers, and their reports about each record.

use std::sync::{Mutex, PoisonError};

use rdkafka::ClientContext;
use rdkafka::Message;
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::OwnedHeaders;
use rdkafka::producer::{BaseRecord, DeliveryResult, ProducerContext, ThreadedProducer};

use super::message::position_of;
use crate::Position;

type Tell = Box<dyn FnOnce(Result<Position, KafkaError>) + Send>;

/// Called when a record is stored, or is not.
pub(super) struct Report(Mutex<Option<Tell>>);

impl Report {
    pub(super) fn new(tell: impl FnOnce(Result<Position, KafkaError>) + Send + 'static) -> Self {
        Self(Mutex::new(Some(Box::new(tell))))
    }

    fn tell(&self, outcome: Result<Position, KafkaError>) {
        let tell = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(tell) = tell {
            tell(outcome);
        }
    }
}

/// Passes the outcome of a record to its sender.
pub(super) struct Reports;

impl ClientContext for Reports {}

impl ProducerContext for Reports {
    type DeliveryOpaque = Box<Report>;

    fn delivery(&self, result: &DeliveryResult<'_>, report: Box<Report>) {
        report.tell(match result {
            Ok(message) => Ok(position_of(message.offset())),
            Err((error, _)) => Err(error.clone()),
        });
    }
}

pub(super) type Producer = ThreadedProducer<Reports>;

pub(super) fn producer(config: &rdkafka::ClientConfig) -> KafkaResult<Producer> {
    config.create_with_context(Reports)
}

/// A record for the producer.
pub(super) struct Outgoing<'a> {
    pub(super) topic: &'a str,
    pub(super) partition: i32,
    pub(super) key: &'a [u8],
    pub(super) payload: &'a [u8],
    pub(super) headers: OwnedHeaders,
}

/// Sends a record; the report always tells its outcome.
pub(super) fn send(producer: &Producer, outgoing: Outgoing<'_>, report: Report) {
    let Outgoing { topic, partition, key, payload, headers } = outgoing;
    let mut record =
        BaseRecord::with_opaque_to(topic, Box::new(report)).partition(partition).payload(payload).headers(headers);
    if !key.is_empty() {
        record = record.key(key);
    }
    if let Err((error, record)) = producer.send::<[u8], [u8]>(record) {
        record.delivery_opaque.tell(Err(error));
    }
}
