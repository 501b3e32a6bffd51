//! Messages on their way through a broker.

use tidegate_mqtt::{
    Packet, PacketId, PayloadFormat, PubRel, Publish, PublishProperties, QoS, ReasonCode, RetainHandling,
    SubscriptionIdentifiers, SubscriptionOptions, TopicName, UserProperties, Version,
};

use super::FakeBroker;
use super::session::{Outgoing, Sent};
use crate::harness::net::SocketId;
use crate::model::matches;

/// A message as a broker has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Carried {
    pub topic: String,
    pub payload: Vec<u8>,
    pub qos: QoS,
    pub retain: bool,
    pub expiry: Option<u32>,
    pub payload_format: Option<PayloadFormat>,
    pub content_type: Option<String>,
    pub response_topic: Option<String>,
    pub correlation_data: Option<Vec<u8>>,
    pub user_properties: Vec<(String, String)>,
}

impl Carried {
    pub(super) fn of(publish: &Publish<'_>) -> Self {
        let pairs = publish.properties.user_properties.iter();
        Self {
            topic: publish.topic.expect("a topic").as_str().to_owned(),
            payload: publish.payload.to_vec(),
            qos: publish.qos,
            retain: publish.retain,
            expiry: publish.properties.message_expiry,
            payload_format: publish.properties.payload_format,
            content_type: publish.properties.content_type.map(str::to_owned),
            response_topic: publish.properties.response_topic.map(|topic| topic.as_str().to_owned()),
            correlation_data: publish.properties.correlation_data.map(<[u8]>::to_vec),
            user_properties: pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.payload).into_owned()
    }

    /// The id that the orchestrator has given it.
    pub(crate) fn id(&self) -> Option<&str> {
        self.user_properties.iter().find(|(name, _)| name == "tidegate-id").map(|(_, value)| value.as_str())
    }
}

impl FakeBroker {
    /// The retained message of a topic.
    pub(crate) fn kept(&self, topic: &str) -> Option<&Carried> {
        self.retained.get(topic)
    }

    /// Gives a message to everyone who has subscribed, and keeps it when it is to be retained.
    pub(crate) fn route(&mut self, carried: &Carried) {
        if carried.retain {
            if carried.payload.is_empty() {
                self.retained.remove(&carried.topic);
            } else {
                self.retained.insert(carried.topic.clone(), carried.clone());
            }
        }
        let clients: Vec<String> = self.sessions.keys().cloned().collect();
        for client in clients {
            let Some(session) = self.sessions.get(&client) else { continue };
            let matching: Vec<(QoS, Option<u32>)> = session
                .subscriptions
                .iter()
                .filter(|(filter, _)| matches(filter, &carried.topic))
                .map(|(_, (options, id))| (options.qos.min(carried.qos), *id))
                .collect();
            let Some(best) = matching.iter().map(|(qos, _)| *qos).max() else { continue };
            let live = Carried { retain: false, ..carried.clone() };
            if self.ways.copies {
                for (qos, id) in matching {
                    self.deliver(&client, Outgoing { carried: live.clone(), qos, ids: id.into_iter().collect() });
                }
            } else {
                let ids = matching.iter().filter_map(|(_, id)| *id).collect();
                self.deliver(&client, Outgoing { carried: live, qos: best, ids });
            }
        }
    }

    pub(super) fn send_retained(
        &mut self,
        line: SocketId,
        filter: &str,
        options: SubscriptionOptions,
        id: Option<u32>,
        new: bool,
    ) {
        let v5 = self.version(line).is_some_and(Version::is_v5);
        let wanted = match options.retain_handling {
            _ if !v5 => true,
            RetainHandling::SendAtSubscribe => true,
            RetainHandling::SendIfNew => new,
            RetainHandling::DoNotSend => false,
        };
        let Some((client, _)) = self.lines.get(&line).and_then(|line| line.client.clone()).filter(|_| wanted) else {
            return;
        };
        let kept = self.retained.values().filter(|kept| matches(filter, &kept.topic)).cloned();
        for carried in kept.collect::<Vec<_>>() {
            let qos = options.qos.min(carried.qos);
            self.deliver(&client, Outgoing { carried, qos, ids: id.into_iter().collect() });
        }
    }

    fn deliver(&mut self, client: &str, outgoing: Outgoing) {
        let withholds = self.ways.withholds_messages;
        let Some(session) = self.sessions.get_mut(client) else { return };
        let Some(line) = session.line.filter(|_| !withholds) else {
            if outgoing.qos != QoS::AtMostOnce || withholds {
                session.queue.push_back(outgoing);
            }
            return;
        };
        if outgoing.qos == QoS::AtMostOnce {
            return self.put(line, &outgoing, None, false);
        }
        session.queue.push_back(outgoing);
        self.pump(client);
    }

    /// Sends messages as far as the client has room.
    pub(super) fn pump(&mut self, client: &str) {
        if self.ways.withholds_messages {
            return;
        }
        loop {
            let Some(session) = self.sessions.get_mut(client) else { return };
            let Some(line) = session.line.filter(|_| session.sent.len() < session.window) else { return };
            let Some(outgoing) = session.queue.pop_front() else { return };
            if outgoing.qos == QoS::AtMostOnce {
                self.put(line, &outgoing, None, false);
                continue;
            }
            let id = session.free_id();
            session.sent.push_back(Sent { id, outgoing: outgoing.clone(), received: false });
            self.put(line, &outgoing, Some(id), false);
        }
    }

    /// Sends the messages again that were in flight when the last connection ended.
    pub(super) fn resend(&mut self, client: &str) {
        let Some(session) = self.sessions.get(client) else { return };
        let Some(line) = session.line else { return };
        let under_way = session.sent.iter().map(|sent| (sent.id, sent.outgoing.clone(), sent.received));
        for (id, outgoing, received) in under_way.collect::<Vec<_>>() {
            if received {
                self.send(line, &Packet::PubRel(PubRel::new(id, ReasonCode::Success)));
            } else {
                self.put(line, &outgoing, Some(id), true);
            }
        }
    }

    fn put(&mut self, line: SocketId, outgoing: &Outgoing, packet_id: Option<PacketId>, dup: bool) {
        let v5 = self.version(line).is_some_and(Version::is_v5);
        let carried = &outgoing.carried;
        let pairs: Vec<(&str, &str)> =
            carried.user_properties.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let mut properties = PublishProperties::default();
        if v5 {
            properties.user_properties = UserProperties::new(&pairs);
            properties.subscription_identifiers = SubscriptionIdentifiers::new(&outgoing.ids);
            properties.message_expiry = carried.expiry;
            properties.payload_format = carried.payload_format;
            properties.content_type = carried.content_type.as_deref();
            let response_topic = carried.response_topic.as_deref();
            properties.response_topic = response_topic.map(|topic| TopicName::new(topic).expect("a topic name"));
            properties.correlation_data = carried.correlation_data.as_deref();
        }
        let publish = Publish {
            dup,
            qos: outgoing.qos,
            retain: carried.retain,
            topic: Some(TopicName::new(&carried.topic).expect("a topic name")),
            packet_id,
            properties,
            payload: &carried.payload,
        };
        self.send(line, &Packet::Publish(publish));
    }

    pub(super) fn finish(&mut self, line: SocketId, id: PacketId) {
        let Some((client, _)) = self.lines.get(&line).and_then(|line| line.client.clone()) else { return };
        if let Some(session) = self.sessions.get_mut(&client) {
            session.sent.retain(|sent| sent.id != id);
        }
        self.pump(&client);
    }

    pub(super) fn take_pub_rec(&mut self, line: SocketId, id: PacketId, code: ReasonCode) {
        if code.is_error() {
            return self.finish(line, id);
        }
        let Some(session) = self.session_on(line) else { return };
        let Some(sent) = session.sent.iter_mut().find(|sent| sent.id == id) else { return };
        sent.received = true;
        self.send(line, &Packet::PubRel(PubRel::new(id, ReasonCode::Success)));
    }

    /// Messages that it has for others and that are not acknowledged.
    pub(crate) fn owes(&self) -> usize {
        self.sessions.values().map(|session| session.queue.len() + session.sent.len()).sum()
    }
}
