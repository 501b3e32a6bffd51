//! The plan of an exchange.

use serde::{Deserialize, Serialize};

use super::amqp1::Amqp1;
use super::amqp091::Amqp091;
use super::coap::Coap;
use super::http::{self, Http};
use super::http2::{self, Http2};
use super::kafka::Kafka;
use super::nats::Nats;
use super::wamp::Wamp;
use super::zeromq::ZeroMq;
use super::{Driver, Role};
use crate::load::STAMP_LEN;
use crate::load::plan::{Credentials, Pace, PlanError, Rate};

/// The longest payload that CoAP has in one message, in bytes [RFC 7959, 2.2].
const COAP_BLOCK: u32 = 1024;

/// A protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Protocol {
    /// NATS: a subject. Publishers get no acknowledgements.
    #[serde(rename = "nats")]
    Nats,
    /// AMQP 0-9-1, as in RabbitMQ: a fan-out exchange, and its own queue for each subscriber.
    #[serde(rename = "amqp-0-9-1")]
    Amqp091,
    /// AMQP 1.0: a node that gives everything to everybody, such as a multicast address of Artemis or an exchange of
    /// Qpid.
    #[serde(rename = "amqp-1-0")]
    Amqp1,
    /// CoAP: a resource of one server, which publishers put and subscribers observe. Observers get the newest state,
    /// not each message.
    #[serde(rename = "coap")]
    Coap,
    /// HTTP as RabbitMQ's management API has it. Whatever is published is answered.
    #[serde(rename = "http")]
    Http,
    /// HTTP/2, as a hub of Mercure has it: a post for each message, and a stream of events for each subscriber.
    #[serde(rename = "http-2")]
    Http2,
    /// Kafka: a topic of one partition, read by each subscriber outside of any group.
    #[serde(rename = "kafka")]
    Kafka,
    /// WAMP over a raw socket, with `MessagePack`. Publishers get acknowledgements, and subscribers send none.
    #[serde(rename = "wamp")]
    Wamp,
    /// ZeroMQ without a broker (ZMTP 3.0): each publisher listens, and all subscribers connect to all publishers. The
    /// publishers listen on the plan's port and those after it. There are no acknowledgements.
    #[serde(rename = "zeromq")]
    ZeroMq,
}

impl Protocol {
    /// The schemes of addresses, for an error that names them.
    pub const SCHEMES: &'static str =
        "nats://, amqp://, amqp1://, kafka://, http://, h2://, h2s://, wamp://, coap:// or zeromq://";

    /// Whether publishers listen themselves, without a broker.
    pub const fn is_brokerless(self) -> bool {
        matches!(self, Self::ZeroMq)
    }

    /// Whether it is spoken over UDP.
    pub(super) const fn is_in_datagrams(self) -> bool {
        matches!(self, Self::Coap)
    }

    /// The protocol of an address, by its scheme, with its usual port; `None` for MQTT.
    pub fn of_scheme(scheme: &str) -> Option<(Self, u16)> {
        Some(match scheme {
            "nats" => (Self::Nats, 4222),
            "amqp" => (Self::Amqp091, 5672),
            "amqp1" => (Self::Amqp1, 5672),
            "coap" => (Self::Coap, 5683),
            "h2" => (Self::Http2, 80),
            "h2s" => (Self::Http2, 443),
            "http" => (Self::Http, 15_672),
            "kafka" => (Self::Kafka, 9092),
            "wamp" => (Self::Wamp, 8080),
            "zeromq" => (Self::ZeroMq, 0),
            _ => return None,
        })
    }

    /// Whether the scheme of an address says that it is spoken within TLS.
    pub fn is_within_tls(scheme: &str) -> bool {
        scheme == "h2s"
    }

    /// The required protocol of TLS (ALPN); `None` for a protocol without TLS.
    pub(super) const fn agreed(self) -> Option<&'static [u8]> {
        match self {
            Self::Http2 => Some(b"h2"),
            _ => None,
        }
    }

    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nats => "nats",
            Self::Amqp091 => "amqp-0-9-1",
            Self::Amqp1 => "amqp-1-0",
            Self::Coap => "coap",
            Self::Http => "http",
            Self::Http2 => "http-2",
            Self::Kafka => "kafka",
            Self::Wamp => "wamp",
            Self::ZeroMq => "zeromq",
        }
    }

    /// Whether a publisher gets acknowledgements.
    pub const fn acknowledges(self) -> bool {
        !matches!(self, Self::Nats | Self::ZeroMq)
    }
}

/// Messages from all publishers to all subscribers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExchangePlan {
    /// The protocol.
    pub protocol: Protocol,
    /// A name or an address.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The path of the address, without its first slash: AMQP 0-9-1's virtual host, or the parent node of the topic in
    /// AMQP 1.0.
    #[serde(default)]
    pub path: String,
    /// Whether TLS is used. Any certificate is accepted: a measurement proves no identities.
    #[serde(default)]
    pub tls: bool,
    /// The credentials, for protocols that have some.
    #[serde(default)]
    pub credentials: Option<Credentials>,
    /// The subject or exchange.
    #[serde(default = "default_topic")]
    pub topic: String,
    /// Clients that publish.
    pub publishers: u32,
    /// Clients that receive all messages; or, in pairs, the messages of one publisher each.
    pub subscribers: u32,
    /// Whether each subscriber receives from the publisher with its number alone. There are as many of one as of the
    /// other.
    #[serde(default)]
    pub pairs: bool,
    /// The size of the payload in bytes; the first 16 are the lab's.
    pub size: u32,
    /// When a publisher publishes.
    pub pace: Pace,
    /// Messages of each publisher; `None` for as many as fit into the duration.
    #[serde(default)]
    pub messages: Option<u64>,
    /// Whether messages are kept until they are acknowledged, both ways, as with QoS 1 of MQTT.
    #[serde(default)]
    pub acknowledged: bool,
    /// Time from the first message on that is not measured, in milliseconds.
    #[serde(default)]
    pub warm_up_ms: u64,
    /// Time that is measured, in milliseconds.
    pub duration_ms: u64,
    /// How long connecting may take, in milliseconds.
    #[serde(default = "default_connect_timeout_ms")]
    pub connect_timeout_ms: u64,
    /// How long after the last receipt the rest is waited for, in milliseconds.
    #[serde(default = "default_drain_ms")]
    pub drain_ms: u64,
    /// The seed of all chance.
    #[serde(default)]
    pub seed: u64,
    /// The age at which a message is late, in milliseconds.
    #[serde(default)]
    pub deadline_ms: Option<u64>,
}

fn default_topic() -> String {
    "lab".to_owned()
}

fn default_connect_timeout_ms() -> u64 {
    10_000
}

fn default_drain_ms() -> u64 {
    5000
}

impl ExchangePlan {
    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first value that is out of its range.
    pub fn validate(&self) -> Result<(), PlanError> {
        let wrong = |problem| Err(PlanError::Value(problem));
        if self.publishers == 0 || self.publishers > 1_000 || self.subscribers > 10_000 {
            return wrong("an exchange has 1 to 1,000 publishers and up to 10,000 subscribers");
        }
        if self.pairs && self.publishers != self.subscribers {
            return wrong("pairs have as many publishers as subscribers");
        }
        if self.protocol.is_brokerless() && self.publishers * self.fan_out() > 5_000 {
            return wrong("without a broker there are at most 5,000 pairs of publisher and subscriber");
        }
        if (self.size as usize) < STAMP_LEN || self.size > 64 * 1024 * 1024 {
            return wrong("a payload has 16 bytes to 64 MiB");
        }
        if self.protocol == Protocol::Coap && self.size > COAP_BLOCK {
            return wrong("a message of CoAP has at most 1,024 bytes, the longest block");
        }
        if self.tls && self.protocol.agreed().is_none() {
            return wrong("this protocol is not spoken within TLS here: leave `tls` out");
        }
        if self.acknowledged && !self.protocol.acknowledges() {
            return wrong("this protocol has no acknowledgements: leave `acknowledged` out");
        }
        if self.topic.is_empty() || self.topic.len() > 200 || !self.topic.is_ascii() || self.topic.contains(' ') {
            return wrong("a topic has 1 to 200 ASCII characters, none of them a space");
        }
        if self.path.len() > 50 || !self.path.is_ascii() {
            return wrong("the path of an address has up to 50 ASCII characters");
        }
        match self.pace {
            Pace::Open { rate: Rate::PerClient(rate) | Rate::Total(rate), .. } if !(rate.is_finite() && rate > 0.0) => {
                wrong("a rate is a number above 0")
            }
            Pace::Closed { window: 0 } => wrong("a window is at least 1 message"),
            _ => Ok(()),
        }
    }

    /// Deliveries that are due for a message.
    pub(super) const fn fan_out(&self) -> u32 {
        if self.pairs { 1 } else { self.subscribers }
    }

    /// A new connection's protocol, for the client with this number.
    pub(super) fn driver(&self, role: Role, client: usize) -> Box<dyn Driver> {
        let topic = if self.pairs { format!("{}.{client}", self.topic) } else { self.topic.clone() };
        let credentials = self.credentials.as_ref();
        match self.protocol {
            Protocol::Nats => Box::new(Nats::new(&topic, credentials, role)),
            Protocol::Amqp091 => Box::new(Amqp091::new(&topic, &self.path, credentials, self.acknowledged, role)),
            Protocol::Amqp1 => {
                let address = if self.path.is_empty() { topic } else { format!("{}/{topic}", self.path) };
                Box::new(Amqp1::new(&address, credentials, self.acknowledged, role))
            }
            Protocol::Coap => {
                let above = self.path.split('/').filter(|segment| !segment.is_empty()).map(str::to_owned);
                Box::new(Coap::new(above.chain([topic]).collect(), self.acknowledged, role))
            }
            Protocol::Http => {
                let authority = format!("{}:{}", self.host, self.port);
                let place = http::QueueTarget { authority, host: &self.path, credentials };
                let queue = format!("{topic}-{:x}-{client}", self.seed);
                Box::new(Http::new(&topic, &queue, &place, self.acknowledged, role))
            }
            Protocol::Http2 => {
                let authority = format!("{}:{}", self.host, self.port);
                let place = http2::TopicTarget { authority, path: &self.path, credentials, is_secured: self.tls };
                Box::new(Http2::new(&topic, &place, self.acknowledged, role))
            }
            Protocol::Kafka => Box::new(Kafka::new(&topic, self.acknowledged, role)),
            Protocol::Wamp => Box::new(Wamp::new(&topic, &self.path, credentials, self.acknowledged, role)),
            Protocol::ZeroMq => Box::new(ZeroMq::new(role)),
        }
    }
}
