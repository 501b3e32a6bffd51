//! The log in which the nodes of a cluster agree on the numbers of tenants.
//!
//! A record is a list of names. The number of a tenant is the place of its name when all lists are read one after the
//! other and repetitions are left out. So numbers that were given never change while the log is there. When the bus has
//! lost the log, the nodes that run know the order. They restore it: restored lists count before all others, which may
//! have come from a node that was started meanwhile.

use std::collections::HashSet;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use serde::{Deserialize, Serialize};
use tidegate_bus::{Append, Bounds, Bus, BusError, Done, LogPartition, Position, Wake};

use super::following::{Following, Taken};

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

/// The decision of a node about the numbers in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TenantCheck {
    /// They equal the numbers of the node.
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
    pub(super) fn judge(&self, own: &[String]) -> TenantCheck {
        let restored = &self.restored.order;
        let known = restored.len().min(own.len());
        if self.iter().take(own.len()).eq(own) {
            TenantCheck::Same
        } else if restored.get(..known) == own.get(..known) {
            TenantCheck::Restore
        } else {
            TenantCheck::Other
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

/// A question to the bus, or the end of an append, that is waited for without blocking.
type Pending<T> = Receiver<Result<T, BusError>>;

/// Follows the log while the node runs.
#[derive(Default)]
pub(super) struct TenantLog {
    following: Following,
    names: Names,
    /// The position up to which the log has been read.
    read_to: Position,
    end: Option<Pending<Bounds>>,
    restoring: Option<Pending<Position>>,
}

/// The state of an answer that may come later.
fn poll<T>(pending: &mut Option<Pending<T>>) -> Option<Result<T, BusError>> {
    let outcome = match pending.as_ref()?.try_recv() {
        Err(TryRecvError::Empty) => return None,
        Ok(outcome) => outcome,
        Err(TryRecvError::Disconnected) => Err(BusError::Stopped),
    };
    *pending = None;
    Some(outcome)
}

impl TenantLog {
    /// Takes the new records of the log, and restores the numbers of the node where the log was lost.
    pub(super) fn look(&mut self, bus: &Bus, log: &LogPartition, own: &[String], wake: Wake) -> (Taken, TenantCheck) {
        let taken = self.following.take(bus, log, wake);
        if taken.is_reopened {
            (self.names, self.read_to) = (Names::default(), Position::START);
        }
        taken.records.iter().for_each(|record| self.names.take(&record.payload));
        self.read_to = self.read_to.max(taken.next);
        let check = self.judge(own, |done| bus.bounds(log, done));
        if check == TenantCheck::Restore {
            let append = Append::new(record(own, true));
            self.restoring = ask(|done| bus.append(log, append, done));
        }
        (taken, check)
    }

    /// Compares the log with the numbers of the node. A log that is not read to its end may have them in its other
    /// records: the bus is asked for the end first, and the numbers are compared when all below it is read.
    fn judge(&mut self, own: &[String], bounds: impl FnOnce(Done<Bounds>) -> Result<(), BusError>) -> TenantCheck {
        let check = self.names.judge(own);
        // Whether the record was stored or not, the log shows it.
        let _ = poll(&mut self.restoring);
        if self.restoring.is_some() {
            return TenantCheck::Same;
        }
        if check == TenantCheck::Same {
            self.end = None;
            return check;
        }
        match poll(&mut self.end) {
            Some(Ok(bounds)) if bounds.next <= self.read_to => check,
            // Not read so far, or the bus does not know: the next look asks again.
            Some(_) => TenantCheck::Same,
            None => {
                self.end = self.end.take().or_else(|| ask(bounds));
                TenantCheck::Same
            }
        }
    }
}

/// Begins something on the bus. Its outcome wakes no thread, so that a bus that fails at once is asked at each tick only.
fn ask<T: Send + 'static>(call: impl FnOnce(Done<T>) -> Result<(), BusError>) -> Option<Pending<T>> {
    let (sender, outcome) = channel();
    let done = Box::new(move |result| {
        // The node may have ended.
        let _ = sender.send(result);
    });
    call(done).ok().map(|()| outcome)
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
        assert_eq!(names.judge(&texts(&["b", "a"])), TenantCheck::Same);
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
        assert_eq!(log(&[]).judge(&own), TenantCheck::Restore);
        // A node that was started meanwhile was first, or added a name between the names of others.
        for others in [&[(false, &["x"][..])][..], &[(false, &["x", "b"])], &[(false, &["b"]), (false, &["a"])]] {
            let mut names = log(others);
            assert_eq!(names.judge(&own), TenantCheck::Restore, "{others:?}");
            names.take(&record(&own, true));
            assert_eq!(names.judge(&own), TenantCheck::Same);
            assert!(names.all().starts_with(&own));
        }
    }

    #[test]
    fn a_node_started_after_the_loss_learns_of_other_numbers() {
        let names = log(&[(false, &["x", "a"]), (true, &["a", "b"])]);
        assert_eq!(names.all(), texts(&["a", "b", "x"]));
        assert_eq!(names.judge(&texts(&["x", "a"])), TenantCheck::Other);
    }

    #[test]
    fn nodes_that_restore_in_any_order_come_to_the_same_numbers() {
        let (older, newer) = (texts(&["a", "b"]), texts(&["a", "b", "c"]));
        let mut names = log(&[(true, &["a", "b"]), (false, &["x"])]);
        assert_eq!((names.judge(&older), names.judge(&newer)), (TenantCheck::Same, TenantCheck::Restore));
        names.take(&record(&newer, true));
        assert_eq!(names.all(), texts(&["a", "b", "c", "x"]));
        let names = log(&[(true, &["a", "b", "c"]), (true, &["a", "b"])]);
        assert_eq!((names.all(), names.judge(&older)), (newer, TenantCheck::Same));
    }

    #[test]
    fn a_log_is_compared_when_it_is_read_to_its_end() {
        let own = texts(&["a", "b"]);
        let mut log = TenantLog { names: log(&[(false, &["a"])]), read_to: Position(1), ..TenantLog::default() };
        let look = |log: &mut TenantLog, answer: Option<Result<u64, BusError>>| {
            let bounds = |done: Done<Bounds>| {
                if let Some(answer) = answer {
                    done(answer.map(|next| Bounds { first: Position(0), next: Position(next) }));
                }
                Ok(())
            };
            log.judge(&own, bounds)
        };
        // The second record is on its way.
        assert_eq!(look(&mut log, Some(Ok(2))), TenantCheck::Same, "the bus was asked");
        assert_eq!(look(&mut log, None), TenantCheck::Same, "one record is not read");
        log.names.take(&record(&texts(&["b"]), false));
        log.read_to = Position(2);
        assert_eq!(look(&mut log, None), TenantCheck::Same);
        // A bus that does not answer, and one that has lost the log.
        log.names = Names::default();
        log.read_to = Position(0);
        assert_eq!(look(&mut log, Some(Err(BusError::Stopped))), TenantCheck::Same);
        assert_eq!(look(&mut log, None), TenantCheck::Same);
        assert_eq!(look(&mut log, Some(Ok(0))), TenantCheck::Same);
        assert_eq!(look(&mut log, None), TenantCheck::Restore);
    }

    #[test]
    fn a_node_that_has_agreed_on_nothing_restores_nothing() {
        assert_eq!(log(&[(false, &["x"])]).judge(&[]), TenantCheck::Same);
        assert_eq!(log(&[]).judge(&[]), TenantCheck::Same);
    }
}
