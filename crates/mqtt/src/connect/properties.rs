//! The properties of a CONNECT packet.

use std::num::{NonZeroU16, NonZeroU32};

use crate::property::{Property, PropertyReader};
use crate::writer::Sink;
use crate::{DecodeError, PacketType, PropertyId, PropertyOwner, UserProperties};

/// The properties of a CONNECT packet (section 3.1.2.11). An absent property has the default given at its field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectProperties<'a> {
    /// How long the session outlives the connection, in seconds, `u32::MAX` for ever; absent: 0
    /// ([MQTT-3.1.2-23]).
    pub session_expiry_interval: Option<u32>,
    /// How many PUBLISH packets of QoS 1 and 2 the client takes at once; absent: 65,535.
    pub receive_maximum: Option<NonZeroU16>,
    /// The size of the largest packet that the client takes, in bytes ([MQTT-3.1.2-24]); absent: no limit.
    pub maximum_packet_size: Option<NonZeroU32>,
    /// The greatest Topic Alias that the client takes ([MQTT-3.1.2-26]); absent: 0, none.
    pub topic_alias_maximum: Option<u16>,
    /// Whether the client asks for Response Information ([MQTT-3.1.2-28]); absent: no.
    pub request_response_information: Option<bool>,
    /// Whether the client accepts Reason Strings and User Properties in packets that report a failure
    /// ([MQTT-3.1.2-29]); absent: yes.
    pub request_problem_information: Option<bool>,
    /// Pairs of the client's own.
    pub user_properties: UserProperties<'a>,
    /// The name of the authentication method ([MQTT-3.1.2-30]).
    pub authentication_method: Option<&'a str>,
    /// Data of the authentication method; only with a method.
    pub authentication_data: Option<&'a [u8]>,
}

impl<'a> ConnectProperties<'a> {
    /// Decodes and checks the properties in `block`, which is without its length.
    ///
    /// # Errors
    ///
    /// When a property is malformed, does not belong in a CONNECT packet, is there twice though it may not
    /// be, or has a value outside its range; and for authentication data without a method.
    pub fn decode(block: &'a [u8]) -> Result<Self, DecodeError> {
        let packet = PacketType::Connect;
        let mut properties = Self { user_properties: UserProperties::from_block(block), ..Self::default() };
        let mut reader = PropertyReader::new(block, PropertyOwner::Packet(packet));
        while let Some(property) = reader.next()? {
            match property {
                Property::SessionExpiryInterval(seconds) => {
                    properties.session_expiry_interval = Some(seconds);
                }
                Property::ReceiveMaximum(count) => properties.receive_maximum = Some(count),
                Property::MaximumPacketSize(bytes) => properties.maximum_packet_size = Some(bytes),
                Property::TopicAliasMaximum(alias) => properties.topic_alias_maximum = Some(alias),
                Property::RequestResponseInformation(flag) => {
                    properties.request_response_information = Some(flag);
                }
                Property::RequestProblemInformation(flag) => {
                    properties.request_problem_information = Some(flag);
                }
                Property::AuthenticationMethod(text) => {
                    properties.authentication_method = Some(text);
                }
                Property::AuthenticationData(data) => properties.authentication_data = Some(data),
                // User Properties are read from the block on demand. The reader rejects all others.
                _ => {}
            }
        }
        if properties.authentication_data.is_some() && properties.authentication_method.is_none() {
            let property = PropertyId::AuthenticationMethod;
            return Err(DecodeError::MissingProperty { packet, property });
        }
        Ok(properties)
    }

    pub(super) fn write(&self, sink: &mut dyn Sink) {
        sink.optional(self.session_expiry_interval, Property::SessionExpiryInterval);
        sink.optional(self.receive_maximum, Property::ReceiveMaximum);
        sink.optional(self.maximum_packet_size, Property::MaximumPacketSize);
        sink.optional(self.topic_alias_maximum, Property::TopicAliasMaximum);
        sink.optional(self.request_response_information, Property::RequestResponseInformation);
        sink.optional(self.request_problem_information, Property::RequestProblemInformation);
        sink.optional(self.authentication_method, Property::AuthenticationMethod);
        sink.optional(self.authentication_data, Property::AuthenticationData);
        sink.user_properties(&self.user_properties);
    }
}
