//! Writes a table from entries that come in ascending order.

use std::io;
use std::sync::Arc;

use super::{BLOCK_HEADER, FOOTER_MAGIC, HEADER_MAGIC, VERSION, block_checksum};
use crate::disk::{Disk, DiskFile};
use crate::operation::{DELETE, PUT};

/// A block is closed when it is as large as this, bytes.
const BLOCK_BYTES: usize = 32 * 1024;
/// Bytes handed to the system at once.
const WRITE_BYTES: usize = 1024 * 1024;
/// Bytes after which the disk is asked to keep up, so that the journal's syncs do not wait for all at the end.
const SYNC_BYTES: u64 = 8 * 1024 * 1024;

/// A table that is being written.
pub(crate) struct TableWriter {
    file: Arc<dyn DiskFile>,
    /// The unwritten bytes, with the block that is being filled at their end.
    buffer: Vec<u8>,
    /// The offset of the buffer in the file.
    written: u64,
    synced: u64,
    /// The offset of the present block in the buffer.
    block: usize,
    block_is_empty: bool,
    index: Vec<u8>,
    /// The offset of the present block's length in the index.
    length_at: usize,
    entries: u64,
}

impl TableWriter {
    /// Begins a file.
    pub(crate) fn create(disk: &dyn Disk, name: &str) -> io::Result<Self> {
        disk.create(name).map(Self::new)
    }

    /// Begins in a file that is empty.
    pub(crate) fn new(file: Arc<dyn DiskFile>) -> Self {
        let mut buffer = Vec::with_capacity(WRITE_BYTES + 2 * BLOCK_BYTES);
        buffer.extend_from_slice(&HEADER_MAGIC);
        buffer.extend_from_slice(&VERSION.to_le_bytes());
        let block = buffer.len();
        Self {
            file,
            buffer,
            written: 0,
            synced: 0,
            block,
            block_is_empty: true,
            index: Vec::new(),
            length_at: 0,
            entries: 0,
        }
    }

    /// Adds an entry; `None` says that the key was deleted. The key is not longer than 65,535 bytes, as it comes out of
    /// an operation.
    pub(crate) fn add(&mut self, key: &[u8], value: Option<&[u8]>) -> io::Result<()> {
        if self.block_is_empty {
            self.begin_block(key);
        }
        let key_length = (key.len() as u16).to_le_bytes();
        self.buffer.push(if value.is_some() { PUT } else { DELETE });
        self.buffer.extend_from_slice(&key_length);
        self.buffer.extend_from_slice(key);
        if let Some(value) = value {
            self.buffer.extend_from_slice(&(value.len() as u32).to_le_bytes());
            self.buffer.extend_from_slice(value);
        }
        self.entries += 1;
        if self.buffer.len() - self.block >= BLOCK_BYTES {
            self.end_block()?;
        }
        Ok(())
    }

    fn begin_block(&mut self, first_key: &[u8]) {
        self.block = self.buffer.len();
        self.block_is_empty = false;
        let offset = self.written + self.block as u64;
        self.buffer.extend_from_slice(&[0; BLOCK_HEADER]);
        self.index.extend_from_slice(&offset.to_le_bytes());
        self.index.extend_from_slice(&[0; 4]);
        self.index.extend_from_slice(&(first_key.len() as u16).to_le_bytes());
        self.index.extend_from_slice(first_key);
        self.length_at = self.index.len() - first_key.len() - 6;
    }

    fn end_block(&mut self) -> io::Result<()> {
        if self.block_is_empty {
            return Ok(());
        }
        self.block_is_empty = true;
        let offset = self.written + self.block as u64;
        let block = &mut self.buffer[self.block..];
        let length = block.len() as u32;
        let checksum = block_checksum(offset, &block[BLOCK_HEADER..]);
        block[..4].copy_from_slice(&checksum.to_le_bytes());
        block[4..8].copy_from_slice(&(length - BLOCK_HEADER as u32).to_le_bytes());
        self.index[self.length_at..self.length_at + 4].copy_from_slice(&length.to_le_bytes());
        if self.buffer.len() >= WRITE_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_at(&self.buffer, self.written)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        if self.written - self.synced >= SYNC_BYTES {
            self.file.sync_data()?;
            self.synced = self.written;
        }
        Ok(())
    }

    /// Writes index and footer, and syncs the file. Says how many entries it has.
    pub(crate) fn finish(mut self, generation: u64, merged: u64) -> io::Result<u64> {
        self.end_block()?;
        let index = std::mem::take(&mut self.index);
        let offset = self.written + self.buffer.len() as u64;
        self.buffer.extend_from_slice(&index);
        let mut footer = Vec::with_capacity(super::FOOTER);
        for field in [offset, index.len() as u64, self.entries, merged, generation] {
            footer.extend_from_slice(&field.to_le_bytes());
        }
        footer.extend_from_slice(&crc32c::crc32c(&index).to_le_bytes());
        footer.extend_from_slice(&VERSION.to_le_bytes());
        footer.extend_from_slice(&FOOTER_MAGIC);
        let checksum = crc32c::crc32c(&footer);
        footer.extend_from_slice(&checksum.to_le_bytes());
        self.buffer.extend_from_slice(&footer);
        self.flush()?;
        self.file.sync_data()?;
        Ok(self.entries)
    }
}
