//! State that outlives the process, as operations on keys and values.
//!
//! The engine writes changes into a [`Journal`] while it works a packet off; the shell takes the gathered changes as
//! one batch ([`Engine::take_journal`](crate::Engine::take_journal)) and gives it to a store, *before* it hands
//! anything to other shards. An output that promises something is held back at its place until the batch that holds the
//! promise is committed ([`Engine::handle_committed`](crate::Engine::handle_committed)).
//!
//! All shards of a process write into one store, which keeps the order of batches. This makes promises of several
//! shards simple: a batch that another shard wrote before it confirmed is before the batch of the shard that passes the
//! promise on. A crash leaves a prefix of that order, and a prefix has no effect without its cause.

pub(crate) mod crossing;
mod describe;
mod recovery;
pub(crate) mod restore;
pub(crate) mod restoring;
mod route;
pub(crate) mod session_record;
mod sweep;
mod wills;

pub(crate) use crossing::{Crossings, Way};
pub use describe::{describe, name_of_kind, stays_in_memory};
pub(crate) use recovery::Recovery;
pub(crate) use restore::RESTORING_INDEX;
pub use restore::{RestoreError, Restored};
pub use restoring::SHARES_WHILE_READ;
pub use route::{RestoreRoute, Takers};
pub use sweep::Sweep;
