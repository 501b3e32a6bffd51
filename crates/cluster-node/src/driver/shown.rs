//! Values of a cluster as the admin API shows them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_cluster::{Advert, Table};

use super::weights::Heard;

/// The size of a member's share in relation to others: its weight by its factor.
pub(super) fn weight_used(name: &str, table: &Table, adverts: &BTreeMap<String, Advert>) -> u64 {
    let weight = adverts.get(name).map(|advert| advert.weight).unwrap_or_default();
    let factor = table.factors.get(name).copied().unwrap_or_default();
    (u64::from(weight.0) * u64::from(factor.0) + 500) / 1_000
}

/// A lease in milliseconds.
pub(super) fn lease_ms(lease: &Duration) -> u64 {
    u64::try_from(lease.as_millis()).unwrap_or(u64::MAX)
}

/// The measures of a member.
pub(super) fn load_of(heard: &Heard) -> Value {
    let Heard { load, burden, .. } = heard;
    json!({
        "busy": load.busy(),
        "clients": load.clients,
        "has": burden.has,
        "wanted": burden.wanted,
    })
}
