//! The results of reading and writing a connection.

use std::ops::Range;

/// The result of one read.
#[derive(Debug)]
pub(crate) enum Input<E> {
    /// MQTT bytes in this range of the buffer (perhaps none), and whether the read filled the buffer.
    Bytes { payload: Range<usize>, full: bool },
    /// The last MQTT bytes: the transport ended. Its final output is pending.
    Last { payload: Range<usize>, ended: E },
    /// The first bytes gave the client's address; there may be more to read.
    Introduced,
    /// No more input at the moment.
    Blocked,
    /// The peer closed its side.
    Closed,
}

/// The result of one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrote {
    /// All is written.
    All,
    /// The socket accepted the offered bytes, and more are pending.
    Some,
    /// The socket accepts no more until its next readiness.
    Blocked,
}

impl<E> Input<E> {
    /// The same with the end in the terms of another layer.
    pub(crate) fn map_end<F>(self, map: impl FnOnce(E) -> F) -> Input<F> {
        match self {
            Self::Bytes { payload, full } => Input::Bytes { payload, full },
            Self::Last { payload, ended } => Input::Last { payload, ended: map(ended) },
            Self::Introduced => Input::Introduced,
            Self::Blocked => Input::Blocked,
            Self::Closed => Input::Closed,
        }
    }
}
