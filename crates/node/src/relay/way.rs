//! The ways to the homes of relayed clients: direct, or through a node that carries the link with the home.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

/// Homes that cannot be reached directly, and the nodes that carry the links with them: by the address for relayed
/// clients of the home, that of the node.
pub type Detours = BTreeMap<SocketAddr, SocketAddr>;

/// The addresses of other nodes for relayed clients.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ways {
    /// By the places of the table.
    pub(crate) homes: Arc<[Option<SocketAddr>]>,
    pub(crate) detours: Arc<Detours>,
}

/// The way to a home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    /// The address of the home.
    pub(crate) home: SocketAddr,
    /// The node that carries the client, if the home is not reached directly.
    pub(crate) through: Option<SocketAddr>,
}

impl Way {
    /// The address to connect to.
    pub(crate) fn first(self) -> SocketAddr {
        self.through.unwrap_or(self.home)
    }
}

impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.through {
            None => write!(f, "{}", self.home),
            Some(through) => write!(f, "{} through {through}", self.home),
        }
    }
}

impl Ways {
    /// The way to a place, if its address is known.
    pub(crate) fn to_place(&self, place: u16) -> Option<Way> {
        self.homes.get(usize::from(place)).copied().flatten().map(|home| self.to(home))
    }

    /// The way to a home.
    pub(crate) fn to(&self, home: SocketAddr) -> Way {
        Way { home, through: self.detours.get(&home).copied() }
    }

    /// Whether a place has this address.
    pub(crate) fn has_home(&self, at: SocketAddr) -> bool {
        self.homes.contains(&Some(at))
    }
}
