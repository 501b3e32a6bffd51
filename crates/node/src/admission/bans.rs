//! The bans: targets, reasons and ends.

mod ends;
mod record;
mod register;
mod table;
#[cfg(test)]
mod tests;

use std::fmt;

use tidegate_engine::{Millis, TenantId};

use super::source::Network;

pub(crate) use ends::{BanEnd, BanEnds};
pub use record::RecordError;
pub(crate) use record::{decode, decode_end, encode, key_of};
pub use register::BanRecord;
pub(crate) use table::Bans;

/// The target of a ban.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BanTarget {
    /// Everybody with an address in this network; refused as soon as they are accepted.
    Address(Network),
    /// A client id of a tenant; refused with its CONNECT.
    Client(TenantId, Box<str>),
    /// A user name of a tenant; refused with its CONNECT.
    User(TenantId, Box<str>),
}

impl BanTarget {
    /// `address`, `client` or `user`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Address(_) => "address",
            Self::Client(..) => "client",
            Self::User(..) => "user",
        }
    }

    /// The address or network, the client id, or the user name.
    pub fn name(&self) -> String {
        match self {
            Self::Address(network) => network.to_string(),
            Self::Client(_, name) | Self::User(_, name) => name.to_string(),
        }
    }
}

impl fmt::Display for BanTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(network) => write!(f, "address {network}"),
            Self::Client(_, name) => write!(f, "client {name:?}"),
            Self::User(_, name) => write!(f, "user {name:?}"),
        }
    }
}

/// The origin of a ban.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BanOrigin {
    /// The configuration: it lasts as long as its line.
    Configuration,
    /// An operator, by command.
    Operator,
    /// Too many failed logins.
    FailedLogins,
    /// Too many connects of one client id.
    Flapping,
}

impl BanOrigin {
    /// Every origin.
    pub const ALL: [Self; 4] = [Self::Configuration, Self::Operator, Self::FailedLogins, Self::Flapping];

    /// The name in lists and metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Configuration => "configuration",
            Self::Operator => "operator",
            Self::FailedLogins => "failed_logins",
            Self::Flapping => "flapping",
        }
    }

    /// Whether the broker set the ban automatically.
    pub fn is_automatic(self) -> bool {
        matches!(self, Self::FailedLogins | Self::Flapping)
    }
}

/// A ban.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ban {
    /// The target.
    pub target: BanTarget,
    /// The reason shown in lists and in the log.
    pub reason: Box<str>,
    /// The origin of a ban.
    pub origin: BanOrigin,
    /// Since when, milliseconds since 1970.
    pub since: u64,
    /// When it ends; [`Millis::NEVER`] is never.
    pub until: Millis,
}

/// Longest reason of a ban, and longest client id or user name in one, bytes: a little less than MQTT's longest string,
/// so that a name fits into the key of a store, whose bound is the same as that of a string.
pub const MAX_BAN_TEXT: usize = 65_500;

/// Why a ban was not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BanError {
    /// The list is full of bans that only an operator may end.
    #[error("there are {0} bans already: remove one, or raise `admission.max_bans`")]
    Full(usize),
    /// The ban is in the configuration.
    #[error("this ban is in the configuration: remove it there")]
    Configured,
    /// A text is too long.
    #[error("a name or a reason is longer than {MAX_BAN_TEXT} bytes")]
    TooLong,
    /// The store has not written the change yet.
    #[error("the change is in force, but the store has not written it: a restart may undo it; see `/readyz` for why")]
    NotKept,
}

/// A change of the list, for a store that keeps it over a restart. Bans of the configuration are not among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BanChange {
    /// A ban is new or has changed.
    Put {
        /// Its key.
        key: Vec<u8>,
        /// The remaining bytes.
        value: Vec<u8>,
    },
    /// A ban has ended.
    Delete {
        /// Its key.
        key: Vec<u8>,
    },
}
