//! Reads a log from a position to its end, and creates the files that it describes.

use std::collections::BTreeSet;
use std::io;

use tidegate_bus::{Bus, BusError, LogName, LogPartition, Position, Record};
use tidegate_store::RealDisk;

use crate::ask::Range;
use crate::files::{FileId, Files, Mark};
use crate::local::{Parts, holds};
use crate::record::{Body, decode};
use crate::send_queue::RECORD_OVERHEAD;
use crate::{Damage, MirrorError};

/// The state read so far.
pub(crate) struct Replay<'a> {
    log: LogName,
    pub(crate) files: Files,
    pub(crate) parts: Parts<'a>,
    /// The number of the last record; 0 before the first.
    pub(crate) sequence: u64,
    /// Bytes of the log up to the end of that record.
    pub(crate) offset: u64,
    /// A list of all files was read: before that, of a log whose beginning was trimmed not all is known.
    pub(crate) has_index: bool,
    /// The first record was the log's first.
    is_whole: bool,
    /// Files that the working copy should have and does not.
    missing: BTreeSet<FileId>,
    /// Files that a list describes and whose records were trimmed: later records remove them or write them again.
    lacking: BTreeSet<FileId>,
    /// Records read, and their bytes.
    pub(crate) records: u64,
    pub(crate) bytes: u64,
}

/// Why reading ended early.
pub(crate) enum Stop {
    /// The working copy does not do: all has to be read.
    Restart,
    /// The records that were to be read next are gone; the log continues at this position.
    Trimmed(Position),
    Failed(MirrorError),
}

impl From<MirrorError> for Stop {
    fn from(error: MirrorError) -> Self {
        Self::Failed(error)
    }
}

impl<'a> Replay<'a> {
    /// From the beginning.
    pub(crate) fn new(log: &LogName, disk: &'a RealDisk) -> Self {
        Self {
            log: log.clone(),
            files: Files::default(),
            parts: Parts::new(disk),
            sequence: 0,
            offset: 0,
            has_index: false,
            is_whole: false,
            missing: BTreeSet::new(),
            lacking: BTreeSet::new(),
            records: 0,
            bytes: 0,
        }
    }

    /// From a list of files that the working copy remembers.
    pub(crate) fn from_copy(log: &LogName, disk: &'a RealDisk, index: &[u8]) -> Result<Self, Stop> {
        let Ok((origin, Body::Index(files))) = decode(index) else { return Err(Stop::Restart) };
        let mut replay = Self::new(log, disk);
        replay.sequence = origin.sequence;
        replay.offset = origin.offset + index.len() as u64 + RECORD_OVERHEAD;
        replay.has_index = true;
        for (id, file) in files.iter().filter(|(_, file)| !file.extents.is_empty()) {
            match &file.name {
                Some(name) if holds(disk, name, &file.extents) => {
                    let adopted = replay.parts.adopt(id, name, &file.extents);
                    adopted.map_err(|error| Stop::Failed(error.into()))?;
                }
                _ => drop(replay.missing.insert(id)),
            }
        }
        replay.files = files;
        Ok(replay)
    }

    /// Reads a whole log. If records behind its first ones are gone, it begins behind them, provided that a list of all
    /// files follows: lists say whether later records lack some.
    ///
    /// # Errors
    /// An error leaves the files read so far in the directory.
    pub(crate) fn whole(
        bus: &Bus,
        place: &LogPartition,
        disk: &'a RealDisk,
        end: Position,
    ) -> Result<Self, MirrorError> {
        let damaged = |position, damage| MirrorError::Damaged { log: place.log.clone(), position, damage };
        let mut from = Position::START;
        loop {
            let mut replay = Self::new(&place.log, disk);
            match replay.read(bus, place, from, end) {
                Ok(()) if replay.has_index || from == Position::START => return Ok(replay),
                Ok(()) => return Err(damaged(from, Damage::Missing)),
                Err(Stop::Trimmed(first)) if from < first && first < end => from = first,
                Err(Stop::Trimmed(first)) => return Err(damaged(first, Damage::Missing)),
                Err(Stop::Restart) => return Err(damaged(from, Damage::Beginning)),
                Err(Stop::Failed(error)) => return Err(error),
            }
            replay.parts.discard()?;
        }
    }

    /// Reads on.
    pub(crate) fn read(&mut self, bus: &Bus, place: &LogPartition, from: Position, to: Position) -> Result<(), Stop> {
        if from >= to {
            return self.check_missing();
        }
        let failed = |source| match source {
            BusError::Trimmed { first, .. } => Stop::Trimmed(first),
            source => Stop::Failed(MirrorError::Bus { log: place.log.clone(), source }),
        };
        let mut range = Range::new(bus, place, from, to).map_err(failed)?;
        loop {
            let records = range.take(&|| false).map_err(failed)?;
            if records.is_empty() {
                self.check_lacking(to)?;
                return self.check_missing();
            }
            for record in records {
                self.take(&record)?;
            }
        }
    }

    /// A file missing in the working copy is no fault if it was removed since.
    fn check_missing(&self) -> Result<(), Stop> {
        if self.missing.iter().any(|id| self.files.get(*id).is_some()) { Err(Stop::Restart) } else { Ok(()) }
    }

    fn check_lacking(&self, end: Position) -> Result<(), Stop> {
        let Some(file) = self.lacking.iter().find_map(|id| self.files.get(*id)) else { return Ok(()) };
        let damage = Damage::Lacking(file.name.clone().unwrap_or_else(|| "a file".to_owned()));
        Err(Stop::Failed(MirrorError::Damaged { log: self.log.clone(), position: end, damage }))
    }

    fn take(&mut self, record: &Record) -> Result<(), Stop> {
        let position = record.position;
        let damaged = |damage| Stop::Failed(MirrorError::Damaged { log: self.log.clone(), position, damage });
        let (origin, body) = decode(&record.payload).map_err(damaged)?;
        self.records += 1;
        self.bytes += record.payload.len() as u64;
        if matches!(body, Body::Claim) {
            return Ok(());
        }
        if self.sequence == 0 && !self.has_index {
            self.is_whole = origin.sequence == 1;
        } else if origin.sequence != self.sequence + 1 {
            let damage = Damage::Gap { next: origin.sequence, last: self.sequence };
            let damaged = MirrorError::Damaged { log: self.log.clone(), position, damage };
            // With a copy, records may have been trimmed that it has not seen.
            return Err(if self.records == 1 { Stop::Restart } else { Stop::Failed(damaged) });
        }
        self.sequence = origin.sequence;
        let mark = Mark { position, offset: origin.offset };
        self.offset = origin.offset + record.payload.len() as u64 + RECORD_OVERHEAD;
        match self.apply(body, mark) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(damage)) => Err(Stop::Failed(MirrorError::Damaged { log: self.log.clone(), position, damage })),
            Err(error) => Err(Stop::Failed(error.into())),
        }
    }

    fn apply(&mut self, body: Body<'_>, mark: Mark) -> io::Result<Result<(), Damage>> {
        let gone = match body {
            Body::Claim => None,
            Body::Data { file, at, length, bytes } => {
                let state = self.files.reach(file);
                state.extents.write(at, bytes);
                state.length = length;
                state.first.get_or_insert(mark);
                self.parts.write(file, at, bytes)?;
                None
            }
            Body::Length { file, length } => {
                let state = self.files.reach(file);
                state.extents.cut(length);
                state.length = length;
                self.parts.set_length(file, length)?;
                None
            }
            Body::Link { file, name } => self.files.link(file, name),
            Body::Rename { from, to } => self.files.rename(from, to),
            Body::Unlink { name } => self.files.unlink(name),
            Body::Index(listed) => return self.compare(listed),
        };
        gone.map_or(Ok(()), |id| self.parts.remove(id)).map(Ok)
    }

    /// A list of all files must agree with the result of the records before it.
    fn compare(&mut self, mut listed: Files) -> io::Result<Result<(), Damage>> {
        let knows_all = self.has_index || self.is_whole;
        if knows_all && self.files.len() != listed.len() {
            return Ok(Err(Damage::FileCount { there: self.files.len(), listed: listed.len() }));
        }
        let ids: Vec<FileId> = listed.iter().map(|(id, _)| id).collect();
        for id in ids {
            let Some(should) = listed.get_mut(id) else { continue };
            let name = should.name.clone().unwrap_or_default();
            let is = self.files.get(id).cloned().unwrap_or_default();
            let same_name = !knows_all || (is.name == should.name && is.length == should.length);
            let same = is.extents.agrees(&should.extents);
            let may_lack = !knows_all || self.lacking.contains(&id);
            if !same_name || !(same || may_lack) {
                return Ok(Err(Damage::Content(name)));
            }
            if same {
                self.lacking.remove(&id);
            } else {
                self.lacking.insert(id);
            }
            if !same || is.extents.parts().iter().all(|extent| extent.checksum.is_some()) {
                should.extents = is.extents;
            }
        }
        let gone: Vec<FileId> = self.files.iter().map(|(id, _)| id).filter(|id| listed.get(*id).is_none()).collect();
        for id in gone {
            self.parts.remove(id)?;
        }
        self.files = listed;
        self.has_index = true;
        Ok(Ok(()))
    }
}
