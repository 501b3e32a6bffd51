//! A file of lines of JSON. A batch is written and synced before its messages are acknowledged. A finished file is
//! renamed whole, so that a program that collects such files never sees half of one. Files of Parquet are made of the
//! lines of a finished file, since they cannot be appended to.

mod lock;
mod marks;

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use self::lock::{is_at, lock, open_locked};
use self::marks::{FileMarks, IdDigest, digest};
use super::place::Ids;
use super::{Sink, SinkError, parquet};
use crate::FileFormat;
use crate::record::Record;
use crate::time::{rfc3339, wall_clock};

/// Bytes that are read at once to find the end of the last whole line.
const BLOCK: u64 = 64 << 10;

/// Which file, and when it is finished.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileSettings {
    /// The file that is written.
    pub path: PathBuf,
    /// The format of finished files. Lines of an unfinished file of Parquet are in `PATH.ndjson`.
    pub format: FileFormat,
    /// Bytes at which it is finished; 0 for never.
    pub rotate_bytes: u64,
    /// Age at which it is finished; zero for never.
    pub rotate_time: Duration,
    /// Whether a record that comes again is left out, by its id.
    pub exactly_once: bool,
}

/// All files that are written: pipelines share them. A file is closed when its last pipeline has ended, since another
/// process may then write it.
#[derive(Debug, Default)]
pub struct FileSinks(Mutex<HashMap<PathBuf, Weak<Mutex<Writer>>>>);

impl FileSinks {
    pub(super) fn open(&self, settings: &FileSettings, ids: Ids) -> FileSink {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(writer) = all.get(&settings.path).and_then(Weak::upgrade) {
            return FileSink { writer, ids };
        }
        let writer = Arc::new(Mutex::new(Writer { settings: settings.clone(), open: None, marks: None }));
        all.insert(settings.path.clone(), Arc::downgrade(&writer));
        FileSink { writer, ids }
    }
}

/// A file of one pipeline, or shared by several.
#[derive(Clone, Debug)]
pub(super) struct FileSink {
    writer: Arc<Mutex<Writer>>,
    ids: Ids,
}

impl Sink for FileSink {
    fn write(&mut self, batch: &[Arc<Record>]) -> Result<(), SinkError> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let written = if writer.settings.exactly_once {
            writer.write_new(batch, &self.ids)
        } else {
            writer.write(&lines(batch), &[])
        };
        if written.is_err() {
            // The written part of the batch is cut off when the file is opened again.
            (writer.open, writer.marks) = (None, None);
        }
        written.map_err(|error| SinkError::away(format_args!("{}: {error}", writer.settings.path.display())))
    }
}

/// Records as lines of JSON.
pub(super) fn lines(batch: &[Arc<Record>]) -> Vec<u8> {
    let mut lines = Vec::new();
    for record in batch {
        lines.extend_from_slice(record.json().as_bytes());
        lines.push(b'\n');
    }
    lines
}

#[derive(Debug)]
struct Writer {
    settings: FileSettings,
    open: Option<OpenFile>,
    /// With `exactly_once`, while nothing has failed.
    marks: Option<FileMarks>,
}

#[derive(Debug)]
struct OpenFile {
    file: File,
    /// Bytes of whole batches.
    len: u64,
    begun: SystemTime,
    inode: u64,
    /// Whether it is locked while a batch is written: some file systems have no locks.
    is_locked: bool,
}

impl OpenFile {
    /// Locks the file for a batch, since other processes of the hub may write it, too. False if another one has finished it.
    fn lock(&mut self, path: &Path, needed: bool) -> io::Result<bool> {
        self.is_locked = lock(&self.file, needed)?;
        if !is_at(path, self.inode)? {
            return Ok(false);
        }
        if self.file.metadata()?.len() != self.len {
            // Another process has written, and may have died with half a line.
            self.len = end_of_lines(&mut self.file)?;
            self.file.set_len(self.len)?;
        }
        Ok(true)
    }
}

impl Writer {
    /// Writes the records that the file does not have.
    fn write_new(&mut self, batch: &[Arc<Record>], ids: &Ids) -> io::Result<()> {
        let marks = match &mut self.marks {
            Some(marks) => marks,
            None => self.marks.insert(FileMarks::open(&self.settings.lines())?),
        };
        let (mut new, mut digests, mut here) = (Vec::new(), Vec::new(), HashSet::new());
        for record in batch {
            let digest = digest(&ids.of(record.id()));
            if !marks.has(&digest) && here.insert(digest) {
                new.push(Arc::clone(record));
                digests.push(digest);
            }
        }
        if new.is_empty() { Ok(()) } else { self.write(&lines(&new), &digests) }
    }

    fn write(&mut self, lines: &[u8], ids: &[IdDigest]) -> io::Result<()> {
        let mut open = match self.open.take() {
            Some(mut open) => {
                if open.lock(&self.settings.lines(), self.settings.exactly_once)? {
                    open
                } else {
                    self.open()?
                }
            }
            None => self.open()?,
        };
        if self.marks.is_none() {
            // While the file is locked, no other writer notes how far it is confirmed.
            marks::forget(&self.settings.lines())?;
        }
        if self.is_finished(&open, lines.len()) {
            self.finish(open)?;
            open = self.open()?;
        }
        let open = self.open.insert(open);
        if let Err(error) = open.file.write_all(lines).and_then(|()| open.file.sync_data()) {
            // Half a batch is not left behind: it comes again.
            open.file.set_len(open.len)?;
            return Err(error);
        }
        open.len += lines.len() as u64;
        if open.is_locked {
            open.file.unlock()?;
        }
        self.marks.as_mut().map_or(Ok(()), |marks| marks.note(open.inode, open.len, ids))
    }

    fn open(&mut self) -> io::Result<OpenFile> {
        convert_finished(&self.settings)?;
        open(&self.settings, self.marks.as_mut())
    }

    fn is_finished(&self, open: &OpenFile, more: usize) -> bool {
        let FileSettings { rotate_bytes, rotate_time, .. } = self.settings;
        let is_full = rotate_bytes > 0 && open.len + more as u64 > rotate_bytes;
        let age = SystemTime::now().duration_since(open.begun).unwrap_or_default();
        open.len > 0 && (is_full || (!rotate_time.is_zero() && age >= rotate_time))
    }

    /// Renames the file, whole. Another one begins with the next batch.
    fn finish(&self, open: OpenFile) -> io::Result<()> {
        let path = &self.settings.path;
        let finished = finished_name(path);
        fs::rename(self.settings.lines(), self.settings.lines_of(&finished))?;
        sync_directory(path)?;
        // The conversion locks the file again.
        drop(open);
        convert_finished(&self.settings)
    }
}

impl FileSettings {
    /// The file that is appended to.
    fn lines(&self) -> PathBuf {
        self.lines_of(&self.path)
    }

    /// The file with the lines of a file.
    fn lines_of(&self, path: &Path) -> PathBuf {
        match self.format {
            FileFormat::Lines => path.to_owned(),
            FileFormat::Parquet => {
                let mut name = path.as_os_str().to_owned();
                name.push(LINES);
                PathBuf::from(name)
            }
        }
    }
}

/// Behind the names of files whose lines become files of Parquet.
const LINES: &str = ".ndjson";

/// Behind the names of files with the lines that no file of Parquet has, since they cannot be read.
const UNREADABLE: &str = ".unreadable";

/// Makes files of Parquet of finished files of lines. After a crash the file is made again, under the same name.
fn convert_finished(settings: &FileSettings) -> io::Result<()> {
    let path = &settings.path;
    if settings.format == FileFormat::Lines {
        return Ok(());
    }
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !directory.exists() {
        return Ok(());
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().map(|extension| format!(".{}", extension.to_string_lossy())).unwrap_or_default();
    for entry in fs::read_dir(directory)? {
        let lines = entry?.path();
        let name = lines.file_name().unwrap_or_default().to_string_lossy();
        let Some(finished) = name.strip_suffix(LINES).filter(|name| is_finished_name(name, &stem, &extension)) else {
            continue;
        };
        let finished = lines.with_file_name(finished);
        let unfinished = finished.with_extension("unfinished");
        let mut aside = finished.as_os_str().to_owned();
        aside.push(UNREADABLE);
        // Another process may convert it at this time, or has done so: its lock is held, or the lines are not there.
        let found = open_locked(OpenOptions::new().read(true).write(true), &lines, &mut |file| {
            lock(file, settings.exactly_once)
        });
        let _locked = match found {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::WouldBlock) => continue,
            found => found?,
        };
        parquet::convert(&lines, &unfinished, Path::new(&aside))?;
        fs::rename(&unfinished, &finished)?;
        sync_directory(&finished)?;
        fs::remove_file(&lines)?;
    }
    Ok(())
}

/// Whether a name is one that [`finished_name`] makes.
fn is_finished_name(name: &str, stem: &str, extension: &str) -> bool {
    let stamp =
        name.strip_prefix(stem).and_then(|rest| rest.strip_prefix('-')).and_then(|rest| rest.strip_suffix(extension));
    let (date, number) = stamp.map_or(("", ""), |stamp| stamp.split_once('_').unwrap_or((stamp, "")));
    let fits = |one: (usize, u8)| match one {
        (8, letter) => letter == b'T',
        (15, letter) => letter == b'.',
        (19, letter) => letter == b'Z',
        (_, letter) => letter.is_ascii_digit(),
    };
    date.len() == 20 && date.bytes().enumerate().all(fits) && number.bytes().all(|one| one.is_ascii_alphanumeric())
}

/// `readings.ndjson` is finished as `readings-20260102T030405.678Z.ndjson`.
fn finished_name(path: &Path) -> PathBuf {
    let stamp = rfc3339(wall_clock()).replace(['-', ':'], "");
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().map(|extension| format!(".{}", extension.to_string_lossy())).unwrap_or_default();
    let name = |more: &str| path.with_file_name(format!("{stem}-{stamp}{more}{extension}"));
    // Sorted by name, files of one millisecond are in their order: `_` is behind `.`.
    let numbered = (2..1_000).map(|number| name(&format!("_{number:03}")));
    let is_free = |path: &PathBuf| !path.exists() && !PathBuf::from(format!("{}{LINES}", path.display())).exists();
    std::iter::once(name("")).chain(numbered).find(is_free).unwrap_or_else(|| name("_last"))
}

/// Opens a file at the end of its last whole line, or where it is confirmed, and locks it. The bytes after it were never
/// acknowledged.
fn open(settings: &FileSettings, marks: Option<&mut FileMarks>) -> io::Result<OpenFile> {
    let path = &settings.lines();
    let is_new = prepare_directory(path)?;
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    let (mut file, is_locked) = open_locked(&options, path, &mut |file| lock(file, settings.exactly_once))?;
    let found = file.metadata()?;
    let confirmed = marks.as_ref().and_then(|marks| marks.confirmed(found.ino()));
    // Someone else has shortened a file with fewer bytes than were confirmed.
    let len = match confirmed.filter(|confirmed| *confirmed <= found.len()) {
        Some(confirmed) => confirmed,
        None => end_of_lines(&mut file)?,
    };
    file.set_len(len)?;
    if is_new {
        file.sync_all()?;
        sync_directory(path)?;
    }
    let metadata = file.metadata()?;
    let begun = if len == 0 { SystemTime::now() } else { metadata.created().or_else(|_| metadata.modified())? };
    if let Some(marks) = marks.filter(|_| confirmed != Some(len)) {
        // Before its first line, so that the inode of an older file, which is used again, has no meaning.
        marks.note(found.ino(), len, &[])?;
    }
    Ok(OpenFile { file, len, begun, inode: found.ino(), is_locked })
}

/// Makes the directory of a file. Returns whether the file is not there yet.
pub(super) fn prepare_directory(path: &Path) -> io::Result<bool> {
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        let said = |error: io::Error| {
            io::Error::new(error.kind(), format!("cannot make the directory {}: {error}", directory.display()))
        };
        fs::create_dir_all(directory).map_err(said)?;
    }
    Ok(!path.exists())
}

fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

/// Where the last whole line ends.
fn end_of_lines(file: &mut File) -> io::Result<u64> {
    let mut end = file.metadata()?.len();
    let mut block = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(BLOCK);
        file.seek(SeekFrom::Start(start))?;
        block.clear();
        Read::by_ref(file).take(end - start).read_to_end(&mut block)?;
        if let Some(at) = block.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::record::Content;

    fn directory(name: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("tidegate-hub-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        directory
    }

    fn record(number: u64) -> Arc<Record> {
        Arc::new(Record { content: Content::Row(vec![("n".into(), json!(number))]), ..Record::default() })
    }

    fn sink(path: &Path, rotate_bytes: u64) -> FileSink {
        let settings = FileSettings { path: path.to_owned(), rotate_bytes, ..FileSettings::default() };
        FileSinks::default().open(&settings, Ids::default())
    }

    #[test]
    fn lines_are_appended_across_starts() {
        let path = directory("appended").join("deep/readings.ndjson");
        sink(&path, 0).write(&[record(1), record(2)]).unwrap();
        sink(&path, 0).write(&[record(3)]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n");
    }

    #[test]
    fn a_torn_last_line_is_cut_off() {
        let path = directory("torn").join("readings.ndjson");
        sink(&path, 0).write(&[record(1)]).unwrap();
        for torn in ["{\"n\":".to_owned(), "x".repeat(200_000)] {
            OpenOptions::new().append(true).open(&path).unwrap().write_all(torn.as_bytes()).unwrap();
            sink(&path, 0).write(&[record(2)]).unwrap();
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.lines().all(|line| line.starts_with("{\"n\":") && line.ends_with('}')), "{text:.60}");
        }
        fs::write(&path, "no line at all").unwrap();
        sink(&path, 0).write(&[record(3)]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"n\":3}\n");
    }

    #[test]
    fn a_full_file_is_renamed_whole() {
        let path = directory("full").join("readings.ndjson");
        let mut sink = sink(&path, 20);
        for number in 0..5 {
            sink.write(&[record(number)]).unwrap();
        }
        let mut finished: Vec<_> = fs::read_dir(path.parent().unwrap())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|other| *other != path)
            .collect();
        finished.sort();
        let text = |path: &PathBuf| fs::read_to_string(path).unwrap();
        assert_eq!(finished.iter().map(text).collect::<Vec<_>>(), ["{\"n\":0}\n{\"n\":1}\n", "{\"n\":2}\n{\"n\":3}\n"]);
        assert_eq!(text(&path), "{\"n\":4}\n");
        assert!(finished[0].extension().is_some_and(|extension| extension == "ndjson"));
    }

    /// A sink that writes each record once, as after a start of the process.
    fn once(path: &Path, rotate_bytes: u64) -> FileSink {
        let settings =
            FileSettings { path: path.to_owned(), rotate_bytes, exactly_once: true, ..FileSettings::default() };
        FileSinks::default().open(&settings, Ids::default())
    }

    /// A record with an id.
    fn named(number: u64) -> Arc<Record> {
        Arc::new(Record { own_id: Some(format!("m-{number}")), ..Record::clone(&record(number)) })
    }

    #[test]
    fn a_record_that_comes_again_is_there_once() {
        let path = directory("once").join("readings.ndjson");
        let numbers = |path: &Path| -> Vec<String> {
            fs::read_to_string(path).unwrap().lines().map(|line| line.replace(['{', '}', '"', 'n', ':'], "")).collect()
        };
        once(&path, 0).write(&[named(1), named(2), named(2)]).unwrap();
        // The process has died before the acknowledgement.
        once(&path, 0).write(&[named(1), named(2), named(3)]).unwrap();
        assert_eq!(numbers(&path), ["1", "2", "3"]);
        // It has died before the note: the lines were not acknowledged.
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"n\":4}\n{\"n\":5}\n").unwrap();
        once(&path, 0).write(&[named(4)]).unwrap();
        assert_eq!(numbers(&path), ["1", "2", "3", "4"]);
        let other = FileSink { ids: Ids::new(&crate::SinkLane::default(), "other"), ..once(&path, 0) };
        { other }.write(&[named(4)]).unwrap();
        assert_eq!(numbers(&path), ["1", "2", "3", "4", "4"], "of another pipeline");
    }

    #[test]
    fn two_processes_write_one_file_in_turns() {
        let path = directory("shared").join("readings.ndjson");
        let mut sinks = [sink(&path, 40), sink(&path, 40)];
        for number in 0..10 {
            sinks[number % 2].write(&[record(number as u64)]).unwrap();
        }
        // One has died within a line.
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"n\":").unwrap();
        sinks[0].write(&[record(10)]).unwrap();
        sinks[1].write(&[record(11)]).unwrap();
        let text = |name: &String| fs::read_to_string(path.with_file_name(name)).unwrap();
        let mut all: Vec<String> = names(path.parent().unwrap())
            .iter()
            .flat_map(|name| text(name).lines().map(str::to_owned).collect::<Vec<_>>())
            .collect();
        all.sort();
        let mut expected: Vec<String> = (0..12).map(|number| format!("{{\"n\":{number}}}")).collect();
        expected.sort();
        assert_eq!(all, expected);
        let mut first = once(&path.with_extension("once"), 0);
        first.write(&[named(1)]).unwrap();
        let refused = once(&path.with_extension("once"), 0).write(&[named(2)]).unwrap_err().to_string();
        assert!(refused.contains("another process writes it"), "{refused}");
    }

    #[test]
    fn a_file_that_another_process_locks_is_away() {
        let path = directory("locked").join("readings.ndjson");
        let mut sink = sink(&path, 0);
        sink.write(&[record(1)]).unwrap();
        let other = OpenOptions::new().append(true).open(&path).unwrap();
        other.lock().unwrap();
        // An open file, then one that is opened.
        for _ in 0..2 {
            let away = sink.write(&[record(2)]).unwrap_err();
            assert!(away.to_string().contains("another process writes it"), "{away}");
        }
        other.unlock().unwrap();
        sink.write(&[record(2)]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"n\":1}\n{\"n\":2}\n");
    }

    #[test]
    fn two_processes_convert_each_finished_file_once() {
        let path = directory("converted").join("readings.parquet");
        let settings = FileSettings { path: path.clone(), format: FileFormat::Parquet, ..FileSettings::default() };
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let rows: Vec<_> = (0..500).map(record).collect();
        let finished = |number: u64| path.with_file_name(format!("readings-20260102T030405.{number:03}Z.parquet"));
        for number in 0..20 {
            fs::write(settings.lines_of(&finished(number)), lines(&rows)).unwrap();
        }
        std::thread::scope(|scope| {
            let all = [(); 3].map(|()| scope.spawn(|| convert_finished(&settings)));
            for one in all {
                one.join().unwrap().unwrap();
            }
        });
        let objects: Vec<parquet::Row> = rows.iter().map(|row| row.object()).collect();
        let expected = parquet::encode(&objects).unwrap();
        for number in 0..20 {
            assert_eq!(fs::read(finished(number)).unwrap(), expected);
        }
        assert_eq!(names(path.parent().unwrap()).len(), 20, "no file of lines is left");
        // Another process converts this one.
        let lines_of = settings.lines_of(&finished(20));
        fs::write(&lines_of, lines(&rows)).unwrap();
        let other = File::open(&lines_of).unwrap();
        other.lock().unwrap();
        convert_finished(&settings).unwrap();
        assert!(!finished(20).exists() && lines_of.exists());
    }

    /// The other one has opened the file, and waits for its lock.
    #[test]
    fn lines_are_not_written_to_a_file_that_was_finished() {
        let path = directory("finished-meanwhile").join("readings.ndjson");
        let mut first = sink(&path, 8);
        first.write(&[record(1)]).unwrap();
        let lock = OpenOptions::new().append(true).open(&path).unwrap();
        lock.lock().unwrap();
        let opened = |path: &Path| {
            let ours = fs::read_dir("/proc/self/fd").unwrap();
            ours.filter(|one| one.as_ref().is_ok_and(|one| fs::read_link(one.path()).is_ok_and(|to| to == path)))
                .count()
        };
        let before = opened(&path);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| sink(&path, 0).write(&[record(2)]));
            while opened(&path) == before && !other.is_finished() {
                std::thread::yield_now();
            }
            fs::rename(&path, path.with_extension("finished")).unwrap();
            lock.unlock().unwrap();
            other.join().unwrap().unwrap();
        });
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"n\":2}\n");
    }

    #[test]
    fn a_record_of_a_finished_file_does_not_come_again() {
        let path = directory("once-finished").join("readings.ndjson");
        for number in 0..10 {
            let mut sink = once(&path, 20);
            sink.write(&[named(number), named(number + 1)]).unwrap();
            // As if the process had died with lines in a file that has no note yet.
            drop(sink);
            let mut file = OpenOptions::new().append(true).open(&path).unwrap();
            file.write_all(b"{\"n\":99}\n").unwrap();
        }
        once(&path, 20).write(&[named(10), named(11)]).unwrap();
        let files: Vec<String> =
            names(path.parent().unwrap()).into_iter().filter(|name| !name.ends_with("marks")).collect();
        let text = |name: &String| fs::read_to_string(path.with_file_name(name)).unwrap();
        let all: String = files.iter().map(text).collect();
        let expected: Vec<String> = (0..12).map(|number| format!("{{\"n\":{number}}}")).collect();
        assert!(files.len() > 3, "{files:?}");
        assert_eq!(all.lines().collect::<HashSet<_>>(), expected.iter().map(String::as_str).collect());
        assert_eq!(all.lines().count(), 12);
    }

    #[test]
    fn lines_that_no_note_is_about_are_kept() {
        let path = directory("once-foreign").join("readings.ndjson");
        once(&path, 0).write(&[named(1)]).unwrap();
        // Without `exactly_once` for a while.
        sink(&path, 0).write(&[named(2)]).unwrap();
        once(&path, 0).write(&[named(3)]).unwrap();
        // A copy of the file, as of a backup.
        let text = fs::read_to_string(&path).unwrap() + "{\"n\":9}\n";
        fs::write(path.with_extension("copy"), &text).unwrap();
        fs::rename(path.with_extension("copy"), &path).unwrap();
        once(&path, 0).write(&[named(4)]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), text + "{\"n\":4}\n");
        fs::write(&path, "").unwrap();
        once(&path, 0).write(&[named(5)]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"n\":5}\n", "a file that someone has shortened");
    }

    #[test]
    fn a_writer_without_notes_forgets_none_that_are_in_use() {
        let path = directory("once-beside").join("readings.ndjson");
        let refused = |plain: &mut FileSink| {
            let refused = plain.write(&[record(9)]).unwrap_err().to_string();
            assert!(refused.contains("give all sinks of one file the same `exactly_once`"), "{refused}");
        };
        let mut plain = sink(&path, 0);
        let mut marked = once(&path, 0);
        marked.write(&[named(1)]).unwrap();
        refused(&mut plain);
        drop(marked);
        plain.write(&[record(2)]).unwrap();
        // The other one begins while this one has the file open.
        let mut marked = once(&path, 0);
        marked.write(&[named(3)]).unwrap();
        refused(&mut plain);
        drop(marked);
        once(&path, 0).write(&[named(3), named(4)]).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n{\"n\":4}\n", "no line is cut off, none is there twice");
    }

    /// Files of a directory, by name.
    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn lines_of_a_finished_file_become_parquet() {
        let path = directory("parquet").join("readings.parquet");
        let settings = FileSettings {
            path: path.clone(),
            format: FileFormat::Parquet,
            rotate_bytes: 20,
            ..FileSettings::default()
        };
        let mut sink = FileSinks::default().open(&settings, Ids::default());
        for number in 0..3 {
            sink.write(&[record(number)]).unwrap();
        }
        let found = names(path.parent().unwrap());
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("readings-") && found[0].ends_with("Z.parquet"), "{found:?}");
        assert_eq!(found[1], "readings.parquet.ndjson");
        let rows: Vec<parquet::Row> = (0..2).map(|number| record(number).object()).collect();
        let written = path.with_file_name(&found[0]);
        assert_eq!(fs::read(&written).unwrap(), parquet::encode(&rows).unwrap());
        // As after a crash while it was made.
        fs::write(path.with_file_name(format!("{}.ndjson", found[0])), "{\"n\":0}\n{\"n\":1}\n").unwrap();
        fs::write(&written, "torn").unwrap();
        let others = ["readings-x.parquet.ndjson", "other-20260102T030405.678Z.parquet.ndjson"];
        for other in others {
            fs::write(path.with_file_name(other), "not ours").unwrap();
        }
        FileSinks::default().open(&settings, Ids::default()).write(&[record(3)]).unwrap();
        assert_eq!(fs::read(&written).unwrap(), parquet::encode(&rows).unwrap());
        let found = names(path.parent().unwrap());
        assert!(others.iter().all(|other| found.contains(&(*other).to_owned())) && found.len() == 4, "{found:?}");
    }

    #[test]
    fn a_line_that_cannot_be_read_is_kept_aside() {
        let path = directory("aside").join("readings.parquet");
        let settings = FileSettings {
            path: path.clone(),
            format: FileFormat::Parquet,
            rotate_bytes: 1,
            ..FileSettings::default()
        };
        let mut deep = json!(1);
        for _ in 0..200 {
            deep = json!([deep]);
        }
        let deep = Arc::new(Record { content: Content::Row(vec![("n".into(), deep)]), ..Record::default() });
        let mut sink = FileSinks::default().open(&settings, Ids::default());
        sink.write(&[record(1), Arc::clone(&deep)]).unwrap();
        sink.write(&[record(2)]).unwrap();
        let found = names(path.parent().unwrap());
        assert_eq!(found.len(), 3, "{found:?}");
        let read = |name: &String| fs::read(path.with_file_name(name)).unwrap();
        assert_eq!(read(&found[0]), parquet::encode(&[record(1).object()]).unwrap());
        assert!(found[1].ends_with(".parquet.unreadable"), "{found:?}");
        assert_eq!(read(&found[1]), format!("{}\n", deep.json()).into_bytes());
    }

    #[test]
    fn pipelines_share_a_file() {
        let path = directory("shared").join("readings.ndjson");
        let files = FileSinks::default();
        let settings = FileSettings { path: path.clone(), rotate_bytes: 8, ..FileSettings::default() };
        let (mut one, mut other) = (files.open(&settings, Ids::default()), files.open(&settings, Ids::default()));
        one.write(&[record(1)]).unwrap();
        other.write(&[record(2)]).unwrap();
        one.write(&[record(3)]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"n\":3}\n", "no line is lost to a file that was renamed");
    }

    #[test]
    fn a_file_is_closed_with_its_last_pipeline() {
        let path = directory("closed").join("readings.ndjson");
        let files = FileSinks::default();
        let settings = FileSettings { path: path.clone(), ..FileSettings::default() };
        files.open(&settings, Ids::default()).write(&[record(1)]).unwrap();
        fs::remove_file(&path).unwrap();
        files.open(&settings, Ids::default()).write(&[record(2)]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"n\":2}\n", "it is opened again");
    }
}
