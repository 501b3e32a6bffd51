//! Calls for services inside the process.

use crate::engine::facets::{InsiderCalls, ShardQuestions};
use crate::events::reason::Reason;
use crate::flows::contexts::publishing;
use crate::ids::{ConnectionKey, SessionKey, TenantId, partition_of};
use crate::message::Publication;
use crate::now::{Millis, Now};
use crate::orchestrator::homes::Home;
use crate::service::InnerPublication;
use crate::session::Session;
use crate::session::terms::Terms;
use crate::topics::is_own_topic;
use tidegate_mqtt::{QoS, TopicName};

impl InsiderCalls<'_> {
    /// Publishes a message of the broker's own. No rules are asked. Returns whether the topic is one that may be
    /// published to: a valid name, and not below `$SYS`.
    pub fn publish_inner(&mut self, now: Now, message: &InnerPublication) -> bool {
        if TopicName::new(&message.topic).is_err() || is_own_topic(&message.topic) {
            return false;
        }
        let may_retain = self.engine.state.settings.retained.available;
        publishing!(self.engine).publish_inside(now, &mut message.publication(may_retain), None);
        self.engine.after_frame(now);
        true
    }
}

impl<'e> ShardQuestions<'e> {
    /// True if this process is the home of a topic's retained message: of the nodes of a cluster, one is.
    pub fn is_home_of_topic(&self, tenant: TenantId, topic: &str) -> bool {
        self.engine.homes.home_of(&self.engine.state, partition_of(tenant, topic)) == Home::Here
    }

    /// All connected clients: tenant, client id and connection. With addresses, only clients that have one, so that
    /// applications are not taken for mobile nodes. Looks at every session of the shard.
    pub fn connected_clients(&self) -> impl Iterator<Item = (TenantId, &'e str, ConnectionKey)> + use<'e> {
        let engine = self.engine;
        let all = engine.state.settings.addresses.is_none();
        let clients = engine.state.sessions.iter().filter(move |(_, session)| all || session.standing.is_node());
        clients.filter_map(|(_, session)| Some((session.tenant, &*session.client_id, session.connection?)))
    }
}

impl InsiderCalls<'_> {
    /// Ends the connection of a client, which is to connect to `reference`: an MQTT 5 client gets 0x9C, others are
    /// disconnected. Returns false without such a connection.
    pub fn send_elsewhere(&mut self, now: Now, tenant: TenantId, client_id: &str, reference: &str) -> bool {
        let session = self.engine.state.sessions.find_session(tenant, client_id);
        let Some(key) = session.and_then(|session| self.engine.state.sessions.get(session.0)?.connection) else {
            return false;
        };
        self.engine.close_towards(now, key, Reason::UseAnotherServer, None, Some(reference));
        self.engine.after_frame(now);
        true
    }

    /// Publishes to one connected client at QoS 1, whatever its subscriptions; [`Event::Pong`](crate::Event::Pong)
    /// reports the acknowledgement. Returns false without sending to a client that is away, owes acknowledgements or
    /// has queued messages. A client that owes only the acknowledgement of an earlier ping counts as asked, without
    /// another message: otherwise a client that never answers would look unknown.
    pub fn ping(&mut self, now: Now, tenant: TenantId, client_id: &str, topic: &str, expires_at: Millis) -> bool {
        let Some(key) = self.engine.state.sessions.find_session(tenant, client_id) else { return false };
        if self.owes_pong(key) {
            return true;
        }
        if !self.engine.state.sessions.get(key.0).is_some_and(Session::is_connected_and_idle) {
            return false;
        }
        let mut publication = Publication::new(tenant, topic, QoS::AtLeastOnce, false, &[], expires_at, &[], 0);
        let terms = Terms {
            qos: QoS::AtLeastOnce,
            retain: false,
            subscription_ids: &[],
            group: None,
            publisher: None,
            metered: false,
        };
        self.engine.layouts.begin(1);
        self.engine.state.deliver(now.monotonic, &mut publication, &mut self.engine.layouts, key, &terms);
        self.engine.after_frame(now);
        let flow = self.engine.state.sessions.get(key.0).and_then(|session| session.flow.as_ref());
        let Some(sent) = flow.and_then(|flow| flow.inflight.iter().next_back()) else { return false };
        self.engine.pings.insert((key.0, sent.id().get()), true);
        true
    }

    /// Begins a new round of pings: acknowledgements of earlier ones are not reported any more.
    pub fn forget_pings(&mut self) {
        let mut pings = std::mem::take(&mut self.engine.pings);
        pings.retain(|(session, id), counts| {
            *counts = false;
            self.engine.state.sessions.is_under_way(SessionKey(*session), *id)
        });
        self.engine.pings = pings;
    }

    /// Whether a client that is connected has not acknowledged its last ping.
    fn owes_pong(&self, key: SessionKey) -> bool {
        let mut pings = self.engine.pings.range((key.0, 0)..=(key.0, u16::MAX));
        pings.any(|((_, id), _)| self.engine.state.sessions.is_under_way(key, *id))
    }
}
