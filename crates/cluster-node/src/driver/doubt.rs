//! Looks whether other nodes still run and how they are reached, and asks whether they serve, on its own thread: an address
//! that no longer answers may take its time.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use tidegate_cluster::{Doubts, Sign};
use tidegate_node::{Detours, LinkState, PeerStatus};

use super::error::NodeError;
use super::event::Event;
use super::inquiry::Inquirer;
use super::status::Shared;

/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(200);
/// How long an address may take to accept or refuse a connection.
const ANSWER_LIMIT: Duration = Duration::from_millis(300);

/// Begins to look, until the returned sender is dropped.
///
/// # Errors
/// In words for people, when the system gives no thread.
pub(super) fn begin(shared: Arc<Shared>, events: Sender<Event>) -> Result<Sender<()>, NodeError> {
    let (keeps_on, ended) = channel();
    let begun = Builder::new().name("cluster-doubt".into()).spawn(move || run(&shared, &events, &ended));
    begun.map(|_| keeps_on).map_err(NodeError::Thread)
}

fn run(shared: &Shared, events: &Sender<Event>, ended: &Receiver<()>) {
    let (began, mut doubts, mut told) = (Instant::now(), Doubts::default(), BTreeMap::new());
    let mut inquirer = Inquirer::default();
    let mut detours = Arc::new(Detours::new());
    while ended.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
        let peers = shared.node().cluster().peers;
        let around = shared.detours(&peers);
        if around != *detours {
            detours = Arc::new(around);
            shared.node().set_detours(&detours);
        }
        for peer in peers {
            let (name, incarnation) = (peer.name.as_str(), peer.incarnation);
            let is_linked = peer.state != LinkState::Dialing;
            if is_linked || doubts.was_linked(name, incarnation) {
                let sign = if is_linked { Sign::Linked } else { ask(&peer) };
                doubts.look(began.elapsed(), name, incarnation, sign);
            }
        }
        // A node that hands over its partitions has the answers when the last one has left.
        let asks = shared.served() == 0 || shared.leaves().0;
        let near = if asks { shared.near() } else { BTreeMap::new() };
        inquirer.look(began.elapsed(), shared.node(), &shared.inquiries, &near);
        let now = doubts.ended(began.elapsed());
        if now != told {
            let nodes: Vec<&String> = now.keys().filter(|name| !told.contains_key(*name)).collect();
            if !nodes.is_empty() {
                tracing::warn!(?nodes, "nodes of the cluster ended: their addresses refuse connections");
            }
            let _ = events.send(Event::Ended(now.clone()));
            told = now;
        }
    }
}

/// Whether anybody listens where a node did.
fn ask(peer: &PeerStatus) -> Sign {
    match TcpStream::connect_timeout(&peer.address, ANSWER_LIMIT) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Sign::Refused,
        _ => Sign::Silent,
    }
}
