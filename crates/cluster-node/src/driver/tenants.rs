//! The log in which the nodes of a cluster agree on the numbers of tenants.
//!
//! A record is a list of names. The number of a tenant is the place of its name when all lists are read one after the
//! other and repetitions are left out. So numbers that were given never change while the log is there. When the bus has
//! lost the log, the nodes that run know the order. They restore it: restored lists count before all others, which may
//! have come from a node that was started meanwhile.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tidegate_bus::Wake;

use super::following::{Following, Taken};
use super::logs::Logs;

/// For how long nothing has come from the log until it is compared with the numbers of the node: it may not be read to
/// its end before. A node restores its numbers at most once in this time.
const QUIET: Duration = Duration::from_secs(1);

/// A record.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    /// Whether these are numbers that a node uses and that the log had before it was lost.
    restored: bool,
    /// In the order of their numbers.
    names: Vec<String>,
}

/// Names in their order, each once.
#[derive(Clone, Debug, Default)]
struct List {
    order: Vec<String>,
    known: HashSet<String>,
}

impl List {
    fn add(&mut self, name: String) {
        if self.known.insert(name.clone()) {
            self.order.push(name);
        }
    }
}

/// The names as the log has them.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    restored: List,
    added: List,
}

/// What a node does about the numbers in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// They are those of the node.
    Same,
    /// The log was lost: the node writes its numbers.
    Restore,
    /// Other nodes have restored other numbers than this node has: it cannot work with them.
    Other,
}

/// A record for the log.
pub(super) fn record(names: &[String], restored: bool) -> Vec<u8> {
    // Texts and a flag: nothing of it can fail.
    serde_json::to_vec(&Record { restored, names: names.to_vec() }).unwrap_or_default()
}

impl Names {
    /// Takes a record in. Earlier versions wrote a single name.
    pub(super) fn take(&mut self, payload: &[u8]) {
        let single = || Record { restored: false, names: vec![String::from_utf8_lossy(payload).into_owned()] };
        let record: Record = serde_json::from_slice(payload).unwrap_or_else(|_| single());
        let list = if record.restored { &mut self.restored } else { &mut self.added };
        record.names.into_iter().for_each(|name| list.add(name));
    }

    /// All names in the order of their numbers.
    pub(super) fn all(&self) -> Vec<String> {
        self.iter().cloned().collect()
    }

    fn iter(&self) -> impl Iterator<Item = &String> {
        let added = self.added.order.iter().filter(|name| !self.restored.known.contains(*name));
        self.restored.order.iter().chain(added)
    }

    /// Compares the log with the numbers that a running node has agreed on. The log had them, and numbers in it do not
    /// change: where it has others, it was lost.
    pub(super) fn judge(&self, own: &[String]) -> Verdict {
        let restored = &self.restored.order;
        let known = restored.len().min(own.len());
        if self.iter().take(own.len()).eq(own) {
            Verdict::Same
        } else if restored.get(..known) == own.get(..known) {
            Verdict::Restore
        } else {
            Verdict::Other
        }
    }
}

/// Why a node with other numbers ends.
pub(super) fn other_numbers(name: &str) -> String {
    format!(
        "node `{name}` ends, since the other nodes have other numbers for their tenants: it was started while the bus had lost them. Start it again \
         with an empty data directory"
    )
}

/// Follows the log while the node runs.
#[derive(Default)]
pub(super) struct TenantLog {
    following: Following,
    names: Names,
    quiet_since: Option<Instant>,
}

impl TenantLog {
    /// Takes what there is, and restores the numbers of the node where the log was lost.
    pub(super) fn look(&mut self, logs: &Logs, wake: Wake) -> (Taken, Verdict) {
        let taken = self.following.take(&logs.bus, &logs.tenants, wake);
        if taken.is_anew {
            self.names = Names::default();
        }
        taken.records.iter().for_each(|record| self.names.take(&record.payload));
        let now = Instant::now();
        if taken.is_anew || taken.is_gone || !taken.records.is_empty() {
            self.quiet_since = Some(now);
        }
        let since = *self.quiet_since.get_or_insert(now);
        if now.saturating_duration_since(since) < QUIET {
            return (taken, Verdict::Same);
        }
        let verdict = logs.judge_tenants(&self.names);
        if verdict == Verdict::Restore {
            self.quiet_since = Some(now);
        }
        (taken, verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// A log with these records: whether it is restored, and the names.
    fn log(records: &[(bool, &[&str])]) -> Names {
        let mut names = Names::default();
        for (restored, list) in records {
            names.take(&record(&texts(list), *restored));
        }
        names
    }

    #[test]
    fn numbers_do_not_change_when_names_are_added() {
        let names = log(&[(false, &["b", "a"]), (false, &["c", "a"]), (false, &["d"])]);
        assert_eq!(names.all(), texts(&["b", "a", "c", "d"]));
        assert_eq!(names.judge(&texts(&["b", "a"])), Verdict::Same);
    }

    #[test]
    fn a_log_of_an_earlier_version_is_read() {
        let mut names = Names::default();
        for name in ["b", "a", "b"] {
            names.take(name.as_bytes());
        }
        names.take(&record(&texts(&["c"]), false));
        assert_eq!(names.all(), texts(&["b", "a", "c"]));
    }

    #[test]
    fn the_nodes_that_run_restore_a_lost_log() {
        let own = texts(&["a", "b"]);
        assert_eq!(log(&[]).judge(&own), Verdict::Restore);
        // A node that was started meanwhile was first, or added a name between those of others.
        for others in [&[(false, &["x"][..])][..], &[(false, &["x", "b"])], &[(false, &["b"]), (false, &["a"])]] {
            let mut names = log(others);
            assert_eq!(names.judge(&own), Verdict::Restore, "{others:?}");
            names.take(&record(&own, true));
            assert_eq!(names.judge(&own), Verdict::Same);
            assert!(names.all().starts_with(&own));
        }
    }

    #[test]
    fn a_node_started_after_the_loss_learns_of_other_numbers() {
        let names = log(&[(false, &["x", "a"]), (true, &["a", "b"])]);
        assert_eq!(names.all(), texts(&["a", "b", "x"]));
        assert_eq!(names.judge(&texts(&["x", "a"])), Verdict::Other);
    }

    #[test]
    fn nodes_that_restore_in_any_order_come_to_the_same_numbers() {
        let (older, newer) = (texts(&["a", "b"]), texts(&["a", "b", "c"]));
        let mut names = log(&[(true, &["a", "b"]), (false, &["x"])]);
        assert_eq!((names.judge(&older), names.judge(&newer)), (Verdict::Same, Verdict::Restore));
        names.take(&record(&newer, true));
        assert_eq!(names.all(), texts(&["a", "b", "c", "x"]));
        let names = log(&[(true, &["a", "b", "c"]), (true, &["a", "b"])]);
        assert_eq!((names.all(), names.judge(&older)), (newer, Verdict::Same));
    }
}
