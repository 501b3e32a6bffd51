//! Queues: durable sessions whose messages HTTP clients take by long poll and acknowledge by a cursor.
//!
//! The messages are the broker's: each is in the session's queue until it is acknowledged here, so a process that ends
//! loses none. A task holds the session of a queue while requests come for it.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_client::{Delivery, Event, Message, QoS, TopicFilterBuf};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::counters::Held as HeldQueue;
use crate::message_json::object;
use crate::session::{Failure, Outcome, Session};

/// Messages of an answer at most, and messages that the broker sends before the first is acknowledged.
pub(crate) const MAX_PAGE: usize = 100;
/// Bytes of messages that are held for a queue. While they are held, no more are read from the broker.
const MAX_HELD_BYTES: usize = 4 << 20;
/// Queues that are held at once.
const MAX_QUEUES: usize = 256;
/// Queues of one user that are held at once.
const MAX_QUEUES_OF_USER: usize = 32;
/// How long a queue is held without a request. Then its messages wait at the broker.
const IDLE: Duration = Duration::from_secs(300);
/// Requests for a queue that wait for its task.
const MAX_ORDERS: usize = 16;

/// Which queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct QueueId {
    /// The number of the tenant.
    pub(crate) tenant: u16,
    /// The user whose queue it is; empty for clients without a user.
    pub(crate) user: String,
    /// Its name.
    pub(crate) name: String,
}

impl QueueId {
    /// The client id of its session. A name has no `/`, so no two queues have the same one.
    pub(crate) fn client_id(&self) -> String {
        format!("{}{}/{}", crate::QUEUE_CLIENT_PREFIX, self.user, self.name)
    }
}

/// A place behind a message: the messages up to there are acknowledged together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// The run of the task that gave it.
    run: u64,
    /// The number of the message in this run.
    number: u64,
}

impl Cursor {
    /// Reads the text of [`Cursor::text`].
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (run, number) = text.split_once('-')?;
        Some(Self { run: u64::from_str_radix(run, 16).ok()?, number: number.parse().ok()? })
    }

    fn text(self) -> String {
        format!("{:x}-{}", self.run, self.number)
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
    /// The cursor is of an earlier run.
    Stale,
    /// No message has this cursor yet.
    Unknown,
    /// Too many queues are held.
    Full,
    /// Another client has taken the session, or the listener stops.
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
}

/// A request for messages.
pub(crate) struct Poll {
    /// Messages up to here are acknowledged.
    pub(crate) acknowledged: Option<Cursor>,
    /// Messages at most, 1 to [`MAX_PAGE`].
    pub(crate) max: usize,
    /// When it is answered without a message.
    pub(crate) until: Instant,
    /// Where the answer goes.
    pub(crate) answer: Answer<Value>,
}

/// Where the answer to an order goes.
pub(crate) type Answer<T> = oneshot::Sender<Result<T, QueueError>>;

/// The queues that are held.
#[derive(Default)]
pub(crate) struct Queues {
    held: Arc<Mutex<HashMap<QueueId, Entry>>>,
}

struct Entry {
    run: u64,
    orders: mpsc::Sender<Order>,
}

impl Queues {
    /// The task of a queue, while it is held.
    pub(crate) fn find(&self, id: &QueueId) -> Option<mpsc::Sender<Order>> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.get(id).map(|entry| entry.orders.clone()).filter(|orders| !orders.is_closed())
    }

    /// Whether another queue of a user can be held.
    ///
    /// # Errors
    /// When too many are held.
    pub(crate) fn check_room(&self, id: &QueueId) -> Result<(), QueueError> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let own = held.keys().filter(|other| (other.tenant, &other.user) == (id.tenant, &id.user)).count();
        if held.len() >= MAX_QUEUES || own >= MAX_QUEUES_OF_USER { Err(QueueError::Full) } else { Ok(()) }
    }

    /// Holds a queue by its session.
    pub(crate) fn hold(
        &self,
        id: QueueId,
        session: Session,
        (counted, stop): (HeldQueue, watch::Receiver<bool>),
    ) -> mpsc::Sender<Order> {
        let (orders, waiting) = mpsc::channel(MAX_ORDERS);
        let run = RandomState::new().hash_one(&id.name);
        let entry = Entry { run, orders: orders.clone() };
        self.held.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), entry);
        let held = Arc::clone(&self.held);
        tokio::spawn(async move {
            Keeper { session, shelf: Shelf::new(run), poll: None }.work(waiting, stop).await;
            drop(counted);
            let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
            if held.get(&id).is_some_and(|entry| entry.run == run) {
                held.remove(&id);
            }
        });
        orders
    }
}

/// Messages that the broker has sent and that are not acknowledged, in their order.
struct Shelf<D> {
    run: u64,
    /// The number of the last message that was acknowledged.
    acknowledged: u64,
    messages: VecDeque<Held<D>>,
    bytes: usize,
}

struct Held<D> {
    json: Value,
    bytes: usize,
    delivery: Option<D>,
}

impl<D> Shelf<D> {
    fn new(run: u64) -> Self {
        Self { run, acknowledged: 0, messages: VecDeque::new(), bytes: 0 }
    }

    fn put(&mut self, json: Value, bytes: usize, delivery: Option<D>) {
        self.bytes += bytes;
        self.messages.push_back(Held { json, bytes, delivery });
    }

    /// The first messages, and the cursor behind them.
    fn page(&self, max: usize) -> Value {
        let messages: Vec<&Value> = self.messages.iter().take(max).map(|held| &held.json).collect();
        let number = self.acknowledged + messages.len() as u64;
        json!({ "cursor": Cursor { run: self.run, number }.text(), "messages": messages })
    }

    /// Takes the messages up to a cursor off the shelf. One that is acknowledged again changes nothing.
    fn acknowledge(&mut self, cursor: Cursor) -> Result<Vec<D>, QueueError> {
        if cursor.run != self.run {
            return Err(QueueError::Stale);
        }
        if cursor.number > self.acknowledged + self.messages.len() as u64 {
            return Err(QueueError::Unknown);
        }
        let count = usize::try_from(cursor.number.saturating_sub(self.acknowledged)).unwrap_or(usize::MAX);
        let taken: Vec<Held<D>> = self.messages.drain(..count).collect();
        self.acknowledged += taken.len() as u64;
        self.bytes -= taken.iter().map(|held| held.bytes).sum::<usize>();
        Ok(taken.into_iter().filter_map(|held| held.delivery).collect())
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
            let wake_at = self.poll.as_ref().map_or(idle_at, |poll| poll.until);
            tokio::select! {
                event = self.session.next(), if self.shelf.bytes < MAX_HELD_BYTES => if self.take(event) {
                    return;
                },
                order = orders.recv() => {
                    idle_at = Instant::now() + IDLE;
                    match order {
                        Some(Order::Delete(answer)) => {
                            self.session.leave(true).await;
                            // A client that has gone needs no answer.
                            let _ = answer.send(Ok(()));
                            return;
                        }
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

    /// Takes an event, and what else has come with it; true when the session has ended.
    fn take(&mut self, event: Event) -> bool {
        let mut next = Some(event);
        while let Some(event) = next {
            match event {
                Event::Message(message) => self.put(&message),
                Event::Disconnected(_) => return true,
                _ => {}
            }
            next = self.session.try_next();
        }
        false
    }

    fn put(&mut self, message: &Message) {
        let bytes = message.payload.len() + message.topic.as_str().len();
        self.shelf.put(Value::Object(object(message)), bytes, message.delivery);
    }

    async fn carry_out(&mut self, order: Order) {
        match order {
            Order::Poll(poll) => {
                let acknowledged = poll.acknowledged.map_or(Ok(()), |cursor| self.acknowledge(cursor));
                if let Err(error) = acknowledged {
                    let _ = poll.answer.send(Err(error));
                    return;
                }
                // A later request ends the wait of an earlier one: the client may have lost that one.
                if let Some(earlier) = self.poll.replace(poll) {
                    let _ = earlier.answer.send(Ok(self.shelf.page(0)));
                }
            }
            Order::Acknowledge(cursor, answer) => drop(answer.send(self.acknowledge(cursor))),
            Order::Subscribe(filters, answer) => drop(answer.send(self.subscribe(filters).await)),
            Order::Delete(_) => {}
        }
    }

    fn acknowledge(&mut self, cursor: Cursor) -> Result<(), QueueError> {
        for delivery in self.shelf.acknowledge(cursor)? {
            self.session.acknowledge(delivery);
        }
        self.session.flush();
        Ok(())
    }

    async fn subscribe(&mut self, filters: Vec<TopicFilterBuf>) -> Result<(), QueueError> {
        for filter in filters {
            let name = filter.as_str().to_owned();
            let (outcome, early) =
                self.session.subscribe(filter, QoS::AtLeastOnce, true).await.map_err(QueueError::Broker)?;
            for message in &early {
                self.put(message);
            }
            if outcome.code.is_error() {
                return Err(QueueError::Filter(name, outcome));
            }
        }
        Ok(())
    }

    /// Answers the request that waits, when there is a message or its time is over.
    fn answer_poll(&mut self) {
        let is_due = |poll: &mut Poll| {
            !self.shelf.messages.is_empty() || Instant::now() >= poll.until || poll.answer.is_closed()
        };
        if let Some(poll) = self.poll.take_if(is_due) {
            let _ = poll.answer.send(Ok(self.shelf.page(poll.max)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shelf() -> Shelf<u8> {
        let mut shelf = Shelf::new(0xab);
        for number in 1..=3 {
            shelf.put(number.into(), 10, Some(number));
        }
        shelf
    }

    #[test]
    fn messages_stay_until_their_cursor_is_acknowledged() {
        let mut shelf = shelf();
        assert_eq!(shelf.page(2), json!({ "cursor": "ab-2", "messages": [1, 2] }));
        assert_eq!(shelf.page(2), json!({ "cursor": "ab-2", "messages": [1, 2] }));
        let cursor = Cursor::read("ab-2").unwrap();
        assert_eq!(shelf.acknowledge(cursor), Ok(vec![1, 2]));
        assert_eq!((shelf.acknowledge(cursor), shelf.bytes), (Ok(vec![]), 10));
        assert_eq!(shelf.page(9), json!({ "cursor": "ab-3", "messages": [3] }));
        assert_eq!(shelf.acknowledge(Cursor::read("ab-3").unwrap()), Ok(vec![3]));
        assert_eq!(shelf.page(9), json!({ "cursor": "ab-3", "messages": [] }));
    }

    #[test]
    fn a_cursor_of_another_run_acknowledges_nothing() {
        let mut shelf = shelf();
        assert_eq!(shelf.acknowledge(Cursor::read("ac-1").unwrap()), Err(QueueError::Stale));
        assert_eq!(shelf.acknowledge(Cursor::read("ab-4").unwrap()), Err(QueueError::Unknown));
        assert_eq!(shelf.page(9)["messages"], json!([1, 2, 3]));
        for text in ["", "ab", "ab-", "-1", "xy-1", "ab--1"] {
            assert_eq!(Cursor::read(text), None, "{text}");
        }
    }

    #[test]
    fn two_queues_never_have_one_session() {
        let id =
            |user: &str, name: &str| QueueId { tenant: 0, user: user.to_owned(), name: name.to_owned() }.client_id();
        assert_ne!(id("a/b", "c"), id("a", "b-c"));
        assert_eq!(id("ann", "in"), "http-queue/ann/in");
    }
}
