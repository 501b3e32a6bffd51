//! From keys to settings.

use std::io::{self, Read};
use std::net::ToSocketAddrs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tidegate_bus::Address as BusAddress;
use tidegate_engine::{HubFilter, OverflowRule, PayloadCheck};
use tidegate_hub::{
    ArchiveSettings, Batching, HistorySettings, HttpSourceSettings, KafkaSourceSettings, LogSettings,
    NatsSourceSettings, PayloadGate, PipelineSettings, SinkKind, SinkSettings, SourceSettings, StepSettings, Steps,
    TopicFilterBuf, TopicsSettings,
};
use tidegate_units::percent::escape_except;

use super::way::Way;
use super::{CLIENT_PREFIX, PipelineError, client_ids};
use crate::Config;
use crate::bus_access::{BusAccess, lease_on};
use crate::sections::Store;
use crate::sections::hub::{Keep, OnInvalid, OnMissing, Pipeline, Sink, SinkType, SourceSection, SourceType};
use crate::sections::tenant::Tenant;

/// Longest file of a password, a secret or a header, bytes.
const MAX_SECRET_FILE: u64 = 64 << 10;
/// Bytes of a partition that are read ahead.
const MAX_AHEAD_BYTES: usize = 1 << 20;
/// How long a batch waits for a bus that is away.
const BUS_WITHIN: Duration = Duration::from_secs(10);
/// The group of a source that names none begins with this.
const USUAL_GROUP: &str = "tidegate";

impl Pipeline {
    /// The name of its tenant; empty for the default one.
    pub fn tenant_name(&self) -> &str {
        self.tenant.as_deref().unwrap_or_default()
    }

    /// Whether it writes to a sink.
    pub(super) fn uses(&self, sink: &str) -> bool {
        self.to.0.iter().chain(&self.dead_letter).any(|name| name == sink)
    }

    /// The steps for a message.
    pub fn step_settings(&self) -> StepSettings {
        StepSettings {
            format: self.format,
            encode: self.encode.format(),
            schema: self.schema.as_ref().map(PathBuf::from),
            schema_type: self.schema_type.clone(),
            drops_invalid: self.on_invalid == OnInvalid::Drop,
            tables: self.tables.0.clone(),
            demands_rows: self.on_missing == OnMissing::Fail,
            filter: self.filter.clone(),
            sql: self.sql.clone(),
            every: (!self.every.is_zero()).then(|| u64::try_from(self.every.as_millis()).unwrap_or(u64::MAX)),
            set: self.set.0.clone(),
            topic: self.topic.clone(),
            key: self.key.clone(),
            forwards: false,
        }
    }
}

impl Pipeline {
    /// Its topic filters.
    pub(super) fn filters(&self) -> Vec<String> {
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
        let topics = |pipeline: &Pipeline| SourceSettings::Topics(topics_of(pipeline, &way.of(pipeline)));
        let bus = self.hub.bus.as_deref().filter(|_| !way.shared);
        let bus = bus.map(|address| OnBus::new(address, &self.cluster.name)).transpose()?;
        let one = |pipeline: &Pipeline| {
            if let Some(source) = &pipeline.source {
                return plan.pipeline(pipeline, plan.source_of_others(pipeline, source)?);
            }
            let Some(bus) = &bus else {
                let settings = plan.pipeline(pipeline, topics(pipeline))?;
                return Ok(PipelineSettings { archive: archive_of(pipeline, &self.store), ..settings });
            };
            Ok(PipelineSettings {
                name: pipeline.name.clone(),
                from: filters_of(pipeline)?,
                source: topics(pipeline),
                steps: StepSettings { forwards: true, encode: None, ..pipeline.step_settings() },
                to: vec![SinkSettings {
                    name: "bus".to_owned(),
                    kind: SinkKind::Log(plan.log_of(pipeline, bus)),
                    batching: Batching { messages: 1000, time: 0, ..Batching::default() },
                    parallel: 1,
                }],
                archive: None,
                dead_letter: plan.letters_of(pipeline)?,
                max_age: Duration::ZERO,
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
            let sinks = self.sinks.iter().filter(|sink| sink.exactly_once && pipeline.uses(&sink.name));
            if let Some(sink) = sinks.into_iter().next() {
                return Err(PipelineError::TransactionsShared(sink.name.clone()));
            }
            let source = match (&pipeline.source, bus, way) {
                (Some(source), _, _) => plan.source_of_others(pipeline, source)?,
                (None, Some(bus), _) => SourceSettings::Log(plan.log_of(pipeline, bus)),
                (None, None, Some(_)) if pipeline.on_invalid == OnInvalid::Refuse => {
                    return Err(PipelineError::RefusesNowhere(pipeline.name.clone()));
                }
                (None, None, Some(way)) => SourceSettings::Topics(topics_of(pipeline, way)),
                (None, None, None) => return Err(PipelineError::NoOrigin),
            };
            plan.pipeline(pipeline, source)
        };
        self.pipelines.iter().map(one).collect()
    }
}

/// The topics of all pipelines, with the tenants that they are in, and the checks of their payloads.
pub(crate) fn filters(pipelines: &[Pipeline], tenants: &[Tenant]) -> Vec<HubFilter> {
    let of = |pipeline: &Pipeline| {
        let tenant = pipeline.tenant_number(tenants);
        let check = (pipeline.on_invalid == OnInvalid::Refuse).then(|| gate_of(pipeline));
        let topics = pipeline.filters().into_iter();
        topics.map(move |filter| HubFilter { tenant, filter, check: check.clone() }).collect::<Vec<_>>()
    };
    of_topics(pipelines).flat_map(of).collect()
}

/// The check of the payloads of a pipeline.
fn gate_of(pipeline: &Pipeline) -> Arc<dyn PayloadCheck> {
    match PayloadGate::open(&pipeline.step_settings()) {
        Ok(Some(gate)) => Arc::new(Gate(gate)),
        // The schema was there when the configuration was checked: without it, no payload is one of the pipeline.
        Ok(None) => closed(&pipeline.name, &"it has no schema"),
        Err((_, error)) => closed(&pipeline.name, &error),
    }
}

/// Refuses all payloads, and says why.
fn closed(pipeline: &str, error: &dyn std::fmt::Display) -> Arc<dyn PayloadCheck> {
    tracing::error!(pipeline, %error, "all messages of the pipeline's topics are refused: its schema cannot be read");
    Arc::new(Closed)
}

/// Accepts payloads of a schema.
#[derive(Debug)]
struct Gate(PayloadGate);

impl PayloadCheck for Gate {
    fn refusal(&self, payload: &[u8]) -> Option<String> {
        self.0.refusal(payload)
    }
}

/// Accepts nothing.
#[derive(Debug)]
struct Closed;

impl PayloadCheck for Closed {
    fn refusal(&self, _: &[u8]) -> Option<String> {
        Some("the broker cannot read the schema".to_owned())
    }
}

/// How much may wait for each pipeline, and what happens beyond it: a rule for each of its topics, so that others
/// are not looked at.
pub(crate) fn overflow_rules(pipelines: &[Pipeline]) -> impl Iterator<Item = OverflowRule> + '_ {
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
    of_topics(pipelines).flat_map(rules)
}

/// The histories that pipelines of a tenant write: their folders, and the age of their messages.
pub fn histories(pipelines: &[Pipeline], sinks: &[Sink], tenant: &str) -> Vec<(PathBuf, Duration)> {
    let of = |pipeline: &Pipeline| {
        let sinks = sinks.iter().filter(|sink| sink.kind == SinkType::History);
        let own = sinks.filter(|sink| pipeline.to.0.contains(&sink.name));
        let place = |sink: &Sink| {
            let path = PathBuf::from(sink.path.as_deref().unwrap_or_default());
            let tenant = tenant.to_owned();
            let history = HistorySettings { path, tenant, max_bytes: sink.max_bytes.0, max_age: sink.max_age };
            (history.folder(&pipeline.name), sink.max_age)
        };
        own.map(place).collect::<Vec<_>>()
    };
    pipelines.iter().filter(|pipeline| pipeline.tenant_name() == tenant).flat_map(of).collect()
}

/// The archive of a pipeline's delivered messages, if it keeps them: without a bus, in the data directory.
fn archive_of(pipeline: &Pipeline, store: &Store) -> Option<ArchiveSettings> {
    let (Keep::For(max_age), Some(directory)) = (pipeline.keep, &store.directory) else { return None };
    // A pipeline may be named `..`; the folder `_..` is an ordinary one.
    let folder = Path::new(directory).join(super::ARCHIVES).join(format!("_{}", pipeline.name));
    Some(ArchiveSettings { folder, max_bytes: pipeline.max_bytes.0, max_age })
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
        found.settings(pipeline).map_err(failed)
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
            let way = self.way.ok_or_else(|| no_broker(pipeline, format!("the sink `{name}`")))?.of(pipeline);
            let ids = client_ids::at_broker(pipeline, &self.config.tenants, &way, name, sink.parallel);
            return Ok(sink.with_kind(SinkKind::Mqtt(sink.topics(ids, &way))));
        }
        let mut settings = sink.settings(&sink_client_id(&pipeline.name, name))?;
        if let SinkKind::History(history) = &mut settings.kind {
            pipeline.tenant_name().clone_into(&mut history.tenant);
        }
        Ok(settings)
    }

    fn letters_of(&self, pipeline: &Pipeline) -> Result<Option<SinkSettings>, PipelineError> {
        Ok(match (&pipeline.dead_letter, &pipeline.dead_letter_topic) {
            (Some(name), _) => Some(self.named(pipeline, name)?),
            (None, Some(topic)) => {
                let way = self.way.ok_or_else(|| no_broker(pipeline, format!("`{topic}`")))?.of(pipeline);
                let ids = client_ids::at_broker(pipeline, &self.config.tenants, &way, client_ids::DEAD_LETTERS, 1);
                Some(dead_letter_topic(topic, ids, &way))
            }
            (None, None) => None,
        })
    }

    fn pipeline(&self, pipeline: &Pipeline, mut source: SourceSettings) -> Result<PipelineSettings, PipelineError> {
        let to = pipeline.to.0.iter().map(|name| self.named(pipeline, name)).collect::<Result<Vec<_>, _>>()?;
        let dead_letter = self.letters_of(pipeline)?;
        if let SourceSettings::Topics(topics) = &mut source {
            // Sinks at its own broker have client ids below that of its session.
            let below = format!("{}.", topics.client_id);
            let ids = to.iter().chain(&dead_letter).flat_map(|sink| match &sink.kind {
                SinkKind::Mqtt(sink) => sink.client_ids.as_slice(),
                _ => &[],
            });
            topics.own_publishers = ids.filter(|id| id.starts_with(&below)).cloned().collect();
        }
        Ok(PipelineSettings {
            name: pipeline.name.clone(),
            from: filters_of(pipeline)?,
            source,
            steps: pipeline.step_settings(),
            to,
            archive: None,
            dead_letter,
            max_age: pipeline.max_age,
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

fn topics_of(pipeline: &Pipeline, way: &Way) -> TopicsSettings {
    TopicsSettings {
        address: way.address.clone(),
        socket: way.socket.clone(),
        client_id: client_ids::of_session(pipeline, way),
        user_name: way.user_name.clone(),
        password: way.password.clone(),
        share: way.shared.then(|| format!("hub-{}", pipeline.name)),
        retained: pipeline.retained,
        origins: way.origins,
        own_publishers: Vec::new(),
        window: pipeline.window,
        session_expiry: u32::try_from(pipeline.keep_for.as_secs()).unwrap_or(u32::MAX),
        kept_filters: way.kept_filters.clone(),
    }
}

/// The client id at another broker, different for pipelines of one name on two machines.
fn sink_client_id(pipeline: &str, sink: &str) -> String {
    format!("hub.{}.{pipeline}.{sink}", tidegate_proc::host_name().as_deref().unwrap_or("tidegate"))
}

/// Dead letters go back to the broker that the messages come from.
fn dead_letter_topic(topic: &str, client_ids: Vec<String>, way: &Way) -> SinkSettings {
    let name = "dead_letter_topic".to_owned();
    let sink = Sink { name, topic: topic.to_owned(), ..Sink::default() };
    sink.with_kind(SinkKind::Mqtt(sink.topics(client_ids, way)))
}

impl SourceSection {
    /// The settings of this source for a pipeline.
    ///
    /// # Errors
    /// When a file cannot be read, or an address is invalid.
    pub(super) fn settings(&self, pipeline: &Pipeline) -> Result<SourceSettings, PipelineError> {
        let window = pipeline.window;
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
        if self.kind == SourceType::Kafka {
            return Ok(SourceSettings::Kafka(self.kafka(pipeline)));
        }
        Ok(SourceSettings::Nats(self.nats(pipeline)))
    }

    /// The settings of a source of kind `nats` or `jetstream` for a pipeline.
    pub(super) fn nats(&self, pipeline: &Pipeline) -> NatsSourceSettings {
        let is_stream = self.kind == SourceType::Jetstream;
        NatsSourceSettings {
            url: self.url.clone().unwrap_or_default(),
            subject: self.subject.clone(),
            stream: self.stream.clone().filter(|_| is_stream),
            group: self.group.clone().unwrap_or_else(|| usual_group(&escaped(&pipeline.name))),
            window: pipeline.window,
        }
    }

    /// The settings of a source of kind `kafka` for a pipeline. The consumer group is `group`, or one that is
    /// named after the pipeline: members of a group share the records.
    pub(super) fn kafka(&self, pipeline: &Pipeline) -> KafkaSourceSettings {
        KafkaSourceSettings {
            url: self.url.clone().unwrap_or_default(),
            mechanism: self.sasl.mechanism(),
            ca_file: self.ca.as_ref().map(PathBuf::from),
            topic: self.topic.clone(),
            group: self.group.clone().unwrap_or_else(|| usual_group(&pipeline.name)),
            window: pipeline.window,
        }
    }
}

/// The group of a source that names none: each pipeline has its own, and so it has all messages.
fn usual_group(pipeline: &str) -> String {
    format!("{USUAL_GROUP}-{pipeline}")
}

/// A text as a part of a name at NATS, which refuses some characters. Different texts stay different.
fn escaped(text: &str) -> String {
    escape_except(text, b"_-")
}

/// The first line of a file.
pub(super) fn first_line(path: &str) -> Result<Vec<u8>, PipelineError> {
    let failed = |source: io::Error| PipelineError::Secret { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = tidegate_setting_file::open(std::path::Path::new(path)).map_err(failed)?;
    file.take(MAX_SECRET_FILE).read_to_end(&mut bytes).map_err(failed)?;
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() {
        return Err(PipelineError::EmptySecret(path.to_owned()));
    }
    Ok(line.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_group_of_nats_fits_each_name_of_a_pipeline() {
        let group = |name: &str| {
            let pipeline = Pipeline { name: name.to_owned(), ..Pipeline::default() };
            let settings = SourceSection::default().nats(&pipeline);
            assert_eq!(settings.unusable(), None, "{name:?}");
            settings.group
        };
        assert_eq!(group("hot_1-a"), "tidegate-hot_1-a");
        assert_eq!(group("a.b"), "tidegate-a%2Eb");
        assert_eq!(group("a b"), "tidegate-a%20b");
        let names = ["a b", "a\tb", "a*b", "a>b", "a/b", "a\\b", "a%b", "a%20b", "a.b", "\u{e4}", "a\nb"];
        let groups: std::collections::BTreeSet<String> = names.into_iter().map(group).collect();
        assert_eq!(groups.len(), names.len(), "different names stay different: {groups:?}");
    }
}
