//! Formats of payloads.

#[cfg(feature = "pipelines")]
mod decode;
#[cfg(feature = "pipelines")]
mod wanted;

#[cfg(feature = "pipelines")]
pub(crate) use decode::json;
#[cfg(feature = "pipelines")]
pub use decode::{EncodeError, FormatError, JsonError};
#[cfg(feature = "pipelines")]
pub(crate) use wanted::Wanted;

/// How a payload is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// JSON.
    #[default]
    Json,
    /// CBOR (RFC 8949).
    Cbor,
    /// `MessagePack`.
    MessagePack,
    /// Bytes: text where they are UTF-8, base64 where they are not.
    Raw,
}

/// The format of finished files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileFormat {
    /// Lines of JSON.
    #[default]
    Lines,
    /// Parquet.
    Parquet,
}
