//! TLS: negotiation, and the begin and end of sessions.

mod certificates;
mod clients;
mod presets;
mod reload;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, HandshakeKind};
use tidegate_engine::Reason;
use tidegate_node::{FlightSubject, Node, NodeReport, NodeSettings, TlsSettings, TlsVersion};
use tidegate_random::SplitMix64;

use crate::pki::{COMMON, client_config, client_config_of};
use crate::wire::*;
use crate::witness::watch;
use crate::{addresses, node};

/// Settings for one TLS listener.
fn settings(tls: TlsSettings) -> NodeSettings {
    let mut settings = NodeSettings::new("mqtts://127.0.0.1:0".parse().unwrap());
    settings.tls.insert(0, tls);
    settings
}

fn start(tls: TlsSettings) -> (Node, SocketAddr) {
    let node = Node::start(settings(tls)).unwrap();
    let at = node.local_addresses()[0].socket().unwrap();
    (node, at)
}

/// Connects as an MQTT client and waits for the CONNACK.
fn try_connect(at: SocketAddr, config: &Arc<ClientConfig>) -> io::Result<TlsSocket> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let mut socket = tls(at, config);
    let client_id = format!("client-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    socket.write_all(&connect(&client_id))?;
    let mut connack = [0; 4];
    socket.read_exact(&mut connack)?;
    assert_eq!(connack, CONNACK);
    Ok(socket)
}

fn refusal(at: SocketAddr, config: &Arc<ClientConfig>) -> String {
    try_connect(at, config).map(drop).unwrap_err().to_string()
}

#[test]
fn both_versions_are_spoken_and_sessions_are_resumed() {
    let node = node(1);
    let [.., address, _] = addresses(&node);
    for version in [&TLS12, &TLS13] {
        let config = Arc::new(client_config_of(&COMMON.authority.pem(), None, &[version]));
        for expected in [HandshakeKind::Full, HandshakeKind::Resumed] {
            let socket = try_connect(address.socket().unwrap(), &config).unwrap();
            assert_eq!(socket.conn.protocol_version(), Some(version.version));
            assert_eq!(socket.conn.handshake_kind(), Some(expected));
        }
    }
    let report = node.handle().report().unwrap();
    assert_eq!((report.shell.tls_handshakes, report.shell.tls_resumed), (4, 2));
}

#[test]
fn the_least_version_is_kept() {
    let (_node, at) = start(TlsSettings { minimum_version: TlsVersion::Tls13, ..COMMON.settings.clone() });
    let old = Arc::new(client_config_of(&COMMON.authority.pem(), None, &[&TLS12]));
    assert!(refusal(at, &old).contains("ProtocolVersion"));
    assert!(try_connect(at, &COMMON.client).is_ok());
}

#[test]
fn offered_protocols_must_include_mqtt() {
    let mut settings = settings(COMMON.settings.clone());
    let seen = watch(&mut settings);
    let node = Node::start(settings).unwrap();
    let at = node.local_addresses()[0].socket().unwrap();
    let offering = |protocols: &[&str]| {
        let mut config = client_config(&COMMON.authority.pem(), None);
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(config)
    };
    for (offered, agreed) in [(&[][..], None), (&["mqtt"], Some("mqtt")), (&["h2", "mqtt"], Some("mqtt"))] {
        let socket = try_connect(at, &offering(offered)).unwrap();
        assert_eq!(socket.conn.alpn_protocol(), agreed.map(str::as_bytes));
        let facts = seen.facts.recv().unwrap().tls.unwrap();
        assert_eq!(facts.alpn.as_deref(), agreed.map(str::as_bytes));
        assert_eq!((facts.version, facts.server_name.as_deref()), (TlsVersion::Tls13, Some("localhost")));
        assert_eq!((&facts.client, &facts.identity), (&None, &None));
    }
    assert!(refusal(at, &offering(&["h2"])).contains("NoApplicationProtocol"));
}

#[test]
fn a_websocket_over_tls_agrees_on_http() {
    let node = node(1);
    let [.., address] = addresses(&node);
    let mut config = client_config(&COMMON.authority.pem(), None);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let socket = tls(address.socket().unwrap(), &Arc::new(config));
    let mut client = Client::over(Box::new(socket), Some("/mqtt"));
    client.send(&connect("web"));
    client.expect(&CONNACK);
}

#[test]
fn a_client_without_tls_is_closed_and_counted() {
    let (node, at) = start(COMMON.settings.clone());
    let beginnings: [&[u8]; 4] =
        [&connect("plain"), b"GET / HTTP/1.1\r\n\r\n", &[0x16, 3, 1, 0xff, 0xff, 1], &[0x16; 600]];
    for bytes in beginnings {
        let mut socket = tcp(at);
        socket.write_all(bytes).unwrap();
        let mut rest = Vec::new();
        // An alert may come first.
        let _ = socket.read_to_end(&mut rest);
        assert!(rest.is_empty() || rest[0] == 0x15, "{rest:02x?}");
    }
    assert_eq!(node.handle().report().unwrap().shell.tls_failed, 4);
    assert!(try_connect(at, &COMMON.client).is_ok());
}

/// The `ClientHello` of a real client.
fn hello() -> Vec<u8> {
    let config = Arc::new(client_config(&COMMON.authority.pem(), None));
    let mut session = rustls::ClientConnection::new(config, "localhost".try_into().unwrap()).unwrap();
    let mut bytes = Vec::new();
    session.write_tls(&mut bytes).unwrap();
    bytes
}

#[test]
fn a_handshake_may_end_anywhere_and_gives_its_place_back() {
    let (node, at) = start(TlsSettings { max_handshakes: 1, ..COMMON.settings.clone() });
    let hello = hello();
    for (before, length) in (0..).zip([0, 1, 5, 6, hello.len() / 2, hello.len() - 1, hello.len()]) {
        let mut socket = tcp(at);
        socket.write_all(&hello[..length]).unwrap();
        drop(socket);
        // The connection was accepted and has ended.
        let is_over = |report: &NodeReport| report.shell.accepted > before && report.gauges.connections == 0;
        while !is_over(&node.handle().report().unwrap()) {
            std::thread::yield_now();
        }
    }
    drop(try_connect(at, &COMMON.client).unwrap());
    assert_eq!(node.handle().report().unwrap().shell.tls_refused_full, 0);
    // A connection that has only begun takes the slot.
    let mut slow = tcp(at);
    slow.write_all(&hello[..9]).unwrap();
    while node.handle().report().unwrap().shell.accepted < 9 {
        std::thread::yield_now();
    }
    assert_eq!(tcp(at).read(&mut [0]).unwrap(), 0, "closed without a word");
    assert_eq!(node.handle().report().unwrap().shell.tls_refused_full, 1);
}

#[test]
fn a_client_beyond_the_handshake_limit_gets_the_reason() {
    let (node, at) = start(TlsSettings { max_handshakes: 1, ..COMMON.settings.clone() });
    let mut slow = tcp(at);
    slow.write_all(&hello()[..9]).unwrap();
    while node.handle().report().unwrap().shell.accepted < 1 {
        std::thread::yield_now();
    }
    assert_eq!(tcp(at).read(&mut [0]).unwrap(), 0, "closed without a word");
    let story = node.handle().clients().why(&FlightSubject::Address("127.0.0.0/8".parse().unwrap()), None).unwrap();
    assert!(story.events.iter().any(|event| event.reason == Some(Reason::TooManyHandshakes)), "{story:?}");
}

#[test]
fn a_dripping_client_does_not_extend_the_time_to_connect() {
    let mut settings = settings(COMMON.settings.clone());
    settings.engine.limits.connect_timeout_ms = 30;
    let node = Node::start(settings).unwrap();
    let at = node.local_addresses()[0].socket().unwrap();
    let mut socket = tcp(at);
    // A ClientHello of 16,380 bytes that come one by one, each after the shard has looked for the one before.
    socket.write_all(&[0x16, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc]).unwrap();
    socket.set_nonblocking(true).unwrap();
    let end = (0..16_380).find(|_| {
        node.handle().report().unwrap();
        // Later input is dropped for a while, so the end of the answer shows the close.
        let ended = std::iter::repeat_with(|| socket.read(&mut [0; 64])).find(|read| !matches!(read, Ok(1..)));
        matches!(ended, Some(Ok(0))) || socket.write_all(&[0]).is_err()
    });
    assert!(end.is_some(), "it was served to the end");
    drop(socket);
    while node.handle().report().unwrap().gauges.connections > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn a_hello_in_pieces_and_packets_over_many_records() {
    let (_node, at) = start(COMMON.settings.clone());
    for version in [&TLS12, &TLS13] {
        let mut config = client_config_of(&COMMON.authority.pem(), None, &[version]);
        // Records of at most this many bytes, header included.
        config.max_fragment_size = Some(64);
        let mut socket = try_connect(at, &Arc::new(config)).unwrap();
        socket.write_all(&subscribe("big")).unwrap();
        let mut suback = [0; 5];
        socket.read_exact(&mut suback).unwrap();
        let payload: Vec<u8> = (0..300_000_u32).map(|number| number as u8).collect();
        let packet = publish("big", &payload);
        socket.write_all(&packet).unwrap();
        let mut echo = vec![0; packet.len()];
        socket.read_exact(&mut echo).unwrap();
        assert!(echo == packet);
    }
}

#[test]
fn keys_can_be_renewed_in_the_middle() {
    let (_node, at) = start(COMMON.settings.clone());
    let mut socket = try_connect(at, &COMMON.client).unwrap();
    for _ in 0..5 {
        socket.conn.refresh_traffic_keys().unwrap();
        socket.write_all(&PINGREQ).unwrap();
        let mut answer = [0; 2];
        socket.read_exact(&mut answer).unwrap();
        assert_eq!(answer, PINGRESP);
    }
}

#[test]
fn bent_records_end_the_session_and_nothing_else() {
    let (node, at) = start(COMMON.settings.clone());
    let mut socket = try_connect(at, &COMMON.client).unwrap();
    let record = [&[0x17, 3, 3, 0, 40][..], &[0xaa; 40]].concat();
    socket.sock.write_all(&record).unwrap();
    let error = socket.read(&mut [0]).unwrap_err().to_string();
    assert!(error.contains("BadRecordMac"), "{error}");
    let mut socket = try_connect(at, &COMMON.client).unwrap();
    socket.sock.write_all(&[0x17, 3, 3, 0xff, 0xff, 0, 0, 0]).unwrap();
    assert!(socket.read(&mut [0]).is_err());
    assert_eq!(node.handle().report().unwrap().shell.tls_failed, 2);
}

#[test]
fn plain_and_tls_listeners_do_not_share_tickets() {
    let mut settings = settings(COMMON.settings.clone());
    settings.listeners.push("mqtts://127.0.0.1:0".parse().unwrap());
    settings.tls.insert(1, COMMON.settings.clone());
    let listener = settings.engine.listeners[0].clone();
    settings.engine.listeners.push(listener);
    let node = Node::start(settings).unwrap();
    let at = |position: usize| node.local_addresses()[position].socket().unwrap();
    let config = Arc::new(client_config(&COMMON.authority.pem(), None));
    for (position, kind) in [(0, HandshakeKind::Full), (1, HandshakeKind::Full), (1, HandshakeKind::Resumed)] {
        let socket = try_connect(at(position), &config).unwrap();
        assert_eq!(socket.conn.handshake_kind(), Some(kind));
    }
    drop(TcpStream::connect(at(0)));
}

/// Any bytes instead of a handshake, or in the middle of one or of a session, in pieces of any size.
#[test]
fn no_bytes_of_a_client_stop_a_shard() {
    let (node, at) = start(COMMON.settings.clone());
    let hello = hello();
    let mut series = SplitMix64::new(1);
    let mut random = move |below: usize| usize::try_from(series.below(below as u64)).unwrap();
    for round in 0..400 {
        let (mut socket, mut bytes) = (tcp(at), hello.clone());
        if round % 3 == 0 {
            // A session that is established, and plain bytes behind it.
            let mut session = try_connect(at, &COMMON.client).unwrap();
            session.conn.send_close_notify();
            let mut end = Vec::new();
            session.conn.write_tls(&mut end).unwrap();
            bytes = [&end[..random(end.len())], &hello].concat();
            socket = session.sock;
        }
        for _ in 0..random(6) {
            let place = random(bytes.len());
            match random(4) {
                0 => bytes[place] = random(256) as u8,
                1 => bytes.truncate(place.max(1)),
                2 => bytes.extend_from_within(place..),
                // A message in several records.
                _ => drop(bytes.splice(place..place, [0x16, 3, 3, 0, random(90) as u8])),
            }
        }
        while !bytes.is_empty() {
            let rest = bytes.split_off((1 + random(300)).min(bytes.len()));
            if socket.write_all(&bytes).is_err() {
                break;
            }
            bytes = rest;
        }
        socket.finish();
        let _ = socket.read_to_end(&mut Vec::new());
    }
    assert!(try_connect(at, &COMMON.client).is_ok());
    assert!(node.stop(std::time::Duration::from_secs(60)).failed.is_empty());
}
