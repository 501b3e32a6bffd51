//! Clients that read slowly or do not acknowledge.

use crate::ids::TenantId;
use crate::now::Now;
use crate::session::Session;
use crate::settings::Settings;

/// A client that holds messages up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowSession {
    /// The tenant of the client.
    pub tenant: TenantId,
    /// The client id.
    pub client_id: String,
    /// Whether it is connected.
    pub connected: bool,
    /// The packet id that waits longest for an acknowledgement; `None` when all are acknowledged.
    pub unacknowledged: Option<u16>,
    /// How many messages wait for an acknowledgement.
    pub inflight_messages: u64,
    /// Milliseconds since the client's last acknowledgement, while messages wait for it; 0 otherwise.
    pub waiting_ms: u64,
    /// Messages that wait in its queue.
    pub queued_messages: u64,
    /// Bytes of the queued messages.
    pub queued_bytes: u64,
    /// Publishers that wait for its queue.
    pub blocked_publishers: u64,
}

impl Settings {
    /// How much a session holds up, if it is slow: for how long, and how many messages.
    pub(crate) fn slowness(&self, now: Now, session: &Session) -> Option<(u64, u64)> {
        let flow = session.flow.as_ref()?;
        let waiting = waiting_ms(now, session);
        let slow = waiting >= self.limits.slow_after_ms.max(1);
        let full = flow.full_at.is_some();
        (slow || full).then_some((waiting, flow.queue.len() as u64))
    }
}

/// For how long a connected client has acknowledged nothing although it should.
pub(crate) fn waiting_ms(now: Now, session: &Session) -> u64 {
    let flow = session.flow.as_ref().filter(|flow| session.connection.is_some() && !flow.inflight.is_empty());
    flow.map_or(0, |flow| now.monotonic.since(flow.waiting_since))
}
