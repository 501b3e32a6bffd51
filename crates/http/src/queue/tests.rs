use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use tidegate_connections::ConnectionLimit;
use tokio::sync::Semaphore;

use super::*;
use crate::counters::Counters;
use crate::session::Term;

fn id(tenant: u16, user: &str, name: &str) -> QueueId {
    QueueId { tenant, user: user.to_owned(), name: name.to_owned() }
}

#[test]
fn two_queues_never_have_one_session() {
    assert_ne!(id(0, "a/b", "c").client_id(), id(0, "a", "b-c").client_id());
    assert_eq!(id(0, "ann", "in").client_id(), "http-queue/ann/in");
}

#[test]
fn places_are_bounded_for_a_user_and_for_a_tenant() {
    let queues = Queues::default();
    let places = |user: &str, count: usize| -> Vec<_> {
        (0..count).map(|name| queues.place(&id(1, user, &name.to_string())).unwrap()).collect()
    };
    let users = MAX_QUEUES_OF_TENANT / MAX_QUEUES_OF_USER;
    let mut taken: Vec<_> = (0..users - 1).map(|user| places(&user.to_string(), MAX_QUEUES_OF_USER)).collect();
    assert_eq!(queues.place(&id(1, "0", "more")).err(), Some(QueueError::Full));
    assert!(queues.place(&id(1, "0", "0")).is_ok(), "its place is taken already");
    taken.push(places("last", MAX_QUEUES_OF_USER));
    assert_eq!(queues.place(&id(1, "other", "a")).err(), Some(QueueError::Full));
    assert!(queues.place(&id(2, "other", "a")).is_ok(), "another tenant has room");
    taken.pop();
    assert!(queues.place(&id(1, "other", "a")).is_ok(), "a place that is dropped is free");
    drop(taken);
    assert!(queues.places.lock().unwrap().is_empty());
}

/// A packet of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packet {
    Connect,
    Subscribe,
    Disconnect,
    Other,
}

/// A broker that grants all filters. It has the session of the queue if `is_resumed`, and drops a connection at
/// SUBSCRIBE if `is_lost`.
struct Broker {
    is_resumed: bool,
    is_lost: bool,
    /// Whether the tenant has room for connections that go on.
    has_room: bool,
    packets: std::sync::mpsc::Sender<Packet>,
    /// The next connection, if a test is the broker.
    ready: Mutex<Option<UnixStream>>,
}

/// A connection whose tenant has places left, or none.
struct Counted {
    has_room: bool,
}

impl crate::Seat for Counted {
    fn rest(&mut self) {}

    fn resume(&mut self) -> bool {
        self.has_room
    }

    fn pass(&mut self) {}

    fn leave(&mut self) {}
}

impl crate::Gateway for Broker {
    fn connect(&self, _: &crate::Caller, draw: &dyn Fn() -> String) -> io::Result<crate::Entry> {
        let entry = |stream| {
            let seat = Box::new(Counted { has_room: self.has_room });
            crate::Entry { client_id: draw(), stream, seat }
        };
        if let Some(ready) = self.ready.lock().unwrap().take() {
            return Ok(entry(ready));
        }
        let (ours, theirs) = UnixStream::pair()?;
        let (is_resumed, is_lost, packets) = (self.is_resumed, self.is_lost, self.packets.clone());
        std::thread::spawn(move || serve(theirs, is_resumed, is_lost, &packets));
        Ok(entry(ours))
    }

    fn tls(&self, _: u16) -> Option<crate::TlsStart> {
        None
    }

    fn retained(
        &self,
        _: &crate::Caller,
        _: &str,
        _: &str,
    ) -> Result<crate::Found<crate::RetainedMessage>, crate::ReadError> {
        Ok(crate::Found::Here(None))
    }

    fn fetch(&self, _: &crate::Caller, _: &str, _: &str) -> Result<Option<crate::RetainedMessage>, crate::ReadError> {
        Ok(None)
    }

    fn history(
        &self,
        _: &crate::Caller,
        _: &str,
        _: &crate::HistoryQuestion,
        _: &dyn Fn() -> bool,
    ) -> Result<crate::HistoryAnswer, crate::HistoryError> {
        Ok(crate::HistoryAnswer::default())
    }

    fn user_of_key(&self, _: &[u8]) -> Option<String> {
        None
    }

    fn who(&self, _: &crate::Caller, _: &str) -> Option<crate::Who> {
        None
    }

    fn left(&self, _: &str) {}
}

/// Answers the packets of one connection until DISCONNECT.
fn serve(mut stream: UnixStream, is_resumed: bool, is_lost: bool, packets: &std::sync::mpsc::Sender<Packet>) {
    let mut byte = [0];
    while stream.read_exact(&mut byte).is_ok() {
        let (kind, mut length, mut shift) = (byte[0] >> 4, 0, 0);
        loop {
            stream.read_exact(&mut byte).unwrap();
            length |= usize::from(byte[0] & 0x7f) << shift;
            shift += 7;
            if byte[0] < 0x80 {
                break;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).unwrap();
        let packet = match kind {
            1 => Packet::Connect,
            8 => Packet::Subscribe,
            14 => Packet::Disconnect,
            _ => Packet::Other,
        };
        let _ = packets.send(packet);
        match packet {
            Packet::Connect => stream.write_all(&[0x20, 3, u8::from(is_resumed), 0, 0]).unwrap(),
            Packet::Subscribe if is_lost => return,
            // One filter, which is granted with QoS 1.
            Packet::Subscribe => stream.write_all(&[0x90, 4, body[0], body[1], 0, 1]).unwrap(),
            Packet::Disconnect => return,
            Packet::Other => {}
        }
    }
}

/// A listener in front of a broker.
struct Front {
    gateway: Arc<Broker>,
    packets: std::sync::mpsc::Receiver<Packet>,
    sessions: Arc<Semaphore>,
    connections: ConnectionLimit,
    queues: Queues,
    counters: Arc<Counters>,
    stop: watch::Sender<bool>,
}

impl Front {
    fn new(is_resumed: bool, is_lost: bool) -> Self {
        let (tell, packets) = std::sync::mpsc::channel();
        Self {
            gateway: Arc::new(Broker { is_resumed, is_lost, has_room: true, packets: tell, ready: Mutex::new(None) }),
            packets,
            sessions: Arc::new(Semaphore::new(1)),
            connections: ConnectionLimit::new(100),
            queues: Queues::default(),
            counters: Arc::default(),
            stop: watch::Sender::new(false),
        }
    }

    async fn opening(&self, credentials: Credentials) -> Opening {
        Opening {
            gateway: self.gateway.clone(),
            caller: crate::Caller {
                listener: 0,
                peer: "127.0.0.1:1".parse().unwrap(),
                tls: None,
                user_name: credentials.user_name.clone(),
            },
            credentials,
            term: Term::Kept { client_id: id(0, "ann", "in").client_id(), expiry: 60 },
            sessions: Arc::clone(&self.sessions),
            request: self.connections.admit().await.busy(),
        }
    }

    async fn attend(&self, listener: u16, password: &str, filter: &str) -> Result<mpsc::Sender<Order>, QueueError> {
        let credentials =
            Credentials { user_name: Some("ann".to_owned()), password: Some(password.as_bytes().to_vec()) };
        let access = Access { listener, credentials: credentials.clone() };
        let filters = TopicFilterBuf::new(filter).into_iter().collect();
        let place = self.queues.place(&id(0, "ann", "in"))?;
        let around = (self.counters.hold_queue(), self.stop.subscribe());
        place.attend((access, self.opening(credentials).await), filters, around).await
    }

    fn seen(&self) -> Vec<Packet> {
        self.packets.try_iter().collect()
    }
}

#[tokio::test]
async fn other_credentials_have_the_session_opened_again() {
    let front = Front::new(true, false);
    let first = front.attend(0, "wide", "").await.unwrap();
    assert!(first.same_channel(&front.attend(0, "wide", "").await.unwrap()));
    assert_eq!(front.seen(), [Packet::Connect]);
    let second = front.attend(0, "narrow", "").await.unwrap();
    assert!(first.is_closed() && !second.is_closed());
    assert_eq!(front.seen(), [Packet::Disconnect, Packet::Connect]);
    front.attend(1, "narrow", "").await.unwrap();
    assert!(second.is_closed(), "rules may name the listener");
    assert_eq!(front.seen(), [Packet::Disconnect, Packet::Connect]);
}

#[tokio::test]
async fn filters_of_a_request_are_subscribed_in_any_case() {
    let front = Front::new(true, false);
    front.attend(0, "x", "a").await.unwrap();
    front.attend(0, "x", "a").await.unwrap();
    assert_eq!(front.seen(), [Packet::Connect, Packet::Subscribe, Packet::Subscribe]);
}

#[tokio::test]
async fn a_queue_without_its_subscription_is_no_success() {
    let front = Front::new(false, true);
    assert!(matches!(front.attend(0, "x", "a").await, Err(QueueError::Broker(Failure::Closed))));
    assert_eq!(front.seen(), [Packet::Connect, Packet::Subscribe]);
    assert_eq!(front.attend(0, "x", "").await.err(), Some(QueueError::Missing));
    assert_eq!(front.seen(), [Packet::Connect, Packet::Disconnect]);
    assert!(front.queues.places.lock().unwrap().is_empty());
}

#[tokio::test]
async fn the_first_requests_open_one_session() {
    let front = Front::new(false, false);
    let (one, other) = tokio::join!(front.attend(0, "x", "a"), front.attend(0, "x", ""));
    assert!(one.unwrap().same_channel(&other.unwrap()));
    assert_eq!(front.seen(), [Packet::Connect, Packet::Subscribe]);
}

#[tokio::test]
async fn a_queue_is_deleted_at_the_quota_of_connections() {
    let mut front = Front::new(true, false);
    Arc::get_mut(&mut front.gateway).unwrap().has_room = false;
    let orders = front.attend(0, "x", "").await.unwrap();
    let poll = |answer| Order::Poll(Poll { acknowledged: None, max: 1, until: Instant::now(), answer });
    assert_eq!(ask(&orders, poll).await.err(), Some(QueueError::Broker(Failure::Refused(Outcome::of_quota()))));
    assert_eq!(ask(&orders, Order::Delete).await, Ok(()));
    assert_eq!(front.seen(), [Packet::Connect, Packet::Disconnect]);
}

#[tokio::test]
async fn each_session_takes_a_place_of_its_listener() {
    let front = Front::new(true, false);
    let orders = front.attend(0, "x", "").await.unwrap();
    let more = Session::open(front.opening(Credentials::default()).await).await;
    assert_eq!(more.err(), Some(Failure::TooMany));
    assert_eq!(ask(&orders, Order::Delete).await, Ok(()));
    assert!(Session::open(front.opening(Credentials::default()).await).await.is_ok());
}

#[tokio::test]
async fn a_session_that_is_not_read_shows_its_end() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let mut session = session_over(ours, &mut theirs).await;
    theirs.write_all(&[0x30, 4, 0, 1, b'a', 0]).unwrap();
    let mut next = Box::pin(session.next_if(false));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    for _ in 0..3 {
        tokio::task::yield_now().await;
        assert!(next.as_mut().poll(&mut context).is_pending());
    }
    drop(theirs);
    assert!(next.await.is_none());
    assert!(session.is_over());
}

#[tokio::test]
async fn requests_to_a_broker_that_is_gone_do_not_succeed() {
    for forget in [true, false] {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut session = session_over(ours, &mut theirs).await;
        assert!(session.hand_over().await);
        drop(theirs);
        assert!(session.next_if(false).await.is_none());
        assert!(!session.hand_over().await);
        assert!(!session.leave(forget).await);
    }
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let session = session_over(ours, &mut theirs).await;
    drop(theirs);
    assert!(!session.leave(true).await, "nothing has noticed its end yet");
}

/// A session over a socket whose other end has answered CONNECT.
async fn session_over(ours: UnixStream, theirs: &mut UnixStream) -> Session {
    theirs.write_all(&[0x20, 3, 0, 0, 0]).unwrap();
    let front = Front::new(false, false);
    *front.gateway.ready.lock().unwrap() = Some(ours);
    let session = Session::open(front.opening(Credentials::default()).await).await.unwrap();
    // CONNECT.
    assert!(theirs.read(&mut [0; 4_096]).unwrap() > 0);
    session
}
