//! Directories of the embedded bus of earlier versions, as files of this repository. Each folder of `tests/fixtures/` is
//! one and is never written again: a new format gets a new folder. `UPDATE_FIXTURES=1 cargo test -p tidegate-bus --test
//! bus versions` writes the folder of this version where it is missing.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use tidegate_bus::{Append, BusError, Epoch, LogPartition, LogSpec, Position, Record};

use crate::client::{Client, log, place};
use crate::directory::{Folder, connected};
use crate::settings;

/// The format of this version.
const CURRENT: &str = "directory-3";

/// How many bytes at the beginning of each file name its format: `TGb` and the number.
const FORMAT_LEN: usize = 4;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// A fenced log, a shared one, and one that keeps the latest record of each key.
struct Logs {
    state: LogPartition,
    inbox: LogPartition,
    keyed: LogPartition,
}

impl Logs {
    fn create(client: &Client) -> Self {
        client.create(LogSpec::fenced(log("state"), 2)).unwrap();
        client.create(LogSpec::shared(log("inbox"), 1)).unwrap();
        client.create(LogSpec::shared(log("keyed"), 1).latest_of_key()).unwrap();
        Self { state: place("state", 1), inbox: place("inbox", 0), keyed: place("keyed", 0) }
    }
}

fn open(folder: &Folder) -> (Client, Logs) {
    let client = Client(connected(&folder.address(true), settings()));
    let logs = Logs::create(&client);
    (client, logs)
}

/// Two owners: the second has appended six records and trimmed two; a record with a key and headers; a key with
/// two values and one that is removed.
fn write_current(target: &Path) {
    let folder = Folder::new();
    let (client, logs) = open(&folder);
    client.own(&logs.state);
    let owner = client.own(&logs.state);
    for number in 0..6 {
        client.append(&logs.state, Append::new(number.to_string()).by(owner)).unwrap();
    }
    let below = client.all(&logs.state)[2].position;
    client.trim(&logs.state, below);
    let message = Append::new(vec![0, 1, 255]).with_key("k").with_header("kind", "first").with_header("kind", "second");
    client.append(&logs.inbox, message).unwrap();
    for (key, value) in [("a", "1"), ("b", "2"), ("a", "3"), ("b", "")] {
        client.append(&logs.keyed, Append::new(value).with_key(key)).unwrap();
    }
    drop(client);
    fs::create_dir_all(target).unwrap();
    for entry in fs::read_dir(folder.file("")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "log") {
            fs::copy(&path, target.join(path.file_name().unwrap())).unwrap();
        }
    }
}

/// The format that each log file of a directory names, with its file name, in order.
fn formats(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut formats: Vec<_> = files
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(path).unwrap()))
        .map(|(name, content)| (name, content[..FORMAT_LEN].to_vec()))
        .collect();
    formats.sort();
    formats
}

fn payloads(records: &[Record]) -> Vec<String> {
    records.iter().map(crate::client::text).collect()
}

#[test]
fn this_version_writes_the_format_of_its_fixture() {
    let folder = Folder::new();
    let written = folder.file("written");
    write_current(&written);
    let formats = formats(&written);
    assert_eq!(formats.len(), 3, "{formats:?}");
    assert_eq!(formats, self::formats(&fixtures().join(CURRENT)), "a new format gets a new fixture");
    let number = CURRENT.strip_prefix("directory-").unwrap();
    assert!(formats.iter().all(|(_, format)| *format == format!("TGb{number}").into_bytes()), "{formats:?}");
}

#[test]
fn directories_of_each_version_are_opened_and_used_on() {
    let current = fixtures().join(CURRENT);
    if std::env::var_os("UPDATE_FIXTURES").is_some() && !current.exists() {
        write_current(&current);
    }
    assert!(current.exists(), "UPDATE_FIXTURES=1 writes the directory of this version");
    for kept in fs::read_dir(fixtures()).unwrap() {
        let kept = kept.unwrap().path();
        let folder = Folder::new();
        fs::DirBuilder::new().mode(0o700).create(folder.file("")).unwrap();
        for file in fs::read_dir(&kept).unwrap() {
            let path = file.unwrap().path();
            fs::copy(&path, folder.file(&path.file_name().unwrap().to_string_lossy())).unwrap();
        }
        let (client, logs) = open(&folder);
        let state = client.all(&logs.state);
        assert_eq!(payloads(&state), ["2", "3", "4", "5"], "{}", kept.display());
        // The position of the first owner's claim, which the second one replaced.
        let late = client.append(&logs.state, Append::new("late").by(Epoch(Position(0))));
        assert!(matches!(late, Err(BusError::Fenced { .. })), "{late:?}");
        let inbox = client.all(&logs.inbox);
        let [record] = inbox.as_slice() else { panic!("one record, not {inbox:?}") };
        assert_eq!((&record.key[..], &record.payload[..]), (&b"k"[..], &[0, 1, 255][..]));
        let headers: Vec<(&str, &str)> =
            record.headers.iter().map(|header| (header.name.as_str(), header.value.as_str())).collect();
        assert_eq!(headers, [("kind", "first"), ("kind", "second")]);
        let keyed = client.all(&logs.keyed);
        let latest = keyed.iter().rev().find(|record| &record.key[..] == b"a").unwrap();
        assert_eq!(&latest.payload[..], b"3");
        // It is used on, and opened again.
        let owner = client.own(&logs.state);
        client.append(&logs.state, Append::new("next").by(owner)).unwrap();
        drop(client);
        let (client, logs) = open(&folder);
        assert_eq!(payloads(&client.all(&logs.state)), ["2", "3", "4", "5", "next"], "{}", kept.display());
    }
}
