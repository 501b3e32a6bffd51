//! Shares by measures: how much each member has of something, and how much of it it should have.
//!
//! A factor for each member, beside its configured weight, brings its share nearer to the wanted one. Each change of the
//! factors starts from the partitions that members have, so an error never adds up. Four bounds keep clients where they
//! are: nothing changes before a member is off by `start`, and changes end when all are within `stop`; each change moves at
//! most [`PARTITIONS_PER_CHANGE`], and is made only where its moves are worth it; between two changes lies a pause; and
//! measures are averaged.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{Factor, Seen, Table, balance};

/// Most partitions that one change of the factors moves: a sixteenth of all.
pub const PARTITIONS_PER_CHANGE: usize = 64;

/// Least and greatest correction of a share by one change.
const STEP: (f64, f64) = (0.5, 2.0);

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
    /// Time between two changes.
    pub pause: Duration,
    /// How much of a new measure enters the average, above 0 and up to 1.
    pub smoothing: f64,
}

/// Decides the factors of members. Its state is the leader's: another leader begins with a pause.
#[derive(Clone, Debug, Default)]
pub struct Weighing {
    /// A member was off by `start`, and not all are within `stop` since.
    works: bool,
    /// When the factors changed last, or the leader began.
    changed: Option<Duration>,
    /// Averages since the last change, each of so many measures.
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
        let since = *self.changed.get_or_insert(now);
        self.average(settings.smoothing, burdens);
        let is_calm = seen.may_move && seen.may_balance && table.moves.is_empty();
        if !is_calm || now.saturating_sub(since) < settings.pause {
            return None;
        }
        let holders = holders(table, seen, &self.averages)?;
        let limit = if self.works { settings.stop } else { settings.start };
        self.works = holders.iter().any(|it| is_off(it.burden, limit));
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
        self.changed = Some(now);
        self.averages.clear();
        Some(factors)
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

fn is_off(burden: Burden, part: f64) -> bool {
    (burden.has - burden.wanted).abs() > burden.wanted * part
}

/// The members that take partitions; `None` while one of them is not measured, or one leaves.
fn holders<'a>(table: &'a Table, seen: &Seen, averages: &BTreeMap<String, (f64, Burden)>) -> Option<Vec<Holder<'a>>> {
    let loads = balance::loads(table);
    let holder = |name: &'a String| {
        let advert = seen.present(name).filter(|advert| !advert.leaving)?;
        let (_, burden) = *averages.get(name)?;
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
    let mut shares: Vec<f64> = aims.iter().map(|aim| aim / sum * all).collect();
    let moved: f64 = holders.iter().zip(&shares).map(|(it, share)| (share - it.load).max(0.0)).sum();
    let part = (real(PARTITIONS_PER_CHANGE) / moved.max(1.0)).min(1.0);
    for (it, share) in holders.iter().zip(&mut shares) {
        *share = (it.load + (*share - it.load) * part) / all;
    }
    shares
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
