//! The partitions of each member of a group: a table that all members see and change by compare-and-swap.
//!
//! A member shows that it lives by counting up. No clocks are compared: a member is given up when its count has stood
//! still for a lease by the watcher's own clock, and lets its partitions go a lease after it *began* the last change
//! that succeeded, which is always earlier. A partition changes its member only when its present one has released it or
//! was given up.
//!
//! While the log of the group takes no record, as in an election of its servers, no member can count up. That time does
//! not count against members, and a member whose lease ends in it is one as before if the log, when it continues, still
//! has it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::Partition;
use crate::membership::Holdings;

/// A living member changes the table several times in a lease. A table that stays the same for longer than this part of
/// a lease says that the log takes no record.
const STANDSTILL_PART: u32 = 3;

/// The table of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Table {
    members: BTreeMap<String, Pulse>,
    /// For each partition the member that has it.
    leases: Vec<Option<String>>,
}

/// The sign of life of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Pulse {
    /// The life of the member: a process that takes another one's name has another number.
    life: u64,
    /// Counts up.
    beat: u64,
    /// By which lease it gives others and itself up, milliseconds. A member that does not know of this leaves it out,
    /// also where others said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lease_ms: Option<u64>,
}

impl Pulse {
    /// Whether it has not beaten since another one was seen.
    fn stands_still_since(&self, seen: &Self) -> bool {
        (self.life, self.beat) == (seen.life, seen.beat)
    }
}

impl Table {
    /// True if the table is for this number of partitions, or for none yet.
    pub(crate) fn is_for(&self, partitions: u32) -> bool {
        self.leases.is_empty() || self.leases.len() == partitions as usize
    }

    /// The members, with the number of each one's life.
    pub(crate) fn members(&self) -> impl Iterator<Item = (&str, u64)> {
        self.members.iter().map(|(name, pulse)| (name.as_str(), pulse.life))
    }

    /// The leases that members say they have, in the order of [`Self::members`].
    pub(crate) fn leases(&self) -> impl Iterator<Item = Option<Duration>> {
        self.members.values().map(|pulse| pulse.lease_ms.map(Duration::from_millis))
    }

    /// The life, the count and the lease of the member with this name.
    pub(crate) fn pulse_of(&self, name: &str) -> Option<(u64, u64, Option<Duration>)> {
        self.members.get(name).map(|pulse| (pulse.life, pulse.beat, pulse.lease_ms.map(Duration::from_millis)))
    }

    /// True if two tables differ in more than the counts of members.
    pub(crate) fn differs(&self, other: &Self) -> bool {
        self.leases != other.leases || !self.members().eq(other.members())
    }

    /// Takes a life of a member out, with all that it has.
    pub(crate) fn without(&self, life: u64) -> Self {
        let mut table = self.clone();
        let name = self.members().find(|(_, other)| *other == life).map(|(name, _)| name.to_owned());
        if let Some(name) = name {
            table.members.remove(&name);
            table.free(|holder| holder == name);
        }
        table
    }

    fn free(&mut self, is_free: impl Fn(&str) -> bool) {
        for lease in &mut self.leases {
            if lease.as_deref().is_some_and(&is_free) {
                *lease = None;
            }
        }
    }

    fn held_by(&self, name: &str) -> BTreeSet<Partition> {
        let held = self.leases.iter().zip(0..).filter(|(lease, _)| lease.as_deref() == Some(name));
        held.map(|(_, partition)| Partition(partition)).collect()
    }

    /// How many partitions a member should have: no two members differ by more than one.
    fn share(&self, name: &str) -> usize {
        let (members, partitions) = (self.members.len().max(1), self.leases.len());
        let rank = self.members.keys().take_while(|member| member.as_str() < name).count();
        partitions / members + usize::from(rank < partitions % members)
    }
}

/// One member's view of its group.
pub(crate) struct Seat {
    name: String,
    life: u64,
    partitions: u32,
    lease: Duration,
    max_release_time: Duration,
    /// For each other member its pulse, and since when it has been the same, later by the time in which the log took no
    /// record.
    seen: BTreeMap<String, (Pulse, Instant)>,
    /// When the last table came.
    table_at: Option<Instant>,
    /// An earlier life of this process: it may take that one's place, and waits for all others of its name.
    former: Option<u64>,
    entered: bool,
    valid_until: Option<Instant>,
    /// The partitions to release, and the latest time of each.
    losing: BTreeMap<Partition, Instant>,
    released: BTreeSet<Partition>,
}

impl Seat {
    pub(crate) fn new(name: &str, life: u64, partitions: u32, lease: Duration, max_release_time: Duration) -> Self {
        Self {
            name: name.to_owned(),
            life,
            partitions,
            lease,
            max_release_time,
            seen: BTreeMap::new(),
            table_at: None,
            former: None,
            entered: false,
            valid_until: None,
            losing: BTreeMap::new(),
            released: BTreeSet::new(),
        }
    }

    /// The same for a process that was a member before. A process that has taken over its name meanwhile keeps the name.
    pub(crate) fn behind(mut self, former: Option<u64>) -> Self {
        self.former = former;
        self
    }

    /// The user is done with a partition.
    pub(crate) fn release(&mut self, partition: Partition) {
        if self.losing.contains_key(&partition) {
            self.released.insert(partition);
        }
    }

    /// The time at which the next partition is let go although its user has not released it.
    pub(crate) fn next_taken(&self) -> Option<Instant> {
        self.losing.values().copied().min()
    }

    /// A table was accepted. Members could not count up before it for as long as the log took no record. Behind an outage
    /// of a lease each has a whole lease again: the first to reach the log may be long before the others.
    pub(crate) fn note_table(&mut self, now: Instant) {
        let counted = self.counted_until(now);
        let was_away = self.table_at.is_some_and(|table_at| now.saturating_duration_since(table_at) >= self.lease);
        for (_, since) in self.seen.values_mut() {
            *since = if was_away { now } else { (*since + now.saturating_duration_since(counted)).min(now) };
        }
        self.table_at = Some(now);
    }

    /// The time up to which the silence of a member counts against it.
    fn counted_until(&self, now: Instant) -> Instant {
        self.table_at.map_or(now, |table_at| now.min(table_at + self.lease / STANDSTILL_PART))
    }

    /// When the lease is over.
    pub(crate) fn valid_until(&self) -> Option<Instant> {
        self.valid_until
    }

    /// The table as this member wants it to be. `None` while another process goes by its name.
    pub(crate) fn wish(&mut self, table: &Table, now: Instant) -> Option<Table> {
        let mut wish = table.clone();
        wish.leases.resize(self.partitions as usize, None);
        self.bury(&mut wish, now);
        self.enter(&mut wish)?;
        let members: BTreeSet<&String> = wish.members.keys().collect();
        for lease in &mut wish.leases {
            if lease.as_ref().is_some_and(|holder| !members.contains(holder)) {
                *lease = None;
            }
        }
        self.let_go(&mut wish, now);
        self.take_free(&mut wish);
        Some(wish)
    }

    /// Removes members that have stood still for too long.
    fn bury(&mut self, wish: &mut Table, now: Instant) {
        self.seen.retain(|name, _| wish.members.contains_key(name));
        let counted = self.counted_until(now);
        for (name, pulse) in wish.members.clone() {
            let seen = self.seen.entry(name.clone()).or_insert((pulse, now));
            if !pulse.stands_still_since(&seen.0) {
                *seen = (pulse, now);
            }
            let is_mine = name == self.name && pulse.life == self.life;
            if !is_mine && counted.saturating_duration_since(seen.1) >= self.lease {
                wish.members.remove(&name);
                wish.free(|holder| holder == name);
                // A member that returns starts again: the length of its absence does not count.
                self.seen.remove(&name);
            }
        }
    }

    fn enter(&mut self, wish: &mut Table) -> Option<()> {
        let lease_ms = u64::try_from(self.lease.as_millis()).ok();
        match wish.members.get_mut(&self.name) {
            Some(pulse) if pulse.life == self.life => {
                *pulse = Pulse { life: self.life, beat: pulse.beat.wrapping_add(1), lease_ms };
            }
            // Another process has taken this name. The newcomer is right: an operator has restarted a node.
            Some(_) if self.entered => return None,
            // Were it taken back, two processes of one name would drive each other out for ever.
            Some(pulse) if self.former.is_some_and(|former| pulse.life != former) => return None,
            _ => {
                wish.free(|holder| holder == self.name);
                wish.members.insert(self.name.clone(), Pulse { life: self.life, beat: 0, lease_ms });
            }
        }
        Some(())
    }

    fn let_go(&mut self, wish: &mut Table, now: Instant) {
        let held = wish.held_by(&self.name);
        self.losing.retain(|partition, _| held.contains(partition));
        for (partition, deadline) in &self.losing {
            if (self.released.contains(partition) || *deadline <= now)
                && let Some(lease) = wish.leases.get_mut(partition.0 as usize)
            {
                *lease = None;
            }
        }
        let staying: Vec<Partition> = held.into_iter().filter(|held| !self.losing.contains_key(held)).collect();
        let surplus = staying.len().saturating_sub(wish.share(&self.name));
        for partition in staying.into_iter().rev().take(surplus) {
            self.losing.insert(partition, now + self.max_release_time);
        }
    }

    fn take_free(&self, wish: &mut Table) {
        let mut room = wish.share(&self.name).saturating_sub(wish.held_by(&self.name).len());
        for (partition, lease) in wish.leases.iter_mut().enumerate() {
            let just_left = self.losing.contains_key(&Partition(partition as u32));
            if room > 0 && lease.is_none() && !just_left {
                *lease = Some(self.name.clone());
                room -= 1;
            }
        }
    }

    /// The table is the requested one; the request began at `asked`. Passes the changes to the holder.
    pub(crate) fn agreed(&mut self, table: &Table, asked: Instant, now: Instant, holdings: &Holdings) {
        self.entered = true;
        let valid_until = asked + self.lease;
        self.valid_until = Some(valid_until);
        if now >= valid_until {
            return self.expire(now, holdings);
        }
        let held = table.held_by(&self.name);
        self.losing.retain(|partition, _| held.contains(partition));
        self.released.retain(|partition| held.contains(partition));
        holdings.agree(valid_until, &held, |partition| self.losing.contains_key(&partition));
    }

    /// Lets the partitions go when the lease is over.
    pub(crate) fn expire(&mut self, now: Instant, holdings: &Holdings) {
        if self.valid_until.is_some_and(|until| now >= until) {
            self.valid_until = None;
            self.losing.clear();
            self.released.clear();
            holdings.lapse();
        }
    }

    /// The membership is lost: the table is without this life, or another process has the name.
    pub(crate) fn give_up(&mut self, holdings: &Holdings) {
        self.valid_until = None;
        self.losing.clear();
        self.released.clear();
        holdings.lose_membership();
    }
}

#[cfg(test)]
mod tests;
