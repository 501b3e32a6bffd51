//! A publisher is made to wait.

use crate::connection::input::Flow;
use crate::connection::{Parked, Phase};
use crate::event::Event;
use crate::flows::contexts::Parking;
use crate::ids::ConnectionKey;
use crate::link::record::Record;
use crate::now::Now;
use crate::session::BlockedPublisher;
use crate::timers::Timer;

impl Parking<'_> {
    /// Keeps a packet of a publisher that has to wait, or stops reading when too much is kept.
    pub(crate) fn park_frame(&mut self, key: ConnectionKey, whole: &[u8]) -> Flow {
        let limit = self.state.settings.limits.parked_bytes as usize;
        let Some(connection) = self.state.connections.get_mut(key) else { return Flow::Hold };
        let paused = connection.paused;
        let Some(parked) = connection.extra.as_mut().and_then(|extra| extra.parked.as_mut()) else { return Flow::Hold };
        if !parked.bytes.is_empty() && parked.bytes.len() + whole.len() > limit {
            if !paused {
                connection.paused = true;
                self.state.events.push_back(Event::PauseReading { key });
            }
            return Flow::Hold;
        }
        parked.bytes.extend_from_slice(whole);
        self.state.memory.held += whole.len() as u64;
        self.state.memory.input_bytes += whole.len() as u64;
        Flow::Next
    }

    /// A full queue asks a publisher to wait, here or on its own shard.
    pub(crate) fn park_publisher(&mut self, now: Now, publisher: BlockedPublisher) {
        if publisher.shard == self.links.place.shard {
            self.park(now, publisher.connection);
        } else {
            self.links.send(publisher.shard, Record::Park { connection: publisher.connection });
        }
    }

    /// One more queue or link that this publisher waits for.
    pub(crate) fn park(&mut self, now: Now, key: ConnectionKey) {
        let latest = now.monotonic.plus(self.state.settings.limits.block_timeout_ms);
        let Some(connection) = self.state.connections.get_mut(key) else { return };
        if connection.phase != Phase::Open || connection.leaving {
            return;
        }
        let extra = connection.extra_mut();
        if let Some(parked) = &mut extra.parked {
            parked.waits += 1;
            return;
        }
        let until = latest.min(extra.withheld_until);
        extra.parked = Some(Box::new(Parked { bytes: Vec::new(), waits: 1, until, askers: Vec::new() }));
        self.state.timers.set(until, Timer::Parked(key));
        self.state.counters.publishers_parked += 1;
    }
}
