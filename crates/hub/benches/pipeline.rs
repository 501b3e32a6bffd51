//! The cost of a message in a pipeline alone, with its connection to a broker: `cargo bench -p tidegate-hub`.
//!
//! A broker with scripted answers sends messages of QoS 1 as one that keeps sessions does, within the window, and the sink
//! discards the records. One line per scenario: nanoseconds per message. `bench/instructions.py` counts its instructions.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints its results and stops at the first surprise"
)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use tidegate_hub::net::{Address, SocketOptions};
use tidegate_hub::{
    Batching, Hub, ORIGIN_PROPERTY, PipelineSettings, SinkKind, SinkSettings, SourceSettings, StepSettings,
    TopicFilterBuf, TopicsSettings,
};

const MESSAGES: u64 = 100_000;
const WINDOW: u16 = 1000;
const PAYLOAD: usize = 200;

/// The name of a scenario, and the SQL of its pipeline.
const SCENARIOS: &[(&str, Option<&str>)] = &[
    ("pass through", None),
    ("filter and project", Some("SELECT payload.temp AS temp, topic, clientid FROM 'bench/#' WHERE payload.temp > 30")),
];

fn text(text: &str) -> Vec<u8> {
    [&u16::try_from(text.len()).unwrap().to_be_bytes(), text.as_bytes()].concat()
}

/// The PUBLISH packet of a message. Its number is in the id of its origin.
fn publish(number: u64) -> Vec<u8> {
    let packet_id = u16::try_from(number % u64::from(WINDOW)).unwrap() + 1;
    let origin = text(&format!("0123456789abcdef-{number} 1700000000123 bench-0"));
    let pair = [&[0x26][..], &text(ORIGIN_PROPERTY), &origin].concat();
    let begin = "{\"temp\": 31, \"unit\": \"C\", \"fill\": \"";
    let payload = format!("{begin}{}\"}}", "x".repeat(PAYLOAD - begin.len() - 2));
    let properties = [&[u8::try_from(pair.len()).unwrap()][..], &pair].concat();
    let body = [&text("bench/0")[..], &packet_id.to_be_bytes(), &properties, payload.as_bytes()].concat();
    let len = [u8::try_from(body.len() % 128).unwrap() | 0x80, u8::try_from(body.len() / 128).unwrap()];
    [&[0x32][..], &len, &body].concat()
}

/// Reads a packet of fewer than 128 bytes behind its head.
fn packet(stream: &mut TcpStream) -> Vec<u8> {
    let mut head = [0; 2];
    stream.read_exact(&mut head).unwrap();
    let mut body = vec![0; usize::from(head[1])];
    stream.read_exact(&mut body).unwrap();
    body
}

/// Sends all packets, as far as the window has room, until all are acknowledged.
fn send_all(stream: &mut TcpStream, packets: &[Vec<u8>]) {
    let (mut sent, mut acknowledged, mut rest) = (0, 0, 0);
    let mut input = vec![0; 1 << 16];
    while acknowledged < packets.len() {
        let end = packets.len().min(acknowledged + usize::from(WINDOW));
        stream.write_all(&packets[sent..end].concat()).unwrap();
        sent = end;
        // A PUBACK without a reason has four bytes.
        rest += stream.read(&mut input).unwrap();
        acknowledged += rest / 4;
        rest %= 4;
    }
}

fn pipeline(listener: &TcpListener, sql: Option<&str>) -> PipelineSettings {
    let topics = TopicsSettings {
        address: Address::Tcp { host: "127.0.0.1".into(), port: listener.local_addr().unwrap().port() },
        socket: SocketOptions::default(),
        client_id: "tidegate-hub-bench".into(),
        user_name: None,
        password: None,
        share: None,
        retained: false,
        origins: true,
        own_publishers: Vec::new(),
        window: WINDOW,
        session_expiry: 60,
        kept_filters: None,
    };
    let batching = Batching { messages: usize::from(WINDOW) / 2, ..Batching::default() };
    PipelineSettings {
        name: "bench".into(),
        from: vec![TopicFilterBuf::new("bench/#").unwrap()],
        source: SourceSettings::Topics(topics),
        steps: StepSettings { sql: sql.map(str::to_owned), ..StepSettings::default() },
        to: vec![SinkSettings { name: "nowhere".into(), kind: SinkKind::Discard, batching, parallel: 1 }],
        archive: None,
        dead_letter: None,
        max_age: Duration::ZERO,
    }
}

fn run(name: &str, sql: Option<&str>) {
    let packets: Vec<Vec<u8>> = (0..MESSAGES).map(publish).collect();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let hub = Hub::start(vec![pipeline(&listener, sql)]).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_nodelay(true).unwrap();
    packet(&mut stream);
    stream.write_all(&[0x20, 3, 0, 0, 0]).unwrap();
    let subscribe = packet(&mut stream);
    stream.write_all(&[0x90, 4, subscribe[0], subscribe[1], 0, 1]).unwrap();
    let begin = Instant::now();
    send_all(&mut stream, &packets);
    let taken = begin.elapsed();
    drop(stream);
    hub.stop(Duration::ZERO);
    println!("{name}: {} ns", taken.as_nanos() / u128::from(MESSAGES));
}

fn main() {
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    for (name, sql) in SCENARIOS {
        if wanted.as_ref().is_none_or(|wanted| wanted == name) {
            run(name, *sql);
        }
    }
}
