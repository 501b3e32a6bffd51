//! The shards of other nodes: how much each of them and this shard know of the other's subscriptions.

use crate::cluster::outgoing::Outgoing;
use crate::roster::Shards;

/// The shards of other nodes: which have announced all their subscriptions, and which are gone.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    /// Announcements of interest that other shards have not confirmed yet.
    pub interest_under_way: u64,
    /// Shards of other nodes that have not confirmed all subscriptions of this one.
    pub welcomes: u64,
    /// Shards of other nodes that are gone while their subscribers are still owed messages.
    pub gone: Shards,
    /// Whether the subscriptions of some node, dead or back, are unknown.
    pub is_blind: bool,
    /// Shards that are back and have not announced all their subscriptions.
    pub returning: Shards,
    /// Shards that have announced all their subscriptions.
    pub heard: Shards,
    pub farewells: Farewells,
    /// Messages that all nodes must get and that no client sends again.
    pub outgoing: Outgoing,
}

/// The question of a process that is about to stop: whether the other shards have read all that was sent to them.
#[derive(Debug, Default)]
pub(crate) struct Farewells {
    /// Number of the last question. Confirmations of earlier ones do not count.
    pub round: u32,
    /// The shards that were asked.
    pub asked: Shards,
    /// Shards that have not confirmed; `None` if no question is open.
    pub open: Option<u64>,
}

impl Farewells {
    /// A shard has confirmed the question of a round.
    pub(crate) fn confirm(&mut self, round: u32) {
        if round == self.round {
            self.open = self.open.map(|open| open.saturating_sub(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_confirmations_of_the_last_question_count() {
        let mut farewells = Farewells { round: 2, open: Some(2), ..Farewells::default() };
        farewells.confirm(1);
        assert_eq!(farewells.open, Some(2));
        farewells.confirm(2);
        farewells.confirm(2);
        farewells.confirm(2);
        assert_eq!(farewells.open, Some(0));
        farewells.open = None;
        farewells.confirm(2);
        assert_eq!(farewells.open, None);
    }
}
