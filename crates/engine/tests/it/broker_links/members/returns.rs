//! A dead member comes back as a next life, while others still work off the connections of its last one.

use std::cmp::Reverse;

use tidegate_engine::{Continued, Partitions};

use super::{BROKERS, Run};
use crate::harness::*;

impl Run {
    /// The connections of this member's last life are worked off.
    pub(super) fn has_lines(&self, member: usize) -> bool {
        self.lines.iter().any(|line| line.is_of(member))
    }

    /// The members that take partitions: all that do not wait for their brokers. If each waits, it is the one with most.
    pub(super) fn takers(&self) -> Vec<usize> {
        let (waiting, free): (Vec<usize>, Vec<usize>) =
            self.living().into_iter().partition(|member| self.has_lines(*member));
        if !free.is_empty() {
            return free;
        }
        let has = |member: usize| {
            let readers = self.readers.iter().filter(|reader| reader.home == member).count();
            readers + self.members[member].publishers.len()
        };
        waiting.into_iter().max_by_key(|member| (has(*member), Reverse(*member))).into_iter().collect()
    }

    /// Sometimes a dead member comes back whose connections are not worked off; one of two members at any time.
    pub(super) fn come_back_sometimes(&mut self) {
        let returns = |member: &usize| {
            let is_one_of_two = self.members.len() == 2;
            self.members[*member].is_dead && (is_one_of_two || self.has_lines(*member))
        };
        let mut dead = (0..self.members.len()).filter(returns);
        if let Some(member) = dead.next()
            && self.random.percent(8)
        {
            self.come_back(member);
        }
    }

    /// It has no partitions, and reaches its brokers when the connections of its last life are worked off.
    fn come_back(&mut self, member: usize) {
        self.take_all_late(member);
        self.members[member].world.note("comes back".to_owned());
        self.part_guests();
        self.set_clock(member, self.living()[0]);
        self.begin_again(member);
        self.tell_homes();
        self.reach_brokers();
        self.run(member);
    }

    /// The next life of a dead member begins, without partitions.
    pub(super) fn begin_again(&mut self, member: usize) {
        let world = self.members[member].world.clone();
        world.crash(Crash::now(1));
        self.members[member].is_dead = false;
        self.tell_rosters();
        world.engine(0, |engine, now| {
            engine.moves().forget_partitions(now, Partitions::ALL);
            engine.fleet().continue_adopted(now, Continued::None);
        });
        self.mend_links();
    }

    /// The members whose connections are worked off reach their brokers.
    pub(super) fn reach_brokers(&mut self) {
        let mut has_some = false;
        for member in self.living() {
            let world = self.members[member].world.clone();
            let has_brokers = self.connections.iter().any(|(_, it)| it.is_of(&world) && BROKERS.contains(&it.name()));
            if !has_brokers && !self.has_lines(member) {
                world.note("may connect to its brokers".to_owned());
                has_some = true;
                for (number, name) in BROKERS.into_iter().enumerate() {
                    // The broker may have kept the session.
                    let former = format!("{name}@m{member}");
                    match self.connections.iter_mut().find(|(_, it)| it.name() == former) {
                        Some((_, it)) => *it = world.take_over_broker(it, name),
                        None => self.connections.push((number, world.broker_unknown(name, Ways::default()))),
                    }
                }
            }
        }
        if has_some {
            // They take partitions now.
            self.part_guests();
            self.tell_homes();
        }
    }
}
