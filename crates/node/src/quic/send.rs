//! QUIC output at the end of a shard's turn, and connections that change their shard.

use std::sync::Arc;
use std::time::Instant;

use mio::Interest;
use mio::unix::SourceFd;
use tidegate_engine::{Millis, ShardId};

use super::connection::{Flushed, Quic};
use super::shared::{EndpointShared, QuicId};
use super::state::{Owner, token_of};
use crate::shard::Shard;

/// A timer further away than this is not moved when its deadline moves on, milliseconds. An early timer does no harm,
/// and the idle timeout of a connection in use restarts with each datagram.
const FAR_AWAY_MS: u64 = 10_000;

impl Shard {
    /// Has a connection looked at when the turn ends.
    pub(crate) fn touch_quic(&mut self, id: QuicId) {
        if let Some((quic, _)) = self.quic(id)
            && !std::mem::replace(&mut quic.touched, true)
        {
            self.quic.touched.push(id);
        }
    }

    /// Sends the packets of connections, a bounded number of each, and notes their timers.
    pub(crate) fn flush_quic(&mut self) {
        if self.quic.touched.is_empty() {
            return;
        }
        let now = Instant::now();
        let mut room = std::mem::take(&mut self.quic.room);
        for id in std::mem::take(&mut self.quic.touched) {
            let (clock, monotonic) = (self.clock, self.now.monotonic);
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
                    self.quic.touched.push(id);
                }
                Flushed::Blocked => {
                    let endpoint = Arc::clone(&quic.endpoint);
                    self.counters.quic_sends_blocked += 1;
                    self.quic.stuck.push(id);
                    self.wait_to_send(endpoint);
                }
            }
            self.counters.quic_sends += sends;
            if !keeps && before != due {
                self.quic.set_timer(id, before, due);
            }
        }
        self.quic.room = room;
    }

    /// The connection has an owner on this shard from now on.
    pub(crate) fn own_quic(&mut self, id: QuicId, owner: Owner) {
        self.quic.owners.insert(id, owner);
        self.touch_quic(id);
    }

    /// A connection leaves this shard for another, or for good.
    pub(crate) fn disown_quic(&mut self, quic: &mut Quic) {
        let id = quic.id();
        self.quic.owners.remove(&id);
        self.quic.set_timer(id, quic.due, Millis::NEVER);
        quic.due = Millis::NEVER;
        quic.touched = false;
    }

    /// A connection moves to the home of its client: its datagrams follow it.
    pub(crate) fn redirect_quic(&mut self, quic: &mut Quic, home: ShardId) {
        self.disown_quic(quic);
        let id = quic.id();
        if let Some(endpoint) = self.quic.endpoint(id.endpoint) {
            endpoint.route(id.handle, Some(home));
        } else {
            // Only the shard that has accepted a connection hands it over, and that is the one of the socket.
            tracing::error!(endpoint = Arc::strong_count(&quic.endpoint), "a connection is handed over twice");
        }
    }

    /// Asks the poller to report a socket that becomes writable, beside its other events. Only while needed: a UDP
    /// socket reports it after every sent datagram.
    fn wait_to_send(&mut self, endpoint: Arc<EndpointShared>) {
        let number = endpoint.number;
        if self.quic.waited_for.iter().any(|waited| waited.number == number) {
            return;
        }
        let (registry, fd) = (self.poll.registry(), endpoint.fd());
        let outcome = if self.quic.endpoint(number).is_some() {
            registry.reregister(&mut SourceFd(&fd), token_of(number), Interest::READABLE | Interest::WRITABLE)
        } else {
            registry.register(&mut SourceFd(&fd), token_of(number), Interest::WRITABLE)
        };
        match outcome {
            Ok(()) => self.quic.waited_for.push(endpoint),
            Err(error) => tracing::error!(%error, "a UDP socket cannot be waited for"),
        }
    }

    /// A socket takes output again.
    pub(super) fn resume_sending(&mut self, number: u16) {
        let waited_for = &mut self.quic.waited_for;
        let Some(position) = waited_for.iter().position(|waited| waited.number == number) else { return };
        let fd = waited_for.swap_remove(position).fd();
        let outcome = if self.quic.endpoint(number).is_some() {
            self.poll.registry().reregister(&mut SourceFd(&fd), token_of(number), Interest::READABLE)
        } else {
            self.poll.registry().deregister(&mut SourceFd(&fd))
        };
        if let Err(error) = outcome {
            tracing::error!(%error, "a UDP socket is reported in vain");
        }
        for id in std::mem::take(&mut self.quic.stuck) {
            if id.endpoint == number {
                self.touch_quic(id);
            } else {
                self.quic.stuck.push(id);
            }
        }
    }
}
