//! QUIC output at the end of a shard's turn, and connections that change their shard.

use std::sync::Arc;
use std::time::Instant;

use mio::Interest;
use mio::unix::SourceFd;
use tidegate_engine::{Millis, ShardId};

use super::state::Owner;
use crate::quic::{EndpointShared, Flushed, Quic, QuicId, token_of};
use crate::shard::facets::QuicCalls;

/// A timer further away than this is not moved when its deadline moves on, milliseconds. An early timer does no harm,
/// and the idle timeout of a connection in use restarts with each datagram.
const FAR_AWAY_MS: u64 = 10_000;

impl QuicCalls<'_> {
    /// Has a connection looked at when the turn ends.
    pub(crate) fn touch_quic(&mut self, id: QuicId) {
        if let Some((quic, _)) = self.quic(id)
            && !std::mem::replace(&mut quic.touched, true)
        {
            self.shard.quic.touched.push(id);
        }
    }

    /// Sends the packets of connections, a bounded number of each, and notes their timers.
    pub(crate) fn flush_quic(&mut self) {
        if self.shard.quic.touched.is_empty() {
            return;
        }
        let now = Instant::now();
        let mut room = std::mem::take(&mut self.shard.quic.room);
        for id in std::mem::take(&mut self.shard.quic.touched) {
            let (clock, monotonic) = (self.shard.clock, self.shard.now.monotonic);
            let Some((quic, _)) = self.quic(id) else { continue };
            quic.touched = false;
            quic.tell_endpoint();
            let mut sends = 0;
            let flushed = quic.flush(now, &mut room, &mut sends);
            let before = quic.due;
            let due = quic.connection.poll_timeout().map_or(Millis::NEVER, |at| clock.at(at));
            let keeps = before <= due && before != Millis::NEVER && before > monotonic.plus(FAR_AWAY_MS);
            if !keeps {
                quic.due = due;
            }
            match flushed {
                Flushed::All => {}
                Flushed::More => {
                    quic.touched = true;
                    self.shard.quic.touched.push(id);
                }
                Flushed::Blocked => {
                    let endpoint = Arc::clone(&quic.endpoint);
                    self.shard.counters.quic_sends_blocked += 1;
                    self.shard.quic.stuck.push(id);
                    self.wait_to_send(endpoint);
                }
            }
            self.shard.counters.quic_sends += sends;
            if !keeps && before != due {
                self.shard.quic.set_timer(id, before, due);
            }
        }
        self.shard.quic.room = room;
    }

    /// The connection has an owner on this shard from now on.
    pub(crate) fn own_quic(&mut self, id: QuicId, owner: Owner) {
        self.shard.quic.owners.insert(id, owner);
        self.touch_quic(id);
    }

    /// A connection leaves this shard for another, or for good.
    pub(crate) fn disown_quic(&mut self, quic: &mut Quic) {
        let id = quic.id();
        self.shard.quic.owners.remove(&id);
        self.shard.quic.set_timer(id, quic.due, Millis::NEVER);
        quic.due = Millis::NEVER;
        quic.touched = false;
    }

    /// A connection moves to the home of its client: its datagrams follow it.
    pub(crate) fn redirect_quic(&mut self, quic: &mut Quic, home: ShardId) {
        self.disown_quic(quic);
        let id = quic.id();
        if let Some(endpoint) = self.shard.quic.endpoint(id.endpoint) {
            endpoint.route(id.handle, Some(home));
        } else {
            // Only the shard that has accepted a connection hands it over, and that is the one of the socket.
            tracing::error!(endpoint = Arc::strong_count(&quic.endpoint), "a connection was handed over twice");
        }
    }

    /// Asks the poller to report a socket that becomes writable, beside its other events. Only while needed: a UDP
    /// socket reports it after every sent datagram.
    fn wait_to_send(&mut self, endpoint: Arc<EndpointShared>) {
        let number = endpoint.number;
        if self.shard.quic.waited_for.iter().any(|waited| waited.number == number) {
            return;
        }
        let (registry, fd) = (self.shard.poll.registry(), endpoint.fd());
        let outcome = if self.shard.quic.endpoint(number).is_some() {
            registry.reregister(&mut SourceFd(&fd), token_of(number), Interest::READABLE | Interest::WRITABLE)
        } else {
            registry.register(&mut SourceFd(&fd), token_of(number), Interest::WRITABLE)
        };
        match outcome {
            Ok(()) => self.shard.quic.waited_for.push(endpoint),
            Err(error) => tracing::error!(%error, "cannot register a UDP socket for events"),
        }
    }

    /// A socket takes output again.
    pub(super) fn resume_sending(&mut self, number: u16) {
        let waited_for = &mut self.shard.quic.waited_for;
        let Some(position) = waited_for.iter().position(|waited| waited.number == number) else { return };
        let fd = waited_for.swap_remove(position).fd();
        let outcome = if self.shard.quic.endpoint(number).is_some() {
            self.shard.poll.registry().reregister(&mut SourceFd(&fd), token_of(number), Interest::READABLE)
        } else {
            self.shard.poll.registry().deregister(&mut SourceFd(&fd))
        };
        if let Err(error) = outcome {
            tracing::error!(%error, "a UDP socket reports events without data");
        }
        for id in std::mem::take(&mut self.shard.quic.stuck) {
            if id.endpoint == number {
                self.touch_quic(id);
            } else {
                self.shard.quic.stuck.push(id);
            }
        }
    }
}
