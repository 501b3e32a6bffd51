//! Payloads that the broker refuses by the schema of a pipeline.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};

use super::{client, lines, publish, status};
use crate::broker::{Broker, Folder, PATIENCE, until};

/// The status line of the answer to a POST.
fn posted(broker: &Broker, topic: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(broker.address("http://")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let len = body.len();
    write!(
        stream,
        "POST /topics/{topic} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {len}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The code of the answer to a confirmable PUT of the topic `plant/a/temp`, as class and detail, and its payload.
fn put(broker: &Broker, id: u8, payload: &[u8]) -> ((u8, u8), String) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.connect(broker.address("coap://")).unwrap();
    let mut request = vec![0x40, 0x03, 0, id];
    // Four options Uri-Path: the first has the number 11, the others the same.
    for (delta, level) in [(0xb0, "topics"), (0, "plant"), (0, "a"), (0, "temp")] {
        request.push(delta | u8::try_from(level.len()).unwrap());
        request.extend_from_slice(level.as_bytes());
    }
    request.push(0xff);
    request.extend_from_slice(payload);
    socket.send(&request).unwrap();
    let mut answer = [0; 1024];
    loop {
        let len = socket.recv(&mut answer).unwrap();
        // An empty message acknowledges before the answer.
        if answer[1] != 0 {
            let begin = answer[..len].iter().position(|byte| *byte == 0xff).map_or(len, |at| at + 1);
            let text = String::from_utf8_lossy(&answer[begin..len]).into_owned();
            return ((answer[1] >> 5, answer[1] & 0x1f), text);
        }
    }
}

#[test]
fn a_payload_that_is_not_of_the_schema_is_refused() {
    let folder = Folder::new();
    let (out, data) = (folder.file("out.ndjson"), folder.file("data"));
    let schema = folder
        .write("reading.json", r#"{"type":"object","required":["temp"],"properties":{"temp":{"type":"number"}}}"#);
    let config = folder.write(
        "hub.toml",
        &format!(
            "[[sink]]\nname = 'out'\npath = '{out}'\n\
             [[pipeline]]\nname = 'p'\nschema = '{schema}'\non_invalid = 'refuse'\nto = ['out']\n\
             sql = \"SELECT payload.temp AS temp FROM 'plant/+/temp'\"\n"
        ),
    );
    let listen = ["--listen=http://127.0.0.1:0", "--listen=coap://127.0.0.1:0"];
    let broker = Broker::start(&[&["-c", &config, "--data", &data][..], &listen].concat());
    let (good, bad, why) = (r#"{"temp":1}"#, r#"{"temp":"warm"}"#, "/temp: want number, but got string");
    for qos in ["1", "2"] {
        let refused = client(&broker, &["pub", "-V", "5", "-q", qos, "-t", "plant/a/temp", "-m", bad]);
        assert_ne!(refused.code, Some(0));
        assert!(refused.err.contains(why), "{}", refused.err);
    }
    // MQTT 3 has no negative acknowledgement, QoS 0 none at all.
    for (version, qos) in [("311", "1"), ("311", "2"), ("311", "0"), ("5", "0")] {
        let ended = client(&broker, &["pub", "-V", version, "-q", qos, "-t", "plant/a/temp", "-m", bad]);
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    }
    let answer = posted(&broker, "plant/a/temp", bad);
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("\"reason_code\":153"), "{answer}");
    assert!(answer.contains(why), "{answer}");
    let (code, text) = put(&broker, 1, bad.as_bytes());
    assert!(code == (4, 0) && text.contains(why), "{code:?} {text}");
    publish(&broker, "c", "plant/a/temp", good);
    assert!(posted(&broker, "plant/a/temp", good).starts_with("HTTP/1.1 200 "));
    assert_eq!(put(&broker, 2, good.as_bytes()).0, (2, 4));
    publish(&broker, "c", "plant/a/other", bad);
    let status = status(&broker, |it| it["p"]["out"] == 3);
    assert_eq!((&status["p"]["in"], &status["p"]["failed"]), (&3.into(), &0.into()), "{status}");
    assert_eq!(lines(&out), vec![serde_json::json!({ "temp": 1 }); 3]);
    until("all refusals in the metrics", || {
        broker.get("/metrics").1.contains("reason=\"payload_refused\"} 8\n").then_some(())
    });
}
