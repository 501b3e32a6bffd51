//! Short records, and the common parts of several.

use crate::ids::ConnectionKey;
use crate::link::envelope::{Ticket, put_connection, put_ticket};
use crate::link::record::{GroupName, MemberOptions};
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

pub(super) fn put_group(out: &mut Vec<u8>, group: &GroupName<'_>) {
    out.put_u16(group.tenant.0);
    out.put_bytes(group.share.as_bytes());
    out.put_bytes(group.filter.as_bytes());
}

pub(super) fn put_member(out: &mut Vec<u8>, member: MemberOptions) {
    out.put_u8(member.options);
    out.put_u32(member.subscription_id);
}
