//! Connect Return Codes of MQTT 3.1 and 3.1.1, and how they go with the Reason Codes of MQTT 5.0.

use crate::ReasonCode;

/// A Connect Return Code of a CONNACK packet in MQTT 3.1 and 3.1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ConnectReturnCode {
    /// 0: connection accepted.
    Accepted = 0,
    /// 1: the server does not support the level of the protocol.
    UnacceptableProtocolVersion = 1,
    /// 2: the client identifier is not allowed.
    IdentifierRejected = 2,
    /// 3: the MQTT service is unavailable.
    ServerUnavailable = 3,
    /// 4: the data in the user name or password is malformed or wrong.
    BadUserNameOrPassword = 4,
    /// 5: the client is not authorized to connect.
    NotAuthorized = 5,
}

impl ConnectReturnCode {
    /// The code with this number; `None` for those from 6, which are reserved.
    pub const fn from_byte(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Accepted,
            1 => Self::UnacceptableProtocolVersion,
            2 => Self::IdentifierRejected,
            3 => Self::ServerUnavailable,
            4 => Self::BadUserNameOrPassword,
            5 => Self::NotAuthorized,
            _ => return None,
        })
    }

    /// The return code with the meaning of `reason`. `None` when there is no such code: the server then closes the
    /// connection without a CONNACK ([MQTT-3.2.2-6] of 3.1.1).
    pub const fn from_reason(reason: ReasonCode) -> Option<Self> {
        Some(match reason {
            ReasonCode::Success => Self::Accepted,
            ReasonCode::UnsupportedProtocolVersion => Self::UnacceptableProtocolVersion,
            ReasonCode::ClientIdentifierNotValid => Self::IdentifierRejected,
            ReasonCode::ServerUnavailable
            | ReasonCode::ServerBusy
            | ReasonCode::ServerShuttingDown
            | ReasonCode::QuotaExceeded
            | ReasonCode::UseAnotherServer
            | ReasonCode::ServerMoved
            | ReasonCode::ConnectionRateExceeded => Self::ServerUnavailable,
            ReasonCode::BadUserNameOrPassword | ReasonCode::BadAuthenticationMethod => Self::BadUserNameOrPassword,
            ReasonCode::NotAuthorized | ReasonCode::Banned => Self::NotAuthorized,
            _ => return None,
        })
    }

    /// The meaning of the code in the words of MQTT 3.1.1 (table 3.1), in lower case and without a period.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::UnacceptableProtocolVersion => "unacceptable protocol version",
            Self::IdentifierRejected => "identifier rejected",
            Self::ServerUnavailable => "server unavailable",
            Self::BadUserNameOrPassword => "bad user name or password",
            Self::NotAuthorized => "not authorized",
        }
    }

    /// The Reason Code of MQTT 5.0 that says the same.
    pub const fn reason(self) -> ReasonCode {
        match self {
            Self::Accepted => ReasonCode::Success,
            Self::UnacceptableProtocolVersion => ReasonCode::UnsupportedProtocolVersion,
            Self::IdentifierRejected => ReasonCode::ClientIdentifierNotValid,
            Self::ServerUnavailable => ReasonCode::ServerUnavailable,
            Self::BadUserNameOrPassword => ReasonCode::BadUserNameOrPassword,
            Self::NotAuthorized => ReasonCode::NotAuthorized,
        }
    }
}
