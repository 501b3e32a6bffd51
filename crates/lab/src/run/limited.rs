//! The cgroups of a run: the broker's, and the cgroups of groups of clients with limits of their own.

use super::task::{ExecuteError, Task};
use crate::limits::Limits;
use crate::load::LoadPlan;
use crate::peer::Peer;
use crate::results::{AppliedLimits, GroupLimits};
use crate::sample::{Cgroups, Limited};

/// A group of clients within its limits.
pub(super) struct LimitedGroup {
    name: String,
    wanted: Limits,
    pub(super) cgroup: Limited,
}

/// The broker's cgroup, if it has limits.
pub(super) fn broker(task: &Task<'_>, cgroups: &Cgroups) -> Result<Option<Limited>, ExecuteError> {
    if task.case.limits == Limits::default() {
        return Ok(None);
    }
    if matches!(task.peer, Peer::Address { .. }) {
        return Err(ExecuteError::LimitsOfAddress);
    }
    if !task.case.limits.takes_cgroup() {
        return Ok(None);
    }
    Ok(Some(cgroups.limit(&name(task), &task.case.limits)?))
}

/// The cgroups of the groups, in the order of their processes.
pub(super) fn groups(task: &Task<'_>, plan: &LoadPlan, cgroups: &Cgroups) -> Result<Vec<LimitedGroup>, ExecuteError> {
    let made = (0..).zip(plan.limited()).map(|(place, (group, wanted)): (u32, _)| {
        let cgroup = cgroups.limit(&format!("{}-{place}", name(task)), &wanted)?;
        Ok(LimitedGroup { name: group.name.clone(), wanted, cgroup })
    });
    made.collect()
}

/// A name that no other run on this machine has.
pub(super) fn name(task: &Task<'_>) -> String {
    format!("tidegate-lab-{}-{}", std::process::id(), task.seed)
}

/// The limits that were in force, and how they pressed.
pub(super) fn applied(wanted: Limits, limited: Option<&Limited>) -> AppliedLimits {
    let (throttled, killed_for_memory) = limited.map(Limited::pressure).unwrap_or_default();
    AppliedLimits { wanted, by: limited.map(|limited| limited.by.to_owned()), throttled, killed_for_memory }
}

/// The same for a group.
pub(super) fn applied_to_group(group: &LimitedGroup) -> GroupLimits {
    GroupLimits { group: group.name.clone(), limits: applied(group.wanted, Some(&group.cgroup)) }
}
