//! Messages that have waited too long: they fail, and become dead letters.

use super::no_records::NoRecords;
use super::{Core, CoreSettings};

impl CoreSettings {
    /// Messages that the broker took before this time fail, Unix milliseconds. `clock` is the wall clock.
    pub(super) fn oldest_wanted(&self, clock: u64) -> u64 {
        if self.max_age == 0 { 0 } else { clock.saturating_sub(self.max_age) }
    }
}

impl<D> Core<D> {
    /// A batch of a lane has come to an end: if its sink is away, messages fail that have become too old meanwhile. Dead
    /// letters and the archive wait on. `clock` is the wall clock.
    pub fn fail_late(&mut self, now: u64, clock: u64, lane: usize) {
        let dead = self.first_lanes[self.settings.sinks.len()];
        let (oldest, archive) = (self.settings.oldest_wanted(clock), self.archive());
        if oldest == 0 || lane == dead || Some(lane) == archive {
            return;
        }
        let Some(at) = self.lanes.get_mut(lane).filter(|at| at.error.is_some()) else { return };
        for item in at.take_older(oldest) {
            self.fail(now, &item, NoRecords::TooOld.to_string(), true);
        }
    }
}
