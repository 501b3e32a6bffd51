//! The pipeline: a PUBLISH passes the stages that it needs, in their order, and is routed.
//!
//! The effect of a stage's answer on the publisher is decided here and nowhere else.

/// The outcome of a PUBLISH packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Progress {
    /// It was routed, rejected or answered.
    Taken,
    /// Its publisher is parked, and the packet is the first that waits with it. It is counted when it comes again.
    Deferred,
}
