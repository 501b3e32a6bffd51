//! The links between members, and the rosters that say which member works what.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tidegate_engine::{Batch, PARTITIONS, PartitionId, Roster, ShardId, ShardPosition, TenantId, partition_of};

use super::{MEMBERS, Run};

/// Lives of a link whose numbers differ: a later one has the numbers of the first again.
const LIVES: u16 = 15;
/// Rounds after which links that do not come to rest are taken to go round in circles.
const ROUNDS_MAX: usize = 2_000;

/// The links of all members.
#[derive(Default)]
pub(super) struct MemberLinks {
    /// Batches from one member to another, each with how much of the store of its sender has to be committed before.
    under_way: BTreeMap<(usize, usize), VecDeque<(u64, Batch)>>,
    /// Members that do not reach each other, the lower number first.
    broken: BTreeSet<(usize, usize)>,
    /// How often the members of each pair were linked again.
    lives: BTreeMap<(usize, usize), u16>,
}

fn pair(one: usize, other: usize) -> (usize, usize) {
    (one.min(other), one.max(other))
}

impl Run {
    /// The number of a member's shard at another member.
    fn number(&self, at: usize, other: usize) -> ShardId {
        let life = self.links.lives.get(&pair(at, other)).copied().unwrap_or_default() % LIVES;
        ShardId(1 + life * MEMBERS as u16 + other as u16)
    }

    fn reaches(&self, one: usize, other: usize) -> bool {
        one != other && !self.members[other].is_dead && !self.links.broken.contains(&pair(one, other))
    }

    /// The member that the table names for each partition. It may be dead, where no other one has taken over.
    pub(super) fn homes(&self) -> Vec<usize> {
        let takers = self.takers();
        let mut homes: Vec<usize> = (0..usize::from(PARTITIONS)).map(|at| takers[at % takers.len()]).collect();
        let readers = self.readers.iter().map(|it| (it.name.as_str(), it.home));
        let publishers = self.members.iter().enumerate();
        let publishers = publishers.flat_map(|(home, it)| it.publishers.iter().map(move |it| (it.name.as_str(), home)));
        for (name, home) in readers.chain(publishers) {
            homes[usize::from(partition_of(TenantId::DEFAULT, name).0)] = home;
        }
        homes
    }

    /// The roster of a member: its links, and the homes in the table.
    fn roster_of(&self, member: usize, homes: &[usize]) -> Roster {
        let mut roster = Roster::alone(ShardPosition::ALONE);
        for other in self.living().into_iter().filter(|other| *other != member) {
            if self.reaches(member, other) {
                roster = roster.with_peer(self.number(member, other));
            } else {
                roster = roster.with_nodes_lacking();
            }
        }
        let reached: Vec<Option<ShardId>> = (0..self.members.len())
            .map(|other| self.reaches(member, other).then(|| self.number(member, other)))
            .collect();
        for (partition, home) in PartitionId::all().zip(homes.iter().copied()) {
            if self.members[home].is_dead {
                roster = roster.with_absent(partition);
            } else if let Some(shard) = reached[home] {
                roster = roster.with_home(partition, shard);
            } else if home != member {
                roster = roster.with_stand_in(partition).with_absent(partition);
            }
        }
        let open: Vec<u64> = self.moving.into_iter().collect();
        roster.with_moves(self.transfers, &open).with_values_only()
    }

    /// All members get their rosters.
    pub(super) fn tell_rosters(&self) {
        let homes = self.homes();
        for member in self.living() {
            let others = self.living().into_iter().filter(|other| self.reaches(member, *other));
            let peers = others.map(|other| self.number(member, other)).collect();
            self.members[member].world.set_roster(self.roster_of(member, &homes), peers);
        }
    }

    /// Some batches arrive on one link.
    pub(super) fn carry_some(&mut self) {
        let living = self.living();
        let (from, to) = (self.random.pick(&living), self.random.pick(&living));
        let most = 1 + self.random.below(4);
        if self.reaches(from, to) {
            self.carry(from, to, most);
        }
    }

    /// Lets up to `most` batches arrive; returns whether there was one, or one that waits for a commit.
    fn carry(&mut self, from: usize, to: usize, most: usize) -> bool {
        let (there, here) = (self.number(from, to), self.number(to, from));
        let under_way = self.links.under_way.entry((from, to)).or_default();
        under_way.append(&mut self.members[from].world.take_for_peer(there));
        let was_there = !under_way.is_empty();
        for _ in 0..most {
            let committed = self.members[from].world.committed();
            if under_way.front().is_none_or(|(until, _)| *until > committed) {
                break;
            }
            let Some((_, batch)) = under_way.pop_front() else { break };
            self.members[to].world.take_from_peer(here, &batch);
        }
        was_there
    }

    /// Lets all arrive that is under way; returns whether there was something.
    pub(super) fn carry_all(&mut self) -> bool {
        let living = self.living();
        let mut carried = false;
        for from in living.iter().copied() {
            for to in living.iter().copied().filter(|to| *to != from) {
                if self.reaches(from, to) {
                    carried |= self.carry(from, to, usize::MAX);
                }
            }
        }
        carried
    }

    /// Two members lose their link, and only some of the batches under way still arrive.
    fn lose_link(&mut self, one: usize, other: usize) {
        for (from, to) in [(one, other), (other, one)] {
            let arrive = self.random.pick(&[0, 1, 3]);
            if self.reaches(from, to) && !self.members[from].is_dead {
                let here = self.number(to, from);
                let under_way = self.links.under_way.remove(&(from, to)).unwrap_or_default();
                for (_, batch) in under_way.into_iter().filter(|(until, _)| *until == 0).take(arrive) {
                    self.members[to].world.take_from_peer(here, &batch);
                }
            }
            self.links.under_way.remove(&(from, to));
        }
        self.links.broken.insert(pair(one, other));
    }

    /// A member has lost all links, with its process.
    pub(super) fn lose_links_of(&mut self, member: usize) {
        for other in (0..self.members.len()).filter(|other| *other != member) {
            // Nothing arrives at a process that has ended.
            self.links.under_way.remove(&(other, member));
            self.lose_link(member, other);
        }
    }

    /// A link breaks, or all are there again.
    pub(super) fn break_or_mend_links(&mut self) {
        if !self.links.broken.is_empty() {
            return self.mend_links();
        }
        let living = self.living();
        let (one, other) = (self.random.pick(&living), self.random.pick(&living));
        if one != other {
            self.lose_link(one, other);
            self.tell_rosters();
        }
    }

    /// All members reach each other again, under new numbers.
    pub(super) fn mend_links(&mut self) {
        for pair in std::mem::take(&mut self.links.broken) {
            *self.links.lives.entry(pair).or_default() += 1;
        }
        self.tell_rosters();
    }

    /// Runs until nothing is under way between members.
    pub(super) fn run_with_links(&mut self) {
        for _ in 0..ROUNDS_MAX {
            for member in self.living() {
                self.run(member);
            }
            if !self.carry_all() {
                return;
            }
        }
        panic!("seed {}: the links do not come to rest", self.seed);
    }

    /// Messages that shared groups of all members keep.
    pub(super) fn kept_deals(&self) -> u64 {
        let kept = |member: &usize| self.members[*member].world.gauges().kept_deals;
        self.living().iter().map(kept).sum()
    }
}
