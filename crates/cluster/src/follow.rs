//! A node's part: the steps that it takes when a table comes.

use std::collections::BTreeMap;

use crate::{Former, Home, PARTITIONS, Table};

/// The state of a partition at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing is known in this life yet: the sessions here may be old.
    Unknown,
    /// Another node has it, or no node.
    Elsewhere,
    /// It is served here, since this epoch.
    Here {
        /// As in [`crate::Home`].
        since: u64,
    },
    /// It is to be served here since this epoch, when the dead node's image of it is fetched.
    Restoring {
        /// As in [`crate::Home`].
        since: u64,
        /// The image here was served here since this epoch, and may be the image to fetch.
        aside: Option<u64>,
    },
    /// Another node has it. It may not have fetched the image that is here since this epoch.
    Aside {
        /// Since when it was served here.
        since: u64,
    },
    /// It is here, served by no node, and goes to another node by this move.
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

/// The steps of a node, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Remove their images: they live elsewhere, or the images are old.
    Forget(Vec<u16>),
    /// Stop serving them and send their images.
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
    /// A move was called off: the partitions here are served again.
    Resume(Vec<u16>),
    /// A move has come to its end: the partitions that arrived are served.
    TakeOver {
        /// The move.
        id: u64,
        /// Of these partitions.
        partitions: Vec<u16>,
    },
    /// The partitions of an earlier life are served again.
    Keep(Vec<u16>),
    /// Fetch what dead nodes had of them, from the first of these that had them; then [`Follower::restored`].
    Restore {
        /// These partitions.
        partitions: Vec<u16>,
        /// The nodes that may have left them on the bus, the latest first.
        former: Vec<Former>,
    },
    /// They begin with nothing.
    Begin {
        /// These partitions.
        partitions: Vec<u16>,
        /// A node has served them before, and its sessions are lost.
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
    /// By which move each partition has come as a whole that is not served here yet.
    arrived: BTreeMap<u16, u64>,
    epoch: u64,
    /// Whether the table has this life.
    member: bool,
}

impl Follower {
    /// A life that begins. `remembered` has the partitions that the earlier one served last, and since which epoch, as
    /// far as they are still there.
    pub fn new(name: &str, life: u64, remembered: BTreeMap<u16, u64>) -> Self {
        let standings = vec![Standing::Unknown; usize::from(PARTITIONS)];
        Self { name: name.to_owned(), life, standings, remembered, arrived: BTreeMap::new(), epoch: 0, member: false }
    }

    /// With partitions that came to an earlier life by moves whose end it did not see.
    #[must_use]
    pub fn with_arrivals(self, arrived: BTreeMap<u16, u64>) -> Self {
        Self { arrived, ..self }
    }

    /// The partitions of a move are here as a whole.
    pub fn arrived(&mut self, id: u64) {
        let here = (0..PARTITIONS).filter(|partition| self.standing(*partition) == Standing::Arriving { id });
        let here: Vec<u16> = here.collect();
        self.arrived.extend(here.into_iter().map(|partition| (partition, id)));
    }

    /// Partitions that have come as a whole and are not known to be served here, by which move, for a next life.
    pub fn arrivals(&self) -> BTreeMap<u16, u64> {
        let is_open = |partition: u16, by: u64| {
            let standing = self.standing(partition);
            standing == Standing::Unknown || standing == Standing::Arriving { id: by }
        };
        self.arrived.iter().filter(|(partition, by)| is_open(**partition, **by)).map(|(it, by)| (*it, *by)).collect()
    }

    /// The epoch of the last table.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether the last table has this life of the node.
    pub fn is_member(&self) -> bool {
        self.member
    }

    /// The state of a partition.
    pub fn standing(&self, partition: u16) -> Standing {
        self.standings.get(usize::from(partition)).copied().unwrap_or(Standing::Elsewhere)
    }

    /// Whether a partition is served here, as long as the lease is good.
    pub fn serves(&self, partition: u16) -> bool {
        self.member && matches!(self.standing(partition), Standing::Here { .. })
    }

    /// The partitions whose content is complete here, and since which epoch, for the next start.
    pub fn holdings(&self) -> BTreeMap<u16, u64> {
        (0..PARTITIONS).filter_map(|partition| Some((partition, self.held(partition, None)?))).collect()
    }

    /// A dead node's image of a partition is here. Says whether it is served now: not, when another table has come
    /// meanwhile.
    pub fn restored(&mut self, partition: u16, since: u64) -> bool {
        let Some(standing) = self.standings.get_mut(usize::from(partition)) else { return false };
        let is_meant = matches!(*standing, Standing::Restoring { since: meant, .. } if meant == since);
        if is_meant {
            *standing = Standing::Here { since };
        }
        is_meant
    }

    /// Partitions of the last table that are here as a whole although it says that they are to be fetched, and since
    /// when. The leader needs them, also from a life that has not fetched them itself.
    pub fn fetched(&self, table: &Table) -> BTreeMap<u16, u64> {
        let is_here = |partition: u16| {
            let home = table.home(partition).filter(|home| home.node == self.name && !home.former.is_empty())?;
            let is_here = self.standing(partition) == Standing::Here { since: home.since };
            is_here.then_some((partition, home.since))
        };
        if self.member { (0..PARTITIONS).filter_map(is_here).collect() } else { BTreeMap::new() }
    }

    /// Since when the image of a partition was served here, or was to be.
    fn held(&self, partition: u16, home: Option<&Home>) -> Option<u64> {
        match self.standing(partition) {
            Standing::Here { since } | Standing::Leaving { since, .. } | Standing::Aside { since } => Some(since),
            Standing::Restoring { aside, .. } => aside,
            Standing::Unknown => {
                self.remembered.get(&partition).copied().or_else(|| self.came_by(home, *self.arrived.get(&partition)?))
            }
            Standing::Arriving { id } => self.came_by(home, id),
            Standing::Elsewhere => None,
        }
    }

    /// Since when a partition was to be served here that has come by a move.
    fn came_by(&self, home: Option<&Home>, id: u64) -> Option<u64> {
        let home = home?;
        if home.node == self.name && home.by == Some(id) {
            return Some(home.since);
        }
        home.former.iter().find(|it| it.node == self.name && it.by == Some(id)).map(|it| it.since)
    }

    /// The steps for a table that has come. One that is not newer is passed over.
    pub fn take(&mut self, table: &Table) -> Vec<Step> {
        if table.epoch <= self.epoch {
            return Vec::new();
        }
        self.epoch = table.epoch;
        self.member = table.lives.get(&self.name) == Some(&self.life);
        if !self.member {
            // Another life of this name is meant, or none. The images here stay until it is known whether they are
            // still worth something.
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
        let home = table.home(partition);
        let here = home.filter(|home| home.node == self.name);
        let held = self.held(partition, home);
        match (here, table.move_of(partition)) {
            (Some(home), Some(it)) => Standing::Leaving { id: it.id, since: home.since },
            (Some(home), None) if home.former.is_empty() || held == Some(home.since) => {
                Standing::Here { since: home.since }
            }
            (Some(home), None) => {
                let aside = held.filter(|since| self.is_former(Some(home), *since));
                Standing::Restoring { since: home.since, aside }
            }
            (None, Some(it)) if it.to == self.name => Standing::Arriving { id: it.id },
            (None, _) => match held.filter(|since| self.is_former(home, *since)) {
                Some(since) => Standing::Aside { since },
                None => Standing::Elsewhere,
            },
        }
    }

    /// Whether the home may have to fetch the image that is here since an epoch.
    fn is_former(&self, home: Option<&Home>, since: u64) -> bool {
        home.is_some_and(|home| home.former.iter().any(|it| it.node == self.name && it.since == since))
    }

    /// Between one table and the next that is read here there may be others.
    fn change(&self, table: &Table, partition: u16, was: Standing, is: Standing, plan: &mut Plan) {
        let home = table.home(partition);
        let held = self.held(partition, home);
        match is {
            Standing::Here { since } | Standing::Leaving { since, .. } if held == Some(since) => match was {
                Standing::Unknown => plan.keep.push(partition),
                Standing::Arriving { id } => plan.taken.entry(id).or_default().push(partition),
                Standing::Leaving { .. } => plan.resume.push(partition),
                _ => {}
            },
            Standing::Here { .. } | Standing::Leaving { .. } => {
                if was != Standing::Elsewhere {
                    plan.forget.push(partition);
                }
                plan.begin.push(partition);
            }
            Standing::Restoring { aside, .. } => {
                if was != Standing::Elsewhere && aside.is_none() {
                    plan.forget.push(partition);
                }
                let former = home.map(|home| home.former.clone()).unwrap_or_default();
                plan.restore.entry(former).or_default().push(partition);
            }
            Standing::Aside { .. } => {}
            Standing::Arriving { .. } | Standing::Elsewhere | Standing::Unknown => plan.forget.push(partition),
        }
        match is {
            Standing::Leaving { id, .. } => plan.send.entry(id).or_default().push(partition),
            Standing::Arriving { id } => plan.expect.entry(id).or_default().push(partition),
            _ => {}
        }
    }
}

/// The steps, put together.
#[derive(Default)]
struct Plan {
    forget: Vec<u16>,
    resume: Vec<u16>,
    keep: Vec<u16>,
    begin: Vec<u16>,
    restore: BTreeMap<Vec<Former>, Vec<u16>>,
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
        // Another life of a first home has lost the state of the one before.
        let is_first =
            |partition: &u16| table.home(*partition).is_some_and(|home| home.first && home.since == table.epoch);
        let lost = !self.begin.iter().all(is_first);
        steps.extend(Some(self.begin).filter(some).map(|partitions| Step::Begin { partitions, lost }));
        steps.extend(self.restore.into_iter().map(|(former, partitions)| Step::Restore { partitions, former }));
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
