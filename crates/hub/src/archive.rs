//! The archive of a pipeline on the disk of its broker: the messages that it has taken, within a bound of bytes and age,
//! for a replay.

use std::fs::{self, File};
use std::io::{self, BufReader, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::message::Message;
use crate::segments::{SegmentBounds, next_line, segments};

/// The file that says how far a replay is.
const STATE: &str = "replay.json";

/// Where an archive is, and its bounds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveSettings {
    /// The folder of the pipeline.
    pub folder: PathBuf,
    /// Bytes that it has at most. Beyond it the oldest messages are deleted.
    pub max_bytes: u64,
    /// How long messages are kept.
    pub max_age: Duration,
}

impl ArchiveSettings {
    pub(crate) fn bounds(&self) -> SegmentBounds {
        SegmentBounds { max_bytes: self.max_bytes, max_age: self.max_age }
    }
}

/// A place between two messages of an archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ArchivePlace {
    /// The time of the segment.
    pub(crate) segment: u64,
    /// Bytes of the segment that are before it.
    pub(crate) offset: u64,
}

/// A replay that is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArchiveReplay {
    /// Messages that the broker took before are left out, Unix milliseconds.
    from: u64,
    /// All messages before it are done.
    pub(crate) done: ArchivePlace,
    /// The end of the archive when the replay began: later messages were not asked for.
    end: ArchivePlace,
}

impl ArchiveReplay {
    /// A replay of all messages that the broker took at `from` or later.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub(crate) fn new(folder: &Path, from: u64) -> io::Result<Self> {
        let segments = match segments(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            segments => segments?,
        };
        // A message is in the archive after the broker has taken it, and a segment ends before the next one begins.
        let ended = |at: usize| segments.get(at + 1).is_some_and(|(next, _)| *next < from);
        let first = (0..segments.len()).find(|at| !ended(*at)).and_then(|at| segments.get(at));
        let end = match segments.last() {
            Some((segment, path)) => ArchivePlace { segment: *segment, offset: fs::metadata(path)?.len() },
            None => ArchivePlace::default(),
        };
        let done = first.map_or(end, |(segment, _)| ArchivePlace { segment: *segment, offset: 0 });
        Ok(Self { from, done, end })
    }

    /// The replay that the last process has begun and not done.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn load(folder: &Path) -> io::Result<Option<Self>> {
        let text = match fs::read(folder.join(STATE)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            text => text?,
        };
        let state: Value = serde_json::from_slice(&text)?;
        let number = |name: &str, at: usize| state[name][at].as_u64();
        let place = |name| Some(ArchivePlace { segment: number(name, 0)?, offset: number(name, 1)? });
        let read = || Some(Self { from: state["from"].as_u64()?, done: place("done")?, end: place("end")? });
        let unreadable = || io::Error::new(ErrorKind::InvalidData, format!("{STATE} is not the state of a replay"));
        read().map(Some).ok_or_else(unreadable)
    }

    /// Keeps it, so that it outlasts the process.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn save(&self, folder: &Path) -> io::Result<()> {
        let pair = |place: ArchivePlace| [place.segment, place.offset];
        let state = json!({ "from": self.from, "done": pair(self.done), "end": pair(self.end) });
        fs::create_dir_all(folder)?;
        let new = folder.join(format!("{STATE}.new"));
        let mut file = File::create(&new)?;
        file.write_all(state.to_string().as_bytes())?;
        file.sync_data()?;
        fs::rename(new, folder.join(STATE))?;
        File::open(folder)?.sync_all()
    }

    /// It is done.
    ///
    /// # Errors
    /// When the file cannot be deleted.
    pub(crate) fn remove(folder: &Path) -> io::Result<()> {
        fs::remove_file(folder.join(STATE))
    }
}

/// Reads the messages of a replay.
pub(crate) struct ArchiveReader {
    folder: PathBuf,
    replay: ArchiveReplay,
    /// The next message is behind this place.
    next: ArchivePlace,
    file: Option<BufReader<File>>,
    line: Vec<u8>,
}

impl ArchiveReader {
    /// Begins behind the messages that are done.
    pub(crate) fn new(folder: &Path, replay: ArchiveReplay) -> Self {
        Self { folder: folder.to_owned(), replay, next: replay.done, file: None, line: Vec::new() }
    }

    /// The next message, and the place behind it; nothing at the end.
    ///
    /// # Errors
    /// When a segment cannot be read. A later call tries again.
    pub(crate) fn next(&mut self) -> io::Result<Option<(Message, ArchivePlace)>> {
        let found = self.find();
        if found.is_err() {
            // The file may be inside of a line: the next call opens it at the begin of this line.
            self.file = None;
        }
        found
    }

    fn find(&mut self) -> io::Result<Option<(Message, ArchivePlace)>> {
        while self.next < self.replay.end {
            let Some(file) = &mut self.file else {
                if !self.open()? {
                    return Ok(None);
                }
                continue;
            };
            if !next_line(file, &mut self.line)? {
                // The next segment has a later time.
                self.next = ArchivePlace { segment: self.next.segment + 1, offset: 0 };
                self.file = None;
                continue;
            }
            self.next.offset = file.stream_position()?;
            let message = Message::from_line(&self.line).filter(|message| message.timestamp >= self.replay.from);
            if let Some(message) = message {
                return Ok(Some((Message { archived: true, ..message }, self.next)));
            }
        }
        Ok(None)
    }

    /// Opens the segment of the next message, or the first one behind it. False when no segment is left.
    fn open(&mut self) -> io::Result<bool> {
        let later = segments(&self.folder)?.into_iter().find(|(segment, _)| *segment >= self.next.segment);
        let Some((segment, path)) = later else { return Ok(false) };
        if segment > self.next.segment {
            self.next = ArchivePlace { segment, offset: 0 };
        }
        let mut file = match File::open(path) {
            // It was deleted meanwhile: it is too old.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.next = ArchivePlace { segment: segment + 1, offset: 0 };
                return Ok(true);
            }
            file => file?,
        };
        file.seek(SeekFrom::Start(self.next.offset))?;
        self.file = Some(BufReader::new(file));
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segments::SegmentWriter;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("tidegate-archive-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    /// Writes messages of these times as one segment.
    fn write(folder: &Path, times: &[u64]) {
        let bounds = SegmentBounds { max_bytes: 1 << 30, max_age: Duration::MAX };
        let line = |time: &u64| Message { id: time.to_string(), timestamp: *time, ..Message::default() }.to_line();
        let lines: Vec<u8> = times.iter().flat_map(line).collect();
        SegmentWriter::new(folder.to_owned(), bounds).append(&lines).unwrap();
    }

    fn times(reader: &mut ArchiveReader) -> Vec<u64> {
        std::iter::from_fn(|| reader.next().unwrap()).map(|(message, _)| message.timestamp).collect()
    }

    #[test]
    fn a_replay_has_the_messages_from_its_time_to_its_begin() {
        let folder = folder("times");
        assert_eq!(times(&mut ArchiveReader::new(&folder, ArchiveReplay::new(&folder, 0).unwrap())), [0; 0]);
        write(&folder, &[1, 7, 3]);
        write(&folder, &[9, 2]);
        let replay = ArchiveReplay::new(&folder, 3).unwrap();
        write(&folder, &[10]);
        assert_eq!(times(&mut ArchiveReader::new(&folder, replay)), [7, 3, 9]);
        let (_, first) = segments(&folder).unwrap().remove(0);
        fs::remove_file(first).unwrap();
        assert_eq!(times(&mut ArchiveReader::new(&folder, replay)), [9], "older messages are deleted");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_line_is_read_again_after_an_error() {
        let folder = folder("error");
        write(&folder, &[1, 2, 3]);
        let mut reader = ArchiveReader::new(&folder, ArchiveReplay::new(&folder, 0).unwrap());
        assert_eq!(reader.next().unwrap().unwrap().0.timestamp, 1);
        let (_, path) = segments(&folder).unwrap().remove(0);
        // A file that is open for writing alone cannot be read.
        reader.file = Some(BufReader::new(File::options().append(true).open(path).unwrap()));
        assert!(reader.next().is_err());
        assert_eq!(times(&mut reader), [2, 3]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_replay_continues_behind_finished_messages() {
        let folder = folder("on");
        write(&folder, &[1, 2]);
        write(&folder, &[3, 4]);
        let mut replay = ArchiveReplay::new(&folder, 0).unwrap();
        let mut reader = ArchiveReader::new(&folder, replay);
        for rest in [&[2, 3, 4][..], &[3, 4], &[4], &[]] {
            replay.done = reader.next().unwrap().unwrap().1;
            replay.save(&folder).unwrap();
            assert_eq!(ArchiveReplay::load(&folder).unwrap(), Some(replay));
            assert_eq!(times(&mut ArchiveReader::new(&folder, replay)), rest);
        }
        ArchiveReplay::remove(&folder).unwrap();
        assert_eq!(ArchiveReplay::load(&folder).unwrap(), None);
        fs::write(folder.join(STATE), "{}").unwrap();
        assert!(ArchiveReplay::load(&folder).is_err());
        fs::remove_dir_all(folder).unwrap();
    }
}
