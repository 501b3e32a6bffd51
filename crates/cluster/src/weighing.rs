//! Shares by measures: the factors that bring each member's measured amount to the wanted one.
//!
//! Each member has a factor beside its configured weight. Each change of the factors starts from the present
//! partitions, so an error never adds up. Four bounds keep clients where they are. Changes begin when a member is off
//! by `start`, and end when all are within `stop`. Each change moves at most [`PARTITIONS_PER_CHANGE`], and must be
//! worth its moves. A pause lies between the end of the moves of one change and the next change. Only measures taken
//! while no partition moved enter the average. Amounts that are counts have a fifth bound: deviations by chance change
//! nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::{Factor, Homes, Seen, Table, balance};

/// Maximum number of partitions that one change of the factors moves: a sixteenth of all.
pub const PARTITIONS_PER_CHANGE: usize = 64;

/// Least and greatest correction of a share by one change.
const STEP: (f64, f64) = (0.5, 2.0);

/// Minimum number of measures of a member before its share changes, all taken while no partition moved.
const LEAST_MEASURES: f64 = 4.0;

/// Deviation by chance, in square roots of a wanted count: changes begin beyond the first, and end within the second. A
/// random count has the square root of its mean as its standard deviation.
const CHANCE: (f64, f64) = (2.0, 1.0);

/// A measure of a member. The unit is the same for all members.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Burden {
    /// The measured amount.
    pub has: f64,
    /// The wanted amount.
    pub wanted: f64,
}

/// The bounds of changes. Parts are of the wanted amount.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WeighingSettings {
    /// Deviation of a member, as a part, beyond which changes begin.
    pub start: f64,
    /// Deviation, as a part, within which all members have to be for changes to end; below `start`.
    pub stop: f64,
    /// The part of a deviation that one change covers, above 0 and up to 1.
    pub gain: f64,
    /// Time between the end of the moves of one change and the next change.
    pub pause: Duration,
    /// Maximum age of a measure at its arrival: for this time after a move, measures may be from before its end.
    pub oldest: Duration,
    /// For counts: the average wanted count below which all deviations are by chance. `None` for amounts that are no
    /// counts.
    pub least_count: Option<f64>,
    /// Weight of a new measure in the average, above 0 and up to 1.
    pub smoothing: f64,
}

/// Computes the factors of members. Its state is the leader's: another leader begins with a pause.
#[derive(Clone, Debug, Default)]
pub struct Weighing {
    /// True from a deviation beyond `start` until all are within `stop`.
    works: bool,
    /// Time since which no partition moves and no factor changes, as far as this leader has seen.
    calm_since: Option<Duration>,
    /// The homes at the last call.
    homes: Arc<Homes>,
    /// Averages of measures without moves, each with the number of measures.
    averages: BTreeMap<String, (f64, Burden)>,
}

/// A member that takes partitions.
struct Holder<'a> {
    name: &'a str,
    /// Number of its partitions.
    load: f64,
    weight: u64,
    burden: Burden,
}

impl Weighing {
    /// The next factors, or `None` if the present ones stay: also while a member is not measured, leaves, or partitions
    /// move. `now` is a monotonic time.
    pub fn look(
        &mut self,
        now: Duration,
        settings: &WeighingSettings,
        table: &Table,
        seen: &Seen,
        burdens: &BTreeMap<String, Burden>,
    ) -> Option<BTreeMap<String, Factor>> {
        let calm = self.calm_for(now, table, seen);
        if calm <= settings.oldest {
            return None;
        }
        self.average(settings.smoothing, burdens);
        if calm < settings.pause {
            return None;
        }
        let measured = |(count, burden): (f64, Burden)| (count >= LEAST_MEASURES).then_some(burden);
        let holders = holders(table, seen, |name| measured(*self.averages.get(name)?))?;
        let limit = settings.limit(self.works, &holders);
        self.works = holders.iter().any(|it| limit.is_beyond(it.burden));
        if !self.works {
            return None;
        }
        let shares = wanted_shares(&holders, settings.gain);
        let factors = factors(&holders, &shares);
        let next = placed(table, &holders, &factors);
        if !is_worth_it(&holders, &next) {
            // The rest is smaller than a whole partition.
            self.works = false;
            return None;
        }
        self.rest(now);
        Some(factors)
    }

    /// The next factors if weights alone decide, but factors of another configuration remain: each change moves as
    /// little as a change by measures. `None` if the present ones stay. `now` is a monotonic time.
    pub fn relax(
        &mut self,
        now: Duration,
        pause: Duration,
        table: &Table,
        seen: &Seen,
    ) -> Option<BTreeMap<String, Factor>> {
        let calm = self.calm_for(now, table, seen);
        if table.factors.is_empty() || calm < pause {
            return None;
        }
        let holders = holders(table, seen, |_| Some(Burden::default()))?;
        let weights: u64 = holders.iter().map(|it| it.weight).sum();
        let all: f64 = holders.iter().map(|it| it.load).sum();
        let aims: Vec<f64> = holders.iter().map(|it| all * of_weights(it.weight, weights)).collect();
        let moved = moved(&holders, &aims);
        self.rest(now);
        // The last step removes all factors, also of absent members.
        if moved <= real(PARTITIONS_PER_CHANGE) {
            return Some(table.factors.keys().map(|name| (name.clone(), Factor::NONE)).collect());
        }
        Some(factors(&holders, &limited(&holders, &aims)))
    }

    /// Time since the last move. Measures from before and during moves say nothing about the later shares.
    fn calm_for(&mut self, now: Duration, table: &Table, seen: &Seen) -> Duration {
        let is_calm =
            seen.may_move && seen.may_balance && table.open_moves().next().is_none() && self.homes == table.homes;
        if !is_calm {
            self.homes = table.homes.clone();
            self.rest(now);
        }
        now.saturating_sub(*self.calm_since.get_or_insert(now))
    }

    /// Begins a pause.
    fn rest(&mut self, now: Duration) {
        self.calm_since = Some(now);
        self.averages.clear();
    }

    /// The first measures are averaged evenly, later ones enter by `smoothing`.
    fn average(&mut self, smoothing: f64, burdens: &BTreeMap<String, Burden>) {
        let before = std::mem::take(&mut self.averages);
        let of = |(name, new): (&String, &Burden)| {
            let (count, old) = before.get(name).copied().unwrap_or((0.0, *new));
            let part = (1.0 / (count + 1.0)).max(smoothing);
            let mixed = |old: f64, new: f64| old + (new - old) * part;
            let burden = Burden { has: mixed(old.has, new.has), wanted: mixed(old.wanted, new.wanted) };
            (name.clone(), (count + 1.0, burden))
        };
        let is_usable = |(_, burden): &(&String, &Burden)| is_amount(burden.has) && is_amount(burden.wanted);
        self.averages = burdens.iter().filter(is_usable).map(of).collect();
    }

    /// True while deviations are too large, as far as is known.
    pub fn works(&self) -> bool {
        self.works
    }
}

/// The allowed deviation of a member.
struct Limit {
    /// As a part of the wanted amount.
    part: f64,
    /// In square roots of the wanted amount.
    chance: f64,
    /// The amounts are too small: no member is off.
    is_idle: bool,
}

impl Limit {
    fn is_beyond(&self, Burden { has, wanted }: Burden) -> bool {
        let off = (has - wanted).abs();
        !self.is_idle && off > wanted * self.part && off > wanted.sqrt() * self.chance
    }
}

impl WeighingSettings {
    /// The limit for members, which is smaller while shares are being changed (`works`).
    fn limit(&self, works: bool, holders: &[Holder<'_>]) -> Limit {
        let (part, chance) = if works { (self.stop, CHANCE.1) } else { (self.start, CHANCE.0) };
        let Some(least) = self.least_count else { return Limit { part, chance: 0.0, is_idle: false } };
        let all: f64 = holders.iter().map(|it| it.burden.wanted).sum();
        Limit { part, chance, is_idle: all < least * real(holders.len()) }
    }
}

/// The members that take partitions; `None` while one of them has no measure or leaves.
fn holders<'a>(table: &'a Table, seen: &Seen, measure: impl Fn(&str) -> Option<Burden>) -> Option<Vec<Holder<'a>>> {
    let loads = balance::loads(table);
    let holder = |name: &'a String| {
        let advert = seen.present(name).filter(|advert| !advert.leaving)?;
        let burden = measure(name)?;
        let load = real(loads.get(name).copied().unwrap_or_default());
        Some(Holder { name, load, weight: advert.weight.counted(), burden })
    };
    table.lives.keys().map(holder).collect::<Option<Vec<_>>>().filter(|all| all.len() > 1)
}

fn is_amount(number: f64) -> bool {
    number.is_finite() && number >= 0.0
}

/// The wanted shares of members, limited to the moves of one change.
fn wanted_shares(holders: &[Holder<'_>], gain: f64) -> Vec<f64> {
    let all: f64 = holders.iter().map(|it| it.load).sum();
    let weights: u64 = holders.iter().map(|it| it.weight).sum();
    let aim = |it: &Holder<'_>| {
        let Burden { has, wanted } = it.burden;
        // A member without partitions has no amount to measure.
        if it.load < 1.0 {
            return all * of_weights(it.weight, weights);
        }
        let ratio = if has > 0.0 {
            wanted / has
        } else if wanted > 0.0 {
            STEP.1
        } else {
            1.0
        };
        it.load * ratio.powf(gain).clamp(STEP.0, STEP.1)
    };
    let aims: Vec<f64> = holders.iter().map(aim).collect();
    let sum: f64 = aims.iter().sum();
    let aims: Vec<f64> = aims.iter().map(|aim| aim / sum * all).collect();
    limited(holders, &aims)
}

/// Number of partitions that have to move for these numbers.
fn moved(holders: &[Holder<'_>], aims: &[f64]) -> f64 {
    holders.iter().zip(aims).map(|(it, aim)| (aim - it.load).max(0.0)).sum()
}

/// The shares nearest to these numbers that one change can reach.
fn limited(holders: &[Holder<'_>], aims: &[f64]) -> Vec<f64> {
    let all: f64 = holders.iter().map(|it| it.load).sum();
    let part = (real(PARTITIONS_PER_CHANGE) / moved(holders, aims).max(1.0)).min(1.0);
    holders.iter().zip(aims).map(|(it, aim)| (it.load + (aim - it.load) * part) / all).collect()
}

/// The factors that make these shares of the configured weights.
fn factors(holders: &[Holder<'_>], shares: &[f64]) -> BTreeMap<String, Factor> {
    let weights: u64 = holders.iter().map(|it| it.weight).sum();
    let factor =
        |(it, share): (&Holder<'_>, &f64)| (it.name.to_owned(), Factor::of(share / of_weights(it.weight, weights)));
    holders.iter().zip(shares).map(factor).collect()
}

/// The partitions of the members with these factors, in their order.
fn placed(table: &Table, holders: &[Holder<'_>], factors: &BTreeMap<String, Factor>) -> Vec<usize> {
    let names: Vec<String> = holders.iter().map(|it| it.name.to_owned()).collect();
    let loads = balance::loads(table);
    let total = names.iter().filter_map(|name| loads.get(name)).sum();
    let weight = |it: &Holder<'_>| it.weight * factors.get(it.name).copied().unwrap_or_default().counted();
    let weights: BTreeMap<&str, u64> = holders.iter().map(|it| (it.name, weight(it))).collect();
    let shares = balance::shares(&loads, &names, total, |name| weights.get(name).copied().unwrap_or_default());
    names.iter().map(|name| shares.get(name).copied().unwrap_or_default()).collect()
}

/// True if the moves reduce the squared deviations enough: for a single partition, if its members differ by a quarter
/// more than its amount. With a smaller difference it would only change places.
fn is_worth_it(holders: &[Holder<'_>], next: &[usize]) -> bool {
    let all: f64 = holders.iter().map(|it| it.load).sum();
    let amount: f64 = holders.iter().map(|it| it.burden.has).sum();
    let usual = amount / all;
    let [mut before, mut after, mut moved] = [0.0; 3];
    for (it, next) in holders.iter().zip(next) {
        let (Burden { has, wanted }, next) = (it.burden, real(*next));
        let of_one = if it.load < 1.0 { usual } else { has / it.load };
        before += (has - wanted).powi(2);
        after += (of_one * next - wanted).powi(2);
        moved += (next - it.load).max(0.0);
    }
    moved >= 1.0 && before - after >= moved * usual.powi(2) / 2.0
}

#[expect(clippy::cast_precision_loss, reason = "weights are small")]
fn of_weights(weight: u64, all: u64) -> f64 {
    weight as f64 / all.max(1) as f64
}

#[expect(clippy::cast_precision_loss, reason = "numbers of partitions are small")]
fn real(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests;
