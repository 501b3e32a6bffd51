//! Records in all packings, as applications of any language write and read them.

use proptest::prelude::*;
use tidegate_bus::{Append, Header, Position, Record};

use super::*;
use crate::register::Topic;

fn record_of(append: &Append) -> Record {
    let Append { key, headers, payload, .. } = append.clone();
    Record { position: Position(1), key, headers, payload }
}

fn record(key: &str, headers: &[(&str, &str)], payload: impl AsRef<[u8]>) -> Record {
    let header = |(name, value): &(&str, &str)| Header { name: (*name).to_owned(), value: (*value).to_owned() };
    let (key, payload) = (key.as_bytes().to_vec().into(), payload.as_ref().to_vec().into());
    Record { position: Position(1), key, headers: headers.iter().map(header).collect(), payload }
}

fn plain(topic: Topic, key: &str, headers: &[(&str, &str)]) -> Result<Delivery, Rejected> {
    read_record(topic, &record(key, headers, "x"), Packing::Plain)
}

fn message() -> NodeMessage {
    NodeMessage {
        node: "truck-7".to_owned(),
        application: "dispatch".to_owned(),
        topic: "job/done".to_owned(),
        qos: 2,
        retain: false,
        expiry: Some(60),
        annotations: Annotations {
            content_type: Some("text/plain".to_owned()),
            is_text: true,
            response_topic: Some("answers".to_owned()),
            correlation_data: Some(vec![0, 255]),
            user_properties: vec![("a".to_owned(), "1\u{7f}".to_owned()), ("a".to_owned(), " 2\n".to_owned())],
        },
        payload: vec![0, 1, 255],
    }
}

fn header<'a>(append: &'a Append, name: &str) -> Option<&'a str> {
    super::headers::get(&append.headers, name)
}

#[test]
fn a_plain_record_has_the_payload_and_headers() {
    let append = write_record(&message(), Packing::Plain, "gw", "gw-1", Some(b"{\"speed\":\n 3}"));
    assert_eq!((&append.key[..], &append.payload[..]), (&b"truck-7"[..], &[0, 1, 255][..]));
    let said = [
        ("envelope", "plain"),
        ("recipient", "dispatch"),
        ("node", "truck-7"),
        ("gateway", "gw"),
        ("id", "gw-1"),
        ("topic", "job/done"),
        ("qos", "2"),
        ("expiry", "60"),
        ("content-type", "text/plain"),
        ("payload-format", "utf-8"),
        ("response-topic", "answers"),
        ("correlation-data", "AP8="),
        ("user-properties", r#"[["a","1\u007f"],["a"," 2\n"]]"#),
        ("context", r#"{"speed":3}"#),
    ];
    for (name, value) in said {
        assert_eq!(header(&append, name), Some(value), "{name}");
    }
    assert_eq!(append.headers.len(), said.len());
}

#[test]
fn envelopes_hold_everything() {
    for packing in [Packing::Json, Packing::MessagePack] {
        let append = write_record(&message(), packing, "gw", "gw-1", Some(b"{\"speed\":3}"));
        assert_eq!(header(&append, "envelope"), Some(packing.name()));
        let envelope = Envelope::read(packing, &append.payload).unwrap();
        assert_eq!(envelope.message.unwrap().0, [0, 1, 255]);
        assert_eq!((envelope.sender.as_deref(), envelope.recipient.as_deref()), (Some("truck-7"), Some("dispatch")));
        assert_eq!((envelope.duration, envelope.qos), (Some(60), Some(2)));
        assert_eq!(envelope.context.unwrap()["speed"], 3);
        assert_eq!(envelope.user_properties, message().annotations.user_properties);
    }
    let json = write_record(&message(), Packing::Json, "gw", "gw-1", None);
    let value: serde_json::Value = serde_json::from_slice(&json.payload).unwrap();
    assert_eq!((&value["message"], &value["correlation_data"]), (&"AAH/".into(), &"AP8=".into()));
}

#[test]
fn a_record_of_an_application_needs_no_more_than_a_key() {
    let read = plain(Topic::PrivateMessageTopic, "a/b", &[]).unwrap();
    assert_eq!((read.address.as_str(), read.qos, read.expiry, &read.payload[..]), ("node/a%2Fb", 1, None, &b"x"[..]));
    assert_eq!(plain(Topic::GroupMessageTopic, "g1", &[("topic", "news")]).unwrap().address, "group/g1/news");
    assert_eq!(plain(Topic::BroadcastMessageTopic, "", &[("topic", "news")]).unwrap().address, "all/news");
    // Clients of NATS have no keys.
    assert_eq!(plain(Topic::PrivateMessageTopic, "", &[("Recipient", "n")]).unwrap().address, "node/n");
}

#[test]
fn headers_have_the_properties_of_mqtt() {
    let read = plain(
        Topic::PrivateMessageTopic,
        "n",
        &[
            ("qos", "2"),
            ("expiry", "60"),
            ("priority", "7"),
            ("receipt", "all"),
            ("response-topic", "ctx/to/app/dispatch/receipts"),
            ("correlation-data", "AP8="),
            ("content-type", "application/json"),
            ("payload-format", "utf-8"),
            ("user-properties", r#"[["a","1"]]"#),
            ("traceparent", "00-1-2-3"),
        ],
    )
    .unwrap();
    assert_eq!((read.qos, read.expiry), (2, Some(60)));
    let pairs = [("a", "1"), ("priority", "7"), ("receipt", "all")].map(|(name, value)| (name.into(), value.into()));
    let annotations = Annotations {
        content_type: Some("application/json".to_owned()),
        is_text: true,
        response_topic: Some("ctx/to/app/dispatch/receipts".to_owned()),
        correlation_data: Some(vec![0, 255]),
        user_properties: pairs.to_vec(),
    };
    assert_eq!(read.annotations, annotations);
}

#[test]
fn envelopes_are_read_as_configured_or_by_their_header() {
    let json = r#"{"text":"go","recipient":"n","topic":"job","duration":60,"qos":0,"unknown":[1]}"#;
    let read = read_record(Topic::PrivateMessageTopic, &record("other", &[], json), Packing::Json).unwrap();
    assert_eq!((read.address.as_str(), read.qos, read.expiry), ("node/n/job", 0, Some(60)));
    assert_eq!(read.payload, b"go");
    let envelope = Envelope { text: None, message: Some(envelope::Blob(vec![9])), ..Envelope::default() };
    let packed = envelope.write(Packing::MessagePack).unwrap();
    let record = record("n", &[("envelope", "msgpack")], packed);
    let read = read_record(Topic::PrivateMessageTopic, &record, Packing::Plain).unwrap();
    assert_eq!((read.address.as_str(), read.payload), ("node/n", vec![9]));
}

/// A topic, a key, headers, and the expected error.
type Case = (Topic, &'static str, &'static [(&'static str, &'static str)], &'static str);

#[test]
fn each_kind_of_bad_record_has_its_error() {
    let private = Topic::PrivateMessageTopic;
    let cases: [Case; 13] = [
        (private, "", &[], "it names no node"),
        (Topic::GroupMessageTopic, "", &[], "it names no group"),
        (Topic::GroupMessageTopic, "a/b", &[], "the name of a group"),
        (private, "n", &[("topic", "a/#")], "levels of a topic name"),
        (private, "n", &[("qos", "3")], "0 to 2"),
        (private, "n", &[("expiry", "-1")], "a number"),
        (private, "n", &[("expires-at", "soon")], "milliseconds since 1970"),
        (private, "n", &[("receipt", "all")], "no response topic"),
        (private, "n", &[("receipt", "bogus"), ("response-topic", "a")], "delivered or all"),
        (private, "n", &[("user-properties", r#"[["receipt","bogus"]]"#)], "delivered or all"),
        (private, "n", &[("correlation-data", "%")], "base64"),
        (private, "n", &[("user-properties", "{}")], "a JSON array of pairs"),
        (private, "n", &[("envelope", "xml")], "plain, json or msgpack"),
    ];
    for (topic, key, headers, wanted) in cases {
        let said = plain(topic, key, headers).unwrap_err().to_string();
        assert!(said.contains(wanted), "{headers:?}: {said}");
    }
    for packing in [Packing::Json, Packing::MessagePack] {
        let said = read_record(private, &record("n", &[], [0xc1, b'{']), packing).unwrap_err().to_string();
        assert!(said.contains("envelope"), "{said}");
    }
    // Deeper than any stack: refused, not followed.
    let deep = [vec![0x81, 0xa7], b"context".to_vec(), vec![0x91; 500_000]].concat();
    assert!(read_record(private, &record("n", &[], deep), Packing::MessagePack).is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_rejected(key: Vec<u8>, payload: Vec<u8>, names in prop::collection::vec("[a-z-]{1,16}", 0..4)) {
        for topic in Topic::TO_NODES {
            for packing in [Packing::Plain, Packing::Json, Packing::MessagePack] {
                let headers = names.iter().map(|name| Header { name: name.clone(), value: name.clone() }).collect();
                let record = Record { position: Position(1), key: key.clone().into(), headers, payload: payload.clone().into() };
                let _ = read_record(topic, &record, packing);
            }
        }
    }

    #[test]
    fn whatever_nodes_send_every_bus_can_carry(
        node: String, topic: String, pairs: Vec<(String, String)>, payload: Vec<u8>, context: String,
    ) {
        let annotations = Annotations { user_properties: pairs.clone(), ..Annotations::default() };
        let sent = NodeMessage { node, topic, annotations, payload: payload.clone(), ..NodeMessage::default() };
        for packing in [Packing::Plain, Packing::Json, Packing::MessagePack] {
            let append = write_record(&sent, packing, "gw", "1", Some(context.as_bytes()));
            for header in &append.headers {
                prop_assert!(headers::fits(&header.value));
            }
            let record = record_of(&append);
            let read = read_record(Topic::BroadcastMessageTopic, &record, packing);
            if let Ok(read) = read {
                prop_assert_eq!(&read.payload, &payload);
                prop_assert_eq!(&read.annotations.user_properties, &pairs);
            }
        }
    }
}
