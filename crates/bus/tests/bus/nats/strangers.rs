//! Programs that write to the streams by themselves, not all of them well.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use tidegate_bus::{Append, LogSpec, Position};

use super::Nats;
use crate::client::{Client, log, place, text, until};
use crate::{Deployment, heard};

/// Stores a message whose headers are these bytes.
fn put(nats: &Nats, subject: &str, headers: &[u8], payload: &str) {
    let mut stream = TcpStream::connect(("127.0.0.1", nats.port)).unwrap();
    let sizes = format!("{} {}", headers.len(), headers.len() + payload.len());
    let begin = format!("CONNECT {{\"verbose\":false,\"headers\":true}}\r\nHPUB {subject} {sizes}\r\n");
    stream.write_all(&[begin.as_bytes(), headers, payload.as_bytes(), b"\r\nPING\r\n"].concat()).unwrap();
    // It has taken the text before the ping.
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "PONG"));
}

/// The client would take such a message for a word of the server to itself, and says nothing of it. Servers of late
/// (2.15) store it without the status; 2.11 keeps it as it is.
#[test]
fn a_record_with_status_like_headers_is_read() {
    let nats = Nats::start();
    let client = Client(nats.bus());
    client.create(LogSpec::shared(log("open"), 1)).unwrap();
    let mut reader = client.reader(&place("open", 0), Position::START);
    for (headers, payload) in [
        (&b"NATS/1.0 100 Idle Heartbeat\r\n\r\n"[..], "still there"),
        (b"NATS/1.0 100\r\nNats-Last-Consumer: 3\r\n\r\n", "as ever"),
        (b"NATS/1.0 404 No Messages\r\n\r\n", "nothing there"),
        (b"NATS/1.0 408 Request Timeout\r\nNats-Pending-Messages: 1\r\n\r\n", "too late"),
        (b"NATS/1.0 409 Consumer Deleted\r\n\r\n", "gone"),
        (b"NATS/1.0 503\r\n\r\n", "no answer"),
        (b"NATS/1.0 503 No Responders\r\n\r\n", "no answer, with text"),
    ] {
        put(&nats, "tidegate.log.open.0.record", headers, payload);
        let records = reader.take(1).unwrap();
        assert_eq!(records.iter().map(text).collect::<Vec<_>>(), [payload]);
        assert_eq!((&records[0].payload[..], records[0].headers.len()), (payload.as_bytes(), 0));
    }
}

/// The client of NATS gives up its connection when it meets such headers, and would do so for ever.
#[test]
fn an_unreadable_record_stops_no_reader() {
    heard::listen();
    let nats = Nats::start();
    let client = Client(nats.bus());
    client.create(LogSpec::shared(log("headless"), 1)).unwrap();
    let open = place("headless", 0);
    client.append(&open, Append::new("first")).unwrap();
    let subject = "tidegate.log.headless.0.record";
    for (headers, payload) in [
        (&b"NATS/1.0\r\na: \xff\xfe\r\n\r\n"[..], "no text"),
        (b"NATS/1.0\r\nno colon\r\n\r\n", "no colon"),
        (b"NATS/1.0\r\na b: c\r\n\r\n", "no name"),
        (b"NATS/1.0 404 No Messages\r\n\r\n", "a word of the server"),
    ] {
        put(&nats, subject, headers, payload);
        // A position may come when a repetition of the append was stored: only its presence counts.
        let _ = client.append(&open, Append::new("well").with_header("h", "1"));
    }
    let mut reader = client.reader(&open, Position::START);
    let records = reader.take(9).unwrap();
    let texts: Vec<String> = records.iter().map(text).collect();
    let wanted = ["first", "no text", "well", "no colon", "well", "no name", "well", "a word of the server", "well"];
    assert_eq!(texts, wanted);
    let with: Vec<usize> = records.iter().map(|record| record.headers.len()).collect();
    assert_eq!(with, [0, 0, 1, 0, 1, 0, 1, 0, 1]);
    let told = heard::lines(&["a record has invalid NATS headers", "headless/0"]);
    assert_eq!(told.len(), 1, "of three the log hears once a minute: {told:?}");
}

/// The members go on, and each tells the log once.
#[test]
fn invalid_tables_of_a_group_are_logged_rarely() {
    heard::listen();
    let nats = Nats::start();
    let (one, two) = (Client(nats.bus()), Client(nats.bus()));
    let a = one.join("strange", "a", 1);
    until(&a.1, "a member", || (!a.0.held().is_empty()).then_some(()));
    for number in 0..20 {
        put(&nats, "tidegate.log.group-strange.0.record", b"NATS/1.0\r\n\r\n", &format!("no table {number}"));
    }
    // Its changes are behind all of that.
    let b = two.join("strange", "b", 1);
    until(&a.1, "the other member", || (a.0.members().len() == 2 && b.0.members().len() == 2).then_some(()));
    let told = heard::lines(&["not a table of a group", "group-strange"]);
    assert!((1..=2).contains(&told.len()), "once by each: {told:?}");
}
