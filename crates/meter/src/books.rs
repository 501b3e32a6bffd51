//! The books: the ledger, and the file that keeps it.
//!
//! Records are appended and synced. Each has the usage since the previous record, so that they can be added. A
//! start reads all records. From time to time a file with merged periods replaces the file.
//!
//! The store has the counters of a run of the process, too, up to the last acknowledged message. So the file also names the
//! run that its records belong to: after a crash the next start adds what the store has beyond them.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use tidegate_mirror::kept_file;

use crate::ledger::{Bound, Excess, Ledger};
use crate::period::Period;
use crate::reading::Counted;
use crate::record::{Amounts, Line, Record};

/// The file of tenants in the data directory.
pub const FILE: &str = "usage";
/// The file of users in the data directory.
pub const USERS_FILE: &str = "usage-users";
/// Records of the books of users, all periods together.
const MAX_USER_RECORDS: usize = 500_000;
/// The number of a run whose usage does not go into the books.
const NO_RUN: u64 = 0;
/// Only the owner may read and write it.
const MODE: u32 = 0o600;
/// Bytes that are appended before periods are merged; more, when the file is larger than that after merging.
const MERGE_AFTER: u64 = 1 << 20;

/// Seconds after which periods are merged where there is no file.
const MERGE_AFTER_S: u64 = 3600;

/// The payers that books have.
#[derive(Clone, Copy, Debug)]
pub enum Payers {
    /// Tenants: usage by the minute for the last day.
    Tenants,
    /// Users: usage by the hour at best, within a bound of records.
    Users {
        /// The payer with which a user is counted beyond the bound; nothing for that payer itself.
        unnamed: fn(&str) -> Option<String>,
    },
}

impl Payers {
    const fn file(self) -> &'static str {
        match self {
            Self::Tenants => FILE,
            Self::Users { .. } => USERS_FILE,
        }
    }

    const fn period(self, now_s: u64) -> Period {
        match self {
            Self::Tenants => Period::minute_of(now_s),
            Self::Users { .. } => Period::hour_of(now_s),
        }
    }

    const fn bound(self) -> Bound {
        match self {
            Self::Tenants => Bound::NONE,
            Self::Users { unnamed } => Bound { records: MAX_USER_RECORDS, unnamed },
        }
    }
}

/// The usage of a run of the process that is in the books.
#[derive(Debug, Default)]
struct Run {
    /// Its number.
    number: u64,
    booked: BTreeMap<String, Amounts>,
    /// Whether another run may have begun behind it: a line is damaged, or an earlier version has merged the records.
    may_be_over: bool,
}

impl Run {
    fn take(&mut self, line: &Line) {
        match line {
            Line::Record(record) => {
                self.booked.entry(record.payer.clone()).or_default().add(&record.amounts);
                self.may_be_over |= self.number == 0;
            }
            Line::Run(number) => *self = Self { number: *number, may_be_over: *number == NO_RUN, ..Self::default() },
            Line::Booked { payer, amounts } => drop(self.booked.insert(payer.clone(), *amounts)),
        }
    }

    /// The lines behind records that are not of this run alone.
    fn text(&self) -> String {
        if self.number == 0 {
            return String::new();
        }
        let mut text = Line::Run(self.number).text();
        for (payer, amounts) in &self.booked {
            text.push_str(&Line::Booked { payer: payer.clone(), amounts: *amounts }.text());
        }
        text
    }
}

/// The books of usage.
#[derive(Debug)]
pub struct Books {
    payers: Payers,
    ledger: Ledger,
    run: Run,
    file: Option<Kept>,
    /// When periods in memory are merged next, Unix seconds.
    merge_at_s: u64,
}

/// The file.
#[derive(Debug)]
struct Kept {
    directory: PathBuf,
    name: &'static str,
    file: File,
    /// Bytes of whole records.
    length: u64,
    /// Bytes behind `length` may be there, of a record that could not be written.
    has_rest: bool,
    /// The length at which periods are merged.
    merge_at: u64,
}

impl Books {
    /// Books in memory only.
    pub fn in_memory(payers: Payers) -> Self {
        Self { payers, ledger: Ledger::default(), run: Run::default(), file: None, merge_at_s: 0 }
    }

    /// The books of a data directory.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn open(directory: &Path, payers: Payers) -> io::Result<Self> {
        let path = directory.join(payers.file());
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        // Users may not have been metered in the run before.
        let mut run = Run { may_be_over: matches!(payers, Payers::Users { .. }), ..Run::default() };
        let (mut ledger, mut damaged) = (Ledger::default(), 0);
        for line in bytes[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let Some(line) = std::str::from_utf8(line).ok().and_then(Line::of_text) else {
                damaged += 1;
                run.may_be_over = true;
                continue;
            };
            run.take(&line);
            if let Line::Record(record) = line {
                ledger.add(record);
            }
        }
        if damaged > 0 {
            tracing::warn!(file = %path.display(), damaged, "damaged usage records were skipped");
        }
        let file = open_file(&path)?;
        let length = whole as u64;
        let kept = Kept {
            directory: directory.to_owned(),
            name: payers.file(),
            file,
            length,
            has_rest: whole < bytes.len(),
            merge_at: length + MERGE_AFTER,
        };
        Ok(Self { payers, ledger, run, file: Some(kept), merge_at_s: 0 })
    }

    /// Whether the books outlive the process.
    pub fn are_kept(&self) -> bool {
        self.file.is_some()
    }

    /// Adds the usage of payers up to `now_s`, Unix seconds, to the period of that time. When this returns, it is kept.
    ///
    /// # Errors
    /// When the file cannot be written; then nothing was added.
    pub fn add(&mut self, now_s: u64, used: &[(String, Amounts)]) -> io::Result<()> {
        let period = self.payers.period(now_s);
        let record = |(payer, amounts): &(String, Amounts)| {
            Line::Record(Record { period, payer: payer.clone(), amounts: *amounts })
        };
        self.append(used.iter().map(record).collect())?;
        self.merge_if_long(now_s);
        Ok(())
    }

    /// A run begins: later entries are of it. Its number is that of no run in the store.
    ///
    /// # Errors
    /// When the file cannot be written; then it has not begun.
    pub fn begin_run(&mut self, number: u64) -> io::Result<()> {
        self.append(vec![Line::Run(number)])
    }

    /// Runs begin whose usage does not go into the books, so [`Self::settle`] leaves them out.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn pause(&mut self) -> io::Result<()> {
        if self.run.number == NO_RUN { Ok(()) } else { self.begin_run(NO_RUN) }
    }

    /// Adds the usage that the store has of an earlier run and that is not in the books, to the period of `at_s`, Unix
    /// seconds. `counted` are the counters of each payer since the start of that run. Runs come in the order of their
    /// numbers. May be repeated. A run that may be in the books without its number is not added: they are never too high.
    ///
    /// # Errors
    /// When the file cannot be written; then a part may have been added, and a repetition adds the rest.
    pub fn settle(&mut self, number: u64, at_s: u64, counted: &BTreeMap<String, Counted>) -> io::Result<()> {
        if number < self.run.number || (number > self.run.number && self.run.may_be_over) {
            return Ok(());
        }
        if number > self.run.number {
            self.begin_run(number)?;
        }
        let period = self.payers.period(at_s);
        let missing = |(payer, counted): (&String, &Counted)| {
            let booked = self.run.booked.get(payer).copied().unwrap_or_default();
            let amounts = counted.beyond(&booked);
            (!amounts.is_nothing()).then(|| Line::Record(Record { period, payer: payer.clone(), amounts }))
        };
        let missing = counted.iter().filter_map(missing).collect();
        // The clock of that run may have been wrong: it merges no periods.
        self.append(missing)
    }

    fn append(&mut self, lines: Vec<Line>) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        if let Some(kept) = &mut self.file {
            kept.append(&lines.iter().map(Line::text).collect::<String>())?;
        }
        for line in lines {
            self.run.take(&line);
            if let Line::Record(record) = line {
                self.ledger.add(record);
            }
        }
        Ok(())
    }

    /// The usage of each payer in the periods that begin at `from_s` or later and before `to_s`, Unix seconds.
    pub fn sum(&self, from_s: u64, to_s: u64) -> BTreeMap<String, Amounts> {
        self.ledger.sum(from_s, to_s)
    }

    fn merge_if_long(&mut self, now_s: u64) {
        match &self.file {
            None if now_s >= self.merge_at_s => {
                self.merge(now_s);
                self.merge_at_s = now_s + MERGE_AFTER_S;
            }
            Some(kept) if kept.length >= kept.merge_at => {
                self.merge(now_s);
                let mut text: String = self.ledger.records().map(|record| Line::Record(record).text()).collect();
                text.push_str(&self.run.text());
                if let Some(kept) = &mut self.file
                    && let Err(error) = kept.replace(&text)
                {
                    // The long file says the same, and it is tried again after as many bytes more.
                    tracing::warn!(%error, "cannot truncate the usage file");
                    kept.merge_at = kept.length + MERGE_AFTER;
                }
            }
            None | Some(_) => {}
        }
    }

    fn merge(&mut self, now_s: u64) {
        let Excess { unnamed, forgotten } = self.ledger.merge(now_s, self.payers.bound());
        if unnamed + forgotten > 0 {
            tracing::warn!(
                file = self.payers.file(),
                unnamed,
                forgotten,
                "the books of usage have too many records: the oldest were counted without their user names, or forgotten"
            );
        }
    }
}

impl Kept {
    /// Appends whole records. After a failure the file counts as it was before.
    fn append(&mut self, text: &str) -> io::Result<()> {
        if self.has_rest {
            self.file.set_len(self.length)?;
        }
        self.has_rest = true;
        self.file.write_all(text.as_bytes())?;
        self.file.sync_data()?;
        self.has_rest = false;
        self.length += text.len() as u64;
        Ok(())
    }

    fn replace(&mut self, text: &str) -> io::Result<()> {
        kept_file::replace(&self.directory, self.name, text.as_bytes(), None)?;
        self.file = open_file(&self.directory.join(self.name))?;
        self.length = text.len() as u64;
        self.has_rest = false;
        self.merge_at = (2 * self.length).max(self.length + MERGE_AFTER);
        Ok(())
    }
}

/// For appending: where a process that stops and its successor write at the same time, neither overwrites the other.
fn open_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(MODE).open(path)
}

#[cfg(test)]
mod tests;
