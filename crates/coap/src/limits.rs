//! The bounds of a listener. docs/coap.md has the policy of each.

/// A time in milliseconds, from any beginning.
pub type Millis = u64;

/// Bytes that a client without a proven address gets for each byte that it has sent.
pub(crate) const AMPLIFICATION: usize = 3;
/// Bytes that such a client may save up.
pub(crate) const MAX_CREDIT: usize = 64 << 10;
/// Clients that are remembered. A further one takes the place of one that has neither a session nor a proven address.
pub(crate) const MAX_PEERS: usize = 4_096;
/// Remembered clients that are looked at for such a place.
pub(crate) const PLACES_LOOKED_AT: usize = 16;
/// How long a silent client is remembered: longer than a message may be repeated (`EXCHANGE_LIFETIME`, 247 s).
pub(crate) const PEER_IDLE: Millis = 300_000;
/// Messages of a client whose repetition is noticed.
pub(crate) const MAX_EXCHANGES: usize = 64;
/// How long the repetition of a message is noticed (`EXCHANGE_LIFETIME`).
pub(crate) const EXCHANGE_LIFETIME: Millis = 247_000;
/// Requests of a client under way.
pub(crate) const MAX_JOBS: usize = 16;
/// Sessions of a client with different credentials.
pub(crate) const MAX_SESSIONS_OF_PEER: usize = 4;
/// How long a session without requests and observations stays.
pub(crate) const SESSION_IDLE: Millis = 120_000;
/// Topics that a client observes.
pub(crate) const MAX_OBSERVATIONS: usize = 32;
/// Messages of QoS 0 that wait for an observer; beyond them the oldest is left out.
pub(crate) const MAX_WAITING: usize = 16;
/// Bytes of all messages that wait for observers of a listener, at most.
pub const MAX_WAITING_BYTES: usize = 64 << 20;
/// The part of these bytes for the observers of a client, but at least one longest message.
pub(crate) const WAITING_PART_OF_PEER: usize = 4;
/// Bytes of the fields of a message beside its payload, in a packet of the broker.
pub(crate) const FIELDS: usize = 128 << 10;
/// Messages that the broker sends to a session without an acknowledgement, at most.
pub(crate) const MAX_WINDOW: usize = 8;
/// Notifications that are not confirmable between two that are.
pub(crate) const UNCONFIRMED: u8 = 15;
/// Bodies that a client sends in blocks at once.
pub(crate) const MAX_UPLOADS: usize = 4;
/// How long an incomplete body waits for its next block.
pub(crate) const UPLOAD_IDLE: Millis = 120_000;
/// The part of the bytes of waiting messages that all incomplete bodies of a listener have beside them, and as many all
/// bodies that are fetched in blocks; each at least one longest body.
pub(crate) const BODIES_PART: usize = 4;
/// Bodies that a client fetches in blocks at once.
pub(crate) const MAX_TRANSFERS: usize = 4;
/// How long such a body waits for the next question.
pub(crate) const TRANSFER_IDLE: Millis = 60_000;
/// How long the broker may take to answer a request.
pub(crate) const ANSWER_TIMEOUT: Millis = 90_000;
/// Silence after which a confirmable request is acknowledged without its answer.
pub(crate) const ACKNOWLEDGE_AFTER: Millis = 500;
/// The first wait for an acknowledgement (`ACK_TIMEOUT`); up to half of it is added by chance.
pub(crate) const ACK_TIMEOUT: Millis = 2_000;
/// How often a confirmable message is sent again (`MAX_RETRANSMIT`); each wait is twice as long.
pub(crate) const MAX_RETRANSMIT: u32 = 4;
/// Time between two looks for overdue and idle state.
pub(crate) const SWEEP: Millis = 1_000;
/// Minutes for which the proof of an address is good.
pub(crate) const PROOF_MINUTES: u64 = 5;
