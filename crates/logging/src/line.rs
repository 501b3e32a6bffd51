//! One event as one line.

use std::fmt::{self, Debug, Write};
use std::time::SystemTime;

use tidegate_units::quote::quoted;
use tracing::field::{Field, Visit};
use tracing::{Event, Level};

use super::limit::Told;
use crate::LogFormat;

/// Name of the field that holds an event's message.
const MESSAGE: &str = "message";

/// Field of a line after others of its kind that were left out: how many.
const OMITTED: &str = "omitted";
/// Field of a line after which others of its kind are left out, and its value.
const FURTHER: (&str, &str) = ("further", "one a minute");

/// Writes an event as a line, with its end, and the notes about lines left out.
pub(super) fn render(event: &Event<'_>, told: Told, format: LogFormat, now: SystemTime) -> String {
    let time = humantime::format_rfc3339_millis(now);
    let level = *event.metadata().level();
    let mut fields = Fields { format, message: String::new(), rest: String::new() };
    event.record(&mut fields);
    if told.omitted > 0 {
        fields.plain(OMITTED, told.omitted);
    }
    if told.is_last {
        fields.plain(FURTHER.0, quoted(FURTHER.1));
    }
    let Fields { message, rest, .. } = fields;
    match format {
        LogFormat::Text => format!("{time} {:5} {message}{rest}\n", name(level)),
        LogFormat::Json => {
            let level = name(level).trim_end().to_ascii_lowercase();
            let target = quoted(event.metadata().target());
            format!(
                "{{\"time\":\"{time}\",\"level\":\"{level}\",\"target\":{target},\"message\":{}{rest}}}\n",
                quoted(&message)
            )
        }
    }
}

fn name(level: Level) -> &'static str {
    match level {
        Level::ERROR => "ERROR",
        Level::WARN => "WARN",
        Level::INFO => "INFO",
        Level::DEBUG => "DEBUG",
        Level::TRACE => "TRACE",
    }
}

/// The fields of one event.
struct Fields {
    format: LogFormat,
    message: String,
    rest: String,
}

impl Fields {
    /// Adds a field whose value is neither text nor in need of quotes.
    fn plain(&mut self, name: &str, value: impl fmt::Display) {
        let _ = match self.format {
            LogFormat::Text => write!(self.rest, " {name}={value}"),
            LogFormat::Json => write!(self.rest, ",{}:{value}", quoted(name)),
        };
    }

    fn text(&mut self, field: &Field, value: &str) {
        if field.name() == MESSAGE {
            // A message of ours is one line; texts of a peer are in fields, which are quoted.
            self.message.push_str(value);
            return;
        }
        let bare = |byte: u8| byte.is_ascii_graphic() && !b"\"'\\=".contains(&byte);
        if self.format == LogFormat::Text && !value.is_empty() && value.bytes().all(bare) {
            self.plain(field.name(), value);
        } else {
            self.plain(field.name(), quoted(value));
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.text(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.plain(field.name(), value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.plain(field.name(), value);
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.plain(field.name(), value);
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        self.plain(field.name(), value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.plain(field.name(), value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON has no word for infinite values.
        if value.is_finite() {
            self.plain(field.name(), value);
        } else {
            self.text(field, &value.to_string());
        }
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.text(field, &value.to_string());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use tracing::span::{Attributes, Id, Record};
    use tracing::{Metadata, Subscriber};

    use super::*;

    /// Keeps lines instead of writing them.
    struct Kept {
        format: LogFormat,
        told: Told,
        lines: Arc<Mutex<String>>,
    }

    impl Subscriber for Kept {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn event(&self, event: &Event<'_>) {
            let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_500);
            self.lines.lock().unwrap().push_str(&render(event, self.told, self.format, time));
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    fn logged(format: LogFormat, log: impl FnOnce()) -> String {
        logged_with(Told::default(), format, log)
    }

    fn logged_with(told: Told, format: LogFormat, log: impl FnOnce()) -> String {
        let lines = Arc::new(Mutex::new(String::new()));
        let kept = Kept { format, told, lines: Arc::clone(&lines) };
        tracing::subscriber::with_default(kept, log);
        lines.lock().unwrap().clone()
    }

    #[test]
    fn a_line_of_text_has_time_level_message_and_fields() {
        let line = logged(LogFormat::Text, || {
            tracing::info!(client = "a b\n", address = %"127.0.0.1:1", count = 3, clean = true, "connected");
        });
        assert_eq!(
            line,
            "1970-01-01T00:00:01.500Z INFO  connected client=\"a b\\n\" address=127.0.0.1:1 count=3 clean=true\n"
        );
    }

    #[test]
    fn a_line_of_json_is_one_object() {
        let line = logged(LogFormat::Json, || {
            tracing::warn!(target: "here", client = "a\"\u{1}", ratio = f64::NAN, share = 0.5, "slow");
        });
        assert_eq!(
            line,
            "{\"time\":\"1970-01-01T00:00:01.500Z\",\"level\":\"warn\",\"target\":\"here\",\"message\":\"slow\",\
             \"client\":\"a\\\"\\u0001\",\"ratio\":\"NaN\",\"share\":0.5}\n"
        );
    }

    #[test]
    fn a_line_counts_the_omitted_lines_and_announces_further_ones() {
        let line = |told, format| logged_with(told, format, || tracing::info!(count = 3, "again"));
        let told = Told { omitted: 7, is_last: true };
        assert_eq!(
            line(told, LogFormat::Text),
            "1970-01-01T00:00:01.500Z INFO  again count=3 omitted=7 further=\"one a minute\"\n"
        );
        let json = line(told, LogFormat::Json);
        assert!(json.ends_with(",\"count\":3,\"omitted\":7,\"further\":\"one a minute\"}\n"), "{json}");
    }
}
