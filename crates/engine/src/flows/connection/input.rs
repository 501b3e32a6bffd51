//! Input that waits.

use crate::connection::Phase;
use crate::event::Event;
use crate::flows::contexts::Parking;
use crate::ids::ConnectionKey;

impl Parking<'_> {
    /// Answers pile up for a client that does not read them: it is not read either, then, until it does.
    #[inline]
    pub(crate) fn check_output(&mut self, key: ConnectionKey) {
        let limit = self.state.settings.limits.output_high_water as usize * UNREAD_ANSWERS_FACTOR;
        let Some(connection) = self.state.connections.get_mut(key) else { return };
        if connection.output_len() > limit && connection.phase == Phase::Open && !connection.paused {
            connection.paused = true;
            self.state.events.push_back(Event::PauseReading { key });
        }
    }
}

/// Messages wait in their queue once the output is at its high-water mark; this multiple of the mark is the bound for
/// answers, which wait in no queue. Above a factor of one, so that a slow reader's own acknowledgements are still read.
const UNREAD_ANSWERS_FACTOR: usize = 4;
