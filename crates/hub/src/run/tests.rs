//! Pipelines at a broker with scripted answers.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};

use tidegate_client::net::{Address, SocketOptions};

use super::*;
use crate::sinks::{FileSettings, SinkKind};
use crate::sources::TopicsSettings;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(30);

const SUBSCRIBE: u8 = 8;
const DISCONNECT: u8 = 14;

/// The type of the next packet, and its bytes behind the head.
fn packet(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let mut head = [0; 2];
    stream.read_exact(&mut head).unwrap();
    assert!(head[1] < 128, "a short packet");
    let mut body = vec![0; usize::from(head[1])];
    stream.read_exact(&mut body).unwrap();
    (head[0] >> 4, body)
}

/// Takes a connection, and answers its subscription with a code for each filter.
fn accept_with(listener: &TcpListener, codes: &[u8]) -> TcpStream {
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    packet(&mut stream);
    stream.write_all(&[0x20, 3, 0, 0, 0]).unwrap();
    grant(&mut stream, codes);
    stream
}

/// Answers a subscription, and returns its packet.
fn grant(stream: &mut TcpStream, codes: &[u8]) -> Vec<u8> {
    let (kind, body) = packet(stream);
    assert_eq!(kind, SUBSCRIBE);
    let head = [0x90, 3 + u8::try_from(codes.len()).unwrap(), body[0], body[1], 0];
    stream.write_all(&[&head, codes].concat()).unwrap();
    body
}

fn accept(listener: &TcpListener, code: u8) -> TcpStream {
    accept_with(listener, &[code])
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("tidegate-hub-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn pipeline(listener: &TcpListener, origins: bool, file: &Path) -> PipelineSettings {
    let kind = SinkKind::File(FileSettings { path: file.to_owned(), ..FileSettings::default() });
    PipelineSettings {
        name: "hot".into(),
        from: vec![TopicFilterBuf::new("t").unwrap()],
        source: SourceSettings::Topics(TopicsSettings {
            own_publishers: Vec::new(),
            address: Address::Tcp { host: "127.0.0.1".into(), port: listener.local_addr().unwrap().port() },
            socket: SocketOptions::default(),
            client_id: "c".into(),
            user_name: None,
            password: None,
            share: None,
            retained: false,
            origins,
            window: 10,
            session_expiry: 60,
            kept_filters: None,
        }),
        steps: StepSettings::default(),
        to: vec![SinkSettings { name: "lines".into(), kind, batching: crate::Batching::default(), parallel: 1 }],
        archive: None,
        dead_letter: None,
        max_age: Duration::ZERO,
    }
}

/// The line that a pipeline makes of a message whose publisher says where it comes from.
fn line_of_a_stated_origin(origins: bool) -> serde_json::Value {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = folder(if origins { "told" } else { "forged" });
    let file = folder.join("lines");
    let hub = Hub::start(vec![pipeline(&listener, origins, &file)]).unwrap();
    let mut stream = accept(&listener, 1);
    let property = b"\x26\x00\x0ctidegate-hub\x00\x0aid 42 boss";
    let head = [0x32, 6 + u8::try_from(property.len()).unwrap() + 1, 0, 1, b't', 0, 7];
    let publish = [&head[..], &[u8::try_from(property.len()).unwrap()], property, b"x"].concat();
    stream.write_all(&publish).unwrap();
    assert_eq!(packet(&mut stream).0, 4, "it is acknowledged, and so it is in the file");
    drop((stream, listener));
    hub.stop(PATIENCE);
    let line = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    line
}

#[test]
fn an_origin_is_believed_only_at_the_door_of_the_broker() {
    let told = line_of_a_stated_origin(true);
    assert_eq!((&told["id"], &told["clientid"]), (&"id".into(), &"boss".into()));
    let forged = line_of_a_stated_origin(false);
    assert!(forged["clientid"].is_null() && forged["id"] != "id", "{forged}");
    assert_eq!(forged.get("user_properties"), None, "{forged}");
}

#[test]
fn a_subscription_that_is_refused_is_asked_for_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = folder("refused");
    let hub = Hub::start(vec![pipeline(&listener, true, &folder.join("lines"))]).unwrap();
    for _ in 0..2 {
        let mut stream = accept(&listener, 0x87);
        assert_eq!(packet(&mut stream).0, DISCONNECT);
    }
    let refused = Instant::now();
    let error = hub.status()[0].error.clone().unwrap_or_default();
    assert!(error.contains("refuses a subscription: t: "), "{error}");
    let stream = accept(&listener, 1);
    assert!(refused.elapsed() > Duration::from_millis(300), "each pause is longer");
    assert!(hub.wait_until_subscribed(Instant::now() + PATIENCE));
    while hub.status()[0].error.is_some() {
        std::thread::yield_now();
    }
    drop((stream, listener));
    hub.stop(PATIENCE);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_refused_filter_does_not_stop_the_granted_ones() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = folder("partly");
    let mut settings = pipeline(&listener, true, &folder.join("lines"));
    settings.from.push(TopicFilterBuf::new("secret").unwrap());
    let hub = Hub::start(vec![settings]).unwrap();
    let mut stream = accept_with(&listener, &[1, 0x87]);
    let again = grant(&mut stream, &[0x87]);
    assert!(again.ends_with(b"secret\x29"), "only the refused filter, on the same connection: {again:?}");
    stream.write_all(&[0x32, 6 + 1, 0, 1, b't', 0, 7, 0, b'x']).unwrap();
    let mut acknowledged = packet(&mut stream);
    while acknowledged.0 == SUBSCRIBE {
        let body = &acknowledged.1;
        stream.write_all(&[0x90, 4, body[0], body[1], 0, 0x87]).unwrap();
        acknowledged = packet(&mut stream);
    }
    assert_eq!(acknowledged.0, 4, "the messages of the granted filter are taken");
    let status = &hub.status()[0];
    assert_eq!(status.state, PipelineState::Retrying);
    assert!(status.error.as_ref().is_some_and(|error| error.contains("secret: ")), "{status:?}");
    grant(&mut stream, &[1]);
    assert!(hub.wait_until_subscribed(Instant::now() + PATIENCE));
    drop((stream, listener));
    hub.stop(PATIENCE);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_dropped_hub_ends_its_pipelines() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = folder("dropped");
    let hub = Hub::start(vec![pipeline(&listener, true, &folder.join("lines"))]).unwrap();
    let mut stream = accept(&listener, 1);
    drop(hub);
    assert_eq!(packet(&mut stream).0, DISCONNECT);
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_sink_that_cannot_be_used_is_found_before_any_start() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (right, mut wrong) = (pipeline(&listener, true, Path::new("x")), pipeline(&listener, true, Path::new("x")));
    wrong.to[0].kind = SinkKind::Redis(crate::sinks::RedisSettings { url: "h:1".into(), ..Default::default() });
    let error = Hub::new(vec![right, wrong]).unwrap_err();
    assert!(matches!(error, HubError::Sink { .. }), "{error}");
}

#[test]
fn a_pipeline_starts_and_ends_without_the_others() {
    let (first, second) = (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let folder = folder("single");
    let named = |name: &str, listener| {
        let settings = pipeline(listener, true, &folder.join("lines"));
        PipelineSettings { name: name.to_owned(), ..settings }
    };
    let hub = Hub::new(vec![named("a", &first), named("b", &second)]).unwrap();
    // Neither waits for its connection, which is accepted below.
    assert!(hub.begin("a").unwrap() && hub.begin("b").unwrap() && !hub.begin("c").unwrap());
    let (mut a, mut b) = (accept(&first, 1), accept(&second, 1));
    assert!(hub.pause("a", true) && !hub.pause("c", true));
    hub.end("a");
    assert!(!hub.runs("a") && hub.runs("b"));
    assert_eq!(packet(&mut a).0, DISCONNECT);
    b.write_all(&[0x32, 6 + 1, 0, 1, b't', 0, 7, 0, b'x']).unwrap();
    assert_eq!(packet(&mut b).0, 4, "the other pipeline keeps its connection");
    while !hub.begin("a").unwrap() {
        std::thread::yield_now();
    }
    let a = accept(&first, 1);
    let states: Vec<_> = hub.status().into_iter().map(|one| (one.name, one.state)).collect();
    assert_eq!(states[1], ("a".to_owned(), PipelineState::Paused), "a pause outlasts a move");
    drop((a, b, first, second));
    hub.stop(PATIENCE);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_pipeline_is_running_only_with_its_subscriptions() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = folder("granted");
    let hub = Hub::start(vec![pipeline(&listener, true, &folder.join("lines"))]).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    packet(&mut stream);
    stream.write_all(&[0x20, 3, 0, 0, 0]).unwrap();
    let (_, body) = packet(&mut stream);
    assert_eq!(hub.status()[0].state, PipelineState::Connecting);
    stream.write_all(&[0x90, 4, body[0], body[1], 0, 1]).unwrap();
    while hub.status()[0].state != PipelineState::Running {
        std::thread::yield_now();
    }
    drop((stream, listener));
    hub.stop(PATIENCE);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn an_ending_pipeline_does_not_connect_again() {
    let (listener, server) = (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let mut settings = pipeline(&listener, true, Path::new("x"));
    settings.to[0].kind = SinkKind::Redis(crate::sinks::RedisSettings {
        url: format!("redis://{}", server.local_addr().unwrap()),
        stream: "s".into(),
        timeout: Duration::from_secs(1),
        ..Default::default()
    });
    let hub = Hub::start(vec![settings]).unwrap();
    let mut stream = accept(&listener, 1);
    stream.write_all(&[0x32, 6 + 1, 0, 1, b't', 0, 7, 0, b'x']).unwrap();
    let batch_under_way = server.accept().unwrap();
    hub.end("hot");
    // Another member takes the session over, while the sink lets its timeout pass.
    drop(stream);
    hub.stop(PATIENCE);
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err());
    drop(batch_under_way);
}

/// Waits until a pipeline has delivered this number of messages.
fn wait_for_delivered(hub: &Hub, count: u64) {
    let deadline = Instant::now() + PATIENCE;
    while hub.status()[0].numbers.delivered < count {
        assert!(Instant::now() < deadline, "{:?}", hub.status());
        thread::park_timeout(Duration::from_millis(1));
    }
}

#[test]
fn a_replay_without_a_bus_reads_the_archive() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = folder("replay");
    let file = folder.join("lines");
    let archive =
        ArchiveSettings { folder: folder.join("kept"), max_bytes: 1 << 20, max_age: Duration::from_secs(3600) };
    let settings = |filter: &str| PipelineSettings {
        steps: StepSettings { format: crate::Format::Raw, filter: Some(filter.into()), ..StepSettings::default() },
        archive: Some(archive.clone()),
        ..pipeline(&listener, false, &file)
    };
    let payloads = || {
        let text = std::fs::read_to_string(&file).unwrap();
        let line = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["payload"].clone();
        text.lines().map(line).collect::<Vec<_>>()
    };
    let hub = Hub::start(vec![settings("payload != 'n'")]).unwrap();
    let mut stream = accept(&listener, 1);
    for (id, payload) in [(7, b'y'), (8, b'n')] {
        stream.write_all(&[0x32, 7, 0, 1, b't', 0, id, 0, payload]).unwrap();
        assert_eq!(packet(&mut stream).0, 4, "it is acknowledged, and so it is in the archive");
    }
    assert!(matches!(hub.replay("hot", u64::MAX), Err(ReplayError::Future)), "it would replace an earlier one");
    assert!(matches!(hub.replay("hot", 0), Ok(true)));
    wait_for_delivered(&hub, 2);
    assert_eq!(payloads(), ["y", "y"]);
    drop(stream);
    hub.stop(PATIENCE);
    // The archive has messages that the steps have left out, for steps that are better.
    let hub = Hub::start(vec![settings("payload == 'n'")]).unwrap();
    let stream = accept(&listener, 1);
    assert!(matches!(hub.replay("hot", 0), Ok(true)));
    wait_for_delivered(&hub, 1);
    assert_eq!(payloads(), ["y", "y", "n"]);
    drop((stream, listener));
    hub.stop(PATIENCE);
    std::fs::remove_dir_all(folder).unwrap();
}
