//! Metrics of tenants. Without one, none of them has a sample. Names of tenants come from the configuration, which has
//! a limited number of them.

use tidegate_engine::Holding;

use super::Kind::{Counter, Gauge};
use super::{Metric, Reading, Samples};
use crate::status::TenantNumbers;

/// Most tenants that have samples: as many as a configuration may have.
const MAX_TENANTS: usize = 1024;

/// Every metric of tenants, in the order in which they are written.
pub(super) static METRICS: &[Metric] = &[
    Metric {
        name: "tidegate_tenant_holdings",
        kind: Gauge,
        labels: &["tenant", "kind"],
        help: "What each tenant has on all shards together: connections, sessions, subscriptions, retained messages. The \
               default tenant has the rest of the broker's numbers.",
        read: |it, out| each(it, out, |tenant, kind, out, labels| out.add(labels, tenant.counts[kind])),
    },
    Metric {
        name: "tidegate_tenant_quota",
        kind: Gauge,
        labels: &["tenant", "kind"],
        help: "How much of it the tenant may have, where that is limited.",
        read: |it, out| {
            each(it, out, |tenant, kind, out, labels| {
                if tenant.quotas[kind] != 0 {
                    out.add(labels, u64::from(tenant.quotas[kind]));
                }
            });
        },
    },
    Metric {
        name: "tidegate_tenant_refused_total",
        kind: Counter,
        labels: &["tenant", "kind"],
        help: "Requests refused because the tenant has as much as it may have.",
        read: |it, out| each(it, out, |tenant, kind, out, labels| out.add(labels, tenant.refused[kind])),
    },
];

/// Looks at every kind of every tenant, with the labels of both.
fn each(it: &Reading<'_>, out: &mut Samples<'_>, one: impl Fn(&TenantNumbers, usize, &mut Samples<'_>, &[&str])) {
    for tenant in it.status.tenants.iter().take(MAX_TENANTS) {
        for (kind, holding) in Holding::ALL.into_iter().enumerate() {
            one(tenant, kind, out, &[&tenant.name, holding.label()]);
        }
    }
}
