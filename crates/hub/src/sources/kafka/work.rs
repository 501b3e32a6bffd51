//! The thread that speaks with the brokers: it is a member of the group, and takes records of its partitions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::inbox::Inbox;
use super::shares::Shares;
use super::wire::{self, Joined, Member};
use super::{KafkaNews, KafkaSourceSettings, message};
use crate::sinks::kafka::batches::{self, BatchError};
use crate::sinks::kafka::connection::{Access, BrokerConnection};
use crate::sinks::kafka::fetch::{self, Fetched, OLDEST};
use crate::sinks::kafka::wire::{self as kafka, AnswerReader, Coordinated, Led, code};
use crate::sinks::kafka::{Cluster, Seeker};
use crate::sinks::socket::{ServerAddress, ServiceUrl};
use crate::sinks::{SinkError, tls};

/// Silence after which the group gives the partitions of this process to others.
const SESSION: Duration = Duration::from_secs(10);
/// Time that members have to come together again.
const REBALANCE: Duration = Duration::from_secs(30);
/// How often the group hears of this process.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// How often the group receives the offsets below which all is done.
const COMMIT: Duration = Duration::from_millis(200);
/// Time for an answer of a broker.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Time between two attempts.
const RETRY: Duration = Duration::from_secs(1);
/// How long the thread sleeps at once while the pipeline has all that it may have.
const NAP: Duration = Duration::from_millis(100);

/// The thread's state.
pub(super) struct Work {
    settings: KafkaSourceSettings,
    servers: Vec<ServerAddress>,
    access: Access,
    inbox: Inbox<KafkaNews>,
    shares: Arc<Shares>,
    member: Member,
}

/// Connections of a session with the brokers.
struct Session {
    coordinator: BrokerConnection,
    cluster: Cluster,
    heartbeat_at: Instant,
    commit_at: Instant,
}

/// Why taking records stops.
enum Stop {
    /// The members of the group come together again.
    Rebalance,
    /// The group has gone on without this process: others may have its partitions.
    Lost,
    /// A broker is away, or says that it cannot.
    Away(String),
}

impl From<SinkError> for Stop {
    fn from(error: SinkError) -> Self {
        Self::Away(error.to_string())
    }
}

impl From<BatchError> for Stop {
    fn from(error: BatchError) -> Self {
        Self::Away(error.to_string())
    }
}

/// Success, or why taking records stops.
fn judged(error: i16) -> Result<(), Stop> {
    match error {
        0 => Ok(()),
        code::REBALANCE => Err(Stop::Rebalance),
        code::ILLEGAL_GENERATION | code::UNKNOWN_MEMBER => Err(Stop::Lost),
        error => Err(Stop::Away(kafka::in_words(error))),
    }
}

impl Work {
    pub(super) fn new(
        settings: &KafkaSourceSettings,
        url: ServiceUrl,
        inbox: Inbox<KafkaNews>,
        shares: Arc<Shares>,
    ) -> Result<Self, String> {
        let tls = if url.secure { Some(tls::client(settings.ca_file.as_deref())?) } else { None };
        let access = Access { tls, login: url.login, mechanism: settings.mechanism };
        let member = Member { group: settings.group.clone(), ..Member::default() };
        Ok(Self { settings: settings.clone(), servers: url.servers, access, inbox, shares, member })
    }

    /// Works until it is stopped.
    pub(super) fn run(mut self) {
        while !self.shares.is_stopped() {
            let Err(why) = self.follow() else { return };
            self.inbox.push(KafkaNews::Trouble(why));
            let until = Instant::now() + RETRY;
            while !self.shares.is_stopped() && Instant::now() < until {
                self.shares.wait(until.saturating_duration_since(Instant::now()));
            }
        }
    }

    /// One session with the brokers: it ends with the source, or with an error in words.
    fn follow(&mut self) -> Result<(), String> {
        let mut session = self.open().map_err(|error| error.to_string())?;
        loop {
            let outcome = self.join(&mut session).and_then(|()| self.consume(&mut session));
            match outcome {
                Ok(()) => {
                    self.end(&mut session);
                    return Ok(());
                }
                Err(Stop::Rebalance | Stop::Lost) if self.shares.is_stopped() => return Ok(()),
                Err(Stop::Rebalance) => {}
                Err(Stop::Lost) => {
                    self.member.id.clear();
                    self.keep_only(&[]);
                }
                Err(Stop::Away(why)) => return Err(why),
            }
        }
    }

    fn open(&self) -> Result<Session, SinkError> {
        let seeker = Seeker { servers: &self.servers, access: &self.access, makes_topics: false };
        let cluster = seeker.cluster(&self.settings.topic, soon())?;
        let coordinator = seeker.ask(soon(), |connection| self.coordinator(connection))?;
        let coordinator = BrokerConnection::open(&coordinator, &self.access, soon())?;
        Ok(Session { coordinator, cluster, heartbeat_at: Instant::now(), commit_at: Instant::now() })
    }

    fn coordinator(&self, connection: &mut BrokerConnection) -> Result<ServerAddress, SinkError> {
        let answer =
            connection.ask(kafka::FIND_COORDINATOR, &kafka::coordinator(Coordinated::Group, &self.settings.group))?;
        let found = kafka::coordinator_of(&mut AnswerReader(&answer))?;
        found.map_err(|error| SinkError::Away(format!("group {}: {}", self.settings.group, kafka::in_words(error))))
    }

    /// Joins the group, and takes up the partitions that it gives to this process.
    fn join(&mut self, session: &mut Session) -> Result<(), Stop> {
        let joined = self.ask_to_join(session)?;
        judged(joined.error)?;
        let dealt =
            if joined.leader == joined.id { deal(&joined.members, &session.cluster.partitions) } else { Vec::new() };
        self.member.id = joined.id;
        self.member.generation = joined.generation;
        let body = self.member.sync(&self.settings.topic, &dealt);
        let answer = session.coordinator.ask(kafka::SYNC_GROUP, &body)?;
        let (error, partitions) = wire::synced(&mut AnswerReader(&answer))?;
        judged(error)?;
        self.keep_only(&partitions);
        let known = self.shares.numbers();
        let new: Vec<i32> = partitions.into_iter().filter(|number| !known.contains(number)).collect();
        for (partition, offset) in self.starts(session, &new)? {
            self.shares.begin(partition, u64::try_from(offset).unwrap_or_default());
        }
        self.inbox.push(KafkaNews::Ready);
        Ok(())
    }

    /// Drops the partitions that others have.
    fn keep_only(&self, partitions: &[i32]) {
        for gone in self.shares.keep_only(partitions) {
            self.inbox.push(KafkaNews::Gone(gone));
        }
    }

    fn ask_to_join(&self, session: &mut Session) -> Result<Joined, SinkError> {
        let ms = |length: Duration| i32::try_from(length.as_millis()).unwrap_or(i32::MAX);
        let body = self.member.join(&self.settings.topic, ms(SESSION), ms(REBALANCE));
        // The answer comes when all members have come together.
        session.coordinator.set_deadline(Instant::now() + REBALANCE + ANSWER_WITHIN);
        let answer = session.coordinator.ask(kafka::JOIN_GROUP, &body)?;
        session.coordinator.set_deadline(soon());
        wire::joined(&mut AnswerReader(&answer))
    }

    /// Where partitions begin: behind what the group has as done, or at their oldest record.
    fn starts(&self, session: &mut Session, partitions: &[i32]) -> Result<Vec<(i32, i64)>, Stop> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        let body = self.member.committed(&self.settings.topic, partitions);
        let answer = session.coordinator.ask(kafka::OFFSET_FETCH, &body)?;
        let mut starts = Vec::new();
        for (partition, offset, error) in wire::committed_offsets(&mut AnswerReader(&answer))? {
            judged(error)?;
            let offset = if offset < 0 { self.offset_at(session, partition, OLDEST)? } else { offset };
            starts.push((partition, offset));
        }
        Ok(starts)
    }

    /// The first offset of a partition at a time or later; -1 when all records are older.
    fn offset_at(&self, session: &mut Session, partition: i32, time: i64) -> Result<i64, Stop> {
        let leader = session.cluster.leader_of(partition)?;
        let connection = session.cluster.connection(leader, &self.access, soon())?;
        let body = fetch::list_offsets(&self.settings.topic, partition, time);
        let answer = connection.ask(kafka::LIST_OFFSETS, &body)?;
        let (error, offset) = fetch::listed(&mut AnswerReader(&answer))?;
        judged(error)?;
        Ok(offset)
    }

    /// Takes records until the source is stopped.
    fn consume(&mut self, session: &mut Session) -> Result<(), Stop> {
        while !self.shares.is_stopped() {
            self.keep_up(session)?;
            if let Some(from) = self.shares.take_replay() {
                self.replay(session, from)?;
            }
            let positions = self.shares.positions();
            if positions.is_empty() || self.shares.under_way() >= usize::from(self.settings.window) {
                self.shares.wait(NAP);
                continue;
            }
            let mut by_leader: BTreeMap<i32, Vec<(i32, i64)>> = BTreeMap::new();
            for (partition, offset) in positions {
                by_leader.entry(session.cluster.leader_of(partition)?).or_default().push((partition, offset));
            }
            for (leader, partitions) in by_leader {
                let body = fetch::fetch(&self.settings.topic, &partitions);
                let answer = session.cluster.connection(leader, &self.access, soon())?.ask(kafka::FETCH, &body)?;
                for fetched in fetch::fetched(&mut AnswerReader(&answer))? {
                    let from = partitions.iter().find(|(number, _)| *number == fetched.partition);
                    let Some((_, from)) = from else { continue };
                    self.take(session, &fetched, *from)?;
                }
            }
        }
        Ok(())
    }

    fn take(&self, session: &mut Session, fetched: &Fetched<'_>, from: i64) -> Result<(), Stop> {
        let partition = fetched.partition;
        if fetched.error == code::OFFSET_OUT_OF_RANGE {
            let oldest = self.offset_at(session, partition, OLDEST)?;
            let topic = self.settings.topic.as_str();
            tracing::warn!(topic, partition, from, oldest, "Kafka has no records at the offset that is next any more");
            self.begin(partition, oldest);
            return Ok(());
        }
        judged(fetched.error)?;
        let (records, next) = batches::records(fetched.batches, from, &fetched.aborted)?;
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

    fn replay(&self, session: &mut Session, from: u64) -> Result<(), Stop> {
        for partition in self.shares.numbers() {
            let time = i64::try_from(from).unwrap_or(i64::MAX);
            let offset = self.offset_at(session, partition, time)?;
            // Nothing is as young as that, or the partition is there already.
            let next = self.shares.positions().into_iter().find(|(number, _)| *number == partition);
            if offset >= 0 && next.is_some_and(|(_, next)| offset < next) {
                self.begin(partition, offset);
            }
        }
        Ok(())
    }

    /// Reports to the group: this process lives, and these offsets are done.
    fn keep_up(&self, session: &mut Session) -> Result<(), Stop> {
        let now = Instant::now();
        if now >= session.commit_at {
            session.commit_at = now + COMMIT;
            self.commit(session)?;
        }
        if now >= session.heartbeat_at {
            session.heartbeat_at = now + HEARTBEAT;
            session.coordinator.set_deadline(soon());
            let answer = session.coordinator.ask(kafka::HEARTBEAT, &self.member.heartbeat())?;
            let beat = judged(wire::error_of(&mut AnswerReader(&answer))?);
            if matches!(beat, Err(Stop::Rebalance)) {
                // The partitions may go to others: they begin behind the messages that are done now.
                self.commit(session)?;
            }
            beat?;
        }
        Ok(())
    }

    fn commit(&self, session: &mut Session) -> Result<(), Stop> {
        let offsets = self.shares.to_commit();
        if offsets.is_empty() {
            return Ok(());
        }
        session.coordinator.set_deadline(soon());
        let body = self.member.commit(&self.settings.topic, &offsets);
        let answer = session.coordinator.ask(kafka::OFFSET_COMMIT, &body)?;
        for error in wire::commit_errors(&mut AnswerReader(&answer))? {
            judged(error)?;
        }
        self.shares.committed(&offsets);
        Ok(())
    }

    /// Leaves the group, which need not wait for the silence of this process then.
    fn end(&self, session: &mut Session) {
        let left = self.commit(session).and_then(|()| {
            let answer = session.coordinator.ask(kafka::LEAVE_GROUP, &self.member.leave())?;
            judged(wire::error_of(&mut AnswerReader(&answer))?)
        });
        if let Err(Stop::Away(why)) = left {
            // The partitions go to others after the silence of this process.
            tracing::debug!(group = self.settings.group, why, "the group was not left in order");
        }
    }
}

fn soon() -> Instant {
    Instant::now() + ANSWER_WITHIN
}

/// Deals partitions as Kafka's own consumers deal ranges: in the order of the members' names, the first ones get one more.
fn deal(members: &[String], partitions: &[Led]) -> Vec<(String, Vec<i32>)> {
    let mut members = members.to_vec();
    members.sort_unstable();
    let (each, more) = (partitions.len() / members.len().max(1), partitions.len() % members.len().max(1));
    let mut left = partitions.iter().map(|led| led.partition);
    let share = |(place, member): (usize, String)| {
        let count = each + usize::from(place < more);
        (member, left.by_ref().take(count).collect())
    };
    members.into_iter().enumerate().map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_get_ranges_of_the_partitions() {
        let led: Vec<Led> = (0..5).map(|partition| Led { partition, leader: 1 }).collect();
        let dealt = deal(&["b".to_owned(), "a".to_owned()], &led);
        assert_eq!(dealt, [("a".to_owned(), vec![0, 1, 2]), ("b".to_owned(), vec![3, 4])]);
        assert_eq!(deal(&["a".to_owned(), "b".to_owned()], &led[..1])[1].1, Vec::<i32>::new());
    }
}
