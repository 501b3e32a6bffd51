use proptest::prelude::*;
use tidegate_mqtt::QoS;

use super::*;
use crate::TenantId;
use crate::message::Publication;
use crate::now::Millis;
use crate::session::SubscriptionIds;

/// A delivery with a payload that tells it from others.
fn delivery(topic: &str, priority: u8, latest: bool, payload: &str) -> Delivery {
    let (tenant, qos) = (TenantId::DEFAULT, QoS::AtLeastOnce);
    let bytes = payload.as_bytes();
    let mut publication = Publication::new(tenant, topic, qos, false, &[], Millis::NEVER, bytes, 0);
    publication.priority = priority;
    Delivery {
        message: publication.keep(),
        qos,
        retain: false,
        latest,
        ids: SubscriptionIds::None,
        group: None,
        number: 0,
    }
}

fn text(delivery: &Delivery) -> String {
    String::from_utf8(delivery.message.payload().to_vec()).unwrap()
}

/// Takes everything; what is shown first is what is taken.
fn drain(queue: &mut SessionQueue, share: u16) -> Vec<String> {
    let mut taken = Vec::new();
    while let Some(shown) = queue.front(share).map(text) {
        assert_eq!(queue.pop_front(share).map(|delivery| text(&delivery)), Some(shown.clone()));
        taken.push(shown);
    }
    assert!(queue.is_empty() && queue.pop_front(share).is_none());
    taken
}

fn filled(deliveries: impl IntoIterator<Item = Delivery>) -> SessionQueue {
    let mut queue = SessionQueue::default();
    for delivery in deliveries {
        assert!(queue.push_back(delivery).is_none());
    }
    queue
}

#[test]
fn a_queue_is_as_large_as_a_plain_one() {
    assert_eq!(size_of::<SessionQueue>(), size_of::<VecDeque<Delivery>>());
    assert!(size_of::<Delivery>() <= 56, "{}", size_of::<Delivery>());
}

#[test]
fn without_priorities_the_first_in_is_the_first_out() {
    let mut queue = filled((0..5).map(|n| delivery("t", 0, false, &n.to_string())));
    assert!(matches!(queue, SessionQueue::Plain(_)));
    assert_eq!(drain(&mut queue, 2), ["0", "1", "2", "3", "4"]);
}

#[test]
fn higher_priorities_go_first_and_lower_ones_have_their_share() {
    let mixed = || filled((0..9).map(|n| delivery("t", n / 3, false, &n.to_string())));
    assert_eq!(drain(&mut mixed(), 0), ["6", "7", "8", "3", "4", "5", "0", "1", "2"]);
    // Every third is the oldest of those that are not of the highest waiting level.
    assert_eq!(drain(&mut mixed(), 3), ["6", "7", "0", "8", "3", "1", "4", "5", "2"]);
    assert_eq!(drain(&mut mixed(), 1), ["0", "1", "2", "3", "4", "5", "6", "7", "8"]);
    let mut queue = mixed();
    drain(&mut queue, 0);
    assert!(matches!(queue, SessionQueue::Plain(_)), "an empty queue is a plain one again");
}

#[test]
fn a_newer_message_of_a_topic_takes_the_place_of_the_older() {
    let mut queue = filled([delivery("a", 0, true, "a1"), delivery("b", 0, true, "b1"), delivery("a", 0, false, "x")]);
    let replaced = queue.push_back(delivery("a", 0, true, "a2")).unwrap();
    assert_eq!(text(&replaced), "a1");
    let replaceable = |topic, latest| queue.replaceable(&delivery(topic, 0, latest, "")).map(text);
    assert_eq!(replaceable("b", true).as_deref(), Some("b1"));
    assert_eq!((replaceable("b", false), replaceable("c", true)), (None, None));
    let replaced = queue.push_back(delivery("b", 4, true, "b2")).unwrap();
    assert_eq!((text(&replaced), queue.len()), ("b1".into(), 3));
    assert_eq!(drain(&mut queue, 0), ["b2", "a2", "x"]);
}

#[test]
fn the_least_priority_makes_room_first() {
    for latest in [false, true] {
        let topics = ["a", "b", "c", "d"];
        let entries = topics.iter().zip([5, 2, 2, 7]).map(|(topic, level)| delivery(topic, level, latest, topic));
        let mut queue = filled(entries);
        assert!(queue.pop_least(1).is_none(), "no higher one makes room for a lower one");
        let taken: Vec<_> = (0..4).map_while(|_| queue.pop_least(5)).map(|delivery| text(&delivery)).collect();
        assert_eq!(taken, ["b", "c", "a"]);
        assert_eq!(drain(&mut queue, 0), ["d"]);
    }
}

#[test]
fn what_was_collected_is_as_it_was_added() {
    let queue: SessionQueue =
        [delivery("t", 0, false, "1"), delivery("t", 1, true, "2"), delivery("t", 0, false, "3")].into_iter().collect();
    assert_eq!(queue.iter().map(text).collect::<Vec<_>>(), ["1", "2", "3"]);
    let mut queue: SessionQueue = [delivery("t", 0, false, "1"), delivery("t", 2, false, "2")].into_iter().collect();
    assert_eq!(drain(&mut queue, 0), ["2", "1"]);
    assert!(matches!([delivery("t", 0, false, "1")].into_iter().collect(), SessionQueue::Plain(_)));
}

proptest! {
    /// Nothing is lost or doubled, levels keep their order, and of `share` messages one is a lower one while any waits.
    #[test]
    fn every_queue_keeps_its_promises(
        steps in proptest::collection::vec(proptest::option::weighted(0.7, (0..4_u8, 0..6_u8, any::<bool>())), 1..200),
        share in 0..5_u16,
    ) {
        let mut queue = SessionQueue::default();
        let mut waiting: Vec<Delivery> = Vec::new();
        let mut without_lower = 0;
        for (number, step) in steps.into_iter().enumerate() {
            if let Some((level, topic, latest)) = step {
                let new = delivery(&format!("t/{topic}"), level, latest, &number.to_string());
                if let Some(replaced) = queue.push_back(new.clone()) {
                    let at = waiting.iter().position(|one| text(one) == text(&replaced)).unwrap();
                    prop_assert!(latest && waiting[at].latest && waiting[at].message.topic() == new.message.topic());
                    if waiting[at].message.priority == level {
                        waiting[at] = new;
                    } else {
                        waiting.remove(at);
                        waiting.push(new);
                    }
                } else {
                    waiting.push(new);
                }
            } else if let Some(taken) = queue.pop_front(share) {
                let at = waiting.iter().position(|one| text(one) == text(&taken)).unwrap();
                let level = taken.message.priority;
                prop_assert!(waiting[..at].iter().all(|one| one.message.priority != level), "order within a priority");
                let highest = waiting.iter().map(|one| one.message.priority).max().unwrap();
                let lower_waits = waiting.iter().any(|one| one.message.priority < highest);
                without_lower = if level == highest && lower_waits { without_lower + 1 } else { 0 };
                prop_assert!(share == 0 || without_lower < share, "a lower one starves");
                prop_assert!(share != 0 || level == highest, "a lower one went first");
                waiting.remove(at);
            }
            let there: Vec<_> = queue.iter().map(text).collect();
            let expected: Vec<_> = waiting.iter().map(text).collect();
            prop_assert_eq!(&there, &expected, "the order of arrival");
            prop_assert_eq!(queue.len(), waiting.len());
        }
        let again: SessionQueue = queue.into_iter().collect();
        prop_assert_eq!(again.iter().map(text).collect::<Vec<_>>(), waiting.iter().map(text).collect::<Vec<_>>());
    }
}
