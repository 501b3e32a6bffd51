//! State as bytes: what a partition holds.
//!
//! Deadlines are absolute times in images, so that they outlive the process and a step of its wall clock. A message
//! that has expired on the way is dropped with its reason when its turn comes, like one that expired in memory. Bytes
//! that come back are taken in as a whole or not at all: a checksum tells damage, and what it would not tell is checked
//! field by field, so that no image makes a state that the engine could not have come to by itself.

mod adopting;
mod error;
mod export;
mod fields;
mod forwarding;
pub(crate) mod imaging;
mod import;
pub(crate) mod leaving;
mod moving;
mod owed;
mod read_session;
mod rest;

pub(crate) use self::{begin as begin_image, open as open_image, seal as seal_image};
pub use adopting::{AdoptError, UplinkImage};
pub use error::ImageError;
pub(crate) use fields::{
    put_delivery, put_publication, read_delivery, read_message as read_publication, read_properties,
    read_subscription_id,
};
pub(crate) use moving::released;
pub use moving::{PartitionImage, Snapshot};
pub use owed::Owed;
pub(crate) use rest::Handover;

use crate::hash::hash_bytes;
use crate::wire::{WireReader, WireWrite};

/// Version of the layout of a partition's image; a reader refuses others.
const IMAGE_VERSION: u8 = 9;

/// What stands before the content of an image.
const SEAL_LEN: usize = 1 + 8;

/// A number that tells bytes from damaged ones.
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
