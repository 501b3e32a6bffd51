//! The number of messages over time.

use std::fmt::Write;

/// The longest trace, in seconds: a leap year and a month.
pub(super) const DURATION_MAX_S: f64 = 400.0 * 86_400.0;
/// The most rows of a trace.
const ROWS_MAX: usize = 20_000_000;
/// The highest rate, in messages per second.
const RATE_MAX: f64 = 1e12;
/// Later than any time that a trace may name, in seconds; so that times stay exact.
const TIME_MAX_S: f64 = 1e12;

/// From `time_s` on, `rate` messages come per second, until the next row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Seconds since whatever start.
    pub time_s: f64,
    /// Messages per second, 0...
    pub rate: f64,
}

/// Rates over time: two rows or more, in ascending order of time. A rate holds until the next row, and the last one for
/// as long as the shortest other one.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    rows: Vec<Row>,
    end_s: f64,
}

/// A trace that makes no sense.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TraceError {
    /// It is empty.
    #[error("the trace is empty: it needs the columns `time_s,rate` and two rows or more")]
    Empty,
    /// It has a single row, without a duration.
    #[error("the trace has one row: add a second one, a rate holds until the next row")]
    OneRow,
    /// The first line names columns, but not the required ones.
    #[error("line {line}: there is no column `{column}`: name the columns `time_s,rate`, separated by a comma")]
    NoColumn {
        /// Counted from 1.
        line: usize,
        /// The missing column.
        column: &'static str,
    },
    /// A line has too few columns.
    #[error("line {line}: `{column}` is missing: write a time and a rate, separated by a comma")]
    Missing {
        /// Counted from 1.
        line: usize,
        /// The missing column.
        column: &'static str,
    },
    /// A field is not a number that can be worked with.
    #[error("line {line}: the {column} `{text}` is not a number: write digits such as 12.5")]
    NotANumber {
        /// Counted from 1.
        line: usize,
        /// The column of the field.
        column: &'static str,
        /// The text in its place.
        text: String,
    },
    /// A rate below 0 or above the greatest that the model takes.
    #[error("line {line}: a rate of {rate} is outside 0 to {RATE_MAX:e}: write messages per second")]
    Rate {
        /// Counted from 1.
        line: usize,
        /// The number in its place.
        rate: f64,
    },
    /// A time beyond the maximum.
    #[error("line {line}: a time of {time_s} is beyond {TIME_MAX_S:e} seconds: write seconds")]
    Time {
        /// Counted from 1.
        line: usize,
        /// The number in its place.
        time_s: f64,
    },
    /// A time before the one above it.
    #[error("line {line}: the time {time_s} comes after {before}: sort the rows by time")]
    Unsorted {
        /// Counted from 1.
        line: usize,
        /// The number in its place.
        time_s: f64,
        /// The time of the row above.
        before: f64,
    },
    /// The trace is too long.
    #[error(
        "the trace lasts {days:.0} days, and 400 are the most: cut it into parts, or check that its times are in seconds"
    )]
    TooLong {
        /// Its length.
        days: f64,
    },
    /// There are too many rows.
    #[error("line {line}: more than {ROWS_MAX} rows: thin the trace out, such as to one row per second")]
    TooManyRows {
        /// Counted from 1.
        line: usize,
    },
}

impl Trace {
    /// A trace of these rows, numbered as lines from 1.
    ///
    /// # Errors
    /// When a row makes no sense or there are too few.
    pub fn new(rows: Vec<Row>) -> Result<Self, TraceError> {
        let mut builder = Builder::default();
        for (line, row) in (1..).zip(rows) {
            builder.push(line, row)?;
        }
        builder.finish()
    }

    /// Reads `time_s,rate` rows. The first line may name the columns, in any order and among others; empty lines and
    /// lines that begin with `#` are skipped. Of several rows of the same time the last one holds: so a step can be
    /// written.
    ///
    /// # Errors
    /// At the first invalid line, with the remedy.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let lines = (1..).zip(text.lines().map(str::trim));
        let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).peekable();
        let (header, first) = lines.peek().copied().ok_or(TraceError::Empty)?;
        let columns = if names_columns(first) {
            lines.next();
            Columns::of(header, first)?
        } else {
            Columns { time: 0, rate: 1 }
        };
        let mut builder = Builder::default();
        for (line, text) in lines {
            let row = Row {
                time_s: number(line, text, columns.time, "time_s")?,
                rate: number(line, text, columns.rate, "rate")?,
            };
            builder.push(line, row)?;
        }
        builder.finish()
    }

    /// The rows, in ascending order of time.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// When it begins, in seconds.
    pub fn start_s(&self) -> f64 {
        self.rows.first().map_or(0.0, |row| row.time_s)
    }

    /// When it ends, in seconds.
    pub fn end_s(&self) -> f64 {
        self.end_s
    }

    /// The highest rate, in messages per second.
    pub fn highest_rate(&self) -> f64 {
        self.rows.iter().map(|row| row.rate).fold(0.0, f64::max)
    }

    /// The messages of each second from the start on, the last second perhaps a part of one.
    pub fn seconds(&self) -> Seconds<'_> {
        Seconds { trace: self, row: 0, now: self.start_s() }
    }

    /// As `time_s,rate` lines.
    pub fn to_csv(&self) -> String {
        let mut text = String::from("time_s,rate\n");
        for row in &self.rows {
            let _ = writeln!(text, "{},{}", rounded(row.time_s), rounded(row.rate));
        }
        text
    }
}

/// With three digits after the point at most.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// The messages of each second of a trace.
#[derive(Clone, Debug)]
pub struct Seconds<'a> {
    trace: &'a Trace,
    row: usize,
    now: f64,
}

impl Iterator for Seconds<'_> {
    type Item = f64;

    fn next(&mut self) -> Option<f64> {
        let end = self.trace.end_s;
        // A last second as short as a rounding error does not count.
        if end - self.now < 1e-6 {
            return None;
        }
        let until = (self.now + 1.0).min(end);
        let mut messages = 0.0;
        while let Some(row) = self.trace.rows.get(self.row) {
            let next = self.trace.rows.get(self.row + 1).map_or(end, |next| next.time_s);
            messages += row.rate * (next.min(until) - self.now).max(0.0);
            self.now = self.now.max(next.min(until));
            if next > until || self.row + 1 == self.trace.rows.len() {
                break;
            }
            self.row += 1;
        }
        self.now = until;
        Some(messages)
    }
}

/// Rows as they come, checked.
#[derive(Default)]
struct Builder {
    rows: Vec<Row>,
    shortest: Option<f64>,
}

impl Builder {
    fn push(&mut self, line: usize, row: Row) -> Result<(), TraceError> {
        let Row { time_s, rate } = row;
        if !(0.0..=RATE_MAX).contains(&rate) {
            return Err(TraceError::Rate { line, rate });
        }
        if !(-TIME_MAX_S..=TIME_MAX_S).contains(&time_s) {
            return Err(TraceError::Time { line, time_s });
        }
        if self.rows.len() == ROWS_MAX {
            return Err(TraceError::TooManyRows { line });
        }
        if let Some(last) = self.rows.last_mut() {
            let before = last.time_s;
            if time_s < before {
                return Err(TraceError::Unsorted { line, time_s, before });
            }
            let gap = time_s - before;
            if gap > 0.0 {
                self.shortest = Some(self.shortest.map_or(gap, |shortest| shortest.min(gap)));
            } else {
                *last = row;
                return Ok(());
            }
        }
        self.rows.push(row);
        Ok(())
    }

    fn finish(self) -> Result<Trace, TraceError> {
        let (Some(first), Some(last)) = (self.rows.first(), self.rows.last()) else {
            return Err(TraceError::Empty);
        };
        let shortest = self.shortest.ok_or(TraceError::OneRow)?;
        let end_s = last.time_s + shortest;
        let duration = end_s - first.time_s;
        if duration > DURATION_MAX_S {
            return Err(TraceError::TooLong { days: duration / 86_400.0 });
        }
        Ok(Trace { end_s, rows: self.rows })
    }
}

/// The numbers of the columns.
#[derive(Clone, Copy)]
struct Columns {
    time: usize,
    rate: usize,
}

/// A first line that holds no number names columns.
fn names_columns(line: &str) -> bool {
    line.split(',').all(|field| clean(field).parse::<f64>().is_err()) && line.chars().any(char::is_alphabetic)
}

fn clean(field: &str) -> &str {
    field.trim().trim_matches('"').trim()
}

impl Columns {
    fn of(line: usize, header: &str) -> Result<Self, TraceError> {
        let place = |column: &'static str| {
            let found = header.split(',').position(|name| clean(name).eq_ignore_ascii_case(column));
            found.ok_or(TraceError::NoColumn { line, column })
        };
        Ok(Self { time: place("time_s")?, rate: place("rate")? })
    }
}

fn number(line: usize, text: &str, place: usize, column: &'static str) -> Result<f64, TraceError> {
    let field = text.split(',').nth(place).map(clean).ok_or(TraceError::Missing { line, column })?;
    let number = field.parse::<f64>().ok().filter(|number| number.is_finite());
    number.ok_or_else(|| TraceError::NotANumber { line, column, text: field.chars().take(40).collect() })
}

#[cfg(test)]
mod tests;
