//! What an orchestrator remembers of its homes over a restart, in a file of its data directory.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
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
    /// The new place serves them; what is left to do is to forget them here.
    pub(super) gone: bool,
}

/// Partitions on their way to here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arriving {
    pub(super) id: String,
    pub(super) from: String,
    pub(super) partitions: Partitions,
}

/// What is remembered.
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

pub(super) fn partitions_json(partitions: Partitions) -> Value {
    partitions.iter().map(|partition| partition.0).collect::<Vec<u16>>().into()
}

pub(super) fn read_partitions(value: &Value) -> Option<Partitions> {
    let numbers = value.as_array()?.iter();
    let read = |number: &Value| Some(PartitionId(u16::try_from(number.as_u64()?).ok()?));
    let all: Vec<PartitionId> = numbers.map(read).collect::<Option<_>>()?;
    let set: Partitions = all.iter().copied().collect();
    (all.iter().all(|partition| set.has(*partition))).then_some(set)
}

impl State {
    fn to_json(&self) -> Value {
        let leaving = self.leaving.as_ref().map(
            |it| json!({ "id": it.id, "to": it.to, "partitions": partitions_json(it.partitions), "gone": it.gone }),
        );
        let arriving = self
            .arriving
            .as_ref()
            .map(|it| json!({ "id": it.id, "from": it.from, "partitions": partitions_json(it.partitions) }));
        json!({
            "version": VERSION,
            "table": self.table.as_ref().map(Table::to_json),
            "lease_until_ms": self.lease_until,
            "leaving": leaving,
            "arriving": arriving,
            "completed": self.completed,
            "given_up": self.given_up,
        })
    }

    fn from_json(value: &Value) -> Option<Self> {
        if value.get("version")?.as_u64()? != VERSION {
            return None;
        }
        let some = |name: &str| value.get(name).filter(|value| !value.is_null());
        let text = |value: &Value, name: &str| Some(value.get(name)?.as_str()?.to_owned());
        let moves = |name: &str| -> Option<VecDeque<String>> {
            value.get(name)?.as_array()?.iter().map(|id| id.as_str().map(str::to_owned)).collect()
        };
        Some(Self {
            table: some("table").map(Table::from_json).transpose().ok()?,
            lease_until: some("lease_until_ms").and_then(Value::as_u64),
            leaving: match some("leaving") {
                None => None,
                Some(it) => Some(Leaving {
                    id: text(it, "id")?,
                    to: text(it, "to")?,
                    partitions: read_partitions(it.get("partitions")?)?,
                    gone: it.get("gone")?.as_bool()?,
                }),
            },
            arriving: match some("arriving") {
                None => None,
                Some(it) => Some(Arriving {
                    id: text(it, "id")?,
                    from: text(it, "from")?,
                    partitions: read_partitions(it.get("partitions")?)?,
                }),
            },
            completed: moves("completed")?,
            given_up: moves("given_up")?,
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

    /// What was saved last.
    ///
    /// # Errors
    /// When there is a file that cannot be read: who serves what is not to be guessed.
    pub(super) fn load(&self) -> io::Result<State> {
        let Some(path) = &self.0 else { return Ok(State::default()) };
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(State::default()),
            Err(error) => return Err(error),
        };
        let value: Option<Value> = serde_json::from_str(&text).ok();
        let state = value.as_ref().and_then(State::from_json);
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
        file.write_all(state.to_json().to_string().as_bytes())?;
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
    use super::super::table::Place;
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
        assert_eq!(State::from_json(&state.to_json()), Some(state));
        assert_eq!(State::from_json(&State::default().to_json()), Some(State::default()));
        assert_eq!(read_partitions(&json!([64])), None);
    }
}
