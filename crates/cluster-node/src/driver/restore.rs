//! Takes over a dead node's partitions: its store is on the bus, is fenced and fetched, and its sessions and messages
//! are taken in here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_bus::{Bus, BusError};
use tidegate_cluster::Former;
use tidegate_engine::{
    Behind, BrokerLinkImage, Owed, PartitionId, Partitions, Settings as EngineSettings, TenantId, partition_of,
};
use tidegate_mirror::{MirrorError, fetch, log_of};
use tidegate_node::{Ban, BanOrigin, BanRecord, NodeHandle, OrchestratorMoves, StoreImages, bans_of, images_of};
use tidegate_store::{Durability, RealDisk, Store, keep_all};

use super::memory::{Memory, MemoryFile, RememberedBroker};
use super::sets::set_of;

/// How long the bus may refuse until it counts as having nothing.
const REFUSALS: Duration = Duration::from_secs(60);
/// The directory that holds fetched stores for a while, within the data directory where there is one.
const SCRATCH: &str = "taken-over";

/// Partitions, since which epoch each is at home here, and who may have left it, the latest first.
pub(super) type Wanted = BTreeMap<u16, (u64, Vec<Former>)>;

/// Partitions that are to be served here, when it is here what dead nodes had of them.
pub(super) struct Task {
    pub(super) partitions: Wanted,
    /// The nodes of these, the same for all.
    pub(super) nodes: Vec<String>,
    /// For each of the nodes, all partitions that were given to other nodes at its death, in the table that is known.
    pub(super) together: Vec<BTreeSet<u16>>,
    /// Nodes that are members again: their logs are in use.
    pub(super) living: BTreeSet<String>,
    /// When it was begun, and when it is tried next.
    pub(super) began: Instant,
    pub(super) due: Instant,
}

impl Task {
    /// The epoch at which a process of a node that was a member has to end, if one may still run: the last one at which
    /// the table took a partition from it.
    fn fence_of(&self, node: &str) -> Option<u64> {
        let last = || self.partitions.values().map(|(since, _)| *since).max();
        if self.living.contains(node) { None } else { last() }
    }
}

/// The outcome of a task.
#[derive(Debug, Default)]
pub(super) struct Restored {
    /// Sessions taken in.
    pub(super) sessions: u64,
    pub(super) messages: u64,
    pub(super) retained: u64,
    pub(super) bans: usize,
    /// The transfers by which it was taken in, and sessions at brokers of the dead orchestrators.
    pub(super) transfers: Vec<Inherited>,
    /// Of these nothing is left anywhere.
    pub(super) lost: Vec<u16>,
}

/// The state taken over from a dead node in one step.
#[derive(Debug)]
pub(super) struct Inherited {
    /// The number under which it was taken in.
    pub(super) transfer: u64,
    pub(super) of: String,
    /// The partitions that were taken in, and all that it had.
    pub(super) partitions: Partitions,
    pub(super) had: Partitions,
    /// The partitions that had left it, and for which it forwarded messages of its brokers.
    pub(super) left: Partitions,
    /// The connections of other dead orchestrators that it worked off.
    pub(super) adopted: Vec<RememberedBroker>,
    /// The brokers whose sessions of it other members work off.
    pub(super) elsewhere: BTreeSet<String>,
    /// Its sessions at brokers that are worked off here.
    pub(super) broker_links: Vec<BrokerLinkImage>,
}

/// Numbers of transfers from dead nodes have this bit, which no move of a table has.
const DEAD_TRANSFERS: u64 = 1 << 63;

/// Why a task is not done.
pub(super) enum BlockReason {
    /// It may work later.
    Passing(String),
    /// The bus refuses, which may pass.
    Refused(String),
    /// It never will.
    Lasting(String),
}

impl From<MirrorError> for BlockReason {
    fn from(error: MirrorError) -> Self {
        let text = error.to_string();
        match error {
            MirrorError::Bus {
                source: BusError::Refused { .. } | BusError::NoRoom { .. } | BusError::Unknown(_),
                ..
            } => Self::Refused(text),
            // A log that its owner changes is not lost: the owner's next list of all files makes it readable.
            MirrorError::Bus { .. }
            | MirrorError::Changing { .. }
            | MirrorError::Contended { .. }
            | MirrorError::Local(_) => Self::Passing(text),
            _ => Self::Lasting(text),
        }
    }
}

/// Fetches and takes in.
pub(super) struct Restorer {
    name: String,
    node: NodeHandle,
    bus: Bus,
    engine: EngineSettings,
    scratch: PathBuf,
    transfers: AtomicU64,
    /// Whether that lies where everybody writes.
    is_among_others: bool,
}

/// The store of a dead node, fetched; its files are removed with it.
struct FetchedStore {
    store: Store,
    memory: Memory,
    directory: PathBuf,
}

impl Drop for FetchedStore {
    fn drop(&mut self) {
        remove(&self.directory);
    }
}

fn remove(directory: &Path) {
    if directory.exists()
        && let Err(error) = fs::remove_dir_all(directory)
    {
        tracing::warn!(directory = %directory.display(), %error, "cannot remove the fetched store of a dead node");
    }
}

/// Makes the directory for fetched stores, or finds it made. Its content is taken in, so it has to be this user's
/// alone.
fn make_private(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => return made,
    }
    let there = fs::symlink_metadata(directory)?;
    if there.is_dir() && there.uid() == rustix::process::geteuid().as_raw() && there.mode() & 0o777 == 0o700 {
        return Ok(());
    }
    let text = "it is not a directory of this user alone: remove it, or set store.directory";
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

impl Restorer {
    pub(super) fn new(
        name: String,
        node: NodeHandle,
        bus: Bus,
        engine: EngineSettings,
        directory: Option<&str>,
    ) -> Self {
        let scratch = match directory {
            Some(directory) => Path::new(directory).join(SCRATCH),
            None => std::env::temp_dir().join(format!("tidegate-{SCRATCH}-{}", std::process::id())),
        };
        // Remains of a process that was killed while it fetched.
        remove(&scratch);
        Self { name, node, bus, engine, scratch, transfers: AtomicU64::new(0), is_among_others: directory.is_none() }
    }

    /// Carries out a task. `own` is this node's own memory of its partitions.
    pub(super) fn restore(&self, task: &Task, own: &Memory) -> Result<Restored, BlockReason> {
        let mut restored = Restored::default();
        match self.restore_all(task, own, &mut restored) {
            Ok(()) => Ok(restored),
            Err(block_reason) => {
                let begun: Vec<u64> = restored.transfers.iter().map(|inherited| inherited.transfer).collect();
                self.end_transfers(&begun);
                Err(block_reason)
            }
        }
    }

    /// Ends the transfers of a task that is not complete: the next attempt has transfers of its own, and messages that
    /// are kept back for these would wait for ever.
    pub(super) fn end_transfers(&self, begun: &[u64]) {
        for transfer in begun {
            if let Err(error) = OrchestratorMoves::of(&self.node).deliver_kept_back(*transfer, Behind::Nothing) {
                tracing::debug!(%error, "a transfer of a dead node's partitions had not begun");
            }
        }
    }

    fn restore_all(&self, task: &Task, own: &Memory, restored: &mut Restored) -> Result<(), BlockReason> {
        let mut missing: Vec<u16> = task.partitions.keys().copied().collect();
        for (at, node) in task.nodes.iter().enumerate() {
            if missing.is_empty() {
                break;
            }
            let had = |memory: &Memory, partition: &u16| {
                let former = task.partitions.get(partition).and_then(|(_, former)| former.get(at));
                former.is_some_and(|former| has(memory, *partition, former))
            };
            if *node == self.name {
                // It was never given away: no node has fetched it since.
                missing.retain(|partition| !had(own, partition));
                continue;
            }
            let place = match self.fetch(node, task.fence_of(node)) {
                Ok(place) => place,
                Err(BlockReason::Refused(why)) if task.began.elapsed() < REFUSALS => {
                    return Err(BlockReason::Passing(why));
                }
                Err(BlockReason::Lasting(why) | BlockReason::Refused(why)) => {
                    tracing::error!(node, why, "cannot fetch the store of a dead node");
                    continue;
                }
                Err(passing) => return Err(passing),
            };
            let (there, rest) = missing.into_iter().partition(|partition| had(&place.memory, partition));
            missing = rest;
            let none = BTreeSet::new();
            self.take(node, &place, (&there, task.together.get(at).unwrap_or(&none)), restored)?;
        }
        restored.lost = missing;
        Ok(())
    }

    fn fetch(&self, node: &str, fence: Option<u64>) -> Result<FetchedStore, BlockReason> {
        let log = log_of(node).map_err(|error| BlockReason::Lasting(error.to_string()))?;
        if self.is_among_others {
            let not_ours = |error| BlockReason::Passing(format!("{}: {error}", self.scratch.display()));
            make_private(&self.scratch).map_err(not_ours)?;
        }
        let directory = self.scratch.join(node);
        remove(&directory);
        let lasting = |error: &dyn std::fmt::Display| BlockReason::Lasting(error.to_string());
        let open = || {
            let report = fetch(&self.bus, &log, &directory, fence)?;
            tracing::info!(node, records = report.records, bytes = report.bytes, "fetching the store of a dead node");
            let memory = MemoryFile::of(directory.to_str(), None)
                .load()
                .map_err(|error| BlockReason::Lasting(error.to_string()))?;
            let disk = RealDisk::create(&directory).map_err(|error| BlockReason::Passing(error.to_string()))?;
            // No process needs these files after this one.
            let durability = Durability::Relaxed { window: Duration::from_secs(60) };
            let settings = tidegate_store::Settings { durability, ..tidegate_store::Settings::default() };
            let opened = tidegate_store::open(std::sync::Arc::new(disk), settings, keep_all())
                .map_err(|error| lasting(&error))?;
            Ok(FetchedStore { store: opened.store, memory, directory: directory.clone() })
        };
        open().inspect_err(|_| remove(&directory))
    }

    /// Takes in a dead node's images of partitions.
    fn take(
        &self,
        node: &str,
        place: &FetchedStore,
        (partitions, together): (&[u16], &BTreeSet<u16>),
        restored: &mut Restored,
    ) -> Result<(), BlockReason> {
        if partitions.is_empty() {
            return Ok(());
        }
        let lasting = |error: &dyn std::fmt::Display| BlockReason::Lasting(format!("the store of {node}: {error}"));
        let images = images_of(&place.store, self.engine.clone(), set_of(partitions));
        let StoreImages { partitions: images, broker_links, had: messages } =
            images.map_err(|error| lasting(&error))?;
        let is_here = |broker_link: &BrokerLinkImage| {
            let key = key_of_broker_link(&place.memory, together, &broker_link.broker);
            key.is_some_and(|partition| partitions.contains(&partition))
        };
        let (broker_links, others): (Vec<_>, Vec<_>) = broker_links.into_iter().partition(is_here);
        let elsewhere = own_brokers(others.iter().map(|broker_link| broker_link.broker.as_str()));
        let transfer = DEAD_TRANSFERS | self.transfers.fetch_add(1, Ordering::Relaxed);
        let had: Partitions = held_by(&place.memory).into_iter().map(PartitionId).collect();
        let left = place.memory.passing.values().fold(Partitions::NONE, |all, left| all.with(set_of(left)));
        let (left, adopted) = (left.without(had), place.memory.adopted.clone());
        let (of, partitions) = (node.to_owned(), set_of(partitions));
        restored.transfers.push(Inherited { transfer, of, partitions, had, left, adopted, elsewhere, broker_links });
        let before: BTreeMap<PartitionId, _> =
            images.iter().map(|image| (image.partition, without_retained(image.owed))).collect();
        let arrived = OrchestratorMoves::of(&self.node)
            .arrive(images, Some(messages), transfer)
            .map_err(|error| lasting(&error))?;
        for (partition, owed) in arrived.owed {
            let after = without_retained(owed);
            if before.get(&partition) != Some(&after) {
                let text = format!("partition {}: {:?} was owed, {after} is", partition.0, before.get(&partition));
                return Err(lasting(&text));
            }
            restored.sessions += owed.sessions;
            restored.messages += owed.queued + owed.await_pub_ack + owed.await_pub_rec;
            restored.retained += owed.retained;
        }
        restored.bans += self.take_bans(place).map_err(|error| lasting(&error))?;
        Ok(())
    }

    /// Takes in the dead node's bans: clients that were banned there are banned here.
    fn take_bans(&self, place: &FetchedStore) -> Result<usize, tidegate_node::PlaceError> {
        let now = self.node.now();
        let here = self.node.admission().bans(now);
        let holds = |ban: &Ban| here.iter().any(|other| other.target == ban.target && other.until >= ban.until);
        let bans: Vec<Ban> = bans_of(&place.store, now)?.into_iter().filter(|ban| !holds(ban)).collect();
        let count = bans.len();
        for ban in bans {
            let target = ban.target.clone();
            let taken = if ban.origin == BanOrigin::Operator {
                // Its end may be known here.
                let record = BanRecord { target: ban.target.clone(), changed: ban.since, ban: Some(ban) };
                self.node.clients().apply_ban(record).map(drop)
            } else {
                self.node.clients().ban(ban).map(drop)
            };
            if let Err(error) = taken {
                tracing::warn!(%target, %error, "a ban of a dead node could not be applied here");
            }
        }
        Ok(count)
    }

    /// All of these.
    pub(super) fn set(task: &Task) -> Partitions {
        task.partitions.keys().copied().map(PartitionId).collect()
    }
}

/// The partition of a dead node whose new home works off the connection to a broker: one for each broker, the same at all
/// nodes, also where a new home of other partitions has died before it had them. `together` are the partitions that the
/// table has given to nodes at that death: a partition that the dead one had given away before is not among them.
fn key_of_broker_link(memory: &Memory, together: &BTreeSet<u16>, broker: &str) -> Option<u16> {
    let all = held_by(memory);
    let had: BTreeSet<u16> = all.intersection(together).copied().collect();
    let had = if had.is_empty() { all } else { had };
    let at = usize::from(partition_of(TenantId::DEFAULT, broker).0).checked_rem(had.len())?;
    had.into_iter().nth(at)
}

/// The brokers whose connections were a dead orchestrator's own. A connection that it worked off for another dead one
/// ends under that one's name: no member says when it has ended for this one.
fn own_brokers<'u>(broker_links: impl Iterator<Item = &'u str>) -> BTreeSet<String> {
    broker_links.filter(|broker| !broker.contains('@')).map(str::to_owned).collect()
}

/// The partitions that a node remembers to have.
fn held_by(memory: &Memory) -> BTreeSet<u16> {
    memory.holdings.keys().chain(memory.arrived.keys()).copied().collect()
}

/// Whether the image of a partition that a node remembers is its last one.
fn has(memory: &Memory, partition: u16, former: &Former) -> bool {
    let came = former.by.is_some() && memory.arrived.get(&partition).copied() == former.by;
    came || memory.holdings.get(&partition) == Some(&former.since)
}

/// The messages owed to sessions. Of retained messages a newer one may be here already.
pub(super) fn without_retained(owed: Owed) -> Value {
    json!({
        "sessions": owed.sessions,
        "subscriptions": owed.subscriptions,
        "fetches": owed.fetches,
        "queued": owed.queued,
        "await_puback": owed.await_pub_ack,
        "await_pubrec": owed.await_pub_rec,
        "await_pubcomp": owed.await_pub_comp,
        "await_pubrel": owed.await_pub_rel,
        "wills": owed.wills,
        "retained": 0,
    })
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn each_broker_belongs_to_a_partition_of_the_dead_node() {
        let none = Memory::default();
        assert_eq!(key_of_broker_link(&none, &BTreeSet::new(), "a"), None);
        let some = Memory { holdings: [(3, 1), (7, 1)].into(), arrived: [(9, 1)].into(), ..none };
        for broker in ["a", "b", "10.0.0.1:1883", "10.0.0.2:1883"] {
            assert!([3, 7, 9].map(Some).contains(&key_of_broker_link(&some, &[3, 7, 9].into(), broker)), "{broker}");
            assert_eq!(key_of_broker_link(&some, &[5, 7].into(), broker), Some(7), "3 and 9 were given away before");
        }
    }

    #[test]
    fn only_own_connections_of_a_dead_node_are_waited_for() {
        let own = own_brokers(["a", "b@former", "10.0.0.1:1883"].into_iter());
        assert_eq!(own, ["10.0.0.1:1883", "a"].map(str::to_owned).into());
    }

    #[test]
    fn a_log_that_changes_while_it_is_read_is_read_again() {
        let log = || log_of("a").unwrap();
        let changing = MirrorError::Changing { log: log(), last: String::new() };
        assert!(matches!(changing.into(), BlockReason::Passing(_)), "it counts as lost at no time");
        assert!(matches!(MirrorError::Unfinished { log: log() }.into(), BlockReason::Lasting(_)));
    }

    #[test]
    fn fetched_stores_go_to_a_directory_of_this_user_alone() {
        let folder = std::env::temp_dir().join(format!("tidegate-restore-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (own, open, link) = (folder.join("own"), folder.join("open"), folder.join("link"));
        assert!(make_private(&own).is_ok() && make_private(&own).is_ok());
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
        symlink(&own, &link).unwrap();
        let refused = |directory: &Path| make_private(directory).unwrap_err().kind();
        assert_eq!(
            (refused(&open), refused(&link)),
            (io::ErrorKind::PermissionDenied, io::ErrorKind::PermissionDenied)
        );
        fs::remove_dir_all(&folder).unwrap();
    }
}
