//! An orchestrator and a broker that speaks TLS: the authorities that the orchestrator trusts, and its own certificate.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use serde_json::Value;

use crate::broker::{Broker, Folder, PATIENCE, pause, run};

/// Certificates in a folder of their own: `ca.pem`, `server.pem`, `client.pem`, and their keys.
fn certificates(folder: &Folder, name: &str) -> String {
    let directory = folder.file(name);
    let ended = run(&["cert", "dev", "--out", &directory]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    directory
}

/// A broker that speaks TLS at a host, with the certificate of `directory`.
fn broker(folder: &Folder, host: &str, directory: &str, more: &str) -> Broker {
    let listener = format!(
        "[[listener]]\naddress = 'mqtts://{host}:0'\nallow_anonymous = true\ncertificate = '{directory}/server.pem'\nkey = '{directory}/server.key'\n"
    );
    let config = folder.write(&format!("{host}.toml"), &format!("{listener}{more}"));
    Broker::start_with(&["--config", &config, "--admin", "127.0.0.1:0"])
}

/// An orchestrator in front of it, with settings of `[orchestrator]`.
fn orchestrator(broker: &Broker, host: &str, settings: &[(&str, &str)]) -> Broker {
    let port = broker.address("mqtts://").rsplit_once(':').unwrap().1;
    let fleet = format!("b=mqtts://{host}:{port}");
    let settings: Vec<String> = settings.iter().map(|(key, value)| format!("orchestrator.{key}={value}")).collect();
    let mut arguments = vec!["orchestrator", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--broker", &fleet];
    for setting in &settings {
        arguments.extend(["--set", setting]);
    }
    Broker::start_with(&arguments)
}

/// The error of an orchestrator that does not start with such settings.
fn refused(settings: &[(&str, &str)]) -> String {
    let settings: Vec<String> = settings.iter().map(|(key, value)| format!("orchestrator.{key}={value}")).collect();
    let mut arguments = vec!["orchestrator", "--listen", "127.0.0.1:0", "--broker", "b=mqtts://127.0.0.1:1"];
    for setting in &settings {
        arguments.extend(["--set", setting]);
    }
    let ended = run(&arguments);
    assert_ne!(ended.code, Some(0));
    ended.err
}

/// The status of the orchestrator's broker, as soon as `is` accepts it.
fn seen(orchestrator: &Broker, is: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut stream = TcpStream::connect(orchestrator.address("admin=http://")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "GET /api/v1/fleet HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let fleet: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
        let broker = &fleet["brokers"][0];
        if is(broker) {
            return broker.clone();
        }
        assert!(Instant::now() < deadline, "{broker}");
        pause(10);
    }
}

fn serves(broker: &Value) -> bool {
    broker["state"] == "serving"
}

/// Why the broker is not reached.
fn error(orchestrator: &Broker) -> String {
    let has_error = |broker: &Value| broker["last_error"].as_str().is_some_and(|text| !text.is_empty());
    let seen = seen(orchestrator, has_error);
    assert_ne!(seen["state"], "serving");
    seen["last_error"].as_str().unwrap().to_owned()
}

/// A client of MQTT 3.1.1, with an empty client id.
fn client(server: &Broker) -> TcpStream {
    let mut client = TcpStream::connect(server.address("mqtt://")).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.write_all(b"\x10\x0c\0\x04MQTT\x04\x02\0\0\0\0").unwrap();
    let mut answer = [0; 4];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [0x20, 2, 0, 0]);
    client
}

#[test]
fn messages_go_to_a_broker_over_tls_and_return() {
    let folder = Folder::new();
    let certificates = certificates(&folder, "certs");
    let at_home = broker(&folder, "127.0.0.1", &certificates, "");
    let authority = format!("{certificates}/ca.pem");
    let server = orchestrator(&at_home, "127.0.0.1", &[("broker_ca", &authority)]);
    let seen = seen(&server, serves);
    assert!(seen["address"].as_str().unwrap().starts_with("mqtts://127.0.0.1:"), "{seen}");

    let mut client = client(&server);
    client.write_all(b"\x82\x06\0\x01\0\x01t\x01").unwrap();
    client.read_exact(&mut [0; 5]).unwrap();
    // More than TLS takes in one record, and than is encrypted at once.
    let payload = vec![b'x'; 300_000];
    let length = u32::try_from(payload.len() + 3).unwrap();
    let mut publish = vec![0x30];
    let digits = [length & 0x7f | 0x80, length >> 7 & 0x7f | 0x80, length >> 14];
    publish.extend(digits.map(|digit| u8::try_from(digit).unwrap()));
    publish.extend_from_slice(b"\0\x01t");
    publish.extend_from_slice(&payload);
    client.write_all(&publish).unwrap();
    let mut back = vec![0; publish.len()];
    client.read_exact(&mut back).unwrap();
    assert!(back == publish, "the message is another one");
}

#[test]
fn a_broker_is_trusted_by_authority_and_name_only() {
    let folder = Folder::new();
    let (certs, others) = (certificates(&folder, "certs"), certificates(&folder, "others"));
    let at_home = broker(&folder, "127.0.0.1", &certs, "");
    let (authority, other) = (format!("{certs}/ca.pem"), format!("{others}/ca.pem"));

    let stranger = orchestrator(&at_home, "127.0.0.1", &[("broker_ca", &other)]);
    let text = error(&stranger);
    assert!(text.contains("no authority that is trusted here"), "{text}");

    // The certificate is for this machine's usual names, and 127.0.0.9 is not among them.
    let elsewhere = broker(&folder, "127.0.0.9", &certs, "");
    let misnamed = orchestrator(&elsewhere, "127.0.0.9", &[("broker_ca", &authority)]);
    let text = error(&misnamed);
    assert!(text.contains("for another host name"), "{text}");
    assert!(text.contains("127.0.0.9:"), "which broker: {text}");

    let careless =
        orchestrator(&elsewhere, "127.0.0.9", &[("broker_ca", &authority), ("broker_any_host_name", "true")]);
    seen(&careless, serves);
}

#[test]
fn a_broker_may_ask_for_a_certificate() {
    let folder = Folder::new();
    let certs = certificates(&folder, "certs");
    let authority = format!("{certs}/ca.pem");
    let at_home =
        broker(&folder, "127.0.0.1", &certs, &format!("client_certificate = 'required'\nclient_ca = '{authority}'\n"));

    let bare = orchestrator(&at_home, "127.0.0.1", &[("broker_ca", &authority)]);
    let text = error(&bare);
    assert!(text.contains("requires a certificate"), "{text}");

    let (certificate, key) = (format!("{certs}/client.pem"), format!("{certs}/client.key"));
    let shown = [("broker_ca", &*authority), ("broker_certificate", &*certificate), ("broker_key", &*key)];
    seen(&orchestrator(&at_home, "127.0.0.1", &shown), serves);

    let half = refused(&[("broker_ca", &*authority), ("broker_certificate", &*certificate)]);
    assert!(half.contains("broker b: ") && half.contains("name both"), "{half}");
    let missing = refused(&[("broker_ca", "does/not/exist")]);
    assert!(missing.contains("does/not/exist"), "{missing}");
}
