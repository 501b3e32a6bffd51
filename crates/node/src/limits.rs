//! Bounds of the shell: the work of one turn, and the time for closing connections. Each is a constant with its reason;
//! limits for an operator are in [`NodeSettings`](crate::NodeSettings).

use std::time::Duration;

/// The read buffer of a shard, bytes. A read that fills it leaves the socket in the ring of readable ones, so this is
/// also the share of one socket per turn.
pub(crate) const READ_BUFFER_BYTES: usize = 64 * 1024;

/// Bytes read per turn before outputs are written; the other readable sockets come first in the next turn. It equals
/// the output that a connection may have pending, so that one turn does not overflow the queue of a subscriber that
/// keeps up.
pub(crate) const READ_BYTES_PER_TURN: usize = 256 * 1024;

/// The cost of one step of a TLS handshake, in bytes of [`READ_BYTES_PER_TURN`]: a signature takes about as long as
/// processing that many bytes. So a storm of handshakes delays the others by eight steps.
pub(crate) const HANDSHAKE_STEP_BYTES: usize = READ_BYTES_PER_TURN / 8;

/// Readiness events taken from the poller per turn; the rest stays in the kernel's list.
pub(crate) const EVENTS_PER_TURN: usize = 1024;

/// Connections accepted per turn and listener. Each is read at once, so a storm of connects delays others by this many.
pub(crate) const ACCEPTS_PER_TURN: usize = 64;

/// Inbox messages taken per turn. Each is a batch of another shard, a socket, or a request.
pub(crate) const INBOX_MESSAGES_PER_TURN: usize = 64;

/// A queue of up to this number of connections is written whole in one turn, as an ordinary message to many always was.
pub(crate) const SHORT_LINE: usize = 512;

/// Connections of a longer line that are written per turn: receivers of a message to many, and connections whose
/// sockets had refused output before. Fast writes need no more frequent look at other connections.
pub(crate) const LINE_WRITES_PER_TURN: usize = 128;

/// How long a turn may write to connections in line, microseconds, looked at after every [`LINE_WRITES_PER_LOOK`]
/// writes. Everybody else waits about so long for them.
pub(crate) const LINE_MICROS_PER_TURN: u128 = 250;

/// Writes to connections in line between two looks at the clock.
pub(crate) const LINE_WRITES_PER_LOOK: usize = 16;

/// Bytes written to connections in line per turn; the write that passes it is the last.
pub(crate) const LINE_BYTES_PER_TURN: u64 = 256 * 1024;

/// Pieces of output per write; more wait for the next turn. A piece is a run of small packets or one large payload.
pub(crate) const SLICES_PER_WRITE: usize = 32;

/// Connections that the kernel holds before they are accepted. It caps this at `net.core.somaxconn`.
pub(crate) const BACKLOG: i32 = 4096;

/// How long the output of a closing connection may take to leave, milliseconds.
pub(crate) const CLOSE_FLUSH_MS: u64 = 5_000;

/// How long a connection that the server closed is drained, milliseconds. Closing a socket with unread bytes resets it,
/// and the client would lose the DISCONNECT with the reason.
pub(crate) const LINGER_MS: u64 = 1_000;

/// How long accepting rests when files have run out and no connection closes, milliseconds.
pub(crate) const ACCEPT_REST_MS: u64 = 1_000;

/// Silence between two log lines about the same shortage, milliseconds.
pub(crate) const SHORTAGE_LOG_MS: u64 = 10_000;

/// Quiet time after which memory is given back, milliseconds.
pub(crate) const TRIM_QUIET_MS: u64 = 1_000;

/// Latest time at which memory is returned although usage still changes, milliseconds after enough of it was released.
pub(crate) const TRIM_LATEST_MS: u64 = 120_000;

/// Bytes that have to be released since a peak before a shard gives memory back.
pub(crate) const TRIM_MIN_BYTES: u64 = 2 * 1024 * 1024;

/// This fraction of the peak (one part in `n`) has to be released before a shard gives memory back.
pub(crate) const TRIM_MIN_SHARE: u64 = 4;

/// Bytes by which the memory of a shard may change in a quiet period.
pub(crate) const TRIM_STEP_BYTES: u64 = 512 * 1024;

/// Assumed memory of a connection outside the engine's sums, bytes.
pub(crate) const CONNECTION_BYTES: u64 = 8 * 1024;

/// New connections since memory was last given back that make a rush.
pub(crate) const TRIM_MIN_RUSH: usize = 1024;

/// Seconds without traffic after which the kernel asks whether a peer still exists, seconds between its questions, and
/// questions without an answer before the connection is closed. MQTT's own keep-alive is optional; behind a carrier's
/// address translation, dead peers would pile up.
pub(crate) const TCP_KEEPALIVE: (u64, u64, u32) = (300, 60, 5);

/// Pairs of a store that a shard gets at once while it restores.
pub(crate) const RESTORE_CHUNK_PAIRS: usize = 1024;
/// Bytes of keys and values in such a portion. A single pair may be larger.
pub(crate) const RESTORE_CHUNK_BYTES: usize = 1024 * 1024;
/// Pending portions for a shard; the reader of the store waits at this number.
pub(crate) const RESTORE_CHUNKS: usize = 4;
/// Bytes that all shards have given to the store and that are not committed, above which no more is read from clients.
pub(crate) const UNCOMMITTED_BYTES: u64 = 64 * 1024 * 1024;
/// Bytes of changed bans that wait for a stalled store; further changes do not outlive the process.
pub(crate) const UNKEPT_BAN_BYTES: usize = 16 * 1024 * 1024;

/// How long the other nodes of a cluster may take to receive a goodbye and the messages before it.
pub(crate) const GOODBYE_LIMIT: Duration = Duration::from_secs(1);
/// A wait without end is cut into pieces of this length, in which a dead shard is noticed.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(1);
