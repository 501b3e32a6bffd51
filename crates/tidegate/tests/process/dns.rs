//! `tidegate dns` as a process that is asked over a socket.

use std::net::UdpSocket;

use crate::broker::{Broker, Folder, PATIENCE, run};

/// A query for an address of `fleet.example`, as it is sent.
const QUERY: &[u8] = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x05fleet\x07example\x00\x00\x01\x00\x01";

/// Asks once; the address is the end of the answer.
fn ask(server: &Broker) -> [u8; 4] {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.send_to(QUERY, server.address("dns=")).unwrap();
    let mut answer = [0; 512];
    let length = socket.recv(&mut answer).unwrap();
    *answer[..length].last_chunk().unwrap()
}

fn start(arguments: &[&str]) -> Broker {
    let fixed = ["dns", "--zone", "fleet.example", "--listen", "127.0.0.1:0"];
    Broker::start_with(&[&fixed, arguments].concat())
}

#[test]
fn weights_hold_draining_brokers_are_hidden_and_answers_counted() {
    let server = start(&[
        "--policy=weighted",
        "--endpoint=a=192.0.2.1;weight=2",
        "--endpoint=b=192.0.2.2",
        "--endpoint=c=192.0.2.3;draining",
        "--endpoint=d=192.0.2.4;down",
    ]);
    assert!(server.ready.contains("zone=fleet.example") && server.ready.contains("ttl=10 endpoints=4"));
    let mut named: Vec<u8> = (0..6).map(|_| ask(&server)[3]).collect();
    named.sort_unstable();
    assert_eq!(named, [1, 1, 1, 1, 2, 2]);
    server.signal("TERM");
    let ended = server.wait();
    assert_eq!((ended.code, ended.out.as_str(), ended.err.as_str()), (Some(0), "answered records: 6\n", ""));
}

#[test]
fn a_file_of_places_decides_the_nearest_endpoint() {
    let folder = Folder::new();
    let places = folder.write("places.txt", "127.0.0.0/8 52.5 13.4 # here\n");
    let endpoints = ["--endpoint=rome=192.0.2.1;at=41.9,12.5", "--endpoint=berlin=192.0.2.2;at=52.5,13.5"];
    let server = start(&[["--policy", "nearest", "--places", &places].as_slice(), &endpoints].concat());
    assert!((0..3).all(|_| ask(&server) == [192, 0, 2, 2]));
}

#[test]
fn errors_are_reported_before_the_first_answer() {
    let folder = Folder::new();
    let wrong = folder.write("wrong.txt", "127.0.0.0/8 somewhere\n");
    for (arguments, told) in [
        (["--zone=fleet.example", "--endpoint=a"], "NAME=ADDRESS"),
        (["--zone=a..b", "--endpoint=a=192.0.2.1"], "cannot be a name"),
        (["--endpoint=a=192.0.2.1", "--ttl=60"], "5 to 30"),
        (["--endpoint=ns=192.0.2.1", "--zone=fleet.example"], "name of a server of the zone"),
        (["--endpoint=a=192.0.2.1;at=1,2", &format!("--places={wrong}")], "line 1"),
    ] {
        let nearest = arguments.iter().any(|one| one.starts_with("--places"));
        let policy: &[&str] = if nearest { &["--policy=nearest"] } else { &[] };
        let zone: &[&str] =
            if arguments.iter().any(|one| one.starts_with("--zone")) { &[] } else { &["--zone=f.example"] };
        let ended = run(&[["dns", "--listen=127.0.0.1:0"].as_slice(), zone, policy, &arguments].concat());
        assert_eq!(ended.code, Some(2), "{arguments:?}: {}", ended.err);
        assert!(ended.err.contains(told), "{arguments:?}: {}", ended.err);
    }
}
