//! Takes records of the partitions of this process. A partition that cannot be read waits; the others go on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::work::{NAP, RETRY, Session, Stop, Work, judged, soon};
use super::{KafkaNews, message, wire};
use crate::sinks::SinkError;
use crate::sinks::kafka::batches::{self, PartlyTaken};
use crate::sinks::kafka::fetch::{self, Fetched, OLDEST};
use crate::sinks::kafka::wire::{self as kafka, AnswerReader, code};

/// How long the partitions of a leader wait that does not answer.
const LEADER_RETRY: Duration = Duration::from_secs(5);
/// How long a leader waits for the first record, milliseconds, where no other leader is asked.
const FETCH_WAIT_MS: i32 = 200;
/// Bytes of unpacked batches that are kept until all their records are taken; batches beyond it are unpacked
/// again.
const MAX_KEPT: usize = 64 << 20;

impl Work {
    /// Takes records until the source is stopped.
    pub(super) fn consume(&mut self, session: &mut Session) -> Result<(), Stop> {
        while !self.shares.is_stopped() {
            self.keep_up(session)?;
            self.look_around(session)?;
            self.begin_assigned(session)?;
            self.replay(session)?;
            let positions = self.shares.readable(Instant::now());
            if positions.is_empty() || self.shares.under_way() >= usize::from(self.settings.window) {
                self.shares.wait(NAP);
                continue;
            }
            self.take_round(session, positions)?;
        }
        Ok(())
    }

    /// Asks each leader once for records.
    fn take_round(&self, session: &mut Session, positions: Vec<(i32, i64)>) -> Result<(), Stop> {
        session.partly.retain(|partition, _| positions.iter().any(|(number, _)| number == partition));
        let mut by_leader: BTreeMap<i32, Vec<(i32, i64)>> = BTreeMap::new();
        for (partition, offset) in positions {
            match session.cluster.leader_of(partition) {
                Ok(leader) => by_leader.entry(leader).or_default().push((partition, offset)),
                Err(error) => {
                    session.is_stale = true;
                    self.rest(partition, error.to_string(), RETRY);
                }
            }
        }
        let leaders = by_leader.len();
        let wait = if leaders > 1 { 0 } else { FETCH_WAIT_MS };
        let mut is_empty = true;
        for (leader, partitions) in by_leader {
            self.keep_up(session)?;
            match self.take_of_leader(session, leader, &partitions, (wait, leaders)) {
                Ok(has_records) => is_empty &= !has_records,
                Err(error) => {
                    session.cluster.forget(leader);
                    session.is_stale = true;
                    for (partition, _) in partitions {
                        self.rest(partition, error.to_string(), LEADER_RETRY);
                    }
                }
            }
        }
        if wait == 0 && is_empty {
            self.shares.wait(NAP);
        }
        Ok(())
    }

    /// Takes records of one leader, which is one of `leaders`. Returns whether there were some.
    fn take_of_leader(
        &self,
        session: &mut Session,
        leader: i32,
        partitions: &[(i32, i64)],
        (wait, leaders): (i32, usize),
    ) -> Result<bool, SinkError> {
        let body = fetch::fetch(&self.settings.topic, partitions, wait);
        let answer = session.cluster.connection(leader, &self.access, soon())?.ask(kafka::FETCH, &body)?;
        let all = fetch::fetched(&mut AnswerReader(&answer))?;
        let full = all.iter().filter(|one| !one.batches.is_empty()).count();
        // A round takes a window at most, and each partition its part of that.
        let most = (usize::from(self.settings.window) / (full * leaders).max(1)).max(1);
        for fetched in &all {
            let Some((_, from)) = partitions.iter().find(|(number, _)| *number == fetched.partition) else { continue };
            match self.take(session, fetched, *from, most) {
                Ok(()) if self.shares.end_trouble(fetched.partition) => {
                    self.inbox.push(KafkaNews::Ready);
                    self.tell_troubles();
                }
                Ok(()) => {}
                Err(error) => self.rest(fetched.partition, error.to_string(), RETRY),
            }
        }
        Ok(full > 0)
    }

    /// Takes `most` records of a partition at most.
    fn take(&self, session: &mut Session, fetched: &Fetched<'_>, from: i64, most: usize) -> Result<(), SinkError> {
        let partition = fetched.partition;
        if fetched.error == code::OFFSET_OUT_OF_RANGE {
            let oldest = self.offset_at(session, partition, OLDEST)?;
            let topic = self.settings.topic.as_str();
            tracing::warn!(topic, partition, from, oldest, "Kafka has no records at the offset that is next any more");
            self.begin(partition, oldest);
            return Ok(());
        }
        if fetched.error != 0 {
            session.is_stale = true;
            return Err(SinkError::Away(kafka::in_words(fetched.error)));
        }
        let mut partly = session.partly.remove(&partition);
        let found = batches::records(fetched.batches, from, &fetched.aborted, most, &mut partly);
        let kept: usize = session.partly.values().map(PartlyTaken::len).sum();
        session.partly.extend(partly.filter(|it| kept + it.len() <= MAX_KEPT).map(|it| (partition, it)));
        let (records, next) = found.map_err(SinkError::away)?;
        for record in records {
            if let Some(token) = self.shares.take(partition, record.offset) {
                let message = message(&self.settings.topic, partition, record);
                self.inbox.push(KafkaNews::Message(Arc::new(message), token));
            }
        }
        self.shares.skip_to(partition, next, fetched.end);
        Ok(())
    }

    fn begin(&self, partition: i32, offset: i64) {
        if let Some(gone) = self.shares.begin(partition, u64::try_from(offset).unwrap_or_default()) {
            self.inbox.push(KafkaNews::Gone(gone));
        }
    }

    /// A partition is not read for this time.
    fn rest(&self, partition: i32, why: String, length: Duration) {
        let said = format!("partition {partition}: {why}");
        if self.shares.note_trouble(partition, why, Instant::now() + length) {
            self.inbox.push(KafkaNews::Partly(said));
        }
    }

    /// Reports a partition that cannot be read, after the report that the source is ready.
    pub(super) fn tell_troubles(&self) {
        if let Some((partition, why)) = self.shares.trouble() {
            self.inbox.push(KafkaNews::Partly(format!("partition {partition}: {why}")));
        }
    }

    /// Partitions of this process that are not read yet, because their leader has not said where they begin.
    fn unread(&self) -> Vec<i32> {
        let known = self.shares.numbers();
        self.assigned.iter().copied().filter(|number| !known.contains(number)).collect()
    }

    /// Begins to read partitions: behind the offset that the group has as done, or at their oldest record.
    pub(super) fn begin_assigned(&self, session: &mut Session) -> Result<(), Stop> {
        let partitions = self.unread();
        if partitions.is_empty() || Instant::now() < session.retry_at {
            return Ok(());
        }
        let body = self.member.committed(&self.settings.topic, &partitions);
        session.coordinator.set_deadline(soon());
        let answer = session.coordinator.ask(kafka::OFFSET_FETCH, &body)?;
        let mut failure = None;
        for (partition, offset, error) in wire::committed_offsets(&mut AnswerReader(&answer))? {
            judged(error)?;
            self.keep_up(session)?;
            let start = if offset < 0 { self.offset_at(session, partition, OLDEST) } else { Ok(offset) };
            match start {
                Ok(offset) => self.begin(partition, offset),
                Err(why) => failure = Some(format!("partition {partition}: {why}")),
            }
        }
        self.note_outcome(session, failure);
        Ok(())
    }

    /// Reads the partitions again where an operator has asked for that. The order ends when the group has the offsets.
    fn replay(&self, session: &mut Session) -> Result<(), Stop> {
        let Some((from, count)) = self.shares.replays() else { return Ok(()) };
        if !self.unread().is_empty() || Instant::now() < session.retry_at {
            return Ok(());
        }
        let (time, mut starts) = (i64::try_from(from).unwrap_or(i64::MAX), Vec::new());
        for (partition, next) in self.shares.positions() {
            self.keep_up(session)?;
            match self.offset_at(session, partition, time) {
                // Without an offset, all records are older.
                Ok(offset) if offset >= 0 && offset < next => starts.push((partition, offset)),
                Ok(_) => {}
                Err(why) => {
                    self.note_outcome(session, Some(format!("replay of partition {partition}: {why}")));
                    return Ok(());
                }
            }
        }
        for (partition, offset) in starts {
            self.begin(partition, offset);
        }
        self.commit(session)?;
        self.shares.end_replays(count);
        self.note_outcome(session, None);
        Ok(())
    }

    /// Tells the pipeline of a failure, once, or of its end.
    fn note_outcome(&self, session: &mut Session, failure: Option<String>) {
        if let Some(why) = failure {
            (session.is_stale, session.has_failed) = (true, true);
            session.retry_at = Instant::now() + RETRY;
            self.inbox.push(KafkaNews::Partly(why));
        } else if std::mem::take(&mut session.has_failed) {
            self.inbox.push(KafkaNews::Ready);
            self.tell_troubles();
        }
    }

    /// The first offset of a partition at a time or later; -1 when all records are older.
    fn offset_at(&self, session: &mut Session, partition: i32, time: i64) -> Result<i64, SinkError> {
        let leader = session.cluster.leader_of(partition)?;
        let body = fetch::list_offsets(&self.settings.topic, partition, time);
        let connection = session.cluster.connection(leader, &self.access, soon());
        let answer = connection.and_then(|connection| connection.ask(kafka::LIST_OFFSETS, &body));
        if answer.is_err() {
            session.cluster.forget(leader);
        }
        match fetch::listed(&mut AnswerReader(&answer?))? {
            (0, offset) => Ok(offset),
            (error, _) => Err(SinkError::Away(kafka::in_words(error))),
        }
    }
}
