//! The settings of admission.

use super::bans::BanTarget;
use super::bucket::Rate;
use super::source::Network;
use super::window::Threshold;

/// Limits of admitted connections: their kind, number and rate. The default limits nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionSettings {
    /// Connections at once from one address (IPv6: from one /64); 0 is no limit.
    pub max_connections_per_address: u32,
    /// Connections at once with one user name; 0 is no limit.
    pub max_connections_per_user: u32,
    /// New connections of each listener.
    pub listener_rate: Rate,
    /// New connections from each address (IPv6: from each /64).
    pub address_rate: Rate,
    /// Addresses without connections that are remembered, for their rate and their failed logins; the one seen longest
    /// ago is forgotten first. As many user names and client ids are remembered.
    pub tracked: u32,
    /// Networks whose addresses have no limit of their own and are never banned by the broker itself: this machine,
    /// proxies.
    pub exempt: Vec<Network>,
    /// Failed logins from one address that ban it.
    pub failed_logins_per_address: Threshold,
    /// Failed logins with one user name that ban it.
    pub failed_logins_per_user: Threshold,
    /// Connects of one client id that ban it.
    pub flapping: Threshold,
    /// Length of a shard's turns, in the mean of some seconds, above which no new connection is taken, milliseconds; 0
    /// takes them always.
    pub loop_lag_mark_ms: u64,
    /// Bans at once.
    pub max_bans: u32,
    /// Bans of the configuration.
    pub banned: Vec<BanTarget>,
}

impl Default for AdmissionSettings {
    fn default() -> Self {
        Self {
            max_connections_per_address: 0,
            max_connections_per_user: 0,
            listener_rate: Rate::UNLIMITED,
            address_rate: Rate::UNLIMITED,
            tracked: 100_000,
            exempt: Vec::new(),
            failed_logins_per_address: Threshold::default(),
            failed_logins_per_user: Threshold::default(),
            flapping: Threshold::default(),
            loop_lag_mark_ms: 0,
            max_bans: 10_000,
            banned: Vec::new(),
        }
    }
}
