//! The client of the command line against the node, as a program uses it.

use std::net::SocketAddr;
use std::time::Duration;

use rcgen::{ExtendedKeyUsagePurpose, GeneralSubtree, NameConstraints, date_time_ymd};
use tidegate_client::net::{Address, ConnectError, Driver, SocketOptions, Step, TlsConnector, TlsOptions, TlsVersion};
use tidegate_client::{Event, Options, Publish, QoS, TopicNameBuf};
use tidegate_node::{ClientCertificates, TlsSettings};

use super::start;
use crate::pki::{Authority, COMMON, Directory, Issued};
use crate::{addresses, node};

fn options() -> TlsOptions {
    TlsOptions { ca_file: Some(COMMON.directory.path().join("ca.pem")), ..TlsOptions::default() }
}

fn driver(address: Address, tls: &TlsOptions) -> Driver {
    let tls = Some(TlsConnector::new(tls).unwrap());
    let sockets = SocketOptions { tls, connect_timeout: Duration::from_secs(60), ..SocketOptions::default() };
    Driver::new(Options::new("driven"), address, sockets).unwrap()
}

fn next(driver: &mut Driver) -> Event {
    match driver.next(None).unwrap() {
        Step::Event(event) => event,
        other => panic!("{other:?}"),
    }
}

fn at(host: &str, at: SocketAddr) -> Address {
    Address::Tls { host: host.to_owned(), port: at.port() }
}

/// Connects and sends a message of a size that takes many records both ways.
fn works(driver: &mut Driver) {
    driver.connect().unwrap();
    assert!(matches!(next(driver), Event::Connected(_)));
    let payload = vec![7; 200_000];
    let message = Publish::new(TopicNameBuf::new("t").unwrap(), payload).with_qos(QoS::AtLeastOnce);
    driver.client().publish(std::time::Instant::now(), message).unwrap();
    assert!(matches!(next(driver), Event::Published(_)));
}

#[test]
fn it_speaks_tls_and_websocket_over_tls() {
    let node = node(2);
    let [.., tls, web] = addresses(&node);
    for version in [None, Some(TlsVersion::Tls12), Some(TlsVersion::Tls13)] {
        let options = TlsOptions { version, alpn: Some("mqtt".to_owned()), ..options() };
        works(&mut driver(at("localhost", tls.socket().unwrap()), &options));
        let port = web.socket().unwrap().port();
        let address = Address::WebSocketTls { host: "127.0.0.1".to_owned(), port, path: "/mqtt".to_owned() };
        works(&mut driver(address, &options));
    }
}

#[test]
fn it_connects_again_with_its_ticket() {
    let node = node(1);
    let [.., tls, _] = addresses(&node);
    let connector = TlsConnector::new(&options()).unwrap();
    for _ in 0..3 {
        let sockets = SocketOptions { tls: Some(connector.clone()), ..SocketOptions::default() };
        let address = at("localhost", tls.socket().unwrap());
        let mut driver = Driver::new(Options::new("again"), address, sockets).unwrap();
        driver.connect().unwrap();
        assert!(matches!(next(&mut driver), Event::Connected(_)));
    }
    assert_eq!(node.handle().report().unwrap().shell.tls_resumed, 2);
}

#[test]
fn it_refuses_a_server_that_it_does_not_trust_or_did_not_mean() {
    let directory = Directory::new();
    let elsewhere = COMMON.authority.issue("elsewhere", &["elsewhere.example"], |_| {});
    let (_node, address) = start(crate::pki::settings(&directory, &elsewhere));
    let refused = |options: &TlsOptions, part: &str| match driver(at("localhost", address), options).connect() {
        Err(ConnectError::Tls { source, .. }) => assert!(source.to_string().contains(part), "{source}"),
        other => panic!("{other:?}"),
    };
    refused(&options(), "not valid for name");
    works(&mut driver(at("localhost", address), &TlsOptions { any_hostname: true, ..options() }));
    let stranger = directory.write("stranger.pem", &Authority::new("another authority").pem());
    let trusts = |any_hostname| TlsOptions { ca_file: Some(stranger.clone()), any_hostname, ..TlsOptions::default() };
    refused(&trusts(false), "UnknownIssuer");
    refused(&trusts(true), "UnknownIssuer");
}

#[test]
fn it_presents_its_certificate_and_reads_a_directory() {
    let (directory, authorities) = (Directory::new(), Directory::new());
    let device = COMMON.authority.issue("device", &[], |_| {});
    authorities.write("one.crt", &Authority::new("another authority").pem());
    authorities.write("two.crt", &COMMON.authority.pem());
    authorities.write("README", "no certificate");
    let (_node, address) = start(TlsSettings {
        client_certificates: ClientCertificates::Required,
        client_ca: Some(COMMON.directory.path().join("ca.pem")),
        ..COMMON.settings.clone()
    });
    let options = TlsOptions {
        ca_directory: Some(authorities.path().to_owned()),
        certificate: Some(directory.write("c.pem", &device.certificate)),
        key: Some(directory.write("k.pem", &device.key)),
        ..TlsOptions::default()
    };
    works(&mut driver(at("localhost", address), &options));
    let without_key = TlsOptions { key: None, ..options };
    assert!(TlsConnector::new(&without_key).unwrap_err().to_string().contains("name both"));
}

/// A file with this certificate alone.
fn file(directory: &Directory, name: &str, issued: &Issued) -> std::path::PathBuf {
    directory.write(name, &issued.certificate)
}

#[test]
fn a_server_may_show_a_certificate_that_is_trusted_itself() {
    let directory = Directory::new();
    let own = Authority::with_names("server", &["localhost"]).itself();
    let (_node, address) = start(crate::pki::settings(&directory, &own));
    let trusts = |issued: &Issued, any_hostname| TlsOptions {
        ca_file: Some(file(&directory, "trusted.pem", issued)),
        any_hostname,
        ..TlsOptions::default()
    };
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        let options = TlsOptions { version: Some(version), ..trusts(&own, false) };
        works(&mut driver(at("localhost", address), &options));
    }
    let refusal = |host: &str, options: &TlsOptions| match driver(at(host, address), options).connect() {
        Err(ConnectError::Tls { source, .. }) => source.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(refusal("127.0.0.1", &trusts(&own, false)).contains("not valid for name"));
    works(&mut driver(at("127.0.0.1", address), &trusts(&own, true)));
    // One of the same name with another key is another certificate.
    let other = Authority::with_names("server", &["localhost"]).itself();
    for any_hostname in [false, true] {
        assert!(refusal("localhost", &trusts(&other, any_hostname)).contains("that of an authority"));
    }
}

#[test]
fn a_client_may_show_a_certificate_that_is_trusted_itself() {
    let directory = Directory::new();
    let own = Authority::new("device");
    let settings = TlsSettings {
        client_certificates: ClientCertificates::Required,
        client_ca: Some(directory.write("ca.pem", &own.pem())),
        ..COMMON.settings.clone()
    };
    let shows = |issued: &Issued| TlsOptions {
        certificate: Some(file(&directory, "c.pem", issued)),
        key: Some(directory.write("k.pem", &issued.key)),
        ..options()
    };
    let connects = |address, issued: &Issued| {
        let mut driver = driver(at("localhost", address), &shows(issued));
        driver.connect().is_ok() && matches!(driver.next(None), Ok(Step::Event(Event::Connected(_))))
    };
    let (_node, address) = start(settings.clone());
    assert!(connects(address, &own.itself()));
    assert!(!connects(address, &Authority::new("device").itself()), "another key of the same name");
    let crl = vec![directory.write("crl.pem", &own.revoke(&[]))];
    let (_node, address) = start(TlsSettings { crl, ..settings });
    assert!(!connects(address, &own.itself()), "no list can revoke it");
}

/// As OpenSSL does: purposes hold for the certificate itself, constraints of names for the issued certificates.
#[test]
fn a_listed_certificate_keeps_to_its_purposes() {
    let of = |purpose: ExtendedKeyUsagePurpose| {
        Authority::edited("both", |params| {
            params.extended_key_usages = vec![purpose.clone()];
            let elsewhere = vec![GeneralSubtree::DnsName("elsewhere.example".to_owned())];
            params.name_constraints =
                Some(NameConstraints { permitted_subtrees: elsewhere, excluded_subtrees: vec![] });
        })
        .itself()
    };
    for (purpose, is_server) in
        [(ExtendedKeyUsagePurpose::ServerAuth, true), (ExtendedKeyUsagePurpose::ClientAuth, false)]
    {
        let (directory, own) = (Directory::new(), of(purpose));
        let trusted = file(&directory, "trusted.pem", &own);
        let (_node, address) = start(crate::pki::settings(&directory, &own));
        for any_hostname in [false, true] {
            let trusts = TlsOptions { ca_file: Some(trusted.clone()), any_hostname, ..TlsOptions::default() };
            assert_eq!(driver(at("localhost", address), &trusts).connect().is_ok(), is_server, "{any_hostname}");
        }
        let settings = TlsSettings {
            client_certificates: ClientCertificates::Required,
            client_ca: Some(trusted.clone()),
            ..COMMON.settings.clone()
        };
        let (_node, address) = start(settings);
        let shows =
            TlsOptions { certificate: Some(trusted), key: Some(directory.write("k.pem", &own.key)), ..options() };
        let mut driver = driver(at("localhost", address), &shows);
        let connected = driver.connect().is_ok() && matches!(driver.next(None), Ok(Step::Event(Event::Connected(_))));
        assert_eq!(connected, !is_server);
    }
}

/// The verifier inside has to look at the dates before it refuses the certificate as that of an authority.
#[test]
fn a_listed_certificate_is_refused_outside_its_dates() {
    let late = Authority::edited("late", |params| params.not_after = date_time_ymd(2020, 1, 1));
    let early = Authority::edited("early", |params| params.not_before = date_time_ymd(2199, 1, 1));
    for authority in [late, early] {
        let directory = Directory::new();
        let own = authority.itself();
        let trusted = file(&directory, "trusted.pem", &own);
        let (_node, address) = start(crate::pki::settings(&directory, &own));
        for (version, any_hostname) in
            [(TlsVersion::Tls12, false), (TlsVersion::Tls13, false), (TlsVersion::Tls13, true)]
        {
            let trusts = TlsOptions {
                ca_file: Some(trusted.clone()),
                version: Some(version),
                any_hostname,
                ..TlsOptions::default()
            };
            assert!(driver(at("localhost", address), &trusts).connect().is_err(), "{version:?}, {any_hostname}");
        }
        let settings = TlsSettings {
            client_certificates: ClientCertificates::Required,
            client_ca: Some(trusted),
            ..COMMON.settings.clone()
        };
        let (_node, address) = start(settings);
        let shows = TlsOptions {
            certificate: Some(file(&directory, "c.pem", &own)),
            key: Some(directory.write("k.pem", &own.key)),
            ..options()
        };
        let mut driver = driver(at("localhost", address), &shows);
        assert!(driver.connect().is_err() || !matches!(driver.next(None), Ok(Step::Event(Event::Connected(_)))));
    }
}
