//! The last packet of a relay to its client: an MQTT 5 client is asked to use another server (0x9C), like clients that
//! are at home here. It is sent between two packets of the home, which a relay follows without keeping or changing
//! them. If no such place comes in time, the connection ends without it.

use tidegate_engine::Reason;
use tidegate_mqtt::{Connect, Disconnect, Version, split_frame};

use super::end::{End, carry};
use super::follower::Follower;

/// How a client can be informed.
#[derive(Clone, Debug)]
pub(super) enum Goodbye {
    /// Not at all: it uses an earlier version, or its CONNECT cannot be read here.
    Never,
    /// By a DISCONNECT of at most so many bytes.
    Possible { max_packet: u32, home: Follower },
    /// By these bytes, as soon as a packet ends.
    Due { last: Vec<u8>, home: Follower },
}

impl Goodbye {
    /// For a client that has sent `bytes`, from its CONNECT on.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let Ok(Some(frame)) = split_frame(bytes, u32::MAX) else { return Self::Never };
        match Connect::decode(frame.first_byte, frame.body) {
            Ok(connect) if connect.version == Version::V5 => {
                let max_packet = connect.properties.maximum_packet_size.map_or(u32::MAX, u32::from);
                Self::Possible { max_packet, home: Follower::default() }
            }
            _ => Self::Never,
        }
    }

    /// Whether the client can be informed.
    pub(super) fn is_possible(&self) -> bool {
        matches!(self, Self::Possible { .. })
    }

    /// Requests the goodbye at the next end of a packet; returns whether that is possible.
    pub(super) fn begin(&mut self, reference: Option<&str>) -> bool {
        let Self::Possible { max_packet, home } = self else { return false };
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
        *self = Self::Due { last, home: *home };
        true
    }

    /// Moves bytes from the home to the client, up to the goodbye once it was requested.
    pub(super) fn carry(&mut self, home: &mut End, client: &mut End, buffer: &mut [u8]) -> bool {
        if let Self::Due { last, home: follower } = self
            && follower.is_between_packets()
        {
            client.end_with(last);
            home.fail();
            *self = Self::Never;
        }
        let more = carry(home, client, buffer, |bytes| match self {
            Self::Never => None,
            Self::Possible { home, .. } => {
                home.follow(bytes, false);
                None
            }
            Self::Due { last, home } => home.follow(bytes, true).map(|length| (length, std::mem::take(last))),
        });
        if matches!(self, Self::Due { last, .. } if last.is_empty()) {
            *self = Self::Never;
        }
        more
    }
}
