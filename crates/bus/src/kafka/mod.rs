//! The bus on Kafka: a topic for each log, a transactional producer for each partition that is owned.

mod admin;
mod client;
mod diagnosis;
mod live;
mod message;
mod owner;
mod producer;
mod reader;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::OwnedHeaders;

use crate::address::{Credentials, Server};
use crate::backend::{Backend, Target};
use crate::budget::Ticket;
use crate::complaints::Complaints;
use crate::completion::Completion;
use crate::connection::Link;
use crate::feed::Feed;
use crate::live::Mailbox;
use crate::{
    Append, Bounds, BusError, Connection, Epoch, LiveMessage, LogPartition, LogSpec, Observer, Position, Reader, Sasl,
    Settings, SubjectFilter, Subscription, Tally, Wake, Writers,
};
use admin::{Admin, Wanted};
use client::{Common, client_error};
use diagnosis::Heard;
use live::Listeners;
use owner::{Owner, Request};
use producer::{Outgoing, Producer, Report, producer, send};
use reader::ReaderThread;

/// Interval of checks whether the brokers answer.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The consumer that checks if the brokers answer, and gets their errors.
type Looker = BaseConsumer<Heard>;

/// Something for the thread that works on topics.
type Job = Box<dyn FnOnce(&Admin) + Send>;

struct Kafka {
    common: Arc<Common>,
    link: Arc<Link>,
    producer: Producer,
    owners: Mutex<HashMap<LogPartition, Sender<Request>>>,
    jobs: Sender<Job>,
    /// Logs whose topics are made by the next job.
    wanted: Arc<Mutex<Vec<Wanted>>>,
    listeners: Arc<Listeners>,
    /// Dropped with the bus, which ends the thread that looks whether the brokers answer.
    _stop: Sender<()>,
}

pub(crate) fn open(
    servers: &[Server],
    credentials: Option<&Credentials>,
    settings: &Settings,
    observer: Observer,
) -> Result<Arc<dyn Backend>, BusError> {
    if !cfg!(feature = "kafka-tls") && (settings.tls || (credentials.is_some() && settings.sasl != Sasl::Plain)) {
        return Err(BusError::NoKafkaTls);
    }
    let common = Arc::new(Common::new(servers, credentials, settings));
    let link = Link::new(common.servers().to_owned(), observer);
    let producer = producer(&common.producer()).map_err(|error| client_error(&error))?;
    let admin = Admin::new(Arc::clone(&common))?;
    let (jobs, work) = channel::<Job>();
    spawn("bus-topics", move || {
        for job in work {
            job(&admin);
        }
    })?;
    let (stop, stopped) = channel();
    let mut config = common.consumer();
    // Of connections that the other side ends it speaks only when asked to.
    config.set("log.connection.close", "true").set_log_level(RDKafkaLogLevel::Info);
    let looker: Looker = config.create_with_context(Heard::default()).map_err(|error| client_error(&error))?;
    let (seen, its_link) = (Arc::clone(&common), Arc::clone(&link));
    spawn("bus-kafka", move || look(&looker, &seen, &its_link, &stopped))?;
    let (owners, listeners, wanted) = (Mutex::default(), Arc::default(), Arc::default());
    Ok(Arc::new(Kafka { common, link, producer, owners, jobs, wanted, listeners, _stop: stop }))
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), BusError> {
    let start = thread::Builder::new().name(name.to_owned()).spawn(run);
    start.map(drop).map_err(|error| BusError::Client(error.to_string()))
}

/// Looks whether the brokers answer, until the bus has gone.
fn look(consumer: &Looker, common: &Common, link: &Link, stopped: &Receiver<()>) {
    let (topic, complaints) = (common.live_topic(), Complaints::default());
    loop {
        let answer = Admin::answers(consumer, &topic);
        common.up.set(answer.is_ok());
        match answer {
            Ok(()) => {
                link.connected();
                complaints.connected();
                consumer.context().forget();
            }
            Err(error) => {
                link.lost();
                // Polling delivers the client's errors; there is nothing to consume.
                while consumer.poll(Duration::ZERO).is_some() {}
                complaints
                    .tell(link, &diagnosis::complaint(consumer.context().last(), link.servers(), &error.to_string()));
            }
        }
        if stopped.recv_timeout(LOOK_EVERY) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

impl Kafka {
    fn job<T: Send + 'static>(
        &self,
        completion: Completion<T>,
        job: impl FnOnce(&Admin, Instant) -> Result<T, BusError> + Send + 'static,
    ) {
        // A thread that has gone drops the job, which tells that the bus has stopped.
        let _ = self.jobs.send(Box::new(move |admin| {
            let outcome = job(admin, completion.deadline());
            completion.finish(outcome);
        }));
    }

    /// Hands a request to the one thread that writes to the partition as its owner.
    fn ask_owner(&self, target: Target, request: Request) {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        let requests = match owners.entry(target.place.clone()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let (requests, inbox) = channel();
                let owner = Owner { common: Arc::clone(&self.common), target, owned: None, unsaid: None };
                if let Err(error) = spawn("bus-owner", move || owner.run(&inbox)) {
                    return fail(request, error);
                }
                entry.insert(requests)
            }
        };
        // A thread that has gone drops the request, which tells that the bus has stopped.
        let _ = requests.send(request);
    }

    fn send(&self, target: &Target, append: &Append, completion: Completion<Position>) {
        let (place, common, bytes) = (target.place.clone(), Arc::clone(&self.common), append.size());
        let report = Report::new(move |outcome| {
            completion.finish(outcome.map_err(|error| append_error(&error, place, &common.settings, bytes)));
        });
        let topic = self.common.topic(&target.place.log);
        let (key, payload) = (&append.key, &append.payload);
        let (partition, headers) = (message::index_of(&target.place), message::headers_of(append));
        send(&self.producer, Outgoing { topic: &topic, partition, key, payload, headers }, report);
    }
}

fn all(wanted: &Mutex<Vec<Wanted>>) -> MutexGuard<'_, Vec<Wanted>> {
    wanted.lock().unwrap_or_else(PoisonError::into_inner)
}

fn fail(request: Request, error: BusError) {
    match request {
        Request::Own(completion) => completion.finish(Err(error)),
        Request::Append(_, completion) => completion.finish(Err(error)),
    }
}

fn append_error(error: &KafkaError, place: LogPartition, settings: &Settings, bytes: usize) -> BusError {
    match error.rdkafka_error_code() {
        Some(RDKafkaErrorCode::MessageSizeTooLarge) => BusError::TooLarge { bytes, max: settings.max_record_bytes },
        Some(RDKafkaErrorCode::MessageTimedOut) => BusError::Unconfirmed { place, waited: settings.max_waiting_time },
        Some(RDKafkaErrorCode::PurgeQueue | RDKafkaErrorCode::PurgeInflight) => BusError::Stopped,
        _ => BusError::Refused { action: "append to a log", reason: error.to_string() },
    }
}

impl Backend for Kafka {
    fn connection(&self) -> Connection {
        self.link.state()
    }

    fn failure(&self) -> Option<String> {
        self.link.failure()
    }

    fn create(&self, spec: Arc<LogSpec>, completion: Completion<()>) {
        all(&self.wanted).push((spec, completion));
        let wanted = Arc::clone(&self.wanted);
        // The first of several that come together finds all that have come by then, and the others nothing.
        let job = move |admin: &Admin| {
            let together = std::mem::take(&mut *all(&wanted));
            admin.create(together);
        };
        if self.jobs.send(Box::new(job)).is_err() {
            // Waiting callers get the outcome that the bus has stopped.
            let untold = std::mem::take(&mut *all(&self.wanted));
            drop(untold);
        }
    }

    fn own(&self, target: Target, completion: Completion<Epoch>) {
        self.ask_owner(target, Request::Own(completion));
    }

    fn append(&self, target: Target, append: Append, completion: Completion<Position>) {
        match target.spec.writers {
            Writers::Owner => self.ask_owner(target, Request::Append(append, completion)),
            Writers::Many => self.send(&target, &append, completion),
        }
    }

    fn read(&self, target: Target, from: Position, wake: Wake) -> Result<Reader, BusError> {
        // The thread checks for room and for its end regularly.
        let feed = Feed::new(from, wake, &self.common.settings, Box::new(|| {}));
        let (common, headless) = (Arc::clone(&self.common), Tally::default());
        let reader = ReaderThread { common, target, feed: Arc::clone(&feed), headless };
        spawn("bus-reader", move || reader.run())?;
        Ok(Reader::new(feed))
    }

    fn bounds(&self, target: Target, completion: Completion<Bounds>) {
        self.job(completion, move |admin, deadline| admin.bounds(&target.place, deadline));
    }

    fn trim(&self, target: Target, below: Position, completion: Completion<()>) {
        self.job(completion, move |admin, deadline| admin.trim(&target.place, below, deadline));
    }

    fn publish(&self, message: LiveMessage, room: Ticket) -> Result<(), BusError> {
        if !self.link.state().is_connected() {
            let reason = "live messages do not wait".to_owned();
            return Err(BusError::Away { waited: Duration::ZERO, reason });
        }
        let topic = self.common.live_topic();
        let (key, payload) = (message.subject.as_str().as_bytes(), &message.payload[..]);
        let outgoing = Outgoing { topic: &topic, partition: 0, key, payload, headers: OwnedHeaders::new() };
        send(&self.producer, outgoing, Report::new(move |_| drop(room)));
        Ok(())
    }

    fn subscribe(&self, filter: SubjectFilter, wake: Wake) -> Result<Subscription, BusError> {
        let mailbox = Mailbox::new(filter, wake, &self.common.settings);
        if self.listeners.add(&mailbox) {
            let (common, listeners) = (Arc::clone(&self.common), Arc::downgrade(&self.listeners));
            let _ = self.jobs.send(Box::new(move |admin| {
                let made = admin.create_live(Instant::now() + common.settings.max_waiting_time);
                let started = made
                    .and_then(|()| live::consumer(&common))
                    .and_then(|consumer| spawn("bus-live", move || live::run(&consumer, &listeners)));
                if let Err(error) = started {
                    tracing::error!(%error, "cannot subscribe to live messages");
                }
            }));
        }
        Ok(Subscription::new(mailbox, Box::new(|| {})))
    }
}
