//! `tidegate hub try`: what each step of a pipeline makes of a message.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use tidegate_hub::{Message, Record, Steps, TopicFilterBuf, TopicNameBuf};
use tidegate_mqtt::TopicError;

use tidegate_config::sections::hub::Pipeline;
use tidegate_config_cli::args::ConfigArgs;
use tidegate_terminal::{Exit, print_and_exit, report};

/// Shows it.
pub(super) fn run(file: &Path, message: &str, only: Option<&str>, as_json: bool) -> Exit {
    let sources = ConfigArgs { config: Some(file.to_owned()), ..ConfigArgs::default() };
    let config = match tidegate_config_cli::load(&sources) {
        Ok(config) => config,
        Err(exit) => return exit,
    };
    let message = match read(message) {
        Ok(message) => Arc::new(message),
        Err(error) => {
            report(&error);
            return Exit::Usage;
        }
    };
    let wanted = |pipeline: &&Pipeline| only.is_none_or(|name| pipeline.name == name);
    let tried: Vec<Tried> =
        config.pipelines.iter().filter(wanted).map(|pipeline| attempt(pipeline, &message)).collect();
    if tried.is_empty() {
        report(&format_args!("{} {}", file.display(), nothing_to_try(only, &config.pipelines)));
        return Exit::Usage;
    }
    let exit = if tried.iter().any(|one| one.error.is_some()) { Exit::Failure } else { Exit::Ok };
    if !as_json {
        return print_and_exit(&tried.iter().map(shown).collect::<String>(), exit);
    }
    match serde_json::to_string(&tried) {
        Ok(text) => print_and_exit(&format!("{text}\n"), exit),
        Err(error) => {
            report(&error);
            Exit::Failure
        }
    }
}

/// Why no pipeline of a file is tried.
fn nothing_to_try(only: Option<&str>, pipelines: &[Pipeline]) -> String {
    let names: Vec<&str> = pipelines.iter().map(|pipeline| pipeline.name.as_str()).collect();
    match only {
        Some(name) if !names.is_empty() => format!("has no pipeline `{name}`; it has: {}", names.join(", ")),
        _ => "has no [[pipeline]]".to_owned(),
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Why `--message` is not a message.
#[derive(Debug, thiserror::Error)]
enum MessageError {
    #[error(r#"--message is wrong: {0}; write it as {{"topic": "plant/a/temp", "payload": {{"temp": 31.5}}}}"#)]
    Json(#[from] serde_json::Error),
    #[error("the topic `{topic}`: {source}")]
    Topic { topic: String, source: TopicError },
    #[error("`qos` is 0, 1 or 2")]
    QoS,
}

/// A message as a person writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    topic: String,
    #[serde(default)]
    payload: Value,
    clientid: Option<String>,
    username: Option<String>,
    peerhost: Option<String>,
    #[serde(default)]
    qos: u8,
    #[serde(default)]
    retain: bool,
    timestamp: Option<u64>,
    #[serde(default)]
    user_properties: BTreeMap<String, String>,
}

/// Reads a message.
fn read(text: &str) -> Result<Message, MessageError> {
    let Written { topic, payload, clientid, username, peerhost, qos, retain, timestamp, user_properties } =
        serde_json::from_str(text)?;
    if let Err(source) = TopicNameBuf::new(topic.as_str()) {
        return Err(MessageError::Topic { topic, source });
    }
    if qos > 2 {
        return Err(MessageError::QoS);
    }
    let payload = match payload {
        Value::Null => Vec::new(),
        Value::String(text) => text.into_bytes(),
        other => other.to_string().into_bytes(),
    };
    Ok(Message {
        id: "try".to_owned(),
        topic,
        client_id: clientid,
        user_name: username,
        peer_host: peerhost,
        qos,
        retain,
        timestamp: timestamp.unwrap_or_else(now),
        user_properties: user_properties.into_iter().collect(),
        payload,
        ..Message::default()
    })
}

/// The results of a pipeline's steps for a message. Results of steps and records are JSON, in the order of the SELECT.
#[derive(Debug, Default, Serialize)]
struct Tried {
    pipeline: String,
    to: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    matches: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    steps: Vec<TriedStep>,
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// The first record; null where a step drops the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<Box<RawValue>>,
    /// The records of further elements of a FOREACH.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    more: Vec<TriedRecord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Debug, Serialize)]
struct TriedStep {
    step: &'static str,
    result: Box<RawValue>,
}

#[derive(Debug, Serialize)]
struct TriedRecord {
    topic: String,
    key: String,
    record: Box<RawValue>,
}

/// A text of JSON as it is.
fn raw(text: String) -> Box<RawValue> {
    RawValue::from_string(text).unwrap_or_default()
}

fn attempt(pipeline: &Pipeline, message: &Arc<Message>) -> Tried {
    let mut tried = Tried { pipeline: pipeline.name.clone(), to: pipeline.to.0.clone(), ..Tried::default() };
    let steps = match Steps::new(&pipeline.step_settings()) {
        Ok(steps) => steps,
        Err((_, error)) => {
            tried.error = Some(error.to_string());
            return tried;
        }
    };
    let given: Vec<TopicFilterBuf> =
        pipeline.from.0.iter().filter_map(|filter| TopicFilterBuf::new(filter.as_str()).ok()).collect();
    let from = if given.is_empty() { steps.from().to_vec() } else { given };
    // A pipeline with a source takes all topics unless it names some.
    let matches = from.is_empty() || from.iter().any(|filter| filter.matches_text(&message.topic));
    tried.matches = Some(matches);
    if !matches {
        return tried;
    }
    let mut seen = Vec::new();
    let outcome = steps.run_shown(message, now(), &mut |step, result| {
        seen.push(TriedStep { step, result: raw(result.to_string()) });
    });
    tried.steps = seen;
    let shown = |record: Record| TriedRecord {
        topic: record.topic().to_owned(),
        key: record.key().to_owned(),
        record: raw(record.json()),
    };
    match outcome {
        Ok(records) => {
            let mut records = records.into_iter().map(shown);
            match records.next() {
                Some(TriedRecord { topic, key, record }) => {
                    (tried.topic, tried.key, tried.record) = (Some(topic), Some(key), Some(record));
                }
                None => tried.record = Some(raw("null".to_owned())),
            }
            tried.more = records.collect();
        }
        Err(why) => tried.error = Some(why.to_string()),
    }
    tried
}

/// The same for people.
fn shown(tried: &Tried) -> String {
    let mut out = format!("pipeline {}\n", tried.pipeline);
    if tried.matches == Some(false) {
        out.push_str("  none of its topics\n");
        return out;
    }
    for TriedStep { step, result } in &tried.steps {
        let result = if result.get() == "null" { "gives no record" } else { result.get() };
        let _ = writeln!(out, "  {step}: {result}");
    }
    let mut tell = |topic: &str, key: &str, record: &RawValue| {
        let _ = writeln!(out, "  to {}: {}", tried.to.join(", "), record.get());
        let _ = writeln!(out, "  topic {topic}, key {key}");
    };
    if let (Some(topic), Some(key), Some(record)) = (&tried.topic, &tried.key, &tried.record) {
        tell(topic, key, record);
    }
    tried.more.iter().for_each(|more| tell(&more.topic, &more.key, &more.record));
    match &tried.error {
        Some(error) => {
            let _ = writeln!(out, "  fails: {error}");
        }
        None if tried.topic.is_none() => out.push_str("  goes no further\n"),
        None => {}
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_config::list::Texts;

    #[test]
    fn each_step_is_shown_with_its_result() {
        let pipeline = Pipeline {
            name: "hot".into(),
            sql: Some("SELECT payload.temp AS temp, clientid FROM 'plant/+/temp' WHERE payload.temp > 30".into()),
            set: Texts(vec!["unit = 'C'".into()]),
            to: Texts(vec!["db".into()]),
            ..Pipeline::default()
        };
        let message = |text: &str| Arc::new(read(text).unwrap());
        let tried = attempt(&pipeline, &message(r#"{"topic":"plant/a/temp","payload":{"temp":31},"clientid":"pump"}"#));
        let text = shown(&tried);
        assert!(text.contains("pipeline hot\n  sql: {\"temp\":31,\"clientid\":\"pump\"}\n"), "{text}");
        assert!(text.contains("  to db: {\"temp\":31,\"clientid\":\"pump\",\"unit\":\"C\"}\n"), "{text}");
        let json = serde_json::to_string(&tried).unwrap();
        assert!(json.contains(r#""record":{"temp":31,"clientid":"pump","unit":"C"}"#), "{json}");
        assert!(json.contains(r#"{"step":"sql","result":{"temp":31,"clientid":"pump"}}"#), "{json}");
        let cold = attempt(&pipeline, &message(r#"{"topic":"plant/a/temp","payload":"{\"temp\":30}"}"#));
        assert!(shown(&cold).contains("sql: gives no record\n  goes no further"), "{cold:?}");
        assert!(serde_json::to_string(&cold).unwrap().contains(r#""record":null"#));
        let bad = attempt(&pipeline, &message(r#"{"topic":"plant/a/temp","payload":"x"}"#));
        assert!(shown(&bad).contains("fails: sql: the payload is not JSON"), "{bad:?}");
        assert!(shown(&attempt(&pipeline, &message(r#"{"topic":"t"}"#))).contains("none of its topics"));
        let source = Pipeline { source: Some("orders".into()), sql: None, ..pipeline };
        assert_eq!(attempt(&source, &message(r#"{"topic":"t","payload":{}}"#)).matches, Some(true));
        for wrong in ["x", "{}", r#"{"topic":"a/#"}"#, r#"{"topic":"t","qos":3}"#] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_wrong_field_or_pipeline_is_named() {
        let error = read(r#"{"topic":"t","client_id":"pump"}"#).unwrap_err().to_string();
        assert!(error.contains("unknown field `client_id`, expected one of `topic`, `payload`, `clientid`"), "{error}");
        let pipelines = [Pipeline { name: "hot".into(), ..Pipeline::default() }];
        assert_eq!(nothing_to_try(Some("cold"), &pipelines), "has no pipeline `cold`; it has: hot");
        assert_eq!(nothing_to_try(None, &[]), "has no [[pipeline]]");
    }

    #[test]
    fn a_field_of_the_wrong_type_is_no_default() {
        for field in [
            r#""qos":"1""#,
            r#""qos":-1"#,
            r#""qos":300"#,
            r#""retain":"yes""#,
            r#""clientid":7"#,
            r#""username":7"#,
            r#""peerhost":7"#,
            r#""timestamp":"now""#,
            r#""user_properties":["a"]"#,
            r#""user_properties":{"a":1}"#,
            r#""topic":"t2""#,
        ] {
            assert!(matches!(read(&format!(r#"{{"topic":"t",{field}}}"#)), Err(MessageError::Json(_))), "{field}");
        }
        let all = r#"{"topic":"t","payload":null,"clientid":null,"username":"ann","peerhost":"192.0.2.7","qos":2,"retain":true,"timestamp":5,"user_properties":{"a":"b"}}"#;
        let message = read(all).unwrap();
        assert_eq!((message.user_name.as_deref(), message.peer_host.as_deref()), (Some("ann"), Some("192.0.2.7")));
        assert_eq!((message.qos, message.retain, message.timestamp), (2, true, 5));
        assert_eq!(message.user_properties, [("a".to_owned(), "b".to_owned())]);
    }

    #[test]
    fn each_record_of_a_foreach_is_shown() {
        let pipeline = Pipeline {
            name: "each".into(),
            sql: Some("FOREACH payload.list AS it DO it.b AS b, it.a AS a FROM 't'".into()),
            to: Texts(vec!["db".into()]),
            ..Pipeline::default()
        };
        let text = r#"{"topic":"t","payload":{"list":[{"a":1,"b":2},{"a":3,"b":4}]}}"#;
        let tried = attempt(&pipeline, &Arc::new(read(text).unwrap()));
        let records: Vec<String> =
            shown(&tried).lines().filter_map(|line| Some(line.strip_prefix("  to db: ")?.to_owned())).collect();
        assert_eq!(records, [r#"{"b":2,"a":1}"#, r#"{"b":4,"a":3}"#]);
    }
}
