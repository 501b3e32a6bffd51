//! Servers that are killed and return.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tidegate_bus::{Append, BusError, Connection, LogSpec, Observer, Position, Settings, Subject};

use crate::client::{Client, PATIENCE, log, place, until};
use crate::{Outages, settings};

fn observer() -> (Observer, Receiver<Connection>) {
    let (sender, changes) = channel();
    let observer = Arc::new(move |connection| {
        let _ = sender.send(connection);
    });
    (observer, changes)
}

fn wait_for(changes: &Receiver<Connection>, connected: bool) {
    while changes.recv_timeout(PATIENCE).expect("a change of the connection").is_connected() != connected {}
}

pub(crate) fn appends_during_an_outage_are_stored_after_it<D: Outages>(deployment: &mut D) {
    let (observer, changes) = observer();
    let client = Client(deployment.bus_with(settings(), observer));
    client.create(LogSpec::shared(log("inbox"), 1)).unwrap();
    client.create(LogSpec::fenced(log("state"), 1)).unwrap();
    let (inbox, state) = (place("inbox", 0), place("state", 0));
    let owner = client.own(&state);
    wait_for(&changes, true);
    let (mut tail, live) = (client.reader(&state, Position::START), client.subscribe("live"));
    let append = |number: usize| {
        let text = format!("{number}");
        let shared = client.begin(&inbox, Append::new(text.clone())).unwrap();
        (shared, client.begin(&state, Append::new(text).by(owner)).unwrap())
    };
    // Some are confirmed, some are on their way when the servers die, some are appended during the outage.
    let mut begun: Vec<_> = (0..200).map(append).collect();
    deployment.kill();
    begun.extend((200..300).map(append));
    wait_for(&changes, false);
    begun.extend((300..400).map(append));
    assert!(client.0.waiting().0 >= 200);
    let subject = Subject::new("live").unwrap();
    let refused = client.0.publish(&subject, "x".into());
    assert!(matches!(refused, Err(BusError::Away { .. })), "{refused:?}");
    deployment.resume();
    wait_for(&changes, true);
    for (shared, fenced) in begun {
        shared.wait().unwrap();
        fenced.wait().unwrap();
    }
    let expected: Vec<String> = (0..400).map(|number| number.to_string()).collect();
    assert_eq!(client.payloads(&inbox), expected);
    assert_eq!(client.payloads(&state), expected);
    // Readers and subscriptions go on by themselves.
    let read = tail.take(400).unwrap();
    assert_eq!(read.iter().map(crate::client::text).collect::<Vec<_>>(), expected);
    until(&live.1, "a live message", || {
        // Servers that have just returned may be away once more.
        let sent = client.0.publish(&subject, "x".into());
        assert!(matches!(sent, Ok(()) | Err(BusError::Away { .. })), "{sent:?}");
        (!live.0.take(1).is_empty()).then_some(())
    });
}

pub(crate) fn a_late_append_fails_and_says_whether_it_may_be_stored<D: Outages>(deployment: &mut D) {
    let (observer, changes) = observer();
    let settings = Settings { max_waiting_time: Duration::from_secs(5), ..settings() };
    let client = Client(deployment.bus_with(settings, observer));
    client.create(LogSpec::fenced(log("state"), 1)).unwrap();
    let state = place("state", 0);
    let owner = client.own(&state);
    client.append(&state, Append::new("stored").by(owner)).unwrap();
    wait_for(&changes, true);
    deployment.kill();
    wait_for(&changes, false);
    let outcome = client.append(&state, Append::new("never sent").by(owner));
    assert!(matches!(outcome, Err(BusError::Away { .. })), "{outcome:?}");
    deployment.resume();
    wait_for(&changes, true);
    // The failure has ended the ownership.
    let outcome = client.append(&state, Append::new("late").by(owner));
    assert!(matches!(outcome, Err(BusError::Fenced { .. })), "{outcome:?}");
    assert_eq!(client.payloads(&state), ["stored"]);
    let again = client.own(&state);
    client.append(&state, Append::new("again").by(again)).unwrap();
}

pub(crate) fn a_member_that_does_not_reach_the_bus_gives_up_and_returns<D: Outages>(deployment: &mut D) {
    let client = Client(deployment.bus_with(settings(), Arc::new(|_| {})));
    let (membership, bell) = client.join("homes", "a", 4);
    until(&bell, "all partitions", || (membership.held().len() == 4).then_some(()));
    deployment.kill();
    until(&bell, "the end of the lease", || membership.held().is_empty().then_some(()));
    deployment.resume();
    until(&bell, "all partitions", || (membership.held().len() == 4).then_some(()));
}

pub(crate) fn a_bus_is_opened_while_its_servers_are_away<D: Outages>(deployment: &mut D) {
    deployment.kill();
    let (observer, changes) = observer();
    let client = Client(deployment.bus_with(settings(), observer));
    assert!(matches!(client.0.connection(), Connection::Connecting { .. }));
    let created = crate::client::ask(|done| client.0.create(LogSpec::shared(log("inbox"), 1), done)).unwrap();
    deployment.resume();
    created.wait().unwrap();
    wait_for(&changes, true);
    client.append(&place("inbox", 0), Append::new("x")).unwrap();
}
