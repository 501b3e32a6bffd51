//! Each orchestrator answers for all that share clients.

use std::io::Read;
use std::net::TcpStream;

use serde_json::Value;

use super::{A, B, Fleet, until};
use crate::broker::run;

impl Fleet {
    /// The output of a command that asks an orchestrator.
    fn asked(&self, at: usize, words: &[&str], code: i32) -> String {
        let admin = format!("http://127.0.0.1:{}", self.ports[at].admin);
        let ended = run(&[words, &["--admin", &admin]].concat());
        assert_eq!(ended.code, Some(code), "{words:?}: {} {}", ended.out, ended.err);
        ended.out
    }
}

/// CONNECT of MQTT 3.1.1, and whether it was accepted.
fn connect(port: u16, id: &str) -> Option<TcpStream> {
    use std::io::Write;
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let head = [0x10, 12 + id.len() as u8, 0, 4, b'M', b'Q', b'T', b'T', 4, 2, 0, 0, 0, id.len() as u8];
    stream.write_all(&[&head[..], id.as_bytes()].concat()).ok()?;
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).ok()?;
    (answer == [0x20, 2, 0, 0]).then_some(stream)
}

#[test]
fn a_client_of_another_orchestrator_is_listed_and_banned() {
    let mut fleet = Fleet::start();
    let (id, _) = fleet.id_at(B, "device");
    let mut device = connect(fleet.ports[B].mqtt, &id).unwrap();
    let clients: Value = serde_json::from_str(&fleet.asked(A, &["clients", "device", "--json"], 0)).unwrap();
    assert_eq!((&clients["clients"][0]["client"], &clients["clients"][0]["node"]), (&id.as_str().into(), &"b".into()));
    fleet.asked(A, &["ban", "add", "client", &id], 0);
    // Until its end.
    device.read_to_end(&mut Vec::new()).unwrap();
    assert!(![A, B].iter().any(|at| connect(fleet.ports[*at].mqtt, &id).is_some()), "refused everywhere");
    let story: Value = serde_json::from_str(&fleet.asked(A, &["why", "client", &id, "--json"], 0)).unwrap();
    let events = story["events"].as_array().unwrap();
    assert!(events.iter().any(|event| event["kind"] == "connected" && event["node"] == "b"), "{story}");
    let reloaded = fleet.asked(A, &["reload"], 0);
    assert!(reloaded.contains("node a: ") && reloaded.contains("node b: "), "{reloaded}");

    fleet.kill(B);
    let without = fleet.asked(A, &["clients", "--json"], 3);
    assert!(without.contains("\"unreachable\":[\"b\"]"), "{without}");
    fleet.asked(A, &["ban", "add", "client", "other"], 3);
    fleet.run(B);
    until(|| {
        let list: Value = serde_json::from_str(&fleet.asked(B, &["ban", "list", "--json"], 0)).unwrap();
        let bans = list["bans"].as_array()?;
        let other = bans.iter().find(|ban| ban["name"] == "other")?;
        (other["nodes"] == serde_json::json!(["a", "b"])).then_some(())
    });
}
