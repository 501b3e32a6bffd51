//! Whether a node that says that it is ready serves a new client: asked from outside, all the time.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between two questions to one node.
const PAUSE: Duration = Duration::from_millis(200);
/// How long an answer of `/readyz` may take. A node that takes longer is not ready.
const READY_LIMIT: Duration = Duration::from_secs(1);
/// Complaints that wait to be read; more are left out.
const COMPLAINTS: usize = 100;

/// A node as observers know it.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    pub(super) name: String,
    pub(super) port: u16,
    pub(super) admin: u16,
}

/// What observers and the run share.
#[derive(Debug, Default)]
struct Shared {
    is_over: Mutex<bool>,
    over: Condvar,
    checked: AtomicU64,
}

/// A thread for each node. They end with this value.
#[derive(Debug)]
pub(super) struct Observers {
    shared: Arc<Shared>,
    ready: Vec<Arc<AtomicBool>>,
    complaints: Receiver<String>,
}

/// How a new client fared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fared {
    /// It got its PUBACK.
    Served,
    /// Its connection was refused or closed: it can go elsewhere.
    Sent,
    /// It got no answer.
    Waited,
}

impl Observers {
    /// Starts a thread for each node. A client may wait for `limit`: longer than any fault of one node.
    pub(super) fn start(nodes: Vec<Watched>, limit: Duration) -> Self {
        let (sender, complaints) = mpsc::sync_channel(COMPLAINTS);
        let shared = Arc::new(Shared::default());
        let mut ready = Vec::new();
        for node in nodes {
            let is_ready = Arc::new(AtomicBool::new(false));
            ready.push(Arc::clone(&is_ready));
            let (shared, sender) = (Arc::clone(&shared), sender.clone());
            std::thread::spawn(move || observe(&node, limit, &is_ready, &shared, &sender));
        }
        Self { shared, ready, complaints }
    }

    /// True if every node said so when it was last asked.
    pub(super) fn are_ready(&self) -> bool {
        self.ready.iter().all(|ready| ready.load(Ordering::Relaxed))
    }

    /// Round trips so far.
    pub(super) fn checked(&self) -> u64 {
        self.shared.checked.load(Ordering::Relaxed)
    }

    /// The next node that was ready and did not serve.
    pub(super) fn complaint(&self) -> Option<String> {
        self.complaints.try_recv().ok()
    }
}

impl Drop for Observers {
    fn drop(&mut self) {
        *self.shared.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.over.notify_all();
    }
}

fn observe(node: &Watched, limit: Duration, is_ready: &AtomicBool, shared: &Shared, sender: &SyncSender<String>) {
    for number in 0_u64.. {
        let ready = says_ready(node.admin);
        is_ready.store(ready, Ordering::Relaxed);
        if ready {
            let begun = Instant::now();
            // Each client id belongs to another partition, so that all are asked in time.
            let fared = round_trip(node.port, &format!("observer-{}-{number}", node.name), limit);
            shared.checked.fetch_add(1, Ordering::Relaxed);
            if fared == Fared::Waited && says_ready(node.admin) {
                let text = format!("{} is ready, and a client waited {:?} in vain", node.name, begun.elapsed());
                // A full channel has complaints enough.
                let _ = sender.try_send(text);
            }
        }
        let guard = shared.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        let (over, _) = shared.over.wait_timeout(guard, PAUSE).unwrap_or_else(PoisonError::into_inner);
        if *over {
            return;
        }
    }
}

/// True if `/readyz` answers 200.
fn says_ready(admin: u16) -> bool {
    let ask = || -> io::Result<bool> {
        let mut stream = dial(admin, READY_LIMIT)?;
        stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut status = [0; 12];
        stream.read_exact(&mut status)?;
        Ok(status.ends_with(b" 200"))
    };
    ask().unwrap_or(false)
}

/// A new client connects with MQTT 3.1.1, publishes at QoS 1 and leaves.
fn round_trip(port: u16, id: &str, limit: Duration) -> Fared {
    let exchange = || -> io::Result<()> {
        let mut stream = dial(port, limit)?;
        stream.write_all(&connect(id))?;
        let mut connack = [0; 4];
        stream.read_exact(&mut connack)?;
        if connack != [0x20, 2, 0, 0] {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        // PUBLISH at QoS 1 to `o` with packet id 1, and what acknowledges it.
        stream.write_all(&[0x32, 5, 0, 1, b'o', 0, 1])?;
        let mut puback = [0; 4];
        stream.read_exact(&mut puback)?;
        stream.write_all(&[0xe0, 0])
    };
    match exchange() {
        Ok(()) => Fared::Served,
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => Fared::Waited,
        Err(_) => Fared::Sent,
    }
}

fn dial(port: u16, limit: Duration) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), limit)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    Ok(stream)
}

/// CONNECT of MQTT 3.1.1 with a clean session and without a keep-alive. The id is shorter than 100 bytes.
fn connect(id: &str) -> Vec<u8> {
    let body = [&[0, 4][..], b"MQTT", &[4, 2, 0, 0], &[0, id.len() as u8], id.as_bytes()].concat();
    [&[0x10, body.len() as u8][..], &body].concat()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_client_that_gets_no_answer_waited_in_vain() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(round_trip(port, "x", Duration::from_millis(20)), Fared::Waited);
        drop(listener);
        assert_eq!(round_trip(port, "x", Duration::from_secs(5)), Fared::Sent);
        assert!(!says_ready(port));
    }
}
