//! A node on loopback sockets, from the outside: bytes of MQTT clients in and out, over every transport.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may stop at the first surprise")]

mod admission;
mod closing;
mod cluster;
mod deadline;
mod flow;
mod homes;
mod limits;
mod membership;
mod message_events;
mod pipes;
mod pki;
mod places;
mod proxy;
mod quic;
mod quic_client;
mod relay;
mod service;
mod start;
mod tls;
mod transports;
mod wire;
mod witness;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use tidegate_node::{ListenAddress, LocalAddress, Node, NodeSettings};

/// A place for a Unix socket that no other test uses.
fn socket_path() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("tidegate-node-{}-{number}.sock", std::process::id()))
}

/// Settings for listeners on every transport, in the order TCP, Unix, WebSocket, QUIC, TLS, WebSocket over TLS.
fn settings(shards: u16) -> NodeSettings {
    let mut settings = NodeSettings::new("127.0.0.1:0".parse().unwrap());
    settings.shards = shards;
    settings.listeners.push(ListenAddress::Unix(socket_path()));
    settings.listeners.push("ws://127.0.0.1:0".parse().unwrap());
    settings.listeners.push("quic://127.0.0.1:0".parse().unwrap());
    let listener = settings.engine.listeners[0].clone();
    settings.listeners.push("mqtts://127.0.0.1:0".parse().unwrap());
    settings.listeners.push("wss://127.0.0.1:0".parse().unwrap());
    for position in [3, 4, 5] {
        settings.tls.insert(position, pki::COMMON.settings.clone());
    }
    settings.engine.listeners.resize(settings.listeners.len(), listener);
    settings
}

/// A node that listens on every transport.
fn node(shards: u16) -> Node {
    Node::start(settings(shards)).unwrap()
}

fn addresses(node: &Node) -> [LocalAddress; 6] {
    node.local_addresses().to_vec().try_into().unwrap()
}
