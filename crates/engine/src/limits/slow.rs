//! Who reads slowly or does not acknowledge.

use crate::settings::Settings;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::engine::Engine;
use crate::ids::TenantId;
use crate::now::Now;
use crate::session::Session;

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
    /// Milliseconds since the client acknowledged anything, while something waits for it; 0 otherwise.
    pub waiting_ms: u64,
    /// Messages that wait in its queue.
    pub queued_messages: u64,
    /// Bytes of those.
    pub queued_bytes: u64,
    /// Publishers that wait for its queue.
    pub blocked_publishers: u64,
}

impl Engine {
    /// The clients that hold most up, the worst first, `limit` at most: those that are connected and have acknowledged
    /// nothing for [`Limits::slow_after_ms`](crate::Limits) although something waits for it, and those whose queue is
    /// full, connected or not. Looks at every session of the shard.
    pub fn slow_sessions(&self, now: Now, limit: usize) -> Vec<SlowSession> {
        let mut worst: BinaryHeap<Reverse<(u64, u64, u32)>> = BinaryHeap::new();
        for (key, session) in self.desk.sessions.iter() {
            let Some(weight) = self.settings.slowness(now, session) else { continue };
            worst.push(Reverse((weight.0, weight.1, key)));
            if worst.len() > limit {
                worst.pop();
            }
        }
        let worst = worst.into_sorted_vec();
        let sessions = worst.into_iter().filter_map(|Reverse((.., key))| self.desk.sessions.get(key));
        sessions.map(|session| describe(now, session)).collect()
    }

    /// How many clients [`Engine::slow_sessions`] knows of. Looks at every session of the shard.
    pub fn count_slow_sessions(&self, now: Now) -> u64 {
        self.desk.sessions.iter().filter(|(_, session)| self.settings.slowness(now, session).is_some()).count() as u64
    }
}

impl Settings {
    /// How much a session holds up, if it is slow: for how long, and how many messages.
    fn slowness(&self, now: Now, session: &Session) -> Option<(u64, u64)> {
        let flow = session.flow.as_ref()?;
        let waiting = waiting_ms(now, session);
        let slow = waiting >= self.limits.slow_after_ms.max(1);
        let full = flow.full_at.is_some();
        (slow || full).then_some((waiting, flow.queue.len() as u64))
    }
}

/// For how long a connected client has acknowledged nothing although it should.
fn waiting_ms(now: Now, session: &Session) -> u64 {
    let flow = session.flow.as_ref().filter(|flow| session.connection.is_some() && !flow.inflight.is_empty());
    flow.map_or(0, |flow| now.monotonic.since(flow.waiting_since))
}

fn describe(now: Now, session: &Session) -> SlowSession {
    let flow = session.flow.as_ref();
    let oldest = flow.and_then(|flow| flow.inflight.iter().next());
    SlowSession {
        tenant: session.tenant,
        client_id: session.client_id.to_string(),
        connected: session.connection.is_some(),
        unacknowledged: oldest.map(|entry| entry.id().get()),
        inflight_messages: flow.map_or(0, |flow| flow.inflight.len() as u64),
        waiting_ms: waiting_ms(now, session),
        queued_messages: flow.map_or(0, |flow| flow.waiting().0 as u64),
        queued_bytes: flow.map_or(0, |flow| flow.waiting().1),
        blocked_publishers: flow.map_or(0, |flow| flow.blocking.len() as u64),
    }
}
