//! The words and Reason Codes of errors.

use tidegate_mqtt::{
    DecodeError, EncodeError, PacketType, PropertyId, PropertyOwner, ReasonCode, StringError, TopicError, VarintError,
    Version,
};

const PUBLISH: PacketType = PacketType::Publish;
const MALFORMED: ReasonCode = ReasonCode::MalformedPacket;
const PROTOCOL: ReasonCode = ReasonCode::ProtocolError;

/// Every error of decoding, with the code that reports it and its words.
const DECODE: &[(DecodeError, ReasonCode, &str)] = &[
    (DecodeError::Truncated { field: "topic name" }, MALFORMED, "packet ends inside the topic name"),
    (
        DecodeError::TrailingBytes { packet: PacketType::PubAck, count: 3 },
        MALFORMED,
        "3 bytes follow the last field of PUBACK",
    ),
    (
        DecodeError::InvalidFlags { packet: PacketType::PubRel, flags: 0b0001 },
        MALFORMED,
        "fixed header of PUBREL has flags 0b0001",
    ),
    (DecodeError::ReservedBits { field: "connect flags" }, MALFORMED, "reserved bits are set in the connect flags"),
    (DecodeError::InvalidQos { field: "will QoS" }, MALFORMED, "will QoS is invalid"),
    (DecodeError::DupWithQos0, MALFORMED, "a PUBLISH of QoS 0 is marked as a duplicate"),
    (DecodeError::ZeroPacketId { packet: PUBLISH }, PROTOCOL, "PUBLISH has packet identifier 0"),
    (
        DecodeError::InvalidVarint { field: "property length", error: VarintError::TooLong },
        MALFORMED,
        "property length: a variable byte integer is longer than four bytes",
    ),
    (
        DecodeError::InvalidVarint { field: "property length", error: VarintError::NotMinimal },
        MALFORMED,
        "property length: a variable byte integer is not encoded in the fewest bytes",
    ),
    (
        DecodeError::InvalidString { field: "user name", error: StringError::IllFormed },
        MALFORMED,
        "user name is not well-formed UTF-8",
    ),
    (
        DecodeError::InvalidString { field: "user name", error: StringError::Null },
        MALFORMED,
        "user name holds the null character",
    ),
    (
        DecodeError::InvalidTopicName { field: "topic name", error: TopicError::Wildcard },
        ReasonCode::TopicNameInvalid,
        "topic name holds a wildcard, which only a topic filter may",
    ),
    (
        DecodeError::InvalidTopicName { field: "will topic", error: TopicError::Empty },
        ReasonCode::TopicNameInvalid,
        "will topic is empty",
    ),
    (DecodeError::InvalidTopicFilter { error: TopicError::Empty }, MALFORMED, "topic filter is empty"),
    (DecodeError::MissingTopic, PROTOCOL, "PUBLISH has neither a topic name nor a topic alias"),
    (DecodeError::InvalidProtocolName, ReasonCode::UnsupportedProtocolVersion, "protocol name is not that of MQTT"),
    (
        DecodeError::UnsupportedVersion { level: 6 },
        ReasonCode::UnsupportedProtocolVersion,
        "protocol level 6 is not supported, use 3 (MQIsdp), 4 or 5 (MQTT)",
    ),
    (DecodeError::WillFlagsWithoutWill, MALFORMED, "connect flags describe a will but the will flag is 0"),
    (DecodeError::PasswordWithoutUserName, PROTOCOL, "CONNECT has a password but no user name"),
    (DecodeError::UnknownProperty { id: 4 }, MALFORMED, "there is no property 0x04"),
    (
        DecodeError::PropertyNotAllowed {
            property: PropertyId::TopicAlias,
            owner: PropertyOwner::Packet(PacketType::Connect),
        },
        MALFORMED,
        "property topic alias is not allowed in CONNECT",
    ),
    (
        DecodeError::PropertyNotAllowed { property: PropertyId::ReceiveMaximum, owner: PropertyOwner::Will },
        MALFORMED,
        "property receive maximum is not allowed in the will properties",
    ),
    (
        DecodeError::DuplicateProperty { property: PropertyId::ContentType },
        PROTOCOL,
        "property content type is there twice",
    ),
    (
        DecodeError::InvalidPropertyValue { property: PropertyId::ReceiveMaximum, value: 0 },
        PROTOCOL,
        "property receive maximum has the invalid value 0",
    ),
    (
        DecodeError::InvalidPropertyValue { property: PropertyId::TopicAlias, value: 0 },
        ReasonCode::TopicAliasInvalid,
        "property topic alias has the invalid value 0",
    ),
    (
        DecodeError::MissingProperty { packet: PacketType::Auth, property: PropertyId::AuthenticationMethod },
        PROTOCOL,
        "AUTH lacks the property authentication method",
    ),
    (
        DecodeError::InvalidReasonCode { packet: PacketType::PubAck, code: 5 },
        PROTOCOL,
        "PUBACK has the invalid reason code 0x05",
    ),
    (DecodeError::SessionPresentWithError, PROTOCOL, "CONNACK refuses the connection and reports a session"),
    (DecodeError::NoTopicFilter { packet: PacketType::Subscribe }, PROTOCOL, "SUBSCRIBE has no topic filter"),
    (DecodeError::InvalidRetainHandling, PROTOCOL, "retain handling is 3"),
    (DecodeError::NoLocalOnShared, PROTOCOL, "a shared subscription is marked as no local"),
    (
        DecodeError::NotInVersion { packet: PacketType::Auth, version: Version::V311 },
        PROTOCOL,
        "AUTH does not exist in MQTT 3.1.1",
    ),
];

#[test]
fn errors_of_decoding() {
    for (error, reason, words) in DECODE {
        assert_eq!(error.reason_code(), *reason, "{error:?}");
        assert_eq!(error.to_string(), *words);
    }
}

/// The code goes into a DISCONNECT, or a CONNACK when it is the CONNECT that is wrong.
#[test]
fn codes_of_errors_can_be_sent() {
    for (error, reason, _) in DECODE {
        let disconnect = reason.allowed_in(PacketType::Disconnect);
        let connack = reason.allowed_in(PacketType::ConnAck);
        assert!(disconnect || connack, "{error:?}");
    }
}

#[test]
fn errors_of_encoding() {
    let cases = [
        (EncodeError::TooLarge { len: 9, max: 8 }, "a packet of 9 bytes is larger than the maximum packet size of 8"),
        (
            EncodeError::FieldTooLong { field: "user name", len: 70_000 },
            "user name of 70000 bytes is longer than 65,535",
        ),
        (EncodeError::NullCharacter { field: "user name" }, "user name holds the null character"),
        (
            EncodeError::ValueTooLarge { field: "subscription identifier" },
            "subscription identifier is greater than 268,435,455",
        ),
        (EncodeError::ValueTooSmall { field: "subscription identifier" }, "subscription identifier is 0"),
        (
            EncodeError::ReasonNotAllowed { packet: PacketType::PubRel, code: ReasonCode::NotAuthorized },
            "PUBREL cannot carry the reason code NotAuthorized",
        ),
        (
            EncodeError::NoReturnCode { code: ReasonCode::ProtocolError },
            "MQTT before 5.0 has no return code for ProtocolError",
        ),
        (EncodeError::NoTopicFilter { packet: PacketType::Unsubscribe }, "UNSUBSCRIBE has no topic filter"),
        (EncodeError::NotInVersion { element: "AUTH", version: Version::V31 }, "AUTH does not exist in MQTT 3.1"),
        (
            EncodeError::MissingField { packet: PUBLISH, field: "packet identifier" },
            "PUBLISH lacks the packet identifier",
        ),
        (EncodeError::InvalidTopicFilter { error: TopicError::Empty }, "topic filter is empty"),
        (EncodeError::NoLocalOnShared, "a shared subscription cannot be no local"),
    ];
    for (error, words) in cases {
        assert_eq!(error.to_string(), words);
    }
}

#[test]
fn errors_are_small() {
    assert!(size_of::<DecodeError>() <= 24);
    assert!(size_of::<EncodeError>() <= 32);
}
