//! Reason Codes of MQTT 5.0: one table for the wire, for logs and for documentation.

use crate::{PacketType, QoS};

macro_rules! reason_codes {
    ($($name:ident = $number:literal, $text:literal, [$($packet:ident),+];)+) => {
        /// A Reason Code of MQTT 5.0 (section 2.4).
        ///
        /// If the specification gives one number several names, the variant has the most general one;
        /// see [`ReasonCode::NORMAL_DISCONNECTION`] and [`ReasonCode::GRANTED_QOS_0`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum ReasonCode {
            $(
                #[doc = concat!("`", stringify!($number), "`: ", $text, ".")]
                $name = $number,
            )+
        }

        impl ReasonCode {
            /// All codes, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The code with this number, if there is one.
            pub const fn from_byte(number: u8) -> Option<Self> {
                match number {
                    $($number => Some(Self::$name),)+
                    _ => None,
                }
            }

            /// The meaning of the code, in lower case and without a period.
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }

            /// A bit for each packet type that may carry the code.
            const fn packets(self) -> u16 {
                match self {
                    $(Self::$name => $(1 << PacketType::$packet as u16)|+,)+
                }
            }
        }
    };
}

reason_codes! {
    Success = 0x00, "success", [ConnAck, PubAck, PubRec, PubRel, PubComp, SubAck, UnsubAck, Disconnect, Auth];
    GrantedQos1 = 0x01, "granted QoS 1", [SubAck];
    GrantedQos2 = 0x02, "granted QoS 2", [SubAck];
    DisconnectWithWillMessage = 0x04, "disconnect with will message", [Disconnect];
    NoMatchingSubscribers = 0x10, "no matching subscribers", [PubAck, PubRec];
    NoSubscriptionExisted = 0x11, "no subscription existed", [UnsubAck];
    ContinueAuthentication = 0x18, "continue authentication", [Auth];
    ReAuthenticate = 0x19, "re-authenticate", [Auth];
    UnspecifiedError = 0x80, "unspecified error", [ConnAck, PubAck, PubRec, SubAck, UnsubAck, Disconnect];
    MalformedPacket = 0x81, "malformed packet", [ConnAck, Disconnect];
    ProtocolError = 0x82, "protocol error", [ConnAck, Disconnect];
    ImplementationSpecificError = 0x83, "implementation specific error",
        [ConnAck, PubAck, PubRec, SubAck, UnsubAck, Disconnect];
    UnsupportedProtocolVersion = 0x84, "unsupported protocol version", [ConnAck];
    ClientIdentifierNotValid = 0x85, "client identifier not valid", [ConnAck];
    BadUserNameOrPassword = 0x86, "bad user name or password", [ConnAck];
    NotAuthorized = 0x87, "not authorized", [ConnAck, PubAck, PubRec, SubAck, UnsubAck, Disconnect];
    ServerUnavailable = 0x88, "server unavailable", [ConnAck];
    ServerBusy = 0x89, "server busy", [ConnAck, Disconnect];
    Banned = 0x8A, "banned", [ConnAck];
    ServerShuttingDown = 0x8B, "server shutting down", [Disconnect];
    BadAuthenticationMethod = 0x8C, "bad authentication method", [ConnAck, Disconnect];
    KeepAliveTimeout = 0x8D, "keep alive timeout", [Disconnect];
    SessionTakenOver = 0x8E, "session taken over", [Disconnect];
    TopicFilterInvalid = 0x8F, "topic filter invalid", [SubAck, UnsubAck, Disconnect];
    TopicNameInvalid = 0x90, "topic name invalid", [ConnAck, PubAck, PubRec, Disconnect];
    PacketIdentifierInUse = 0x91, "packet identifier in use", [PubAck, PubRec, SubAck, UnsubAck];
    PacketIdentifierNotFound = 0x92, "packet identifier not found", [PubRel, PubComp];
    ReceiveMaximumExceeded = 0x93, "receive maximum exceeded", [Disconnect];
    TopicAliasInvalid = 0x94, "topic alias invalid", [Disconnect];
    PacketTooLarge = 0x95, "packet too large", [ConnAck, Disconnect];
    MessageRateTooHigh = 0x96, "message rate too high", [Disconnect];
    QuotaExceeded = 0x97, "quota exceeded", [ConnAck, PubAck, PubRec, SubAck, Disconnect];
    AdministrativeAction = 0x98, "administrative action", [Disconnect];
    PayloadFormatInvalid = 0x99, "payload format invalid", [ConnAck, PubAck, PubRec, Disconnect];
    RetainNotSupported = 0x9A, "retain not supported", [ConnAck, Disconnect];
    QosNotSupported = 0x9B, "QoS not supported", [ConnAck, Disconnect];
    UseAnotherServer = 0x9C, "use another server", [ConnAck, Disconnect];
    ServerMoved = 0x9D, "server moved", [ConnAck, Disconnect];
    SharedSubscriptionsNotSupported = 0x9E, "shared subscriptions not supported", [SubAck, Disconnect];
    ConnectionRateExceeded = 0x9F, "connection rate exceeded", [ConnAck, Disconnect];
    MaximumConnectTime = 0xA0, "maximum connect time", [Disconnect];
    SubscriptionIdentifiersNotSupported = 0xA1, "subscription identifiers not supported", [SubAck, Disconnect];
    WildcardSubscriptionsNotSupported = 0xA2, "wildcard subscriptions not supported", [SubAck, Disconnect];
}

impl ReasonCode {
    /// The name of 0x00 in a DISCONNECT packet.
    pub const NORMAL_DISCONNECTION: Self = Self::Success;
    /// The name of 0x00 in a SUBACK packet.
    pub const GRANTED_QOS_0: Self = Self::Success;

    /// The number on the wire.
    #[inline]
    pub const fn byte(self) -> u8 {
        self as u8
    }

    /// Whether the code reports a failure, that is, is 0x80 or greater.
    #[inline]
    pub const fn is_error(self) -> bool {
        self as u8 >= 0x80
    }

    /// Whether a packet of this type may carry the code.
    #[inline]
    pub const fn allowed_in(self, packet: PacketType) -> bool {
        self.packets() & 1 << packet as u16 != 0
    }

    /// The code by which a SUBACK packet grants `qos`.
    pub const fn granted(qos: QoS) -> Self {
        match qos {
            QoS::AtMostOnce => Self::Success,
            QoS::AtLeastOnce => Self::GrantedQos1,
            QoS::ExactlyOnce => Self::GrantedQos2,
        }
    }
}

/// Success.
impl Default for ReasonCode {
    fn default() -> Self {
        Self::Success
    }
}

impl std::fmt::Display for ReasonCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.text())
    }
}
