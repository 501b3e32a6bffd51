//! The last packet of a relay to its client: an MQTT 5 client is asked to use another server (0x9C), like clients that
//! are at home here. It is sent between two packets of the home, which a relay follows without keeping or changing
//! them. If no such place comes in time, the connection ends without it.

use tidegate_engine::Reason;
use tidegate_mqtt::{Connect, Disconnect, ReasonCode, Version, split_frame};

/// How a client can be informed.
#[derive(Clone, Debug)]
pub(crate) enum Goodbye {
    /// Not at all: it uses an earlier version, or its CONNECT cannot be read here.
    Never,
    /// By a DISCONNECT of at most this many bytes.
    Possible { max_packet: u32 },
    /// It is sent with these bytes after the present packet.
    Due { last: Vec<u8> },
    /// It was sent.
    Said,
}

impl Goodbye {
    /// For a client that has sent `bytes`, from its CONNECT on.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let Ok(Some(frame)) = split_frame(bytes, u32::MAX) else { return Self::Never };
        match Connect::decode(frame.first_byte, frame.body) {
            Ok(connect) => {
                Self::for_version(connect.version, connect.properties.maximum_packet_size.map_or(u32::MAX, u32::from))
            }
            _ => Self::Never,
        }
    }

    /// For a client of this version that takes packets of up to `max_packet` bytes.
    pub(crate) fn for_version(version: Version, max_packet: u32) -> Self {
        if version == Version::V5 { Self::Possible { max_packet } } else { Self::Never }
    }

    /// Whether the client can be informed.
    pub(crate) fn is_possible(&self) -> bool {
        matches!(self, Self::Possible { .. })
    }

    /// Whether the client was asked to use another server.
    pub(crate) fn was_said(&self) -> bool {
        matches!(self, Self::Said)
    }

    /// Requests the goodbye at the next end of a packet; returns whether that is possible.
    pub(crate) fn begin(&mut self, reference: Option<&str>) -> bool {
        let Self::Possible { max_packet } = self else { return false };
        let reason = Reason::UseAnotherServer;
        let disconnect = Disconnect {
            reason_string: Some(reason.text()),
            server_reference: reference,
            ..Disconnect::new(reason.code())
        };
        let mut last = Vec::new();
        if disconnect.encode_within(Version::V5, *max_packet, &mut last).is_err() {
            return false;
        }
        *self = Self::Due { last };
        true
    }

    /// The goodbye of a node that stops, if there can be one.
    pub(crate) fn take_last(&mut self) -> Option<Vec<u8>> {
        if self.is_possible() {
            self.begin(None);
        }
        self.take_due()
    }

    /// The goodbye of a home that does not let the client stay, if there can be one.
    pub(crate) fn take_refusal(&mut self, code: ReasonCode) -> Option<Vec<u8>> {
        let Self::Possible { max_packet } = self else { return None };
        let mut last = Vec::new();
        Disconnect::new(code).encode_within(Version::V5, *max_packet, &mut last).ok()?;
        *self = Self::Said;
        Some(last)
    }

    /// The goodbye, if it was requested. It is sent once.
    pub(crate) fn take_due(&mut self) -> Option<Vec<u8>> {
        let Self::Due { last } = self else { return None };
        let last = std::mem::take(last);
        *self = Self::Said;
        Some(last)
    }
}
