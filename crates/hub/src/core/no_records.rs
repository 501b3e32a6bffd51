//! Why a message has no records.

use crate::headers::MAX_HEADER_BYTES;
use crate::message::MAX_HOPS;
use crate::steps::ComputeError;

/// Why a message has no records.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoRecords {
    /// Pipelines have published it too often.
    #[error("the message has passed {MAX_HOPS} pipelines, which publish to topics of each other")]
    Looped,
    /// Its source has left out headers.
    #[error("the headers of the message take more than {MAX_HEADER_BYTES} bytes")]
    LongHeaders,
    /// It is older than messages may become.
    #[error("the message has waited longer than `pipeline.max_age`")]
    TooOld,
    /// A step has failed.
    #[error(transparent)]
    Step(#[from] ComputeError),
}
