//! Why an image was not taken in.

use crate::ids::PartitionId;
use crate::wire::WireError;
use std::fmt;

/// Why a partition was not moved out, or its image not taken in. Nothing of it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageError {
    /// The bytes are no image.
    Malformed(WireError),
    /// The bytes differ from the exported ones.
    Damaged,
    /// The image is of another version of the layout.
    Version(u8),
    /// The partition's home is another shard.
    NotAtHome(PartitionId),
    /// A session of the same client id lives here already.
    SessionExists(String),
    /// It holds more than may be moved at once.
    TooLarge {
        /// Its size, bytes.
        bytes: u64,
        /// The limit.
        max_bytes: u64,
    },
    /// The image of a session names messages that have not come.
    QueueMissing(String),
    /// The link to another node was lost while the partition came: what that node has sent to the old home meanwhile is
    /// not known.
    LinkLost,
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => write!(f, "not the image of a partition: {error}"),
            Self::Damaged => f.write_str("the image is damaged: its checksum differs; take it from its source again"),
            Self::Version(version) => write!(f, "the image has version {version}, this program reads {IMAGE_VERSION}"),
            Self::NotAtHome(partition) => write!(f, "partition {} is worked by another shard", partition.0),
            Self::TooLarge { bytes, max_bytes } => {
                write!(
                    f,
                    "it holds {bytes} bytes of messages, more than the {max_bytes} that may move at once; let clients fetch them first"
                )
            }
            Self::QueueMissing(client_id) => {
                write!(f, "the queue of client id {client_id:?} has not come as a whole; the move is tried again")
            }
            Self::LinkLost => f.write_str("the link to another node was lost meanwhile; the move is tried again"),
            Self::SessionExists(client_id) => write!(f, "a session of client id {client_id:?} lives here already"),
        }
    }
}

impl std::error::Error for ImageError {}

impl From<WireError> for ImageError {
    fn from(error: WireError) -> Self {
        Self::Malformed(error)
    }
}

/// Version of the layout of a partition's image; a reader refuses others.
pub(crate) const IMAGE_VERSION: u8 = 11;
