//! The session of a CoAP client at the broker.

use std::collections::HashMap;
use std::io;
use std::num::{NonZeroU16, NonZeroU32};
use std::sync::Arc;
use std::time::Instant;

use tidegate_client::{
    Delivery, DisconnectRequest, Event as ClientEvent, Message, Publish, PublishToken, QoS, ReasonCode, RequestToken,
    RetainHandling, SubscribeRequest, SubscriptionOptions, TopicFilterBuf, UnsubscribeRequest,
};
use tidegate_visitor::{Fetches, Line, new_client_id, options};
use tokio::sync::mpsc;

use crate::endpoint::{Event, JobId, SessionId};
use crate::fields::Shown;
use crate::{Caller, Credentials, Entry, Failure, Gateway, Outcome, Seat};

/// A task of a session.
pub(crate) enum Command {
    Publish { job: JobId, message: Box<Publish> },
    Subscribe { job: Option<JobId>, subscription: u32, filter: TopicFilterBuf, qos: QoS, retained: bool },
    Unsubscribe { filter: TopicFilterBuf },
    Acknowledge { delivery: u64 },
    Read { job: JobId, topic: String },
}

/// The parts that a session begins with.
pub(crate) struct Start {
    pub(crate) gateway: Arc<dyn Gateway>,
    pub(crate) caller: Caller,
    pub(crate) credentials: Credentials,
    pub(crate) session: SessionId,
    /// Longest packet that it takes from the broker, bytes.
    pub(crate) max_packet: u32,
    /// Messages that the broker sends to it without an acknowledgement.
    pub(crate) window: NonZeroU16,
    pub(crate) commands: mpsc::Receiver<Command>,
    pub(crate) events: mpsc::Sender<Event>,
    pub(crate) fetches: Fetches,
}

/// The client id of a client that the gateway knows; says that it has left when it is dropped.
struct Stay {
    gateway: Arc<dyn Gateway>,
    client_id: String,
    /// The connection in the quotas of its tenant.
    seat: Box<dyn Seat>,
}

impl Drop for Stay {
    fn drop(&mut self) {
        self.gateway.left(&self.client_id);
    }
}

/// A connected client.
struct Connected {
    /// Dropped before the socket, whose end frees the place of the connection.
    stay: Stay,
    line: Line,
    id: SessionId,
    caller: Caller,
    events: mpsc::Sender<Event>,
    fetches: Fetches,
    published: Vec<(PublishToken, JobId)>,
    requested: Vec<(RequestToken, JobId)>,
    /// Filters that observers have.
    observed: Vec<TopicFilterBuf>,
    deliveries: HashMap<u64, Delivery>,
    last_delivery: u64,
}

/// Connects a session and works for it until either side ends it.
pub(crate) async fn run(start: Start) {
    let (session, events) = (start.session, start.events.clone());
    if let Err(failure) = serve(start).await {
        // The endpoint has stopped if the channel is closed.
        let _ = events.send(Event::Ended { session, failure }).await;
    }
}

async fn serve(start: Start) -> Result<(), Failure> {
    let Start { gateway, caller, credentials, session, max_packet, window, mut commands, events, fetches } = start;
    let broken = |error: io::Error| Failure::Invalid(error.to_string());
    let asked = caller.clone();
    // Its result leaves the gateway also when nothing waits for it any more.
    let connecting = tokio::task::spawn_blocking(move || {
        let Entry { client_id, stream, seat } = gateway.connect(&asked, &|| new_client_id("coap"))?;
        let stay = Stay { gateway, client_id, seat };
        stream.set_nonblocking(true)?;
        Ok((stay, stream))
    });
    let (stay, stream) = connecting.await.map_err(|_| Failure::Closed)?.map_err(broken)?;
    let mut options = options(&stay.client_id, credentials, window);
    options.properties.maximum_packet_size = NonZeroU32::new(max_packet);
    let mut session = Connected {
        line: Line::open(stream, options)?,
        id: session,
        caller,
        stay,
        events,
        fetches,
        published: Vec::new(),
        requested: Vec::new(),
        observed: Vec::new(),
        deliveries: HashMap::new(),
        last_delivery: 0,
    };
    loop {
        tokio::select! {
            event = session.line.next() => session.handle(event).await?,
            command = commands.recv() => match command {
                Some(command) => session.obey(command).await,
                None => break,
            },
        }
        session.rest_if_idle(&commands);
    }
    session.leave().await;
    Ok(())
}

fn shown(message: Message) -> Shown {
    let Message { topic, payload, qos, retain, properties, .. } = message;
    Shown { topic: topic.as_str().to_owned(), qos: qos as u8, retain, payload, properties }
}

impl Connected {
    /// Hands an event of the broker to the endpoint.
    async fn handle(&mut self, event: ClientEvent) -> Result<(), Failure> {
        let session = self.id;
        let event = match event {
            ClientEvent::Connected(_) => {
                self.stay.seat.pass();
                Event::Opened { session }
            }
            ClientEvent::Disconnected(why) => return Err(why.into()),
            ClientEvent::Published(it) => {
                let Some(job) = take(&mut self.published, &it.token) else { return Ok(()) };
                Event::Done { job, outcome: Ok(Outcome { code: it.reason_code, why: it.reason_string }) }
            }
            ClientEvent::Undelivered(it) => {
                let Some(job) = take(&mut self.published, &it.token) else { return Ok(()) };
                Event::Done { job, outcome: Err(Failure::Invalid(it.cause.to_string())) }
            }
            ClientEvent::Subscribed(it) => {
                let Some(job) = take(&mut self.requested, &it.token) else { return Ok(()) };
                let code = it.reason_codes.first().copied();
                let code = code.unwrap_or(ReasonCode::UnspecifiedError);
                Event::Done { job, outcome: Ok(Outcome { code, why: it.reason_string }) }
            }
            ClientEvent::Message(message) => {
                let delivery = message.delivery.map(|delivery| {
                    self.last_delivery += 1;
                    self.deliveries.insert(self.last_delivery, delivery);
                    self.last_delivery
                });
                let subscriptions = message.subscription_identifiers.clone();
                Event::Message { session, delivery, subscriptions, message: Box::new(shown(*message)) }
            }
            _ => return Ok(()),
        };
        self.events.send(event).await.map_err(|_| Failure::Closed)
    }

    /// The connection does not count for the quota of its tenant while the client has no requests and observations.
    fn rest_if_idle(&mut self, commands: &mpsc::Receiver<Command>) {
        let waits = !self.published.is_empty() || !self.requested.is_empty() || !self.observed.is_empty();
        if self.line.client.is_connected() && !waits && commands.is_empty() {
            self.stay.seat.rest();
        }
    }

    /// Refuses a request that needs a counted connection, where the tenant has no place for it.
    async fn refuse_beyond_quota(&mut self, command: &Command) -> bool {
        let job = match command {
            Command::Publish { job, .. } => Some(*job),
            Command::Subscribe { job, .. } => *job,
            Command::Unsubscribe { .. } | Command::Acknowledge { .. } | Command::Read { .. } => return false,
        };
        if self.stay.seat.resume() {
            return false;
        }
        if let Some(job) = job {
            // The endpoint has stopped if the channel is closed.
            let _ = self.events.send(Event::Done { job, outcome: Ok(Outcome::of_quota()) }).await;
        }
        true
    }

    /// Carries out the endpoint's requests.
    async fn obey(&mut self, command: Command) {
        if self.refuse_beyond_quota(&command).await {
            return;
        }
        let now = Instant::now();
        let refused = match command {
            Command::Publish { job, message } => match self.line.client.publish(now, *message) {
                Ok(token) => {
                    self.published.push((token, job));
                    None
                }
                Err(error) => Some((job, error.to_string())),
            },
            Command::Subscribe { job, subscription, filter, qos, retained } => {
                let retain_handling =
                    if retained { RetainHandling::SendAtSubscribe } else { RetainHandling::DoNotSend };
                let options = SubscriptionOptions { qos, no_local: false, retain_as_published: true, retain_handling };
                if !self.observed.contains(&filter) {
                    self.observed.push(filter.clone());
                }
                let request = SubscribeRequest {
                    subscriptions: vec![(filter, options)],
                    subscription_identifier: NonZeroU32::new(subscription),
                    ..SubscribeRequest::default()
                };
                match (self.line.client.subscribe(now, &request), job) {
                    (Ok(token), Some(job)) => {
                        self.requested.push((token, job));
                        None
                    }
                    (Err(error), Some(job)) => Some((job, error.to_string())),
                    (_, None) => None,
                }
            }
            Command::Unsubscribe { filter } => {
                if let Some(at) = self.observed.iter().position(|other| *other == filter) {
                    self.observed.swap_remove(at);
                }
                let request = UnsubscribeRequest { filters: vec![filter], ..UnsubscribeRequest::default() };
                // A connection that is over has no subscription.
                let _ = self.line.client.unsubscribe(now, &request);
                None
            }
            Command::Acknowledge { delivery } => {
                if let Some(delivery) = self.deliveries.remove(&delivery) {
                    self.line.client.acknowledge(now, delivery);
                }
                None
            }
            Command::Read { job, topic } => {
                self.ask(job, topic);
                None
            }
        };
        if let Some((job, why)) = refused {
            // The endpoint has stopped if the channel is closed.
            let _ = self.events.send(Event::Done { job, outcome: Err(Failure::Invalid(why)) }).await;
        }
    }

    /// Asks for a retained message, beside the session.
    fn ask(&self, job: JobId, topic: String) {
        let (gateway, caller) = (Arc::clone(&self.stay.gateway), self.caller.clone());
        let (client_id, events) = (self.stay.client_id.clone(), self.events.clone());
        let fetches = self.fetches.clone();
        tokio::spawn(async move {
            let known = Arc::new((gateway, caller, client_id, topic));
            let again = Arc::clone(&known);
            let read = move || {
                let (gateway, caller, client_id, topic) = &*known;
                gateway.retained(caller, client_id, topic)
            };
            let fetch = move || {
                let (gateway, caller, client_id, topic) = &*again;
                gateway.fetch(caller, client_id, topic)
            };
            let outcome = fetches.read(read, fetch).await.map(|message| message.map(Box::new));
            // The endpoint has stopped if the channel is closed.
            let _ = events.send(Event::Read { job, outcome }).await;
        });
    }

    /// Says goodbye to the broker, as far as the socket takes it at once.
    async fn leave(mut self) {
        self.stay.seat.leave();
        // A connection that is over needs no goodbye.
        let _ = self.line.client.disconnect(Instant::now(), &DisconnectRequest::default());
        while self.line.write() {
            tokio::task::yield_now().await;
        }
    }
}

fn take<T: PartialEq>(waiting: &mut Vec<(T, JobId)>, token: &T) -> Option<JobId> {
    let at = waiting.iter().position(|(other, _)| other == token)?;
    Some(waiting.swap_remove(at).1)
}
