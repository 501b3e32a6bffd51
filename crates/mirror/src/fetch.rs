//! Fetches the content of a log for another node: the directory does not become a working copy, and the log keeps its
//! owner.

use std::path::Path;

use tidegate_bus::{Bounds, Bus, LogName, LogPartition, LogSpec, Position};
use tidegate_store::{Disk, RealDisk};

use crate::ask::ask;
use crate::local::Parts;
use crate::open::claim;
use crate::record::Origin;
use crate::replay::Replay;
use crate::{Damage, MirrorError, OpenReport};

/// How often a log is read from its beginning again when its owner trims it meanwhile.
const ATTEMPTS: u32 = 8;

/// Writes the content of a log into an empty directory, so that a store can be opened there on its own disk. With
/// `fence`, the epoch of a cluster's table from 1 on, an owner that was a member at that epoch can confirm no more records
/// from now on; a process that became a member later keeps the log. Without it, records that the owner confirms meanwhile
/// may be missing. The directory is not synced.
///
/// # Errors
/// When the bus is unreachable, the log does not exist, is empty or damaged, its owner changes it in each attempt, or the
/// directory cannot be used.
pub fn fetch(bus: &Bus, log: &LogName, directory: &Path, fence: Option<u64>) -> Result<OpenReport, MirrorError> {
    let local = RealDisk::create(directory)?;
    bus.know(LogSpec::fenced(log.clone(), 1));
    let place = LogPartition::new(log.clone(), 0);
    if fence.is_some() {
        claim(bus, &place, Origin::claim(local.random(), fence))?;
    }
    let mut last = String::new();
    for _ in 0..ATTEMPTS {
        // Asked again for each attempt: the owner may have trimmed the log up to an earlier end.
        let begun = bounds_of(bus, &place)?;
        let error = match Replay::whole(bus, &place, &local, begun.next) {
            Ok(Replay { mut files, parts, records, bytes, has_index: true, .. }) => {
                files.retain_named();
                parts.install(&files, false)?;
                return Ok(OpenReport { records, bytes, ..OpenReport::default() });
            }
            Ok(_) => unfinished(log, begun),
            Err(error) => error,
        };
        Parts::new(&local).discard()?;
        if is_final(&error, begun, bounds_of(bus, &place)?) {
            return Err(error);
        }
        last = match error {
            MirrorError::Damaged { position, damage, .. } => format!("record {position}: {damage}"),
            error => error.to_string(),
        };
    }
    Err(MirrorError::Changing { log: log.clone(), last })
}

/// The error for a log without a list of all files.
fn unfinished(log: &LogName, bounds: Bounds) -> MirrorError {
    if bounds.first < bounds.next {
        return MirrorError::Unfinished { log: log.clone() };
    }
    MirrorError::Damaged { log: log.clone(), position: Position::START, damage: Damage::Beginning }
}

/// Whether another attempt at reading a log has this error, too. The records read are no evidence where the owner has
/// written or trimmed the log meanwhile.
fn is_final(error: &MirrorError, begun: Bounds, ended: Bounds) -> bool {
    match error {
        MirrorError::Unfinished { .. } | MirrorError::Damaged { .. } => begun == ended,
        _ => true,
    }
}

fn bounds_of(bus: &Bus, place: &LogPartition) -> Result<Bounds, MirrorError> {
    let bounds = ask(&|| false, |done| bus.bounds(place, done));
    bounds.map_err(|source| MirrorError::Bus { log: place.log.clone(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_final_where_the_log_has_not_changed() {
        let log = LogName::new("store-a").unwrap();
        let bounds = |first, next| Bounds { first: Position(first), next: Position(next) };
        let (empty, some) = (unfinished(&log, bounds(7, 7)), unfinished(&log, bounds(3, 7)));
        assert!(matches!((&empty, &some), (MirrorError::Damaged { .. }, MirrorError::Unfinished { .. })));
        for error in [empty, some] {
            assert!(is_final(&error, bounds(3, 7), bounds(3, 7)));
            assert!(!is_final(&error, bounds(3, 7), bounds(3, 8)), "its owner has written");
            assert!(!is_final(&error, bounds(3, 7), bounds(5, 7)), "its owner has trimmed");
        }
        assert!(is_final(&MirrorError::Contended { log }, bounds(3, 7), bounds(5, 9)));
    }
}
