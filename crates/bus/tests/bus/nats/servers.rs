//! NATS as it is set up otherwise: over TLS with users and client certificates, and without JetStream.

use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tidegate_bus::{Append, Bus, BusError, LogSpec, Settings, TlsIdentity};

use super::Nats;
use crate::Outages;
use crate::client::{Client, log, place};
use crate::settings;

/// An authority, and certificates for a server and a client, in files of a directory.
fn issue(directory: &Path) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    std::fs::write(directory.join("ca.pem"), authority.pem()).unwrap();
    for name in ["server", "node"] {
        let key = KeyPair::generate().unwrap();
        let issued = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
        std::fs::write(directory.join(format!("{name}.pem")), issued.pem()).unwrap();
        std::fs::write(directory.join(format!("{name}.key")), key.serialize_pem()).unwrap();
    }
}

/// A server that wants TLS, a certificate, and a password.
fn safe() -> Nats {
    Nats::start_with(|directory| {
        issue(directory);
        let file = |name: &str| directory.join(name).display().to_string();
        let mut text = String::new();
        writeln!(
            text,
            "authorization {{ user: node, password: \"kn@wn\" }}\n\
             tls {{ cert_file: \"{}\", key_file: \"{}\", ca_file: \"{}\", verify: true }}",
            file("server.pem"),
            file("server.key"),
            file("ca.pem")
        )
        .unwrap();
        std::fs::write(directory.join("nats.conf"), text).unwrap();
        vec!["-js".to_owned(), "-c".to_owned(), file("nats.conf")]
    })
}

/// A refused client is tried again, since it may be right later: the test waits as long as a right client needs.
fn is_let_in(nats: &Nats, user: &str, settings: Settings) -> Result<Client, String> {
    let client = Client(nats.bus_as(user, settings, Arc::new(|_| {})));
    match client.create(LogSpec::fenced(log("state"), 1)) {
        Ok(()) => Ok(client),
        Err(BusError::Away { .. }) => Err(failure(&client)),
        Err(error) => panic!("{error}"),
    }
}

/// Why it has no connection, once that is known.
fn failure(client: &Client) -> String {
    loop {
        if let Some(failure) = client.0.failure() {
            return failure;
        }
        std::thread::yield_now();
    }
}

#[test]
fn tls_with_password_and_certificate_connects() {
    let nats = safe();
    let file = |name: &str| -> PathBuf { nats.directory.join(name) };
    let right = Settings {
        tls: true,
        tls_ca: Some(file("ca.pem")),
        tls_identity: Some(TlsIdentity { certificate: file("node.pem"), key: file("node.key") }),
        ..settings()
    };
    let client = is_let_in(&nats, "node:kn%40wn@", right.clone()).unwrap();
    let state = place("state", 0);
    let owner = client.own(&state);
    client.append(&state, Append::new("said").by(owner)).unwrap();
    assert_eq!(client.payloads(&state), ["said"]);
    assert_eq!(client.0.failure(), None);
    let short = Settings { max_waiting_time: std::time::Duration::from_millis(300), ..right };
    let refused = |user: &str, settings: &Settings| is_let_in(&nats, user, settings.clone()).map(drop).unwrap_err();
    for user in ["node:guessed@", ""] {
        let why = refused(user, &short);
        assert!(why.contains("refuses the user or the password; correct user:password@"), "{why}");
        assert!(why.contains(&format!("127.0.0.1:{}", nats.port)), "{why}");
    }
    let why = refused("node:kn%40wn@", &Settings { tls_identity: None, ..short.clone() });
    assert!(why.contains("wants a certificate; set `bus_certificate`"), "{why}");
    let why = refused("node:kn%40wn@", &Settings { tls_ca: None, ..short.clone() });
    assert!(why.contains("see whether `bus_ca`"), "no authority vouches for it: {why}");
    let why = refused("node:kn%40wn@", &Settings { tls: false, tls_ca: None, tls_identity: None, ..short });
    assert!(why.contains("wants TLS; set `bus_tls`"), "{why}");
}

#[test]
fn a_server_without_jetstream_is_distinguished_from_none() {
    let nats = Nats::start_with(|_| Vec::new());
    let client = Client(nats.bus_with(settings(), Arc::new(|_| {})));
    let refused = client.create(LogSpec::shared(log("state"), 1)).unwrap_err();
    assert!(matches!(&refused, BusError::Refused { reason, .. } if reason.contains("nats-server -js")), "{refused}");
}

#[test]
fn an_unreachable_server_is_named_with_cause_and_advice() {
    let why = |address: &str| {
        let bus = Bus::open(&address.parse().unwrap(), settings(), Arc::new(|_| {})).unwrap();
        failure(&Client(bus))
    };
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    // Another program than NATS answers there: a Kafka, say, which waits for a request.
    let said = why(&format!("nats://127.0.0.1:{port}"));
    assert!(said.contains(&format!("127.0.0.1:{port} answers, but not as NATS does; correct the port")), "{said}");
    let said = why("nats://127.0.0.1:1");
    assert!(said.contains("nothing listens at 127.0.0.1:1 ") && said.contains("-js`"), "{said}");
    let said = why("nats://unknown.invalid");
    assert!(said.contains("the name of unknown.invalid:4222 is not resolved") && said.contains("check"), "{said}");
    let nats = Nats::start();
    let client = Client(nats.bus_as("", Settings { tls: true, ..settings() }, Arc::new(|_| {})));
    let said = failure(&client);
    assert!(said.contains("speaks no TLS; set it up there, or leave `bus_tls` out"), "{said}");
}
