//! The limit of open files: raised at start, and compared with the limits of the configuration.

use std::io;

/// Files that a process needs beside its connections whatever its limit is: pollers, wakers, listeners, standard
/// streams, the reserve, logs.
const OTHER_FILES: u64 = 64;

/// The part of the limit that is reserved beyond [`OTHER_FILES`] for the store, the bus, bridges, links between nodes and
/// the admin listener, so that clients cannot take their files.
const RESERVED_PART: u64 = 8;

/// Files that are reserved so at most.
const RESERVED_MOST: u64 = 1024;

/// The result of [`raise_open_file_limit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFileLimit {
    /// Files that this process may have open from now on.
    pub limit: u64,
    /// The limit before.
    pub before: u64,
}

/// More connections are configured than the system grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the limit of {connections} connections needs {needed} open files, but the system grants {granted}: lower the limit \
     of connections to {possible}, or raise the hard limit (LimitNOFILE= in a systemd unit, `ulimit -Hn`, or `nofile` in \
     /etc/security/limits.conf)"
)]
pub struct TooFewFiles {
    /// Connections asked for.
    pub connections: u32,
    /// Number of needed files.
    pub needed: u64,
    /// Files granted.
    pub granted: u64,
    /// Connections that would fit.
    pub possible: u64,
}

/// Raises the soft limit of open files to the hard limit. If that fails, the present limit remains.
///
/// # Errors
/// When the limit cannot even be read.
pub fn raise_open_file_limit() -> io::Result<OpenFileLimit> {
    let (before, hard) = rlimit::getrlimit(rlimit::Resource::NOFILE)?;
    let limit =
        if before < hard && rlimit::setrlimit(rlimit::Resource::NOFILE, hard, hard).is_ok() { hard } else { before };
    Ok(OpenFileLimit { limit, before })
}

impl OpenFileLimit {
    /// Checks that `connections` at once fit (0: no limit of ours, so there is nothing to check).
    ///
    /// # Errors
    /// When they do not fit, with a remedy.
    pub fn check(self, connections: u32) -> Result<(), TooFewFiles> {
        let needed = u64::from(connections) + self.reserved();
        if connections == 0 || needed <= self.limit {
            return Ok(());
        }
        let possible = self.limit.saturating_sub(self.reserved());
        Err(TooFewFiles { connections, needed, granted: self.limit, possible })
    }

    /// Files that no connection of a client may take.
    pub fn reserved(self) -> u64 {
        OTHER_FILES + (self.limit / RESERVED_PART).min(RESERVED_MOST)
    }

    /// Connections of clients that there may be at once: as many as are `configured`, or as fit where that is 0. At
    /// least one.
    pub fn connections(self, configured: u32) -> u32 {
        if configured != 0 {
            return configured;
        }
        u32::try_from(self.limit.saturating_sub(self.reserved())).unwrap_or(u32::MAX).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_has_the_needed_granted_and_possible_number() {
        let limit = OpenFileLimit { limit: 1024, before: 1024 };
        assert_eq!(limit.check(832), Ok(()));
        assert_eq!(limit.check(0), Ok(()));
        let text = limit.check(833).unwrap_err().to_string();
        for part in ["833 connections needs 1025", "grants 1024", "connections to 832"] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn connections_get_what_the_reserve_leaves() {
        for (limit, reserved, connections) in [
            (1024, 192, 832),
            (20_000, 1_088, 18_912),
            (1 << 20, 1_088, 1_047_488),
            (64, 72, 1),
            (u64::MAX, 1_088, u32::MAX),
        ] {
            let limit = OpenFileLimit { limit, before: limit };
            assert_eq!((limit.reserved(), limit.connections(0)), (reserved, connections));
            assert_eq!(limit.connections(7), 7);
        }
    }

    #[test]
    fn the_soft_limit_rises_to_the_hard_limit() {
        let raised = raise_open_file_limit().unwrap();
        let (soft, hard) = rlimit::getrlimit(rlimit::Resource::NOFILE).unwrap();
        assert_eq!((raised.limit, soft), (hard, hard));
        assert_eq!(raise_open_file_limit().unwrap(), OpenFileLimit { limit: hard, before: hard });
    }
}
