//! Converted configurations of other brokers: each result is started, and clients try their rights.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::thread;

use crate::broker::{Broker, Folder, command, run};
use crate::mosquitto::{CLIENTS, PORTS, rights, with_ports};
use crate::ports::free_port;

/// The main files of shapes.
const MAIN: [&str; 6] =
    ["emqx.conf", "conf/config.xml", "nanomq.conf", "rabbitmq.conf", "vernemq.conf", "definitions.json"];

/// The words of `expected` for the clients.
const WORDS: [&str; 4] = ["anonymous", "right", "wrong", "unknown"];

/// Files below a folder, relative to it.
fn files(folder: &Path, below: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder.join(below)).unwrap() {
        let entry = entry.unwrap();
        let path = below.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            files(folder, &path, found);
        } else {
            found.push(path);
        }
    }
}

/// Copies a shape with free ports in place of the known ones.
fn prepared(shape: &Path, folder: &Folder) -> BTreeMap<u16, u16> {
    let mut found = Vec::new();
    files(shape, Path::new(""), &mut found);
    let texts: Vec<(PathBuf, String)> =
        found.into_iter().map(|path| (path.clone(), std::fs::read_to_string(shape.join(&path)).unwrap())).collect();
    let named = |known: &&str| texts.iter().any(|(path, text)| !path.ends_with("expected") && text.contains(known));
    let ports: BTreeMap<&str, u16> = PORTS.into_iter().filter(named).map(|known| (known, free_port())).collect();
    for (path, text) in texts.iter().filter(|(path, _)| !path.ends_with("expected")) {
        let target = PathBuf::from(folder.file(&path.to_string_lossy()));
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::write(target, with_ports(text, &ports)).unwrap();
    }
    ports.into_iter().map(|(known, free)| (known.parse().unwrap(), free)).collect()
}

/// The rights that `expected` names, for each port and client.
fn expected(shape: &Path) -> BTreeMap<(u16, &'static str), BTreeSet<String>> {
    let text = std::fs::read_to_string(shape.join("expected")).unwrap();
    let mut all = BTreeMap::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("may ")) {
        let mut words = line.split(' ').peekable();
        let port = words.peek().and_then(|word| word.parse().ok());
        if port.is_some() {
            words.next();
        }
        let client = words.next().unwrap();
        let client = WORDS.into_iter().find(|word| *word == client).unwrap();
        all.insert((port.unwrap_or(1883), client), words.map(str::to_owned).collect());
    }
    all
}

#[test]
fn converted_shapes_give_the_rights_of_other_brokers() {
    let shapes = Path::new(env!("CARGO_MANIFEST_DIR")).join("../foreign-conf/tests/shapes");
    let (mut probed, mut wrong) = (0, Vec::new());
    for entry in std::fs::read_dir(shapes).unwrap() {
        let shape = entry.unwrap().path();
        // A port that is not in the file cannot be replaced, and certificates of a shape are not there.
        let name = shape.file_name().unwrap().to_string_lossy().into_owned();
        if name == "rabbitmq-definitions" || name.ends_with("-tls") {
            continue;
        }
        let folder = Folder::new();
        let ports = prepared(&shape, &folder);
        let main = MAIN.iter().find(|main| shape.join(main).exists()).unwrap();
        let (theirs, ours) = (folder.file(main), folder.file("tidegate.toml"));
        let ended = run(&["config", "convert", &theirs, "-o", &ours]);
        let exit = std::fs::read_to_string(shape.join("expected")).unwrap();
        assert_eq!(Some(exit.starts_with("exit 3")), ended.code.map(|code| code == 3), "{name}: {}", ended.err);
        // The port of a listener that replaces all those left out.
        let text = std::fs::read_to_string(&ours)
            .unwrap()
            .replace("\"127.0.0.1:1883\"", &format!("\"127.0.0.1:{}\"", free_port()));
        folder.write("tidegate.toml", &text);
        let broker = Broker::spawn(command(&["--config", &ours, "--shards", "1", "--admin", "off", "--log", "error"]));
        let expected = expected(&shape);
        for (known, free) in &ports {
            for (client, word) in CLIENTS.into_iter().zip(WORDS) {
                let may = expected.get(&(*known, word)).cloned().unwrap_or_default();
                let rights = rights(*free, client);
                if rights != may {
                    wrong.push(format!("{name}: {word} at {known} has {rights:?}, not {may:?}\n{text}"));
                }
            }
        }
        broker.signal("TERM");
        broker.wait();
        probed += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(probed >= 55, "{probed}");
}

#[test]
fn a_configuration_is_converted_as_that_of_a_named_broker() {
    let folder = Folder::new();
    // Only its own parser knows these lines.
    let file = folder.write("broker.conf", "allow_anonymous = on\nmax_inflight_messages = 7\n");
    let ended = run(&["config", "convert", &file]);
    assert_eq!(ended.code, Some(2), "{}", ended.err);
    let ended = run(&["config", "convert", &file, "--from", "vernemq", "--json"]);
    assert_eq!(ended.code, Some(3), "{}", ended.err);
    assert!(ended.out.contains("\"limits.max_inflight = 7\""), "{}", ended.out);
    let ended = run(&["config", "convert", &file, "--from", "hivemq"]);
    assert_eq!(ended.code, Some(2), "{}", ended.err);
    let ended = run(&["config", "convert", &file, "--from", "vernemq", "--diff"]);
    assert!(ended.out.contains("- max_inflight_messages 7\n+ limits.max_inflight = 7\n"), "{}", ended.out);
}

/// Authenticators of EMQX whose providers are a secret for tokens and a server that this test plays.
#[test]
fn authenticators_of_emqx_decide_in_the_result() {
    const TOKEN: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbm4iLCJkZXZpY2UiOiJjMSJ9.mIklyRWgWkOtecT74ZIzyeCZBcyTNKQhEUe3M8EBV4A";
    let folder = Folder::new();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, asked) = (free_port(), server.local_addr().unwrap().port());
    let text = format!(
        r#"listeners.tcp.default.bind = "127.0.0.1:{port}"
listeners.ws.default.enable = false
authorization.sources = []
authentication = [
  {{mechanism = jwt, algorithm = "hmac-based", secret = "a-secret-with-more-than-32-characters-of-text", verify_claims {{device = "${{clientid}}"}}}}
  {{mechanism = password_based, backend = http, method = post, url = "http://127.0.0.1:{asked}/auth",
    headers {{Authorization = "Bearer of-emqx"}}, body {{username = "${{username}}", password = "${{password}}"}}}}
]
"#
    );
    let (theirs, ours) = (folder.write("emqx.conf", &text), folder.file("tidegate.toml"));
    let ended = run(&["config", "convert", &theirs, "-o", &ours]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let broker = Broker::spawn(command(&["--config", &ours, "--shards", "1", "--admin", "off", "--log", "error"]));
    let port = port.to_string();
    let publish = |id: &str, user: &str, password: &str| {
        run(&["pub", "-p", &port, "-i", id, "-u", user, "-P", password, "-t", "gate", "-m", "open", "-q", "1"]).code
    };
    assert_eq!(publish("c1", "ann", TOKEN), Some(0));
    assert_ne!(publish("c2", "ann", TOKEN), Some(0), "the token is for another client");
    let answering = thread::spawn(move || answer(&server));
    assert_eq!(publish("c3", "bob", "tide"), Some(0));
    let question = answering.join().unwrap();
    for part in ["Bearer of-emqx", "\"username\":\"bob\"", "\"password\":\"tide\""] {
        assert!(question.contains(part), "{part}: {question}");
    }
    broker.signal("TERM");
    broker.wait();
}

/// Answers one question with yes, and returns the question.
fn answer(server: &TcpListener) -> String {
    let (mut stream, _) = server.accept().unwrap();
    let mut question = String::new();
    let mut part = [0; 4096];
    while !question.ends_with('}') {
        let read = stream.read(&mut part).unwrap();
        assert_ne!(read, 0, "{question}");
        question.push_str(std::str::from_utf8(&part[..read]).unwrap());
    }
    let yes = "{\"result\":\"allow\"}";
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{yes}", yes.len())
        .unwrap();
    question
}
