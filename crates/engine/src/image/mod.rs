//! State as bytes: what a partition holds, and queues that were moved out of memory.
//!
//! Deadlines are absolute times in images, so that they outlive the process; a message that expired on the way is dropped
//! with its reason when it is taken in.

mod fields;
mod paging;
mod partition;

pub use paging::{PageError, PagedQueue};
pub use partition::{ImageError, Owed};
