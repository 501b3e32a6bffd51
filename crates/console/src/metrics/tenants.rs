//! Metrics of tenants. Holdings have samples for the configured tenants only, usage for the default one, too. Names of tenants come from the configuration, which has
//! a limited number of them.

use std::time::Duration;

use tidegate_engine::Holding;

use super::{Reading, Samples};
use crate::status::{TenantMeter, TenantNumbers};

/// Most tenants that have samples: as many as a configuration may have.
const MAX_TENANTS: usize = 1024;

metrics! { |it, out|
    /// Every metric of tenants, in the order in which they are written.
    Gauge "tidegate_tenant_holdings" ["tenant", "kind"] =>
        each(it, out, |tenant, kind, out, labels| out.add(labels, tenant.counts[kind])),
        "What each tenant has on all shards together: connections, sessions, subscriptions, retained messages. The default tenant has the rest of the broker's numbers.";
    Gauge "tidegate_tenant_quota" ["tenant", "kind"] => {
        each(it, out, |tenant, kind, out, labels| {
            if tenant.quotas[kind] != 0 {
                out.add(labels, u64::from(tenant.quotas[kind]));
            }
        });
    }, "How much of it the tenant may have, where that is limited.";
    Counter "tidegate_tenant_refused_total" ["tenant", "kind"] =>
        each(it, out, |tenant, kind, out, labels| out.add(labels, tenant.refused[kind])),
        "Requests refused because the tenant has as much as it may have.";
    Counter "tidegate_tenant_messages_total" ["tenant", "direction"] => {
        for it in meters(it) {
            out.add(&[&it.name, "received"], it.usage.messages_in);
            out.add(&[&it.name, "sent"], it.usage.messages_out);
        }
    }, "Messages of the clients of each tenant, `default` included, as they are metered.";
    Counter "tidegate_tenant_bytes_total" ["tenant", "direction"] => {
        for it in meters(it) {
            out.add(&[&it.name, "received"], it.usage.bytes_in);
            out.add(&[&it.name, "sent"], it.usage.bytes_out);
        }
    }, "Bytes of the clients of each tenant, `default` included, as they are metered.";
    Counter "tidegate_tenant_connection_seconds_total" ["tenant"] => {
        for it in meters(it) {
            out.add(&[&it.name], Duration::from_millis(it.usage.connection_ms).as_secs_f64());
        }
    }, "Connection time of each tenant, `default` included, added up over connections.";
    Gauge "tidegate_tenant_kept_bytes" ["tenant", "kind"] => {
        for it in meters(it) {
            out.add(&[&it.name, "retained"], it.usage.retained_bytes);
            out.add(&[&it.name, "stored"], it.usage.stored_bytes);
        }
    }, "Bytes that are kept for each tenant, `default` included: retained messages, and messages that wait for sessions.";
}

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
