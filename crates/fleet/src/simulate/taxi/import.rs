//! Records of a user's copy as a trace.

use std::collections::BTreeMap;

use super::record::TaxiRecord;
use crate::simulate::trace::{DURATION_MAX_S, Row, Trace, TraceError};

/// Bad lines that are named; the others are counted.
const NAMED_MAX: usize = 10;
/// How far a record may be from the first one, in seconds: farther ones are typing errors, not traffic.
const SPAN_MAX_S: i64 = 400 * 86_400;

/// A line that was passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Counted from 1.
    pub line: u64,
    /// The fault.
    pub problem: String,
}

/// The result of an import.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// Records per second, from the first one on.
    pub trace: Trace,
    /// Records that were taken in.
    pub records: u64,
    /// Different taxis, which are the topics.
    pub taxis: u64,
    /// Lines that were passed over.
    pub bad: u64,
    /// The first of them.
    pub bad_lines: Vec<BadLine>,
}

/// Why an import failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ImportError {
    /// No line is a record.
    #[error(
        "none of {lines} lines is a record{first}: give lines such as 156;2014-02-01 00:00:00.739166+01;POINT(41.88 12.49)"
    )]
    NoRecord {
        /// Lines that were read.
        lines: u64,
        /// The fault of the first of them.
        first: String,
    },
    /// A speed that is not a positive number.
    #[error("a speed of {speed} is no speed: choose a number above 0, such as 10 for ten times as fast")]
    Speed {
        /// The given value.
        speed: f64,
    },
    /// A bucket of no time.
    #[error("a step of 0 s holds no record: choose 1 s or more")]
    Step,
    /// The trace itself.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

/// Takes in lines one by one, in any order, and counts them by the second.
#[derive(Debug, Default)]
pub struct Import {
    lines: u64,
    records: u64,
    bad: u64,
    bad_lines: Vec<BadLine>,
    origin: Option<i64>,
    seconds: BTreeMap<i64, u64>,
    taxis: std::collections::BTreeSet<u32>,
}

impl Import {
    /// An empty import.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a line. An empty one is skipped; an invalid one is counted, and named while there are few.
    pub fn push(&mut self, line: &str) {
        self.lines += 1;
        if line.trim().is_empty() {
            return;
        }
        match TaxiRecord::parse(line) {
            Ok(record) => self.take_in(record),
            Err(problem) => self.note_bad(problem.to_string()),
        }
    }

    /// Notes an unreadable line, such as one that is not UTF-8.
    pub fn push_unreadable(&mut self, problem: &str) {
        self.lines += 1;
        self.note_bad(problem.to_owned());
    }

    /// Records so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    fn take_in(&mut self, record: TaxiRecord) {
        let second = record.time_us.div_euclid(1_000_000);
        let origin = *self.origin.get_or_insert(second);
        if (second - origin).abs() > SPAN_MAX_S {
            return self.note_bad("more than 400 days from the first record".to_owned());
        }
        *self.seconds.entry(second).or_default() += 1;
        self.records += 1;
        self.taxis.insert(record.taxi);
    }

    fn note_bad(&mut self, problem: String) {
        self.bad += 1;
        if self.bad_lines.len() < NAMED_MAX {
            self.bad_lines.push(BadLine { line: self.lines, problem });
        }
    }

    /// The trace: `speed` times as fast as it was, with a row every `step_s` seconds of the trace.
    ///
    /// # Errors
    /// When there is no record or the numbers make no sense.
    pub fn finish(self, speed: f64, step_s: u32) -> Result<Imported, ImportError> {
        if !(speed.is_finite() && speed > 0.0) {
            return Err(ImportError::Speed { speed });
        }
        if step_s == 0 {
            return Err(ImportError::Step);
        }
        let Some((first, _)) = self.seconds.first_key_value() else {
            let first =
                self.bad_lines.first().map_or(String::new(), |bad| format!(" (line {}: {})", bad.line, bad.problem));
            return Err(ImportError::NoRecord { lines: self.lines, first });
        };
        let mut buckets: BTreeMap<i64, u64> = BTreeMap::new();
        for (second, records) in &self.seconds {
            let bucket = ((second - first) as f64 / speed / f64::from(step_s)).floor() as i64;
            *buckets.entry(bucket).or_default() += records;
        }
        let last = buckets.last_key_value().map_or(0, |(bucket, _)| *bucket);
        let seconds = last as f64 * f64::from(step_s);
        if seconds > DURATION_MAX_S {
            return Err(TraceError::TooLong { days: seconds / 86_400.0 }.into());
        }
        // A row after the last bucket, so that a trace of one bucket has an end, too.
        let rows = (0..=last + 1).map(|bucket| Row {
            time_s: bucket as f64 * f64::from(step_s),
            rate: buckets.get(&bucket).copied().unwrap_or(0) as f64 / f64::from(step_s),
        });
        Ok(Imported {
            trace: Trace::new(rows.collect())?,
            records: self.records,
            taxis: self.taxis.len() as u64,
            bad: self.bad,
            bad_lines: self.bad_lines,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn import(lines: &[&str]) -> Import {
        let mut import = Import::new();
        for line in lines {
            import.push(line);
        }
        import
    }

    #[test]
    fn records_are_counted_by_the_second_and_bad_lines_are_named() {
        let imported = import(&[
            "1;2014-02-01 00:00:00.5+01;POINT(41.9 12.5)",
            "2;2014-02-01 00:00:00.75+01;POINT(41.9 12.5)",
            "nonsense",
            "",
            "1;2014-02-01 00:00:02+01;POINT(41.9 12.5)",
        ]);
        let imported = imported.finish(1.0, 1).unwrap();
        let rates: Vec<f64> = imported.trace.rows().iter().map(|row| row.rate).collect();
        assert_eq!(rates, [2.0, 0.0, 1.0, 0.0]);
        assert_eq!((imported.records, imported.taxis, imported.bad), (3, 2, 1));
        assert_eq!(imported.bad_lines, [BadLine { line: 3, problem: "not three parts separated by `;`".to_owned() }]);
    }

    #[test]
    fn faster_is_denser() {
        let lines: Vec<String> =
            (0..40).map(|second| format!("1;2014-02-01 00:00:{second:02}+01;POINT(41.9 12.5)")).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let imported = import(&lines).finish(10.0, 2).unwrap();
        let rates: Vec<f64> = imported.trace.rows().iter().map(|row| row.rate).collect();
        assert_eq!(rates, [10.0, 10.0, 0.0]);
    }

    #[test]
    fn nothing_of_use_is_an_error_that_says_why() {
        let problem = import(&["a,b"]).finish(1.0, 1).unwrap_err().to_string();
        assert!(problem.starts_with("none of 1 lines is a record (line 1: not three parts"), "{problem}");
        assert_eq!(import(&[]).finish(0.0, 1).unwrap_err(), ImportError::Speed { speed: 0.0 });
    }
}
