//! Errors in pipelines and sinks, before anything is started.

use std::collections::{BTreeMap, BTreeSet};
use std::net::ToSocketAddrs;
use std::path::PathBuf;

use tidegate_engine::OverflowPolicy;
use tidegate_hub::{
    FileFormat, MAX_MARKED_WINDOW, MAX_PIPELINE_NAME, Part, StepError, Steps, TopicFilterBuf, TopicNameBuf,
};

use super::age::age_problem;
use super::hub_sections::HubSections;
use super::keys::without_effect;
use super::{OnBus, circles, topics};
use crate::Config;
use crate::finding::Findings;
use crate::origins::Origins;
use crate::path::KeyPath;
use crate::sections::Store;
use crate::sections::hub::{Keep, OnInvalid, Pipeline, Sink, SinkType, SourceSection, SourceType};
use crate::sections::orchestrator::Orchestrator;
use crate::sections::tenant::Tenant;
use crate::source::Source;
use crate::value::{Problem, Words};

/// Pipelines, and sinks, that a configuration may have.
const MAX_SECTIONS: usize = 64;

/// Checks the keys of pipelines and sinks together.
pub fn check(config: &Config, findings: &mut Findings) {
    let Config { hub, hub_sources: sources, sinks, pipelines, origins, .. } = config;
    let hub = HubSections { hub, sources, sinks, pipelines, origins };
    check_bus(findings, hub);
    check_transactions(findings, hub, config.orchestrator.enabled);
    circles::check(findings, hub);
    let mut names = BTreeSet::new();
    for (index, sink) in sinks.iter().enumerate() {
        let mut found = sink_problems(sink);
        found.extend(without_effect(sink, index, origins));
        found.extend(name_problem("sink", &sink.name, index, !names.insert(&sink.name)));
        for (key, problem) in found {
            findings.push(problem, origins.place("sink", index, key).clone());
        }
    }
    check_sources(findings, hub);
    check_paths(sinks, origins, findings);
    let mut names = BTreeSet::new();
    for (index, pipeline) in pipelines.iter().enumerate() {
        let mut found = pipeline_problems(pipeline, hub);
        found.extend(topics::nothing_in_common(pipeline));
        found.extend(tenant_problem(pipeline, &config.tenants));
        found.extend(broker_problem(&config.orchestrator));
        let moves = !config.cluster.name.is_empty() || config.orchestrator.enabled;
        found.extend(kept_nowhere(pipeline, hub, moves));
        found.extend(name_problem("pipeline", &pipeline.name, index, !names.insert(&pipeline.name)));
        for (key, problem) in found {
            findings.push(problem, origins.place("pipeline", index, key).clone());
        }
        check_steps(pipeline, index, origins, findings);
    }
}

/// Checks that the bus is shared by processes, and that names of pipelines are valid names on it.
fn check_bus(findings: &mut Findings, hub: HubSections<'_>) {
    let Some(address) = &hub.hub.bus else { return };
    if let Err(error) = OnBus::new(address, "") {
        findings.push(Problem::new(error.to_string()), hub.origins.source_of("hub", "bus").clone());
    }
    for (index, pipeline) in hub.pipelines.iter().enumerate() {
        let fits = |one: char| one.is_ascii_alphanumeric() || "-_".contains(one);
        if pipeline.name.len() > MAX_PIPELINE_NAME || !pipeline.name.chars().all(fits) {
            let said = format!(
                "the name of a pipeline on the bus has at most {MAX_PIPELINE_NAME} ASCII letters, digits, `-` and `_`"
            );
            let path = KeyPath { section: "pipeline", index, key: "name" };
            findings.push(Problem::new(said), hub.origins.source(&path).clone());
        }
    }
}

/// A sink that writes exactly once has one process at a time.
fn check_transactions(findings: &mut Findings, hub: HubSections<'_>, is_orchestrator: bool) {
    for (index, sink) in hub.sinks.iter().enumerate().filter(|(_, sink)| sink.exactly_once) {
        check_marked(findings, hub, index, sink);
        let problem = if !matches!(sink.kind, SinkType::Kafka | SinkType::File) {
            Problem::new("only sinks of the kinds \"kafka\" and \"file\" write exactly once by this key")
        } else if hub.hub.bus.is_some() && hub.pipelines.iter().any(|pipeline| pipeline.uses(&sink.name)) {
            Problem::new("processes on a bus share the pipelines, and `exactly_once` needs one process")
                .hint("leave out hub.bus, or exactly_once")
        } else if is_orchestrator
            && hub.pipelines.iter().any(|pipeline| pipeline.source.is_none() && pipeline.uses(&sink.name))
        {
            // A message that comes again from a broker has no id by which it is known.
            Problem::new("`exactly_once` goes by ids, and messages of brokers have others when they come again")
                .hint("leave out exactly_once, or run the pipeline in a broker")
        } else if let Some(other) = hub.sinks.iter().find(|other| {
            [sink.kind, other.kind] == [SinkType::File; 2] && other.path == sink.path && !other.exactly_once
        }) {
            Problem::new(format!("the sink `{}` writes the same file without `exactly_once`", other.name))
                .hint("give both the same exactly_once, or another path")
        } else {
            continue;
        };
        findings.push(problem, hub.origins.source(&KeyPath { section: "sink", index, key: "exactly_once" }).clone());
    }
}

/// The ids of as many records are kept as may come again.
fn check_marked(findings: &mut Findings, hub: HubSections<'_>, index: usize, sink: &Sink) {
    let mut refuse = |path: KeyPath, problem: Problem| findings.push(problem, hub.origins.source(&path).clone());
    let too_many = |path: &KeyPath| {
        Problem::new(format!("with `exactly_once`, `{}.{}` is at most {MAX_MARKED_WINDOW}", path.section, path.key))
    };
    if sink.batch_messages > MAX_MARKED_WINDOW {
        let path = KeyPath { section: "sink", index, key: "batch_messages" };
        refuse(path, too_many(&path));
    }
    for (index, pipeline) in hub.pipelines.iter().enumerate().filter(|(_, pipeline)| pipeline.uses(&sink.name)) {
        if u32::from(pipeline.window) > MAX_MARKED_WINDOW {
            let path = KeyPath { section: "pipeline", index, key: "window" };
            refuse(path, too_many(&path));
        }
        if !pipeline.every.is_zero() {
            let problem = Problem::new("a window may get another id after a failure, and `exactly_once` goes by ids")
                .hint("leave out exactly_once, or every");
            refuse(KeyPath { section: "pipeline", index, key: "every" }, problem);
        }
        if pipeline.sql.is_some() && Steps::new(&pipeline.step_settings()).is_ok_and(|steps| steps.is_foreach()) {
            let problem = Problem::new("FOREACH makes more records than a sink with `exactly_once` keeps the ids of")
                .hint("leave out exactly_once, or use SELECT");
            refuse(KeyPath { section: "pipeline", index, key: "sql" }, problem);
        }
    }
}

fn name_problem(section: &str, name: &str, index: usize, twice: bool) -> Option<(&'static str, Problem)> {
    let problem = if name.is_empty() {
        Problem::new(format!("a {section} without a name")).hint("give it one: name = \"archive\"")
    } else if twice {
        Problem::new(format!("two {section}s have the name `{name}`"))
    } else if index >= MAX_SECTIONS {
        Problem::new(format!("there are at most {MAX_SECTIONS} [[{section}]]"))
    } else {
        return None;
    };
    Some(("name", problem))
}

fn check_sources(findings: &mut Findings, hub: HubSections<'_>) {
    let mut names = BTreeSet::new();
    for (index, source) in hub.sources.iter().enumerate() {
        let mut found = source_problems(source);
        found.extend(name_problem("source", &source.name, index, !names.insert(&source.name)));
        for (key, problem) in found {
            findings.push(problem, hub.origins.place("source", index, key).clone());
        }
    }
}

fn source_problems(source: &SourceSection) -> Vec<(&'static str, Problem)> {
    let mut found = Vec::new();
    let mut missing = |key: &'static str, example: &str| {
        let problem =
            Problem::new(format!("source `{}` of kind \"{}\" needs `source.{key}`", source.name, source.kind.word()));
        found.push((key, problem.hint(format!("such as {key} = \"{example}\""))));
    };
    match source.kind {
        SourceType::Http if source.listen.is_none() => missing("listen", "127.0.0.1:8090"),
        SourceType::Nats | SourceType::Jetstream if source.url.is_none() => missing("url", "nats://127.0.0.1:4222"),
        SourceType::Jetstream if source.stream.is_none() => missing("stream", "ORDERS"),
        SourceType::Kafka if source.url.is_none() => missing("url", "kafka://127.0.0.1:9092"),
        SourceType::Kafka if source.topic.is_empty() => missing("topic", "orders"),
        SourceType::Kafka => {
            let unusable = source.kafka(&Pipeline::default()).unusable();
            found.extend(unusable.map(|(key, why)| (key, Problem::new(why))));
        }
        SourceType::Nats | SourceType::Jetstream => {
            let unusable = source.nats(&Pipeline::default()).unusable();
            found.extend(unusable.map(|(key, why)| (key, Problem::new(why))));
        }
        SourceType::Http => {}
    }
    let is_open = source.kind == SourceType::Http && source.token_file.is_none();
    if let Some(listen) = source.listen.as_ref().filter(|_| is_open) {
        let addresses = listen.to_socket_addrs().map(Iterator::collect::<Vec<_>>).unwrap_or_default();
        if !addresses.iter().all(|address| address.ip().is_loopback()) {
            let problem = Problem::new("a web hook that others reach needs a token");
            found.push(("listen", problem.hint("name a file that has one: token_file = \"hook.token\"")));
        }
    }
    found
}

/// A file has one writer, with one idea of when it is finished. Tables of a database share their file.
fn check_paths(sinks: &[Sink], origins: &Origins, findings: &mut Findings) {
    let mut paths = BTreeMap::new();
    for (index, sink) in sinks.iter().enumerate() {
        let has_path = matches!(sink.kind, SinkType::File | SinkType::Sqlite | SinkType::History);
        let path = sink.path.as_ref().filter(|_| has_path).map(PathBuf::from);
        if let Some(path) = path
            && let Some(other) = paths.insert(path.clone(), sink.kind)
            && (other, sink.kind) != (SinkType::Sqlite, SinkType::Sqlite)
        {
            let problem = Problem::new(format!("two sinks write the file {}", path.display()));
            let hint = "name one sink in the `to` of several pipelines";
            findings.push(problem.hint(hint), origins.source(&KeyPath { section: "sink", index, key: "path" }).clone());
        }
    }
}

fn sink_problems(sink: &Sink) -> Vec<(&'static str, Problem)> {
    let mut found = Vec::new();
    let mut missing = |key: &'static str, example: &str| {
        let problem = Problem::new(format!("sink `{}` of kind \"{}\" needs `sink.{key}`", sink.name, sink.kind.word()));
        found.push((key, problem.hint(format!("such as {key} = \"{example}\""))));
    };
    let example = match sink.kind {
        SinkType::File | SinkType::Sqlite | SinkType::History | SinkType::Topic | SinkType::Discard => None,
        SinkType::Http => Some("https://example.org/readings"),
        SinkType::Mqtt => Some("mqtt://broker.example:1883"),
        SinkType::Postgres => Some("postgres://user:password@127.0.0.1:5432/readings"),
        SinkType::Nats => Some("nats://127.0.0.1:4222"),
        SinkType::Redis => Some("redis://127.0.0.1:6379"),
        SinkType::Influxdb => Some("http://127.0.0.1:8086/api/v2/write?org=o&bucket=b&precision=ns"),
        SinkType::Kafka => Some("kafka://127.0.0.1:9092"),
        SinkType::Amqp => Some("amqp://user:password@127.0.0.1:5672"),
        SinkType::S3 => Some("https://s3.eu-central-1.amazonaws.com"),
    };
    match example {
        Some(example) if sink.url.is_none() => missing("url", example),
        None if !matches!(sink.kind, SinkType::Topic | SinkType::Discard) && sink.path.is_none() => {
            missing("path", if sink.kind == SinkType::Sqlite { "out/readings.db" } else { "out/readings.ndjson" });
        }
        _ => {}
    }
    let texts: &[(&'static str, bool, &str)] = match sink.kind {
        SinkType::Postgres | SinkType::Sqlite => &[("table", sink.table.is_empty(), "readings")],
        SinkType::Kafka => &[("topic", sink.topic.is_empty(), "readings")],
        SinkType::S3 => &[
            ("bucket", sink.bucket.is_empty(), "readings"),
            ("access_key", sink.access_key.is_empty(), "AKIAIOSFODNN7EXAMPLE"),
            ("secret_file", sink.secret_file.is_none(), "/etc/tidegate/s3.secret"),
        ],
        _ => &[],
    };
    for (key, _, example) in texts.iter().filter(|(_, is_missing, _)| *is_missing) {
        missing(key, example);
    }
    let is_never_finished = sink.rotate_size.0 == 0 && sink.rotate_time.is_zero();
    if sink.kind == SinkType::File && sink.format == FileFormat::Parquet && is_never_finished {
        let problem = Problem::new("a file of Parquet is made when it is finished");
        found.push(("format", problem.hint("say when: rotate_size = \"64MiB\" or rotate_time = \"10m\"")));
    }
    if found.is_empty() {
        found.extend(sink.unusable().map(|(key, why)| (key, Problem::new(why))));
    }
    let is_secret = |header: &&String| {
        let name = header.split(':').next().unwrap_or_default().trim().to_lowercase();
        ["authorization", "proxy-authorization", "cookie"].contains(&name.as_str())
    };
    if sink.headers.0.iter().any(|header| is_secret(&header)) {
        let problem = Problem::new("`sink.headers` must hold no secret, since it is shown");
        found.push(("headers", problem.hint("write it into a file, and name that with `authorization_file`")));
    }
    if sink.retry_max < sink.retry_min {
        found.push(("retry_max", Problem::new("`sink.retry_max` must be at least `sink.retry_min`")));
    }
    if !sink.topic.is_empty() && TopicNameBuf::new(sink.topic.as_str()).is_err() {
        found.push(("topic", Problem::new(format!("`sink.topic` must be a topic name, not {:?}", sink.topic))));
    }
    // Elsewhere names in `${}` are filled in, and here all records would have this topic.
    if sink.topic.contains("${") {
        let problem = Problem::new("`sink.topic` is the topic of all records: names in ${} are not filled in");
        found.push(("topic", problem.hint("set `pipeline.topic`, as in topic = \"'out/' + clientid\"")));
    }
    found
}

fn pipeline_problems(pipeline: &Pipeline, hub: HubSections<'_>) -> Vec<(&'static str, Problem)> {
    let mut found = Vec::new();
    let known: Vec<&str> = hub.sinks.iter().map(|sink| sink.name.as_str()).collect();
    let unknown = |name: &str| {
        let problem = Problem::new(format!("there is no sink `{name}`"));
        problem.hint(if known.is_empty() {
            "add a [[sink]]".to_owned()
        } else {
            format!("there are {}", known.join(", "))
        })
    };
    if pipeline.to.0.is_empty() {
        found.push(("to", Problem::new("a pipeline without a sink").hint("name some: to = [\"archive\"]")));
    }
    for name in pipeline.to.0.iter().filter(|name| !known.contains(&name.as_str())) {
        found.push(("to", unknown(name)));
    }
    if let Some(name) = pipeline.dead_letter.as_ref().filter(|name| !known.contains(&name.as_str())) {
        found.push(("dead_letter", unknown(name)));
    }
    if let Some(topic) = &pipeline.dead_letter_topic {
        if pipeline.dead_letter.is_some() {
            found.push(("dead_letter_topic", Problem::new("dead letters go to a sink or to a topic: set one of both")));
        }
        if TopicNameBuf::new(topic.as_str()).is_err() {
            let said = format!("`pipeline.dead_letter_topic` must be a topic name, not {topic:?}");
            found.push(("dead_letter_topic", Problem::new(said)));
        }
    }
    let named = pipeline.source.as_ref();
    if let Some(name) = named.filter(|name| hub.sources.iter().all(|source| source.name != **name)) {
        found.push(("source", Problem::new(format!("there is no source `{name}`")).hint("add a [[source]]")));
    }
    let is_http = |name: &String| hub.sources.iter().any(|it| it.name == *name && it.kind == SourceType::Http);
    let others = hub.pipelines.iter().filter(|other| other.source.as_ref() == named).count();
    if named.is_some_and(is_http) && others > 1 {
        let problem = Problem::new("two pipelines have one web hook");
        found.push(("source", problem.hint("give each a [[source]] with its own address")));
    }
    found.extend(shared_group(pipeline, hub));
    found.extend(window_problem(pipeline, hub));
    found.extend(refusal_problem(pipeline));
    found.extend(age_problem(pipeline, hub));
    found.extend(letters_problem(pipeline, hub));
    if pipeline.from.0.is_empty() && pipeline.sql.is_none() && named.is_none() {
        let problem = Problem::new("a pipeline without topics");
        found.push(("from", problem.hint("name some: from = [\"plant/+/temp\"]")));
    }
    for filter in &pipeline.from.0 {
        if filter.starts_with("$share/") || TopicFilterBuf::new(filter.as_str()).is_err() {
            found.push(("from", Problem::new(format!("`pipeline.from` must have topic filters, not {filter:?}"))));
        }
    }
    let fits = [OverflowPolicy::Block, OverflowPolicy::DropOldest, OverflowPolicy::DropNewest, OverflowPolicy::Reject];
    if !fits.contains(&pipeline.on_full) {
        let said = "`pipeline.on_full` must be \"block\", \"drop-oldest\", \"drop-newest\" or \"reject\"";
        found.push(("on_full", Problem::new(said)));
    }
    found
}

/// The problem of a pipeline whose windows have no SELECT, or are over requests that wait for their answers.
fn window_problem(pipeline: &Pipeline, hub: HubSections<'_>) -> Option<(&'static str, Problem)> {
    if pipeline.every.is_zero() {
        return None;
    }
    if pipeline.sql.is_none() {
        let problem = Problem::new("a window needs a SELECT");
        return Some((
            "every",
            problem.hint("such as sql = \"SELECT clientid, count(*) AS messages FROM 'plant/#' GROUP BY clientid\""),
        ));
    }
    let is_hook =
        |source: &&SourceSection| source.kind == SourceType::Http && pipeline.source.as_ref() == Some(&source.name);
    hub.sources.iter().find(is_hook).map(|_| {
        let problem =
            Problem::new("a web hook is answered when a window has ended, and its sender does not wait so long");
        (
            "every",
            problem.hint("have one pipeline publish the messages to a topic, and another one take them from there"),
        )
    })
}

/// The problem of a pipeline that refuses messages without a schema, or of another source.
fn refusal_problem(pipeline: &Pipeline) -> Option<(&'static str, Problem)> {
    if pipeline.on_invalid != OnInvalid::Refuse {
        return None;
    }
    let problem = if pipeline.source.is_some() {
        Problem::new("the broker refuses messages of its own topics alone, and this pipeline has a source")
            .hint("set on_invalid to \"fail\" or \"drop\"")
    } else if pipeline.schema.is_none() {
        Problem::new("without a schema no payload is invalid").hint("name one: schema = \"reading.json\"")
    } else {
        return None;
    };
    Some(("on_invalid", problem))
}

/// The problem of dead letters that a pipeline would refuse.
fn letters_problem(pipeline: &Pipeline, hub: HubSections<'_>) -> Option<(&'static str, Problem)> {
    let topic = pipeline.dead_letter_topic.as_deref()?;
    let refuses = |other: &&Pipeline| {
        other.on_invalid == OnInvalid::Refuse
            && other.tenant_name() == pipeline.tenant_name()
            && other.filters().iter().any(|filter| tidegate_mqtt::topic::matches(filter, topic))
    };
    let other = hub.pipelines.iter().find(refuses)?;
    let problem = Problem::new(format!("the pipeline `{}` refuses the dead letters of this topic", other.name));
    Some(("dead_letter_topic", problem.hint("name a topic outside its filters")))
}

/// The problem of a pipeline that has no place for delivered messages.
fn kept_nowhere(pipeline: &Pipeline, hub: HubSections<'_>, moves: bool) -> Option<(&'static str, Problem)> {
    if !matches!(pipeline.keep, Keep::For(_)) {
        return None;
    }
    if pipeline.source.is_some() {
        let problem = Problem::new("a pipeline with a source keeps no delivered messages");
        return Some(("keep", problem.hint("set keep = \"disk\"")));
    }
    (hub.hub.bus.is_none() && moves).then(|| {
        let problem = Problem::new("a pipeline that moves between members keeps delivered messages on a bus");
        ("keep", problem.hint("set hub.bus, or keep = \"disk\""))
    })
}

fn tenant_problem(pipeline: &Pipeline, tenants: &[Tenant]) -> Option<(&'static str, Problem)> {
    let tenant = pipeline.tenant_name();
    let is_unknown = !tenant.is_empty() && tenants.iter().all(|other| other.name != tenant);
    is_unknown.then(|| ("tenant", Problem::new(format!("there is no tenant `{tenant}`")).hint("add a [[tenant]]")))
}

/// The problem of any pipeline at an orchestrator that shows brokers the credentials of clients.
fn broker_problem(orchestrator: &Orchestrator) -> Option<(&'static str, Problem)> {
    orchestrator.passes_clients_through().then(|| {
        let problem = Problem::new("a pipeline has no credentials for brokers that decide what each client may read");
        ("name", problem.hint("run it beside: tidegate hub -c FILE --broker mqtt://HOST:PORT"))
    })
}

/// Pipelines in one consumer group of Kafka share the records of a topic, so each gets only a part.
fn shared_group(pipeline: &Pipeline, hub: HubSections<'_>) -> Option<(&'static str, Problem)> {
    let of = |pipeline: &Pipeline| {
        let source = hub.sources.iter().find(|it| pipeline.source.as_ref() == Some(&it.name))?;
        (source.kind == SourceType::Kafka).then(|| source.kafka(pipeline))
    };
    let own = of(pipeline)?;
    let mut others = hub.pipelines.iter().filter(|other| other.name != pipeline.name).filter_map(of);
    others.find(|other| (&other.url, &other.topic, &other.group) == (&own.url, &own.topic, &own.group))?;
    let problem = Problem::new(format!("two pipelines share the records of the group `{}`", own.group));
    Some(("source", problem.hint("leave out `group`, or give each pipeline a [[source]] with its own")))
}

/// Reads the steps, and says where in the text of a key a mistake is.
fn check_steps(pipeline: &Pipeline, index: usize, origins: &Origins, findings: &mut Findings) {
    let settings = pipeline.step_settings();
    let Err((part, error)) = Steps::new(&settings) else { return };
    let (key, text) = match part {
        Part::Schema => ("schema", None),
        Part::Tables => ("tables", None),
        Part::Filter => ("filter", settings.filter.as_deref()),
        Part::Sql => ("sql", settings.sql.as_deref()),
        Part::Set(at) => ("set", settings.set.get(at).map(String::as_str)),
        Part::Topic => ("topic", settings.topic.as_deref()),
        Part::Key => ("key", settings.key.as_deref()),
    };
    let path = KeyPath { section: "pipeline", index, key };
    let source = narrowed(origins, origins.source(&path), text.unwrap_or_default(), &error);
    let shown = matches!(&source, Source::File(span) if origins.source(&path) != &Source::File(span.clone()));
    let place = error.at.filter(|_| !shown);
    let place = place.map(|at| format!(" (line {}, column {})", at.line, at.column)).unwrap_or_default();
    findings.push(Problem::new(format!("`{path}`: {error}{place}")), source);
}

/// The place of a mistake in the file, if the text is there unchanged.
fn narrowed(origins: &Origins, source: &Source, text: &str, error: &StepError) -> Source {
    let inside = || {
        let Source::File(span) = source else { return None };
        let range = error.at?.bytes_in(text)?;
        let start = span.start + origins.file()?.text.get(span.clone())?.find(text)?;
        Some(Source::File(start + range.start..start + range.end.max(range.start + 1)))
    };
    inside().unwrap_or_else(|| source.clone())
}

/// A pipeline that keeps messages on disk, at a broker without a store.
#[derive(Debug, thiserror::Error)]
#[error(
    "pipeline `{0}` keeps messages on disk, and the broker has no store: start it with --data DIR, or set `keep = \"memory\"` for the pipeline"
)]
pub struct NoStoreError(pub String);

/// Checks whether the broker has a store where a pipeline needs one.
///
/// # Errors
/// When it has none; with the pipeline.
pub fn check_kept(pipelines: &[Pipeline], store: &Store) -> Result<(), NoStoreError> {
    let has_store = store.engine_durability() != tidegate_engine::Durability::Memory;
    let is_kept = |it: &&Pipeline| it.source.is_none() && it.keep != Keep::Memory;
    let wants = pipelines.iter().find(|pipeline| is_kept(pipeline) && !has_store);
    wants.map_or(Ok(()), |pipeline| Err(NoStoreError(pipeline.name.clone())))
}

/// The warning about a pipeline that needs a store of the broker, which only its flags can name. Pipelines on a bus need
/// none.
pub fn store_warning(pipelines: &[Pipeline], store: &Store, on_bus: bool) -> Option<String> {
    check_kept(pipelines, store).err().filter(|_| !on_bus).map(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::store_warning;
    use crate::source::FileText;
    use crate::{Config, Inputs};

    #[test]
    fn a_pipeline_without_a_store_is_warned_of() {
        let warning = |text: &str| {
            let inputs = Inputs { file: Some(FileText::new("t.toml", text)), ..Inputs::default() };
            let config = Config::load(inputs).unwrap();
            store_warning(&config.pipelines, &config.store, config.hub.bus.is_some())
        };
        assert!(warning(RIGHT).unwrap().contains("pipeline `hot` keeps messages on disk, and the broker has no store"));
        assert_eq!(warning(&format!("{RIGHT}keep = \"memory\"\n")), None);
        assert_eq!(warning(&format!("{RIGHT}[store]\ndirectory = \"data\"\n")), None);
        assert_eq!(warning(""), None);
    }

    fn findings(text: &str) -> String {
        let inputs = Inputs { file: Some(FileText::new("tidegate.toml", text)), ..Inputs::default() };
        Config::load(inputs).map_or_else(|findings| findings.to_string(), |_| String::new())
    }

    const RIGHT: &str = "[[sink]]\nname = \"archive\"\nkind = \"file\"\npath = \"out/readings.ndjson\"\n\
        [[sink]]\nname = \"db\"\nkind = \"postgres\"\nurl = \"postgres://u:p@127.0.0.1:5432/r\"\ntable = \"readings\"\n\
        [[pipeline]]\nname = \"hot\"\nfrom = [\"plant/+/temp\"]\n\
        sql = \"SELECT payload.temp AS temp, topic FROM 'plant/+/temp' WHERE payload.temp > 30\"\n\
        to = [\"archive\", \"db\"]\n";

    #[test]
    fn windows_need_a_select_and_sinks_without_transactions() {
        let windowed = RIGHT.replace(
            "sql = \"SELECT payload.temp AS temp, topic FROM 'plant/+/temp' WHERE payload.temp > 30\"",
            "every = \"1m\"\nsql = \"SELECT clientid, avg(payload.temp) AS mean FROM 'plant/+/temp' GROUP BY clientid\"",
        );
        assert_eq!(findings(&windowed), "");
        for (from, to, expected) in [
            ("every = \"1m\"\n", "", "with `every`"),
            ("GROUP BY clientid", "GROUP BY avg(payload.temp)", "is of the messages of a window"),
            ("SELECT clientid, avg(payload.temp) AS mean", "SELECT *", "name the fields of a window"),
            ("SELECT clientid, avg(payload.temp) AS mean", "FOREACH payload.list DO item.a", "FOREACH has no windows"),
            (
                "sql = \"SELECT clientid, avg(payload.temp) AS mean FROM 'plant/+/temp' GROUP BY clientid\"",
                "",
                "needs a SELECT",
            ),
            (
                "kind = \"postgres\"\nurl = \"postgres://u:p@127.0.0.1:5432/r\"\ntable = \"readings\"",
                "kind = \"kafka\"\nurl = \"kafka://127.0.0.1:9092\"\ntopic = \"r\"\nexactly_once = true",
                "may get another id",
            ),
        ] {
            let text = windowed.replace(from, to);
            assert!(findings(&text).contains(expected), "{expected}: {}", findings(&text));
        }
        let hook = "[[source]]\nname = \"hook\"\nkind = \"http\"\nlisten = \"127.0.0.1:8090\"\n".to_owned()
            + &windowed.replace("from = [", "source = \"hook\"\nfrom = [");
        assert!(findings(&hook).contains("its sender does not wait so long"), "{}", findings(&hook));
        for kind in ["nats\"\nurl = \"nats://h", "kafka\"\ntopic = \"t\"\nurl = \"kafka://h"] {
            let text = format!("[[source]]\nname = \"hook\"\nkind = \"{kind}\"\n{}", &windowed);
            let text = text.replace("from = [", "source = \"hook\"\nfrom = [");
            assert_eq!(findings(&text), "");
        }
    }

    #[test]
    fn pipelines_and_sinks_are_checked_together() {
        assert_eq!(findings(RIGHT), "");
        for (change, to, said) in [
            ("to = [\"archive\", \"db\"]", "to = [\"archiv\"]", "no sink `archiv`"),
            ("to = [\"archive\", \"db\"]", "", "without a sink"),
            ("from = [\"plant/+/temp\"]", "from = [\"plan/+/temp\", \"x\"]", "`pipeline.from` and FROM 'plant/+/temp'"),
            ("path = \"out/readings.ndjson\"", "", "needs `sink.path`"),
            ("table = \"readings\"", "", "needs `sink.table`"),
            ("kind = \"postgres\"\n", "kind = \"sqlite\"\n", "needs `sink.path`"),
            ("kind = \"file\"\n", "kind = \"sqlite\"\n", "needs `sink.table`"),
            ("kind = \"file\"\n", "kind = \"file\"\nformat = \"parquet\"\n", "when it is finished"),
            ("kind = \"file\"\n", "kind = \"amqp\"\n", "needs `sink.url`"),
            ("kind = \"postgres\"\n", "kind = \"kafka\"\n", "needs `sink.topic`"),
            ("kind = \"postgres\"\n", "kind = \"s3\"\nbucket = \"b\"\n", "needs `sink.secret_file`"),
            ("table = \"readings\"", "table = \"r\"\nheaders = \"Authorization: Bearer x\"", "must hold no secret"),
            ("url = \"postgres://u:p@127.0.0.1:5432/r\"", "", "needs `sink.url`"),
            ("url = \"postgres://u:p@127.0.0.1:5432/r\"", "", "tidegate.toml:6"),
            (
                "kind = \"file\"\n",
                "kind = \"file\"\ntable = \"y\"\n",
                "no effect for the kind \"file\" of sink `archive`",
            ),
            (
                "kind = \"postgres\"\n",
                "kind = \"mqtt\"\ntopic = \"out/${clientid}\"\n",
                "names in ${} are not filled in",
            ),
            ("name = \"db\"", "name = \"archive\"", "two sinks have the name `archive`"),
            ("name = \"hot\"", "", "a pipeline without a name"),
            ("plant/+/temp\"]", "plant/#/temp\"]", "must have topic filters"),
            ("name = \"hot\"", "name = \"hot\"\non_full = \"disconnect\"", "must be \"block\""),
            ("name = \"hot\"", "name = \"hot\"\ndead_letter = \"x\"", "no sink `x`"),
            ("name = \"hot\"", "name = \"hot\"\ndead_letter = \"db\"\ndead_letter_topic = \"d\"", "one of both"),
            ("name = \"hot\"", "name = \"hot\"\nsource = \"x\"", "no source `x`"),
            ("name = \"hot\"", "name = \"hot\"\nkeep = \"tape\"", "a duration"),
            ("[[sink]]", "[[source]]\nname = \"s\"\n[[sink]]", "needs `source.url`"),
            (
                "[[sink]]",
                "[[source]]\nname = \"s\"\nkind = \"http\"\nlisten = \"0.0.0.0:1\"\n[[sink]]",
                "needs a token",
            ),
            (
                "[[sink]]",
                "[[source]]\nname = \"s\"\nkind = \"kafka\"\nurl = \"kafka://h\"\n[[sink]]",
                "needs `source.topic`",
            ),
            (
                "[[sink]]",
                "[[source]]\nname = \"s\"\nkind = \"kafka\"\nurl = \"nats://h\"\ntopic = \"t\"\n[[sink]]",
                "`url` is kafka://",
            ),
            ("[[sink]]", "[hub]\nbus = \"embedded\"\n[[sink]]", "within one process"),
            ("kind = \"postgres\"\n", "kind = \"postgres\"\nexactly_once = true\n", "kinds \"kafka\" and \"file\""),
            (
                "[[sink]]\nname = \"archive\"\nkind = \"file\"\n",
                "[hub]\nbus = \"nats://h\"\n[[sink]]\nname = \"archive\"\nkind = \"kafka\"\nurl = \"kafka://h\"\n\
                topic = \"t\"\nexactly_once = true\n",
                "needs one process",
            ),
            (
                "[[sink]]",
                "[[sink]]\nname = \"again\"\npath = \"out/readings.ndjson\"\nexactly_once = true\n[[sink]]",
                "`archive` writes the same file without",
            ),
            ("[[sink]]", "[hub]\nbus = \"nats\"\n[[sink]]", "nats://"),
            ("kind = \"postgres\"", "kind = \"postgre\"", "did you mean \"postgres\"?"),
            ("[[sink]]", "[orchestrator]\nenabled = true\nidentity = 'client'\n[[sink]]", "tidegate hub"),
        ] {
            let found = findings(&RIGHT.replacen(change, to, 1));
            assert!(found.contains(said), "{said}: {found}");
        }
        let wider = RIGHT.replace("from = [\"plant/+/temp\"]", "from = [\"x\", \"plant/#\"]");
        assert_eq!(findings(&wider), "");
        let once = "[[sink]]\nname = \"once\"\nkind = \"kafka\"\nurl = \"kafka://h\"\ntopic = \"t\"\nexactly_once = true\n\
                    [[pipeline]]\nname = \"each\"\nto = [\"once\"]\nwindow = 100\nsql = \"FOREACH payload FROM 't'\"\n";
        let found = findings(&format!("{RIGHT}{once}"));
        assert!(found.contains("FOREACH makes more records"), "{found}");
        let kafka = "[[sink]]\nname = \"bus\"\nkind = \"kafka\"\nurl = \"kafka://u:sesame@h:0\"\ntopic = \"t\"\n";
        let found = findings(&format!("{RIGHT}{kafka}"));
        assert!(found.contains("tidegate.toml:18") && found.contains("`url` is kafka://"), "{found}");
        assert!(!found.contains("sesame"), "{found}");
        let dotted = format!("[hub]\nbus = \"nats://h\"\n{}", RIGHT.replace("\"hot\"", "\"h.t\""));
        assert!(findings(&dotted).contains("a pipeline on the bus"), "{}", findings(&dotted));
        let same = RIGHT.replace("kind = \"postgres\"", "kind = \"file\"\npath = \"out/readings.ndjson\"");
        assert!(findings(&same).contains("two sinks write the file"), "{}", findings(&same));
    }

    #[test]
    fn a_pipeline_refuses_payloads_of_its_own_topics_by_a_schema() {
        let folder = std::env::temp_dir().join(format!("tidegate-refuse-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let schema = folder.join("reading.json");
        std::fs::write(&schema, r#"{"type":"object"}"#).unwrap();
        let with = |keys: &str| RIGHT.replacen("name = \"hot\"", &format!("name = \"hot\"\n{keys}"), 1);
        let refusing = format!("on_invalid = \"refuse\"\nschema = {schema:?}");
        let right = with(&refusing);
        assert_eq!(findings(&right), "");
        let file = FileText::new("tidegate.toml", &right);
        let config = Config::load(Inputs { file: Some(file), ..Inputs::default() }).unwrap();
        let checks = || config.engine_settings(1).hub_filters.into_iter().filter_map(|topics| topics.check);
        let accepted: Vec<_> =
            checks().map(|check| [&b"{}"[..], b"[]"].map(|it| check.refusal(it).is_none())).collect();
        assert_eq!(accepted, [[true, false]]);
        std::fs::write(&schema, "{").unwrap();
        assert!(checks().all(|check| check.refusal(b"{}").is_some()), "a schema that cannot be read accepts nothing");
        std::fs::write(&schema, "{}").unwrap();
        let letters = |topic: &str| findings(&with(&format!("{refusing}\ndead_letter_topic = \"{topic}\"")));
        assert!(letters("plant/dead/temp").contains("`hot` refuses the dead letters"));
        assert_eq!(letters("dead"), "");
        assert!(findings(&with("on_invalid = \"refuse\"")).contains("name one: schema"));
        let source = "[[source]]\nname = \"s\"\nkind = \"nats\"\nurl = \"nats://h\"\n";
        let found = findings(&format!("{source}{}", with(&format!("{refusing}\nsource = \"s\""))));
        assert!(found.contains("this pipeline has a source"), "{found}");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn delivered_messages_are_kept_on_a_bus_or_by_a_broker_alone() {
        let kept = RIGHT.replacen("name = \"hot\"", "name = \"hot\"\nkeep = \"24h\"", 1);
        assert_eq!(findings(&kept), "");
        let fleet = format!("[orchestrator]\nenabled = true\n{kept}");
        assert!(findings(&fleet).contains("set hub.bus"), "{}", findings(&fleet));
        let source = "[[source]]\nname = \"s\"\nkind = \"nats\"\nurl = \"nats://h\"\n";
        let of_source = kept.replace("from = [\"plant/+/temp\"]", "source = \"s\"");
        let found = findings(&format!("{source}{of_source}"));
        assert!(found.contains("keeps no delivered messages"), "{found}");
    }

    #[test]
    fn an_age_bounds_messages_of_topics_alone() {
        let aged = RIGHT.replacen("name = \"hot\"", "name = \"hot\"\nmax_age = \"1h\"", 1);
        assert_eq!(findings(&aged), "");
        for (more, why) in [
            ("retained = true", "retained messages may be old"),
            ("every = \"1m\"", "as old as its begin"),
            ("source = \"orders\"", "may be old when they come"),
        ] {
            let found = findings(&aged.replacen("max_age", &format!("{more}\nmax_age"), 1));
            assert!(found.contains(why), "{more}: {found}");
        }
        let found = findings(&format!("{aged}[hub]\nbus = \"nats://127.0.0.1:4222\"\n"));
        assert!(found.contains("`keep_for` bounds the age"), "{found}");
    }

    #[test]
    fn each_pipeline_has_all_records_of_its_kafka_source() {
        let two = |more: &str| {
            let source = "[[source]]\nname = \"s\"\nkind = \"kafka\"\nurl = \"kafka://h\"\ntopic = \"t\"\n";
            let other = "[[pipeline]]\nname = \"cold\"\nsource = \"s\"\nto = [\"db\"]\n";
            findings(&format!(
                "{source}{more}{other}{}",
                RIGHT.replace("name = \"hot\"", "name = \"hot\"\nsource = \"s\"")
            ))
        };
        assert_eq!(two(""), "");
        assert!(two("group = \"g\"\n").contains("share the records of the group `g`"), "{}", two("group = \"g\"\n"));
    }

    #[test]
    fn names_that_nats_refuses_are_shown_with_their_key() {
        let of = |more: &str| {
            findings(&format!("[[source]]\nname = \"s\"\nkind = \"jetstream\"\nurl = \"nats://h\"\n{more}{RIGHT}"))
        };
        assert_eq!(of("stream = \"S\"\ngroup = \"g\"\n"), "");
        let found = of("stream = \"S\"\ngroup = \"a b\"\n");
        assert!(found.contains("tidegate.toml:6") && found.contains("`a b` is no name of a group"), "{found}");
        assert!(of("stream = \"a.b\"\n").contains("`a.b` is no name of a stream"));
        assert!(of("stream = \"S\"\nsubject = \"\"\n").contains("is no subject"));
    }

    #[test]
    fn exactly_once_has_a_largest_window() {
        let once = |batch: &str, window: &str| {
            let sink = format!("kind = \"kafka\"\nurl = \"kafka://h\"\ntopic = \"t\"\nexactly_once = true\n{batch}");
            let text = RIGHT.replacen("kind = \"file\"\npath = \"out/readings.ndjson\"\n", &sink, 1);
            findings(&text.replace("name = \"hot\"\n", &format!("name = \"hot\"\n{window}")))
        };
        assert_eq!(once("batch_messages = 4096\n", "window = 4096\n"), "");
        assert!(once("", "window = 4097\n").contains("`pipeline.window` is at most 4096"));
        assert!(once("batch_messages = 5000\n", "").contains("`sink.batch_messages` is at most 4096"));
        assert!(once("transactions_prefix = \"\"\n", "").contains("begin with some text"));
        let file = |window: &str| {
            let text = RIGHT.replacen("kind = \"file\"\n", "kind = \"file\"\nexactly_once = true\n", 1);
            findings(&text.replace("name = \"hot\"\n", &format!("name = \"hot\"\n{window}")))
        };
        assert_eq!(file(""), "");
        let source = "[[source]]\nname = \"s\"\nkind = \"kafka\"\nurl = \"kafka://h\"\ntopic = \"t\"\n";
        let in_orchestrator = |origin: &str| {
            let text = RIGHT.replacen("kind = \"file\"\n", "kind = \"file\"\nexactly_once = true\n", 1);
            let text = text.replace("from = [\"plant/+/temp\"]\n", origin);
            findings(&format!("[orchestrator]\nenabled = true\n{source}{text}"))
        };
        let refused = "messages of brokers have others when they come again";
        let found = in_orchestrator("from = [\"plant/+/temp\"]\n");
        assert!(found.contains(refused), "{found}");
        let found = in_orchestrator("source = \"s\"\n");
        assert!(!found.contains(refused), "{found}");
        assert!(file("window = 4097\n").contains("`pipeline.window` is at most 4096"));
    }

    #[test]
    fn the_example_of_sinks_has_no_problems() {
        assert_eq!(findings(include_str!("../../../../examples/hub/sinks.toml")), "");
    }

    #[test]
    fn a_bad_statement_is_shown_with_line_and_caret() {
        let found = findings(&RIGHT.replace("WHERE payload.temp", "WHERE heat"));
        assert!(found.contains("tidegate.toml:13:69"), "{found}");
        let lines: Vec<&str> = found.lines().collect();
        let at = |line: &str, text: &str| line.find(text);
        let (statement, marks) = (lines[3], lines[4]);
        assert_eq!(at(statement, "heat > 30"), at(marks, "^^^^"), "{found}");
        let found = findings(&RIGHT.replace("to = [", "filter = \"payload.temp > limit\"\nto = ["));
        assert!(found.contains("names `limit`") && found.contains("^^^^^"), "{found}");
    }
}
