//! Logs with one writer: a later owner shuts the earlier one out.

use tidegate_bus::{Append, BusError, LogSpec, Position};

use crate::Deployment;
use crate::client::{Client, log, place, text};

pub(crate) fn an_owner_that_was_replaced_is_refused<D: Deployment>(deployment: &mut D) {
    let (old, new) = (Client(deployment.bus()), Client(deployment.bus()));
    let state = place("state", 1);
    for client in [&old, &new] {
        client.create(LogSpec::fenced(log("state"), 2)).unwrap();
    }
    let before = old.own(&state);
    old.append(&state, Append::new("old").by(before)).unwrap();
    let after = new.own(&state);
    assert!(after > before);
    // The old owner does not know, and appends three before it hears of the first.
    let late: Vec<_> = (0..3).map(|_| old.begin(&state, Append::new("late").by(before)).unwrap()).collect();
    for later in late {
        let outcome = later.wait();
        assert!(matches!(outcome, Err(BusError::Fenced { epoch, .. }) if epoch == before), "{outcome:?}");
    }
    new.append(&state, Append::new("new").by(after)).unwrap();
    assert_eq!(new.payloads(&state), ["old", "new"]);
    // It owns again, reads the missed records, and the other one is shut out.
    let again = old.own(&state);
    assert_eq!(old.reader(&state, Position::START).up_to(again.0).iter().map(text).collect::<Vec<_>>(), ["old", "new"]);
    assert!(matches!(new.append(&state, Append::new("late").by(after)), Err(BusError::Fenced { .. })));
    old.append(&state, Append::new("again").by(again)).unwrap();
    assert_eq!(new.payloads(&state), ["old", "new", "again"]);
    // Its other partition was nobody's, and is not touched by any of this.
    assert_eq!(new.payloads(&place("state", 0)), [""; 0]);
}

pub(crate) fn owners_in_turn_leave_no_gap_and_no_record_behind_the_next_claim<D: Deployment>(deployment: &mut D) {
    let clients = [Client(deployment.bus()), Client(deployment.bus())];
    for client in &clients {
        client.create(LogSpec::fenced(log("state"), 1)).unwrap();
    }
    let state = place("state", 0);
    let (mut begun, mut epochs) = (Vec::new(), Vec::new());
    for turn in 0..8 {
        let client = &clients[turn % 2];
        let epoch = client.own(&state);
        epochs.push(epoch);
        for number in 0..50 {
            let text = format!("{turn} {number}");
            begun.push((epoch, text.clone(), client.begin(&state, Append::new(text).by(epoch)).unwrap()));
        }
        // The next owner claims while these are under way.
    }
    let mut confirmed = Vec::new();
    for (epoch, text, later) in begun {
        match later.wait() {
            Ok(position) => confirmed.push((position, epoch, text)),
            Err(BusError::Fenced { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    let read: Vec<_> = clients[0].all(&state).iter().map(|record| (record.position, text(record))).collect();
    let expected: Vec<_> = confirmed.iter().map(|(position, _, text)| (*position, text.clone())).collect();
    assert_eq!(read, expected);
    for (turn, epoch) in epochs.iter().enumerate() {
        let own: Vec<_> = confirmed.iter().filter(|(_, by, _)| by == epoch).collect();
        // The stored records are the beginning of the owner's appends, between its claim and the next.
        assert!(own.iter().enumerate().all(|(number, (_, _, text))| *text == format!("{turn} {number}")), "{own:?}");
        let end = epochs.get(turn + 1).map_or(Position(u64::MAX), |next| next.0);
        assert!(own.iter().all(|(position, _, _)| *position > epoch.0 && *position < end), "{own:?}");
    }
    assert!(confirmed.iter().filter(|(_, by, _)| by == &epochs[7]).count() == 50);
}

pub(crate) fn an_owner_stores_nothing_after_a_refused_append<D: Deployment>(deployment: &mut D) {
    if !D::LIMITS_LOGS {
        return;
    }
    let client = Client(deployment.bus());
    client.create(LogSpec { max_bytes: 10_000, ..LogSpec::fenced(log("state"), 1) }).unwrap();
    let state = place("state", 0);
    let owner = client.own(&state);
    let sizes = [4_000, 9_000, 10, 10];
    let begun = sizes.map(|size| client.begin(&state, Append::new(vec![0; size]).by(owner)).unwrap());
    let outcomes = begun.map(super::client::Later::wait);
    assert!(outcomes[0].is_ok(), "{outcomes:?}");
    assert!(matches!(outcomes[1], Err(BusError::Full { .. })), "{outcomes:?}");
    assert!(outcomes[2..].iter().all(|outcome| matches!(outcome, Err(BusError::Fenced { .. }))), "{outcomes:?}");
    assert_eq!(client.all(&state).len(), 1);
    let again = client.own(&state);
    client.append(&state, Append::new("small").by(again)).unwrap();
}

pub(crate) fn trimming_takes_nothing_from_the_owner<D: Deployment>(deployment: &mut D) {
    let (client, other) = (Client(deployment.bus()), Client(deployment.bus()));
    for client in [&client, &other] {
        client.create(LogSpec::fenced(log("state"), 1)).unwrap();
    }
    let state = place("state", 0);
    client.own(&state);
    let owner = client.own(&state);
    let append = |text: &'static str| client.append(&state, Append::new(text).by(owner));
    let positions = ["0", "1", "2", "3"].map(|text| append(text).unwrap());
    other.trim(&state, positions[2]);
    append("4").unwrap();
    assert_eq!(other.payloads(&state), ["2", "3", "4"]);
    let late = client.reader(&state, positions[0]).take(1);
    assert!(matches!(late, Err(BusError::Trimmed { .. })), "{late:?}");
    // All of it, its own claim included.
    other.trim(&state, client.bounds(&state).next);
    assert_eq!(other.payloads(&state), [""; 0]);
    append("5").unwrap();
    assert_eq!(other.payloads(&state), ["5"]);
    let next = other.own(&state);
    assert!(matches!(append("late"), Err(BusError::Fenced { .. })));
    other.append(&state, Append::new("6").by(next)).unwrap();
    assert_eq!(client.payloads(&state), ["5", "6"]);
}
