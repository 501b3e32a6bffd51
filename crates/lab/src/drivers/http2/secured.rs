//! A hub behind TLS that a thread plays, and the whole exchange with it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;

use rustls::crypto::ring;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::*;
use crate::drivers::{ExchangePlan, Protocol, run};
use crate::load::LoadOutcome;
use crate::load::plan::Pace;

const OK: &[u8] = &[0x88];
const MESSAGES: u64 = 20;

type Secured = StreamOwned<ServerConnection, TcpStream>;

fn config(alpn: &[&[u8]]) -> Arc<ServerConfig> {
    let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let private = PrivatePkcs8KeyDer::from(key.signing_key.serialize_der()).into();
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![key.cert.der().clone()], private)
        .unwrap();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    Arc::new(config)
}

/// The next frame: kind, flags, stream and payload; `None` at the end.
fn next(stream: &mut Secured) -> Option<(u8, u8, u32, Vec<u8>)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).ok()?;
    let mut payload = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
    stream.read_exact(&mut payload).ok()?;
    Some((head[3], head[4], u32::from_be_bytes(head[5..].try_into().unwrap()), payload))
}

fn say(stream: &mut Secured, kind: u8, flags: u8, number: u32, payload: &[u8]) {
    let mut out = Vec::new();
    frame(kind, flags, number, payload, &mut out);
    stream.write_all(&out).unwrap();
}

/// A client that has come: its connection, and the head of its first request where it asks for events.
fn greeted(listener: &TcpListener, config: &Arc<ServerConfig>) -> Option<Secured> {
    let (stream, _) = listener.accept().unwrap();
    let mut stream = StreamOwned::new(ServerConnection::new(Arc::clone(config)).unwrap(), stream);
    let mut preface = [0; PREFACE.len()];
    stream.read_exact(&mut preface).ok()?;
    assert_eq!((&preface[..], stream.conn.alpn_protocol()), (PREFACE, Some(&b"h2"[..])));
    say(&mut stream, SETTINGS, 0, 0, &[]);
    Some(stream)
}

/// A hub for one subscriber and one publisher, in the order in which they are dialled; the first bytes of both heads.
fn hub(alpn: &[&[u8]]) -> (u16, JoinHandle<Option<[Vec<u8>; 2]>>) {
    let (listener, config) = (TcpListener::bind("127.0.0.1:0").unwrap(), config(alpn));
    let port = listener.local_addr().unwrap().port();
    let played = move || {
        let (subscriber, publisher) = (greeted(&listener, &config), greeted(&listener, &config));
        let (mut subscriber, mut publisher) = (subscriber?, publisher?);
        let asked = loop {
            let (kind, _, stream, head) = next(&mut subscriber)?;
            if kind == HEADERS {
                say(&mut subscriber, HEADERS, END_HEADERS, stream, OK);
                break head;
            }
        };
        let mut posted = Vec::new();
        while let Some((kind, flags, stream, payload)) = next(&mut publisher) {
            match kind {
                HEADERS => posted = payload,
                DATA => {
                    assert_eq!(flags, END_STREAM);
                    let form = String::from_utf8(payload).unwrap();
                    let event = format!("data: {}\n\n", form.split_once("&data=").unwrap().1);
                    say(&mut subscriber, DATA, 0, 1, event.as_bytes());
                    say(&mut publisher, HEADERS, END_HEADERS | END_STREAM, stream, OK);
                }
                _ => {}
            }
        }
        Some([asked, posted].map(|head| head[..2].to_vec()))
    };
    (port, std::thread::spawn(played))
}

fn exchanged(port: u16) -> LoadOutcome {
    let plan = ExchangePlan {
        protocol: Protocol::Http2,
        host: "127.0.0.1".to_owned(),
        port,
        path: String::new(),
        tls: true,
        credentials: None,
        topic: "lab".to_owned(),
        publishers: 1,
        subscribers: 1,
        pairs: false,
        size: 64,
        pace: Pace::Closed { window: 3 },
        messages: Some(MESSAGES),
        acknowledged: true,
        warm_up_ms: 0,
        duration_ms: 60_000,
        connect_timeout_ms: 30_000,
        drain_ms: 30_000,
        seed: 1,
        deadline_ms: None,
    };
    run(&plan, &mut (), &AtomicBool::new(false)).unwrap()
}

#[test]
fn messages_go_through_a_hub_behind_tls() {
    let (port, hub) = hub(&[b"h2"]);
    let outcome = exchanged(port);
    let counts = outcome.counts;
    assert_eq!((counts.sent, counts.acknowledged, counts.received), (MESSAGES, MESSAGES, MESSAGES), "{outcome:?}");
    // GET and POST, of https.
    assert_eq!(hub.join().unwrap().unwrap(), [[0x82, 0x87], [0x83, 0x87]]);
}

#[test]
fn a_server_without_http_2_is_reported_and_gets_no_bytes() {
    let (port, hub) = hub(&[]);
    let outcome = exchanged(port);
    assert!(hub.join().unwrap().is_none(), "it got a preface");
    assert_eq!((outcome.counts.sent, outcome.connections.broken), (0, 2));
    let reported: Vec<&String> = outcome.problems.keys().collect();
    assert!(reported.iter().any(|problem| problem.contains("does not agree to `h2`")), "{reported:?}");
}
