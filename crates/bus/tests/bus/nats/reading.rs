//! How readers ask the server for records.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use tidegate_bus::{Append, LogSpec, Position};

use super::Nats;
use crate::client::{Client, log, place};
use crate::{Deployment, settings};

/// The number of consumers that the server has made for a stream; an unused one stays for a minute.
fn consumers(nats: &Nats, stream: &str) -> u64 {
    let mut socket = TcpStream::connect(("127.0.0.1", nats.port)).unwrap();
    let asked = format!("PUB $JS.API.STREAM.INFO.{stream} answers 0\r\n\r\n");
    socket.write_all(["CONNECT {\"verbose\":false}\r\nSUB answers 1\r\n", &asked].concat().as_bytes()).unwrap();
    let mut lines = BufReader::new(socket).lines().map_while(Result::ok);
    let answer = lines.find(|line| line.starts_with('{')).expect("an answer");
    let (_, rest) = answer.split_once("\"consumer_count\":").unwrap();
    rest.split([',', '}']).next().unwrap().trim().parse().unwrap()
}

/// The server ends a request when the next record exceeds the rest of its bytes. A reader that took that for an error
/// started again, with a pause, for each few of them.
#[test]
fn a_reader_of_large_records_keeps_its_consumer() {
    let nats = Nats::start();
    let client = Client(nats.bus());
    client.create(LogSpec::shared(log("large"), 1)).unwrap();
    let large = place("large", 0);
    let (size, count) = (700_000, 5 * settings().max_ahead_bytes / 700_000);
    for number in 0..count {
        client.append(&large, Append::new(vec![number as u8; size])).unwrap();
    }
    let read = client.reader(&large, Position::START).take(count).unwrap();
    assert!(read.iter().zip(0_usize..).all(|(record, number)| record.payload[0] == number as u8));
    assert_eq!(consumers(&nats, "tidegate_large_0"), 1);
}
