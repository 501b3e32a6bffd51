//! The list of clients.

use crate::engine::facets::ShardQuestions;
use crate::events::clients::{ClientQuery, ClientSummary};
use crate::ids::BROKER_LINK_LISTENER;
use crate::ids::TenantId;
use crate::session::{Session, Standing};
use std::collections::BinaryHeap;

impl ShardQuestions<'_> {
    /// The clients that a query asks for, in the order of tenants and client ids, `limit` at most. Looks at every
    /// session of the shard.
    pub fn clients(&self, query: &ClientQuery) -> Vec<ClientSummary> {
        let mut first: BinaryHeap<(TenantId, &str, u32)> = BinaryHeap::new();
        for (key, session) in self.engine.state.sessions.iter() {
            let behind = query.after.as_ref().is_none_or(|(tenant, name)| (*tenant, name.as_str()) < place(session));
            if is_client(session) && behind && session.client_id.contains(&*query.containing) {
                let (tenant, name) = place(session);
                first.push((tenant, name, key));
                if first.len() > query.limit {
                    first.pop();
                }
            }
        }
        let sessions = first.into_sorted_vec().into_iter().filter_map(|(.., key)| self.engine.state.sessions.get(key));
        sessions.map(|session| self.summary(session, query.filters)).collect()
    }

    fn summary(self, session: &Session, filters: usize) -> ClientSummary {
        let connection = session.connection.and_then(|key| self.engine.state.connections.get(key));
        let flow = session.flow.as_ref();
        let memberships = session.rare.as_ref().map_or(&[][..], |rare| &rare.memberships);
        let shared = memberships.iter().map(|member| format!("$share/{}/{}", member.share, member.filter));
        let plain = session.filters.iter().filter_map(|key| self.engine.router.index.filter(key).map(str::to_owned));
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

/// True for the session of a client: neither an orchestrator's session at a broker, nor a mailbox of a mobile node.
fn is_client(session: &Session) -> bool {
    session.listener != BROKER_LINK_LISTENER && session.standing != Standing::Mailbox
}
