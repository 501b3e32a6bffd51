//! The servers as the tasks see them: whether they are there, and requests that wait until they are.

use std::collections::HashSet;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::Client;
use async_nats::jetstream::Context;
use async_nats::jetstream::context::{GetStreamError, RequestErrorKind};
use async_nats::jetstream::stream::{RawMessageError, RawMessageErrorKind};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{sleep, sleep_until, timeout_at};

use super::copies::Copies;
use super::naming;
use super::standing::{Before, Standings};
use crate::backend::Target;
use crate::{Bounds, BusError, Keep, LogPartition, LogSpec, Partition, Position, Settings, Writers};

/// How long is waited before something is tried again that failed though the servers are there.
const AGAIN_AFTER: Duration = Duration::from_millis(100);
/// How often a request without an answer is sent again. An election of a leader drops the requests before it.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// How long the servers have to say that a stream is gone.
const GONE_WITHIN: Duration = Duration::from_secs(1);
/// JetStream's number for a stream that is not there.
const STREAM_NOT_FOUND: u64 = 10_059;
/// JetStream's number for a stream that is there already.
const STREAM_EXISTS: u64 = 10_058;
/// JetStream's numbers for a stream that is to have more copies than there are servers for.
const TOO_FEW_SERVERS: [u64; 3] = [10_005, 10_023, 10_074];
/// JetStream's number for a stream that reserves more than the storage that is left.
const NO_STORAGE: u64 = 10_047;
/// The error of a cluster's servers for such a stream, with the number for too few servers.
const NO_STORAGE_OF_PEERS: &str = "insufficient storage";
/// JetStream's number for a message that is not there.
pub(super) const NO_MESSAGE_FOUND: u64 = 10_037;
/// The id by which a message that is sent again is recognised.
pub(super) const ID: &str = "Nats-Msg-Id";
/// Claims that a full partition still takes, so that an owner can trim it.
const ROOM_FOR_CLAIMS: u64 = 1_024;

/// How often the connection was made or lost: odd while it is there.
pub(super) type Turns = u64;

/// All that a task needs.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) client: Client,
    pub(super) context: Context,
    pub(super) turns: watch::Receiver<Turns>,
    pub(super) settings: Arc<Settings>,
    /// The sender's name in the ids of its messages.
    pub(super) writer: u64,
    /// How many servers the configuration names.
    pub(super) named: usize,
    pub(super) copies: Arc<Copies>,
    /// The confirmed records, by which answers of servers are judged.
    pub(super) standings: Arc<Standings>,
}

/// Why a request failed that reached the servers, or did not.
pub(super) enum Failure {
    Bus(BusError),
    Refused { code: u64, reason: String },
}

/// The end of a request.
enum Answer {
    /// A server has answered.
    Given(Value),
    /// None has, for this reason.
    Missing(String),
}

impl Failure {
    pub(super) fn into_error(self, action: &'static str) -> BusError {
        match self {
            Self::Bus(error) => error,
            Self::Refused { reason, .. } => BusError::Refused { action, reason },
        }
    }

    /// The error of a log that cannot be made, or changed from a present limit in bytes.
    fn into_error_of_making(self, spec: &LogSpec, present: Option<u64>) -> BusError {
        match self {
            Self::Refused { code, reason } if code == NO_STORAGE || reason.contains(NO_STORAGE_OF_PEERS) => {
                BusError::NoRoom { log: spec.name.to_string(), bytes: spec.max_bytes, present }
            }
            failure => failure.into_error("make a log"),
        }
    }

    /// The same for a partition, whose stream may be gone.
    pub(super) fn into_error_of(self, place: &LogPartition, action: &'static str) -> BusError {
        match self {
            Self::Refused { code: STREAM_NOT_FOUND, .. } => BusError::Unknown(place.clone()),
            failure => failure.into_error(action),
        }
    }
}

/// Whether the connection is there.
pub(super) fn is_up(turns: Turns) -> bool {
    turns % 2 == 1
}

/// Why it is unknown whether an append is stored.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoredError {
    /// The stream does not answer.
    #[error("{}", told(.0))]
    Stream(GetStreamError),
    /// The message cannot be read.
    #[error("{}", told(.0))]
    Message(RawMessageError),
}

/// An error with its causes.
pub(super) fn told(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

impl Server {
    /// Waits for the connection.
    pub(super) async fn connected(&self, deadline: Instant) -> Result<(), BusError> {
        let mut turns = self.turns.clone();
        let wait = timeout_at(deadline.into(), turns.wait_for(|turns| is_up(*turns)));
        match wait.await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err(BusError::Stopped),
            Err(_) => Err(self.away("there is no connection".to_owned())),
        }
    }

    pub(super) fn away(&self, reason: String) -> BusError {
        BusError::Away { waited: self.settings.max_waiting_time, reason }
    }

    /// Asks JetStream, again and again until it answers or it is too late.
    pub(super) async fn ask(&self, deadline: Instant, subject: String, body: &Value) -> Result<Value, Failure> {
        loop {
            self.connected(deadline).await.map_err(Failure::Bus)?;
            let reason = match self.ask_once(deadline, &subject, body).await? {
                Answer::Given(mut answer) => match answer.get_mut("error").map(Value::take) {
                    None => return Ok(answer),
                    // The servers are there, and have not agreed on who answers.
                    Some(error) if error["code"] == 503 => error["description"].to_string(),
                    Some(error) => {
                        let code = error["err_code"].as_u64().unwrap_or_default();
                        let reason = error["description"].as_str().unwrap_or("no reason given").to_owned();
                        return Err(Failure::Refused { code, reason });
                    }
                },
                Answer::Missing(reason) => reason,
            };
            if Instant::now() >= deadline {
                return Err(Failure::Bus(self.away(format!("JetStream does not answer: {reason}"))));
            }
            sleep(AGAIN_AFTER).await;
        }
    }

    /// The first answer to a request, which is sent again and again: a server that begins to lead does not answer earlier
    /// requests. The requests may come in any number.
    async fn ask_once(&self, deadline: Instant, subject: &str, body: &Value) -> Result<Answer, Failure> {
        let mut turns = self.turns.clone();
        turns.mark_unchanged();
        let request = || self.context.request::<_, _, Value>(subject.to_owned(), body);
        let mut asked = FuturesUnordered::new();
        loop {
            asked.push(request());
            tokio::select! {
                Some(answer) = asked.next() => return Ok(match answer {
                    Ok(answer) => Answer::Given(answer),
                    Err(error) => Answer::Missing(told(&error)),
                }),
                changed = turns.changed() => {
                    changed.map_err(|_| Failure::Bus(BusError::Stopped))?;
                    return Ok(Answer::Missing("the connection has changed".to_owned()));
                }
                () = sleep_until((Instant::now() + ASK_EVERY).min(deadline).into()) => {}
            }
            if Instant::now() >= deadline {
                return Ok(Answer::Missing("no answer".to_owned()));
            }
        }
    }

    /// The state of a partition's stream, as soon as the servers have a valid one.
    pub(super) async fn info(&self, place: &LogPartition, deadline: Instant) -> Result<Value, Failure> {
        let stream = naming::stream(&self.settings.prefix, &place.log, place.partition);
        loop {
            let before = self.standings.before(place);
            let info = self.ask(deadline, format!("STREAM.INFO.{stream}"), &json!({})).await?;
            let Err(reason) = self.standings.take(place, before, &info) else { return Ok(info) };
            if Instant::now() >= deadline {
                return Err(Failure::Bus(self.away(format!("the stream {stream} is not complete: {reason}"))));
            }
            sleep(AGAIN_AFTER).await;
        }
    }

    /// Whether the servers say for certain that a partition's stream is gone.
    pub(super) async fn is_gone(&self, place: &LogPartition) -> bool {
        let info = self.info(place, Instant::now() + GONE_WITHIN).await;
        matches!(info, Err(Failure::Refused { code: STREAM_NOT_FOUND, .. }))
    }

    /// Makes a log, a stream for each partition.
    pub(super) async fn create(&self, spec: &LogSpec, deadline: Instant) -> Result<(), BusError> {
        self.connected(deadline).await?;
        self.check_version(spec)?;
        self.check_jetstream().await?;
        for partition in 0..spec.partitions {
            let place = LogPartition { log: spec.name.clone(), partition: Partition(partition) };
            self.create_stream(spec, &place, deadline)
                .await
                .map_err(|failure| failure.into_error_of_making(spec, None))?;
        }
        Ok(())
    }

    async fn create_stream(&self, spec: &LogSpec, place: &LogPartition, deadline: Instant) -> Result<(), Failure> {
        let servers = self.servers();
        let mut config = self.config(spec, place, self.settings.copies(servers));
        let stream = naming::stream(&self.settings.prefix, &place.log, place.partition);
        let found = match self.info(place, deadline).await {
            Ok(found) => found,
            Err(Failure::Refused { code: STREAM_NOT_FOUND, .. }) => {
                let create = format!("STREAM.CREATE.{stream}");
                let mut made = self.ask(deadline, create.clone(), &config).await;
                if matches!(made, Err(Failure::Refused { code, .. }) if TOO_FEW_SERVERS.contains(&code))
                    && self.is_guess()
                {
                    tracing::warn!(
                        servers,
                        "the bus has several addresses and too few servers for streams; streams get one replica (set `bus_replicas` to choose)"
                    );
                    config = self.config(spec, place, 1);
                    made = self.ask(deadline, create, &config).await;
                }
                match made {
                    Ok(made) => {
                        self.look_at_copies(&made);
                        // A stream that is new has lost nothing.
                        let _ = self.standings.take(place, Before::default(), &made);
                        return Ok(());
                    }
                    Err(Failure::Refused { code: STREAM_EXISTS, .. }) => self.info(place, deadline).await?,
                    Err(failure) => return Err(failure),
                }
            }
            Err(failure) => return Err(failure),
        };
        self.look_at_copies(&found);
        let (found, limits) = (&found["config"], ["max_msgs", "max_bytes", "max_age"]);
        let description = found["description"].as_str().unwrap_or_default();
        if description != naming::description(spec) || found["subjects"] != config["subjects"] {
            let difference = naming::difference(description, spec);
            return Err(Failure::Bus(BusError::Mismatch { log: place.log.to_string(), difference }));
        }
        if limits.iter().any(|limit| found[limit] != config[limit]) {
            let update = self.ask(deadline, format!("STREAM.UPDATE.{stream}"), &config).await;
            let present = found["max_bytes"].as_u64();
            update.map_err(|failure| Failure::Bus(failure.into_error_of_making(spec, present)))?;
        }
        Ok(())
    }

    fn look_at_copies(&self, stream: &Value) {
        let servers = self.servers();
        self.copies.look(stream, self.settings.copies(servers), servers);
    }

    /// How many servers the bus has, as far as they are known.
    fn servers(&self) -> usize {
        // Servers of a cluster announce each other unless that is switched off, and may be named in the address.
        let announced: HashSet<_> = self.client.server_info().connect_urls.into_iter().collect();
        self.named.max(announced.len())
    }

    /// Whether the number of servers, and so that of copies, is a guess from the addresses that a server announces: one
    /// server may announce several. Servers that the address of the bus names are certain, and are waited for.
    fn is_guess(&self) -> bool {
        self.settings.replicas == 0 && self.settings.copies(self.named) == 1
    }

    fn config(&self, spec: &LogSpec, place: &LogPartition, replicas: u8) -> Value {
        let Settings { prefix, max_waiting_time, .. } = &*self.settings;
        let claims = if spec.writers == Writers::Owner { ROOM_FOR_CLAIMS } else { 0 };
        // An append is repeated no longer than it may wait.
        let window = (*max_waiting_time * 2).as_nanos();
        let age = spec.keep_for.map_or(0, |age| u64::try_from(age.as_nanos()).unwrap_or(u64::MAX));
        json!({
            "name": naming::stream(prefix, &place.log, place.partition),
            "description": naming::description(spec),
            "subjects": [naming::subjects(prefix, &place.log, place.partition)],
            "retention": "limits",
            "discard": "new",
            "storage": "file",
            "max_msgs": spec.max_records.saturating_add(claims).min(i64::MAX as u64),
            "max_bytes": spec.max_bytes,
            "max_age": age,
            "max_msgs_per_subject": if spec.keep == Keep::LatestOfKey { 1 } else { -1 },
            "num_replicas": replicas,
            "duplicate_window": u64::try_from(window).unwrap_or(u64::MAX),
        })
    }

    /// The first and the next position of a partition.
    pub(super) async fn bounds(&self, place: &LogPartition, deadline: Instant) -> Result<Bounds, BusError> {
        let action = "report the bounds of a log";
        let info = self.info(place, deadline).await.map_err(|failure| failure.into_error_of(place, action))?;
        bounds_in(&info).ok_or_else(|| BusError::Refused { action, reason: "its answer has no numbers".to_owned() })
    }

    /// Trims records, and claims but for the newest: appends are checked against that one.
    pub(super) async fn trim(&self, target: &Target, below: Position, deadline: Instant) -> Result<(), BusError> {
        // Nothing is below the first two positions, and JetStream takes 0 for everything.
        if below.0 <= 1 {
            return Ok(());
        }
        let (spec, place, prefix) = (&target.spec, &target.place, &self.settings.prefix);
        let records = naming::records(prefix, spec, place.partition);
        self.purge(place, &records, below, deadline).await?;
        if spec.writers == Writers::Many {
            return Ok(());
        }
        let claims = naming::claim(prefix, &place.log, place.partition);
        if let Some(newest) = self.last_of(place, &claims, deadline).await? {
            self.purge(place, &claims, below.min(newest), deadline).await?;
        }
        Ok(())
    }

    async fn purge(
        &self,
        place: &LogPartition,
        filter: &str,
        below: Position,
        deadline: Instant,
    ) -> Result<(), BusError> {
        let stream = naming::stream(&self.settings.prefix, &place.log, place.partition);
        let body = json!({ "filter": filter, "seq": below.0 });
        let purge = self.ask(deadline, format!("STREAM.PURGE.{stream}"), &body).await;
        purge.map(drop).map_err(|failure| failure.into_error("trim a log"))
    }

    /// The position of the last message with a subject.
    async fn last_of(
        &self,
        place: &LogPartition,
        subject: &str,
        deadline: Instant,
    ) -> Result<Option<Position>, BusError> {
        let stream = naming::stream(&self.settings.prefix, &place.log, place.partition);
        let body = json!({ "last_by_subj": subject });
        match self.ask(deadline, format!("STREAM.MSG.GET.{stream}"), &body).await {
            Ok(answer) => Ok(answer["message"]["seq"].as_u64().map(Position)),
            Err(Failure::Refused { code: NO_MESSAGE_FOUND, .. }) => Ok(None),
            Err(failure) => Err(failure.into_error("find the owner of a log")),
        }
    }

    /// Whether an append that was sent is stored where it was to be, though the answer was that it cannot be: it was
    /// repeated.
    pub(super) async fn is_stored(
        &self,
        place: &LogPartition,
        position: Position,
        id: &str,
    ) -> Result<bool, StoredError> {
        let stream = naming::stream(&self.settings.prefix, &place.log, place.partition);
        let stream = self.context.get_stream_no_info(stream).await.map_err(StoredError::Stream)?;
        match stream.get_raw_message(position.0).await {
            Ok(message) => Ok(message.headers.get(ID).is_some_and(|found| found.as_str() == id)),
            Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => Ok(false),
            Err(error) => Err(StoredError::Message(error)),
        }
    }

    /// Checks for a JetStream, here or at another server of this one's cluster. Without one no answer ever comes.
    async fn check_jetstream(&self) -> Result<(), BusError> {
        if self.client.server_info().jetstream {
            return Ok(());
        }
        let answer: Result<Value, _> = self.context.request("INFO".to_owned(), &json!({})).await;
        match answer {
            Err(error) if error.kind() == RequestErrorKind::NoResponders => {
                let reason = "the NATS server has no JetStream; start it with `nats-server -js`".to_owned();
                Err(BusError::Refused { action: "make a log", reason })
            }
            // Whatever else it is shows when the log is made.
            _ => Ok(()),
        }
    }

    /// Whether the servers check claims, which older ones do not.
    fn check_version(&self, spec: &LogSpec) -> Result<(), BusError> {
        let version = self.client.server_info().version;
        if spec.writers == Writers::Many || can_fence(&version) {
            return Ok(());
        }
        let reason = format!("NATS {version} has no check of a claim; fenced logs need 2.11 or later");
        Err(BusError::Refused { action: "make a log", reason })
    }
}

/// Whether a version of the server knows `Nats-Expected-Last-Subject-Sequence-Subject`.
fn can_fence(version: &str) -> bool {
    let mut numbers = version.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or_default());
    (numbers.next(), numbers.next()) >= (Some(2), Some(11))
}

/// The first and last position of a stream: JetStream counts from 1.
pub(super) fn bounds_in(info: &Value) -> Option<Bounds> {
    let (first, last) = (info["state"]["first_seq"].as_u64()?, info["state"]["last_seq"].as_u64()?);
    Some(Bounds { first: Position(first.max(1)), next: Position(last + 1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_servers_cannot_fence() {
        assert!(can_fence("2.11.0") && can_fence("2.15.2-dev") && can_fence("3.0.0"));
        assert!(!can_fence("2.10.29") && !can_fence("2.9.10") && !can_fence(""));
    }
}
