//! Opens a mirror: claims the log, reads it, and updates the working copy.

use std::sync::Arc;

use tidegate_bus::{Append, Bus, BusError, Epoch, LogPartition, Position};
use tidegate_store::{Disk, LockError, RealDisk, inspect};

use crate::ask::{Range, ask};
use crate::carrier::{Carrier, Order};
use crate::files::{Files, Mark};
use crate::local::{Kept, LocalState, note_fenced};
use crate::record::{Body, Origin, encode};
use crate::replay::{Replay, Stop};
use crate::send_queue::{SendQueue, State};
use crate::settings::MIN_MAX_BYTES;
use crate::{MirrorDisk, MirrorError, Settings};

/// How often the log is claimed again when another process claims it at the same time.
const CLAIMS: u32 = 8;

/// The findings when a mirror was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// The log was empty, and so is the store.
    pub created: bool,
    /// The log was empty, and the directory had a store, which was carried to the bus.
    pub filled: bool,
    /// The working copy was verified, and only later records were fetched.
    pub resumed: bool,
    /// Records fetched.
    pub records: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Bytes that the log may take: `max_bytes`, or less where the bus has no room for them.
    pub max_bytes: u64,
}

/// The result of opening.
pub struct OpenedMirror {
    /// The disk, for `tidegate_store::open`.
    pub disk: Arc<MirrorDisk>,
    /// The findings.
    pub report: OpenReport,
}

/// Claims the files of a node on the bus, brings the working copy to their state, and returns a disk of them. The
/// previous owner can confirm no more records.
///
/// # Errors
/// When the bus is unreachable, the log is damaged or incomplete, or the directory belongs to another log or cannot be
/// used. The log is then unchanged, and so is a directory that is not its copy.
pub fn open(bus: &Bus, settings: Settings) -> Result<OpenedMirror, MirrorError> {
    let mut settings = Settings {
        max_bytes: settings.max_bytes.max(MIN_MAX_BYTES),
        chunk_bytes: settings.chunk_bytes.clamp(4_096, 900_000),
        ..settings
    };
    let local = RealDisk::create(&settings.directory)?;
    let lock = local.lock().map_err(|error| match error {
        LockError::Held { holder } => MirrorError::Locked { holder },
        LockError::Io(error) => MirrorError::Local(error),
    })?;
    let place = LogPartition::new(settings.log.clone(), 0);
    let incarnation = local.random();
    create(bus, &place, &mut settings)?;
    let claimed = claim(bus, &place, Origin::claim(incarnation, None))?;
    let mut report = OpenReport { max_bytes: settings.max_bytes, ..OpenReport::default() };
    let found = find(bus, &place, &local, settings.local_sync, claimed.epoch.0, &mut report)?;
    let Found { files, sequence, offset, is_content_local } = found;
    if !report.created && !report.filled {
        let OpenReport { resumed, records, bytes, .. } = report;
        tracing::info!(log = %place.log, resumed, records, bytes, "the working copy equals the bus");
    }
    let trimmed = files.iter().filter_map(|(_, file)| file.first).min().map_or(offset, |mark| mark.offset);
    let state = State::at(sequence, Mark { position: claimed.position, offset }, trimmed);
    let order = Order { epoch: claimed.epoch, sequence, offset, since_index: 0, live_at_index: 0 };
    let carrier = Carrier::new(bus.clone(), place, settings, local, incarnation, SendQueue::new(state, files), order);
    note_fenced(&carrier.local, false)?;
    let disk = MirrorDisk::start(carrier, lock)?;
    if is_content_local {
        disk.fill()?;
    }
    disk.note()?;
    Ok(OpenedMirror { disk: Arc::new(disk), report })
}

/// Makes the log, with a lower limit where the bus has no room for the wanted one. A log that is there keeps its limit
/// then: it may hold more than a lower one.
fn create(bus: &Bus, place: &LogPartition, settings: &mut Settings) -> Result<(), MirrorError> {
    let wanted = settings.max_bytes;
    let least = settings.least_bytes.max(MIN_MAX_BYTES);
    loop {
        let spec = settings.spec();
        match ask(&|| false, |done| bus.create(spec, done)) {
            Ok(()) => break,
            Err(BusError::NoRoom { present: Some(limit), .. }) if Settings::max_bytes_of(limit) >= least => {
                settings.max_bytes = Settings::max_bytes_of(limit);
                break;
            }
            Err(BusError::NoRoom { present: None, .. }) if settings.max_bytes / 2 >= least => settings.max_bytes /= 2,
            Err(source) => return Err(MirrorError::Bus { log: place.log.clone(), source }),
        }
    }
    if settings.max_bytes < wanted {
        let max_bytes = settings.max_bytes;
        tracing::warn!(log = %place.log, max_bytes, wanted, "the bus has little room: the store may take less on it; give the servers more storage, or set mirror.max_bytes");
    }
    Ok(())
}

pub(crate) struct Claimed {
    epoch: Epoch,
    /// The position of the record that names the owner.
    pub(crate) position: Position,
}

/// Claims the log: its previous owner can confirm no more records.
pub(crate) fn claim(bus: &Bus, place: &LogPartition, origin: Origin) -> Result<Claimed, MirrorError> {
    let failed = |source| MirrorError::Bus { log: place.log.clone(), source };
    for _ in 0..CLAIMS {
        let epoch = ask(&|| false, |done| bus.own(place, done)).map_err(failed)?;
        let append = Append::new(encode(origin, &Body::Claim)).by(epoch);
        match ask(&|| false, |done| bus.append(place, append, done)) {
            Ok(position) => return Ok(Claimed { epoch, position }),
            // The previous owner may have claimed it back before it noticed this claim.
            Err(BusError::Fenced { .. } | BusError::Unconfirmed { .. }) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Err(MirrorError::Contended { log: place.log.clone() })
}

struct Found {
    files: Files,
    sequence: u64,
    offset: u64,
    /// The working copy has to be carried to the bus.
    is_content_local: bool,
}

fn find(
    bus: &Bus,
    place: &LogPartition,
    local: &RealDisk,
    sync: bool,
    end: Position,
    report: &mut OpenReport,
) -> Result<Found, MirrorError> {
    let log = &place.log;
    let kept = Kept::load(local)?;
    if let Kept::State(state) = &kept {
        if state.log != log.as_str() {
            return Err(MirrorError::OtherLog { log: log.clone(), found: state.log.clone() });
        }
        if let Some(replay) = resume(bus, place, local, sync, state, end)? {
            report.resumed = true;
            return install(replay, sync, report);
        }
    }
    let replay = Replay::whole(bus, place, local, end)?;
    let has_content = local.list()?.iter().any(|name| inspect::is_content(name));
    let is_copy = kept != Kept::Nothing;
    match (replay.has_index, is_copy) {
        (true, false) if has_content => {
            replay.parts.discard()?;
            Err(MirrorError::Foreign { log: log.clone() })
        }
        (true, true) if kept.has_seen(end) => {
            replay.parts.discard()?;
            Err(MirrorError::Behind { log: log.clone(), seen: kept.position(), end })
        }
        (true, _) => {
            LocalState { log: log.to_string(), position: Position::START, index: None }.save(local, sync)?;
            install(replay, sync, report)
        }
        (false, true) if !(kept.is_whole() && has_content) => {
            Err(MirrorError::Behind { log: log.clone(), seen: kept.position(), end })
        }
        (false, true) => {
            // The servers have lost the log, and the working copy has everything that was confirmed. Records of an
            // earlier attempt to fill it are dropped.
            replay.parts.discard()?;
            tracing::warn!(%log, "the bus lost the files of the store; sending them again from the working copy");
            LocalState::lost(log.as_str()).save(local, sync)?;
            let failed = |source| MirrorError::Bus { log: log.clone(), source };
            ask(&|| false, |done| bus.trim(place, end, done)).map_err(failed)?;
            report.filled = true;
            Ok(Found { files: Files::default(), sequence: 0, offset: 0, is_content_local: true })
        }
        (false, false) => {
            let Replay { sequence, offset, parts, .. } = replay;
            parts.discard()?;
            if sequence > 0 && !has_content {
                return Err(MirrorError::Unfinished { log: log.clone() });
            }
            (report.created, report.filled) = (!has_content, has_content);
            Ok(Found { files: Files::default(), sequence, offset, is_content_local: has_content })
        }
    }
}

/// Resumes from the working copy, if it can be verified.
fn resume<'a>(
    bus: &Bus,
    place: &LogPartition,
    local: &'a RealDisk,
    sync: bool,
    state: &LocalState,
    end: Position,
) -> Result<Option<Replay<'a>>, MirrorError> {
    let Some(index) = &state.index else { return Ok(None) };
    if !has_index(bus, place, state.position, index, end)? {
        return Ok(None);
    }
    // From here on the names in the directory differ from the copy's.
    LocalState { index: None, ..state.clone() }.save(local, sync)?;
    let attempt = || {
        let mut replay = Replay::from_copy(&place.log, local, index)?;
        replay.read(bus, place, state.position.next(), end)?;
        Ok(replay)
    };
    match attempt() {
        Ok(replay) => Ok(Some(replay)),
        Err(Stop::Failed(error @ MirrorError::Bus { .. })) => Err(error),
        Err(Stop::Restart | Stop::Trimmed(_)) => {
            tracing::info!(log = %place.log, "the working copy differs from the bus; fetching everything");
            Ok(None)
        }
        Err(Stop::Failed(error)) => {
            tracing::warn!(%error, "cannot continue from the working copy; fetching everything");
            Ok(None)
        }
    }
}

/// Whether the log has the list of files that the working copy names. Trimming stops at that list, so a log without it
/// is not the log of the copy.
fn has_index(
    bus: &Bus,
    place: &LogPartition,
    position: Position,
    index: &[u8],
    end: Position,
) -> Result<bool, MirrorError> {
    if position >= end {
        return Ok(false);
    }
    let read = || Range::new(bus, place, position, position.next())?.take(&|| false);
    match read() {
        Ok(records) => Ok(records.first().is_some_and(|record| *record.payload == *index)),
        Err(BusError::Trimmed { .. }) => Ok(false),
        Err(source) => Err(MirrorError::Bus { log: place.log.clone(), source }),
    }
}

/// Writes the read content to the directory.
fn install(replay: Replay<'_>, sync: bool, report: &mut OpenReport) -> Result<Found, MirrorError> {
    let Replay { mut files, parts, sequence, offset, records, bytes, .. } = replay;
    (report.records, report.bytes) = (records, bytes);
    files.retain_named();
    parts.install(&files, sync)?;
    Ok(Found { files, sequence, offset, is_content_local: false })
}
