//! Groups: a table that all members see and change by compare-and-swap, kept in its own log.
//!
//! A log with one order makes compare-and-swap possible on any backend: a member appends the wanted table, and the
//! table on which it is based. A reader of the log accepts a proposal if it is based on the table accepted last, and
//! skips it otherwise; all readers come to the same table. Members trim the log below a table that was accepted, so
//! that it always begins with one.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use serde::{Deserialize, Serialize};

use crate::assignment::{Seat, Table};
use crate::backend::{Backend, Target};
use crate::budget::Budget;
use crate::membership::{Holdings, MembershipCommand};
use crate::{
    BusError, GroupName, LogName, LogPartition, LogSpec, MemberName, Membership, Position, Settings, Tally, Wake,
};

mod leases;
mod name_watch;
mod worker;

pub use self::name_watch::{NameUse, NameWatch};

/// A proposal: a table, and the table on which it is based.
#[derive(Serialize, Deserialize)]
struct Proposal {
    /// The position of the table that it is based on; none for the first.
    base: Option<u64>,
    /// The life that made it.
    life: u64,
    /// That life's number for it.
    number: u64,
    table: Table,
}

/// The table as the log has it.
#[derive(Default)]
struct Accepted {
    position: Option<u64>,
    table: Table,
}

impl Accepted {
    /// Judges a proposal; all readers of the log come to the same result.
    fn judge(&mut self, position: Position, proposal: &Proposal) -> bool {
        // A reader finds first the first table of all, or one that was accepted before the log was trimmed.
        let accepted = self.position.is_none() || proposal.base == self.position;
        if accepted {
            self.position = Some(position.0);
            self.table.clone_from(&proposal.table);
        }
        accepted
    }
}

/// An event for a member's thread.
enum Event {
    /// There may be something to read.
    Read,
    /// The log exists, or could not be made.
    Created(Result<(), BusError>),
    /// An append was stored, or not.
    Appended(Result<Position, BusError>),
    Command(MembershipCommand),
}

/// Records that a group's log may hold; it is trimmed long before.
const MAX_RECORDS: u64 = 1_000_000;
const MAX_BYTES: u64 = 1 << 30;

/// The member and the group that it joins.
pub(crate) struct Joining<'a> {
    pub(crate) group: &'a GroupName,
    pub(crate) member: &'a MemberName,
    pub(crate) partitions: u32,
    /// The number of this process's membership before, if it had one.
    pub(crate) former: Option<u64>,
}

pub(crate) fn join(
    backend: Arc<dyn Backend>,
    budget: Arc<Budget>,
    settings: &Arc<Settings>,
    joining: &Joining<'_>,
    wake: Wake,
) -> Result<Membership, BusError> {
    let Joining { group, member, partitions, former } = *joining;
    let target = target_of(group);
    let (events, inbox) = channel();
    let (holdings, life) = (Holdings::new(wake), new_life());
    let seat = Seat::new(member.as_str(), life, partitions, settings.lease, settings.max_release_time).behind(former);
    let worker = worker::Worker {
        backend,
        budget,
        settings: Arc::clone(settings),
        target,
        seat,
        life,
        partitions,
        holdings: Arc::clone(&holdings),
        events: events.clone(),
        accepted: Accepted::default(),
        reader: None,
        caught_up: false,
        before: 0,
        pending: None,
        proposals: 0,
        next_turn: std::time::Instant::now(),
        leaving: None,
        replaced: false,
        name: member.clone(),
        leases: leases::Leases::default(),
        strange: Tally::default(),
    };
    let (leaves, left) = channel();
    let run = move || {
        worker.run(&inbox);
        drop::<Sender<()>>(leaves);
    };
    let start = thread::Builder::new().name(format!("bus-{member}")).spawn(run);
    start.map_err(|error| BusError::Refused { action: "start a thread", reason: error.to_string() })?;
    Ok(Membership::new(holdings, life, command(events), left))
}

/// The log of a group.
fn target_of(group: &GroupName) -> Target {
    let spec =
        LogSpec { max_records: MAX_RECORDS, max_bytes: MAX_BYTES, ..LogSpec::shared(LogName::of_group(group), 1) };
    let place = LogPartition::new(spec.name.clone(), 0);
    Target { spec: Arc::new(spec), place }
}

fn command(events: Sender<Event>) -> crate::membership::Command {
    Box::new(move |command| {
        // The thread ends only after the command to leave, or with the bus.
        let _ = events.send(Event::Command(command));
    })
}

/// A number that no other process has: the standard library seeds its hashers from the system.
fn new_life() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proposal(base: Option<u64>, life: u64) -> Proposal {
        Proposal { base, life, number: 0, table: Table::default() }
    }

    #[test]
    fn of_two_proposals_with_the_same_base_the_first_is_accepted() {
        let mut accepted = Accepted::default();
        assert!(accepted.judge(Position(3), &proposal(None, 1)));
        assert!(!accepted.judge(Position(4), &proposal(None, 2)));
        assert!(accepted.judge(Position(7), &proposal(Some(3), 2)));
        assert!(!accepted.judge(Position(8), &proposal(Some(3), 1)));
        assert!(!accepted.judge(Position(9), &proposal(Some(4), 1)));
        assert_eq!(accepted.position, Some(7));
    }

    #[test]
    fn a_log_that_was_trimmed_begins_with_a_table_that_was_accepted() {
        let mut accepted = Accepted::default();
        assert!(accepted.judge(Position(70), &proposal(Some(60), 1)));
        assert!(!accepted.judge(Position(71), &proposal(Some(60), 2)));
    }
}
