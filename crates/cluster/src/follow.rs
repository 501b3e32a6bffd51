//! A node's part: what it does when a table comes.

use std::collections::BTreeMap;

use crate::{PARTITIONS, Table};

/// How a partition stands with a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing is known in this life yet: what is here may be old.
    Unknown,
    /// Another node has it, or nobody.
    Elsewhere,
    /// It is served here, since this epoch.
    Here {
        /// As in [`crate::Home`].
        since: u64,
    },
    /// It is here, served by nobody, and goes to another node by this move.
    Leaving {
        /// The move.
        id: u64,
        /// Since when it was served here.
        since: u64,
    },
    /// It comes to here by this move, and is not served yet.
    Arriving {
        /// The move.
        id: u64,
    },
}

/// What a node has to do, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Remove what is here of them: they live elsewhere, or what is here is old.
    Forget(Vec<u16>),
    /// Serve nobody of them any more and send their images.
    Send {
        /// The move.
        id: u64,
        /// Of these partitions.
        partitions: Vec<u16>,
        /// To this node.
        to: String,
    },
    /// Take their images in.
    Expect {
        /// The move.
        id: u64,
        /// Of these partitions.
        partitions: Vec<u16>,
        /// From this node.
        from: String,
    },
    /// A move was called off: what is here is served again.
    Resume(Vec<u16>),
    /// A move has come to its end: what has arrived is served.
    TakeOver {
        /// The move.
        id: u64,
        /// Of these partitions.
        partitions: Vec<u16>,
    },
    /// What is here from an earlier life is served again.
    Keep(Vec<u16>),
    /// They begin with nothing.
    Begin {
        /// These partitions.
        partitions: Vec<u16>,
        /// Somebody has served them before, and what was there is lost.
        lost: bool,
    },
}

/// Follows the tables on behalf of one life of a node.
#[derive(Clone, Debug)]
pub struct Follower {
    name: String,
    life: u64,
    standings: Vec<Standing>,
    /// Since when each partition was served here that an earlier life has served last.
    remembered: BTreeMap<u16, u64>,
    epoch: u64,
    /// Whether the table has this life.
    member: bool,
}

impl Follower {
    /// A life that begins. `remembered` is what the earlier one served last, and since which epoch, as far as it is still there.
    pub fn new(name: &str, life: u64, remembered: BTreeMap<u16, u64>) -> Self {
        let standings = vec![Standing::Unknown; usize::from(PARTITIONS)];
        Self { name: name.to_owned(), life, standings, remembered, epoch: 0, member: false }
    }

    /// The epoch of the last table.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether the last table has this life of the node.
    pub fn is_member(&self) -> bool {
        self.member
    }

    /// How a partition stands.
    pub fn standing(&self, partition: u16) -> Standing {
        self.standings.get(usize::from(partition)).copied().unwrap_or(Standing::Elsewhere)
    }

    /// Whether a partition is served here, as long as the lease is good.
    pub fn serves(&self, partition: u16) -> bool {
        self.member && matches!(self.standing(partition), Standing::Here { .. })
    }

    /// What of partitions is here as it should be, and since when, for a next life.
    pub fn holdings(&self) -> BTreeMap<u16, u64> {
        let mut held = BTreeMap::new();
        for (partition, standing) in (0..).zip(&self.standings) {
            match standing {
                Standing::Here { since } | Standing::Leaving { since, .. } => {
                    held.insert(partition, *since);
                }
                Standing::Unknown => {
                    if let Some(since) = self.remembered.get(&partition) {
                        held.insert(partition, *since);
                    }
                }
                Standing::Elsewhere | Standing::Arriving { .. } => {}
            }
        }
        held
    }

    /// A table has come; what is to be done. One that is not newer is passed over.
    pub fn take(&mut self, table: &Table) -> Vec<Step> {
        if table.epoch <= self.epoch {
            return Vec::new();
        }
        self.epoch = table.epoch;
        self.member = table.lives.get(&self.name) == Some(&self.life);
        if !self.member {
            // Another life of this name is meant, or none. What is here stays until it is known whether it is still worth something.
            return Vec::new();
        }
        let mut plan = Plan::default();
        for partition in 0..PARTITIONS {
            let (was, is) = (self.standing(partition), self.wanted(table, partition));
            if was != is {
                self.change(table, partition, was, is, &mut plan);
                if let Some(standing) = self.standings.get_mut(usize::from(partition)) {
                    *standing = is;
                }
            }
        }
        plan.steps(table)
    }

    fn wanted(&self, table: &Table, partition: u16) -> Standing {
        let here = table.home(partition).filter(|home| home.node == self.name).map(|home| home.since);
        let moving = table.move_of(partition);
        match (here, moving) {
            (Some(since), Some(it)) => Standing::Leaving { id: it.id, since },
            (Some(since), None) => Standing::Here { since },
            (None, Some(it)) if it.to == self.name => Standing::Arriving { id: it.id },
            (None, _) => Standing::Elsewhere,
        }
    }

    /// Between one table and the next that is read here there may be others.
    fn change(&self, table: &Table, partition: u16, was: Standing, is: Standing, plan: &mut Plan) {
        let home = table.home(partition);
        let held = match was {
            Standing::Here { since } | Standing::Leaving { since, .. } => Some(since),
            Standing::Unknown => self.remembered.get(&partition).copied(),
            Standing::Arriving { id } => home.filter(|home| home.by == Some(id)).map(|home| home.since),
            Standing::Elsewhere => None,
        };
        match is {
            Standing::Here { since } | Standing::Leaving { since, .. } if held == Some(since) => match was {
                Standing::Unknown => plan.keep.push(partition),
                Standing::Arriving { id } => plan.taken.entry(id).or_default().push(partition),
                Standing::Leaving { .. } => plan.resume.push(partition),
                Standing::Here { .. } | Standing::Elsewhere => {}
            },
            Standing::Here { .. } | Standing::Leaving { .. } => {
                if was != Standing::Elsewhere {
                    plan.forget.push(partition);
                }
                plan.begin.push(partition);
            }
            Standing::Arriving { .. } | Standing::Elsewhere | Standing::Unknown => plan.forget.push(partition),
        }
        match is {
            Standing::Leaving { id, .. } => plan.send.entry(id).or_default().push(partition),
            Standing::Arriving { id } => plan.expect.entry(id).or_default().push(partition),
            _ => {}
        }
    }
}

/// What is to be done, put together.
#[derive(Default)]
struct Plan {
    forget: Vec<u16>,
    resume: Vec<u16>,
    keep: Vec<u16>,
    begin: Vec<u16>,
    taken: BTreeMap<u64, Vec<u16>>,
    send: BTreeMap<u64, Vec<u16>>,
    expect: BTreeMap<u64, Vec<u16>>,
}

impl Plan {
    fn steps(self, table: &Table) -> Vec<Step> {
        let mut steps = Vec::new();
        let some = |partitions: &Vec<u16>| !partitions.is_empty();
        steps.extend(Some(self.forget).filter(some).map(Step::Forget));
        steps.extend(Some(self.resume).filter(some).map(Step::Resume));
        steps.extend(Some(self.keep).filter(some).map(Step::Keep));
        steps.extend(self.taken.into_iter().map(|(id, partitions)| Step::TakeOver { id, partitions }));
        // The first table of all takes nothing from anybody.
        let lost = table.epoch > 1;
        steps.extend(Some(self.begin).filter(some).map(|partitions| Step::Begin { partitions, lost }));
        for (id, partitions) in self.send {
            let to = table.moves.iter().find(|it| it.id == id).map(|it| it.to.clone()).unwrap_or_default();
            steps.push(Step::Send { id, partitions, to });
        }
        for (id, partitions) in self.expect {
            let from = table.moves.iter().find(|it| it.id == id).map(|it| it.from.clone()).unwrap_or_default();
            steps.push(Step::Expect { id, partitions, from });
        }
        steps
    }
}

#[cfg(test)]
mod tests;
