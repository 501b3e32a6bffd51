//! Even shares with few moves.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::table::MOVES_PER_TABLE;
use crate::{Move, Seen, Table};

/// Partitions that move at once from one node to another: while they move, no node serves them.
pub const MOVE_AT_ONCE: usize = 128;

/// Begins moves from nodes that have more than their share to nodes that have less; while shares may not be made even
/// only from nodes that leave. A node takes part in one move at a time. The partitions of an absent node stay until it is back,
/// or dead.
pub(crate) fn plan(next: &mut Table, seen: &Seen, [willing, leaving]: [&[String]; 2], epoch: u64) {
    if willing.is_empty() {
        return;
    }
    let mut loads = loads(next);
    loads.retain(|name, _| willing.contains(name) || leaving.contains(name));
    for name in willing.iter().chain(leaving) {
        loads.entry(name.clone()).or_default();
    }
    let mut shares = shares(&loads, willing, loads.values().sum(), |name| next.weight(name, seen.weight(name)));
    shares.extend(leaving.iter().map(|name| (name.clone(), 0)));
    let gives = |name: &str| seen.may_balance || leaving.iter().any(|it| it == name);
    let mut number = 0;
    while number < MOVES_PER_TABLE {
        let Some(it) = widest(next, &loads, &shares, gives) else { return };
        // Both are busy from now on: their loads are not looked at again.
        let it = Move { id: epoch * MOVES_PER_TABLE + number, ..it };
        if seen.present(&it.from).is_some_and(|advert| advert.prepares) {
            next.preparing.push(it);
        } else {
            next.moves.push(it);
        }
        number += 1;
    }
}

/// Begins the moves whose old homes have prepared them.
pub(crate) fn begin_prepared(next: &mut Table, seen: &Seen) {
    let is_prepared = |it: &Move| seen.present(&it.from).is_some_and(|advert| advert.prepared.contains(&it.id));
    let (prepared, preparing) = std::mem::take(&mut next.preparing).into_iter().partition(is_prepared);
    next.preparing = preparing;
    next.moves.extend::<Vec<Move>>(prepared);
}

/// The number of partitions of each node after all moves under way.
pub(crate) fn loads(table: &Table) -> BTreeMap<String, usize> {
    let mut loads: BTreeMap<&str, usize> = BTreeMap::new();
    for (home, count) in table.homes.shares() {
        *loads.entry(&home.node).or_default() += count;
    }
    for it in table.open_moves() {
        *loads.entry(&it.to).or_default() += it.partitions.len();
        let from = loads.entry(&it.from).or_default();
        *from = from.saturating_sub(it.partitions.len());
    }
    loads.into_iter().map(|(name, load)| (name.to_owned(), load)).collect()
}

/// The number of partitions that each node should have of `total`: its weight's part, rounded down, and one more at the
/// nodes that lose most by rounding. Of nodes that lose the same, those are first that already have most above their parts.
pub(crate) fn shares(
    loads: &BTreeMap<String, usize>,
    willing: &[String],
    total: usize,
    weight: impl Fn(&str) -> u64,
) -> BTreeMap<String, usize> {
    let weights: u64 = willing.iter().map(|name| weight(name)).sum();
    let part = |name: &String| total as u64 * weight(name);
    let mut by_rest: Vec<(&String, usize, u64)> = Vec::new();
    for name in willing {
        let (whole, rest) = (part(name) / weights.max(1), part(name) % weights.max(1));
        by_rest.push((name, whole as usize, rest));
    }
    // With `total` added it is never below 0.
    let above = |name: &String, whole: usize| loads.get(name).copied().unwrap_or(0) + total - whole;
    by_rest.sort_by_key(|(name, whole, rest)| (Reverse(*rest), Reverse(above(name, *whole)), *name));
    let more = total - by_rest.iter().map(|(_, whole, _)| whole).sum::<usize>().min(total);
    let ranked = by_rest.into_iter().enumerate();
    ranked.map(|(rank, (name, whole, _))| (name.clone(), whole + usize::from(rank < more))).collect()
}

/// The move from the node with most too many to the node with most too few, among nodes that take part in no move.
fn widest(
    table: &Table,
    loads: &BTreeMap<String, usize>,
    shares: &BTreeMap<String, usize>,
    gives: impl Fn(&str) -> bool,
) -> Option<Move> {
    let idle = |name: &&String| table.open_moves().all(|it| it.from != **name && it.to != **name);
    let by = |over: fn(usize, usize) -> usize, may: &dyn Fn(&str) -> bool| {
        let of = |map: &BTreeMap<String, usize>, name: &String| map.get(name).copied().unwrap_or(0);
        let amount = |name: &String| over(of(loads, name), of(shares, name));
        let most = shares.keys().filter(idle).filter(|name| may(name)).max_by_key(|name| amount(name))?;
        Some((most.clone(), amount(most))).filter(|(_, amount)| *amount > 0)
    };
    let (from, surplus) = by(usize::saturating_sub, &gives)?;
    let (to, room) = by(|has, share| share.saturating_sub(has), &|_| true)?;
    // Partitions still to be fetched cannot be sent.
    let since = |partition: &u16| table.home(*partition).filter(|home| home.former.is_empty()).map(|home| home.since);
    let whole = table.of(&from).into_iter().filter_map(|partition| Some((since(&partition)?, partition)));
    // The partitions that stayed for longest go first, so that no client is moved again and again.
    let mut whole: Vec<(u64, u16)> = whole.collect();
    whole.sort_unstable();
    whole.truncate(surplus.min(room).min(MOVE_AT_ONCE));
    let mut partitions: Vec<u16> = whole.into_iter().map(|(_, partition)| partition).collect();
    partitions.sort_unstable();
    (!partitions.is_empty()).then_some(Move { id: 0, partitions, from, to })
}
