//! Fetches the content of a log for another node: the directory does not become a working copy, and the log keeps its
//! owner.

use std::path::Path;

use tidegate_bus::{Bounds, Bus, LogName, LogSpec, Place, Position};
use tidegate_store::{Disk, RealDisk};

use crate::ask::ask;
use crate::open::claim;
use crate::record::Origin;
use crate::replay::{Replay, Stop};
use crate::{Damage, MirrorError, OpenReport};

/// How often a log is read from its beginning again when its owner trims it meanwhile.
const ATTEMPTS: u32 = 8;

/// Writes the content of a log into an empty directory, so that a store can be opened there on a disk of its own. With
/// `fence`, the epoch of a cluster's table from 1 on, an owner that was a member at that epoch can confirm no more records
/// from now on; a process that became a member later keeps the log. Without it, records that the owner confirms meanwhile
/// may be missing. The directory is not synced.
///
/// # Errors
/// When the bus is unreachable, the log does not exist, is empty or damaged, or the directory cannot be used.
pub fn fetch(bus: &Bus, log: &LogName, directory: &Path, fence: Option<u64>) -> Result<OpenReport, MirrorError> {
    let local = RealDisk::create(directory)?;
    bus.know(LogSpec::fenced(log.clone(), 1));
    let place = Place::new(log.clone(), 0);
    if fence.is_some() {
        claim(bus, &place, Origin::claim(local.random(), fence))?;
    }
    for _ in 0..ATTEMPTS {
        // Asked again for each attempt: the owner may have trimmed the log up to an earlier end.
        let Bounds { next: end, .. } = bounds_of(bus, &place)?;
        let mut replay = Replay::new(log, &local);
        match replay.read(bus, &place, Position::START, end) {
            Ok(()) if replay.has_index => {
                let Replay { mut files, parts, records, bytes, .. } = replay;
                files.retain_named();
                parts.install(&files, false)?;
                return Ok(OpenReport { records, bytes, ..OpenReport::default() });
            }
            Ok(()) => {
                replay.parts.discard()?;
                if bounds_of(bus, &place)?.first < end {
                    return Err(MirrorError::Unfinished { log: log.clone() });
                }
            }
            Err(Stop::Failed(error)) => {
                replay.parts.discard()?;
                return Err(error);
            }
            // Its owner has trimmed the records that were to be read next.
            Err(Stop::Restart) => replay.parts.discard()?,
        }
    }
    let what = Damage::Beginning;
    Err(MirrorError::Damaged { log: log.clone(), position: Position::START, what })
}

fn bounds_of(bus: &Bus, place: &Place) -> Result<Bounds, MirrorError> {
    let bounds = ask(&|| false, |done| bus.bounds(place, done));
    bounds.map_err(|source| MirrorError::Bus { log: place.log.clone(), source })
}
