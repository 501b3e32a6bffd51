//! The properties of a CONNACK packet.

use std::num::{NonZeroU16, NonZeroU32};

use crate::explanation::Explanation;
use crate::property::{Property, PropertyReader};
use crate::writer::Sink;
use crate::{DecodeError, PacketType, PropertyOwner, QoS, UserProperties};

/// The properties of a CONNACK packet (section 3.2.2.3): the limits of the server, and the values that replace values
/// of the CONNECT. An absent property has the default given at its field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnAckProperties<'a> {
    /// Session Expiry Interval in seconds, `u32::MAX` for never; absent: as the client asked.
    pub session_expiry_interval: Option<u32>,
    /// How many PUBLISH packets of QoS 1 and 2 the server takes at once; absent: 65,535.
    pub receive_maximum: Option<NonZeroU16>,
    /// The greatest QoS that the server takes, 0 or 1 ([MQTT-3.2.2-9]); absent: 2. A value of 2 has no
    /// encoding and is left out.
    pub maximum_qos: Option<QoS>,
    /// Whether the server keeps retained messages; absent: yes.
    pub retain_available: Option<bool>,
    /// The size of the largest packet that the server takes, in bytes ([MQTT-3.2.2-15]); absent: no limit.
    pub maximum_packet_size: Option<NonZeroU32>,
    /// The Client Identifier that the server has assigned ([MQTT-3.2.2-16]).
    pub assigned_client_identifier: Option<&'a str>,
    /// The greatest Topic Alias that the server takes ([MQTT-3.2.2-17]); absent: 0, none.
    pub topic_alias_maximum: Option<u16>,
    /// The Reason String, for people.
    pub reason_string: Option<&'a str>,
    /// Pairs of the server's own.
    pub user_properties: UserProperties<'a>,
    /// Whether filters may hold wildcards; absent: yes.
    pub wildcard_subscription_available: Option<bool>,
    /// Whether subscriptions may have identifiers; absent: yes.
    pub subscription_identifier_available: Option<bool>,
    /// Whether subscriptions may be shared; absent: yes.
    pub shared_subscription_available: Option<bool>,
    /// The Keep Alive that holds instead of the client's, in seconds ([MQTT-3.2.2-21]).
    pub server_keep_alive: Option<u16>,
    /// The basis of Response Topics.
    pub response_information: Option<&'a str>,
    /// Another server to use.
    pub server_reference: Option<&'a str>,
    /// The name of the authentication method ([MQTT-4.12.0-5]).
    pub authentication_method: Option<&'a str>,
    /// Data of the authentication method.
    pub authentication_data: Option<&'a [u8]>,
}

impl<'a> ConnAckProperties<'a> {
    /// Decodes and checks the properties in `block`, which is without its length.
    ///
    /// # Errors
    ///
    /// When a property is malformed, does not belong in a CONNACK packet, is there twice though it may not
    /// be, or has a value outside its range.
    pub fn decode(block: &'a [u8]) -> Result<Self, DecodeError> {
        let mut properties = Self { user_properties: UserProperties::from_block(block), ..Self::default() };
        let mut reader = PropertyReader::new(block, PropertyOwner::Packet(PacketType::ConnAck));
        while let Some(property) = reader.next()? {
            properties.set(property);
        }
        Ok(properties)
    }

    fn set(&mut self, property: Property<'a>) {
        match property {
            Property::SessionExpiryInterval(seconds) => {
                self.session_expiry_interval = Some(seconds);
            }
            Property::ReceiveMaximum(count) => self.receive_maximum = Some(count),
            Property::MaximumQos(qos) => self.maximum_qos = Some(qos),
            Property::RetainAvailable(flag) => self.retain_available = Some(flag),
            Property::MaximumPacketSize(bytes) => self.maximum_packet_size = Some(bytes),
            Property::AssignedClientIdentifier(text) => {
                self.assigned_client_identifier = Some(text);
            }
            Property::TopicAliasMaximum(alias) => self.topic_alias_maximum = Some(alias),
            Property::ReasonString(text) => self.reason_string = Some(text),
            Property::WildcardSubscriptionAvailable(flag) => {
                self.wildcard_subscription_available = Some(flag);
            }
            Property::SubscriptionIdentifierAvailable(flag) => {
                self.subscription_identifier_available = Some(flag);
            }
            Property::SharedSubscriptionAvailable(flag) => {
                self.shared_subscription_available = Some(flag);
            }
            Property::ServerKeepAlive(seconds) => self.server_keep_alive = Some(seconds),
            Property::ResponseInformation(text) => self.response_information = Some(text),
            Property::ServerReference(text) => self.server_reference = Some(text),
            Property::AuthenticationMethod(text) => self.authentication_method = Some(text),
            Property::AuthenticationData(data) => self.authentication_data = Some(data),
            // User Properties are read from the block on demand. The reader rejects all others.
            _ => {}
        }
    }

    /// The Reason String and User Properties, which may be left out.
    pub(super) const fn explanation(&self) -> Explanation<'a> {
        Explanation { reason_string: self.reason_string, user_properties: self.user_properties }
    }

    /// Writes all properties, with as much of the explanation as is given.
    pub(super) fn write(&self, sink: &mut dyn Sink, explanation: &Explanation<'_>) {
        let maximum_qos = self.maximum_qos.filter(|&qos| qos < QoS::ExactlyOnce);
        sink.optional(self.session_expiry_interval, Property::SessionExpiryInterval);
        sink.optional(self.receive_maximum, Property::ReceiveMaximum);
        sink.optional(maximum_qos, Property::MaximumQos);
        sink.optional(self.retain_available, Property::RetainAvailable);
        sink.optional(self.maximum_packet_size, Property::MaximumPacketSize);
        sink.optional(self.assigned_client_identifier, Property::AssignedClientIdentifier);
        sink.optional(self.topic_alias_maximum, Property::TopicAliasMaximum);
        sink.optional(self.wildcard_subscription_available, Property::WildcardSubscriptionAvailable);
        sink.optional(self.subscription_identifier_available, Property::SubscriptionIdentifierAvailable);
        sink.optional(self.shared_subscription_available, Property::SharedSubscriptionAvailable);
        sink.optional(self.server_keep_alive, Property::ServerKeepAlive);
        sink.optional(self.response_information, Property::ResponseInformation);
        sink.optional(self.server_reference, Property::ServerReference);
        sink.optional(self.authentication_method, Property::AuthenticationMethod);
        sink.optional(self.authentication_data, Property::AuthenticationData);
        explanation.write(sink);
    }
}
