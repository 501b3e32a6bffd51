//! Who is there: the clients of a shard, for people who look.

use std::collections::BinaryHeap;

use tidegate_mqtt::Version;

use crate::engine::Engine;
use crate::ids::{ConnectionKey, TenantId};
use crate::orchestrator::uplink::UPLINK_LISTENER;
use crate::session::{Session, Standing};

/// Which clients are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientQuery {
    /// What their client ids contain.
    pub containing: String,
    /// Only those behind this client in the order of tenants and client ids, where an earlier answer ended.
    pub after: Option<(TenantId, String)>,
    /// How many at most.
    pub limit: usize,
    /// How many subscriptions of each are named.
    pub filters: usize,
}

/// A client with a session, connected or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSummary {
    /// The tenant of the client.
    pub tenant: TenantId,
    /// The client id.
    pub client_id: String,
    /// Its connection.
    pub connection: Option<ConnectionKey>,
    /// What it speaks, while it is connected.
    pub version: Option<Version>,
    /// The keep-alive in force, seconds, while it is connected.
    pub keep_alive: Option<u16>,
    /// The user name that it has proven.
    pub user_name: Option<String>,
    /// How long its session lasts without it, seconds; `u32::MAX` is for ever.
    pub expiry_seconds: u32,
    /// How many subscriptions it has, memberships in shared groups included.
    pub subscriptions: u64,
    /// Some of them.
    pub filters: Vec<String>,
    /// Messages that wait for its acknowledgement.
    pub inflight_messages: u64,
    /// Messages that wait in its queue.
    pub queued_messages: u64,
    /// Bytes of those.
    pub queued_bytes: u64,
}

impl Engine {
    /// The clients that a query asks for, in the order of tenants and client ids, `limit` at most. Looks at every
    /// session of the shard.
    pub fn clients(&self, query: &ClientQuery) -> Vec<ClientSummary> {
        let mut first: BinaryHeap<(TenantId, &str, u32)> = BinaryHeap::new();
        for (key, session) in self.desk.sessions.iter() {
            let behind = query.after.as_ref().is_none_or(|(tenant, name)| (*tenant, name.as_str()) < place(session));
            if is_client(session) && behind && session.client_id.contains(&*query.containing) {
                let (tenant, name) = place(session);
                first.push((tenant, name, key));
                if first.len() > query.limit {
                    first.pop();
                }
            }
        }
        let sessions = first.into_sorted_vec().into_iter().filter_map(|(.., key)| self.desk.sessions.get(key));
        sessions.map(|session| self.summary(session, query.filters)).collect()
    }

    fn summary(&self, session: &Session, filters: usize) -> ClientSummary {
        let connection = session.connection.and_then(|key| self.desk.connections.get(key));
        let flow = session.flow.as_ref();
        let memberships = session.rare.as_ref().map_or(&[][..], |rare| &rare.memberships);
        let shared = memberships.iter().map(|member| format!("$share/{}/{}", member.share, member.filter));
        let plain = session.filters.iter().filter_map(|key| self.index.filter(key).map(str::to_owned));
        ClientSummary {
            tenant: session.tenant,
            client_id: session.client_id.to_string(),
            connection: session.connection,
            version: connection.map(|connection| connection.version),
            keep_alive: connection.map(|connection| connection.keep_alive),
            user_name: session.identity.as_ref().and_then(|identity| identity.user_name.clone()),
            expiry_seconds: session.expiry_seconds,
            subscriptions: session.subscriptions() as u64,
            filters: plain.chain(shared).take(filters).collect(),
            inflight_messages: flow.map_or(0, |flow| flow.inflight.len() as u64),
            queued_messages: flow.map_or(0, |flow| flow.waiting().0 as u64),
            queued_bytes: flow.map_or(0, |flow| flow.waiting().1),
        }
    }
}

fn place(session: &Session) -> (TenantId, &str) {
    (session.tenant, &session.client_id)
}

/// Whether a session is one that a client has: neither an orchestrator's to a broker, nor what is kept for a mobile
/// node.
fn is_client(session: &Session) -> bool {
    session.listener != UPLINK_LISTENER && session.standing != Standing::Mailbox
}
