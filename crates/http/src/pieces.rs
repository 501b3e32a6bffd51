//! An answer of HTTP/2 in pieces: when the client has room for the next one, it reads.

use std::sync::Arc;

use bytes::Bytes;

use crate::activity::AnswerWatch;

/// Bytes of a piece of an answer.
const PIECE: usize = 16 << 10;

/// An answer of HTTP/2, whose next piece is asked for when the client has room for it.
pub(crate) struct Pieces {
    rest: Bytes,
    reading: Arc<AnswerWatch>,
}

/// The bytes of an answer, which count as unread until the last of them is written.
struct Unwritten {
    bytes: Bytes,
    _reading: Arc<AnswerWatch>,
}

impl AsRef<[u8]> for Unwritten {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Pieces {
    pub(crate) fn new(bytes: Bytes, reading: AnswerWatch) -> Self {
        let reading = Arc::new(reading);
        let rest = Bytes::from_owner(Unwritten { bytes, _reading: Arc::clone(&reading) });
        Self { rest, reading }
    }

    /// Bytes that were not taken yet.
    pub(crate) fn len(&self) -> usize {
        self.rest.len()
    }

    /// The next piece.
    pub(crate) fn take(&mut self) -> Option<Bytes> {
        if self.rest.is_empty() {
            return None;
        }
        self.reading.advance();
        let piece = self.rest.split_to(PIECE.min(self.rest.len()));
        if self.rest.is_empty() {
            // An empty rest would keep the bytes.
            self.rest = Bytes::new();
        }
        Some(piece)
    }
}
