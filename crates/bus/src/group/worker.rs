//! The thread of one member: it reads the group's log, shows that the member lives, and asks for changes.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use super::leases::Leases;
use super::{Accepted, Event, Proposal};
use crate::assignment::{Seat, Table};
use crate::backend::{Backend, Target};
use crate::budget::Budget;
use crate::completion::Completion;
use crate::membership::{Holdings, MembershipCommand};
use crate::{Append, BusError, Member, MemberName, Position, Reader, Record, Settings, Tally};

/// Accepted proposals of a member after which it trims the log.
const TRIM_AFTER: u64 = 64;
/// Records that are judged at once.
const BATCH: usize = 256;

pub(super) struct Worker {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) budget: Arc<Budget>,
    pub(super) settings: Arc<Settings>,
    pub(super) target: Target,
    pub(super) seat: Seat,
    pub(super) life: u64,
    pub(super) partitions: u32,
    pub(super) holdings: Arc<Holdings>,
    pub(super) events: Sender<Event>,
    pub(super) accepted: Accepted,
    pub(super) reader: Option<Reader>,
    /// Whether the proposal that was appended first has been read: before that the table may be an old one.
    pub(super) caught_up: bool,
    /// Proposals up to this number were appended before that.
    pub(super) before: u64,
    /// The proposal that was appended and not judged yet: its number, and when it was begun.
    pub(super) pending: Option<(u64, Instant)>,
    pub(super) proposals: u64,
    pub(super) next_turn: Instant,
    /// Until when the member tries to say that it goes.
    pub(super) leaving: Option<Instant>,
    /// True if another process has the name, according to the last report.
    pub(super) replaced: bool,
    pub(super) name: MemberName,
    pub(super) leases: Leases,
    /// Records in the group's log that are none of ours.
    pub(super) strange: Tally,
}

impl Worker {
    pub(super) fn run(mut self, inbox: &Receiver<Event>) {
        self.create();
        loop {
            let now = Instant::now();
            let until = self.seat.valid_until().map_or(self.next_turn, |end| end.min(self.next_turn));
            match inbox.recv_timeout(until.saturating_duration_since(now)) {
                Ok(event) => self.handle(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            // Waiting events are handled before any request.
            while let Ok(event) = inbox.try_recv() {
                self.handle(event);
            }
            let now = Instant::now();
            self.seat.expire(now, &self.holdings);
            if self.leaving.is_some_and(|until| now >= until || self.is_out()) {
                break;
            }
            if now >= self.next_turn {
                self.propose(now);
            }
        }
        self.holdings.lose_all();
    }

    fn beat(&self) -> Duration {
        self.settings.lease / 4
    }

    fn create(&mut self) {
        let events = self.events.clone();
        let done = Box::new(move |outcome| {
            let _ = events.send(Event::Created(outcome));
        });
        match Completion::new(&self.budget, &self.settings, 0, done) {
            Ok(completion) => self.backend.create(Arc::clone(&self.target.spec), completion),
            Err(error) => self.later("make the log of the group", &error),
        }
        self.next_turn = Instant::now() + self.beat();
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Created(Ok(())) => {
                self.open();
                self.next_turn = Instant::now();
            }
            Event::Created(Err(error)) => self.later("make the log of the group", &error),
            // A stored append returns in the log. An uncertain one is accepted only if no other was before it.
            Event::Appended(Ok(_)) => {}
            Event::Appended(Err(error)) => {
                self.pending = None;
                self.later("append to the log of the group", &error);
            }
            Event::Read => self.read(),
            Event::Command(MembershipCommand::Release(partition)) => {
                self.seat.release(partition);
                self.next_turn = Instant::now();
            }
            Event::Command(MembershipCommand::Leave) => {
                self.leaving = Some(Instant::now() + self.settings.lease);
                self.next_turn = Instant::now();
            }
        }
    }

    fn later(&mut self, attempt: &'static str, error: &BusError) {
        tracing::warn!(group = %self.target.place.log, %error, "cannot {attempt}; retrying");
        self.next_turn = Instant::now() + self.beat();
    }

    /// Reads the log from its beginning. It may be another log than before: until a proposal of this member has been
    /// read, the members stay as they were.
    fn open(&mut self) {
        if self.caught_up {
            self.before = self.proposals;
        }
        (self.accepted, self.caught_up) = (Accepted::default(), false);
        (self.reader, self.pending) = (None, None);
        let events = self.events.clone();
        let wake = Arc::new(move || {
            let _ = events.send(Event::Read);
        });
        match self.backend.read(self.target.clone(), Position::START, wake) {
            Ok(reader) => self.reader = Some(reader),
            Err(error) => self.later("read the log of the group", &error),
        }
    }

    fn read(&mut self) {
        loop {
            let Some(reader) = &mut self.reader else { return };
            match reader.take(BATCH) {
                Ok(taken) if taken.records.is_empty() => return,
                Ok(taken) => taken.records.iter().for_each(|record| self.judge(record)),
                // Others have trimmed records that this member was too slow to read, or the log was lost and made
                // again: the rest begins with a table.
                Err(BusError::Trimmed { .. }) => {
                    self.open();
                    self.next_turn = Instant::now();
                }
                Err(error) => {
                    self.reader = None;
                    return self.later("read the log of the group", &error);
                }
            }
        }
    }

    fn judge(&mut self, record: &Record) {
        let proposal: Proposal = match serde_json::from_slice(&record.payload) {
            Ok(proposal) => proposal,
            Err(error) => {
                if let Some(times) = self.strange.note() {
                    let (group, position) = (&self.target.place.log, record.position);
                    tracing::warn!(%group, %position, %error, times, "skipped a record that is not a table of a group");
                }
                return;
            }
        };
        let was = self.accepted.table.clone();
        let accepted = self.accepted.judge(record.position, &proposal);
        let now = Instant::now();
        if accepted {
            self.seat.note_table(now);
        }
        let asked = self.pending.filter(|(number, _)| proposal.life == self.life && proposal.number == *number);
        // Also by one whose append was uncertain: it may have brought this life back into the group.
        self.caught_up |= proposal.life == self.life && proposal.number > self.before;
        // A table without this life says nothing about the members before it: the log was lost, or others have given
        // this member up. That is said before the members of the table are.
        if accepted && self.caught_up && !(self.is_in(&was) && self.is_in(&self.accepted.table)) {
            self.seat.give_up(&self.holdings);
        }
        // A member that sees a gain finds itself among the members.
        if accepted && self.caught_up {
            let members = members(&self.accepted.table);
            self.leases.look(self.target.place.log.as_str(), (self.name.as_str(), self.settings.lease), &members);
            self.holdings.set_members(members);
        }
        if let Some((_, asked)) = asked {
            self.pending = None;
            if accepted {
                self.seat.agreed(&self.accepted.table, asked, now, &self.holdings);
                // A lease counts from the time of asking, so an answer that was late is followed at once.
                let beat = (asked + self.beat()).max(now);
                self.next_turn = self.seat.next_taken().map_or(beat, |taken| taken.min(beat));
                self.trim(record.position);
            } else {
                self.next_turn = now;
            }
        } else if accepted && self.accepted.table.differs(&was) {
            self.next_turn = now;
        }
    }

    fn is_out(&self) -> bool {
        self.pending.is_none() && self.caught_up && !self.is_in(&self.accepted.table)
    }

    /// Whether a table has this life.
    fn is_in(&self, table: &Table) -> bool {
        table.members().any(|(_, life)| life == self.life)
    }

    /// Asks for the table as this member wants it to be.
    fn propose(&mut self, now: Instant) {
        self.next_turn = now + self.beat();
        if self.reader.is_none() {
            return self.create();
        }
        if self.pending.is_some() {
            return;
        }
        if !self.accepted.table.is_for(self.partitions) {
            let (group, ours) = (&self.target.place.log, self.partitions);
            tracing::error!(%group, ours, "not joining the group: its number of partitions differs");
            return;
        }
        let table = if self.leaving.is_some() {
            self.accepted.table.without(self.life)
        } else if let Some(wish) = self.seat.wish(&self.accepted.table, now) {
            self.replaced = false;
            wish
        } else {
            if !std::mem::replace(&mut self.replaced, true) {
                let group = &self.target.place.log;
                tracing::warn!(%group, "another process joined with this name; waiting until it leaves");
            }
            return self.seat.give_up(&self.holdings);
        };
        self.append(now, table);
    }

    fn append(&mut self, now: Instant, table: Table) {
        self.proposals += 1;
        let proposal = Proposal { base: self.accepted.position, life: self.life, number: self.proposals, table };
        let append = Append::new(serde_json::to_vec(&proposal).unwrap_or_default());
        let events = self.events.clone();
        let done = Box::new(move |outcome| {
            let _ = events.send(Event::Appended(outcome));
        });
        match Completion::new(&self.budget, &self.settings, append.size(), done) {
            Ok(completion) => {
                self.pending = Some((self.proposals, now));
                self.backend.append(self.target.clone(), append, completion);
            }
            Err(error) => self.later("append to the log of the group", &error),
        }
    }

    fn trim(&self, below: Position) {
        if !self.proposals.is_multiple_of(TRIM_AFTER) {
            return;
        }
        let done = Box::new(|outcome: Result<(), BusError>| {
            if let Err(error) = outcome {
                tracing::warn!(%error, "cannot trim the log of a group; retrying later");
            }
        });
        if let Ok(completion) = Completion::new(&self.budget, &self.settings, 0, done) {
            self.backend.trim(self.target.clone(), below, completion);
        }
    }
}

fn members(table: &Table) -> Vec<Member> {
    let member = |((name, incarnation), lease): ((&str, u64), Option<Duration>)| {
        Some(Member { name: MemberName::new(name).ok()?, incarnation, lease })
    };
    table.members().zip(table.leases()).filter_map(member).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::name::GroupName;
    use crate::{LogName, LogPartition, LogSpec};

    const LEASE: Duration = Duration::from_secs(3_600);
    const OWN: u64 = 1;
    const OTHER: u64 = 2;

    fn seat(name: &str, life: u64) -> Seat {
        Seat::new(name, life, 1, LEASE, LEASE)
    }

    /// The member `a` of a group on a bus in memory.
    fn worker() -> Worker {
        let settings = Arc::new(Settings { lease: LEASE, ..Settings::default() });
        let backend = crate::embedded::open(&settings, Arc::new(|_| {}));
        let name = LogName::of_group(&GroupName::new("nodes").unwrap());
        let target = Target { spec: Arc::new(LogSpec::shared(name.clone(), 1)), place: LogPartition::new(name, 0) };
        Worker {
            backend,
            budget: Budget::new(&settings),
            settings,
            target,
            seat: seat("a", OWN),
            life: OWN,
            partitions: 1,
            holdings: Holdings::new(Arc::new(|| {})),
            events: channel().0,
            accepted: Accepted::default(),
            reader: None,
            caught_up: false,
            before: 0,
            pending: None,
            proposals: 0,
            next_turn: Instant::now(),
            leaving: None,
            replaced: false,
            name: MemberName::new("a").unwrap(),
            leases: Leases::default(),
            strange: Tally::default(),
        }
    }

    impl Worker {
        /// Reads a proposal at a position.
        fn read_proposal(&mut self, position: u64, base: Option<u64>, life: u64, number: u64, table: &Table) {
            let proposal = Proposal { base, life, number, table: table.clone() };
            let payload = serde_json::to_vec(&proposal).unwrap().into();
            self.judge(&Record {
                position: Position(position),
                key: bytes::Bytes::new(),
                headers: Vec::new(),
                payload,
            });
        }

        /// The worker reads a proposal that it has written.
        fn read_own(&mut self, position: u64, base: Option<u64>, number: u64, table: &Table) {
            self.read_own_asked(position, base, number, table, Instant::now());
        }

        /// The same of one that it began to write then.
        fn read_own_asked(&mut self, position: u64, base: Option<u64>, number: u64, table: &Table, asked: Instant) {
            self.pending = Some((number, asked));
            self.read_proposal(position, base, OWN, number, table);
        }
    }

    /// The number of the tenure, and how many members there are.
    fn seen(membership: &crate::Membership) -> (Option<u64>, usize) {
        (membership.tenure().map(|it| it.number), membership.members().len())
    }

    #[test]
    fn a_log_that_was_lost_ends_the_tenure_before_its_members_count() {
        let mut worker = worker();
        let (_, left) = channel();
        let membership = crate::Membership::new(Arc::clone(&worker.holdings), OWN, Box::new(|_| {}), left);
        let of_other = seat("b", OTHER).wish(&Table::default(), Instant::now()).unwrap();
        let both = worker.seat.wish(&of_other, Instant::now()).unwrap();
        worker.read_own(7, None, 1, &both);
        assert_eq!(seen(&membership), (Some(0), 2));
        // The log was lost, and another member was the first in the new one.
        worker.open();
        worker.read_proposal(1, None, OTHER, 1, &of_other);
        assert_eq!(seen(&membership), (Some(0), 2), "the new log may not be read to its end");
        worker.read_own(2, None, 2, &both);
        worker.read_proposal(3, Some(1), OTHER, 2, &of_other);
        assert_eq!(seen(&membership), (None, 1));
        worker.read_own(4, Some(3), 3, &both);
        assert_eq!(seen(&membership), (Some(1), 2));
    }

    #[test]
    fn the_first_of_a_log_that_was_lost_begins_another_tenure() {
        let mut worker = worker();
        let (_, left) = channel();
        let membership = crate::Membership::new(Arc::clone(&worker.holdings), OWN, Box::new(|_| {}), left);
        let of_own = worker.seat.wish(&Table::default(), Instant::now()).unwrap();
        worker.read_own(7, None, 1, &of_own);
        worker.open();
        worker.read_own(1, None, 2, &of_own);
        assert_eq!(seen(&membership), (Some(1), 1));
    }

    #[test]
    fn a_late_answer_is_followed_by_the_next_beat_at_once() {
        let mut worker = worker();
        let of_own = worker.seat.wish(&Table::default(), Instant::now()).unwrap();
        let asked = Instant::now();
        worker.read_own_asked(7, None, 1, &of_own, asked);
        assert_eq!(worker.next_turn, asked + worker.beat());
        // Nine tenths of the lease are over when the log continues.
        let late = Instant::now().checked_sub(LEASE / 10 * 9).unwrap();
        worker.read_own_asked(8, Some(7), 2, &of_own, late);
        assert!(worker.next_turn <= Instant::now());
    }

    #[test]
    fn a_member_that_the_log_still_has_continues_after_its_lease() {
        let mut worker = worker();
        let (_, left) = channel();
        let membership = crate::Membership::new(Arc::clone(&worker.holdings), OWN, Box::new(|_| {}), left);
        let of_own = worker.seat.wish(&Table::default(), Instant::now()).unwrap();
        worker.read_own(7, None, 1, &of_own);
        assert_eq!((seen(&membership).0, membership.held().len()), (Some(0), 1));
        worker.seat.expire(Instant::now() + LEASE, &worker.holdings);
        assert_eq!((seen(&membership).0, membership.held().len(), membership.losses()), (None, 0, 0));
        // An answer that is too late keeps the place, and is no lease.
        let late = Instant::now().checked_sub(LEASE).unwrap();
        worker.read_own_asked(8, Some(7), 2, &of_own, late);
        assert_eq!((seen(&membership).0, membership.losses()), (None, 0));
        worker.read_own(9, Some(8), 3, &of_own);
        assert_eq!((seen(&membership).0, membership.held().len()), (Some(0), 1));
        // Another member gives this one up after its lease.
        worker.seat.expire(Instant::now() + LEASE, &worker.holdings);
        let of_other = seat("b", OTHER).wish(&Table::default(), Instant::now()).unwrap();
        worker.read_proposal(10, Some(9), OTHER, 1, &of_other);
        assert_eq!((seen(&membership).0, membership.losses()), (None, 1));
        let both = worker.seat.wish(&of_other, Instant::now()).unwrap();
        worker.read_own(11, Some(10), 4, &both);
        assert_eq!(seen(&membership).0, Some(1));
    }

    #[test]
    fn an_uncertain_proposal_does_not_hide_that_this_life_was_out() {
        let mut worker = worker();
        let (_, left) = channel();
        let membership = crate::Membership::new(Arc::clone(&worker.holdings), OWN, Box::new(|_| {}), left);
        let of_own = worker.seat.wish(&Table::default(), Instant::now()).unwrap();
        worker.proposals = 1;
        worker.read_own(1, None, 1, &of_own);
        assert_eq!((seen(&membership).0, membership.losses()), (Some(0), 0));
        // The member is away for so long that others trim the log behind its place, and is given up.
        worker.seat.expire(Instant::now() + LEASE, &worker.holdings);
        worker.open();
        let of_other = seat("b", OTHER).wish(&Table::default(), Instant::now()).unwrap();
        worker.read_proposal(10, Some(9), OTHER, 1, &of_other);
        // Its next proposal is in the log, although the append seemed to fail.
        let both = worker.seat.wish(&of_other, Instant::now()).unwrap();
        worker.proposals = 2;
        worker.read_proposal(11, Some(10), OWN, 2, &both);
        worker.read_own(12, Some(11), 3, &both);
        assert_eq!((seen(&membership).0, membership.losses()), (Some(1), 1));
    }
}
