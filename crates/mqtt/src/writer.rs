//! Encodes packets: a body is described once, measured first and written second.

use crate::property::Property;
use crate::varint;
use crate::{EncodeError, MAX_PACKET_SIZE, PacketId, PropertyId, ReasonCode, UserProperties};

/// The target of an encoder: a counter or a buffer.
pub(crate) trait Sink {
    /// Takes bytes as they are.
    fn bytes(&mut self, bytes: &[u8]);

    /// Takes note that a field has no encoding.
    fn reject(&mut self, error: EncodeError);
}

/// Counts the bytes of a body and keeps the first reason why it cannot be encoded.
#[derive(Debug, Default)]
struct Measure {
    len: usize,
    error: Option<EncodeError>,
}

impl Sink for Measure {
    fn bytes(&mut self, bytes: &[u8]) {
        self.len = self.len.saturating_add(bytes.len());
    }

    fn reject(&mut self, error: EncodeError) {
        self.error.get_or_insert(error);
    }
}

/// Appends a body that has been measured, and so has an encoding.
struct Append<'o>(&'o mut Vec<u8>);

impl Sink for Append<'_> {
    fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn reject(&mut self, _: EncodeError) {}
}

impl dyn Sink + '_ {
    pub(crate) fn u8(&mut self, value: u8) {
        self.bytes(&[value]);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.bytes(&value.to_be_bytes());
    }

    pub(crate) fn packet_id(&mut self, packet_id: PacketId) {
        self.u16(packet_id.get());
    }

    fn u32(&mut self, value: u32) {
        self.bytes(&value.to_be_bytes());
    }

    fn varint(&mut self, field: &'static str, value: u32) {
        match varint::encode(value) {
            Some(varint) => self.bytes(varint.as_bytes()),
            None => self.reject(EncodeError::ValueTooLarge { field }),
        }
    }

    /// Binary Data, and UTF-8 Encoded Strings by their bytes.
    pub(crate) fn data(&mut self, field: &'static str, bytes: &[u8]) {
        match u16::try_from(bytes.len()) {
            Ok(len) => {
                self.u16(len);
                self.bytes(bytes);
            }
            Err(_) => self.reject(EncodeError::FieldTooLong { field, len: bytes.len() }),
        }
    }

    pub(crate) fn string(&mut self, field: &'static str, text: &str) {
        if text.as_bytes().contains(&0) {
            self.reject(EncodeError::NullCharacter { field });
        }
        self.data(field, text.as_bytes());
    }

    /// A block of properties with its length in front ([MQTT-2.2.2-1]).
    pub(crate) fn properties(&mut self, write: impl Fn(&mut dyn Sink)) {
        let mut measure = Measure::default();
        write(&mut measure);
        if let Some(error) = measure.error {
            self.reject(error);
            return;
        }
        self.varint("property length", u32::try_from(measure.len).unwrap_or(u32::MAX));
        write(self);
    }

    /// A Reason Code and properties. Success without properties is left out, and so are absent properties (sections
    /// 3.14.2.1 and 3.15.2.1).
    pub(crate) fn reason_and_properties(&mut self, reason_code: ReasonCode, write: impl Fn(&mut dyn Sink)) {
        let mut measure = Measure::default();
        write(&mut measure);
        let no_properties = measure.len == 0 && measure.error.is_none();
        if no_properties && reason_code == ReasonCode::Success {
            return;
        }
        self.u8(reason_code.byte());
        if !no_properties {
            self.properties(write);
        }
    }

    pub(crate) fn user_properties(&mut self, pairs: &UserProperties<'_>) {
        for (name, value) in pairs {
            self.property(Property::User(name, value));
        }
    }

    /// A property, when there is one.
    pub(crate) fn optional<'a, T>(&mut self, value: Option<T>, property: impl Fn(T) -> Property<'a>) {
        if let Some(value) = value {
            self.property(property(value));
        }
    }

    pub(crate) fn property(&mut self, property: Property<'_>) {
        let id = property.id();
        let name = id.name();
        self.u8(id as u8);
        match property {
            Property::PayloadFormatIndicator(format) => self.u8(format as u8),
            Property::MaximumQos(qos) => self.u8(qos.bits()),
            Property::RequestProblemInformation(flag)
            | Property::RequestResponseInformation(flag)
            | Property::RetainAvailable(flag)
            | Property::WildcardSubscriptionAvailable(flag)
            | Property::SubscriptionIdentifierAvailable(flag)
            | Property::SharedSubscriptionAvailable(flag) => self.u8(u8::from(flag)),
            Property::ServerKeepAlive(value) | Property::TopicAliasMaximum(value) => {
                self.u16(value);
            }
            Property::ReceiveMaximum(value) | Property::TopicAlias(value) => self.u16(value.get()),
            Property::MessageExpiryInterval(value)
            | Property::SessionExpiryInterval(value)
            | Property::WillDelayInterval(value) => self.u32(value),
            Property::MaximumPacketSize(value) => self.u32(value.get()),
            Property::SubscriptionIdentifier(0) => {
                self.reject(EncodeError::ValueTooSmall { field: name });
            }
            Property::SubscriptionIdentifier(value) => self.varint(name, value),
            Property::ContentType(text)
            | Property::AssignedClientIdentifier(text)
            | Property::AuthenticationMethod(text)
            | Property::ResponseInformation(text)
            | Property::ServerReference(text)
            | Property::ReasonString(text) => self.string(name, text),
            Property::ResponseTopic(topic) => self.string(name, topic.as_str()),
            Property::CorrelationData(bytes) | Property::AuthenticationData(bytes) => {
                self.data(name, bytes);
            }
            Property::User(key, value) => {
                self.string(name, key);
                self.string(name, value);
            }
        }
    }
}

impl Property<'_> {
    const fn id(&self) -> PropertyId {
        match self {
            Self::PayloadFormatIndicator(_) => PropertyId::PayloadFormatIndicator,
            Self::MessageExpiryInterval(_) => PropertyId::MessageExpiryInterval,
            Self::ContentType(_) => PropertyId::ContentType,
            Self::ResponseTopic(_) => PropertyId::ResponseTopic,
            Self::CorrelationData(_) => PropertyId::CorrelationData,
            Self::SubscriptionIdentifier(_) => PropertyId::SubscriptionIdentifier,
            Self::SessionExpiryInterval(_) => PropertyId::SessionExpiryInterval,
            Self::AssignedClientIdentifier(_) => PropertyId::AssignedClientIdentifier,
            Self::ServerKeepAlive(_) => PropertyId::ServerKeepAlive,
            Self::AuthenticationMethod(_) => PropertyId::AuthenticationMethod,
            Self::AuthenticationData(_) => PropertyId::AuthenticationData,
            Self::RequestProblemInformation(_) => PropertyId::RequestProblemInformation,
            Self::WillDelayInterval(_) => PropertyId::WillDelayInterval,
            Self::RequestResponseInformation(_) => PropertyId::RequestResponseInformation,
            Self::ResponseInformation(_) => PropertyId::ResponseInformation,
            Self::ServerReference(_) => PropertyId::ServerReference,
            Self::ReasonString(_) => PropertyId::ReasonString,
            Self::ReceiveMaximum(_) => PropertyId::ReceiveMaximum,
            Self::TopicAliasMaximum(_) => PropertyId::TopicAliasMaximum,
            Self::TopicAlias(_) => PropertyId::TopicAlias,
            Self::MaximumQos(_) => PropertyId::MaximumQos,
            Self::RetainAvailable(_) => PropertyId::RetainAvailable,
            Self::User(..) => PropertyId::UserProperty,
            Self::MaximumPacketSize(_) => PropertyId::MaximumPacketSize,
            Self::WildcardSubscriptionAvailable(_) => PropertyId::WildcardSubscriptionAvailable,
            Self::SubscriptionIdentifierAvailable(_) => PropertyId::SubscriptionIdentifierAvailable,
            Self::SharedSubscriptionAvailable(_) => PropertyId::SharedSubscriptionAvailable,
        }
    }
}

/// Appends a packet: its first byte, its Remaining Length and the body that `write` describes. `write` is
/// called more than once and must describe the same bytes each time.
pub(crate) fn packet(
    first_byte: u8,
    max_packet_size: u32,
    out: &mut Vec<u8>,
    write: impl Fn(&mut dyn Sink),
) -> Result<(), EncodeError> {
    let mut measure = Measure::default();
    write(&mut measure);
    if let Some(error) = measure.error {
        return Err(error);
    }
    let max = max_packet_size.min(MAX_PACKET_SIZE);
    let too_large = |len| EncodeError::TooLarge { len, max };
    let remaining_len = u32::try_from(measure.len).map_err(|_| too_large(measure.len))?;
    let total_len = measure.len.saturating_add(1 + varint::len(remaining_len));
    if total_len > max as usize {
        return Err(too_large(total_len));
    }
    out.reserve(total_len);
    out.push(first_byte);
    let sink: &mut dyn Sink = &mut Append(out);
    sink.varint("remaining length", remaining_len);
    write(sink);
    Ok(())
}
