//! A hub that is played, frame by frame.

use super::super::driver::{Noted, feed};
use super::*;

fn driver(role: Role) -> Http2 {
    let token = Credentials { username: "x".to_owned(), password: "t.o.k".to_owned() };
    let place = TopicTarget { authority: "h:1".to_owned(), path: "", credentials: Some(&token), is_secured: false };
    Http2::new("a b", &place, true, role)
}

fn said(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame(kind, flags, stream, payload, &mut out);
    out
}

/// The frames of an output: kind, flags, stream and payload.
fn frames(mut bytes: &[u8]) -> Vec<(u8, u8, u32, Vec<u8>)> {
    let mut found = Vec::new();
    while let Some((read, len)) = Frame::read(bytes).unwrap() {
        found.push((read.kind, read.flags, read.stream, read.payload.to_vec()));
        bytes = &bytes[len..];
    }
    assert!(bytes.is_empty());
    found
}

fn settings(values: &[(u16, u32)]) -> Vec<u8> {
    let bytes = values.iter().flat_map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat());
    said(SETTINGS, 0, 0, &bytes.collect::<Vec<u8>>())
}

const OK: &[u8] = &[0x88];

#[test]
fn a_subscriber_takes_events_in_any_fragments() {
    for piece in [1, 7, 10_000] {
        let (mut driver, mut noted) = (driver(Role::Subscribe), Noted::default());
        let mut out = Vec::new();
        driver.opened(&mut out);
        let asked = frames(out.strip_prefix(PREFACE).unwrap());
        assert_eq!(asked.iter().map(|frame| frame.0).collect::<Vec<_>>(), [SETTINGS, WINDOW_UPDATE, HEADERS]);
        let (_, flags, stream, head) = &asked[2];
        assert_eq!((*flags, *stream, head[0]), (END_HEADERS | END_STREAM, 1, 0x82), "GET, and all of it");
        for part in ["h:1", "/.well-known/mercure?topic=a%20b", "text/event-stream", "Bearer t.o.k"] {
            assert!(head.windows(part.len()).any(|window| window == part.as_bytes()), "{part}");
        }
        let stream = [settings(&[]), said(PING, 0, 0, b"12345678")].concat();
        let answered = frames(&feed(&mut driver, &stream, piece, &mut noted));
        assert_eq!((answered[0].0, answered[1].3.as_slice()), (SETTINGS, &b"12345678"[..]));
        assert!(!driver.is_ready());
        let stream = [
            said(HEADERS, END_HEADERS, 1, OK),
            said(DATA, 0, 1, b":\nid: 1\ndata: aG"),
            said(DATA, 8, 1, b"\x01k\n\n:\n\nid: 2\r\ndata: eW8\r\n\r\n."),
        ];
        feed(&mut driver, &stream.concat(), piece, &mut noted);
        assert!(driver.is_ready());
        assert_eq!(noted.messages, [b"hi", b"yo"]);
    }
}

#[test]
fn a_publisher_posts_within_the_hub_s_limit_of_streams() {
    let (mut driver, mut noted) = (driver(Role::Publish), Noted::default());
    driver.opened(&mut Vec::new());
    feed(&mut driver, &settings(&[(MAX_CONCURRENT_STREAMS, 2)]), 3, &mut noted);
    assert!(driver.is_ready() && !driver.is_full());
    let mut out = Vec::new();
    driver.publish(b"hi", &mut out);
    driver.publish(b"yo", &mut out);
    assert!(driver.is_full());
    let posts = frames(&out);
    assert_eq!(posts[1], (DATA, END_STREAM, 1, b"topic=a%20b&data=aGk".to_vec()));
    assert_eq!((posts[2].0, posts[2].2, posts[2].3[0]), (HEADERS, 3, 0x83), "POST");
    let answers = [
        said(HEADERS, END_HEADERS, 1, OK),
        said(DATA, END_STREAM, 1, b"urn:uuid:1"),
        said(HEADERS, END_HEADERS | END_STREAM, 3, &[0x8E]),
    ];
    feed(&mut driver, &answers.concat(), 4, &mut noted);
    assert_eq!((noted.acknowledged, noted.refused, driver.is_full()), (1, 1, false));
    driver.publish(b"no", &mut Vec::new());
    feed(&mut driver, &said(RST_STREAM, 0, 5, &[0, 0, 0, 7]), 100, &mut noted);
    assert_eq!(noted.refused, 2);
}

#[test]
fn a_body_waits_for_room_on_its_stream_and_on_the_connection() {
    let (mut driver, mut noted) = (driver(Role::Publish), Noted::default());
    feed(&mut driver, &settings(&[(INITIAL_WINDOW_SIZE, 20_000)]), 100, &mut noted);
    let mut out = Vec::new();
    driver.publish(&vec![0; 75_000], &mut out);
    assert!(driver.is_full(), "pending bytes block other messages");
    let body =
        |bytes: &[u8]| frames(bytes).iter().filter(|read| read.0 == DATA).map(|read| read.3.len()).sum::<usize>();
    let all = "topic=a%20b&data=".len() + 100_000;
    assert_eq!(body(&out), 20_000);
    let more = feed(&mut driver, &said(WINDOW_UPDATE, 0, 1, &100_000_u32.to_be_bytes()), 100, &mut noted);
    assert_eq!(body(&more), 65_535 - 20_000, "the connection has no room");
    let rest = feed(&mut driver, &said(WINDOW_UPDATE, 0, 0, &100_000_u32.to_be_bytes()), 100, &mut noted);
    assert_eq!(body(&rest), all - 65_535);
    assert_eq!(frames(&rest).last().unwrap().1, END_STREAM);
    assert!(!driver.is_full());
}

#[test]
fn window_updates_are_sent_to_the_hub() {
    let (mut driver, mut noted) = (driver(Role::Subscribe), Noted::default());
    let mut out = Vec::new();
    driver.opened(&mut out);
    feed(&mut driver, &said(HEADERS, END_HEADERS, 1, OK), 100, &mut noted);
    let comment = said(DATA, 0, 1, &[b'\n'; FRAME_MAX]);
    let written = frames(&feed(&mut driver, &comment.repeat(WINDOW as usize / FRAME_MAX), 1 << 20, &mut noted));
    for stream in [0, 1] {
        let rooms = written.iter().filter(|read| read.2 == stream).map(|read| read.3.as_slice());
        let room: u32 = rooms.map(|room| u32::from_be_bytes(room.try_into().unwrap())).sum();
        assert_eq!(room, WINDOW);
    }
}

#[test]
fn a_refused_login_is_reported_with_a_remedy() {
    let cases: [(Role, Vec<u8>, &str); 4] = [
        (Role::Publish, said(HEADERS, END_HEADERS, 1, b"\x08\x03401"), "answers 401; check the token"),
        (Role::Subscribe, said(HEADERS, END_HEADERS, 1, &[0x8D]), "answers 404; check the path"),
        (Role::Publish, said(GOAWAY, 0, 0, b"\0\0\0\0\0\0\0\x0Bcalm down"), "calm down; see its log"),
        (Role::Publish, b"HTTP/1.1 400 Bad Request".to_vec(), "the server does not speak HTTP/2; check the port"),
    ];
    for (role, stream, hint) in cases {
        let mut driver = driver(role);
        let Problem(why) = driver.received(&stream, &mut Vec::new(), &mut Noted::default()).unwrap_err();
        assert!(why.contains(hint), "{why}");
    }
}
