//! Brokers that get the credentials of each client: they decide on its admission, and their rules on its rights.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use serde_json::Value;

use crate::broker::{Broker, Folder, PATIENCE, pause, run};

const RULES: &str = "user ann\ntopic readwrite ann/#\ntopic write shared/#\n\
                     user bob\ntopic readwrite bob/#\ntopic read shared/#\n";

/// A broker with users, each with the password `NAME-secret`, and rules about them.
fn broker(folder: &Folder) -> Broker {
    let users = folder.write("users", "");
    for name in ["ann", "bob", "watch"] {
        set_password(&users, name, &format!("{name}-secret"));
    }
    let config = format!(
        "[access]\nacl_file = {:?}\n[[auth]]\nkind = 'password-file'\nfile = {users:?}\n",
        folder.write("rules", RULES)
    );
    Broker::start(&["--config", &folder.write("broker.toml", &config)])
}

/// Few rounds, so that no test waits for a hash.
fn set_password(users: &str, name: &str, password: &str) {
    let ended = run(&["passwd", "-b", "-H", "sha512-pbkdf2", "-I", "100", users, name, password]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
}

/// An orchestrator in front of brokers, with settings of `[orchestrator]`.
fn orchestrator(brokers: &[&Broker], settings: &[(&str, &str)]) -> Broker {
    orchestrator_with(brokers, settings, &[])
}

/// The same with further arguments.
fn orchestrator_with(brokers: &[&Broker], settings: &[(&str, &str)], more: &[&str]) -> Broker {
    let fleet: Vec<String> = brokers
        .iter()
        .zip(0..)
        .map(|(broker, number)| format!("b{number}=mqtt://watch:watch-secret@{}", broker.address("mqtt://")))
        .collect();
    let mut arguments = vec!["--set".to_owned(), "orchestrator.identity=client".to_owned()];
    for broker in fleet {
        arguments.extend(["--broker".to_owned(), broker]);
    }
    for (key, value) in settings {
        arguments.extend(["--set".to_owned(), format!("orchestrator.{key}={value}")]);
    }
    let usual = ["orchestrator", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    let arguments: Vec<&str> = usual.iter().chain(more).copied().chain(arguments.iter().map(String::as_str)).collect();
    let orchestrator = Broker::start_with(&arguments);
    fleet_when(&orchestrator, |fleet| {
        fleet["brokers"].as_array().is_some_and(|all| all.iter().all(|one| one["state"] == "serving"))
    });
    orchestrator
}

/// The status of the fleet, as soon as `is` accepts it.
fn fleet_when(orchestrator: &Broker, is: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let fleet: Value = serde_json::from_str(&orchestrator.get("/api/v1/fleet").1).unwrap();
        if is(&fleet) {
            return fleet;
        }
        assert!(Instant::now() < deadline, "{fleet}");
        pause(10);
    }
}

/// A client of MQTT 3.1.1.
struct Client(TcpStream);

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&u16::try_from(text.len()).unwrap().to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn packet(first_byte: u8, body: &[u8]) -> Vec<u8> {
    [&[first_byte, u8::try_from(body.len()).unwrap()], body].concat()
}

impl Client {
    /// Connects, and gives the return code as well.
    fn dial(server: &Broker, client_id: &str, credentials: Option<(&str, &str)>) -> (Self, u8) {
        let mut body = b"\0\x04MQTT\x04".to_vec();
        body.extend_from_slice(&[if credentials.is_some() { 0xc2 } else { 2 }, 0, 0]);
        text(&mut body, client_id);
        if let Some((user, password)) = credentials {
            text(&mut body, user);
            text(&mut body, password);
        }
        let mut stream = TcpStream::connect(server.address("mqtt://")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&packet(0x10, &body)).unwrap();
        let mut client = Self(stream);
        let answer = client.read();
        assert_eq!(answer[0], 0x20, "{answer:?}");
        (client, answer[3])
    }

    /// One that is let in under its name.
    fn connect(server: &Broker, client_id: &str, user: &str) -> Self {
        let (client, code) = Self::dial(server, client_id, Some((user, &format!("{user}-secret"))));
        assert_eq!(code, 0, "{user}");
        client
    }

    /// The next packet.
    fn read(&mut self) -> Vec<u8> {
        let mut head = [0; 2];
        self.0.read_exact(&mut head).unwrap();
        let mut body = vec![0; usize::from(head[1])];
        self.0.read_exact(&mut body).unwrap();
        [&head[..], &body].concat()
    }

    fn subscribe(&mut self, filter: &str, qos: u8) -> u8 {
        let mut body = vec![0, 9];
        text(&mut body, filter);
        body.push(qos);
        self.0.write_all(&packet(0x82, &body)).unwrap();
        let answer = self.read();
        assert_eq!(answer[..4], [0x90, 3, 0, 9], "{answer:?}");
        answer[4]
    }

    /// Publishes with QoS 1 and waits for the acknowledgement.
    fn publish(&mut self, topic: &str, retain: bool) {
        let mut body = Vec::new();
        text(&mut body, topic);
        body.extend_from_slice(&[0, 7]);
        self.0.write_all(&packet(0x32 | u8::from(retain), &[&body[..], b"x"].concat())).unwrap();
        assert_eq!(self.read(), [0x40, 2, 0, 7]);
    }

    /// The topic of the next message, at QoS 0.
    fn message(&mut self) -> String {
        let message = self.read();
        assert_eq!(message[0] & 0xf6, 0x30, "{message:?}");
        let length = usize::from(message[3]);
        String::from_utf8(message[4..4 + length].to_vec()).unwrap()
    }
}

#[test]
fn a_client_has_the_rights_of_its_user_at_the_broker() {
    let folder = Folder::new();
    let at_home = broker(&folder);
    let server = orchestrator(&[&at_home], &[("identity_linger", "0s")]);

    // Who is who says the broker.
    for credentials in [None, Some(("ann", "wrong")), Some(("eve", "ann-secret"))] {
        assert_ne!(Client::dial(&server, "c", credentials).1, 0, "{credentials:?}");
    }

    // Clients of two users have nothing in common, not even their client ids.
    let (mut ann, mut bob) = (Client::connect(&server, "same", "ann"), Client::connect(&server, "same", "bob"));
    assert_eq!((ann.subscribe("ann/#", 0), bob.subscribe("ann/#", 0)), (0, 0x80));
    assert_eq!((bob.subscribe("shared/#", 0), bob.subscribe("bob/#", 0)), (0, 0));
    assert_eq!(ann.subscribe("shared/#", 0), 0x80, "to be written only");

    // A message that the broker accepts gets through, also to another user; one that it refuses reaches no client,
    // retained or not.
    ann.publish("bob/forged", false);
    ann.publish("bob/kept", true);
    ann.publish("shared/news", false);
    assert_eq!(bob.message(), "shared/news");
    assert_eq!(Client::connect(&server, "late", "bob").subscribe("bob/kept", 0), 0);
    bob.publish("bob/own", false);
    assert_eq!((bob.read()[0], "bob/own"), (0x30, "bob/own"));
    ann.publish("ann/own", true);
    assert_eq!(ann.message(), "ann/own");

    // A filter without subscribers is not requested any more; refusals are counted.
    let fleet = fleet_when(&server, |fleet| fleet["brokers"][0]["filters"] == 3 && fleet["brokers"][0]["owed"] == 0);
    assert_eq!((fleet["identities"].as_u64(), fleet["clients"].as_u64()), (Some(2), Some(2)), "{fleet}");
    let numbers = server.get("/metrics").1;
    let refused = numbers.lines().find(|line| line.contains("reason=\"refused_by_receiver\""));
    assert!(refused.is_some_and(|line| line.ends_with(" 2")), "{refused:?}");
    drop((ann, bob));
    fleet_when(&server, |fleet| fleet["identities"] == 0);
    // A client that returns finds the messages that the broker has kept.
    let mut ann = Client::connect(&server, "same", "ann");
    assert_eq!(ann.subscribe("ann/#", 0), 0);
    assert_eq!(ann.message(), "ann/own");

    server.signal("TERM");
    let ended = server.wait();
    assert!(!ended.err.contains("-secret") && !ended.out.contains("-secret"), "{}", ended.err);
}

#[test]
fn the_limit_counts_users_and_not_their_clients() {
    let folder = Folder::new();
    let at_home = broker(&folder);
    let server = orchestrator(&[&at_home], &[("max_identities", "1")]);
    let _ann = Client::connect(&server, "1", "ann");
    let (_, code) = Client::dial(&server, "2", Some(("bob", "bob-secret")));
    assert_eq!(code, 3, "server unavailable");
    let _second = Client::connect(&server, "3", "ann");
    server.signal("TERM");
    let told = server.wait().err;
    assert!(told.contains("raise orchestrator.max_identities"), "{told}");
}

#[test]
fn each_user_gets_its_share_of_reloaded_limits() {
    let folder = Folder::new();
    let at_home = broker(&folder);
    // Of a user's three, the one broker's session is one.
    let config = folder.write("orchestrator.toml", "[limits]\nmax_sessions = 6\n");
    let server = orchestrator_with(&[&at_home], &[("max_identities", "2")], &["--config", &config]);
    let comes_in = |client_id: &str, user: &str| {
        let (client, code) = Client::dial(&server, client_id, Some((user, &format!("{user}-secret"))));
        (code == 0).then_some(client)
    };
    let mut in_now: Vec<Option<Client>> = ["1", "2"].iter().map(|id| comes_in(id, "ann")).collect();
    assert!(in_now.iter().all(Option::is_some) && comes_in("3", "ann").is_none());
    folder.write("orchestrator.toml", "[limits]\nmax_sessions = 8\n");
    let ended = run(&["reload", "--admin", &format!("http://{}", server.address("admin=http://"))]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    // Also a user who comes now; neither gets what all users may have together.
    in_now.push(comes_in("3", "ann"));
    in_now.extend(["1", "2", "3"].iter().map(|id| comes_in(id, "bob")));
    assert!(in_now.iter().all(Option::is_some));
    assert!(comes_in("4", "ann").is_none() && comes_in("4", "bob").is_none());
}

#[test]
fn brokers_come_and_go_for_all_users() {
    let folder = Folder::new();
    let (first, second) = (broker(&folder), broker(&folder));
    let server = orchestrator(&[&first], &[("policy", "round-robin")]);
    let mut ann = Client::connect(&server, "1", "ann");
    assert_eq!(ann.subscribe("ann/#", 0), 0);
    let change = |method: &str, path: &str, body: &str| {
        let mut stream = TcpStream::connect(server.address("admin=http://")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let length = body.len();
        write!(stream, "{method} /api/v1/fleet/brokers/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\ntidegate-command: fleet\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nConnection: close\r\n\r\n{body}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 20"), "{method} {path}: {answer}");
    };
    let address = format!("{{\"address\":\"mqtt://watch:watch-secret@{}\"}}", second.address("mqtt://"));
    change("PUT", "b1", &address);
    fleet_when(&server, |fleet| fleet["brokers"][1]["state"] == "serving" && fleet["brokers"][1]["filters"] == 1);
    change("POST", "b0/drain", "");
    fleet_when(&server, |fleet| fleet["brokers"][0]["state"] == "drained");
    change("DELETE", "b0", "");
    drop(first);
    // New clients are checked at the remaining broker, and so are the long connected ones.
    let _bob = Client::connect(&server, "2", "bob");
    ann.publish("ann/x", false);
    assert_eq!(ann.message(), "ann/x");
}

#[test]
fn credentials_unusable_at_brokers_are_reported_at_the_start() {
    let refused = |set: &[&str]| {
        let usual = ["orchestrator", "--listen", "127.0.0.1:0", "--set", "orchestrator.identity=client"];
        let ended = run(&[&usual, set].concat());
        assert_ne!(ended.code, Some(0));
        ended.err
    };
    let folder = Folder::new();
    assert!(refused(&["--data", &folder.file("data")]).contains("store.directory"));
    assert!(refused(&["--allow-anonymous"]).contains("allow_anonymous"));
    assert!(refused(&["--listen", "quic://127.0.0.1:0"]).contains("listeners for QUIC"));
}
