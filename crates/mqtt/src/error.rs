//! Why a packet cannot be decoded or encoded.

use crate::property_id::PropertyOwner;
use crate::string::StringError;
use crate::varint::VarintError;
use crate::{PacketType, PropertyId, ReasonCode, TopicError, Version};

/// Why a packet cannot be decoded. The connection that it came from cannot go on ([MQTT-4.13.1-1]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The packet ends before a field does.
    #[error("packet ends inside the {field}")]
    Truncated {
        /// The field, by its name in the specification.
        field: &'static str,
    },
    /// Bytes are left after the last field.
    #[error("{count} bytes follow the last field of {packet}")]
    TrailingBytes {
        /// The packet.
        packet: PacketType,
        /// How many bytes are left.
        count: usize,
    },
    /// The flags in the first byte differ from the required ones ([MQTT-2.1.3-1]).
    #[error("fixed header of {packet} has flags {flags:#06b}")]
    InvalidFlags {
        /// The packet.
        packet: PacketType,
        /// The lower four bits of the first byte.
        flags: u8,
    },
    /// Bits are set that are reserved ([MQTT-2.1.3-1]).
    #[error("reserved bits are set in the {field}")]
    ReservedBits {
        /// The field, by its name in the specification.
        field: &'static str,
    },
    /// A Quality of Service is 3, or not allowed in this field ([MQTT-3.3.1-4]).
    #[error("{field} is invalid")]
    InvalidQos {
        /// The field, by its name in the specification.
        field: &'static str,
    },
    /// DUP is set on a message of QoS 0 ([MQTT-3.3.1-2]).
    #[error("a PUBLISH of QoS 0 is marked as a duplicate")]
    DupWithQos0,
    /// The Packet Identifier is 0 ([MQTT-2.2.1-3]).
    #[error("{packet} has packet identifier 0")]
    ZeroPacketId {
        /// The packet.
        packet: PacketType,
    },
    /// A Variable Byte Integer is malformed ([MQTT-1.5.5-1]).
    #[error("{field}: {error}")]
    InvalidVarint {
        /// The field, by its name in the specification.
        field: &'static str,
        /// The fault of the field.
        error: VarintError,
    },
    /// A UTF-8 Encoded String is malformed ([MQTT-1.5.4-1], [MQTT-1.5.4-2]).
    #[error("{field} {error}")]
    InvalidString {
        /// The field, by its name in the specification.
        field: &'static str,
        /// The fault of the field.
        error: StringError,
    },
    /// A Topic Name is well-formed text but no Topic Name ([MQTT-3.3.2-2]).
    #[error("{field} {error}")]
    InvalidTopicName {
        /// The field, by its name in the specification.
        field: &'static str,
        /// The fault of the field.
        error: TopicError,
    },
    /// A Topic Filter of SUBSCRIBE or UNSUBSCRIBE is invalid ([MQTT-4.7.1-1], [MQTT-4.7.1-2], [MQTT-4.7.3-1],
    /// [MQTT-4.8.2-1], [MQTT-4.8.2-2]). Reason code 0x8F would say that it is well-formed.
    #[error("topic filter {error}")]
    InvalidTopicFilter {
        /// The fault of the field.
        error: TopicError,
    },
    /// The Topic Name is empty and there is no Topic Alias.
    #[error("PUBLISH has neither a topic name nor a topic alias")]
    MissingTopic,
    /// The Protocol Name is neither `MQTT` nor `MQIsdp` ([MQTT-3.1.2-1]).
    #[error("protocol name is not that of MQTT")]
    InvalidProtocolName,
    /// The Protocol Level is unknown, or does not belong to this Protocol Name ([MQTT-3.1.2-2]).
    #[error("protocol level {level} is not supported, use 3 (MQIsdp), 4 or 5 (MQTT)")]
    UnsupportedVersion {
        /// The level.
        level: u8,
    },
    /// The connect flags describe a will's QoS or RETAIN without a will
    /// ([MQTT-3.1.2-11], [MQTT-3.1.2-13]).
    #[error("connect flags describe a will but the will flag is 0")]
    WillFlagsWithoutWill,
    /// There is a password but no user name ([MQTT-3.1.2-22] of 3.1.1; MQTT 5.0 allows it).
    #[error("CONNECT has a password but no user name")]
    PasswordWithoutUserName,
    /// There is no property with this identifier.
    #[error("there is no property {id:#04x}")]
    UnknownProperty {
        /// The identifier.
        id: u32,
    },
    /// The property does not belong there.
    #[error("property {property} is not allowed in {owner}")]
    PropertyNotAllowed {
        /// The property.
        property: PropertyId,
        /// The packet, or will, that holds it.
        owner: PropertyOwner,
    },
    /// The property may be there once only.
    #[error("property {property} is there twice")]
    DuplicateProperty {
        /// The property.
        property: PropertyId,
    },
    /// The value of the property is outside its range.
    #[error("property {property} has the invalid value {value}")]
    InvalidPropertyValue {
        /// The property.
        property: PropertyId,
        /// The value.
        value: u32,
    },
    /// The property must be there and is not.
    #[error("{packet} lacks the property {property}")]
    MissingProperty {
        /// The packet.
        packet: PacketType,
        /// The property.
        property: PropertyId,
    },
    /// The Reason Code is unknown, or this packet may not carry it.
    #[error("{packet} has the invalid reason code {code:#04x}")]
    InvalidReasonCode {
        /// The packet.
        packet: PacketType,
        /// The number.
        code: u8,
    },
    /// A CONNACK reports an error and a session at once ([MQTT-3.2.2-6]).
    #[error("CONNACK refuses the connection and reports a session")]
    SessionPresentWithError,
    /// The packet has no Topic Filter ([MQTT-3.8.3-2], [MQTT-3.10.3-2]).
    #[error("{packet} has no topic filter")]
    NoTopicFilter {
        /// The packet.
        packet: PacketType,
    },
    /// Retain Handling is 3.
    #[error("retain handling is 3")]
    InvalidRetainHandling,
    /// No Local is set on a shared subscription ([MQTT-3.8.3-4]).
    #[error("a shared subscription is marked as no local")]
    NoLocalOnShared,
    /// The packet does not exist in this version.
    #[error("{packet} does not exist in MQTT {version}")]
    NotInVersion {
        /// The packet.
        packet: PacketType,
        /// The version of the connection.
        version: Version,
    },
}

impl DecodeError {
    /// The Reason Code with which a DISCONNECT or CONNACK packet reports the error. A wrong structure is a malformed
    /// packet; a wrong use of a well-formed field is a protocol error (section 1.2).
    pub const fn reason_code(&self) -> ReasonCode {
        match self {
            Self::Truncated { .. }
            | Self::TrailingBytes { .. }
            | Self::InvalidFlags { .. }
            | Self::ReservedBits { .. }
            | Self::InvalidQos { .. }
            | Self::DupWithQos0
            | Self::InvalidVarint { .. }
            | Self::InvalidString { .. }
            | Self::InvalidTopicFilter { .. }
            | Self::WillFlagsWithoutWill
            | Self::UnknownProperty { .. }
            | Self::PropertyNotAllowed { .. } => ReasonCode::MalformedPacket,
            Self::InvalidTopicName { .. } => ReasonCode::TopicNameInvalid,
            Self::InvalidProtocolName | Self::UnsupportedVersion { .. } => ReasonCode::UnsupportedProtocolVersion,
            Self::InvalidPropertyValue { property: PropertyId::TopicAlias, .. } => ReasonCode::TopicAliasInvalid,
            Self::ZeroPacketId { .. }
            | Self::MissingTopic
            | Self::PasswordWithoutUserName
            | Self::DuplicateProperty { .. }
            | Self::InvalidPropertyValue { .. }
            | Self::MissingProperty { .. }
            | Self::InvalidReasonCode { .. }
            | Self::SessionPresentWithError
            | Self::NoTopicFilter { .. }
            | Self::InvalidRetainHandling
            | Self::NoLocalOnShared
            | Self::NotInVersion { .. } => ReasonCode::ProtocolError,
        }
    }
}

/// Why a packet cannot be encoded. The buffer is then unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The packet is larger than its receiver accepts, even without its optional properties ([MQTT-3.1.2-24]).
    #[error("a packet of {len} bytes is larger than the maximum packet size of {max}")]
    TooLarge {
        /// The size of the packet, in bytes.
        len: usize,
        /// The largest size that the receiver takes, in bytes.
        max: u32,
    },
    /// A string or binary field is longer than 65,535 bytes.
    #[error("{field} of {len} bytes is longer than 65,535")]
    FieldTooLong {
        /// The field, by its name in the specification.
        field: &'static str,
        /// Its length in bytes.
        len: usize,
    },
    /// A string holds U+0000 ([MQTT-1.5.4-2]).
    #[error("{field} holds the null character")]
    NullCharacter {
        /// The field, by its name in the specification.
        field: &'static str,
    },
    /// A Variable Byte Integer is greater than 268,435,455.
    #[error("{field} is greater than 268,435,455")]
    ValueTooLarge {
        /// The field, by its name in the specification.
        field: &'static str,
    },
    /// A number that starts at 1 is 0.
    #[error("{field} is 0")]
    ValueTooSmall {
        /// The field, by its name in the specification.
        field: &'static str,
    },
    /// The packet may not carry this Reason Code.
    #[error("{packet} cannot carry the reason code {code:?}")]
    ReasonNotAllowed {
        /// The packet.
        packet: PacketType,
        /// The code.
        code: ReasonCode,
    },
    /// There is no Connect Return Code for this reason; close the connection without a CONNACK
    /// ([MQTT-3.2.2-6] of 3.1.1).
    #[error("MQTT before 5.0 has no return code for {code:?}")]
    NoReturnCode {
        /// The reason.
        code: ReasonCode,
    },
    /// The packet has no Topic Filter ([MQTT-3.8.3-2], [MQTT-3.10.3-2]).
    #[error("{packet} has no topic filter")]
    NoTopicFilter {
        /// The packet.
        packet: PacketType,
    },
    /// The field has no form in this version.
    #[error("{element} does not exist in MQTT {version}")]
    NotInVersion {
        /// The packet or field.
        element: &'static str,
        /// The version of the connection.
        version: Version,
    },
    /// A field is absent that another field requires.
    #[error("{packet} lacks the {field}")]
    MissingField {
        /// The packet.
        packet: PacketType,
        /// The field, by its name in the specification.
        field: &'static str,
    },
    /// A Topic Filter is invalid.
    #[error("topic filter {error}")]
    InvalidTopicFilter {
        /// The fault of the field.
        error: TopicError,
    },
    /// No Local is set on a shared subscription ([MQTT-3.8.3-4]).
    #[error("a shared subscription cannot be no local")]
    NoLocalOnShared,
}
