//! One direction of a pipe.

use std::io::IoSlice;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::CAPACITY;

/// Bytes from one end to the other.
#[derive(Debug, Default)]
pub(crate) struct Lane(Mutex<State>);

#[expect(clippy::struct_excessive_bools, reason = "the flags are independent")]
#[derive(Debug)]
struct State {
    bytes: Vec<u8>,
    /// Bytes of these that are read.
    read: usize,
    /// Whether the reading end is to be woken by the next bytes.
    is_read_awaited: bool,
    /// Whether the writing end is to be woken when there is room.
    is_room_awaited: bool,
    /// Whether there will be no more bytes.
    has_ended: bool,
    /// Whether the reading end has gone.
    is_left: bool,
}

/// The result of a read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The number of bytes, and whether a further read finds more bytes, or the end.
    Bytes(usize, bool),
    Nothing,
    End,
}

impl Default for State {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            read: 0,
            // A reader that has not looked yet may be asleep.
            is_read_awaited: true,
            is_room_awaited: false,
            has_ended: false,
            is_left: false,
        }
    }
}

impl State {
    fn unread(&self) -> usize {
        self.bytes.len() - self.read
    }

    /// Moves the rest down once half of the room lies behind the reader, so that the memory is bounded.
    fn tidy(&mut self) {
        if self.unread() == 0 {
            self.read = 0;
            self.bytes.clear();
            // Memory for a burst is kept: it costs more to get it from the system again than to carry the bytes.
            self.bytes.shrink_to(CAPACITY);
        } else if self.read >= CAPACITY / 2 {
            self.bytes.drain(..self.read);
            self.read = 0;
        }
    }
}

impl Lane {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds as many bytes as there is room for. Returns their number, and whether to wake the reading end; `None` where
    /// that has gone.
    pub(crate) fn add(&self, slices: &[IoSlice<'_>]) -> Option<(usize, bool)> {
        let mut state = self.state();
        if state.is_left || state.has_ended {
            return None;
        }
        let mut added = 0;
        for slice in slices {
            let room = CAPACITY - state.unread();
            let fits = slice.get(..room).unwrap_or(slice);
            state.bytes.extend_from_slice(fits);
            added += fits.len();
            if fits.len() < slice.len() {
                state.is_room_awaited = true;
                break;
            }
        }
        let rings = added > 0 && std::mem::take(&mut state.is_read_awaited);
        Some((added, rings))
    }

    /// Moves bytes to `buffer`. Returns the outcome, and whether to wake the writing end.
    pub(crate) fn take(&self, buffer: &mut [u8]) -> (Taken, bool) {
        let mut state = self.state();
        let count = state.unread().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..count), state.bytes.get(state.read..state.read + count)) {
            to.copy_from_slice(from);
        }
        state.read += count;
        state.tidy();
        // A reader that has seen all of them looks again after a ring only.
        state.is_read_awaited = state.unread() == 0;
        let rings = state.is_room_awaited && state.unread() <= CAPACITY / 2;
        state.is_room_awaited &= !rings;
        let taken = match count {
            0 if state.has_ended => Taken::End,
            0 => Taken::Nothing,
            count => Taken::Bytes(count, state.unread() > 0 || state.has_ended),
        };
        (taken, rings)
    }

    /// There will be no more bytes. Returns whether to wake the reading end.
    pub(crate) fn end(&self) -> bool {
        let mut state = self.state();
        state.has_ended = true;
        std::mem::take(&mut state.is_read_awaited)
    }

    /// The reading end has gone, and with it all bytes.
    pub(crate) fn leave(&self) {
        let mut state = self.state();
        state.is_left = true;
        (state.bytes, state.read) = (Vec::new(), 0);
    }

    /// Whether the writing end still waits for room. One whose reader has gone does not.
    pub(crate) fn is_room_awaited(&self) -> bool {
        let state = self.state();
        state.is_room_awaited && !state.is_left
    }
}
