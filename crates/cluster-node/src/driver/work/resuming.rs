//! Connections of dead orchestrators that an earlier life of this process worked off, or whose brokers were not in the fleet
//! at the takeover. Each is continued when its broker is in the fleet, and only where no other member has taken over from
//! this one meanwhile, with its partitions and connections.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use tidegate_engine::{Continued, Partitions};
use tidegate_node::OrchestratorMoves;

use super::brokers::BACK_LIMIT;
use super::{TableWork, Worker};
use crate::driver::memory::RememberedBroker;
use crate::driver::sets::{both, set_of};

/// How long a broker of such a connection may be missing in the fleet while another broker is there.
pub(super) const NAMED_LIMIT: Duration = Duration::from_secs(60);
/// Pause before the next check whether brokers are in the fleet.
const PAUSE: Duration = Duration::from_millis(500);

/// The connections that are not continued yet.
#[derive(Default)]
pub(super) struct Resuming {
    waiting: Vec<Resumed>,
    /// The partitions that the last life had, and since when.
    last: BTreeMap<u16, u64>,
    /// Whether this life has one of them since then: no member has taken over from the last life.
    is_unbroken: bool,
    /// The partitions of this member in the table; `None` before it is a member.
    own: Option<Own>,
    /// Since when there is a broker in the fleet.
    brokers_since: Option<Instant>,
    /// The connections that the engine keeps.
    kept: Option<BTreeSet<String>>,
}

struct Resumed {
    remembered: RememberedBroker,
    /// When it was taken over; `None` in an earlier life of this process.
    taken_over: Option<Instant>,
    /// Since when the dead orchestrator is back.
    back_since: Option<Instant>,
}

/// The partitions that the table gives to this member.
#[derive(Clone, Copy, Debug)]
struct Own {
    held: Partitions,
    /// The partitions that are fetched from dead members, this one among them.
    restoring: Partitions,
}

/// The state of the fleet and the cluster.
struct Surroundings<'s> {
    now: Instant,
    lives: &'s BTreeMap<String, u64>,
    /// The brokers of the fleet.
    brokers: &'s BTreeSet<String>,
    /// The connections that are worked off already.
    adopted: &'s BTreeSet<String>,
}

/// The connections to continue now, and the connections to give up.
#[derive(Debug, Default, PartialEq, Eq)]
struct Due {
    continued: Vec<RememberedBroker>,
    given_up: Vec<RememberedBroker>,
}

/// The name of a connection in the fleet.
fn name_of(remembered: &RememberedBroker) -> String {
    format!("{}@{}", remembered.broker, remembered.of)
}

impl Resuming {
    /// The connections of the last life, which had the partitions `last`.
    pub(super) fn of(remembered: Vec<RememberedBroker>, last: BTreeMap<u16, u64>) -> Self {
        let of_last_life = |remembered| Resumed { remembered, taken_over: None, back_since: None };
        let waiting = remembered.into_iter().map(of_last_life);
        Self { waiting: waiting.collect(), last, ..Self::default() }
    }

    /// Notes the partitions of this life, and since when it has them.
    fn note_holdings(&mut self, holdings: &BTreeMap<u16, u64>) {
        self.is_unbroken |= self.last.iter().any(|(partition, since)| holdings.get(partition) == Some(since));
    }

    /// Adds a connection that was taken over, and whose broker is not in the fleet.
    pub(super) fn add(&mut self, remembered: RememberedBroker, now: Instant) {
        self.waiting.push(Resumed { remembered, taken_over: Some(now), back_since: None });
    }

    /// Further partitions of a dead orchestrator have come. Returns the brokers whose connections of it wait.
    pub(super) fn join(&mut self, of: &str, partitions: Partitions) -> BTreeSet<String> {
        let its = self.waiting.iter_mut().map(|resumed| &mut resumed.remembered).filter(|it| it.of == of);
        its.map(|remembered| {
            let here = set_of(&remembered.here).with(partitions);
            remembered.here = here.iter().map(|partition| partition.0).collect();
            remembered.broker.clone()
        })
        .collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &RememberedBroker> {
        self.waiting.iter().map(|resumed| &resumed.remembered)
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The time of the next check whether brokers are in the fleet.
    pub(super) fn next_look(&self) -> Option<Duration> {
        (self.own.is_some() && !self.waiting.is_empty()).then_some(PAUSE)
    }

    /// A table with this member is in force.
    fn note_table(&mut self, held: Partitions, restoring: Partitions) {
        self.own = Some(Own { held, restoring });
    }

    /// Takes out the connections that wait no longer.
    fn take_due(&mut self, around: &Surroundings<'_>) -> Due {
        let Some(Own { held, restoring }) = self.own else { return Due::default() };
        if around.brokers.is_empty() {
            self.brokers_since = None;
        } else {
            self.brokers_since.get_or_insert(around.now);
        }
        let has_passed = |since: Option<Instant>, limit: Duration| {
            since.is_some_and(|since| around.now.saturating_duration_since(since) >= limit)
        };
        let mut due = Due::default();
        for mut resumed in std::mem::take(&mut self.waiting) {
            let remembered = &resumed.remembered;
            if around.lives.contains_key(&remembered.of) {
                resumed.back_since.get_or_insert(around.now);
            }
            let here = set_of(&remembered.here);
            let missing_since = self.brokers_since.map(|since| resumed.taken_over.map_or(since, |at| at.max(since)));
            let is_own = self.is_unbroken || !both(here, held).is_empty();
            let (is_fetched, is_named) =
                (!both(here, restoring).is_empty(), around.brokers.contains(&remembered.broker));
            if around.adopted.contains(&name_of(remembered)) {
                // It was taken over from another member meanwhile, which had continued it.
            } else if is_own && is_named {
                due.continued.push(resumed.remembered);
            } else if !(is_own || is_fetched)
                || has_passed(resumed.back_since, BACK_LIMIT)
                || !is_named && has_passed(missing_since, NAMED_LIMIT)
            {
                due.given_up.push(resumed.remembered);
            } else {
                self.waiting.push(resumed);
            }
        }
        due
    }
}

impl Worker {
    /// A table with this member is in force.
    pub(super) fn note_own_partitions(&mut self, work: &TableWork) {
        if !self.shared.is_orchestrator {
            return;
        }
        let restoring = set_of(&work.restoring.keys().copied().collect::<Vec<_>>());
        let table = work.memory.table.as_ref();
        let home_here = set_of(&table.map(|table| table.of(&self.members.name)).unwrap_or_default());
        self.adopted.resuming.note_holdings(&work.memory.holdings);
        self.adopted.resuming.note_table(home_here.without(restoring), restoring);
        self.resume_adopted();
    }

    /// Continues with the connections of the last life of this process whose brokers are in the fleet.
    pub(super) fn resume_adopted(&mut self) {
        if self.adopted.resuming.own.is_none()
            || (self.adopted.resuming.len() == 0 && self.adopted.resuming.kept.is_some())
        {
            return;
        }
        let brokers = OrchestratorMoves::of(&self.node).broker_names();
        let adopted = self.adopted.names();
        let before = self.adopted.resuming.len();
        let due = self.adopted.resuming.take_due(&Surroundings {
            now: Instant::now(),
            lives: &self.members.lives,
            brokers: &brokers,
            adopted: &adopted,
        });
        for remembered in due.given_up {
            tracing::info!(
                node = remembered.of,
                broker = remembered.broker,
                "the connection of a dead orchestrator is not continued: the member that has its partitions now works it off, or its broker is not in the fleet"
            );
        }
        let held = self.adopted.resuming.own.map_or(Partitions::NONE, |own| own.held);
        for remembered in due.continued {
            let here = both(set_of(&remembered.here), held);
            match self.shared.inheriting.resume(&self.node, &remembered.of, here, BTreeSet::new()) {
                Ok(transfer) => self.work_off(remembered, transfer, None, Vec::new()),
                Err(error) => {
                    self.complain(&error, "a connection of a dead orchestrator is not worked off; it is tried again");
                    self.adopted.resuming.add(remembered, Instant::now());
                }
            }
        }
        self.keep_sessions();
        if self.adopted.resuming.len() != before {
            self.remember_again();
        }
        self.note_adopted_brokers();
    }

    /// Has the engine keep the sessions of the connections that are still to be continued, and no others.
    fn keep_sessions(&mut self) {
        let names: BTreeSet<String> = self.adopted.resuming.iter().map(name_of).collect();
        if self.adopted.resuming.kept.as_ref() == Some(&names) {
            return;
        }
        match OrchestratorMoves::of(&self.node).continue_adopted(Continued::Named(names.clone())) {
            Ok(()) => self.adopted.resuming.kept = Some(names),
            Err(error) => self.complain(&error, "sessions of dead orchestrators at brokers are kept"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remembered(here: &[u16]) -> RememberedBroker {
        let (of, broker, here) = ("dead".to_owned(), "x".to_owned(), here.to_vec());
        RememberedBroker { of, broker, held: here.clone(), here, left: Vec::new() }
    }

    fn of_last_life(here: &[u16]) -> Resuming {
        Resuming::of(vec![remembered(here)], [(8, 5)].into())
    }

    /// The world of a member, after a number of seconds.
    struct Member {
        began: Instant,
        lives: BTreeMap<String, u64>,
        brokers: BTreeSet<String>,
        adopted: BTreeSet<String>,
    }

    impl Member {
        fn new() -> Self {
            let (began, lives) = (Instant::now(), BTreeMap::new());
            Self { began, lives, brokers: BTreeSet::new(), adopted: BTreeSet::new() }
        }

        /// How many connections are continued, given up, and waited for.
        fn look(&self, resuming: &mut Resuming, seconds: u64) -> [usize; 3] {
            let due = resuming.take_due(&Surroundings {
                now: self.began + Duration::from_secs(seconds),
                lives: &self.lives,
                brokers: &self.brokers,
                adopted: &self.adopted,
            });
            [due.continued.len(), due.given_up.len(), resuming.len()]
        }
    }

    #[test]
    fn a_connection_waits_until_its_broker_is_named() {
        let mut member = Member::new();
        let mut resuming = of_last_life(&[3]);
        member.brokers.insert("x".to_owned());
        assert_eq!(member.look(&mut resuming, 0), [0, 0, 1], "it is no member yet");
        member.brokers.clear();
        resuming.note_table(set_of(&[3, 4]), Partitions::NONE);
        assert_eq!(member.look(&mut resuming, 1_000), [0, 0, 1], "no broker is named yet");
        member.brokers.insert("y".to_owned());
        assert_eq!(member.look(&mut resuming, 1_001), [0, 0, 1]);
        member.brokers.insert("x".to_owned());
        assert_eq!(member.look(&mut resuming, 1_002), [1, 0, 0]);
    }

    #[test]
    fn a_connection_whose_broker_is_gone_is_given_up() {
        let mut member = Member::new();
        let begun = || {
            let mut resuming = of_last_life(&[3]);
            resuming.note_table(set_of(&[3]), Partitions::NONE);
            resuming
        };
        member.brokers.insert("y".to_owned());
        let mut resuming = begun();
        assert_eq!(member.look(&mut resuming, 0), [0, 0, 1]);
        assert_eq!(member.look(&mut resuming, 59), [0, 0, 1]);
        assert_eq!(member.look(&mut resuming, 60), [0, 1, 0]);
        member.lives.insert("dead".to_owned(), 2);
        let mut resuming = begun();
        assert_eq!(member.look(&mut resuming, 0), [0, 0, 1]);
        assert_eq!(member.look(&mut resuming, 30), [0, 1, 0], "the dead one is back and connects");
    }

    #[test]
    fn a_connection_that_was_taken_over_waits_for_its_broker() {
        let mut member = Member::new();
        let mut resuming = Resuming::default();
        resuming.note_table(set_of(&[3]), Partitions::NONE);
        member.brokers.insert("y".to_owned());
        assert_eq!(member.look(&mut resuming, 0), [0, 0, 0]);
        resuming.add(remembered(&[3]), member.began + Duration::from_secs(500));
        assert_eq!(member.look(&mut resuming, 559), [0, 0, 1], "other brokers have been there for long");
        assert_eq!(member.look(&mut resuming, 560), [0, 1, 0]);
        resuming.add(remembered(&[3]), member.began + Duration::from_secs(600));
        member.brokers.insert("x".to_owned());
        assert_eq!(member.look(&mut resuming, 601), [1, 0, 0]);
    }

    #[test]
    fn a_waiting_connection_is_for_partitions_that_come_late() {
        let mut resuming = of_last_life(&[3]);
        assert_eq!(resuming.join("dead", set_of(&[2, 3])), ["x".to_owned()].into());
        assert_eq!(resuming.join("other", set_of(&[9])), BTreeSet::new());
        assert_eq!(resuming.iter().map(|it| it.here.clone()).collect::<Vec<_>>(), [vec![2, 3]]);
    }

    #[test]
    fn only_the_home_of_the_partitions_continues() {
        let mut member = Member::new();
        member.brokers.insert("x".to_owned());
        let mut resuming = of_last_life(&[3, 4]);
        resuming.note_table(set_of(&[7]), Partitions::NONE);
        assert_eq!(member.look(&mut resuming, 0), [0, 1, 0], "another member has taken over");
        let mut resuming = of_last_life(&[3, 4]);
        resuming.note_table(set_of(&[4]), Partitions::NONE);
        assert_eq!(member.look(&mut resuming, 0), [1, 0, 0], "one partition has moved on before");
    }

    #[test]
    fn a_restart_continues_for_partitions_that_have_moved() {
        let mut member = Member::new();
        member.brokers.insert("x".to_owned());
        let mut resuming = of_last_life(&[3]);
        resuming.note_holdings(&[(8, 5)].into());
        resuming.note_table(set_of(&[8]), Partitions::NONE);
        assert_eq!(member.look(&mut resuming, 0), [1, 0, 0], "no member has taken over its connections");
        let mut resuming = of_last_life(&[3]);
        resuming.note_holdings(&[(8, 6)].into());
        resuming.note_table(set_of(&[8]), Partitions::NONE);
        assert_eq!(member.look(&mut resuming, 0), [0, 1, 0], "it got a partition back from the member that took over");
    }

    #[test]
    fn a_connection_that_returns_with_its_home_is_one() {
        let mut member = Member::new();
        member.brokers.insert("x".to_owned());
        let mut resuming = of_last_life(&[3]);
        resuming.note_table(Partitions::NONE, set_of(&[3]));
        assert_eq!(member.look(&mut resuming, 0), [0, 0, 1], "another member may have continued it");
        member.adopted.insert("x@dead".to_owned());
        assert_eq!(member.look(&mut resuming, 1), [0, 0, 0], "it was taken over from the member that had continued it");
    }
}
