//! Writes events to standard error, one line each, as text or JSON.
//!
//! The program needs no more of a subscriber: no spans, and only one filter, for a library whose events we report in
//! better words. Of frequent lines some are left out. A separate thread writes the lines, because events come from
//! shards, and a shard must not wait for the reader of the log.

mod level;
mod limit;
mod line;
mod panics;
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant, SystemTime};

use tidegate_terminal::{Exit, report};
use tracing::callsite::Identifier;
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

pub use level::{LogFormat, LogLevel};
use limit::{Limits, Told};
use writer::Writer;

/// How long the end of the process waits for the last lines to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// The client of NATS logs each attempt to connect, several times a second; the bus reports them now and then.
const NATS_CLIENT: &str = "async_nats";

/// Takes events and writes events up to its level.
struct StderrLog {
    /// The number of a [`LogLevel`]; changes with a reload.
    level: Arc<AtomicU8>,
    format: LogFormat,
    /// The limits of lines, unless the level asks for all of them.
    limits: Limits,
    writer: Writer,
}

/// The log of this process.
#[derive(Clone)]
pub struct Log {
    writer: Writer,
    level: Arc<AtomicU8>,
}

impl Log {
    /// Logs from now on, and ends the process with its last words when one of its threads panics. Called once, by each
    /// command that serves, before anything is logged; of further calls nothing is seen.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn start(level: LogLevel, format: LogFormat) -> std::io::Result<Self> {
        let writer = Writer::start(std::io::stderr())?;
        let level = Arc::new(AtomicU8::new(level as u8));
        let log = StderrLog { level: Arc::clone(&level), format, limits: Limits::default(), writer: writer.clone() };
        let _ = tracing::subscriber::set_global_default(log);
        let log = Self { writer, level };
        panics::end_in(&log);
        #[cfg(debug_assertions)]
        panics::panic_for_a_test()?;
        Ok(log)
    }

    /// The same for a command, which ends with a reported failure where the log cannot start.
    ///
    /// # Errors
    /// The exit of the command.
    pub fn of_command(level: LogLevel, format: LogFormat) -> Result<Self, Exit> {
        Self::start(level, format).map_err(|error| {
            report(&format_args!("cannot start the thread that writes the log: {error}"));
            Exit::Failure
        })
    }

    /// Logs as much as this from now on.
    pub fn set_level(&self, level: LogLevel) {
        self.level.store(level as u8, Ordering::Relaxed);
        // Each place that logs remembers whether it is of interest.
        tracing::callsite::rebuild_interest_cache();
    }

    /// Waits a short time until all earlier lines are written. Returns true if they are.
    pub fn flush(&self) -> bool {
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

    /// The notes for a line, or `None` if it is left out. At `debug` no line is left out.
    fn admit(&self, place: Identifier, now: Instant) -> Option<Told> {
        if self.level() >= LevelFilter::DEBUG { Some(Told::default()) } else { self.limits.note(place, now) }
    }
}

impl Subscriber for StderrLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // A caller of `tracing::enabled!` asks about a hint, which is neither an event nor a span.
        let told_already = metadata.target().starts_with(NATS_CLIENT) && self.level() < LevelFilter::DEBUG;
        !metadata.is_span() && *metadata.level() <= self.level() && !told_already
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level())
    }

    fn event(&self, event: &Event<'_>) {
        if let Some(told) = self.admit(event.metadata().callsite(), Instant::now()) {
            self.writer.write(line::render(event, told, self.format, SystemTime::now()));
        }
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

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Mutex, PoisonError};

    use super::*;

    /// The written text.
    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// The number of written lines of two kinds, if each comes so often.
    fn lines(level: LogLevel, times: u64) -> (usize, usize) {
        let paper = Paper::default();
        let writer = Writer::start(paper.clone()).unwrap();
        let level = Arc::new(AtomicU8::new(level as u8));
        let log = StderrLog { level, format: LogFormat::Text, limits: Limits::default(), writer: writer.clone() };
        tracing::subscriber::with_default(log, || {
            for _ in 0..times {
                tracing::warn!("of a client");
            }
            for _ in 0..times {
                tracing::error!("of a server");
            }
        });
        assert!(writer.flush(Duration::from_secs(60)));
        let written = paper.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&written);
        (text.matches("of a client").count(), text.matches("of a server").count())
    }

    #[test]
    fn floods_of_lines_are_limited_but_not_at_debug_level() {
        let limit = limit::LINES as usize;
        assert_eq!(lines(LogLevel::Info, limit::LINES), (limit, limit));
        assert_eq!(lines(LogLevel::Info, 3 * limit::LINES), (limit, limit), "each kind has its own limit");
        assert_eq!(lines(LogLevel::Debug, 3 * limit::LINES), (3 * limit, 3 * limit));
    }
}
