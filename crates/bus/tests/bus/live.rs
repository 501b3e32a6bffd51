//! Live messages: to one node, to all, and without a listener.

use bytes::Bytes;
use tidegate_bus::{Bus, BusError, Subject, Subscription};

use crate::client::{Client, until};
use crate::{Deployment, settings};
use std::sync::mpsc::Receiver;

fn publish(bus: &Bus, subject: &str, payload: impl Into<Bytes>) {
    bus.publish(&Subject::new(subject).unwrap(), payload.into()).unwrap();
}

/// Publishes until the subscription is known.
fn warm_up(bus: &Bus, subject: &str, subscription: &(Subscription, Receiver<()>)) {
    until(&subscription.1, "a live message", || {
        publish(bus, subject, "warm");
        (!subscription.0.take(1).is_empty()).then_some(())
    });
}

/// The next messages, without the warm-up messages.
fn take(subscription: &(Subscription, Receiver<()>), count: usize) -> Vec<(String, String)> {
    let mut messages = Vec::new();
    until(&subscription.1, "live messages", || {
        for message in subscription.0.take(usize::MAX) {
            let text = String::from_utf8(message.payload.to_vec()).unwrap();
            if text != "warm" {
                messages.push((message.subject.to_string(), text));
            }
        }
        (messages.len() >= count).then_some(())
    });
    messages
}

pub(crate) fn messages_reach_one_or_all_in_order<D: Deployment>(deployment: &mut D) {
    let (a, b) = (Client(deployment.bus()), Client(deployment.bus()));
    let (to_a, to_b) = (a.subscribe("node.a.>"), b.subscribe("node.b.>"));
    let (all_a, all_b) = (a.subscribe("all.*"), b.subscribe("all.*"));
    for (subject, subscription) in [("node.a.w", &to_a), ("node.b.w", &to_b), ("all.w", &all_a), ("all.w", &all_b)] {
        warm_up(&a.0, subject, subscription);
    }
    for number in 0..100 {
        publish(&a.0, "node.b.c.d", number.to_string());
        publish(&a.0, "all.c", number.to_string());
        publish(&a.0, "all.c.d", "nobody's");
    }
    publish(&a.0, "node.a.end", "end");
    let numbers = |subject: &str| (0..100).map(|number| (subject.to_owned(), number.to_string())).collect::<Vec<_>>();
    assert_eq!(take(&to_b, 100), numbers("node.b.c.d"));
    assert_eq!(take(&all_a, 100), numbers("all.c"));
    assert_eq!(take(&all_b, 100), numbers("all.c"));
    assert_eq!(take(&to_a, 1), [("node.a.end".to_owned(), "end".to_owned())]);
    assert_eq!(to_b.0.dropped(), 0);
    let max = settings().max_record_bytes;
    let large = a.0.publish(&Subject::new("all.c").unwrap(), vec![0; max + 1].into());
    assert!(matches!(large, Err(BusError::TooLarge { .. })));
}

pub(crate) fn messages_without_room_are_counted<D: Deployment>(deployment: &mut D) {
    let client = Client(deployment.bus());
    let (slow, quick) = (client.subscribe("slow"), client.subscribe("end"));
    warm_up(&client.0, "slow", &slow);
    warm_up(&client.0, "end", &quick);
    take(&quick, 0);
    let sent = settings().max_ahead * 2;
    for _ in 0..sent {
        publish(&client.0, "slow", "x");
    }
    let (mut taken, mut dropped) = (0, 0);
    until(&slow.1, "the rest", || {
        dropped = slow.0.dropped();
        (dropped > 0).then_some(())
    });
    until(&slow.1, "all of them", || {
        taken += slow.0.take(usize::MAX).iter().filter(|message| message.payload == "x").count();
        dropped = slow.0.dropped();
        (taken as u64 + dropped >= sent as u64).then_some(())
    });
    assert!(taken >= settings().max_ahead - 10 && dropped > 0, "{taken} taken, {dropped} dropped");
}
