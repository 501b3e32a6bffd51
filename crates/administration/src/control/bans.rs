//! The bans of a process, for the admin API and for other members.

use tidegate_admin::members::BanChanged;
use tidegate_admin::{BanEntry, BanRecord, BanRequest, BanTarget, BanTerms, UnbanRequest};
use tidegate_console::api::{BanControl, Control as _, ControlError};
use tidegate_engine::{Millis, Now};
use tidegate_node::{Ban, BanOrigin};

use super::{network, tenant_name, tenant_of};
use crate::status::BrokerStatus;

/// The bans of a process.
pub(super) struct Bans<'a>(pub(super) &'a BrokerStatus);

impl BanControl for Bans<'_> {
    fn list(&self) -> Result<Vec<BanEntry>, ControlError> {
        let node = self.0.node()?;
        let now = node.now();
        Ok(node.admission().bans(now).iter().map(|ban| self.entry(now, ban)).collect())
    }

    fn add(&self, request: &BanRequest) -> Result<(BanChanged, BanRecord), ControlError> {
        let node = self.0.node()?;
        let now = node.now();
        let target = self.node_target(&request.target, &request.tenant)?;
        let terms = BanTerms {
            reason: request.reason.clone(),
            until_ms: request.for_seconds.map(|seconds| now.unix.saturating_add(seconds.saturating_mul(1000))),
        };
        let record = BanRecord {
            target: request.target.clone(),
            tenant: request.tenant.clone(),
            changed_ms: node.admission().next_ban_change(now, &target),
            ban: Some(terms),
        };
        let changed = self.change(&record)?;
        let seconds = request.for_seconds;
        tracing::warn!(banned = %target, why = request.reason, seconds, closed = changed.closed, "an operator banned");
        Ok((changed, record))
    }

    fn remove(&self, request: &UnbanRequest) -> Result<(BanChanged, BanRecord), ControlError> {
        let node = self.0.node()?;
        let target = self.node_target(&request.target, &request.tenant)?;
        let record = BanRecord {
            target: request.target.clone(),
            tenant: request.tenant.clone(),
            changed_ms: node.admission().next_ban_change(node.now(), &target),
            ban: None,
        };
        // Without other nodes, the end need not be remembered for them.
        let changed = match self.0.members() {
            Some(_) => self.change(&record)?,
            None => BanChanged { changed: node.clients().unban(&target).map_err(refused)?, closed: 0 },
        };
        if changed.changed {
            tracing::info!(banned = %target, "an operator ended a ban");
        }
        Ok((changed, record))
    }

    fn change(&self, record: &BanRecord) -> Result<BanChanged, ControlError> {
        let node = self.0.node()?;
        let now = node.now();
        let target = self.node_target(&record.target, &record.tenant)?;
        let ban = record.ban.as_ref().map(|terms| Ban {
            target: target.clone(),
            reason: terms.reason.as_str().into(),
            origin: BanOrigin::Operator,
            since: record.changed_ms,
            until: terms.until_ms.map_or(Millis::NEVER, |until| now.from_unix(until)),
        });
        let change = tidegate_node::BanRecord { target, changed: record.changed_ms, ban };
        let (changed, closed) = node.clients().apply_ban(change).map_err(refused)?;
        Ok(BanChanged { changed, closed })
    }

    fn records(&self) -> Result<Vec<BanRecord>, ControlError> {
        let node = self.0.node()?;
        let now = node.now();
        let record = |record: tidegate_node::BanRecord| {
            let (target, tenant) = self.named_target(&record.target);
            let ban = record.ban.map(|ban| BanTerms {
                reason: ban.reason.to_string(),
                until_ms: (ban.until != Millis::NEVER).then(|| now.to_unix(ban.until)),
            });
            BanRecord { target, tenant, changed_ms: record.changed, ban }
        };
        Ok(node.admission().ban_records(now).into_iter().map(record).collect())
    }
}

impl Bans<'_> {
    /// The target of a ban. An address belongs to no tenant.
    pub(super) fn node_target(
        &self,
        target: &BanTarget,
        tenant: &str,
    ) -> Result<tidegate_node::BanTarget, ControlError> {
        let named = || tenant_of(self.0.tenancy(), tenant);
        Ok(match target {
            BanTarget::Address(_) if !tenant.is_empty() => {
                return Err(ControlError::Invalid("an address belongs to no tenant: leave `tenant` out".to_owned()));
            }
            BanTarget::Address(text) => tidegate_node::BanTarget::Address(network(text)?),
            BanTarget::Client(name) => tidegate_node::BanTarget::Client(named()?, name.as_str().into()),
            BanTarget::User(name) => tidegate_node::BanTarget::User(named()?, name.as_str().into()),
        })
    }

    fn entry(&self, now: Now, ban: &Ban) -> BanEntry {
        let (target, tenant) = self.named_target(&ban.target);
        BanEntry {
            kind: target.kind().to_owned(),
            name: target.name().to_owned(),
            tenant,
            reason: ban.reason.to_string(),
            origin: ban.origin.label().to_owned(),
            since_ms: ban.since,
            until_ms: (ban.until != Millis::NEVER).then(|| now.to_unix(ban.until)),
            ..BanEntry::default()
        }
    }

    /// The subject of the ban, with the name of the tenant.
    fn named_target(&self, target: &tidegate_node::BanTarget) -> (BanTarget, String) {
        match target {
            tidegate_node::BanTarget::Address(network) => (BanTarget::Address(network.to_string()), String::new()),
            tidegate_node::BanTarget::Client(tenant, name) => {
                (BanTarget::Client(name.to_string()), tenant_name(self.0.tenancy(), *tenant))
            }
            tidegate_node::BanTarget::User(tenant, name) => {
                (BanTarget::User(name.to_string()), tenant_name(self.0.tenancy(), *tenant))
            }
        }
    }
}

fn refused(error: impl std::fmt::Display) -> ControlError {
    ControlError::Refused(error.to_string())
}
