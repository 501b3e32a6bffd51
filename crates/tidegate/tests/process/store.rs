//! Brokers with a data directory: what survives `kill -9`, what `tidegate store` does with it, and how a start ends
//! that cannot use it.

use std::io::{Read, Seek, SeekFrom, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Instant;

use crate::broker::{Broker, Ended, Folder, PATIENCE, command, run};

/// Runs a client command against a broker.
fn client(broker: &Broker, arguments: &[&str]) -> Ended {
    let (host, port) = broker.address("mqtt://").rsplit_once(':').unwrap();
    run(&[&arguments[..1], &["-h", host, "-p", port], &arguments[1..]].concat())
}

/// A broker whose store holds a session that is owed a message, and a retained message. It was killed.
fn killed_with_state(data: &str) {
    let broker = Broker::start(&["--data", data]);
    let subscribed = client(&broker, &["sub", "-i", "device", "-c", "-q", "1", "-t", "in/#", "-E"]);
    assert_eq!(subscribed.code, Some(0), "{}", subscribed.err);
    let published = client(&broker, &["pub", "-q", "1", "-t", "in/a", "-m", "owed"]);
    assert_eq!((published.code, published.err.as_str()), (Some(0), ""));
    let retained = client(&broker, &["pub", "-q", "1", "-r", "-t", "kept", "-m", "value"]);
    assert_eq!((retained.code, retained.err.as_str()), (Some(0), ""));
    broker.signal("KILL");
    broker.wait();
}

/// The error of a broker that does not start.
fn refused(data: &str) -> String {
    let ended = run(&["--listen", "127.0.0.1:0", "--admin", "off", "--data", data]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{}", ended.err);
    assert!(ended.err.contains(data), "the directory is named: {}", ended.err);
    ended.err
}

fn import(data: &str, lines: &str) -> Ended {
    let mut child = command(&["store", "import", data]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    child.wait_with_output().unwrap().into()
}

#[test]
fn a_backup_of_a_running_broker_is_restored() {
    let folder = Folder::new();
    let (data, copy) = (folder.file("data"), folder.file("copy"));
    let broker = Broker::start(&["--data", &data]);
    let publish = |topic: &str, message: &str| {
        let done = client(&broker, &["pub", "-q", "1", "-r", "-t", topic, "-m", message]);
        assert_eq!((done.code, done.err.as_str()), (Some(0), ""));
    };
    publish("first", "1");
    let backup = |target: &str| run(&["store", "backup", &data, target]);
    let done = backup(&copy);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(done.err.contains("files written: ") && done.err.contains("kept: 0 "), "{}", done.err);
    publish("second", "2");
    assert_eq!(backup(&copy).code, Some(0));
    publish("third", "3");
    let same = backup(&data);
    assert_eq!(same.code, Some(1));
    assert!(same.err.contains("one directory"), "{}", same.err);
    let inside = backup(&format!("{data}/deep/copy"));
    assert!(inside.code == Some(1) && inside.err.contains("is inside"), "{}", inside.err);
    assert!(!std::fs::exists(format!("{data}/deep")).unwrap());
    let other = folder.file("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(format!("{other}/letter"), "").unwrap();
    for refused in [backup(&other), import(&other, "")] {
        assert!(refused.code == Some(1) && refused.err.contains("such as letter"), "{}", refused.err);
    }
    assert_eq!(std::fs::read_dir(&other).unwrap().count(), 1, "nothing was left there");
    broker.signal("KILL");
    broker.wait();
    let restored = Broker::start(&["--data", &copy]);
    let kept = client(&restored, &["sub", "-t", "#", "-C", "2", "-W", "120", "-v"]);
    let mut lines: Vec<&str> = kept.out.lines().collect();
    lines.sort_unstable();
    assert_eq!((kept.code, lines), (Some(0), vec!["first 1", "second 2"]), "{}", kept.err);
    drop(restored);
    let used = backup(&copy);
    assert_eq!(used.code, Some(1));
    assert!(used.err.contains("not written by a backup") && used.err.contains(&copy), "{}", used.err);
}

#[test]
fn acknowledged_messages_survive_kill_9_export_and_import() {
    let folder = Folder::new();
    let (data, copy) = (folder.file("data"), folder.file("copy"));
    killed_with_state(&data);
    let checked = run(&["store", "check", &data]);
    assert_eq!((checked.code, checked.err.as_str()), (Some(0), ""), "{}", checked.out);
    assert!(!checked.out.contains("damaged"), "{}", checked.out);
    let stats = run(&["store", "stats", &data]);
    for kind in ["sessions", "subscriptions", "messages owed", "retained messages"] {
        let line = stats.out.lines().find(|line| line.ends_with(&format!("  {kind}")));
        let entries = line.unwrap_or_else(|| panic!("{kind}: {}", stats.out)).split_whitespace().next();
        assert_eq!(entries, Some("1"), "{}", stats.out);
    }
    let exported = run(&["store", "export", &data]);
    assert_eq!(exported.code, Some(0), "{}", exported.err);
    for part in [r#"of \"device\""#, r#"subscribed to \"in/#\""#, r#"\"in/a\", 4 bytes"#, r#"retained \"kept\""#] {
        assert!(exported.out.contains(part), "{part}: {}", exported.out);
    }
    let imported = import(&copy, &exported.out);
    assert_eq!(imported.code, Some(0), "{}", imported.err);
    for data in [&data, &copy] {
        let broker = Broker::start(&["--data", data]);
        let owed =
            client(&broker, &["sub", "-i", "device", "-c", "-q", "1", "-t", "in/#", "-C", "1", "-W", "120", "-v"]);
        assert_eq!((owed.code, owed.out.as_str()), (Some(0), "in/a owed\n"), "{}", owed.err);
        let kept = client(&broker, &["sub", "-t", "kept", "-C", "1", "-W", "120", "-v"]);
        assert_eq!((kept.code, kept.out.as_str()), (Some(0), "kept value\n"), "{}", kept.err);
        let (code, metrics) = broker.get("/metrics");
        assert_eq!(code, "200");
        assert!(metrics.contains("\ntidegate_store_state{state=\"ok\"} 1\n"), "{metrics}");
        assert_eq!(broker.get("/readyz"), ("200".to_owned(), "ready\n".to_owned()));
    }
}

#[test]
fn an_import_leaves_a_store_alone_that_is_there() {
    let folder = Folder::new();
    let data = folder.file("data");
    killed_with_state(&data);
    let before = run(&["store", "export", &data]).out;
    let imported = import(&data, &before);
    assert_eq!(imported.code, Some(1), "{}", imported.err);
    assert_eq!(run(&["store", "export", &data]).out, before);
}

#[test]
fn an_import_takes_a_directory_with_the_files_beside_a_store() {
    let folder = Folder::new();
    let (data, copy) = (folder.file("data"), folder.file("copy"));
    killed_with_state(&data);
    let whole = run(&["store", "export", &data]).out;
    std::fs::create_dir_all(format!("{copy}/hub")).unwrap();
    let beside = ["tenants", "usage", "usage-users", "usage-name"];
    for name in beside {
        std::fs::write(format!("{copy}/{name}"), name).unwrap();
    }
    let imported = import(&copy, &whole);
    assert_eq!(imported.code, Some(0), "{}", imported.err);
    assert_eq!(run(&["store", "export", &copy]).out, whole);
    for name in beside {
        assert_eq!(std::fs::read_to_string(format!("{copy}/{name}")).unwrap(), name, "it stays");
    }
}

#[test]
fn an_export_that_was_cut_off_leaves_nothing_behind() {
    let folder = Folder::new();
    let data = folder.file("data");
    killed_with_state(&data);
    let whole = run(&["store", "export", &data]).out;
    let lines: Vec<&str> = whole.lines().collect();
    let without = |left_out: usize| {
        let kept = lines.iter().enumerate().filter(|(number, _)| *number != left_out);
        kept.flat_map(|(_, line)| [line, "\n"]).collect::<String>()
    };
    let last = lines.len() - 1;
    let wrong = whole.replacen("\"value\":\"", "\"value\":\"=", 1);
    let (new, empty) = (folder.file("new"), folder.file("empty"));
    std::fs::create_dir(&empty).unwrap();
    for (text, said) in [
        (without(last), "a part is missing, or an earlier version wrote it"),
        (without(1), "has been changed or lost lines"),
        (format!("{whole}{}\n", lines[0]), "behind the last line"),
        (wrong, "line 1"),
    ] {
        for data in [&new, &empty] {
            let imported = import(data, &text);
            assert!(imported.code == Some(1) && imported.err.contains(said), "{said}: {}", imported.err);
        }
        assert!(!Path::new(&new).exists());
        assert_eq!(std::fs::read_dir(&empty).unwrap().count(), 0, "{said}");
    }
    let older = command(&["store", "import", "--incomplete", &new]).stdin(Stdio::piped()).spawn();
    let mut older = older.unwrap();
    older.stdin.take().unwrap().write_all(without(last).as_bytes()).unwrap();
    assert!(older.wait().unwrap().success());
    assert_eq!(import(&empty, &whole).code, Some(0));
    for data in [&new, &empty] {
        assert_eq!(run(&["store", "export", data]).out, whole);
    }
}

#[test]
fn a_second_broker_on_a_directory_learns_its_owner() {
    let folder = Folder::new();
    let data = folder.file("data");
    let broker = Broker::start(&["--data", &data]);
    let error = refused(&data);
    assert!(error.contains(&format!("in use by process {}", broker.id())), "{error}");
    let inspected = run(&["store", "export", &data]);
    assert_eq!(inspected.code, Some(1));
    assert!(inspected.err.contains(&broker.id().to_string()), "{}", inspected.err);
    assert_eq!(broker.get("/readyz").0, "200", "the first one is not disturbed");
    broker.signal("KILL");
    broker.wait();
    Broker::start(&["--data", &data]);
}

#[test]
fn a_directory_that_cannot_be_written_is_refused() {
    let folder = Folder::new();
    // Also the superuser cannot make a directory below a file.
    let file = folder.write("file", "");
    refused(&format!("{file}/data"));
    let data = folder.file("data");
    killed_with_state(&data);
    std::fs::set_permissions(&data, PermissionsExt::from_mode(0o500)).unwrap();
    std::fs::set_permissions(format!("{data}/LOCK"), PermissionsExt::from_mode(0o400)).unwrap();
    let may_write_all_the_same = std::fs::write(format!("{data}/probe"), "").is_ok();
    if !may_write_all_the_same {
        let error = refused(&data);
        assert!(error.to_lowercase().contains("permission"), "{error}");
    }
    std::fs::set_permissions(&data, PermissionsExt::from_mode(0o700)).unwrap();
}

/// Turns the bits of the byte in the middle of the written part of a file.
fn damage(path: &Path) {
    let mut file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    // Frames begin behind the header of 4096 bytes.
    let middle = usize::midpoint(4096, end);
    file.seek(SeekFrom::Start(middle as u64)).unwrap();
    file.write_all(&[!bytes[middle]]).unwrap();
}

#[test]
fn damage_is_refused_with_the_remedy_and_the_rest_can_be_saved() {
    let folder = Folder::new();
    let data = folder.file("data");
    killed_with_state(&data);
    let broker = Broker::start(&["--data", &data]);
    for number in 0..50 {
        let published = client(&broker, &["pub", "-q", "1", "-r", "-t", &format!("more/{number}"), "-m", "value"]);
        assert_eq!(published.code, Some(0), "{}", published.err);
    }
    broker.signal("TERM");
    assert_eq!(broker.wait().code, Some(0));
    let mut journals: Vec<_> = std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path()).collect();
    journals.retain(|path| path.file_name().unwrap().to_str().unwrap().starts_with("journal-"));
    journals.sort();
    damage(journals.last().unwrap());
    for _ in 0..2 {
        let error = refused(&data);
        let check = format!("tidegate store check {data}`");
        for part in ["is damaged at byte", &check, "tidegate store export --salvage"] {
            assert!(error.contains(part), "{part}: {error}");
        }
    }
    let checked = run(&["store", "check", &data]);
    assert!(checked.code == Some(1) && checked.out.contains("damaged"), "{}", checked.out);
    assert_eq!(run(&["store", "export", &data]).code, Some(1), "nothing is skipped in silence");
    let saved = run(&["store", "export", "--salvage", &data]);
    assert!(saved.code == Some(1) && saved.err.contains("skipped: "), "{}", saved.err);
    let fresh = folder.file("fresh");
    assert_eq!(import(&fresh, &saved.out).code, Some(0));
    Broker::start(&["--data", &fresh]);
}

#[test]
fn bans_survive_kill_9_and_end_in_the_store_too() {
    let folder = Folder::new();
    let data = folder.file("data");
    let broker = Broker::start(&["--data", &data]);
    let ban =
        |broker: &Broker, words: &[&str]| run(&[&["ban"], words, &["--admin", broker.address("admin=")]].concat());
    for (kind, name) in [("client", "noisy"), ("user", "mallory"), ("address", "192.0.2.0/24"), ("client", "pardoned")]
    {
        let added = ban(&broker, &["add", kind, name, "--reason", "a test"]);
        assert_eq!(added.code, Some(0), "{}", added.err);
    }
    assert_eq!(ban(&broker, &["add", "client", "for a while", "--for", "1h"]).code, Some(0));
    assert_eq!(ban(&broker, &["remove", "client", "pardoned"]).code, Some(0));
    broker.signal("KILL");
    broker.wait();
    let exported = run(&["store", "export", &data]);
    assert!(exported.out.contains(r#"ban of client \"noisy\" for ever, by operator: a test"#), "{}", exported.out);
    assert!(run(&["store", "stats", &data]).out.contains("  bans\n"));
    let broker = Broker::start(&["--data", &data, "--shards", "3"]);
    let listed = ban(&broker, &["list"]).out;
    for part in ["client noisy", "user mallory", "address 192.0.2.0/24", "client for a while  until 2"] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    assert!(!listed.contains("pardoned"), "{listed}");
    assert_ne!(client(&broker, &["pub", "-i", "noisy", "-t", "a", "-m", "x"]).code, Some(0));
    assert_eq!(client(&broker, &["pub", "-i", "pardoned", "-t", "a", "-m", "x"]).code, Some(0));
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Passwords of wills, payloads and user names are in the store's files: no other user reads them, with any umask.
#[test]
fn the_data_directory_is_private_with_an_open_umask() {
    let folder = Folder::new();
    let (data, copy) = (folder.file("data"), folder.file("copy"));
    let program = env!("CARGO_BIN_EXE_tidegate");
    let open = |script: &str| -> Output {
        let script = format!("umask 000; {script}");
        std::process::Command::new("sh").args(["-c", &script, program, &data, &copy]).output().unwrap()
    };
    killed_with_state(&folder.file("other"));
    let lines = folder.write("lines", &run(&["store", "export", &folder.file("other")]).out);
    let imported = open(&format!("\"$0\" store import \"$1\" < '{lines}' && \"$0\" store import \"$2\" < '{lines}'"));
    assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    // A broker that inherits the open umask adds its files to one of them.
    let started = open(
        "\"$0\" --listen 127.0.0.1:0 --admin off --data \"$1\" >\"$1.out\" & broker=$!; \
         while ! [ -s \"$1.out\" ]; do kill -0 $broker || exit 1; done; kill -TERM $broker; wait $broker",
    );
    assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
    for directory in [&data, &copy] {
        assert_eq!(mode(Path::new(directory)), 0o700, "{directory}");
        let files: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(files.len() >= 3, "{files:?}");
        for file in files {
            assert_eq!(mode(&file), 0o600, "{}", file.display());
        }
    }
}

/// A client that begins or resumes a session.
fn connect(broker: &Broker, id: &str) -> TcpStream {
    let mut stream = TcpStream::connect(broker.address("mqtt://")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // MQTT 5, no clean start, a session that does not expire.
    let mut packet = vec![0x10, 18 + u8::try_from(id.len()).unwrap(), 0, 4];
    packet.extend_from_slice(b"MQTT\x05\x00\x00\x00\x05\x11\xff\xff\xff\xff\x00");
    packet.extend_from_slice(&[u8::try_from(id.len()).unwrap()]);
    packet.extend_from_slice(id.as_bytes());
    stream.write_all(&packet).unwrap();
    let (first, _) = read_packet(&mut stream);
    assert_eq!(first, 0x20);
    stream
}

/// The first byte of a packet, and the bytes after its length.
fn read_packet(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let mut byte = [0];
    stream.read_exact(&mut byte).unwrap();
    let (first, mut length, mut shift) = (byte[0], 0_usize, 0);
    loop {
        stream.read_exact(&mut byte).unwrap();
        length |= usize::from(byte[0] & 0x7f) << shift;
        shift += 7;
        if byte[0] < 0x80 {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    (first, body)
}

/// Publishes 60,000 bytes at QoS 1 and returns the reason code of the answer.
fn publish(stream: &mut TcpStream) -> u8 {
    // 60,008 bytes follow: a topic of 3 bytes, the packet id 1, no properties.
    let mut packet = vec![0x32, 0xe8, 0xd4, 0x03, 0, 3, b'i', b'n', b'!', 0, 1, 0];
    packet.resize(packet.len() + 60_000, 7);
    stream.write_all(&packet).unwrap();
    let (first, body) = read_packet(stream);
    assert_eq!(first, 0x40);
    body.get(2).copied().unwrap_or(0)
}

/// Fetches and acknowledges all that a session is owed.
fn fetch(broker: &Broker, id: &str, messages: usize) {
    let mut stream = connect(broker, id);
    for _ in 0..messages {
        let (first, body) = read_packet(&mut stream);
        assert_eq!(first & 0xf6, 0x32);
        stream.write_all(&[0x40, 2, body[5], body[6]]).unwrap();
    }
}

#[test]
fn a_full_store_accepts_messages_after_queued_ones_are_taken() {
    let folder = Folder::new();
    let data = folder.file("data");
    let sizes = ["store.max_bytes=64MiB", "store.segment_size=1MiB", "store.merge_at=4MiB", "queue.max_bytes=1GiB"];
    let arguments = sizes.iter().flat_map(|size| ["--set", *size]).chain(["--data", data.as_str()]);
    let broker = Broker::start(&arguments.collect::<Vec<_>>());
    let mut device = connect(&broker, "device");
    device.write_all(&[0x82, 9, 0, 1, 0, 0, 3, b'i', b'n', b'!', 1]).unwrap();
    assert_eq!(read_packet(&mut device).0, 0x90);
    drop(device);
    let (mut publisher, mut accepted) = (connect(&broker, "publisher"), 0);
    while publish(&mut publisher) == 0 {
        accepted += 1;
        assert!(accepted < 5_000, "the store becomes full");
    }
    let (code, why) = broker.get("/readyz");
    assert!(code == "503" && why.contains("the store is full"), "{code} {why}");
    fetch(&broker, "device", accepted);
    let begin = Instant::now();
    while broker.get("/readyz").0 != "200" {
        assert!(begin.elapsed() < PATIENCE, "the store becomes free again");
    }
    assert_eq!(publish(&mut publisher), 0);
}

/// A broker with this limit of address space, KiB.
fn limited(kib: u32, data: &str) -> std::process::Command {
    let mut command = std::process::Command::new("sh");
    let script = format!("ulimit -v {kib}; exec \"$0\" \"$@\"");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_tidegate")]).stdin(Stdio::null());
    command.args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--shards", "1", "--data", data]);
    command
}

#[test]
fn a_store_beyond_the_memory_of_the_process_stays_whole() {
    const VALUES: u32 = 200;
    let folder = Folder::new();
    let data = folder.file("data");
    let broker = Broker::start(&["--data", &data]);
    let mut publisher = connect(&broker, "p");
    for number in 0..VALUES {
        // 1,000,007 bytes follow: a topic of 4 bytes, the packet id 1, no properties, 999,998 bytes of payload.
        let mut packet = vec![0x33, 0xc7, 0x84, 0x3d, 0, 4];
        packet.extend_from_slice(format!("r{number:03}").as_bytes());
        packet.extend_from_slice(&[0, 1, 0]);
        packet.resize(4 + 1_000_007, 7);
        publisher.write_all(&packet).unwrap();
        let (first, body) = read_packet(&mut publisher);
        assert_eq!((first, body.get(2).copied().unwrap_or(0) & 0x80), (0x40, 0));
    }
    broker.signal("KILL");
    broker.wait();
    let kept = |broker: &Broker| {
        let metrics = broker.get("/metrics").1;
        let line = metrics.lines().find_map(|line| line.strip_prefix("mqtt_retained_messages "));
        line.and_then(|count| count.parse().ok())
    };
    // Three quarters of 240,000 KiB are less than the values take.
    let ended: Ended = limited(240_000, &data).output().unwrap().into();
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{}", ended.err);
    assert!(ended.err.contains("`ulimit -v`") && ended.err.contains("tidegate store stats"), "{}", ended.err);
    // Here `retained.max_bytes` is an eighth of the limit, less than the values take: it refuses new values alone.
    let broker = Broker::spawn(limited(1_000_000, &data));
    assert_eq!(kept(&broker), Some(VALUES));
    drop(broker);
    let broker = Broker::start(&["--data", &data, "--set", "retained.max_messages=1"]);
    assert_eq!(kept(&broker), Some(VALUES));
}

#[test]
fn a_directory_and_files_that_others_may_write_are_warned_of() {
    let folder = Folder::new();
    let data = folder.file("data");
    std::fs::create_dir(&data).unwrap();
    let acl = folder.write("acl", "topic readwrite #\n");
    let set_mode = |path: &str, mode| {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    let warned = |mode: u32| {
        set_mode(&data, mode);
        set_mode(&acl, 0o600 | (mode & 0o022));
        let broker = Broker::start(&["--data", &data, "--set", &format!("access.acl_file={acl}")]);
        broker.signal("TERM");
        broker.wait().err
    };
    let open = warned(0o777);
    for part in ["may change the data directory", "may write this rule file"] {
        assert!(open.contains(part), "{part}: {open}");
    }
    let closed = warned(0o700);
    assert!(!closed.contains("may change") && !closed.contains("may write"), "{closed}");
}

#[test]
fn a_file_in_the_place_of_the_directory_is_called_one() {
    let folder = Folder::new();
    let error = refused(&folder.write("file", ""));
    assert!(error.contains("there is a file of this name") && !error.contains("os error"), "{error}");
}

#[test]
fn a_start_without_room_leaves_nothing_behind() {
    let folder = Folder::new();
    let data = folder.file("data");
    // No file may grow, as on a full disk.
    let script = "ulimit -f 0; exec \"$0\" --listen 127.0.0.1:0 --admin off --data \"$1\"";
    let arguments = ["-c", script, env!("CARGO_BIN_EXE_tidegate"), &data];
    let refused = std::process::Command::new("sh").args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    // A process that the signal of the limit ends has no exit code.
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("allow the process larger files (`ulimit -f`)"), "{said}");
    let left: Vec<_> = std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
    Broker::start(&["--data", &data]);
}
