//! Sessions that do not acknowledge.

use crate::engine::facets::ShardQuestions;
use crate::limits::slow::{SlowSession, waiting_ms};
use crate::now::Now;
use crate::session::Session;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

impl ShardQuestions<'_> {
    /// The slowest clients, the worst first, `limit` at most: connected clients that have acknowledged nothing for
    /// [`Limits::slow_after_ms`](crate::Limits) although messages wait, and clients with a full queue, connected or
    /// not. Looks at every session of the shard.
    pub fn slow_sessions(&self, now: Now, limit: usize) -> Vec<SlowSession> {
        let mut worst: BinaryHeap<Reverse<(u64, u64, u32)>> = BinaryHeap::new();
        for (key, session) in self.engine.state.sessions.iter() {
            let Some(weight) = self.engine.state.settings.slowness(now, session) else { continue };
            worst.push(Reverse((weight.0, weight.1, key)));
            if worst.len() > limit {
                worst.pop();
            }
        }
        let worst = worst.into_sorted_vec();
        let sessions = worst.into_iter().filter_map(|Reverse((.., key))| self.engine.state.sessions.get(key));
        sessions.map(|session| describe(now, session)).collect()
    }

    /// How many clients [`ShardQuestions::slow_sessions`](crate::ShardQuestions::slow_sessions) knows of. Looks at every session of the shard.
    pub fn count_slow_sessions(&self, now: Now) -> u64 {
        self.engine
            .state
            .sessions
            .iter()
            .filter(|(_, session)| self.engine.state.settings.slowness(now, session).is_some())
            .count() as u64
    }
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
