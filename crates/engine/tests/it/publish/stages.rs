//! The stage of the publish pipeline that answers when several would, and the meaning of each answer for the publisher.

use std::sync::Arc;

use tidegate_engine::{
    Access, AddressSettings, Durability, HubFilter, Observer, ObserverPolicy, ObserverWindow, OverflowPolicy,
    PayloadCheck, Reason, Settings, Subject, TenantId,
};
use tidegate_mqtt::QoS::{AtLeastOnce, ExactlyOnce};
use tidegate_mqtt::{Packet, PacketType, QoS, ReasonCode};

use crate::harness::*;

#[derive(Debug)]
struct NothingIsAllowed;

impl Access for NothingIsAllowed {
    fn may_publish(&self, _: Subject<'_>, _: &str, _: QoS, _: bool) -> bool {
        false
    }

    fn may_subscribe(&self, _: Subject<'_>, _: &str, _: QoS, _: bool) -> bool {
        true
    }
}

#[derive(Debug)]
struct NothingBad;

impl PayloadCheck for NothingBad {
    fn refusal(&self, payload: &[u8]) -> Option<String> {
        (payload == b"bad").then(|| "it is bad".to_owned())
    }
}

/// Faults of a message, in the order of the stages that find them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    /// It was taken before.
    Repeated,
    /// The rules do not allow it.
    Denied,
    /// It asks for receipts that do not exist.
    UnknownReceipts,
    /// A pipeline refuses its payload.
    PayloadRefused,
    /// The store is full.
    StoreFull,
    /// The window of an observer is full.
    ObserverFull,
    /// The queue of a subscriber is full and rejects.
    QueueFull,
}

const FAULTS: [Fault; 7] = [
    Fault::Repeated,
    Fault::Denied,
    Fault::UnknownReceipts,
    Fault::PayloadRefused,
    Fault::StoreFull,
    Fault::ObserverFull,
    Fault::QueueFull,
];

fn settings(settings: &mut Settings) {
    settings.durability = Durability::Commit;
    settings.queue.overflow = OverflowPolicy::Reject;
    settings.queue.max_messages = 1;
    settings.addresses = Some(AddressSettings { guarded: false, ..AddressSettings::default() });
    let topics = HubFilter::unchecked(TenantId::DEFAULT, "#");
    settings.hub_filters = vec![HubFilter { check: Some(Arc::new(NothingBad)), ..topics }];
}

/// The code of the PUBREC that a client gets next.
fn pub_rec(client: &Client) -> ReasonCode {
    match client.next_arrival("PUBREC").packet() {
        Packet::PubRec(ack) => ack.reason_code,
        other => panic!("instead of a PUBREC: {other:?}"),
    }
}

/// Publishes one message that has these faults; returns its answer and the reason for which it was dropped, if it was.
fn publish_with(faults: &[Fault]) -> (ReasonCode, Option<Reason>) {
    let world = World::with(1, settings);
    let slow = world.connect(v5("slow").lasting().receive_maximum(1).manual());
    slow.subscribe("ctx/to/node/x", ExactlyOnce);
    let publisher = world.connect(v5("p").lasting().manual());
    let sent = |id: u16| message("ctx/to/node/x", "x").qos2().id(id);
    if faults.contains(&Fault::Repeated) {
        publisher.send_publish(sent(7));
        pub_rec(&publisher);
    }
    if faults.contains(&Fault::QueueFull) {
        let other = world.connect(v5("other"));
        while other.publish(sent(1)) == ReasonCode::Success {}
    }
    if faults.contains(&Fault::Denied) {
        world.engine(0, |engine, _| engine.control().set_access(Some(Box::new(NothingIsAllowed))));
    }
    if faults.contains(&Fault::ObserverFull) {
        let observer = Observer {
            name: "sink".into(),
            filters: vec!["#".into()],
            tenant: None,
            window: ObserverWindow::default(),
            policy: ObserverPolicy::Refuse,
            refusal: Reason::ObserverRefused,
        };
        world.engine(0, |engine, _| engine.insiders().observe(observer)).expect("an observer");
    }
    world.engine(0, |engine, _| engine.store().set_store_full(faults.contains(&Fault::StoreFull)));
    let before = world.counters().dropped;
    let payload = if faults.contains(&Fault::PayloadRefused) { "bad" } else { "x" };
    let last = message("ctx/to/node/x", payload).qos2().id(7);
    let last = if faults.contains(&Fault::UnknownReceipts) { last.user("receipt", "bogus") } else { last };
    publisher.send_publish(last);
    let code = pub_rec(&publisher);
    let after = world.counters().dropped;
    let dropped = Reason::ALL.iter().copied().find(|reason| after[reason.number()] > before[reason.number()]);
    (code, dropped)
}

fn answer_of(fault: Option<Fault>) -> (ReasonCode, Option<Reason>) {
    match fault {
        None | Some(Fault::Repeated) => (ReasonCode::Success, None),
        Some(Fault::Denied) => (ReasonCode::NotAuthorized, Some(Reason::NotAuthorized)),
        Some(Fault::UnknownReceipts) => (ReasonCode::ImplementationSpecificError, Some(Reason::NotUnderstood)),
        Some(Fault::PayloadRefused) => (ReasonCode::PayloadFormatInvalid, Some(Reason::PayloadRefused)),
        Some(Fault::StoreFull) => (ReasonCode::QuotaExceeded, Some(Reason::StoreFull)),
        Some(Fault::ObserverFull) => (ReasonCode::QuotaExceeded, Some(Reason::ObserverRefused)),
        Some(Fault::QueueFull) => (ReasonCode::QuotaExceeded, Some(Reason::QueueFullReject)),
    }
}

#[test]
fn the_first_stage_that_finds_a_fault_answers() {
    for set in 0..1 << FAULTS.len() {
        let faults: Vec<Fault> = (0..FAULTS.len()).filter(|at| set >> at & 1 != 0).map(|at| FAULTS[at]).collect();
        if faults.contains(&Fault::Repeated) && faults.len() > 1 && faults.contains(&Fault::UnknownReceipts) {
            // A repetition has the properties of the first packet.
            continue;
        }
        // Observers get a repetition, too, if its publisher may still publish it.
        let reaches_observers = faults.contains(&Fault::ObserverFull) && !faults.contains(&Fault::Denied);
        let observed = Some(Fault::ObserverFull).filter(|_| reaches_observers);
        let first = faults.first().copied();
        let decides = if first == Some(Fault::Repeated) { observed.or(first) } else { first };
        assert_eq!(publish_with(&faults), answer_of(decides), "{faults:?}");
    }
}

#[test]
fn a_deferred_message_is_counted_once() {
    let rejecting = |settings: &mut Settings| {
        settings.queue.overflow = OverflowPolicy::Reject;
        settings.queue.max_messages = 1;
    };
    everywhere_with(rejecting, |world| {
        let slow = world.connect(v5("slow").lasting().receive_maximum(1).manual());
        slow.subscribe("t", ExactlyOnce);
        let publisher = world.connect(v311("p"));
        for n in 0..3 {
            publisher.send_publish(message("t", n.to_string()).qos1());
        }
        world.run();
        assert_eq!(publisher.answers().len(), 2, "the third one waits for room");
        assert_eq!(world.counters().messages_in[AtLeastOnce as usize], 2);
        assert_eq!(slow.drain(), ["0", "1", "2"]);
        assert_eq!(publisher.answers().len(), 1);
        assert_eq!(world.counters().messages_in[AtLeastOnce as usize], 3);
        assert_eq!(world.counters().payload_bytes_in, 3);
        assert_eq!(world.counters().packets_in[PacketType::Publish as usize], 3);
    });
}

#[test]
fn a_publisher_without_rights_waits_for_nothing() {
    let rejecting = |settings: &mut Settings| {
        settings.queue.overflow = OverflowPolicy::Reject;
        settings.queue.max_messages = 1;
    };
    everywhere_with(rejecting, |world| {
        let slow = world.connect(v5("slow").lasting().receive_maximum(1).manual());
        slow.subscribe("t", ExactlyOnce);
        let first = world.connect(v5("first"));
        while first.publish(message("t", "x").qos1()) == ReasonCode::Success {}
        let parked = world.counters().publishers_parked;
        for shard in 0..world.shards() {
            world.engine(shard, |engine, _| engine.control().set_access(Some(Box::new(NothingIsAllowed))));
        }
        let publisher = world.connect(v311("p"));
        publisher.publish_later(message("t", "x").qos1());
        assert_eq!(publisher.answers().len(), 1, "an MQTT 3 publisher is acknowledged and its message dropped");
        assert_eq!(world.dropped(Reason::NotAuthorized), 1);
        assert_eq!(world.counters().publishers_parked, parked);
    });
}
