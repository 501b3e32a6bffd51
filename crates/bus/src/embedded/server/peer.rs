//! One member, as the process that serves the bus sees it.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use tokio::net::UnixStream;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use super::Served;
use crate::backend::{Backend, Target};
use crate::budget::Budget;
use crate::completion::Completion;
use crate::embedded::Embedded;
use crate::embedded::change::Origin;
use crate::embedded::frame::{Ask, AskFailure, MAX_HELLO, SPARE, Tell, VERSION, next_frame};
use crate::name::is_name;
use crate::{
    Bounds, BusError, Done, Epoch, LiveMessage, LogName, LogPartition, LogSpec, Position, Reader, Settings, Subject,
    SubjectFilter, Subscription, Wake,
};

/// Bytes that wait for a member's socket before no more records and messages are taken for it.
const MAX_OUTPUT: usize = 4 << 20;
/// Bytes of records in one frame, unless a single one has more.
const MAX_PULL: usize = 1 << 20;
/// Live messages in one frame.
const LIVE_AT_ONCE: usize = 256;
/// Bytes that are read at once.
const READ_AT_ONCE: usize = 64 << 10;

/// How long a member that is refused may take.
const REFUSE_WITHIN: Duration = Duration::from_secs(5);

/// Tells a member why it is not served, behind its first frame: it does not listen before.
pub(super) async fn refuse(stream: UnixStream, why: String) {
    let talk = async {
        stream.readable().await?;
        stream.try_read(&mut [0; MAX_HELLO])?;
        let mut output = Vec::new();
        Tell::Refused { why }.put(&mut output);
        stream.writable().await?;
        stream.try_write(&output)
    };
    if let Ok(Err(error)) = timeout(REFUSE_WITHIN, talk).await {
        tracing::debug!(%error, "a process that is refused has left the bus");
    }
}

/// Readings and subscriptions with news.
#[derive(Default)]
struct News {
    ids: Mutex<BTreeSet<(bool, u64)>>,
    notify: Notify,
}

impl News {
    /// The wake-up of a reading or a subscription.
    fn wake(self: &Arc<Self>, is_reading: bool, id: u64) -> Wake {
        let news = Arc::clone(self);
        Arc::new(move || {
            news.ids.lock().unwrap_or_else(PoisonError::into_inner).insert((is_reading, id));
            news.notify.notify_one();
        })
    }

    fn take(&self) -> Option<(bool, u64)> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner).pop_first()
    }
}

/// A reading of a member.
struct PeerReading {
    reader: Reader,
    /// The position that the member knows.
    next: Position,
    /// Records and bytes that it wants now.
    wanted: Option<(usize, usize)>,
}

pub(super) struct Peer {
    stream: UnixStream,
    served: Arc<Served>,
    /// The prefix of its logs and subjects, and its number; `None` before its first frame.
    hello: Option<(String, u64)>,
    /// Bounds its requests that are not answered.
    budget: Arc<Budget>,
    limits: Settings,
    answers: UnboundedSender<Tell>,
    answered: UnboundedReceiver<Tell>,
    news: Arc<News>,
    readings: HashMap<u64, PeerReading>,
    subscriptions: HashMap<u64, Subscription>,
    input: BytesMut,
    output: Vec<u8>,
    /// Bytes of the output that are sent.
    sent: usize,
    /// Nothing more is read of it: it is disconnected when the output is sent.
    refused: bool,
}

impl Peer {
    /// Serves a member until it disconnects.
    pub(super) async fn serve(stream: UnixStream, served: Arc<Served>) {
        let (answers, answered) = unbounded_channel();
        // A single request passes whatever its size. Further ones wait in the socket.
        let limits = Settings { max_waiting: usize::MAX, max_waiting_bytes: usize::MAX, ..served.settings.clone() };
        let peer = Self {
            stream,
            hello: None,
            budget: Budget::new(&limits),
            limits,
            answers,
            answered,
            news: Arc::default(),
            readings: HashMap::new(),
            subscriptions: HashMap::new(),
            input: BytesMut::new(),
            output: Vec::new(),
            sent: 0,
            refused: false,
            served,
        };
        if let Err(error) = peer.run().await {
            tracing::debug!(%error, "a process has left the bus");
        }
    }

    async fn run(mut self) -> io::Result<()> {
        loop {
            self.handle_frames();
            self.collect();
            self.send()?;
            let is_done = self.sent == self.output.len();
            if is_done && self.refused {
                return Ok(());
            }
            let may_read = self.may_read();
            tokio::select! {
                answer = self.answered.recv() => {
                    if let Some(answer) = answer {
                        answer.put(&mut self.output);
                    }
                }
                () = self.news.notify.notified(), if self.has_room() => {}
                ready = self.stream.writable(), if !is_done => ready?,
                ready = self.stream.readable(), if may_read => {
                    ready?;
                    self.receive()?;
                }
            }
        }
    }

    /// Whether more requests are read: within the bounds of unanswered requests and of unsent answers.
    fn may_read(&self) -> bool {
        let (requests, bytes) = self.budget.waiting();
        let settings = &self.served.settings;
        requests < settings.max_waiting && bytes < settings.max_waiting_bytes && self.has_room() && !self.refused
    }

    fn has_room(&self) -> bool {
        self.output.len() - self.sent < MAX_OUTPUT
    }

    fn receive(&mut self) -> io::Result<()> {
        self.input.reserve(READ_AT_ONCE);
        match self.stream.try_read_buf(&mut self.input) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn send(&mut self) -> io::Result<()> {
        while self.sent < self.output.len() {
            match self.stream.try_write(&self.output[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.output.clear();
        self.sent = 0;
        // Room for a large answer is not kept for small ones.
        self.output.shrink_to(READ_AT_ONCE);
        Ok(())
    }

    fn handle_frames(&mut self) {
        while self.may_read() {
            let max = self.hello.as_ref().map_or(MAX_HELLO, |_| self.served.settings.max_record_bytes + SPARE);
            let body = match next_frame(&mut self.input, max) {
                Ok(Some(body)) => body,
                Ok(None) => return,
                Err(length) => {
                    let why = format!("a frame of {length} bytes is larger than {max}; raise max_record_bytes");
                    return self.refuse(why);
                }
            };
            match (Ask::decode(body), &self.hello) {
                (Some(Ask::Hello { version, prefix, member }), None) => self.welcome(version, prefix, member),
                (Some(ask), Some((prefix, member))) if !matches!(ask, Ask::Hello { .. }) => {
                    let (prefix, member) = (prefix.clone(), *member);
                    self.handle(ask, &prefix, member);
                }
                _ => self.refuse("this is no process of the same version of tidegate".to_owned()),
            }
        }
    }

    fn refuse(&mut self, why: String) {
        Tell::Refused { why }.put(&mut self.output);
        self.refused = true;
    }

    fn welcome(&mut self, version: u32, prefix: String, member: u64) {
        if version != VERSION {
            let why = format!(
                "the process that serves the bus speaks version {VERSION} of its protocol, and this one version {version}; run the same version of tidegate in all processes of the directory"
            );
            return self.refuse(why);
        }
        if !is_name(&prefix) {
            return self.refuse("the prefix of the names is not 1 to 64 ASCII letters, digits, - and _".to_owned());
        }
        let max_record_bytes = u32::try_from(self.served.settings.max_record_bytes).unwrap_or(u32::MAX);
        Tell::Welcome { max_record_bytes }.put(&mut self.output);
        self.hello = Some((prefix, member));
    }

    /// Sends the member the outcome of a request.
    fn done<T: 'static>(&self, id: u64, numbers: fn(T) -> (u64, u64)) -> Done<T> {
        let answers = self.answers.clone();
        Box::new(move |outcome| {
            let answer = match outcome.map(numbers) {
                Ok((first, second)) => Tell::Done { id, first, second },
                Err(error) => Tell::Failed { id, failure: AskFailure::of(error) },
            };
            let _ = answers.send(answer);
        })
    }

    fn completion<T>(&self, bytes: usize, done: Done<T>) -> Option<Completion<T>> {
        Completion::new(&self.budget, &self.limits, bytes, done).ok()
    }

    fn handle(&mut self, ask: Ask, prefix: &str, member: u64) {
        match ask {
            Ask::Hello { .. } => {}
            Ask::Ping => Tell::Pong.put(&mut self.output),
            Ask::Pull { id, records, bytes } => {
                if let Some(reading) = self.readings.get_mut(&id) {
                    reading.wanted = Some((records as usize, (bytes as usize).min(MAX_PULL)));
                    self.news.wake(true, id)();
                }
            }
            Ask::EndRead { id } => drop(self.readings.remove(&id)),
            Ask::EndSubscribe { id } => drop(self.subscriptions.remove(&id)),
            Ask::Publish { subject, payload } => {
                let subject = Subject::within(format!("{prefix}.{subject}"));
                let room = self.budget.take(payload.len());
                if let Ok(room) = room {
                    let _ = self.served.embedded.publish(LiveMessage { subject, payload }, room);
                }
            }
            Ask::Subscribe { id, filter } => {
                let filter = SubjectFilter::within(format!("{prefix}.{}", filter.as_str()));
                if let Ok(subscription) = self.served.embedded.subscribe(filter, self.news.wake(false, id)) {
                    self.subscriptions.insert(id, subscription);
                }
            }
            Ask::Create { id, spec } => {
                let name = LogName::within(format!("{prefix}.{}", spec.name));
                if let Some(completion) = self.completion(0, self.done(id, |()| (0, 0))) {
                    self.served.embedded.create(Arc::new(LogSpec { name, ..spec }), completion);
                }
            }
            Ask::Read { id, place, from } => self.read(id, within(prefix, &place), from),
            Ask::Own { id, place } => {
                let done = self.done(id, |epoch: Epoch| (epoch.0.0, 0));
                self.ask_of(id, within(prefix, &place), 0, done, Backend::own);
            }
            Ask::Bounds { id, place } => {
                let done = self.done(id, |bounds: Bounds| (bounds.first.0, bounds.next.0));
                self.ask_of(id, within(prefix, &place), 0, done, Backend::bounds);
            }
            Ask::Trim { id, place, below } => {
                let done = self.done(id, |()| (0, 0));
                let trim = |embedded: &Embedded, target, done| embedded.trim(target, below, done);
                self.ask_of(id, within(prefix, &place), 0, done, trim);
            }
            Ask::Append { id, place, append } => {
                let done = self.done(id, |position: Position| (position.0, 0));
                let (bytes, origin) = (append.size(), Origin { client: member, number: id });
                self.ask_of(id, within(prefix, &place), bytes, done, |embedded, target, done| {
                    embedded.append_from(&target, append, Some(origin), done);
                });
            }
        }
    }

    /// Asks something of a partition, or fails the request where the partition does not exist.
    fn ask_of<T>(
        &self,
        id: u64,
        place: LogPartition,
        bytes: usize,
        done: Done<T>,
        ask: impl FnOnce(&Embedded, Target, Completion<T>),
    ) {
        let embedded = &self.served.embedded;
        match embedded.target(place) {
            Ok(target) => {
                if let Some(completion) = self.completion(bytes, done) {
                    ask(embedded, target, completion);
                }
            }
            Err(error) => drop(self.answers.send(Tell::Failed { id, failure: AskFailure::of(error) })),
        }
    }

    fn read(&mut self, id: u64, place: LogPartition, from: Position) {
        let embedded = &self.served.embedded;
        let begun = embedded.target(place).and_then(|target| {
            let end = embedded.end(&target)?;
            if from > end {
                // The directory has lost records that the member has read.
                return Err(BusError::Trimmed { place: target.place, from, first: end });
            }
            embedded.read(target, from, self.news.wake(true, id))
        });
        match begun {
            Ok(reader) => drop(self.readings.insert(id, PeerReading { reader, next: from, wanted: None })),
            Err(error) => Tell::ReadFailed { id, failure: AskFailure::of(error) }.put(&mut self.output),
        }
    }

    /// Puts answers, records and messages for the member into the output, while that has room.
    fn collect(&mut self) {
        while let Ok(answer) = self.answered.try_recv() {
            answer.put(&mut self.output);
        }
        while self.has_room() {
            match self.news.take() {
                Some((true, id)) => self.take_records(id),
                Some((false, id)) => self.take_live(id),
                None => return,
            }
        }
    }

    fn take_records(&mut self, id: u64) {
        let Some(reading) = self.readings.get_mut(&id) else { return };
        let Some((records, bytes)) = reading.wanted else { return };
        match reading.reader.take_within(records, bytes) {
            Ok(taken) if taken.records.is_empty() && taken.next <= reading.next => {}
            Ok(taken) => {
                (reading.next, reading.wanted) = (taken.next, None);
                Tell::Records { id, next: taken.next, records: taken.records }.put(&mut self.output);
            }
            Err(error) => {
                self.readings.remove(&id);
                Tell::ReadFailed { id, failure: AskFailure::of(error) }.put(&mut self.output);
            }
        }
    }

    fn take_live(&mut self, id: u64) {
        let Some(subscription) = self.subscriptions.get(&id) else { return };
        let prefix = self.hello.as_ref().map_or(0, |(prefix, _)| prefix.len() + 1);
        let of = |message: LiveMessage| {
            let subject = message.subject.as_str().get(prefix..).unwrap_or_default().to_owned();
            (Subject::within(subject), message.payload)
        };
        let messages: Vec<_> = subscription.take(LIVE_AT_ONCE).into_iter().map(of).collect();
        if messages.len() == LIVE_AT_ONCE {
            self.news.wake(false, id)();
        }
        if !messages.is_empty() {
            Tell::Live { id, dropped: subscription.dropped(), messages }.put(&mut self.output);
        }
    }
}

fn within(prefix: &str, place: &LogPartition) -> LogPartition {
    LogPartition { log: LogName::within(format!("{prefix}.{}", place.log)), partition: place.partition }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_beyond_the_limit_hears_why() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (member, server) = UnixStream::pair().unwrap();
            let refused = tokio::spawn(refuse(server, "full".to_owned()));
            let mut hello = Vec::new();
            Ask::Hello { version: VERSION, prefix: "p".to_owned(), member: 1 }.put(&mut hello);
            member.writable().await.unwrap();
            member.try_write(&hello).unwrap();
            refused.await.unwrap();
            let mut input = BytesMut::new();
            member.readable().await.unwrap();
            member.try_read_buf(&mut input).unwrap();
            let body = next_frame(&mut input, MAX_HELLO).unwrap().unwrap();
            assert!(matches!(Tell::decode(body), Some(Tell::Refused { why }) if why == "full"));
        });
    }
}
