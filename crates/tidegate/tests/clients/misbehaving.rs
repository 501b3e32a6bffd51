//! Servers that refuse, vanish or break the protocol.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;

use crate::target::Target;
use crate::tool::run;

/// A server that talks to one connection after the other.
fn serve(session: impl FnOnce(TcpListener) + Send + 'static) -> (Vec<String>, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let flags = ["-h", "127.0.0.1", "-p", &port].map(str::to_owned).to_vec();
    (flags, std::thread::spawn(move || session(listener)))
}

fn run_against(flags: Vec<String>, arguments: &[&str]) -> crate::tool::Ended {
    run(&Target::reached_by(flags), arguments)
}

/// Reads one packet, and returns its type.
fn packet(stream: &mut TcpStream) -> u8 {
    let mut header = [0; 2];
    stream.read_exact(&mut header).unwrap();
    let mut body = vec![0; usize::from(header[1])];
    stream.read_exact(&mut body).unwrap();
    header[0] >> 4
}

/// Accepts a connection and answers its CONNECT.
fn accept(listener: &TcpListener, connack: &[u8]) -> TcpStream {
    let mut stream = listener.accept().unwrap().0;
    assert_eq!(packet(&mut stream), 1);
    stream.write_all(connack).unwrap();
    stream
}

#[test]
fn refusals_are_exit_codes() {
    let cases: [(&[u8], &[&str], i32, &str); 3] = [
        (&[0x20, 2, 0, 5], &["-V", "311"], 5, "not authorized (return code 5)"),
        (&[0x20, 2, 0, 4], &["-V", "31"], 4, "bad user name or password (return code 4)"),
        (&[0x20, 9, 0, 0x8a, 6, 0x1f, 0, 3, b'n', b'o', b'!'], &["-V", "5"], 138, "banned: no!"),
    ];
    for (connack, version, code, text) in cases {
        let (flags, server) = serve(move |listener| drop(accept(&listener, connack)));
        let ended = run_against(flags, &[&["pub", "-t", "a", "-m", "x"], version].concat());
        assert_eq!(ended.code, Some(code));
        let error = format!("error: the server refused the connection: {text}\nhint: ");
        assert!(ended.err.starts_with(&error), "{}", ended.err);
        server.join().unwrap();
    }
}

#[test]
fn a_lost_connection_is_made_again() {
    let (flags, server) = serve(|listener| {
        let mut first = accept(&listener, &[0x20, 2, 0, 0]);
        assert_eq!(packet(&mut first), 8);
        first.write_all(&[0x90, 3, 0, 1, 0]).unwrap();
        drop(first);
        let mut second = accept(&listener, &[0x20, 2, 0, 0]);
        assert_eq!(packet(&mut second), 8);
        second.write_all(b"\x90\x03\0\x02\0\x30\x08\0\x01tagain").unwrap();
        assert_eq!(packet(&mut second), 14);
    });
    let ended = run_against(flags, &["sub", "-t", "t", "-C", "1"]);
    assert!(ended.err.starts_with("warning: the connection was lost: "), "{}", ended.err);
    server.join().unwrap();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
}

#[test]
fn a_message_is_published_again_on_the_next_connection() {
    let (flags, server) = serve(|listener| {
        let mut first = accept(&listener, &[0x20, 2, 0, 0]);
        assert_eq!(packet(&mut first), 3);
        drop(first);
        let mut second = accept(&listener, &[0x20, 2, 0, 0]);
        assert_eq!(packet(&mut second), 3);
        second.write_all(&[0x40, 2, 0, 2]).unwrap();
        assert_eq!(packet(&mut second), 14);
    });
    let ended = run_against(flags, &["pub", "-t", "t", "-m", "x", "-q", "1"]);
    server.join().unwrap();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
}

#[test]
fn at_qos_2_a_message_of_unknown_fate_is_not_published_twice() {
    let (flags, server) = serve(|listener| {
        let mut first = accept(&listener, &[0x20, 2, 0, 0]);
        assert_eq!(packet(&mut first), 3);
        drop(first);
        let mut second = accept(&listener, &[0x20, 2, 0, 0]);
        assert_eq!(packet(&mut second), 14);
    });
    let ended = run_against(flags, &["pub", "-t", "t", "-m", "x", "-q", "2"]);
    server.join().unwrap();
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.contains("whether the message arrived is unknown"), "{}", ended.err);
}

#[test]
fn refused_messages_and_subscriptions_are_exit_codes() {
    let (flags, server) = serve(|listener| {
        let mut stream = accept(&listener, &[0x20, 3, 0, 0, 0]);
        assert_eq!(packet(&mut stream), 3);
        stream.write_all(&[0x40, 3, 0, 1, 0x87]).unwrap();
        assert_eq!(packet(&mut stream), 14);
    });
    let ended = run_against(flags, &["pub", "-t", "t", "-m", "x", "-q", "1", "-V", "5"]);
    assert_eq!(
        (ended.code, ended.err.as_str()),
        (Some(135), "error: the server refused the message: not authorized\n")
    );
    server.join().unwrap();
    let (flags, server) = serve(|listener| {
        let mut stream = accept(&listener, &[0x20, 2, 0, 0]);
        assert_eq!(packet(&mut stream), 8);
        stream.write_all(&[0x90, 3, 0, 1, 0x80]).unwrap();
        assert_eq!(packet(&mut stream), 14);
    });
    let ended = run_against(flags, &["sub", "-t", "t"]);
    assert_eq!(ended.code, Some(128), "{}", ended.err);
    assert!(ended.err.contains("failure (return code 0x80") && ended.err.contains("hint: "), "{}", ended.err);
    server.join().unwrap();
}

#[test]
fn a_session_taken_over_is_not_taken_back() {
    let (flags, server) = serve(|listener| {
        let mut stream = accept(&listener, &[0x20, 3, 0, 0, 0]);
        assert_eq!(packet(&mut stream), 8);
        stream.write_all(&[0x90, 4, 0, 1, 0, 0, 0xe0, 1, 0x8e]).unwrap();
    });
    let ended = run_against(flags, &["sub", "-t", "t", "-V", "5"]);
    assert_eq!(
        (ended.code, ended.err.as_str()),
        (Some(142), "error: the server closed the connection: session taken over\n")
    );
    server.join().unwrap();
}

#[test]
fn nonsense_is_an_error() {
    let (flags, server) = serve(|listener| {
        let mut stream = accept(&listener, &[0x20, 2, 0, 0]);
        assert_eq!(packet(&mut stream), 8);
        stream.write_all(b"\x0fHTTP").unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let ended = run_against(flags, &["sub", "-t", "t"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.starts_with("error: the connection was lost: the fixed header"), "{}", ended.err);
    server.join().unwrap();
}

#[test]
fn a_port_that_speaks_tls_is_named_with_the_flags_for_it() {
    // The alert with which a TLS server answers bytes that are no handshake.
    let (flags, server) = serve(|listener| drop(accept(&listener, &[0x15, 3, 3, 0, 2, 2, 0x32])));
    let ended = run_against(flags, &["pub", "-t", "t", "-m", "x"]);
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.err.starts_with("error: the server speaks TLS on this port, not MQTT\nhint: add --cafile"),
        "{}",
        ended.err
    );
    server.join().unwrap();
}
