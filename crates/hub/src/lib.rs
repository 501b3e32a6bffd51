//! The hub: messages of topics to files, databases, buses and services, acknowledged end to end.
//!
//! - `core` is a pipeline without any I/O: which message waits for which sink, batches, retries, acknowledgements.
//! - `steps` makes a record of a message, by SQL and CEL; `format` reads payloads, `message` is the input and `record`
//!   the output.
//! - `sources` has a file for each kind of source, and `sinks` one for each kind of sink, each behind one trait.
//! - `archive` keeps the messages of a pipeline on the disk of its broker, for a replay, and `segments` writes the files of
//!   archives and histories.
//! - `headers` brings properties of MQTT 5 to headers of other systems and back.
//! - `spares` keeps the memory of messages and records that have ended.
//! - `log` is the log of a pipeline on a bus: the sink of a broker that forwards, and the source of `tidegate hub --bus`.
//! - `run` puts pipelines on threads: one with the source and the core, one for each lane of a sink.
//!
//! Without the feature `pipelines`, only the names of formats are built: keys of a configuration have them.
//!
//! The guarantee of a pipeline comes from its source: a message is acknowledged to its sender when all sinks have it.
//! Until then the sender keeps it, even if the sender, the hub or the sink dies.

#[cfg(feature = "pipelines")]
mod archive;
#[cfg(feature = "pipelines")]
mod core;
mod format;
#[cfg(feature = "pipelines")]
mod headers;
#[cfg(feature = "pipelines")]
mod log;
#[cfg(feature = "pipelines")]
mod message;
#[cfg(feature = "pipelines")]
mod nats;
#[cfg(feature = "pipelines")]
mod open_error;
#[cfg(feature = "pipelines")]
mod record;
#[cfg(feature = "pipelines")]
mod run;
#[cfg(feature = "pipelines")]
mod segments;
#[cfg(feature = "pipelines")]
mod sinks;
#[cfg(feature = "pipelines")]
mod sources;
#[cfg(feature = "pipelines")]
mod spares;
#[cfg(feature = "pipelines")]
mod steps;
#[cfg(feature = "pipelines")]
mod time;

#[cfg(feature = "pipelines")]
pub use crate::archive::ArchiveSettings;
#[cfg(feature = "pipelines")]
pub use crate::core::{
    Action, Batch, Batching, Core, CoreSettings, Ending, News, Numbers, Outcome, REASON_FIELD, SinkPlan,
};
#[cfg(feature = "pipelines")]
pub use format::{EncodeError, FormatError, JsonError};
pub use format::{FileFormat, Format};
#[cfg(feature = "pipelines")]
pub use log::{LogSettings, MAX_PIPELINE_NAME, NamesError};
#[cfg(feature = "pipelines")]
pub use message::{FieldName, HOPS_PROPERTY, MAX_HOPS, Message, ORIGIN_PROPERTY};
#[cfg(feature = "pipelines")]
pub use open_error::{OpenError, TrustError};
#[cfg(feature = "pipelines")]
pub use record::{Content, Record, Row, WholeMessage};
#[cfg(feature = "pipelines")]
pub use run::{Hub, HubError, LastFailure, PipelineSettings, PipelineState, PipelineStatus, SinkStatus};
#[cfg(feature = "pipelines")]
pub use sinks::{
    AmqpSettings, FileSettings, FileSinks, HistoryFound, HistoryIndex, HistoryPlace, HistoryQuery, HistorySettings,
    HttpSettings, InfluxSettings, KafkaSettings, MAX_HISTORY_ANSWER, MAX_MARKED_WINDOW, MqttSettings, NatsSettings,
    PostgresSettings, RedisSettings, S3Settings, SaslMechanism, Sink, SinkError, SinkKind, SinkLane, SinkSettings,
    SqliteSettings, merge_histories, read_history,
};
#[cfg(feature = "pipelines")]
pub use sources::{
    HttpSourceSettings, KafkaSourceSettings, NatsSourceSettings, ReplayError, SessionFilters, Source, SourceSettings,
    SourceStep, TopicsSettings, Wake,
};
#[cfg(feature = "pipelines")]
pub use steps::{At, ComputeError, Part, PayloadGate, Records, StepError, StepResult, StepSettings, Steps};
#[cfg(feature = "pipelines")]
pub use tidegate_client::{QoS, TopicFilterBuf, TopicNameBuf, net};
#[cfg(feature = "pipelines")]
pub use time::rfc3339;
