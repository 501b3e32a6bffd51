//! Three servers of NATS that are one cluster.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_bus::{Append, BusError, LogSpec, Position, Settings};

use super::Nats;
use crate::client::{Client, log, place, text, until};
use crate::{Deployment, Outages, settings};

/// Free ports, all different.
fn free_ports<const N: usize>() -> [u16; N] {
    let listeners = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

/// Three servers with routes to each other. The first two become ready before the third exists.
fn three() -> [Nats; 3] {
    let routes = free_ports::<3>();
    let all = routes.map(|port| format!("nats://127.0.0.1:{port}")).join(",");
    [0, 1, 2].map(|number: usize| {
        Nats::start_with(|_| {
            let own = format!("nats://127.0.0.1:{}", routes[number]);
            let options =
                ["-js", "-n", &format!("n{number}"), "--cluster_name", "c", "--cluster", &own, "--routes", &all];
            options.map(ToOwned::to_owned).to_vec()
        })
    })
}

/// JetStream's answer to a request, JSON.
fn ask(nats: &Nats, subject: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", nats.port)).unwrap();
    let request = format!("CONNECT {{\"verbose\":false}}\r\nSUB answer 1\r\nPUB {subject} answer 0\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    lines.by_ref().find(|line| line.starts_with("MSG answer")).unwrap();
    lines.next().unwrap()
}

/// Creates a log with three copies. An election of three servers on a busy machine can outlast a request.
fn create(client: &Client) {
    let tries = (0..4).map(|_| client.create(LogSpec::shared(log("open"), 1)));
    let created = tries.into_iter().find(|outcome| !matches!(outcome, Err(BusError::Away { .. })));
    assert_eq!(created, Some(Ok(())), "no leader of JetStream in the time of four requests");
}

#[test]
fn three_servers_keep_three_copies_without_being_asked() {
    let mut servers = three();
    // One is named; it announces the others.
    let client = Client(servers[0].bus());
    create(&client);
    client.append(&place("open", 0), Append::new("kept")).unwrap();
    let streams = ask(&servers[1], "$JS.API.STREAM.LIST");
    assert!(streams.contains("\"num_replicas\":3"), "{streams}");
    servers[0].kill();
    let client = Client(servers[1].bus());
    create(&client);
    let mut reader = client.reader(&place("open", 0), Position::START);
    assert_eq!(reader.take(1).unwrap().iter().map(text).collect::<Vec<_>>(), ["kept"]);
}

/// A record, and how many of them a server misses: enough that it needs a while to get them.
const RECORD_BYTES: usize = 50_000;
const MISSED: u64 = 1_000;
/// Readers that begin meanwhile. A third of them reads at the server that lags.
const READERS: usize = 30;

#[test]
fn a_reader_at_a_replica_that_lags_misses_nothing() {
    let mut servers = three();
    let client = Client(servers[0].bus());
    create(&client);
    let (log, place) = (LogSpec::fenced(log("fenced"), 1), place("fenced", 0));
    client.create(log).unwrap();
    servers[2].kill();
    let epoch = client.own(&place);
    let append = || client.begin(&place, Append::new(vec![7; RECORD_BYTES]).by(epoch)).unwrap();
    let appended: Vec<_> = (0..MISSED).map(|_| append()).collect();
    let last = appended.into_iter().map(|outcome| outcome.wait().unwrap()).last().unwrap();
    servers[2].resume();
    let mut readers: Vec<_> = (0..READERS).map(|_| client.reader(&place, last)).collect();
    for reader in &mut readers {
        assert_eq!(reader.take(1).map(|records| records[0].position), Ok(last));
    }
}

/// Servers without a leader elect another one after 4 to 9 s, counted from the last word of it.
const SHORT_LEASE: Duration = Duration::from_secs(6);
/// The stream of the group that the test joins.
const GROUP_STREAM: &str = "$JS.API.STREAM.INFO.tidegate_group-nodes_0";

#[test]
fn members_outlast_the_election_of_another_leader() {
    let mut servers = three();
    create(&Client(servers[0].bus()));
    let short = || Settings { lease: SHORT_LEASE, ..settings() };
    let clients = servers.each_ref().map(|server| Client(server.bus_with(short(), Arc::new(|_| {}))));
    let members: Vec<_> =
        clients.iter().zip(["a", "b", "c"]).map(|(client, name)| client.join("nodes", name, 1)).collect();
    for (membership, bell) in &members {
        until(bell, "all members", || (membership.tenure().is_some() && membership.members().len() == 3).then_some(()));
    }
    let stream = ask(&servers[0], GROUP_STREAM);
    let leader = (0..3).find(|number| stream.contains(&format!("\"leader\":\"n{number}\""))).expect("a leader");
    let before: u64 = members.iter().map(|(membership, _)| membership.losses()).sum();
    servers[leader].kill();
    let killed = Instant::now();
    for (membership, bell) in &members {
        until(bell, "a lease that began after the election", || {
            membership.tenure().filter(|tenure| tenure.until > killed + SHORT_LEASE).map(drop)
        });
    }
    let after: u64 = members.iter().map(|(membership, _)| membership.losses()).sum();
    assert_eq!(after, before, "none could give another one up, and each continues");
}

#[test]
fn one_server_keeps_one_copy() {
    let server = Nats::start();
    let client = Client(server.bus());
    client.create(LogSpec::shared(log("open"), 1)).unwrap();
    let streams = ask(&server, "$JS.API.STREAM.LIST");
    assert!(streams.contains("\"num_replicas\":1"), "{streams}");
}
