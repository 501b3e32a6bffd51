//! In which order connections with output are written.
//!
//! An answer, or a message to few subscribers, is written in the turn that caused it. A message to many puts its
//! receivers in line: the shell writes a bounded number of them in each turn, the longest waiting first, so that other
//! connections are served between them. A connection in line that gets an answer or a message to few is written at
//! once, with all its waiting output.

use crate::connection::Connection;
use crate::ids::ConnectionKey;
use std::collections::VecDeque;

/// Number of receivers on this shard beyond which a message is one to many: their connections are in the line.
pub(crate) const WIDE_RECEIVERS: usize = 64;

/// Connections that packets of one client, taken at once, may name to be written in the same turn; further ones go into
/// the line, like receivers of a message to many.
const FIRST_BY_INPUT: usize = WIDE_RECEIVERS;

/// The same for one commit. It releases answers to many clients, and each of them waits for it.
const FIRST_BY_COMMIT: usize = 256;

/// The lists of [`ToWrite`] that a connection is in, and whether the buffer of its last output was large: bits of one
/// byte, since each connection has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listed(u8);

impl Listed {
    const FIRST: u8 = 1;
    const LINE: u8 = 2;
    const LARGE: u8 = 4;

    /// Whether it is written in this turn.
    #[inline]
    pub(crate) fn is_first(self) -> bool {
        self.0 & Self::FIRST != 0
    }

    pub(crate) fn leave_first(&mut self) {
        self.0 &= !Self::FIRST;
    }

    pub(crate) fn leave_line(&mut self) {
        self.0 &= !Self::LINE;
    }

    /// Whether the buffer of its last output was large.
    #[inline]
    pub(crate) fn has_large_output(self) -> bool {
        self.0 & Self::LARGE != 0
    }

    #[inline]
    pub(crate) fn note_output(&mut self, large: bool) {
        self.0 = if large { self.0 | Self::LARGE } else { self.0 & !Self::LARGE };
    }
}

/// Connections with output.
#[derive(Debug)]
pub(crate) struct ToWrite {
    /// To be written in this turn.
    pub(crate) first: Vec<ConnectionKey>,
    /// To be written in this turn or later ones.
    pub(crate) line: VecDeque<ConnectionKey>,
    /// How many have left the line, ever.
    pub(crate) left_line: u64,
    /// True if connections noted now go into the line.
    wide: bool,
    /// How many more the input at hand may note for this turn.
    left: usize,
}

impl Default for ToWrite {
    fn default() -> Self {
        Self { first: Vec::new(), line: VecDeque::new(), left_line: 0, wide: false, left: usize::MAX }
    }
}

impl ToWrite {
    /// Notes that a connection has output.
    #[inline]
    pub(crate) fn note(&mut self, connection: &mut Connection, key: ConnectionKey) {
        if !connection.listed.is_first() {
            self.note_new(connection, key);
        }
    }

    fn note_new(&mut self, connection: &mut Connection, key: ConnectionKey) {
        if !self.wide && self.left > 0 {
            self.left -= 1;
            connection.listed.0 |= Listed::FIRST;
            self.first.push(key);
        } else if !connection.blocked {
            // A blocked connection goes into the line when it is writable again.
            self.stand_in_line(connection, key);
        }
    }

    pub(crate) fn stand_in_line(&mut self, connection: &mut Connection, key: ConnectionKey) {
        if connection.listed.0 & Listed::LINE == 0 {
            connection.listed.0 |= Listed::LINE;
            self.line.push_back(key);
        }
    }

    /// Sets whether following output is for many receivers; returns the value before.
    #[inline]
    pub(crate) fn widen(&mut self, wide: bool) -> bool {
        std::mem::replace(&mut self.wide, wide)
    }

    /// Begins with packets of a client; returns the argument of [`ToWrite::end_input`].
    #[inline]
    pub(crate) fn begin_input(&mut self) -> usize {
        std::mem::replace(&mut self.left, FIRST_BY_INPUT)
    }

    /// Begins with the output that a commit releases; returns the value that [`ToWrite::end_input`] needs.
    pub(crate) fn begin_commit(&mut self) -> usize {
        std::mem::replace(&mut self.left, FIRST_BY_COMMIT)
    }

    /// Ends the work on the packets, or on the released output.
    #[inline]
    pub(crate) fn end_input(&mut self, before: usize) {
        self.left = before;
    }

    /// Connections in line.
    #[inline]
    pub(crate) fn in_line(&self) -> usize {
        self.line.len()
    }

    /// How many have left the line, ever.
    #[inline]
    pub(crate) fn left_line(&self) -> u64 {
        self.left_line
    }

    /// Gives memory back after a peak.
    pub(crate) fn shrink(&mut self) {
        self.first.shrink_to_fit();
        self.line.shrink_to_fit();
    }
}
