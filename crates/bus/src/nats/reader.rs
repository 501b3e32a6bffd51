//! Reads one partition: asks for as much as there is room for, and begins again where it was when something got lost.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::pull::Config;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, PullConsumer as Consumer};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::message;
use super::naming;
use super::pull::{LONGEST_SILENCE, Pull, PullError};
use super::server::{Failure, Server, bounds_in, told};
use super::silence;
use super::unreadable::Stored;
use crate::backend::Target;
use crate::feed::Feed;
use crate::{BusError, Keep, Position, Record, Tally};

/// How long is waited before reading begins again after an error.
const AGAIN_AFTER: Duration = Duration::from_millis(200);
/// How often a request for a consumer is sent again. An election of a leader drops the requests before it, and a server that
/// has just died may be chosen for the consumer.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// Failed starts at a position after which the record there is examined.
const STUCK_AFTER: u32 = 3;
/// The most times that silence doubles the patience with a server.
const MAX_DOUBLINGS: u32 = 4;
/// The time limit of this look.
const LOOKS_FOR: Duration = Duration::from_secs(5);
/// After so long without a request the server forgets the consumer.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);
/// Records that are asked for at once.
const BATCH: usize = 512;
/// Bytes that headers and subject may add to the largest record.
const SPARE_BYTES: usize = 64 * 1024;

pub(super) struct ReaderTask {
    pub(super) server: Server,
    pub(super) target: Target,
    pub(super) feed: Arc<Feed>,
    /// There is room again, or no reader is left.
    pub(super) room: Arc<Notify>,
    /// Records whose headers cannot be read.
    pub(super) headless: Tally,
    /// When the stream was made that is read, as the servers say it: another one has other records.
    pub(super) made: OnceLock<String>,
}

/// How far a consumer has come.
struct Reading {
    /// The end of the log when the consumer was made.
    end: Position,
    /// The consumer's number of its last delivery: a gap in the numbers is a lost delivery.
    delivered: u64,
    /// Whether nothing was read yet of a log that is read from its beginning: there the newest claim may stand before a
    /// gap.
    is_beginning: bool,
    /// The replica that is read has nothing more, and the leader of the stream has.
    lags: bool,
}

/// Why a consumer is not read from any more.
enum End {
    /// The reading has ended.
    Done,
    /// Another consumer is to be made.
    Again(String),
    /// The same: its server became silent, after answers or without any.
    Silent { is_answered: bool },
}

/// Starts of reading at one position.
#[derive(Clone, Copy, Debug)]
struct Starts {
    at: Position,
    failed: u32,
    /// How many consumers in a row have said nothing.
    unanswered: u32,
}

impl Starts {
    fn new(at: Position) -> Self {
        Self { at, failed: 0, unanswered: 0 }
    }

    /// A start has failed, and the next one is at this position.
    fn fail(&mut self, next: Position, end: &End) {
        if self.at != next {
            *self = Self::new(next);
        }
        self.failed += 1;
        match end {
            End::Silent { is_answered: true } => self.unanswered = 0,
            End::Silent { is_answered: false } => self.unanswered += 1,
            End::Again(_) | End::Done => {}
        }
    }

    /// How long the server of a consumer may be silent. Each consumer that says nothing doubles it, so that a large record
    /// comes over a slow network, too. A server that answered and then became silent is not slow, and a log without new
    /// records waits no longer for it than another one.
    fn patience(&self, lease: Duration) -> Duration {
        let doubled = silence::patience(lease).saturating_mul(1 << self.unanswered.min(MAX_DOUBLINGS));
        doubled.min(LONGEST_SILENCE)
    }
}

impl ReaderTask {
    pub(super) async fn run(self) {
        let mut starts = Starts::new(self.feed.next());
        while !self.feed.has_ended() {
            let patience = starts.patience(self.server.settings.lease);
            let end = match self.start().await {
                Ok((consumer, reading)) => self.follow(&consumer, reading, patience).await,
                Err(end) => end,
            };
            match &end {
                End::Done => return,
                End::Again(reason) => tracing::debug!(place = %self.target.place, reason, "reading begins again"),
                End::Silent { .. } => {
                    tracing::debug!(place = %self.target.place, "a server is silent; reading begins again");
                }
            }
            let next = self.feed.next();
            starts.fail(next, &end);
            if starts.failed >= STUCK_AFTER {
                self.step_over(next).await;
            }
            tokio::select! {
                () = sleep(AGAIN_AFTER) => {}
                () = self.room.notified() => {}
            }
        }
    }

    /// Takes the next message if the client cannot read it and would stay at it for ever.
    async fn step_over(&self, next: Position) {
        let deadline = Instant::now() + LOOKS_FOR;
        let Ok(Some(stored)) = self.server.stored(&self.target.place, next, deadline).await else { return };
        let is_next = stored.position == next || self.target.spec.keep == Keep::LatestOfKey;
        if stored.headers.is_none() && is_next {
            let (place, position) = (&self.target.place, stored.position.0);
            if let Some(times) = self.headless.note() {
                tracing::warn!(%place, position, times, "a record has invalid NATS headers; reading it without headers");
            }
            if let Some(record) = message::record_of(stored.position, None, stored.payload) {
                self.feed.push(record);
                self.feed.wake();
            }
        }
    }

    fn fail(&self, error: BusError) -> End {
        self.feed.fail(error);
        self.feed.wake();
        End::Done
    }

    fn trimmed(&self, first: Position) -> End {
        self.fail(BusError::Trimmed { place: self.target.place.clone(), from: self.feed.next(), first })
    }

    /// Makes a consumer that begins where the feed continues.
    async fn start(&self) -> Result<(Consumer, Reading), End> {
        let deadline = Instant::now() + self.server.settings.max_waiting_time;
        let action = "read a log";
        let info = match self.server.info(&self.target.place, deadline).await {
            Ok(info) => info,
            Err(Failure::Bus(error)) => return Err(End::Again(error.to_string())),
            Err(failure) => return Err(self.fail(failure.into_error_of(&self.target.place, action))),
        };
        let Some(bounds) = bounds_in(&info) else { return Err(End::Again("it has no bounds".to_owned())) };
        let made = info["created"].as_str().unwrap_or_default();
        if self.made.get_or_init(|| made.to_owned()) != made || bounds.next < self.feed.next() {
            // The servers have lost the log, and it was made again: the new records are others.
            return Err(self.trimmed(bounds.first));
        }
        let is_beginning = self.feed.next() == Position::START;
        if is_beginning {
            // Only a consumer from the beginning begins with the first record.
            self.feed.pass(bounds.first);
            // Of a log without records that is all there is to tell: who reads up to its end is there.
            self.feed.wake();
        }
        let config = Config {
            ack_policy: AckPolicy::None,
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: self.feed.next().0 },
            inactive_threshold: FORGOTTEN_AFTER,
            memory_storage: true,
            num_replicas: 1,
            ..Config::default()
        };
        let stream = naming::stream(&self.server.settings.prefix, &self.target.place.log, self.target.place.partition);
        let mut reading = Reading { end: bounds.next, delivered: 0, is_beginning, lags: false };
        let consumer = self.make_consumer(&config, &stream, &mut reading).await?;
        if consumer.cached_info().num_pending == 0 {
            self.settle(&mut reading).await?;
        }
        Ok((consumer, reading))
    }

    /// The first consumer that a server makes; the servers forget the others. While none does, as in an election of the
    /// leader that places them, records are read one by one: the leader of the stream is another one.
    async fn make_consumer(&self, config: &Config, stream: &str, reading: &mut Reading) -> Result<Consumer, End> {
        let begun = Instant::now();
        let patience = silence::patience(self.server.settings.lease);
        let mut asked = FuturesUnordered::new();
        let mut asks_at = begun;
        while begun.elapsed() < patience {
            if Instant::now() >= asks_at {
                asks_at = Instant::now() + ASK_EVERY;
                asked.push(self.server.context.create_consumer_on_stream(config.clone(), stream.to_owned()));
            }
            tokio::select! {
                Some(made) = asked.next() => return made.map_err(|error| End::Again(told(&error))),
                () = sleep(AGAIN_AFTER) => self.read_one_by_one(reading).await?,
            }
        }
        Err(End::Again("no server makes a consumer".to_owned()))
    }

    /// Takes the records that the leader of the stream has, as far as there is room and it answers soon.
    async fn read_one_by_one(&self, reading: &mut Reading) -> Result<(), End> {
        let deadline = Instant::now() + ASK_EVERY;
        while self.feed.has_room() && Instant::now() < deadline {
            let stored = self.server.stored(&self.target.place, self.feed.next(), deadline).await;
            // A record whose headers cannot be read is left to the consumer.
            let Ok(Some(Stored { position, headers: Some(headers), payload })) = stored else { return Ok(()) };
            self.reach(reading, position)?;
            self.take(position, message::record_of(position, Some(&headers), payload), reading);
            self.feed.wake();
        }
        Ok(())
    }

    /// Takes a record, or passes a claim over.
    fn take(&self, position: Position, record: Option<Record>, reading: &mut Reading) {
        match record {
            Some(record) => {
                // After the first record only records trimmed from now on are missing.
                reading.is_beginning = false;
                self.feed.push(record);
            }
            None => self.feed.pass(position.next()),
        }
    }

    /// The replica that is read has nothing more. It may lag behind the leader of the stream, which is asked: the end is
    /// reached if the leader has no record before it, either.
    async fn settle(&self, reading: &mut Reading) -> Result<(), End> {
        let next = self.feed.next();
        if next >= reading.end {
            reading.lags = false;
            return Ok(());
        }
        let stored = self.server.stored(&self.target.place, next, Instant::now() + LOOKS_FOR).await;
        let stored = stored.map_err(|failure| End::Again(failure.into_error("read a log").to_string()))?;
        reading.lags = lags(reading.end, stored.map(|stored| stored.position));
        if reading.lags { Ok(()) } else { self.reach(reading, reading.end) }
    }

    /// Continues at a position: no records are below it.
    fn reach(&self, reading: &Reading, next: Position) -> Result<(), End> {
        let is_gap = next > self.feed.next();
        if is_gap && !reading.is_beginning && self.target.spec.keep == Keep::All {
            return Err(self.trimmed(next));
        }
        if is_gap {
            self.feed.pass(next);
            self.feed.wake();
        }
        Ok(())
    }

    async fn follow(&self, consumer: &Consumer, mut reading: Reading, patience: Duration) -> End {
        let mut turns = self.server.turns.clone();
        turns.mark_unchanged();
        let mut is_answered = false;
        loop {
            while !self.feed.has_room() && !self.feed.has_ended() {
                self.room.notified().await;
            }
            if self.feed.has_ended() {
                return End::Done;
            }
            let settings = &self.server.settings;
            // Asks for as much as there is room for, but at least for one record of any size.
            let max_bytes = self.feed.room().max(settings.max_record_bytes + SPARE_BYTES);
            let records = BATCH.min(settings.max_ahead);
            let mut pull = match Pull::begin(&self.server, consumer, records, max_bytes, patience).await {
                Ok(pull) => pull,
                Err(error) => return End::Again(error.to_string()),
            };
            loop {
                let next = tokio::select! {
                    next = pull.next(&self.server) => next,
                    _ = turns.changed() => return End::Again("the connection has changed".to_owned()),
                    () = sleep(AGAIN_AFTER), if reading.lags => match self.settle(&mut reading).await {
                        Ok(()) => continue,
                        Err(end) => return end,
                    },
                    () = self.room.notified() => {
                        if self.feed.has_ended() {
                            return End::Done;
                        }
                        continue;
                    }
                };
                match next {
                    None => {
                        is_answered |= pull.is_answered();
                        break;
                    }
                    Some(Ok(message)) => match self.put(&message, &mut reading).await {
                        Ok(()) => {}
                        Err(end) => return end,
                    },
                    Some(Err(PullError::Silent)) => {
                        return End::Silent { is_answered: is_answered || pull.is_answered() };
                    }
                    Some(Err(error)) => return End::Again(error.to_string()),
                }
            }
        }
    }

    async fn put(&self, message: &Message, reading: &mut Reading) -> Result<(), End> {
        let info = message.info().map_err(|error| End::Again(error.to_string()))?;
        reading.delivered += 1;
        if info.consumer_sequence != reading.delivered {
            return Err(End::Again("something got lost on the way".to_owned()));
        }
        let position = Position(info.stream_sequence);
        self.reach(reading, position)?;
        let record = message::record_of(position, message.headers.as_ref(), message.payload.clone());
        self.take(position, record, reading);
        if info.pending == 0 {
            self.settle(reading).await?;
        }
        self.feed.wake();
        Ok(())
    }
}

/// Whether a replica without further records lags behind the leader of the stream, which has its next record there. `end` is
/// where the leader's log ended when the reading began.
fn lags(end: Position, leaders_next: Option<Position>) -> bool {
    leaders_next.is_some_and(|next| next < end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unanswered_consumers_make_a_reader_patient() {
        let (lease, at) = (Duration::from_secs(12), Position(7));
        let mut starts = Starts::new(at);
        let usual = starts.patience(lease);
        let changed = End::Again("the connection has changed".to_owned());
        for _ in 0..10 {
            starts.fail(at, &changed);
            starts.fail(at, &End::Silent { is_answered: true });
        }
        assert_eq!((starts.failed, starts.patience(lease)), (20, usual), "a log without new records");
        starts.fail(at, &End::Silent { is_answered: false });
        starts.fail(at, &changed);
        assert_eq!(starts.patience(lease), usual * 2, "a large record on its way");
        starts.fail(at, &End::Silent { is_answered: false });
        assert_eq!(starts.patience(lease), usual * 4);
        starts.fail(at.next(), &changed);
        assert_eq!((starts.failed, starts.patience(lease)), (1, usual));
    }

    #[test]
    fn a_replica_without_records_that_the_leader_has_lags() {
        let end = Position(9);
        assert!(lags(end, Some(Position(7))));
        assert!(!lags(end, Some(end)), "this record came after the reading began");
        assert!(!lags(end, None), "the rest was trimmed, or replaced by a newer record of its key");
    }
}
