//! One policy on one trace.

use std::collections::VecDeque;

use super::judge::{Judge, Judgement};
use super::model::{Model, ModelError, TierModel};
use super::report::{Action, Observations, ProfilePoint, Report};
use super::tier::{Tier, seconds};
use super::trace::Trace;
use crate::decide::{Change, Decider, Level, PolicyName};
use crate::load::{Side, Thresholds};

/// Lets a policy work through a trace. Each level has a decider of its own; messages go through the orchestrators,
/// where there are any, to the brokers. The same inputs give the same report.
///
/// # Errors
/// When the model makes no sense.
pub fn run(trace: &Trace, model: &Model, policy: PolicyName) -> Result<Report, ModelError> {
    model.validate()?;
    let mut run = Run::new(trace, model, policy)?;
    for (now, offered) in (0..).zip(trace.seconds()) {
        run.second(now, offered);
    }
    Ok(run.finish(trace, policy))
}

/// The unfinished actions.
struct Watched {
    tier: Tier,
    judge: Judge,
    /// Actions whose resources have not arrived yet, oldest first.
    starting: VecDeque<usize>,
}

struct Run<'a> {
    model: &'a Model,
    start_s: f64,
    interval: u64,
    thresholds: Thresholds,
    /// In the order in which messages pass them.
    levels: Vec<Watched>,
    /// Messages that publishers keep until they may send them.
    kept: f64,
    actions: Vec<Action>,
    profile: Vec<ProfilePoint>,
    observations: Observations,
    elapsed: f64,
    cost: f64,
    over_provisioned: f64,
    missed_s: u64,
    under_provisioned_s: u64,
    longest_wait_s: f64,
    false_positives: u64,
    regretted_shrinks: u64,
}

impl<'a> Run<'a> {
    fn new(trace: &Trace, model: &'a Model, policy: PolicyName) -> Result<Self, ModelError> {
        let thresholds = model.settings.thresholds;
        let mut levels = Vec::with_capacity(2);
        let tiers = [(Level::Orchestrator, model.orchestrators), (Level::Broker, Some(model.brokers))];
        for (level, tier) in tiers {
            let Some(tier) = tier else { continue };
            let mut settings = model.settings.clone();
            settings.lead_time = tier.boot + tier.subscription;
            let tier = Tier::new(level, tier, Decider::new(policy, &settings)?);
            levels.push(Watched { tier, judge: Judge::new(thresholds.upper()), starting: VecDeque::new() });
        }
        Ok(Self {
            model,
            start_s: trace.start_s(),
            interval: seconds(model.settings.interval).max(1),
            thresholds,
            levels,
            kept: 0.0,
            actions: Vec::new(),
            profile: Vec::new(),
            observations: Observations::default(),
            elapsed: 0.0,
            cost: 0.0,
            over_provisioned: 0.0,
            missed_s: 0,
            under_provisioned_s: 0,
            longest_wait_s: 0.0,
            false_positives: 0,
            regretted_shrinks: 0,
        })
    }

    fn second(&mut self, now: u64, offered: f64) {
        for watched in &mut self.levels {
            for count in watched.tier.arrive(now) {
                if let Some(action) = watched.starting.pop_front() {
                    watched.judge.serves(action, now, count);
                }
            }
        }
        if now > 0 && now.is_multiple_of(self.interval) {
            self.observe(now);
        }
        self.note_profile(now);
        self.work(now, offered);
    }

    fn observe(&mut self, now: u64) {
        for place in 0..self.levels.len() {
            let elsewhere: u32 = (0..self.levels.len())
                .filter(|other| *other != place)
                .map(|other| self.levels[other].tier.allocated())
                .sum();
            let watched = &mut self.levels[place];
            let decided = watched.tier.observe(now, self.interval, elsewhere, &self.model.sla);
            if watched.tier.level == Level::Broker {
                match self.thresholds.side(decided.observed) {
                    Side::Above => self.observations.above += 1,
                    Side::Within => self.observations.within += 1,
                    Side::Below => self.observations.below += 1,
                }
            }
            let action = self.actions.len();
            let to = match decided.change {
                Change::Hold => continue,
                Change::Grow(count) => {
                    watched.starting.push_back(action);
                    decided.from + count
                }
                Change::Shrink(count) => {
                    watched.judge.removed(action, now, count);
                    decided.from - count
                }
            };
            let (level, time_s) = (watched.tier.level, self.start_s + now as f64);
            let (from, reason) = (decided.from, decided.reason);
            self.actions.push(Action { time_s, level, from, to, reason, justified: None });
        }
    }

    fn note_profile(&mut self, now: u64) {
        let mut point = ProfilePoint {
            time_s: self.start_s + now as f64,
            brokers: 0,
            brokers_allocated: 0,
            orchestrators: 0,
            orchestrators_allocated: 0,
        };
        for Watched { tier, .. } in &self.levels {
            match tier.level {
                Level::Broker => (point.brokers, point.brokers_allocated) = (tier.serving, tier.allocated()),
                Level::Orchestrator => {
                    (point.orchestrators, point.orchestrators_allocated) = (tier.serving, tier.allocated());
                }
            }
        }
        let same = |last: &ProfilePoint| ProfilePoint { time_s: point.time_s, ..*last } == point;
        if !self.profile.last().is_some_and(same) {
            self.profile.push(point);
        }
    }

    /// The messages that publishers send in a second. If their outstanding messages are limited, they send up to the limit,
    /// and one more for each message handled in this second.
    fn sent(&mut self, offered: f64) -> f64 {
        self.kept += offered;
        let outstanding: f64 = self.levels.iter().map(|watched| watched.tier.backlog).sum();
        let handled = self.levels.first().map_or(0.0, |watched| watched.tier.capacity());
        let most = self.model.outstanding.map_or(f64::INFINITY, |most| (most - outstanding).max(0.0) + handled);
        let sent = self.kept.min(most);
        self.kept -= sent;
        sent
    }

    fn work(&mut self, now: u64, offered: f64) {
        let mut reaching = self.sent(offered);
        let mut coming = offered;
        let mut wait_s = self.levels.first().map_or(0.0, |watched| self.kept / watched.tier.capacity());
        let mut under = false;
        for place in 0..self.levels.len() {
            let watched = &mut self.levels[place];
            under |= coming > watched.tier.capacity();
            reaching = watched.tier.work(reaching);
            wait_s += watched.tier.wait_s();
            let allocated = f64::from(watched.tier.allocated());
            let needed = (coming / watched.tier.capacity_of_one() / self.thresholds.upper()).ceil().max(1.0);
            self.cost += allocated;
            self.over_provisioned += (allocated - needed).max(0.0);
            let judgements = watched.judge.look(now, coming, &watched.tier);
            self.note(judgements);
            coming = reaching;
        }
        self.elapsed += 1.0;
        self.longest_wait_s = self.longest_wait_s.max(wait_s);
        self.under_provisioned_s += u64::from(under);
        self.missed_s += u64::from(offered > 0.0 && wait_s > self.model.deadline.as_secs_f64());
    }

    fn note(&mut self, judgements: Vec<Judgement>) {
        for judgement in judgements {
            let (action, justified) = match judgement {
                Judgement::Needed(action) | Judgement::NotMissed(action) => (action, true),
                Judgement::Needless(action) => {
                    self.false_positives += 1;
                    (action, false)
                }
                Judgement::Missed(action) => {
                    self.regretted_shrinks += 1;
                    (action, false)
                }
            };
            if let Some(action) = self.actions.get_mut(action) {
                action.justified = Some(justified);
            }
        }
    }

    /// The serving resources work off the backlog at the end of the trace.
    fn finish(self, trace: &Trace, policy: PolicyName) -> Report {
        let mut queues: Vec<(f64, f64)> =
            self.levels.iter().map(|watched| (watched.tier.backlog, watched.tier.capacity())).collect();
        if let Some((backlog, _)) = queues.first_mut() {
            *backlog += self.kept;
        }
        let rest_s = rest_s(&queues);
        let allocated: u32 = self.levels.iter().map(|watched| watched.tier.allocated()).sum();
        let time_s = self.elapsed + rest_s;
        let cost = self.cost + rest_s * f64::from(allocated);
        let resource = cost / time_s;
        let ones: Vec<TierModel> = [self.model.orchestrators, Some(self.model.brokers)].into_iter().flatten().collect();
        let alone_s = alone_s(trace, &ones);
        let brokers = self.levels.iter().find(|watched| watched.tier.level == Level::Broker);
        let resources_alone = self.levels.iter().map(|_| 1.0).sum::<f64>();
        Report {
            policy,
            time_s,
            resource,
            cost,
            efficiency: alone_s / time_s * (resources_alone / resource),
            missed_s: self.missed_s,
            under_provisioned_s: self.under_provisioned_s,
            over_provisioned: self.over_provisioned,
            dropped: self.levels.iter().map(|watched| watched.tier.dropped_in_all).sum(),
            longest_wait_s: self.longest_wait_s,
            handovers_per_client_hour: moved(&self.profile) * 3600.0 / self.elapsed.max(1.0),
            unjudged: self.actions.iter().map(|action| u64::from(action.justified.is_none())).sum(),
            actions: self.actions,
            false_positives: self.false_positives,
            regretted_shrinks: self.regretted_shrinks,
            observations: self.observations,
            brokers_at_the_end: brokers.map_or(0, |watched| watched.tier.serving),
            most_brokers: self.profile.iter().map(|point| point.brokers_allocated).max().unwrap_or(0),
            profile: self.profile,
        }
    }
}

/// How often a client has had to move, as brokers began and ceased to serve: with all brokers equally full before and
/// after, a new one gets its share from the others, and a removed one gives its own away.
pub(super) fn moved(profile: &[ProfilePoint]) -> f64 {
    let changes = profile.windows(2).map(|pair| (pair[0].brokers, pair[1].brokers));
    // An empty sum would be -0.
    changes.fold(0.0, |sum, (from, to)| sum + f64::from(from.abs_diff(to)) / f64::from(from.max(to).max(1)))
}

/// How long queues one after the other take to become empty, each a backlog and a capacity: the slowest of the
/// remaining work of each.
fn rest_s(queues: &[(f64, f64)]) -> f64 {
    let mut passing = 0.0;
    let mut longest = 0.0_f64;
    for (backlog, capacity) in queues {
        passing += backlog;
        longest = longest.max(passing / capacity);
    }
    longest
}

/// The time of one resource per level for a trace.
fn alone_s(trace: &Trace, ones: &[TierModel]) -> f64 {
    let mut queues: Vec<(f64, f64)> = ones.iter().map(|tier| (0.0, tier.capacity)).collect();
    let mut elapsed = 0.0;
    for offered in trace.seconds() {
        let mut reaching = offered;
        for (backlog, capacity) in &mut queues {
            let waiting = *backlog + reaching;
            reaching = waiting.min(*capacity);
            *backlog = waiting - reaching;
        }
        elapsed += 1.0;
    }
    elapsed + rest_s(&queues)
}
