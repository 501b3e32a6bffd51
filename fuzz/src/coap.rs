//! Datagrams of CoAP clients: the codec, and a listener with a broker that lets everybody in.

use std::hash::RandomState;
use std::net::{Ipv4Addr, SocketAddr};

use tidegate_coap::message::Message;
use tidegate_coap::{Action, Endpoint, Event, Outcome, PeerId, ReasonCode, Settings, Shown};

/// Bytes that a stranger gets for each byte that it has sent.
const AMPLIFICATION: usize = 3;
/// Milliseconds between two datagrams.
const PAUSE: u64 = 700;

/// Reads datagrams: each begins with its length. What is read survives its encoding, and strangers get no more bytes than
/// they may.
///
/// # Panics
/// When something does not hold.
pub fn fuzz_one(data: &[u8]) {
    let settings = Settings { max_sessions: 4, max_body: 2_000, max_waiting_bytes: 64_000, are_proven: false };
    let mut endpoint = Endpoint::new(settings, RandomState::new());
    let peer = PeerId { socket: 0, at: SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 5_683)) };
    let (mut rest, mut now, mut received, mut sent) = (data, 0, 0, 0);
    while let Some((&len, behind)) = rest.split_first() {
        let (datagram, behind) = behind.split_at(usize::from(len).min(behind.len()));
        rest = behind;
        now += PAUSE;
        if let Ok(message) = Message::decode(datagram) {
            assert_eq!(Message::decode(&message.encode()), Ok(message), "a message survives its encoding");
        }
        endpoint.handle_datagram(now, peer, datagram);
        received += datagram.len();
        sent += answer(&mut endpoint, now);
        endpoint.handle_deadline(now);
        sent += answer(&mut endpoint, now);
        assert!(sent <= AMPLIFICATION * received, "{sent} bytes for {received}");
    }
}

/// Answers for the broker, and returns the bytes that were sent.
fn answer(endpoint: &mut Endpoint, now: u64) -> usize {
    let mut sent = 0;
    while let Some(action) = endpoint.poll_action() {
        let granted = Ok(Outcome { code: ReasonCode::Success, why: None });
        let event = match action {
            Action::Send { datagram, .. } => {
                assert!(Message::decode(&datagram).is_ok(), "what is sent is a message");
                sent += datagram.len();
                continue;
            }
            Action::Open { session, .. } => Event::Opened { session },
            Action::Publish { job, .. } | Action::Subscribe { job: Some(job), .. } => {
                Event::Done { job, outcome: granted }
            }
            Action::Read { job, topic, .. } => {
                let message = Shown { topic, payload: vec![7; 1_500], ..Shown::default() };
                Event::Read { job, outcome: Ok(Some(Box::new(message))) }
            }
            _ => continue,
        };
        endpoint.handle_event(now, event);
    }
    sent
}
