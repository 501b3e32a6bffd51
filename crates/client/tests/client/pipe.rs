//! The driver over a pipe, against a scripted server on the same thread.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tidegate_client::net::{Address, ConnectError, Driver, Pipes, SocketOptions, Step, TransportError};
use tidegate_client::{Disconnected, Event, Options, QoS};
use tidegate_pipe::{CAPACITY, PipeEnd};

use crate::script::{ACCEPTED, message};

const LISTENER: u16 = 3;

fn event(driver: &mut Driver) -> Event {
    match driver.next(None).unwrap() {
        Step::Event(event) => event,
        other => panic!("{other:?}"),
    }
}

/// A connected client, and the server's end.
fn connected() -> (Driver, PipeEnd) {
    let opened = Arc::new(Mutex::new(None));
    let keep = Arc::clone(&opened);
    let pipes = Pipes::through(move |listener| {
        assert_eq!(listener, LISTENER);
        let (ours, theirs) = tidegate_pipe::pair()?;
        *keep.lock().unwrap() = Some(theirs);
        Ok(ours)
    });
    let socket = SocketOptions { pipes: Some(pipes), ..SocketOptions::default() };
    let mut driver = Driver::new(Options::new("c"), Address::Pipe { listener: LISTENER }, socket).unwrap();
    driver.connect().unwrap();
    let mut server = opened.lock().unwrap().take().unwrap();
    server.write_all(ACCEPTED).unwrap();
    assert!(matches!(event(&mut driver), Event::Connected(_)));
    server.read_exact(&mut [0; 15]).unwrap();
    (driver, server)
}

/// A message of QoS 1 with the packet identifier as its payload.
fn publish(number: u16) -> Vec<u8> {
    let number = number.to_be_bytes();
    [&b"\x32\x07\0\x01t"[..], &number, &number].concat()
}

fn number_of(event: Event) -> u16 {
    let Event::Message(message) = event else { panic!("{event:?}") };
    u16::from_be_bytes(message.payload[..].try_into().unwrap())
}

#[test]
fn messages_of_a_pipe_are_at_hand_in_order() {
    const COUNT: u16 = 9_000;
    let (mut driver, mut server) = connected();
    let all: Vec<u8> = (1..=COUNT).flat_map(publish).collect();
    server.write_all(&all).unwrap();
    let first = number_of(event(&mut driver));
    let others = std::iter::from_fn(|| driver.at_hand()).map(number_of);
    assert!(std::iter::once(first).chain(others).eq(1..=COUNT));
    let mut acknowledged = vec![0; 4 * usize::from(COUNT)];
    server.read_exact(&mut acknowledged).unwrap();
    assert_eq!(acknowledged[..8], [0x40, 2, 0, 1, 0x40, 2, 0, 2]);
    // Of QoS 0: an acknowledgement would find that the server has gone.
    server.write_all(b"\x30\x05\0\x01t\0\x07").unwrap();
    drop(server);
    assert_eq!(number_of(event(&mut driver)), 7, "the last bytes of a server that has gone");
    assert_eq!(event(&mut driver), Event::Disconnected(Disconnected::TransportClosed));
    assert!(matches!(driver.transport_error(), Some(TransportError::EndOfStream)));
}

#[test]
fn output_waits_for_a_server_that_does_not_read() {
    const COUNT: usize = 8;
    let (mut driver, mut server) = connected();
    let payload = "x".repeat(CAPACITY / 4);
    for _ in 0..COUNT {
        driver.client().publish(Instant::now(), message("t", &payload, QoS::AtMostOnce)).unwrap();
    }
    let mut sent = std::iter::from_fn(|| driver.at_hand()).count();
    assert!((1..COUNT).contains(&sent), "{sent} messages have found room");
    let mut buffer = vec![0; CAPACITY];
    while sent < COUNT {
        assert!(server.read(&mut buffer).unwrap() > 0);
        // The wait ends because there is room.
        assert!(matches!(event(&mut driver), Event::Published(_)));
        sent += 1 + std::iter::from_fn(|| driver.at_hand()).count();
    }
    assert!(driver.client().output().is_empty());
}

#[test]
fn without_a_server_in_the_process_there_is_no_pipe() {
    let address = Address::Pipe { listener: LISTENER };
    let mut driver = Driver::new(Options::new("c"), address, SocketOptions::default()).unwrap();
    assert!(matches!(driver.connect(), Err(ConnectError::Connect { .. })));
}
