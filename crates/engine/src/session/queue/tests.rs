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

/// Takes all messages; the shown message is the one taken.
fn drain(queue: &mut SessionQueue, share: u16) -> Vec<String> {
    let mut taken = Vec::new();
    while let Some(shown) = queue.front(share, true).map(text) {
        assert_eq!(queue.pop_front(share, true).map(|delivery| text(&delivery)), Some(shown.clone()));
        taken.push(shown);
    }
    assert!(queue.is_empty() && queue.pop_front(share, true).is_none());
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
    // Every third is the oldest message below the highest waiting level.
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
fn a_collected_queue_equals_one_filled_by_push() {
    let queue: SessionQueue =
        [delivery("t", 0, false, "1"), delivery("t", 1, true, "2"), delivery("t", 0, false, "3")].into_iter().collect();
    assert_eq!(queue.iter().map(text).collect::<Vec<_>>(), ["1", "2", "3"]);
    let mut queue: SessionQueue = [delivery("t", 0, false, "1"), delivery("t", 2, false, "2")].into_iter().collect();
    assert_eq!(drain(&mut queue, 0), ["2", "1"]);
    assert!(matches!([delivery("t", 0, false, "1")].into_iter().collect(), SessionQueue::Plain(_)));
}

/// The same that expires.
fn expiring(at: u64, qos: QoS, payload: &str) -> Delivery {
    let mut publication = Publication::new(TenantId::DEFAULT, "t", qos, false, &[], Millis(at), payload.as_bytes(), 0);
    Delivery { message: publication.keep(), qos, ..delivery("t", 0, false, payload) }
}

#[test]
fn qos_0_is_sent_in_order_without_a_window() {
    let qos = |n: u64| if n.is_multiple_of(2) { QoS::AtMostOnce } else { QoS::AtLeastOnce };
    let mixed = || filled((0..6).map(|n| expiring(u64::MAX, qos(n), &n.to_string())));
    let mut queue = mixed();
    let taken: Vec<_> = std::iter::from_fn(|| queue.pop_front(0, false)).map(|delivery| text(&delivery)).collect();
    assert_eq!((taken, queue.len()), (vec!["0".into(), "2".into(), "4".into()], 3));
    assert!(!queue.has_windowless() && queue.front(0, false).is_none());
    assert_eq!(drain(&mut queue, 0), ["1", "3", "5"]);
    assert_eq!(drain(&mut mixed(), 0), ["0", "1", "2", "3", "4", "5"], "with a window they go as they came");
    let mut queue = mixed();
    let least: Vec<_> = std::iter::from_fn(|| queue.pop_least(0)).map(|delivery| text(&delivery)).collect();
    assert_eq!(least, ["0", "1", "2", "3", "4", "5"]);
}

#[test]
fn expired_deliveries_leave_from_anywhere() {
    let mut queue = filled((0..100_u64).map(|n| expiring(1000 + n * 7 % 100, QoS::AtLeastOnce, &n.to_string())));
    assert!(queue.pop_expired(Millis(999)).is_none());
    assert_eq!(queue.next_expiry(), Millis(1000));
    let gone: Vec<_> = std::iter::from_fn(|| queue.pop_expired(Millis(1049))).map(|one| text(&one)).collect();
    assert_eq!((gone.len(), queue.len(), queue.next_expiry()), (50, 50, Millis(1050)));
    let left: Vec<String> = (0..100_u64).filter(|n| n * 7 % 100 >= 50).map(|n| n.to_string()).collect();
    assert_eq!(drain(&mut queue, 0), left);
}

#[test]
fn a_queue_in_order_takes_the_last_to_its_place() {
    for expires_at in [u64::MAX, 500] {
        let all = ["1", "2", "4", "5", "3"].map(|text| expiring(expires_at, QoS::AtLeastOnce, text));
        let mut queue = filled(all);
        queue.advance_last(10, |it| text(it) == "3", |other| text(other).as_str() > "3");
        assert!(queue.is_in_order());
        assert_eq!(queue.pop_expired(Millis(500)).is_some(), expires_at == 500);
        let left = drain(&mut queue, 0);
        assert_eq!(left, &["1", "2", "3", "4", "5"][usize::from(expires_at == 500)..]);
    }
}

proptest! {
    /// After any takes, expired messages are found and no others are, and each QoS keeps its order.
    #[test]
    fn expiry_and_windows_take_the_right_messages(
        steps in proptest::collection::vec((0..10_u8, any::<bool>(), proptest::option::of(0..40_u64)), 1..300),
    ) {
        let mut queue = SessionQueue::default();
        let mut waiting: Vec<Delivery> = Vec::new();
        let mut now = 0;
        for (number, (step, flag, expiry)) in steps.into_iter().enumerate() {
            match step {
                0..=4 => {
                    let qos = if flag { QoS::AtMostOnce } else { QoS::ExactlyOnce };
                    let at = expiry.map_or(u64::MAX, |after| now + 1 + after);
                    let new = expiring(at, qos, &number.to_string());
                    waiting.push(new.clone());
                    prop_assert!(queue.push_back(new).is_none());
                }
                5..=7 => {
                    let taken = queue.pop_front(0, flag).map(|one| text(&one));
                    let at = waiting.iter().position(|one| flag || one.qos == QoS::AtMostOnce);
                    prop_assert_eq!(taken, at.map(|at| text(&waiting.remove(at))));
                }
                8 => {
                    let taken = queue.pop_least(0).map(|one| text(&one));
                    prop_assert_eq!(taken, (!waiting.is_empty()).then(|| text(&waiting.remove(0))));
                }
                _ => {
                    now += expiry.unwrap_or(1);
                    while let Some(taken) = queue.pop_expired(Millis(now)) {
                        let at = waiting.iter().position(|one| text(one) == text(&taken)).unwrap();
                        prop_assert!(waiting.remove(at).is_expired(Millis(now)));
                    }
                    prop_assert!(!waiting.iter().any(|one| one.is_expired(Millis(now))));
                }
            }
            let next = waiting.iter().map(|one| one.message.expires_at).min().unwrap_or(Millis::NEVER);
            prop_assert_eq!(queue.next_expiry(), next);
            let windowless = waiting.iter().any(|one| one.qos == QoS::AtMostOnce);
            prop_assert_eq!((queue.len(), queue.has_windowless()), (waiting.len(), windowless));
            if number % 16 == 0 {
                queue.shrink();
            }
        }
        prop_assert_eq!(queue.iter().map(text).collect::<Vec<_>>(), waiting.iter().map(text).collect::<Vec<_>>());
    }

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
            } else if let Some(taken) = queue.pop_front(share, true) {
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
