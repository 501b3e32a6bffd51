//! The interface of the bus: checks requests, keeps the limits, and hands requests to a backend.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::backend::{Backend, Target};
use crate::budget::Budget;
use crate::completion::Completion;
use crate::error::in_range;
use crate::group::{self, Joining, NameWatch};
use crate::record::{MAX_HEADER_BYTES, MAX_HEADERS, MAX_KEY_BYTES};
use crate::{
    Address, Append, Bounds, BusError, Connection, Done, Epoch, GroupName, Header, Keep, LiveMessage, LogName,
    LogPartition, LogSpec, MemberName, Membership, Observer, Position, Reader, Settings, Subject, SubjectFilter,
    Subscription, Wake, Writers, embedded,
};

/// Most partitions of a log or a group.
const MAX_PARTITIONS: u32 = 4_096;

/// A bus. Clones are the same bus; the last one to be dropped stops it, and pending requests fail with
/// [`BusError::Stopped`].
#[derive(Clone)]
pub struct Bus {
    backend: Arc<dyn Backend>,
    budget: Arc<Budget>,
    logs: Arc<Mutex<HashMap<LogName, Arc<LogSpec>>>>,
    settings: Arc<Settings>,
}

impl Bus {
    /// Opens a bus. It does not wait for the servers: requests before the first connection wait as during an outage.
    ///
    /// # Errors
    /// When a setting is out of its range, a file for TLS or the directory cannot be used, a thread cannot be started,
    /// or this build has no client for the address.
    pub fn open(address: &Address, settings: Settings, observer: Observer) -> Result<Self, BusError> {
        settings.check()?;
        settings.check_files()?;
        let backend: Arc<dyn Backend> = match address {
            Address::Embedded => embedded::open(&settings, observer),
            Address::Directory { path, serves } => embedded::open_directory(path, *serves, &settings, observer)?,
            #[cfg(feature = "nats")]
            Address::Nats { servers, credentials } => {
                crate::nats::open(servers, credentials.as_ref(), &settings, observer)?
            }
            #[cfg(not(feature = "nats"))]
            Address::Nats { .. } => return Err(BusError::NoNats),
            #[cfg(feature = "kafka")]
            Address::Kafka { servers, credentials } => {
                crate::kafka::open(servers, credentials.as_ref(), &settings, observer)?
            }
            #[cfg(not(feature = "kafka"))]
            Address::Kafka { .. } => return Err(BusError::NoKafka),
        };
        Ok(Self { backend, budget: Budget::new(&settings), logs: Arc::default(), settings: Arc::new(settings) })
    }

    /// Whether the servers can be reached.
    pub fn connection(&self) -> Connection {
        self.backend.connection()
    }

    /// Why the servers cannot be reached, as the backend said last; nothing while they are.
    pub fn failure(&self) -> Option<String> {
        self.backend.failure()
    }

    /// Requests that wait for the bus now, and their bytes.
    pub fn waiting(&self) -> (usize, usize) {
        self.budget.waiting()
    }

    /// Makes a log, unless it exists like this; either way this bus knows it from then on. Limits that differ are
    /// changed.
    ///
    /// # Errors
    /// At once: an invalid number of partitions, or too much waiting. Later: [`BusError::Mismatch`],
    /// [`BusError::Away`], [`BusError::Refused`].
    pub fn create(&self, spec: LogSpec, done: Done<()>) -> Result<(), BusError> {
        in_range("partitions", u64::from(spec.partitions), 1..=u64::from(MAX_PARTITIONS), "1 to 4096")?;
        if spec.name.is_of_group() {
            return Err(BusError::Malformed("names of logs do not begin with `group-`; take another one"));
        }
        in_range("max_records", spec.max_records, 1..=i64::MAX as u64, "at least 1")?;
        in_range("max_bytes", spec.max_bytes, 1_024..=i64::MAX as u64, "at least 1024")?;
        let (spec, logs) = (Arc::new(spec), Arc::clone(&self.logs));
        let created = Arc::clone(&spec);
        let done: Done<()> = Box::new(move |outcome| {
            if outcome.is_ok() {
                logs.lock().unwrap_or_else(PoisonError::into_inner).insert(created.name.clone(), created);
            }
            done(outcome);
        });
        let completion = self.completion(0, done)?;
        self.backend.create(spec, completion);
        Ok(())
    }

    /// Takes a log for made, as another process has made it: nothing is asked of the servers, and nothing of it is
    /// changed.
    pub fn know(&self, spec: LogSpec) {
        let mut logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        logs.entry(spec.name.clone()).or_insert_with(|| Arc::new(spec));
    }

    /// Makes the caller the owner of a partition of a fenced log. From then on appends of earlier owners are refused,
    /// also of owners that do not know it yet.
    ///
    /// # Errors
    /// At once: a log that is unknown or not fenced, or too much waiting. Later: [`BusError::Away`],
    /// [`BusError::Refused`].
    pub fn own(&self, place: &LogPartition, done: Done<Epoch>) -> Result<(), BusError> {
        let target = self.target(place)?;
        if target.spec.writers != Writers::Owner {
            return Err(BusError::NotFenced(place.clone()));
        }
        let completion = self.completion(0, done)?;
        self.backend.own(target, completion);
        Ok(())
    }

    /// Appends a record. The position comes when it is durable. Appends of one bus to one partition are stored in the
    /// order of the calls, except for failed ones.
    ///
    /// An append to a fenced log that fails later ends the ownership: nothing of this owner is stored after a gap, and
    /// its next appends fail with [`BusError::Fenced`].
    ///
    /// # Errors
    /// At once: a record that cannot be carried, a log that is unknown, an epoch that is missing or too many, or too
    /// much waiting. Later: [`BusError::Fenced`], [`BusError::Full`], [`BusError::Away`], [`BusError::Unconfirmed`],
    /// [`BusError::Refused`].
    pub fn append(&self, place: &LogPartition, append: Append, done: Done<Position>) -> Result<(), BusError> {
        let target = self.target(place)?;
        self.check(&target, &append)?;
        let completion = self.completion(append.size(), done)?;
        self.backend.append(target, append, completion);
        Ok(())
    }

    /// Reads a partition from a position on, that record included, to its end and on as records come.
    ///
    /// # Errors
    /// When the log is unknown, or the bus has stopped.
    pub fn read(&self, place: &LogPartition, from: Position, wake: Wake) -> Result<Reader, BusError> {
        self.backend.read(self.target(place)?, from, wake)
    }

    /// Asks for the positions of a partition.
    ///
    /// # Errors
    /// At once: a log that is unknown, or too much waiting. Later: [`BusError::Away`], [`BusError::Refused`].
    pub fn bounds(&self, place: &LogPartition, done: Done<Bounds>) -> Result<(), BusError> {
        let target = self.target(place)?;
        let completion = self.completion(0, done)?;
        self.backend.bounds(target, completion);
        Ok(())
    }

    /// Removes all records below a position.
    ///
    /// # Errors
    /// As [`Self::bounds`].
    pub fn trim(&self, place: &LogPartition, below: Position, done: Done<()>) -> Result<(), BusError> {
        let target = self.target(place)?;
        let completion = self.completion(0, done)?;
        self.backend.trim(target, below, completion);
        Ok(())
    }

    /// Publishes to the present listeners: at most once, and never kept. While the bus is away it is refused.
    ///
    /// # Errors
    /// A message that is too large, too much waiting, or a bus that is away.
    pub fn publish(&self, subject: &Subject, payload: Bytes) -> Result<(), BusError> {
        let max = self.settings.max_record_bytes;
        if payload.len() > max {
            return Err(BusError::TooLarge { bytes: payload.len(), max });
        }
        let room = self.budget.take(payload.len())?;
        self.backend.publish(LiveMessage { subject: subject.clone(), payload }, room)
    }

    /// Listens. Messages published before the servers know that are missed.
    ///
    /// # Errors
    /// When the bus has stopped.
    pub fn subscribe(&self, filter: SubjectFilter, wake: Wake) -> Result<Subscription, BusError> {
        self.backend.subscribe(filter, wake)
    }

    /// Joins a group: its members know of each other, and share `partitions` partitions (0 to 4,096), each being one
    /// member's at a time. A member that joins under the name of another one takes its place.
    ///
    /// # Errors
    /// An invalid number of partitions, or a thread that cannot be started.
    pub fn join(
        &self,
        group: &GroupName,
        member: &MemberName,
        partitions: u32,
        wake: Wake,
    ) -> Result<Membership, BusError> {
        self.join_as(&Joining { group, member, partitions, former: None }, wake)
    }

    /// Joins again after a membership was lost, whose number was `former`. Who has joined under this name meanwhile
    /// keeps its place, and this one waits until that one has gone: otherwise two processes of one name would take it
    /// from each other for ever.
    ///
    /// # Errors
    /// As [`Self::join`].
    pub fn rejoin(
        &self,
        group: &GroupName,
        member: &MemberName,
        partitions: u32,
        former: u64,
        wake: Wake,
    ) -> Result<Membership, BusError> {
        self.join_as(&Joining { group, member, partitions, former: Some(former) }, wake)
    }

    /// Watches whether a process is a member of a group under this name, without joining the group. A member that joins
    /// takes the name from that process.
    pub fn watch_name(&self, group: &GroupName, member: &MemberName) -> NameWatch {
        NameWatch::new(Arc::clone(&self.backend), Arc::clone(&self.budget), Arc::clone(&self.settings), group, member)
    }

    fn join_as(&self, joining: &Joining<'_>, wake: Wake) -> Result<Membership, BusError> {
        in_range("partitions", u64::from(joining.partitions), 0..=u64::from(MAX_PARTITIONS), "0 to 4096")?;
        group::join(Arc::clone(&self.backend), Arc::clone(&self.budget), &self.settings, joining, wake)
    }

    fn completion<T>(&self, bytes: usize, done: Done<T>) -> Result<Completion<T>, BusError> {
        Completion::new(&self.budget, &self.settings, bytes, done)
    }

    fn target(&self, place: &LogPartition) -> Result<Target, BusError> {
        let logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        let spec = logs.get(&place.log).filter(|spec| place.partition.0 < spec.partitions);
        let spec = spec.ok_or_else(|| BusError::Unknown(place.clone()))?;
        Ok(Target { spec: Arc::clone(spec), place: place.clone() })
    }

    fn check(&self, target: &Target, append: &Append) -> Result<(), BusError> {
        let (bytes, max) = (append.size(), self.settings.max_record_bytes);
        if bytes > max {
            return Err(BusError::TooLarge { bytes, max });
        }
        if append.key.len() > MAX_KEY_BYTES {
            return Err(BusError::Malformed("its key is longer than 1024 bytes; use a hash of it"));
        }
        if append.key.is_empty() && target.spec.keep == Keep::LatestOfKey {
            return Err(BusError::Malformed("it has no key, and its log keeps the latest of each key"));
        }
        if append.headers.len() > MAX_HEADERS {
            return Err(BusError::Malformed("it has more than 64 headers; put them into the payload"));
        }
        let bytes: usize = append.headers.iter().map(Header::size).sum();
        if bytes > MAX_HEADER_BYTES {
            return Err(BusError::Malformed("its headers are longer than 32768 bytes; put them into the payload"));
        }
        if !append.headers.iter().all(Header::is_valid) {
            let advice = "a header has a name or a value that not every bus takes; put it into the payload";
            return Err(BusError::Malformed(advice));
        }
        match (target.spec.writers, append.epoch) {
            (Writers::Owner, None) => Err(BusError::NoEpoch(target.place.clone())),
            (Writers::Many, Some(_)) => Err(BusError::NotFenced(target.place.clone())),
            _ => Ok(()),
        }
    }
}

#[cfg(all(test, not(any(feature = "nats", feature = "kafka"))))]
mod tests {
    use super::Bus;
    use crate::settings::Settings;

    #[test]
    fn a_lean_program_names_the_feature_of_each_client() {
        for (address, feature) in [("nats://127.0.0.1:1", "`nats`"), ("kafka://127.0.0.1:1", "--features kafka`")] {
            let opened = Bus::open(&address.parse().unwrap(), Settings::default(), std::sync::Arc::new(|_| ()));
            let refused = opened.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(refused.contains(feature), "{address}: {refused}");
        }
    }
}
