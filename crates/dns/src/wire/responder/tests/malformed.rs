//! Malformed queries, floods, and bytes that no client sends.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::counters::DropReason;

/// `fleet.example`, as it is sent.
const ZONE: &[u8] = b"\x05fleet\x07example\x00";

/// A query with a header and the bytes after it.
fn packet(flags: [u8; 2], counts: [u8; 4], rest: &[u8]) -> Vec<u8> {
    let [questions, answers, authorities, additionals] = counts;
    let header = [0x12, 0x34, flags[0], flags[1], 0, questions, 0, answers, 0, authorities, 0, additionals];
    [header.as_slice(), rest].concat()
}

/// The code of an answer that is a header alone.
fn code(answer: &[u8]) -> ResponseCode {
    assert_eq!((answer.len(), &answer[..2], answer[2] & 0x80), (12, [0x12, 0x34].as_slice(), 0x80));
    assert_eq!(&answer[4..], [0; 8]);
    ResponseCode::from(0, answer[3] & 0x0f)
}

fn udp(responder: &Responder, packet: &[u8]) -> Option<Vec<u8>> {
    over(responder, packet, Transport::Udp)
}

#[test]
fn a_packet_without_header_or_an_answer_gets_no_reply() {
    let responder = responder();
    assert_eq!(udp(&responder, &[]), None);
    assert_eq!(udp(&responder, &[0; 11]), None);
    assert_eq!(responder.counters().dropped(DropReason::Malformed), 2);
    let answer = packet([0x84, 0], [1, 0, 0, 0], &[ZONE, &[0, 1, 0, 1]].concat());
    assert_eq!(udp(&responder, &answer), None);
    // No reply to malformed answers or to our own answers, so that no loop arises.
    assert_eq!(udp(&responder, &packet([0xff, 0xff], [9, 9, 9, 9], &[0xff; 40])), None);
    assert_eq!(responder.counters().dropped(DropReason::Response), 2);
    assert_eq!(udp(&responder, &[0; 5000]), None);
    assert_eq!(responder.counters().dropped(DropReason::Oversize), 1);
    let query = packet([0, 0], [1, 0, 0, 0], &[ZONE, &[0, 1, 0, 1]].concat());
    let closed = "192.0.2.9:0".parse().unwrap();
    assert_eq!(responder.respond(&query, closed, Transport::Udp, Instant::now()), None);
}

#[test]
fn an_answer_of_ours_is_not_answered() {
    let responder = responder();
    let answer = udp(&responder, &question("fleet.example.", RecordType::A).to_vec().unwrap()).unwrap();
    assert_eq!(udp(&responder, &answer), None);
    let wrong = udp(&responder, &packet([0, 0], [1, 0, 0, 0], b"\xff")).unwrap();
    assert_eq!(udp(&responder, &wrong), None);
}

#[test]
fn an_unreadable_query_gets_formerr() {
    let responder = responder();
    let question = [ZONE, &[0, 1, 0, 1]].concat();
    let opt = b"\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00";
    let ecs = |option: &[u8]| {
        let length = option.len() as u8;
        let opt = [b"\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00".as_slice(), &[length + 4, 0, 8, 0, length], option];
        [question.as_slice(), &opt.concat()].concat()
    };
    let wrong: &[(&str, [u8; 4], Vec<u8>)] = &[
        ("no question", [0, 0, 0, 0], Vec::new()),
        ("two questions", [2, 0, 0, 0], question.repeat(2)),
        ("an answer in a query", [1, 1, 0, 0], question.clone()),
        ("many authorities", [1, 0, 200, 0], question.clone()),
        ("many additionals", [1, 0, 0, 200], question.clone()),
        ("a question that is not there", [1, 0, 0, 0], Vec::new()),
        ("a name that ends early", [1, 0, 0, 0], b"\x05fle".to_vec()),
        ("a name that points to itself", [1, 0, 0, 0], b"\xc0\x0c\x00\x01\x00\x01".to_vec()),
        ("a name that points ahead", [1, 0, 0, 0], b"\xc0\xff\x00\x01\x00\x01".to_vec()),
        ("labels of an unknown kind", [1, 0, 0, 0], b"\x81a\x00\x00\x01\x00\x01".to_vec()),
        ("a name longer than 255", [1, 0, 0, 0], [&[63; 64].repeat(5), &[0u8, 0, 1, 0, 1][..]].concat()),
        ("a question cut off", [1, 0, 0, 0], [ZONE, &[0, 1, 0]].concat()),
        ("an OPT that is not there", [1, 0, 0, 1], question.clone()),
        ("two OPT", [1, 0, 0, 2], [question.as_slice(), opt, opt].concat()),
        ("a subnet of no family", [1, 0, 0, 1], ecs(&[0, 9, 24, 0, 10, 1, 2])),
        ("a subnet that ends early", [1, 0, 0, 1], ecs(&[0, 1, 24, 0, 10])),
        ("a subnet with too many bits", [1, 0, 0, 1], ecs(&[0, 1, 33, 0, 10, 1, 2, 3, 4])),
        ("a subnet with bits behind its prefix", [1, 0, 0, 1], ecs(&[0, 1, 20, 0, 10, 1, 255])),
    ];
    for (case, counts, rest) in wrong {
        let answer = udp(&responder, &packet([1, 0], *counts, rest)).unwrap();
        assert_eq!(code(&answer), ResponseCode::FormErr, "{case}");
        // The requested flags are copied.
        assert_eq!(answer[2] & 1, 1, "{case}");
    }
    assert_eq!(responder.counters().answers(AnswerKind::FormatError), wrong.len() as u64);
}

#[test]
fn other_operations_are_not_for_us() {
    let responder = responder();
    for operation in [1u8, 2, 4, 5, 15] {
        let answer = udp(&responder, &packet([operation << 3, 0], [1, 0, 0, 0], &[ZONE, &[0, 6, 0, 1]].concat()));
        assert_eq!(code(&answer.unwrap()), ResponseCode::NotImp);
    }
}

#[test]
fn a_flood_gets_less_than_it_sends_and_its_victim_can_use_tcp() {
    let limits = Limits { queries_per_second: 10, burst: 5, slip: 2, ..Limits::default() };
    let responder = responder_of(&Settings { limits, ..settings() }, two());
    let query = question("fleet.example.", RecordType::A).to_vec().unwrap();
    let start = Instant::now();
    let ask = |transport, at| responder.respond(&query, RESOLVER.parse().unwrap(), transport, at);
    let answers: Vec<Option<Vec<u8>>> = (0..25).map(|_| ask(Transport::Udp, start)).collect();
    let (mut full, mut slipped) = (0, 0);
    for answer in answers.into_iter().flatten() {
        let answer = Message::from_vec(&answer).unwrap();
        match (answer.metadata.truncation, answer.answers.len()) {
            (false, 1) => full += 1,
            (true, 0) => slipped += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((full, slipped), (5, 10));
    assert!(ask(Transport::Tcp, start).is_some());
    assert!(ask(Transport::Udp, start + Duration::from_millis(500)).is_some());
    let counters = responder.counters();
    assert_eq!((counters.answers(AnswerKind::Slipped), counters.dropped(DropReason::RateLimited)), (10, 10));
}

proptest! {
    #[test]
    fn no_bytes_end_the_server_and_every_answer_is_one(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let responder = responder();
        if let Some(answer) = udp(&responder, &bytes) {
            prop_assert!(answer[2] & 0x80 != 0 && answer[..2] == bytes[..2]);
            prop_assert!(Message::from_vec(&answer).is_ok());
        }
    }

    #[test]
    fn nor_does_a_query_that_was_changed_somewhere(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        end in any::<prop::sample::Index>(),
        tail in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut message = question("_mqtt._tcp.fleet.example.", RecordType::SRV);
        let mut edns = Edns::new();
        edns.options_mut().insert(EdnsOption::Subnet(ClientSubnet::new("10.1.2.0".parse().unwrap(), 24, 0)));
        message.set_edns(edns);
        let mut bytes = message.to_vec().unwrap();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        bytes.truncate(12 + end.index(bytes.len() - 11));
        bytes.extend(tail);
        let responder = responder();
        for transport in [Transport::Udp, Transport::Tcp] {
            if let Some(answer) = over(&responder, &bytes, transport) {
                prop_assert!(Message::from_vec(&answer).is_ok());
                prop_assert!(transport == Transport::Tcp || answer.len() <= 1232);
            }
        }
    }
}
