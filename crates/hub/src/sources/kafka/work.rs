//! The thread that speaks with the brokers: it is a member of the group, and has the partitions that the group deals to it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::inbox::Inbox;
use super::shares::Shares;
use super::wire::{self, Assignment, Joined, Member, Subscriber};
use super::{KafkaNews, KafkaSourceSettings, deal};
use crate::open_error::TrustError;
use crate::sinks::kafka::batches::PartlyTaken;
use crate::sinks::kafka::connection::{Access, BrokerConnection};
use crate::sinks::kafka::wire::{self as kafka, AnswerReader, Api, Coordinated, code};
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
/// Time for the first connections, before this process is a member.
const OPEN_WITHIN: Duration = Duration::from_secs(10);
/// Time for an answer of a broker: a silent one must not cost the membership.
const ANSWER_WITHIN: Duration = Duration::from_millis(3_300);
/// Time between two attempts.
pub(super) const RETRY: Duration = Duration::from_secs(1);
/// How long the thread sleeps at once while the pipeline has all that it may have.
pub(super) const NAP: Duration = Duration::from_millis(100);
/// How often the leader of the group counts the partitions of the topics.
const COUNT: Duration = Duration::from_secs(300);
/// The same while the brokers do not answer for a topic.
const COUNT_AGAIN: Duration = Duration::from_secs(10);

/// The thread's state.
pub(super) struct Work {
    pub(super) settings: KafkaSourceSettings,
    servers: Vec<ServerAddress>,
    pub(super) access: Access,
    pub(super) inbox: Inbox<KafkaNews>,
    pub(super) shares: Arc<Shares>,
    pub(super) member: Member,
    /// The partitions that the group has dealt to this process.
    pub(super) assigned: Vec<i32>,
    /// The partitions of each topic that this process has dealt, where it leads the group.
    dealt: Option<BTreeMap<String, Vec<i32>>>,
}

/// Connections of a session with the brokers.
pub(super) struct Session {
    pub(super) coordinator: BrokerConnection,
    coordinator_at: ServerAddress,
    pub(super) cluster: Cluster,
    /// The unpacked batches of partitions with records that are not taken yet.
    pub(super) partly: BTreeMap<i32, PartlyTaken>,
    /// Whether a partition has another leader than `cluster` says.
    pub(super) is_stale: bool,
    heartbeat_at: Instant,
    commit_at: Instant,
    count_at: Instant,
    /// When partitions without an offset, replays and stale leaders are tried again.
    pub(super) retry_at: Instant,
    /// Whether the pipeline knows of such a failure.
    pub(super) has_failed: bool,
}

/// Why taking records stops.
pub(super) enum Stop {
    /// The members of the group come together again.
    Rebalance,
    /// The group has gone on without this process: others may have its partitions.
    Lost,
    /// The source was stopped while an answer of the coordinator was awaited.
    Stopped,
    /// A broker is away, or says that it cannot.
    Away(String),
}

impl From<SinkError> for Stop {
    fn from(error: SinkError) -> Self {
        Self::Away(error.to_string())
    }
}

/// Success, or why taking records stops.
pub(super) fn judged(error: i16) -> Result<(), Stop> {
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
    ) -> Result<Self, TrustError> {
        let tls = if url.secure { Some(tls::client(settings.ca_file.as_deref())?) } else { None };
        let access = Access { tls, login: url.login, mechanism: settings.mechanism };
        let member = Member { group: settings.group.clone(), ..Member::default() };
        let (settings, servers) = (settings.clone(), url.servers);
        Ok(Self { settings, servers, access, inbox, shares, member, assigned: Vec::new(), dealt: None })
    }

    /// Works until it is stopped.
    pub(super) fn run(mut self) {
        while !self.shares.is_stopped() {
            let Err(error) = self.follow() else { return };
            self.inbox.push(KafkaNews::Trouble(error.to_string()));
            let until = Instant::now() + RETRY;
            while !self.shares.is_stopped() && Instant::now() < until {
                self.shares.wait(until.saturating_duration_since(Instant::now()));
            }
        }
    }

    /// One session with the brokers: it ends with the source, or with the error of a broker.
    fn follow(&mut self) -> Result<(), SinkError> {
        let mut session = self.open()?;
        loop {
            let outcome = self.join(&mut session).and_then(|()| self.consume(&mut session));
            match outcome {
                Err(Stop::Away(why)) => return Err(SinkError::Away(why)),
                Err(Stop::Stopped) => {
                    self.end_beside(&mut session);
                    return Ok(());
                }
                Err(Stop::Lost) if self.shares.is_stopped() => return Ok(()),
                Ok(()) | Err(Stop::Rebalance) if self.shares.is_stopped() => {
                    self.end(&mut session);
                    return Ok(());
                }
                Ok(()) | Err(Stop::Rebalance) => {}
                Err(Stop::Lost) => {
                    self.member.id.clear();
                    self.keep_only(&[]);
                }
            }
        }
    }

    fn seeker(&self) -> Seeker<'_> {
        let (servers, access) = (self.servers.as_slice(), &self.access);
        Seeker { servers, access, makes_topics: false, takes_parts: true, awaits_topics: false }
    }

    fn open(&self) -> Result<Session, SinkError> {
        let (now, seeker) = (Instant::now(), self.seeker());
        let deadline = now + OPEN_WITHIN;
        let cluster = seeker.cluster(&self.settings.topic, deadline)?;
        let coordinator_at = seeker.ask(deadline, |connection| self.coordinator(connection))?;
        let coordinator = BrokerConnection::open(&coordinator_at, &self.access, deadline)?;
        let (heartbeat_at, commit_at, retry_at, count_at) = (now, now, now, now + COUNT);
        let (is_stale, has_failed) = (false, false);
        Ok(Session {
            coordinator,
            coordinator_at,
            cluster,
            partly: BTreeMap::new(),
            is_stale,
            heartbeat_at,
            commit_at,
            count_at,
            retry_at,
            has_failed,
        })
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
        self.member.id = joined.id;
        self.member.generation = joined.generation;
        let assignments =
            if joined.leader == self.member.id { self.deal(session, &joined.members) } else { Vec::new() };
        if assignments.is_empty() {
            self.dealt = None;
        }
        let body = self.member.sync(&assignments);
        let answer = self.ask_patiently(session, kafka::SYNC_GROUP, &body)?;
        let (error, partitions) = wire::synced(&mut AnswerReader(&answer), &self.settings.topic)?;
        judged(error)?;
        self.keep_only(&partitions);
        self.assigned = partitions;
        session.heartbeat_at = Instant::now();
        session.retry_at = session.heartbeat_at;
        self.inbox.push(KafkaNews::Ready);
        self.begin_assigned(session)?;
        self.tell_troubles();
        Ok(())
    }

    /// Deals the partitions of all topics that members read.
    fn deal(&mut self, session: &mut Session, members: &[Subscriber]) -> Vec<Assignment> {
        let topics = deal::topics(members).into_iter().map(|topic| (topic, Vec::new()));
        let mut known: BTreeMap<String, Vec<i32>> = topics.collect();
        known.insert(self.settings.topic.clone(), session.cluster.numbers());
        let counted = self.count(session, &known);
        let dealt = deal::deal(members, &counted);
        self.dealt = Some(counted);
        dealt
    }

    /// The partitions of topics as the brokers have them now, or as they were `known` where no broker answers.
    fn count(&self, session: &mut Session, known: &BTreeMap<String, Vec<i32>>) -> BTreeMap<String, Vec<i32>> {
        let deadline = soon();
        let (mut counted, mut length) = (known.clone(), COUNT);
        for (topic, partitions) in &mut counted {
            match self.seeker().cluster(topic, deadline) {
                Ok(found) => {
                    *partitions = found.numbers();
                    if *topic == self.settings.topic {
                        session.cluster.renew(found);
                    }
                }
                Err(error) => {
                    length = COUNT_AGAIN;
                    tracing::debug!(topic, %error, "the partitions of a topic are not known");
                }
            }
        }
        session.count_at = Instant::now() + length;
        counted
    }

    /// Drops the partitions that others have.
    fn keep_only(&mut self, partitions: &[i32]) {
        self.assigned.retain(|number| partitions.contains(number));
        for gone in self.shares.keep_only(partitions) {
            self.inbox.push(KafkaNews::Gone(gone));
        }
    }

    fn ask_to_join(&self, session: &mut Session) -> Result<Joined, Stop> {
        let ms = |length: Duration| i32::try_from(length.as_millis()).unwrap_or(i32::MAX);
        let body = self.member.join(&self.settings.topic, ms(SESSION), ms(REBALANCE));
        let answer = self.ask_patiently(session, kafka::JOIN_GROUP, &body)?;
        Ok(wire::joined(&mut AnswerReader(&answer))?)
    }

    /// Asks the coordinator, whose answer comes when all members have come together.
    fn ask_patiently(&self, session: &mut Session, api: Api, body: &[u8]) -> Result<Vec<u8>, Stop> {
        let deadline = Instant::now() + REBALANCE + ANSWER_WITHIN;
        session.coordinator.set_deadline(deadline);
        session.coordinator.send(api, body)?;
        while !session.coordinator.is_answered(NAP)? && Instant::now() < deadline {
            if self.shares.is_stopped() {
                return Err(Stop::Stopped);
            }
        }
        Ok(session.coordinator.receive()?)
    }

    /// Finds the leaders again, and counts the partitions where this process leads the group.
    pub(super) fn look_around(&mut self, session: &mut Session) -> Result<(), Stop> {
        let now = Instant::now();
        if session.is_stale && now >= session.retry_at {
            session.retry_at = now + RETRY;
            if let Ok(found) = self.seeker().cluster(&self.settings.topic, soon()) {
                session.cluster.renew(found);
                session.is_stale = false;
            }
        }
        if now < session.count_at {
            return Ok(());
        }
        session.count_at = now + COUNT;
        let Some(dealt) = self.dealt.take() else { return Ok(()) };
        let has_changed = self.count(session, &dealt) != dealt;
        self.dealt = Some(dealt);
        if has_changed {
            tracing::info!(group = self.settings.group, "a topic has other partitions: the group deals them again");
            self.commit(session)?;
            return Err(Stop::Rebalance);
        }
        Ok(())
    }

    /// Reports to the group: this process lives, and these offsets are done.
    pub(super) fn keep_up(&self, session: &mut Session) -> Result<(), Stop> {
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

    pub(super) fn commit(&self, session: &mut Session) -> Result<(), Stop> {
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
        let committed = self.commit(session);
        let left = self.leave(session);
        if let Err(Stop::Away(why)) = committed.and(left) {
            // The partitions go to others after the silence of this process.
            tracing::debug!(group = self.settings.group, why, "the group was not left in order");
        }
    }

    /// The same over another connection, where an answer of the coordinator has not come.
    fn end_beside(&self, session: &mut Session) {
        if self.member.id.is_empty() {
            return;
        }
        match BrokerConnection::open(&session.coordinator_at, &self.access, soon()) {
            Ok(connection) => {
                session.coordinator = connection;
                self.end(session);
            }
            Err(why) => tracing::debug!(group = self.settings.group, %why, "the group was not left in order"),
        }
    }

    fn leave(&self, session: &mut Session) -> Result<(), Stop> {
        session.coordinator.set_deadline(soon());
        let answer = session.coordinator.ask(kafka::LEAVE_GROUP, &self.member.leave())?;
        judged(wire::error_of(&mut AnswerReader(&answer))?)
    }
}

pub(super) fn soon() -> Instant {
    Instant::now() + ANSWER_WITHIN
}
