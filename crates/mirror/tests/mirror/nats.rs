//! The mirror on a real NATS server, which each test starts for itself.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_bus::{Append, Bus, LogSpec, Position, Record, Settings};
use tidegate_mirror::{Damage, Lost, MirrorDisk, MirrorError};
use tidegate_store::operation::put;
use tidegate_store::{Disk, Running, Settings as StoreSettings, State, keep_all};

use crate::fencing::submit;
use crate::harness::{
    Folder, PATIENCE, ask, contents, contents_on, embedded, mirror, mirror_settings, place, records, stepped,
    store_settings,
};

#[path = "../../../bus/tests/nats/server.rs"]
mod server;

use server::Nats;

impl Nats {
    fn bus(&self, max_waiting_time: Duration) -> Bus {
        let settings = Settings { max_waiting_time, ..Settings::default() };
        let address = self.address().parse().unwrap();
        Bus::open(&address, settings, Arc::new(|_| {})).unwrap()
    }

    /// Deletes one message of a stream, as a fault of the server does.
    fn delete(&self, stream: &str, sequence: u64) {
        let connection = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let mut answers = BufReader::new(connection.try_clone().unwrap());
        let question = format!("{{\"seq\":{sequence}}}");
        let subject = format!("$JS.API.STREAM.MSG.DELETE.{stream}");
        let text = format!(
            "CONNECT {{\"verbose\":false}}\r\nSUB answer 1\r\nPUB {subject} answer {}\r\n{question}\r\n",
            question.len()
        );
        (&connection).write_all(text.as_bytes()).unwrap();
        let mut line = String::new();
        while !line.starts_with("MSG answer") {
            line.clear();
            assert_ne!(answers.read_line(&mut line).unwrap(), 0, "the server has closed the connection");
        }
        let length: usize = line.split_whitespace().next_back().unwrap().parse().unwrap();
        let mut answer = vec![0; length];
        answers.read_exact(&mut answer).unwrap();
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.contains("\"success\":true"), "{answer}");
    }
}

/// A store with its threads.
struct Node {
    running: Running,
    commits: Receiver<u64>,
    disk: Arc<MirrorDisk>,
    sequence: u64,
}

impl Node {
    fn start(disk: Arc<MirrorDisk>) -> Self {
        let shared: Arc<dyn Disk> = Arc::clone(&disk) as Arc<dyn Disk>;
        let settings = StoreSettings { segment_bytes: 256 * 1024, merge_min_bytes: 1 << 20, ..store_settings() };
        let store = tidegate_store::open(shared, settings, keep_all()).unwrap().store;
        let (sender, commits) = channel();
        let reported = move |_: u16, sequence: u64| {
            let _ = sender.send(sequence);
        };
        Self { running: store.start(Box::new(reported)).unwrap(), commits, disk, sequence: 0 }
    }

    fn submit(&mut self, count: u64) {
        for _ in 0..count {
            self.sequence += 1;
            let mut batch = Vec::new();
            put(&mut batch, &self.sequence.to_be_bytes(), &[7; 300]).unwrap();
            self.running.writer(0).submit(self.sequence, batch).unwrap();
        }
    }

    fn wait(&self) {
        while self.commits.recv_timeout(PATIENCE).expect("a commit") < self.sequence {}
    }

    fn load(&self) -> usize {
        let (sender, loaded) = channel();
        let done = Box::new(move |loaded: Result<tidegate_store::Loaded, _>| drop(sender.send(loaded)));
        self.running.reader().load(Vec::new(), vec![0xFF; 9], usize::MAX, done);
        loaded.recv_timeout(PATIENCE).unwrap().unwrap().entries.len()
    }
}

fn until(awaited: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{awaited} did not come");
        thread::yield_now();
    }
}

#[test]
fn commits_wait_for_a_killed_server_and_none_is_lost() {
    let (mut nats, folder) = (Nats::start(), Folder::new());
    // Appends fail while the server is unreachable, so that the mirror has to find out which were stored; otherwise
    // they are in time.
    let bus = nats.bus(Duration::from_secs(2));
    let mut node = Node::start(mirror(&bus, "a", folder.path()).unwrap().disk);
    node.submit(100);
    node.wait();
    for round in 1..=3 {
        node.submit(50);
        nats.kill();
        node.submit(50);
        until("an append that fails", || node.disk.status().is_interrupted);
        let reported: Vec<u64> = node.commits.try_iter().collect();
        assert!(reported.last().is_none_or(|last| *last < node.sequence), "only commits on the bus are reported");
        assert!(node.load() >= round * 100, "reads continue");
        nats.resume();
        node.wait();
    }
    assert_eq!(node.disk.lost(), None);
    // The machine is lost: only the bus has the files.
    drop((node, folder));
    assert_eq!(contents_on(&bus, "a").len(), 400);
}

#[test]
fn a_server_that_loses_its_disk_is_given_all_files_again() {
    let (mut nats, folder) = (Nats::start(), Folder::new());
    let bus = nats.bus(Duration::from_secs(5));
    let mut node = Node::start(mirror(&bus, "a", folder.path()).unwrap().disk);
    node.submit(1_000);
    node.wait();
    for _ in 0..2 {
        node.submit(100);
        nats.kill();
        nats.wipe();
        node.submit(100);
        nats.resume();
        // They are confirmed when everything is there again.
        node.wait();
        until("the end of filling", || !node.disk.status().is_interrupted);
    }
    node.submit(100);
    node.wait();
    assert_eq!(node.disk.lost(), None);
    assert_eq!(node.load(), 1_500);
    drop((node, folder));
    assert_eq!(contents_on(&bus, "a").len(), 1_500);
}

#[test]
fn files_that_change_while_the_bus_is_filled_again_stay_whole() {
    const BYTES: usize = 4_096;
    let (mut nats, folder) = (Nats::start(), Folder::new());
    let bus = nats.bus(Duration::from_secs(5));
    let settings = tidegate_mirror::Settings {
        chunk_bytes: BYTES,
        max_unconfirmed_bytes: BYTES,
        ..mirror_settings("a", folder.path())
    };
    let disk = tidegate_mirror::open(&bus, settings).unwrap().disk;
    let file = disk.create("written").unwrap();
    disk.replace("replaced", b"old").unwrap();
    nats.kill();
    nats.wipe();
    // It is not confirmed, so the next write waits for it.
    file.write_at(&[1; BYTES], 0).unwrap();
    thread::scope(|scope| {
        let (disk, file) = (&disk, &file);
        let again = scope.spawn(move || file.write_at(&[2; BYTES], 0).and_then(|()| file.sync_data()));
        let other = scope.spawn(move || disk.replace("replaced", b"new"));
        until("a file that waits for the bus", || folder.path().join("replaced.new").exists());
        nats.resume();
        assert!(again.join().unwrap().is_ok() && other.join().unwrap().is_ok(), "{:?}", disk.lost());
    });
    until("the end of filling", || !disk.status().is_interrupted);
    assert_eq!(disk.lost(), None);
    disk.close(PATIENCE);
    drop((file, disk, folder));
    let elsewhere = Folder::new();
    let copy = mirror(&bus, "a", elsewhere.path()).unwrap();
    let content = |name: &str| std::fs::read(elsewhere.path().join(name)).unwrap();
    assert!(content("written") == [2; BYTES] && content("replaced") == b"new", "{:?}", copy.report);
}

/// A server that lets logs reserve so much.
fn server_with_room_for(size: &str) -> Nats {
    Nats::start_with(|directory| {
        let file = directory.join("nats.conf");
        std::fs::write(&file, format!("jetstream {{ max_file_store: {size} }}\n")).unwrap();
        vec!["-c".to_owned(), file.to_str().unwrap().to_owned()]
    })
}

#[test]
fn a_bus_with_little_room_gets_a_log_with_a_lower_limit() {
    const MIB: u64 = 1 << 20;
    let (nats, folder, other) = (server_with_room_for("800MB"), Folder::new(), Folder::new());
    let bus = nats.bus(Duration::from_secs(10));
    let wanted = |directory: &Folder, least_bytes| tidegate_mirror::Settings {
        max_bytes: 1024 * MIB,
        least_bytes,
        ..mirror_settings("a", directory.path())
    };
    let opened = tidegate_mirror::open(&bus, wanted(&folder, 64 * MIB)).unwrap();
    assert_eq!(opened.report.max_bytes, 512 * MIB);
    drop(opened);
    // The log that is there is taken as it is.
    let opened = tidegate_mirror::open(&bus, wanted(&folder, 64 * MIB)).unwrap();
    assert_eq!(opened.report.max_bytes, 512 * MIB);
    drop(opened);
    // A log with a lower limit keeps it, too, and is not halved further.
    let smaller = Folder::new();
    let of_c = |max_bytes| tidegate_mirror::Settings {
        log: tidegate_mirror::log_of("c").unwrap(),
        max_bytes,
        ..wanted(&smaller, 64 * MIB)
    };
    drop(tidegate_mirror::open(&bus, of_c(72 * MIB)).unwrap());
    assert_eq!(tidegate_mirror::open(&bus, of_c(130 * MIB)).unwrap().report.max_bytes, 72 * MIB);
    // A limit that may not shrink is refused.
    let settings =
        tidegate_mirror::Settings { log: tidegate_mirror::log_of("b").unwrap(), ..wanted(&other, 1024 * MIB) };
    let Err(error) = tidegate_mirror::open(&bus, settings) else { panic!("there is no room") };
    assert!(error.to_string().contains("the bus has no room for log store-b"), "{error}");
}

#[test]
fn a_second_process_fences_the_first_on_a_real_server() {
    let (nats, mine, theirs) = (Nats::start(), Folder::new(), Folder::new());
    let bus = nats.bus(Duration::from_secs(10));
    let mut node = Node::start(mirror(&bus, "a", mine.path()).unwrap().disk);
    node.submit(500);
    node.wait();
    let other_bus = nats.bus(Duration::from_secs(10));
    let newer = mirror(&other_bus, "a", theirs.path()).unwrap().disk;
    node.submit(10);
    until("the fence", || matches!(node.running.status().state(), State::Fenced(_)));
    assert_eq!(node.disk.lost(), Some(Lost::Fenced(place("a").log)));
    assert_eq!(node.commits.try_iter().count(), 0);
    assert_eq!(contents(&stepped(&newer, store_settings()).0).len(), 500);
}

#[test]
fn a_mirror_can_be_closed_while_the_server_is_away() {
    let (mut nats, folder) = (Nats::start(), Folder::new());
    let bus = nats.bus(Duration::from_secs(60));
    let mut node = Node::start(mirror(&bus, "a", folder.path()).unwrap().disk);
    nats.kill();
    node.submit(10);
    node.disk.close(Duration::from_millis(100));
    node.running.stop();
    assert_eq!(node.commits.try_iter().count(), 0);
}

/// Commits of the store that [`copied_log`] puts on a server.
const COMMITS: u64 = 20;

/// The log of a store on a server, behind some records of an earlier log. Returns the positions of all records.
fn copied_log(bus: &Bus, earlier: usize) -> Vec<Position> {
    let (other, folder) = (embedded(), Folder::new());
    let disk = mirror(&other, "a", folder.path()).unwrap().disk;
    let (mut store, _) = stepped(&disk, store_settings());
    for sequence in 1..=COMMITS {
        submit(&mut store, sequence);
        while !store.step() {}
    }
    let log = records(&other, "a");
    ask(|done| bus.create(LogSpec::fenced(place("a").log, 1), done));
    let epoch = ask(|done| bus.own(&place("a"), done));
    let append =
        |record: &Record| ask(|done| bus.append(&place("a"), Append::new(record.payload.clone()).by(epoch), done));
    log.iter().take(earlier).chain(&log).map(append).collect()
}

#[test]
fn a_store_is_fetched_behind_records_that_are_gone() {
    let nats = Nats::start();
    let bus = nats.bus(Duration::from_secs(10));
    let positions = copied_log(&bus, 3);
    nats.delete("tidegate_store-a_0", positions[2].0);
    let elsewhere = Folder::new();
    tidegate_mirror::fetch(&bus, &place("a").log, elsewhere.path(), None).unwrap();
    let local = Arc::new(tidegate_store::RealDisk::create(elsewhere.path()).unwrap());
    let fetched = tidegate_store::open(local, store_settings(), keep_all()).unwrap().store;
    let mut found = 0;
    fetched.for_each(&mut |_, _| found += 1).unwrap();
    assert_eq!(found, COMMITS);
    assert_eq!(contents_on(&bus, "a").len() as u64, COMMITS, "its owner, without its files");
}

/// Nothing says then which files the log had: it is neither read without end nor filled from another store.
#[test]
fn a_log_without_a_list_behind_a_hole_is_damaged() {
    let nats = Nats::start();
    let bus = nats.bus(Duration::from_secs(10));
    let positions = copied_log(&bus, 0);
    nats.delete("tidegate_store-a_0", positions.last().unwrap().0);
    let (elsewhere, foreign) = (Folder::new(), Folder::new());
    for fence in [None, Some(1)] {
        let fetched = tidegate_mirror::fetch(&bus, &place("a").log, elsewhere.path(), fence).unwrap_err();
        assert!(matches!(fetched, MirrorError::Damaged { damage: Damage::Missing, .. }), "{fetched}");
    }
    let local = Arc::new(tidegate_store::RealDisk::create(foreign.path()).unwrap());
    drop(tidegate_store::open(local, store_settings(), keep_all()).unwrap());
    let Err(opened) = mirror(&bus, "a", foreign.path()) else { panic!("the log is not this store's") };
    assert!(matches!(opened, MirrorError::Damaged { damage: Damage::Missing, .. }), "{opened}");
}
