//! The listener over sockets, with a broker that each test sets up.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tidegate_http::{
    Caller, DoorSettings, Entry, Found, Gateway, HistoryAnswer, HistoryError, HistoryQuestion, MessageProperties,
    ReadError, RetainedMessage, Running, Seat, TlsStart, Who, start,
};

/// Connections that the listener takes at once.
const CONNECTIONS: usize = 8;

/// CONNACK of MQTT 5 with this reason.
fn conn_ack(reason: u8) -> [u8; 5] {
    [0x20, 3, 0, reason, 0]
}

/// The broker's end of the newest connection.
type NewestEnd = Arc<Mutex<Option<UnixStream>>>;

/// A broker that answers CONNECT with a reason, and takes all that follows.
struct Broker {
    reason: u8,
    message: Option<RetainedMessage>,
    /// The broker's end of the newest connection, and where its seat reports calls.
    seat: Option<(NewestEnd, Sender<&'static str>)>,
}

/// A connection that reports the calls.
struct Reporting(Sender<&'static str>);

impl Seat for Reporting {
    fn rest(&mut self) {
        self.0.send("rest").unwrap();
    }

    fn resume(&mut self) -> bool {
        true
    }

    fn pass(&mut self) {}

    fn leave(&mut self) {
        let _ = self.0.send("leave");
    }
}

/// A connection of a tenant without quotas.
struct Unlimited;

impl Seat for Unlimited {
    fn rest(&mut self) {}

    fn resume(&mut self) -> bool {
        true
    }

    fn pass(&mut self) {}

    fn leave(&mut self) {}
}

impl Gateway for Broker {
    fn connect(&self, _: &Caller, draw: &dyn Fn() -> String) -> io::Result<Entry> {
        let (ours, mut theirs) = UnixStream::pair()?;
        let answer = conn_ack(self.reason);
        if let Some((end, _)) = &self.seat {
            *end.lock().unwrap() = Some(theirs.try_clone()?);
        }
        thread::spawn(move || {
            let mut buffer = [0; 4_096];
            let _ = theirs.read(&mut buffer);
            let _ = theirs.write_all(&answer);
            while theirs.read(&mut buffer).is_ok_and(|count| count > 0) {}
        });
        let seat: Box<dyn Seat> = match &self.seat {
            Some((_, told)) => Box::new(Reporting(told.clone())),
            None => Box::new(Unlimited),
        };
        Ok(Entry { client_id: draw(), stream: ours, seat })
    }

    fn tls(&self, _: u16) -> Option<TlsStart> {
        None
    }

    fn retained(&self, _: &Caller, _: &str, topic: &str) -> Result<Found<RetainedMessage>, ReadError> {
        Ok(if topic == "elsewhere" { Found::Elsewhere } else { Found::Here(self.message.clone()) })
    }

    fn fetch(&self, _: &Caller, _: &str, _: &str) -> Result<Option<RetainedMessage>, ReadError> {
        Ok(self.message.clone())
    }

    fn history(
        &self,
        _: &Caller,
        _: &str,
        _: &HistoryQuestion,
        _: &dyn Fn() -> bool,
    ) -> Result<HistoryAnswer, HistoryError> {
        Err(HistoryError::Missing)
    }

    fn user_of_key(&self, _: &[u8]) -> Option<String> {
        None
    }

    fn who(&self, _: &Caller, _: &str) -> Option<Who> {
        Some(Who { tenant: 0, user_name: None })
    }

    fn left(&self, _: &str) {}
}

fn listen(broker: Broker) -> Running {
    let settings = DoorSettings {
        listener: 0,
        name: "web".to_owned(),
        addresses: vec!["127.0.0.1:0".parse().unwrap()],
        tls: false,
        max_connections: CONNECTIONS,
        max_body: 1 << 20,
        max_body_bytes: 1 << 22,
        origins: Vec::new(),
    };
    start(vec![settings], Arc::new(broker)).unwrap()
}

/// The answer to a request, until the listener closes the connection or the body is complete.
fn ask(listener: &Running, request: &str) -> String {
    let mut stream = TcpStream::connect(listener.addresses()[0].1).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let (mut answer, mut buffer) = (Vec::new(), [0; 4_096]);
    loop {
        let count = stream.read(&mut buffer).unwrap();
        answer.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&answer).to_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            assert_ne!(count, 0, "no answer: {text}");
            continue;
        };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if count == 0 || length.is_none_or(|length| body.len() >= length.parse().unwrap()) {
            return text;
        }
    }
}

#[test]
fn a_client_is_authenticated_before_its_body_is_read() {
    let listener = listen(Broker { reason: 0x86, message: None, seat: None });
    for path in ["/topics/a", "/topics"] {
        let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n");
        let answer = ask(&listener, &head);
        assert!(answer.starts_with("http/1.1 401 "), "{answer}");
    }
    listener.stop(Duration::ZERO);
}

#[test]
fn a_message_with_many_user_properties_is_answered() {
    let user_properties = (0..30_000).map(|number| (format!("n{number}"), String::new())).collect();
    let properties = MessageProperties {
        user_properties,
        content_type: Some("text/html".to_owned()),
        ..MessageProperties::default()
    };
    let message = RetainedMessage { qos: 1, payload: b"<script>".to_vec(), properties };
    let listener = listen(Broker { reason: 0, message: Some(message), seat: None });
    let answer = ask(&listener, "GET /topics/a HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(answer.starts_with("http/1.1 200 "), "{answer}");
    assert_eq!(answer.matches("\r\nx-mqtt-user-").count(), 64);
    for header in [
        "content-type: text/html",
        "content-disposition: attachment",
        "x-content-type-options: nosniff",
        "content-security-policy: sandbox; default-src 'none'",
    ] {
        assert!(answer.contains(&format!("\r\n{header}\r\n")), "{header}: {answer}");
    }
    listener.stop(Duration::ZERO);
}

#[test]
fn reads_at_once_of_another_nodes_topic_succeed() {
    let message = RetainedMessage { qos: 1, payload: b"21.5".to_vec(), ..RetainedMessage::default() };
    let listener = listen(Broker { reason: 0, message: Some(message), seat: None });
    thread::scope(|scope| {
        let read = || ask(&listener, "GET /topics/elsewhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let reads: Vec<_> = (0..8).map(|_| scope.spawn(read)).collect();
        for read in reads {
            let answer = read.join().unwrap();
            assert!(answer.starts_with("http/1.1 200 ") && answer.ends_with("21.5"), "{answer}");
        }
    });
    listener.stop(Duration::ZERO);
}

#[test]
fn every_answer_forbids_browsers_to_show_it_as_a_page() {
    let listener = listen(Broker { reason: 0, message: None, seat: None });
    for request in ["GET / HTTP/1.1", "GET /topics/a HTTP/1.1", "DELETE /topics/a HTTP/1.1", "GET /none HTTP/1.1"] {
        let answer = ask(&listener, &format!("{request}\r\nHost: localhost\r\n\r\n"));
        assert!(answer.contains("\r\nx-content-type-options: nosniff\r\n"), "{answer}");
        assert!(answer.contains("\r\ncontent-security-policy: sandbox; default-src 'none'\r\n"), "{answer}");
    }
    listener.stop(Duration::ZERO);
}

#[test]
fn a_loopback_listener_refuses_a_foreign_host() {
    let listener = listen(Broker { reason: 0, message: None, seat: None });
    let answer = ask(&listener, "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    assert!(answer.starts_with("http/1.1 403 "), "{answer}");
    listener.stop(Duration::ZERO);
}

#[test]
fn an_entry_of_qos_0_in_a_batch_is_answered_202() {
    let listener = listen(Broker { reason: 0, message: None, seat: None });
    let body = r#"[{"topic":"a","qos":0},{"topic":"b","qos":0}]"#;
    let head = format!("POST /topics HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
    let answer = ask(&listener, &format!("{head}{body}"));
    assert!(answer.starts_with("http/1.1 200 "), "{answer}");
    assert_eq!(answer.matches(r#""status":202"#).count(), 2, "{answer}");
    listener.stop(Duration::ZERO);
}

#[test]
fn a_resting_session_that_the_broker_ends_leaves_the_quotas() {
    let (end, (told, heard)) = (Arc::new(Mutex::new(None)), channel());
    let listener = listen(Broker { reason: 0, message: None, seat: Some((Arc::clone(&end), told)) });
    let mut stream = TcpStream::connect(listener.addresses()[0].1).unwrap();
    stream.write_all(b"GET /topics/a HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let next = || heard.recv_timeout(Duration::from_secs(60));
    assert_eq!(next(), Ok("rest"));
    end.lock().unwrap().as_ref().unwrap().shutdown(Shutdown::Both).unwrap();
    assert_eq!(next(), Ok("leave"), "before the next request");
    listener.stop(Duration::ZERO);
    drop(stream);
}

#[test]
fn silent_connections_do_not_shut_clients_out() {
    let listener = listen(Broker { reason: 0, message: None, seat: None });
    let at = listener.addresses()[0].1;
    let get = format!("GET /topics/a HTTP/1.1\r\nHost: {at}\r\n\r\n");
    let mut client = TcpStream::connect(at).unwrap();
    let answered = |client: &mut TcpStream| {
        client.write_all(get.as_bytes()).unwrap();
        let mut answer = vec![0; 4_096];
        let count = client.read(&mut answer).unwrap();
        assert!(answer[..count].starts_with(b"HTTP/1.1 404 "), "{:?}", String::from_utf8_lossy(&answer[..count]));
    };
    answered(&mut client);
    let silent: Vec<_> = (0..3 * CONNECTIONS).map(|_| TcpStream::connect(at).unwrap()).collect();
    for _ in 0..3 {
        answered(&mut TcpStream::connect(at).unwrap());
    }
    answered(&mut client);
    drop(silent);
    listener.stop(Duration::from_secs(60));
}

#[test]
fn a_full_listener_cuts_no_answer_that_is_being_read() {
    /// More than the system holds for a socket.
    const LENGTH: usize = 64 << 20;
    let message = RetainedMessage { qos: 1, payload: vec![b'x'; LENGTH], ..RetainedMessage::default() };
    let listener = listen(Broker { reason: 0, message: Some(message), seat: None });
    let at = listener.addresses()[0].1;
    let mut slow = TcpStream::connect(at).unwrap();
    slow.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    slow.write_all(format!("GET /topics/a HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n").as_bytes()).unwrap();
    // The answer has begun, and waits for its reader.
    let mut first = [0; 12];
    slow.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    let silent: Vec<_> = (0..3 * CONNECTIONS).map(|_| TcpStream::connect(at).unwrap()).collect();
    // All silent ones were accepted before this one.
    assert!(
        ask(&listener, &format!("HEAD / HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n")).starts_with("http/")
    );
    let mut rest = Vec::new();
    slow.read_to_end(&mut rest).unwrap();
    assert!(rest.len() > LENGTH, "{} bytes", rest.len());
    drop(silent);
    listener.stop(Duration::from_secs(60));
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Reads a frame of HTTP/2: its kind, its flags and its stream.
fn read_frame(stream: &mut TcpStream) -> (u8, u8, u32) {
    let mut head = [0; 9];
    stream.read_exact(&mut head).unwrap();
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    stream.read_exact(&mut vec![0; length as usize]).unwrap();
    (head[3], head[4], u32::from_be_bytes([head[5], head[6], head[7], head[8]]))
}

#[test]
fn a_refused_http_2_body_ends_with_an_answer_and_no_reset() {
    const DATA: u8 = 0;
    const HEADERS: u8 = 1;
    const RST_STREAM: u8 = 3;
    const SETTINGS: u8 = 4;
    const PING: u8 = 6;
    let listener = listen(Broker { reason: 0x86, message: None, seat: None });
    let mut stream = TcpStream::connect(listener.addresses()[0].1).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    // `:method: POST`, `:scheme: http`, `:path: /topics/a`, `:authority: localhost`.
    let head = [&[0x83, 0x86, 0x44, 9][..], b"/topics/a", &[0x41, 9], b"localhost"].concat();
    let begin = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        frame(SETTINGS, 0, 0, &[]),
        frame(HEADERS, 4, 1, &head),
        frame(DATA, 0, 1, &[b'x'; 10_000]),
    ];
    stream.write_all(&begin.concat()).unwrap();
    let mut seen = Vec::new();
    // The listener has long refused the client when it has answered all of these.
    for _ in 0..500 {
        stream.write_all(&frame(PING, 0, 0, &[0; 8])).unwrap();
        seen.push(read_frame(&mut stream));
        while seen.last() != Some(&(PING, 1, 0)) {
            seen.push(read_frame(&mut stream));
        }
    }
    stream.write_all(&frame(DATA, 1, 1, &[b'x'; 10_000])).unwrap();
    let is_end = |(kind, flags, of): &(u8, u8, u32)| *of == 1 && matches!(*kind, DATA | HEADERS) && flags & 1 != 0;
    while !seen.iter().any(is_end) {
        seen.push(read_frame(&mut stream));
    }
    // A reset would come before the answer to this.
    stream.write_all(&frame(PING, 0, 0, &[1; 8])).unwrap();
    while seen.last() != Some(&(PING, 1, 0)) {
        seen.push(read_frame(&mut stream));
    }
    assert!(!seen.iter().any(|(kind, ..)| *kind == RST_STREAM), "{seen:?}");
    listener.stop(Duration::ZERO);
}
