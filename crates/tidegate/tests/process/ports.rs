//! Ports for servers that have to know them before they start.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the ports that the system gives to connections, so that no connection takes one before its server starts.
const FIRST: u16 = 10_000;
const PORTS: u16 = 10_000;

static NEXT: AtomicU16 = AtomicU16::new(0);

/// A port on which no server listens, different each time. Processes begin at different ports.
pub(crate) fn free_port() -> u16 {
    let begin = u16::try_from(std::process::id() * 61 % u32::from(PORTS)).unwrap();
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        assert!(number < PORTS, "no port is free");
        let port = FIRST + (begin + number) % PORTS;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
