//! A way to a server that drops everything and closes nothing.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use tidegate_bus::{Address, Append, Bus, LogSpec, Settings};

use super::Nats;
use crate::client::{Client, PATIENCE, log, place};

/// A way to a server. It carries bytes until it is silent.
struct Way {
    port: u16,
    is_silent: Arc<AtomicBool>,
    /// How many connections it has carried.
    connections: Arc<AtomicUsize>,
}

impl Way {
    fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (is_silent, connections) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (silent, counted) = (Arc::clone(&is_silent), Arc::clone(&connections));
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { continue };
                counted.fetch_add(1, Ordering::SeqCst);
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let silent = Arc::clone(&silent);
                    thread::spawn(move || carry(from, to, &silent));
                }
            }
        });
        Self { port, is_silent, connections }
    }

    fn is_used(&self) -> bool {
        self.connections.load(Ordering::SeqCst) > 0
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, is_silent: &AtomicBool) {
    let mut bytes = [0; 4_096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if !is_silent.load(Ordering::SeqCst) && to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

#[test]
fn a_silent_connection_is_left_for_another_server() {
    let server = Nats::start();
    let ways = [Way::to(server.port), Way::to(server.port)];
    let address: Address = format!("nats://127.0.0.1:{},127.0.0.1:{}", ways[0].port, ways[1].port).parse().unwrap();
    // An append waits for longer than the silence may last, and for less than the client of NATS takes to notice it.
    let settings = Settings { lease: Duration::from_secs(6), max_waiting_time: PATIENCE, ..Settings::default() };
    let (connected, wait) = channel();
    let observer = Arc::new(move |connection| {
        let _ = connected.send(connection);
    });
    let client = Client(Bus::open(&address, settings, observer).unwrap());
    wait.recv_timeout(PATIENCE).expect("a connection");
    client.create(LogSpec::shared(log("open"), 1)).unwrap();
    let used = ways.iter().position(Way::is_used).unwrap();
    assert!(!ways[1 - used].is_used(), "one connection is enough");
    ways[used].is_silent.store(true, Ordering::SeqCst);
    client.append(&place("open", 0), Append::new("kept")).unwrap();
    assert!(ways[1 - used].is_used());
}
