//! Lists of messages as bytes, each with the id by which its broker delivers it: the messages collected for a partition
//! that moves.

use super::open;
use crate::cluster::transfer::error::ImageError;
use crate::ids::TenantId;
use crate::message::MessageRef;
use crate::now::Now;
use crate::orchestrator::broker_link::id::MessageId;
use crate::records::image::{put_message, read_message};
use crate::wire::WireWrite;

/// Bytes that one move may have collected and not forwarded. Beyond it messages of QoS 0 are dropped, and a connection
/// that delivers a message of QoS 1 or 2 ends; its broker keeps the unacknowledged messages.
pub(crate) const NOTED_MAX_BYTES: usize = 64 * 1024 * 1024;

/// The origin and the number of a message id.
pub(crate) type Id = (u64, u64);

pub(crate) fn number_of(id: &MessageId) -> Id {
    (id.origin, id.number)
}

/// Appends a message and its id to a list.
pub(crate) fn put_noted(out: &mut Vec<u8>, now: Now, id: Option<&MessageId>, message: &MessageRef) {
    out.put_u64(id.map_or(0, |id| id.origin));
    out.put_u64(id.map_or(0, |id| id.number));
    put_message(out, now, message);
}

/// Calls `take` for each message of a list.
///
/// # Errors
/// When the bytes cannot be read; the messages before the damage were taken.
pub(crate) fn each_noted(
    now: Now,
    bytes: &[u8],
    mut take: impl FnMut(Option<&MessageId>, &MessageRef),
) -> Result<(), ImageError> {
    let mut reader = open(bytes)?;
    while !reader.is_empty() {
        let (origin, number) = (reader.u64("an origin")?, reader.u64("a number of an origin")?);
        let message = read_message(&mut reader, now, TenantId::DEFAULT)?;
        let id = MessageId { origin, number, entered: 0, publisher: 0, retain: false };
        // Numbers begin with 1; a message of a broker that brings no ids has none.
        take(Some(&id).filter(|_| number != 0), &message);
    }
    Ok(())
}
