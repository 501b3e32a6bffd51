//! The hub: messages of topics to files, databases, buses and services, acknowledged end to end.
//!
//! - `core` is a pipeline without any I/O: which message waits for which sink, batches, retries, acknowledgements.
//! - `steps` makes a record of a message, by SQL and CEL; `format` reads payloads, `message` is the input and `record`
//!   the output.
//! - `sinks` has a file for each kind of sink, behind one trait.
//! - `run` puts pipelines on threads: one with the session at the broker and the core, one for each lane of a sink.
//!
//! The guarantee of a pipeline comes from its session: a message is acknowledged to the broker when all sinks have it.
//! Until then the broker keeps it, even if the broker, the hub or the sink dies.

mod core;
mod format;
mod message;
mod record;
mod run;
mod sinks;
mod steps;
mod time;

pub use crate::core::{Action, Batching, Core, CoreSettings, News, Numbers, Outcome, REASON_FIELD, SinkPlan};
pub use format::Format;
pub use message::{Message, ORIGIN_PROPERTY, Origin};
pub use record::Record;
pub use run::{Hub, HubError, PipelineSettings, PipelineState, PipelineStatus, SourceSettings};
pub use sinks::{
    AmqpSettings, FileSettings, FileSinks, HttpSettings, InfluxSettings, KafkaSettings, MqttSettings, NatsSettings,
    Place, PostgresSettings, RedisSettings, S3Settings, SaslMechanism, Sink, SinkError, SinkKind, SinkSettings,
    SqliteSettings,
};
pub use steps::{At, Part, StepError, StepSettings, Steps};
pub use tidegate_client::{QoS, TopicFilterBuf, TopicNameBuf, net};
