//! Appends to one partition, in their order, and sent again when the connection was lost.
//!
//! An owner's append names its claim, and the sequence number that it expects to follow. The first excludes replaced
//! owners; the second leaves no gap after an append that failed. The numbers of a stream with one writer are
//! consecutive, so an owner sends without waiting for confirmations, except to a stream with replicas: its leader takes one
//! append under a claim at a time.
//!
//! With several writers the server cannot know what an append should follow, and the client sends its unsent messages
//! after a reconnect before we can repeat the lost ones. So one append is on its way at a time.

use std::collections::VecDeque;
use std::error::Error;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::{self, ErrorCode};
use bytes::Bytes;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{sleep, sleep_until};

use super::message;
use super::naming;
use super::server::{ID, Server, is_up, told};
use crate::backend::Target;
use crate::completion::Completion;
use crate::{Append, BusError, Epoch, LogPartition, Position, Writers};

/// Appends of an owner that are sent and not confirmed, of one partition of one copy.
const OWNERS_WINDOW: usize = 512;
/// How long is waited before something is sent again though the connection is there.
const AGAIN_AFTER: Duration = Duration::from_millis(100);

const EXPECTED: &str = "Nats-Expected-Last-Sequence";
const EXPECTED_CLAIM: &str = "Nats-Expected-Last-Subject-Sequence";
const CLAIM_SUBJECT: &str = "Nats-Expected-Last-Subject-Sequence-Subject";

/// A request to a partition's writer.
pub(super) enum Request {
    Own(Completion<Epoch>),
    Append(Append, Completion<Position>),
}

impl Request {
    fn deadline(&self) -> Instant {
        match self {
            Self::Own(completion) => completion.deadline(),
            Self::Append(_, completion) => completion.deadline(),
        }
    }
}

type Ack = Pin<Box<dyn Future<Output = Result<PublishAck, PublishError>> + Send>>;

/// A request that is not answered, the first ones of them sent.
struct Item {
    request: Request,
    /// Its number among this bus's appends to this partition, for its id.
    number: u64,
    /// The sequence number that it follows, once it was sent for the first time by an owner.
    follows: Option<u64>,
    /// How often it was sent.
    times: u32,
    ack: Option<Ack>,
}

pub(super) struct Lane {
    server: Server,
    target: Target,
    items: VecDeque<Item>,
    /// How many of the items are sent.
    sent: usize,
    numbers: u64,
    /// The stream has replicas: its leader refuses an append whose claim is that of one which is not stored yet.
    is_replicated: bool,
    /// The question whether the stream is gone. Appends are sent again meanwhile: servers that elect a leader do not answer
    /// it.
    gone: Option<Pin<Box<dyn Future<Output = bool> + Send>>>,
    /// The epoch with which this bus owns the partition, and the sequence number that its next append follows.
    owner: Option<(Epoch, u64)>,
}

/// A reason for which the lane wakes up.
enum Turn {
    Request(Request),
    Acked(Result<PublishAck, PublishError>),
    Gone(bool),
    Connection,
    Late,
    End,
}

impl Lane {
    pub(super) fn new(server: Server, target: Target) -> Self {
        Self {
            server,
            target,
            items: VecDeque::new(),
            sent: 0,
            numbers: 0,
            is_replicated: false,
            gone: None,
            owner: None,
        }
    }

    pub(super) async fn run(mut self, mut inbox: UnboundedReceiver<Request>) {
        let mut turns = self.server.turns.clone();
        let mut before = *turns.borrow();
        loop {
            let now = *turns.borrow_and_update();
            if std::mem::replace(&mut before, now) != now {
                // Appends on their way may have got lost; the server recognises others by their id.
                self.unsend();
            }
            let is_up = is_up(now);
            if is_up {
                self.send().await;
            }
            let deadline = self.items.front().map(|item| item.request.deadline());
            let front = self.items.front_mut().filter(|_| self.sent > 0).and_then(|item| item.ack.as_mut());
            let turn = tokio::select! {
                request = inbox.recv() => request.map_or(Turn::End, Turn::Request),
                acked = outcome_of(front) => Turn::Acked(acked),
                gone = outcome_of(self.gone.as_mut()) => Turn::Gone(gone),
                changed = turns.changed() => changed.map_or(Turn::End, |()| Turn::Connection),
                () = until(deadline) => Turn::Late,
            };
            match turn {
                Turn::Request(request) => self.push(request),
                Turn::Acked(acked) => self.acked(acked).await,
                Turn::Gone(gone) => self.answered(gone),
                Turn::Connection => {}
                Turn::Late => self.late(is_up),
                Turn::End => return,
            }
        }
    }

    fn window(&self) -> usize {
        match self.target.spec.writers {
            Writers::Owner if !self.is_replicated => OWNERS_WINDOW,
            Writers::Owner | Writers::Many => 1,
        }
    }

    fn push(&mut self, request: Request) {
        self.numbers += 1;
        self.items.push_back(Item { request, number: self.numbers, follows: None, times: 0, ack: None });
    }

    fn unsend(&mut self) {
        self.sent = 0;
        for item in &mut self.items {
            item.ack = None;
        }
    }

    /// Sends the appends that may be sent.
    async fn send(&mut self) {
        while self.sent < self.window() {
            match self.items.get(self.sent).map(|item| &item.request) {
                None => return,
                Some(Request::Own(_)) if self.sent > 0 => return,
                Some(Request::Own(_)) => self.own().await,
                Some(Request::Append(append, _)) => {
                    let append = append.clone();
                    if !self.send_append(append).await {
                        return;
                    }
                }
            }
        }
    }

    /// Sends the next append. Returns whether another one may follow.
    async fn send_append(&mut self, append: Append) -> bool {
        let follows = match self.follows(&append) {
            Ok(follows) => follows,
            Err(error) => {
                self.refuse(error);
                return true;
            }
        };
        let Some(item) = self.items.get_mut(self.sent) else { return false };
        item.follows = follows;
        let headers = self.headers(&append);
        let prefix = &self.server.settings.prefix;
        let subject = naming::record(prefix, &self.target.spec, self.target.place.partition, &append.key);
        let sending = self.server.context.publish_with_headers(subject, headers, append.payload).await;
        let Some(item) = self.items.get_mut(self.sent) else { return false };
        item.times += 1;
        self.sent += 1;
        match sending {
            Ok(ack) => item.ack = Some(ack.into_future()),
            // It fails in its turn, as if the server had said so.
            Err(error) => item.ack = Some(Box::pin(async { Err(error) })),
        }
        true
    }

    /// The number that the next append follows, in a log with owners.
    fn follows(&mut self, append: &Append) -> Result<Option<u64>, BusError> {
        if self.target.spec.writers == Writers::Many {
            return Ok(None);
        }
        let fenced = self.fenced(append);
        let next = match &mut self.owner {
            Some((epoch, next)) if append.epoch == Some(*epoch) => next,
            _ => return Err(fenced),
        };
        let before = self.items.get(self.sent).and_then(|item| item.follows);
        if before.is_none() {
            *next += 1;
        }
        Ok(before.or(Some(*next - 1)))
    }

    fn id(&self, item: &Item) -> String {
        format!("{:x}-{}", self.server.writer, item.number)
    }

    fn headers(&self, append: &Append) -> HeaderMap {
        let mut headers = message::headers_of(append);
        if let Some(item) = self.items.get(self.sent) {
            headers.insert(ID, self.id(item));
            if let (Some(follows), Some(epoch)) = (item.follows, append.epoch) {
                let place = &self.target.place;
                let claim = naming::claim(&self.server.settings.prefix, &place.log, place.partition);
                headers.insert(EXPECTED, follows.to_string());
                headers.insert(EXPECTED_CLAIM, epoch.to_string());
                headers.insert(CLAIM_SUBJECT, claim);
            }
        }
        headers
    }

    /// Refuses the append after the sent ones, unless it was sent before: then it may be stored.
    fn refuse(&mut self, error: BusError) {
        let Some(item) = self.items.remove(self.sent) else { return };
        let Request::Append(_, completion) = item.request else { return };
        completion.finish(Err(if item.times > 0 { self.unconfirmed() } else { error }));
    }

    fn fenced(&self, append: &Append) -> BusError {
        let epoch = append.epoch.unwrap_or(Epoch(Position::START));
        BusError::Fenced { place: self.target.place.clone(), epoch }
    }

    fn unconfirmed(&self) -> BusError {
        BusError::Unconfirmed { place: self.target.place.clone(), waited: self.server.settings.max_waiting_time }
    }

    async fn acked(&mut self, acked: Result<PublishAck, PublishError>) {
        let error = match acked {
            Ok(ack) => {
                self.gone = None;
                return self.finish(Ok(Position(ack.sequence)));
            }
            Err(error) => error,
        };
        let limit = limit_in(&error);
        if error.kind() == PublishErrorKind::StreamNotFound && self.gone.is_none() {
            let (server, place) = (self.server.clone(), self.target.place.clone());
            self.gone = Some(Box::pin(async move { server.is_gone(&place).await }));
        }
        match error.kind() {
            PublishErrorKind::WrongLastSequence => self.mismatched().await,
            _ if is_under_way(&error) => {
                // The first one says what kind of stream it is. A later one is for an append that was sent before.
                let is_news = !std::mem::replace(&mut self.is_replicated, true);
                self.unsend();
                sleep(if is_news { Duration::ZERO } else { AGAIN_AFTER }).await;
            }
            _ if limit.is_some() => {
                self.owner = None;
                let limit = limit.unwrap_or_default();
                self.finish(Err(BusError::Full { place: self.target.place.clone(), limit }));
            }
            PublishErrorKind::TimedOut | PublishErrorKind::BrokenPipe | PublishErrorKind::StreamNotFound => {
                tracing::debug!(place = %self.target.place, %error, "an append is sent again");
                self.unsend();
                sleep(AGAIN_AFTER).await;
            }
            _ => {
                self.owner = None;
                self.finish(Err(BusError::Refused { action: "append to a log", reason: told(&error) }));
            }
        }
    }

    /// The servers have said whether the stream is gone.
    fn answered(&mut self, is_gone: bool) {
        self.gone = None;
        let is_append = self.items.front().is_some_and(|item| matches!(item.request, Request::Append(..)));
        if is_gone && is_append {
            self.owner = None;
            self.finish(Err(BusError::Unknown(self.target.place.clone())));
        }
    }

    /// The first append does not follow the expected one: it is stored already, or another owner's is.
    async fn mismatched(&mut self) {
        let Some(item) = self.items.front() else { return };
        let Request::Append(append, _) = &item.request else { return };
        let fenced = self.fenced(append);
        let again = item.times > 1;
        if let Some(follows) = item.follows.filter(|_| again) {
            let position = Position(follows).next();
            match self.server.is_stored(&self.target.place, position, &self.id(item)).await {
                Ok(true) => return self.finish(Ok(position)),
                Ok(false) => {}
                Err(error) => {
                    tracing::debug!(place = %self.target.place, %error, "an append is sent again");
                    self.unsend();
                    return sleep(AGAIN_AFTER).await;
                }
            }
        }
        self.owner = None;
        let error = if again { self.unconfirmed() } else { fenced };
        self.finish(Err(error));
    }

    /// Answers the first append.
    fn finish(&mut self, outcome: Result<Position, BusError>) {
        let Some(item) = self.items.pop_front() else { return };
        self.sent = self.sent.saturating_sub(1);
        if let Ok(position) = outcome {
            self.server.standings.confirm(&self.target.place, position);
        }
        if let Request::Append(_, completion) = item.request {
            completion.finish(outcome);
        }
    }

    /// The first request has waited for too long.
    fn late(&mut self, is_up: bool) {
        let Some(item) = self.items.pop_front() else { return };
        self.sent = self.sent.saturating_sub(1);
        self.owner = None;
        let reason = if is_up { "JetStream does not answer" } else { "there is no connection" };
        let away = self.server.away(reason.to_owned());
        match item.request {
            Request::Own(completion) => completion.finish(Err(away)),
            Request::Append(_, completion) => {
                completion.finish(Err(if item.times > 0 { self.unconfirmed() } else { away }));
            }
        }
    }

    /// Claims the partition: a record that follows the present ones shuts every earlier owner out.
    async fn own(&mut self) {
        let Some(item) = self.items.pop_front() else { return };
        let Request::Own(completion) = item.request else { return };
        let outcome = claim(&self.server, &self.target.place, completion.deadline()).await;
        self.owner = outcome.as_ref().ok().map(|epoch| (*epoch, epoch.0.0));
        completion.finish(outcome);
    }
}

async fn claim(server: &Server, place: &LogPartition, deadline: Instant) -> Result<Epoch, BusError> {
    let prefix = &server.settings.prefix;
    loop {
        let last = server.bounds(place, deadline).await?.next.0 - 1;
        let mut headers = message::claim_headers();
        headers.insert(EXPECTED, last.to_string());
        let subject = naming::claim(prefix, &place.log, place.partition);
        let sending = server.context.publish_with_headers(subject, headers, Bytes::new()).await;
        let acked = match sending {
            Ok(ack) => ack.await,
            Err(error) => Err(error),
        };
        let error = match acked {
            Ok(ack) => {
                let position = Position(ack.sequence);
                server.standings.confirm(place, position);
                return Ok(Epoch(position));
            }
            Err(error) => error,
        };
        if let Some(limit) = limit_in(&error) {
            return Err(BusError::Full { place: place.clone(), limit });
        }
        if Instant::now() >= deadline {
            return Err(server.away(told(&error)));
        }
        if error.kind() == PublishErrorKind::StreamNotFound && server.is_gone(place).await {
            return Err(BusError::Unknown(place.clone()));
        }
        // Another writer has written meanwhile, or the answer has got lost: then the claim is repeated after the first.
        if error.kind() != PublishErrorKind::WrongLastSequence {
            sleep(AGAIN_AFTER).await;
        }
    }
}

async fn outcome_of<T>(pending: Option<&mut Pin<Box<dyn Future<Output = T> + Send>>>) -> T {
    match pending {
        Some(outcome) => outcome.await,
        None => std::future::pending().await,
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

fn source_of(error: &PublishError) -> Option<&jetstream::Error> {
    error.source()?.downcast_ref()
}

/// Whether a stream with replicas refuses an append since another one under the same claim, or the same one, is on its way to
/// them.
fn is_under_way(error: &PublishError) -> bool {
    let code = source_of(error).map(jetstream::Error::error_code);
    code.is_some_and(|code| {
        [ErrorCode::STREAM_WRONG_LAST_SEQUENCE_CONSTANT, ErrorCode::STREAM_DUPLICATE_MESSAGE_CONFLICT].contains(&code)
    })
}

/// The limit that a partition has reached, as JetStream says it.
fn limit_in(error: &PublishError) -> Option<String> {
    let source = source_of(error)?;
    let text = source.to_string();
    let is_limit = text.contains("maximum messages") || text.contains("maximum bytes");
    is_limit.then_some(text)
}
