//! Levels whose provider names resources itself and releases only the last one.

use super::action::{Action, Kind, Step};
use super::book::{self, Phase};
use super::turn::FleetSeen;
use crate::level::Level;
use crate::provider::{Condition, ResourceName, Stack};

impl FleetSeen<'_> {
    /// The place of a member in the order in which members came.
    pub(super) fn order_of(&self, level: Level, name: &ResourceName) -> u64 {
        let stacked = self.settings.stack(level).and_then(|stack| stack.number(name));
        // A stack counts from 0, and attached resources come first.
        stacked.map_or_else(|| book::number(level, name).unwrap_or_default(), |number| number.saturating_add(1))
    }

    /// The name and order of the next resource of a stack: one above all that are there.
    pub(super) fn next_of(&self, stack: &Stack, level: Level) -> Option<(ResourceName, u64)> {
        let members = self.book.level(level).filter_map(|member| stack.number(&member.wanted.name));
        let there = self.sight.resources.iter().flatten().filter(|(_, it)| it.condition != Condition::Stopping);
        let there = there.filter_map(|(name, _)| stack.number(name));
        let number = members.chain(there).max().map_or(Some(stack.first), |last| last.checked_add(1))?;
        Some((stack.resource(number)?, number.saturating_add(1)))
    }

    /// The last `count` of a stack, from the end, as far as they serve: a resource below one that does not serve cannot
    /// be removed.
    pub(super) fn last_of(&self, stack: &Stack, level: Level, count: usize) -> Vec<ResourceName> {
        let mut members: Vec<_> =
            self.book.level(level).filter_map(|member| Some((stack.number(&member.wanted.name)?, member))).collect();
        members.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
        let serving = members.into_iter().map(|(_, member)| member).take_while(|member| member.phase == Phase::Serving);
        serving.take(count).map(|member| member.wanted.name.clone()).collect()
    }

    /// Why a scale in cannot be finished: another controller has added a resource above the one to be removed.
    pub(super) fn is_no_longer_last(&self, action: &Action, step: Step) -> Option<String> {
        let leaves = matches!(
            step,
            Step::Drain | Step::Forget | Step::Withdraw | Step::Ttl | Step::HandOver | Step::Evict | Step::Release
        );
        if !leaves || action.kind == Kind::Evacuate {
            return None;
        }
        let stack = self.settings.stack(action.level)?;
        let last = action.targets.iter().filter_map(|name| stack.number(name)).max()?;
        let above = self.sight.resources.iter().flatten().find(|(name, it)| {
            it.condition != Condition::Stopping && stack.number(name).is_some_and(|number| number > last)
        });
        above.map(|(name, _)| {
            format!("another controller has added {name}: only the last of {} can be removed", stack.name)
        })
    }
}
