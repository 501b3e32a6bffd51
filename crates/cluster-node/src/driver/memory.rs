//! A node's memory of its cluster over a restart, in a file of its data directory.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tidegate_cluster::{Table, parts_of_earlier};
use tidegate_engine::Restored;
use tidegate_mirror::MirrorDisk;

use super::error::NodeError;
use tidegate_mirror::kept_file;

/// The file in the data directory.
const FILE: &str = "cluster.json";
/// Version of its layout; others but the first are refused.
const VERSION: u64 = 2;
/// The layout of earlier versions, which had fewer partitions.
const VERSION_1: u64 = 1;

/// The remembered state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Memory {
    /// The last life.
    pub(super) life: Option<u64>,
    /// The address at which the process of that life listened for links; `None` if the system does not say it.
    pub(super) place: Option<String>,
    /// The partitions that are in the store as they were served last, and since which epoch.
    pub(super) holdings: BTreeMap<u16, u64>,
    /// The partitions that are in the store as they have come by a move whose end this node has not seen, and by which.
    pub(super) arrived: BTreeMap<u16, u64>,
    /// The partitions for which messages of brokers are forwarded to other members, by their moves.
    pub(super) passing: BTreeMap<u64, Vec<u16>>,
    /// The partitions for which their last homes forward messages of brokers here.
    pub(super) receiving: Vec<u16>,
    /// The connections of dead orchestrators to brokers that are worked off.
    pub(super) adopted: Vec<RememberedBroker>,
    /// The newest table that this node knows: where the bus loses it, the cluster continues from there.
    pub(super) table: Option<Table>,
}

/// A connection of a dead orchestrator to a broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RememberedBroker {
    /// The dead orchestrator.
    pub(super) of: String,
    pub(super) broker: String,
    /// The partitions that were taken over here.
    pub(super) here: Vec<u16>,
    /// The partitions whose sessions have the messages that the dead one had taken.
    pub(super) held: Vec<u16>,
    /// The partitions whose sessions may not have them.
    pub(super) left: Vec<u16>,
}

/// The file of a memory. Earlier versions have not all of it.
#[derive(Serialize, Deserialize)]
struct MemoryRecord {
    version: u64,
    life: Option<u64>,
    place: Option<String>,
    /// Partitions, each with a number.
    holdings: Vec<(u16, u64)>,
    #[serde(default)]
    arrived: Vec<(u16, u64)>,
    #[serde(default)]
    passing: BTreeMap<u64, Vec<u16>>,
    #[serde(default)]
    receiving: Vec<u16>,
    #[serde(default)]
    adopted: Vec<RememberedBroker>,
    /// A table. Without one that can be read the node waits for the bus.
    #[serde(default)]
    table: Value,
}

/// The numbers of all parts of partitions of earlier versions.
fn divide_numbers(pairs: &mut Vec<(u16, u64)>) {
    *pairs =
        pairs.iter().flat_map(|(earlier, number)| parts_of_earlier(*earlier).map(|part| (part, *number))).collect();
}

/// All parts of partitions of earlier versions.
fn divide(partitions: &mut Vec<u16>) {
    *partitions = partitions.iter().flat_map(|earlier| parts_of_earlier(*earlier)).collect();
}

impl Memory {
    /// The memory of a life when this table is known.
    pub(super) fn of_table(
        (life, place): (u64, Option<&str>),
        holdings: BTreeMap<u16, u64>,
        arrived: BTreeMap<u16, u64>,
        table: &Table,
    ) -> Self {
        let (life, place) = (Some(life), place.map(str::to_owned));
        Self { life, place, holdings, arrived, table: Some(table.clone()), ..Self::default() }
    }

    /// The last life, if its process has certainly ended. The owner of the data directory knows that. A memory that comes
    /// from the bus does not say it: a second process of the name may have been started by mistake, and the first one
    /// serves until it learns that. But no two processes listen in one place, and a life that was silent for a lease
    /// serves no more.
    pub(super) fn ended_life(&self, was_here: bool, place: Option<&str>, silent: Option<u64>) -> Option<u64> {
        let is_in_its_place = place.is_some() && self.place.as_deref() == place;
        self.life.filter(|life| was_here || is_in_its_place || silent == Some(*life))
    }

    fn to_json(&self) -> Value {
        let pairs = |map: &BTreeMap<u16, u64>| map.iter().map(|(partition, number)| (*partition, *number)).collect();
        json!(MemoryRecord {
            version: VERSION,
            life: self.life,
            place: self.place.clone(),
            holdings: pairs(&self.holdings),
            arrived: pairs(&self.arrived),
            passing: self.passing.clone(),
            receiving: self.receiving.clone(),
            adopted: self.adopted.clone(),
            table: json!(self.table),
        })
    }

    /// Reads a file; `None` when it is damaged or of another version.
    fn from_json(text: &str) -> Option<Self> {
        let mut record: MemoryRecord = serde_json::from_str(text).ok()?;
        match record.version {
            VERSION => {}
            VERSION_1 => record.divide(),
            _ => return None,
        }
        Some(Self {
            life: record.life,
            place: record.place,
            holdings: record.holdings.into_iter().collect(),
            arrived: record.arrived.into_iter().collect(),
            passing: record.passing,
            receiving: record.receiving,
            adopted: record.adopted,
            table: serde_json::from_value(record.table).ok().flatten(),
        })
    }
}

impl MemoryRecord {
    /// Replaces partitions of the first version by their parts.
    fn divide(&mut self) {
        [&mut self.holdings, &mut self.arrived].into_iter().for_each(divide_numbers);
        let sets = self.adopted.iter_mut().flat_map(|broker| [&mut broker.here, &mut broker.held, &mut broker.left]);
        sets.chain(self.passing.values_mut()).chain([&mut self.receiving]).for_each(divide);
    }
}

/// The file of the memory, if it is kept.
#[derive(Clone, Default)]
pub(super) struct MemoryFile {
    directory: Option<PathBuf>,
    /// Its copy on the bus.
    mirror: Option<Arc<MirrorDisk>>,
}

impl MemoryFile {
    /// The file of a data directory, and of the log with its content.
    pub(super) fn of(directory: Option<&str>, mirror: Option<Arc<MirrorDisk>>) -> Self {
        Self { directory: directory.map(PathBuf::from), mirror }
    }

    /// Whether a data directory has the file: a member of a cluster has had it.
    pub(super) fn is_in(directory: &Path) -> bool {
        directory.join(FILE).exists()
    }

    /// Whether nothing can be saved any more, since another process owns the log on the bus.
    pub(super) fn is_another_s(&self) -> bool {
        self.mirror.as_ref().is_some_and(|mirror| mirror.lost().is_some())
    }

    /// Whether it is on the bus, too, and the bus has not confirmed all of the log: a save waits for that.
    pub(super) fn waits_for_bus(&self) -> bool {
        self.mirror.as_ref().is_some_and(|mirror| mirror.waits_for_bus())
    }

    /// Notes that this process serves as a member, from the table of this epoch on. Returns whether it may: not when
    /// another process owns the log, or has fenced the members of this epoch.
    pub(super) fn serve_since(&self, epoch: u64) -> bool {
        self.mirror.as_ref().is_none_or(|mirror| mirror.serve_since(epoch).is_ok())
    }

    /// The memory that was saved last.
    ///
    /// # Errors
    /// When there is a file that cannot be read: the node must not guess its partitions.
    pub(super) fn load(&self) -> Result<Memory, NodeError> {
        let Some(directory) = &self.directory else { return Ok(Memory::default()) };
        let path = directory.join(FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Memory::default()),
            Err(source) => return Err(NodeError::Memory { path, source }),
        };
        Memory::from_json(&text).ok_or(NodeError::DamagedMemory(path))
    }

    /// Refuses a store with sessions or retained messages whose partitions are not remembered: no member has written it.
    /// A member would remove them, since the table gives it partitions that begin empty.
    ///
    /// # Errors
    /// When there are such.
    pub(super) fn check_store(&self, restored: &Restored, is_orchestrator: bool) -> Result<(), NodeError> {
        let Some(directory) = &self.directory else { return Ok(()) };
        // An orchestrator keeps its retained messages, whatever partitions it works.
        let retained = if is_orchestrator { 0 } else { restored.retained };
        if restored.sessions == 0 && retained == 0 || directory.join(FILE).exists() {
            return Ok(());
        }
        Err(NodeError::NoMembersStore { directory: directory.clone(), sessions: restored.sessions, retained })
    }

    /// Saves, unless this is `saved` already, and notes it there.
    ///
    /// # Errors
    /// When the disk or the bus refuses; `saved` is as before then.
    pub(super) fn keep(&self, saved: &mut Option<Memory>, memory: &Memory) -> io::Result<()> {
        if saved.as_ref() != Some(memory) {
            self.save(memory)?;
            *saved = Some(memory.clone());
        }
        Ok(())
    }

    /// Saves; when this returns, it is on the disk as a whole, and on the bus where the store is. That waits for the
    /// bus.
    ///
    /// # Errors
    /// When the disk or the bus refuses; the old one is there then.
    pub(super) fn save(&self, memory: &Memory) -> io::Result<()> {
        let Some(directory) = &self.directory else { return Ok(()) };
        kept_file::replace(directory, FILE, memory.to_json().to_string().as_bytes(), self.mirror.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_no_member_wrote_is_refused() {
        let directory = std::env::temp_dir().join(format!("tidegate-no-members-store-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let file = MemoryFile::of(directory.to_str(), None);
        let store = |sessions, retained| Restored { sessions, retained, ..Restored::default() };
        file.check_store(&store(0, 0), false).unwrap();
        file.check_store(&store(0, 1), true).unwrap();
        for (store, is_orchestrator) in [(store(2, 0), true), (store(2, 0), false), (store(0, 1), false)] {
            let refused = file.check_store(&store, is_orchestrator).unwrap_err().to_string();
            assert!(refused.contains("without cluster.name"), "{refused}");
        }
        // A member has written it.
        file.save(&Memory::default()).unwrap();
        file.check_store(&store(2, 1), false).unwrap();
        fs::remove_dir_all(&directory).unwrap();
        MemoryFile::of(None, None).check_store(&store(0, 0), true).unwrap();
    }

    #[test]
    fn a_memory_that_is_not_saved_is_never_taken_for_saved() {
        let directory = std::env::temp_dir().join(format!("tidegate-memory-{}", std::process::id()));
        let file = MemoryFile::of(directory.to_str(), None);
        let (mut saved, memory) = (None, Memory { receiving: vec![7], ..Memory::default() });
        for _ in 0..2 {
            assert!(file.keep(&mut saved, &memory).is_err(), "there is no directory");
            assert_eq!(saved, None);
        }
        fs::create_dir(&directory).unwrap();
        file.keep(&mut saved, &memory).unwrap();
        assert_eq!((saved, file.load().unwrap()), (Some(memory.clone()), memory));
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_life_has_ended_for_its_files_its_place_or_silence() {
        let memory =
            |place: Option<&str>| Memory { life: Some(3), place: place.map(str::to_owned), ..Memory::default() };
        assert_eq!(memory(None).ended_life(true, None, None), Some(3));
        assert_eq!(memory(Some("here")).ended_life(true, Some("there"), None), Some(3));
        assert_eq!(memory(Some("here")).ended_life(false, Some("here"), None), Some(3));
        for (before, now) in [(None, None), (None, Some("here")), (Some("here"), None), (Some("here"), Some("there"))] {
            assert_eq!(memory(before).ended_life(false, now, None), None, "{before:?} {now:?}");
            assert_eq!(memory(before).ended_life(false, now, Some(2)), None, "another process had the name since");
            assert_eq!(memory(before).ended_life(false, now, Some(3)), Some(3));
        }
    }

    #[test]
    fn it_is_read_as_it_was_written() {
        let table = Table { epoch: 9, ..Table::default() };
        let memory = Memory {
            life: Some(u64::MAX),
            place: Some("boot net 127.0.0.1:7000".to_owned()),
            holdings: BTreeMap::from([(0, 7), (1_023, 1)]),
            arrived: BTreeMap::from([(5, 256)]),
            passing: BTreeMap::from([(512, vec![1, 2])]),
            receiving: vec![7],
            adopted: vec![RememberedBroker {
                of: "b".to_owned(),
                broker: "10.0.0.1:1883".to_owned(),
                here: vec![3],
                held: vec![3, 4],
                left: vec![1],
            }],
            table: Some(table),
        };
        assert_eq!(Memory::from_json(&memory.to_json().to_string()), Some(memory));
        assert_eq!(Memory::from_json(r#"{"version": 3, "holdings": []}"#), None);
        assert_eq!(MemoryFile::of(None, None).load().unwrap(), Memory::default());
    }

    #[test]
    fn partitions_of_earlier_versions_are_remembered_divided() {
        let mut homes = vec![Value::Null; 64];
        homes[63] = json!({ "node": "a", "since": 5, "by": null });
        let table = json!({ "version": 1, "epoch": 6, "lives": { "a": 3 }, "homes": homes, "moves": [] });
        let broker = json!({ "of": "b", "broker": "10.0.0.1:1883", "here": [3], "held": [], "left": [1] });
        let earlier = json!({
            "version": 1,
            "life": 3,
            "holdings": [[63, 5]],
            "arrived": [[2, 9]],
            "passing": { "7": [4] },
            "receiving": [5],
            "adopted": [broker],
            "table": table,
        });
        let memory = Memory::from_json(&earlier.to_string()).unwrap();
        let parts = |at: u16| (at..1_024).step_by(64);
        assert_eq!(memory.passing, BTreeMap::from([(7, parts(4).collect())]));
        assert_eq!(memory.receiving, parts(5).collect::<Vec<_>>());
        let adopted = &memory.adopted[0];
        assert_eq!(
            [&adopted.here, &adopted.held, &adopted.left],
            [&parts(3).collect(), &Vec::new(), &parts(1).collect()]
        );
        assert_eq!(memory.holdings, parts(63).map(|it| (it, 5)).collect());
        assert_eq!(memory.arrived, parts(2).map(|it| (it, 9)).collect());
        assert_eq!(memory.table.unwrap().of("a"), parts(63).collect::<Vec<_>>());
    }
}
