use super::*;

const MESSAGE: MessageId = MessageId { publisher: 0, number: 0 };

fn expecting(subscriber: u16) -> Expectation {
    Expectation { subscriber, subscription: 0, generation: 0 }
}

fn arrival(id: MessageId) -> Arrival {
    Arrival { id, subscriber: 0, granted: QoS::ExactlyOnce, ended: None }
}

fn with_messages(count: u32, qos: QoS) -> Ledger {
    let mut ledger = Ledger::new(1, 2, 4);
    let topic = if qos == QoS::ExactlyOnce { "t/0/1" } else { "t/0/0" };
    for number in 0..count {
        let id = MessageId { publisher: 0, number };
        ledger.sent(Outgoing { id, topic, qos, retained: None, expected: vec![expecting(0)] });
    }
    ledger
}

fn settle(ledger: &mut Ledger) {
    ledger.settle(|_| true, |place| place.to_string());
}

#[test]
fn only_acknowledged_messages_are_lost_and_counted_once() {
    let mut ledger = with_messages(2, QoS::AtLeastOnce);
    ledger.completed(MESSAGE);
    assert_eq!(ledger.outstanding(|_| true), 1);
    assert_eq!(ledger.outstanding(|_| false), 0, "nothing is owed to a subscription that was given up");
    settle(&mut ledger);
    settle(&mut ledger);
    assert_eq!(ledger.findings.count(Finding::LostQos1), 1);
    assert_eq!(ledger.findings.total(), 1);
    ledger.delivered(arrival(MESSAGE), "t/0/0", "s");
    assert_eq!(ledger.findings.totals.late, 1);
}

#[test]
fn the_second_copy_counts_at_qos_2_and_not_at_qos_1() {
    for (qos, topic, twice) in [(QoS::AtLeastOnce, "t/0/0", 0), (QoS::ExactlyOnce, "t/0/1", 1)] {
        let mut ledger = with_messages(1, qos);
        ledger.completed(MESSAGE);
        ledger.delivered(arrival(MESSAGE), topic, "s");
        settle(&mut ledger);
        ledger.delivered(arrival(MESSAGE), topic, "s");
        assert_eq!(ledger.findings.count(Finding::Twice), twice);
        assert_eq!(ledger.findings.total(), twice);
    }
}

#[test]
fn first_receipts_are_in_order() {
    let mut ledger = with_messages(3, QoS::AtLeastOnce);
    let id = |number| MessageId { publisher: 0, number };
    for number in [0, 2, 0, 2] {
        ledger.delivered(arrival(id(number)), "t/0/0", "s");
    }
    assert_eq!(ledger.findings.total(), 0, "repetitions have no order");
    ledger.delivered(arrival(id(1)), "t/0/0", "s");
    assert_eq!(ledger.findings.count(Finding::Order), 1);
}

#[test]
fn a_message_from_before_the_subscription_has_no_order() {
    let mut ledger = Ledger::new(1, 2, 4);
    let id = |number| MessageId { publisher: 0, number };
    for (number, expected) in [(0, Vec::new()), (1, vec![expecting(0)])] {
        let qos = QoS::AtLeastOnce;
        ledger.sent(Outgoing { id: id(number), topic: "t/0/0", qos, retained: None, expected });
    }
    ledger.delivered(arrival(id(1)), "t/0/0", "s");
    ledger.delivered(arrival(id(0)), "t/0/0", "s");
    assert_eq!(ledger.findings.total(), 0);
}

#[test]
fn a_message_sent_after_unsuback_may_not_come() {
    let mut ledger = with_messages(1, QoS::AtLeastOnce);
    let ended = ledger.tick();
    ledger.delivered(Arrival { ended: Some(ended), ..arrival(MESSAGE) }, "t/0/0", "s");
    assert_eq!(ledger.findings.total(), 0, "it was sent before");
    let id = MessageId { publisher: 0, number: 1 };
    ledger.sent(Outgoing { id, topic: "t/0/0", qos: QoS::AtLeastOnce, retained: None, expected: Vec::new() });
    ledger.delivered(Arrival { ended: Some(ended), ..arrival(id) }, "t/0/0", "s");
    assert_eq!(ledger.findings.count(Finding::Subscription), 1);
}

#[test]
fn a_retained_value_is_the_last_confirmed_one_or_later() {
    let id = |number| MessageId { publisher: 0, number };
    let mut ledger = Ledger::new(1, 1, 1);
    let operations =
        [RetainedOperation::Set, RetainedOperation::Set, RetainedOperation::Set, RetainedOperation::Remove];
    for (operation, number) in operations.into_iter().zip(0..) {
        let retained = Some((0, operation));
        ledger.sent(Outgoing { id: id(number), topic: "r/0/0", qos: QoS::AtLeastOnce, retained, expected: Vec::new() });
    }
    ledger.completed(id(1));
    let is_accepted = |ledger: &mut Ledger, seen| {
        let before = ledger.findings.count(Finding::Retained);
        ledger.check_retained(&[seen], |_| "r/0/0".to_owned());
        ledger.findings.count(Finding::Retained) == before
    };
    assert!(!is_accepted(&mut ledger, Some(id(0))), "older than the acknowledged value");
    assert!(is_accepted(&mut ledger, Some(id(1))) && is_accepted(&mut ledger, Some(id(2))));
    assert!(is_accepted(&mut ledger, None), "the removal is under way");
    ledger.completed(id(3));
    assert!(!is_accepted(&mut ledger, Some(id(2))) && is_accepted(&mut ledger, None));
}

#[test]
fn a_late_message_is_no_retained_value() {
    let mut ledger = Ledger::new(1, 2, 1);
    let id = |number| MessageId { publisher: 0, number };
    for (number, operation) in
        [(0, RetainedOperation::Set), (1, RetainedOperation::Remove), (2, RetainedOperation::Set)]
    {
        let retained = Some((0, operation));
        ledger.sent(Outgoing { id: id(number), topic: "r/0/0", qos: QoS::AtLeastOnce, retained, expected: Vec::new() });
    }
    ledger.completed(id(1));
    let mut counts = |number, is_retained| ledger.counts_as_value(0, "r/0/0", id(number), is_retained, "visitor");
    assert!(!counts(0, false), "it was removed, and a member repeats it");
    assert!(counts(0, true), "it is still retained");
    assert!(counts(2, false), "it is newer");
    assert_eq!(ledger.findings.totals.repeated, 1);
}

#[test]
fn messages_under_way_at_the_end_of_a_bridge_may_repeat() {
    let mut ledger = with_messages(1, QoS::ExactlyOnce);
    let later = MessageId { publisher: 0, number: 1 };
    ledger.allow_repeats();
    ledger.sent(Outgoing {
        id: later,
        topic: "t/0/1",
        qos: QoS::ExactlyOnce,
        retained: None,
        expected: vec![expecting(0)],
    });
    let deliver_twice = |ledger: &mut Ledger, id| {
        ledger.delivered(arrival(id), "t/0/1", "s");
        ledger.delivered(arrival(id), "t/0/1", "s");
    };
    deliver_twice(&mut ledger, MESSAGE);
    assert_eq!(ledger.findings.total(), 0);
    deliver_twice(&mut ledger, later);
    assert_eq!(ledger.findings.count(Finding::Twice), 1, "it was sent after the end");
    ledger.forbid_repeats();
    ledger.delivered(arrival(MESSAGE), "t/0/1", "s");
    assert_eq!(ledger.findings.count(Finding::Twice), 2, "it comes too late");
}
