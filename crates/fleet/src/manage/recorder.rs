//! The book, its changes and the commands, in the order in which they are executed.

use std::collections::BTreeSet;

use super::book::{Book, Member, Phase, Record};
use super::command::{Command, Entry};
use super::moment::Moment;
use crate::level::Level;
use crate::provider::{Allocation, ResourceName};

/// Owns the book. Each change of it is kept before the commands that follow.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    book: Book,
    /// Changes of the book that are not kept yet.
    unkept: Vec<Record>,
    commands: Vec<Command>,
    /// The subjects of the requests of this look.
    asked: BTreeSet<String>,
}

impl Recorder {
    pub(super) fn new(book: Book) -> Self {
        Self { book, ..Self::default() }
    }

    pub(super) fn book(&self) -> &Book {
        &self.book
    }

    /// Continues with another book, which is kept already.
    pub(super) fn replace_book(&mut self, book: Book) {
        self.book = book;
    }

    /// Changes the book. The change is kept before the next command.
    pub(super) fn record(&mut self, record: Record) {
        self.unkept.push(record.clone());
        self.book.apply(record);
    }

    /// Requests a command, after all its changes of the book.
    pub(super) fn command(&mut self, command: Command) {
        self.keep();
        // Asking twice in one look does no harm and no good.
        if matches!(command, Command::Tell(_)) || self.asked.insert(command.describe()) {
            self.commands.push(command);
        }
    }

    pub(super) fn tell(&mut self, entry: Entry) {
        self.command(Command::Tell(entry));
    }

    /// Ends a look; returns its commands.
    pub(super) fn finish(&mut self) -> Vec<Command> {
        self.keep();
        self.asked.clear();
        std::mem::take(&mut self.commands)
    }

    fn keep(&mut self) {
        if !self.unkept.is_empty() {
            let records = std::mem::take(&mut self.unkept);
            self.commands.push(Command::Keep(records));
        }
    }

    /// The next number of a name at a level.
    pub(super) fn number(&mut self, level: Level) -> u64 {
        let number = self.book.next(level);
        self.record(Record::Numbers { level, next: number + 1 });
        number
    }

    pub(super) fn add_member(&mut self, wanted: Allocation, order: u64, now: Moment) {
        let (phase, lost_since, failed_restarts, evicted) = (Phase::Pending, None, 0, false);
        self.record(Record::Member(Member { wanted, phase, since: now, order, lost_since, failed_restarts, evicted }));
    }

    /// Sets whether the manager has asked a member to send its clients away.
    pub(super) fn set_evicted(&mut self, name: &ResourceName, evicted: bool) {
        if let Some(member) = self.book.members.get(name).filter(|member| member.evicted != evicted) {
            self.record(Record::Member(Member { evicted, ..member.clone() }));
        }
    }

    /// Sets the phase of a member.
    pub(super) fn set_phase(&mut self, name: &ResourceName, phase: Phase, now: Moment) {
        if let Some(member) = self.book.members.get(name)
            && member.phase != phase
        {
            let member = member.in_phase(phase, now);
            self.record(Record::Member(member));
        }
    }

    pub(super) fn set_phases(&mut self, names: &[ResourceName], phase: Phase, now: Moment) {
        for name in names {
            self.set_phase(name, phase, now);
        }
    }

    /// Deletes members from the book.
    pub(super) fn forget(&mut self, names: &[ResourceName]) {
        for name in names {
            self.record(Record::Gone { name: name.clone() });
        }
    }

    /// Requests a member from the provider, as it was requested first.
    pub(super) fn allocate(&mut self, name: &ResourceName) {
        if let Some(member) = self.book.members.get(name) {
            let wanted = member.wanted.clone();
            self.command(Command::Allocate(wanted));
        }
    }

    /// Notes the state of a level's action for people. A note is kept with the next change of the action.
    pub(super) fn note(&mut self, level: Level, note: &str) {
        if let Some(action) = self.book.actions.get_mut(&level).filter(|_| !note.is_empty()) {
            action.note(note);
        }
    }

    /// Notes the state of an adoption for people.
    pub(super) fn note_adoption(&mut self, name: &ResourceName, note: &str) {
        if let Some(action) = self.book.adoptions.get_mut(name).filter(|_| !note.is_empty()) {
            action.note(note);
        }
    }

    /// The levels whose action concerns a resource.
    pub(super) fn levels_of(&self, name: &ResourceName) -> Vec<Level> {
        let actions = self.book.actions.iter();
        let concerned = actions.filter(|(_, action)| action.targets.contains(name) || action.old.contains(name));
        concerned.map(|(level, _)| *level).collect()
    }
}
