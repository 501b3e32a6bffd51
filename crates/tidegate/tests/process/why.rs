//! `tidegate why` and `tidegate ban` against a running broker.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::broker::{Broker, Folder, PATIENCE, run};

/// CONNECT of MQTT 3.1.1 with a clean session.
fn connect(client_id: &str) -> Vec<u8> {
    let length = u8::try_from(client_id.len()).unwrap();
    [&[0x10, 12 + length], &b"\0\x04MQTT\x04\x02\0\0\0"[..], &[length], client_id.as_bytes()].concat()
}

/// Connects and reads until the broker closes or sends a CONNACK.
fn dial(broker: &Broker, client_id: &str) -> (TcpStream, Vec<u8>) {
    let mut stream = TcpStream::connect(broker.address("mqtt://")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&connect(client_id)).unwrap();
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).unwrap();
    (stream, answer.to_vec())
}

#[test]
fn a_ban_is_added_felt_explained_listed_and_removed() {
    let broker = Broker::start(&[]);
    let admin = broker.address("admin=");
    let (mut device, answer) = dial(&broker, "device");
    assert_eq!(answer, [0x20, 2, 0, 0]);
    let added = run(&["ban", "add", "client", "device", "--for", "1h", "--reason", "too loud", "--admin", admin]);
    assert_eq!((added.code, added.out.as_str()), (Some(0), "banned client device; connections closed: 1\n"));
    assert_eq!(device.read(&mut [0]).unwrap(), 0, "closed");
    assert_eq!(dial(&broker, "device").1, [0x20, 2, 0, 5]);
    let listed = run(&["ban", "list", "--admin", admin]);
    assert!(listed.out.starts_with("client device  until 2") && listed.out.contains("by operator: too loud"));
    let story = run(&["why", "client", "device", "--admin", admin]);
    for part in ["connected, from 127.0.0.1", "(reason 42, administrative_action)", "(reason 46, banned)", "do: "] {
        assert!(story.out.contains(part), "{part}: {}", story.out);
    }
    let json = run(&["why", "client", "device", "--json", "--admin", admin]);
    assert!(json.out.starts_with("{\"events\":[{") && json.out.contains("\"label\":\"banned\""), "{}", json.out);
    let (_, metrics) = broker.get("/metrics");
    assert!(metrics.contains("\ntidegate_bans 1\n") && metrics.contains("result=\"banned\"} 1\n"), "{metrics}");
    let removed = run(&["ban", "remove", "client", "device", "--admin", admin]);
    assert_eq!((removed.code, removed.out.as_str()), (Some(0), "the ban of client device has ended\n"));
    let again = run(&["ban", "remove", "client", "device", "--admin", admin]);
    assert_eq!((again.code, again.err.as_str()), (Some(1), "error: there is no such ban\n"));
    let added = run(&["ban", "add", "client", "other", "--json", "--admin", admin]);
    assert!(added.code == Some(0) && added.out.contains("\"closed\":0"), "{}", added.out);
    let removed = run(&["ban", "remove", "client", "other", "--json", "--admin", admin]);
    assert!(removed.code == Some(0) && removed.out.contains("\"removed\":true"), "{}", removed.out);
    assert_eq!(dial(&broker, "device").1, [0x20, 2, 0, 0]);
}

/// A packet of a client that is answered with this number of bytes.
fn exchange(stream: &mut TcpStream, packet: &[u8], answer: usize) {
    stream.write_all(packet).unwrap();
    stream.read_exact(&mut vec![0; answer]).unwrap();
}

#[test]
fn a_dropped_message_is_explained_with_its_full_queue() {
    let broker = Broker::start(&["--set", "queue.max_messages=1", "--set", "queue.overflow=drop-newest"]);
    let admin = broker.address("admin=");
    let none = run(&["why", "slow", "--admin", admin]);
    assert!(none.code == Some(0) && none.out.starts_with("no client is slow"), "{}", none.out);
    let mut away = TcpStream::connect(broker.address("mqtt://")).unwrap();
    away.set_read_timeout(Some(PATIENCE)).unwrap();
    exchange(&mut away, b"\x10\x10\0\x04MQTT\x04\0\0\0\0\x04away", 4);
    exchange(&mut away, b"\x82\x06\0\x01\0\x01t\x01", 5);
    // DISCONNECT: it is gone when the broker closes.
    away.write_all(b"\xe0\0").unwrap();
    assert_eq!(away.read(&mut [0]).unwrap(), 0);
    let (mut publisher, _) = dial(&broker, "publisher");
    for _ in 0..2 {
        exchange(&mut publisher, b"\x32\x06\0\x01t\0\x07x", 4);
    }
    for (story, parts) in [
        (["client", "away"], ["  dropped, topic t", "(reason 22, queue_full_drop_newest)"]),
        (["topic", "t"], ["  dropped, client away", "(reason 22, queue_full_drop_newest)"]),
    ] {
        // The dropped message's shard need not be the shard that has answered.
        let told = std::iter::repeat_with(|| run(&["why", story[0], story[1], "--admin", admin]).out);
        let told = told.take(100).find(|out| out.contains("dropped")).unwrap();
        assert!(parts.iter().all(|part| told.contains(part)), "{told}");
    }
    let slow = run(&["why", "slow", "--admin", admin]);
    assert!(slow.out.starts_with("away, away\n    1 messages wait ("), "{}", slow.out);
    let json = run(&["why", "slow", "--limit", "1", "--json", "--admin", admin]);
    assert!(json.out.contains("\"client\":\"away\""), "{}", json.out);
    let (_, metrics) = broker.get("/metrics");
    assert!(metrics.contains("\ntidegate_slow_sessions 1\n"), "{metrics}");
}

#[test]
fn a_banned_address_is_closed_and_its_events_are_known() {
    let broker = Broker::start(&["--set", "admission.banned_addresses=127.0.0.0/8"]);
    let admin = broker.address("admin=");
    let mut stream = TcpStream::connect(broker.address("mqtt://")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap_or_default(), 0);
    let story = run(&["why", "address", "127.0.0.1", "--admin", admin]);
    assert!(story.out.contains("refused\n") && story.out.contains("what: at accept"), "{}", story.out);
    let removed = run(&["ban", "remove", "address", "127.0.0.0/8", "--admin", admin]);
    assert!(removed.err.contains("remove it there"), "{}", removed.err);
    let wrong = run(&["why", "address", "nowhere", "--admin", admin]);
    assert!(wrong.code == Some(1) && wrong.err.contains("not an address or network"), "{}", wrong.err);
    let nothing = run(&["why", "topic", "a/b", "--admin", admin]);
    assert!(nothing.out.starts_with("nothing is remembered about topic a/b"), "{}", nothing.out);
}

#[test]
fn a_token_opens_the_api_and_without_it_the_reason_is_said() {
    let folder = Folder::new();
    let token = folder.write("token", "0123456789abcdef0123\n");
    let broker = Broker::start(&["--set", &format!("admin.token_file={token}")]);
    let admin = broker.address("admin=");
    let refused = run(&["ban", "list", "--admin", admin]);
    assert!(refused.code == Some(1) && refused.err.contains("admin.token_file"), "{}", refused.err);
    let listed = run(&["ban", "list", "--admin", admin, "--token-file", &token]);
    assert_eq!(listed.out, "no bans\n");
    let short = folder.write("short", "secret");
    let ended =
        run(&["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--set", &format!("admin.token_file={short}")]);
    assert!(ended.code == Some(1) && !ended.err.contains("secret"), "{}", ended.err);
    assert!(ended.err.contains("shorter than 16"), "{}", ended.err);
}

#[test]
fn a_broker_that_is_not_there_is_said_to_be_not_there() {
    // No process has port 1.
    let ended = run(&["why", "client", "c", "--admin", "http://127.0.0.1:1"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.starts_with("error: no broker answers at 127.0.0.1:1: Connection refused"), "{}", ended.err);
}

#[test]
fn events_of_one_client_id_name_their_tenants() {
    let folder = Folder::new();
    let sections = |name: &str| {
        format!(
            "[[listener]]\nname = '{name}'\naddress = '127.0.0.1:0'\n[[tenant]]\nname = '{name}'\nlisteners = ['{name}']\n"
        )
    };
    let config = folder.write("t.toml", &format!("{}{}", sections("acme"), sections("bolt")));
    let broker = Broker::start_with(&["--admin", "127.0.0.1:0", "--config", &config]);
    let doors = broker.ready.split_whitespace().filter_map(|word| word.strip_prefix("mqtt://"));
    for door in doors {
        let port = door.rsplit_once(':').unwrap().1;
        run(&["pub", "-h", "127.0.0.1", "-p", port, "-i", "dev", "-q", "1", "-t", "t", "-m", "x"]);
    }
    let why = |flags: &[&str]| run(&[&["why", "client", "dev", "--admin", broker.address("admin=")], flags].concat());
    let all = why(&[]).out;
    assert!(all.contains("connected, tenant acme") && all.contains("connected, tenant bolt"), "{all}");
    let one = why(&["--tenant", "acme", "--json"]).out;
    assert!(one.contains("\"tenant\":\"acme\"") && !one.contains("bolt"), "{one}");
    let unknown = why(&["--tenant", "stranger"]);
    assert!(unknown.code == Some(1) && unknown.err.contains("there is no tenant `stranger`"), "{}", unknown.err);
}
