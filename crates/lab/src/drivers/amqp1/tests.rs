//! A broker that is played, byte for byte.

use super::frames::write;
use super::*;
use crate::drivers::driver::{Noted, feed};

fn frame(performative: &List, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write(Kind::Amqp, performative, &[payload], &mut out);
    out
}

fn sasl(performative: &List) -> Vec<u8> {
    let mut out = Vec::new();
    write(Kind::Sasl, performative, &[], &mut out);
    out
}

/// A broker's list of these mechanisms.
fn ways(names: &[u8]) -> Vec<u8> {
    let len = names.len() as u8;
    let body = [&[0, 0x53, 0x40, 0xC0, len + 4, 1, 0xE0, len + 1][..], &[1], names].concat();
    [&[0, 0, 0, body.len() as u8 + 8, 2, 1, 0, 0][..], &body].concat()
}

/// Performs the login; returns the driver's output after it.
fn let_in(driver: &mut Amqp1, piece: usize, noted: &mut Noted) -> Vec<u8> {
    let mut out = Vec::new();
    driver.opened(&mut out);
    assert_eq!(out, b"AMQP\x03\x01\0\0");
    let said = feed(driver, &[b"AMQP\x03\x01\0\0", &ways(b"\xA3\x09ANONYMOUS")[..]].concat(), piece, noted);
    assert_eq!(said, sasl(&List::new(INIT).symbol("ANONYMOUS").binary(b"")));
    feed(driver, &sasl(&List::new(0x44).ubyte(0)), piece, noted)
}

fn opened(driver: &mut Amqp1, piece: usize, noted: &mut Noted, window: u32) {
    let open = List::new(OPEN).string("broker").null().uint(1024).ushort(10).uint(4000);
    let begin = List::new(BEGIN).ushort(0).uint(7).uint(window).uint(window);
    let stream = [b"AMQP\0\x01\0\0".to_vec(), frame(&open, &[]), frame(&begin, &[])].concat();
    assert!(feed(driver, &stream, piece, noted).is_empty());
}

fn flow(taken: u32, window: u32, count: u32, credit: u32) -> Vec<u8> {
    frame(&List::new(FLOW).uint(taken).uint(window).uint(7).uint(9).uint(0).uint(count).uint(credit), &[])
}

fn attached(is_receiver: bool, source: bool, count: u32) -> Vec<u8> {
    let attach = List::new(ATTACH).string("lab").uint(0).bool(is_receiver).ubyte(0).ubyte(0);
    let attach = if source { attach.list(&List::new(SOURCE).string("lab")) } else { attach.null() };
    frame(&attach.list(&List::new(TARGET)).null().null().uint(count), &[])
}

#[test]
fn a_subscriber_requests_a_copy_and_accepts_messages() {
    for piece in [1, 13, 10_000] {
        let (mut driver, mut noted) = (Amqp1::new("lab", None, true, Role::Subscribe), Noted::default());
        let said = let_in(&mut driver, piece, &mut noted);
        assert!(said.starts_with(b"AMQP\0\x01\0\0"));
        let link = b"\0\x53\x12\xC0\x2D\x09\xA1\x03lab\x43\x41\x50\0\x50\0\
            \0\x53\x28\xC0\x16\x0B\xA1\x03lab\x43\x40\x43\x42\x40\x40\x40\x40\x40\xA3\x05topic\0\x53\x29\x45\x40\x40";
        assert_eq!(&said[said.len() - link.len()..], link, "{said:02x?}");
        opened(&mut driver, piece, &mut noted, 100);
        assert!(!driver.is_ready());
        let allowed = feed(&mut driver, &attached(false, true, 5), piece, &mut noted);
        assert_eq!(
            allowed,
            frame(&List::new(FLOW).uint(7).uint(WINDOW).uint(0).uint(WINDOW).uint(0).uint(5).uint(CREDIT), &[])
        );
        assert!(driver.is_ready());
        let first = List::new(TRANSFER).uint(0).uint(3).binary(b"t").uint(0).bool(false).bool(true);
        let second = List::new(TRANSFER).uint(0).null().null().null().null().bool(false);
        let third = List::new(TRANSFER).uint(0).uint(4).binary(b"u").uint(0).bool(false);
        let stream = [
            frame(&first, b"\0\x53\x70\x45\0\x53\x75\xA0\x05he"),
            frame(&second, b"llo"),
            frame(&third, b"\0\x53\x75\xB0\0\0\0\x02hi"),
        ]
        .concat();
        let said = feed(&mut driver, &stream, piece, &mut noted);
        assert_eq!(noted.messages, [b"hello".to_vec(), b"hi".to_vec()]);
        let accepted = |first, last| {
            let disposition = List::new(DISPOSITION).bool(true).uint(first).uint(last).bool(true);
            frame(&disposition.list(&List::new(ACCEPTED)), &[])
        };
        let separate = [accepted(3, 3), accepted(4, 4)].concat();
        assert_eq!(said, if piece == 10_000 { accepted(3, 4) } else { separate });
    }
}

#[test]
fn a_subscriber_renews_credit_at_half_and_accepts_unsettled() {
    let (mut driver, mut noted) = (Amqp1::new("lab", None, false, Role::Subscribe), Noted::default());
    let_in(&mut driver, 1000, &mut noted);
    opened(&mut driver, 1000, &mut noted, 100);
    feed(&mut driver, &attached(false, true, 0), 1000, &mut noted);
    let mut stream = Vec::new();
    for number in 0..CREDIT / 2 {
        let transfer = List::new(TRANSFER).uint(0).uint(number).binary(b"t").uint(0).bool(true);
        stream.extend(frame(&transfer, b"\0\x53\x75\xA0\x01x"));
    }
    let said = feed(&mut driver, &stream, stream.len(), &mut noted);
    assert_eq!(noted.messages.len(), 1000);
    let allowed = List::new(FLOW).uint(1007).uint(WINDOW).uint(0).uint(WINDOW).uint(0).uint(1000).uint(CREDIT);
    assert_eq!(said, frame(&allowed, &[]));
}

#[test]
fn a_publisher_respects_credit_and_counts_outcomes() {
    let (mut driver, mut noted) = (Amqp1::new("lab", None, true, Role::Publish), Noted::default());
    let_in(&mut driver, 1000, &mut noted);
    opened(&mut driver, 1000, &mut noted, 4);
    feed(&mut driver, &attached(true, true, 0), 1000, &mut noted);
    assert!(!driver.is_ready(), "nothing is allowed yet");
    feed(&mut driver, &flow(0, 4, 0, 3), 7, &mut noted);
    assert!(driver.is_ready() && !driver.is_full());
    let mut out = Vec::new();
    driver.publish(b"one", &mut out);
    let transfer =
        b"\0\0\0\x21\x02\0\0\0\0\x53\x14\xC0\x0C\x06\x43\x43\xA0\x04\0\0\0\0\x43\x42\x42\0\x53\x75\xA0\x03one";
    assert_eq!(out, transfer, "{out:02x?}");
    driver.publish(&[7; 1500], &mut out);
    assert!(!driver.is_full());
    driver.publish(b"three", &mut out);
    assert!(driver.is_full(), "three messages in four frames");
    let taken = |first: u32, last: u32, outcome: u8| {
        let disposition = List::new(DISPOSITION).bool(true).uint(first).uint(last).bool(true);
        frame(&disposition.list(&List::new(outcome)), &[])
    };
    feed(&mut driver, &[taken(0, 1, 0x24), taken(2, 2, 0x26), taken(2, 900, 0x24)].concat(), 5, &mut noted);
    assert_eq!((noted.acknowledged, noted.refused), (2, 1), "no more than there are");
    feed(&mut driver, &flow(4, 4, 3, 1), 1000, &mut noted);
    assert!(!driver.is_full());
    feed(&mut driver, &flow(4, 4, 1, 1), 1000, &mut noted);
    assert!(driver.is_full(), "the credit is withdrawn");
}

#[test]
fn a_refused_login_is_reported_with_its_reason() {
    let failed = |credentials: Option<&Credentials>, stream: &[u8]| {
        let mut driver = Amqp1::new("lab", credentials, false, Role::Subscribe);
        driver.received(stream, &mut Vec::new(), &mut Noted::default()).unwrap_err().0
    };
    assert!(failed(None, &ways(b"\xA3\x08EXTERNAL")).contains("EXTERNAL only"));
    assert!(failed(None, &sasl(&List::new(0x44).ubyte(1))).contains("user and password"));
    assert!(failed(None, b"AMQP\0\0\x09\x01").contains("amqp://"));
    assert!(failed(None, b"HTTP/1.1 400 Bad").contains("AMQP 1.0"));
    let error = List::new(0x1D).symbol("amqp:not-found").string("no such node");
    let detach = frame(&List::new(DETACH).uint(0).bool(true).list(&error), &[]);
    let stream = [attached(false, false, 0), detach].concat();
    assert!(failed(None, &stream).ends_with("amqp:not-found: no such node"));
    let credentials = Credentials { username: "me".to_owned(), password: "pw".to_owned() };
    let mut driver = Amqp1::new("lab", Some(&credentials), false, Role::Publish);
    let said = feed(&mut driver, &ways(b"\xA3\x05PLAIN"), 100, &mut Noted::default());
    assert_eq!(said, sasl(&List::new(INIT).symbol("PLAIN").binary(b"\0me\0pw")));
}

#[test]
fn keep_alives_are_sent_and_the_product_is_read() {
    let (mut driver, mut noted) = (Amqp1::new("lab", None, false, Role::Publish), Noted::default());
    let_in(&mut driver, 1000, &mut noted);
    let open = List::new(OPEN).string("broker").null().uint(1024).ushort(10).uint(6000).null().null().null().null();
    let mut open = frame(&open, &[]);
    let properties = b"\xC1\x1B\x04\xA3\x07product\xA1\x01q\xA3\x07version\xA1\x039.2";
    open.extend_from_slice(properties);
    (open[3], open[12], open[13]) = (open.len() as u8, open[12] + properties.len() as u8, open[13] + 1);
    feed(&mut driver, &open, 9, &mut noted);
    assert_eq!(driver.product().as_deref(), Some("q 9.2"));
    feed(&mut driver, &flow(0, 4, 0, 3), 7, &mut noted);
    let mut out = Vec::new();
    (0..6).for_each(|_| driver.each_second(&mut out));
    assert_eq!(out, [0, 0, 0, 8, 2, 0, 0, 0, 0, 0, 0, 8, 2, 0, 0, 0]);
}
