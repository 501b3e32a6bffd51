//! A wire between two nodes that a test can stop or cut.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often a direction in which nothing comes looks whether it is over. Nothing depends on it but how soon a test
/// ends.
const LOOK: Duration = Duration::from_millis(5);

#[derive(Default)]
struct State {
    gates: Mutex<Gates>,
    changed: Condvar,
    sockets: Mutex<Vec<TcpStream>>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Door {
    #[default]
    Open,
    /// Connections are closed as soon as they are taken.
    Closed,
    /// The proxy ends.
    Gone,
}

#[derive(Clone, Copy, Default)]
struct Gates {
    /// Nothing goes from the one who connects to the one who is connected to.
    there_stopped: bool,
    /// And nothing back.
    back_stopped: bool,
    door: Door,
}

impl State {
    fn set(&self, change: impl FnOnce(&mut Gates)) {
        change(&mut self.gates.lock().unwrap());
        self.changed.notify_all();
    }

    fn ends(&self) -> bool {
        self.gates.lock().unwrap().door == Door::Gone
    }

    /// Waits until a direction may go on.
    fn pass(&self, there: bool) {
        let stopped = |gates: &mut Gates| {
            gates.door != Door::Gone && if there { gates.there_stopped } else { gates.back_stopped }
        };
        drop(self.changed.wait_while(self.gates.lock().unwrap(), stopped).unwrap());
    }
}

/// Takes connections and passes their bytes on.
pub(super) struct Proxy {
    pub(super) address: SocketAddr,
    state: Arc<State>,
    accepting: Option<JoinHandle<()>>,
}

impl Proxy {
    /// In front of an address.
    pub(super) fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        let accepting = std::thread::spawn(move || {
            for client in listener.incoming() {
                if shared.ends() {
                    return;
                }
                let client = client.unwrap();
                if shared.gates.lock().unwrap().door == Door::Closed {
                    continue;
                }
                let Ok(server) = TcpStream::connect(target) else { continue };
                let mut sockets = shared.sockets.lock().unwrap();
                for socket in [&client, &server] {
                    socket.set_nodelay(true).unwrap();
                    sockets.push(socket.try_clone().unwrap());
                }
                pass(client.try_clone().unwrap(), server.try_clone().unwrap(), Arc::clone(&shared), true);
                pass(server, client, Arc::clone(&shared), false);
            }
        });
        Self { address, state, accepting: Some(accepting) }
    }

    /// Stops to pass bytes on, in one direction or both: sent bytes wait.
    pub(super) fn stop(&self, there: bool, back: bool) {
        self.state.set(|gates| (gates.there_stopped, gates.back_stopped) = (there, back));
    }

    /// Breaks all connections and passes no further ones.
    pub(super) fn close(&self) {
        self.state.set(|gates| gates.door = Door::Closed);
        self.cut();
    }

    /// Passes connections again.
    pub(super) fn open(&self) {
        self.state.set(|gates| gates.door = Door::Open);
    }

    /// Breaks all connections.
    pub(super) fn cut(&self) {
        for socket in self.state.sockets.lock().unwrap().drain(..) {
            // It may have ended already.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.set(|gates| gates.door = Door::Gone);
        self.cut();
        // So that it looks.
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            accepting.join().unwrap();
        }
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, state: Arc<State>, there: bool) {
    std::thread::spawn(move || {
        from.set_read_timeout(Some(LOOK)).unwrap();
        let mut buffer = vec![0; 64 * 1024];
        while !state.ends() {
            state.pass(there);
            match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => {
                    // It may have come while the test was stopping the wire.
                    state.pass(there);
                    if to.write_all(&buffer[..length]).is_err() {
                        break;
                    }
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(_) => break,
            }
        }
        // One end is the end of both.
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    });
}
