//! Close codes of a WebSocket connection, and the protocol violations of clients.

use std::fmt;

/// A status code of a close frame [RFC 6455, section 7.4].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloseCode(u16);

impl CloseCode {
    /// The purpose is fulfilled.
    pub const NORMAL: Self = Self(1000);
    /// The server stops.
    pub const GOING_AWAY: Self = Self(1001);
    /// The peer broke the protocol.
    pub const PROTOCOL_ERROR: Self = Self(1002);
    /// Data of a kind that is not taken: MQTT travels in binary frames only [MQTT-6.0.0-1].
    pub const UNSUPPORTED_DATA: Self = Self(1003);
    /// A text that is not UTF-8.
    pub const INVALID_PAYLOAD: Self = Self(1007);
    /// A rule of the server was broken.
    pub const POLICY_VIOLATION: Self = Self(1008);
    /// Larger than the server takes.
    pub const TOO_BIG: Self = Self(1009);

    /// The number on the wire.
    pub fn number(self) -> u16 {
        self.0
    }

    /// The code that a peer sent, if it is allowed: 1004 to 1006 and 1015 are reserved, and unregistered ones below
    /// 3000 are invalid.
    pub fn received(number: u16) -> Option<Self> {
        matches!(number, 1000..=1003 | 1007..=1014 | 3000..=4999).then_some(Self(number))
    }
}

impl fmt::Display for CloseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How a client broke the WebSocket protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Reserved bits are set although no extension was agreed on.
    #[error("reserved bits are set in a frame")]
    ReservedBits,
    /// An opcode without a meaning.
    #[error("a frame has an unknown opcode")]
    UnknownOpcode,
    /// Frames from a client are masked.
    #[error("a frame from the client is not masked")]
    NotMasked,
    /// A control frame in fragments or of more than 125 bytes.
    #[error("a control frame is fragmented or too long")]
    ControlFrame,
    /// A text frame [MQTT-6.0.0-1].
    #[error("a text frame, but MQTT travels in binary frames")]
    TextFrame,
    /// A continuation without a message.
    #[error("a continuation frame continues no message")]
    NothingToContinue,
    /// A new message before the end of the one before.
    #[error("a message starts before the previous one ended")]
    UnfinishedMessage,
    /// The highest bit of a 64-bit length is set.
    #[error("a frame has a negative length")]
    LengthSign,
    /// A frame longer than the longest MQTT packet.
    #[error("a frame is longer than the longest MQTT packet")]
    FrameTooLong,
    /// A close frame with one byte or a code that may not be sent.
    #[error("a close frame has no valid code")]
    CloseFrame,
    /// A close frame whose reason is not UTF-8.
    #[error("the reason in a close frame is not UTF-8")]
    CloseReason,
}

impl Violation {
    /// The code for the client.
    pub fn code(self) -> CloseCode {
        match self {
            Self::TextFrame => CloseCode::UNSUPPORTED_DATA,
            Self::FrameTooLong => CloseCode::TOO_BIG,
            Self::CloseReason => CloseCode::INVALID_PAYLOAD,
            Self::ReservedBits
            | Self::UnknownOpcode
            | Self::NotMasked
            | Self::ControlFrame
            | Self::NothingToContinue
            | Self::UnfinishedMessage
            | Self::LengthSign
            | Self::CloseFrame => CloseCode::PROTOCOL_ERROR,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_that_may_not_be_sent_are_refused() {
        for number in [0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, u16::MAX] {
            assert_eq!(CloseCode::received(number), None, "{number}");
        }
        for number in [1000, 1003, 1007, 1014, 3000, 4999] {
            assert_eq!(CloseCode::received(number).map(CloseCode::number), Some(number));
        }
    }

    #[test]
    fn each_kind_of_violation_has_the_code_of_the_standards() {
        assert_eq!(Violation::NotMasked.code().number(), 1002);
        assert_eq!(Violation::TextFrame.code().number(), 1003);
        assert_eq!(Violation::FrameTooLong.code().number(), 1009);
    }
}
