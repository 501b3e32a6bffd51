//! The driver over real sockets, against a scripted server.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tidegate_client::net::{Address, ConnectError, Driver, SocketOptions, Step, TransportError, WebSocketError};
use tidegate_client::{
    DisconnectRequest, Disconnected, Event, Options, QoS, SubscribeRequest, SubscriptionOptions, TopicFilterBuf,
    Version,
};

use crate::script::{ACCEPTED, message};

const CONNECT_LEN: usize = 15;

/// A server for one connection, in its own thread.
fn serve(session: impl FnOnce(TcpStream) + Send + 'static) -> (Address, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let thread = std::thread::spawn(move || session(listener.accept().unwrap().0));
    let host = "127.0.0.1".to_owned();
    (Address::Tcp { host, port }, thread)
}

/// The same for one client that it accepts: the session begins behind CONNACK.
fn serve_session(session: impl FnOnce(TcpStream) + Send + 'static) -> (Address, JoinHandle<()>) {
    serve(|mut stream| {
        read(&mut stream, CONNECT_LEN);
        stream.write_all(ACCEPTED).unwrap();
        session(stream);
    })
}

fn driver(address: Address) -> Driver {
    Driver::new(Options::new("c"), address, SocketOptions::default()).unwrap()
}

fn read(stream: &mut impl Read, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

fn event(driver: &mut Driver) -> Event {
    match driver.next(None).unwrap() {
        Step::Event(event) => event,
        other => panic!("{other:?}"),
    }
}

fn connect(driver: &mut Driver) {
    driver.connect().unwrap();
    assert!(matches!(event(driver), Event::Connected(_)));
}

#[test]
fn a_session_over_tcp() {
    let (address, server) = serve_session(|mut stream| {
        assert_eq!(read(&mut stream, 8), b"\x32\x06\0\x01t\0\x01x");
        stream.write_all(&[0x40, 2, 0, 1]).unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, [0xe0, 0]);
    });
    let mut driver = driver(address);
    connect(&mut driver);
    let publish = message("t", "x", QoS::AtLeastOnce);
    driver.client().publish(Instant::now(), publish).unwrap();
    assert!(matches!(event(&mut driver), Event::Published(_)));
    let farewell = DisconnectRequest::default();
    driver.client().disconnect(Instant::now(), &farewell).unwrap();
    driver.finish().unwrap();
    assert_eq!(event(&mut driver), Event::Disconnected(Disconnected::Requested));
    server.join().unwrap();
}

#[test]
fn a_session_over_a_unix_socket() {
    let path = std::env::temp_dir().join(format!("tidegate-client-{}.sock", std::process::id()));
    let listener = UnixListener::bind(&path).unwrap();
    let server = std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        read(&mut stream, CONNECT_LEN);
        stream.write_all(ACCEPTED).unwrap();
    });
    let mut driver = driver(Address::Unix { path: path.clone() });
    connect(&mut driver);
    server.join().unwrap();
    assert_eq!(event(&mut driver), Event::Disconnected(Disconnected::TransportClosed));
    assert!(matches!(driver.transport_error(), Some(TransportError::EndOfStream)));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_farewell_is_not_lost_when_the_server_is_still_sending() {
    let (address, server) = serve_session(|mut stream| {
        // More than the client will have read when it says farewell.
        let packet = [&b"\x30\x84\x80\x01\0\x01t"[..], &vec![0; 16_385]].concat();
        let mut sending = stream.try_clone().unwrap();
        let flood = std::thread::spawn(move || while sending.write_all(&packet).is_ok() {});
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, [0xe0, 0]);
        stream.shutdown(Shutdown::Both).unwrap();
        flood.join().unwrap();
    });
    let mut driver = driver(address);
    connect(&mut driver);
    assert!(matches!(event(&mut driver), Event::Message(_)));
    let farewell = DisconnectRequest::default();
    driver.client().disconnect(Instant::now(), &farewell).unwrap();
    driver.finish().unwrap();
    server.join().unwrap();
}

#[test]
fn a_waker_and_a_deadline_end_the_waiting() {
    let (address, server) = serve_session(|mut stream| {
        let _ = stream.read(&mut [0]);
    });
    let mut driver = driver(address);
    connect(&mut driver);
    let waker = driver.waker();
    let thread = std::thread::spawn(move || waker.wake().unwrap());
    assert_eq!(driver.next(None).unwrap(), Step::Woken);
    thread.join().unwrap();
    let soon = Instant::now() + Duration::from_millis(5);
    assert_eq!(driver.next(Some(soon)).unwrap(), Step::Deadline);
    assert!(Instant::now() >= soon);
    drop(driver);
    server.join().unwrap();
}

#[test]
fn a_waker_ends_a_rest_and_the_next_wait() {
    let (address, server) = serve_session(|mut stream| {
        let _ = stream.read(&mut [0]);
    });
    let mut driver = driver(address);
    connect(&mut driver);
    let never = Instant::now() + Duration::from_secs(86_400);
    driver.waker().wake().unwrap();
    driver.rest(never);
    assert_eq!(driver.next(None).unwrap(), Step::Woken);
    let waker = driver.waker();
    let thread = std::thread::spawn(move || waker.wake().unwrap());
    driver.rest(never);
    thread.join().unwrap();
    assert_eq!(driver.next(None).unwrap(), Step::Woken);
    driver.rest(Instant::now());
    drop(driver);
    server.join().unwrap();
}

#[test]
fn a_server_that_sends_without_end_delays_no_deadline() {
    let (address, server) = serve_session(|mut stream| {
        // Messages, which are events, and PINGRESP packets, which are not.
        let packets = b"\x30\x04\0\x01tx\xd0\0\xd0\0".repeat(10_000);
        while stream.write_all(&packets).is_ok() {}
    });
    let mut driver = driver(address);
    connect(&mut driver);
    let soon = Instant::now() + Duration::from_millis(20);
    while driver.next(Some(soon)).unwrap() != Step::Deadline {}
    driver.waker().wake().unwrap();
    while driver.next(None).unwrap() != Step::Woken {}
    drop(driver);
    server.join().unwrap();
}

#[test]
fn the_clients_timers_run() {
    let (address, server) = serve_session(|mut stream| {
        assert_eq!(read(&mut stream, 2), [0xc0, 0]);
    });
    let mut options = Options::new("c");
    options.keep_alive = 1;
    let mut driver = Driver::new(options, address, SocketOptions::default()).unwrap();
    connect(&mut driver);
    assert_eq!(event(&mut driver), Event::Disconnected(Disconnected::TransportClosed));
    server.join().unwrap();
}

#[test]
fn connections_may_follow_each_other() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        for dup in [0x32, 0x3a] {
            let mut stream = listener.accept().unwrap().0;
            read(&mut stream, CONNECT_LEN);
            stream.write_all(&[0x20, 2, 1, 0]).unwrap();
            assert_eq!(read(&mut stream, 8)[0], dup);
        }
    });
    let mut options = Options::new("c");
    options.clean_start = false;
    let host = "localhost".to_owned();
    let socket_options = SocketOptions { bind: Some("127.0.0.1".to_owned()), ..SocketOptions::default() };
    let address = Address::Tcp { host, port };
    let mut driver = Driver::new(options, address, socket_options).unwrap();
    let publish = message("t", "x", QoS::AtLeastOnce);
    driver.client().publish(Instant::now(), publish).unwrap();
    for _ in 0..2 {
        connect(&mut driver);
        assert!(matches!(event(&mut driver), Event::Disconnected(_)));
    }
    server.join().unwrap();
}

#[test]
fn why_there_is_no_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let host = || "127.0.0.1".to_owned();
    let refused = driver(Address::Tcp { host: host(), port }).connect();
    assert!(matches!(refused, Err(ConnectError::Connect { .. })));
    let path = "no/such/socket".into();
    let missing = driver(Address::Unix { path }).connect();
    assert!(matches!(missing, Err(ConnectError::Connect { .. })));
    let mut socket_options = SocketOptions { bind: Some("::1".to_owned()), ..SocketOptions::default() };
    let address = Address::Tcp { host: host(), port };
    let mut families = Driver::new(Options::new("c"), address.clone(), socket_options.clone()).unwrap();
    let families = families.connect();
    assert!(matches!(families, Err(ConnectError::NoAddress { .. })));
    // An address reserved for documentation, so that binding it fails.
    socket_options.bind = Some("192.0.2.1".to_owned());
    let mut foreign = Driver::new(Options::new("c"), address, socket_options).unwrap();
    assert!(matches!(foreign.connect(), Err(ConnectError::Bind { .. })));
}

#[test]
fn a_web_server_is_no_broker() {
    let (address, server) = serve(|mut stream| {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.extend(read(&mut stream, 1));
        }
        stream.write_all(b"HTTP/1.1 426 Upgrade Required\r\n\r\n").unwrap();
    });
    let Address::Tcp { host, port } = address else {
        panic!("{address}");
    };
    let path = "/".to_owned();
    let mut driver = driver(Address::WebSocket { host, port, path });
    driver.connect().unwrap();
    assert!(matches!(event(&mut driver), Event::Disconnected(_)));
    assert!(matches!(
        driver.transport_error(),
        Some(TransportError::WebSocket(WebSocketError::NotAccepted { status: 426 }))
    ));
    server.join().unwrap();
}

/// A whole round through a broker: subscribe, publish at each QoS, receive. `large` is the length of the larger
/// payload.
pub(crate) fn round_trip(address: &Address, version: Version, large: usize) {
    let mut options = Options::new(format!("round-{}", version.protocol_level()));
    options.version = version;
    let mut driver = Driver::new(options, address.clone(), SocketOptions::default()).unwrap();
    connect(&mut driver);
    let name = format!("tidegate/client/{version}/{}", std::process::id());
    let filter = TopicFilterBuf::new(name.clone()).unwrap();
    let options = SubscriptionOptions::new(QoS::ExactlyOnce);
    let request = SubscribeRequest { subscriptions: vec![(filter, options)], ..SubscribeRequest::default() };
    let now = Instant::now();
    driver.client().subscribe(now, &request).unwrap();
    assert!(matches!(event(&mut driver), Event::Subscribed(_)));
    let payloads = ["small".to_owned(), "l".repeat(large)];
    let qualities = [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce];
    for qos in qualities {
        for payload in &payloads {
            let publish = message(&name, payload, qos);
            driver.client().publish(now, publish).unwrap();
        }
    }
    let (mut received, mut published) = (Vec::new(), 0);
    while received.len() < 6 || published < 6 {
        match event(&mut driver) {
            Event::Message(message) => {
                let large = message.payload.len() > 100;
                assert_eq!(message.payload, payloads[usize::from(large)].as_bytes());
                received.push((message.qos, large));
            }
            Event::Published(_) => published += 1,
            other => panic!("{other:?}"),
        }
    }
    received.sort_unstable();
    let expected = qualities.map(|qos| [(qos, false), (qos, true)]);
    assert_eq!(received, expected.concat());
    let farewell = DisconnectRequest::default();
    driver.client().disconnect(now, &farewell).unwrap();
    driver.finish().unwrap();
    let last = Event::Disconnected(Disconnected::Requested);
    assert_eq!(event(&mut driver), last);
}

#[test]
fn an_answer_that_was_not_read_is_no_silence() {
    let (address, server) = serve_session(|mut stream| {
        assert_eq!(read(&mut stream, 2), b"\xc0\0");
        stream.write_all(b"\xd0\0").unwrap();
        // The connection continues: a second ping is sent after the first is answered.
        assert_eq!(read(&mut stream, 2), b"\xc0\0");
    });
    let options = Options { keep_alive: 1, ..Options::new("c") };
    let mut driver = Driver::new(options, address, SocketOptions::default()).unwrap();
    connect(&mut driver);
    let ping = driver.client().next_deadline().unwrap();
    assert_eq!(driver.next(Some(ping)).unwrap(), Step::Deadline);
    // The ping is sent, and the socket is not read until its answer is overdue, as when the process is stopped.
    assert_eq!(driver.next(Some(Instant::now())).unwrap(), Step::Deadline);
    while driver.client().next_deadline() == Some(ping) {
        driver.next(Some(Instant::now() + Duration::from_millis(1))).unwrap();
    }
    let overdue = driver.client().next_deadline().unwrap();
    // The event that is waited for is that time itself.
    let (_kept, never) = std::sync::mpsc::channel::<()>();
    while Instant::now() < overdue {
        never.recv_timeout(overdue.saturating_duration_since(Instant::now())).unwrap_err();
    }
    assert_eq!(event(&mut driver), Event::Disconnected(Disconnected::TransportClosed));
    server.join().unwrap();
}
