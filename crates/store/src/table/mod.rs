//! A table: an immutable sorted file.
//!
//! ```text
//! header  magic 8 | version u32
//! blocks  crc32c u32 | length u32 | operations in ascending order of their keys
//! index   per block: offset u64 | length u32 | key length u16 | first key
//! footer  index offset u64 | index length u64 | entries u64 | merged u64 | generation u64 | index crc32c u32 |
//!         version u32 | magic 8 | crc32c u32
//! ```
//! The checksum of a block covers its offset, too. `merged` is the number of the first frame of the journal that is not
//! in the table.

mod cursor;
mod writer;

use std::sync::Arc;

pub(crate) use cursor::Cursor;
pub(crate) use writer::TableWriter;

use crate::ReadError;
use crate::disk::{Disk, DiskFile, read_part, read_part_into};

/// The format of tables that this version reads and writes.
pub(crate) const VERSION: u32 = 1;
const HEADER: usize = 12;
const FOOTER: usize = 60;
const BLOCK_HEADER: usize = 8;
const HEADER_MAGIC: [u8; 8] = *b"TIDETABL";
const FOOTER_MAGIC: [u8; 8] = *b"TIDEEND.";

/// An open table.
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) generation: u64,
    /// Puts and deletes in it.
    pub(crate) entries: u64,
    pub(crate) merged: u64,
    pub(crate) bytes: u64,
    blocks: Vec<Block>,
    file: Arc<dyn DiskFile>,
}

/// One row of the index.
struct Block {
    offset: u64,
    /// Bytes with the block's header.
    length: u32,
    first_key: Box<[u8]>,
}

/// The name of the table with this generation.
pub(crate) fn name(generation: u64) -> String {
    format!("table-{generation:012}.tbl")
}

/// The name of a sorted portion of the journal on its way into a table.
pub(crate) fn run_name(generation: u64) -> String {
    format!("run-{generation:012}.tmp")
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk::<4>()).map_or(0, |field| u32::from_le_bytes(*field))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()).map_or(0, |field| u64::from_le_bytes(*field))
}

fn block_checksum(offset: u64, payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&offset.to_le_bytes()), payload)
}

impl Table {
    /// Memory that its index takes, bytes.
    pub(crate) fn index_bytes(&self) -> u64 {
        let keys: usize = self.blocks.iter().map(|block| block.first_key.len()).sum();
        (self.blocks.len() * size_of::<Block>() + keys) as u64
    }

    /// Opens a table and reads its index; the blocks are checked when they are read.
    pub(crate) fn open(disk: &dyn Disk, name: &str, generation: u64) -> Result<Self, ReadError> {
        let reading = |error| ReadError::reading(name, error);
        let file = disk.open(name).map_err(reading)?;
        let bytes = file.length().map_err(reading)?;
        if bytes < (HEADER + FOOTER) as u64 {
            return Err(ReadError::damaged(name, 0, format!("{bytes} bytes are too few for a table")));
        }
        let header = read_part(&*file, 0, HEADER as u64).map_err(reading)?;
        if header[..8] != HEADER_MAGIC {
            return Err(ReadError::damaged(name, 0, "the header does not begin as a table's does"));
        }
        if word(&header, 8) != VERSION {
            return Err(ReadError::Version { file: name.to_owned(), found: word(&header, 8), supported: VERSION });
        }
        let at = bytes - FOOTER as u64;
        let footer = read_part(&*file, at, FOOTER as u64).map_err(reading)?;
        if footer[48..56] != FOOTER_MAGIC || crc32c::crc32c(&footer[..FOOTER - 4]) != word(&footer, FOOTER - 4) {
            return Err(ReadError::damaged(name, at, "the footer is not there or its checksum is wrong"));
        }
        let (index_offset, index_length) = (long(&footer, 0), long(&footer, 8));
        if index_offset.checked_add(index_length) != Some(at) {
            return Err(ReadError::damaged(name, at, "the footer does not fit the length of the file"));
        }
        if long(&footer, 32) != generation {
            let text = format!("the footer says that this is table {}", long(&footer, 32));
            return Err(ReadError::damaged(name, at + 32, text));
        }
        let index = read_part(&*file, index_offset, index_length).map_err(reading)?;
        if crc32c::crc32c(&index) != word(&footer, 40) {
            return Err(ReadError::damaged(name, index_offset, "the checksum of the index is wrong"));
        }
        let blocks = rows(&index).ok_or_else(|| ReadError::damaged(name, index_offset, "the index is cut off"))?;
        let (entries, merged) = (long(&footer, 16), long(&footer, 24));
        Ok(Self { name: name.to_owned(), generation, entries, merged, bytes, blocks, file })
    }

    pub(crate) fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// The offset of a block in the file.
    pub(crate) fn block_offset(&self, index: usize) -> u64 {
        self.blocks.get(index).map_or(0, |block| block.offset)
    }

    /// Reads a block and checks it. The operations come behind `BLOCK_HEADER`.
    fn read_block(&self, index: usize, bytes: &mut Vec<u8>) -> Result<(), ReadError> {
        let Some(block) = self.blocks.get(index) else {
            bytes.clear();
            return Ok(());
        };
        let reading = |error| ReadError::reading(&self.name, error);
        read_part_into(&*self.file, block.offset, u64::from(block.length), bytes).map_err(reading)?;
        let payload = bytes.get(BLOCK_HEADER..).unwrap_or_default();
        if word(bytes, 4) as usize != payload.len() || word(bytes, 0) != block_checksum(block.offset, payload) {
            return Err(ReadError::damaged(&self.name, block.offset, "the checksum of a block is wrong"));
        }
        Ok(())
    }

    /// The block in which a key is, if it is anywhere.
    fn block_of(&self, key: &[u8]) -> usize {
        self.blocks.partition_point(|block| *block.first_key <= *key).saturating_sub(1)
    }
}

fn rows(mut index: &[u8]) -> Option<Vec<Block>> {
    let mut blocks = Vec::new();
    while !index.is_empty() {
        let (offset, rest) = index.split_first_chunk::<8>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (key_length, rest) = rest.split_first_chunk::<2>()?;
        let (key, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*key_length)))?;
        blocks.push(Block {
            offset: u64::from_le_bytes(*offset),
            length: u32::from_le_bytes(*length),
            first_key: key.into(),
        });
        index = rest;
    }
    Some(blocks)
}

/// The contents of all blocks with a right checksum in the bytes of a table whose index is lost.
pub(crate) fn search_blocks(bytes: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    let mut at = HEADER;
    while at + BLOCK_HEADER < bytes.len() {
        let begin = at + BLOCK_HEADER;
        let payload = bytes.get(begin..begin.saturating_add(word(bytes, at + 4) as usize));
        // A block begins with an entry, which spares most checksums.
        let whole = payload.filter(|payload| matches!(payload.first(), Some(1 | 2)));
        match whole.filter(|payload| block_checksum(at as u64, payload) == word(bytes, at)) {
            Some(payload) => {
                found.push(payload);
                at = begin + payload.len();
            }
            None => at += 1,
        }
    }
    found
}
