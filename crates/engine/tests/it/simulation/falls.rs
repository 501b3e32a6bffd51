//! Nodes that die at any step, and their successors.

use std::collections::BTreeSet;

use super::Simulation;

/// How far the fall of a node has come.
#[derive(Clone, Copy, Debug, Default)]
enum Stage {
    /// All live that have not fallen before.
    #[default]
    None,
    /// It is gone, and no table says so.
    Gone(usize),
    /// It is dead, and no other node has its data.
    Dead(usize),
    /// Others have taken in its data, and do not serve it yet.
    Fetched(usize),
    /// They do, and it is away.
    Away(usize),
    /// It lives, hands over its partitions, and stops then.
    Leaving(usize),
    /// It has handed over its partitions, and is away.
    Stopped(usize),
    /// It has handed over its partitions and was killed before it had ended its exchanges. No table says so.
    Killed(usize),
}

/// Nodes that have died.
#[derive(Debug, Default)]
pub(super) struct Falls {
    stage: Stage,
    pub count: u64,
    /// Whether the process of the dead node runs again, without a place.
    has_returned: bool,
    /// Whether nodes are killed that have handed over their partitions.
    pub kills_leaving_nodes: bool,
    /// Messages to groups that may be lost with a node, by their place in [`Simulation::published`].
    pub unsure: BTreeSet<usize>,
}

impl Simulation {
    /// A node dies, or the next step happens to a dead one.
    pub(super) fn step_fall(&mut self) {
        self.falls.stage = match self.falls.stage {
            Stage::None if self.profile.kind.moves() && self.random.percent(40) => self.begin_to_leave(),
            Stage::None => self.fall(),
            Stage::Leaving(node) => self.leave(node),
            Stage::Killed(node) => {
                self.world.bury(node);
                Stage::Stopped(node)
            }
            Stage::Stopped(node) if self.world.has_unread_tables() => Stage::Stopped(node),
            Stage::Stopped(node) => {
                self.world.revive(node);
                Stage::None
            }
            Stage::Gone(node) if self.random.percent(30) => {
                self.world.revive(node);
                Stage::None
            }
            Stage::Gone(node) => {
                self.world.bury(node);
                Stage::Dead(node)
            }
            Stage::Dead(node) if !self.profile.kind.moves() && self.random.percent(30) => {
                self.world.revive(node);
                Stage::None
            }
            Stage::Dead(node) => {
                self.falls.has_returned = self.random.percent(30);
                if self.falls.has_returned {
                    self.world.fetch_of_returning(node);
                } else {
                    self.world.fetch_of(node);
                }
                Stage::Fetched(node)
            }
            // It is served when it is in the stores of its new nodes.
            Stage::Fetched(node) if self.is_uncommitted() => {
                self.world.want_commits();
                Stage::Fetched(node)
            }
            Stage::Fetched(node) if self.profile.kind.moves() => {
                self.world.serve_by_table();
                Stage::Away(node)
            }
            Stage::Away(node) if self.world.has_unread_tables() => Stage::Away(node),
            Stage::Fetched(node) => {
                self.world.serve_for(node);
                Stage::Away(node)
            }
            // Its partitions are elsewhere by now, and its store still has all that was in them.
            Stage::Away(node) if self.falls.has_returned => {
                self.world.take_place(node);
                Stage::None
            }
            Stage::Away(node) if self.random.percent(50) => {
                self.world.revive(node);
                Stage::None
            }
            Stage::Away(node) => {
                self.world.rejoin(node);
                Stage::None
            }
        };
    }

    /// A node begins to stop.
    fn begin_to_leave(&mut self) -> Stage {
        let (nodes, shards) = self.world.nodes();
        let node = self.random.below(nodes);
        if !self.world.works_something(node as u16 * shards) {
            return Stage::None;
        }
        self.world.begin_to_leave(node);
        Stage::Leaving(node)
    }

    /// A node stops when it serves nothing and owes nothing to others.
    fn leave(&mut self, node: usize) -> Stage {
        if self.kills_one_that_leaves(node) {
            return Stage::Killed(node);
        }
        let gives_kept = self.random.percent(50);
        if !self.world.has_left(node, gives_kept) {
            self.world.step_move(&mut self.random);
            return Stage::Leaving(node);
        }
        self.world.stop_node(node);
        self.falls.count += 1;
        for device in &mut self.devices {
            device.notice_close();
        }
        Stage::Stopped(node)
    }

    /// Kills a node that serves nothing by the newest table, in half of the cases. Returns whether it did.
    fn kills_one_that_leaves(&mut self, node: usize) -> bool {
        let (_, shards) = self.world.nodes();
        let serves = (0..shards).any(|shard| self.world.works_something(node as u16 * shards + shard));
        if !self.falls.kills_leaving_nodes || serves || self.random.percent(50) {
            return false;
        }
        self.world.stay();
        self.fall_of(node);
        true
    }

    fn is_uncommitted(&self) -> bool {
        (0..self.world.nodes().0).any(|node| self.world.uncommitted_of(node) > 0)
    }

    fn fall(&mut self) -> Stage {
        let (nodes, shards) = self.world.nodes();
        let node = self.random.below(nodes);
        if !self.world.works_something(node as u16 * shards) {
            return Stage::None;
        }
        if self.fall_of(node) { Stage::Gone(node) } else { Stage::Dead(node) }
    }

    /// A node dies with a part of its batches. Returns whether the others have to notice it.
    fn fall_of(&mut self, node: usize) -> bool {
        let waiting = self.world.uncommitted_of(node);
        let kept = self.random.pick(&[0, self.random.clone().below(waiting + 1), waiting]);
        let arrive = self.random.pick(&[0, 1, usize::MAX]);
        self.note_unsure(node);
        let unnoticed = self.profile.kind.moves();
        if unnoticed {
            self.world.fall_unnoticed(node, kept, arrive);
        } else {
            self.world.fall(node, kept, arrive);
        }
        self.falls.count += 1;
        for device in &mut self.devices {
            device.notice_close();
        }
        unnoticed
    }

    /// All have their place again.
    pub(super) fn end_fall(&mut self) {
        let wanted = u64::from(self.profile.kind.falls());
        while !matches!(self.falls.stage, Stage::None) || self.falls.count < wanted {
            self.world.run();
            self.step_fall();
            self.world.read_all_tables();
        }
        self.world.run();
    }
}
