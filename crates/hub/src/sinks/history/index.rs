//! Which parts of a segment have messages of a time.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;

use crate::segments::{Lines, segments};

/// Bytes of lines at which a block ends. Each block takes 32 bytes of memory.
const BLOCK: u64 = 256 << 10;
/// The text before the time in a line. It is not within a text, where quotes have a backslash.
const TIME: &[u8] = b",\"time\":";

/// Whole lines of a segment, one behind the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    /// Where they begin, bytes.
    pub(super) start: u64,
    /// Where they end, bytes.
    pub(super) end: u64,
    /// The earliest time of a line, Unix milliseconds.
    pub(super) earliest: u64,
    /// The latest one.
    pub(super) latest: u64,
}

/// The blocks of segments, made when a segment is first read and with each line that it has got since.
#[derive(Debug, Default)]
pub struct HistoryIndex(Mutex<HashMap<PathBuf, Arc<Vec<Block>>>>);

impl HistoryIndex {
    /// The segments of a folder, the oldest first. Blocks of deleted ones are forgotten.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub(super) fn segments(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let segments = found(segments(folder))?.unwrap_or_default();
        let found: Vec<PathBuf> = segments.into_iter().map(|(_, path)| path).collect();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let here: HashSet<&PathBuf> = found.iter().collect();
        known.retain(|path, _| path.parent() != Some(folder) || here.contains(path));
        Ok(found)
    }

    /// Bytes of a segment that [`HistoryIndex::blocks`] would read.
    ///
    /// # Errors
    /// When the file cannot be looked at.
    pub(super) fn unread(&self, path: &Path) -> io::Result<u64> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(path).map_or(0, |known| end_of(known));
        Ok(length(path)?.map_or(0, |len| len.saturating_sub(known)))
    }

    /// The blocks of a segment, up to its last whole line.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(super) fn blocks(&self, path: &Path) -> io::Result<Arc<Vec<Block>>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned().unwrap_or_default();
        let Some(len) = length(path)? else { return Ok(Arc::default()) };
        if end_of(&known) == len {
            return Ok(known);
        }
        // No lock is held while the file is read: another reader does the same at worst.
        let mut blocks = Vec::clone(&known);
        let Some(file) = found(File::open(path))? else { return Ok(Arc::default()) };
        extend(&mut blocks, file)?;
        let blocks = Arc::new(blocks);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(path.to_owned(), Arc::clone(&blocks));
        Ok(blocks)
    }
}

/// The time of the first line of a segment that has one, Unix milliseconds. Nothing when it was deleted meanwhile, or has no
/// whole line.
///
/// # Errors
/// When the file cannot be read.
pub(super) fn first_time(path: &Path) -> io::Result<Option<u64>> {
    let Some(file) = found(File::open(path))? else { return Ok(None) };
    let mut lines = Lines::new(BufReader::new(file), 0);
    while let Some(line) = lines.next()? {
        if let Some(time) = time_of(line) {
            return Ok(Some(time));
        }
    }
    Ok(None)
}

/// Where the last block ends, bytes.
fn end_of(blocks: &[Block]) -> u64 {
    blocks.last().map_or(0, |block| block.end)
}

/// The bytes of a segment, if it was not deleted meanwhile.
fn length(path: &Path) -> io::Result<Option<u64>> {
    Ok(found(fs::metadata(path))?.map(|metadata| metadata.len()))
}

/// Nothing for a file that was deleted meanwhile.
fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

/// Adds the lines behind the last block.
fn extend(blocks: &mut Vec<Block>, mut file: File) -> io::Result<()> {
    let begin = blocks.last().map_or(0, |block| block.end);
    file.seek(SeekFrom::Start(begin))?;
    let mut lines = Lines::new(BufReader::new(file), begin);
    while let Some(line) = lines.next()? {
        if line.last() != Some(&b'\n') {
            break;
        }
        let time = time_of(line);
        let end = lines.at();
        let (earliest, latest) = (time.unwrap_or(u64::MAX), time.unwrap_or_default());
        if let Some(block) = blocks.last_mut().filter(|block| block.end - block.start < BLOCK) {
            block.end = end;
            block.earliest = block.earliest.min(earliest);
            block.latest = block.latest.max(latest);
        } else {
            let start = blocks.last().map_or(0, |block| block.end);
            blocks.push(Block { start, end, earliest, latest });
        }
    }
    Ok(())
}

/// The time of a line, Unix milliseconds.
fn time_of(line: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct TimedLine {
        time: u64,
    }

    let quick = || {
        let at = line.windows(TIME.len()).rposition(|window| window == TIME)? + TIME.len();
        let digits = line.get(at..)?;
        let len = digits.iter().position(|byte| !byte.is_ascii_digit())?;
        std::str::from_utf8(digits.get(..len)?).ok()?.parse().ok()
    };
    quick().or_else(|| serde_json::from_slice(line).ok().map(|TimedLine { time }| time))
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;

    use super::*;

    fn line(time: u64, len: usize) -> String {
        let line =
            serde_json::json!({ "time": time, "topic": "a", "payload": format!("\",\"time\":1,{}", "x".repeat(len)) });
        format!("{line}\n")
    }

    #[test]
    fn the_time_of_a_line_is_not_that_in_its_payload() {
        for text in [line(7, 0), "{\"time\":7}\n".to_owned(), "{\"payload\":\"x\",\"time\":7}\n".to_owned()] {
            assert_eq!(time_of(text.as_bytes()), Some(7), "{text}");
        }
        for torn in ["", "{\"payload\":\"x\",\"time\":", "x\n"] {
            assert_eq!(time_of(torn.as_bytes()), None, "{torn}");
        }
    }

    #[test]
    fn blocks_grow_with_their_segment() {
        let folder = std::env::temp_dir().join(format!("tidegate-history-index-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("00000000000000000001.ndjson");
        let index = HistoryIndex::default();
        let add = |text: &str| {
            let mut file = OpenOptions::new().append(true).create(true).open(&path).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        };
        let blocks = || index.blocks(&path).unwrap();
        add(&line(5, 10));
        let first = blocks();
        assert_eq!((first.len(), first[0].start, first[0].latest), (1, 0, 5));
        let half = usize::try_from(BLOCK).unwrap() / 2;
        for time in [9, 3, 4, 8] {
            add(&line(time, half));
        }
        add("{\"time\":99,\"to");
        let grown = blocks();
        assert_eq!(grown.iter().map(|block| (block.earliest, block.latest)).collect::<Vec<_>>(), [(3, 9), (4, 8)]);
        assert!(grown.windows(2).all(|pair| pair[0].end == pair[1].start), "{grown:?}");
        assert_eq!(blocks(), grown, "a torn line changes nothing");
        add("pic\":\"a\"}\n");
        assert_eq!(blocks().last().unwrap().latest, 99);
        assert_eq!(index.segments(&folder).unwrap(), std::slice::from_ref(&path));
        fs::remove_file(&path).unwrap();
        assert!(index.segments(&folder).unwrap().is_empty());
        assert!(index.0.lock().unwrap().is_empty(), "a deleted segment is forgotten");
        fs::remove_dir_all(&folder).unwrap();
    }
}
