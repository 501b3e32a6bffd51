//! Clients over HTTP whose homes move.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use super::{A, B, Cluster};
use crate::broker::{Broker, Folder, PATIENCE, run};
use crate::nats::Nats;

/// Streams, so that about half of them move.
const STREAMS: usize = 32;
/// The credentials `ann:pw` in base64.
const ANN: &str = "Authorization: Basic YW5uOnB3\r\n";

/// A stream of events of `t/#`.
fn events(broker: &Broker) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(broker.address("http://")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = "GET /topics/t/%23 HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n";
    write!(stream, "{head}{ANN}\r\n").unwrap();
    let mut stream = BufReader::new(stream);
    read_to(&mut stream, "200 OK");
    stream
}

/// Reads up to a line with this text.
fn read_to(stream: &mut BufReader<TcpStream>, text: &str) {
    let mut line = String::new();
    while !line.contains(text) {
        line.clear();
        assert!(stream.read_line(&mut line).unwrap() > 0, "the stream ended before {text}");
    }
}

fn continued(broker: &Broker) -> u64 {
    let (_, metrics) = broker.get("/metrics");
    let line = metrics.lines().find_map(|line| line.strip_prefix("tidegate_connections_continued_total "));
    line.unwrap().parse().unwrap()
}

#[test]
fn events_over_http_go_on_when_the_home_of_a_user_moves() {
    let folder = Folder::new();
    let users = folder.file("users");
    let made = run(&["passwd", "-b", "-c", "-H", "sha512-pbkdf2", "-I", "100", &users, "ann", "pw"]);
    assert_eq!(made.code, Some(0), "{}", made.err);
    let auth = format!("[[auth]]\nkind = 'password-file'\nfile = {users:?}\n[access]\ndefault = 'allow'\n");
    let config = format!("--config={}", folder.write("t.toml", &auth));
    let settings = [config.as_str(), "--listen=http://127.0.0.1:0"];
    let mut cluster = Cluster::of(1, "10s", None, Box::new(Nats::start()), &settings);
    let mut streams: Vec<_> = (0..STREAMS).map(|_| events(cluster.node(A))).collect();
    cluster.add();
    cluster.wait_even();
    let port = cluster.port(B).to_string();
    let publish =
        ["pub", "-h", "127.0.0.1", "-p", &port, "-u", "ann", "-P", "pw", "-q", "1", "-t", "t/1", "-m", "moved"];
    let published = run(&publish);
    assert_eq!(published.code, Some(0), "{}", published.err);
    for stream in &mut streams {
        read_to(stream, "moved");
    }
    assert!(continued(cluster.node(B)) > 0, "no client has moved");
}
