//! One deadline for everything before a complete CONNECT, from the moment of accepting: no drip of bytes moves it.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use tidegate_engine::Reason;
use tidegate_node::{LocalAddress, Node};

use crate::wire::*;
use crate::{addresses, settings};

/// A node that gives its clients a moment.
fn hasty(shards: u16) -> Node {
    giving(shards, 200)
}

/// A node with this deadline for its clients, in milliseconds.
fn giving(shards: u16, connect_timeout_ms: u64) -> Node {
    let mut settings = settings(shards);
    settings.engine.limits.connect_timeout_ms = connect_timeout_ms;
    Node::start(settings).unwrap()
}

/// Sends `bytes` one by one, each time waiting a little for an end of the connection. Returns whether the end came before
/// the last byte. At this pace all bytes would take minutes.
fn is_cut_off(stream: &mut TcpStream, bytes: &[u8]) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    for byte in bytes {
        match stream.read(&mut [0; 64]) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => return true,
        }
        if stream.write_all(&[*byte]).is_err() {
            return true;
        }
    }
    false
}

fn stream_to(address: &LocalAddress) -> TcpStream {
    TcpStream::connect(address.socket().unwrap()).unwrap()
}

#[test]
fn a_connect_that_drips_in_is_cut_off() {
    let node = hasty(2);
    let [tcp, ..] = addresses(&node);
    let long = connect(&"x".repeat(20_000));
    assert!(is_cut_off(&mut stream_to(&tcp), &long));
    let report = node.handle().report().unwrap();
    assert_eq!(report.counters.connects_refused[Reason::ConnectTimeout.number()], 1);
}

#[test]
fn a_websocket_handshake_that_drips_in_is_cut_off() {
    let node = hasty(1);
    let [_, _, web, ..] = addresses(&node);
    let head = format!("GET /mqtt HTTP/1.1\r\nHost: {}", "h".repeat(20_000));
    assert!(is_cut_off(&mut stream_to(&web), head.as_bytes()));
}

/// The handshake takes part of the time, and whole frames with single bytes of the CONNECT take the rest.
#[test]
fn a_connect_that_drips_in_over_a_websocket_is_cut_off() {
    // The handshake has to be in time on a machine that is busy as well.
    let node = giving(1, 3_000);
    let [_, _, web, ..] = addresses(&node);
    let mut stream = stream_to(&web);
    let request = request("/mqtt");
    let (first, rest) = request.as_bytes().split_at(request.len() - 4);
    stream.write_all(first).unwrap();
    assert!(!is_cut_off(&mut stream, &rest[..2]), "the handshake is in time");
    stream.write_all(&rest[2..]).unwrap();
    let long = connect(&"x".repeat(20_000));
    let frames: Vec<u8> = long.iter().flat_map(|byte| frame(0x82, &[*byte])).collect();
    assert!(is_cut_off(&mut stream, &frames));
    let report = node.handle().report().unwrap();
    assert_eq!(report.counters.connects_refused[Reason::ConnectTimeout.number()], 1);
}
