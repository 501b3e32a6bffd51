//! The order in which the shell writes outputs.

use crate::engine::Engine;
use crate::ids::ConnectionKey;

impl Engine {
    /// The next connection with output, first those that are to be written in this turn, then those in line. For a
    /// shell that writes all of them; one that bounds its turns takes [`Engine::pop_first`] and
    /// [`Engine::pop_in_line`].
    #[inline]
    pub fn pop_dirty(&mut self) -> Option<ConnectionKey> {
        self.pop_first().or_else(|| self.pop_in_line())
    }

    /// The next connection that is to be written in this turn, each once per turn.
    #[inline]
    pub fn pop_first(&mut self) -> Option<ConnectionKey> {
        let key = self.state.to_write.first.pop()?;
        if let Some(connection) = self.state.connections.get_mut(key) {
            connection.dirty = false;
        }
        Some(key)
    }

    /// The connection that has stood in line for the longest time. It may have no output any more, or be gone.
    #[inline]
    pub fn pop_in_line(&mut self) -> Option<ConnectionKey> {
        let key = self.state.to_write.line.pop_front()?;
        if let Some(connection) = self.state.connections.get_mut(key) {
            connection.in_line = false;
        }
        self.state.to_write.left_line += 1;
        Some(key)
    }

    /// Connections in line. As long as there are some, the shell has something to write.
    #[inline]
    pub fn in_line(&self) -> usize {
        self.state.to_write.in_line()
    }

    /// Puts a connection in line: its transport takes output again, or has not taken all that it was given.
    pub fn stand_in_line(&mut self, key: ConnectionKey) {
        if let Some(connection) = self.state.connections.get_mut(key) {
            self.state.to_write.stand_in_line(connection, key);
        }
    }
}
