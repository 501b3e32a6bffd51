//! Gives up dead orchestrators after a limit.
//!
//! A dead orchestrator is started again on its stored state, up to a limit. Then it is given up: any remaining process of
//! it is ended first, and its stored state is set aside for a person. Other members of its cluster have taken over its
//! partitions meanwhile, with all acknowledged messages. Where there is no other member, and none that can still be started
//! again, a new one is started first.

use std::time::Duration;

use super::action::{Action, Kind};
use super::begin::Beginning;
use super::book::{Member, Phase, Record};
use super::moment::Moment;
use super::recorder::Recorder;
use super::turn::FleetSeen;
use crate::level::Level;
use crate::provider::ResourceName;

/// Attempts at starting it again that must have failed before an orchestrator is given up: time alone passes also while
/// a machine is off.
const LEAST_ATTEMPTS: u32 = 3;

/// How long a dead orchestrator is still tried to be started again; `None` for one that is alive.
pub(super) fn restart_left(member: &Member, limit: Duration, now: Moment) -> Option<Duration> {
    let since = member.lost_since.filter(|_| member.wanted.level == Level::Orchestrator)?;
    Some(limit.saturating_sub(Duration::from_millis(now.since(since))))
}

impl Beginning<'_> {
    /// Gives up orchestrators whose time is over, if other members serve. Otherwise starts a member that takes over.
    pub(super) fn give_up(&mut self, level: Level) -> Option<String> {
        let fleet = self.fleet();
        let first = fleet.beyond_restart(level)?;
        if !fleet.has_heirs() {
            return self.start_heir(level, &first);
        }
        let attempts = fleet.book.members.get(&first).map_or(0, |member| member.failed_restarts);
        let limit = fleet.settings.restart_limit.as_secs();
        let reason = format!(
            "{first} could not be restarted within {limit} s, in {attempts} attempts: its stored state is set aside, and other orchestrators serve its partitions"
        );
        // One at a time: giving up one is independent of the others.
        Some(self.begin_action(Kind::GiveUp, level, vec![first], Vec::new(), &reason))
    }

    /// Starts an orchestrator in place of the last one, `dead`, which cannot be restarted. It takes the partitions over from
    /// the bus. The limit of `dead` begins again, with restarts meanwhile: the new one may fail, too.
    fn start_heir(&mut self, level: Level, dead: &ResourceName) -> Option<String> {
        if self.fleet().may_serve_again(level) {
            return None;
        }
        let heir = self.new_member(level)?;
        let limit = self.turn.settings.restart_limit.as_secs();
        let reason = format!(
            "{dead} could not be restarted within {limit} s, and no other orchestrator serves: {heir} takes over its partitions"
        );
        self.recorder.wait_again(std::slice::from_ref(dead), self.turn.now);
        Some(self.begin_action(Kind::ScaleOut, level, vec![heir], Vec::new(), &reason))
    }
}

impl FleetSeen<'_> {
    /// The next orchestrator to be given up.
    fn beyond_restart(&self, level: Level) -> Option<ResourceName> {
        if level != Level::Orchestrator || self.settings.stack(level).is_some() {
            return None;
        }
        let given_up = self.book.level(level).find(|member| self.is_beyond_restart(member));
        given_up.map(|member| member.wanted.name.clone())
    }

    /// Whether an orchestrator is dead and was tried to be started again often enough and long enough.
    fn is_beyond_restart(&self, member: &Member) -> bool {
        let name = &member.wanted.name;
        matches!(member.phase, Phase::Lost | Phase::Stopped)
            && member.failed_restarts >= LEAST_ATTEMPTS
            && restart_left(member, self.settings.restart_limit, self.now) == Some(Duration::ZERO)
            && self.is_dead(name)
            && !self.is_attached(name)
    }

    /// Whether a member of a level lives, or is dead and has still to be started again. The manager starts no
    /// attached one.
    fn may_serve_again(&self, level: Level) -> bool {
        let may = |member: &Member| match member.phase {
            Phase::Pending | Phase::Joining => !self.is_dead(&member.wanted.name),
            Phase::Serving | Phase::Lost | Phase::Stopped => {
                let is_lost = self.is_dead(&member.wanted.name) && self.is_attached(&member.wanted.name);
                !is_lost && !self.is_beyond_restart(member)
            }
            Phase::Draining | Phase::Leaving => false,
        };
        self.book.level(level).any(may)
    }

    /// The dead orchestrators that the next action restarts: all that were not tried yet, then one at a time, the least
    /// tried first, so that one that does not start delays no other.
    pub(super) fn next_to_restart(&self, dead: Vec<ResourceName>) -> Vec<ResourceName> {
        let failed = |name: &ResourceName| self.book.members.get(name).map_or(0, |member| member.failed_restarts);
        let (new, tried): (Vec<_>, Vec<_>) = dead.into_iter().partition(|name| failed(name) == 0);
        if new.is_empty() { tried.into_iter().min_by_key(failed).into_iter().collect() } else { new }
    }
}

impl Recorder {
    /// Begins the limit of dead orchestrators again, with restarts meanwhile.
    pub(super) fn wait_again(&mut self, names: &[ResourceName], now: Moment) {
        for name in names {
            let Some(member) = self.book().members.get(name) else { continue };
            let member = Member { lost_since: Some(now), failed_restarts: 0, ..member.in_phase(Phase::Lost, now) };
            self.record(Record::Member(member));
        }
    }

    /// Orchestrators that an action could not restart stay dead.
    pub(super) fn note_failed_restart(&mut self, action: &Action, now: Moment) {
        let phase = if action.kind == Kind::Resume { Phase::Stopped } else { Phase::Lost };
        for name in &action.targets {
            let Some(member) = self.book().members.get(name) else { continue };
            let mut member = if member.phase == phase { member.clone() } else { member.in_phase(phase, now) };
            member.lost_since.get_or_insert(now);
            member.failed_restarts = member.failed_restarts.saturating_add(1);
            self.record(Record::Member(member));
        }
    }
}
