//! The embedded bus in a directory, which one process serves to all: to processes of this test, and to this one.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;

use tidegate_bus::{Address, Append, Bus, BusError, Keep, LogSpec, Observer, Position, Settings, Writers};

use crate::client::{Client, PATIENCE, log, place, text};
use crate::{Deployment, Outages, settings};

/// Tells a process of this test which directory it serves.
const SERVE: &str = "TIDEGATE_TEST_BUS_DIRECTORY";

/// A directory that is removed with this.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("tidegate-bus-{}-{number}", std::process::id())))
    }

    pub(crate) fn address(&self, serves: bool) -> Address {
        Address::Directory { path: self.0.clone(), serves }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A bus that is connected.
pub(crate) fn connected(address: &Address, settings: Settings) -> Bus {
    let (connected, wait) = channel();
    let observer = Arc::new(move |connection| _ = connected.send(connection));
    let bus = Bus::open(address, settings, observer).unwrap();
    wait.recv_timeout(PATIENCE).expect("a connection");
    bus
}

/// Buses of this process; the first one serves the others.
struct Shared {
    first: Bus,
    folder: Folder,
}

impl Shared {
    fn start() -> Self {
        let folder = Folder::new();
        Self { first: connected(&folder.address(true), settings()), folder }
    }
}

impl Deployment for Shared {
    fn bus(&self) -> Bus {
        assert!(self.first.connection().is_connected());
        connected(&self.folder.address(true), settings())
    }

    const LIMITS_LOGS: bool = true;
}

/// A process that serves a directory, and can be killed.
struct Served {
    process: Option<Child>,
    folder: Folder,
}

impl Served {
    fn start() -> Self {
        let mut served = Self { process: None, folder: Folder::new() };
        served.resume();
        served
    }
}

impl Deployment for Served {
    fn bus(&self) -> Bus {
        connected(&self.folder.address(false), settings())
    }

    const LIMITS_LOGS: bool = true;
}

impl Outages for Served {
    fn bus_with(&self, settings: Settings, observer: Observer) -> Bus {
        Bus::open(&self.folder.address(false), settings, observer).unwrap()
    }

    fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    fn resume(&mut self) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "directory::serves_a_directory_in_a_separate_process", "--ignored", "--nocapture"]);
        command.env(SERVE, &self.folder.0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains("serving")), "it does not serve");
        self.process = Some(process);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.kill();
    }
}

#[test]
#[ignore = "other tests start it as a separate process"]
fn serves_a_directory_in_a_separate_process() {
    let path: PathBuf = std::env::var_os(SERVE).unwrap().into();
    let _bus = connected(&Address::Directory { path, serves: true }, settings());
    println!("serving");
    // Until the test that has started it ends.
    let _ = std::io::stdin().read(&mut [0]);
}

mod promises {
    crate::suite!(a_test_each, super::Shared::start());
}

mod another_process {
    crate::suite!(a_test_each, super::Served::start());
}

mod outages {
    crate::outages!(a_test_each, super::Served::start());
}

/// Appends to two logs, and kills the server meanwhile; the bus of this process takes its place.
fn kill_the_server_in_the_midst_of_appends(damage: impl FnOnce(&Path)) {
    let mut served = Served::start();
    let first = Client(connected(&served.folder.address(false), settings()));
    first.create(LogSpec::shared(log("inbox"), 1)).unwrap();
    first.create(LogSpec::fenced(log("state"), 1)).unwrap();
    let (inbox, state) = (place("inbox", 0), place("state", 0));
    let owner = first.own(&state);
    let mut tail = first.reader(&state, Position::START);
    let append = |number: usize| {
        let text = number.to_string();
        let shared = first.begin(&inbox, Append::new(text.clone())).unwrap();
        (shared, first.begin(&state, Append::new(text).by(owner)).unwrap())
    };
    let mut begun: Vec<_> = (0..500).map(append).collect();
    served.kill();
    begun.extend((500..600).map(append));
    damage(&served.folder.0);
    let second = Client(connected(&served.folder.address(true), settings()));
    begun.extend((600..700).map(append));
    let expected: Vec<String> = (0..700).map(|number| number.to_string()).collect();
    for (shared, fenced) in begun {
        shared.wait().unwrap();
        fenced.wait().unwrap();
    }
    second.create(LogSpec::shared(log("inbox"), 1)).unwrap();
    second.create(LogSpec::fenced(log("state"), 1)).unwrap();
    assert_eq!(second.payloads(&inbox), expected);
    assert_eq!(second.payloads(&state), expected);
    assert_eq!(tail.take(700).unwrap().iter().map(text).collect::<Vec<_>>(), expected);
    let next = second.own(&state);
    assert!(matches!(first.append(&state, Append::new("late").by(owner)), Err(BusError::Fenced { .. })));
    second.append(&state, Append::new("next").by(next)).unwrap();
}

#[test]
fn appends_under_way_are_stored_once_when_the_server_dies() {
    kill_the_server_in_the_midst_of_appends(|_| {});
}

#[test]
fn a_torn_record_of_a_dead_server_is_appended_again() {
    kill_the_server_in_the_midst_of_appends(|directory| {
        for name in ["tidegate.inbox.log", "tidegate.state.log"] {
            let mut file = fs::OpenOptions::new().append(true).open(directory.join(name)).unwrap();
            file.write_all(b"TGbb the beginning of a record").unwrap();
        }
    });
}

#[test]
fn members_take_turns_at_serving_and_lose_nothing() {
    let folder = Folder::new();
    let open = || Client(connected(&folder.address(true), settings()));
    let mut members: Vec<Client> = (0..3).map(|_| open()).collect();
    members[2].create(LogSpec::shared(log("inbox"), 1)).unwrap();
    let mut begun = Vec::new();
    for turn in 0..6 {
        let number = |part: usize| format!("{turn} {part}");
        begun.extend((0..50).map(|part| members[2].begin(&place("inbox", 0), Append::new(number(part))).unwrap()));
        // The serving process leaves, and a new process joins.
        members.remove(0);
        members.insert(1, open());
        begun.extend((50..60).map(|part| members[2].begin(&place("inbox", 0), Append::new(number(part))).unwrap()));
        members.swap(0, 1);
    }
    let count = begun.len();
    for later in begun {
        later.wait().unwrap();
    }
    let read = members[2].payloads(&place("inbox", 0));
    let expected: Vec<String> = (0..6).flat_map(|turn| (0..60).map(move |part| format!("{turn} {part}"))).collect();
    assert_eq!((read.len(), read), (count, expected));
}

#[test]
fn a_process_that_dies_leaves_the_bus_as_it_is() {
    let folder = Folder::new();
    let here = Client(connected(&folder.address(true), settings()));
    here.create(LogSpec::shared(log("inbox"), 1)).unwrap();
    // It finds the lock taken, and is a client.
    let mut other = Served { process: None, folder };
    other.resume();
    here.append(&place("inbox", 0), Append::new("before")).unwrap();
    other.kill();
    here.append(&place("inbox", 0), Append::new("after")).unwrap();
    assert_eq!(here.payloads(&place("inbox", 0)), ["before", "after"]);
}

#[test]
fn two_deployments_share_a_directory_by_their_prefixes() {
    let folder = Folder::new();
    let open = |prefix: &str| {
        let settings = Settings { prefix: prefix.to_owned(), ..settings() };
        Client(connected(&folder.address(true), settings))
    };
    let clients = ["one", "two"].map(open);
    for (client, prefix) in clients.iter().zip(["one", "two"]) {
        client.create(LogSpec::shared(log("inbox"), 1)).unwrap();
        client.append(&place("inbox", 0), Append::new(prefix)).unwrap();
    }
    for (client, prefix) in clients.iter().zip(["one", "two"]) {
        assert_eq!(client.payloads(&place("inbox", 0)), [prefix]);
    }
}

#[test]
fn confirmed_records_are_there_when_the_directory_opens_again() {
    let folder = Folder::new();
    let open = || Client(connected(&folder.address(true), settings()));
    let (state, keyed) = (place("state", 1), place("keyed", 0));
    let replaced = {
        let client = open();
        client.create(LogSpec::fenced(log("state"), 2)).unwrap();
        client.create(LogSpec { max_records: 5, ..LogSpec::shared(log("keyed"), 1).latest_of_key() }).unwrap();
        let replaced = client.own(&state);
        let owner = client.own(&state);
        for number in 0..10 {
            client.append(&state, Append::new(number.to_string()).by(owner)).unwrap();
            client.append(&keyed, Append::new(number.to_string()).with_key("k")).unwrap();
        }
        let below = client.all(&state)[5].position;
        client.trim(&state, below);
        replaced
    };
    let client = open();
    // Its logs are known to be there.
    client.0.know(LogSpec::fenced(log("state"), 2));
    client.0.know(LogSpec::shared(log("keyed"), 1).latest_of_key());
    assert_eq!(client.payloads(&state), ["5", "6", "7", "8", "9"]);
    assert_eq!(client.payloads(&keyed), ["9"]);
    for number in 0..4 {
        client.append(&keyed, Append::new("x").with_key(format!("k{number}"))).unwrap();
    }
    let full = client.append(&keyed, Append::new("x").with_key("k4"));
    assert!(matches!(full, Err(BusError::Full { ref limit, .. }) if limit == "max_records"), "{full:?}");
    let refused = client.append(&state, Append::new("late").by(replaced));
    assert!(matches!(refused, Err(BusError::Fenced { .. })), "{refused:?}");
    let spec = LogSpec { writers: Writers::Many, keep: Keep::All, ..LogSpec::fenced(log("state"), 2) };
    let other = client.create(spec);
    assert!(matches!(other, Err(BusError::Mismatch { difference: "kind of writers", .. })), "{other:?}");
}

#[test]
fn a_file_is_rewritten_when_little_of_it_is_kept() {
    let folder = Folder::new();
    let open = || Client(connected(&folder.address(true), settings()));
    let (keyed, payload) = (place("keyed", 0), "x".repeat(100_000));
    let client = open();
    client.create(LogSpec::shared(log("keyed"), 1).latest_of_key()).unwrap();
    for number in 0..100 {
        client.append(&keyed, Append::new(format!("{number}{payload}")).with_key("k")).unwrap();
    }
    let length = fs::metadata(folder.file("tidegate.keyed.log")).unwrap().len();
    assert!(length < 6 << 20, "{length} bytes of 10,000,000");
    drop(client);
    let client = open();
    client.create(LogSpec::shared(log("keyed"), 1).latest_of_key()).unwrap();
    let all = client.all(&keyed);
    assert_eq!((all.len(), text(&all[0]) == format!("99{payload}")), (1, true));
}

#[test]
fn a_damaged_file_is_named_until_it_is_moved_away() {
    let folder = Folder::new();
    fs::DirBuilder::new().mode(0o700).create(&folder.0).unwrap();
    let damaged = folder.file("tidegate.inbox.log");
    fs::copy(make_log(), &damaged).unwrap();
    let mut bytes = fs::read(&damaged).unwrap();
    bytes[20] ^= 1;
    fs::write(&damaged, bytes).unwrap();
    let (told, changes) = channel();
    let bus = Bus::open(&folder.address(true), settings(), Arc::new(move |change| _ = told.send(change))).unwrap();
    let failure = crate::client::until(&channel().1, "the fault of the file", || bus.failure());
    assert!(failure.contains("tidegate.inbox.log is damaged at byte 16"), "{failure}");
    fs::remove_file(&damaged).unwrap();
    assert!(changes.recv_timeout(PATIENCE).unwrap().is_connected());
}

/// The file of a log with records.
fn make_log() -> PathBuf {
    let folder = Folder::new();
    let client = Client(connected(&folder.address(true), settings()));
    client.create(LogSpec::shared(log("inbox"), 1)).unwrap();
    client.append(&place("inbox", 0), Append::new("x")).unwrap();
    let copy = std::env::temp_dir().join(format!("tidegate-bus-{}.log", std::process::id()));
    fs::copy(folder.file("tidegate.inbox.log"), &copy).unwrap();
    copy
}

#[test]
fn a_directory_that_is_open_to_others_is_refused() {
    let folder = Folder::new();
    fs::create_dir(&folder.0).unwrap();
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o755)).unwrap();
    let refused = Bus::open(&folder.address(true), settings(), Arc::new(|_| {})).err().unwrap();
    assert!(refused.to_string().contains("chmod 700"), "{refused}");
}
