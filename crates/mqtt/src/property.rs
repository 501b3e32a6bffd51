//! Properties of MQTT 5.0: one table of identifiers, types and the packets that may carry them.

use std::num::{NonZeroU16, NonZeroU32};

use crate::reader::Reader;
use crate::{DecodeError, PacketType, QoS, TopicName};

/// How the value of a property is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WireType {
    Byte,
    TwoByteInteger,
    FourByteInteger,
    VariableByteInteger,
    /// A UTF-8 Encoded String or Binary Data: both are a length of two bytes and as many bytes.
    Data,
    StringPair,
}

/// The owner of a block of properties: a packet, or the will of a CONNECT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PropertyOwner {
    /// The properties in the variable header of a packet.
    Packet(PacketType),
    /// The Will Properties in the payload of a CONNECT packet.
    Will,
}

impl PropertyOwner {
    /// The owner's bit in the table; packet types start at 1, so 0 is free for the will.
    const fn bit(self) -> u16 {
        match self {
            Self::Packet(packet) => 1 << packet as u16,
            Self::Will => 1,
        }
    }
}

impl std::fmt::Display for PropertyOwner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Packet(packet) => packet.name(),
            Self::Will => "the will properties",
        })
    }
}

const CONNECT: u16 = PropertyOwner::Packet(PacketType::Connect).bit();
const CONNACK: u16 = PropertyOwner::Packet(PacketType::ConnAck).bit();
const PUBLISH: u16 = PropertyOwner::Packet(PacketType::Publish).bit();
const PUBACK: u16 = PropertyOwner::Packet(PacketType::PubAck).bit();
const PUBREC: u16 = PropertyOwner::Packet(PacketType::PubRec).bit();
const PUBREL: u16 = PropertyOwner::Packet(PacketType::PubRel).bit();
const PUBCOMP: u16 = PropertyOwner::Packet(PacketType::PubComp).bit();
const SUBSCRIBE: u16 = PropertyOwner::Packet(PacketType::Subscribe).bit();
const SUBACK: u16 = PropertyOwner::Packet(PacketType::SubAck).bit();
const UNSUBSCRIBE: u16 = PropertyOwner::Packet(PacketType::Unsubscribe).bit();
const UNSUBACK: u16 = PropertyOwner::Packet(PacketType::UnsubAck).bit();
const DISCONNECT: u16 = PropertyOwner::Packet(PacketType::Disconnect).bit();
const AUTH: u16 = PropertyOwner::Packet(PacketType::Auth).bit();
const WILL: u16 = PropertyOwner::Will.bit();
const ACKS: u16 = PUBACK | PUBREC | PUBREL | PUBCOMP | SUBACK | UNSUBACK;

macro_rules! property_ids {
    ($($name:ident = $number:literal, $text:literal, $wire:ident, $owners:expr;)+) => {
        /// The identifier of a property (section 2.2.2.2).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum PropertyId {
            $(
                #[doc = concat!("`", stringify!($number), "`: ", $text, ".")]
                $name = $number,
            )+
        }

        impl PropertyId {
            /// All identifiers, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The identifier with this number, if there is one.
            pub const fn from_number(number: u32) -> Option<Self> {
                match number {
                    $($number => Some(Self::$name),)+
                    _ => None,
                }
            }

            /// The name of the property in the specification, in lower case.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }

            pub(crate) const fn wire_type(self) -> WireType {
                match self {
                    $(Self::$name => WireType::$wire,)+
                }
            }

            const fn owners(self) -> u16 {
                match self {
                    $(Self::$name => $owners,)+
                }
            }
        }
    };
}

property_ids! {
    PayloadFormatIndicator = 0x01, "payload format indicator", Byte, PUBLISH | WILL;
    MessageExpiryInterval = 0x02, "message expiry interval", FourByteInteger, PUBLISH | WILL;
    ContentType = 0x03, "content type", Data, PUBLISH | WILL;
    ResponseTopic = 0x08, "response topic", Data, PUBLISH | WILL;
    CorrelationData = 0x09, "correlation data", Data, PUBLISH | WILL;
    SubscriptionIdentifier = 0x0B, "subscription identifier", VariableByteInteger, PUBLISH | SUBSCRIBE;
    SessionExpiryInterval = 0x11, "session expiry interval", FourByteInteger, CONNECT | CONNACK | DISCONNECT;
    AssignedClientIdentifier = 0x12, "assigned client identifier", Data, CONNACK;
    ServerKeepAlive = 0x13, "server keep alive", TwoByteInteger, CONNACK;
    AuthenticationMethod = 0x15, "authentication method", Data, CONNECT | CONNACK | AUTH;
    AuthenticationData = 0x16, "authentication data", Data, CONNECT | CONNACK | AUTH;
    RequestProblemInformation = 0x17, "request problem information", Byte, CONNECT;
    WillDelayInterval = 0x18, "will delay interval", FourByteInteger, WILL;
    RequestResponseInformation = 0x19, "request response information", Byte, CONNECT;
    ResponseInformation = 0x1A, "response information", Data, CONNACK;
    ServerReference = 0x1C, "server reference", Data, CONNACK | DISCONNECT;
    ReasonString = 0x1F, "reason string", Data, CONNACK | ACKS | DISCONNECT | AUTH;
    ReceiveMaximum = 0x21, "receive maximum", TwoByteInteger, CONNECT | CONNACK;
    TopicAliasMaximum = 0x22, "topic alias maximum", TwoByteInteger, CONNECT | CONNACK;
    TopicAlias = 0x23, "topic alias", TwoByteInteger, PUBLISH;
    MaximumQos = 0x24, "maximum QoS", Byte, CONNACK;
    RetainAvailable = 0x25, "retain available", Byte, CONNACK;
    UserProperty = 0x26, "user property", StringPair,
        CONNECT | CONNACK | PUBLISH | WILL | ACKS | SUBSCRIBE | UNSUBSCRIBE | DISCONNECT | AUTH;
    MaximumPacketSize = 0x27, "maximum packet size", FourByteInteger, CONNECT | CONNACK;
    WildcardSubscriptionAvailable = 0x28, "wildcard subscription available", Byte, CONNACK;
    SubscriptionIdentifierAvailable = 0x29, "subscription identifier available", Byte, CONNACK;
    SharedSubscriptionAvailable = 0x2A, "shared subscription available", Byte, CONNACK;
}

impl PropertyId {
    /// Whether the owner may carry the property.
    pub const fn allowed_in(self, owner: PropertyOwner) -> bool {
        self.owners() & owner.bit() != 0
    }

    /// Whether the owner may carry the property more than once. That holds for the User Property everywhere, and for
    /// the Subscription Identifier in a PUBLISH, once for each matching subscription ([MQTT-3.3.4-4]).
    pub const fn may_repeat_in(self, owner: PropertyOwner) -> bool {
        match self {
            Self::UserProperty => true,
            Self::SubscriptionIdentifier => {
                matches!(owner, PropertyOwner::Packet(PacketType::Publish))
            }
            _ => false,
        }
    }
}

impl std::fmt::Display for PropertyId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The format of a payload, by the Payload Format Indicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PayloadFormat {
    /// 0: bytes of any kind, which is also meant when there is no indicator.
    Unspecified = 0,
    /// 1: UTF-8 text.
    Utf8 = 1,
}

/// One property with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Property<'a> {
    PayloadFormatIndicator(PayloadFormat),
    MessageExpiryInterval(u32),
    ContentType(&'a str),
    ResponseTopic(TopicName<'a>),
    CorrelationData(&'a [u8]),
    SubscriptionIdentifier(u32),
    SessionExpiryInterval(u32),
    AssignedClientIdentifier(&'a str),
    ServerKeepAlive(u16),
    AuthenticationMethod(&'a str),
    AuthenticationData(&'a [u8]),
    RequestProblemInformation(bool),
    WillDelayInterval(u32),
    RequestResponseInformation(bool),
    ResponseInformation(&'a str),
    ServerReference(&'a str),
    ReasonString(&'a str),
    ReceiveMaximum(NonZeroU16),
    TopicAliasMaximum(u16),
    TopicAlias(NonZeroU16),
    MaximumQos(QoS),
    RetainAvailable(bool),
    User(&'a str, &'a str),
    MaximumPacketSize(NonZeroU32),
    WildcardSubscriptionAvailable(bool),
    SubscriptionIdentifierAvailable(bool),
    SharedSubscriptionAvailable(bool),
}

/// Reads the properties of a block one by one. Checks that the owner may carry each, that it does not repeat unless it
/// may, and its value.
#[derive(Debug)]
pub(crate) struct PropertyReader<'a> {
    reader: Reader<'a>,
    owner: PropertyOwner,
    /// A bit for each property that was read; identifiers end at 0x2A.
    seen: u64,
}

impl<'a> PropertyReader<'a> {
    /// Reads `block`, which is without its length.
    pub(crate) const fn new(block: &'a [u8], owner: PropertyOwner) -> Self {
        Self { reader: Reader::new(block), owner, seen: 0 }
    }

    /// The next property; `None` at the end of the block.
    pub(crate) fn next(&mut self) -> Result<Option<Property<'a>>, DecodeError> {
        if self.reader.is_empty() {
            return Ok(None);
        }
        let id = read_id(&mut self.reader)?;
        if !id.allowed_in(self.owner) {
            return Err(DecodeError::PropertyNotAllowed { property: id, owner: self.owner });
        }
        let bit = 1 << id as u32;
        if self.seen & bit != 0 && !id.may_repeat_in(self.owner) {
            return Err(DecodeError::DuplicateProperty { property: id });
        }
        self.seen |= bit;
        read_value(&mut self.reader, id).map(Some)
    }
}

fn read_id(reader: &mut Reader<'_>) -> Result<PropertyId, DecodeError> {
    let number = reader.varint("property identifier")?;
    PropertyId::from_number(number).ok_or(DecodeError::UnknownProperty { id: number })
}

fn read_value<'a>(reader: &mut Reader<'a>, id: PropertyId) -> Result<Property<'a>, DecodeError> {
    let name = id.name();
    Ok(match id {
        PropertyId::PayloadFormatIndicator => {
            let utf8 = read_bool(reader, id)?;
            Property::PayloadFormatIndicator(if utf8 { PayloadFormat::Utf8 } else { PayloadFormat::Unspecified })
        }
        PropertyId::MessageExpiryInterval => Property::MessageExpiryInterval(reader.u32(name)?),
        PropertyId::ContentType => Property::ContentType(reader.string(name)?),
        PropertyId::ResponseTopic => Property::ResponseTopic(reader.topic_name(name)?),
        PropertyId::CorrelationData => Property::CorrelationData(reader.data(name)?),
        PropertyId::SubscriptionIdentifier => {
            let value = reader.varint(name)?;
            Property::SubscriptionIdentifier(non_zero(id, NonZeroU32::new(value))?.get())
        }
        PropertyId::SessionExpiryInterval => Property::SessionExpiryInterval(reader.u32(name)?),
        PropertyId::AssignedClientIdentifier => Property::AssignedClientIdentifier(reader.string(name)?),
        PropertyId::ServerKeepAlive => Property::ServerKeepAlive(reader.u16(name)?),
        PropertyId::AuthenticationMethod => Property::AuthenticationMethod(reader.string(name)?),
        PropertyId::AuthenticationData => Property::AuthenticationData(reader.data(name)?),
        PropertyId::RequestProblemInformation => Property::RequestProblemInformation(read_bool(reader, id)?),
        PropertyId::WillDelayInterval => Property::WillDelayInterval(reader.u32(name)?),
        PropertyId::RequestResponseInformation => Property::RequestResponseInformation(read_bool(reader, id)?),
        PropertyId::ResponseInformation => Property::ResponseInformation(reader.string(name)?),
        PropertyId::ServerReference => Property::ServerReference(reader.string(name)?),
        PropertyId::ReasonString => Property::ReasonString(reader.string(name)?),
        PropertyId::ReceiveMaximum => Property::ReceiveMaximum(non_zero(id, NonZeroU16::new(reader.u16(name)?))?),
        PropertyId::TopicAliasMaximum => Property::TopicAliasMaximum(reader.u16(name)?),
        PropertyId::TopicAlias => Property::TopicAlias(non_zero(id, NonZeroU16::new(reader.u16(name)?))?),
        PropertyId::MaximumQos => {
            Property::MaximumQos(if read_bool(reader, id)? { QoS::AtLeastOnce } else { QoS::AtMostOnce })
        }
        PropertyId::RetainAvailable => Property::RetainAvailable(read_bool(reader, id)?),
        PropertyId::UserProperty => {
            Property::User(reader.string("user property name")?, reader.string("user property value")?)
        }
        PropertyId::MaximumPacketSize => Property::MaximumPacketSize(non_zero(id, NonZeroU32::new(reader.u32(name)?))?),
        PropertyId::WildcardSubscriptionAvailable => Property::WildcardSubscriptionAvailable(read_bool(reader, id)?),
        PropertyId::SubscriptionIdentifierAvailable => {
            Property::SubscriptionIdentifierAvailable(read_bool(reader, id)?)
        }
        PropertyId::SharedSubscriptionAvailable => Property::SharedSubscriptionAvailable(read_bool(reader, id)?),
    })
}

/// A byte that may be 0 or 1 only.
fn read_bool(reader: &mut Reader<'_>, property: PropertyId) -> Result<bool, DecodeError> {
    match reader.u8(property.name())? {
        0 => Ok(false),
        1 => Ok(true),
        value => Err(DecodeError::InvalidPropertyValue { property, value: u32::from(value) }),
    }
}

fn non_zero<T>(property: PropertyId, value: Option<T>) -> Result<T, DecodeError> {
    value.ok_or(DecodeError::InvalidPropertyValue { property, value: 0 })
}

/// A property in a block that has been checked before: its identifier, its value and all its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawProperty<'a> {
    pub(crate) id: PropertyId,
    pub(crate) value: Reader<'a>,
    pub(crate) bytes: &'a [u8],
}

/// Walks a block of properties without checking values. It ends early at bytes that are no property, which
/// a block that has been checked before does not hold.
#[derive(Clone, Debug)]
pub(crate) struct RawProperties<'a> {
    reader: Reader<'a>,
}

impl<'a> RawProperties<'a> {
    pub(crate) const fn new(block: &'a [u8]) -> Self {
        Self { reader: Reader::new(block) }
    }
}

impl<'a> Iterator for RawProperties<'a> {
    type Item = RawProperty<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let before = self.reader.rest();
        let id = read_id(&mut self.reader).ok()?;
        let value = self.reader;
        skip_value(&mut self.reader, id.wire_type()).ok()?;
        let bytes = before.get(..before.len() - self.reader.rest().len())?;
        Some(RawProperty { id, value, bytes })
    }
}

fn skip_value(reader: &mut Reader<'_>, wire_type: WireType) -> Result<(), DecodeError> {
    const FIELD: &str = "property";
    match wire_type {
        WireType::Byte => reader.take(1, FIELD).map(drop),
        WireType::TwoByteInteger => reader.take(2, FIELD).map(drop),
        WireType::FourByteInteger => reader.take(4, FIELD).map(drop),
        WireType::VariableByteInteger => reader.varint(FIELD).map(drop),
        WireType::Data => reader.data(FIELD).map(drop),
        WireType::StringPair => reader.data(FIELD).and_then(|_| reader.data(FIELD)).map(drop),
    }
}

/// Appends the properties of `block` in their order, without those that `leave_out` names and without User Properties
/// of the names `without_pairs`. The caller has checked `block`.
pub(crate) fn copy_without_pairs(block: &[u8], leave_out: &[PropertyId], without_pairs: &[&str], out: &mut Vec<u8>) {
    out.reserve(block.len());
    for property in RawProperties::new(block) {
        let mut value = property.value;
        let named = property.id == PropertyId::UserProperty
            && value.data("user property").is_ok_and(|name| without_pairs.iter().any(|pair| name == pair.as_bytes()));
        if !leave_out.contains(&property.id) && !named {
            out.extend_from_slice(property.bytes);
        }
    }
}

/// Appends the properties of `block` in their order, without those that `leave_out` names. The caller has checked
/// `block`.
pub(crate) fn copy_without(block: &[u8], leave_out: &[PropertyId], out: &mut Vec<u8>) {
    out.reserve(block.len());
    for property in RawProperties::new(block) {
        if !leave_out.contains(&property.id) {
            out.extend_from_slice(property.bytes);
        }
    }
}
