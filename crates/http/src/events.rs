//! Server-Sent Events: messages of a subscription as they come.

use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use serde_json::Value;
use tidegate_client::{Event, Message};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};

use crate::activity::{Activity, Busy};
use crate::counters::{Counters, Way};
use crate::message_json::object;
use crate::session::Session;
use tidegate_visitor::Failure;

/// Events that wait for the socket; further ones wait at the broker, in the client's queue.
const MAX_WAITING: usize = 16;
/// Bytes of the events that wait for the socket. A larger event waits alone.
const MAX_WAITING_BYTES: u32 = 1 << 20;
/// Silence after which a line is sent that says nothing, so that a lost client is noticed.
const BEAT: Duration = Duration::from_secs(15);
/// How long a client may not read before its stream ends.
const STALLED: Duration = Duration::from_secs(60);

/// The queue of a stream's events.
pub(crate) struct Events {
    queue: mpsc::Sender<(Bytes, OwnedSemaphorePermit)>,
    room: Arc<Semaphore>,
    /// The connection of the stream.
    activity: Arc<OnceLock<Arc<Activity>>>,
    counters: Arc<Counters>,
}

/// The events that wait for the socket of a stream.
pub(crate) struct Waiting {
    queue: mpsc::Receiver<(Bytes, OwnedSemaphorePermit)>,
    /// The room of the event that is being written.
    written: Option<OwnedSemaphorePermit>,
    /// Has the connection count the stream as under way.
    busy: Option<Busy>,
    activity: Arc<OnceLock<Arc<Activity>>>,
}

/// The two ends of a stream of events.
pub(crate) fn queue(counters: Arc<Counters>) -> (Events, Waiting) {
    let (sender, receiver) = mpsc::channel(MAX_WAITING);
    let room = Arc::new(Semaphore::new(MAX_WAITING_BYTES as usize));
    let activity = Arc::default();
    let waiting = Waiting { queue: receiver, written: None, busy: None, activity: Arc::clone(&activity) };
    (Events { queue: sender, room, activity, counters }, waiting)
}

impl Events {
    /// Puts an event in when there is room; false when the stream has ended, or does not move.
    async fn send(&self, bytes: Bytes) -> bool {
        let needed = u32::try_from(bytes.len()).unwrap_or(u32::MAX).min(MAX_WAITING_BYTES);
        let put = async {
            let room = Arc::clone(&self.room).acquire_many_owned(needed).await.ok()?;
            self.queue.send((bytes, room)).await.ok()
        };
        tokio::select! {
            put = tokio::time::timeout(STALLED, put) => {
                if put.is_err() && let Some(activity) = self.activity.get() {
                    // The end of the stream would not be read either.
                    activity.end();
                }
                matches!(put, Ok(Some(())))
            }
            () = self.queue.closed() => false,
        }
    }
}

impl Waiting {
    /// Has the connection count the stream as under way until it ends.
    pub(crate) fn accompany(&mut self, busy: Busy) {
        // A stream has one connection.
        let _ = self.activity.set(Arc::clone(busy.activity()));
        self.busy = Some(busy);
    }

    /// The next event. The connection asks for it when the one before has left.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.written = None;
        self.queue.poll_recv(context).map(|next| {
            let (bytes, room) = next?;
            self.written = Some(room);
            Some(bytes)
        })
    }
}

/// Hands the messages of a session on until either side ends. A message is acknowledged to the broker when it is handed
/// on. `ended` is the answer for the end of a session.
pub(crate) async fn pump(
    mut session: Session,
    early: Vec<Message>,
    events: Events,
    ended: fn(Failure) -> (StatusCode, Value),
    mut stop: watch::Receiver<bool>,
) {
    let mut number = 0;
    for message in early {
        number += 1;
        if !hand_on(&mut session, &message, number, &events).await {
            return;
        }
    }
    loop {
        tokio::select! {
            event = session.next() => match event {
                Event::Message(message) => {
                    number += 1;
                    if !hand_on(&mut session, &message, number, &events).await {
                        return;
                    }
                }
                Event::Disconnected(why) => {
                    // A client that has gone needs no reason.
                    events.send(encode_end(ended(why.into())).into()).await;
                    return;
                }
                _ => {}
            },
            () = events.queue.closed() => return,
            _ = stop.changed() => return,
            () = tokio::time::sleep(BEAT) => {
                if !events.send(Bytes::from_static(b":\n\n")).await {
                    return;
                }
            }
        }
    }
}

async fn hand_on(session: &mut Session, message: &Message, number: u64, events: &Events) -> bool {
    let event = encode(message, number);
    let bytes = event.len() as u64;
    if !events.send(event.into()).await {
        return false;
    }
    events.counters.count_sent(Way::Events, 1, bytes);
    if let Some(delivery) = message.delivery {
        session.acknowledge(delivery);
    }
    true
}

/// The end of a session as the last event: the status and the body of an answer.
fn encode_end((status, mut value): (StatusCode, Value)) -> String {
    value["status"] = status.as_u16().into();
    format!("event: error\ndata: {value}\n\n")
}

/// A message as an event.
fn encode(message: &Message, number: u64) -> String {
    format!("event: message\nid: {number}\ndata: {}\n\n", Value::Object(object(message)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_client::{MessageProperties, QoS, TopicNameBuf};

    fn once<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(std::task::Waker::noop()))
    }

    #[tokio::test]
    async fn events_that_wait_are_bounded_by_their_bytes() {
        let (events, mut waiting) = queue(Arc::default());
        let large = Bytes::from(vec![0; 3 * MAX_WAITING_BYTES as usize]);
        assert!(events.send(large.clone()).await, "an event beyond the bound waits alone");
        let mut next = std::pin::pin!(events.send(Bytes::from_static(b"x")));
        assert!(once(next.as_mut()).is_pending(), "there is no room");
        let mut context = Context::from_waker(std::task::Waker::noop());
        assert_eq!(waiting.poll_next(&mut context), Poll::Ready(Some(large)));
        assert!(once(next.as_mut()).is_pending(), "the event is being written");
        assert!(waiting.poll_next(&mut context).is_pending());
        assert_eq!(once(next.as_mut()), Poll::Ready(true));
        drop(waiting);
        assert!(!events.send(Bytes::from_static(b"x")).await);
    }

    #[test]
    fn the_last_event_says_why_the_session_has_ended() {
        let ended = (StatusCode::UNAUTHORIZED, serde_json::json!({ "reason": "refused", "reason_code": 135 }));
        assert_eq!(
            encode_end(ended),
            "event: error\ndata: {\"reason\":\"refused\",\"reason_code\":135,\"status\":401}\n\n"
        );
    }

    #[test]
    fn an_event_is_one_line_of_data_whatever_the_payload() {
        let message = |payload: &[u8]| Message {
            qos: QoS::AtLeastOnce,
            properties: MessageProperties {
                user_properties: vec![("k".to_owned(), "v".to_owned())],
                ..MessageProperties::default()
            },
            ..Message::new(TopicNameBuf::new("a/b").unwrap(), payload)
        };
        let text = encode(&message(b"one\n\ntwo"), 7);
        assert_eq!(
            text,
            "event: message\nid: 7\ndata: {\"payload\":\"one\\n\\ntwo\",\"qos\":1,\"retain\":false,\"topic\":\"a/b\",\"user_properties\":[[\"k\",\"v\"]]}\n\n"
        );
        assert!(encode(&message(&[0xff]), 1).contains("\"payload_base64\":\"/w==\""));
    }
}
