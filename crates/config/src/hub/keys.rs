//! The keys of each kind of sinks.

use crate::key::Section as _;
use crate::origins::Origins;
use crate::path::KeyPath;
use crate::sections::hub::{Sink, SinkType};
use crate::source::Source;
use crate::value::{Problem, Words};

use SinkType::{Amqp, File, History, Http, Influxdb, Kafka, Mqtt, Nats, Postgres, Redis, S3, Sqlite, Topic};

/// Keys that have an effect for some kinds only, with these kinds.
const KINDS_OF_KEYS: &[(&str, &[SinkType])] = &[
    ("path", &[File, Sqlite, History]),
    ("url", &[Http, Influxdb, Mqtt, Postgres, Nats, Redis, Kafka, Amqp, S3]),
    ("table", &[Postgres, Sqlite]),
    ("topic", &[Mqtt, Topic, Kafka]),
    ("qos", &[Mqtt, Topic]),
    ("retain", &[Mqtt, Topic]),
    ("client_id", &[Mqtt]),
    ("stream", &[Nats, Redis]),
    ("max_entries", &[Redis]),
    ("subject", &[Nats]),
    ("sasl", &[Kafka]),
    ("transactions_prefix", &[Kafka]),
    ("queue", &[Amqp]),
    ("exchange", &[Amqp]),
    ("routing_key", &[Amqp]),
    ("bucket", &[S3]),
    ("region", &[S3]),
    ("prefix", &[S3]),
    ("access_key", &[S3]),
    ("measurement", &[Influxdb]),
    ("tags", &[Influxdb]),
    ("headers", &[Http, Influxdb]),
    ("authorization_file", &[Http, Influxdb]),
    ("secret_file", &[Http, S3]),
    ("username", &[Mqtt]),
    ("password_file", &[Mqtt]),
    ("ca", &[Http, Influxdb, Mqtt, Postgres, Kafka, Amqp, S3]),
    ("format", &[File, S3]),
    ("rotate_size", &[File]),
    ("rotate_time", &[File]),
    ("max_bytes", &[History]),
    ("max_age", &[History]),
];

/// Keys that have no effect for the sink's kind, and not their default.
pub(super) fn without_effect(sink: &Sink, index: usize, origins: &Origins) -> Vec<(&'static str, Problem)> {
    let unset = Sink::default();
    let is_set = |key: &'static str| {
        let source = origins.source(&KeyPath { section: "sink", index, key });
        source != &Source::Default && sink.show(key) != unset.show(key)
    };
    let foreign = KINDS_OF_KEYS.iter().filter(|(key, kinds)| !kinds.contains(&sink.kind) && is_set(key));
    let problem = |(key, kinds): &(&'static str, &[SinkType])| {
        let kinds: Vec<&str> = kinds.iter().map(|kind| kind.word()).collect();
        let said = format!("`sink.{key}` has no effect for the kind \"{}\" of sink `{}`", sink.kind.word(), sink.name);
        (*key, Problem::new(said).hint(format!("leave it out, or correct `kind`: it is for {}", kinds.join(", "))))
    };
    foreign.map(problem).collect()
}
