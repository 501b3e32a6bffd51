//! MQTT over QUIC, from the flag of the broker to the flags of the clients.

use std::io::{BufRead, BufReader, Write};
use std::net::UdpSocket;
use std::process::{Command, Stdio};

use crate::broker::{Broker, Ended, Folder, command};

/// Messages that a client sends that moves.
const MESSAGES: usize = 2_000;

/// A command whose user has this folder as home.
fn at_home(folder: &Folder, arguments: &[&str]) -> Command {
    let mut command = command(arguments);
    command.env("XDG_DATA_HOME", folder.file("share"));
    command
}

/// A broker with a listener for QUIC and a certificate for development.
fn start(folder: &Folder, arguments: &[&str]) -> Broker {
    let common = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--quic", "127.0.0.1:0"];
    Broker::spawn(at_home(folder, &[arguments, &common].concat()))
}

/// A client of it over QUIC.
fn client(folder: &Folder, broker: &Broker, arguments: &[&str]) -> Command {
    let (host, port) = broker.address("quic://").rsplit_once(':').unwrap();
    at_home(folder, &[&arguments[..1], &["--quic", "-h", host, "-p", port], &arguments[1..]].concat())
}

fn end(mut command: Command) -> Ended {
    command.output().unwrap().into()
}

#[test]
fn a_broker_makes_a_certificate_that_clients_find() {
    let folder = Folder::new();
    let broker = start(&folder, &[]);
    let published = end(client(&folder, &broker, &["pub", "-t", "a/b", "-m", "21.5", "-q", "1", "-r"]));
    assert_eq!((published.code, published.err.as_str()), (Some(0), ""));
    for version in ["31", "311", "5"] {
        let shown = end(client(&folder, &broker, &["sub", "-t", "a/#", "-C", "1", "-W", "120", "-v", "-V", version]));
        assert_eq!((shown.code, shown.out.as_str()), (Some(0), "a/b 21.5\n"), "{version}: {}", shown.err);
    }
    // Another user trusts it only by a flag.
    let other = Folder::new();
    let authority = folder.file("share/tidegate/development/ca.pem");
    let told = end(client(&other, &broker, &["pub", "-t", "a", "-m", "x", "--cafile", &authority]));
    assert_eq!(told.code, Some(0), "{}", told.err);
    let url = format!("quic://{}/a", broker.address("quic://"));
    let refused = end(at_home(&other, &["pub", "-L", &url, "-m", "x"]));
    assert_eq!(refused.code, Some(1), "{}", refused.err);
    assert!(!refused.err.is_empty());
    // The next broker takes the certificate that is there.
    let before = std::fs::read(&authority).unwrap();
    drop(start(&folder, &[]));
    assert_eq!(std::fs::read(&authority).unwrap(), before);
}

/// Both clients go on from other ports, with messages under way: each line comes once, and in its order.
#[test]
fn clients_that_move_lose_nothing() {
    let folder = Folder::new();
    let broker = start(&folder, &["--shards", "2"]);
    let count = MESSAGES.to_string();
    let flags = ["sub", "-t", "moves", "-q", "1", "-C", &count, "-W", "120", "--rebind-after", "700", "-d"];
    let mut reader = client(&folder, &broker, &flags);
    let mut reader = reader.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(reader.stderr.take().unwrap()).lines();
    // It is heard of before anything is published.
    assert!(said.any(|line| line.unwrap().contains("SUBACK")));
    let errors = std::thread::spawn(move || said.map_while(Result::ok).last());
    let mut writer = client(&folder, &broker, &["pub", "-t", "moves", "-q", "1", "-l", "--rebind-after", "500"]);
    let mut writer = writer.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines: Vec<String> = (0..MESSAGES).map(|number| format!("{number} {}", "x".repeat(300))).collect();
    let mut input = writer.stdin.take().unwrap();
    input.write_all((lines.join("\n") + "\n").as_bytes()).unwrap();
    drop(input);
    let (written, read) = (Ended::from(writer.wait_with_output().unwrap()), reader.wait_with_output().unwrap());
    let last = errors.join().unwrap();
    assert_eq!((written.code, written.err.as_str()), (Some(0), ""));
    let read = Ended::from(read);
    assert_eq!(read.code, Some(0), "{last:?}");
    assert!(read.out.lines().eq(&lines), "{} lines came", read.out.lines().count());
    let metrics = broker.get("/metrics").1;
    let moved = "tidegate_quic_connections_total{event=\"moved\"} 2";
    assert!(metrics.contains(moved), "{metrics}");
}

#[test]
fn an_orchestrator_serves_clients_over_quic() {
    let folder = Folder::new();
    let worker = Broker::start(&[]);
    let to = format!("mqtt://{}", worker.address("mqtt://"));
    let orchestrator = start(&folder, &["orchestrator", "--broker", &to]);
    let published = end(client(&folder, &orchestrator, &["pub", "-t", "a", "-m", "kept", "-q", "1", "-r"]));
    assert_eq!(published.code, Some(0), "{}", published.err);
    let shown = end(client(&folder, &orchestrator, &["sub", "-t", "a", "-q", "1", "-C", "1", "-W", "120"]));
    assert_eq!((shown.code, shown.out.as_str()), (Some(0), "kept\n"), "{}", shown.err);
}

#[test]
fn invalid_quic_settings_are_refused_at_the_start() {
    let folder = Folder::new();
    for (arguments, part) in [
        (&["--quic", "0.0.0.0:0", "--allow-anonymous"][..], "has no certificate"),
        (&["--quic", "0.0.0.0:0"], "everybody who reaches it"),
        (&["--quic", "ws://127.0.0.1:0/x y"], "plain path"),
        (&["pub", "--quic", "--ws", "-t", "a", "-m", "x"], "--ws"),
        (&["pub", "--quic", "--no-tls", "-t", "a", "-m", "x"], "--no-tls"),
        (&["pub", "--rebind-after", "1", "-t", "a", "-m", "x"], "add --quic"),
        (&["pub", "--quic", "-L", "mqtt://h/t", "-m", "x"], "write quic://"),
    ] {
        let ended = end(at_home(&folder, arguments));
        assert_eq!(ended.code, Some(2), "{arguments:?}: {}", ended.err);
        assert!(ended.err.contains(part), "{arguments:?}: {}", ended.err);
    }
    // Bound and closed again: no process listens there.
    let unused = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let port = unused.port().to_string();
    let ended = end(at_home(
        &folder,
        &["pub", "--quic", "-h", "127.0.0.1", "-p", &port, "-t", "a", "-m", "x", "--cafile", "/dev/null"],
    ));
    assert_eq!(ended.code, Some(2), "{}", ended.err);
    drop(start(&folder, &[]));
    let ended = end(at_home(&folder, &["pub", "--quic", "-h", "127.0.0.1", "-p", &port, "-t", "a", "-m", "x"]));
    assert_eq!(ended.code, Some(1), "{}", ended.err);
    assert!(ended.err.contains(&unused.to_string()), "{}", ended.err);
}
