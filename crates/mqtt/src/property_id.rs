//! The identifiers of properties of MQTT 5.0: one table with their types and the packets that may carry them.

use crate::PacketType;

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
