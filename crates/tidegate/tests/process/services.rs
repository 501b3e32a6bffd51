//! `tidegate core`: when it is ready, its messages until then, and its end.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::mpsc::{TryRecvError, channel};
use std::time::Instant;

use crate::broker::{Broker, Folder, PATIENCE, command, get, pause, run};
use crate::context::{GROUPS, gateway, retained};
use crate::nats::Nats;
use crate::ports::free_port;

/// Asks whether a process is ready until it answers like this.
fn until_it_says(admin: &str, code: &str, words: &[&str]) {
    let (began, mut last) = (Instant::now(), String::new());
    loop {
        if let Ok((answered, body)) = get(admin, "/readyz") {
            if answered == code && words.iter().all(|word| body.contains(word)) {
                return;
            }
            last = body;
        }
        assert!(began.elapsed() < PATIENCE, "{code} {words:?}: {last}");
        pause(20);
    }
}

#[test]
fn services_are_ready_with_their_bus_and_name_it_until_then() {
    let mut nats = Nats::start();
    nats.kill();
    let bus = nats.address();
    let admin = format!("127.0.0.1:{}", free_port());
    let set = ["--set", "context.partitions=4", "--set", "context.lease=1s"];
    let named = ["core", "--bus", &bus, "--groups", GROUPS, "--member", "c1", "--admin", &admin];
    let mut core = command(&[&named[..], &set].concat()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let (tell, said) = channel();
    let lines = BufReader::new(core.stdout.take().unwrap()).lines();
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| drop(tell.send(line))));
    until_it_says(&admin, "503", &["starting: points, groups-city wait for the bus nats://127", "nothing listens"]);
    assert_eq!(said.try_recv(), Err(TryRecvError::Empty), "it does not report that it is ready");
    // A supervisor that asks whether it is alive does not end its start.
    assert_eq!(run(&["ready", "--alive", "--admin", &admin]).out, "alive\n");
    assert_eq!(run(&["ready", "--admin", &admin]).code, Some(1));
    nats.resume();
    let ready = said.recv_timeout(PATIENCE).unwrap();
    assert!(ready.contains(" ready: core=c1 services=points,groups-city admin=http://127"), "{ready}");
    until_it_says(&admin, "200", &["ready"]);
    let (_, metrics) = get(&admin, "/metrics").unwrap();
    assert!(metrics.contains("tidegate_context_evaluations_total 0\n"), "{metrics}");
    // Without its bus it is not, until that is back.
    nats.kill();
    until_it_says(&admin, "503", &["points, groups-city wait for the bus"]);
    nats.resume();
    until_it_says(&admin, "200", &["ready"]);
    // Data made with another number of partitions cannot be used, however long one waits.
    let ended = run(&["core", "--bus", &bus, "--set", "context.partitions=8"]);
    assert_eq!(ended.code, Some(1), "{}", ended.err);
    let words = ["the bus nats://127", "another number of partitions"];
    assert!(words.iter().all(|word| ended.err.contains(word)) && ended.out.is_empty(), "{}", ended.err);
    let _ = (core.kill(), core.wait());
}

#[test]
fn services_that_have_nothing_to_do_are_refused() {
    let ended = run(&["core", "--bus", "nats://127.0.0.1:1", "--services", "groups"]);
    assert_eq!(ended.code, Some(2), "{}", ended.err);
    assert!(ended.err.contains("name a file of them with --groups"), "{}", ended.err);
}

#[test]
fn another_manager_takes_over_at_once_when_one_is_stopped() {
    let (nats, folder) = (Nats::start(), Folder::new());
    let rest = format!("bus = '{}'\npartitions = 4\nservices = 'elsewhere'\n", nats.address());
    let first_gateway = gateway(&folder, "a", &rest);
    let core = |name: &str| {
        // Longer than anything here is waited for.
        let set = ["--set", "context.partitions=4", "--set", "context.cycle=100ms", "--set", "context.lease=10m"];
        let bus = nats.address();
        Broker::start_with(&[&["core", "--services", "points", "--bus", &bus, "--member", name][..], &set].concat())
    };
    let (manages, _stands_by) = (core("m1"), core("m2"));
    retained(&first_gateway, "ctx/gateways");
    manages.signal("TERM");
    assert_eq!(manages.wait().code, Some(0));
    let another = gateway(&folder, "b", &rest);
    let began = Instant::now();
    while !retained(&another, "ctx/gateways").contains("\"name\":\"b\"") {
        assert!(began.elapsed() < PATIENCE, "no manager is active");
        pause(20);
    }
}
