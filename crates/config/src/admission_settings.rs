//! The settings of admission and of the flight recorder, from the configuration.

use std::time::Duration;

use tidegate_engine::TenantId;
use tidegate_node::{AdmissionSettings, BanTarget, FlightSettings, Rate, Threshold};

use super::Config;
use super::sections::admission::{Admission, Flight};
use super::sections::tenant::Tenant;

impl Config {
    /// Limits and bans for clients that connect.
    pub fn admission_settings(&self) -> AdmissionSettings {
        let it = &self.admission;
        let failed_logins = |count| threshold(count, it.failed_login_window, it.failed_login_ban);
        AdmissionSettings {
            max_connections_per_address: it.max_connections_per_address,
            max_connections_per_user: it.max_connections_per_user,
            listener_rate: Rate { per_second: it.connect_rate_per_listener, burst: it.connect_burst_per_listener },
            address_rate: Rate { per_second: it.connect_rate_per_address, burst: it.connect_burst_per_address },
            tracked: it.tracked,
            exempt: it.exempt_networks.0.clone(),
            failed_logins_per_address: failed_logins(it.failed_logins_per_address),
            failed_logins_per_user: failed_logins(it.failed_logins_per_user),
            flapping: threshold(it.flapping_connects, it.flapping_window, it.flapping_ban),
            loop_lag_mark_ms: millis(it.loop_lag_mark),
            max_bans: it.max_bans,
            banned: banned(&self.admission, &self.tenants),
        }
    }
}

impl Flight {
    /// How much is remembered.
    pub fn settings(&self) -> FlightSettings {
        FlightSettings {
            entries: self.entries,
            subjects: self.subjects,
            entries_per_subject: self.entries_per_subject,
            per_second: self.events_per_second,
        }
    }
}

fn threshold(count: u32, within: Duration, ban: Duration) -> Threshold {
    Threshold { count, within_ms: millis(within), ban_ms: millis(ban) }
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

/// The bans of the configuration. Tenants are in the order of their numbers.
fn banned(admission: &Admission, tenants: &[Tenant]) -> Vec<BanTarget> {
    let it = admission;
    let tenant = TenantId::DEFAULT;
    let addresses = it.banned_addresses.0.iter().map(|network| BanTarget::Address(*network));
    let clients = it.banned_clients.0.iter().map(|name| BanTarget::Client(tenant, name.as_str().into()));
    let users = it.banned_users.0.iter().map(|name| BanTarget::User(tenant, name.as_str().into()));
    let of_tenants = (1..).map(TenantId).zip(tenants).flat_map(|(number, tenant)| {
        let clients = tenant.banned_clients.0.iter().map(move |name| BanTarget::Client(number, name.as_str().into()));
        clients.chain(tenant.banned_users.0.iter().map(move |name| BanTarget::User(number, name.as_str().into())))
    });
    addresses.chain(clients).chain(users).chain(of_tenants).collect()
}
