use std::num::NonZeroU16;

use jiff::Zoned;
use tidegate_client::{Message, MessageProperties, PacketId, PayloadFormat, QoS, TopicNameBuf};

use super::{FormatError, Template};

fn topic(text: &str) -> TopicNameBuf {
    TopicNameBuf::new(text).unwrap()
}

fn message(payload: impl Into<Vec<u8>>) -> Message {
    Message::new(topic("a/b"), payload)
}

fn full() -> Message {
    Message {
        qos: QoS::AtLeastOnce,
        retain: true,
        packet_id: PacketId::new(7),
        properties: MessageProperties {
            payload_format: Some(PayloadFormat::Utf8),
            message_expiry: Some(90),
            content_type: Some("ab\"c".to_owned()),
            response_topic: Some(topic("r/t")),
            correlation_data: Some(b"xyz".to_vec()),
            user_properties: vec![("k".into(), "v".into()), ("k".into(), "w".into())],
        },
        subscription_identifiers: vec![5],
        topic_alias: NonZeroU16::new(3),
        ..message("{\"x\":1}")
    }
}

fn now() -> Zoned {
    "2026-08-01T09:07:05.012345678+02:00[+02:00]".parse().unwrap()
}

fn render(format: &str, message: &Message) -> String {
    let mut out = Vec::new();
    Template::parse(format).unwrap().render(message, &now(), false, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn every_field() {
    let table = [
        ("%A", "3"),
        ("%C", "ab\"c"),
        ("%D", "xyz"),
        ("%E", "90"),
        ("%F", "1"),
        ("%I", "2026-08-01T09:07:05+0200"),
        ("%l", "7"),
        ("%m", "7"),
        ("%P", "k:v k:w"),
        ("%p", "{\"x\":1}"),
        ("%q", "1"),
        ("%R", "r/t"),
        ("%r", "1"),
        ("%S", "5"),
        ("%t", "a/b"),
        ("%U", "1785568025.012345678"),
        ("%x", "7b2278223a317d"),
        ("%X", "7B2278223A317D"),
        ("%%", "%"),
    ];
    for (format, expected) in table {
        assert_eq!(render(format, &full()), expected, "{format}");
    }
}

#[test]
fn absent_values_are_empty_or_blank() {
    let empty = message("");
    for field in ["A", "C", "D", "E", "F", "P", "p", "R", "S", "x"] {
        assert_eq!(render(&format!("[%{field}]"), &empty), "[]", "{field}");
        assert_eq!(render(&format!("[%4{field}]"), &empty), "[    ]", "{field}");
    }
    for field in ["A", "E", "F", "S", "x"] {
        assert_eq!(render(&format!("[%04{field}]"), &empty), "[0000]", "{field}");
    }
    assert_eq!(render("%m %q %r %l", &empty), "0 0 0 0");
}

#[test]
fn widths_and_precisions() {
    let table = [
        ("[%6m]", "[     7]"),
        ("[%06m]", "[000007]"),
        ("[%-6m]", "[7     ]"),
        ("[%-06m]", "[7     ]"),
        ("[%3l]", "[  7]"),
        ("[%5t]", "[  a/b]"),
        ("[%05t]", "[  a/b]"),
        ("[%-5t]", "[a/b  ]"),
        ("[%5.2t]", "[   a/]"),
        ("[%-5.2t]", "[a/   ]"),
        ("[%.2t]", "[a/]"),
        ("[%.0t]", "[]"),
        ("[%.t]", "[]"),
        ("[%1t]", "[a/b]"),
        ("[%9p]", "[  {\"x\":1}]"),
        ("[%-9p]", "[{\"x\":1}  ]"),
        ("[%.3p]", "[{\"x]"),
        ("[%16x]", "[  7b2278223a317d]"),
        ("[%016x]", "[007b2278223a317d]"),
        ("[%.2X]", "[7B22]"),
        ("[%.3:x]", "[7b:22:78]"),
        ("[% x]", "[7b 22 78 22 3a 31 7d]"),
        ("[%5E]", "[   90]"),
        ("[%26I]", "[  2026-08-01T09:07:05+0200]"),
        ("[%.10I]", "[2026-08-01]"),
        ("[%2q%2r]", "[ 1 1]"),
        ("[%3%]", "[%]"),
    ];
    for (format, expected) in table {
        assert_eq!(render(format, &full()), expected, "{format}");
    }
}

#[test]
fn widths_count_characters() {
    let mut message = message("");
    message.topic = topic("é/ü");
    assert_eq!(render("[%5t][%.2t][%-4.1t]", &message), "[  é/ü][é/][é   ]");
}

#[test]
fn floating_point_payloads() {
    let single = message(1.5_f32.to_le_bytes());
    let double = message((-0.25_f64).to_le_bytes());
    assert_eq!(render("%f|%.1f|%8.2f|%08.2f|%-8.2f|", &single), "1.500000|1.5|    1.50|00001.50|1.50    |");
    assert_eq!(render("%d|%.2d|%07.2d", &double), "-0.250000|-0.25|-000.25");
    assert_eq!(render("%f|%5.1f|%05f", &message(f32::NAN.to_le_bytes())), "nan|  nan|  nan");
    assert_eq!(render("%d", &message(f64::NEG_INFINITY.to_le_bytes())), "-inf");
    let template = Template::parse("%f").unwrap();
    let error = template.render(&double, &now(), false, &mut Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), "the payload on topic 'a/b' has 8 bytes, a floating-point number has 4");
}

#[test]
fn conversions_of_strftime() {
    let table = [
        ("@Y-@m-@dT@H:@M:@S@z", "2026-08-01T09:07:05+0200"),
        ("@s.@N", "1785568025.012345678"),
        ("@a @A @b @B @e @j @y @C @p @I @u @w", "Sat Saturday Aug August  1 213 26 20 AM 09 6 6"),
        (
            "@c|@x|@X|@D|@F|@T|@R|@r",
            "Sat Aug  1 09:07:05 2026|08/01/26|09:07:05|08/01/26|2026-08-01|09:07:05|09:07|9:07:05 AM",
        ),
        ("@G-W@V", "2026-W31"),
        ("me@@home", "me@home"),
    ];
    for (format, expected) in table {
        assert_eq!(render(format, &message("")), expected, "{format}");
    }
}

#[test]
fn escapes_and_plain_text() {
    assert_eq!(render(r"\\ \0 \a \e \n \r \t \v", &message("")), "\\ \0 \u{7} \u{1b} \n \r \t \u{b}");
    assert_eq!(render("plain, für alle", &message("")), "plain, für alle");
    assert_eq!(render("", &message("x")), "");
}

#[test]
fn mistakes_are_found_at_the_start() {
    let table = [
        ("%", FormatError::Incomplete('%')),
        ("%-", FormatError::Incomplete('%')),
        ("%012.", FormatError::Incomplete('%')),
        ("a\\", FormatError::Incomplete('\\')),
        ("a@", FormatError::Incomplete('@')),
        ("%z", FormatError::UnknownField('z')),
        ("%ü", FormatError::UnknownField('ü')),
        ("\\q", FormatError::UnknownEscape('q')),
        ("@!", FormatError::UnknownTime('!')),
        ("@E", FormatError::UnknownTime('E')),
        ("%10001p", FormatError::TooWide),
        ("%.99999999999999999999p", FormatError::TooWide),
    ];
    for (format, error) in table {
        assert_eq!(Template::parse(format), Err(error), "{format}");
    }
}

#[test]
fn binary_payloads_pass_unchanged() {
    let mut out = Vec::new();
    let template = Template::parse("%p|%D").unwrap();
    let mut message = message(vec![0xff, 0, b'\n']);
    message.properties.correlation_data = Some(vec![0xfe]);
    template.render(&message, &now(), false, &mut out).unwrap();
    assert_eq!(out, [0xff, 0, b'\n', b'|', 0xfe]);
}

#[test]
fn json_with_the_payload_as_text() {
    let tst = r#"{"tst":"2026-08-01T09:07:05.012345+0200","topic":"a/b","#;
    let plain = render("%j", &message("say \"hi\"\n"));
    assert_eq!(plain, format!(r#"{tst}"qos":0,"retain":0,"payloadlen":9,"payload":"say \"hi\"\n"}}"#));
    let full = render("%j", &full());
    let properties = r#"{"topic-alias":3,"content-type":"ab\"c","payload-format-indicator":1,"message-expiry-interval":90,"response-topic":"r/t","correlation-data":"xyz","subscription-identifier":5,"user-properties":[{"k":"v"},{"k":"w"}]}"#;
    let rest =
        format!(r#""qos":1,"retain":1,"payloadlen":7,"mid":7,"properties":{properties},"payload":"{{\"x\":1}}"}}"#);
    assert_eq!(full, format!("{tst}{rest}"));
    assert!(render("%j", &message("")).ends_with(r#""payload":null}"#));
    assert!(render("%j", &message(vec![0xff, 0])).ends_with("\"payload\":\"\u{fffd}\\u0000\"}"));
}

#[test]
fn json_with_the_payload_as_json() {
    let value = render("%J", &message(" {\"a\" : [1, 2.50,\"\\u00e9 ,\\\"\"], \"b\":1e5, \"c\":{ }}\n"));
    assert!(value.ends_with(r#""payload":{"a":[1,2.50,"\u00e9 ,\""],"b":1e5,"c":{}}}"#), "{value}");
    assert!(render("%J", &message("")).ends_with(r#""payload":null}"#));
    for payload in ["nojson", "{", "1 2", "\"\u{1}\""] {
        let template = Template::parse("%J").unwrap();
        let error = template.render(&message(payload), &now(), false, &mut Vec::new()).unwrap_err();
        assert_eq!(error.to_string(), "the payload on topic 'a/b' is not valid JSON");
    }
}

#[test]
fn json_over_several_lines() {
    let mut out = Vec::new();
    let template = Template::parse("%J").unwrap();
    template.render(&message(r#"{"a":[1,{}],"b":"x, y: {"}"#), &now(), true, &mut out).unwrap();
    let expected = r#"{
  "tst": "2026-08-01T09:07:05.012345+0200",
  "topic": "a/b",
  "qos": 0,
  "retain": 0,
  "payloadlen": 26,
  "payload": {
    "a": [
      1,
      {}
    ],
    "b": "x, y: {"
  }
}"#;
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

#[test]
fn deep_json_does_not_explode() {
    let depth = 20_000;
    let payload = "[".repeat(depth) + &"]".repeat(depth);
    let mut out = Vec::new();
    let template = Template::parse("%J").unwrap();
    template.render(&message(payload), &now(), true, &mut out).unwrap();
    assert!(out.len() < 200 * depth);
}
