//! Limits of connections.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::time::Duration;

use tidegate_node::{LocalAddress, Node};

use crate::wire::*;
use crate::{addresses, settings};

/// A connection that sends nothing.
fn silent_connection(at: &LocalAddress) -> TcpStream {
    let stream = TcpStream::connect(at.socket().unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// Waits until the node has closed a connection, with an end or a reset and without a word.
fn is_closed(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

#[test]
fn silent_connections_make_room_the_oldest_first() {
    let mut settings = settings(1);
    settings.max_connections = 3;
    let node = Node::start(settings).unwrap();
    let [tcp, ..] = addresses(&node);
    let connect = || silent_connection(&tcp);
    let mut client = Client::connect(&tcp, "first");
    let mut oldest = connect();
    let mut younger = connect();
    // Each new connection closes the connection with the longest silence, and no client.
    let _second = Client::connect(&tcp, "second");
    assert!(is_closed(&mut oldest));
    let _third = Client::connect(&tcp, "third");
    assert!(is_closed(&mut younger));
    assert!(is_closed(&mut connect()), "all are clients now");
    client.send(&[0xc0, 0]);
    client.expect(&[0xd0, 0]);
    let report = node.handle().report().unwrap();
    assert_eq!((report.shell.refused_full, report.gauges.connections), (3, 3));
}

#[test]
fn connections_beyond_the_limit_are_closed_at_once() {
    for shards in [1, 2] {
        let mut settings = settings(shards);
        settings.max_connections = 2;
        let node = Node::start(settings).unwrap();
        let [tcp, unix, ..] = addresses(&node);
        let first = Client::connect(&tcp, "first");
        let _second = Client::connect(&unix, "second");
        assert!(is_closed(&mut silent_connection(&tcp)));
        let mut first = first;
        first.send(&DISCONNECT);
        assert_eq!(first.rest(), b"");
        // The shard has closed the first connection before it answers; so there is room now.
        assert_eq!(node.handle().report().unwrap().gauges.connections, 1);
        Client::connect(&tcp, "fourth");
        assert_eq!(node.handle().report().unwrap().shell.refused_full, 1);
    }
}

#[test]
fn silent_connections_of_a_full_listener_make_room() {
    let mut settings = settings(1);
    settings.engine.listeners[0].max_connections = 2;
    let node = Node::start(settings).unwrap();
    let [tcp, unix, ..] = addresses(&node);
    let connect = || silent_connection(&tcp);
    let _elsewhere = Client::connect(&unix, "elsewhere");
    let mut client = Client::connect(&tcp, "first");
    let mut silent = connect();
    let _second = Client::connect(&tcp, "second");
    assert!(is_closed(&mut silent));
    assert!(is_closed(&mut connect()), "all are clients now");
    client.send(&[0xc0, 0]);
    client.expect(&[0xd0, 0]);
    let report = node.handle().report().unwrap();
    assert_eq!((report.shell.refused_by_engine, report.gauges.connections), (2, 3));
}
