//! `tidegate hub try`: what each step of a pipeline makes of a message.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tidegate_hub::{Message, Steps, TopicFilterBuf, TopicNameBuf};
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
    let tried: Vec<Value> =
        config.pipelines.iter().filter(wanted).map(|pipeline| attempt(pipeline, &message)).collect();
    if tried.is_empty() {
        report(&format_args!("{} has no such pipeline", file.display()));
        return Exit::Usage;
    }
    let failed = tried.iter().any(|one| one.get("error").is_some());
    let exit = if failed { Exit::Failure } else { Exit::Ok };
    let text = if as_json { format!("{}\n", Value::Array(tried)) } else { tried.iter().map(shown).collect() };
    print_and_exit(&text, exit)
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Why `--message` is not a message.
#[derive(Debug, thiserror::Error)]
enum MessageError {
    #[error("--message is not JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("--message has no `topic`")]
    NoTopic,
    #[error("the topic `{topic}`: {source}")]
    Topic { topic: String, source: TopicError },
    #[error("`qos` is 0, 1 or 2")]
    QoS,
}

/// A message as a person writes it.
fn read(text: &str) -> Result<Message, MessageError> {
    let value: Value = serde_json::from_str(text)?;
    let topic = value.get("topic").and_then(Value::as_str).ok_or(MessageError::NoTopic)?;
    TopicNameBuf::new(topic).map_err(|source| MessageError::Topic { topic: topic.to_owned(), source })?;
    let payload = match value.get("payload") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::String(text)) => text.clone().into_bytes(),
        Some(other) => other.to_string().into_bytes(),
    };
    let properties = value.get("user_properties").and_then(Value::as_object);
    let pair = |(name, value): (&String, &Value)| (name.clone(), value.as_str().unwrap_or_default().to_owned());
    let qos = value.get("qos").and_then(Value::as_u64).unwrap_or_default();
    Ok(Message {
        id: "try".to_owned(),
        topic: topic.to_owned(),
        client_id: value.get("clientid").and_then(Value::as_str).map(str::to_owned),
        qos: u8::try_from(qos).ok().filter(|qos| *qos <= 2).ok_or(MessageError::QoS)?,
        retain: value.get("retain").and_then(Value::as_bool).unwrap_or_default(),
        timestamp: value.get("timestamp").and_then(Value::as_u64).unwrap_or_else(now),
        user_properties: properties.into_iter().flatten().map(pair).collect(),
        payload,
        ..Message::default()
    })
}

/// The results of a pipeline's steps for a message.
fn attempt(pipeline: &Pipeline, message: &Arc<Message>) -> Value {
    let mut tried = json!({ "pipeline": pipeline.name, "to": pipeline.to.0 });
    let steps = match Steps::new(&pipeline.step_settings()) {
        Ok(steps) => steps,
        Err((_, error)) => {
            tried["error"] = error.to_string().into();
            return tried;
        }
    };
    let given: Vec<TopicFilterBuf> =
        pipeline.from.0.iter().filter_map(|filter| TopicFilterBuf::new(filter.as_str()).ok()).collect();
    let from = if given.is_empty() { steps.from().to_vec() } else { given };
    let matches = from.iter().any(|filter| filter.matches_text(&message.topic));
    tried["matches"] = matches.into();
    if !matches {
        return tried;
    }
    let mut seen = Vec::new();
    let outcome = steps.run_shown(message, now(), &mut |step, result| {
        seen.push(json!({ "step": step, "result": result }));
    });
    tried["steps"] = seen.into();
    match outcome {
        Ok(Some(record)) => {
            tried["topic"] = record.topic().into();
            tried["key"] = record.key().into();
            tried["record"] = record.object().into();
        }
        Ok(None) => tried["record"] = Value::Null,
        Err(why) => tried["error"] = why.to_string().into(),
    }
    tried
}

/// The same for people.
fn shown(tried: &Value) -> String {
    let text = |key: &str| tried.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut out = format!("pipeline {}\n", text("pipeline"));
    if tried.get("matches") == Some(&Value::Bool(false)) {
        out.push_str("  none of its topics\n");
        return out;
    }
    for step in tried.get("steps").and_then(Value::as_array).into_iter().flatten() {
        let result = match step.get("result") {
            None | Some(Value::Null) => "does not fulfil WHERE".to_owned(),
            Some(result) => result.to_string(),
        };
        let _ = writeln!(out, "  {}: {result}", step.get("step").and_then(Value::as_str).unwrap_or_default());
    }
    let to: Vec<&str> =
        tried.get("to").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    match (tried.get("error"), tried.get("record")) {
        (Some(error), _) => {
            let _ = writeln!(out, "  fails: {}", error.as_str().unwrap_or_default());
        }
        (None, Some(Value::Object(record))) => {
            let _ = writeln!(out, "  to {}: {}", to.join(", "), Value::Object(record.clone()));
            let _ = writeln!(out, "  topic {}, key {}", text("topic"), text("key"));
        }
        _ => out.push_str("  goes no further\n"),
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
        assert_eq!(tried["record"], json!({ "temp": 31, "clientid": "pump", "unit": "C" }));
        assert_eq!(tried["steps"][0], json!({ "step": "sql", "result": { "temp": 31, "clientid": "pump" } }));
        let text = shown(&tried);
        assert!(text.contains("pipeline hot\n  sql: {") && text.contains("  to db: {"), "{text}");
        let cold = attempt(&pipeline, &message(r#"{"topic":"plant/a/temp","payload":"{\"temp\":30}"}"#));
        assert!(shown(&cold).contains("does not fulfil WHERE") && cold["record"].is_null(), "{cold}");
        let bad = attempt(&pipeline, &message(r#"{"topic":"plant/a/temp","payload":"x"}"#));
        assert!(shown(&bad).contains("fails: sql: the payload is not JSON"), "{bad}");
        assert!(shown(&attempt(&pipeline, &message(r#"{"topic":"t"}"#))).contains("none of its topics"));
        for wrong in ["x", "{}", r#"{"topic":"a/#"}"#, r#"{"topic":"t","qos":3}"#] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
