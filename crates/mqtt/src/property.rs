//! Properties of MQTT 5.0 with their values: read, checked and copied.

use std::num::{NonZeroU16, NonZeroU32};

use crate::property_id::{PayloadFormat, PropertyId, PropertyOwner, WireType};
use crate::reader::Reader;
use crate::{DecodeError, QoS, TopicName};

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
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Property<'a>>, DecodeError> {
        match self.reader.rest() {
            [] => Ok(None),
            // The most frequent one, which every owner may carry as often as it likes.
            [USER_PROPERTY, value @ ..] => {
                self.reader = Reader::new(value);
                read_pair(&mut self.reader).map(Some)
            }
            _ => self.next_other(),
        }
    }

    fn next_other(&mut self) -> Result<Option<Property<'a>>, DecodeError> {
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

#[inline]
fn read_id(reader: &mut Reader<'_>) -> Result<PropertyId, DecodeError> {
    let number = reader.varint("property identifier")?;
    PropertyId::from_number(number).ok_or(DecodeError::UnknownProperty { id: number })
}

/// The identifier of a User Property, in one byte.
const USER_PROPERTY: u8 = PropertyId::UserProperty as u8;

#[inline]
fn read_pair<'a>(reader: &mut Reader<'a>) -> Result<Property<'a>, DecodeError> {
    Ok(Property::User(reader.string("user property name")?, reader.string("user property value")?))
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
        PropertyId::UserProperty => read_pair(reader)?,
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

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let before = self.reader.rest();
        let id = read_id(&mut self.reader).ok()?;
        let value = self.reader;
        skip_value(&mut self.reader, id.wire_type()).ok()?;
        let bytes = before.get(..before.len() - self.reader.rest().len())?;
        Some(RawProperty { id, value, bytes })
    }
}

#[inline]
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

/// Appends the properties of `block` in their order, without the properties that `leave_out` names and without User
/// Properties of the names `without_pairs`. The caller has checked `block`.
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

/// Appends the properties of `block` in their order, without the properties that `leave_out` names. The caller has
/// checked `block`.
pub(crate) fn copy_without(block: &[u8], leave_out: &[PropertyId], out: &mut Vec<u8>) {
    out.reserve(block.len());
    for property in RawProperties::new(block) {
        if !leave_out.contains(&property.id) {
            out.extend_from_slice(property.bytes);
        }
    }
}
