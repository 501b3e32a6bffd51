//! Pipelines of the hub, and their sinks.

use std::time::Duration;

use tidegate_engine::OverflowPolicy;
use tidegate_hub::{FileFormat, Format};

use crate::key::{Key, Section, SectionKeys, section};
use crate::list::Texts;
use crate::value::{Kind, Problem, Range, Raw, Value, Words, words};
use tidegate_units::size::{Bytes, KIB, MIB, TIB};

use super::cluster::BusSasl;
use super::{DAY, HOUR, SECOND};

/// Longest path, name or address, bytes.
const MAX_TEXT: usize = 4096;
/// The client ids of sinks that publish at other brokers, unless `client_id` says another one.
const SINK_IDS: &str = "hub.*";
/// Longest expression, bytes.
const MAX_EXPRESSION: usize = 8192;

words! {
    /// The kind of a sink.
    pub enum SinkType {
        File => "file", "lines of JSON in a file (`path`)";
        Http => "http", "a POST with an array of JSON for each batch (`url`)";
        Mqtt => "mqtt", "another broker (`url`)";
        Postgres => "postgres", "a table of PostgreSQL or TimescaleDB (`url`, `table`)";
        Nats => "nats", "a stream of NATS JetStream (`url`)";
        Redis => "redis", "a stream of Redis (`url`)";
        Topic => "topic", "topics of the broker that runs the pipeline, or of `--broker`";
        Influxdb => "influxdb", "points of InfluxDB by its line protocol (`url`, `measurement`)";
        Sqlite => "sqlite", "a table in a file of SQLite (`path`, `table`)";
        Kafka => "kafka", "a topic of Kafka (`url`, `topic`)";
        Amqp => "amqp", "a queue or an exchange of AMQP 0-9-1, as in RabbitMQ (`url`)";
        History => "history", "the last messages, for `GET /history` of HTTP listeners (`path`)";
        Discard => "discard", "no place: records are counted and dropped, for measurements and trials";
        S3 => "s3", "objects in a bucket of S3 (`url`, `bucket`, `access_key`, `secret_file`)";
    }
}

words! {
    Format {
        Format::Json => "json", "JSON";
        Format::Cbor => "cbor", "CBOR";
        Format::MessagePack => "msgpack", "MessagePack";
        Format::Raw => "raw", "text, or bytes as base64 where they are no text";
    }
}

impl Encode {
    /// The format; nothing for payloads as they are.
    pub const fn format(self) -> Option<Format> {
        match self {
            Self::AsIs => None,
            Self::Json => Some(Format::Json),
            Self::Cbor => Some(Format::Cbor),
            Self::MessagePack => Some(Format::MessagePack),
        }
    }
}

words! {
    /// The format in which payloads are sent.
    pub enum Encode {
        AsIs => "as-is", "the payload as it came, or with `sql` or `set` the fields as JSON";
        Json => "json", "JSON";
        Cbor => "cbor", "CBOR";
        MessagePack => "msgpack", "MessagePack";
    }
}

section! {
    /// A bus between a broker and processes of `tidegate hub`. See [the hub](hub.md#over-a-bus). `cluster.prefix`,
    /// `cluster.lease` and the keys `cluster.bus_*` say how this bus is spoken to.
    "hub" => HubBus, HUB {
        /// The bus: `nats://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]]`, or `kafka://` in a build with that feature. The
        /// broker brings the messages of its pipelines there, and processes of `tidegate hub` on the same bus run the
        /// pipelines. Without it the broker runs them.
        bus: Option<String> = None, in Kind::Text { max_len: MAX_TEXT }, credentials = true;
        /// Parts of a pipeline's log on the bus: as many processes share the work at most. It cannot be changed while the
        /// log is there.
        partitions: u16 = 8, in Kind::Integer(Range::of(1, 256));
        /// Whether the usage of tenants is on the bus, too: in the log `usage`, a record for each hour, tenant and node.
        /// Without `hub.bus` that is the bus of the cluster. It needs a data directory. See
        /// [metering](metering.md#records-on-the-bus).
        usage: bool = false, in Kind::Boolean;
        /// Whether there are books of the usage of each user, too, for `tidegate meter --by user`. See
        /// [metering](metering.md#usage-by-user).
        usage_by_user: bool = false, in Kind::Boolean;
        /// Client ids, with `*` for any text, of sinks of pipelines that run elsewhere: the number of pipelines that their
        /// messages have passed is believed, and a loop of pipelines ends. For all other clients it begins with 0. The usual
        /// pattern believes any client that calls itself `hub.x`. Bridges from other brokers whose messages pass pipelines
        /// belong here, too: their client ids are `HOST.NAME` or `PREFIX.NAME`.
        relays: Texts = Texts(vec![SINK_IDS.to_owned()]), in Kind::Texts;
    }
}

words! {
    FileFormat {
        FileFormat::Lines => "ndjson", "lines of JSON";
        FileFormat::Parquet => "parquet", "Parquet; for `file`, made of the lines when the file is finished, so it needs `rotate_size` or `rotate_time`";
    }
}

section! {
    /// Where a pipeline's records go. See [the hub](hub.md).
    "sink" [repeated = true] => Sink, SINK {
        /// Its name, in `pipeline.to`, logs and `hub status`. No two may have the same one.
        name: String = String::new(), in Kind::Name { empty: true };
        /// Its kind.
        kind: SinkType = SinkType::File, in Kind::OneOf(<SinkType as Words>::WORDS);
        /// The file (`file`, `sqlite`) or the folder (`history`), relative to where the broker is started.
        path: Option<String> = None, in Kind::Text { max_len: MAX_TEXT };
        /// Where it is: `http://HOST/PATH` or `https://...` (`http`, `influxdb`), `mqtt://HOST:PORT` or `mqtts://...`
        /// (`mqtt`), `postgres://USER:PASSWORD@HOST:PORT/DATABASE` (`postgres`), `nats://USER:PASSWORD@HOST:PORT` (`nats`),
        /// `redis://USER:PASSWORD@HOST:PORT/DATABASE` (`redis`), `kafka://USER:PASSWORD@HOST:PORT,HOST:PORT` or
        /// `kafkas://...` (`kafka`), `amqp://USER:PASSWORD@HOST:PORT/VHOST` or `amqps://...` (`amqp`), `http://HOST:PORT`
        /// or `https://HOST` without the bucket (`s3`).
        url: Option<String> = None, in Kind::Text { max_len: MAX_TEXT }, credentials = true;
        /// The table (`postgres`, `sqlite`), which is made when it is not there.
        table: String = String::new(), in Kind::Text { max_len: 128 };
        /// The topic of all records (`mqtt`, `topic`, `kafka`). For `mqtt` and `topic`, empty is that of each record.
        topic: String = String::new(), in Kind::Text { max_len: 65_535 };
        /// QoS of published messages (`mqtt`, `topic`).
        qos: u8 = 1, in Kind::Integer(Range::of(1, 2));
        /// Whether it is published with RETAIN (`mqtt`, `topic`).
        retain: bool = false, in Kind::Boolean;
        /// The client id (`mqtt`); empty is made of the names of this machine, of the pipeline and
        /// of the sink. With `parallel` a number follows.
        client_id: String = String::new(), in Kind::Text { max_len: 1024 };
        /// The stream (`nats`, `redis`), which is made when it is not there.
        stream: String = "TIDEGATE".to_owned(), in Kind::Text { max_len: 256 };
        /// Entries that the stream keeps, about (`redis`); older entries are removed.
        max_entries: u64 = 0, in Kind::Integer(Range::of(1, 1_000_000_000_000).or_zero("all"));
        /// The beginning of subjects (`nats`): a record of `a/b` goes to `SUBJECT.a.b`.
        subject: String = "tidegate".to_owned(), in Kind::Text { max_len: 256 };
        /// The SASL mechanism that proves the password of `url` to the brokers (`kafka`).
        sasl: BusSasl = BusSasl::Plain, in Kind::OneOf(<BusSasl as Words>::WORDS);
        /// Whether a record is there once, through `kill -9` of the broker and of Kafka. With `kafka` each batch is a
        /// transaction, for consumers that read committed records alone, and the topic `tidegate-hub-marks` keeps the ids of
        /// the last records. With `file` the file `PATH.marks` keeps them, and each batch costs a sync more. It needs
        /// `window` and `batch_messages` of at most 4096.
        exactly_once: bool = false, in Kind::Boolean;
        /// The beginning of the ids of transactions (`kafka` with `exactly_once`). Two brokers with the same names of a
        /// pipeline and a sink, at one Kafka, need different ones.
        transactions_prefix: String = "tidegate-hub".to_owned(), in Kind::Text { max_len: 256 };
        /// The queue of all records (`amqp`), which is made, durable, when it is not there; empty for `exchange`.
        queue: String = String::new(), in Kind::Text { max_len: 255 };
        /// The exchange (`amqp`), which has to be there.
        exchange: String = "amq.topic".to_owned(), in Kind::Text { max_len: 255 };
        /// The routing key of all records (`amqp`); empty is the topic of each, with points for slashes.
        routing_key: String = String::new(), in Kind::Text { max_len: 255 };
        /// The bucket (`s3`), which has to be there.
        bucket: String = String::new(), in Kind::Text { max_len: 63 };
        /// The region that requests are signed for (`s3`).
        region: String = "us-east-1".to_owned(), in Kind::Text { max_len: 64 };
        /// The beginning of names of objects (`s3`), such as `plant-7/`.
        prefix: String = String::new(), in Kind::Text { max_len: 512 };
        /// The id of the access key (`s3`); `secret_file` has its secret.
        access_key: String = String::new(), in Kind::Text { max_len: 128 };
        /// The measurement (`influxdb`).
        measurement: String = "mqtt".to_owned(), in Kind::Text { max_len: 256 };
        /// Fields that are tags (`influxdb`).
        tags: Texts = Texts(vec!["topic".to_owned(), "clientid".to_owned()]), in Kind::Texts;
        /// Headers of requests (`http`, `influxdb`), each as `NAME: VALUE`.
        headers: Texts = Texts::default(), in Kind::Texts;
        /// A file whose first line is the header Authorization of requests (`http`, `influxdb`), such as `Bearer TOKEN`.
        authorization_file: Option<String> = None, in Kind::Text { max_len: MAX_TEXT };
        /// A file whose first line signs each request (`http`, `s3`). For `http`, the header `X-Tidegate-Signature` is
        /// `sha256=` and the HMAC-SHA256 of the body; for `s3`, it is the secret of `access_key`.
        secret_file: Option<String> = None, in Kind::Text { max_len: MAX_TEXT };
        /// The user name (`mqtt`).
        username: Option<String> = None, in Kind::Text { max_len: 1024 };
        /// A file whose first line is the password (`mqtt`).
        password_file: Option<String> = None, in Kind::Text { max_len: MAX_TEXT };
        /// A file (PEM) of the authorities that are trusted (`http`, `influxdb`, `mqtt`, `postgres`, `kafka`, `amqp`, `s3`); without it, the system's.
        ca: Option<String> = None, in Kind::Text { max_len: MAX_TEXT };
        /// The format of finished files and of objects (`file`, `s3`).
        format: FileFormat = FileFormat::Lines, in Kind::OneOf(<FileFormat as Words>::WORDS);
        /// Size at which a file is finished and renamed (`file`).
        rotate_size: Bytes = Bytes(0), in Kind::Size(Range::of(KIB, TIB).or_zero("never"));
        /// Age at which a file is finished and renamed (`file`), with the next batch.
        rotate_time: Duration = Duration::ZERO, in Kind::Duration(Range::of(SECOND, 365 * DAY).or_zero("never"));
        /// Bytes of a history, of each pipeline (`history`); the oldest messages are deleted beyond it.
        max_bytes: Bytes = Bytes(64 * MIB), in Kind::Size(Range::of(MIB, TIB));
        /// Age of the messages of a history (`history`); older ones are deleted.
        max_age: Duration = Duration::from_secs(7 * 24 * 3600), in Kind::Duration(Range::of(SECOND, 365 * DAY));
        /// Time for a batch, after which it is tried again (all but `file`); for `sqlite`, the time that it waits for other writers.
        timeout: Duration = Duration::from_secs(10), in Kind::Duration(Range::of(100, HOUR));
        /// Most messages of a batch.
        batch_messages: u32 = 500, in Kind::Integer(Range::of(1, 100_000));
        /// Bytes at which a batch is full.
        batch_bytes: Bytes = Bytes(MIB), in Kind::Size(Range::of(KIB, 256 * MIB));
        /// Time between two batches that are not full; after so long without one a message goes at once. For `s3`, where each
        /// batch is an object, the time that a message waits for others: at least 1 s.
        batch_time: Duration = Duration::from_millis(5), in Kind::Duration(Range::of(0, HOUR));
        /// Batches under way at once, of each pipeline; messages of one key stay in order. `file`, `sqlite` and `history` have one.
        parallel: u16 = 1, in Kind::Integer(Range::of(1, 64));
        /// Time until the first retry. It doubles with each failure, and half of it is chance.
        retry_min: Duration = Duration::from_millis(500), in Kind::Duration(Range::of(1, HOUR));
        /// Longest time until a retry.
        retry_max: Duration = Duration::from_secs(30), in Kind::Duration(Range::of(1, DAY));
    }
}

words! {
    /// The kind of a source.
    pub enum SourceType {
        Nats => "nats", "subjects of NATS, as messages are published (`url`, `subject`)";
        Jetstream => "jetstream", "a stream of NATS JetStream, by a durable consumer (`url`, `stream`)";
        Kafka => "kafka", "a topic of Kafka, shared by the processes of a group (`url`, `topic`)";
        Http => "http", "a web hook: `POST /TOPIC` (`listen`)";
    }
}

section! {
    /// Where messages of a pipeline come from, when they do not come from topics of the broker. See
    /// [the hub](hub.md#sources).
    "source" [repeated = true] => SourceSection, SOURCE {
        /// Its name, in `pipeline.source` and logs. No two may have the same one.
        name: String = String::new(), in Kind::Name { empty: true };
        /// Its kind.
        kind: SourceType = SourceType::Nats, in Kind::OneOf(<SourceType as Words>::WORDS);
        /// Where it is: `nats://USER:PASSWORD@HOST:PORT` (`nats`, `jetstream`), `kafka://USER:PASSWORD@HOST:PORT,HOST:PORT`
        /// or `kafkas://...` (`kafka`).
        url: Option<String> = None, in Kind::Text { max_len: MAX_TEXT }, credentials = true;
        /// The subject, with `*` and `>` as wildcards (`nats`, `jetstream`). The topic of a message is its subject with
        /// slashes for points, or what its header `Mqtt-Topic` says.
        subject: String = ">".to_owned(), in Kind::Text { max_len: 256 };
        /// The stream (`jetstream`), which has to be there.
        stream: Option<String> = None, in Kind::Text { max_len: 256 };
        /// The topic (`kafka`), which has to be there. The header `mqtt_topic` of a record names the topic of its message;
        /// without it that is this one with slashes for points.
        topic: String = String::new(), in Kind::Text { max_len: 249 };
        /// The SASL mechanism that proves the password of `url` to the brokers (`kafka`).
        sasl: BusSasl = BusSasl::Plain, in Kind::OneOf(<BusSasl as Words>::WORDS);
        /// A file (PEM) of the authorities that are trusted (`kafka`); without it, the system's.
        ca: Option<String> = None, in Kind::Text { max_len: MAX_TEXT };
        /// The queue group (`nats`), the durable consumer (`jetstream`) or the consumer group (`kafka`). Processes with the
        /// same one share the messages. Empty is `tidegate-` and the name of the pipeline, so that each pipeline has all
        /// messages; pipelines that name one source with a `group` share them, which `kafka` refuses.
        group: Option<String> = None, in Kind::Text { max_len: 256 };
        /// The address at which it listens (`http`): `HOST:PORT`.
        listen: Option<String> = None, in Kind::Text { max_len: 256 };
        /// A file whose first line senders have to show as `Authorization: Bearer TOKEN` (`http`). Without it only
        /// addresses of loopback are listened on.
        token_file: Option<String> = None, in Kind::Text { max_len: MAX_TEXT };
        /// Largest body (`http`).
        max_body: Bytes = Bytes(MIB), in Kind::Size(Range::of(KIB, 256 * MIB));
        /// How long sinks may take until the request fails (`http`); the message may be delivered all the same.
        timeout: Duration = Duration::from_secs(30), in Kind::Duration(Range::of(100, HOUR));
    }
}

/// Where messages wait for a pipeline, and how long they are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// On disk.
    Disk,
    /// In memory.
    Memory,
    /// On disk, and for this time after their delivery.
    For(Duration),
}

impl Value for Keep {
    fn read(raw: &Raw, kind: &Kind) -> Result<Self, Problem> {
        match raw {
            Raw::Text(text) | Raw::Word(text) if text == "disk" => Ok(Self::Disk),
            Raw::Text(text) | Raw::Word(text) if text == "memory" => Ok(Self::Memory),
            raw => Duration::read(raw, kind).map(Self::For),
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Disk => "\"disk\"".to_owned(),
            Self::Memory => "\"memory\"".to_owned(),
            Self::For(length) => length.show(),
        }
    }
}

words! {
    /// The treatment of messages whose payload is not of the schema.
    pub enum OnInvalid {
        Fail => "fail", "it fails, so it is a dead letter where there is a place for these";
        Drop => "drop", "it is dropped, and counted as `filtered`";
        Refuse => "refuse", "the broker refuses it with 0x99 and gives it to no subscriber, also where it is longer than 64 KiB";
    }
}

words! {
    /// The treatment of keys that a table does not have.
    pub enum OnMissing {
        Null => "null", "null, which `WHERE lookup(...) IS NOT NULL` leaves out";
        Fail => "fail", "the message fails, so it is a dead letter where there is a place for these";
    }
}

section! {
    /// A pipeline: messages of some topics go through steps to one or more sinks. It runs in the broker, or with
    /// `tidegate hub`. See [the hub](hub.md).
    "pipeline" [repeated = true] => Pipeline, PIPELINE {
        /// Its name, in logs, metrics and `hub status`. No two may have the same one.
        name: String = String::new(), in Kind::Name { empty: true };
        /// The source, by name; empty is the topics of the broker.
        source: Option<String> = None, in Kind::Name { empty: true };
        /// The tenant of its topics, also of the topics to which it publishes; empty is the default one.
        tenant: Option<String> = None, in Kind::Name { empty: true };
        /// Topic filters; when empty, `sql` names them behind FROM. Messages of a `source` with another topic are passed
        /// over.
        from: Texts = Texts::default(), in Kind::Texts;
        /// How payloads are read, where a step looks into them.
        format: Format = Format::Json, in Kind::OneOf(<Format as Words>::WORDS);
        /// The format in which sinks with topics (`mqtt`, `topic`, `nats`, `kafka`, `amqp`) send payloads.
        encode: Encode = Encode::AsIs, in Kind::OneOf(<Encode as Words>::WORDS);
        /// The schema of payloads, a file relative to where the broker is started. It is read at the start. `.json`: a JSON
        /// Schema that they have to fulfil. `.avsc`: a schema of Avro, and `.desc` or `.binpb`: descriptors of Protobuf, which
        /// `protoc --include_imports --descriptor_set_out` writes; payloads become JSON by these.
        schema: Option<String> = None, in Kind::Text { max_len: MAX_TEXT };
        /// The message in a schema of Protobuf, such as `plant.Reading`. Without it the schema has to have one message.
        schema_type: Option<String> = None, in Kind::Text { max_len: 512 };
        /// The treatment of messages whose payload is not of `schema`.
        on_invalid: OnInvalid = OnInvalid::Fail, in Kind::OneOf(<OnInvalid as Words>::WORDS);
        /// Tables that `lookup('NAME', KEY)` of SQL and CEL finds rows in, each `NAME = FILE#KEY`, such as
        /// `pumps = pumps.csv#id`. The file is CSV (`.csv`, with names in its first line) or lines of JSON (`.ndjson`,
        /// `.jsonl`). It has at most 16 MiB and 100,000 rows, and is read again within a second when it has changed.
        tables: Texts = Texts::default(), in Kind::Texts;
        /// The result of `lookup` for a key that the table does not have.
        on_missing: OnMissing = OnMissing::Null, in Kind::OneOf(<OnMissing as Words>::WORDS);
        /// A condition (CEL) that messages have to fulfil, such as `payload.temp > 30.0`. The first step.
        filter: Option<String> = None, in Kind::Text { max_len: MAX_EXPRESSION };
        /// `SELECT FIELDS FROM 'FILTER' WHERE CONDITION`, as rules of EMQX are written. The second step. Functions of
        /// text: `lower`, `upper`, `trim`, `ltrim`, `rtrim`, `reverse`, `strlen`, `substr` (counted from 0), `concat`,
        /// `replace`, `split`, `tokens`, `join_to_string`, `find`, `pad`, `rm_prefix`, `ascii`, `contains`,
        /// `starts_with`, `ends_with`, `str`, `float2str`, `sprintf`, `md5`, `sha`, `sha256`, `uuid_v4` (the same when
        /// the message comes again), with the pattern in quotes `regex_match`, `regex_extract`, `regex_replace`; of
        /// numbers: `abs`, `ceil`, `floor`, `round`, `sqrt`, `power`, `mod`, `exp`, `ln`, `log2`, `log10`, `sin`,
        /// `cos`, `tan` (with `a` before and `h` behind, too), `greatest`, `least`, `int`, `float`, `bool`, `bitand`,
        /// `bitor`, `bitxor`, `bitnot`, `bitsl`, `bitsr`; of arrays and objects: `length`, `nth`, `first`, `last`,
        /// `sublist`, `map_get`, `map_put`, `map_keys`, `map_values`, `map_to_entries`, `json_encode`, `json_decode`;
        /// of tables: `lookup`; of null and kinds: `coalesce`, `nullif`, `is_null`, `is_not_null`, `is_empty`,
        /// `is_str`, `is_num`, `is_int`, `is_float`, `is_bool`, `is_array`, `is_map`; of time and bytes: `now`,
        /// `now_timestamp`, `unix_ts_to_rfc3339` (UTC), `rfc3339_to_unix_ts`, in `second`, `millisecond`,
        /// `microsecond`, `nanosecond`; `format_date('second', '+08:00', '%Y-%m-%d %H:%M:%S', timestamp)`,
        /// `date_to_unix_ts`, `bin2hexstr`, `hexstr2bin`, `base64_encode`, `base64_decode`. With `every` there are
        /// `count`, `sum`, `min`, `max`, `avg`, `first_value`, `last_value`.
        sql: Option<String> = None, in Kind::Text { max_len: MAX_EXPRESSION };
        /// The length of windows: `sql` makes one record of all messages that the broker took within this time, or with GROUP
        /// BY one of each group, by `count`, `sum`, `min`, `max`, `avg`, `first_value` and `last_value`. See
        /// [windows](hub.md#windows).
        every: Duration = Duration::ZERO, in Kind::Duration(Range::of(SECOND, DAY).or_zero("no windows"));
        /// Fields that are added or replaced, each `NAME = EXPRESSION` (CEL); `row` is the result so far. The third
        /// step.
        set: Texts = Texts::default(), in Kind::Texts;
        /// The topic of records (CEL), for sinks that have topics; empty is that of the message.
        topic: Option<String> = None, in Kind::Text { max_len: MAX_EXPRESSION };
        /// The key of records (CEL): records of one key stay in order. Empty is the topic of the message.
        key: Option<String> = None, in Kind::Text { max_len: MAX_EXPRESSION };
        /// The sinks, by name. A message is acknowledged when all have it.
        to: Texts = Texts::default(), in Kind::Texts;
        /// The sink of messages on which a step fails, or that a sink refuses. Without it, and without
        /// `dead_letter_topic`, they are counted and logged.
        dead_letter: Option<String> = None, in Kind::Name { empty: true };
        /// The topic of such messages, in place of a sink.
        dead_letter_topic: Option<String> = None, in Kind::Text { max_len: 65_535 };
        /// Where messages wait: `disk` is the store, and the broker refuses to start without `--data`; `memory` loses
        /// waiting messages with the process where there is no store. A duration is `disk`, and messages stay for so long
        /// behind their delivery, for `hub replay`: on `hub.bus`, or without a bus in the data directory of a broker that is
        /// no member of a cluster.
        keep: Keep = Keep::Disk, in Kind::Keep(Range::of(SECOND, 365 * DAY));
        /// Bytes that wait at most. Without a bus, delivered messages of `keep` have as much room again.
        max_bytes: Bytes = Bytes(1024 * MIB), in Kind::Size(Range::of(64 * KIB, TIB));
        /// The policy at this limit: `block`, `drop-oldest`, `drop-newest` or `reject`, as with
        /// [full queues](waiting.md).
        on_full: OverflowPolicy = OverflowPolicy::Block, in Kind::OneOf(<OverflowPolicy as Words>::WORDS);
        /// Age at which a message fails that not all sinks have, counted from when the broker took it: it becomes a dead
        /// letter where there is a place for these. Sinks that are away are looked at with each retry. On `hub.bus`,
        /// `keep_for` bounds the age.
        max_age: Duration = Duration::ZERO, in Kind::Duration(Range::of(SECOND, 365 * DAY).or_zero("no limit"));
        /// Messages above QoS 0 that the pipeline works on at once; the others wait.
        window: u16 = 1000, in Kind::Integer(Range::of(1, 65_535));
        /// Time that messages wait for a pipeline that does not run.
        keep_for: Duration = Duration::from_secs(7 * 24 * 3600), in Kind::Seconds(Range::of(SECOND, 365 * DAY));
        /// Whether the pipeline gets the retained messages of its topics when it is new.
        retained: bool = false, in Kind::Boolean;
    }
}
