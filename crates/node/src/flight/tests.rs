use std::net::{IpAddr, Ipv4Addr};

use proptest::prelude::*;
use tidegate_engine::{Millis, Now, Reason, ShardId, TenantId};

use super::*;

fn at(ms: u64) -> Now {
    Now { monotonic: Millis(ms), unix: 1_700_000_000_000 + ms }
}

fn event(ms: u64, kind: FlightKind) -> FlightEvent {
    FlightEvent::new(at(ms).unix, ShardId(0), kind)
}

fn client(name: &str) -> FlightSubject {
    FlightSubject::Client(name.into())
}

fn details(answer: &FlightAnswer) -> Vec<&str> {
    answer.events.iter().map(|event| &*event.detail).collect()
}

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

#[test]
fn a_client_keeps_its_last_events_although_others_fill_the_ring() {
    let settings = FlightSettings { entries: 10, subjects: 100, entries_per_subject: 2, per_second: 100 };
    let mut recorder = Recorder::new(settings);
    for detail in ["one", "two", "three"] {
        recorder.record(at(1), event(1, FlightKind::Disconnected).client(TenantId::DEFAULT, "quiet").detail(detail));
    }
    for number in 0..50 {
        recorder.record(at(2), event(2, FlightKind::Connected).client(TenantId::DEFAULT, &format!("c{number}")));
    }
    assert_eq!(details(&recorder.answer(&client("quiet"), None)), ["two", "three"]);
    assert_eq!(recorder.answer(&client("c49"), None).events.len(), 1, "an event in ring and history is returned once");
    assert_eq!(recorder.counters().recorded, 53);
}

#[test]
fn suppressed_events_are_counted_in_the_next_one() {
    let mut recorder = Recorder::new(FlightSettings { per_second: 2, ..FlightSettings::default() });
    for detail in ["a", "b", "c", "d"] {
        recorder.record(at(1000), event(1000, FlightKind::Dropped).client(TenantId::DEFAULT, "slow").detail(detail));
    }
    recorder.record(at(1500), event(1500, FlightKind::Disconnected).client(TenantId::DEFAULT, "slow").detail("end"));
    let answer = recorder.answer(&client("slow"), None);
    assert_eq!((details(&answer), answer.suppressed), (vec!["a", "b", "end"], 2), "lives are counted apart");
    recorder.record(at(2000), event(2000, FlightKind::Dropped).client(TenantId::DEFAULT, "slow").detail("e"));
    let answer = recorder.answer(&client("slow"), None);
    assert_eq!(answer.events.last().map(|event| (&*event.detail, event.suppressed)), Some(("e", 2)));
    assert_eq!((answer.suppressed, recorder.counters().suppressed), (0, 2));
}

#[test]
fn an_address_is_asked_about_with_all_that_came_from_there() {
    let mut recorder = Recorder::new(FlightSettings::default());
    recorder.record(at(1), event(1, FlightKind::Refused).address(Some(HERE)).reason(Reason::Banned));
    recorder
        .record(at(2), event(2, FlightKind::Connected).client(TenantId::DEFAULT, "c").address(Some(HERE)).detail("in"));
    // The socket of a connection that was reset no longer knows its address.
    recorder.record(at(3), event(3, FlightKind::Disconnected).client(TenantId::DEFAULT, "c").detail("out"));
    let subject = |text: &str| FlightSubject::Address(text.parse().unwrap());
    assert_eq!(details(&recorder.answer(&subject("192.0.2.0/24"), None)), ["", "in", "out"]);
    assert_eq!(recorder.answer(&subject("192.0.3.0/24"), None), FlightAnswer::default());
}

#[test]
fn a_recorder_that_is_off_records_nothing() {
    let mut recorder = Recorder::new(FlightSettings { entries: 0, ..FlightSettings::default() });
    recorder.record(at(1), event(1, FlightKind::Connected).client(TenantId::DEFAULT, "c"));
    assert_eq!((recorder.answer(&client("c"), None), recorder.counters()), Default::default());
}

proptest! {
    #[test]
    fn answers_are_in_order_and_everything_is_bounded(
        steps in prop::collection::vec((0_u8..30, 0_u64..600, any::<bool>()), 1..300), entries in 1_u32..20, subjects in 1_u32..5,
    ) {
        let settings = FlightSettings { entries, subjects, entries_per_subject: 3, per_second: 2 };
        let mut recorder = Recorder::new(settings);
        let mut now = at(0);
        for (name, step, message) in &steps {
            now = at(now.monotonic.0 + step);
            let kind = if *message { FlightKind::Dropped } else { FlightKind::Connected };
            recorder.record(now, event(now.monotonic.0, kind).client(TenantId::DEFAULT, &name.to_string()));
        }
        let counters = recorder.counters();
        prop_assert_eq!(counters.recorded + counters.suppressed, steps.len() as u64);
        for name in 0..30 {
            let answer = recorder.answer(&client(&name.to_string()), None);
            prop_assert!(answer.events.len() <= (entries + 3) as usize);
            prop_assert!(answer.events.is_sorted_by_key(|event| event.at));
        }
    }
}

#[test]
fn one_client_id_of_two_tenants_is_two_subjects() {
    let mut recorder = Recorder::new(FlightSettings { per_second: 1, ..FlightSettings::default() });
    for number in [1, 2] {
        recorder.record(at(1), event(1, FlightKind::Connected).client(TenantId(number), "dev"));
    }
    let tenants = |tenant: Option<TenantId>| -> Vec<Option<TenantId>> {
        recorder.answer(&client("dev"), tenant).events.iter().map(|event| event.tenant).collect()
    };
    assert_eq!(tenants(Some(TenantId(2))), [Some(TenantId(2))]);
    assert_eq!(tenants(None), [Some(TenantId(1)), Some(TenantId(2))], "each tenant has its own share of the ring");
    assert!(tenants(Some(TenantId(3))).is_empty());
}
