//! Connections of clients without MQTT in the quotas of their tenants.

use std::sync::Arc;

use tidegate_engine::{Holding, TenantId};

use super::counts::TenantCounts;

/// A connection that another part of the process holds for a client without MQTT, in the quotas of its tenant. While the
/// client waits for nothing, the connection does not count: such clients could not end it otherwise, and would keep each
/// other and clients of MQTT out. Its session does not count if it ends with the connection.
#[derive(Debug)]
pub struct TenantSeat {
    counts: Arc<TenantCounts>,
    tenant: TenantId,
    is_resting: bool,
    is_passing: bool,
}

impl TenantSeat {
    /// A connection that counts, as its session does.
    pub const fn new(counts: Arc<TenantCounts>, tenant: TenantId) -> Self {
        Self { counts, tenant, is_resting: false, is_passing: false }
    }

    /// Counts the connection no longer, until [`TenantSeat::resume`].
    pub fn rest(&mut self) {
        if !std::mem::replace(&mut self.is_resting, true) {
            self.counts.exempt(self.tenant, Holding::Connections);
        }
    }

    /// Counts the connection again. False at the tenant's connection limit, which changes nothing.
    pub fn resume(&mut self) -> bool {
        if self.is_resting && self.counts.include(self.tenant, Holding::Connections) {
            self.is_resting = false;
        }
        !self.is_resting
    }

    /// Counts the session no longer: it ends with the connection.
    pub fn pass(&mut self) {
        if !std::mem::replace(&mut self.is_passing, true) {
            self.counts.exempt(self.tenant, Holding::Sessions);
        }
    }
}

impl TenantSeat {
    /// The connection is about to end: until then it counts, so that its place is not given away twice.
    pub fn leave(&mut self) {
        let held = [(&mut self.is_resting, Holding::Connections), (&mut self.is_passing, Holding::Sessions)];
        for (is_exempt, holding) in held {
            if std::mem::take(is_exempt) {
                self.counts.end_exemption(self.tenant, holding);
            }
        }
    }
}

impl Drop for TenantSeat {
    fn drop(&mut self) {
        self.leave();
    }
}
