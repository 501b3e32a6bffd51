//! From bytes to packets: finding frames, sending each to its handler, and holding back a publisher that has to wait.

use crate::connection::Phase;
use crate::connection::parking::Parking;
use crate::event::Event;
use crate::ids::{ConnectionKey, ShardId};
use crate::telling::reason::Reason;
use tidegate_mqtt::DecodeError;

/// Whether the next frame of the same connection may be taken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Go on.
    Next,
    /// The frame stays where it is and with it all behind: it is not yet its turn.
    Hold,
    /// The client's home is another shard, where this frame and all behind it go.
    HandOver(ShardId),
}

/// Why a packet ends its connection.
#[derive(Debug)]
pub(crate) struct Refused {
    pub reason: Reason,
    pub detail: String,
}

impl From<DecodeError> for Refused {
    fn from(error: DecodeError) -> Self {
        Self { reason: Reason::of_code(error.reason_code()), detail: error.to_string() }
    }
}

impl Refused {
    pub(crate) fn new(reason: Reason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into() }
    }
}

impl Parking<'_> {
    /// Answers pile up for a client that does not read them: it is not read either, then, until it does.
    #[inline]
    pub(crate) fn check_output(&mut self, key: ConnectionKey) {
        let limit = self.settings.limits.output_high_water as usize * UNREAD_ANSWERS_FACTOR;
        let Some(connection) = self.desk.connections.get_mut(key) else { return };
        if connection.output_len() > limit && connection.phase == Phase::Open && !connection.paused {
            connection.paused = true;
            self.desk.events.push_back(Event::PauseReading { key });
        }
    }
}

/// Messages wait in their queue once the output is at its high-water mark; so many times that is the bound for answers,
/// which wait in no queue. Above a factor of one, so that a slow reader's own acknowledgements are still read.
const UNREAD_ANSWERS_FACTOR: usize = 4;
