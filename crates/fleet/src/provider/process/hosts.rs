//! The addresses that processes listen on.

use std::fmt::{self, Display, Formatter};
use std::net::Ipv4Addr;
use std::str::FromStr;

/// Most addresses of a range.
pub const MAX_HOSTS: u32 = 1_024;

/// The addresses of the processes of a level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hosts {
    /// All processes have this one, each with ports of its own.
    Shared(String),
    /// Each process has an address of its own in this range, and all have the same ports if these are free.
    Own {
        /// The first one.
        first: Ipv4Addr,
        /// The last one.
        last: Ipv4Addr,
    },
}

/// An invalid range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a range of addresses is FIRST-LAST with IPv4 addresses, FIRST below LAST, and at most {MAX_HOSTS} of them")]
pub struct HostsError;

impl Hosts {
    /// The addresses, the preferred one first.
    pub(super) fn all(&self) -> Vec<String> {
        match self {
            Self::Shared(host) => vec![host.clone()],
            Self::Own { first, last } => {
                (u32::from(*first)..=u32::from(*last)).map(|address| Ipv4Addr::from(address).to_string()).collect()
            }
        }
    }

    /// True if an address is one of these.
    pub(super) fn contains(&self, host: &str) -> bool {
        match self {
            Self::Shared(only) => only == host,
            Self::Own { first, last } => host.parse().is_ok_and(|host: Ipv4Addr| (*first..=*last).contains(&host)),
        }
    }

    /// True if two processes may have one address.
    pub(super) fn are_shared(&self) -> bool {
        matches!(self, Self::Shared(_))
    }

    /// Number of processes of two levels that have addresses together; `None` if the levels share no addresses, or need
    /// none of their own.
    pub fn limit_with(&self, other: &Self) -> Option<u32> {
        match (self, other) {
            (Self::Own { first, last }, Self::Own { first: from, last: to }) => {
                let meets = first <= to && from <= last;
                meets.then(|| u32::from(*last.max(to)) - u32::from(*first.min(from)) + 1)
            }
            _ => None,
        }
    }

    /// Number of processes that have addresses; `None` for any number.
    pub fn limit(&self) -> Option<u32> {
        match self {
            Self::Shared(_) => None,
            Self::Own { first, last } => Some(u32::from(*last) - u32::from(*first) + 1),
        }
    }
}

impl FromStr for Hosts {
    type Err = HostsError;

    /// `FIRST-LAST` with IPv4 addresses is a range; other text is a name or an address.
    fn from_str(text: &str) -> Result<Self, HostsError> {
        let Some((first, last)) = text.split_once('-') else { return Ok(Self::Shared(text.to_owned())) };
        let Ok(first) = first.trim().parse::<Ipv4Addr>() else { return Ok(Self::Shared(text.to_owned())) };
        let last: Ipv4Addr = last.trim().parse().map_err(|_| HostsError)?;
        let count = u32::from(last).checked_sub(u32::from(first)).filter(|more| (1..MAX_HOSTS).contains(more));
        count.map(|_| Self::Own { first, last }).ok_or(HostsError)
    }
}

impl Display for Hosts {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shared(host) => f.write_str(host),
            Self::Own { first, last } => write!(f, "{first}-{last}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_addresses_is_read_or_refused() {
        let own: Hosts = "127.0.0.254-127.0.1.1".parse().unwrap();
        assert_eq!((own.limit(), own.to_string()), (Some(4), "127.0.0.254-127.0.1.1".to_owned()));
        assert_eq!(own.all(), ["127.0.0.254", "127.0.0.255", "127.0.1.0", "127.0.1.1"]);
        let with = |text: &str| own.limit_with(&text.parse().unwrap());
        assert_eq!(
            (with("127.0.1.0-127.0.1.3"), with("127.0.1.2-127.0.1.3"), with("127.0.1.1")),
            (Some(6), None, None)
        );
        for host in ["127.0.0.1", "::1", "edge-1.example"] {
            assert_eq!(host.parse(), Ok(Hosts::Shared(host.to_owned())));
        }
        for wrong in ["127.0.0.2-127.0.0.2", "127.0.0.3-127.0.0.2", "127.0.0.2-9", "127.0.0.1-127.1.0.0"] {
            assert_eq!(wrong.parse::<Hosts>(), Err(HostsError), "{wrong}");
        }
    }
}
