//! The input of judges for a level.

use std::collections::BTreeMap;
use std::time::Duration;

use super::book::Phase;
use super::judge::{LevelSeen, MemberSeen};
use super::moment::Moment;
use super::turn::FleetSeen;
use crate::level::Level;
use crate::provider::ResourceName;

/// The kind of an orchestrator's counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Counted {
    /// Messages that were handled.
    Handled,
    /// Messages that were lost for want of room.
    Dropped,
}

/// Owns the last reported counters of messages: by resource, orchestrator, and kind.
#[derive(Debug, Default)]
pub(super) struct MessageRates(BTreeMap<(ResourceName, ResourceName, Counted), (Moment, u64)>);

impl MessageRates {
    /// A level as it is.
    pub(super) fn seen(&mut self, level: Level, fleet: FleetSeen<'_>, lead_time: Option<Duration>) -> LevelSeen {
        let all = fleet.book.names(level, &[Phase::Serving]);
        // An attached dead resource cannot be replaced, and does no work.
        let (dead, serving): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|name| fleet.is_attached(name) && fleet.is_dead(name));
        let all_answered = fleet.all_answered();
        let members = &fleet.book.members;
        self.0.retain(|(of, by, _), _| members.contains_key(of) && members.contains_key(by));
        let mut members: Vec<MemberSeen> =
            serving.iter().map(|name| self.member_seen(level, name, all_answered, fleet)).collect();
        if level == Level::Broker {
            share_drops(&mut members);
        }
        let count = |names: &[Phase]| fleet.book.count(level, names);
        let elsewhere = fleet.book.members.values().filter(|member| member.wanted.level != level).count();
        LevelSeen {
            at: fleet.now,
            level,
            serving: u32::try_from(serving.len()).unwrap_or(u32::MAX),
            pending: count(&[Phase::Pending, Phase::Joining]),
            leaving: count(&[Phase::Draining, Phase::Leaving, Phase::Lost, Phase::Stopped])
                .saturating_add(u32::try_from(dead.len()).unwrap_or(u32::MAX)),
            elsewhere: u32::try_from(elsewhere).unwrap_or(u32::MAX),
            lead_time,
            members,
        }
    }

    fn member_seen(
        &mut self,
        level: Level,
        name: &ResourceName,
        all_answered: bool,
        fleet: FleetSeen<'_>,
    ) -> MemberSeen {
        let (sight, now) = (fleet.sight, fleet.now);
        let view = sight.orchestrators.get(name);
        let (totals, queued): (Vec<(&ResourceName, u64)>, _) = match level {
            Level::Broker => {
                let views = sight.orchestrators.iter();
                let totals = views.filter_map(|(at, view)| Some((at, view.brokers.get(name)?.sent)));
                (totals.collect(), all_answered.then(|| sight.owed(name)))
            }
            Level::Orchestrator => {
                (view.map(|view| (name, view.messages_in)).into_iter().collect(), view.map(|view| view.owed))
            }
        };
        let dropped: Option<Vec<(&ResourceName, u64)>> = match level {
            Level::Broker => {
                sight.orchestrators.iter().map(|(at, view)| Some((at, view.dropped_fleet_full?))).collect()
            }
            Level::Orchestrator => view.and_then(|view| Some(vec![(name, view.dropped?)])),
        };
        let complete = if level == Level::Broker { all_answered } else { view.is_some() };
        let rate = self.rates(name, totals, Counted::Handled, now).filter(|_| complete);
        let drops = dropped.and_then(|dropped| self.rates(name, dropped, Counted::Dropped, now)).filter(|_| complete);
        let observed = sight.resource(name);
        MemberSeen {
            name: name.clone(),
            cpu: observed.and_then(|observed| observed.cpu),
            cores: fleet.book.members.get(name).map_or(0.0, |member| member.wanted.cores),
            rate,
            queued,
            loop_lag_ms: view.and_then(|view| view.loop_lag_ms),
            drops,
            memory: observed.and_then(|observed| observed.memory),
        }
    }

    /// Messages per second of a resource, by all counters; `None` when one of them is read for the first time. Each
    /// counter has its own time, so that a gap in its readings does not look like a burst.
    fn rates(
        &mut self,
        of: &ResourceName,
        totals: Vec<(&ResourceName, u64)>,
        counted: Counted,
        now: Moment,
    ) -> Option<f64> {
        let rates: Vec<Option<f64>> =
            totals.into_iter().map(|(by, total)| self.rate((of, by, counted), total, now)).collect();
        rates.into_iter().sum()
    }

    /// Messages per second of a resource, by one counter, since it was read last; `None` at the first time.
    fn rate(
        &mut self,
        (of, by, kind): (&ResourceName, &ResourceName, Counted),
        total: u64,
        now: Moment,
    ) -> Option<f64> {
        let (before, counted) = self.0.insert((of.clone(), by.clone(), kind), (now, total))?;
        let seconds = Duration::from_millis(now.since(before)).as_secs_f64();
        // A counter that is smaller than before was reset with its process.
        let counted = total.checked_sub(counted).unwrap_or(total);
        #[expect(clippy::cast_precision_loss, reason = "a rate needs no more than 52 bits")]
        (seconds > 0.0).then(|| counted as f64 / seconds)
    }
}

/// An orchestrator that takes no more names no broker that was too slow: all of them are asked for more, each for its
/// part.
fn share_drops(members: &mut [MemberSeen]) {
    #[expect(clippy::cast_precision_loss, reason = "a fleet has far fewer than 2^52 brokers")]
    let count = members.len().max(1) as f64;
    for member in members {
        member.drops = member.drops.map(|drops| drops / count);
    }
}
