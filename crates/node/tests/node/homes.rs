//! Clients reach their home shard, with everything that they have sent so far.

use tidegate_engine::{Reason, ShardId, ShardPosition, TenantId, partition_of};

use crate::wire::*;
use crate::{addresses, node};

/// A client id whose home is `shard` of two.
fn id_at(shard: u16, prefix: &str) -> String {
    let place = ShardPosition { shard: ShardId(0), shards: 2 };
    let at_home = |id: &String| place.home_of(partition_of(TenantId::DEFAULT, id)).0 == shard;
    (0..1000).map(|number| format!("{prefix}-{number}")).find(at_home).unwrap()
}

#[test]
fn packets_after_the_connect_move_along() {
    let node = node(2);
    let mut clients = Vec::new();
    for (address, prefix) in addresses(&node).iter().zip(["tcp", "unix", "web", "quic", "tls", "wss"]) {
        for shard in [0, 1] {
            let mut client = Client::dial(address);
            client.send(&[&connect(&id_at(shard, prefix))[..], &PINGREQ, &PINGREQ].concat());
            client.send(&PINGREQ);
            client.expect(&[&CONNACK[..], &PINGRESP, &PINGRESP, &PINGRESP].concat());
            clients.push(client);
        }
    }
    let report = node.handle().report().unwrap();
    // Each listener's shard hands over the client whose home is the other one.
    assert_eq!((report.shell.handed_over, report.shell.adopted), (6, 6));
    let at: Vec<u64> = report.shards.iter().map(|shard| shard.gauges.sessions_connected).collect();
    assert_eq!(at, [6, 6]);
}

#[test]
fn a_second_connection_takes_over_on_any_listener() {
    let node = node(2);
    let [tcp, unix, web, ..] = addresses(&node);
    for shard in [0, 1] {
        let id = id_at(shard, "twice");
        let first = Client::connect(&tcp, &id);
        let second = Client::connect(&unix, &id);
        assert_eq!(first.rest(), b"");
        let mut third = Client::connect(&web, &id);
        assert_eq!(second.rest(), b"");
        third.send(&PINGREQ);
        third.expect(&PINGRESP);
    }
}

#[test]
fn an_operator_closes_a_client_by_name_on_any_shard() {
    let node = node(2);
    let handle = node.handle();
    let [tcp, ..] = addresses(&node);
    for shard in [0, 1] {
        let id = id_at(shard, "unwanted");
        let disconnect = || handle.clients().disconnect_client(TenantId::DEFAULT, &id, Reason::AdministrativeAction);
        assert_eq!(disconnect(), Ok(false));
        let client = Client::connect(&tcp, &id);
        assert_eq!(disconnect(), Ok(true));
        assert_eq!(client.rest(), b"");
    }
}

#[test]
fn a_web_client_that_closes_at_once_is_closed_at_its_home_too() {
    let node = node(2);
    let [_, _, web, ..] = addresses(&node);
    for shard in [0, 1] {
        let mut client = Client::dial(&web);
        client.send_raw(&[frame(0x82, &connect(&id_at(shard, "hasty"))), frame(0x88, &[0x03, 0xe8])].concat());
        // The server ends the connection, for the client has said that it is done.
        let mut rest = Vec::new();
        client.socket().read_to_end(&mut rest).unwrap();
        assert!(rest.ends_with(&[0x88, 2, 0x03, 0xe8]), "{rest:02x?}");
    }
}
