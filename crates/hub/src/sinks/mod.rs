//! Sinks: where records go. Each is one file with its settings and one [`Sink`].

mod amqp;
mod archive;
mod discard;
mod file;
mod history;
mod http;
mod influxdb;
pub(crate) mod kafka;
mod log;
mod mqtt;
mod nats;
mod parquet;
mod place;
mod placed;
mod postgres;
mod postgres_tls;
mod redis;
mod s3;
pub(crate) mod socket;
mod sqlite;
pub(crate) mod tls;
mod web;

use std::sync::Arc;

pub use self::amqp::AmqpSettings;
pub use self::file::{FileSettings, FileSinks};
pub use self::history::{
    HistoryFound, HistoryIndex, HistoryPlace, HistoryQuery, HistorySettings, MAX_HISTORY_ANSWER, merge_histories,
    read_history,
};
pub use self::http::HttpSettings;
pub use self::influxdb::InfluxSettings;
pub use self::kafka::{KafkaSettings, MAX_MARKED_WINDOW, SaslMechanism};
pub use self::mqtt::MqttSettings;
pub use self::nats::NatsSettings;
pub use self::place::SinkLane;
pub use self::postgres::PostgresSettings;
pub use self::redis::RedisSettings;
pub use self::s3::S3Settings;
pub use self::sqlite::SqliteSettings;
use crate::archive::ArchiveSettings;
use crate::core::Batching;
use crate::log::LogSettings;
use crate::open_error::OpenError;
use crate::record::Record;

/// Why a batch is not where it belongs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SinkError {
    /// The sink is away or not able now: the same batch comes again, later.
    #[error("{0}")]
    Away(String),
    /// It has reached a limit, which may be the fault of a record: the batch comes again a bounded number of times, and
    /// counts as refused then.
    #[error("{0}")]
    Limited(String),
    /// It will never take the batch as it is: one of its records is to blame. The batch comes again in halves, until
    /// that one is found.
    #[error("{0}")]
    Refused(String),
}

impl SinkError {
    /// The sink is away, for this reason.
    pub fn away(error: impl std::fmt::Display) -> Self {
        Self::Away(error.to_string())
    }

    /// The sink is away for this error and its causes.
    fn away_by(error: &dyn std::error::Error) -> Self {
        Self::Away(with_causes(error))
    }
}

/// Refuses a record with a field that a table gets no column for: without it the value would be lost.
fn no_column(field: &str, most: usize) -> SinkError {
    SinkError::Refused(format!("the table gets no column for the field `{field}`: a table has {most} columns at most"))
}

/// An error with its causes.
fn with_causes(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", with_causes(cause)),
        None => error.to_string(),
    }
}

/// The target of records. It runs on its own thread and may block. It connects or opens its file with the first batch,
/// and again after a failure.
pub trait Sink: Send {
    /// Writes a batch to the target. Ok promises that the target keeps all of it, also if a process ends now: its messages
    /// are then acknowledged to the broker. The same records may come again after a crash.
    ///
    /// # Errors
    /// Whether it may be tried again.
    fn write(&mut self, batch: &[Arc<Record>]) -> Result<(), SinkError>;
}

/// A sink of the configuration.
#[derive(Clone, Debug)]
pub struct SinkSettings {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: SinkKind,
    /// Batches and retries.
    pub batching: Batching,
    /// Batches under way at once; records of one key stay in order.
    pub parallel: usize,
}

/// The kind of a sink, with its settings.
#[derive(Clone, Debug)]
pub enum SinkKind {
    /// Lines of JSON.
    File(FileSettings),
    /// Requests to a server.
    Http(HttpSettings),
    /// Another broker, or this one.
    Mqtt(MqttSettings),
    /// A table of `PostgreSQL`.
    Postgres(PostgresSettings),
    /// A stream of `JetStream`.
    Nats(NatsSettings),
    /// A stream of Redis.
    Redis(RedisSettings),
    /// Points of `InfluxDB`.
    Influx(InfluxSettings),
    /// A table in a file of `SQLite`.
    Sqlite(SqliteSettings),
    /// A topic of Kafka.
    Kafka(KafkaSettings),
    /// A queue or an exchange of AMQP 0-9-1.
    Amqp(AmqpSettings),
    /// Objects of S3.
    S3(S3Settings),
    /// The last messages, for clients of HTTP.
    History(HistorySettings),
    /// No place: records are dropped.
    Discard,
    /// The log of a pipeline on the bus.
    Log(LogSettings),
    /// The archive of a pipeline.
    Archive(ArchiveSettings),
}

impl SinkKind {
    /// Whether several batches may be under way at once.
    pub fn has_lanes(&self) -> bool {
        !matches!(self, Self::File(_) | Self::Sqlite(_) | Self::History(_) | Self::Log(_) | Self::Archive(_))
    }

    /// The key whose value is of no use, and why, as far as that is known without files and servers.
    pub fn unusable(&self) -> Option<(&'static str, String)> {
        match self {
            Self::Sqlite(settings) => settings.check().err(),
            Self::Kafka(settings) => settings.check().err(),
            Self::Amqp(settings) => settings.check().err(),
            Self::S3(settings) => settings.check().err(),
            Self::Redis(settings) => {
                redis::RedisSink::new(settings, place::Ids::default()).err().map(|why| ("url", why.to_string()))
            }
            _ => None,
        }
    }

    /// Why no sink can be made of the settings, with the authorities that they name read. Nothing is opened.
    pub fn fault(&self) -> Option<OpenError> {
        let ids = place::Ids::default();
        match self {
            Self::Http(settings) => http::HttpSink::new(settings, ids).err(),
            Self::Influx(settings) => influxdb::InfluxSink::new(settings).err(),
            Self::Postgres(settings) => postgres::PostgresSink::new(settings, ids).err(),
            Self::Mqtt(settings) => mqtt::MqttSink::new(settings, 0).err(),
            Self::Nats(settings) => settings.check().err(),
            other => other.unusable().map(OpenError::from),
        }
    }
}

impl SinkSettings {
    /// Makes the sink of one lane of a pipeline. Nothing is opened yet.
    ///
    /// # Errors
    /// In words, when its settings are of no use or a file that they name cannot be read.
    pub fn open(&self, files: &FileSinks, place: &SinkLane<'_>) -> Result<Box<dyn Sink>, OpenError> {
        let sink = self.open_kind(files, place)?;
        Ok(match self.kind.place() {
            Some(place) => Box::new(placed::Placed { sink, place }),
            None => sink,
        })
    }

    fn open_kind(&self, files: &FileSinks, place: &SinkLane<'_>) -> Result<Box<dyn Sink>, OpenError> {
        let ids = place::Ids::new(place, &self.name);
        Ok(match &self.kind {
            SinkKind::File(settings) => Box::new(files.open(settings, ids)),
            SinkKind::History(settings) => Box::new(history::HistorySink::new(settings, place.pipeline)),
            SinkKind::Http(settings) => Box::new(http::HttpSink::new(settings, ids)?),
            SinkKind::Mqtt(settings) => Box::new(mqtt::MqttSink::new(settings, place.lane)?),
            SinkKind::Postgres(settings) => Box::new(postgres::PostgresSink::new(settings, ids)?),
            SinkKind::Nats(settings) => Box::new(nats::NatsSink::new(settings, ids)?),
            SinkKind::Redis(settings) => Box::new(redis::RedisSink::new(settings, ids)?),
            SinkKind::Influx(settings) => Box::new(influxdb::InfluxSink::new(settings)?),
            SinkKind::Discard => Box::new(discard::DiscardSink),
            SinkKind::Archive(settings) => Box::new(archive::ArchiveSink::new(settings)),
            SinkKind::Log(settings) => Box::new(log::LogSink::new(settings)?),
            SinkKind::Sqlite(settings) => Box::new(sqlite::SqliteSink::new(settings, ids)?),
            SinkKind::Kafka(settings) => Box::new(kafka::KafkaSink::new(settings, ids, place.lane)?),
            SinkKind::Amqp(settings) => Box::new(amqp::AmqpSink::new(settings, ids)?),
            SinkKind::S3(settings) => Box::new(s3::S3Sink::new(settings, place, ids)?),
        })
    }
}
