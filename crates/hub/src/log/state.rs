//! The state of a pipeline that all its processes share: a log that keeps the latest record of each key.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;
use tidegate_bus::{Append, Record};

const PAUSED: &str = "paused";
const REPLAY: &str = "replay";
/// The key of a partition is this and its number.
const PARTITION: &str = "partition-";

/// Where a partition is continued. A replay begins the next generation, whose positions count from then on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Mark {
    /// The number of the replay that this belongs to, or 0.
    pub(crate) generation: u64,
    /// All messages below it are done.
    pub(crate) position: u64,
}

/// The last replay that was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Replay {
    /// 0 says that there was no replay.
    pub(crate) number: u64,
    /// Messages that the broker took then or later come again, Unix milliseconds.
    pub(crate) from: u64,
}

/// The state that the records give.
#[derive(Debug, Default)]
pub(crate) struct SharedState {
    marks: BTreeMap<u32, Mark>,
    pub(crate) paused: bool,
    pub(crate) replay: Replay,
}

impl SharedState {
    /// Takes a record. One that is no state is passed over.
    pub(crate) fn take(&mut self, record: &Record) {
        let Ok(key) = std::str::from_utf8(&record.key) else { return };
        match key {
            PAUSED => self.paused = serde_json::from_slice(&record.payload).unwrap_or(self.paused),
            REPLAY => {
                let replay = serde_json::from_slice(&record.payload);
                self.replay =
                    replay.ok().filter(|replay: &Replay| replay.number > self.replay.number).unwrap_or(self.replay);
            }
            _ => {
                let partition = key.strip_prefix(PARTITION).and_then(|text| text.parse().ok());
                if let (Some(partition), Ok(mark)) = (partition, serde_json::from_slice(&record.payload)) {
                    // A process that has lost the partition may still write an older mark.
                    let known = self.marks.entry(partition).or_default();
                    *known = (*known).max(mark);
                }
            }
        }
    }

    pub(crate) fn mark(&self, partition: u32) -> Mark {
        self.marks.get(&partition).copied().unwrap_or_default()
    }
}

pub(crate) fn mark_record(partition: u32, mark: Mark) -> Append {
    Append::new(json!(mark).to_string()).with_key(format!("{PARTITION}{partition}"))
}

pub(crate) fn pause_record(paused: bool) -> Append {
    Append::new(json!(paused).to_string()).with_key(PAUSED)
}

pub(crate) fn replay_record(replay: Replay) -> Append {
    Append::new(json!(replay).to_string()).with_key(REPLAY)
}

#[cfg(test)]
mod tests {
    use tidegate_bus::Position;

    use super::*;

    fn record(append: Append) -> Record {
        Record { position: Position(0), key: append.key, headers: append.headers, payload: append.payload }
    }

    #[test]
    fn an_older_mark_does_not_count_and_a_replay_does() {
        let mut state = SharedState::default();
        let mut take = |generation, position| {
            state.take(&record(mark_record(2, Mark { generation, position })));
            state.mark(2)
        };
        assert_eq!(take(0, 7), Mark { generation: 0, position: 7 });
        assert_eq!(take(0, 5), Mark { generation: 0, position: 7 });
        assert_eq!(take(1, 3), Mark { generation: 1, position: 3 });
        assert_eq!(take(0, 9), Mark { generation: 1, position: 3 });
        assert_eq!(state.mark(1), Mark::default());
    }

    #[test]
    fn records_that_are_no_state_are_passed_over() {
        let mut state = SharedState::default();
        for (key, payload) in [("partition-x", "{}"), ("replay", "[]"), ("paused", "7"), ("other", "{"), ("", "")] {
            state.take(&record(Append::new(payload).with_key(key)));
        }
        assert!(!state.paused && state.replay == Replay::default());
        state.take(&record(pause_record(true)));
        state.take(&record(replay_record(Replay { number: 4, from: 9 })));
        state.take(&record(replay_record(Replay { number: 3, from: 1 })));
        assert!(state.paused && state.replay == Replay { number: 4, from: 9 });
    }
}
