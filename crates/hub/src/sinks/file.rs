//! A file of lines of JSON. A batch is written and synced before its messages are acknowledged. A finished file is
//! renamed whole, so that a program that collects such files never sees half of one.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use super::{Sink, SinkError};
use crate::record::Record;
use crate::time::{rfc3339, wall_clock};

/// Bytes that are read at once to find the end of the last whole line.
const BLOCK: u64 = 64 << 10;

/// Which file, and when it is finished.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileSettings {
    /// The file that is written.
    pub path: PathBuf,
    /// Bytes at which it is finished; 0 for never.
    pub rotate_bytes: u64,
    /// Age at which it is finished; zero for never.
    pub rotate_time: Duration,
}

/// All files that are written: pipelines share them. A file is closed when its last pipeline has ended, since another
/// process may then write it.
#[derive(Debug, Default)]
pub struct FileSinks(Mutex<HashMap<PathBuf, Weak<Mutex<Writer>>>>);

impl FileSinks {
    pub(super) fn open(&self, settings: &FileSettings) -> FileSink {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(writer) = all.get(&settings.path).and_then(Weak::upgrade) {
            return FileSink(writer);
        }
        let writer = Arc::new(Mutex::new(Writer { settings: settings.clone(), open: None }));
        all.insert(settings.path.clone(), Arc::downgrade(&writer));
        FileSink(writer)
    }
}

/// A file of one pipeline, or shared by several.
#[derive(Clone, Debug)]
pub(super) struct FileSink(Arc<Mutex<Writer>>);

impl Sink for FileSink {
    fn write(&mut self, batch: &[Arc<Record>]) -> Result<(), SinkError> {
        let mut lines = Vec::new();
        for record in batch {
            lines.extend_from_slice(record.json().as_bytes());
            lines.push(b'\n');
        }
        let mut writer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let written = writer.write(&lines);
        if written.is_err() {
            // The written part of the batch is cut off when the file is opened again.
            writer.open = None;
        }
        written.map_err(|error| SinkError::away(format_args!("{}: {error}", writer.settings.path.display())))
    }
}

#[derive(Debug)]
struct Writer {
    settings: FileSettings,
    open: Option<OpenFile>,
}

#[derive(Debug)]
struct OpenFile {
    file: File,
    /// Bytes of whole batches.
    len: u64,
    begun: SystemTime,
}

impl Writer {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.open.as_ref().is_some_and(|open| self.is_finished(open, lines.len())) {
            self.finish()?;
        }
        let open = match &mut self.open {
            Some(open) => open,
            None => self.open.insert(open(&self.settings.path)?),
        };
        if let Err(error) = open.file.write_all(lines).and_then(|()| open.file.sync_data()) {
            // Half a batch is not left behind: it comes again.
            open.file.set_len(open.len)?;
            return Err(error);
        }
        open.len += lines.len() as u64;
        Ok(())
    }

    fn is_finished(&self, open: &OpenFile, more: usize) -> bool {
        let FileSettings { rotate_bytes, rotate_time, .. } = self.settings;
        let is_full = rotate_bytes > 0 && open.len + more as u64 > rotate_bytes;
        let age = SystemTime::now().duration_since(open.begun).unwrap_or_default();
        open.len > 0 && (is_full || (!rotate_time.is_zero() && age >= rotate_time))
    }

    /// Renames the file, whole. Another one begins with the next batch.
    fn finish(&mut self) -> io::Result<()> {
        self.open = None;
        let path = &self.settings.path;
        fs::rename(path, finished_name(path))?;
        sync_directory(path)
    }
}

/// `readings.ndjson` is finished as `readings-20260102T030405.678Z.ndjson`.
fn finished_name(path: &Path) -> PathBuf {
    let stamp = rfc3339(wall_clock()).replace(['-', ':'], "");
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().map(|extension| format!(".{}", extension.to_string_lossy())).unwrap_or_default();
    let name = |more: &str| path.with_file_name(format!("{stem}-{stamp}{more}{extension}"));
    // Sorted by name, files of one millisecond are in their order: `_` is behind `.`.
    let numbered = (2..1_000).map(|number| name(&format!("_{number:03}")));
    std::iter::once(name("")).chain(numbered).find(|path| !path.exists()).unwrap_or_else(|| name("_last"))
}

/// Opens a file at the end of its last whole line. The bytes after it were never acknowledged.
fn open(path: &Path) -> io::Result<OpenFile> {
    let is_new = prepare_directory(path)?;
    let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
    let len = end_of_lines(&mut file)?;
    file.set_len(len)?;
    if is_new {
        file.sync_all()?;
        sync_directory(path)?;
    }
    let metadata = file.metadata()?;
    let begun = if len == 0 { SystemTime::now() } else { metadata.created().or_else(|_| metadata.modified())? };
    Ok(OpenFile { file, len, begun })
}

/// Makes the directory of a file. Returns whether the file is not there yet.
pub(super) fn prepare_directory(path: &Path) -> io::Result<bool> {
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        fs::create_dir_all(directory)?;
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

    fn directory(name: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("tidegate-hub-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        directory
    }

    fn record(number: u64) -> Arc<Record> {
        Arc::new(Record { fields: vec![("n".into(), json!(number))], ..Record::default() })
    }

    fn sink(path: &Path, rotate_bytes: u64) -> FileSink {
        let settings = FileSettings { path: path.to_owned(), rotate_bytes, rotate_time: Duration::ZERO };
        FileSinks::default().open(&settings)
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

    #[test]
    fn pipelines_share_a_file() {
        let path = directory("shared").join("readings.ndjson");
        let files = FileSinks::default();
        let settings = FileSettings { path: path.clone(), rotate_bytes: 8, ..FileSettings::default() };
        let (mut one, mut other) = (files.open(&settings), files.open(&settings));
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
        files.open(&settings).write(&[record(1)]).unwrap();
        fs::remove_file(&path).unwrap();
        files.open(&settings).write(&[record(2)]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"n\":2}\n", "it is opened again");
    }
}
