//! The end of connections: flush, notify the peer, drain, close.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use tidegate_engine::{ConnectionKey, Millis, Output, Reason};

use crate::limits::{CLOSE_FLUSH_MS, LINGER_MS};
use crate::shard::facets::SocketCalls;
use crate::shard::table::Flags;

/// Whether the client expects the end of the connection and waits for no answer.
fn is_expected(reason: Reason) -> bool {
    matches!(reason, Reason::NormalDisconnect | Reason::DisconnectWithWill | Reason::ConnectionLost | Reason::Moved)
}

impl SocketCalls<'_> {
    /// Starts to close a connection that the engine is done with.
    pub(crate) fn begin_close(&mut self, key: ConnectionKey, reason: Reason) {
        let Some((flags, transport)) = self.shard.table.get(key) else {
            self.shard.engine.release_connection(key);
            return;
        };
        flags.set(Flags::CLOSING);
        flags.clear(Flags::PAUSED | Flags::HELD);
        if !is_expected(reason) {
            flags.set(Flags::WILL_LINGER);
        }
        transport.close(reason);
        let blocked = flags.has(Flags::BLOCKED | Flags::BROKEN);
        if blocked || !self.has_output(key) {
            self.finish_close(key);
        } else if self.write_connection(key) {
            self.shard.dirty.push(key);
        }
        if self.shard.table.flags(key).is_some_and(|flags| !flags.has(Flags::LINGERING)) {
            self.shard.flushing.push_back((self.shard.now.monotonic.plus(CLOSE_FLUSH_MS), key));
        }
    }

    /// Whether bytes wait to be written to a connection.
    fn has_output(&mut self, key: ConnectionKey) -> bool {
        let engine = self.shard.engine.output(key).is_some_and(|output: &mut Output| !output.is_empty());
        engine || self.shard.table.get(key).is_some_and(|(_, transport)| transport.is_waiting())
    }

    /// Continues closing when the last output was written, or can never be.
    pub(crate) fn finish_close(&mut self, key: ConnectionKey) {
        let waits = self.has_output(key);
        let Some((flags, transport)) = self.shard.table.get(key) else { return };
        if flags.has(Flags::BROKEN) {
            self.drop_connection(key);
        } else if waits || flags.has(Flags::LINGERING) {
            // The writable edge, the end of the input, or a deadline continues the close.
        } else if flags.has(Flags::WILL_LINGER) {
            flags.set(Flags::LINGERING);
            transport.shutdown_write();
            let quic = transport.quic().map(|quic| quic.id());
            if flags.has(Flags::READABLE) {
                self.shard.ring.push_back(key);
            }
            self.shard.lingering.push_back((self.shard.now.monotonic.plus(LINGER_MS), key));
            if let Some(id) = quic {
                self.shard.datagrams().touch_quic(id);
            }
        } else {
            self.drop_connection(key);
        }
    }

    /// Closes connections past their deadline, after their readiness was handled: only then a slow peer is known.
    pub(crate) fn close_overdue(&mut self) {
        let now = self.shard.heard.until();
        while let Some(key) = pop_due(&mut self.shard.flushing, now) {
            if self.shard.table.flags(key).is_some_and(|flags| !flags.has(Flags::LINGERING)) {
                self.shard.counters.closed_unflushed += 1;
                self.drop_connection(key);
            }
        }
        while let Some(key) = pop_due(&mut self.shard.lingering, now) {
            self.drop_connection(key);
        }
        // A connection that closed in time leaves its deadline behind. Removing those at the front is enough to let an
        // idle shard sleep.
        forget_closed(&mut self.shard.flushing, |key| self.shard.table.flags(key).is_some());
        forget_closed(&mut self.shard.lingering, |key| self.shard.table.flags(key).is_some());
    }

    /// Closes the socket and gives the key back.
    fn drop_connection(&mut self, key: ConnectionKey) {
        let Some((_, mut transport, seat)) = self.shard.table.remove(key) else { return };
        if let Some(quic) = transport.quic() {
            self.shard.datagrams().disown_quic(quic);
        }
        self.shard.admission().free_seat(seat);
        self.shard.engine.release_connection(key);
        self.shard.shared.connections.fetch_sub(1, Ordering::Relaxed);
        self.shard.shortage.relieve();
    }

    /// Closes everything, at the end of the shard's life.
    pub(crate) fn close_all(&mut self) {
        for key in self.shard.table.keys() {
            if self.has_output(key) {
                self.shard.counters.closed_unflushed += 1;
            }
            self.drop_connection(key);
        }
        if self.shard.counters.closed_unflushed > 0 {
            let connections = self.shard.counters.closed_unflushed;
            tracing::warn!(
                shard = self.shard.place.shard.0,
                connections,
                "connections were closed before all output was sent"
            );
        }
    }
}

fn pop_due(queue: &mut VecDeque<(Millis, ConnectionKey)>, now: Millis) -> Option<ConnectionKey> {
    if queue.front()?.0 > now {
        return None;
    }
    queue.pop_front().map(|(_, key)| key)
}

fn forget_closed(queue: &mut VecDeque<(Millis, ConnectionKey)>, mut is_open: impl FnMut(ConnectionKey) -> bool) {
    while queue.front().is_some_and(|(_, key)| !is_open(*key)) {
        queue.pop_front();
    }
}
