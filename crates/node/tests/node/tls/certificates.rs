//! Certificates of clients and of servers: accepted and refused ones, identities, and invalid files.

use std::sync::Arc;

use rcgen::{CertificateParams, SerialNumber, date_time_ymd};
use tidegate_engine::Reason;
use tidegate_node::{
    CertificateFiles, ClientCertificates, FlightSubject, IdentityField, IdentityRole, Node, OutdatedLists,
    RevocationLists, StartError, TlsSettings, TlsVersion,
};

use super::{refusal, settings, start, try_connect};
use crate::pki::{Authority, COMMON, Directory, Issued, client_config, client_config_of, read_again, uri};
use crate::wire::tls;
use crate::witness::watch;

/// Settings that ask clients for a certificate of the common authority.
fn mutual(client_certificates: ClientCertificates) -> TlsSettings {
    let client_ca = Some(COMMON.directory.path().join("ca.pem"));
    TlsSettings { client_certificates, client_ca, ..COMMON.settings.clone() }
}

fn config(identity: Option<&Issued>) -> Arc<rustls::ClientConfig> {
    Arc::new(client_config(&COMMON.authority.pem(), identity))
}

fn issue(edit: impl FnOnce(&mut CertificateParams)) -> Issued {
    COMMON.authority.issue("device-7", &["device-7.example", "ops@example.org"], edit)
}

#[test]
fn a_required_certificate_must_be_there_and_hold() {
    let (node, at) = start(mutual(ClientCertificates::Required));
    assert!(try_connect(at, &config(Some(&issue(|_| {})))).is_ok());
    assert!(refusal(at, &config(None)).contains("CertificateRequired"));
    let stranger = Authority::new("another authority").issue("device-7", &[], |_| {});
    assert!(refusal(at, &config(Some(&stranger))).contains("UnknownCA"));
    let expired = issue(|params| params.not_after = date_time_ymd(2020, 1, 1));
    assert!(refusal(at, &config(Some(&expired))).contains("CertificateExpired"));
    let early = issue(|params| params.not_before = date_time_ymd(2199, 1, 1));
    assert!(!refusal(at, &config(Some(&early))).is_empty());
    let old = client_config_of(&COMMON.authority.pem(), None, &[&rustls::version::TLS12]);
    assert!(refusal(at, &Arc::new(old)).contains("CertificateRequired"));
    let report = node.handle().report().unwrap();
    assert_eq!(report.shell.tls_failed, 5);
    let refused = report.counters.connects_refused;
    assert_eq!((refused[Reason::TlsFailed.number()], refused[Reason::ConnectionLost.number()]), (5, 0));
    let story = node.handle().clients().why(&FlightSubject::Address("127.0.0.0/8".parse().unwrap()), None).unwrap();
    let event = story.events.iter().find(|event| event.reason == Some(Reason::TlsFailed)).unwrap();
    assert!(event.detail.contains("certificate"), "{event:?}");
}

#[test]
fn an_optional_certificate_must_hold_if_it_is_there() {
    let (_node, at) = start(mutual(ClientCertificates::Optional));
    assert!(try_connect(at, &config(Some(&issue(|_| {})))).is_ok());
    assert!(try_connect(at, &config(None)).is_ok());
    let stranger = Authority::new("another authority").issue("device-7", &[], |_| {});
    assert!(refusal(at, &config(Some(&stranger))).contains("UnknownCA"));
}

#[test]
fn a_revoked_certificate_is_refused_in_resumed_sessions() {
    let directory = Directory::new();
    let crl = directory.write("crl.pem", &COMMON.authority.revoke(&[66]));
    let settings = TlsSettings { crl: vec![crl], ..mutual(ClientCertificates::Required) };
    let (node, at) = start(settings.clone());
    let with_serial =
        |serial: u64| config(Some(&issue(|params| params.serial_number = Some(SerialNumber::from(serial)))));
    assert!(refusal(at, &with_serial(66)).contains("CertificateRevoked"));
    let other = with_serial(67);
    assert!(try_connect(at, &other).is_ok());
    directory.write("crl.pem", &COMMON.authority.revoke(&[66, 67]));
    assert_eq!(read_again(&node, &[&settings]).unwrap(), 1);
    assert!(refusal(at, &other).contains("CertificateRevoked"));
}

#[test]
fn an_outdated_list_is_reported_and_can_refuse_clients() {
    let directory = Directory::new();
    let crl = directory.write("crl.pem", &COMMON.authority.revoke_until(2025, &[66]));
    let with_serial =
        |serial: u64| config(Some(&issue(|params| params.serial_number = Some(SerialNumber::from(serial)))));
    let settings =
        |crl_outdated| TlsSettings { crl: vec![crl.clone()], crl_outdated, ..mutual(ClientCertificates::Required) };
    let (node, at) = start(settings(OutdatedLists::Accept));
    let report = RevocationLists { lists: 1, outdated: 1, next_update: 1_735_689_600 };
    assert_eq!(node.handle().revocation_lists(), report);
    assert!(try_connect(at, &with_serial(67)).is_ok());
    assert!(refusal(at, &with_serial(66)).contains("CertificateRevoked"), "it still counts");
    let (strict, at) = start(settings(OutdatedLists::Refuse));
    assert_eq!(strict.handle().revocation_lists(), report);
    assert!(!refusal(at, &with_serial(67)).is_empty());
    directory.write("crl.pem", &COMMON.authority.revoke(&[66]));
    assert_eq!(read_again(&strict, &[&settings(OutdatedLists::Refuse)]).unwrap(), 1);
    assert_eq!(strict.handle().revocation_lists().outdated, 0);
    assert!(try_connect(at, &with_serial(67)).is_ok());
}

#[test]
fn a_list_without_the_issuer_refuses_all_clients() {
    let (directory, other) = (Directory::new(), Authority::new("another authority"));
    let crl = directory.write("crl.pem", &other.revoke(&[]));
    let (_node, at) = start(TlsSettings { crl: vec![crl], ..mutual(ClientCertificates::Required) });
    assert!(!refusal(at, &config(Some(&issue(|_| {})))).is_empty());
}

#[test]
fn full_and_resumed_sessions_have_the_identity() {
    for (field, value) in [
        (IdentityField::CommonName, "device-7"),
        (IdentityField::SanDns, "device-7.example"),
        (IdentityField::SanEmail, "ops@example.org"),
        (IdentityField::SanUri, "urn:device:7"),
    ] {
        let tls = TlsSettings {
            identity_field: field,
            identity_role: IdentityRole::Username,
            ..mutual(ClientCertificates::Required)
        };
        let mut settings = settings(tls);
        let seen = watch(&mut settings);
        let node = Node::start(settings).unwrap();
        let at = node.local_addresses()[0].socket().unwrap();
        let identity = issue(|params| {
            params.subject_alt_names.retain(|name| !format!("{name:?}").contains("ops@"));
            params.subject_alt_names.push(rcgen::SanType::Rfc822Name("ops@example.org".try_into().unwrap()));
            params.subject_alt_names.push(uri("urn:device:7"));
        });
        for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
            let config = client_config_of(&COMMON.authority.pem(), Some(&identity), &[version]);
            let config = Arc::new(config);
            for resumed in [false, true] {
                let socket = try_connect(at, &config).unwrap();
                assert_eq!(socket.conn.handshake_kind() == Some(rustls::HandshakeKind::Resumed), resumed);
                let facts = seen.facts.recv().unwrap();
                assert_eq!(facts.peer, socket.sock.local_addr().ok());
                let tls = facts.tls.unwrap();
                let client = tls.client.as_ref().unwrap();
                assert_eq!(client.common_name.as_deref(), Some("device-7"));
                assert_eq!(client.uris, ["urn:device:7".into()]);
                let identity = tls.identity.as_ref().unwrap();
                assert_eq!((&*identity.value, identity.role), (value, IdentityRole::Username));
                assert_eq!(tls.version == TlsVersion::Tls12, version.version == rustls::ProtocolVersion::TLSv1_2);
            }
        }
    }
}

#[test]
fn the_name_that_a_client_asks_for_picks_the_certificate() {
    let directory = Directory::new();
    let mut tls_settings = COMMON.settings.clone();
    for (file, names) in [("b", &["b.example", "*.c.example"][..]), ("d", &["d.example"])] {
        let issued = COMMON.authority.issue(file, names, |_| {});
        tls_settings.certificates.push(CertificateFiles {
            certificate: directory.write(&format!("{file}.pem"), &issued.certificate),
            key: directory.write(&format!("{file}.key"), &issued.key),
        });
    }
    let (_node, at) = start(tls_settings);
    let asks = |name: &'static str| {
        let config = Arc::new(client_config(&COMMON.authority.pem(), None));
        let mut socket = tls(at, &config);
        socket.conn = rustls::ClientConnection::new(config, name.try_into().unwrap()).unwrap();
        socket.conn.complete_io(&mut socket.sock).map(drop)
    };
    for name in ["localhost", "b.example", "x.c.example", "d.example", "B.Example"] {
        assert!(asks(name).is_ok(), "{name}");
    }
    // The first certificate is shown, and it is not theirs.
    for name in ["e.example", "c.example", "x.y.c.example"] {
        assert!(asks(name).unwrap_err().to_string().contains("not valid for name"), "{name}");
    }
}

/// A start with these settings fails, with these words in its text.
fn refused(tls: TlsSettings, words: &[&str]) {
    let error = Node::start(settings(tls)).unwrap_err();
    assert!(matches!(error, StartError::Tls(_)), "{error}");
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "{text}");
    }
    assert!(!text.contains("MII"), "a key or certificate is repeated: {text}");
}

#[test]
fn unusable_files_are_named_with_a_remedy() {
    let (directory, good) = (Directory::new(), COMMON.authority.server());
    let with = |certificate: &str, key: &str| {
        TlsSettings::new(directory.write("c.pem", certificate), directory.write("k.pem", key))
    };
    let other = COMMON.authority.server();
    refused(with(&good.certificate, &other.key), &["k.pem does not belong to", "c.pem", "put the server's own"]);
    refused(with(&good.key, &good.key), &["c.pem has no certificate", "PRIVATE KEY", "interchanged"]);
    refused(with(&good.certificate, &good.certificate), &["k.pem has no private key", "interchanged"]);
    refused(with("", &good.key), &["c.pem has no certificate", "-----BEGIN CERTIFICATE-----"]);
    let cut = &good.certificate[..good.certificate.len() / 2];
    refused(with(cut, &good.key), &["c.pem:1: not valid PEM"]);
    let encrypted = good.key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    refused(with(&good.certificate, &encrypted), &["k.pem is encrypted", "openssl pkey -in"]);
    let empty = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
    refused(with(empty, &good.key), &["certificate 1 in", "c.pem cannot be used"]);
    let missing = TlsSettings::new("/no/such/file.pem", directory.path().join("k.pem"));
    refused(missing, &["cannot read /no/such/file.pem", "check the path"]);
    refused(
        TlsSettings { client_ca: None, ..mutual(ClientCertificates::Required) },
        &["no authority is trusted", "name a file"],
    );
    let junk = vec![directory.write("crl.pem", &good.certificate)];
    refused(TlsSettings { crl: junk, ..mutual(ClientCertificates::Required) }, &["crl.pem has no revocation list"]);
    refused(TlsSettings { certificates: vec![], ..COMMON.settings.clone() }, &["needs a certificate"]);
}

#[test]
fn settings_and_addresses_must_agree() {
    let mut none = settings(COMMON.settings.clone());
    none.tls.clear();
    let text = Node::start(none).unwrap_err().to_string();
    assert!(text.contains("mqtts://127.0.0.1:0 speaks TLS and has no certificate"), "{text}");
    let mut plain = settings(COMMON.settings.clone());
    plain.listeners[0] = "127.0.0.1:0".parse().unwrap();
    let text = Node::start(plain).unwrap_err().to_string();
    assert!(text.contains("does not speak TLS"), "{text}");
}

/// A server certificate that has ended is warned of, not refused: clients decide.
#[test]
fn an_expired_server_certificate_is_served() {
    let directory = Directory::new();
    let issued = COMMON.authority.issue("late", &["localhost"], |params| params.not_after = date_time_ymd(2020, 1, 1));
    let (_node, at) = start(crate::pki::settings(&directory, &issued));
    assert!(refusal(at, &COMMON.client).contains("expired"));
}
