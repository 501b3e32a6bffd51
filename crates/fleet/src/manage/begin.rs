//! Begins an action at a level that has none, in this order: finish leaving members, heal, start, and carry out the
//! decision.

use std::collections::BTreeMap;
use std::time::Duration;

use super::action::Kind;
use super::book::{Member, Phase, Record};
use super::decisions::Decisions;
use super::explain;
use super::judge::{LevelDecision, Wish};
use super::progress::RefusedSteps;
use super::recorder::Recorder;
use super::settings::Victim;
use super::turn::{FleetSeen, Turn};
use crate::level::Level;
use crate::provider::attached::ATTACHED;
use crate::provider::{Allocation, Condition, ResourceName};

/// Time after a failed action before the same is tried again.
const PAUSE: Duration = Duration::from_secs(5);

/// The parts that change when an action begins.
pub(super) struct Beginning<'a> {
    pub(super) turn: Turn<'a>,
    pub(super) recorder: &'a mut Recorder,
    pub(super) refused: &'a mut RefusedSteps,
    pub(super) decisions: &'a mut Decisions,
}

impl Beginning<'_> {
    pub(super) fn fleet(&self) -> FleetSeen<'_> {
        self.turn.fleet(self.recorder.book())
    }

    /// Begins the next action of a level, and describes it.
    pub(super) fn begin(&mut self, level: Level, decision: &LevelDecision) -> String {
        let fleet = self.fleet();
        if fleet.is_pausing(level) && fleet.needs_more_than_judgement(level) {
            return "the last action ended a moment ago; trying again soon".to_owned();
        }
        self.evacuate(level)
            .or_else(|| self.finish_leaving(level))
            .or_else(|| self.give_up(level))
            .or_else(|| self.resume(level))
            .or_else(|| self.heal(level))
            .or_else(|| self.start(level))
            .unwrap_or_else(|| self.carry_out(level, decision))
    }

    /// Leaving members without an action.
    fn finish_leaving(&mut self, level: Level) -> Option<String> {
        let leaving = self.recorder.book().names(level, &[Phase::Draining, Phase::Leaving]);
        if leaving.is_empty() {
            return None;
        }
        Some(self.begin_action(Kind::ScaleIn, level, leaving, Vec::new(), "found on their way out"))
    }

    /// Dead brokers give way to new ones: their messages are with the orchestrators. Dead orchestrators start again
    /// where they were, because the messages that they have accepted are there (LAV-30).
    fn heal(&mut self, level: Level) -> Option<String> {
        let fleet = self.fleet();
        let dead = fleet.dead(level);
        let first = dead.first()?.clone();
        let seen = match fleet.sight.condition(&first) {
            Some(Condition::Ended(why) | Condition::Down(why)) => why.clone(),
            None => "the provider does not have it".to_owned(),
            Some(_) => format!("silent for {} observations", fleet.silences.of(&first)),
        };
        let others = dead.len() - 1;
        let others = if others == 0 { String::new() } else { format!(", and so are {others} more") };
        let reason = format!("{first} is dead: {seen}{others}");
        self.recorder.set_phases(&dead, Phase::Lost, self.turn.now);
        self.decisions.note_action(level, self.turn.now);
        // A resource of a stack returns under its name and is not replaced by another.
        if level == Level::Broker && self.turn.settings.stack(level).is_none() {
            let new: Vec<ResourceName> = dead.iter().filter_map(|_| self.new_member(level)).collect();
            return Some(self.begin_action(Kind::Replace, level, new, dead, &reason));
        }
        let targets = self.fleet().next_to_restart(dead);
        Some(self.begin_action(Kind::Restart, level, targets, Vec::new(), &reason))
    }

    /// Resources that were stopped with the fleet start again with it, on their stored state: none has died.
    fn resume(&mut self, level: Level) -> Option<String> {
        let stopped = self.recorder.book().names(level, &[Phase::Stopped]);
        if stopped.is_empty() {
            return None;
        }
        let reason = "the fleet starts again after it was stopped";
        let targets = self.fleet().next_to_restart(stopped);
        Some(self.begin_action(Kind::Resume, level, targets, Vec::new(), reason))
    }

    /// The first resources of a level, all at once.
    fn start(&mut self, level: Level) -> Option<String> {
        if self.recorder.book().started.contains(&level) {
            return None;
        }
        let settings = self.turn.settings.level(level)?;
        let initial = if settings.decided_elsewhere { 0 } else { settings.initial };
        let there = self.recorder.book().level(level).count();
        let missing = usize::try_from(initial).unwrap_or(usize::MAX).saturating_sub(there);
        if missing == 0 {
            self.recorder.record(Record::Started { level });
            return None;
        }
        let new: Vec<ResourceName> = (0..missing).filter_map(|_| self.new_member(level)).collect();
        Some(self.begin_action(Kind::Start, level, new, Vec::new(), &format!("the fleet starts with {initial}")))
    }

    fn carry_out(&mut self, level: Level, decision: &LevelDecision) -> String {
        match decision.wish {
            Wish::Hold => "nothing".to_owned(),
            Wish::Grow(count) => {
                let count = count.min(self.fleet().room(level));
                let new: Vec<_> = (0..count).filter_map(|_| self.new_member(level)).collect();
                if new.is_empty() {
                    return "nothing: the SLA leaves no room".to_owned();
                }
                self.begin_action(Kind::ScaleOut, level, new, Vec::new(), &decision.reason)
            }
            Wish::Shrink(count) => {
                let victims = self.fleet().victims(level, count);
                if victims.is_empty() {
                    return "nothing: the SLA's minimum stays".to_owned();
                }
                self.begin_action(Kind::ScaleIn, level, victims, Vec::new(), &decision.reason)
            }
        }
    }

    /// A new member with the next name of its stack, or a new one, from the template that is furthest below its weight.
    pub(super) fn new_member(&mut self, level: Level) -> Option<ResourceName> {
        let template = self.fleet().template(level)?;
        let cores = self.turn.settings.level(level)?.cores;
        let (name, number) = if let Some(stack) = self.turn.settings.stack(level) {
            self.fleet().next_of(stack, level)?
        } else {
            let number = self.recorder.number(level);
            (format!("{}-{number}", level.name()).parse().ok()?, number)
        };
        self.recorder.add_member(Allocation { name: name.clone(), level, template, cores }, number, self.turn.now);
        Some(name)
    }

    pub(super) fn begin_action(
        &mut self,
        kind: Kind,
        level: Level,
        targets: Vec<ResourceName>,
        old: Vec<ResourceName>,
        reason: &str,
    ) -> String {
        let action = self.fleet().new_action(kind, level, targets, old, reason);
        let number = action.number;
        let names: Vec<&str> = action.targets.iter().map(ResourceName::as_str).collect();
        let text = format!("action {number}: {} of {}", explain::kind(kind), names.join(", "));
        let phase = match kind {
            Kind::ScaleIn | Kind::Evacuate => Some(Phase::Draining),
            Kind::GiveUp => Some(Phase::Leaving),
            _ => None,
        };
        if let Some(phase) = phase {
            self.recorder.set_phases(&action.targets, phase, self.turn.now);
        }
        self.refused.reset(level);
        self.recorder.record(Record::Action(action));
        text
    }
}

impl FleetSeen<'_> {
    fn is_pausing(&self, level: Level) -> bool {
        let failed = self.book.failed.get(&level);
        failed.is_some_and(|failed| Duration::from_millis(self.now.since(*failed)) < PAUSE)
    }

    fn needs_more_than_judgement(&self, level: Level) -> bool {
        !self.book.started.contains(&level)
            || self.book.count(level, &[Phase::Stopped]) > 0
            || !self.dead(level).is_empty()
    }

    /// Members that no longer serve. The manager does not replace attached ones.
    fn dead(&self, level: Level) -> Vec<ResourceName> {
        let replaceable = |name: &ResourceName| !self.is_attached(name) && self.is_dead(name);
        let mut dead = self.book.names(level, &[Phase::Lost]);
        dead.extend(self.book.names(level, &[Phase::Serving]).into_iter().filter(replaceable));
        dead
    }

    /// How many more the SLA allows (BRK-44). Leaving resources count, since they cost money until they are gone.
    fn room(&self, level: Level) -> u32 {
        let there = u32::try_from(self.book.level(level).count()).unwrap_or(u32::MAX);
        let in_all = u32::try_from(self.book.members.len()).unwrap_or(u32::MAX);
        let of_level = self.settings.level(level).map_or(0, |settings| settings.most.saturating_sub(there));
        of_level.min(self.settings.most_in_all.map_or(u32::MAX, |most| most.saturating_sub(in_all)))
    }

    /// The members that a scale in removes: at least the minimum stays, and attached ones are never removed.
    fn victims(&self, level: Level, count: u32) -> Vec<ResourceName> {
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
            (Victim::LeastLoaded, Level::Broker) => self.sight.owed(&member.wanted.name),
            (Victim::LeastLoaded, Level::Orchestrator) => {
                self.sight.orchestrators.get(&member.wanted.name).map_or(u64::MAX, |view| view.clients)
            }
        };
        serving.sort_by_key(|member| (load(member), std::cmp::Reverse(member.order)));
        serving.into_iter().take(count).map(|member| member.wanted.name.clone()).collect()
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
}
