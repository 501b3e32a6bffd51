//! The limit of open files: raised at start, and compared with what the configuration promises.

use std::io;

/// Files that a process needs beside its connections: pollers, wakers, listeners, standard streams, the reserve, logs.
const OTHER_FILES: u64 = 64;

/// What [`raise_open_file_limit`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFileLimit {
    /// Files that this process may have open from now on.
    pub limit: u64,
    /// What it was before.
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
    /// Files that these need.
    pub needed: u64,
    /// Files granted.
    pub granted: u64,
    /// Connections that would fit.
    pub possible: u64,
}

/// Raises the soft limit of open files to the hard limit. Where that is refused, the present limit stands.
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
    /// Whether `connections` at once (0: no limit of ours, so nothing is promised) fit.
    ///
    /// # Errors
    /// When they do not, with what to do.
    pub fn check(self, connections: u32) -> Result<(), TooFewFiles> {
        let needed = u64::from(connections) + OTHER_FILES;
        if connections == 0 || needed <= self.limit {
            return Ok(());
        }
        let possible = self.limit.saturating_sub(OTHER_FILES);
        Err(TooFewFiles { connections, needed, granted: self.limit, possible })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_says_what_is_needed_granted_and_possible() {
        let limit = OpenFileLimit { limit: 1024, before: 1024 };
        assert_eq!(limit.check(960), Ok(()));
        assert_eq!(limit.check(0), Ok(()));
        let text = limit.check(961).unwrap_err().to_string();
        for part in ["961 connections needs 1025", "grants 1024", "connections to 960"] {
            assert!(text.contains(part), "{text}");
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
