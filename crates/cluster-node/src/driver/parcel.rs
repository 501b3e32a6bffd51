//! A message between nodes for a move: a head in JSON, and bytes behind it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How a parcel begins; the last byte is its version.
const MAGIC: &[u8; 4] = b"TGH\x01";

/// The head of a parcel of images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ImagesHead {
    /// The name of the old home.
    pub(super) from: String,
    /// The partitions of the images, in the order of the pieces.
    pub(super) partitions: Vec<u16>,
    /// The messages owed by each of these partitions.
    pub(super) owed: Vec<Value>,
    /// Whether the last piece is messages of brokers.
    #[serde(default)]
    pub(super) had: bool,
}

/// A head with the lengths of the pieces of bytes behind it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Parcel {
    /// The description of the pieces.
    pub(super) head: Value,
    /// The pieces, in their order.
    pub(super) pieces: Vec<Vec<u8>>,
}

impl Parcel {
    /// As it is sent: each part behind its length.
    pub(super) fn write(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        let head = self.head.to_string().into_bytes();
        for part in std::iter::once(&head).chain(&self.pieces) {
            out.extend((part.len() as u64).to_le_bytes());
            out.extend(part);
        }
        out
    }

    /// Reads a parcel; `None` when the bytes are damaged.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes.strip_prefix(MAGIC)?;
        let mut parts = Vec::new();
        while !rest.is_empty() {
            let (len, behind) = rest.split_first_chunk::<8>()?;
            let (part, behind) = behind.split_at_checked(usize::try_from(u64::from_le_bytes(*len)).ok()?)?;
            parts.push(part.to_vec());
            rest = behind;
        }
        let mut parts = parts.into_iter();
        let head = serde_json::from_slice(&parts.next()?).ok()?;
        Some(Self { head, pieces: parts.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parcel_is_read_as_it_was_written_or_not_at_all() {
        let parcel = Parcel { head: serde_json::json!({"a": 1}), pieces: vec![vec![1, 2], vec![]] };
        let bytes = parcel.write();
        assert_eq!(Parcel::read(&bytes), Some(parcel));
        for len in [0, 3, 4, 11, 12, bytes.len() - 9, bytes.len() - 1] {
            assert!(Parcel::read(&bytes[..len]).is_none(), "{len} bytes");
        }
        let mut other = bytes.clone();
        other[3] += 1;
        assert!(Parcel::read(&other).is_none());
    }
}
