//! The protocol between nodes of a cluster: frames over one TCP connection, and the handshake that begins it.
//!
//! A frame is `length (u32) | kind (u8) | body`, the length being that of kind and body; numbers are little-endian.
//! [`Frame`] has the kinds, [`Hello`] the handshake.

mod carried;
mod error;
mod frame;
mod hello;
#[cfg(test)]
mod tests;
mod version;

pub use carried::{Part, Portion};
pub use error::FrameError;
pub use frame::{
    BATCH_HEAD_BYTES, Frame, MAX_FRAME_BYTES, MAX_GREETING_BYTES, begin_batch, end_batch, put_frame, split_frame,
};
pub use hello::{Hello, NONCE_BYTES, Refusal};
pub use version::LINK_VERSION;

pub use crate::secret::PROOF_BYTES;
