//! When shares are made even after nodes have gone.
//!
//! A node that is stopped returns in most cases, and others follow it when all are started again in turn. Each move
//! disconnects clients. So partitions go back only when nodes have stayed as they are for a while.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::{Seen, Sighting, Table};

/// Changes delay even shares by at most this multiple of `settle`: a node that ends and starts again all the time must
/// not keep the others from them for ever.
pub const SETTLE_LIMIT: u32 = 4;

/// For how long nodes have been as they are, as the leader sees it.
#[derive(Clone, Debug, Default)]
pub struct Settling {
    /// Nodes that are there and want to work, and which lives of them; `None` before the first look.
    known: Option<BTreeSet<(String, u64)>>,
    /// When that has changed last, while shares are not made even.
    since: Option<Duration>,
    /// When the first change came since shares were made even last.
    first: Option<Duration>,
}

impl Settling {
    /// Takes note of who is there. Says whether shares may be made even: unless a node has gone, or another node has led
    /// before, and something has changed within `settle`. `now` is a monotonic time.
    pub fn look(&mut self, now: Duration, settle: Duration, table: &Table, seen: &Seen) -> bool {
        let is_there = |(name, _): &(&String, &Sighting)| seen.present(name).is_some_and(|advert| !advert.leaving);
        let there = seen.members.iter().filter(is_there);
        let there: BTreeSet<(String, u64)> = there.map(|(name, member)| (name.clone(), member.life)).collect();
        let (is_changed, is_gone) = match &self.known {
            Some(known) => (*known != there, !known.is_subset(&there)),
            // The observations of the previous leader are unknown. Before the first table there was no leader.
            None => (true, table.epoch > 0),
        };
        if is_gone || is_changed && self.since.is_some() {
            self.since = Some(now);
        }
        self.known = Some(there);
        let first = self.since.and(self.first.or(self.since));
        let is_over = |since: Option<Duration>, limit| since.is_some_and(|since| now.saturating_sub(since) >= limit);
        if is_over(self.since, settle) || is_over(first, settle.saturating_mul(SETTLE_LIMIT)) {
            self.since = None;
        }
        self.first = self.since.and(first);
        self.since.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Advert;

    const SETTLE: Duration = Duration::from_secs(30);

    fn seen(nodes: &[(&str, u64)]) -> Seen {
        let mut seen = Seen::default();
        for (name, life) in nodes {
            seen.members.insert((*name).to_owned(), Sighting { life: *life, settled: true });
            seen.adverts.insert((*name).to_owned(), Advert { life: *life, ..Advert::default() });
        }
        seen
    }

    fn look(settling: &mut Settling, second: u64, seen: &Seen) -> bool {
        settling.look(Duration::from_secs(second), SETTLE, &Table::default(), seen)
    }

    #[test]
    fn newcomers_get_their_share_at_once() {
        let mut settling = Settling::default();
        assert!(look(&mut settling, 0, &seen(&[("a", 1)])));
        assert!(look(&mut settling, 1, &seen(&[("a", 1), ("b", 2)])));
    }

    #[test]
    fn while_nodes_are_started_again_in_turn_nothing_is_made_even() {
        let mut settling = Settling::default();
        assert!(look(&mut settling, 0, &seen(&[("a", 1), ("b", 2)])));
        let mut leaves = seen(&[("a", 1), ("b", 2)]);
        leaves.adverts.get_mut("b").unwrap().leaving = true;
        assert!(!look(&mut settling, 1, &leaves));
        assert!(!look(&mut settling, 20, &seen(&[("a", 1), ("b", 3)])));
        assert!(!look(&mut settling, 40, &seen(&[("b", 3)])));
        assert!(!look(&mut settling, 60, &seen(&[("a", 4), ("b", 3)])));
        assert!(!look(&mut settling, 89, &seen(&[("a", 4), ("b", 3)])));
        assert!(look(&mut settling, 90, &seen(&[("a", 4), ("b", 3)])));
    }

    #[test]
    fn a_node_that_starts_again_and_again_does_not_stop_balancing() {
        let mut settling = Settling::default();
        assert!(look(&mut settling, 0, &seen(&[("a", 1), ("b", 1)])));
        let mut even = Vec::new();
        for second in (10..500).step_by(10) {
            if look(&mut settling, second, &seen(&[("a", 1), ("b", second)])) {
                even.push(second);
            }
        }
        // The first change is at 10 s, and the next one comes 10 s after shares were made even.
        assert_eq!(even, [130, 260, 390]);
    }

    #[test]
    fn one_that_begins_to_lead_does_not_know_who_has_gone() {
        let (mut settling, mut table) = (Settling::default(), Table::default());
        table.epoch = 7;
        let both = seen(&[("a", 1), ("b", 2)]);
        assert!(!settling.look(Duration::ZERO, SETTLE, &table, &both));
        assert!(settling.look(SETTLE, SETTLE, &table, &both));
        assert!(Settling::default().look(Duration::ZERO, Duration::ZERO, &table, &both), "where it is turned off");
    }
}
