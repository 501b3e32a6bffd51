//! What an orchestrator remembers of its homes over a restart, in a file of its data directory.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tidegate_admin::homes::HomesTable;
use tidegate_engine::{PartitionId, Partitions};

use super::table::Table;

/// The file in the data directory.
const STATE_FILE: &str = "homes.json";
/// Version of its layout; others are refused.
const VERSION: u64 = 1;
/// Moves to here that are remembered after they have ended, so that a late request finds out how.
const REMEMBERED: usize = 1024;

/// Partitions on their way from here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leaving {
    pub(super) id: String,
    pub(super) to: String,
    pub(super) partitions: Partitions,
    /// The new place serves them; they only have to be forgotten here.
    pub(super) gone: bool,
}

/// Partitions on their way to here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arriving {
    pub(super) id: String,
    pub(super) from: String,
    pub(super) partitions: Partitions,
}

/// The remembered state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) table: Option<Table>,
    /// When the lease ends, Unix milliseconds; `None` for never.
    pub(super) lease_until: Option<u64>,
    pub(super) leaving: Option<Leaving>,
    pub(super) arriving: Option<Arriving>,
    /// Moves whose partitions are here.
    pub(super) completed: VecDeque<String>,
    /// Moves that were given up: nothing that still comes for them is taken.
    pub(super) given_up: VecDeque<String>,
}

/// Remembers one move more, and forgets the oldest beyond a bound.
pub(super) fn remember(moves: &mut VecDeque<String>, id: &str) {
    if moves.iter().all(|known| known != id) {
        moves.push_back(id.to_owned());
    }
    while moves.len() > REMEMBERED {
        moves.pop_front();
    }
}

/// The numbers of partitions.
pub(super) fn numbers_of(partitions: Partitions) -> Vec<u16> {
    partitions.iter().map(|partition| partition.0).collect()
}

/// Partitions by their numbers; `None` when one of them is no partition.
pub(super) fn read_partitions(numbers: &[u16]) -> Option<Partitions> {
    let all = || numbers.iter().copied().map(PartitionId);
    let set: Partitions = all().collect();
    all().all(|partition| set.has(partition)).then_some(set)
}

/// [`State`] as it is in the file.
#[derive(Serialize, Deserialize)]
struct StoredState {
    version: u64,
    table: Option<HomesTable>,
    lease_until_ms: Option<u64>,
    leaving: Option<StoredLeaving>,
    arriving: Option<StoredArriving>,
    completed: VecDeque<String>,
    given_up: VecDeque<String>,
}

#[derive(Serialize, Deserialize)]
struct StoredLeaving {
    id: String,
    to: String,
    partitions: Vec<u16>,
    gone: bool,
}

#[derive(Serialize, Deserialize)]
struct StoredArriving {
    id: String,
    from: String,
    partitions: Vec<u16>,
}

impl State {
    fn to_stored(&self) -> StoredState {
        let leaving = self.leaving.clone().map(|it| StoredLeaving {
            id: it.id,
            to: it.to,
            partitions: numbers_of(it.partitions),
            gone: it.gone,
        });
        let arriving = self.arriving.clone().map(|it| StoredArriving {
            id: it.id,
            from: it.from,
            partitions: numbers_of(it.partitions),
        });
        StoredState {
            version: VERSION,
            table: self.table.as_ref().map(Table::to_body),
            lease_until_ms: self.lease_until,
            leaving,
            arriving,
            completed: self.completed.clone(),
            given_up: self.given_up.clone(),
        }
    }

    fn of_stored(stored: StoredState) -> Option<Self> {
        if stored.version != VERSION {
            return None;
        }
        let leaving = |it: StoredLeaving| {
            let partitions = read_partitions(&it.partitions)?;
            Some(Leaving { id: it.id, to: it.to, partitions, gone: it.gone })
        };
        let arriving = |it: StoredArriving| {
            let partitions = read_partitions(&it.partitions)?;
            Some(Arriving { id: it.id, from: it.from, partitions })
        };
        Some(Self {
            table: stored.table.as_ref().map(Table::read).transpose().ok()?,
            lease_until: stored.lease_until_ms,
            leaving: match stored.leaving {
                Some(it) => Some(leaving(it)?),
                None => None,
            },
            arriving: match stored.arriving {
                Some(it) => Some(arriving(it)?),
                None => None,
            },
            completed: stored.completed,
            given_up: stored.given_up,
        })
    }
}

/// Where the state is kept, if it is.
#[derive(Clone, Debug, Default)]
pub(super) struct StateFile(Option<PathBuf>);

impl StateFile {
    /// The file of a data directory.
    pub(super) fn of(directory: Option<&str>) -> Self {
        Self(directory.map(|directory| Path::new(directory).join(STATE_FILE)))
    }

    /// The state that was saved last.
    ///
    /// # Errors
    /// When there is a file that cannot be read: an orchestrator must not guess its partitions.
    pub(super) fn load(&self) -> io::Result<State> {
        let Some(path) = &self.0 else { return Ok(State::default()) };
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(State::default()),
            Err(error) => return Err(error),
        };
        let stored: Option<StoredState> = serde_json::from_str(&text).ok();
        let state = stored.and_then(State::of_stored);
        state.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it is damaged, or of another version"))
    }

    /// Saves a state; when this returns, it is on the disk as a whole.
    ///
    /// # Errors
    /// When the disk refuses; the old state is there then.
    pub(super) fn save(&self, state: &State) -> io::Result<()> {
        let Some(path) = &self.0 else { return Ok(()) };
        let new = path.with_extension("json.new");
        let mut file = File::create(&new)?;
        file.write_all(&serde_json::to_vec(&state.to_stored())?)?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        match path.parent() {
            Some(directory) => File::open(directory)?.sync_all(),
            None => Ok(()),
        }
    }

    /// Where it is, for people.
    pub(super) fn path(&self) -> String {
        self.0.as_ref().map_or_else(String::new, |path| path.display().to_string())
    }
}

#[cfg(test)]
mod tests {
    use tidegate_admin::homes::Place;
    use tidegate_engine::PARTITIONS;

    use super::*;

    #[test]
    fn a_state_is_read_as_it_was_written() {
        let places = vec![Place { name: "a".into(), ..Place::default() }];
        let partitions = [PartitionId(3), PartitionId(63)].into_iter().collect();
        let mut state = State {
            table: Some(Table::by_hash(4, places)),
            lease_until: Some(17),
            leaving: Some(Leaving { id: "m".into(), to: "b".into(), partitions, gone: true }),
            arriving: Some(Arriving { id: "n".into(), from: "c".into(), partitions }),
            ..State::default()
        };
        for id in 0..REMEMBERED + 5 {
            remember(&mut state.completed, &id.to_string());
        }
        assert_eq!((state.completed.len(), state.completed[0].as_str()), (REMEMBERED, "5"));
        let again = |state: &State| {
            let text = serde_json::to_string(&state.to_stored()).unwrap();
            State::of_stored(serde_json::from_str(&text).unwrap())
        };
        assert_eq!(again(&state), Some(state));
        assert_eq!(again(&State::default()), Some(State::default()));
        assert_eq!(read_partitions(&[PARTITIONS]), None);
    }
}
