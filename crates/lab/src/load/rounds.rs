//! Round trips by node, and by their order.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::histogram::Histogram;

/// Maximum number of steps in an outcome.
const STEPS: usize = 100;

/// Round trips of a group's publishers, by node and by order. A node is a stream: one topic of one publisher, so that
/// it is the publisher itself where each has one topic, and the receiver of the request where one publisher asks many.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rounds {
    /// Nodes that messages were offered to or by.
    pub nodes: u64,
    /// Nodes with all their offered messages returned.
    pub complete: u64,
    /// Messages that were offered.
    pub offered: u64,
    /// Returned messages, each counted once.
    pub returned: u64,
    /// The mean round trip of each node with returned messages.
    pub means: Histogram,
    /// Messages by their place in the order of their node: the first of all nodes, the second of all, and so on,
    /// several places together where there are many.
    pub order: Vec<Step>,
}

/// Messages of the same place in the order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The first place, from 0.
    pub first: u32,
    /// Returned messages.
    pub returned: u64,
    /// The sum of their round trips in nanoseconds.
    pub sum_ns: u64,
    /// The longest one in nanoseconds.
    pub max_ns: u64,
}

impl Rounds {
    /// Takes in another process's.
    pub fn add(&mut self, other: &Self) {
        self.nodes += other.nodes;
        self.complete += other.complete;
        self.offered += other.offered;
        self.returned += other.returned;
        self.means.add(&other.means);
        for step in &other.order {
            match self.order.iter_mut().find(|known| known.first == step.first) {
                Some(known) => known.add(*step),
                None => self.order.push(*step),
            }
        }
        self.order.sort_by_key(|step| step.first);
    }
}

impl Step {
    fn add(&mut self, other: Self) {
        self.returned += other.returned;
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    fn take(&mut self, ns: u64) {
        self.returned += 1;
        self.sum_ns += ns;
        self.max_ns = self.max_ns.max(ns);
    }
}

/// Round trips while they arrive.
#[derive(Debug, Default)]
pub(super) struct RoundBooks {
    nodes: HashMap<u32, Step>,
    order: Vec<Step>,
}

impl RoundBooks {
    /// Records a returned message.
    pub(super) fn record(&mut self, stream: u32, sequence: u32, ns: u64) {
        self.nodes.entry(stream).or_default().take(ns);
        let place = sequence as usize;
        if self.order.len() <= place {
            self.order.resize(place + 1, Step::default());
        }
        self.order[place].take(ns);
    }

    /// The results; `offered` are the streams and the number of messages of each.
    pub(super) fn conclude(&self, offered: impl Iterator<Item = (u32, u32)>) -> Rounds {
        let mut rounds = Rounds::default();
        for (stream, offered) in offered.filter(|(_, offered)| *offered > 0) {
            let node = self.nodes.get(&stream).copied().unwrap_or_default();
            rounds.nodes += 1;
            rounds.complete += u64::from(node.returned >= u64::from(offered));
            rounds.offered += u64::from(offered);
            rounds.returned += node.returned;
            if let Some(mean) = node.sum_ns.checked_div(node.returned) {
                rounds.means.record(mean);
            }
        }
        let together = self.order.len().div_ceil(STEPS).max(1);
        for (place, steps) in self.order.chunks(together).enumerate() {
            let mut step = Step { first: (place * together) as u32, ..Step::default() };
            for other in steps {
                step.add(*other);
            }
            rounds.order.push(step);
        }
        rounds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_complete_or_not_and_the_order_is_reported_in_steps() {
        let mut books = RoundBooks::default();
        for sequence in 0..250 {
            books.record(1, sequence, 1_000);
            if sequence != 7 {
                books.record(2, sequence, 3_000);
            }
        }
        let rounds = books.conclude([(1, 250), (2, 250), (3, 250), (4, 0)].into_iter());
        assert_eq!((rounds.nodes, rounds.complete), (3, 1));
        assert_eq!((rounds.offered, rounds.returned), (750, 499));
        assert_eq!(rounds.means.count(), 2, "of the third nothing returned");
        assert_eq!(rounds.order.len(), 84, "three places together");
        let third = rounds.order[2];
        assert_eq!((third.first, third.returned, third.sum_ns), (6, 5, 3 * 1_000 + 2 * 3_000));
        let mut twice = rounds.clone();
        twice.add(&rounds);
        assert_eq!((twice.nodes, twice.order[2].returned), (6, 10));
    }
}
