//! `$SYS`: the statistics of the broker and of its cluster, in the dialect of Mosquitto, while a client subscribes to them.
//!
//! The first shard gathers the numbers of all shards each round and publishes them, with the numbers of other nodes. Nothing
//! runs without a subscription below `$SYS`.

mod loads;
pub(crate) mod nodes;
pub(crate) mod values;

use crate::events::reason::Reason;
use crate::ids::{SessionKey, TenantId};
use crate::now::{Millis, Now};
use crate::roster::Shards;
use crate::state::ShardState;
use crate::sys::nodes::{SysNodes, level};
use crate::timers::Timer;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use tidegate_mqtt::TopicName;

/// How long a round waits for the reports of other nodes, milliseconds.
pub(crate) const ROUND_PATIENCE_MS: u64 = 500;

/// State of `$SYS` on a shard.
#[derive(Debug)]
pub(crate) struct Sys {
    pub(crate) started: Now,
    /// Filters below `$SYS` that shards are interested in, of the tenant that the values are for.
    pub(crate) watchers: u32,
    /// The same of all other tenants, which get events of their own clients only.
    pub(crate) tenant_watchers: u32,
    /// When the next round, or the end of the present one, is due; also its key among the timers.
    pub(crate) next: Option<Millis>,
    /// Number of the present round: a report that comes too late belongs to no other.
    pub(crate) round: u32,
    /// When the present round has begun.
    pub(crate) begun: Millis,
    /// Shards whose reports this round waits for.
    pub(crate) awaited: Shards,
    /// The reports of the nodes.
    pub(crate) nodes: SysNodes,
    /// Memory of the process in bytes, from the shell for this round, and the most of any round.
    pub(crate) process_memory: Option<(u64, u64)>,
    /// Topics with a retained value, cleared when the last subscriber leaves.
    pub(crate) published: BTreeSet<String>,
}

impl Sys {
    pub(crate) fn new(now: Now) -> Self {
        Self {
            started: now,
            watchers: 0,
            tenant_watchers: 0,
            next: None,
            round: 0,
            begun: now.monotonic,
            awaited: Shards::default(),
            nodes: SysNodes::default(),
            process_memory: None,
            published: BTreeSet::new(),
        }
    }

    /// When the next round, or the end of the present one, is due.
    pub(crate) fn next(&self) -> Option<Millis> {
        self.next
    }

    /// Whether a round is due at some time.
    pub(crate) fn has_timer(&self) -> bool {
        self.next.is_some()
    }

    pub(crate) fn set_sys_timer(&mut self, state: &mut ShardState, at: Millis) {
        if let Some(before) = self.next.replace(at) {
            state.timers.cancel(before, Timer::Sys);
        }
        state.timers.set(at, Timer::Sys);
    }

    /// Milliseconds since the start.
    pub(crate) fn uptime_ms(&self, now: Now) -> u64 {
        now.monotonic.since(self.started.monotonic)
    }

    /// The event for watchers of the client's tenant when the client has come (no reason) or gone (its reason), if
    /// there are any.
    pub(crate) fn client_event(
        &self,
        now: Now,
        state: &mut ShardState,
        key: SessionKey,
        news: ClientNews,
    ) -> Option<ClientEvent> {
        if self.watchers + self.tenant_watchers == 0 || !state.settings.sys_events {
            return None;
        }
        let session = state.sessions.get(key.0)?;
        let kind = news.level();
        let (node, client) = (level(&state.settings.node_name), level(&session.client_id));
        let topic = format!("$SYS/brokers/{node}/clients/{client}/{kind}");
        let mut text = String::from("{\"clientid\":");
        put_json_string(&mut text, &session.client_id);
        let _ = write!(text, ",\"ts\":{}", now.unix);
        if let ClientNews::Ended(reason) = news {
            let _ = write!(text, ",\"reason\":\"{}\",\"reason_code\":{}", reason.label(), reason.code().byte());
        }
        text.push('}');
        TopicName::new(&topic).is_ok().then_some(ClientEvent { tenant: session.tenant, topic, text })
    }
}

/// An event of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientNews {
    /// Its CONNECT was accepted.
    Connected,
    /// Its connection has come from another node.
    Continued,
    /// Its connection has ended, or has left for another node.
    Ended(Reason),
}

impl ClientNews {
    /// The last level of the topic.
    fn level(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::Continued => "continued",
            Self::Ended(Reason::Moved) => "moved",
            Self::Ended(_) => "disconnected",
        }
    }
}

/// That a client has come or gone, in words.
pub(crate) struct ClientEvent {
    pub(crate) tenant: TenantId,
    pub(crate) topic: String,
    pub(crate) text: String,
}

/// Appends a JSON string with everything escaped that has to be.
fn put_json_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
