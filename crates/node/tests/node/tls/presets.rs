//! Facts from a TLS session are known before CONNECT, on every shard.

use std::io::{Read, Write};

use tidegate_engine::{ListenerId, Preset};
use tidegate_node::{Inlet, Node, Presets, TlsFacts, TlsVersion};

use super::settings;
use crate::pki::COMMON;
use crate::wire::{CONNACK, connect, tcp, tls};

/// A node whose TLS clients are all `device` if they request `localhost`. Its second listener is plain TCP.
fn node_of_one_device(shards: u16) -> Node {
    let mut settings = settings(COMMON.settings.clone());
    settings.shards = shards;
    settings.listeners.push("127.0.0.1:0".parse().unwrap());
    settings.engine.listeners.push(tidegate_engine::ListenerSettings::default());
    settings.presets = Some(Presets::new(|listener, facts| {
        assert_eq!(listener, ListenerId(0), "not called for a connection without TLS");
        let name = facts.tls.as_ref().unwrap().server_name.as_deref();
        Preset { client_id: (name == Some("localhost")).then(|| "device".into()), ..Preset::default() }
    }));
    Node::start(settings).unwrap()
}

#[test]
fn facts_of_tls_are_known_before_connect_on_every_shard() {
    for shards in [1, 4] {
        let node = node_of_one_device(shards);
        let at = node.local_addresses()[0].socket().unwrap();
        let mut before: Option<crate::wire::TlsSocket> = None;
        for number in 0..8 {
            let mut socket = tls(at, &COMMON.client);
            // Together with the last flight of the handshake, so that no turn comes in between.
            socket.write_all(&connect(&format!("asked-for-{number}"))).unwrap();
            let mut connack = [0; 4];
            socket.read_exact(&mut connack).unwrap();
            assert_eq!(connack, CONNACK);
            if let Some(mut before) = before.replace(socket) {
                let mut rest = Vec::new();
                // How it ends depends on the transport; that it ends shows whose session was taken over.
                let _ = before.read_to_end(&mut rest);
                assert_eq!(rest, b"");
            }
        }
        let report = node.handle().report().unwrap();
        assert_eq!(report.gauges.sessions_connected, 1);
        assert_eq!(report.shell.handed_over > 0, shards > 1);
    }
}

#[test]
fn a_tls_session_that_ended_elsewhere_in_the_process_counts() {
    for shards in [1, 4] {
        let node = node_of_one_device(shards);
        let inlet = Inlet::new(node.handle());
        let facts = TlsFacts {
            version: TlsVersion::Tls13,
            server_name: Some("localhost".into()),
            alpn: None,
            client: None,
            identity: None,
        };
        let mut before: Option<std::os::unix::net::UnixStream> = None;
        for number in 0..8 {
            let peer = "192.0.2.1:1".parse().unwrap();
            let mut socket = inlet.connect(ListenerId(0), peer, Some(facts.clone())).unwrap();
            socket.write_all(&connect(&format!("asked-for-{number}"))).unwrap();
            let mut connack = [0; 4];
            socket.read_exact(&mut connack).unwrap();
            assert_eq!(connack, CONNACK);
            if let Some(mut before) = before.replace(socket) {
                let mut rest = Vec::new();
                let _ = before.read_to_end(&mut rest);
                assert_eq!(rest, b"", "its session was taken over");
            }
        }
        assert_eq!(node.handle().report().unwrap().gauges.sessions_connected, 1);
    }
}

#[test]
fn without_tls_there_is_no_preset() {
    let node = node_of_one_device(2);
    let at = node.local_addresses()[1].socket().unwrap();
    let sockets: Vec<_> = (0..4)
        .map(|number| {
            let mut socket = tcp(at);
            socket.write_all(&connect(&format!("plain-{number}"))).unwrap();
            let mut connack = [0; 4];
            socket.read_exact(&mut connack).unwrap();
            assert_eq!(connack, CONNACK);
            socket
        })
        .collect();
    assert_eq!(node.handle().report().unwrap().gauges.sessions_connected, sockets.len() as u64);
}
