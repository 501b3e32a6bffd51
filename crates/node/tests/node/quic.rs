//! QUIC: what is agreed on, how connections begin and end, and clients that move.

use std::net::SocketAddr;

use tidegate_node::{Node, NodeSettings, TlsSettings};

use crate::pki::COMMON;

/// Settings for one QUIC listener.
fn settings(shards: u16, tls: TlsSettings) -> NodeSettings {
    let mut settings = NodeSettings::new("quic://127.0.0.1:0".parse().unwrap());
    settings.shards = shards;
    settings.tls.insert(0, tls);
    settings
}

fn start(shards: u16) -> (Node, SocketAddr) {
    let node = Node::start(settings(shards, COMMON.settings.clone())).unwrap();
    let at = node.local_addresses()[0].socket().unwrap();
    (node, at)
}
