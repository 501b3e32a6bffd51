use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};

use hickory_proto::op::{Message, MessageType, OpCode, Query as Question};
use hickory_proto::rr::{Name, RecordType};

use super::*;
use crate::counters::{AnswerKind, DropReason, Event};
use crate::endpoint::{Endpoint, EndpointName};
use crate::settings::ZoneName;

/// Longer than any answer takes; a test that waits for so long has failed.
const PATIENCE: Duration = Duration::from_secs(120);

fn settings() -> Settings {
    Settings { seed: Some(0), ..Settings::new(ZoneName::new("fleet.example").unwrap()) }
}

fn endpoints(number: u8) -> Vec<Endpoint> {
    let named =
        |place| Endpoint::new(EndpointName::new(&format!("o{place}")).unwrap(), vec![[192, 0, 2, place].into()]);
    (1..=number).map(named).collect()
}

fn server_with(settings: &Settings) -> Server {
    let server = Server::start(settings).unwrap();
    server.zone().set_endpoints(endpoints(3)).unwrap();
    server
}

fn question(name: &str, record_type: RecordType) -> Vec<u8> {
    let mut message = Message::new(7, MessageType::Query, OpCode::Query);
    message.add_query(Question::query(Name::from_ascii(name).unwrap(), record_type));
    message.to_vec().unwrap()
}

fn address() -> Vec<u8> {
    question("fleet.example.", RecordType::A)
}

fn text(answer: &[u8]) -> String {
    let answer = Message::from_vec(answer).unwrap();
    let records: Vec<String> = answer.answers.iter().map(|record| record.data.to_string()).collect();
    if records.is_empty() { answer.metadata.response_code.to_string() } else { records.join(" ") }
}

struct Client(UdpSocket);

impl Client {
    fn new(server: &Server) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(server.addresses()[0]).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(socket)
    }

    fn ask(&self, packet: &[u8]) -> Vec<u8> {
        self.0.send(packet).unwrap();
        let mut answer = [0; 4096];
        let length = self.0.recv(&mut answer).unwrap();
        answer[..length].to_vec()
    }
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.addresses()[0]).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn send(stream: &mut TcpStream, packet: &[u8]) {
    let framed = [(packet.len() as u16).to_be_bytes().as_slice(), packet].concat();
    stream.write_all(&framed).unwrap();
}

fn receive(stream: &mut TcpStream) -> Vec<u8> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).unwrap();
    let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut answer).unwrap();
    answer
}

/// Whether the server has closed a connection, without an answer.
fn is_closed(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0; 1]) {
        Ok(number) => number == 0,
        Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn datagrams_are_answered_in_turn_and_a_change_shows_at_once() {
    let server = server_with(&settings());
    let client = Client::new(&server);
    let turns: Vec<String> = (0..4).map(|_| text(&client.ask(&address()))).collect();
    assert_eq!(turns, ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.1"]);
    let mut all = endpoints(3);
    all[1].draining = true;
    server.zone().set_endpoints(all).unwrap();
    let turns: Vec<String> = (0..3).map(|_| text(&client.ask(&address()))).collect();
    assert_eq!(turns, ["192.0.2.3", "192.0.2.1", "192.0.2.3"]);
    server.stop();
}

#[test]
fn a_connection_answers_several_queries_in_order() {
    let server = server_with(&settings());
    let mut stream = connect(&server);
    for _ in 0..3 {
        send(&mut stream, &address());
    }
    send(&mut stream, &question("absent.fleet.example.", RecordType::A));
    let answers: Vec<String> = (0..4).map(|_| text(&receive(&mut stream))).collect();
    assert_eq!(answers[..3], ["192.0.2.1", "192.0.2.2", "192.0.2.3"]);
    assert!(answers[3].contains("Non-Existent"), "{answers:?}");
    assert_eq!(server.counters().events(Event::TcpAccepted), 1);
}

#[test]
fn a_query_in_pieces_is_put_together() {
    let server = server_with(&settings());
    let mut stream = connect(&server);
    stream.set_nodelay(true).unwrap();
    let packet = address();
    let framed = [(packet.len() as u16).to_be_bytes().as_slice(), &packet].concat();
    for byte in framed {
        stream.write_all(&[byte]).unwrap();
    }
    assert_eq!(text(&receive(&mut stream)), "192.0.2.1");
}

#[test]
fn a_malformed_query_is_dropped_and_the_next_one_answered() {
    let server = server_with(&settings());
    let client = Client::new(&server);
    let answer = client.ask(&address());
    for packet in [b"".as_slice(), b"x", &answer, &[0; 8000]] {
        client.0.send(packet).unwrap();
    }
    // Datagrams are worked off in order: when this one is answered, those before have been dropped.
    assert_eq!(text(&client.ask(&address())), "192.0.2.2");
    let counters = server.counters();
    assert_eq!(counters.dropped(DropReason::Malformed), 2);
    assert_eq!(counters.dropped(DropReason::Response), 1);
    assert_eq!(counters.dropped(DropReason::Oversize), 1);
    assert_eq!(counters.answers(AnswerKind::Records), 2);
}

#[test]
fn a_connection_that_says_nothing_useful_is_closed() {
    let mut short = settings();
    short.limits.tcp_idle = Duration::from_millis(50);
    let server = server_with(&short);
    // It sends no byte, or half a query.
    let mut idle = connect(&server);
    assert!(is_closed(&mut idle));
    let mut half = connect(&server);
    half.write_all(&[0, 30, 1, 2, 3]).unwrap();
    assert!(is_closed(&mut half));
    assert_eq!(server.counters().events(Event::TcpTimedOut), 2);
    // Or a query that is too long, with more time than a busy machine takes to read it.
    let server = server_with(&settings());
    let mut long = connect(&server);
    long.write_all(&[0xff, 0xff, 0]).unwrap();
    assert!(is_closed(&mut long));
    assert_eq!(server.counters().dropped(DropReason::Oversize), 1);
    let mut empty = connect(&server);
    empty.write_all(&[0, 0]).unwrap();
    assert!(is_closed(&mut empty));
}

#[test]
fn a_connection_lives_for_a_bounded_time_however_busy_it_is() {
    let mut short = settings();
    short.limits.tcp_life = Duration::from_millis(200);
    short.limits.queries_per_second = 0;
    let server = server_with(&short);
    let mut stream = connect(&server);
    let packet = address();
    let framed = [(packet.len() as u16).to_be_bytes().as_slice(), &packet].concat();
    let mut answer = [0; 512];
    // It asks on until it is cut off.
    while stream.write_all(&framed).is_ok() && stream.read(&mut answer).is_ok_and(|number| number > 0) {}
    assert_eq!(server.counters().events(Event::TcpTimedOut), 1);
}

#[test]
fn connections_above_the_limit_are_closed_until_one_ends() {
    let mut few = settings();
    few.limits.tcp_connections_per_network = 2;
    let server = server_with(&few);
    let mut first = connect(&server);
    let mut second = connect(&server);
    for stream in [&mut first, &mut second] {
        send(stream, &address());
        receive(stream);
    }
    assert!(is_closed(&mut connect(&server)));
    assert_eq!(server.counters().events(Event::TcpRefused), 1);
    drop(first);
    // The server notices in its own time; until then it refuses.
    loop {
        let mut next = connect(&server);
        if next.write_all(&[&[0, 31], address().as_slice()].concat()).is_ok() && !is_closed(&mut next) {
            break;
        }
    }
    send(&mut second, &address());
    assert!(!receive(&mut second).is_empty());
}

#[test]
fn places_are_counted_for_each_network_and_in_all() {
    let limits = Limits { tcp_connections: 3, tcp_connections_per_network: 2, ..Limits::default() };
    let places = tcp::ConnectionLimit::new(&limits);
    let network = |last: u8| crate::flood::Network::of([10, 0, last, 1].into());
    let first = places.take(network(1));
    let second = places.take(network(1));
    assert!(first.is_some() && second.is_some() && places.take(network(1)).is_none());
    let third = places.take(network(2));
    assert!(third.is_some() && places.take(network(3)).is_none());
    drop(first);
    assert!(places.take(network(3)).is_some());
}

#[test]
fn a_flood_over_a_connection_closes_it() {
    let mut few = settings();
    few.limits.queries_per_second = 1;
    few.limits.burst = 2;
    let server = server_with(&few);
    let mut stream = connect(&server);
    for _ in 0..2 {
        send(&mut stream, &address());
        receive(&mut stream);
    }
    // A second may have passed on a slow machine, so that a few more are answered.
    while stream.write_all(&[&[0, 31], address().as_slice()].concat()).is_ok() {
        let mut length = [0; 2];
        if stream.read_exact(&mut length).is_err() {
            break;
        }
        let mut rest = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut rest).unwrap();
    }
    assert_eq!(server.counters().dropped(DropReason::RateLimited), 1);
}

#[test]
fn an_address_that_is_taken_is_an_error_that_names_it() {
    let server = server_with(&settings());
    let taken = server.addresses()[0];
    let error = Server::start(&Settings { listen: vec![taken], ..settings() }).unwrap_err();
    assert!(error.to_string().contains(&taken.to_string()), "{error}");
    server.stop();
    // Once stopped, it is free.
    server_with(&Settings { listen: vec![taken], ..settings() });
}

#[test]
fn several_addresses_are_one_zone() {
    let listen = vec!["127.0.0.1:0".parse().unwrap(), "127.0.0.2:0".parse().unwrap()];
    let server = server_with(&Settings { listen, ..settings() });
    let answers: Vec<String> = server
        .addresses()
        .iter()
        .map(|address| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.connect(address).unwrap();
            text(&Client(socket).ask(&self::address()))
        })
        .collect();
    assert_eq!(answers, ["192.0.2.1", "192.0.2.2"]);
    let servers = Client::new(&server).ask(&question("ns.fleet.example.", RecordType::A));
    assert_eq!(text(&servers), "127.0.0.1 127.0.0.2");
}

#[test]
fn bounds_of_nothing_are_refused() {
    let mut none = settings();
    none.limits.tcp_connections = 0;
    assert!(matches!(Server::start(&none), Err(StartError::Limit("tcp_connections"))));
    assert!(matches!(Server::start(&Settings { listen: Vec::new(), ..settings() }), Err(StartError::Listeners(0))));
}

#[test]
fn a_panic_does_not_end_the_answers() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let answers = runtime.block_on(async {
        let none: Option<u8> = answered(|| panic!("a decoder that panics, as this test wants it")).await;
        [none, answered(|| Some(7)).await]
    });
    assert_eq!(answers, [None, Some(7)]);
}
