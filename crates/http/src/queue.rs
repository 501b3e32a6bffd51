//! Queues: durable sessions whose messages HTTP clients take by long poll and acknowledge by a cursor.
//!
//! The messages are the broker's: each is in the session's queue until it is acknowledged here, so a process that ends
//! loses none. A task holds the session of a queue while requests come for it.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use serde_json::Value;
use tidegate_client::{Delivery, Event, Message, QoS, RetainHandling, TopicFilterBuf};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::counters::OpenCount;
use crate::message_json::object;
use crate::session::{Opening, Session};
use crate::shelf::{Cursor, CursorError, Page, Shelf};
use tidegate_visitor::{Credentials, Failure, Outcome};

/// Messages of an answer at most.
pub(crate) const MAX_PAGE: usize = 100;
/// Queues that are held at once.
const MAX_QUEUES: usize = 256;
/// Queues of one tenant that are held at once.
const MAX_QUEUES_OF_TENANT: usize = 128;
/// Queues of one user that are held at once.
const MAX_QUEUES_OF_USER: usize = 32;
/// How long a queue is held without a request. Then its messages wait at the broker.
const IDLE: Duration = Duration::from_secs(300);
/// How long the broker may take to answer SUBSCRIBE.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(60);
/// Requests for a queue that wait for its task.
const MAX_ORDERS: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct QueueId {
    /// The number of the tenant.
    pub(crate) tenant: u16,
    /// The user whose queue it is; empty for clients without a user.
    pub(crate) user: String,
    pub(crate) name: String,
}

impl QueueId {
    /// The client id of its session. A name has no `/`, so no two queues have the same one.
    pub(crate) fn client_id(&self) -> String {
        format!("{}{}/{}", crate::QUEUE_CLIENT_PREFIX, self.user, self.name)
    }
}

/// Why a request for a queue fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum QueueError {
    /// The broker refuses.
    Broker(Failure),
    /// The broker refuses a filter.
    Filter(String, Outcome),
    /// There is no such queue.
    Missing,
    /// The cursor acknowledges no message.
    Cursor(CursorError),
    /// Too many queues are held.
    Full,
    /// The session has ended: another client has taken it, the broker has gone, or the listener stops.
    Gone,
}

/// A request to the task of a queue.
pub(crate) enum Order {
    /// Acknowledge up to a cursor, then answer with messages.
    Poll(Poll),
    /// Acknowledge up to a cursor.
    Acknowledge(Cursor, Answer<()>),
    /// Subscribe to more filters.
    Subscribe(Vec<TopicFilterBuf>, Answer<()>),
    /// Forget the queue.
    Delete(Answer<()>),
    /// End the connection; the broker keeps the session.
    Leave(Answer<()>),
}

/// A request for messages.
pub(crate) struct Poll {
    /// Messages up to here are acknowledged.
    pub(crate) acknowledged: Option<Cursor>,
    /// Messages at most, 1 to [`MAX_PAGE`].
    pub(crate) max: usize,
    /// When it is answered without a message.
    pub(crate) until: Instant,
    /// The receiver of the answer.
    pub(crate) answer: Answer<Page>,
}

/// The receiver of the answer to an order.
pub(crate) type Answer<T> = oneshot::Sender<Result<T, QueueError>>;

/// Sends an order to the task of a queue, and waits for the answer.
pub(crate) async fn ask<T>(
    orders: &mpsc::Sender<Order>,
    order: impl FnOnce(Answer<T>) -> Order,
) -> Result<T, QueueError> {
    let (answer, answered) = oneshot::channel();
    // An order that is not taken is answered by the end of its channel.
    let _ = orders.send(order(answer)).await;
    answered.await.unwrap_or(Err(QueueError::Gone))
}

/// The proof and the listener of a client. The session of a queue has the rights of the access that it was opened with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    /// The number of the listener.
    pub(crate) listener: u16,
    pub(crate) credentials: Credentials,
}

/// The places of queues. A place that nothing holds is free.
type Places = Arc<Mutex<HashMap<QueueId, Weak<QueueEntry>>>>;

/// The queues that are held.
#[derive(Default)]
pub(crate) struct Queues {
    places: Places,
}

impl Queues {
    /// The place of a queue. It is taken until the last result is dropped, so no request can take more than there are.
    ///
    /// # Errors
    /// When too many are taken.
    pub(crate) fn place(&self, id: &QueueId) -> Result<Arc<QueueEntry>, QueueError> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = places.get(id).and_then(Weak::upgrade) {
            return Ok(place);
        }
        let (mut all, mut of_tenant, mut of_user) = (0, 0, 0);
        for (other, _) in places.iter().filter(|(_, place)| place.strong_count() > 0) {
            all += 1;
            of_tenant += usize::from(other.tenant == id.tenant);
            of_user += usize::from((other.tenant, &other.user) == (id.tenant, &id.user));
        }
        if all >= MAX_QUEUES || of_tenant >= MAX_QUEUES_OF_TENANT || of_user >= MAX_QUEUES_OF_USER {
            return Err(QueueError::Full);
        }
        let place = Arc::new(QueueEntry {
            id: id.clone(),
            places: Arc::clone(&self.places),
            keeper: tokio::sync::Mutex::new(None),
        });
        places.insert(id.clone(), Arc::downgrade(&place));
        Ok(place)
    }
}

/// The place of a queue. One request at a time opens its session.
pub(crate) struct QueueEntry {
    id: QueueId,
    places: Places,
    keeper: tokio::sync::Mutex<Option<Known>>,
}

/// The task of a queue, as requests know it.
struct Known {
    access: Access,
    orders: mpsc::Sender<Order>,
}

impl Drop for QueueEntry {
    fn drop(&mut self) {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        // A later request may have taken the place already.
        if places.get(&self.id).is_some_and(|place| place.strong_count() == 0) {
            places.remove(&self.id);
        }
    }
}

impl QueueEntry {
    /// The task of the queue, subscribed to the filters. A queue that is not there is made, where there are filters.
    /// Another access has the session opened again, so that the broker judges it by the rights of this access.
    pub(crate) async fn attend(
        self: Arc<Self>,
        (access, opening): (Access, Opening),
        filters: Vec<TopicFilterBuf>,
        (counted, stop): (OpenCount, watch::Receiver<bool>),
    ) -> Result<mpsc::Sender<Order>, QueueError> {
        let mut keeper = self.keeper.lock().await;
        if let Some(known) = keeper.as_ref().filter(|known| known.access == access && !known.orders.is_closed()) {
            let orders = known.orders.clone();
            if !filters.is_empty() {
                ask(&orders, |answer| Order::Subscribe(filters, answer)).await?;
            }
            return Ok(orders);
        }
        end(&mut keeper).await;
        let (session, early) = open(opening, filters, QoS::AtLeastOnce).await?;
        let (orders, waiting) = mpsc::channel(MAX_ORDERS);
        let run = RandomState::new().hash_one(&self.id.name);
        let mut task = Keeper { session, shelf: Shelf::new(run), poll: None };
        for message in &early {
            task.put(message);
        }
        *keeper = Some(Known { access, orders: orders.clone() });
        let place = Arc::clone(&self);
        tokio::spawn(async move {
            task.work(waiting, stop).await;
            drop((counted, place));
        });
        Ok(orders)
    }

    /// The session of the queue for a WebSocket, subscribed to the filters, with the messages that have come already.
    pub(crate) async fn take(
        self: Arc<Self>,
        opening: Opening,
        filters: Vec<TopicFilterBuf>,
        qos: QoS,
    ) -> Result<(Session, Vec<Message>), QueueError> {
        let mut keeper = self.keeper.lock().await;
        end(&mut keeper).await;
        open(opening, filters, qos).await
    }
}

/// Ends the task of a queue. Its session stays at the broker.
async fn end(keeper: &mut Option<Known>) {
    if let Some(known) = keeper.take() {
        // A task that has ended already has left its session, too.
        let _ = ask(&known.orders, Order::Leave).await;
    }
}

/// Ends a session, and says whether the broker has taken that.
async fn leave(session: Session, forget: bool, answer: Answer<()>) {
    let left = session.leave(forget).await;
    // A client that has gone needs no answer.
    let _ = answer.send(if left { Ok(()) } else { Err(QueueError::Gone) });
}

/// Opens the session of a queue with the filters of a request. A queue that is not there is made where there are
/// filters, and is forgotten again unless the broker grants all of them.
async fn open(opening: Opening, filters: Vec<TopicFilterBuf>, qos: QoS) -> Result<(Session, Vec<Message>), QueueError> {
    let mut session = Session::open(opening).await.map_err(QueueError::Broker)?;
    let is_new = !session.is_resumed();
    if is_new && filters.is_empty() {
        session.leave(true).await;
        return Err(QueueError::Missing);
    }
    let (early, granted) = subscribe(&mut session, filters, qos).await;
    match granted {
        Ok(()) => Ok((session, early)),
        Err(error) => {
            session.leave(is_new).await;
            Err(error)
        }
    }
}

/// Subscribes to filters; the messages that have come before the broker's answer, and whether it grants all filters.
/// Retained messages come with filters that are new.
pub(crate) async fn subscribe(
    session: &mut Session,
    filters: Vec<TopicFilterBuf>,
    qos: QoS,
) -> (Vec<Message>, Result<(), QueueError>) {
    if filters.is_empty() {
        return (Vec::new(), Ok(()));
    }
    let names: Vec<String> = filters.iter().map(|filter| filter.as_str().to_owned()).collect();
    let asked = session.subscribe_all(filters, qos, RetainHandling::SendIfNew);
    match tokio::time::timeout(SUBSCRIBE_TIMEOUT, asked).await {
        Ok(Ok((outcomes, early))) => {
            let refused = names.into_iter().zip(outcomes).find(|(_, outcome)| outcome.code.is_error());
            (early, refused.map_or(Ok(()), |(name, outcome)| Err(QueueError::Filter(name, outcome))))
        }
        Ok(Err(failure)) => (Vec::new(), Err(QueueError::Broker(failure))),
        Err(_) => (Vec::new(), Err(QueueError::Gone)),
    }
}

/// The task of a queue.
struct Keeper {
    session: Session,
    shelf: Shelf<Delivery>,
    /// The request that waits for messages.
    poll: Option<Poll>,
}

impl Keeper {
    /// Works until the session ends, or no request has come for [`IDLE`].
    async fn work(mut self, mut orders: mpsc::Receiver<Order>, mut stop: watch::Receiver<bool>) {
        let mut idle_at = Instant::now() + IDLE;
        while !self.session.is_over() {
            self.answer_poll();
            if self.poll.is_none() {
                self.session.rest();
            }
            let wake_at = self.poll.as_ref().map_or(idle_at, |poll| poll.until);
            tokio::select! {
                event = self.session.next_if(!self.shelf.is_full()) => if self.take(event) {
                    return;
                },
                order = orders.recv() => {
                    idle_at = Instant::now() + IDLE;
                    match order {
                        Some(Order::Delete(answer)) => return leave(self.session, true, answer).await,
                        Some(Order::Leave(answer)) => return leave(self.session, false, answer).await,
                        Some(order) => self.carry_out(order).await,
                        None => break,
                    }
                }
                () = tokio::time::sleep_until(wake_at) => if self.poll.is_none() {
                    break;
                },
                _ = stop.changed() => break,
            }
        }
        self.session.leave(false).await;
    }

    /// Takes an event, and others that have come with it; true when the session has ended.
    fn take(&mut self, event: Option<Event>) -> bool {
        let Some(event) = event else { return true };
        let mut next = Some(event);
        while let Some(event) = next {
            match event {
                Event::Message(message) => self.put(&message),
                Event::Disconnected(why) => {
                    if let Some(poll) = self.poll.take() {
                        let _ = poll.answer.send(Err(QueueError::Broker(why.into())));
                    }
                    return true;
                }
                _ => {}
            }
            next = self.session.try_next();
        }
        false
    }

    fn put(&mut self, message: &Message) {
        self.shelf.put(Value::Object(object(message)).to_string(), message.delivery);
    }

    async fn carry_out(&mut self, order: Order) {
        match order {
            Order::Poll(poll) => {
                if let Err(failure) = self.session.resume() {
                    let _ = poll.answer.send(Err(QueueError::Broker(failure)));
                    return;
                }
                if let Some(cursor) = poll.acknowledged
                    && let Err(error) = self.acknowledge(cursor).await
                {
                    let _ = poll.answer.send(Err(error));
                    return;
                }
                // A later request ends the wait of an earlier one: the client may have lost that one.
                if let Some(earlier) = self.poll.replace(poll) {
                    let _ = earlier.answer.send(Ok(self.shelf.page(0)));
                }
            }
            Order::Acknowledge(cursor, answer) => {
                let acknowledged = self.acknowledge(cursor).await;
                let _ = answer.send(acknowledged);
            }
            Order::Subscribe(filters, answer) => {
                if let Err(failure) = self.session.resume() {
                    let _ = answer.send(Err(QueueError::Broker(failure)));
                    return;
                }
                let (early, granted) = subscribe(&mut self.session, filters, QoS::AtLeastOnce).await;
                for message in &early {
                    self.put(message);
                }
                let _ = answer.send(granted);
            }
            Order::Delete(_) | Order::Leave(_) => {}
        }
    }

    /// Acknowledges up to a cursor. It succeeds when the broker can read the acknowledgements.
    async fn acknowledge(&mut self, cursor: Cursor) -> Result<(), QueueError> {
        for delivery in self.shelf.acknowledge(cursor).map_err(QueueError::Cursor)? {
            self.session.acknowledge(delivery);
        }
        if self.session.hand_over().await { Ok(()) } else { Err(QueueError::Gone) }
    }

    /// Answers the request that waits, when there is a message or its time is over.
    fn answer_poll(&mut self) {
        let is_due =
            |poll: &mut Poll| !self.shelf.is_empty() || Instant::now() >= poll.until || poll.answer.is_closed();
        if let Some(poll) = self.poll.take_if(is_due) {
            let _ = poll.answer.send(Ok(self.shelf.page(poll.max)));
        }
    }
}

#[cfg(test)]
mod tests;
