//! A folder with lines in segments, within a bound of bytes and age.
//!
//! A segment is `MILLISECONDS.ndjson`, by the time of its making. The oldest segments are deleted as wholes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::time::wall_clock;

/// The ending of segments.
const ENDING: &str = ".ndjson";
/// Segments of a full folder at least: as much of it is deleted at once.
const SEGMENTS: u64 = 16;
/// Smallest segment that is finished, bytes.
const MIN_SEGMENT: u64 = 64 << 10;
/// Largest segment that is not finished, bytes. One batch may be larger.
const MAX_SEGMENT: u64 = 16 << 20;
/// Largest MQTT packet, bytes.
const MAX_PACKET: u64 = 256 << 20;
/// Bytes of JSON for one byte of text, at most.
const ESCAPED: u64 = 6;
/// Bytes of a line beside the packet, at most: the names of fields and the client id.
const MAX_REST: u64 = 1 << 20;
/// Longest line that is read, bytes: that of each message of MQTT is shorter. A longer one is passed over.
const MAX_LINE: u64 = ESCAPED * MAX_PACKET + MAX_REST;

/// The bounds of a folder. The oldest segments beyond them are deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SegmentBounds {
    /// Bytes of all segments.
    pub(crate) max_bytes: u64,
    /// Age of a segment.
    pub(crate) max_age: Duration,
}

/// Writes lines to the newest segment.
pub(crate) struct SegmentWriter {
    folder: PathBuf,
    bounds: SegmentBounds,
    /// The newest segment, and its bytes.
    current: Option<(File, u64)>,
}

impl SegmentWriter {
    /// A writer that has opened nothing yet.
    pub(crate) fn new(folder: PathBuf, bounds: SegmentBounds) -> Self {
        Self { folder, bounds, current: None }
    }

    /// Appends whole lines. They are on disk when it returns.
    ///
    /// # Errors
    /// When a file cannot be written. The next lines begin another segment then, because the write may have left a torn
    /// line.
    pub(crate) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        self.write(lines).map_err(|error| {
            self.current = None;
            io::Error::new(error.kind(), format!("{}: {error}", self.folder.display()))
        })
    }

    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        let (file, bytes) = self.segment()?;
        file.write_all(lines)?;
        file.sync_data()?;
        *bytes += lines.len() as u64;
        self.shorten(wall_clock())
    }

    /// The segment that is written, with room; a full one is finished.
    fn segment(&mut self) -> io::Result<&mut (File, u64)> {
        let full = (self.bounds.max_bytes / SEGMENTS).clamp(MIN_SEGMENT, MAX_SEGMENT);
        let current = self.current.take().filter(|(_, bytes)| *bytes < full);
        let current = match current {
            Some(current) => current,
            None => (self.make_segment()?, 0),
        };
        Ok(self.current.insert(current))
    }

    fn make_segment(&self) -> io::Result<File> {
        fs::create_dir_all(&self.folder)?;
        let last = segments(&self.folder)?.pop().map_or(0, |(time, _)| time);
        // A clock that was set back changes no order.
        let time = wall_clock().max(last + 1);
        let path = self.folder.join(format!("{time:020}{ENDING}"));
        let file = OpenOptions::new().append(true).create_new(true).open(path)?;
        File::open(&self.folder)?.sync_all()?;
        Ok(file)
    }

    /// Deletes the oldest segments that are beyond the bounds. The newest one stays.
    fn shorten(&self, now: u64) -> io::Result<()> {
        let segments = segments(&self.folder)?;
        let mut bytes = 0;
        for (_, path) in &segments {
            bytes += fs::metadata(path)?.len();
        }
        let oldest = now.saturating_sub(u64::try_from(self.bounds.max_age.as_millis()).unwrap_or(u64::MAX));
        for (at, (_, path)) in segments.iter().enumerate() {
            // A segment ends before the next one begins.
            let Some((ended, _)) = segments.get(at + 1) else { break };
            if bytes <= self.bounds.max_bytes && *ended >= oldest {
                break;
            }
            bytes -= fs::metadata(path)?.len();
            fs::remove_file(path)?;
        }
        Ok(())
    }
}

/// The segments of a folder with their times, the oldest first.
///
/// # Errors
/// When the folder cannot be read.
pub(crate) fn segments(folder: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let text = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(ENDING));
        if let Some(time) = text.and_then(|text| text.parse().ok()) {
            found.push((time, path));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// The lines of a segment.
pub(crate) struct Lines<R> {
    file: R,
    text: Vec<u8>,
    at: u64,
}

impl<R: BufRead> Lines<R> {
    /// The lines of `file` from its present place on, which is `at` bytes from its beginning.
    pub(crate) fn new(file: R, at: u64) -> Self {
        Self { file, text: Vec::new(), at }
    }

    /// Bytes from the beginning of the file to the end of the last line.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// The next line that is not empty and not too long, with its end; nothing at the end of the file. Only the last line
    /// may lack its end.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn next(&mut self) -> io::Result<Option<&[u8]>> {
        loop {
            self.text.clear();
            let read = (&mut self.file).take(MAX_LINE).read_until(b'\n', &mut self.text)?;
            if read == 0 {
                return Ok(None);
            }
            self.at += read as u64;
            if self.text.last() != Some(&b'\n') && read as u64 == MAX_LINE {
                self.at += self.file.skip_until(b'\n')? as u64;
            } else if self.text != b"\n" {
                return Ok(Some(&self.text));
            }
        }
    }
}

/// Reads the next line that is not empty and not too long; false at the end.
///
/// # Errors
/// When the file cannot be read.
pub(crate) fn next_line(file: &mut impl BufRead, text: &mut Vec<u8>) -> io::Result<bool> {
    let mut lines = Lines { file, text: std::mem::take(text), at: 0 };
    let found = lines.next()?.is_some();
    *text = lines.text;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: SegmentBounds = SegmentBounds { max_bytes: 4 * MIN_SEGMENT, max_age: Duration::from_secs(3_600) };

    /// A writer to a folder that is empty.
    fn writer(name: &str, bounds: SegmentBounds) -> SegmentWriter {
        let folder = std::env::temp_dir().join(format!("tidegate-segments-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        SegmentWriter::new(folder, bounds)
    }

    fn lines(writer: &SegmentWriter) -> Vec<String> {
        let mut found = Vec::new();
        for (_, path) in segments(&writer.folder).unwrap() {
            found.extend(fs::read_to_string(path).unwrap().lines().map(str::to_owned));
        }
        found
    }

    #[test]
    fn the_oldest_segments_are_deleted_beyond_the_bounds() {
        let mut writer = writer("bound", BOUNDS);
        let line = format!("{}\n", "x".repeat(MIN_SEGMENT as usize));
        for _ in 0..9 {
            writer.append(line.as_bytes()).unwrap();
        }
        let left = segments(&writer.folder).unwrap();
        assert!((2..=4).contains(&left.len()), "{left:?}");
        let bytes: u64 = left.iter().map(|(_, path)| fs::metadata(path).unwrap().len()).sum();
        assert!(bytes <= BOUNDS.max_bytes + MIN_SEGMENT + 200, "{bytes}");
        writer.shorten(wall_clock() + 4_000_000).unwrap();
        assert_eq!(segments(&writer.folder).unwrap().len(), 1, "the newest stays");
        fs::remove_dir_all(writer.folder).unwrap();
    }

    #[test]
    fn a_line_of_a_large_message_is_read() {
        const LONG: usize = (64 << 20) + 1;
        let lines = io::repeat(b'x').take(LONG as u64).chain(&b"\n\nnext\n"[..]);
        let (mut file, mut text) = (io::BufReader::new(lines), Vec::new());
        assert!(next_line(&mut file, &mut text).unwrap());
        assert_eq!(text.len(), LONG + 1);
        assert!(next_line(&mut file, &mut text).unwrap());
        assert_eq!(text, b"next\n");
        assert!(!next_line(&mut file, &mut text).unwrap());
    }

    #[test]
    fn segments_are_finished_at_their_largest_size() {
        let mut writer = writer("largest", SegmentBounds { max_bytes: u64::MAX, ..BOUNDS });
        writer.append(b"1\n").unwrap();
        writer.current.as_mut().unwrap().1 = MAX_SEGMENT - 1;
        writer.append(b"2\n").unwrap();
        writer.append(b"3\n").unwrap();
        assert_eq!(segments(&writer.folder).unwrap().len(), 2);
        assert_eq!(lines(&writer), ["1", "2", "3"]);
        fs::remove_dir_all(writer.folder).unwrap();
    }
}
