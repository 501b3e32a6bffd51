//! The process of each client.

use super::{ClientGroup, LoadPlan};
use crate::limits::Limits;

impl LoadPlan {
    /// The processes of the plan: those shared by all groups, followed by one for each group that has limits.
    pub fn workers(&self) -> u32 {
        self.processes.saturating_add(self.limited().count() as u32)
    }

    /// The groups that have limits, in the order of their processes.
    pub fn limited(&self) -> impl Iterator<Item = (&ClientGroup, Limits)> {
        self.groups.iter().filter_map(|group| Some((group, group.limits?)))
    }

    /// The process of client `number` of the group at `index`. Clients with the same number live together, so that
    /// pairs do; so do all that share a subscription, since their messages are counted together.
    pub(crate) fn worker_of(&self, index: usize, number: u32) -> u32 {
        let group = &self.groups[index];
        if group.limits.is_some() {
            let before = self.groups[..index].iter().filter(|group| group.limits.is_some()).count() as u32;
            return self.processes + before;
        }
        let shared = group.role.subscribing().and_then(|subscribing| subscribing.shared.as_deref());
        let place =
            shared.map_or(number, |share| share.bytes().fold(0, |sum: u32, byte| sum.wrapping_add(u32::from(byte))));
        place % self.processes
    }
}

#[cfg(test)]
mod tests {
    use crate::limits::Limits;
    use crate::load::LoadPlan;
    use crate::load::plan::{ClientGroup, Role, Target};

    #[test]
    fn a_group_with_limits_has_its_own_process() {
        let mut plan = LoadPlan::new(Target::tcp("h", 1), 1_000);
        plan.processes = 2;
        let limited = |name| ClientGroup {
            limits: Some(Limits { cpus: Some(0.2), ..Limits::default() }),
            ..ClientGroup::new(name, 3, Role::Idle)
        };
        plan.groups = vec![
            ClientGroup::new("a", 4, Role::Idle),
            limited("b"),
            ClientGroup::new("c", 3, Role::Idle),
            limited("d"),
        ];
        let places = |group| (0..3).map(|number| plan.worker_of(group, number)).collect::<Vec<_>>();
        assert_eq!(plan.workers(), 4);
        assert_eq!([places(0), places(1), places(2), places(3)], [[0, 1, 0], [2; 3], [0, 1, 0], [3; 3]]);
    }
}
