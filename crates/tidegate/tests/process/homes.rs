//! Two orchestrators in front of two brokers: every client has one home, and what it is owed moves with it, whoever is
//! killed.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_engine::{TenantId, partition_of};

use crate::broker::{Broker, Folder, PATIENCE, run};
use crate::gate::Gate;
use crate::ports::free_port;

mod administration;
mod killed;

/// Where an orchestrator is.
#[derive(Clone, Copy)]
struct Ports {
    mqtt: u16,
    relay: u16,
    admin: u16,
}

/// Two orchestrators, `a` and `b`, that have the homes of their clients from the same list of peers.
struct Fleet {
    brokers: [Broker; 2],
    ports: [Ports; 2],
    running: [Option<Broker>; 2],
    /// By which port `a` reaches the first broker, if not its own.
    via: Option<u16>,
    folder: Folder,
}

const A: usize = 0;
const B: usize = 1;
const NAMES: [&str; 2] = ["a", "b"];

/// Ports that nobody has at the moment, each of them once.
fn free_ports() -> [Ports; 2] {
    [(); 2].map(|()| Ports { mqtt: free_port(), relay: free_port(), admin: free_port() })
}

/// Time in which something of another process may go on.
#[expect(clippy::disallowed_methods, reason = "what is waited for is in another process, and no event announces it")]
pub(crate) fn pause(milliseconds: u64) {
    thread::sleep(Duration::from_millis(milliseconds));
}

/// Asks until an answer is right.
fn until<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "it did not come");
        pause(5);
    }
}

impl Fleet {
    fn start() -> Self {
        let brokers = [Broker::start(&[]), Broker::start(&[])];
        let (running, via, folder) = ([None, None], None, Folder::new());
        let mut fleet = Self { brokers, ports: free_ports(), running, via, folder };
        for which in [A, B] {
            fleet.run(which);
        }
        for which in [A, B] {
            fleet.wait_serving(which);
        }
        fleet
    }

    fn run(&mut self, which: usize) {
        let peer = |at: usize| {
            let Ports { mqtt, relay, admin } = self.ports[at];
            format!("{}=127.0.0.1:{mqtt}/127.0.0.1:{relay}/127.0.0.1:{admin}", NAMES[at])
        };
        let Ports { mqtt, relay, admin } = self.ports[which];
        let broker = |at: usize| match self.via {
            Some(port) if (which, at) == (A, 0) => format!("mqtt://127.0.0.1:{port}"),
            _ => format!("mqtt://{}", self.brokers[at].address("mqtt://")),
        };
        let least = if self.via.is_some() { "orchestrator.move_settle=0s" } else { "orchestrator.move_settle=50ms" };
        let (data, peers) = (self.folder.file(NAMES[which]), format!("orchestrator.peers={},{}", peer(A), peer(B)));
        let [listen, admin] = [mqtt, admin].map(|port| format!("127.0.0.1:{port}"));
        let relay = format!("orchestrator.relay=127.0.0.1:{relay}");
        let arguments = [
            &["orchestrator", "--name", NAMES[which], "--listen", &listen, "--admin", &admin, "--data", &data][..],
            &["--broker", &broker(0), "--broker", &broker(1), "--set", &peers, "--set", &relay, "--set", least],
        ];
        self.running[which] = Some(Broker::start_with(&arguments.concat()));
    }

    fn kill(&mut self, which: usize) {
        let broker = self.running[which].take().unwrap();
        broker.signal("KILL");
        broker.wait();
    }

    fn wait_serving(&self, which: usize) {
        until(|| {
            let fleet = self.ask(which, "GET", "/api/v1/fleet", &Value::Null);
            let brokers = fleet["brokers"].as_array()?;
            (brokers.len() == 2 && brokers.iter().all(|broker| broker["state"] == "serving")).then_some(())
        });
    }

    fn ask(&self, which: usize, method: &str, path: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.ports[which].admin)) else { return Value::Null };
        let head = "Host: 127.0.0.1\r\nConnection: close\r\ntidegate-command: fleet\r\nContent-Length";
        let mut answer = String::new();
        // Whoever is killed hears nothing, and answers nothing, or half of it.
        let _ = write!(stream, "{method} {path} HTTP/1.1\r\n{head}: {}\r\n\r\n{body}", body.len());
        let _ = stream.read_to_string(&mut answer);
        answer.split_once("\r\n\r\n").and_then(|(_, body)| serde_json::from_str(body).ok()).unwrap_or_default()
    }

    fn homes(&self, which: usize) -> Value {
        self.ask(which, "GET", "/api/v1/homes", &Value::Null)
    }

    /// A client id that is at home at a place now, and its partition.
    fn id_at(&self, which: usize, stem: &str) -> (String, u16) {
        let homes = self.homes(which);
        let ids = (0..10_000).map(|number| format!("{stem}-{number}"));
        let with_partition = ids.map(|id| (partition_of(TenantId::DEFAULT, &id).0, id));
        let mut here = with_partition.filter(|(partition, _)| homes["homes"][usize::from(*partition)] == NAMES[which]);
        let (partition, id) = here.next().unwrap();
        (id, partition)
    }

    fn client(&self, which: usize, arguments: &[&str]) -> String {
        let port = self.ports[which].mqtt.to_string();
        let ended = run(&[&arguments[..1], &["-h", "127.0.0.1", "-p", &port], &arguments[1..]].concat());
        assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.err);
        ended.out
    }

    fn publish(&self, which: usize, numbers: std::ops::Range<u32>) {
        // By a client that is at home there, so that the other place may be dead.
        let (id, _) = self.id_at(which, "publisher");
        for number in numbers {
            let qos = if number % 2 == 0 { "1" } else { "2" };
            self.client(which, &["pub", "-i", &id, "-q", qos, "-t", "in/a", "-m", &number.to_string()]);
        }
    }

    /// The same, and waits until a session has them: publishers are answered before their messages have come back from
    /// the brokers, and orchestrators of several shards may deliver twice what comes back in the moment in which a
    /// partition leaves.
    fn publish_to(&self, which: usize, numbers: std::ops::Range<u32>, (owner, id): (usize, &str)) {
        let queued = u64::from(numbers.end);
        self.publish(which, numbers);
        until(|| {
            let clients = self.ask(owner, "GET", &format!("/api/v1/clients?containing={id}"), &Value::Null);
            (clients["clients"][0]["queued_messages"] == queued).then_some(())
        });
    }

    fn subscribe(&self, which: usize, id: &str) {
        self.client(which, &["sub", "-i", id, "-c", "-q", "2", "-t", "in/#", "-E"]);
    }

    /// Takes what a session is owed, by way of a place: each message once, in their order.
    fn expect_owed(&self, by: usize, id: &str, number: u32) {
        let count = number.to_string();
        let out = self.client(by, &["sub", "-i", id, "-c", "-q", "2", "-t", "in/#", "-C", &count, "-W", "120"]);
        let expected: Vec<String> = (0..number).map(|number| number.to_string()).collect();
        assert_eq!(out.lines().collect::<Vec<_>>(), expected);
    }

    /// The place that serves a partition, on whose word both agree.
    fn owner(&self, partition: u16) -> usize {
        let [a, b] = [A, B].map(|which| self.homes(which)["homes"][usize::from(partition)].clone());
        assert_eq!(a, b);
        usize::from(a == NAMES[B])
    }
}

/// CONNECT of MQTT 5, and whatever it is answered with.
fn connect(port: u16, id: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = [&[0x10, 13 + id.len() as u8][..], b"\0\x04MQTT\x05\x02\0\0\0\0", &[id.len() as u8], id.as_bytes()];
    stream.write_all(&head.concat()).unwrap();
    let mut answer = [0; 2];
    stream.read_exact(&mut answer).unwrap();
    let mut rest = vec![0; answer[1].into()];
    stream.read_exact(&mut rest).unwrap();
    assert_eq!((answer[0], rest[1]), (0x20, 0));
    stream
}

#[test]
fn a_client_id_that_is_connected_at_both_meets_at_its_home() {
    let fleet = Fleet::start();
    for home in [A, B] {
        let (id, _) = fleet.id_at(home, "twice");
        for (first, second) in [(A, B), (B, A)] {
            let mut one = connect(fleet.ports[first].mqtt, &id);
            let _other = connect(fleet.ports[second].mqtt, &id);
            let mut goodbye = Vec::new();
            one.read_to_end(&mut goodbye).unwrap();
            assert_eq!((goodbye[0], goodbye[2]), (0xe0, 0x8e), "{goodbye:02x?}");
        }
    }
}

#[test]
fn what_a_session_is_owed_moves_with_it_and_comes_once() {
    let fleet = Fleet::start();
    let (id, partition) = fleet.id_at(A, "mover");
    fleet.subscribe(A, &id);
    fleet.publish_to(B, 0..10, (A, &id));
    let before = fleet.homes(A);
    let moved = fleet.ask(A, "POST", "/api/v1/homes/move", &json!({"partition": partition, "to": "b", "epoch": 1}));
    assert_eq!((&moved["epoch"], &moved["owed"]["sessions"]), (&json!(2), &json!(1)), "{moved}");
    assert_eq!(moved["owed"]["queued"], 10);
    fleet.publish(A, 10..16);
    assert_eq!(fleet.owner(partition), B);
    fleet.expect_owed(A, &id, 16);
    // An older table is refused, and so is another one of the same epoch.
    let mut other = before.clone();
    assert!(fleet.ask(A, "PUT", "/api/v1/homes", &before)["error"].is_string());
    other["epoch"] = json!(2);
    assert!(fleet.ask(A, "PUT", "/api/v1/homes", &other)["error"].is_string());
    // Everything goes, and comes back.
    assert_eq!(
        fleet.ask(B, "POST", "/api/v1/homes/move-all", &json!({"to": ["a"], "batch": 64}))["error"],
        Value::Null
    );
    until(|| (fleet.homes(B)["move_all"]["running"] == false).then_some(()));
    let (a, b) = (fleet.homes(A), fleet.homes(B));
    assert_eq!((&a["here"], &b["here"], &b["move_all"]["last_error"]), (&json!(64), &json!(0), &json!("")));
    assert_eq!((&a["owed_mismatches"], &b["owed_mismatches"]), (&json!(0), &json!(0)));
    fleet.publish(A, 0..3);
    fleet.expect_owed(B, &id, 3);
}

#[test]
fn a_client_whose_partition_moves_is_told_where_to() {
    let fleet = Fleet::start();
    let (id, partition) = fleet.id_at(A, "mover");
    let there = format!("127.0.0.1:{}", fleet.ports[B].mqtt);
    let mut goodbyes = Vec::new();
    // One is connected at its home, the other one relayed there.
    for by in [A, B] {
        let mut client = connect(fleet.ports[by].mqtt, &id);
        let to = NAMES[if by == A { B } else { A }];
        let order = json!({"partition": partition, "to": to});
        assert_eq!(fleet.ask(if by == A { A } else { B }, "POST", "/api/v1/homes/move", &order)["error"], Value::Null);
        let mut goodbye = Vec::new();
        client.read_to_end(&mut goodbye).unwrap();
        assert_eq!((goodbye[0], goodbye[2]), (0xe0, 0x9c), "{goodbye:02x?}");
        goodbyes.push(String::from_utf8_lossy(&goodbye).into_owned());
    }
    assert!(goodbyes[0].contains(&there), "{goodbyes:?}");
}

#[test]
fn a_relayed_client_of_a_leaver_is_told_where_to() {
    let fleet = Fleet::start();
    let (id, _) = fleet.id_at(B, "relayed");
    let mut client = connect(fleet.ports[A].mqtt, &id);
    let order = json!({"server_reference": "elsewhere.example:1883", "per_second": 1000, "evict_after_s": 60});
    assert_eq!(fleet.ask(A, "POST", "/api/v1/drain", &order)["error"], Value::Null);
    let mut goodbye = Vec::new();
    client.read_to_end(&mut goodbye).unwrap();
    assert_eq!((goodbye[0], goodbye[2]), (0xe0, 0x9c), "{goodbye:02x?}");
    assert!(String::from_utf8_lossy(&goodbye).contains("elsewhere.example:1883"));
    // What its home has said before comes first, and nothing behind.
    assert_eq!(usize::from(goodbye[1]) + 2, goodbye.len());
}

/// A client of MQTT 3.1.1, which cannot be told to go.
fn connect_early(port: u16, id: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = [&[0x10, 12 + id.len() as u8][..], b"\0\x04MQTT\x04\x02\0\0\0", &[id.len() as u8], id.as_bytes()];
    stream.write_all(&head.concat()).unwrap();
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [0x20, 2, 0, 0]);
    stream
}

#[test]
fn who_cannot_be_told_to_leave_has_time_to_leave_by_himself() {
    let fleet = Fleet::start();
    for home in [A, B] {
        let (id, _) = fleet.id_at(home, "early");
        let (other, _) = fleet.id_at(home, "late");
        let (mut early, mut late) = (connect_early(fleet.ports[A].mqtt, &id), connect(fleet.ports[A].mqtt, &other));
        let drain = |seconds: u64| json!({"per_second": 1000, "evict_after_s": seconds});
        assert_eq!(fleet.ask(A, "POST", "/api/v1/drain", &drain(3600))["error"], Value::Null);
        let mut goodbye = Vec::new();
        late.read_to_end(&mut goodbye).unwrap();
        assert_eq!((goodbye[0], goodbye[2]), (0xe0, 0x9c), "{goodbye:02x?}");
        // The other one is served as before.
        early.write_all(&[0xc0, 0]).unwrap();
        let mut pong = [0; 2];
        early.read_exact(&mut pong).unwrap();
        assert_eq!(pong, [0xd0, 0]);
        assert_eq!(fleet.ask(A, "POST", "/api/v1/drain", &drain(0))["error"], Value::Null);
        assert_eq!(early.read_to_end(&mut Vec::new()).unwrap(), 0);
        assert_eq!(fleet.ask(A, "DELETE", "/api/v1/drain", &Value::Null)["error"], Value::Null);
    }
}

#[test]
fn a_move_waits_until_a_slow_broker_has_handed_out_what_it_had() {
    let mut fleet = Fleet::start();
    let gate = Gate::before(fleet.brokers[0].address("mqtt://").to_owned());
    // The old home has a broker of its own behind the gate, and no time is waited for its own sake.
    fleet.kill(A);
    fleet.via = Some(gate.at);
    fleet.run(A);
    fleet.wait_serving(A);
    let (id, partition) = fleet.id_at(A, "slow");
    fleet.subscribe(A, &id);
    gate.set(true);
    // Published at the broker, before the new home has the filter there.
    let port = fleet.brokers[0].address("mqtt://").rsplit_once(':').unwrap().1.to_owned();
    for number in 0..4_u32 {
        let published =
            run(&["pub", "-h", "127.0.0.1", "-p", &port, "-q", "1", "-t", "in/a", "-m", &number.to_string()]);
        assert_eq!(published.code, Some(0), "{}", published.err);
    }
    thread::scope(|scope| {
        let fleet = &fleet;
        let moved = scope
            .spawn(move || fleet.ask(A, "POST", "/api/v1/homes/move", &json!({"partition": partition, "to": "b"})));
        until(|| (fleet.homes(B)["arriving"] != Value::Null).then_some(()));
        gate.set(false);
        let moved = moved.join().unwrap();
        assert_eq!((&moved["error"], &moved["came_meanwhile"]), (&Value::Null, &json!(4)), "{moved}");
    });
    fleet.expect_owed(B, &id, 4);
}

#[test]
fn one_broker_is_named_once() {
    let twice = run(&["orchestrator", "--broker", "x=mqtt://Host:1", "--broker", "y=mqtt://me:secret@host:1"]);
    assert_ne!(twice.code, Some(0));
    assert!(twice.err.contains("brokers `x` and `y` have the address host:1"), "{}", twice.err);
    assert!(twice.err.contains("given its share twice") && !twice.err.contains("secret"), "{}", twice.err);
    let folder = Folder::new();
    let file = folder.write("o.toml", "[orchestrator]\nbrokers = [\"x=mqtt://h:1\", \"y=mqtt://me:secret@h:1\"]\n");
    let twice = run(&["orchestrator", "--config", &file]);
    assert!(twice.err.contains("o.toml:2:11") && !twice.err.contains("secret"), "{}", twice.err);
    let fleet = Fleet::start();
    let at = |broker: usize| format!("mqtt://{}", fleet.brokers[broker].address("mqtt://"));
    let add = |body: &Value| fleet.ask(A, "PUT", "/api/v1/fleet/brokers/other", body);
    let refused = add(&json!({"address": at(0)}));
    assert!(refused["error"].as_str().unwrap().contains("has the address"), "{refused}");
    assert!(add(&json!({"address": at(0), "replaces": "x"}))["error"].is_string());
    // One that takes a dead one's place may be where that one was.
    let known = fleet.ask(A, "GET", "/api/v1/fleet", &Value::Null)["brokers"][0]["name"].clone();
    let other = fleet.ask(A, "GET", "/api/v1/fleet", &Value::Null)["brokers"][1]["name"].clone();
    let replaced = json!({"address": at(0), "replaces": [known, other]});
    assert_eq!(add(&replaced)["error"], Value::Null);
}

#[test]
fn two_orchestrators_with_one_name_are_told() {
    let address = "127.0.0.1:1/127.0.0.1:2/127.0.0.1:3";
    for (peers, common) in [
        (format!("a={address},a=h:1/h:2/h:3"), "name `a`"),
        (format!("a={address},b=127.0.0.1:1/h:2/h:3"), "address `127.0.0.1:1`"),
        (format!("a={address},b=h:1/h:2/127.0.0.1:3"), "admin address `127.0.0.1:3`"),
    ] {
        let refused = run(&["orchestrator", "--broker", "mqtt://h:1", "--set", &format!("orchestrator.peers={peers}")]);
        assert_ne!(refused.code, Some(0));
        assert!(refused.err.contains(&format!("two orchestrators have the {common}")), "{}", refused.err);
    }
    let fleet = Fleet::start();
    let broker = format!("mqtt://{}", fleet.brokers[0].address("mqtt://"));
    let _namesake =
        Broker::start_with(&["orchestrator", "--name", NAMES[A], "--listen", "127.0.0.1:0", "--broker", &broker]);
    until(|| {
        let status = fleet.ask(A, "GET", "/api/v1/fleet", &Value::Null);
        let brokers = status["brokers"].as_array()?;
        let told =
            |broker: &Value| broker["last_error"].as_str().is_some_and(|text| text.contains("orchestrator named `a`"));
        brokers.iter().any(told).then_some(())
    });
}

#[test]
fn the_manager_keeps_an_orchestrator_serving_by_its_lease() {
    let fleet = Fleet::start();
    let (id, _) = fleet.id_at(A, "leased");
    let mut table = fleet.homes(A);
    table["epoch"] = json!(5);
    table["ttl_s"] = json!(1);
    let set = fleet.ask(A, "PUT", "/api/v1/homes", &table);
    assert!(set["lease_ms"].as_u64().unwrap() <= 1000, "{set}");
    let mut client = connect(fleet.ports[A].mqtt, &id);
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"", "nothing is said that may acknowledge something");
    table["ttl_s"] = json!(60);
    assert_eq!(fleet.ask(A, "PUT", "/api/v1/homes", &table)["error"], Value::Null);
    connect(fleet.ports[A].mqtt, &id);
}
