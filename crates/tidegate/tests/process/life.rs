//! From the start to the end of a broker: the contract with scripts.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::broker::{Broker, Folder, PATIENCE, command, run, until};

#[test]
fn one_line_says_ready_and_names_the_ports() {
    let broker = Broker::start(&[]);
    let (mqtt, admin) = (broker.address("mqtt://").to_owned(), broker.address("admin=http://").to_owned());
    assert_eq!(
        broker.ready,
        format!("tidegate {} ready: mqtt://{mqtt} admin=http://{admin}\n", env!("CARGO_PKG_VERSION"))
    );
    TcpStream::connect(&mqtt).unwrap();
    broker.signal("TERM");
    let ended = broker.wait();
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), ""), "{}", ended.err);
}

#[test]
fn a_ceiling_above_the_limit_of_the_process_is_lowered() {
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap();
    let total =
        memory.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse().ok());
    if total.is_none_or(|kib: u64| kib <= 1024 * 1024) {
        // The memory of such a machine is less than half of the limit, and the limit does not count.
        return;
    }
    let mut limited = std::process::Command::new("sh");
    let flags = ["--listen", "127.0.0.1:0", "--admin", "off", "--set", "limits.memory_ceiling=8GiB"];
    // 2 GiB count by half, and the ceiling is three quarters of that.
    limited.args(["-c", "ulimit -v 2097152; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_tidegate")]).args(flags);
    let broker = Broker::spawn(limited);
    broker.signal("TERM");
    let ended = broker.wait();
    assert!(ended.err.contains("8192 MiB is too high for the ulimit of 2048 MiB"), "{}", ended.err);
    assert!(ended.err.contains("768 MiB count"), "{}", ended.err);
}

#[test]
fn a_broker_alone_has_no_thread_that_polls() {
    let broker = Broker::start(&["--shards", "1"]);
    // Each of these sleeps until it gets something, or for a minute (`meter`). A thread names itself after its start.
    until("the names of the threads", || {
        let threads = std::fs::read_dir(format!("/proc/{}/task", broker.id())).ok()?;
        let name = |thread: std::io::Result<std::fs::DirEntry>| {
            Some(std::fs::read_to_string(thread.ok()?.path().join("comm")).ok()?.trim().to_owned())
        };
        let mut names: Vec<_> = threads.map(name).collect::<Option<_>>()?;
        names.sort();
        (names == ["console", "log", "meter", "shard-0", "tidegate"]).then_some(())
    });
}

#[test]
fn every_signal_that_stops_ends_with_exit_code_0() {
    for signal in ["TERM", "INT"] {
        let broker = Broker::start(&[]);
        broker.signal(signal);
        let ended = broker.wait();
        assert_eq!(ended.code, Some(0), "{signal}: {}", ended.err);
        assert!(ended.err.contains(&format!("signal=SIG{signal}")), "{}", ended.err);
    }
}

/// The keep-alive of the clients below ends after one and a half seconds.
const SILENCE: Duration = Duration::from_millis(1_500);

/// A client of MQTT 3.1.1 with a keep-alive of one second.
fn connect_impatient(address: &str, number: u8) -> TcpStream {
    let mut client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let connect = [&b"\x10\x0e\x00\x04MQTT\x04\x02\x00\x01\x00\x02a"[..], &[b'a' + number]].concat();
    client.write_all(&connect).unwrap();
    let mut answer = [0; 4];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer, *b"\x20\x02\x00\x00");
    client
}

/// Stops the process, and returns when none of its threads runs.
fn freeze(broker: &Broker) {
    broker.signal("STOP");
    until("the stop of all threads", || {
        let mut threads = std::fs::read_dir(format!("/proc/{}/task", broker.id())).unwrap();
        let is_stopped = |thread: std::io::Result<std::fs::DirEntry>| {
            let status = std::fs::read_to_string(thread.unwrap().path().join("status")).unwrap_or_default();
            status.is_empty() || status.contains("State:\tT")
        };
        threads.all(is_stopped).then_some(())
    });
}

#[test]
fn pings_that_wait_during_a_stop_keep_clients() {
    let broker = Broker::start(&["--shards", "2"]);
    let address = broker.address("mqtt://");
    // On a busy machine the keep-alive of the first client may end before the stop: then all begin again.
    let (connected, mut clients, mut silent) = until("a stop in time", || {
        let begun = Instant::now();
        let clients: Vec<_> = (0..20).map(|number| connect_impatient(address, number)).collect();
        let silent = connect_impatient(address, 20);
        let connected = Instant::now();
        freeze(&broker);
        if begun.elapsed() < SILENCE {
            return Some((connected, clients, silent));
        }
        broker.signal("CONT");
        None
    });
    for client in &mut clients {
        client.write_all(b"\xc0\x00").unwrap();
    }
    // The test is about this time: the keep-alive of all clients ends.
    let (_kept, never) = std::sync::mpsc::channel::<()>();
    let rest = (SILENCE + Duration::from_millis(100)).saturating_sub(connected.elapsed());
    never.recv_timeout(rest).unwrap_err();
    broker.signal("CONT");
    for client in &mut clients {
        let mut answer = [0; 2];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(answer, *b"\xd0\x00");
    }
    assert_eq!(silent.read_to_end(&mut Vec::new()).unwrap(), 0);
}

#[test]
fn idle_connections_leave_files_to_store_and_admin() {
    let folder = Folder::new();
    let mut limited = std::process::Command::new("sh");
    let script = "ulimit -n 256; exec \"$0\" \"$@\"";
    limited.args(["-c", script, env!("CARGO_BIN_EXE_tidegate")]).stdin(std::process::Stdio::null());
    limited.args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--data", &folder.file("data")]);
    let broker = Broker::spawn(limited);
    let address = broker.address("mqtt://");
    let connect = |id: u8| {
        let mut client = TcpStream::connect(address).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        // CONNECT of MQTT 3.1.1 for a session that lasts, without a keep-alive.
        client.write_all(&[&b"\x10\x0d\x00\x04MQTT\x04\x00\x00\x00\x00\x01"[..], &[id]].concat()).unwrap();
        let mut answer = [0; 4];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(answer, *b"\x20\x02\x00\x00");
        client
    };
    let mut first = connect(b'a');
    // 256 files leave 160 connections. Of 400 idle ones the oldest are closed, and their files given back.
    let mut idle: Vec<_> = (0..400).map(|_| TcpStream::connect(address).unwrap()).collect();
    idle[0].set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(idle[0].read(&mut [0]).unwrap_or(0), 0);
    let mut second = connect(b'b');
    // SUBSCRIBE and PUBLISH at QoS 1: their acknowledgements promise stored state.
    let mut answer = [0; 5];
    first.write_all(b"\x82\x06\x00\x01\x00\x01t\x01").unwrap();
    first.read_exact(&mut answer).unwrap();
    assert_eq!(answer, *b"\x90\x03\x00\x01\x01");
    second.write_all(b"\x32\x06\x00\x01t\x00\x01x").unwrap();
    second.read_exact(&mut answer[..4]).unwrap();
    assert_eq!(answer[..4], *b"\x40\x02\x00\x01");
    assert_eq!(broker.get("/healthz").0, "200");
    let metrics = broker.get("/metrics").1;
    let open = metrics.lines().find_map(|line| line.strip_prefix("process_open_fds ")).unwrap();
    assert!(open.parse::<u64>().unwrap() < 256 - 32, "{open} files");
}

/// Each arena of glibc's allocator but the first reserves 64 MiB of the address space.
#[cfg(target_env = "gnu")]
#[test]
fn a_limited_address_space_is_not_reserved_for_arenas() {
    let start = |script: &str| {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", script, env!("CARGO_BIN_EXE_tidegate")]).stdin(std::process::Stdio::null());
        command.args(["--listen", "127.0.0.1:0", "--admin", "off", "--shards", "4"]);
        Broker::spawn(command)
    };
    let arenas =
        |broker: &Broker| reserved_arenas(&std::fs::read_to_string(format!("/proc/{}/maps", broker.id())).unwrap());
    // A shard makes its arena when it first allocates, which may be after the broker is ready.
    let free = start("exec \"$0\" \"$@\"");
    let deadline = std::time::Instant::now() + PATIENCE;
    while arenas(&free) == 0 {
        assert!(std::time::Instant::now() < deadline, "no arena without a limit");
        std::thread::yield_now();
    }
    let limited = start("ulimit -v 4000000; exec \"$0\" \"$@\"");
    assert_eq!(arenas(&limited), 0);
}

/// How many ranges of 64 MiB, aligned to their size, the lines of a process's `maps` cover from end to end.
#[cfg(target_env = "gnu")]
fn reserved_arenas(maps: &str) -> usize {
    const ARENA: u64 = 64 * 1024 * 1024;
    let ranges = maps.lines().filter_map(|line| {
        let (begin, end) = line.split_once(' ')?.0.split_once('-')?;
        Some((u64::from_str_radix(begin, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
    });
    let (mut arenas, mut begun, mut last) = (0, None, 0);
    for (begin, end) in ranges {
        if begin % ARENA == 0 {
            begun = Some(begin);
        } else if begin != last {
            begun = None;
        }
        last = end;
        arenas += usize::from(begun.is_some_and(|begun| end == begun + ARENA));
    }
    arenas
}

/// `tidegate ready` with this value of `TIDEGATE__ADMIN__ADDRESS`: its exit code, and its output.
fn ready(address: Option<&str>, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = command(&[&["ready"], arguments].concat());
    match address {
        Some(address) => command.env("TIDEGATE__ADMIN__ADDRESS", address),
        None => command.env_remove("TIDEGATE__ADMIN__ADDRESS"),
    };
    let answer = command.output().unwrap();
    (answer.status.code(), String::from_utf8([answer.stdout, answer.stderr].concat()).unwrap())
}

#[test]
fn ready_is_an_exit_code_for_health_checks() {
    let broker = Broker::start(&[]);
    let port = broker.address("admin=http://").rsplit_once(':').unwrap().1.to_owned();
    let here = format!("127.0.0.1:{port}");
    // A container's admin listener is on every address.
    for address in [here.clone(), format!("0.0.0.0:{port}")] {
        assert_eq!(ready(Some(&address), &[]), (Some(0), "ready\n".to_owned()), "{address}");
        assert_eq!(ready(Some(&address), &["--alive"]), (Some(0), "alive\n".to_owned()), "{address}");
    }
    assert_eq!(ready(None, &["--admin", &format!("http://{here}")]).0, Some(0));
    let folder = Folder::new();
    let file = folder.file("t.toml");
    std::fs::write(&file, format!("[admin]\naddress = \"{here}\"\n")).unwrap();
    assert_eq!(ready(None, &["-c", &file]), (Some(0), "ready\n".to_owned()));
    assert_eq!(ready(Some("off"), &["-c", &file]).0, Some(1), "the environment wins over the file");
    broker.signal("TERM");
    broker.wait();
    for (address, arguments, code, part) in [
        (here.as_str(), &[][..], 1, "no broker answers"),
        (&here, &["--alive"], 1, "no broker answers"),
        ("off", &[], 1, "to an address"),
        ("off", &["--alive"], 0, "not checked"),
        ("x", &["--alive"], 1, "must be an address"),
    ] {
        let (found, text) = ready(Some(address), arguments);
        assert!(found == Some(code) && text.contains(part), "{address} {arguments:?}: {text}");
    }
}

#[test]
fn every_kind_of_listener_is_named() {
    let folder = Folder::new();
    let socket = format!("unix:{}", folder.file("t.sock"));
    let broker = Broker::start(&["--listen", "ws://127.0.0.1:0/a", "--listen", &socket]);
    assert!(broker.address("ws://127.0.0.1:").ends_with("/a"), "{}", broker.ready);
    assert!(broker.ready.contains(&socket), "{}", broker.ready);
}

#[test]
fn a_taken_port_is_an_error_that_names_it() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ended = run(&["--listen", &address, "--admin", "off"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""));
    assert!(ended.err.contains(&address), "{}", ended.err);
    let ended = run(&["--listen", "127.0.0.1:0", "--admin", &address]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""));
    assert!(ended.err.contains(&address) && ended.err.contains("--admin off"), "{}", ended.err);
}

#[test]
fn a_taken_default_admin_port_is_a_warning() {
    // A listener of this test or of another process: the port is taken.
    let _taken = TcpListener::bind("127.0.0.1:18083");
    let broker = Broker::start_with(&["--listen", "127.0.0.1:0"]);
    assert!(!broker.ready.contains("admin="), "{}", broker.ready);
    broker.signal("TERM");
    let ended = broker.wait();
    assert_eq!(ended.code, Some(0));
    assert!(ended.err.contains("WARN") && ended.err.contains("127.0.0.1:18083"), "{}", ended.err);
}

#[test]
fn a_wider_address_needs_to_be_asked_for() {
    let ended = run(&["--listen", "0.0.0.0:0", "--admin", "off"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""));
    assert!(ended.err.contains("hint: add --allow-anonymous"), "{}", ended.err);
    let broker = Broker::start_with(&["--listen", "0.0.0.0:0", "--admin", "off", "--allow-anonymous"]);
    assert!(broker.address("mqtt://").starts_with("0.0.0.0:"));
}

#[test]
fn the_environment_and_a_file_configure_it() {
    let folder = Folder::new();
    let file = folder.write(
        "t.toml",
        "[[listener]]\naddress = \"127.0.0.1:0\"\n[admin]\naddress = \"off\"\n[log]\nformat = \"json\"\n",
    );
    let broker = Broker::start_with(&["run", "--config", &file, "--log", "info"]);
    assert!(!broker.ready.contains("admin="), "{}", broker.ready);
    broker.signal("TERM");
    let ended = broker.wait();
    let lines: Vec<&str> = ended.err.lines().collect();
    assert!(!lines.is_empty());
    for line in lines {
        assert!(line.starts_with("{\"time\":\"") && line.ends_with('}'), "{line}");
    }
    let output = command(&["--listen", "127.0.0.1:0"]).env("TIDEGATE__NODE__SHARDS", "65").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn with_log_level_error_nothing_is_logged() {
    let broker = Broker::start(&["--log", "error"]);
    broker.signal("TERM");
    let ended = broker.wait();
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
}

#[test]
fn the_log_has_connects_disconnects_and_refusals() {
    for (level, expected) in [("info", 3), ("warn", 1), ("error", 0)] {
        let broker = Broker::start(&["--log", level]);
        let mut client = TcpStream::connect(broker.address("mqtt://")).unwrap();
        // CONNECT of MQTT 3.1.1 with the client id "a", then DISCONNECT; and bytes that are no CONNECT.
        client.write_all(b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01a\xe0\x00").unwrap();
        let mut stranger = TcpStream::connect(broker.address("mqtt://")).unwrap();
        stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        for stream in [&mut client, &mut stranger] {
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.read_to_end(&mut Vec::new()).unwrap();
        }
        broker.signal("TERM");
        let ended = broker.wait();
        let lines = ["connection refused ", "client connected ", "client disconnected "];
        for (number, line) in lines.into_iter().enumerate() {
            assert_eq!(ended.err.contains(line), number < expected, "{level}, {line}: {}", ended.err);
        }
    }
}
