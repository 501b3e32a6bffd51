//! The broker under test: its address and its announced features.

use crate::options::Options;
use crate::version::Version;
use crate::wire::Property;

/// A feature that a case needs; a case without its features is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Retained messages are stored.
    Retained,
    /// Retained messages are not stored; for cases about how that is refused.
    NoRetained,
    /// The broker accepts QoS 1.
    Qos1,
    /// The broker accepts QoS 2.
    Qos2,
    /// The broker accepts less than QoS 2; for cases about how more is refused.
    LowMaximumQos,
    /// Shared subscriptions.
    SharedSubscriptions,
    /// Wildcards in topic filters.
    WildcardSubscriptions,
    /// Subscription identifiers.
    SubscriptionIdentifiers,
    /// The broker takes topic aliases from clients.
    TopicAliases,
    /// An address of a WebSocket listener was given.
    WebSocket,
}

impl Feature {
    /// The missing feature, in words for the report.
    fn absence(self) -> &'static str {
        match self {
            Self::Retained => "the broker has no retained messages",
            Self::NoRetained => "the broker has retained messages",
            Self::Qos1 => "the broker has no QoS 1",
            Self::Qos2 => "the broker has no QoS 2",
            Self::LowMaximumQos => "the broker has every QoS",
            Self::SharedSubscriptions => "the broker has no shared subscriptions",
            Self::WildcardSubscriptions => "the broker has no wildcard subscriptions",
            Self::SubscriptionIdentifiers => "the broker has no subscription identifiers",
            Self::TopicAliases => "the broker takes no topic aliases",
            Self::WebSocket => "no WebSocket address was given (--websocket)",
        }
    }
}

/// The capabilities that the broker announced in its CONNACK, with the defaults of the specification for the others.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a yes or no of the CONNACK packet")]
pub(crate) struct Capabilities {
    pub(crate) versions: Vec<Version>,
    pub(crate) maximum_qos: u8,
    pub(crate) retained: bool,
    pub(crate) wildcards: bool,
    pub(crate) subscription_identifiers: bool,
    pub(crate) shared: bool,
    pub(crate) topic_alias_maximum: u16,
    pub(crate) receive_maximum: u16,
    pub(crate) maximum_packet_size: Option<u32>,
    /// The keep alive that the broker imposes on a client that asked for one second.
    pub(crate) server_keep_alive: Option<u16>,
}

impl Default for Capabilities {
    fn default() -> Self {
        Self {
            versions: Vec::new(),
            maximum_qos: 2,
            retained: true,
            wildcards: true,
            subscription_identifiers: true,
            shared: true,
            topic_alias_maximum: 0,
            receive_maximum: 65_535,
            maximum_packet_size: None,
            server_keep_alive: None,
        }
    }
}

/// The broker under test.
#[derive(Clone, Debug)]
pub struct Target {
    pub(crate) options: Options,
    pub(crate) capabilities: Capabilities,
    /// Letters that make the client identifiers and topics of this run its own.
    pub(crate) run: String,
}

impl Target {
    /// Why a case with these needs cannot run here, if it cannot.
    pub(crate) fn lacks(&self, needs: &[Feature]) -> Option<&'static str> {
        needs.iter().find(|feature| !self.offers(**feature)).map(|feature| feature.absence())
    }

    fn offers(&self, feature: Feature) -> bool {
        let can = &self.capabilities;
        match feature {
            Feature::Retained => can.retained,
            Feature::NoRetained => !can.retained,
            Feature::Qos1 => can.maximum_qos >= 1,
            Feature::Qos2 => can.maximum_qos == 2,
            Feature::LowMaximumQos => can.maximum_qos < 2,
            Feature::SharedSubscriptions => can.shared,
            Feature::WildcardSubscriptions => can.wildcards,
            Feature::SubscriptionIdentifiers => can.subscription_identifiers,
            Feature::TopicAliases => can.topic_alias_maximum > 0,
            Feature::WebSocket => self.options.websocket.is_some(),
        }
    }
}

impl Capabilities {
    /// Applies a property of the CONNACK.
    pub(crate) fn take(&mut self, property: &Property) {
        match property {
            Property::MaximumQos(qos) => self.maximum_qos = *qos,
            Property::RetainAvailable(available) => self.retained = *available != 0,
            Property::WildcardSubscriptionAvailable(available) => self.wildcards = *available != 0,
            Property::SubscriptionIdentifierAvailable(available) => self.subscription_identifiers = *available != 0,
            Property::SharedSubscriptionAvailable(available) => self.shared = *available != 0,
            Property::TopicAliasMaximum(maximum) => self.topic_alias_maximum = *maximum,
            Property::ReceiveMaximum(maximum) => self.receive_maximum = *maximum,
            Property::MaximumPacketSize(size) => self.maximum_packet_size = Some(*size),
            Property::ServerKeepAlive(seconds) => self.server_keep_alive = Some(*seconds),
            _ => {}
        }
    }
}
