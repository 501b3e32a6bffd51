//! MQTT in a few lines: what every client has to receive when each step has come to rest.

use std::collections::{BTreeMap, VecDeque};

use tidegate_mqtt::{QoS, RetainHandling, TopicFilter, TopicName};

/// A client by its number.
pub(crate) type ClientNumber = usize;

/// A message that an application must receive: topic, payload, and form of delivery.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Expected {
    pub topic: String,
    pub payload: String,
    pub qos: u8,
    pub retain: bool,
    pub dup: bool,
    pub ids: Vec<u32>,
}

/// A message that exactly one member of a group has to get.
#[derive(Clone, Debug)]
pub(crate) struct OneOf(pub BTreeMap<ClientNumber, Expected>);

/// A subscription as it was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subscription {
    pub qos: QoS,
    pub no_local: bool,
    pub retain_as_published: bool,
    pub id: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Published {
    pub topic: String,
    pub payload: String,
    pub qos: QoS,
    pub retain: bool,
}

#[derive(Clone, Debug, Default)]
struct Session {
    connected: bool,
    /// The session outlives its connection.
    lasts: bool,
    /// The connection speaks MQTT 5: it gets the identifiers of subscriptions from any connection.
    v5: bool,
    /// When a session without a connection ends, seconds.
    ends_at: u64,
    subscriptions: BTreeMap<String, Subscription>,
    /// Sent and not acknowledged.
    in_flight: Vec<Expected>,
    /// Waiting for the client to return.
    queue: VecDeque<Expected>,
    will: Option<Published>,
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Goodbye,
    GoodbyeWithWill,
    Lost,
}

/// Seconds that a lasting session waits for its client.
pub(crate) const SESSION_SECONDS: u64 = 100;

/// The whole of MQTT, as far as these tests go.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    sessions: BTreeMap<ClientNumber, Session>,
    /// Clients that do not acknowledge received messages.
    holding: Vec<ClientNumber>,
    pub retained: BTreeMap<String, Published>,
    now: u64,
    /// The messages that each client must receive in this step.
    pub due: BTreeMap<ClientNumber, Vec<Expected>>,
    pub due_one_of: Vec<OneOf>,
    /// Messages that were not delivered.
    pub dropped_offline: u64,
    pub dropped_with_session: u64,
}

pub(crate) fn matches(filter: &str, topic: &str) -> bool {
    TopicFilter::new(filter).unwrap().matches(TopicName::new(topic).unwrap())
}

fn share_of(filter: &str) -> Option<(&str, &str)> {
    TopicFilter::new(filter).unwrap().shared().map(|(share, filter)| (share, filter.as_str()))
}

impl Model {
    pub(crate) fn is_connected(&self, client: ClientNumber) -> bool {
        self.sessions.get(&client).is_some_and(|session| session.connected)
    }

    /// Sessions with and without a connection, ordinary subscriptions and memberships.
    pub(crate) fn counts(&self) -> [u64; 4] {
        let mut counts = [0; 4];
        for session in self.sessions.values() {
            counts[usize::from(!session.connected)] += 1;
            for filter in session.subscriptions.keys() {
                counts[if share_of(filter).is_some() { 3 } else { 2 }] += 1;
            }
        }
        counts
    }

    /// Messages that wait in queues, and those in flight.
    pub(crate) fn waiting(&self) -> (u64, u64) {
        let sessions = || self.sessions.values();
        (sessions().map(|s| s.queue.len() as u64).sum(), sessions().map(|s| s.in_flight.len() as u64).sum())
    }

    /// CONNECT; returns Session Present.
    pub(crate) fn connect(
        &mut self,
        client: ClientNumber,
        clean: bool,
        lasts: bool,
        v5: bool,
        will: Option<Published>,
    ) -> bool {
        if self.is_connected(client) {
            self.end_connection(client, Ending::Lost);
        }
        if clean {
            self.end_session(client);
        }
        let present = self.sessions.contains_key(&client);
        let session = self.sessions.entry(client).or_default();
        session.connected = true;
        session.lasts = lasts;
        session.v5 = v5;
        session.will = will;
        // QoS 2 messages come again, too, but the client knows them by their packet ids.
        let again: Vec<Expected> = session.in_flight.iter().filter(|sent| sent.qos == 1).cloned().collect();
        let queued = std::mem::take(&mut session.queue);
        if !self.holding.contains(&client) {
            session.in_flight.clear();
        }
        for expected in again {
            self.show(client, Expected { dup: true, ..expected });
        }
        for expected in queued {
            self.deliver(client, expected);
        }
        present
    }

    pub(crate) fn end_connection(&mut self, client: ClientNumber, ending: Ending) {
        let Some(session) = self.sessions.get_mut(&client).filter(|session| session.connected) else { return };
        session.connected = false;
        session.ends_at = self.now + SESSION_SECONDS;
        let lasts = session.lasts;
        let will = session.will.take().filter(|_| ending != Ending::Goodbye);
        if let Some(will) = will {
            self.publish(Some(client), &will);
        }
        if !lasts {
            self.end_session(client);
        }
    }

    fn end_session(&mut self, client: ClientNumber) {
        if let Some(session) = self.sessions.remove(&client) {
            self.dropped_with_session += (session.queue.len() + session.in_flight.len()) as u64;
        }
    }

    pub(crate) fn advance(&mut self, seconds: u64) {
        self.now += seconds;
        let ended: Vec<ClientNumber> = self
            .sessions
            .iter()
            .filter(|(_, session)| !session.connected && session.ends_at <= self.now)
            .map(|(client, _)| *client)
            .collect();
        for client in ended {
            self.end_session(client);
        }
    }

    /// Sets whether a client withholds acknowledgements; without that it sends the owed ones at once.
    pub(crate) fn set_holding(&mut self, client: ClientNumber, holds: bool) {
        self.holding.retain(|other| *other != client);
        if holds {
            self.holding.push(client);
        } else if let Some(session) = self.sessions.get_mut(&client).filter(|session| session.connected) {
            session.in_flight.clear();
        }
    }

    pub(crate) fn subscribe(
        &mut self,
        client: ClientNumber,
        filter: &str,
        subscription: Subscription,
        handling: RetainHandling,
    ) {
        let Some(session) = self.sessions.get_mut(&client) else { return };
        let new = session.subscriptions.insert(filter.to_owned(), subscription).is_none();
        let wanted = match handling {
            RetainHandling::SendAtSubscribe => true,
            RetainHandling::SendIfNew => new,
            RetainHandling::DoNotSend => false,
        };
        if !wanted || share_of(filter).is_some() {
            return;
        }
        let found: Vec<Published> =
            self.retained.values().filter(|stored| matches(filter, &stored.topic)).cloned().collect();
        for stored in found {
            let expected = Expected {
                topic: stored.topic,
                payload: stored.payload,
                qos: stored.qos.min(subscription.qos).bits(),
                retain: true,
                dup: false,
                ids: Some(subscription.id).filter(|id| *id != 0).into_iter().collect(),
            };
            self.deliver(client, expected);
        }
    }

    pub(crate) fn unsubscribe(&mut self, client: ClientNumber, filter: &str) {
        if let Some(session) = self.sessions.get_mut(&client) {
            session.subscriptions.remove(filter);
        }
    }

    pub(crate) fn publish(&mut self, from: Option<ClientNumber>, published: &Published) {
        if published.retain && published.payload.is_empty() {
            self.retained.remove(&published.topic);
        } else if published.retain {
            self.retained.insert(published.topic.clone(), published.clone());
        }
        let receivers: Vec<(ClientNumber, Expected)> = self
            .sessions
            .iter()
            .filter_map(|(client, session)| {
                let own = from == Some(*client);
                let fits = |filter: &str, subscription: &Subscription| {
                    share_of(filter).is_none() && matches(filter, &published.topic) && !(own && subscription.no_local)
                };
                let found = session.subscriptions.iter().filter(|(filter, found)| fits(filter, found));
                let found: Vec<Subscription> = found.map(|(_, found)| *found).collect();
                merge(published, &found).map(|expected| (*client, expected))
            })
            .collect();
        for (client, expected) in receivers {
            self.deliver(client, expected);
        }
        self.publish_to_groups(published);
    }

    fn publish_to_groups(&mut self, published: &Published) {
        let mut groups: BTreeMap<(&str, &str), BTreeMap<ClientNumber, Expected>> = BTreeMap::new();
        for (client, session) in &self.sessions {
            for (filter, subscription) in &session.subscriptions {
                if let Some((share, proper)) = share_of(filter)
                    && matches(proper, &published.topic)
                    && let Some(expected) = merge(published, &[*subscription])
                {
                    groups.entry((share, proper)).or_default().insert(*client, expected);
                }
            }
        }
        self.due_one_of.extend(groups.into_values().map(OneOf));
    }

    /// Adds a message that a client has to receive, in the form of its version.
    fn show(&mut self, client: ClientNumber, mut expected: Expected) {
        if self.sessions.get(&client).is_some_and(|session| !session.v5) {
            expected.ids.clear();
        }
        self.due.entry(client).or_default().push(expected);
    }

    fn deliver(&mut self, client: ClientNumber, expected: Expected) {
        let holds = self.holding.contains(&client);
        let Some(session) = self.sessions.get_mut(&client) else { return };
        if session.connected {
            if expected.qos > 0 && holds {
                session.in_flight.push(expected.clone());
            }
            self.show(client, expected);
        } else if expected.qos > 0 {
            session.queue.push_back(expected);
        } else {
            self.dropped_offline += 1;
        }
    }
}

/// One message for all subscriptions of a client that match ([MQTT-3.3.4-2], [MQTT-3.3.4-3]).
fn merge(published: &Published, found: &[Subscription]) -> Option<Expected> {
    let qos = found.iter().map(|subscription| subscription.qos).max()?;
    let mut ids: Vec<u32> = found.iter().map(|subscription| subscription.id).filter(|id| *id != 0).collect();
    ids.sort_unstable();
    Some(Expected {
        topic: published.topic.clone(),
        payload: published.payload.clone(),
        qos: published.qos.min(qos).bits(),
        retain: published.retain && found.iter().any(|subscription| subscription.retain_as_published),
        dup: false,
        ids,
    })
}
