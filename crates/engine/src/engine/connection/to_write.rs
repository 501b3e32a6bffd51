//! The order in which the shell writes outputs.

use crate::connection::Phase;
use crate::engine::facets::OutputCalls;
use crate::event::Event;
use crate::ids::ConnectionKey;
use crate::memory::KERNEL_BUFFER_BYTES;
use crate::now::Now;
use crate::session::Flow;
use crate::state::{high_water, open_output};

impl OutputCalls<'_> {
    /// Appends a frame for the node that relays a client, behind all packets so far.
    pub fn append_frame(&mut self, key: ConnectionKey, frame: &[u8]) {
        let state = &mut self.engine.state;
        if let Some(connection) = state.connections.get_mut(key) {
            open_output(connection, key, &mut state.to_write, &mut state.pool).append(frame);
        }
    }

    /// The next connection with output, first connections to be written in this turn, then connections in line. For a
    /// shell that writes all of them; one that bounds its turns takes
    /// [`OutputCalls::pop_first`](crate::OutputCalls::pop_first) and
    /// [`OutputCalls::pop_in_line`](crate::OutputCalls::pop_in_line).
    #[inline]
    pub fn pop_dirty(&mut self) -> Option<ConnectionKey> {
        self.pop_first().or_else(|| self.pop_in_line())
    }

    /// The next connection that is to be written in this turn, each once per turn.
    #[inline]
    pub fn pop_first(&mut self) -> Option<ConnectionKey> {
        let key = self.engine.state.to_write.first.pop()?;
        if let Some(connection) = self.engine.state.connections.get_mut(key) {
            connection.listed.leave_first();
        }
        Some(key)
    }

    /// The connection that has stood in line for the longest time. It may have no output any more, or be gone.
    #[inline]
    pub fn pop_in_line(&mut self) -> Option<ConnectionKey> {
        let key = self.engine.state.to_write.line.pop_front()?;
        if let Some(connection) = self.engine.state.connections.get_mut(key) {
            connection.listed.leave_line();
        }
        self.engine.state.to_write.left_line += 1;
        Some(key)
    }

    /// Connections in line. As long as there are some, the shell has something to write.
    #[inline]
    pub fn in_line(&self) -> usize {
        self.engine.state.to_write.in_line()
    }

    /// Puts a connection in line: its transport takes output again, or has not taken all that it was given.
    pub fn stand_in_line(&mut self, key: ConnectionKey) {
        if let Some(connection) = self.engine.state.connections.get_mut(key) {
            self.engine.state.to_write.stand_in_line(connection, key);
        }
    }

    /// Tells that output was written as far as the transport took it. Frees the buffer if that was all, and sends from
    /// the session's queue what there is room for.
    #[inline]
    pub fn handle_written(&mut self, now: Now, key: ConnectionKey) {
        let Some(connection) = self.engine.state.connections.get_mut(key) else { return };
        let written = connection.output.as_mut().map_or(0, |output| output.take_written());
        self.engine.state.counters.bytes_out += written;
        self.engine.state.meters.of(connection.payer).bytes_out += written;
        let done = connection.output.as_ref().is_none_or(|output| !output.is_writable());
        if connection.output.as_ref().is_some_and(|output| output.is_empty())
            && !connection.is_suspended()
            && let Some(output) = connection.output.take()
        {
            connection.listed.note_output(self.engine.state.pool.put(output));
        }
        if done == connection.blocked {
            // A socket that takes no more holds a full kernel buffer, which is memory like any other.
            connection.blocked = !done;
            if done {
                self.engine.state.memory.held -= KERNEL_BUFFER_BYTES;
                self.engine.state.blocked_connections -= 1;
            } else {
                self.engine.state.memory.held += KERNEL_BUFFER_BYTES;
                self.engine.state.blocked_connections += 1;
            }
            self.engine.state.high_water =
                high_water(&self.engine.state.settings, self.engine.state.blocked_connections);
        }
        if connection.paused && connection.phase == Phase::Open {
            // It reads, so it lives, and its input is read again once it has caught up.
            connection.last_seen = now.monotonic;
            if !connection.is_parked()
                && connection.output_len() <= self.engine.state.settings.limits.output_high_water as usize / 2
            {
                connection.paused = false;
                self.engine.state.events.push_back(Event::ResumeReading { key });
            }
        }
        let Some(session) = connection.session else { return };
        let waiting = self.engine.state.sessions.get(session.0).is_some_and(|session| {
            let waits = |flow: &Flow| !flow.queue.is_empty() || !flow.blocking.is_empty() || flow.to_resend > 0;
            session.flow.as_deref().is_some_and(waits)
                || session.rare.as_ref().is_some_and(|rare| !rare.fetches.is_empty())
        });
        if waiting && connection.phase == Phase::Open {
            // A client with a queue is late anyway, and must not delay clients without one.
            let before = self.engine.state.to_write.widen(self.engine.state.to_write.in_line() > 0);
            self.engine.state.refill(now.monotonic, &mut self.engine.layouts, session);
            self.engine.state.to_write.widen(before);
            self.engine.after_frame(now);
        }
    }
}
