//! Writes events to standard error, one line each, as text or JSON.
//!
//! This is all that we need of a subscriber: no spans, and of filters only one for a library that says what is told in better words. The lines are written by a thread of their
//! own, because events come from shards, and a shard must not wait for whoever reads the log.

mod line;
mod panics;
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, SystemTime};

use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::config::sections::{LogFormat, LogLevel};
use writer::Writer;

/// How long the end of the process waits for the last lines to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// The client of NATS logs each attempt to connect, several times a second; the bus tells of them now and then.
const NATS_CLIENT: &str = "async_nats";

/// Takes events and writes those that matter enough.
struct StderrLog {
    /// The number of a [`LogLevel`]; changes with a reload.
    level: Arc<AtomicU8>,
    format: LogFormat,
    writer: Writer,
}

/// The log of this process.
#[derive(Clone)]
pub(crate) struct Log {
    writer: Writer,
    level: Arc<AtomicU8>,
}

impl Log {
    /// Logs from now on, and ends the process with its last words when one of its threads panics. Called once, by each command that serves,
    /// before anything is logged; of further calls nothing is seen.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub(crate) fn start(level: LogLevel, format: LogFormat) -> std::io::Result<Self> {
        let writer = Writer::start(std::io::stderr())?;
        let level = Arc::new(AtomicU8::new(level as u8));
        let log = StderrLog { level: Arc::clone(&level), format, writer: writer.clone() };
        let _ = tracing::subscriber::set_global_default(log);
        let log = Self { writer, level };
        panics::end_in(&log);
        #[cfg(debug_assertions)]
        panics::panic_for_a_test()?;
        Ok(log)
    }

    /// Logs as much as this from now on.
    pub(crate) fn set_level(&self, level: LogLevel) {
        self.level.store(level as u8, Ordering::Relaxed);
        // Each place that logs remembers whether it is of interest.
        tracing::callsite::rebuild_interest_cache();
    }

    /// Waits until what was logged so far is written, but not long. Whether it is.
    pub(crate) fn flush(&self) -> bool {
        self.writer.flush(FLUSH_TIMEOUT)
    }
}

impl StderrLog {
    fn level(&self) -> LevelFilter {
        const LEVELS: [LevelFilter; 5] =
            [LevelFilter::ERROR, LevelFilter::WARN, LevelFilter::INFO, LevelFilter::DEBUG, LevelFilter::TRACE];
        let number = usize::from(self.level.load(Ordering::Relaxed));
        LEVELS.get(number).copied().unwrap_or(LevelFilter::TRACE)
    }
}

impl Subscriber for StderrLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // Whoever asks beforehand (`tracing::enabled!`) asks about a hint, which is neither an event nor a span.
        let told_already = metadata.target().starts_with(NATS_CLIENT) && self.level() < LevelFilter::DEBUG;
        !metadata.is_span() && *metadata.level() <= self.level() && !told_already
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level())
    }

    fn event(&self, event: &Event<'_>) {
        self.writer.write(line::render(event, self.format, SystemTime::now()));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        // Spans are never enabled; the number is only there because one is asked for.
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
