//! TLS: who gets in, what is agreed on, and what a reload changes.

use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;

use rustls::HandshakeKind;
use rustls::version::{TLS12, TLS13};
use tidegate_node::Node;

use crate::pki::{COMMON, client_config_of};
use crate::wire::*;
use crate::{addresses, node};

#[test]
fn both_versions_are_spoken_and_sessions_are_resumed() {
    let node = node(1);
    let [.., address, _] = addresses(&node);
    for version in [&TLS12, &TLS13] {
        let config = Arc::new(client_config_of(&COMMON.authority.pem(), None, &[version]));
        for expected in [HandshakeKind::Full, HandshakeKind::Resumed] {
            let mut socket = tls(address.socket().unwrap(), &config);
            socket.write_all(&connect("again")).unwrap();
            let mut connack = [0; 4];
            socket.read_exact(&mut connack).unwrap();
            assert_eq!(connack, CONNACK);
            assert_eq!(socket.conn.protocol_version(), Some(version.version));
            assert_eq!(socket.conn.handshake_kind(), Some(expected));
        }
    }
    let report = node.handle().report().unwrap();
    assert_eq!((report.shell.tls_handshakes, report.shell.tls_resumed), (4, 2));
}
