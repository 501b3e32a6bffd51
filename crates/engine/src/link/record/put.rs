//! Short records.

use crate::ids::ConnectionKey;
use crate::link::envelope::{Ticket, put_connection, put_ticket};
use crate::wire::WireWrite;

/// A record that is only a number.
pub(super) fn put_numbered(out: &mut Vec<u8>, kind: u8, number: u64) {
    out.put_u8(kind);
    out.put_u64(number);
}

/// A record about a publisher that waits.
pub(super) fn put_awaited(out: &mut Vec<u8>, kind: u8, ticket: Ticket) {
    out.put_u8(kind);
    put_ticket(out, Some(ticket));
}

pub(super) fn put_waiting(out: &mut Vec<u8>, kind: u8, connection: ConnectionKey) {
    out.put_u8(kind);
    put_connection(out, Some(connection));
}
