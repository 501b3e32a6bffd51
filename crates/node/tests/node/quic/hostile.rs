//! Attacks: floods of handshakes, and invalid datagrams.

use std::net::UdpSocket;

use tidegate_node::Node;
use tidegate_random::SplitMix64;

use super::{address_of, dial, over, report_when, settings, start};
use crate::pki::COMMON;
use crate::quic_client::{QuicOptions, QuicSocket};
use crate::wire::*;

/// The number of unfinished handshakes is bounded. From a quarter of the limit on, a client that does not validate its
/// address costs no signature and no memory. Other clients are still accepted.
#[test]
fn a_flood_of_handshakes_is_bounded_and_excludes_no_client() {
    let mut tls = COMMON.settings.clone();
    tls.max_handshakes = 16;
    let mut settings = settings(2, tls);
    settings.engine.limits.connect_timeout_ms = 600_000;
    let node = Node::start(settings).unwrap();
    let at = address_of(&node);
    let mut flood = Vec::new();
    for wave in 1..=10 {
        // As many at once as the smallest buffer of a socket takes.
        for _ in 0..40 {
            let mut socket = QuicSocket::begin(at, &QuicOptions::default());
            socket.transmit();
            flood.push(socket);
        }
        report_when(&node, |report| report.shell.quic_begun + report.shell.quic_retries == wave * 40);
    }
    let shell = node.handle().report().unwrap().shell;
    assert_eq!(shell.quic_begun, 4, "handshakes begun without a proof");
    for number in 0..20 {
        over(dial(at), &format!("client-{number}"));
    }
    drop(flood);
}

/// Clients with a validated address fill the slots up to the limit; the others are asked to retry.
#[test]
fn places_for_handshakes_are_limited() {
    let mut tls = COMMON.settings.clone();
    tls.max_handshakes = 2;
    let mut settings = settings(1, tls);
    settings.engine.limits.connect_timeout_ms = 500;
    let node = Node::start(settings).unwrap();
    let at = address_of(&node);
    let mut flood: Vec<QuicSocket> = (0..10).map(|_| QuicSocket::begin(at, &QuicOptions::default())).collect();
    for socket in &mut flood {
        socket.transmit();
    }
    // Each stops after the validation of its address.
    for socket in flood.iter_mut().skip(1) {
        socket.prove();
    }
    let shell = report_when(&node, |report| report.shell.quic_deferred > 0).shell;
    assert!(shell.quic_begun <= 2, "{} were begun", shell.quic_begun);
    // Their time runs out, and this one comes again until it finds a place.
    over(dial(at), "patient");
    drop(flood);
}

fn bytes_of(noise: &mut SplitMix64, length: usize) -> Vec<u8> {
    (0..length).map(|_| noise.number() as u8).collect()
}

/// The first datagram of a handshake, as a client sends it.
fn initial() -> Vec<u8> {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut socket = QuicSocket::begin(silent.local_addr().unwrap(), &QuicOptions::default());
    socket.transmit();
    let mut buffer = vec![0; 2_000];
    let (length, _) = silent.recv_from(&mut buffer).unwrap();
    buffer.truncate(length);
    buffer
}

#[test]
fn datagrams_that_are_nothing_do_no_harm() {
    let (node, at) = start(2);
    let mut client = over(dial(at), "client");
    let (noise, socket) = (&mut SplitMix64::new(0x5eed), UdpSocket::bind("127.0.0.1:0").unwrap());
    let mut sent = 0;
    let mut throw = |bytes: &[u8]| {
        // The test is not about the socket's own buffer.
        if socket.send_to(bytes, at).is_ok() {
            sent += 1;
        }
    };
    for round in 0..40 {
        let real = initial();
        throw(&[]);
        for _ in 0..20 {
            let length = noise.number() as usize % 1_500;
            let mut bytes = bytes_of(noise, length);
            throw(&bytes);
            if let Some(first) = bytes.first_mut() {
                *first |= 0xc0;
            }
            throw(&bytes);
        }
        // Parts of a real one, and real ones with some bits turned over, in the header more often than elsewhere.
        throw(&real[..noise.number() as usize % real.len()]);
        for _ in 0..10 {
            let mut bytes = real.clone();
            for _ in 0..3 {
                let place = noise.number() as usize % if round % 2 == 0 { 40 } else { bytes.len() };
                bytes[place] ^= 1 << (noise.number() % 8);
            }
            throw(&bytes);
        }
        client.send(&PINGREQ);
        client.expect(&PINGRESP);
    }
    over(dial(at), "another");
    let report = node.handle().report().unwrap();
    assert!(report.shell.quic_datagrams_in > sent / 2, "the broker has seen them");
}
