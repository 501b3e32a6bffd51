//! From keys to settings.

use std::io::{self, Read};
use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::time::Duration;

use tidegate_bus::{Address as BusAddress, AddressError};
use tidegate_engine::OverflowRule;
use tidegate_hub::net::{Address, SocketOptions, TlsConnector, TlsFileError, TlsOptions};
use tidegate_hub::{
    AmqpSettings, Batching, FileSettings, HttpSettings, HttpSourceSettings, InfluxSettings, KafkaSettings, LogSettings,
    MqttSettings, NatsSettings, NatsSourceSettings, PipelineSettings, PostgresSettings, QoS, RedisSettings, S3Settings,
    SaslMechanism, SinkKind, SinkSettings, SourceSettings, SqliteSettings, StepSettings, Steps, TopicFilterBuf,
    TopicsSettings,
};
use tidegate_mqtt::TopicError;

use super::CLIENT_PREFIX;
use crate::Config;
use crate::bus_access::{BusAccess, lease_on};
use crate::orchestrator::{BrokerAddress, BrokerAddressError};
use crate::sections::cluster::BusSasl;
use crate::sections::hub::{Keep, Pipeline, Sink, SinkType, SourceSection, SourceType};

/// Longest file of a password, a secret or a header, bytes.
const MAX_SECRET_FILE: u64 = 64 << 10;
/// Bytes of a partition that are read ahead.
const MAX_AHEAD_BYTES: usize = 1 << 20;
/// How long a batch waits for a bus that is away.
const BUS_WITHIN: Duration = Duration::from_secs(10);

/// Least time between two objects of one lane.
const LEAST_OBJECT_TIME: Duration = Duration::from_secs(1);

/// Why the settings of a pipeline or a sink cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    /// An address of a broker is wrong.
    #[error(transparent)]
    Address(#[from] BrokerAddressError),
    /// TLS to a broker cannot be set up.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] TlsFileError),
    /// A pipeline names a sink that the configuration does not have.
    #[error("there is no sink `{0}`")]
    NoSink(String),
    /// A topic filter is wrong.
    #[error(transparent)]
    Filter(#[from] TopicError),
    /// A sink cannot be used.
    #[error("sink `{name}`: {source}")]
    Sink {
        /// The sink.
        name: String,
        /// The cause.
        source: Box<PipelineError>,
    },
    /// A header has no value.
    #[error("a header is `NAME: VALUE`")]
    Header,
    /// A file that has to be text is not.
    #[error("{0} is no text")]
    NoText(String),
    /// A file of a secret cannot be read.
    #[error("cannot read the secret in {path}: {source}")]
    Secret {
        /// The file.
        path: String,
        /// The cause.
        source: io::Error,
    },
    /// A file of a secret has none.
    #[error("cannot read the secret in {0}: its first line is empty")]
    EmptySecret(String),
    /// The address of the bus is wrong.
    #[error("the bus of the hub: {0}")]
    BusAddress(AddressError),
    /// The bus is within one process.
    #[error("the bus of the hub is within one process: name nats://HOST:PORT or kafka://HOST:PORT")]
    BusNotShared,
    /// A pipeline publishes to a broker, and none is named.
    #[error("pipeline `{pipeline}` publishes to {place}: name the broker with --broker mqtt://HOST:PORT")]
    NoBroker {
        /// The pipeline.
        pipeline: String,
        /// The sink, or the topic of its dead letters.
        place: String,
    },
    /// A pipeline names a source that the configuration does not have.
    #[error("there is no source `{0}`")]
    NoSource(String),
    /// A source cannot be used.
    #[error("source `{name}`: {source}")]
    Source {
        /// The source.
        name: String,
        /// The cause.
        source: Box<PipelineError>,
    },
    /// The address of a web hook cannot be used.
    #[error("`{listen}`: {source}")]
    Listen {
        /// The address.
        listen: String,
        /// The cause.
        source: io::Error,
    },
    /// The address of a web hook has no host.
    #[error("`{0}` is no address")]
    NoAddress(String),
    /// A sink of kind `topic` has no settings before its broker is known.
    #[error("its broker is not known here")]
    UnknownBroker,
    /// A sink has no settings of its kind.
    #[error("it has no kind")]
    NoKind,
    /// Neither a bus nor a broker is named.
    #[error(
        "name where messages come from: --bus nats://HOST:PORT, whose broker has hub.bus, or --broker mqtt://HOST:PORT"
    )]
    NoOrigin,
}

/// How pipelines get to their broker.
#[derive(Clone, Debug)]
pub struct Way {
    /// The address of the broker.
    pub address: Address,
    /// Options of the socket, with TLS where the address asks for it.
    pub socket: SocketOptions,
    /// User name of the sessions.
    pub user_name: Option<String>,
    /// Password of the sessions.
    pub password: Option<Vec<u8>>,
    /// Whether several processes share the work, by a shared subscription of the pipeline's name.
    pub shared: bool,
    /// Whether the broker says who published a message: at the door of its own process.
    pub origins: bool,
    /// Stands before the name of the pipeline in the client id of each session.
    pub prefix: String,
    /// Stands behind it.
    pub suffix: String,
}

impl Way {
    /// The way of a process of its own to a broker. `member` is its name among the hubs that share the work.
    ///
    /// # Errors
    /// When the address is invalid or TLS cannot be set up.
    pub fn to(broker: &str, ca: Option<&str>, member: &str) -> Result<Self, PipelineError> {
        let place = BrokerAddress::of_parts(Some("broker"), broker)?;
        let (address, socket) = socket_of(&place, ca)?;
        Ok(Self {
            address,
            socket,
            user_name: place.user_name,
            password: place.password.map(String::into_bytes),
            shared: true,
            origins: false,
            prefix: "hub.".to_owned(),
            suffix: format!(".{member}"),
        })
    }
}

impl Pipeline {
    /// The steps for a message.
    pub fn step_settings(&self) -> StepSettings {
        StepSettings {
            format: self.format,
            filter: self.filter.clone(),
            sql: self.sql.clone(),
            set: self.set.0.clone(),
            topic: self.topic.clone(),
            key: self.key.clone(),
            forwards: false,
        }
    }
}

impl Pipeline {
    /// Its topic filters.
    fn filters(&self) -> Vec<String> {
        if !self.from.0.is_empty() {
            return self.from.0.clone();
        }
        let steps = Steps::new(&self.step_settings());
        steps.map(|steps| steps.from().iter().map(ToString::to_string).collect()).unwrap_or_default()
    }
}

/// The bus that processes of the hub share, and this process on it.
#[derive(Clone, Debug)]
pub struct OnBus {
    /// The bus.
    pub address: BusAddress,
    /// The name of this process among the others.
    pub member: String,
}

impl OnBus {
    /// A process of the hub.
    ///
    /// # Errors
    /// When the address is no bus, or no bus that processes can share.
    pub fn new(address: &str, member: &str) -> Result<Self, PipelineError> {
        let address: BusAddress = address.parse().map_err(PipelineError::BusAddress)?;
        if address == BusAddress::Embedded {
            return Err(PipelineError::BusNotShared);
        }
        let fits = |one: char| if one.is_ascii_alphanumeric() || one == '_' { one } else { '-' };
        Ok(Self { address, member: member.chars().map(fits).take(64).collect() })
    }
}

impl Config {
    /// The settings of pipelines that take messages of a broker. Where `hub.bus` is set, pipelines within the broker
    /// bring their messages there.
    ///
    /// # Errors
    /// When a file cannot be read, or an address is invalid.
    pub fn pipeline_settings(&self, way: &Way) -> Result<Vec<PipelineSettings>, PipelineError> {
        let plan = Plan { config: self, way: Some(way) };
        let topics = |pipeline: &Pipeline| SourceSettings::Topics(topics_of(pipeline, way));
        let bus = self.hub.bus.as_deref().filter(|_| !way.shared);
        let bus = bus.map(|address| OnBus::new(address, &self.cluster.name)).transpose()?;
        let one = |pipeline: &Pipeline| {
            if let Some(source) = &pipeline.source {
                return plan.pipeline(pipeline, plan.source_of_others(pipeline, source)?);
            }
            let Some(bus) = &bus else { return plan.pipeline(pipeline, topics(pipeline)) };
            Ok(PipelineSettings {
                name: pipeline.name.clone(),
                from: filters_of(pipeline)?,
                source: topics(pipeline),
                steps: StepSettings { forwards: true, ..pipeline.step_settings() },
                to: vec![SinkSettings {
                    name: "bus".to_owned(),
                    kind: SinkKind::Log(plan.log_of(pipeline, bus)),
                    batching: Batching { messages: 1000, time: 0, ..Batching::default() },
                    parallel: 1,
                }],
                dead_letter: plan.letters_of(pipeline)?,
            })
        };
        // The others are run by processes of the hub.
        let here = |pipeline: &&Pipeline| bus.is_none() || pipeline.source.is_none();
        self.pipelines.iter().filter(here).map(one).collect()
    }

    /// The settings of pipelines in a process of the hub. It takes messages of the broker from a bus, and of other
    /// sources where they are. `way` leads to the broker, for pipelines that publish there.
    ///
    /// # Errors
    /// When a file cannot be read, or a pipeline needs a bus or a broker.
    pub fn pipelines_beside(
        &self,
        bus: Option<&OnBus>,
        way: Option<&Way>,
    ) -> Result<Vec<PipelineSettings>, PipelineError> {
        let plan = Plan { config: self, way };
        let one = |pipeline: &Pipeline| {
            let source = match (&pipeline.source, bus, way) {
                (Some(source), _, _) => plan.source_of_others(pipeline, source)?,
                (None, Some(bus), _) => SourceSettings::Log(plan.log_of(pipeline, bus)),
                (None, None, Some(way)) => SourceSettings::Topics(topics_of(pipeline, way)),
                (None, None, None) => return Err(PipelineError::NoOrigin),
            };
            plan.pipeline(pipeline, source)
        };
        self.pipelines.iter().map(one).collect()
    }

    /// The topics of all pipelines.
    pub fn hub_filters(&self) -> Vec<String> {
        of_topics(&self.pipelines).flat_map(Pipeline::filters).collect()
    }

    /// How much may wait for each pipeline, and what happens beyond it: a rule for each of its topics, so that others
    /// are not looked at.
    pub fn hub_overflow_rules(&self) -> impl Iterator<Item = OverflowRule> + '_ {
        let rules = |pipeline: &Pipeline| {
            let clients = format!("{CLIENT_PREFIX}{}", pipeline.name);
            let (policy, max_bytes) = (pipeline.on_full, pipeline.max_bytes.0);
            let rule = move |filter| OverflowRule {
                clients: clients.clone(),
                filter: Some(filter),
                policy,
                max_messages: Some(u32::MAX),
                max_bytes: Some(max_bytes),
            };
            pipeline.filters().into_iter().map(rule)
        };
        of_topics(&self.pipelines).flat_map(rules)
    }
}

/// Makes settings of single pipelines.
struct Plan<'a> {
    config: &'a Config,
    /// Leads to the broker, for pipelines that publish there.
    way: Option<&'a Way>,
}

impl Plan<'_> {
    /// A source that is no topic of the broker.
    fn source_of_others(&self, pipeline: &Pipeline, name: &str) -> Result<SourceSettings, PipelineError> {
        let found = self.config.hub_sources.iter().find(|source| source.name == *name);
        let found = found.ok_or_else(|| PipelineError::NoSource(name.to_owned()))?;
        let failed = |error| PipelineError::Source { name: name.to_owned(), source: Box::new(error) };
        found.settings(pipeline.window).map_err(failed)
    }

    /// The log of a pipeline on the bus.
    fn log_of(&self, pipeline: &Pipeline, bus: &OnBus) -> LogSettings {
        let lease = lease_on(&bus.address, self.config.cluster.lease);
        LogSettings {
            pipeline: pipeline.name.clone(),
            address: bus.address.clone(),
            bus: BusAccess::of_cluster(&self.config.cluster).put(tidegate_bus::Settings {
                prefix: self.config.cluster.prefix.clone(),
                replicas: self.config.cluster.bus_replicas,
                lease,
                max_release_time: lease / 4,
                max_waiting_time: BUS_WITHIN,
                max_ahead_bytes: MAX_AHEAD_BYTES,
                ..tidegate_bus::Settings::default()
            }),
            partitions: u32::from(self.config.hub.partitions),
            max_bytes: pipeline.max_bytes.0,
            wait: pipeline.keep_for,
            keep: if let Keep::For(length) = pipeline.keep { length } else { Duration::ZERO },
            window: pipeline.window,
            member: bus.member.clone(),
        }
    }

    fn named(&self, pipeline: &Pipeline, name: &str) -> Result<SinkSettings, PipelineError> {
        let sink = self.config.sinks.iter().find(|sink| sink.name == *name);
        let sink = sink.ok_or_else(|| PipelineError::NoSink(name.to_owned()))?;
        if sink.kind == SinkType::Topic {
            let way = self.way.ok_or_else(|| no_broker(pipeline, format!("the sink `{name}`")))?;
            let client_id = format!("{}.{name}", client_id_of(pipeline, way));
            return Ok(sink.with_kind(SinkKind::Mqtt(sink.topics(client_id, way))));
        }
        sink.settings(&sink_client_id(&pipeline.name, name))
    }

    fn letters_of(&self, pipeline: &Pipeline) -> Result<Option<SinkSettings>, PipelineError> {
        Ok(match (&pipeline.dead_letter, &pipeline.dead_letter_topic) {
            (Some(name), _) => Some(self.named(pipeline, name)?),
            (None, Some(topic)) => {
                let way = self.way.ok_or_else(|| no_broker(pipeline, format!("`{topic}`")))?;
                Some(dead_letter_topic(topic, &client_id_of(pipeline, way), way))
            }
            (None, None) => None,
        })
    }

    fn pipeline(&self, pipeline: &Pipeline, source: SourceSettings) -> Result<PipelineSettings, PipelineError> {
        Ok(PipelineSettings {
            name: pipeline.name.clone(),
            from: filters_of(pipeline)?,
            source,
            steps: pipeline.step_settings(),
            to: pipeline.to.0.iter().map(|name| self.named(pipeline, name)).collect::<Result<_, _>>()?,
            dead_letter: self.letters_of(pipeline)?,
        })
    }
}

fn no_broker(pipeline: &Pipeline, place: String) -> PipelineError {
    PipelineError::NoBroker { pipeline: pipeline.name.clone(), place }
}

/// Pipelines whose messages come from topics of the broker.
fn of_topics(pipelines: &[Pipeline]) -> impl Iterator<Item = &Pipeline> {
    pipelines.iter().filter(|pipeline| pipeline.source.is_none())
}

fn filters_of(pipeline: &Pipeline) -> Result<Vec<TopicFilterBuf>, PipelineError> {
    let filters = pipeline.from.0.iter().map(|filter| TopicFilterBuf::new(filter.as_str()));
    Ok(filters.collect::<Result<_, _>>()?)
}

fn client_id_of(pipeline: &Pipeline, way: &Way) -> String {
    format!("{}{}{}", way.prefix, pipeline.name, way.suffix)
}

fn topics_of(pipeline: &Pipeline, way: &Way) -> TopicsSettings {
    TopicsSettings {
        address: way.address.clone(),
        socket: way.socket.clone(),
        client_id: client_id_of(pipeline, way),
        user_name: way.user_name.clone(),
        password: way.password.clone(),
        share: way.shared.then(|| format!("hub-{}", pipeline.name)),
        retained: pipeline.retained,
        origins: way.origins,
        window: pipeline.window,
        session_expiry: u32::try_from(pipeline.keep_for.as_secs()).unwrap_or(u32::MAX),
    }
}

/// The client id at another broker, different for pipelines of one name on two machines.
fn sink_client_id(pipeline: &str, sink: &str) -> String {
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let machine = machine.trim();
    format!("hub.{}.{pipeline}.{sink}", if machine.is_empty() { "tidegate" } else { machine })
}

/// Dead letters go back to the broker that the messages come from.
fn dead_letter_topic(topic: &str, client_id: &str, way: &Way) -> SinkSettings {
    let name = "dead_letter_topic".to_owned();
    let sink = Sink { name, topic: topic.to_owned(), ..Sink::default() };
    sink.with_kind(SinkKind::Mqtt(sink.topics(format!("{client_id}.dead-letters"), way)))
}

impl SourceSection {
    /// The settings of this source.
    ///
    /// # Errors
    /// When a file cannot be read, or an address is invalid.
    pub(super) fn settings(&self, window: u16) -> Result<SourceSettings, PipelineError> {
        if self.kind == SourceType::Http {
            let listen = self.listen.as_deref().unwrap_or_default();
            let failed = |source| PipelineError::Listen { listen: listen.to_owned(), source };
            let mut addresses = listen.to_socket_addrs().map_err(failed)?;
            return Ok(SourceSettings::Http(HttpSourceSettings {
                listen: addresses.next().ok_or_else(|| PipelineError::NoAddress(listen.to_owned()))?,
                token: self.token_file.as_deref().map(first_line).transpose()?,
                max_body: usize::try_from(self.max_body.0).unwrap_or(usize::MAX),
                timeout: self.timeout,
                window,
            }));
        }
        let is_stream = self.kind == SourceType::Jetstream;
        Ok(SourceSettings::Nats(NatsSourceSettings {
            url: self.url.clone().unwrap_or_default(),
            subject: self.subject.clone(),
            stream: self.stream.clone().filter(|_| is_stream),
            group: self.group.clone(),
            window,
        }))
    }
}

impl Sink {
    fn settings(&self, client_id: &str) -> Result<SinkSettings, PipelineError> {
        let kind = self
            .kind(client_id)
            .map_err(|error| PipelineError::Sink { name: self.name.clone(), source: Box::new(error) })?;
        Ok(self.with_kind(kind))
    }

    fn with_kind(&self, kind: SinkKind) -> SinkSettings {
        let millis = |length: Duration| u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        let batching = Batching {
            messages: usize::try_from(self.batch_messages).unwrap_or(usize::MAX),
            bytes: usize::try_from(self.batch_bytes.0).unwrap_or(usize::MAX),
            time: millis(self.batch_time.max(if self.kind == SinkType::S3 {
                LEAST_OBJECT_TIME
            } else {
                Duration::ZERO
            })),
            retry_min: millis(self.retry_min),
            retry_max: millis(self.retry_max),
        };
        SinkSettings { name: self.name.clone(), kind, batching, parallel: usize::from(self.parallel) }
    }

    /// Topics of the broker that `way` leads to.
    fn topics(&self, client_id: String, way: &Way) -> MqttSettings {
        MqttSettings {
            address: way.address.clone(),
            socket: way.socket.clone(),
            client_id,
            user_name: way.user_name.clone(),
            password: way.password.clone(),
            topic: Some(self.topic.clone()).filter(|topic| !topic.is_empty()),
            qos: if self.qos == 2 { QoS::ExactlyOnce } else { QoS::AtLeastOnce },
            retain: self.retain,
            timeout: self.timeout,
        }
    }

    fn kind(&self, client_id: &str) -> Result<SinkKind, PipelineError> {
        let (url, timeout) = (self.url.clone().unwrap_or_default(), self.timeout);
        let ca_file = self.ca.as_ref().map(PathBuf::from);
        let secret = || self.secret_file.as_deref().map(first_line).transpose();
        Ok(match self.kind {
            SinkType::Http => {
                SinkKind::Http(HttpSettings { url, headers: self.all_headers()?, secret: secret()?, timeout, ca_file })
            }
            SinkType::Influxdb => SinkKind::Influx(InfluxSettings {
                url,
                headers: self.all_headers()?,
                measurement: self.measurement.clone(),
                tags: self.tags.0.clone(),
                timeout,
                ca_file,
            }),
            SinkType::Mqtt => SinkKind::Mqtt(self.mqtt(&url, client_id)?),
            SinkType::Topic => return Err(PipelineError::UnknownBroker),
            SinkType::S3 => self.s3(secret()?.unwrap_or_default()),
            _ => self.kind_without_files().ok_or(PipelineError::NoKind)?,
        })
    }

    /// The key whose value is of no use, and why, as far as that is known without files and servers.
    pub(super) fn unusable(&self) -> Option<(&'static str, String)> {
        let kind = match self.kind {
            // The secret is in a file.
            SinkType::S3 => self.s3(vec![0]),
            _ => self.kind_without_files()?,
        };
        kind.unusable()
    }

    /// The settings of kinds that read no file for them.
    fn kind_without_files(&self) -> Option<SinkKind> {
        let (url, timeout) = (self.url.clone().unwrap_or_default(), self.timeout);
        let ca_file = self.ca.as_ref().map(PathBuf::from);
        let path = self.path.as_ref().map(PathBuf::from).unwrap_or_default();
        Some(match self.kind {
            SinkType::File => SinkKind::File(FileSettings {
                path,
                format: self.format,
                rotate_bytes: self.rotate_size.0,
                rotate_time: self.rotate_time,
            }),
            SinkType::Sqlite => SinkKind::Sqlite(SqliteSettings { path, table: self.table.clone(), timeout }),
            SinkType::Postgres => {
                SinkKind::Postgres(PostgresSettings { url, ca_file, table: self.table.clone(), timeout })
            }
            SinkType::Kafka => SinkKind::Kafka(KafkaSettings {
                url,
                mechanism: match self.sasl {
                    BusSasl::Plain => SaslMechanism::Plain,
                    BusSasl::ScramSha256 => SaslMechanism::ScramSha256,
                    BusSasl::ScramSha512 => SaslMechanism::ScramSha512,
                },
                ca_file,
                topic: self.topic.clone(),
                timeout,
            }),
            SinkType::Amqp => SinkKind::Amqp(AmqpSettings {
                url,
                ca_file,
                queue: self.queue.clone(),
                exchange: self.exchange.clone(),
                routing_key: self.routing_key.clone(),
                timeout,
            }),
            SinkType::Redis => {
                let (stream, max_entries) = (self.stream.clone(), self.max_entries);
                SinkKind::Redis(RedisSettings { url, stream, max_entries, timeout })
            }
            SinkType::Nats => {
                let (stream, subject) = (self.stream.clone(), self.subject.clone());
                SinkKind::Nats(NatsSettings { url, stream, subject, timeout })
            }
            SinkType::Http | SinkType::Influxdb | SinkType::Mqtt | SinkType::Topic | SinkType::S3 => return None,
        })
    }

    fn s3(&self, secret: Vec<u8>) -> SinkKind {
        SinkKind::S3(S3Settings {
            url: self.url.clone().unwrap_or_default(),
            bucket: self.bucket.clone(),
            region: self.region.clone(),
            prefix: self.prefix.clone(),
            format: self.format,
            access_key: self.access_key.clone(),
            secret,
            timeout: self.timeout,
            ca_file: self.ca.as_ref().map(PathBuf::from),
        })
    }

    fn mqtt(&self, url: &str, client_id: &str) -> Result<MqttSettings, PipelineError> {
        let place = BrokerAddress::of_parts(Some("sink"), url)?;
        let (address, socket) = socket_of(&place, self.ca.as_deref())?;
        let written = self.password_file.as_deref().map(first_line).transpose()?;
        Ok(MqttSettings {
            address,
            socket,
            client_id: if self.client_id.is_empty() { client_id.to_owned() } else { self.client_id.clone() },
            user_name: self.username.clone().or(place.user_name),
            password: written.or(place.password.map(String::into_bytes)),
            topic: Some(self.topic.clone()).filter(|topic| !topic.is_empty()),
            qos: if self.qos == 2 { QoS::ExactlyOnce } else { QoS::AtLeastOnce },
            retain: self.retain,
            timeout: self.timeout,
        })
    }

    fn all_headers(&self) -> Result<Vec<(String, String)>, PipelineError> {
        let split = |header: &String| {
            let (name, value) = header.split_once(':').ok_or(PipelineError::Header)?;
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        };
        let mut headers: Vec<(String, String)> =
            self.headers.0.iter().map(split).collect::<Result<_, PipelineError>>()?;
        if let Some(path) = &self.authorization_file {
            let value = String::from_utf8(first_line(path)?).map_err(|_| PipelineError::NoText(path.clone()))?;
            headers.push(("authorization".to_owned(), value));
        }
        Ok(headers)
    }
}

/// How a broker is reached, with TLS where its address says so.
///
/// # Errors
/// When TLS cannot be set up.
pub(super) fn socket_of(place: &BrokerAddress, ca: Option<&str>) -> Result<(Address, SocketOptions), TlsFileError> {
    let (host, port) = (place.at.host.clone(), place.at.port);
    if !place.secure {
        return Ok((Address::Tcp { host, port }, SocketOptions::default()));
    }
    let options = TlsOptions { ca_file: ca.map(PathBuf::from), ..TlsOptions::default() };
    let tls = TlsConnector::new(&options)?;
    Ok((Address::Tls { host, port }, SocketOptions { tls: Some(tls), ..SocketOptions::default() }))
}

/// The first line of a file.
fn first_line(path: &str) -> Result<Vec<u8>, PipelineError> {
    let failed = |source: io::Error| PipelineError::Secret { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(MAX_SECRET_FILE).read_to_end(&mut bytes).map_err(failed)?;
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() {
        return Err(PipelineError::EmptySecret(path.to_owned()));
    }
    Ok(line.to_vec())
}
