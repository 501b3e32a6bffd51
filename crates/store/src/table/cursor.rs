//! Reads a table in the order of its keys.

use std::ops::Range;
use std::sync::Arc;

use super::{BLOCK_HEADER, Table};
use crate::ReadError;
use crate::operation::{self, Operation};

/// A place in a table.
pub(crate) struct Cursor {
    table: Arc<Table>,
    /// The block that is read next.
    next_block: usize,
    block: Vec<u8>,
    /// The offset of the next operation in the block.
    position: usize,
    current: Option<Entry>,
}

/// The place of an entry in its block.
struct Entry {
    key: Range<usize>,
    value: Option<Range<usize>>,
}

impl Cursor {
    /// At the first entry.
    pub(crate) fn first(table: Arc<Table>) -> Result<Self, ReadError> {
        let mut cursor = Self { table, next_block: 0, block: Vec::new(), position: 0, current: None };
        cursor.advance()?;
        Ok(cursor)
    }

    /// At the first entry that is not below a key.
    pub(crate) fn at(table: Arc<Table>, key: &[u8]) -> Result<Self, ReadError> {
        let next_block = table.block_of(key);
        let mut cursor = Self { table, next_block, block: Vec::new(), position: 0, current: None };
        cursor.advance()?;
        while cursor.current().is_some_and(|(found, _)| found < key) {
            cursor.advance()?;
        }
        Ok(cursor)
    }

    /// The present key and value; the value is `None` when the key was deleted.
    pub(crate) fn current(&self) -> Option<(&[u8], Option<&[u8]>)> {
        let entry = self.current.as_ref()?;
        let value = match &entry.value {
            Some(range) => Some(self.block.get(range.clone())?),
            None => None,
        };
        Some((self.block.get(entry.key.clone())?, value))
    }

    /// Moves to the next entry.
    pub(crate) fn advance(&mut self) -> Result<(), ReadError> {
        if self.position >= self.block.len() {
            if self.next_block >= self.table.blocks() {
                self.current = None;
                return Ok(());
            }
            self.table.read_block(self.next_block, &mut self.block)?;
            self.next_block += 1;
            self.position = BLOCK_HEADER;
            self.current = None;
        }
        let begin = self.position;
        let found = self.block.get(begin..).and_then(operation::first);
        let Some((operation, length)) = found else {
            return Err(self.damaged("a block is not made of entries"));
        };
        let key_begin = begin + 3;
        let key = key_begin..key_begin + operation.key().len();
        let value = match operation {
            Operation::Put { value, .. } => Some(begin + length - value.len()..begin + length),
            Operation::Delete { .. } => None,
        };
        if self.current.as_ref().is_some_and(|last| self.block[last.key.clone()] >= self.block[key.clone()]) {
            return Err(self.damaged("the keys of a block are not in ascending order"));
        }
        self.current = Some(Entry { key, value });
        self.position = begin + length;
        Ok(())
    }

    /// Before the first entry, for [`Self::advance_or_skip`].
    pub(crate) fn before(table: Arc<Table>) -> Self {
        Self { table, next_block: 0, block: Vec::new(), position: 0, current: None }
    }

    /// Moves to the next readable entry, and reports each damage on the way. Returns whether there is one.
    pub(crate) fn advance_or_skip(&mut self, damaged: &mut dyn FnMut(ReadError)) -> bool {
        loop {
            let (block, is_new) = (self.next_block, self.position >= self.block.len());
            match self.advance() {
                Ok(()) => return self.current.is_some(),
                Err(error) => damaged(error),
            }
            // The rest of this block is left out.
            self.next_block = if is_new { block + 1 } else { block };
            self.block.clear();
            self.position = 0;
            self.current = None;
        }
    }

    fn damaged(&self, damage: &str) -> ReadError {
        let offset = self.table.block_offset(self.next_block.saturating_sub(1));
        ReadError::damaged(&self.table.name, offset, damage)
    }
}
