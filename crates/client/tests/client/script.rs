//! A client under a virtual clock, with a scripted server.

use std::time::{Duration, Instant};

use tidegate_client::{
    Client, Connected, Delivery, Disconnected, Event, Message, Options, Publish, PublishToken, QoS, TopicNameBuf,
    Version,
};

/// CONNACK of MQTT 3.1 and 3.1.1: accepted, without and with a session.
pub(crate) const ACCEPTED: &[u8] = &[0x20, 2, 0, 0];
pub(crate) const RESUMED: &[u8] = &[0x20, 2, 1, 0];
/// CONNACK of MQTT 5.0 without properties.
pub(crate) const ACCEPTED_V5: &[u8] = &[0x20, 3, 0, 0, 0];
pub(crate) const RESUMED_V5: &[u8] = &[0x20, 3, 1, 0, 0];

pub(crate) struct Script {
    pub(crate) client: Client,
    pub(crate) now: Instant,
}

impl Script {
    pub(crate) fn new(options: Options) -> Self {
        let now = Instant::now();
        let client = Client::new(options, now);
        Self { client, now }
    }

    /// A client of 3.1.1 or 5.0 that the server has accepted, without pending input or output.
    pub(crate) fn connected(version: Version) -> Self {
        Self::accepted(options(version), accepted(version))
    }

    pub(crate) fn accepted(options: Options, connack: &[u8]) -> Self {
        let mut script = Self::new(options);
        script.reconnect(connack);
        script
    }

    /// Opens a connection that the server answers by `connack`.
    pub(crate) fn reconnect(&mut self, connack: &[u8]) -> Connected {
        self.client.open(self.now).unwrap();
        self.sent();
        self.receive(connack);
        match self.client.poll_event() {
            Some(Event::Connected(connected)) => *connected,
            other => panic!("not connected: {other:?}"),
        }
    }

    pub(crate) fn lose_connection(&mut self) {
        self.client.handle_closed();
        assert_eq!(self.event(), Event::Disconnected(Disconnected::TransportClosed));
    }

    /// As [`Script::lose_connection`], when events are still to be read.
    pub(crate) fn lose_connection_after_events(&mut self) {
        while self.client.poll_event().is_some() {}
        self.lose_connection();
    }

    pub(crate) fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        self.client.handle_deadline(self.now);
    }

    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        self.client.handle_input(self.now, bytes);
    }

    /// Takes the client's output.
    pub(crate) fn sent(&mut self) -> Vec<u8> {
        let bytes = self.client.output().to_vec();
        self.client.advance_output(self.now, bytes.len());
        bytes
    }

    pub(crate) fn event(&mut self) -> Event {
        self.client.poll_event().expect("an event")
    }

    pub(crate) fn assert_quiet(&mut self) {
        assert_eq!(self.client.poll_event(), None);
        assert_eq!(self.client.output(), b"");
    }

    pub(crate) fn publish(&mut self, topic: &str, payload: &str, qos: QoS) -> PublishToken {
        let publish = message(topic, payload, qos);
        self.client.publish(self.now, publish).unwrap()
    }

    pub(crate) fn message(&mut self) -> Message {
        match self.event() {
            Event::Message(message) => *message,
            other => panic!("not a message: {other:?}"),
        }
    }

    pub(crate) fn delivery(&mut self) -> Delivery {
        self.message().delivery.unwrap()
    }

    /// As [`Script::disconnected`], when requests are lost before.
    pub(crate) fn disconnected_after_requests(&mut self) -> Disconnected {
        assert!(matches!(self.event(), Event::RequestLost(_)));
        self.disconnected()
    }

    pub(crate) fn disconnected(&mut self) -> Disconnected {
        match self.event() {
            Event::Disconnected(why) => why,
            other => panic!("not disconnected: {other:?}"),
        }
    }
}

pub(crate) fn options(version: Version) -> Options {
    Options { version, clean_start: false, ..Options::new("c") }
}

pub(crate) fn accepted(version: Version) -> &'static [u8] {
    if version == Version::V5 { ACCEPTED_V5 } else { ACCEPTED }
}

pub(crate) fn topic(text: &str) -> TopicNameBuf {
    TopicNameBuf::new(text).unwrap()
}

pub(crate) fn message(name: &str, payload: &str, qos: QoS) -> Publish {
    Publish::new(topic(name), payload).with_qos(qos)
}
