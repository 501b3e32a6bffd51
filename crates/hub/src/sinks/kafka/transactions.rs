//! Exactly once into Kafka: a batch and its mark are one transaction. The mark has the ids of the batch, in a topic beside
//! that of the records. A process that begins reads the marks first, and leaves out records that come again.
//!
//! A transaction that fails is aborted. Where its end is not known, the next batch begins as after a start: the coordinator
//! ends the open transaction either way, and the marks tell which way it was. Before that, `ends` writes the ends that Kafka
//! has lost.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::connection::{Access, BrokerConnection};
use super::marks::{self, IdHash, MARKS_TOPIC, Marks, judged};
use super::records::{self, BatchEntry, Sequence};
use super::wire::{self, AnswerReader, Coordinated, code, string};
use super::{Cluster, Seeker};
use crate::sinks::SinkError;

/// Time after which the coordinator aborts a transaction of a process that has gone.
const TRANSACTION_LIMIT: Duration = Duration::from_secs(30);
/// Time for the abort of a transaction whose batch has used up its own.
const ABORT_WITHIN: Duration = Duration::from_secs(1);
/// Pause before the coordinator is asked again.
const PAUSE: Duration = Duration::from_millis(20);

/// The transactions of a lane.
#[derive(Debug)]
pub(super) struct Transactions {
    /// The id by which the coordinator knows them.
    id: String,
    coordinator: BrokerConnection,
    producer: i64,
    epoch: i16,
    /// The next sequence of each partition, by its topic.
    next: BTreeMap<(String, i32), i32>,
    marks_cluster: Cluster,
    marks_partition: i32,
}

/// A batch for a transaction.
pub(super) struct Transaction<'a> {
    pub(super) topic: &'a str,
    pub(super) groups: &'a BTreeMap<i32, Vec<BatchEntry>>,
    pub(super) ids: &'a [IdHash],
}

/// Why a batch was not written, and whether its transaction has come to its end all the same.
#[derive(Debug)]
pub(super) struct WriteError {
    pub(super) error: SinkError,
    pub(super) is_aborted: bool,
}

impl Transactions {
    /// Takes the transactions of a lane over, and reads the marks that it does not know.
    pub(super) fn open(marks: &mut Marks, seeker: &Seeker<'_>, deadline: Instant) -> Result<Self, SinkError> {
        let id = marks.transactions_id();
        let marks_cluster = marks::cluster(seeker, deadline)?;
        let partition = marks.partition(&marks_cluster.numbers());
        let marks_partition = partition.ok_or_else(|| SinkError::away("the topic of marks has no partitions"))?;
        let mut coordinator = coordinator_of(&id, seeker, deadline)?;
        let limit = i32::try_from(TRANSACTION_LIMIT.as_millis()).unwrap_or(i32::MAX);
        let mut body = Vec::new();
        wire::optional_string(Some(&id), &mut body);
        body.extend_from_slice(&limit.to_be_bytes());
        let (producer, epoch) = loop {
            let answer = coordinator.ask(wire::INIT_PRODUCER_ID, &body)?;
            let mut answer = AnswerReader(&answer);
            answer.i32()?;
            match answer.i16()? {
                0 => break (answer.i64()?, answer.i16()?),
                error => pause(error, deadline)?,
            }
        };
        let next = BTreeMap::new();
        let mut found = Self { id, coordinator, producer, epoch, next, marks_cluster, marks_partition };
        marks.catch_up(&mut found.marks_cluster, marks_partition, (seeker.access, deadline))?;
        Ok(found)
    }

    /// Writes records to partitions of a topic, and their marks, all or nothing.
    pub(super) fn write(
        &mut self,
        batch: &Transaction<'_>,
        cluster: &mut Cluster,
        marks: &mut Marks,
        (access, deadline): (&Access, Instant),
    ) -> Result<(), WriteError> {
        self.coordinator.set_deadline(deadline);
        let filled = self.fill(batch, cluster, marks, (access, deadline));
        if let Err(error) = filled {
            let until = deadline.max(Instant::now() + ABORT_WITHIN);
            self.coordinator.set_deadline(until);
            let is_aborted = self.end(false).is_ok() && matches!(error, SinkError::Refused(_));
            return Err(WriteError { error, is_aborted });
        }
        self.end(true).map_err(|error| WriteError { error, is_aborted: false })?;
        marks.add(batch.ids);
        Ok(())
    }

    fn fill(
        &mut self,
        batch: &Transaction<'_>,
        cluster: &mut Cluster,
        marks: &Marks,
        (access, deadline): (&Access, Instant),
    ) -> Result<(), SinkError> {
        self.begin(batch.topic, batch.groups.keys().copied().collect(), deadline)?;
        self.produce(batch.topic, cluster, batch.groups, (access, deadline))?;
        let records = marks.records(batch.ids, crate::time::wall_clock());
        let mut marks_cluster = std::mem::take(&mut self.marks_cluster);
        let group = [(self.marks_partition, records)].into();
        let marked = self.produce(MARKS_TOPIC, &mut marks_cluster, &group, (access, deadline));
        self.marks_cluster = marks_cluster;
        // The marks of fewer records are smaller. The marks of one record are never to blame on it.
        marked.map_err(|error| match error {
            SinkError::Refused(why) if batch.ids.len() > 1 => SinkError::Refused(why),
            error => SinkError::Away(format!("the topic {MARKS_TOPIC}: {error}")),
        })
    }

    fn start(&self) -> Vec<u8> {
        let mut body = Vec::new();
        string(&self.id, &mut body);
        body.extend_from_slice(&self.producer.to_be_bytes());
        body.extend_from_slice(&self.epoch.to_be_bytes());
        body
    }

    /// Adds partitions to the transaction, which begins by that.
    fn begin(&mut self, topic: &str, partitions: Vec<i32>, deadline: Instant) -> Result<(), SinkError> {
        let mut body = self.start();
        body.extend_from_slice(&2_i32.to_be_bytes());
        for (topic, partitions) in [(topic, partitions), (MARKS_TOPIC, vec![self.marks_partition])] {
            string(topic, &mut body);
            body.extend_from_slice(&(partitions.len() as u32).to_be_bytes());
            for partition in partitions {
                body.extend_from_slice(&partition.to_be_bytes());
            }
        }
        loop {
            let answer = self.coordinator.ask(wire::ADD_PARTITIONS, &body)?;
            let mut answer = AnswerReader(&answer);
            answer.i32()?;
            let errors = answer.each(|topic| {
                topic.string()?;
                topic.each(|one| {
                    one.i32()?;
                    one.i16()
                })
            })?;
            match errors.into_iter().flatten().find(|error| *error != 0) {
                None => return Ok(()),
                // The markers of the last transaction are being written.
                Some(error) => pause(error, deadline)?,
            }
        }
    }

    fn produce(
        &mut self,
        topic: &str,
        cluster: &mut Cluster,
        groups: &BTreeMap<i32, Vec<BatchEntry>>,
        (access, deadline): (&Access, Instant),
    ) -> Result<(), SinkError> {
        let mut leaders: BTreeMap<i32, Vec<(i32, Vec<u8>)>> = BTreeMap::new();
        for (partition, entries) in groups {
            let first = self.next.get(&(topic.to_owned(), *partition)).copied().unwrap_or_default();
            let (producer, epoch) = (self.producer, self.epoch);
            let sequence = Sequence { producer, epoch, first, in_transaction: true };
            let leader = cluster.leader_of(*partition)?;
            leaders.entry(leader).or_default().push((*partition, records::batch(sequence, entries)));
        }
        let left = deadline.saturating_duration_since(Instant::now()).as_millis();
        let timeout = i32::try_from(left).unwrap_or(i32::MAX);
        for (leader, batches) in leaders {
            let body = wire::produce(Some(&self.id), topic, timeout, &batches);
            let answer = cluster.connection(leader, access, deadline)?.ask(wire::PRODUCE, &body)?;
            let outcomes = wire::produced(&mut AnswerReader(&answer))?;
            let asked: Vec<i32> = batches.into_iter().map(|(partition, _)| partition).collect();
            for partition in asked.iter().filter(|partition| outcomes.contains(&(**partition, 0))) {
                let len = groups.get(partition).map_or(0, Vec::len);
                let next = self.next.entry((topic.to_owned(), *partition)).or_default();
                *next = next.wrapping_add(i32::try_from(len).unwrap_or(i32::MAX)) & i32::MAX;
            }
            all_written(&asked, &outcomes)?;
        }
        Ok(())
    }

    /// Ends the transaction.
    fn end(&mut self, commits: bool) -> Result<(), SinkError> {
        let mut body = self.start();
        body.push(u8::from(commits));
        let answer = self.coordinator.ask(wire::END_TRANSACTION, &body)?;
        let mut answer = AnswerReader(&answer);
        answer.i32()?;
        match answer.i16()? {
            0 => Ok(()),
            error => Err(SinkError::Away(wire::in_words(error))),
        }
    }
}

/// A connection to the coordinator of the transactions of an id.
pub(super) fn coordinator_of(id: &str, seeker: &Seeker<'_>, deadline: Instant) -> Result<BrokerConnection, SinkError> {
    let at = seeker.ask(deadline, |connection| {
        let answer = connection.ask(wire::FIND_COORDINATOR, &wire::coordinator(Coordinated::Transactions, id))?;
        wire::coordinator_of(&mut AnswerReader(&answer))?.map_err(|error| SinkError::Away(wire::in_words(error)))
    })?;
    BrokerConnection::open(&at, seeker.access, deadline)
}

/// Whether each partition that was asked has its batch.
fn all_written(asked: &[i32], outcomes: &[(i32, i16)]) -> Result<(), SinkError> {
    for partition in asked {
        let outcome = outcomes.iter().find(|(of, _)| of == partition);
        let (_, error) = outcome.ok_or_else(|| SinkError::away("the broker says nothing of a partition"))?;
        // An error that passes counts more than a refusal: the batch comes again as it is.
        if *error != 0 && !super::is_refusal(*error) {
            return judged(*error);
        }
    }
    let refused = outcomes.iter().find(|(of, error)| *error != 0 && asked.contains(of));
    refused.map_or(Ok(()), |(_, error)| judged(*error))
}

/// Waits before the coordinator is asked again; an error where that is of no use, or the time is up.
pub(super) fn pause(error: i16, deadline: Instant) -> Result<(), SinkError> {
    let passes = matches!(error, code::CONCURRENT_TRANSACTIONS | code::COORDINATOR_LOADS | 15);
    if !passes || Instant::now() + PAUSE > deadline {
        return Err(SinkError::Away(wire::in_words(error)));
    }
    std::thread::park_timeout(PAUSE);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_without_an_answer_is_not_written() {
        assert_eq!(all_written(&[0, 1], &[(1, 0), (0, 0)]), Ok(()));
        assert!(matches!(all_written(&[0, 1], &[(0, 0)]), Err(SinkError::Away(_))));
        let large = code::MESSAGE_TOO_LARGE;
        assert!(matches!(all_written(&[0, 1], &[(0, large), (1, 0)]), Err(SinkError::Refused(_))));
        assert!(matches!(all_written(&[0, 1], &[(0, large), (1, 7)]), Err(SinkError::Away(_))));
    }

    #[test]
    fn a_coordinator_that_is_busy_is_asked_again() {
        let later = Instant::now() + Duration::from_secs(30);
        assert_eq!(pause(code::CONCURRENT_TRANSACTIONS, later), Ok(()));
        assert!(pause(code::CONCURRENT_TRANSACTIONS, Instant::now()).is_err(), "the time is up");
        assert!(pause(code::INVALID_PRODUCER_EPOCH, later).unwrap_err().to_string().contains("another process"));
        assert!(matches!(judged(code::MESSAGE_TOO_LARGE), Err(SinkError::Refused(_))));
    }
}
