//! A scenario: the broker, one version of MQTT, unique topic names, and clients.

use crate::client::{Client, Connack};
use crate::journal::Journal;
use crate::outcome::{Outcome, failed};
use crate::target::Target;
use crate::tcp::open_tcp;
use crate::transport::Transport;
use crate::version::Version;
use crate::websocket::WebSocket;
use crate::wire::{Connect, Publish};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// One run of one case in one version.
#[derive(Debug)]
pub struct Scenario<'a> {
    target: &'a Target,
    /// The version this run of the case speaks.
    pub(crate) version: Version,
    topics: String,
    client_ids: String,
    journal: Rc<Journal>,
    fences: Cell<u32>,
}

impl<'a> Scenario<'a> {
    /// The number tells the case from the others of the run.
    pub(crate) fn new(target: &'a Target, number: usize, version: Version, journal: Rc<Journal>) -> Self {
        let own = format!("{}{number}v{}", target.run, version.token());
        Self {
            target,
            version,
            topics: format!("conformance/{own}"),
            // With the tail of each client at most 23 letters and digits, which every broker accepts [MQTT-3.1.3-5].
            client_ids: format!("c{own}"),
            journal,
            fences: Cell::new(0),
        }
    }

    pub(crate) fn is_v5(&self) -> bool {
        self.version == Version::V5
    }

    /// Whether the project's own promises are demanded too.
    pub(crate) fn is_strict(&self) -> bool {
        self.target.options.strict
    }

    pub(crate) fn target(&self) -> &Target {
        self.target
    }

    /// How long an answer may take at most.
    pub(crate) fn patience(&self) -> Duration {
        self.target.options.patience
    }

    /// A topic name or filter of this run alone.
    pub(crate) fn topic(&self, tail: &str) -> String {
        format!("{}/{tail}", self.topics)
    }

    /// A level of this run alone, for topics that have to start in another way.
    pub(crate) fn level(&self, tail: &str) -> String {
        self.topic(tail).replace('/', "-")
    }

    /// A client identifier of this run alone.
    pub(crate) fn client_id(&self, tail: &str) -> String {
        format!("{}{tail}", self.client_ids)
    }

    /// A CONNECT of this version with the client identifier for `name`.
    pub(crate) fn connection(&self, name: &str) -> Connect {
        self.connection_as(self.version, name)
    }

    /// The same in another version.
    pub(crate) fn connection_as(&self, version: Version, name: &str) -> Connect {
        let options = &self.target.options;
        let mut connect = Connect::new(version, &self.client_id(name));
        connect.user_name.clone_from(&options.user_name);
        connect.password = options.password.as_ref().map(|password| password.as_bytes().to_vec());
        connect
    }

    /// A network connection on which nothing was sent yet.
    pub(crate) fn open(&self, name: &str) -> Outcome<Client> {
        self.open_as(self.version, name)
    }

    /// The same for a client of another version.
    pub(crate) fn open_as(&self, version: Version, name: &str) -> Outcome<Client> {
        let stream = open_tcp(&self.target.options.broker, self.patience())?;
        Ok(self.client_on(Transport::Tcp(stream), version, name))
    }

    /// A network connection over WebSocket, handshake done.
    pub(crate) fn open_websocket(&self, name: &str) -> Outcome<Client> {
        let (address, path) = self.websocket_address()?;
        let (socket, handshake) = WebSocket::open(&address, &path, "mqtt", self.patience())?;
        if handshake.status != 101 {
            return failed(format!("the WebSocket handshake is answered with status {}", handshake.status));
        }
        Ok(self.client_on(Transport::WebSocket(socket), self.version, name))
    }

    /// Address and path of the WebSocket listener.
    pub(crate) fn websocket_address(&self) -> Outcome<(String, String)> {
        let Some(address) = &self.target.options.websocket else {
            return crate::outcome::skipped("no WebSocket address was given");
        };
        Ok(match address.split_once('/') {
            Some((address, path)) => (address.to_owned(), format!("/{path}")),
            None => (address.clone(), "/mqtt".to_owned()),
        })
    }

    fn client_on(&self, transport: Transport, version: Version, name: &str) -> Client {
        let journal = Rc::clone(&self.journal);
        Client::new(name, version, transport, journal, self.patience(), self.is_strict())
    }

    /// A connected client with a clean session.
    pub(crate) fn connect(&self, name: &str) -> Outcome<Client> {
        let connect = self.connection(name);
        Ok(self.connect_with(name, &connect)?.0)
    }

    /// A connected client whose session outlives the connection; resumes a session of the same name.
    pub(crate) fn connect_persistent(&self, name: &str) -> Outcome<(Client, Connack)> {
        let connect = self.connection(name).persistent();
        self.connect_with(name, &connect)
    }

    /// A connected client, in the version of the CONNECT.
    pub(crate) fn connect_with(&self, name: &str, connect: &Connect) -> Outcome<(Client, Connack)> {
        let mut client = self.open_as(connect.version, name)?;
        client.send_connect(connect)?;
        let connack = client.expect_connack()?;
        Ok((client, connack))
    }

    /// A client subscribed to a filter with this QoS (and options), and one to publish.
    pub(crate) fn subscriber_and_publisher(&self, filter: &str, options: u8) -> Outcome<(Client, Client)> {
        let mut subscriber = self.connect("subscriber")?;
        subscriber.subscribe(filter, options)?;
        Ok((subscriber, self.connect("publisher")?))
    }

    /// Proves that nothing else is under way from one client to another: messages on topics of their own follow the
    /// same path and must be the next to arrive.
    pub(crate) fn fence(&self, publisher: &mut Client, subscriber: &mut Client) -> Outcome {
        let qos = 0..=self.target.capabilities.maximum_qos.min(1);
        let topic = self.next_fence();
        subscriber.subscribe(&topic, *qos.end())?;
        for qos in qos.clone() {
            publisher.publish(&Publish::new(&topic, format!("fence {qos}")).qos(qos))?;
        }
        for _ in qos {
            let publish = subscriber.take()?;
            if publish.topic != topic {
                return failed(format!(
                    "{}: no message was expected, got `{:.40}` on `{}` (QoS {}, retain {})",
                    subscriber.name,
                    publish.text(),
                    publish.topic,
                    publish.qos,
                    u8::from(publish.retain)
                ));
            }
        }
        subscriber.unsubscribe(&topic)
    }

    /// The same for messages of the client to itself.
    pub(crate) fn fence_itself(&self, client: &mut Client) -> Outcome {
        let topic = self.next_fence();
        client.subscribe(&topic, 0)?;
        client.publish(&Publish::new(&topic, "fence"))?;
        let publish = client.take()?;
        if publish.topic != topic {
            return failed(format!(
                "{}: no message was expected, got `{:.40}` on `{}`",
                client.name,
                publish.text(),
                publish.topic
            ));
        }
        client.unsubscribe(&topic)
    }

    fn next_fence(&self) -> String {
        let number = self.fences.get() + 1;
        self.fences.set(number);
        self.topic(&format!("fence/{number}"))
    }

    /// Takes away what the case left in the broker: sessions and retained messages. What cannot be cleaned is left; the
    /// outcome of the case does not depend on it.
    pub(crate) fn clean_up(&self) {
        let traces = self.journal.take_traces();
        for (client_id, version) in traces.sessions {
            let mut connect = self.connection_as(version, "");
            connect.client_id = client_id;
            if let Ok((client, _)) = self.connect_with("clean-up", &connect) {
                let _ = client.disconnect();
            }
        }
        if traces.retained.is_empty() {
            return;
        }
        if let Ok(mut client) = self.connect("cleanup") {
            for topic in &traces.retained {
                let _ = client.send_publish(&Publish::new(topic, "").retain());
            }
            let _ = client.disconnect();
        }
    }
}
