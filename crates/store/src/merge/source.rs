//! Several sorted sequences as one, in which the newest entry of each key wins.

use super::run::SortedRun;
use crate::ReadError;
use crate::table::Cursor;

/// A sorted sequence of entries.
pub(crate) enum Source {
    Run(SortedRun),
    Table(Cursor),
}

impl Source {
    fn current(&self) -> Option<(&[u8], Option<&[u8]>)> {
        match self {
            Self::Run(run) => run.current(),
            Self::Table(cursor) => cursor.current(),
        }
    }

    fn advance(&mut self) -> Result<(), ReadError> {
        match self {
            Self::Run(run) => {
                run.advance();
                Ok(())
            }
            Self::Table(cursor) => cursor.advance(),
        }
    }
}

/// All of them; those in front are newer.
pub(crate) struct Merged {
    sources: Vec<Source>,
    /// The source whose entry is the present one.
    present: Option<usize>,
    /// Sources whose present entry has the same key, and is older.
    hidden: Vec<usize>,
}

impl Merged {
    pub(crate) fn new(sources: Vec<Source>) -> Self {
        let mut merged = Self { sources, present: None, hidden: Vec::new() };
        merged.find();
        merged
    }

    /// The present key and its newest value; `None` says that the key was deleted.
    pub(crate) fn current(&self) -> Option<(&[u8], Option<&[u8]>)> {
        self.sources.get(self.present?)?.current()
    }

    pub(crate) fn advance(&mut self) -> Result<(), ReadError> {
        let Some(present) = self.present else {
            return Ok(());
        };
        if let Some(source) = self.sources.get_mut(present) {
            source.advance()?;
        }
        for index in self.hidden.drain(..) {
            if let Some(source) = self.sources.get_mut(index) {
                source.advance()?;
            }
        }
        self.find();
        Ok(())
    }

    fn find(&mut self) {
        self.hidden.clear();
        self.present = None;
        let mut lowest: Option<&[u8]> = None;
        for (index, source) in self.sources.iter().enumerate() {
            let Some((key, _)) = source.current() else {
                continue;
            };
            match lowest.map(|lowest| key.cmp(lowest)) {
                Some(std::cmp::Ordering::Greater) => {}
                Some(std::cmp::Ordering::Equal) => self.hidden.push(index),
                None | Some(std::cmp::Ordering::Less) => {
                    lowest = Some(key);
                    self.present = Some(index);
                    self.hidden.clear();
                }
            }
        }
    }
}
