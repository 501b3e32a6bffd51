//! The leader's part: which table comes next.

mod ended;

use std::collections::BTreeMap;

use crate::apart::together;
use crate::returned::with_brokers;
use crate::table::is_at;
use crate::{Advert, Factor, Home, MemberKind, Seen, Table, Weight, balance};

use ended::Reports;
pub use ended::deputy;

/// Divided by a weight it is a whole number above 0, so that no two turns of a node are the same.
const TURN: u64 = Weight::MAX.0 as u64 * Factor::MAX.0 as u64;

/// The next table, or `None` when this one is as it should be.
pub fn decide(table: &Table, seen: &Seen) -> Option<Table> {
    let mut next = table.clone();
    let epoch = table.epoch + 1;
    commit_arrived(&mut next, seen, epoch);
    note_restored(&mut next, seen);
    take_note_of_lives(&mut next, table, seen);
    cancel_moves(&mut next, table, seen);
    set_factors(&mut next, seen);
    let willing = together(&next, seen, present(&next, seen, |advert| !advert.leaving));
    let willing = with_brokers(&next, seen, willing);
    let leaving = present(&next, seen, |advert| advert.leaving);
    give_orphans(&mut next, seen, [&willing, &leaving], epoch);
    if seen.may_move {
        balance::begin_prepared(&mut next, seen);
        balance::plan(&mut next, seen, [&willing, &leaving], epoch);
    }
    if next == *table {
        return None;
    }
    next.epoch = epoch;
    Some(next)
}

/// Makes the receiver of a move the home of the partitions that have arrived as a whole.
fn commit_arrived(next: &mut Table, seen: &Seen, epoch: u64) {
    let has_arrived = |id: u64, to: &str, lives: &BTreeMap<String, u64>| {
        let same = |advert: &&Advert| lives.get(to) == Some(&advert.life);
        seen.present(to).filter(same).is_some_and(|advert| advert.arrived.contains(&id))
    };
    let lives = next.lives.clone();
    let (arrived, moving) =
        std::mem::take(&mut next.moves).into_iter().partition(|it| has_arrived(it.id, &it.to, &lives));
    next.moves = moving;
    for it in arrived {
        for partition in it.partitions {
            next.give(partition, &it.to, epoch, Some(it.id));
        }
    }
}

/// The former homes of a fetched partition need not keep it.
fn note_restored(next: &mut Table, seen: &Seen) {
    let is_fetched = |home: &Home| !home.former.is_empty() && seen.adverts.contains_key(&home.node);
    let fetched = next.homes.partitions(|home| home.is_some_and(is_fetched));
    let is_restored = |partition: &u16| {
        let home = next.home(*partition)?;
        Some(seen.adverts.get(&home.node)?.restored.get(partition) == Some(&home.since))
    };
    let restored: Vec<u16> = fetched.into_iter().filter(|it| is_restored(it) == Some(true)).collect();
    for partition in restored {
        next.forget_former(partition);
    }
}

/// The nodes that are new, dead, or in another life than before.
fn take_note_of_lives(next: &mut Table, table: &Table, seen: &Seen) {
    let before = &table.lives;
    let reports = Reports::new(table, seen);
    for (name, life) in before {
        match seen.members.get(name) {
            None if seen.may_bury => {
                next.lives.remove(name);
            }
            Some(member) if member.life != *life => {
                let ended = |advert: &Advert| member.settled || advert.after == Some(*life);
                if seen.present(name).is_some_and(ended) {
                    next.lives.insert(name.clone(), member.life);
                }
            }
            Some(_) if reports.has_ended(name) => {
                next.lives.remove(name);
                next.given_up.insert(name.clone(), *life);
            }
            _ => {}
        }
    }
    next.given_up.retain(|name, life| seen.members.get(name).is_some_and(|member| member.life == *life));
    let mut kind = kind_of(next, seen);
    for (name, member) in &seen.members {
        // A node that was not in the table has served nothing.
        let is_new = !before.contains_key(name) && next.given_up.get(name) != Some(&member.life);
        let Some(advert) = seen.present(name).filter(|advert| is_new && !advert.ends()) else { continue };
        if *kind.get_or_insert(advert.kind()) == advert.kind() {
            next.lives.insert(name.clone(), member.life);
        }
    }
}

/// The kind of the members; `None` while no member has an advert. All members are orchestrators with the same prefix of
/// addresses, or none is: messages of orchestrators cross by brokers, messages of other nodes by links.
fn kind_of<'a>(table: &Table, seen: &'a Seen) -> Option<MemberKind<'a>> {
    let is_member = |(name, advert): &(&String, &Advert)| table.lives.get(*name) == Some(&advert.life);
    seen.adverts.iter().find(is_member).map(|(_, advert)| advert.kind())
}

/// A move ends when one of its nodes is another than at its beginning, or cannot go on. One that is prepared ends also when
/// its new home leaves.
fn cancel_moves(next: &mut Table, table: &Table, seen: &Seen) {
    let lives = next.lives.clone();
    let continues = |name: &str, id: u64| {
        let same = table.lives.get(name).is_some_and(|life| lives.get(name) == Some(life));
        same && !seen.present(name).is_some_and(|advert| advert.refused.contains(&id))
    };
    next.moves.retain(|it| continues(&it.from, it.id) && continues(&it.to, it.id));
    let takes = |name: &str| seen.present(name).is_none_or(|advert| !advert.leaving);
    next.preparing.retain(|it| continues(&it.from, it.id) && continues(&it.to, it.id) && takes(&it.to));
}

/// Factors stay until others are decided, as long as their nodes are members, or are expected back.
fn set_factors(next: &mut Table, seen: &Seen) {
    next.factors.extend(seen.factors.iter().flatten().map(|(name, factor)| (name.clone(), *factor)));
    let lives = &next.lives;
    let stays = |name: &String| lives.contains_key(name) || seen.expected.contains(name);
    next.factors.retain(|name, factor| *factor != Factor::NONE && stays(name));
}

/// The nodes of the table that are there and say something of themselves.
fn present(next: &Table, seen: &Seen, says: impl Fn(&Advert) -> bool) -> Vec<String> {
    let is_meant = |name: &&String| {
        seen.present(name).is_some_and(|advert| next.lives.get(*name) == Some(&advert.life) && says(advert))
    };
    next.lives.keys().filter(is_meant).cloned().collect()
}

/// A node that takes partitions of dead nodes.
struct Heir<'a> {
    name: &'a str,
    count: usize,
    share: usize,
    weight: u64,
}

/// The nodes that take orphans, with their shares of their own partitions and of the orphans.
fn heirs_of<'a>(next: &Table, seen: &Seen, names: &'a [String], orphans: usize) -> Vec<Heir<'a>> {
    let loads: BTreeMap<String, usize> = names.iter().map(|name| (name.clone(), next.of(name).len())).collect();
    let total = orphans + loads.values().sum::<usize>();
    let weight = |name: &str| next.weight(name, seen.weight(name));
    let shares = balance::shares(&loads, names, total, weight);
    let of = |map: &BTreeMap<String, usize>, name| map.get(name).copied().unwrap_or_default();
    let heir =
        |name: &'a String| Heir { name, count: of(&loads, name), share: of(&shares, name), weight: weight(name) };
    names.iter().map(heir).collect()
}

/// Partitions without a node, and partitions of dead nodes, go in turn to the nodes that have less than their shares.
/// If no node takes partitions, partitions of dead nodes go to nodes that stay, and to nodes that are about to end
/// only where no node stays.
fn give_orphans(next: &mut Table, seen: &Seen, [willing, leaving]: [&[String]; 2], epoch: u64) {
    let lives = |home: &Home| next.lives.contains_key(&home.node);
    let orphans = next.homes.partitions(|home| home.map_or(!willing.is_empty(), |home| !lives(home)));
    if orphans.is_empty() {
        return;
    }
    let staying = leaving.iter().filter(|name| seen.present(name).is_some_and(|advert| advert.stays));
    let staying = with_brokers(next, seen, staying.cloned().collect());
    let leaving = with_brokers(next, seen, leaving.to_vec());
    let ranks = [willing, &staying, &leaving];
    let heirs = ranks.into_iter().find(|rank| !rank.is_empty()).unwrap_or_default();
    let mut heirs = heirs_of(next, seen, heirs, orphans.len());
    for partition in orphans {
        let before = next.home(partition).map(|home| home.node.clone());
        let is_kept = before.and_then(|node| seen.adverts.get(&node)).is_some_and(|advert| advert.kept);
        // Of several whose turn it is, the first by name.
        let below = heirs.iter_mut().filter(|heir| heir.count < heir.share);
        let Some(heir) = below.min_by_key(|heir| (2 * heir.count as u64 + 1) * TURN / heir.weight) else { return };
        heir.count += 1;
        next.inherit(partition, heir.name, epoch, is_kept);
    }
    debug_assert!(next.moves.iter().all(|it| it.partitions.iter().all(|p| is_at(next.home(*p), &it.from))));
}

#[cfg(test)]
mod tests;
