//! Orchestrators that leave: by a request to hand over, and by a drain.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use super::{A, B, Fleet, connect};
use crate::broker::{Broker, Folder, PATIENCE, run};
use crate::cluster::until;

impl Fleet {
    fn ask(&self, which: usize, method: &str, path: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let admin = self.cluster.node(which).address("admin=").strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(admin).unwrap();
        let head = "Host: 127.0.0.1\r\nConnection: close\r\ntidegate-command: fleet\r\nContent-Length";
        write!(stream, "{method} {path} HTTP/1.1\r\n{head}: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    }
}

/// All that the server says before it closes the connection: DISCONNECT with "use another server".
fn goodbye(mut client: TcpStream) -> String {
    let mut goodbye = Vec::new();
    client.read_to_end(&mut goodbye).unwrap();
    assert_eq!((goodbye[0], goodbye[2]), (0xe0, 0x9c), "{goodbye:02x?}");
    // Earlier bytes of its home come first, and no bytes follow.
    assert_eq!(usize::from(goodbye[1]) + 2, goodbye.len());
    String::from_utf8_lossy(&goodbye).into_owned()
}

#[test]
fn a_member_hands_over_and_takes_a_share_when_it_is_asked() {
    let fleet = Fleet::with(2, "10s", &["cluster.redirect=moves"]);
    let cluster = &fleet.cluster;
    let id = cluster.id_at(A, "reader");
    cluster.subscribe(A, &id);
    cluster.publish(A, "in/x", 0..4);
    let client = connect(cluster.port(A), &cluster.id_at(A, "mover")).unwrap();
    let share = |wanted: bool| fleet.ask(A, "PUT", "/api/v1/cluster/share", &json!({ "wanted": wanted }));
    assert_eq!(share(false)["error"], Value::Null);
    assert!(goodbye(client).contains(&format!("127.0.0.1:{}", cluster.port(B))));
    until("everything at the other one", || {
        let view = cluster.view(B);
        (view["served"] == 1_024 && view["moves"] == json!([]) && cluster.view(A)["passing"] == 0).then_some(())
    });
    assert_eq!((&cluster.view(A)["leaving"], cluster.node(A).get("/readyz").1), (&true.into(), "ready\n".to_owned()));
    cluster.expect_owed(A, &id, 4);
    assert_eq!(share(true)["error"], Value::Null);
    cluster.wait_even();
}

#[test]
fn a_relayed_client_of_a_leaver_gets_a_reference() {
    let fleet = Fleet::start(2, "10s");
    let client = connect(fleet.cluster.port(A), &fleet.cluster.id_at(B, "relayed")).unwrap();
    let order = json!({"server_reference": "elsewhere.example:1883", "per_second": 1000, "evict_after_s": 60});
    assert_eq!(fleet.ask(A, "POST", "/api/v1/drain", &order)["error"], Value::Null);
    assert!(goodbye(client).contains("elsewhere.example:1883"));
}

/// A client of MQTT 3.1.1, which cannot be redirected.
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
fn a_client_without_redirection_has_time_to_leave() {
    let fleet = Fleet::start(2, "10s");
    for home in [A, B] {
        let (id, other) = (fleet.cluster.id_at(home, "early"), fleet.cluster.id_at(home, "late"));
        let port = fleet.cluster.port(A);
        let (mut early, late) = (connect_early(port, &id), connect(port, &other).unwrap());
        let drain = |seconds: u64| json!({"per_second": 1000, "evict_after_s": seconds});
        assert_eq!(fleet.ask(A, "POST", "/api/v1/drain", &drain(3600))["error"], Value::Null);
        goodbye(late);
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
fn one_broker_is_named_once() {
    let twice = run(&["orchestrator", "--broker", "x=mqtt://Host:1", "--broker", "y=mqtt://me:secret@host:1"]);
    assert_ne!(twice.code, Some(0));
    assert!(twice.err.contains("brokers `x` and `y` have the address host:1"), "{}", twice.err);
    assert!(twice.err.contains("given its share twice") && !twice.err.contains("secret"), "{}", twice.err);
    let folder = Folder::new();
    let file = folder.write("o.toml", "[orchestrator]\nbrokers = [\"x=mqtt://h:1\", \"y=mqtt://me:secret@h:1\"]\n");
    let twice = run(&["orchestrator", "--config", &file]);
    assert!(twice.err.contains("o.toml:2:11") && !twice.err.contains("secret"), "{}", twice.err);
    let fleet = Fleet::start(1, "10s");
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
fn two_orchestrators_with_one_name_are_reported() {
    let fleet = Fleet::start(1, "10s");
    let broker = format!("mqtt://{}", fleet.brokers[0].address("mqtt://"));
    let _namesake =
        Broker::start_with(&["orchestrator", "--name", "a", "--listen", "127.0.0.1:0", "--broker", &broker]);
    until("the namesake is reported", || {
        let status = fleet.ask(A, "GET", "/api/v1/fleet", &Value::Null);
        let brokers = status["brokers"].as_array()?;
        let told =
            |broker: &Value| broker["last_error"].as_str().is_some_and(|text| text.contains("orchestrator named `a`"));
        brokers.iter().any(told).then_some(())
    });
}

#[test]
fn former_settings_are_refused_with_the_present_ones() {
    for (key, value, part) in [
        ("peers", "a=h:1/h:2/h:3", "--node NAME and the same --bus ADDRESS"),
        ("relay", "127.0.0.1:1", "cluster.relay"),
        ("redirect", "v5", "cluster.redirect"),
    ] {
        let refused = run(&["orchestrator", "--broker", "mqtt://h:1", "--set", &format!("orchestrator.{key}={value}")]);
        assert_ne!(refused.code, Some(0));
        assert!(refused.err.contains("is no longer used") && refused.err.contains(part), "{}", refused.err);
    }
    let file = "[fleet]\nname = \"x\"\n[sla]\n[templates.mine]\nlevel = \"orchestrator\"\ncommand = \"mine\"\n\
                admin = \"http://h:1\"\nrelay = \"{host}:{port}\"\nprobe = { kind = \"process\" }\n";
    let folder = Folder::new();
    let refused = run(&["up", &folder.write("fleet.toml", file)]);
    assert!(refused.err.contains("is no longer used") && refused.err.contains("--node"), "{}", refused.err);
}
