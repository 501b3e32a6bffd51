//! A router that is played, byte for byte.

use super::super::driver::{Noted, feed};
use super::*;

const GREETING: &[u8] = &[MAGIC, 0xF2, 0, 0];

fn said(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    message(value, &mut out);
    out
}

fn driver(acknowledged: bool, role: Role) -> Wamp {
    let mut driver = Wamp::new("lab", "", None, acknowledged, role);
    let mut out = Vec::new();
    driver.opened(&mut out);
    assert_eq!(out, GREETING);
    driver
}

fn welcome() -> Vec<u8> {
    said(&json!([WELCOME, 7, { "roles": { "broker": { "features": {} } }, "agent": "router-1" }]))
}

#[test]
fn a_subscriber_is_ready_when_it_is_subscribed_and_takes_events() {
    for piece in [1, 3, 1000] {
        let (mut driver, mut noted) = (driver(false, Role::Subscribe), Noted::default());
        let hello = feed(&mut driver, GREETING, piece, &mut noted);
        assert_eq!(hello, said(&json!([1, "realm1", { "roles": { "publisher": {}, "subscriber": {} } }])));
        assert_eq!(feed(&mut driver, &welcome(), piece, &mut noted), said(&json!([32, 1, {}, "lab"])));
        assert!(!driver.is_ready());
        assert_eq!(driver.product().as_deref(), Some("router-1"));
        let mut ping = Vec::new();
        frame(PING, &[b"hm"], &mut ping);
        // As bytes and as text; the fields after the payload are not used.
        let mut event = Vec::new();
        frame(REGULAR, &[b"\x95\x24\x01\xCD\x01\x00\x80\x91\xC4\x02hi"], &mut event);
        let as_text = said(&json!([EVENT, 1, 2, { "topic": "x" }, ["yo", 5], {}]));
        let stream = [said(&json!([SUBSCRIBED, 1, 99])), event, ping, as_text].concat();
        assert_eq!(feed(&mut driver, &stream, piece, &mut noted), [2, 0, 0, 2, b'h', b'm']);
        assert!(driver.is_ready());
        assert_eq!(noted.messages, [b"hi", b"yo"]);
    }
}

#[test]
fn a_publisher_gets_acknowledgements_on_request() {
    for (acknowledged, option) in [(true, b"\x81\xABacknowledge\xC3".to_vec()), (false, b"\x80".to_vec())] {
        let (mut driver, mut noted) = (driver(acknowledged, Role::Publish), Noted::default());
        feed(&mut driver, &[GREETING, &welcome()[..]].concat(), 5, &mut noted);
        assert!(driver.is_ready());
        let mut out = Vec::new();
        driver.publish(b"xyz", &mut out);
        let body = [&b"\x95\x10\x01"[..], &option, b"\xA3lab\x91\xC6\0\0\0\x03xyz"].concat();
        assert_eq!(out, [&[0, 0, 0, body.len() as u8][..], &body].concat());
        let refused = json!([ERROR, PUBLISH, 2, {}, "wamp.error.not_authorized"]);
        feed(&mut driver, &[said(&json!([PUBLISHED, 1, 5])), said(&refused)].concat(), 4, &mut noted);
        assert_eq!((noted.acknowledged, noted.refused), (u64::from(acknowledged), 1));
    }
}

#[test]
fn a_login_is_by_ticket() {
    let known = Credentials { username: "me".to_owned(), password: "secret".to_owned() };
    let mut driver = Wamp::new("lab", "mine", Some(&known), false, Role::Publish);
    let mut noted = Noted::default();
    let hello = feed(&mut driver, GREETING, 9, &mut noted);
    let roles = json!({ "publisher": {}, "subscriber": {} });
    assert_eq!(hello, said(&json!([1, "mine", { "roles": roles, "authmethods": ["ticket"], "authid": "me" }])));
    let answer = feed(&mut driver, &said(&json!([CHALLENGE, "ticket", {}])), 9, &mut noted);
    assert_eq!(answer, said(&json!([AUTHENTICATE, "secret", {}])));
}

#[test]
fn a_refused_login_is_reported_with_a_remedy() {
    let abort = said(&json!([ABORT, { "message": "no" }, "wamp.error.no_such_realm"]));
    let cases: [(Vec<u8>, &str); 4] = [
        ([GREETING, &abort].concat(), "name one that it has: wamp://HOST/REALM"),
        (vec![MAGIC, 0x10, 0, 0], "it does not speak MessagePack"),
        (b"HTTP/1.1 400".to_vec(), "not that of WebSocket"),
        ([GREETING, &said(&json!([ERROR, SUBSCRIBE, 1, {}, "wamp.error.not_authorized"]))].concat(), "see its rights"),
    ];
    for (stream, hint) in cases {
        let Problem(why) =
            driver(false, Role::Subscribe).received(&stream, &mut Vec::new(), &mut Noted::default()).unwrap_err();
        assert!(why.contains(hint), "{why}");
    }
}
