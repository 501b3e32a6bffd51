//! Appends: arrival, order, and refusals.

use tidegate_bus::{Append, BusError, LogSpec, Position};

use crate::client::{Client, Later, ask, log, place};
use crate::{Deployment, settings};

pub(crate) fn records_are_read_as_they_were_appended<D: Deployment>(deployment: &mut D) {
    let client = Client(deployment.bus());
    client.create(LogSpec::shared(log("inbox"), 3)).unwrap();
    let plain = Append::new("only a payload");
    let binary = Append::new((0..=255).collect::<Vec<u8>>()).with_key((0..=255).rev().collect::<Vec<u8>>());
    let rich =
        Append::new("").with_key("key").with_header("QoS", "1").with_header("user", "ä: b").with_header("user", "");
    let appends = [plain, binary, rich];
    let inbox = place("inbox", 2);
    let positions = appends.clone().map(|append| client.append(&inbox, append).unwrap());
    assert!(positions.is_sorted_by(|one, two| one < two), "{positions:?}");
    let records = Client(deployment.bus());
    records.create(LogSpec::shared(log("inbox"), 3)).unwrap();
    let records = records.all(&inbox);
    assert_eq!(records.len(), 3);
    for ((record, append), position) in records.iter().zip(&appends).zip(positions) {
        assert_eq!((&record.key, &record.headers, &record.payload), (&append.key, &append.headers, &append.payload));
        assert_eq!(record.position, position);
    }
    assert_eq!(client.all(&place("inbox", 1)), []);
}

pub(crate) fn appends_without_a_waiter_are_in_order<D: Deployment>(deployment: &mut D) {
    let client = Client(deployment.bus());
    client.create(LogSpec::shared(log("inbox"), 1)).unwrap();
    let inbox = place("inbox", 0);
    let expected: Vec<String> = (0..1_000).map(|number| number.to_string()).collect();
    let begun: Vec<_> = expected.iter().map(|text| client.begin(&inbox, Append::new(text.clone())).unwrap()).collect();
    let positions: Vec<Position> = begun.into_iter().map(|later| later.wait().unwrap()).collect();
    assert!(positions.is_sorted_by(|one, two| one < two));
    assert_eq!(client.payloads(&inbox), expected);
    assert_eq!(client.0.waiting(), (0, 0));
}

pub(crate) fn an_impossible_append_is_refused_at_once<D: Deployment>(deployment: &mut D) {
    let client = Client(deployment.bus());
    client.create(LogSpec::shared(log("inbox"), 1)).unwrap();
    client.create(LogSpec::shared(log("keyed"), 1).latest_of_key()).unwrap();
    client.create(LogSpec::fenced(log("state"), 1)).unwrap();
    let epoch = client.own(&place("state", 0));
    let refused = |name: &str, append: Append| client.begin(&place(name, 0), append).err();
    let plain = Append::new("x");
    assert!(matches!(refused("other", plain.clone()), Some(BusError::Unknown(_))));
    assert!(matches!(client.begin(&place("inbox", 1), plain.clone()).err(), Some(BusError::Unknown(_))));
    assert!(matches!(refused("state", plain.clone()), Some(BusError::NoEpoch(_))));
    assert!(matches!(refused("inbox", plain.clone().by(epoch)), Some(BusError::NotFenced(_))));
    assert!(matches!(ask(|done| client.0.own(&place("inbox", 0), done)).err(), Some(BusError::NotFenced(_))));
    assert!(matches!(refused("keyed", plain.clone()), Some(BusError::Malformed(_))));
    assert!(matches!(refused("inbox", plain.clone().with_key("x".repeat(1_025))), Some(BusError::Malformed(_))));
    assert!(matches!(refused("inbox", plain.clone().with_header("a b", "")), Some(BusError::Malformed(_))));
    assert!(matches!(refused("inbox", plain.clone().with_header("a", "\r\n")), Some(BusError::Malformed(_))));
    assert!(matches!(refused("inbox", plain.with_header("Nats-Msg-Id", "1")), Some(BusError::Malformed(_))));
    let max = settings().max_record_bytes;
    assert!(matches!(refused("inbox", Append::new(vec![0; max + 1])), Some(BusError::TooLarge { .. })));
    client.append(&place("inbox", 0), Append::new(vec![0; max])).unwrap();
    assert!(matches!(client.create(LogSpec::shared(log("group-a"), 1)), Err(BusError::Malformed(_))));
    assert!(matches!(client.create(LogSpec::shared(log("a"), 0)), Err(BusError::Range { .. })));
}

pub(crate) fn too_much_waiting_is_refused_at_once<D: Deployment>(deployment: &mut D) {
    let client = Client(deployment.bus());
    client.create(LogSpec::shared(log("inbox"), 1)).unwrap();
    let (mut begun, mut refused) = (Vec::new(), 0);
    let (inbox, record) = (place("inbox", 0), vec![0; settings().max_record_bytes]);
    // More than may wait: a bus that confirms slower than this goes round refuses some, and keeps all that it took.
    for _ in 0..200 {
        match client.begin(&inbox, Append::new(record.clone())) {
            Ok(later) => begun.push(later),
            Err(BusError::Waiting { limit, value }) => {
                assert_eq!((limit, value), ("max_waiting_bytes", settings().max_waiting_bytes));
                refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
        assert!(client.0.waiting().1 <= settings().max_waiting_bytes);
    }
    let confirmed = begun.len();
    for later in begun {
        later.wait().unwrap();
    }
    assert_eq!(confirmed + refused, 200);
    assert_eq!(client.bounds(&inbox).next.0 - client.bounds(&inbox).first.0, confirmed as u64);
    assert_eq!(client.0.waiting(), (0, 0));
}

pub(crate) fn a_full_partition_refuses_until_it_is_trimmed<D: Deployment>(deployment: &mut D) {
    if !D::LIMITS_LOGS {
        return;
    }
    let client = Client(deployment.bus());
    client.create(LogSpec { max_records: 3, ..LogSpec::shared(log("inbox"), 2) }).unwrap();
    let inbox = place("inbox", 0);
    let positions = [(); 3].map(|()| client.append(&inbox, Append::new("x")).unwrap());
    let full = client.append(&inbox, Append::new("x"));
    assert!(matches!(full, Err(BusError::Full { .. })), "{full:?}");
    client.append(&place("inbox", 1), Append::new("x")).unwrap();
    client.trim(&inbox, positions[1]);
    client.append(&inbox, Append::new("x")).unwrap();
    assert!(matches!(client.append(&inbox, Append::new("x")), Err(BusError::Full { .. })));
    client.create(LogSpec { max_records: 4, ..LogSpec::shared(log("inbox"), 2) }).unwrap();
    client.append(&inbox, Append::new("x")).unwrap();
}

pub(crate) fn a_log_keeps_the_kind_it_was_made_with<D: Deployment>(deployment: &mut D) {
    let client = Client(deployment.bus());
    client.create(LogSpec::shared(log("inbox"), 2)).unwrap();
    client.append(&place("inbox", 1), Append::new("x")).unwrap();
    let other = Client(deployment.bus());
    other.create(LogSpec::shared(log("inbox"), 2)).unwrap();
    assert_eq!(other.payloads(&place("inbox", 1)), ["x"]);
    for spec in [LogSpec::shared(log("inbox"), 3), LogSpec::shared(log("inbox"), 2).latest_of_key()] {
        let refused = other.create(spec);
        assert!(matches!(refused, Err(BusError::Mismatch { .. })), "{refused:?}");
    }
}

pub(crate) fn logs_created_together_are_judged_separately<D: Deployment>(deployment: &mut D) {
    let client = Client(deployment.bus());
    client.create(LogSpec::shared(log("first"), 2)).unwrap();
    let specs = [
        LogSpec::shared(log("first"), 3),
        LogSpec::shared(log("second"), 1),
        LogSpec::shared(log("second"), 1),
        LogSpec::fenced(log("third"), 2).latest_of_key(),
    ];
    let asked = specs.map(|spec| ask(|done| client.0.create(spec, done)).unwrap());
    let outcomes = asked.map(Later::wait);
    assert!(matches!(outcomes, [Err(BusError::Mismatch { .. }), Ok(()), Ok(()), Ok(())]), "{outcomes:?}");
    client.append(&place("second", 0), Append::new("x")).unwrap();
    assert_eq!(client.payloads(&place("second", 0)), ["x"]);
    let third = place("third", 1);
    let owner = client.own(&third);
    client.append(&third, Append::new("y").with_key("k").by(owner)).unwrap();
    assert_eq!(client.payloads(&third), ["y"]);
}
