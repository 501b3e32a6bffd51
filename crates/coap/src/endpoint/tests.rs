//! The endpoint with a clock that the test turns and a broker that it plays.

use proptest::prelude::*;

use super::*;
use crate::Outcomes;
use crate::limits::{
    ACKNOWLEDGE_AFTER, ANSWER_TIMEOUT, MAX_JOBS, MAX_OBSERVATIONS, MAX_PEERS, MAX_WAITING, MAX_WAITING_BYTES,
    PEER_IDLE, SESSION_IDLE, UNCONFIRMED, WAITING_PART_OF_PEER,
};
use crate::message::{Message, number, option, shortest};
use tidegate_client::{MessageProperties, ReasonCode};

const LOCAL: &str = "127.0.0.1:4000";
const REMOTE: &str = "192.0.2.1:4000";

/// An endpoint with its clock.
struct World {
    endpoint: Endpoint,
    now: Millis,
    actions: Vec<Action>,
}

fn at(address: &str) -> PeerId {
    PeerId { socket: 0, at: address.parse().unwrap() }
}

/// A request with an id, which is its token, too.
fn request(kind: Kind, code: Code, id: u16, path: &str, options: &[(u16, &[u8])], payload: &[u8]) -> Message {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let segments = path.split('/').map(|it| (option::URI_PATH, it.as_bytes().to_vec()));
    let query = query.split('&').filter(|it| !it.is_empty()).map(|it| (option::URI_QUERY, it.as_bytes().to_vec()));
    let options = options.iter().map(|(number, value)| (*number, value.to_vec()));
    let options = segments.chain(query).chain(options).collect();
    Message { kind, code, id, token: Token::new(&id.to_be_bytes()), options, payload: payload.to_vec() }
}

fn get(id: u16, path: &str, options: &[(u16, &[u8])]) -> Message {
    request(Kind::Confirmable, Code::GET, id, path, options, b"")
}

fn put(id: u16, path: &str, options: &[(u16, &[u8])], payload: &[u8]) -> Message {
    request(Kind::Confirmable, Code::PUT, id, path, options, payload)
}

fn value(message: &Message, wanted: u16) -> Option<Vec<u8>> {
    message.options.iter().find(|(number, _)| *number == wanted).map(|(_, value)| value.clone())
}

fn shown(payload: &[u8]) -> Shown {
    Shown { topic: "a".to_owned(), qos: 1, retain: true, payload: payload.to_vec(), ..Shown::default() }
}

impl World {
    fn with(settings: Settings) -> Self {
        Self { endpoint: Endpoint::new(settings, RandomState::new()), now: 0, actions: Vec::new() }
    }

    fn new() -> Self {
        Self::with(Settings {
            max_sessions: 8,
            max_body: 4_000,
            max_waiting_bytes: MAX_WAITING_BYTES,
            are_proven: false,
        })
    }

    fn collect(&mut self) {
        while let Some(action) = self.endpoint.poll_action() {
            self.actions.push(action);
        }
    }

    fn hear(&mut self, from: &str, message: &Message) {
        self.endpoint.handle_datagram(self.now, at(from), &message.encode());
        self.collect();
    }

    fn event(&mut self, event: Event) {
        self.endpoint.handle_event(self.now, event);
        self.collect();
    }

    /// Turns the clock on, with everything that is due meanwhile.
    fn wait(&mut self, time: Millis) {
        let end = self.now + time;
        while let Some(due) = self.endpoint.next_deadline().filter(|due| *due <= end) {
            self.now = due;
            self.endpoint.handle_deadline(due);
        }
        self.now = end;
        self.collect();
    }

    /// The messages that were sent since the last question.
    fn sent(&mut self) -> Vec<Message> {
        let is_sent = |action: &mut Action| matches!(action, Action::Send { .. });
        let sent: Vec<Action> = self.actions.extract_if(.., is_sent).collect();
        let bytes = sent.into_iter().map(|action| match action {
            Action::Send { datagram, .. } => Message::decode(&datagram).unwrap(),
            _ => unreachable!("only sent datagrams are taken"),
        });
        bytes.collect()
    }

    fn one(&mut self) -> Message {
        let mut sent = self.sent();
        assert_eq!(sent.len(), 1, "{sent:?}");
        sent.remove(0)
    }

    /// The requests to the broker since the last call.
    fn asked(&mut self) -> Vec<Action> {
        let is_asked = |action: &mut Action| !matches!(action, Action::Send { .. });
        self.actions.extract_if(.., is_asked).collect()
    }

    /// Lets all sessions in that want to.
    fn open(&mut self) -> Option<SessionId> {
        let mut last = None;
        for action in self.actions.clone() {
            if let Action::Open { session, .. } = action {
                last = Some(session);
                self.event(Event::Opened { session });
            }
        }
        self.actions.retain(|action| !matches!(action, Action::Open { .. }));
        last
    }

    /// Publishes, with the broker's answer.
    fn publish(&mut self, from: &str, message: &Message) -> Box<Publish> {
        self.hear(from, message);
        self.open();
        let asked = self.asked();
        let [Action::Publish { job, message, .. }] = &asked[..] else { panic!("{asked:?}") };
        self.event(Event::Done { job: *job, outcome: Ok(Outcome { code: ReasonCode::Success, why: None }) });
        message.clone()
    }

    /// Answers the one question for a retained message.
    fn give(&mut self, outcome: Result<Option<Shown>, ReadError>) {
        self.open();
        let asked = self.asked();
        let [Action::Read { job, .. }] = &asked[..] else { panic!("{asked:?}") };
        self.event(Event::Read { job: *job, outcome: outcome.map(|it| it.map(Box::new)) });
    }

    /// Observes, with the broker's answers; the session and the number of the subscription.
    fn observe(&mut self, from: &str, message: &Message, retained: Option<Shown>) -> (SessionId, u32) {
        self.hear(from, message);
        self.open();
        let asked = self.asked();
        let found = asked.iter().find_map(|action| match action {
            Action::Subscribe { session, job: Some(job), subscription, .. } => Some((*session, *job, *subscription)),
            _ => None,
        });
        let (session, job, subscription) = found.unwrap_or_else(|| panic!("{asked:?}"));
        self.event(Event::Done { job, outcome: Ok(Outcome { code: ReasonCode::GrantedQos1, why: None }) });
        self.give(Ok(retained));
        (session, subscription)
    }

    fn message(&mut self, (session, subscription): (SessionId, u32), delivery: Option<u64>, payload: &[u8]) {
        let message = Box::new(shown(payload));
        self.event(Event::Message { session, delivery, subscriptions: vec![subscription], message });
    }

    fn acknowledge(&mut self, from: &str, id: u16) {
        self.hear(from, &Message::empty(Kind::Acknowledgement, id));
    }
}

#[test]
fn a_confirmable_put_is_answered_after_the_broker() {
    let mut world = World::new();
    let message = put(7, "topics/plant/a?retain&user.unit=C", &[(option::CONTENT_FORMAT, &[50])], b"21");
    let published = world.publish(LOCAL, &message);
    assert_eq!(
        (published.topic.as_str(), &published.payload[..], published.qos),
        ("plant/a", &b"21"[..], QoS::AtLeastOnce)
    );
    assert!(published.retain);
    assert_eq!(published.properties.content_type.as_deref(), Some("application/json"));
    let answer = world.one();
    assert_eq!((answer.kind, answer.code, answer.id), (Kind::Acknowledgement, Code::CHANGED, 7));
    assert_eq!(answer.token, message.token);
    world.hear(LOCAL, &message);
    assert_eq!(world.one(), answer, "a repetition gets the same answer");
    assert_eq!(world.asked(), [], "and is not published again");
    world.wait(crate::limits::EXCHANGE_LIFETIME);
    world.asked();
    world.publish(LOCAL, &message);
}

#[test]
fn a_message_without_confirmation_has_qos_0() {
    let mut world = World::new();
    let message = request(Kind::NonConfirmable, Code::POST, 7, "topics/a", &[], b"x");
    assert_eq!(world.publish(LOCAL, &message).qos, QoS::AtMostOnce);
    let answer = world.one();
    assert_eq!((answer.kind, answer.code), (Kind::NonConfirmable, Code::CHANGED));
    world.hear(LOCAL, &message);
    assert_eq!(world.actions, [], "a repetition is passed over");
    let message = request(Kind::NonConfirmable, Code::PUT, 8, "topics/a?qos=2", &[], b"x");
    assert_eq!(world.publish(LOCAL, &message).qos, QoS::ExactlyOnce);
}

#[test]
fn a_slow_answer_is_repeated_until_acknowledged() {
    let mut world = World::new();
    let message = put(7, "topics/a", &[], b"x");
    world.hear(LOCAL, &message);
    world.open();
    let asked = world.asked();
    let [Action::Publish { job, .. }] = &asked[..] else { panic!("{asked:?}") };
    world.wait(ACKNOWLEDGE_AFTER);
    assert_eq!(world.one(), Message::empty(Kind::Acknowledgement, 7));
    world.hear(LOCAL, &message);
    assert_eq!(world.one(), Message::empty(Kind::Acknowledgement, 7));
    world.event(Event::Done { job: *job, outcome: Ok(Outcome { code: ReasonCode::QuotaExceeded, why: None }) });
    let answer = world.one();
    assert_eq!((answer.kind, answer.code.to_string()), (Kind::Confirmable, "4.29".to_owned()));
    assert_eq!((answer.token, &answer.payload[..]), (message.token, &b"quota exceeded"[..]));
    world.wait(200_000);
    assert_eq!(world.sent(), vec![answer.clone(); 4], "it is sent four times again");
    world.hear(LOCAL, &put(8, "topics/a", &[], b"x"));
    world.wait(ANSWER_TIMEOUT + 1_000);
    let codes: Vec<String> = world.sent().iter().map(|message| message.code.to_string()).collect();
    assert_eq!(codes[..2], ["0.00", "5.04"], "a broker that does not answer");
}

#[test]
fn an_acknowledged_answer_is_not_sent_again() {
    let mut world = World::new();
    world.hear(LOCAL, &put(7, "topics/a", &[], b"x"));
    world.wait(ACKNOWLEDGE_AFTER);
    let session = world.open().unwrap();
    world.event(Event::Ended { session, failure: Failure::Closed });
    let answer = world.sent().pop().unwrap();
    assert_eq!(answer.code, Code::UNAVAILABLE);
    world.acknowledge(LOCAL, answer.id);
    world.wait(60_000);
    assert_eq!(world.sent(), []);
}

#[test]
fn a_retained_message_is_read_with_tag_and_age() {
    let mut world = World::new();
    let properties = MessageProperties {
        content_type: Some("application/json".to_owned()),
        message_expiry: Some(300),
        ..MessageProperties::default()
    };
    let message = Shown { properties, ..shown(b"{}") };
    world.hear(LOCAL, &get(1, "topics/a", &[]));
    world.give(Ok(Some(message.clone())));
    let answer = world.one();
    assert_eq!((answer.code, &answer.payload[..]), (Code::CONTENT, &b"{}"[..]));
    assert_eq!(value(&answer, option::CONTENT_FORMAT), Some(vec![50]));
    assert_eq!(value(&answer, option::MAX_AGE), Some(vec![1, 44]));
    let tag = value(&answer, option::ETAG).unwrap();
    world.hear(LOCAL, &get(2, "topics/a", &[(option::ETAG, &tag)]));
    world.give(Ok(Some(message.clone())));
    let answer = world.one();
    assert_eq!((answer.code, answer.payload.len()), (Code::VALID, 0));
    world.hear(LOCAL, &get(3, "topics/a", &[(option::ACCEPT, &[60])]));
    world.give(Ok(Some(message.clone())));
    assert_eq!(world.one().code, Code::NOT_ACCEPTABLE);
    world.hear(LOCAL, &get(4, "topics/a?event=true", &[]));
    world.give(Ok(Some(message)));
    assert_eq!(
        world.one().payload,
        br#"{"content_type":"application/json","expiry":300,"payload":"{}","qos":1,"retain":true,"topic":"a"}"#
    );
    for (id, outcome, code) in [
        (5, Ok(None), Code::NOT_FOUND),
        (6, Err(ReadError::NotAuthorized), Code::FORBIDDEN),
        (7, Err(ReadError::Busy), Code::UNAVAILABLE),
        (8, Err(ReadError::TooLong("n".to_owned())), Code::BAD_GATEWAY),
    ] {
        world.hear(LOCAL, &get(id, "topics/a", &[]));
        world.give(outcome);
        assert_eq!(world.one().code, code);
    }
}

#[test]
fn wrong_requests_are_answered_with_their_codes() {
    let mut world = World::new();
    let cases = [
        (get(1, "elsewhere", &[]), Code::NOT_FOUND),
        (get(2, "topics/a", &[(9, b"")]), Code::BAD_OPTION),
        (get(3, "topics/a", &[(option::PROXY_URI, b"coap://h")]), Code::NO_PROXY),
        (put(4, "topics/a?qos=5", &[], b""), Code::BAD_REQUEST),
        (put(5, "topics/a", &[(option::CONTENT_FORMAT, &[9])], b"x"), Code::UNSUPPORTED_FORMAT),
        (request(Kind::Confirmable, Code(4), 6, "topics/a", &[], b""), Code::NOT_ALLOWED),
        (get(7, "topics/+", &[(option::OBSERVE, b"")]), Code::BAD_REQUEST),
    ];
    for (message, code) in cases {
        world.hear(LOCAL, &message);
        assert_eq!(world.one().code, code, "{message:?}");
    }
    world.hear(LOCAL, &request(Kind::NonConfirmable, Code::GET, 8, "topics/a", &[(9, b"")], b""));
    world.hear(LOCAL, &request(Kind::NonConfirmable, Code::CONTENT, 9, "", &[], b""));
    assert_eq!(world.actions, []);
    world.hear(LOCAL, &Message::empty(Kind::Confirmable, 10));
    assert_eq!(world.one(), Message::empty(Kind::Reset, 10), "a ping");
    world.endpoint.handle_datagram(0, at(LOCAL), b"\x40\x01\0\x0B\xFF");
    world.collect();
    assert_eq!(world.one(), Message::empty(Kind::Reset, 11), "a format error");
    world.publish(LOCAL, &put(12, "topics/a", &[], b""));
    world.sent();
    world.hear(LOCAL, &put(13, "topics/a/#", &[], b"x"));
    assert_eq!(world.one().code, Code::BAD_REQUEST);
}

#[test]
fn the_links_name_the_topics() {
    let mut world = World::new();
    for (query, is_found) in [("", true), ("?rt=mq*", true), ("?rt=other", false), ("?href=/topics", true)] {
        world.now += 300_000;
        world.hear(LOCAL, &get(1, &format!(".well-known/core{query}"), &[]));
        let answer = world.one();
        assert_eq!((answer.code, value(&answer, option::CONTENT_FORMAT)), (Code::CONTENT, Some(vec![40])));
        assert_eq!(!answer.payload.is_empty(), is_found, "{query}");
    }
}

#[test]
fn sessions_are_shared_by_credentials_and_end_idle() {
    let mut world = World::new();
    world.hear(LOCAL, &put(1, "topics/a?username=ann&password=x", &[], b""));
    world.hear(LOCAL, &put(2, "topics/a?username=ann&password=x", &[], b""));
    world.hear(LOCAL, &put(3, "topics/a?username=bob&password=x", &[], b""));
    let opened: Vec<Action> = world.asked();
    let [Action::Open { session: ann, credentials, .. }, Action::Open { session: bob, .. }] = &opened[..] else {
        panic!("{opened:?}")
    };
    assert_eq!(credentials.user_name.as_deref(), Some("ann"));
    let refused = Outcome { code: ReasonCode::BadUserNameOrPassword, why: None };
    world.event(Event::Ended { session: *bob, failure: Failure::Refused(refused) });
    assert_eq!(world.one().code, Code::UNAUTHORIZED);
    world.event(Event::Opened { session: *ann });
    let asked = world.asked();
    let jobs: Vec<JobId> =
        asked.iter().filter_map(|it| if let Action::Publish { job, .. } = it { Some(*job) } else { None }).collect();
    assert_eq!(jobs.len(), 2);
    for job in jobs {
        world.event(Event::Done { job, outcome: Ok(Outcome { code: ReasonCode::Success, why: None }) });
    }
    world.wait(SESSION_IDLE + 1_000);
    assert_eq!(world.asked(), [Action::Close { session: *ann }]);
    world.wait(PEER_IDLE);
    assert_eq!((world.endpoint.wire.peers.len(), world.endpoint.wire.places.len()), (0, 0));
    world.wait(1_000);
    assert_eq!(world.endpoint.next_deadline(), None, "an idle endpoint has nothing to do");
}

#[test]
fn a_body_in_blocks_is_published_as_a_whole() {
    let mut world = World::new();
    let body: Vec<u8> = (0..100).collect();
    // Blocks of 32 bytes: 0, 1 and 2 with more, 3 without.
    for (id, block, part) in [(1, 0x09_u8, 0..32), (2, 0x19, 32..64), (3, 0x29, 64..96)] {
        world.hear(LOCAL, &put(id, "topics/a", &[(option::BLOCK1, &[block])], &body[part]));
        world.open();
        let answer = world.one();
        assert_eq!((answer.code, value(&answer, option::BLOCK1)), (Code::CONTINUE, Some(vec![block])));
    }
    let published = world.publish(LOCAL, &put(4, "topics/a", &[(option::BLOCK1, &[0x31])], &body[96..]));
    assert_eq!(published.payload, body);
    let answer = world.one();
    assert_eq!((answer.code, value(&answer, option::BLOCK1)), (Code::CHANGED, Some(vec![0x31])));
    assert_eq!(world.endpoint.wire.upload_bytes, 0);
}

#[test]
fn bodies_with_gaps_or_beyond_the_limit_are_refused() {
    let mut world = World::new();
    world.hear(LOCAL, &put(1, "topics/a", &[(option::BLOCK1, &[0x19])], &[0; 32]));
    world.open();
    assert_eq!(world.one().code, Code::INCOMPLETE);
    world.hear(LOCAL, &put(2, "topics/a", &[(option::BLOCK1, &[0x09])], &[0; 31]));
    assert_eq!(world.one().code, Code::BAD_REQUEST);
    world.hear(LOCAL, &put(3, "topics/a", &[(option::SIZE1, &shortest(4_001)), (option::BLOCK1, &[0x09])], &[0; 32]));
    let answer = world.one();
    assert_eq!((answer.code, value(&answer, option::SIZE1)), (Code::TOO_LARGE, Some(shortest(4_000))));
    for number in 0..4_u16 {
        let block = shortest(u32::from(number) << 4 | 8 | 6);
        world.hear(LOCAL, &put(4 + number, "topics/a", &[(option::BLOCK1, &block)], &[0; 1_024]));
    }
    let sent = world.sent();
    let codes: Vec<Code> = sent.iter().map(|it| it.code).collect();
    assert_eq!(codes, [Code::CONTINUE, Code::CONTINUE, Code::CONTINUE, Code::TOO_LARGE]);
    assert_eq!(value(&sent[3], option::BLOCK1), None, "smaller blocks would not help");
    assert_eq!(world.endpoint.wire.upload_bytes, 0);
    for (id, topic) in [(11, "a"), (12, "b"), (13, "c"), (14, "d"), (15, "e")] {
        world.hear(LOCAL, &put(id, &format!("topics/{topic}"), &[(option::BLOCK1, &[0x09])], &[0; 32]));
    }
    assert_eq!(world.sent().pop().unwrap().code, Code::TOO_MANY);
    world.wait(SESSION_IDLE + 1_000);
    assert_eq!(world.endpoint.wire.upload_bytes, 0, "incomplete bodies do not stay");
}

#[test]
fn a_large_message_is_fetched_in_blocks() {
    let mut world = World::new();
    let body: Vec<u8> = (0..150).collect();
    world.hear(LOCAL, &get(1, "topics/a", &[(option::BLOCK2, &[0x02])]));
    world.give(Ok(Some(shown(&body))));
    let first = world.one();
    assert_eq!((value(&first, option::BLOCK2), value(&first, option::SIZE2)), (Some(vec![0x0A]), Some(vec![150])));
    let mut whole = first.payload.clone();
    for (id, block, answered) in [(2, 0x12, 0x1A), (3, 0x22, 0x22)] {
        world.hear(LOCAL, &get(id, "topics/a", &[(option::BLOCK2, &[block])]));
        let answer = world.one();
        assert_eq!(value(&answer, option::BLOCK2), Some(vec![answered]));
        assert_eq!(value(&answer, option::ETAG), value(&first, option::ETAG));
        whole.extend_from_slice(&answer.payload);
    }
    assert_eq!(whole, body);
    world.hear(LOCAL, &get(4, "topics/a", &[(option::BLOCK2, &[0x32])]));
    assert_eq!(world.one().code, Code::BAD_REQUEST, "behind the end");
    world.wait(61_000);
    assert_eq!(world.endpoint.wire.transfer_bytes, 0);
}

#[test]
fn an_observer_gets_the_retained_and_new_messages() {
    let mut world = World::new();
    let observation = world.observe(LOCAL, &get(1, "topics/a", &[(option::OBSERVE, b"")]), Some(shown(b"old")));
    let first = world.one();
    assert_eq!((first.code, &first.payload[..]), (Code::CONTENT, &b"old"[..]));
    let before = number(&value(&first, option::OBSERVE).unwrap()).unwrap();
    world.message(observation, Some(1), b"one");
    world.message(observation, Some(2), b"two");
    let one = world.one();
    assert_eq!((one.kind, &one.payload[..], one.token), (Kind::Confirmable, &b"one"[..], first.token));
    let after = number(&value(&one, option::OBSERVE).unwrap()).unwrap();
    assert!(after > before, "{after} {before}");
    assert_eq!(world.asked(), [], "the broker waits for the client");
    world.acknowledge(LOCAL, one.id);
    assert_eq!(world.asked(), [Action::Acknowledge { session: observation.0, delivery: 1 }]);
    let two = world.one();
    assert_eq!(two.payload, b"two");
    world.hear(LOCAL, &Message::empty(Kind::Reset, two.id));
    let filter = TopicFilterBuf::new("a").unwrap();
    let session = observation.0;
    assert_eq!(world.asked(), [Action::Acknowledge { session, delivery: 2 }, Action::Unsubscribe { session, filter }]);
    world.message(observation, Some(3), b"three");
    assert_eq!(world.asked(), [Action::Acknowledge { session, delivery: 3 }], "no client wants it");
}

#[test]
fn an_observer_asks_again_and_goes() {
    let mut world = World::new();
    let message = |id, value: &'static [u8]| Message {
        token: Token::new(b"t"),
        ..get(id, "topics/a", &[(option::OBSERVE, value)])
    };
    let first = world.observe(LOCAL, &message(1, b""), None);
    let answer = world.one();
    assert_eq!((answer.code, answer.payload.len()), (Code::CONTENT, 0));
    assert!(value(&answer, option::OBSERVE).is_some(), "also where nothing is retained");
    let again = world.observe(LOCAL, &message(2, b""), Some(shown(b"x")));
    assert_eq!((first, world.asked()), (again, vec![]), "the subscription stays");
    world.sent();
    world.hear(LOCAL, &message(3, b"\x01"));
    assert!(matches!(world.asked()[..], [Action::Unsubscribe { .. }, Action::Read { .. }]));
}

#[test]
fn a_lost_observer_is_given_up() {
    let mut world = World::new();
    let observation = world.observe(LOCAL, &get(1, "topics/a", &[(option::OBSERVE, b"")]), None);
    world.sent();
    world.message(observation, Some(1), b"one");
    world.wait(200_000);
    assert_eq!(world.sent().len(), 5, "once, and four times again");
    assert_eq!(world.asked(), [Action::Close { session: observation.0 }], "without an acknowledgement");
    let counted = world.endpoint.counters();
    assert_eq!((counted.notifications, counted.repeated, counted.unacknowledged), (1, 4, 1));
}

#[test]
fn a_lost_observer_ends_its_session_beside_a_request() {
    let mut world = World::new();
    let observation = world.observe(LOCAL, &get(1, "topics/a", &[(option::OBSERVE, b"")]), None);
    world.sent();
    world.message(observation, Some(1), b"sent");
    world.message(observation, Some(2), b"waits");
    world.wait(60_000);
    world.hear(LOCAL, &put(2, "topics/b", &[], b"x"));
    assert!(matches!(world.asked()[..], [Action::Publish { .. }]), "the session has a request");
    world.wait(60_000);
    assert_eq!(world.asked(), [Action::Close { session: observation.0 }], "and no acknowledgement");
    let answer = world.sent().into_iter().find(|it| it.token == Token::new(&[0, 2]) && it.code != Code::EMPTY).unwrap();
    assert_eq!(
        (answer.code, &answer.payload[..]),
        (Code::UNAVAILABLE, &b"the client has not acknowledged a notification"[..])
    );
    assert_eq!((world.endpoint.sessions.len(), world.endpoint.jobs.len()), (0, 0));
    assert_eq!(world.endpoint.wire.waiting_bytes, 0);
    world.observe(LOCAL, &get(3, "topics/a", &[(option::OBSERVE, b"")]), None);
}

#[test]
fn a_reset_of_an_earlier_notification_ends_it() {
    let mut world = World::new();
    let observation = world.observe(LOCAL, &get(1, "topics/a", &[(option::OBSERVE, b"")]), None);
    world.sent();
    world.message(observation, Some(1), b"confirmable");
    world.message(observation, None, b"not confirmable");
    let sent = world.sent();
    let [first, _] = &sent[..] else { panic!("{sent:?}") };
    world.hear(LOCAL, &Message::empty(Kind::Reset, first.id));
    let (session, filter) = (observation.0, TopicFilterBuf::new("a").unwrap());
    assert_eq!(world.asked(), [Action::Acknowledge { session, delivery: 1 }, Action::Unsubscribe { session, filter }]);
}

#[test]
fn the_end_of_one_session_keeps_deliveries_of_another() {
    let mut world = World::new();
    let ann = world.observe(LOCAL, &get(1, "topics/a?username=ann&password=x", &[(option::OBSERVE, b"")]), None);
    let bob = world.observe(LOCAL, &get(2, "topics/a?username=bob&password=x", &[(option::OBSERVE, b"")]), None);
    world.sent();
    world.message(ann, Some(1), b"confirmable");
    world.message(ann, None, b"not confirmable");
    let id = world.sent()[0].id;
    world.event(Event::Ended { session: bob.0, failure: Failure::Closed });
    world.acknowledge(LOCAL, id);
    assert_eq!(world.asked(), [Action::Acknowledge { session: ann.0, delivery: 1 }]);
}

/// A message with a payload of 1 MiB.
fn mebibyte(number: u8) -> Vec<u8> {
    vec![number; 1 << 20]
}

#[test]
fn waiting_messages_of_a_client_are_bounded_in_bytes() {
    let mut world = World::new();
    let observed: Vec<_> = (1..=3)
        .map(|id| world.observe(LOCAL, &get(id, &format!("topics/{id}"), &[(option::OBSERVE, b"")]), None))
        .collect();
    world.message(observed[0], Some(1), b"keeps confirmable ones waiting");
    for number in 0..MAX_WAITING as u8 {
        for one in &observed {
            world.message(*one, None, &mebibyte(number));
        }
    }
    let bytes = world.endpoint.wire.waiting_bytes;
    assert!((15 << 20..=MAX_WAITING_BYTES / WAITING_PART_OF_PEER).contains(&bytes), "{bytes}");
    assert_eq!(world.asked(), [], "the session continues");
    world.message(observed[1], None, &mebibyte(99));
    let known = &world.endpoint.wire.peers[&at(LOCAL)];
    let newest: Vec<u8> =
        known.observations.iter().filter_map(|it| it.waiting.back()).map(|it| it.message.payload[0]).collect();
    assert!(newest.contains(&99), "the oldest are left out: {newest:?}");
}

/// A listener below a ceiling: bodies of 1 MiB, and these bytes for all waiting messages.
fn small(max_waiting_bytes: usize) -> Settings {
    Settings { max_sessions: 8, max_body: 1 << 20, max_waiting_bytes, are_proven: false }
}

#[test]
fn a_session_is_sent_no_more_than_its_address_may_hold() {
    for (mebibytes, window) in [(0, 1), (1, 1), (8, 1), (16, 3), (32, 7), (64, 8)] {
        let settings = small(mebibytes << 20);
        assert_eq!(settings.window().get(), window, "{mebibytes} MiB");
        let mut world = World::with(settings);
        let observed = world.observe(LOCAL, &get(1, "topics/a", &[(option::OBSERVE, b"")]), None);
        for delivery in 0..=u64::from(window) {
            // The first one is sent.
            world.message(observed, Some(delivery), &mebibyte(1));
        }
        assert_eq!(world.asked(), [], "the session stays: {mebibytes} MiB");
    }
}

#[test]
fn a_longest_body_has_room_below_a_low_ceiling() {
    let mut world = World::with(small(1 << 20));
    for from in [REMOTE, LOCAL] {
        for number in 0..1_023_u16 {
            let block = shortest(u32::from(number) << 4 | 8 | 6);
            world.hear(from, &put(number, "topics/a", &[(option::BLOCK1, &block)], &[0; 1_024]));
            world.open();
            assert!(world.sent().iter().all(|answer| answer.code == Code::CONTINUE), "block {number} of {from}");
        }
        let block = shortest(1_023 << 4 | 6);
        let published = world.publish(from, &put(1_023, "topics/a", &[(option::BLOCK1, &block)], &[0; 1_024]));
        assert_eq!(published.payload.len(), 1 << 20);
        world.sent();
    }
}

#[test]
fn too_many_bytes_of_qos_1_end_a_session() {
    let mut world = World::new();
    let observe = |world: &mut World, id: u16, user: &str| {
        world.observe(LOCAL, &get(id, &format!("topics/a?username={user}&password=x"), &[(option::OBSERVE, b"")]), None)
    };
    let (ann, bob) = (observe(&mut world, 1, "ann"), observe(&mut world, 2, "bob"));
    world.sent();
    for delivery in 1..=8 {
        world.message(ann, Some(delivery), &mebibyte(1));
        world.message(bob, Some(delivery), &mebibyte(2));
    }
    assert_eq!(world.asked(), [], "one of them was sent");
    world.message(bob, Some(9), &mebibyte(2));
    assert_eq!(world.asked(), [Action::Close { session: bob.0 }], "without an acknowledgement");
    let end = world.sent().pop().unwrap();
    assert_eq!((end.code, &end.payload[..]), (Code::TOO_MANY, &b"too many bytes wait for this observer"[..]));
    assert!(world.endpoint.wire.waiting_bytes <= 8 << 20);
}

#[test]
fn waiting_messages_of_a_listener_are_bounded_in_bytes() {
    let mut world = World::new();
    let froms: Vec<String> = (0..6).map(|client| format!("127.0.0.1:{}", 4_000 + client)).collect();
    for (number, from) in froms.iter().enumerate() {
        let observed = world.observe(from, &get(1, "topics/a", &[(option::OBSERVE, b"")]), None);
        world.message(observed, None, b"confirmable");
        for _ in 0..usize::from(UNCONFIRMED) {
            world.message(observed, None, b"not confirmable");
        }
        // The last clients have only little.
        let (count, payload) = if number < 5 { (14, mebibyte(1)) } else { (1, vec![1; 100]) };
        for _ in 0..count {
            world.message(observed, None, &payload);
        }
    }
    let wire = &world.endpoint.wire;
    assert!(
        (MAX_WAITING_BYTES - (2 << 20)..=MAX_WAITING_BYTES).contains(&wire.waiting_bytes),
        "{}",
        wire.waiting_bytes
    );
    assert!(wire.peers[&at(&froms[5])].waiting_bytes > 0, "the fullest client loses messages");
    assert_eq!(wire.waiting_bytes, wire.peers.values().map(|it| it.waiting_bytes).sum::<usize>());
}

#[test]
fn qos_0_is_confirmed_now_and_then_and_bounded() {
    let mut world = World::new();
    let observation = world.observe(LOCAL, &get(1, "topics/a", &[(option::OBSERVE, b"")]), None);
    world.sent();
    world.message(observation, None, b"first");
    let first = world.one();
    assert_eq!(first.kind, Kind::Confirmable, "to see that the client is there");
    for payload in 0..40_u8 {
        world.message(observation, None, &[payload]);
    }
    assert_eq!(world.sent().len(), usize::from(UNCONFIRMED), "no more without an acknowledgement");
    world.acknowledge(LOCAL, first.id);
    let sent = world.sent();
    assert_eq!(sent.len(), MAX_WAITING);
    assert_eq!((sent[0].kind, &sent[0].payload[..]), (Kind::Confirmable, &[24][..]), "the oldest are left out");
    assert_eq!(sent.last().unwrap().kind, Kind::NonConfirmable);
    assert_eq!(world.endpoint.counters().left_out, 9);
}

#[test]
fn a_notification_with_a_large_message_is_fetched() {
    let mut world = World::new();
    let observation =
        world.observe(LOCAL, &get(1, "topics/a", &[(option::OBSERVE, b""), (option::BLOCK2, &[0x02])]), None);
    world.sent();
    world.message(observation, Some(1), &[7; 100]);
    let first = world.one();
    assert_eq!((value(&first, option::BLOCK2), first.payload.len()), (Some(vec![0x0A]), 64));
    world.hear(LOCAL, &get(2, "topics/a", &[(option::BLOCK2, &[0x12])]));
    let rest = world.one();
    assert_eq!((value(&rest, option::ETAG), rest.payload.len()), (value(&first, option::ETAG), 36));
}

#[test]
fn the_end_of_a_session_ends_its_observations() {
    let mut world = World::new();
    let observation = world.observe(LOCAL, &get(1, "topics/a", &[(option::OBSERVE, b"")]), None);
    world.sent();
    world.message(observation, Some(1), b"one");
    world.sent();
    let refused = Outcome { code: ReasonCode::AdministrativeAction, why: Some("kicked".to_owned()) };
    world.event(Event::Ended { session: observation.0, failure: Failure::Refused(refused) });
    let end = world.one();
    assert_eq!((end.code, &end.payload[..], value(&end, option::OBSERVE)), (Code::UNAVAILABLE, &b"kicked"[..], None));
    assert_eq!(world.asked(), []);
    assert_eq!((world.endpoint.sessions.len(), world.endpoint.jobs.len()), (0, 0));
}

#[test]
fn a_retained_message_elsewhere_comes_by_subscription() {
    let mut world = World::new();
    world.hear(LOCAL, &get(1, "topics/a", &[(option::OBSERVE, b"")]));
    world.open();
    let asked = world.asked();
    let [Action::Subscribe { job: Some(job), retained: false, .. }] = &asked[..] else { panic!("{asked:?}") };
    world.event(Event::Done { job: *job, outcome: Ok(Outcome { code: ReasonCode::Success, why: None }) });
    world.give(Err(ReadError::Moving));
    assert!(matches!(world.asked()[..], [Action::Subscribe { job: None, retained: true, .. }]));
    assert_eq!(world.one().code, Code::CONTENT);
    world.hear(LOCAL, &get(2, "topics/%23?event", &[(option::OBSERVE, b"")]));
    assert_eq!(world.asked().len(), 1);
    world.hear(LOCAL, &get(3, "topics/#?event", &[(option::OBSERVE, b"")]));
    assert!(matches!(world.asked()[..], [Action::Subscribe { retained: true, .. }]), "a filter has all of its topics");
}

#[test]
fn strangers_get_three_times_their_bytes() {
    let mut world = World::new();
    let message = get(1, "topics/a", &[]);
    world.hear(REMOTE, &message);
    world.give(Ok(Some(shown(&[0; 500]))));
    let answer = world.one();
    let proof = value(&answer, option::ECHO).unwrap();
    assert_eq!(answer.code, Code::UNAUTHORIZED);
    assert!(answer.encode().len() <= 3 * message.encode().len());
    world.hear("192.0.2.9:4000", &get(2, "topics/a", &[(option::ECHO, &proof)]));
    world.give(Ok(Some(shown(&[0; 500]))));
    assert_eq!(world.one().code, Code::UNAUTHORIZED, "the proof is for one address");
    world.hear(REMOTE, &get(3, "topics/a", &[(option::ECHO, &proof)]));
    world.give(Ok(Some(shown(&[0; 500]))));
    assert_eq!(world.one().payload.len(), 500);
    world.hear("192.0.2.7:4000", &get(4, "topics/a", &[(option::OBSERVE, b"")]));
    assert!(value(&world.one(), option::ECHO).is_some(), "notifications need no request");
    world.now += 600_000;
    world.hear("192.0.2.1:5000", &get(5, "topics/a", &[(option::ECHO, &proof)]));
    world.give(Ok(Some(shown(&[0; 500]))));
    assert_eq!(world.one().code, Code::UNAUTHORIZED, "an old proof");
}

#[test]
fn requests_datagrams_and_refusals_are_counted() {
    let mut world = World::new();
    let (publish, read) = (put(7, "topics/a", &[], b"x"), get(8, "topics/a", &[]));
    world.publish(LOCAL, &publish);
    world.hear(LOCAL, &read);
    world.give(Ok(None));
    world.hear(LOCAL, &request(Kind::Confirmable, Code(4), 9, "topics/a", &[], b""));
    world.endpoint.handle_datagram(world.now, at(LOCAL), b"MQTT");
    world.hear(REMOTE, &request(Kind::NonConfirmable, Code(5), 1, "", &[], b""));
    let sent = world.sent();
    let counted = world.endpoint.counters();
    assert_eq!(counted.publishes, Outcomes { answered: 1, ..Outcomes::default() });
    assert_eq!(counted.reads, Outcomes { refused: 1, ..Outcomes::default() });
    assert_eq!(counted.others.refused, 2, "{sent:?}");
    assert_eq!((counted.datagrams_in, counted.datagrams_out, counted.malformed), (5, sent.len() as u64, 1));
    assert_eq!(counted.bytes_out, sent.iter().map(|message| message.encode().len() as u64).sum::<u64>());
    assert_eq!((counted.clients, counted.sessions), (2, 1));
    let mut both = counted;
    both.add(&counted);
    assert_eq!((both.datagrams_in, both.others.refused), (10, 4));
}

#[test]
fn accepted_credentials_do_not_prove_an_address() {
    let mut world = World::new();
    let known = "topics/a?username=ann&password=x";
    world.hear(REMOTE, &get(1, known, &[(option::OBSERVE, b"")]));
    assert_eq!(world.asked(), [], "notifications need an address that is proven");
    let proof = value(&world.one(), option::ECHO).unwrap();
    let read = get(2, known, &[]);
    world.hear(REMOTE, &read);
    world.give(Ok(Some(shown(&[0; 500]))));
    let answer = world.one();
    assert_eq!((answer.code, value(&answer, option::ECHO)), (Code::UNAUTHORIZED, Some(proof.clone())));
    assert!(answer.encode().len() <= 3 * read.encode().len(), "the sender may be another one");
    world.observe(REMOTE, &get(3, known, &[(option::OBSERVE, b""), (option::ECHO, &proof)]), Some(shown(&[0; 500])));
    assert_eq!(world.one().payload.len(), 500);
}

#[test]
fn credentials_do_not_take_the_room_of_proven_addresses() {
    let mut world = World::new();
    for client in 0..12_u16 {
        let from = format!("192.0.2.1:{}", 1_000 + client);
        world.hear(&from, &put(client, "topics/a?username=ann&password=wrong", &[], b"x"));
    }
    assert_eq!(world.asked().len(), 4, "half of the sessions");
    assert!(world.sent().iter().all(|answer| value(answer, option::ECHO).is_some()));
}

#[test]
fn many_sessions_need_proven_addresses() {
    let mut world = World::new();
    let mut proofs = Vec::new();
    for client in 0..12_u16 {
        let from = format!("192.0.2.1:{}", 1_000 + client);
        world.hear(&from, &put(client, "topics/a", &[], b"x"));
        for answer in world.sent() {
            proofs.push((from.clone(), value(&answer, option::ECHO).unwrap()));
        }
    }
    assert_eq!((world.asked().len(), proofs.len()), (4, 8), "from half of the sessions on");
    for (number, (from, proof)) in proofs.iter().enumerate() {
        world.hear(from, &put(100 + number as u16, "topics/a", &[(option::ECHO, proof)], b"x"));
    }
    assert_eq!(world.asked().len(), 4);
    let codes: Vec<Code> = world.sent().iter().map(|it| it.code).collect();
    assert_eq!(codes, [Code::UNAVAILABLE; 4], "all sessions are busy");
}

#[test]
fn state_of_clients_is_bounded() {
    let mut world = World::new();
    for id in 0..=MAX_JOBS as u16 {
        world.hear(LOCAL, &put(id, "topics/a", &[], b"x"));
    }
    assert_eq!(world.one().code, Code::TOO_MANY);
    for client in 0..2 * MAX_PEERS {
        let from = format!("10.0.{}.{}:9", client / 256, client % 256);
        world.hear(&from, &get(1, "elsewhere", &[]));
    }
    assert_eq!((world.endpoint.wire.peers.len(), world.endpoint.wire.places.len()), (MAX_PEERS, MAX_PEERS));
    assert!(world.endpoint.wire.peers.contains_key(&at(LOCAL)), "a client with a session stays");
    let mut world = World::new();
    for id in 0..=MAX_OBSERVATIONS as u16 {
        let message = get(id, &format!("topics/{id}"), &[(option::OBSERVE, b"")]);
        if id < MAX_OBSERVATIONS as u16 {
            world.observe(LOCAL, &message, None);
        } else {
            world.sent();
            world.hear(LOCAL, &message);
        }
    }
    assert_eq!(world.one().code, Code::TOO_MANY);
}

/// A step of a client or of the broker, as a property test draws it.
#[derive(Clone, Debug)]
enum Step {
    Bytes(Vec<u8>),
    Message(u8, u8, u8, Vec<(u16, Vec<u8>)>),
    Broker(u8),
    Wait(u16),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..24);
    let known = proptest::sample::select(vec![4, 6, 12, 17, 23, 27, 60, 252, 292]);
    let options = proptest::collection::vec((known, proptest::collection::vec(any::<u8>(), 0..3)), 0..3);
    let step = prop_oneof![
        1 => bytes().prop_map(Step::Bytes),
        6 => (0..4_u8, 0..4_u8, 0..12_u8, options).prop_map(|(kind, code, id, options)| Step::Message(kind, code, id, options)),
        5 => any::<u8>().prop_map(Step::Broker),
        2 => any::<u16>().prop_map(Step::Wait),
    ];
    proptest::collection::vec(step, 0..60)
}

/// Carries a step out, and returns how many bytes were received.
fn take_step(world: &mut World, pending: &mut Vec<Action>, step: Step) -> usize {
    let peer = at(REMOTE);
    let len = match step {
        Step::Bytes(bytes) => {
            world.endpoint.handle_datagram(world.now, peer, &bytes);
            bytes.len()
        }
        Step::Message(kind, code, id, options) => {
            let kind = [Kind::Confirmable, Kind::NonConfirmable, Kind::Acknowledgement, Kind::Reset][usize::from(kind)];
            let options: Vec<(u16, &[u8])> = options.iter().map(|(number, value)| (*number, &value[..])).collect();
            let bytes = request(kind, Code(code), id.into(), "topics/a", &options, &[0; 16]).encode();
            world.endpoint.handle_datagram(world.now, peer, &bytes);
            bytes.len()
        }
        Step::Broker(choice) if !pending.is_empty() => {
            let action = pending.swap_remove(usize::from(choice) % pending.len());
            let fine = Ok(Outcome { code: ReasonCode::Success, why: None });
            let event = match action {
                Action::Open { session, .. } if choice % 5 == 0 => Event::Ended { session, failure: Failure::Closed },
                Action::Open { session, .. } => Event::Opened { session },
                Action::Publish { job, .. } | Action::Subscribe { job: Some(job), .. } => {
                    Event::Done { job, outcome: fine }
                }
                Action::Read { job, .. } => Event::Read { job, outcome: Ok(Some(Box::new(shown(&[1; 90])))) },
                Action::Acknowledge { session, .. } | Action::Unsubscribe { session, .. } => Event::Message {
                    session,
                    delivery: Some(choice.into()),
                    subscriptions: vec![2],
                    message: Box::new(shown(b"m")),
                },
                _ => return 0,
            };
            world.endpoint.handle_event(world.now, event);
            0
        }
        Step::Broker(_) => 0,
        Step::Wait(time) => {
            world.wait(u64::from(time));
            0
        }
    };
    world.collect();
    len
}

/// The bytes of the messages that wait for the observers of a client, each counted once.
fn waiting_bytes(known: &super::peer::Peer) -> usize {
    let waiting = known.observations.iter().flat_map(|it| &it.waiting);
    let messages: HashMap<_, usize> =
        waiting.map(|one| (std::sync::Arc::as_ptr(&one.message), one.message.size())).collect();
    messages.values().sum()
}

proptest! {
    #[test]
    fn no_client_breaks_an_endpoint_or_its_bounds(steps in steps()) {
        let mut world = World::new();
        let (mut received, mut pending) = (0, Vec::new());
        for step in steps {
            received += take_step(&mut world, &mut pending, step);
            pending.extend(world.asked());
            let all = world.endpoint.wire.peers.values();
            let uploads: usize = all.clone().flat_map(|it| &it.uploads).map(super::uploads::Upload::len).sum();
            let transfers: usize = all.clone().flat_map(|it| &it.transfers).map(|it| it.body.bytes.len()).sum();
            prop_assert_eq!((uploads, transfers), (world.endpoint.wire.upload_bytes, world.endpoint.wire.transfer_bytes));
            prop_assert!(all.clone().all(|it| it.jobs <= MAX_JOBS && it.observations.len() <= MAX_OBSERVATIONS));
            let waiting: usize = all.clone().map(waiting_bytes).sum();
            prop_assert_eq!(waiting, world.endpoint.wire.waiting_bytes);
            prop_assert_eq!(waiting, all.clone().map(|it| it.waiting_bytes).sum::<usize>());
            let jobs: usize = world.endpoint.sessions.values().map(|it| it.jobs).sum();
            prop_assert_eq!(jobs, world.endpoint.jobs.len());
        }
        let sent: usize = world.actions.iter().map(|it| if let Action::Send { datagram, .. } = it { datagram.len() } else { 0 }).sum();
        prop_assert!(sent <= 3 * received, "{} bytes for {}", sent, received);
        world.wait(2_000_000);
        prop_assert_eq!((world.endpoint.jobs.len(), world.endpoint.wire.peers.len()), (0, 0));
        prop_assert_eq!(world.endpoint.next_deadline(), None);
    }
}
