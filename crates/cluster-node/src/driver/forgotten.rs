//! Stores on the bus of nodes that do not come back.
//!
//! A node keeps its store in a log of its own. When it is dead, others fetch their parts of it. Then the log is
//! not needed, and where nodes come and go under new names, such logs would fill the bus. So the leader empties a log
//! after a while. A node that returns later fills it again from its data directory.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use tidegate_bus::{Bus, BusError, Epoch, LogName, LogSpec, Place};
use tidegate_cluster::{Advert, Table};
use tidegate_mirror::log_of;

/// How long the store of a node stays on the bus that is no member, and that the table does not name. The time begins
/// again with each leader.
const STORE_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// The nodes that do not come back, as far as this leader has seen.
#[derive(Debug, Default)]
pub(super) struct Forgotten {
    /// Since when the store of a node is not needed; `None` once its log was emptied.
    since: BTreeMap<String, Option<Instant>>,
}

impl Forgotten {
    /// Returns the nodes whose logs are to be emptied now.
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

/// Empties the log of a node's store. A process that has begun to use it meanwhile loses the log, and starts again.
pub(super) fn empty_log_of(bus: &Bus, node: &str) {
    let Ok(log) = log_of(node) else { return };
    bus.know(LogSpec::fenced(log.clone(), 1));
    let place = Place::new(log.clone(), 0);
    let (trimmed, at) = (bus.clone(), place.clone());
    let node = node.to_owned();
    let trim = move |owned: Result<Epoch, BusError>| {
        let begun = owned.and_then(|epoch| {
            let log = at.log.clone();
            trimmed.trim(&at, epoch.0, Box::new(move |outcome| tell(&node, &log, outcome)))
        });
        if let Err(error) = begun {
            tracing::warn!(log = %at.log, %error, "cannot empty the log of a node that is gone; the next leader tries again");
        }
    };
    if let Err(error) = bus.own(&place, Box::new(trim)) {
        tracing::warn!(%log, %error, "cannot empty the log of a node that is gone; the next leader tries again");
    }
}

fn tell(node: &str, log: &LogName, outcome: Result<(), BusError>) {
    match outcome {
        Ok(()) => tracing::info!(node, %log, "emptied the log of a node that has not been a member for a day"),
        Err(error) => {
            tracing::warn!(%log, %error, "cannot empty the log of a node that is gone; the next leader tries again");
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
    fn a_member_that_came_back_keeps_its_store() {
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
    fn an_emptied_log_has_no_records_and_another_owner() {
        let bus = Bus::open(&Address::Embedded, Settings::default(), Arc::new(|_| {})).unwrap();
        let log = log_of("gone").unwrap();
        let place = Place::new(log.clone(), 0);
        wait(|done| bus.create(LogSpec::fenced(log, 1), done)).unwrap();
        let owner = wait(|done| bus.own(&place, done)).unwrap();
        let append = || Append::new(Bytes::from_static(b"a file")).by(owner);
        let last = wait(|done| bus.append(&place, append(), done)).unwrap();
        empty_log_of(&bus, "gone");
        // The bus answers in the order of the calls.
        let bounds = wait(|done| bus.bounds(&place, done)).unwrap();
        assert!(matches!(wait(|done| bus.append(&place, append(), done)), Err(BusError::Fenced { .. })));
        let after = wait(|done| bus.bounds(&place, done)).unwrap();
        assert!(after.first > last && after.next >= bounds.next, "{after:?}");
    }
}
