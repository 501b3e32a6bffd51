//! Converted configurations beside Mosquitto itself: who may connect, publish and subscribe.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::broker::{Broker, Folder, PATIENCE, command, run, until};
use crate::ports::free_port;

/// The clients that try: one without a name, a user, the user with a wrong password, and an unknown user.
pub(crate) const CLIENTS: [Option<(&str, &str)>; 4] =
    [None, Some(("ann", "right")), Some(("ann", "wrong")), Some(("eve", "right"))];

/// Ports of the shapes, for which free ones are taken.
pub(crate) const PORTS: [&str; 3] = ["1883", "1884", "8884"];

/// The text with free ports in place of the known ones. Each number is replaced once, as a whole: a free port may contain
/// the digits of another known one.
pub(crate) fn with_ports(text: &str, ports: &BTreeMap<&str, u16>) -> String {
    let digits = |c: char| c.is_ascii_digit();
    let (mut rest, mut result) = (text, String::with_capacity(text.len()));
    while let Some(at) = rest.find(digits) {
        let end = rest[at..].find(|c| !digits(c)).map_or(rest.len(), |length| at + length);
        result.push_str(&rest[..at]);
        match ports.get(&rest[at..end]) {
            Some(free) => result.push_str(&free.to_string()),
            None => result.push_str(&rest[at..end]),
        }
        rest = &rest[end..];
    }
    result + rest
}

#[test]
fn a_free_port_is_not_replaced_again() {
    let ports = BTreeMap::from([("1883", 18843), ("1884", 10_000)]);
    assert_eq!(with_ports("bind 0.0.0.0:1883\nlistener 1884 1883", &ports), "bind 0.0.0.0:18843\nlistener 10000 18843");
    assert_eq!(with_ports("21883 18834", &ports), "21883 18834");
}

/// Mosquitto, ended with its value.
struct Mosquitto(Child);

impl Drop for Mosquitto {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts Mosquitto; `None` when it does not start with this configuration.
fn mosquitto(config: &str) -> Option<Mosquitto> {
    let mut child = Command::new("mosquitto").args(["-v", "-c", config]).stderr(Stdio::piped()).spawn().ok()?;
    let errors = BufReader::new(child.stderr.take()?);
    let runs = errors.lines().map_while(Result::ok).any(|line| line.ends_with(" running"));
    let started = Mosquitto(child);
    runs.then_some(started)
}

fn text(text: &str) -> Vec<u8> {
    [&u16::try_from(text.len()).unwrap().to_be_bytes(), text.as_bytes()].concat()
}

fn packet(first: u8, body: &[u8]) -> Vec<u8> {
    [&[first, u8::try_from(body.len()).unwrap()], body].concat()
}

/// The next packet; `None` at the end.
fn next(stream: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    let mut head = [0; 2];
    stream.read_exact(&mut head).ok()?;
    let mut body = vec![0; usize::from(head[1])];
    stream.read_exact(&mut body).ok()?;
    Some((head[0], body))
}

/// The rights of a client: "connects", and each topic that it publishes to and gets back.
pub(crate) fn rights(port: u16, client: Option<(&str, &str)>) -> BTreeSet<String> {
    let mut rights = BTreeSet::new();
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return rights };
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let flags = if client.is_some() { 0xC2 } else { 0x02 };
    let mut connect = [&text("MQTT")[..], &[4, flags, 0, 0], &text("probe")].concat();
    if let Some((name, password)) = client {
        connect.extend([text(name), text(password)].concat());
    }
    stream.write_all(&packet(0x10, &connect)).unwrap();
    if next(&mut stream).is_none_or(|(_, body)| body != [0, 0]) {
        return rights;
    }
    rights.insert("connects".to_owned());
    let filter = [&[0, 1][..], &text("#"), &[0]].concat();
    stream.write_all(&packet(0x82, &filter)).unwrap();
    // Mosquitto grants each filter and looks at messages; a refusal and silence say the same.
    for topic in ["free/1", "ruled/1"] {
        for (id, filter) in [(2, "free/#"), (3, "ruled/#")] {
            stream.write_all(&packet(0x82, &[&[0, id][..], &text(filter), &[0]].concat())).unwrap();
        }
        stream.write_all(&packet(0x30, &[text(topic), b"x".to_vec()].concat())).unwrap();
    }
    stream.write_all(&[0xC0, 0]).unwrap();
    while let Some((first, body)) = next(&mut stream) {
        if first == 0xD0 {
            break;
        }
        if first & 0xF0 == 0x30 {
            // Mosquitto shows a client its mount point in some versions.
            let topic = String::from_utf8(body[2..2 + usize::from(body[1])].to_vec()).unwrap();
            let own = ["free/1", "ruled/1"].into_iter().find(|own| topic.ends_with(own));
            rights.insert(own.unwrap_or(&topic).to_owned());
        }
    }
    rights
}

/// Writes the files that shapes name, and gives the shape with places and ports of this run.
fn prepared(folder: &Folder, shape: &str) -> (String, Vec<u16>) {
    folder.write("acl", "topic readwrite free/#\n\nuser ann\ntopic readwrite ruled/#\n");
    folder.write("acl2", "topic readwrite ruled/#\n");
    for users in ["users", "users2"] {
        let file = folder.file(users);
        let status = Command::new("mosquitto_passwd").args(["-c", "-b", &file, "ann", "right"]).status().unwrap();
        assert!(status.success());
    }
    let place = folder.file("");
    let ports: BTreeMap<&str, u16> =
        PORTS.into_iter().filter(|known| shape.contains(known)).map(|known| (known, free_port())).collect();
    let text = with_ports(shape, &ports).replace("@DIR@", place.trim_end_matches('/'));
    // As root it would become a user who may not read the files.
    (text + "user root\n", ports.into_values().collect())
}

/// The rights of clients at each port.
fn all_rights(ports: &[u16]) -> Vec<(u16, &'static str, BTreeSet<String>)> {
    let each = |port: &u16| {
        let port = *port;
        CLIENTS
            .into_iter()
            .map(move |client| (port, client.map_or("anonymous", |(_, password)| password), rights(port, client)))
    };
    ports.iter().flat_map(each).collect()
}

#[test]
fn converted_shapes_admit_the_same_clients_as_mosquitto() {
    if Command::new("mosquitto").arg("-h").stdout(Stdio::null()).spawn().and_then(|mut child| child.wait()).is_err() {
        // Another test runs the shapes without Mosquitto.
        return;
    }
    let shapes = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mosquitto-conf/tests/shapes");
    let mut probed = 0;
    for entry in std::fs::read_dir(shapes).unwrap() {
        let path = entry.unwrap().path();
        let shape = std::fs::read_to_string(&path).unwrap();
        let Some(kind) = shape.lines().find_map(|line| line.strip_prefix("#! probe ")) else { continue };
        let folder = Folder::new();
        let (text, ports) = prepared(&folder, &shape);
        let theirs = folder.write("mosquitto.conf", &text);
        let of_mosquitto = {
            let _running = mosquitto(&theirs);
            all_rights(&ports)
        };
        let ours = folder.write("ours.toml", &run(&["config", "convert", &theirs]).out);
        let broker = Broker::spawn(command(&["--config", &ours, "--shards", "1", "--admin", "off", "--log", "error"]));
        let of_ours = all_rights(&ports);
        broker.signal("TERM");
        broker.wait();
        for (theirs, ours) in of_mosquitto.iter().zip(&of_ours) {
            // A name that nothing proves counts as none in ours.
            let unnamed = of_mosquitto.iter().find(|other| (other.0, other.1) == (theirs.0, "anonymous")).unwrap();
            let may: BTreeSet<String> = theirs.2.union(&unnamed.2).cloned().collect();
            assert!(ours.2.is_subset(&may), "{}: {ours:?} is more than {may:?}", path.display());
            assert!(kind == "within" || ours.2 == theirs.2, "{}: {ours:?}, not {theirs:?}", path.display());
        }
        probed += 1;
    }
    assert!(probed >= 15, "{probed}");
}

/// As Mosquitto's own bridges, which it asks neither for a name nor for rights.
#[test]
fn a_converted_bridge_passes_users_and_rules() {
    let folder = Folder::new();
    let other = Broker::start(&[]);
    let (port, other_port) = (free_port(), other.address("mqtt://127.0.0.1:"));
    let users = folder.file("users");
    assert_eq!(run(&["passwd", "-c", "-b", "-H", "sha512-pbkdf2", "-I", "100", &users, "ann", "right"]).code, Some(0));
    let rules = folder.write("acl", "user ann\ntopic readwrite ruled/#\n");
    let (place, ours) = (folder.file(""), folder.file("tidegate.toml"));
    let theirs = folder.write(
        "mosquitto.conf",
        &format!(
            "listener {port} 127.0.0.1\npassword_file {users}\nacl_file {rules}\npersistence true\npersistence_location {place}\n\
             connection cloud\naddress 127.0.0.1:{other_port}\ntopic # both 1\n"
        ),
    );
    let ended = run(&["config", "convert", &theirs, "-o", &ours]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let broker = Broker::spawn(command(&["--config", &ours, "--shards", "2", "--admin", "off", "--log", "warn"]));
    assert_eq!(std::fs::metadata(folder.file("bridges.sock")).unwrap().permissions().mode() & 0o777, 0o600);
    let port = port.to_string();
    let here = ["-p", &port, "-u", "ann", "-P", "right"];
    let there = ["-p", other_port];
    for (from, to, topic) in [(&here[..], &there[..], "ruled/up"), (&there, &here, "ruled/down")] {
        let sent = run(&[&["pub"], from, &["-t", topic, "-m", "value", "-r", "-q", "1"]].concat());
        assert_eq!(sent.code, Some(0), "{}", sent.err);
        let read = || run(&[&["sub"], to, &["-t", topic, "-C", "1", "-W", "2"]].concat());
        until(topic, || (read().out == "value\n").then_some(()));
    }
    broker.signal("TERM");
    assert_eq!(broker.wait().code, Some(0));
}
