//! Shares by measures: how much each member has of something, and how much of it it should have.
//!
//! A factor for each member, beside its configured weight, brings its share nearer to the wanted one. Each change of the
//! factors starts from the partitions that members have, so an error never adds up. Four bounds keep clients where they
//! are: nothing changes before a member is off by `start`, and changes end when all are within `stop`; each change moves at
//! most [`PARTITIONS_PER_CHANGE`], and is made only where its moves are worth it; a pause lies between the end of the moves
//! of one change and the next change; and measures are averaged that were taken while no partition moved. Amounts that
//! are counts have a fifth bound: deviations that chance alone brings change nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::{Factor, Homes, Seen, Table, balance};

/// Most partitions that one change of the factors moves: a sixteenth of all.
pub const PARTITIONS_PER_CHANGE: usize = 64;

/// Least and greatest correction of a share by one change.
const STEP: (f64, f64) = (0.5, 2.0);

/// Fewest measures of a member from which shares follow, all taken while no partition moved.
const LEAST_MEASURES: f64 = 4.0;

/// Square roots of a wanted count by which chance puts members off: changes begin beyond the first, and end within the
/// second. A count that chance decides has the square root of its mean as its standard deviation.
const CHANCE: (f64, f64) = (2.0, 1.0);

/// A measure of a member. The unit is the same for all members.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Burden {
    /// How much it has.
    pub has: f64,
    /// How much it should have.
    pub wanted: f64,
}

/// When shares follow measures. Parts are of the wanted amount.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WeighingSettings {
    /// By which part a member has to be off before factors change.
    pub start: f64,
    /// Within which part all members have to be for the changes to end; below `start`.
    pub stop: f64,
    /// Which part of a deviation one change covers, above 0 and up to 1.
    pub gain: f64,
    /// Time between the end of the moves of one change and the next change.
    pub pause: Duration,
    /// How old a measure may be when it arrives: for so long after a move, measures may be from before its end.
    pub oldest: Duration,
    /// Amounts are counts, and members that should have fewer than this on the average are as they are by chance. `None`
    /// for amounts that are no counts.
    pub least_count: Option<f64>,
    /// How much of a new measure enters the average, above 0 and up to 1.
    pub smoothing: f64,
}

/// Decides the factors of members. Its state is the leader's: another leader begins with a pause.
#[derive(Clone, Debug, Default)]
pub struct Weighing {
    /// A member was off by `start`, and not all are within `stop` since.
    works: bool,
    /// Since when no partition moves and no factor changes, as far as this leader has looked.
    calm_since: Option<Duration>,
    /// The homes at the last look.
    homes: Arc<Homes>,
    /// Averages while it was calm, each of so many measures.
    averages: BTreeMap<String, (f64, Burden)>,
}

/// A member that takes partitions.
struct Holder<'a> {
    name: &'a str,
    /// Partitions.
    load: f64,
    weight: u64,
    burden: Burden,
}

impl Weighing {
    /// The factors that come next, or `None` where the present ones stay: also while a member is not measured, leaves,
    /// or partitions move. `now` is a monotonic time.
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
            // Whole partitions cannot mend the rest.
            self.works = false;
            return None;
        }
        self.rest(now);
        Some(factors)
    }

    /// The factors that come next where weights alone decide, and factors of another configuration are left: each change
    /// moves as little as one by measures. `None` where the present ones stay. `now` is a monotonic time.
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
        // The last step, and the factors of members that are away: none is left.
        if moved <= real(PARTITIONS_PER_CHANGE) {
            return Some(table.factors.keys().map(|name| (name.clone(), Factor::NONE)).collect());
        }
        Some(factors(&holders, &limited(&holders, &aims)))
    }

    /// For how long nothing has moved. Measures from before and during moves tell nothing of the shares that follow.
    fn calm_for(&mut self, now: Duration, table: &Table, seen: &Seen) -> Duration {
        let is_calm = seen.may_move && seen.may_balance && table.moves.is_empty() && self.homes == table.homes;
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

    /// Whether members are off by more than they should be, as far as is known.
    pub fn works(&self) -> bool {
        self.works
    }
}

/// By how much a member may be off.
struct Limit {
    /// Of the wanted amount.
    part: f64,
    /// Of its square root.
    chance: f64,
    /// No member is off: the amounts are too small.
    is_idle: bool,
}

impl Limit {
    fn is_beyond(&self, Burden { has, wanted }: Burden) -> bool {
        let off = (has - wanted).abs();
        !self.is_idle && off > wanted * self.part && off > wanted.sqrt() * self.chance
    }
}

impl WeighingSettings {
    /// The limit for members while shares are (`works`) or are not being changed.
    fn limit(&self, works: bool, holders: &[Holder<'_>]) -> Limit {
        let (part, chance) = if works { (self.stop, CHANCE.1) } else { (self.start, CHANCE.0) };
        let Some(least) = self.least_count else { return Limit { part, chance: 0.0, is_idle: false } };
        let all: f64 = holders.iter().map(|it| it.burden.wanted).sum();
        Limit { part, chance, is_idle: all < least * real(holders.len()) }
    }
}

/// The members that take partitions; `None` while one of them has no measure, or one leaves.
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

/// The parts of the partitions that members should have, at most so many away from the present ones as a change may
/// move.
fn wanted_shares(holders: &[Holder<'_>], gain: f64) -> Vec<f64> {
    let all: f64 = holders.iter().map(|it| it.load).sum();
    let weights: u64 = holders.iter().map(|it| it.weight).sum();
    let aim = |it: &Holder<'_>| {
        let Burden { has, wanted } = it.burden;
        // A member without partitions has nothing that could be measured.
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

/// How many partitions have to move for these numbers.
fn moved(holders: &[Holder<'_>], aims: &[f64]) -> f64 {
    holders.iter().zip(aims).map(|(it, aim)| (aim - it.load).max(0.0)).sum()
}

/// The parts of the partitions that come nearest to these numbers by one change.
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

/// Whether the moves take away enough of the squared deviations: for a single partition, if its members differ by a
/// quarter more than it brings. If they differed by no more than that, it would only change places.
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
