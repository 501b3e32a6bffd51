//! Properties of MQTT 5: one enum for both directions, and which packet of a server may carry which.

use super::bytes::Bytes;
use super::reader::{Fault, Reader};

/// A property with its value, in the order of their identifiers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::enum_variant_names, reason = "the names are the specification's")]
pub(crate) enum Property {
    PayloadFormatIndicator(u8),
    MessageExpiryInterval(u32),
    ContentType(String),
    ResponseTopic(String),
    CorrelationData(Vec<u8>),
    SubscriptionIdentifier(usize),
    SessionExpiryInterval(u32),
    AssignedClientIdentifier(String),
    ServerKeepAlive(u16),
    AuthenticationMethod(String),
    AuthenticationData(Vec<u8>),
    RequestProblemInformation(u8),
    WillDelayInterval(u32),
    RequestResponseInformation(u8),
    ResponseInformation(String),
    ServerReference(String),
    ReasonString(String),
    ReceiveMaximum(u16),
    TopicAliasMaximum(u16),
    TopicAlias(u16),
    MaximumQos(u8),
    RetainAvailable(u8),
    UserProperty(String, String),
    MaximumPacketSize(u32),
    WildcardSubscriptionAvailable(u8),
    SubscriptionIdentifierAvailable(u8),
    SharedSubscriptionAvailable(u8),
}

/// Properties that may stand in a CONNACK packet.
pub(crate) const IN_CONNACK: &[u8] =
    &[0x11, 0x12, 0x13, 0x15, 0x16, 0x1a, 0x1c, 0x1f, 0x21, 0x22, 0x24, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2a];
/// Properties that may stand in a PUBLISH packet from a server.
pub(crate) const IN_PUBLISH: &[u8] = &[0x01, 0x02, 0x03, 0x08, 0x09, 0x0b, 0x23, 0x26];
/// Properties that may stand in PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK and UNSUBACK.
pub(crate) const IN_ACKNOWLEDGEMENT: &[u8] = &[0x1f, 0x26];
/// Properties that may stand in a DISCONNECT from a server: no Session Expiry Interval [MQTT-3.14.2-2].
pub(crate) const IN_DISCONNECT: &[u8] = &[0x1c, 0x1f, 0x26];
/// Properties that may stand in an AUTH packet.
pub(crate) const IN_AUTH: &[u8] = &[0x15, 0x16, 0x1f, 0x26];

impl Property {
    /// The identifier on the wire.
    pub(crate) fn id(&self) -> u8 {
        match self {
            Self::PayloadFormatIndicator(_) => 0x01,
            Self::MessageExpiryInterval(_) => 0x02,
            Self::ContentType(_) => 0x03,
            Self::ResponseTopic(_) => 0x08,
            Self::CorrelationData(_) => 0x09,
            Self::SubscriptionIdentifier(_) => 0x0b,
            Self::SessionExpiryInterval(_) => 0x11,
            Self::AssignedClientIdentifier(_) => 0x12,
            Self::ServerKeepAlive(_) => 0x13,
            Self::AuthenticationMethod(_) => 0x15,
            Self::AuthenticationData(_) => 0x16,
            Self::RequestProblemInformation(_) => 0x17,
            Self::WillDelayInterval(_) => 0x18,
            Self::RequestResponseInformation(_) => 0x19,
            Self::ResponseInformation(_) => 0x1a,
            Self::ServerReference(_) => 0x1c,
            Self::ReasonString(_) => 0x1f,
            Self::ReceiveMaximum(_) => 0x21,
            Self::TopicAliasMaximum(_) => 0x22,
            Self::TopicAlias(_) => 0x23,
            Self::MaximumQos(_) => 0x24,
            Self::RetainAvailable(_) => 0x25,
            Self::UserProperty(..) => 0x26,
            Self::MaximumPacketSize(_) => 0x27,
            Self::WildcardSubscriptionAvailable(_) => 0x28,
            Self::SubscriptionIdentifierAvailable(_) => 0x29,
            Self::SharedSubscriptionAvailable(_) => 0x2a,
        }
    }

    /// Appends identifier and value.
    pub(crate) fn append(&self, to: Bytes) -> Bytes {
        let to = to.byte(self.id());
        match self {
            Self::PayloadFormatIndicator(value)
            | Self::RequestProblemInformation(value)
            | Self::RequestResponseInformation(value)
            | Self::MaximumQos(value)
            | Self::RetainAvailable(value)
            | Self::WildcardSubscriptionAvailable(value)
            | Self::SubscriptionIdentifierAvailable(value)
            | Self::SharedSubscriptionAvailable(value) => to.byte(*value),
            Self::ServerKeepAlive(value)
            | Self::ReceiveMaximum(value)
            | Self::TopicAliasMaximum(value)
            | Self::TopicAlias(value) => to.two(*value),
            Self::MessageExpiryInterval(value)
            | Self::SessionExpiryInterval(value)
            | Self::WillDelayInterval(value)
            | Self::MaximumPacketSize(value) => to.four(*value),
            Self::SubscriptionIdentifier(value) => to.variable(*value),
            Self::ContentType(value)
            | Self::ResponseTopic(value)
            | Self::AssignedClientIdentifier(value)
            | Self::AuthenticationMethod(value)
            | Self::ResponseInformation(value)
            | Self::ServerReference(value)
            | Self::ReasonString(value) => to.text(value),
            Self::CorrelationData(value) | Self::AuthenticationData(value) => to.binary(value),
            Self::UserProperty(name, value) => to.text(name).text(value),
        }
    }

    fn read(id: u8, from: &mut Reader<'_>) -> Result<Self, Fault> {
        let property = match id {
            0x01 => Self::PayloadFormatIndicator(boolean(from, "payload format indicator")?),
            0x02 => Self::MessageExpiryInterval(from.four("message expiry interval")?),
            0x03 => Self::ContentType(from.text("content type")?),
            0x08 => Self::ResponseTopic(from.text("response topic")?),
            0x09 => Self::CorrelationData(from.binary("correlation data")?.to_vec()),
            0x0b => Self::SubscriptionIdentifier(from.variable("subscription identifier")?),
            0x11 => Self::SessionExpiryInterval(from.four("session expiry interval")?),
            0x12 => Self::AssignedClientIdentifier(from.text("assigned client identifier")?),
            0x13 => Self::ServerKeepAlive(from.two("server keep alive")?),
            0x15 => Self::AuthenticationMethod(from.text("authentication method")?),
            0x16 => Self::AuthenticationData(from.binary("authentication data")?.to_vec()),
            0x1a => Self::ResponseInformation(from.text("response information")?),
            0x1c => Self::ServerReference(from.text("server reference")?),
            0x1f => Self::ReasonString(from.text("reason string")?),
            0x21 => Self::ReceiveMaximum(from.two("receive maximum")?),
            0x22 => Self::TopicAliasMaximum(from.two("topic alias maximum")?),
            0x23 => Self::TopicAlias(from.two("topic alias")?),
            0x24 => Self::MaximumQos(boolean(from, "maximum QoS")?),
            0x25 => Self::RetainAvailable(boolean(from, "retain available")?),
            0x26 => Self::UserProperty(from.text("user property name")?, from.text("user property value")?),
            0x27 => Self::MaximumPacketSize(from.four("maximum packet size")?),
            0x28 => Self::WildcardSubscriptionAvailable(boolean(from, "wildcard subscription available")?),
            0x29 => Self::SubscriptionIdentifierAvailable(boolean(from, "subscription identifier available")?),
            0x2a => Self::SharedSubscriptionAvailable(boolean(from, "shared subscription available")?),
            other => return Err(Fault::UnknownProperty(other)),
        };
        Ok(property)
    }
}

fn boolean(from: &mut Reader<'_>, field: &str) -> Result<u8, Fault> {
    match from.byte(field)? {
        value @ (0 | 1) => Ok(value),
        other => Err(Fault::Boolean { field: field.to_owned(), value: other }),
    }
}

/// The Property Length and the properties, in this order.
pub(crate) fn encode(properties: &[Property]) -> Vec<u8> {
    properties.iter().fold(Bytes::new(), |bytes, property| property.append(bytes)).with_variable_length()
}

/// Reads the Property Length and the properties, which must be allowed here and must not repeat.
pub(crate) fn read(from: &mut Reader<'_>, allowed: &[u8]) -> Result<Vec<Property>, Fault> {
    let length = from.variable("the property length")?;
    let mut inner = Reader::new(from.take(length, "the properties")?);
    let mut properties: Vec<Property> = Vec::new();
    while !inner.is_empty() {
        let id = inner.byte("a property identifier")?;
        if !allowed.contains(&id) {
            return Err(Fault::ForbiddenProperty(id));
        }
        // Several subscription identifiers and user properties are meaningful, anything else may occur once.
        if !matches!(id, 0x0b | 0x26) && properties.iter().any(|property| property.id() == id) {
            return Err(Fault::RepeatedProperty(id));
        }
        properties.push(Property::read(id, &mut inner)?);
    }
    Ok(properties)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_read_back_as_written() {
        let properties = vec![
            Property::PayloadFormatIndicator(1),
            Property::MessageExpiryInterval(7),
            Property::CorrelationData(vec![0, 255]),
            Property::SubscriptionIdentifier(200),
            Property::TopicAlias(3),
            Property::UserProperty("a".to_owned(), "b".to_owned()),
            Property::UserProperty("a".to_owned(), String::new()),
        ];
        let bytes = encode(&properties);
        assert_eq!(read(&mut Reader::new(&bytes), IN_PUBLISH), Ok(properties));
    }

    #[test]
    fn misplaced_and_repeated_properties_are_faults() {
        let misplaced = encode(&[Property::SessionExpiryInterval(1)]);
        assert!(read(&mut Reader::new(&misplaced), IN_DISCONNECT).is_err());
        let repeated = encode(&[Property::TopicAlias(1), Property::TopicAlias(2)]);
        assert!(read(&mut Reader::new(&repeated), IN_PUBLISH).is_err());
    }
}
