//! `tidegate drain` against a running orchestrator.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::broker::{Broker, Folder, PATIENCE, run};

const TOKEN: &str = "0123456789abcdef";

#[test]
fn an_orchestrator_is_left_by_its_clients_and_takes_no_new_ones() {
    let folder = Folder::new();
    let token = folder.write("token", TOKEN);
    let set = format!("admin.token_file={token}");
    let broker = Broker::start(&[]);
    let at = broker.address("mqtt://");
    let fleet = format!("b=mqtt://{at}");
    let (listen, admin) = (["--listen", "127.0.0.1:0"], ["--admin", "127.0.0.1:0"]);
    let orchestrator =
        Broker::start_with(&[&["orchestrator"][..], &listen, &admin, &["--broker", &fleet, "--set", &set]].concat());
    let admin = orchestrator.address("admin=");

    let mut client = TcpStream::connect(orchestrator.address("mqtt://")).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.write_all(b"\x10\x0d\0\x04MQTT\x04\x02\0\0\0\x01a").unwrap();
    client.read_exact(&mut [0; 4]).unwrap();
    assert_eq!(orchestrator.get("/readyz").0, "200");

    let refused = run(&["drain", "--admin", admin]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains("Authorization: Bearer TOKEN"), "{}", refused.err);

    let drain = || run(&["drain", "--admin", admin, "--token-file", &token, "--limit", "20s"]);
    let drained = drain();
    assert_eq!((drained.code, drained.err.as_str()), (Some(0), ""));
    assert_eq!(drained.out, "drained; new clients are refused until `tidegate drain --end` or a restart\n");
    assert_eq!(client.read(&mut [0]).unwrap(), 0, "closed");
    assert_eq!(orchestrator.get("/readyz"), ("503".to_owned(), "its clients are sent elsewhere\n".to_owned()));
    assert_eq!(drain().code, Some(0), "it may be repeated");
    let ended = run(&["drain", "--end", "--admin", admin, "--token-file", &token]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "the drain has ended; clients are taken again\n"));
    assert_eq!(orchestrator.get("/readyz").0, "200");
}

#[test]
fn an_absent_broker_is_a_failure_with_its_reason() {
    let ended = run(&["drain", "--admin", "http://127.0.0.1:1"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.contains("no broker answers at 127.0.0.1:1: Connection refused"), "{}", ended.err);
}
