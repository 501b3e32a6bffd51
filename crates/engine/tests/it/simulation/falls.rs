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
}

/// Nodes that have died.
#[derive(Debug, Default)]
pub(super) struct Falls {
    stage: Stage,
    pub count: u64,
    /// Messages to groups that may be lost with a node, by their place in [`Simulation::published`].
    pub unsure: BTreeSet<usize>,
}

impl Simulation {
    /// A node dies, or the next step happens to a dead one.
    pub(super) fn step_fall(&mut self) {
        self.falls.stage = match self.falls.stage {
            Stage::None => self.fall(),
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
                self.world.fetch_of(node);
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
            Stage::Away(node) => {
                self.world.rejoin(node);
                Stage::None
            }
        };
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
        if unnoticed { Stage::Gone(node) } else { Stage::Dead(node) }
    }

    /// All have their place again.
    pub(super) fn end_fall(&mut self) {
        if self.falls.count == 0 && self.profile.kind.falls() {
            self.falls.stage = self.fall();
        }
        while !matches!(self.falls.stage, Stage::None) {
            self.world.run();
            self.step_fall();
            self.world.read_all_tables();
        }
        self.world.run();
    }
}
