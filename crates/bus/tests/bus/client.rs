//! A bus for a test, whose calls wait.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use tidegate_bus::{
    Append, Bounds, Bus, BusError, Done, Epoch, GroupName, LogName, LogPartition, LogSpec, MemberName, Membership,
    Position, Reader, Record, SubjectFilter, Subscription, Wake,
};

/// Longest wait for anything: a test that gets there has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) fn log(name: &str) -> LogName {
    LogName::new(name).unwrap()
}

pub(crate) fn place(name: &str, partition: u32) -> LogPartition {
    LogPartition::new(log(name), partition)
}

/// An outcome that will come.
pub(crate) struct Later<T>(Receiver<Result<T, BusError>>);

impl<T> Later<T> {
    pub(crate) fn wait(self) -> Result<T, BusError> {
        self.0.recv_timeout(PATIENCE).expect("an outcome")
    }
}

pub(crate) fn ask<T: Send + 'static>(call: impl FnOnce(Done<T>) -> Result<(), BusError>) -> Result<Later<T>, BusError> {
    let (sender, outcome) = channel();
    call(Box::new(move |result| {
        let _ = sender.send(result);
    }))?;
    Ok(Later(outcome))
}

/// A wake-up, and its receiver.
pub(crate) fn bell() -> (Wake, Receiver<()>) {
    let (sender, bell) = channel();
    (
        Arc::new(move || {
            let _ = sender.send(());
        }),
        bell,
    )
}

/// Waits for the bell until there is something.
pub(crate) fn until<T>(bell: &Receiver<()>, awaited: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        let left = end.saturating_duration_since(Instant::now());
        assert!(!left.is_zero(), "{awaited} did not come");
        // The bell may be for another event, and another process may cause the awaited one.
        let _ = bell.recv_timeout(left.min(Duration::from_millis(100)));
    }
}

#[derive(Clone)]
pub(crate) struct Client(pub(crate) Bus);

impl Client {
    pub(crate) fn create(&self, spec: LogSpec) -> Result<(), BusError> {
        ask(|done| self.0.create(spec, done))?.wait()
    }

    pub(crate) fn own(&self, place: &LogPartition) -> Epoch {
        ask(|done| self.0.own(place, done)).unwrap().wait().unwrap()
    }

    pub(crate) fn append(&self, place: &LogPartition, append: Append) -> Result<Position, BusError> {
        self.begin(place, append)?.wait()
    }

    pub(crate) fn begin(&self, place: &LogPartition, append: Append) -> Result<Later<Position>, BusError> {
        ask(|done| self.0.append(place, append, done))
    }

    pub(crate) fn bounds(&self, place: &LogPartition) -> Bounds {
        ask(|done| self.0.bounds(place, done)).unwrap().wait().unwrap()
    }

    pub(crate) fn trim(&self, place: &LogPartition, below: Position) {
        ask(|done| self.0.trim(place, below, done)).unwrap().wait().unwrap();
    }

    pub(crate) fn reader(&self, place: &LogPartition, from: Position) -> Tail {
        let (wake, bell) = bell();
        Tail { reader: self.0.read(place, from, wake).unwrap(), bell }
    }

    /// All that a partition has now.
    pub(crate) fn all(&self, place: &LogPartition) -> Vec<Record> {
        let end = self.bounds(place).next;
        self.reader(place, Position::START).up_to(end)
    }

    pub(crate) fn payloads(&self, place: &LogPartition) -> Vec<String> {
        self.all(place).iter().map(text).collect()
    }

    pub(crate) fn join(&self, group: &str, member: &str, partitions: u32) -> (Membership, Receiver<()>) {
        let (wake, bell) = bell();
        let (group, member) = (GroupName::new(group).unwrap(), MemberName::new(member).unwrap());
        (self.0.join(&group, &member, partitions, wake).unwrap(), bell)
    }

    pub(crate) fn subscribe(&self, filter: &str) -> (Subscription, Receiver<()>) {
        let (wake, bell) = bell();
        (self.0.subscribe(SubjectFilter::new(filter).unwrap(), wake).unwrap(), bell)
    }
}

pub(crate) fn text(record: &Record) -> String {
    String::from_utf8(record.payload.to_vec()).unwrap()
}

/// A reader that waits.
pub(crate) struct Tail {
    pub(crate) reader: Reader,
    bell: Receiver<()>,
}

impl Tail {
    pub(crate) fn take(&mut self, count: usize) -> Result<Vec<Record>, BusError> {
        let mut records = Vec::new();
        until(&self.bell, "a record", || match self.reader.take(count - records.len()) {
            Ok(taken) => {
                records.extend(taken.records);
                (records.len() == count).then_some(Ok(()))
            }
            Err(error) => Some(Err(error)),
        })?;
        Ok(records)
    }

    /// Looks only when it is woken, until it is at the end.
    pub(crate) fn wait_for_end(&mut self, end: Position) {
        while self.reader.take(usize::MAX).unwrap().next < end {
            self.bell.recv_timeout(PATIENCE).expect("a wake-up of the reader");
        }
    }

    /// Everything below a position.
    pub(crate) fn up_to(&mut self, end: Position) -> Vec<Record> {
        let mut records = Vec::new();
        until(&self.bell, "the end", || {
            let taken = self.reader.take(usize::MAX).unwrap();
            records.extend(taken.records);
            (taken.next >= end).then_some(())
        });
        records.retain(|record| record.position < end);
        records
    }
}
