//! The content of a partition as bytes.
//!
//! Deadlines are absolute times in images, so that they outlive the process and a step of its wall clock. A message
//! that has expired on the way is dropped with its reason when its turn comes, like one that expired in memory.
//! Returned bytes are accepted as a whole or not at all: a checksum finds damage, and every field is checked as well,
//! so that no image makes a state that the engine could not reach alone.

use crate::cluster::transfer::error::ImageError;

pub(crate) mod ahead;
pub(crate) mod arrivals;
pub(crate) mod connection;
mod export;
pub(crate) mod for_groups;
pub(crate) mod forwarding;
pub(crate) mod handover;
mod import;
pub(crate) mod last_copies;
pub(crate) mod moving;
pub(crate) mod noted;
pub(crate) mod owed;
pub(crate) mod read_session;
pub(crate) mod tail;

pub(crate) use crate::cluster::transfer::error::IMAGE_VERSION;
use crate::hash::hash_bytes;
use crate::wire::{WireReader, WireWrite};
pub(crate) use handover::Handover;
pub use moving::{PartitionImage, Snapshot};
pub use owed::Owed;

/// Length of the seal, which is in front of the content of an image.
pub(crate) const SEAL_LEN: usize = 1 + 8;

/// A number that reveals damaged bytes.
fn checksum(bytes: &[u8]) -> u64 {
    hash_bytes(u64::from(IMAGE_VERSION), bytes)
}

/// Room for the seal, which [`seal`] fills in.
pub(crate) fn begin() -> Vec<u8> {
    vec![0; SEAL_LEN]
}

/// Completes an image: its version and the checksum of its content.
pub(crate) fn seal(mut image: Vec<u8>) -> Vec<u8> {
    let sum = checksum(image.get(SEAL_LEN..).unwrap_or_default());
    let mut head = Vec::with_capacity(SEAL_LEN);
    head.put_u8(IMAGE_VERSION);
    head.put_u64(sum);
    image.splice(..SEAL_LEN.min(image.len()), head);
    image
}

/// The content of an image of this version that is not damaged.
pub(crate) fn open(image: &[u8]) -> Result<WireReader<'_>, ImageError> {
    let mut reader = WireReader::new(image);
    let version = reader.u8("a version")?;
    if version != IMAGE_VERSION {
        return Err(ImageError::Version(version));
    }
    let sum = reader.u64("a checksum")?;
    if sum != checksum(image.get(SEAL_LEN..).unwrap_or_default()) {
        return Err(ImageError::Damaged);
    }
    Ok(reader)
}

#[cfg(test)]
mod tests;
