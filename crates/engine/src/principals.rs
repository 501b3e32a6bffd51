//! Principals publish and read without an MQTT session: services of the broker, and users of protocols that the shell
//! speaks.
//!
//! A principal's message passes the same pipeline as a PUBLISH of a client. A principal is in the table of connections,
//! without a transport: it waits for the same causes as a client, and other shards confirm to it. Its messages are held
//! meanwhile, within its bounds.

use crate::access::{Rules, Subject};
use crate::connection::table::Connections;
use crate::connection::{Connection, Outcome};
use crate::identity::Identity;
use crate::ids::{
    ConnectionKey, ListenerId, ObserverId, PRINCIPAL_LISTENER, PrincipalId, SessionKey, TenantId, hash_name,
};
use crate::now::Millis;
use crate::observers::Observers;
use crate::service::InnerPublication;
use crate::settings::Settings;
use crate::state::ShardState;
use std::collections::{BTreeMap, VecDeque};
use tidegate_mqtt::QoS;

/// The kind of a principal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrincipalKind {
    /// A part of the broker: it may do everything but publish below `$SYS`, in every tenant.
    Broker,
    /// An outside user: the rules in force apply to everything, and it stays in its tenant.
    User,
}

/// A publisher and reader without an MQTT session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// Its kind.
    pub kind: PrincipalKind,
    /// Its tenant.
    pub tenant: TenantId,
    /// Its name, in logs and in place of a client id where rules are asked.
    pub name: String,
    /// Its identity, if a provider was asked.
    pub identity: Option<Identity>,
    /// The listener that it came by, for rules that name one.
    pub listener: Option<ListenerId>,
    /// Messages that are held while it has to wait; more are refused with [`Reason::PublisherHeld`](crate::Reason::PublisherHeld).
    pub max_held_messages: usize,
    /// Bytes of these messages, topics and properties included.
    pub max_held_bytes: u64,
    /// Observers that do not get its messages, since they are of the same service.
    pub unobserved_by: Vec<ObserverId>,
}

/// A retained message, for a principal that has asked for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetainedValue {
    /// The QoS with which it was published.
    pub qos: QoS,
    /// Encoded MQTT 5 properties, as they are passed on.
    pub properties: Vec<u8>,
    /// When it expires, or [`Millis::NEVER`].
    pub expires_at: Millis,
    /// The payload.
    pub payload: Vec<u8>,
}

/// A message of a principal, and its number.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) number: u64,
    pub(crate) message: InnerPublication,
}

impl Held {
    pub(crate) fn cost(&self) -> u64 {
        let message = &self.message;
        (size_of::<Self>() + message.topic.len() + message.properties.len() + message.payload.len()) as u64
    }
}

#[derive(Debug)]
pub(crate) struct Registered {
    pub(crate) principal: Principal,
    /// Messages that wait until the principal may go on.
    pub(crate) held: VecDeque<Held>,
    pub(crate) held_bytes: u64,
    /// Numbers of the messages that were routed and not answered, in their order. Answers keep it.
    pub(crate) answering: VecDeque<u64>,
    /// Its answers that wait for a commit.
    pub(crate) uncommitted: usize,
}

/// The services of this process that work with messages without an MQTT session.
#[derive(Debug)]
pub(crate) struct Services {
    /// Services that must get messages before these are acknowledged.
    pub(crate) observers: Observers,
    /// Services that publish.
    pub(crate) principals: Principals,
}

impl Services {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self { observers: Observers::of_settings(settings), principals: Principals::default() }
    }
}

/// All principals of a shard.
#[derive(Debug, Default)]
pub(crate) struct Principals {
    pub(crate) all: BTreeMap<ConnectionKey, Registered>,
    /// Outcomes that wait for the commit of a batch, in the order of batches.
    pub(crate) uncommitted: VecDeque<(u64, PrincipalId, u64, Outcome)>,
}

impl Principals {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Bytes of the messages that are held.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.all.values().map(|registered| registered.held_bytes).sum()
    }

    /// The principal of a connection.
    fn get(&self, key: ConnectionKey) -> Option<&Principal> {
        self.all.get(&key).map(|registered| &registered.principal)
    }

    /// Observers that do not get the messages of a connection's principal.
    pub(crate) fn unobserved_by(&self, key: ConnectionKey) -> &[ObserverId] {
        self.get(key).map_or(&[], |principal| &principal.unobserved_by)
    }

    /// The name of the principal of a connection, and its tenant.
    pub(crate) fn name(&self, key: ConnectionKey) -> Option<(TenantId, &str)> {
        self.get(key).map(|principal| (principal.tenant, &*principal.name))
    }

    /// The publisher as a number, where groups deal by client; 0 if the connection is of no principal.
    pub(crate) fn hash_of(&self, key: ConnectionKey) -> u64 {
        self.name(key).map_or(0, |(tenant, name)| hash_name(tenant, name))
    }
}

impl Principal {
    pub(crate) fn subject(&self) -> Subject<'_> {
        Subject {
            tenant: self.tenant,
            client_id: &self.name,
            listener: self.listener.unwrap_or(PRINCIPAL_LISTENER),
            identity: self.identity.as_ref(),
        }
    }
}

impl Connections {
    pub(crate) fn is_parked(&self, key: ConnectionKey) -> bool {
        self.get(key).is_some_and(Connection::is_parked)
    }
}

impl Principals {
    /// Whether a publisher, which is a principal if it has no session, may publish to a topic.
    pub(crate) fn publisher_may(
        &self,
        state: &ShardState,
        rules: &Rules,
        (key, session): (ConnectionKey, Option<SessionKey>),
        topic: &str,
        qos: QoS,
        retain: bool,
    ) -> bool {
        if let Some(session) = session {
            return rules.may_publish(state, session, topic, qos, retain);
        }
        self.get(key).is_some_and(|principal| {
            principal.kind == PrincipalKind::Broker
                || rules.subject_may_publish(&state.settings, principal.subject(), topic, qos, retain)
        })
    }

    /// Whether the principal of a connection is a part of the broker.
    pub(crate) fn is_broker(&self, key: ConnectionKey) -> bool {
        self.get(key).is_some_and(|principal| principal.kind == PrincipalKind::Broker)
    }
}

impl Principals {
    /// Every answer that a principal waits for is one of its pending acknowledgements.
    pub(crate) fn audit(&self, connections: &Connections, wrong: &mut dyn FnMut(String)) {
        for (key, registered) in &self.all {
            let extra = connections.get(*key).and_then(|connection| connection.extra.as_ref());
            let pending = extra.map_or(0, |extra| extra.acks.len());
            if pending != registered.answering.len() {
                let name = &registered.principal.name;
                wrong(format!("{name:?} waits for {} answers, and {pending} are pending", registered.answering.len()));
            }
            if !registered.held.is_empty() && !connections.is_parked(*key) {
                wrong(format!("messages of {:?} are held and nothing will release them", registered.principal.name));
            }
        }
    }
}
