//! Bounds of QUIC connections and of the work that one turn does for them. Each has its reason.

/// Silence after which a connection is given up, milliseconds; the client may name less. It is longer than one and a
/// half times the longest keep-alive of MQTT (65,535 s), so that it is always the keep-alive that ends a client first,
/// and links without messages live on for hours (CTX-16).
pub(crate) const IDLE_TIMEOUT_MS: u32 = 100_000_000;

/// Bytes of a client that may be under way or unread, for its stream and so for its connection. A client whose reading
/// is paused costs no more than this.
pub(crate) const RECEIVE_WINDOW_BYTES: u32 = 256 * 1024;

/// Bytes to a client that are kept until they are acknowledged; the rest of its output waits in its queue.
pub(crate) const SEND_WINDOW_BYTES: u64 = 256 * 1024;

/// Bytes of a handshake that may arrive out of order; the same as a TLS listener keeps of an incomplete message.
pub(crate) const CRYPTO_BUFFER_BYTES: usize = 32 * 1024;

/// Bytes of a connection id. Random ids of this length do not collide.
pub(crate) const CONNECTION_ID_BYTES: usize = 8;

/// Buffers that one system call fills with datagrams; each may hold up to 64 datagrams of one sender.
pub(crate) const RECEIVE_BATCH: usize = 8;

/// Size of such a buffer, bytes.
pub(crate) const RECEIVE_BUFFER_BYTES: usize = 64 * 1024;

/// Datagrams taken from one socket per turn, looked at after each system call: about as many bytes as are read from
/// streams.
pub(crate) const DATAGRAMS_PER_TURN: usize = 256;

/// Handshakes that one turn begins for clients whose address is not proved; the others of this turn have to prove
/// theirs first, which costs no signature. It is the number of handshakes over TCP that one turn takes a step of.
pub(crate) const UNPROVED_HANDSHAKES_PER_TURN: usize = 8;

/// From the fourth part of the handshakes that a listener works on at once, clients prove their address first.
pub(crate) const PROOF_SHARE: u32 = 4;

/// Datagrams in one system call to one client.
pub(crate) const SEGMENTS_PER_SEND: usize = 10;

/// Such system calls for one client per turn.
pub(crate) const SENDS_PER_TURN: usize = 8;

/// Datagrams under way from the shard of a socket to another shard; further ones are dropped as a network would, and
/// sent again by the client.
pub(crate) const DATAGRAMS_UNDER_WAY: usize = 4_096;

/// Buffers of a socket in the kernel, bytes, as far as `net.core.rmem_max` and `wmem_max` allow: a storm of new clients
/// arrives in one piece.
pub(crate) const SOCKET_BUFFER_BYTES: usize = 8 * 1024 * 1024;

/// UDP sockets of a node.
pub(crate) const MAX_ENDPOINTS: usize = 256;
