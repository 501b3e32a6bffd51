//! Points of `InfluxDB` in its line protocol over HTTP. Numbers, truth values and text of a record are fields; the topic
//! and, if it is selected, `clientid` are tags.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::web::{Server, ServerSettings};
use super::{Sink, SinkError};
use crate::open_error::OpenError;
use crate::record::Record;
use crate::steps::MAX_ELEMENTS;

/// Nanoseconds of a millisecond.
const NANOSECONDS: u64 = 1_000_000;

/// Which server, and the measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InfluxSettings {
    /// Where lines are posted, such as `http://127.0.0.1:8086/api/v2/write?org=o&bucket=b&precision=ns`.
    pub url: String,
    /// Headers that are sent along, such as the one with the token.
    pub headers: Vec<(String, String)>,
    /// The measurement.
    pub measurement: String,
    /// Fields that are tags.
    pub tags: Vec<String>,
    /// Time for an answer.
    pub timeout: Duration,
    /// Authorities that are trusted; without a file, the system's.
    pub ca_file: Option<PathBuf>,
}

pub(super) struct InfluxSink {
    server: Server,
    measurement: String,
    tags: Vec<String>,
}

impl InfluxSink {
    pub(super) fn new(settings: &InfluxSettings) -> Result<Self, OpenError> {
        let InfluxSettings { url, headers, measurement, tags, timeout, ca_file } = settings.clone();
        let mut parameters = url.split_once('?').map_or("", |(_, query)| query).split('&');
        if !parameters.any(|parameter| matches!(parameter, "precision=ns" | "precision=n" | "precision=nanosecond")) {
            let why = "times are in nanoseconds: the query of `url` needs `precision=ns`";
            return Err(OpenError::setting("url", why));
        }
        Ok(Self { server: Server::new(ServerSettings { url, headers, timeout, ca_file })?, measurement, tags })
    }

    /// A record as a line; nothing when it has no field.
    fn line(&self, record: &Record) -> Option<String> {
        let mut line = escaped(&self.measurement, ", ");
        let (mut tags, mut fields) = (Vec::new(), Vec::new());
        for (name, value) in record.fields() {
            flatten(name, value, &mut |name, value| {
                let is_tag = self.tags.iter().any(|tag| tag == name);
                let name = escaped(name, ",= ");
                match value {
                    Value::String(text) if is_tag && !text.is_empty() => {
                        tags.push(format!("{name}={}", escaped(text, ",= ")));
                    }
                    Value::String(text) => {
                        fields.push(format!("{name}=\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")));
                    }
                    Value::Number(number) if number.is_f64() => fields.push(format!("{name}={number}")),
                    // All numbers are real: a field that is whole once may not be so the next time.
                    Value::Number(number) => fields.push(format!("{name}={number}.0")),
                    Value::Bool(truth) => fields.push(format!("{name}={truth}")),
                    _ => {}
                }
            });
        }
        if fields.is_empty() {
            return None;
        }
        for tag in tags {
            let _ = write!(line, ",{tag}");
        }
        let _ = write!(line, " {} {}", fields.join(","), nanoseconds(record));
        Some(line)
    }
}

/// The time of a point: the millisecond in which the broker took the message, and within it a place by the id. Points of
/// one time and the same tags would overwrite each other; a message that comes again has the same time.
fn nanoseconds(record: &Record) -> u64 {
    let (source, number) = record.id().rsplit_once('-').unwrap_or((record.id(), ""));
    // FNV-1a: the same in each version of the hub.
    let hash = |text: &str| {
        text.bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
    };
    // Messages of one source count up, so a million of them differ, or a thousand with all records of a FOREACH.
    let element = |(number, element): (&str, &str)| {
        Some(number.parse::<u64>().ok()?.wrapping_mul(MAX_ELEMENTS as u64).wrapping_add(element.parse::<u64>().ok()?))
    };
    let counted = number.parse().ok().or_else(|| number.split_once('.').and_then(element));
    let number = counted.unwrap_or_else(|| hash(number));
    let place = (hash(source) % NANOSECONDS + number % NANOSECONDS) % NANOSECONDS;
    record.timestamp().saturating_mul(NANOSECONDS).saturating_add(place)
}

/// Fields of objects under names with a point.
fn flatten<'a>(name: &str, value: &'a Value, take: &mut dyn FnMut(&str, &'a Value)) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(field, value)| flatten(&format!("{name}.{field}"), value, take));
        }
        value => take(name, value),
    }
}

fn escaped(text: &str, special: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if special.contains(character) || character == '\\' {
            out.push('\\');
        }
        out.push(if character == '\n' { ' ' } else { character });
    }
    out
}

impl Sink for InfluxSink {
    fn write(&mut self, batch: &[Arc<Record>]) -> Result<(), SinkError> {
        let mut lines = String::new();
        for record in batch {
            let line = self.line(record);
            let line = line.ok_or_else(|| SinkError::Refused("a record has no field that is a value".to_owned()))?;
            lines.push_str(&line);
            lines.push('\n');
        }
        self.server.post("text/plain; charset=utf-8", &[], lines.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;
    use crate::message::{FieldName, Message};
    use crate::record::Content;

    fn record(id: &str, fields: Vec<(FieldName, Value)>) -> Record {
        let message = Message { id: id.to_owned(), timestamp: 7, ..Message::default() };
        Record::new(Arc::new(message), Content::Row(fields))
    }

    #[test]
    fn a_record_is_a_line_with_tags_and_fields() {
        let settings = InfluxSettings {
            url: "http://h/write?db=d&precision=ns".into(),
            measurement: "plant data".into(),
            tags: vec!["topic".into()],
            ..InfluxSettings::default()
        };
        let sink = InfluxSink::new(&settings).unwrap();
        let fields = vec![
            ("topic".into(), json!("a b,c")),
            ("temp".into(), json!(31)),
            ("payload".into(), json!({ "f": 0.5, "ok": true, "none": null, "say": "a \"b\"" })),
        ];
        let record = record("-12", fields);
        let line = r#"plant\ data,topic=a\ b\,c temp=31.0,payload.f=0.5,payload.ok=true,payload.say="a \"b\"" 7656049"#;
        assert_eq!(sink.line(&record).unwrap(), line);
        assert_eq!(sink.line(&Record::default()), None);
        for url in ["http://h/write", "http://h/write?precision=ms", "http://h/precision=ns"] {
            assert!(InfluxSink::new(&InfluxSettings { url: url.into(), ..settings.clone() }).is_err());
        }
    }

    #[test]
    fn points_of_one_millisecond_are_kept_apart() {
        let time = |id: &str| nanoseconds(&record(id, Vec::new()));
        let times: BTreeSet<u64> = (999_000..1_001_000).map(|number| time(&format!("00c0ffee-{number}"))).collect();
        assert_eq!(times.len(), 2_000);
        assert!(times.iter().all(|time| time / NANOSECONDS == 7), "the millisecond stays");
        assert_eq!(time("00c0ffee-5"), time("00c0ffee-5"), "it comes again");
        assert_ne!(time("00c0ffee-5"), time("00c0ffef-5"), "two shards count alone");
    }
}
