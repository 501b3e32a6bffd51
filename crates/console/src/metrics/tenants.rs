//! Metrics of tenants. Holdings have samples for the configured tenants only, usage for the default one, too. Names of tenants come from the configuration, which has
//! a limited number of them.

use std::time::Duration;

use tidegate_engine::Holding;

use super::Kind::{Counter, Gauge};
use super::{Metric, Reading, Samples};
use crate::status::{TenantMeter, TenantNumbers};

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
    Metric {
        name: "tidegate_tenant_messages_total",
        kind: Counter,
        labels: &["tenant", "direction"],
        help: "Messages of the clients of each tenant, `default` included, as they are metered.",
        read: |it, out| {
            for it in meters(it) {
                out.add(&[&it.name, "received"], it.usage.messages_in);
                out.add(&[&it.name, "sent"], it.usage.messages_out);
            }
        },
    },
    Metric {
        name: "tidegate_tenant_bytes_total",
        kind: Counter,
        labels: &["tenant", "direction"],
        help: "Bytes of the clients of each tenant, `default` included, as they are metered.",
        read: |it, out| {
            for it in meters(it) {
                out.add(&[&it.name, "received"], it.usage.bytes_in);
                out.add(&[&it.name, "sent"], it.usage.bytes_out);
            }
        },
    },
    Metric {
        name: "tidegate_tenant_connection_seconds_total",
        kind: Counter,
        labels: &["tenant"],
        help: "Connection time of each tenant, `default` included, added up over connections.",
        read: |it, out| {
            for it in meters(it) {
                out.add(&[&it.name], Duration::from_millis(it.usage.connection_ms).as_secs_f64());
            }
        },
    },
    Metric {
        name: "tidegate_tenant_kept_bytes",
        kind: Gauge,
        labels: &["tenant", "kind"],
        help: "Bytes that are kept for each tenant, `default` included: retained messages, and messages that wait for \
               sessions.",
        read: |it, out| {
            for it in meters(it) {
                out.add(&[&it.name, "retained"], it.usage.retained_bytes);
                out.add(&[&it.name, "stored"], it.usage.stored_bytes);
            }
        },
    },
];

fn meters<'a>(it: &'a Reading<'_>) -> impl Iterator<Item = &'a TenantMeter> {
    it.status.meters.iter().take(MAX_TENANTS)
}

/// Looks at every kind of every tenant, with the labels of both.
fn each(it: &Reading<'_>, out: &mut Samples<'_>, one: impl Fn(&TenantNumbers, usize, &mut Samples<'_>, &[&str])) {
    for tenant in it.status.tenants.iter().take(MAX_TENANTS) {
        for (kind, holding) in Holding::ALL.into_iter().enumerate() {
            one(tenant, kind, out, &[&tenant.name, holding.label()]);
        }
    }
}
