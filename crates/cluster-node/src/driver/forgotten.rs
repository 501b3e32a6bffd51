//! Stores on the bus of nodes that do not return.
//!
//! Each node has one log for its store. When the node is dead, other nodes fetch their partitions from the log. Then
//! the log is not needed. Where new nodes get new names, such logs fill the bus. So the leader names them in its
//! log after a while, and the operator removes them. A node that returns later makes its log again from its data
//! directory.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use tidegate_bus::{Bounds, Bus, BusError, LogName, LogPartition, LogSpec};
use tidegate_cluster::{Advert, Table};
use tidegate_mirror::log_of;

/// How long a node is no member, and not in the table, until the leader warns of its log. The time begins again with each
/// leader.
const STORE_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// The nodes that do not return, as far as this leader has seen.
#[derive(Debug, Default)]
pub(super) struct Forgotten {
    /// Since when the store of a node is not needed; `None` once the leader has warned of its log.
    since: BTreeMap<String, Option<Instant>>,
}

impl Forgotten {
    /// Returns the nodes whose logs are to be named now.
    pub(super) fn look(
        &mut self,
        now: Instant,
        table: &Table,
        members: &BTreeSet<&str>,
        adverts: &BTreeMap<String, Advert>,
    ) -> Vec<String> {
        let is_gone =
            |(name, advert): &(&String, &Advert)| advert.kept && !members.contains(name.as_str()) && !table.names(name);
        let gone: BTreeSet<&String> = adverts.iter().filter(is_gone).map(|(name, _)| name).collect();
        self.since.retain(|name, _| gone.contains(name));
        let mut due = Vec::new();
        for name in gone {
            let since = self.since.entry(name.clone()).or_insert(Some(now));
            if since.is_some_and(|since| now.saturating_duration_since(since) >= STORE_KEPT) {
                *since = None;
                due.push(name.clone());
            }
        }
        due
    }
}

/// Warns of the log of a node's store. The leader does not empty it: a process of that name may have begun to use it
/// meanwhile, and its records would be lost.
pub(super) fn warn_of_log(bus: &Bus, node: &str) {
    let Ok(log) = log_of(node) else { return };
    bus.know(LogSpec::fenced(log.clone(), 1));
    let (node, named) = (node.to_owned(), log.clone());
    let tell = move |bounds: Result<Bounds, BusError>| tell(&node, &named, bounds);
    if let Err(error) = bus.bounds(&LogPartition::new(log.clone(), 0), Box::new(tell)) {
        tracing::warn!(%log, %error, "cannot look at the log of a node that is gone; the next leader looks again");
    }
}

fn tell(node: &str, log: &LogName, bounds: Result<Bounds, BusError>) {
    match bounds {
        Ok(bounds) => {
            let records = bounds.next.0.saturating_sub(bounds.first.0);
            tracing::warn!(node, %log, records, "the log of a node that has not been a member for a day takes room on the bus; if the node does not return, remove the log on the servers");
        }
        // It was removed.
        Err(BusError::Unknown(_)) => {}
        Err(error) => {
            tracing::warn!(%log, %error, "cannot look at the log of a node that is gone; the next leader looks again");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    use bytes::Bytes;
    use tidegate_bus::{Address, Append, Done, Settings};

    use super::*;
    use crate::driver::first_table::first_table;

    fn adverts(names: &[&str]) -> BTreeMap<String, Advert> {
        let advert = Advert { life: 1, kept: true, ..Advert::default() };
        names.iter().map(|name| ((*name).to_owned(), advert.clone())).collect()
    }

    #[test]
    fn the_store_of_a_node_stays_while_it_is_needed() {
        let (began, members) = (Instant::now(), BTreeSet::from(["a"]));
        let late = began + STORE_KEPT;
        let known = adverts(&["a", "b"]);
        let mut forgotten = Forgotten::default();
        let mut look = |at, table: &Table, adverts| forgotten.look(at, table, &members, adverts);
        let of_both = first_table(&known);
        assert!(
            look(began, &of_both, &known).is_empty() && look(late, &of_both, &known).is_empty(),
            "it has partitions"
        );
        let of_one = first_table(&adverts(&["a"]));
        assert!(look(late, &of_one, &known).is_empty(), "its time begins");
        assert!(look(late + STORE_KEPT / 2, &of_one, &known).is_empty());
        assert_eq!(look(late + STORE_KEPT, &of_one, &known), ["b"]);
        assert!(look(late + STORE_KEPT * 2, &of_one, &known).is_empty(), "once");
        let without = Advert { life: 1, ..Advert::default() };
        let with_none = [("a".to_owned(), without.clone()), ("c".to_owned(), without)].into();
        assert!(look(late + STORE_KEPT * 3, &of_one, &with_none).is_empty());
        assert!(look(late + STORE_KEPT * 4, &of_one, &with_none).is_empty(), "it has no store on the bus");
    }

    #[test]
    fn a_member_that_returned_keeps_its_store() {
        let (began, known, table) = (Instant::now(), adverts(&["a", "b"]), first_table(&adverts(&["a"])));
        let (alone, both) = (BTreeSet::from(["a"]), BTreeSet::from(["a", "b"]));
        let mut forgotten = Forgotten::default();
        assert!(forgotten.look(began, &table, &alone, &known).is_empty());
        assert!(forgotten.look(began + STORE_KEPT / 2, &table, &both, &known).is_empty());
        assert!(forgotten.look(began + STORE_KEPT, &table, &alone, &known).is_empty(), "its time begins again");
        assert_eq!(forgotten.look(began + STORE_KEPT * 2, &table, &alone, &known), ["b"]);
    }

    fn wait<T: Send + 'static>(call: impl FnOnce(Done<T>) -> Result<(), BusError>) -> Result<T, BusError> {
        let (sender, outcome) = channel();
        call(Box::new(move |result| drop(sender.send(result))))?;
        outcome.recv().expect("an answer")
    }

    #[test]
    fn a_log_that_is_warned_of_keeps_records_and_owner() {
        let bus = Bus::open(&Address::Embedded, Settings::default(), Arc::new(|_| {})).unwrap();
        let log = log_of("gone").unwrap();
        let place = LogPartition::new(log.clone(), 0);
        wait(|done| bus.create(LogSpec::fenced(log, 1), done)).unwrap();
        let owner = wait(|done| bus.own(&place, done)).unwrap();
        let append = || Append::new(Bytes::from_static(b"a file")).by(owner);
        wait(|done| bus.append(&place, append(), done)).unwrap();
        let before = wait(|done| bus.bounds(&place, done)).unwrap();
        warn_of_log(&bus, "gone");
        // The bus answers in the order of the calls.
        assert_eq!(wait(|done| bus.bounds(&place, done)).unwrap(), before);
        wait(|done| bus.append(&place, append(), done)).expect("it has its owner");
    }
}
