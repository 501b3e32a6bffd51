use crate::ids::ShardPosition;
use crate::link::Links;
use tidegate_mqtt::QoS;

use super::envelope::ReadHead;
use super::envelope::{DELIVER, Envelope};
use super::*;
use crate::ids::TenantId;
use crate::message::{Publication, SHARED_PAYLOAD_MIN};
use crate::now::Millis;
use crate::wire::WireReader;

const HERE: ShardId = ShardId(0);
const THERE: ShardId = ShardId(1);

fn publisher(index: u32) -> ConnectionKey {
    ConnectionKey { index, generation: 1 }
}

/// Both ends of a link with this limit of bytes.
fn pair(limit: u64) -> (Links, Links) {
    let place = |shard| ShardPosition { shard, shards: 2 };
    (Links::new(place(HERE), limit), Links::new(place(THERE), limit))
}

fn message(payload: &[u8]) -> Record<'_> {
    let publication = Publication::new(TenantId(0), "t", QoS::AtMostOnce, false, &[], Millis::NEVER, payload, 0);
    Record::Publish(Envelope {
        purpose: DELIVER,
        origin: HERE,
        sequence: 0,
        entered_at: Millis(1),
        priority: 0,
        hops: 0,
        from: None,
        ticket: None,
        publication,
    })
}

/// Hands over what `from` has for the other end, which works it off; returns whether there was anything, and which
/// publishers may go on at the other end.
fn hand_over(from: &mut Links, to: &mut Links) -> Option<Vec<ConnectionKey>> {
    let batch = from.take_batch(to.place.shard)?;
    let mut reader = WireReader::new(&batch.bytes);
    let (mut head, mut shared) = (ReadHead::new(batch.head, 0, batch.head.opened_at), batch.shared.iter());
    let mut free = Vec::new();
    while !reader.is_empty() {
        if let Record::Credit { bytes } = Record::read(&mut head, &mut reader, &mut shared).unwrap() {
            free.extend(to.credit(batch.from, bytes));
        }
    }
    to.worked_off(batch.from, batch.cost);
    to.recycle(batch.from, batch);
    Some(free)
}

#[test]
fn a_full_link_makes_publishers_wait_for_the_other_end() {
    let (mut here, mut there) = pair(1000);
    let mut sent = 0;
    while !here.is_full(THERE) {
        here.send(THERE, message(&[0; 100]));
        sent += 1;
    }
    assert_eq!(sent, 9, "each takes a hundred bytes and a little");
    here.wait(THERE, publisher(1));
    here.wait(THERE, publisher(2));
    here.wait(THERE, publisher(1));
    let batch = here.take_batch(THERE).unwrap();
    assert!(here.is_full(THERE), "handed over records are under way");
    assert!(here.take_batch(THERE).is_none());
    there.worked_off(HERE, batch.cost);
    assert_eq!(hand_over(&mut there, &mut here), Some(vec![publisher(1), publisher(2)]), "each once");
    assert!(!here.is_full(THERE));
    assert_eq!((here.bytes(), there.bytes()), (0, 0));
}

#[test]
fn payloads_that_are_shared_count_towards_the_limit() {
    let (mut here, mut there) = pair(SHARED_PAYLOAD_MIN as u64);
    here.send(THERE, message(&vec![0; SHARED_PAYLOAD_MIN]));
    assert!(here.is_full(THERE));
    assert!(here.bytes() > SHARED_PAYLOAD_MIN as u64);
    hand_over(&mut here, &mut there).unwrap();
    hand_over(&mut there, &mut here).unwrap();
    assert_eq!(here.bytes(), 0);
}

#[test]
fn publishers_wait_until_half_of_the_limit_is_free() {
    let (mut here, mut there) = pair(1000);
    here.wait(THERE, publisher(1));
    here.send(THERE, message(&[0; 600]));
    let first = here.take_batch(THERE).unwrap();
    here.send(THERE, message(&[0; 600]));
    let second = here.take_batch(THERE).unwrap();
    there.worked_off(HERE, first.cost);
    assert_eq!(hand_over(&mut there, &mut here), Some(vec![]));
    there.worked_off(HERE, second.cost);
    assert_eq!(hand_over(&mut there, &mut here), Some(vec![publisher(1)]));
}

#[test]
fn a_publisher_that_gave_up_waits_no_longer() {
    let (mut here, _) = pair(1000);
    here.wait(THERE, publisher(1));
    here.forget_waiting(publisher(1));
    assert!(here.credit(THERE, 1).is_empty());
}

/// With the smallest limits every byte is reported, and yet shards at rest stay at rest.
#[test]
fn credit_is_reported_under_any_limit_and_not_for_itself() {
    for limit in [0, 1, 3, 4, 40, 1_000_000_000] {
        let (mut here, mut there) = pair(limit);
        for round in 0..100 {
            here.send(THERE, message(b"some payload"));
            if here.is_full(THERE) {
                here.wait(THERE, publisher(round));
            }
            hand_over(&mut here, &mut there).unwrap();
            let mut batches = 0;
            while hand_over(&mut there, &mut here).is_some() || hand_over(&mut here, &mut there).is_some() {
                batches += 1;
                assert!(batches < 3, "limit {limit}: credit for credit");
            }
            let unreported = (limit / 4).clamp(1, CREDIT_STEP_MAX);
            assert!(here.bytes() < unreported, "limit {limit}: {} bytes under way", here.bytes());
            assert!(here.by_shard[1].waiting.is_empty(), "limit {limit}");
        }
    }
}

#[test]
fn credit_is_sent_with_other_records() {
    let (mut here, mut there) = pair(1_000_000);
    here.send(THERE, message(b"payload"));
    hand_over(&mut here, &mut there).unwrap();
    assert!(there.take_batch(HERE).is_none(), "so little is not worth a wake-up");
    there.send(HERE, Record::SysQuery { round: 0 });
    hand_over(&mut there, &mut here).unwrap();
    assert_eq!(here.bytes(), 0);
}

#[test]
fn buffers_go_back_to_where_they_came_from_and_are_used_again() {
    let (mut here, mut there) = pair(1_000_000);
    here.send(THERE, message(b"first"));
    let buffer = here.by_shard[1].bytes.as_ptr();
    hand_over(&mut here, &mut there).unwrap();
    assert_eq!(there.by_shard[0].others.len(), 1);
    there.send(HERE, Record::SysQuery { round: 0 });
    hand_over(&mut there, &mut here).unwrap();
    assert_eq!((there.by_shard[0].others.len(), here.by_shard[1].own.len()), (0, 1));
    here.send(THERE, message(b"second"));
    assert_eq!(here.by_shard[1].bytes.as_ptr(), buffer);
    here.shrink();
    assert!(here.by_shard[1].own.is_empty() && here.by_shard[1].others.is_empty());
}

#[test]
fn few_buffers_and_no_large_ones_are_kept() {
    let (mut here, mut there) = pair(u64::MAX);
    for _ in 0..3 * SPARE_BUFFERS {
        here.send(THERE, message(b"x"));
        hand_over(&mut here, &mut there).unwrap();
    }
    assert_eq!(there.by_shard[0].others.len(), SPARE_BUFFERS);
    there.shrink();
    for _ in 0..=SPARE_BUFFER_BYTES / SHARED_PAYLOAD_MIN {
        here.send(THERE, message(&vec![0; SHARED_PAYLOAD_MIN - 1]));
    }
    here.send(THERE, message(&vec![0; SHARED_PAYLOAD_MIN - 1]));
    hand_over(&mut here, &mut there).unwrap();
    assert!(there.by_shard[0].others.is_empty());
}

#[test]
fn a_sequence_that_comes_again_is_a_repetition() {
    let (mut here, _) = pair(1000);
    assert!(here.is_new(THERE, 0) && here.is_new(THERE, 1) && here.is_new(THERE, 5), "what lies between was lost");
    for repeated in [5, 1, 0, 4] {
        assert!(!here.is_new(THERE, repeated));
    }
    assert!(here.is_new(THERE, 6));
}

#[test]
fn a_large_batch_is_due_before_the_turn_is_over() {
    let (mut here, _) = pair(u64::MAX);
    here.send(THERE, message(&[0; 1000]));
    assert!(!here.is_due());
    for _ in 0..BATCH_BYTES / 1000 {
        here.send(THERE, message(&[0; 1000]));
    }
    assert!(here.is_due());
    here.take_batch(THERE).unwrap();
    assert!(!here.is_due());
}

#[test]
fn confirmations_of_interest_leave_behind_everything_else() {
    let place = |shard| ShardPosition { shard, shards: 3 };
    let mut here = Links::new(place(HERE), 1000);
    let ticket = Ticket { connection: publisher(1), sequence: 1 };
    here.send(ShardId(2), Record::Confirm { ticket, refused: None, promises: false });
    here.confirm_interest(THERE, ticket);
    assert!(here.take_batch(THERE).is_none(), "shard 2 is to get the rest first");
    assert!(here.take_batch(ShardId(2)).is_some() && here.is_due());
    assert!(here.take_batch(THERE).is_some() && !here.has_noted());
}

#[test]
fn an_ended_link_leaves_no_confirmation_of_interest() {
    let mut here = Links::new(ShardPosition { shard: HERE, shards: 1 }, 1000);
    let peer = ShardId(9);
    here.open(peer);
    here.close(peer);
    here.confirm_interest(peer, Ticket { connection: publisher(1), sequence: 1 });
    assert!(!here.has_noted(), "no batch would take it");
}

#[test]
fn there_is_no_link_to_nowhere() {
    let (mut here, _) = pair(1000);
    here.send(ShardId(9), Record::SysQuery { round: 0 });
    here.wait(ShardId(9), publisher(1));
    assert!(here.take_batch(ShardId(9)).is_none() && here.take_batch(HERE).is_none());
    assert!(!here.is_full(ShardId(9)) && !here.is_new(ShardId(9), 0) && here.credit(ShardId(9), 1).is_empty());
}
