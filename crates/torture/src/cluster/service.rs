//! The books of service: which partitions are served, and what each node says in `/readyz` meanwhile. Time is handed in.
//!
//! A partition is served when a probe of it is answered at any node. It is owed service from the limit after the last
//! disturbance on: a disturbance is a strike of the run, and the end of one.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use crate::ledger::Finding;

/// The time since the books were opened.
pub(super) type Moment = Duration;

/// The length of a count of answers.
const SECOND: Duration = Duration::from_secs(1);
/// Bad seconds in a row that are a finding: one alone may be cut from two halves.
const BAD_SECONDS: u32 = 2;
/// Seconds without a commit after which a node is not ready.
const STANDSTILL_SECONDS: u32 = 2;
/// How long a node may need to find out that a link is silent: 5 s, and the time of a takeover.
const LINK_LIMIT: Duration = Duration::from_secs(7);
/// A look at the books that comes later than this shows that the rig itself stood still. Meanwhile no probe has asked, so
/// partitions may be unserved for as much longer.
const LATE: Duration = Duration::from_millis(500);
/// The most that the rig's own stalls excuse of one time without service: a rig that has no time must not hide a fault.
const STALL_BOUND: Duration = Duration::from_secs(5);
/// Stalls that are remembered; older ones excuse nothing.
const STALLS: usize = 32;
/// Bad seconds in a row that the rig's own stalls excuse.
const STALLED_SECONDS: u32 = 5;
/// Complaints that wait to be read; more are only counted.
const COMPLAINTS: usize = 100;

/// A question of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// The place of the partition among the partitions that are asked.
    pub(super) partition: usize,
    pub(super) node: usize,
    pub(super) at: Moment,
}

/// The cause that keeps ready nodes from an answer, by the book.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Allowance {
    None,
    /// A node stands still, or its way to the bus is silent or slow. Nodes know it when its lease has ended, and these at once.
    Silence {
        knowing: Vec<usize>,
    },
    /// A link between two nodes is silent.
    SilentLink,
    /// Orchestrators keep each message before they acknowledge it. They notice a standstill of their disk or their bus after
    /// a while.
    Keeps,
    /// Acknowledgements wait for a bus that is away: orchestrators keep each message.
    AwaitsBus,
}

impl Allowance {
    /// That of a silence, if there is one.
    pub(super) fn of_silence(is_there: bool, knowing: Vec<usize>) -> Self {
        if is_there { Self::Silence { knowing } } else { Self::None }
    }
}

/// The totals of the books.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    /// Probes that were answered.
    pub(super) answered: u64,
    /// Seconds of nodes that said all the time that they are ready.
    pub(super) ready_seconds: u64,
    /// The longest time without an answer of one partition.
    pub(super) longest: Duration,
    /// The time of all partitions without service that they were owed.
    pub(super) overdue: Duration,
    /// How often the rig stood still.
    pub(super) stood_still: u64,
    /// The sum of these times.
    pub(super) stalled: Duration,
}

#[derive(Clone, Debug, Default)]
struct Partition {
    last_answer: Moment,
    /// The first question without an answer since the last answer.
    unserved_since: Option<Moment>,
    is_overdue: bool,
    answered: u32,
    failed: u32,
    /// Seconds in a row in which all nodes were ready, and all its questions failed.
    bad: u32,
    is_reported: bool,
}

#[derive(Clone, Debug, Default)]
struct NodeRecord {
    name: String,
    is_ready: bool,
    said_ready: u32,
    said_otherwise: u32,
    answered: u32,
    failed: u32,
    /// Seconds in a row in which it was ready, and no question to it was answered.
    bad: u32,
    /// How many of these are a finding.
    bad_seconds: u32,
    is_reported: bool,
}

impl NodeRecord {
    fn was_ready(&self) -> bool {
        self.said_ready > 0 && self.said_otherwise == 0
    }
}

/// The books.
#[derive(Debug)]
pub(super) struct Service {
    limit: Duration,
    numbers: Vec<u16>,
    partitions: Vec<Partition>,
    nodes: Vec<NodeRecord>,
    disturbed: Moment,
    /// When the rig stood still since then.
    stalls: VecDeque<Range<Moment>>,
    /// The rig stood still in this second.
    is_stalled: bool,
    /// Seconds in which it did so, since one in which it did not.
    stalled_seconds: u32,
    /// A strike lasts during which nothing is owed, such as a bus that is away.
    is_excused: bool,
    /// Bad seconds in a row of a partition that are a finding.
    bad_seconds: u32,
    looked: Moment,
    second: Moment,
    complaints: VecDeque<(Finding, String)>,
    pub(super) sums: Sums,
}

impl Service {
    /// Books of these partitions and nodes. `limit` is how long a partition may be unserved after a disturbance.
    pub(super) fn new(numbers: Vec<u16>, nodes: Vec<String>, limit: Duration) -> Self {
        let nodes = nodes
            .into_iter()
            .map(|name| NodeRecord { name, bad_seconds: BAD_SECONDS, ..NodeRecord::default() })
            .collect();
        Self {
            limit,
            partitions: vec![Partition::default(); numbers.len()],
            numbers,
            nodes,
            disturbed: Moment::ZERO,
            stalls: VecDeque::new(),
            is_stalled: false,
            stalled_seconds: 0,
            is_excused: true,
            bad_seconds: BAD_SECONDS,
            looked: Moment::ZERO,
            second: Moment::ZERO,
            complaints: VecDeque::new(),
            sums: Sums::default(),
        }
    }

    /// A strike begins or ends.
    pub(super) fn disturb(&mut self, now: Moment) {
        if now > self.disturbed {
            self.disturbed = now;
            self.stalls.clear();
        }
    }

    /// A strike begins or ends during which no partition is owed service.
    pub(super) fn excuse(&mut self, is_excused: bool, now: Moment) {
        if self.is_excused != is_excused {
            self.is_excused = is_excused;
            self.disturb(now);
        }
    }

    /// Notes the present cause that keeps ready nodes from an answer, by the book.
    pub(super) fn allow(&mut self, allowance: &Allowance) {
        let whole_seconds = |time: Duration| u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
        let bad_seconds = match allowance {
            Allowance::None => BAD_SECONDS,
            Allowance::Keeps => BAD_SECONDS + STANDSTILL_SECONDS,
            Allowance::Silence { .. } => whole_seconds(self.limit),
            Allowance::SilentLink => whole_seconds(self.limit.max(LINK_LIMIT)),
            Allowance::AwaitsBus => u32::MAX,
        };
        if self.bad_seconds != bad_seconds {
            self.bad_seconds = bad_seconds;
            self.partitions.iter_mut().for_each(|partition| partition.bad = 0);
        }
        for (place, node) in self.nodes.iter_mut().enumerate() {
            let knows = matches!(allowance, Allowance::Silence { knowing } if knowing.contains(&place));
            let own = if knows { BAD_SECONDS } else { bad_seconds };
            if node.bad_seconds != own {
                (node.bad_seconds, node.bad) = (own, 0);
            }
        }
    }

    /// A node has answered `/readyz`, or has not.
    pub(super) fn note_ready(&mut self, node: usize, is_ready: bool) {
        let Some(node) = self.nodes.get_mut(node) else { return };
        node.is_ready = is_ready;
        if is_ready {
            node.said_ready += 1;
        } else {
            node.said_otherwise += 1;
        }
    }

    /// True if every node said so when it was last asked.
    pub(super) fn are_ready(&self) -> bool {
        self.nodes.iter().all(|node| node.is_ready)
    }

    /// True if every partition has answered its last question.
    pub(super) fn is_whole(&self) -> bool {
        self.partitions.iter().all(|partition| partition.unserved_since.is_none())
    }

    /// True if the partition has answered nothing since a question that failed.
    pub(super) fn is_unserved(&self, partition: usize) -> bool {
        self.partitions.get(partition).is_some_and(|partition| partition.unserved_since.is_some())
    }

    /// A probe got its answer.
    pub(super) fn note_answer(&mut self, asked: Asked, now: Moment) {
        self.sums.answered += 1;
        if let Some(node) = self.nodes.get_mut(asked.node) {
            node.answered += 1;
        }
        let Some(partition) = self.partitions.get_mut(asked.partition) else { return };
        partition.answered += 1;
        partition.is_overdue = false;
        partition.last_answer = now;
        if let Some(since) = partition.unserved_since.take() {
            self.sums.longest = self.sums.longest.max(now.saturating_sub(since));
        }
    }

    /// A probe was refused, its connection ended, or no answer came in time.
    pub(super) fn note_failure(&mut self, asked: Asked) {
        if let Some(node) = self.nodes.get_mut(asked.node) {
            node.failed += 1;
        }
        if let Some(partition) = self.partitions.get_mut(asked.partition) {
            partition.failed += 1;
            // An answer that came while this question waited shows that the partition was served until then.
            let since = asked.at.max(partition.last_answer);
            partition.unserved_since = Some(partition.unserved_since.map_or(since, |earlier| earlier.min(since)));
        }
    }

    /// Looks at all books; to be called several times a second.
    pub(super) fn look(&mut self, now: Moment) {
        let pause = now.saturating_sub(self.looked);
        if pause > LATE {
            self.sums.stood_still += 1;
            self.sums.stalled += pause;
            self.is_stalled = true;
            if self.stalls.len() == STALLS {
                self.stalls.pop_front();
            }
            self.stalls.push_back(self.looked..now);
        }
        if !self.is_excused {
            self.find_overdue(now);
        }
        self.looked = now;
        if now >= self.second + SECOND {
            self.second = now;
            self.compare_readiness();
        }
    }

    fn find_overdue(&mut self, now: Moment) {
        for (partition, number) in self.partitions.iter_mut().zip(&self.numbers) {
            let Some(since) = partition.unserved_since else { continue };
            let begun = since.max(self.disturbed);
            if now <= begun + self.limit {
                continue;
            }
            let stalled: Duration =
                self.stalls.iter().map(|stall| stall.end.saturating_sub(stall.start.max(begun))).sum();
            let due = begun + self.limit + stalled.min(STALL_BOUND);
            if now <= due {
                continue;
            }
            self.sums.overdue += now.saturating_sub(due.max(self.looked));
            self.sums.longest = self.sums.longest.max(now.saturating_sub(since));
            if !partition.is_overdue {
                partition.is_overdue = true;
                let said: Vec<String> = self.nodes.iter().map(NodeRecord::to_string).collect();
                let text = format!(
                    "partition {number} is unserved for {:.1?}, {:.1?} after the last strike; the rig stood still for {:.1?} of it; {}",
                    now.saturating_sub(since),
                    now.saturating_sub(self.disturbed),
                    stalled,
                    said.join(", ")
                );
                complain(&mut self.complaints, Finding::Overdue, text);
            }
        }
    }

    /// A second has passed: nodes that were ready in all of it must have served.
    fn compare_readiness(&mut self) {
        // Questions that waited while the rig stood still say little, but not for ever.
        self.stalled_seconds = if std::mem::take(&mut self.is_stalled) { self.stalled_seconds + 1 } else { 0 };
        let bad = u32::from(self.stalled_seconds == 0 || self.stalled_seconds > STALLED_SECONDS);
        let (most, complaints) = (self.bad_seconds, &mut self.complaints);
        let all_ready = self.nodes.iter().all(NodeRecord::was_ready);
        for node in &mut self.nodes {
            let was_ready = node.was_ready();
            self.sums.ready_seconds += u64::from(was_ready);
            if !was_ready || node.answered > 0 {
                (node.bad, node.is_reported) = (0, false);
            } else if node.failed > 0 {
                node.bad += bad;
            }
            if node.bad >= node.bad_seconds && !node.is_reported {
                node.is_reported = true;
                let text = format!(
                    "{} says for {} s that it is ready, and answered none of {} probes in the last one",
                    node.name, node.bad, node.failed
                );
                complain(complaints, Finding::Unserved, text);
            }
            (node.said_ready, node.said_otherwise, node.answered, node.failed) = (0, 0, 0, 0);
        }
        for (partition, number) in self.partitions.iter_mut().zip(&self.numbers) {
            if !all_ready || partition.answered > 0 {
                (partition.bad, partition.is_reported) = (0, false);
            } else if partition.failed > 0 {
                partition.bad += bad;
            }
            if partition.bad >= most && !partition.is_reported {
                partition.is_reported = true;
                let text = format!(
                    "all nodes say for {} s that they are ready, and none serves partition {number}",
                    partition.bad
                );
                complain(complaints, Finding::Unserved, text);
            }
            (partition.answered, partition.failed) = (0, 0);
        }
    }

    /// The next complaint.
    pub(super) fn complaint(&mut self) -> Option<(Finding, String)> {
        self.complaints.pop_front()
    }
}

impl std::fmt::Display for NodeRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.name, if self.is_ready { "ready" } else { "not ready" })
    }
}

fn complain(complaints: &mut VecDeque<(Finding, String)>, finding: Finding, text: String) {
    if complaints.len() < COMPLAINTS {
        complaints.push_back((finding, text));
    }
}

#[cfg(test)]
mod tests;
