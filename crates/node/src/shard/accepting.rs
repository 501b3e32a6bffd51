//! Accepts connections, and handles failures of accept.

use std::io;
use std::sync::atomic::Ordering;

use crate::limits::ACCEPTS_PER_TURN;
use crate::listener::{AcceptFailure, Accepted};
use crate::shard::facets::AcceptCalls;

impl AcceptCalls<'_> {
    /// Whether connections wait to be accepted and may be.
    pub(crate) fn wants_to_accept(&mut self) -> bool {
        self.shard.serving
            && self.shard.acceptors.iter().any(|acceptor| acceptor.ready)
            && !self.shard.shortage.is_resting(self.shard.now.monotonic)
    }

    /// Accepts a bounded number of connections from each listener that has some.
    pub(crate) fn accept_connections(&mut self) {
        if !self.wants_to_accept() {
            return;
        }
        self.shard.reserve.refill();
        for position in 0..self.shard.acceptors.len() {
            self.accept_from(position);
        }
    }

    /// Closes the listeners for clients, before the node stops. Other nodes still hand clients over to those at home here.
    pub(crate) fn close_to_clients(&mut self) {
        self.shard.quic.stop_accepting();
        // Dropping a listener closes it. The others keep their tokens.
        self.shard.acceptors.retain(|acceptor| acceptor.is_for_nodes);
    }

    fn accept_from(&mut self, position: usize) {
        let mut failures = 0;
        for _ in 0..ACCEPTS_PER_TURN {
            let Some(acceptor) = self.shard.acceptors.get_mut(position).filter(|acceptor| acceptor.ready) else {
                return;
            };
            let error = match acceptor.accept() {
                Ok(Accepted::Connection(transport, peer)) => {
                    let listener = acceptor.id();
                    self.shard.admission().admit_accepted(transport, listener, peer);
                    continue;
                }
                Ok(Accepted::TooManyHandshakes(address)) => {
                    self.shard.counters.tls_refused_full += 1;
                    self.shard.admission().record_too_many_handshakes(address);
                    if let Some(times) = self.shard.unfit.note(self.shard.now.monotonic) {
                        tracing::warn!(
                            times,
                            "too many TLS handshakes are in progress: new connections are closed immediately"
                        );
                    }
                    continue;
                }
                Err(error) => error,
            };
            match AcceptFailure::of(&error) {
                AcceptFailure::Empty => acceptor.ready = false,
                AcceptFailure::ThisOne => {
                    self.shard.counters.accept_failed += 1;
                    failures += 1;
                    // A failure of every accept is not caused by one connection.
                    if failures == ACCEPTS_PER_TURN {
                        self.rest("accepting fails again and again", &error);
                    }
                }
                AcceptFailure::Exhausted => {
                    if self.turn_one_away(position) {
                        self.rest("nothing left for another connection: raise the limit of open files or lower that of connections", &error);
                    }
                    return;
                }
            }
        }
    }

    /// The next client is let in on the file kept for this and out again, so that it knows. The others wait. Says
    /// whether there was one: the system runs out of files before it looks who is waiting.
    fn turn_one_away(&mut self, position: usize) -> bool {
        let Some(acceptor) = self.shard.acceptors.get_mut(position) else { return false };
        let outcome = self.shard.reserve.spend(|| acceptor.accept().map(drop));
        let empty = outcome.is_err_and(|error| AcceptFailure::of(&error) == AcceptFailure::Empty);
        acceptor.ready = !empty;
        self.shard.counters.accept_exhausted += u64::from(!empty);
        !empty
    }

    /// Stops accepting until a connection closes, or for a while.
    fn rest(&mut self, why: &str, error: &io::Error) {
        self.shard.shortage.rest(self.shard.now.monotonic);
        if let Some(times) = self.shard.shortage.note(self.shard.now.monotonic) {
            let connections = self.shard.shared.connections.load(Ordering::Relaxed);
            tracing::error!(%error, times, connections, "{why}");
        }
    }
}
