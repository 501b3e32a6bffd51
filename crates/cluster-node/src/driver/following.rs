//! A log of the cluster that is read from its beginning, and from there again when that has failed.

use std::time::{Duration, Instant};

use tidegate_bus::{Bus, BusError, LogPartition, Position, Reader, Record, Tally, Wake};
use tidegate_cluster::RecordError;

/// Records that are taken at once.
const BATCH: usize = 256;
/// How long a log that the bus does not let be read is left alone.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a log that the servers have lost is left alone. It is made again meanwhile.
const LOST_PAUSE: Duration = Duration::from_millis(200);

/// The reader of the log.
#[derive(Default)]
pub(super) struct Following {
    reader: Option<Reader>,
    /// It was opened before.
    was_open: bool,
    /// Until when it is left alone. The control thread looks at everything often enough to go on then.
    rests_until: Option<Instant>,
}

/// The records taken from the log.
#[derive(Default)]
pub(super) struct Taken {
    pub(super) records: Vec<Record>,
    /// The position that is read next.
    pub(super) next: Position,
    /// The log is read from its beginning once more: it may be another one than before.
    pub(super) is_reopened: bool,
    /// The servers do not know the log any more.
    pub(super) is_gone: bool,
}

impl Following {
    /// Takes what there is.
    pub(super) fn take(&mut self, bus: &Bus, place: &LogPartition, wake: Wake) -> Taken {
        let mut all = Taken::default();
        if self.reader.is_none() && self.rests_until.is_none_or(|until| until <= Instant::now()) {
            match bus.read(place, Position::START, wake) {
                Ok(opened) => {
                    self.reader = Some(opened);
                    all.is_reopened = std::mem::replace(&mut self.was_open, true);
                }
                Err(error) => {
                    tracing::warn!(%error, log = %place, "cannot read; retrying");
                    self.rest(PAUSE);
                }
            }
        }
        while let Some(open) = &mut self.reader {
            match open.take(BATCH) {
                Ok(taken) => {
                    all.next = taken.next;
                    if taken.records.is_empty() {
                        break;
                    }
                    all.records.extend(taken.records);
                }
                Err(error) => {
                    tracing::warn!(%error, log = %place, "reading stopped; reading again from the start");
                    self.reader = None;
                    all.is_gone = matches!(error, BusError::Unknown(_));
                    // Trimmed records are gone, and the rest can be read at once. Another error lasts for a
                    // while.
                    if !matches!(error, BusError::Trimmed { .. }) {
                        self.rest(if all.is_gone { LOST_PAUSE } else { PAUSE });
                    }
                }
            }
        }
        all
    }

    fn rest(&mut self, pause: Duration) {
        self.rests_until = Some(Instant::now() + pause);
    }
}

/// Logs a record that is invalid.
pub(super) fn passed_over(strange: &Tally, record: &Record, error: &RecordError) {
    if let Some(times) = strange.note() {
        tracing::warn!(position = %record.position, %error, times, "a record of the cluster was skipped");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidegate_bus::{Address, LogName, Settings};

    use super::*;

    #[test]
    fn a_log_that_cannot_be_read_is_left_alone_for_a_while() {
        let bus = Bus::open(&Address::Embedded, Settings::default(), Arc::new(|_| {})).unwrap();
        let place = LogPartition::new(LogName::new("unknown").unwrap(), 0);
        let mut following = Following::default();
        let taken = following.take(&bus, &place, Arc::new(|| {}));
        assert!(taken.records.is_empty() && following.reader.is_none());
        let until = following.rests_until;
        assert!(until.is_some());
        following.take(&bus, &place, Arc::new(|| {}));
        assert_eq!(following.rests_until, until, "it was not asked for again");
    }
}
