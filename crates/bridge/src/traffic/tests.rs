//! Two ends without sockets: the packets of brokers are given as bytes.

use tidegate_client::{Acknowledgement, Event, Options, Version};

use super::*;

/// CONNACK of MQTT 5.0: a new session, and the session that was there.
const ACCEPTED: &[u8] = &[0x20, 3, 0, 0, 0];
const RESUMED: &[u8] = &[0x20, 3, 1, 0, 0];

struct Ends {
    now: Instant,
    status: Arc<BridgeStatus>,
    local: (Client, Traffic),
    remote: (Client, Traffic),
}

impl Ends {
    /// Both connected, with these topics.
    fn new(topics: &[&str]) -> Self {
        Self::with(topics, |_| {})
    }

    /// The same with other options of the clients.
    fn with(topics: &[&str], change: impl Fn(&mut Options)) -> Self {
        let (now, status) = (Instant::now(), Arc::new(BridgeStatus::default()));
        let routes = Arc::new(Routes::new(topics.iter().map(|line| line.parse().unwrap()).collect()).unwrap());
        let end = |side| {
            let mut options = Options {
                version: Version::V5,
                clean_start: false,
                acknowledgement: Acknowledgement::Manual,
                ..Options::new("b")
            };
            change(&mut options);
            (Client::new(options, now), Traffic::new(side, Arc::clone(&routes), hop(side), Arc::clone(&status)))
        };
        let mut ends = Self { now, local: end(Side::Local), remote: end(Side::Remote), status };
        ends.connect(Side::Local, ACCEPTED);
        ends.connect(Side::Remote, ACCEPTED);
        ends
    }

    fn end(&mut self, side: Side) -> &mut (Client, Traffic) {
        match side {
            Side::Local => &mut self.local,
            Side::Remote => &mut self.remote,
        }
    }

    fn connect(&mut self, side: Side, answer: &[u8]) {
        let now = self.now;
        let client = &mut self.end(side).0;
        client.handle_closed();
        client.open(now).unwrap();
        self.written(side);
        self.says(side, answer);
        self.status.note_connected(side, true);
    }

    fn says(&mut self, side: Side, bytes: &[u8]) {
        let now = self.now;
        self.end(side).0.handle_input(now, bytes);
    }

    /// The bytes for a broker since the last call.
    fn written(&mut self, side: Side) -> Vec<u8> {
        let now = self.now;
        let client = &mut self.end(side).0;
        let bytes = client.output().to_vec();
        client.advance_output(now, bytes.len());
        without_mark(&bytes, side.other())
    }

    /// Works until neither end has news.
    fn work(&mut self) {
        while self.work_at(Side::Local) || self.work_at(Side::Remote) {}
    }

    fn work_at(&mut self, side: Side) -> bool {
        let now = self.now;
        let (client, traffic) = self.end(side);
        let mut steps = traffic.retry(client, now);
        let event = client.poll_event();
        if matches!(&event, Some(Event::Connected(connected)) if connected.session_present) {
            let (client, traffic) = self.end(side.other());
            traffic.forget_redelivered(client);
        }
        let (client, traffic) = self.end(side);
        let worked = event.is_some() || !steps.is_empty();
        steps.extend(event.map(|event| match event {
            Event::Message(message) => traffic.message(*message),
            Event::Published(published) => traffic.published(now, published),
            Event::Undelivered(it) => traffic.undelivered(client, now, *it),
            Event::InvalidTopic(error) => traffic.invalid_topic(error),
            _ => NextStep::default(),
        }));
        for step in steps {
            if let Some(delivery) = step.done {
                self.end(side).0.acknowledge(now, delivery);
            }
            match step.order {
                Some(Order::Carry { publish, delivery }) => {
                    let (client, traffic) = self.end(side.other());
                    let step = traffic.publish(client, now, publish, delivery);
                    assert!(step.order.is_none(), "nothing here is dropped at once");
                }
                Some(Order::Settle(delivery)) => self.end(side.other()).0.acknowledge(now, delivery),
                Some(Order::Reached | Order::Resumed) | None => {}
            }
        }
        worked
    }
}

fn hop(side: Side) -> HopName {
    HopName::of(side as u64)
}

/// The bytes of the mark of an end.
fn mark(side: Side) -> Vec<u8> {
    format!("\x26\0\x0ftidegate-bridge\0\x10{:016x}", side as u64).into_bytes()
}

/// Packets without the mark of an end, which is the last property of its messages.
fn without_mark(mut packets: &[u8], side: Side) -> Vec<u8> {
    let (mark, mut out) = (mark(side), Vec::new());
    while let [_, len, ..] = packets {
        let (packet, rest) = packets.split_at(2 + usize::from(*len));
        packets = rest;
        let Some(at) = packet.windows(mark.len()).position(|window| window == mark) else {
            out.extend_from_slice(packet);
            continue;
        };
        let mut packet = [&packet[..at], &packet[at + mark.len()..]].concat();
        let properties = 4 + usize::from(packet[3]) + if packet[0] & 0x06 == 0 { 0 } else { 2 };
        packet[1] -= mark.len() as u8;
        packet[properties] -= mark.len() as u8;
        out.extend_from_slice(&packet);
    }
    out
}

#[test]
fn a_message_that_returns_is_not_carried_again() {
    let mut ends = Ends::new(&["t both 1", "u in 1"]);
    ends.says(Side::Local, b"\x32\x07\0\x01t\0\x09\0x");
    ends.work();
    assert_eq!(ends.written(Side::Remote), b"\x32\x07\0\x01t\0\x01\0x");
    ends.says(Side::Remote, &[0x40, 2, 0, 1]);
    ends.work();
    ends.written(Side::Local);
    let mark = mark(Side::Local);
    let returned = [&[0x32, 7 + mark.len() as u8, 0, 1, b't', 0, 8, mark.len() as u8][..], &mark, b"x"].concat();
    ends.says(Side::Local, &returned);
    ends.work();
    assert_eq!(ends.written(Side::Remote), b"", "it has been there");
    assert_eq!(ends.written(Side::Local), [0x40, 2, 0, 8], "it is done with");
    assert_eq!((ends.status.looped_to(Side::Remote), ends.status.dropped_to(Side::Remote)), (1, 0));
    // A response with the properties of its request comes the other way.
    ends.says(Side::Remote, &[&[0x30, 5 + mark.len() as u8, 0, 1, b'u', mark.len() as u8][..], &mark, b"x"].concat());
    ends.work();
    let out = ends.written(Side::Local);
    assert!(out.starts_with(&[0x30]) && out.ends_with(b"x"));
}

/// PUBLISH of `x` to `t` at QoS 1 and 2, with Packet Identifier 9.
const QOS_1: &[u8] = b"\x32\x07\0\x01t\0\x09\0x";
const QOS_2: &[u8] = b"\x34\x07\0\x01t\0\x09\0x";

#[test]
fn a_message_is_acknowledged_once_the_other_broker_has_it() {
    let mut ends = Ends::new(&["t out 1 \"\" far/"]);
    ends.says(Side::Local, QOS_1);
    ends.work();
    assert_eq!(ends.written(Side::Remote), b"\x32\x0b\0\x05far/t\0\x01\0x");
    assert_eq!(ends.written(Side::Local), b"", "no broker has it yet");
    ends.says(Side::Remote, &[0x40, 2, 0, 1]);
    ends.work();
    assert_eq!(ends.written(Side::Local), [0x40, 2, 0, 9]);
    assert_eq!((ends.status.carried_to(Side::Remote), ends.status.carried_to(Side::Local)), (1, 0));
}

#[test]
fn a_qos_2_message_comes_once_although_both_connections_break() {
    let mut ends = Ends::new(&["t out 2"]);
    ends.says(Side::Local, QOS_2);
    ends.work();
    assert_eq!(ends.written(Side::Remote), b"\x34\x07\0\x01t\0\x01\0x");
    // The broker across has it, and its PUBREC is lost; this one sends it again.
    ends.connect(Side::Remote, RESUMED);
    ends.connect(Side::Local, RESUMED);
    ends.says(Side::Local, b"\x3c\x07\0\x01t\0\x09\0x");
    ends.work();
    assert_eq!(ends.written(Side::Remote), b"\x3c\x07\0\x01t\0\x01\0x", "the same one again, and no other");
    ends.says(Side::Remote, &[0x50, 2, 0, 1]);
    assert_eq!(ends.written(Side::Remote), [0x62, 2, 0, 1]);
    ends.says(Side::Remote, &[0x70, 2, 0, 1]);
    ends.work();
    assert_eq!(ends.written(Side::Local), [0x50, 2, 0, 9]);
    assert_eq!(ends.status.carried_to(Side::Remote), 1);
}

#[test]
fn unconfirmed_messages_of_a_forgotten_session_are_resent() {
    let mut ends = Ends::new(&["t out 1"]);
    ends.says(Side::Local, QOS_1);
    ends.work();
    ends.written(Side::Remote);
    ends.connect(Side::Remote, ACCEPTED);
    ends.work();
    assert_eq!(ends.written(Side::Remote), b"\x32\x07\0\x01t\0\x02\0x", "not a duplicate of this session");
    assert_eq!(ends.written(Side::Local), b"");
}

#[test]
fn a_refused_message_is_counted_and_done_with() {
    let mut ends = Ends::new(&["t out 1"]);
    ends.says(Side::Local, QOS_1);
    ends.work();
    ends.says(Side::Remote, &[0x40, 3, 0, 1, 0x87]);
    ends.work();
    assert_eq!(ends.written(Side::Local), [0x40, 2, 0, 9]);
    assert_eq!((ends.status.carried_to(Side::Remote), ends.status.dropped_to(Side::Remote)), (0, 1));
}

#[test]
fn a_message_without_room_waits_and_is_tried_again() {
    let mut ends = Ends::new(&["t out 1"]);
    ends.says(Side::Local, QOS_1);
    ends.work();
    ends.written(Side::Remote);
    // Quota exceeded.
    ends.says(Side::Remote, &[0x40, 3, 0, 1, 0x97]);
    ends.work();
    assert_eq!((ends.written(Side::Remote), ends.written(Side::Local)), (Vec::new(), Vec::new()));
    ends.now += RETRY;
    ends.work();
    assert_eq!(ends.written(Side::Remote), b"\x32\x07\0\x01t\0\x02\0x");
    ends.says(Side::Remote, &[0x40, 2, 0, 2]);
    ends.work();
    assert_eq!(ends.written(Side::Local), [0x40, 2, 0, 9]);
    assert_eq!(ends.status.dropped_to(Side::Remote), 0);
}

#[test]
fn a_message_without_room_is_not_overtaken() {
    let mut ends = Ends::with(&["t out 1"], |options| {
        (options.max_in_flight, options.max_queued_messages) = (1.try_into().unwrap(), 1);
    });
    let mut sent = Vec::new();
    let acknowledge = |ends: &mut Ends, sent: &mut Vec<u8>| {
        sent.extend(ends.written(Side::Remote));
        ends.says(Side::Remote, &[0x40, 2, 0, (sent.len() / 9) as u8]);
        ends.work();
    };
    for number in 1..=3 {
        ends.says(Side::Local, &[0x32, 7, 0, 1, b't', 0, number, 0, number]);
        ends.work();
    }
    // There is room again, and the third one has yet to be tried again.
    acknowledge(&mut ends, &mut sent);
    for number in 4..=5 {
        ends.says(Side::Local, &[0x32, 7, 0, 1, b't', 0, number, 0, number]);
        ends.work();
    }
    for _ in 0..4 {
        acknowledge(&mut ends, &mut sent);
        ends.now += RETRY;
        ends.work();
    }
    let payloads: Vec<u8> = sent.chunks(9).map(|packet| packet[8]).collect();
    assert_eq!(payloads, [1, 2, 3, 4, 5]);
}

/// Two have room in the client's queue, the third has none. Each time that their broker was reached again, all three
/// were added once more.
#[test]
fn a_waiting_message_comes_once_after_many_reconnects() {
    let mut ends = Ends::with(&["t out 1"], |options| options.max_queued_messages = 2);
    ends.remote.0.handle_closed();
    ends.status.note_connected(Side::Remote, false);
    for dup in [0, 8, 8, 8] {
        ends.connect(Side::Local, RESUMED);
        ends.work();
        for number in 1..=3 {
            ends.says(Side::Local, &[0x32 | dup, 7, 0, 1, b't', 0, number, 0, number]);
        }
        ends.work();
    }
    // A broker that has forgotten the session delivers nothing again, and so nothing is forgotten here.
    ends.connect(Side::Local, ACCEPTED);
    ends.connect(Side::Remote, ACCEPTED);
    ends.work();
    let mut sent = ends.written(Side::Remote);
    ends.now += RETRY;
    ends.work();
    sent.extend(ends.written(Side::Remote));
    let payloads: Vec<u8> = sent.chunks(9).map(|packet| packet[8]).collect();
    assert_eq!(payloads, [1, 2, 3]);
}

#[test]
fn only_qos_0_is_dropped_while_the_other_broker_is_away() {
    let mut ends = Ends::new(&["t out 2"]);
    ends.remote.0.handle_closed();
    ends.status.note_connected(Side::Remote, false);
    ends.says(Side::Local, b"\x30\x05\0\x01t\0x");
    ends.says(Side::Local, QOS_1);
    ends.work();
    assert_eq!(ends.status.dropped_to(Side::Remote), 1);
    ends.connect(Side::Remote, ACCEPTED);
    ends.work();
    assert_eq!(ends.written(Side::Remote), b"\x32\x07\0\x01t\0\x01\0x");
}

#[test]
fn a_message_of_a_topic_that_is_carried_no_longer_is_done_with() {
    let mut ends = Ends::new(&["u out 1"]);
    ends.says(Side::Local, QOS_1);
    ends.work();
    assert_eq!((ends.written(Side::Remote), ends.written(Side::Local)), (Vec::new(), vec![0x40, 2, 0, 9]));
    assert_eq!(ends.status.dropped_to(Side::Remote), 0, "no subscription asked for it");
}

#[test]
fn a_message_to_an_invalid_topic_holds_nothing_up() {
    let mut ends = Ends::new(&["# in 1"]);
    ends.says(Side::Remote, b"\x32\x08\0\x02a+\0\x01\0x");
    ends.work();
    assert_eq!((ends.written(Side::Local), ends.written(Side::Remote)), (Vec::new(), vec![0x40, 2, 0, 1]));
    assert_eq!(ends.status.dropped_to(Side::Local), 1);
}

#[test]
fn the_lower_qos_counts_and_unavailable_retain_is_left_out() {
    let mut ends = Ends::new(&["t out 1"]);
    ends.says(Side::Local, QOS_2);
    ends.work();
    assert_eq!(ends.written(Side::Remote), b"\x32\x07\0\x01t\0\x01\0x");
    ends.says(Side::Remote, &[0x40, 2, 0, 1]);
    ends.work();
    assert_eq!(ends.written(Side::Local), [0x50, 2, 0, 9], "towards each broker in its words");
    ends.remote.1.take_limits(ServerLimits {
        retain_available: false,
        maximum_qos: QoS::AtMostOnce,
        ..ServerLimits::NONE
    });
    ends.says(Side::Local, b"\x33\x07\0\x01t\0\x0a\0x");
    ends.work();
    assert_eq!(ends.written(Side::Remote), b"\x30\x05\0\x01t\0x");
    ends.work();
    assert_eq!(ends.written(Side::Local), [0x40, 2, 0, 10], "it was sent, which is all that there is at QoS 0");
}
