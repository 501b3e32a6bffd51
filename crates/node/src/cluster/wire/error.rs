//! Why bytes are no frame.

/// Bytes that are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A length that is not possible here.
    #[error("a frame has {length} bytes, more than the limit of {limit}: the peer is not a node of this cluster")]
    Length {
        /// The length in the frame.
        length: usize,
        /// The maximum.
        limit: usize,
    },
    /// The beginning of a TLS handshake.
    #[error("it speaks TLS, and this node does not; set cluster.tls to the same on all nodes")]
    Tls,
    /// An unknown kind.
    #[error("a frame of the unknown kind {0}")]
    Kind(u8),
    /// A body that is not one of its kind.
    #[error("the bytes end early, or are out of range, where {0} was expected")]
    Body(&'static str),
    /// A hello of another program.
    #[error("it does not speak the protocol of nodes")]
    NoNode,
    /// A hello of another version of the protocol.
    #[error("it speaks version {0} of the link, and this node version {own}; use releases that go together", own = super::LINK_VERSION)]
    Version(u16),
}
