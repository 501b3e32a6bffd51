//! The negotiation before any MQTT packet: the protocol, the certificates, and options that are never accepted.

use std::io::{Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use quinn_proto::{ConnectionError, Dir};
use rustls::client::{ClientSessionMemoryCache, ClientSessionStore, Resumption};
use rustls::pki_types::CertificateDer;
use tidegate_engine::Reason;
use tidegate_node::{ClientCertificates, FlightSubject, Node, StartError, TlsVersion};

use super::{address_of, dial, over, settings, start};
use crate::pki::{Authority, COMMON, Directory, client_config, read_again};
use crate::quic_client::{QuicOptions, QuicSocket};
use crate::wire::*;
use crate::witness::watch;

/// The alert `no_application_protocol` as an error of QUIC [RFC 9001 section 4.8].
const NO_APPLICATION_PROTOCOL: u64 = 0x178;

/// How the handshake of a client with this ALPN fails.
fn refusal(at: SocketAddr, alpn: &'static [u8]) -> ConnectionError {
    QuicSocket::connect(at, &QuicOptions { alpn, ..QuicOptions::default() }).map(drop).unwrap_err()
}

#[test]
fn the_protocol_is_mqtt_or_nothing() {
    let (node, at) = start(1);
    for alpn in [&b"mqtt-next"[..], b"h3", b"MQTT", b""] {
        match refusal(at, alpn) {
            ConnectionError::ConnectionClosed(close) => {
                assert_eq!(u64::from(close.error_code), NO_APPLICATION_PROTOCOL, "{close}");
            }
            other => panic!("{}: {other}", String::from_utf8_lossy(alpn)),
        }
    }
    let report = node.handle().report().unwrap();
    assert_eq!((report.gauges.sessions_connected, report.shell.quic_failed), (0, 4));
    assert!(failed(&node)[0].contains("protocol"), "{:?}", failed(&node));
    over(dial(at), "client");
}

/// The recorded failures of handshakes.
fn failed(node: &Node) -> Vec<String> {
    let story = node.handle().clients().why(&FlightSubject::Address("127.0.0.0/8".parse().unwrap()), None).unwrap();
    let failed = story.events.into_iter().filter(|event| event.reason == Some(Reason::HandshakeFailed));
    failed.map(|event| event.detail.to_string()).collect()
}

#[test]
fn a_client_that_does_not_trust_the_server_is_reported() {
    let (node, at) = start(1);
    let stranger = client_config(&Authority::new("another authority").pem(), None);
    let options = QuicOptions { tls: Arc::new(stranger), ..QuicOptions::default() };
    assert!(QuicSocket::connect(at, &options).is_err());
    while failed(&node).is_empty() {
        std::thread::yield_now();
    }
    assert!(failed(&node)[0].contains("QUIC handshake"), "{:?}", failed(&node));
    let refused = node.handle().report().unwrap().counters.connects_refused;
    assert_eq!((refused[Reason::HandshakeFailed.number()], refused[Reason::ConnectionLost.number()]), (1, 0));
}

#[test]
fn there_is_one_stream_and_the_client_opens_it() {
    let (_node, at) = start(1);
    let mut socket = dial(at);
    socket.write_all(&connect("client")).unwrap();
    socket.read_exact(&mut [0; 4]).unwrap();
    assert!(socket.connection.streams().open(Dir::Bi).is_none(), "no second one in both directions");
    assert!(socket.connection.streams().open(Dir::Uni).is_none(), "none in one");
    assert!(socket.connection.datagrams().max_size().is_none(), "no datagrams");
}

/// No early data is accepted: tickets of sessions do not allow it, so that no PUBLISH can be replayed.
#[test]
fn nothing_is_taken_early() {
    let (_node, at) = start(1);
    let tickets = Arc::new(ClientSessionMemoryCache::new(8));
    let mut tls = client_config(&COMMON.authority.pem(), None);
    tls.enable_early_data = true;
    tls.resumption = Resumption::store(Arc::clone(&tickets) as Arc<dyn ClientSessionStore>);
    let options = QuicOptions { tls: Arc::new(tls), ..QuicOptions::default() };
    over(QuicSocket::connect(at, &options).unwrap(), "first");
    let ticket = tickets.take_tls13_ticket(&"localhost".try_into().unwrap()).expect("a ticket to resume with");
    assert_eq!(ticket.max_early_data_size(), 0);
    over(QuicSocket::connect(at, &options).unwrap(), "second");
    let mut third = QuicSocket::begin(at, &options);
    assert!(!third.connection.has_0rtt());
    third.transmit();
}

#[test]
fn what_the_handshake_has_established_is_known() {
    let directory = Directory::new();
    let mut tls = COMMON.settings.clone();
    tls.client_ca = Some(directory.write("ca.pem", &COMMON.authority.pem()));
    tls.client_certificates = ClientCertificates::Required;
    let mut settings = settings(2, tls);
    let seen = watch(&mut settings);
    let node = Node::start(settings).unwrap();
    let at = address_of(&node);
    let identity = COMMON.authority.issue("device 7", &[], |_| {});
    let config = client_config(&COMMON.authority.pem(), Some(&identity));
    let options = QuicOptions { tls: Arc::new(config), ..QuicOptions::default() };
    over(QuicSocket::connect(at, &options).unwrap(), "client");
    let facts = seen.facts.recv().unwrap();
    let tls = facts.tls.unwrap();
    assert_eq!((tls.version, tls.server_name.as_deref()), (TlsVersion::Tls13, Some("localhost")));
    assert_eq!(tls.alpn.as_deref(), Some(&b"mqtt"[..]));
    assert!(tls.client.is_some(), "the certificate is known");
    assert_eq!(facts.peer.map(|peer| peer.ip()), Some([127, 0, 0, 1].into()));
    // TLS 1.3 ends the client's part of the handshake before the server has looked at the certificate.
    if let Ok(mut refused) = QuicSocket::connect(at, &QuicOptions::default()) {
        refused.wait_lost();
    }
}

/// The certificate that a new client is shown.
fn shown(at: SocketAddr) -> CertificateDer<'static> {
    let socket = dial(at);
    let chain = socket.connection.crypto_session().peer_identity().unwrap();
    chain.downcast::<Vec<CertificateDer<'static>>>().unwrap()[0].clone()
}

#[test]
fn new_clients_get_the_new_certificate_and_connected_ones_stay() {
    use rustls::pki_types::pem::PemObject;
    let der = |text: &str| CertificateDer::from_pem_slice(text.as_bytes()).unwrap();
    let (directory, first, second) = (Directory::new(), COMMON.authority.server(), COMMON.authority.server());
    let tls = crate::pki::settings(&directory, &first);
    let node = Node::start(settings(2, tls.clone())).unwrap();
    let at = address_of(&node);
    let mut connected = over(dial(at), "connected");
    crate::pki::settings(&directory, &second);
    assert_eq!(shown(at), der(&first.certificate), "nothing changes without a reload");
    assert_eq!(read_again(&node, &[&tls]).unwrap(), 1);
    // A shard takes the certificate in its next turn, and may have begun a handshake before.
    assert!(std::iter::repeat_with(|| shown(at)).take(1000).any(|it| it == der(&second.certificate)));
    connected.send(&PINGREQ);
    connected.expect(&PINGRESP);
}

#[test]
fn a_port_is_not_shared() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut settings = settings(1, COMMON.settings.clone());
    settings.listeners[0] = format!("quic://{}", taken.local_addr().unwrap()).parse().unwrap();
    let error = Node::start(settings).unwrap_err();
    assert!(matches!(error, StartError::Bind(_)), "{error}");
}
