//! Begins an action at a level that has none, in this order: finish leaving members, heal, start, and carry out the
//! decision.

use std::collections::BTreeMap;
use std::time::Duration;

use super::action::{Action, Kind};
use super::book::{Member, Phase, Record};
use super::judge::{Verdict, Wish};
use super::machine::Manager;
use super::moment::Moment;
use super::settings::Victim;
use super::sight::Sight;
use crate::level::Level;
use crate::provider::attached::ATTACHED;
use crate::provider::{Allocation, Condition, ResourceName};

/// Time after a failed action before the same is tried again.
const PAUSE: Duration = Duration::from_secs(5);

impl Manager {
    /// Begins the next action of a level, and describes it.
    pub(super) fn begin(&mut self, level: Level, verdict: &Verdict, now: Moment, sight: &Sight) -> String {
        if self.is_pausing(level, now) && self.needs_more_than_judgement(level, sight) {
            return "the last action ended a moment ago; trying again soon".to_owned();
        }
        self.evacuate(level, now, sight)
            .or_else(|| self.finish_leaving(level, now))
            .or_else(|| self.give_up(level, now, sight))
            .or_else(|| self.resume(level, now))
            .or_else(|| self.heal(level, now, sight))
            .or_else(|| self.start(level, now, sight))
            .unwrap_or_else(|| self.carry_out(level, verdict, now, sight))
    }

    fn is_pausing(&self, level: Level, now: Moment) -> bool {
        let failed = self.book.failed.get(&level);
        failed.is_some_and(|failed| Duration::from_millis(now.since(*failed)) < PAUSE)
    }

    fn needs_more_than_judgement(&self, level: Level, sight: &Sight) -> bool {
        !self.book.started.contains(&level)
            || self.book.count(level, &[Phase::Stopped]) > 0
            || !self.dead(level, sight).is_empty()
    }

    /// Leaving members without an action.
    fn finish_leaving(&mut self, level: Level, now: Moment) -> Option<String> {
        let leaving = self.book.names(level, &[Phase::Draining, Phase::Leaving]);
        if leaving.is_empty() {
            return None;
        }
        Some(self.begin_action(Kind::ScaleIn, level, leaving, Vec::new(), "found on their way out", now))
    }

    /// Members that no longer serve. The manager does not replace attached ones.
    fn dead(&self, level: Level, sight: &Sight) -> Vec<ResourceName> {
        let replaceable = |name: &ResourceName| !self.is_attached(name) && self.is_dead(name, sight);
        let mut dead = self.book.names(level, &[Phase::Lost]);
        dead.extend(self.book.names(level, &[Phase::Serving]).into_iter().filter(replaceable));
        dead
    }

    /// Dead brokers give way to new ones: their messages are with the orchestrators. Dead orchestrators start again
    /// where they were, because the messages that they have accepted are there (LAV-30).
    fn heal(&mut self, level: Level, now: Moment, sight: &Sight) -> Option<String> {
        let dead = self.dead(level, sight);
        let first = dead.first()?.clone();
        let seen = match sight.condition(&first) {
            Some(Condition::Ended(why) | Condition::Down(why)) => why.clone(),
            None => "the provider does not have it".to_owned(),
            Some(_) => format!("silent for {} observations", self.silent.get(&first).copied().unwrap_or_default()),
        };
        let others = dead.len() - 1;
        let others = if others == 0 { String::new() } else { format!(", and so are {others} more") };
        let reason = format!("{first} is dead: {seen}{others}");
        for name in &dead {
            self.set_phase(name, Phase::Lost, now);
        }
        if let Some(judge) = self.judges.get_mut(&level) {
            judge.note_action(now);
        }
        // A resource of a stack comes back under its name and is not replaced by another.
        if level == Level::Broker && self.settings.stack(level).is_none() {
            let new: Vec<ResourceName> = dead.iter().filter_map(|_| self.new_member(level, now, sight)).collect();
            return Some(self.begin_action(Kind::Replace, level, new, dead, &reason, now));
        }
        let targets = self.next_to_restart(dead);
        Some(self.begin_action(Kind::Restart, level, targets, Vec::new(), &reason, now))
    }

    /// Resources that were stopped with the fleet start again with it, on their stored state: none has died.
    fn resume(&mut self, level: Level, now: Moment) -> Option<String> {
        let stopped = self.book.names(level, &[Phase::Stopped]);
        if stopped.is_empty() {
            return None;
        }
        let reason = "the fleet starts again after it was stopped";
        let targets = self.next_to_restart(stopped);
        Some(self.begin_action(Kind::Resume, level, targets, Vec::new(), reason, now))
    }

    /// The first resources of a level, all at once.
    fn start(&mut self, level: Level, now: Moment, sight: &Sight) -> Option<String> {
        if self.book.started.contains(&level) {
            return None;
        }
        let settings = self.settings.level(level)?;
        let initial = if settings.decided_elsewhere { 0 } else { settings.initial };
        let there = self.book.level(level).count();
        let missing = usize::try_from(initial).unwrap_or(usize::MAX).saturating_sub(there);
        if missing == 0 {
            self.record(Record::Started { level });
            return None;
        }
        let new: Vec<ResourceName> = (0..missing).filter_map(|_| self.new_member(level, now, sight)).collect();
        Some(self.begin_action(Kind::Start, level, new, Vec::new(), &format!("the fleet starts with {initial}"), now))
    }

    fn carry_out(&mut self, level: Level, verdict: &Verdict, now: Moment, sight: &Sight) -> String {
        match verdict.wish {
            Wish::Hold => "nothing".to_owned(),
            Wish::Grow(count) => {
                let new: Vec<_> =
                    (0..count.min(self.room(level))).filter_map(|_| self.new_member(level, now, sight)).collect();
                if new.is_empty() {
                    return "nothing: the SLA leaves no room".to_owned();
                }
                self.begin_action(Kind::ScaleOut, level, new, Vec::new(), &verdict.reason, now)
            }
            Wish::Shrink(count) => {
                let victims = self.victims(level, count, sight);
                if victims.is_empty() {
                    return "nothing: the SLA's minimum stays".to_owned();
                }
                self.begin_action(Kind::ScaleIn, level, victims, Vec::new(), &verdict.reason, now)
            }
        }
    }

    /// How many more the SLA allows (BRK-44). Leaving resources count, since they cost money until they are gone.
    fn room(&self, level: Level) -> u32 {
        let there = u32::try_from(self.book.level(level).count()).unwrap_or(u32::MAX);
        let in_all = u32::try_from(self.book.members.len()).unwrap_or(u32::MAX);
        let of_level = self.settings.level(level).map_or(0, |settings| settings.most.saturating_sub(there));
        of_level.min(self.settings.most_in_all.map_or(u32::MAX, |most| most.saturating_sub(in_all)))
    }

    /// The members that a scale in removes: at least the minimum stays, and attached ones are never removed.
    fn victims(&self, level: Level, count: u32, sight: &Sight) -> Vec<ResourceName> {
        let Some(settings) = self.settings.level(level) else { return Vec::new() };
        let mut serving: Vec<&Member> =
            self.book.level(level).filter(|member| member.phase == Phase::Serving).collect();
        let spare = u32::try_from(serving.len()).unwrap_or(u32::MAX).saturating_sub(settings.least);
        serving.retain(|member| member.wanted.template != ATTACHED);
        let count = usize::try_from(count.min(spare)).unwrap_or(usize::MAX);
        if let Some(stack) = &settings.stack {
            return self.last_of(stack, level, count);
        }
        let load = |member: &Member| match (settings.victim, level) {
            (Victim::LastAdded, _) => 0,
            (Victim::LeastLoaded, Level::Broker) => sight.owed(&member.wanted.name),
            (Victim::LeastLoaded, Level::Orchestrator) => {
                sight.orchestrators.get(&member.wanted.name).map_or(u64::MAX, |view| view.clients)
            }
        };
        serving.sort_by_key(|member| (load(member), std::cmp::Reverse(member.order)));
        serving.into_iter().take(count).map(|member| member.wanted.name.clone()).collect()
    }

    /// A new member with the next name of its stack, or a new one, from the template that is furthest below its weight.
    pub(super) fn new_member(&mut self, level: Level, now: Moment, sight: &Sight) -> Option<ResourceName> {
        let template = self.template(level)?;
        let cores = self.settings.level(level)?.cores;
        let (name, number) = if let Some(stack) = self.settings.stack(level).cloned() {
            self.next_of(&stack, level, sight)?
        } else {
            let number = self.number(level);
            (format!("{}-{number}", level.name()).parse().ok()?, number)
        };
        self.add_member(Allocation { name: name.clone(), level, template, cores }, number, now);
        Some(name)
    }

    fn template(&self, level: Level) -> Option<String> {
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for member in self.book.level(level).filter(|member| member.phase != Phase::Lost) {
            *counts.entry(member.wanted.template.as_str()).or_default() += 1;
        }
        // The one with the fewest per weight, after it has got one more; compared without fractions.
        let templates = &self.settings.level(level)?.templates;
        let one_more = |name: &str| counts.get(name).copied().unwrap_or_default() + 1;
        let best = templates.iter().min_by(|(one, one_weight), (other, other_weight)| {
            let left = one_more(one) * u64::from(*other_weight);
            left.cmp(&(one_more(other) * u64::from(*one_weight)))
        });
        best.map(|(name, _)| name.clone())
    }

    pub(super) fn add_member(&mut self, wanted: Allocation, order: u64, now: Moment) {
        let (phase, lost_since, failed_restarts) = (Phase::Pending, None, 0);
        self.record(Record::Member(Member { wanted, phase, since: now, order, lost_since, failed_restarts }));
    }

    pub(super) fn begin_action(
        &mut self,
        kind: Kind,
        level: Level,
        targets: Vec<ResourceName>,
        old: Vec<ResourceName>,
        reason: &str,
        now: Moment,
    ) -> String {
        let action = self.new_action(kind, level, targets, old, reason, now);
        let number = action.number;
        let names: Vec<&str> = action.targets.iter().map(ResourceName::as_str).collect();
        let text = format!("action {number}: {} of {}", super::explain::kind(kind), names.join(", "));
        let phase = match kind {
            Kind::ScaleIn | Kind::Evacuate => Some(Phase::Draining),
            Kind::GiveUp => Some(Phase::Leaving),
            _ => None,
        };
        for name in action.targets.iter().filter(|_| phase.is_some()) {
            self.set_phase(name, phase.unwrap_or(Phase::Draining), now);
        }
        self.refusals.remove(&level);
        self.record(Record::Action(action));
        text
    }

    /// An action at its first step, with the next number.
    pub(super) fn new_action(
        &self,
        kind: Kind,
        level: Level,
        targets: Vec<ResourceName>,
        old: Vec<ResourceName>,
        reason: &str,
        now: Moment,
    ) -> Action {
        let mut action = Action {
            number: self.book.last_action + 1,
            kind,
            level,
            reason: reason.to_owned(),
            observation: self.observation,
            targets,
            old,
            forget_first: self.settings.stack(level).is_some(),
            failing: None,
            started: now,
            steps: Vec::new(),
        };
        let first = action.first();
        action.begin(first, now);
        action
    }
}
