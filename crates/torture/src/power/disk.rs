//! The possible contents of a disk after the power has failed.
//!
//! A file's bytes are safe once a sync of the file has ended that began after they were written. A name (a file
//! created, renamed, removed) is safe once a sync of its folder has ended that began after it was given. Of other
//! changes the disk may have kept none, all up to some moment, or any part; writes may be torn between sectors.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use super::Outage;
use super::folder::{Item, Snapshot};
use super::log::{Event, Record};
use crate::failure::Failure;
use crate::rng::Rng;

/// The unit of a write of a disk, in bytes.
const SECTOR: usize = 512;

/// A change of a file's content.
#[derive(Clone, Debug)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate { length: usize },
}

/// A file, without its names.
#[derive(Clone, Debug, Default)]
struct Node {
    mode: u32,
    /// As it was when the log began.
    base: Vec<u8>,
    changes: Vec<(u64, Change)>,
    /// Changes before this place in the log are safe, unless they were given up.
    safe_until: u64,
    /// Changes between these places were given up by a sync that failed.
    given_up: Vec<(u64, u64)>,
}

/// A change of names.
#[derive(Clone, Debug)]
enum Naming {
    Create { node: usize, path: PathBuf },
    Rename { from: PathBuf, to: PathBuf },
    Link { from: PathBuf, to: PathBuf },
    Unlink { path: PathBuf },
    MakeDir { path: PathBuf, mode: u32 },
    RemoveDir { path: PathBuf },
}

/// The target of a name.
#[derive(Clone, Copy, Debug)]
enum Target {
    Dir(u32),
    File(usize),
}

type Names = BTreeMap<PathBuf, Target>;

/// The files with their history since the log began.
#[derive(Debug)]
pub(crate) struct Disk {
    nodes: Vec<Node>,
    /// The names when the log began.
    base: Names,
    /// The names as the program sees them.
    seen: Names,
    namings: Vec<(u64, Naming)>,
    /// Up to which place in the log the names of a folder are safe.
    dirs_safe_until: HashMap<PathBuf, u64>,
    /// Numbers that the library gave to files.
    files: HashMap<u64, usize>,
    end: u64,
}

impl Disk {
    /// A disk that holds this, all of it safe.
    pub(crate) fn new(snapshot: Snapshot) -> Self {
        let (mut nodes, mut base) = (Vec::new(), Names::new());
        for (path, item) in snapshot.items {
            let target = match item {
                Item::Dir { mode } => Target::Dir(mode),
                Item::File { mode, bytes } => {
                    nodes.push(Node { mode, base: bytes, ..Node::default() });
                    Target::File(nodes.len() - 1)
                }
            };
            base.insert(path, target);
        }
        let (seen, namings) = (base.clone(), Vec::new());
        Self { nodes, base, seen, namings, dirs_safe_until: HashMap::new(), files: HashMap::new(), end: 0 }
    }

    pub(crate) fn replay(&mut self, record: &Record<'_>) -> Result<(), Failure> {
        let at = record.at;
        self.end = at + 1;
        match &record.event {
            Event::Hello { .. } | Event::Faulted => {}
            Event::Opened { file, path } => {
                let Some(Target::File(node)) = self.seen.get(path) else {
                    return Err(Failure::Log { at: at as usize, fault: "a missing file was opened" });
                };
                self.files.insert(*file, *node);
            }
            Event::Created { file, path, mode } => {
                self.nodes.push(Node { mode: *mode, ..Node::default() });
                let node = self.nodes.len() - 1;
                self.files.insert(*file, node);
                self.name(at, Naming::Create { node, path: path.clone() });
            }
            Event::Written { file, offset, bytes } => {
                let change = Change::Write { offset: *offset as usize, bytes: bytes.to_vec() };
                self.node(*file, at)?.changes.push((at, change));
            }
            Event::Truncated { file, length } => {
                self.node(*file, at)?.changes.push((at, Change::Truncate { length: *length as usize }));
            }
            Event::Synced { file, until } => {
                let node = self.node(*file, at)?;
                node.safe_until = node.safe_until.max(*until);
            }
            Event::SyncFailed { file, until } => {
                let node = self.node(*file, at)?;
                let range = (node.safe_until, *until);
                node.given_up.push(range);
            }
            Event::DirSynced { path, until } => {
                let safe = self.dirs_safe_until.entry(path.clone()).or_default();
                *safe = (*safe).max(*until);
            }
            Event::Renamed { from, to } => self.name(at, Naming::Rename { from: from.clone(), to: to.clone() }),
            Event::Linked { from, to } => self.name(at, Naming::Link { from: from.clone(), to: to.clone() }),
            Event::Unlinked { path } => self.name(at, Naming::Unlink { path: path.clone() }),
            Event::MadeDir { path, mode } => self.name(at, Naming::MakeDir { path: path.clone(), mode: *mode & 0o755 }),
            Event::RemovedDir { path } => self.name(at, Naming::RemoveDir { path: path.clone() }),
        }
        Ok(())
    }

    fn node(&mut self, file: u64, at: u64) -> Result<&mut Node, Failure> {
        let node = self.files.get(&file).and_then(|node| self.nodes.get_mut(*node));
        node.ok_or(Failure::Log { at: at as usize, fault: "an unknown file was changed" })
    }

    fn name(&mut self, at: u64, naming: Naming) {
        naming.apply(&mut self.seen);
        self.namings.push((at, naming));
    }

    /// The folder as the program sees it.
    pub(crate) fn everything(&self) -> Snapshot {
        self.render(&self.seen, |node| node.content(|_, _| Kept::Whole))
    }

    fn render(&self, names: &Names, mut content: impl FnMut(&Node) -> Vec<u8>) -> Snapshot {
        let mut items = BTreeMap::new();
        for (path, target) in names {
            let item = match target {
                Target::Dir(mode) => Item::Dir { mode: *mode },
                Target::File(node) => {
                    let node = &self.nodes[*node];
                    Item::File { mode: node.mode, bytes: content(node) }
                }
            };
            // A folder whose own name did not survive is lost with its content.
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            if parent.is_none_or(|parent| matches!(items.get(parent), Some(Item::Dir { .. }))) {
                items.insert(path.clone(), item);
            }
        }
        Snapshot { items }
    }

    /// The content of the disk after the power has failed, chosen at random among the possible ones.
    pub(crate) fn after_outage(&self, rng: &mut Rng) -> (Snapshot, Outage) {
        let style = match rng.within(0..4) {
            0 => Style::Nothing,
            1 | 2 => Style::Until(self.moment(rng)),
            _ => Style::Anything,
        };
        let mut outage = Outage { style: style.name(), unsafe_operations: 0, undone: 0 };
        let names = self.surviving_names(style, &mut outage, rng);
        let snapshot = self.render(&names, |node| {
            node.content(|at, change| {
                if node.is_safe(at) {
                    return Kept::Whole;
                }
                outage.unsafe_operations += 1;
                let kept = if node.is_given_up(at) { Kept::Nothing } else { style.keep(at, change, rng) };
                outage.undone += usize::from(kept != Kept::Whole);
                kept
            })
        });
        (snapshot, outage)
    }

    /// A moment at which something was not safe: before that, there is nothing to choose.
    fn moment(&self, rng: &mut Rng) -> u64 {
        let unsafe_changes =
            self.nodes.iter().flat_map(|node| node.changes.iter().map(|(at, _)| *at).filter(|at| !node.is_safe(*at)));
        let unsafe_names =
            self.namings.iter().filter(|(at, naming)| !self.is_name_safe(*at, naming)).map(|(at, _)| *at);
        let mut moments: Vec<u64> = unsafe_changes.chain(unsafe_names).collect();
        moments.push(self.end);
        moments.sort_unstable();
        moments[rng.index(moments.len())]
    }

    fn is_name_safe(&self, at: u64, naming: &Naming) -> bool {
        naming.dirs().iter().all(|dir| self.dirs_safe_until.get(*dir).is_some_and(|until| *until > at))
    }

    fn surviving_names(&self, style: Style, outage: &mut Outage, rng: &mut Rng) -> Names {
        let mut names = self.base.clone();
        // A folder that has lost a name has lost all later names as well: journals of file systems keep the order.
        let mut forgetful: Vec<&Path> = Vec::new();
        for (at, naming) in &self.namings {
            let dirs = naming.dirs();
            let mut survives = self.is_name_safe(*at, naming);
            if !survives {
                outage.unsafe_operations += 1;
                survives = !dirs.iter().any(|dir| forgetful.contains(dir))
                    && match style {
                        Style::Nothing => false,
                        Style::Until(moment) => *at < moment,
                        Style::Anything => rng.chance(70),
                    };
            }
            if survives {
                naming.apply(&mut names);
            } else {
                outage.undone += 1;
                forgetful.extend(dirs);
            }
        }
        names
    }
}

/// The treatment of unsafe changes by the disk.
#[derive(Clone, Copy, Debug)]
enum Style {
    /// It keeps nothing of it.
    Nothing,
    /// It keeps everything before a moment; a write at that moment is torn.
    Until(u64),
    /// It keeps any part of it.
    Anything,
}

/// How much of a change the disk has kept.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kept {
    Nothing,
    Whole,
    /// This number of bytes from the start.
    Start(usize),
    /// The sectors of the file for which there is a set bit (the number of the sector modulo 64).
    Sectors(u64),
}

impl Style {
    fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing that was not synced",
            Self::Until(_) => "everything until a moment",
            Self::Anything => "any part",
        }
    }

    fn keep(self, at: u64, change: &Change, rng: &mut Rng) -> Kept {
        let length = if let Change::Write { bytes, .. } = change { bytes.len() } else { 0 };
        match self {
            Self::Nothing => Kept::Nothing,
            Self::Until(moment) if at < moment => Kept::Whole,
            Self::Until(moment) if at > moment => Kept::Nothing,
            Self::Until(_) => Kept::Start(rng.index(length.max(1))),
            Self::Anything => match rng.within(0..6) {
                0..2 => Kept::Nothing,
                2..4 => Kept::Whole,
                4 => Kept::Start(rng.index(length.max(1))),
                _ => Kept::Sectors(rng.next()),
            },
        }
    }
}

impl Node {
    fn is_given_up(&self, at: u64) -> bool {
        self.given_up.iter().any(|(from, until)| (*from..*until).contains(&at))
    }

    fn is_safe(&self, at: u64) -> bool {
        at < self.safe_until && !self.is_given_up(at)
    }

    /// The content with as much of each change as is kept.
    fn content(&self, mut keep: impl FnMut(u64, &Change) -> Kept) -> Vec<u8> {
        let mut content = self.base.clone();
        for (at, change) in &self.changes {
            let kept = keep(*at, change);
            match change {
                Change::Truncate { length } if kept == Kept::Whole => content.resize(*length, 0),
                Change::Truncate { .. } => {}
                Change::Write { offset, bytes } => write(&mut content, *offset, bytes, &kept),
            }
        }
        content
    }
}

fn write(content: &mut Vec<u8>, offset: usize, bytes: &[u8], kept: &Kept) {
    let mut put = |offset: usize, bytes: &[u8]| {
        if bytes.is_empty() {
            return;
        }
        let end = offset + bytes.len();
        content.resize(content.len().max(end), 0);
        content[offset..end].copy_from_slice(bytes);
    };
    match kept {
        Kept::Nothing => {}
        Kept::Whole => put(offset, bytes),
        Kept::Start(length) => put(offset, &bytes[..*length.min(&bytes.len())]),
        Kept::Sectors(chosen) => {
            let mut at = 0;
            while at < bytes.len() {
                let sector = (offset + at) / SECTOR;
                let end = ((sector + 1) * SECTOR - offset).min(bytes.len());
                if chosen & (1 << (sector % 64)) != 0 {
                    put(offset + at, &bytes[at..end]);
                }
                at = end;
            }
        }
    }
}

impl Naming {
    /// The folders whose names change.
    fn dirs(&self) -> Vec<&Path> {
        let paths: &[&PathBuf] = match self {
            Self::Create { path, .. }
            | Self::Unlink { path }
            | Self::MakeDir { path, .. }
            | Self::RemoveDir { path } => &[path],
            Self::Rename { from, to } => &[from, to],
            Self::Link { to, .. } => &[to],
        };
        paths.iter().filter_map(|path| path.parent()).collect()
    }

    fn apply(&self, names: &mut Names) {
        match self {
            Self::Create { node, path } => {
                names.insert(path.clone(), Target::File(*node));
            }
            Self::Link { from, to } => {
                if let Some(target) = names.get(from).copied() {
                    names.insert(to.clone(), target);
                }
            }
            Self::Rename { from, to } => {
                let moved: Vec<PathBuf> = names.keys().filter(|path| path.starts_with(from)).cloned().collect();
                for path in moved {
                    if let (Some(target), Ok(rest)) = (names.remove(&path), path.strip_prefix(from)) {
                        let place = if rest.as_os_str().is_empty() { to.clone() } else { to.join(rest) };
                        names.insert(place, target);
                    }
                }
            }
            Self::Unlink { path } | Self::RemoveDir { path } => {
                names.remove(path);
            }
            Self::MakeDir { path, mode } => {
                names.insert(path.clone(), Target::Dir(*mode));
            }
        }
    }
}
