//! A file that Mosquitto 2.0.11 has written, one as 1.6 writes them, and damaged ones.

use proptest::prelude::*;
use tidegate_engine::{Millis, Now};
use tidegate_mosquitto_db::{Client, Database, DatabaseError, Retained, Subscription, entries, read};
use tidegate_mqtt::QoS;

const FILE: &[u8] = include_bytes!("files/mosquitto-2.0.11.db");

fn subscription(client_id: &str, filter: &str, qos: QoS) -> Subscription {
    let (client_id, filter) = (client_id.to_owned(), filter.to_owned());
    Subscription { client_id, filter, qos, identifier: 0, no_local: false, retain_as_published: false }
}

#[test]
fn a_file_of_mosquitto_2_is_read() {
    let expected = Database {
        clients: vec![
            Client { id: "keeper".to_owned(), username: String::new(), expiry_interval: 3600, expires_at: 0x6b07_ab84 },
            Client { id: "old".to_owned(), username: "ann".to_owned(), expiry_interval: u32::MAX, expires_at: 0 },
        ],
        subscriptions: vec![
            subscription("keeper", "a/#", QoS::ExactlyOnce),
            subscription("old", "plant/+", QoS::AtLeastOnce),
        ],
        retained: vec![Retained {
            topic: "a/1".to_owned(),
            qos: QoS::AtLeastOnce,
            payload: b"kept".to_vec(),
            properties: b"\x26\x00\x01k\x00\x01v".to_vec(),
            expires_at: 0x6b07_9fcd,
        }],
        queued: 2,
    };
    assert_eq!(read(FILE), Ok(expected));
}

#[test]
fn a_session_of_mosquitto_1_6_has_no_user_name() {
    let mut file = b"\x00\xb5\x00mosquitto db\0\0\0\0\0\0\0\x05".to_vec();
    file.extend(b"\0\0\0\x06\0\0\0\x13\0\0\0\0\0\0\0\0\0\0\0\x3c\0\0\0\x03ann");
    let client = Client { id: "ann".to_owned(), username: String::new(), expiry_interval: 60, expires_at: 0 };
    assert_eq!(read(&file).map(|database| database.clients), Ok(vec![client]));
}

#[test]
fn other_files_and_versions_are_refused() {
    assert_eq!(read(b"listener 1883\nallow_anonymous true\n"), Err(DatabaseError::NoDatabase));
    let mut old = FILE.to_vec();
    old[22] = 4;
    assert_eq!(read(&old), Err(DatabaseError::Version(4)));
}

#[test]
fn a_file_that_is_cut_off_within_a_record_is_refused() {
    let mut ends = vec![23];
    let mut at = 23;
    while at < FILE.len() {
        at += 8 + u32::from_be_bytes(FILE[at + 4..at + 8].try_into().unwrap()) as usize;
        ends.push(at);
    }
    for length in 0..FILE.len() {
        assert_eq!(read(&FILE[..length]).is_ok(), ends.contains(&length), "{length} bytes");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(changes in prop::collection::vec((0..FILE.len(), any::<u8>()), 0..20)) {
        let mut file = FILE.to_vec();
        for (at, byte) in changes {
            file[at] = byte;
        }
        let _ = read(&file);
    }
}

/// The time of the file.
fn now() -> Now {
    Now { monotonic: Millis(0), unix: 0x6b07_9fcd * 1000 - 600_000 }
}

#[test]
fn a_store_holds_the_sessions_and_retained_messages_of_a_file() {
    let made = entries(&read(FILE).unwrap(), now());
    assert_eq!((made.sessions, made.subscriptions, made.retained), (2, 2, 1));
    assert_eq!(made.left_out, ["2 messages that wait for clients: let the clients fetch them from Mosquitto first"]);
    let texts: Vec<String> =
        made.entries.iter().filter_map(|(key, value)| tidegate_engine::describe(key, value)).collect();
    let has = |part: &str| assert!(texts.iter().any(|text| text.contains(part)), "{part}: {texts:#?}");
    has("session 64 of \"keeper\" (tenant 0, user -, expiry 3599 s, away)");
    has("of \"old\" (tenant 0, user -, expiry 4294967295 s, away)");
    has("subscribed to \"a/#\" at QoS 2");
    has("subscribed to \"plant/+\" at QoS 1");
    has("retained \"a/1\" (tenant 0): 4 bytes");
}

#[test]
fn what_has_expired_is_not_imported() {
    let mut database = read(FILE).unwrap();
    let later = Now { unix: 0x6b07_ab85 * 1000, ..now() };
    let made = entries(&database, later);
    assert_eq!((made.sessions, made.retained), (1, 0));
    database.clients[1].expiry_interval = 0;
    assert_eq!(entries(&database, later).sessions, 0);
}

#[test]
fn a_session_without_a_client_id_is_left_out() {
    let mut database = read(FILE).unwrap();
    database.clients[0].id = String::new();
    let made = entries(&database, now());
    assert_eq!((made.sessions, &*made.left_out[0]), (1, "the session of \"\": its client id is not valid"));
}

#[test]
fn a_session_keeps_the_time_that_it_has_left() {
    let later = Now { unix: (0x6b07_ab84 - 100) * 1000, ..now() };
    let made = entries(&read(FILE).unwrap(), later);
    let texts: Vec<String> =
        made.entries.iter().filter_map(|(key, value)| tidegate_engine::describe(key, value)).collect();
    assert!(texts.iter().any(|text| text.contains("\"keeper\" (tenant 0, user -, expiry 100 s")), "{texts:#?}");
}

#[test]
fn a_thousand_filters_of_a_session_are_imported() {
    let mut database = read(FILE).unwrap();
    let of_number = |number: u32| Subscription {
        identifier: number % 3,
        ..subscription("keeper", &format!("number/{number}"), QoS::AtLeastOnce)
    };
    database.subscriptions = (0..1000).map(of_number).collect();
    database.subscriptions.push(subscription("keeper", "wrong/#/filter", QoS::AtLeastOnce));
    let made = entries(&database, now());
    assert_eq!((made.subscriptions, made.left_out.len()), (1000, 2));
    let texts = made.entries.iter().filter_map(|(key, value)| tidegate_engine::describe(key, value));
    assert_eq!(texts.filter(|text| text.contains("subscribed to \"number/")).count(), 1000);
}
