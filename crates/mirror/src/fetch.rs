//! Fetches the content of a log for another node: the directory does not become a working copy, and the log keeps its
//! owner.

use std::path::Path;

use tidegate_bus::{Bus, LogName, LogSpec, Place, Position};
use tidegate_store::{Disk, RealDisk};

use crate::ask::ask;
use crate::open::claim;
use crate::replay::{Replay, Stop};
use crate::{Damage, MirrorError, OpenReport};

/// How often a log is read from its beginning again when its owner trims it meanwhile.
const ATTEMPTS: u32 = 8;

/// Writes the content of a log into an empty directory, so that a store can be opened there on a disk of its own. With
/// `fence`, the owner of the log can confirm no more records from now on. Without it, records that the owner confirms
/// meanwhile may be missing. The directory is not synced.
///
/// # Errors
/// When the bus is unreachable, the log does not exist, is empty or damaged, or the directory cannot be used.
pub fn fetch(bus: &Bus, log: &LogName, directory: &Path, fence: bool) -> Result<OpenReport, MirrorError> {
    let local = RealDisk::create(directory)?;
    bus.know(LogSpec::fenced(log.clone(), 1));
    let place = Place::new(log.clone(), 0);
    let end = if fence { claim(bus, &place, local.random())?.position } else { end_of(bus, &place)? };
    for _ in 0..ATTEMPTS {
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
                return Err(MirrorError::Unfinished { log: log.clone() });
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

fn end_of(bus: &Bus, place: &Place) -> Result<Position, MirrorError> {
    let bounds = ask(&|| false, |done| bus.bounds(place, done));
    Ok(bounds.map_err(|source| MirrorError::Bus { log: place.log.clone(), source })?.next)
}
