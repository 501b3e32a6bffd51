//! Fetches what a log has for somebody else who goes on with it: the directory becomes no working copy, and the log
//! gets no new owner.

use std::path::Path;

use tidegate_bus::{Bus, LogName, LogSpec, Place, Position};
use tidegate_store::{Disk, RealDisk};

use crate::ask::ask;
use crate::open::claim;
use crate::replay::{Replay, Stop};
use crate::{MirrorError, OpenReport};

/// How often a log is read from its beginning again when its owner trims it meanwhile.
const ATTEMPTS: u32 = 8;

/// Makes an empty directory what a log has, so that a store can be opened there on a disk of its own. With `fence`,
/// whoever has the log can confirm nothing any more from here on; without it the log is left alone, and what its owner
/// confirms meanwhile may be missing. The directory is not synced.
///
/// # Errors
/// When the bus is away, there is no such log or nothing in it, it is damaged, or the directory cannot be used.
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
            // Its owner has trimmed what was to be read next.
            Err(Stop::Anew) => replay.parts.discard()?,
        }
    }
    let what = "its beginning cannot be read".to_owned();
    Err(MirrorError::Damaged { log: log.clone(), position: Position::START, what })
}

fn end_of(bus: &Bus, place: &Place) -> Result<Position, MirrorError> {
    let bounds = ask(&|| false, |done| bus.bounds(place, done));
    Ok(bounds.map_err(|source| MirrorError::Bus { log: place.log.clone(), source })?.next)
}
