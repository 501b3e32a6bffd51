//! Clients that change their address or port.

use std::io::{Read, Write};

use tidegate_engine::{ShardId, ShardPosition, TenantId, partition_of};
use tidegate_node::{Ban, BanOrigin, BanTarget, LocalAddress};

use super::{dial, over, report_when, start};
use crate::wire::*;

/// Messages that a moving client sends.
const MESSAGES: usize = 300;
/// The most messages in flight.
const UNDER_WAY: usize = 20;

/// A client id whose home is `shard` of two.
fn id_at(shard: u16) -> String {
    let place = ShardPosition { shard: ShardId(0), shards: 2 };
    let at_home = |id: &String| place.home_of(partition_of(TenantId::DEFAULT, id)).0 == shard;
    (0..1000).map(|number| format!("moving-{number}")).find(at_home).unwrap()
}

/// The PUBLISH packet with this number, as the publisher sends it and as the reader gets it.
fn message(number: usize) -> (Vec<u8>, Vec<u8>) {
    let payload = [&number.to_be_bytes()[..], &[7; 2_000]].concat();
    (publish_qos1("moves", &payload), publish("moves", &payload))
}

/// The client moves while messages and acknowledgements are in flight in both directions: to other ports, and to other
/// addresses. Each message arrives once and in order, with the client on any shard.
#[test]
fn a_client_that_moves_while_it_publishes_loses_nothing() {
    for shard in [0, 1] {
        let (node, at) = start(2);
        let mut reader = Client::connect(&LocalAddress::Quic(at), "reader");
        reader.send(&subscribe("moves"));
        reader.expect(&SUBACK);
        let mut moving = dial(at);
        moving.write_all(&connect(&id_at(shard))).unwrap();
        let mut connack = [0; 4];
        moving.read_exact(&mut connack).unwrap();
        let mut acknowledged = [0; 4];
        for number in 0..MESSAGES {
            moving.write_all(&message(number).0).unwrap();
            if number >= UNDER_WAY {
                moving.read_exact(&mut acknowledged).unwrap();
                assert_eq!(acknowledged, PUBACK);
            }
            if number % 50 == 25 {
                // The last write may not have been sent, and datagrams to the former port are lost.
                moving.rebind([127, 0, 0, 1 + (number / 100) as u8].into());
            }
        }
        for _ in 0..UNDER_WAY {
            moving.read_exact(&mut acknowledged).unwrap();
            assert_eq!(acknowledged, PUBACK);
        }
        for number in 0..MESSAGES {
            reader.expect(&message(number).1);
        }
        let shell = node.handle().report().unwrap().shell;
        assert!(shell.quic_moved >= 6, "moved {} times", shell.quic_moved);
        assert_eq!((shell.quic_begun, shell.quic_failed), (2, 0), "no new connection was made");
    }
}

/// A reader that moves without sending gets its pending messages with its next packet.
#[test]
fn a_client_that_moves_while_it_receives_loses_nothing() {
    let (_node, at) = start(2);
    let mut reader = dial(at);
    reader.write_all(&[connect("reader"), subscribe("moves")].concat()).unwrap();
    let mut answers = [0; 9];
    reader.read_exact(&mut answers).unwrap();
    let mut writer = Client::connect(&LocalAddress::Quic(at), "writer");
    for number in 0..MESSAGES {
        let (sent, expected) = message(number);
        writer.send(&sent);
        writer.expect(&PUBACK);
        if number % 30 == 15 {
            reader.rebind([127, 0, 0, 2 + (number / 100) as u8].into());
        }
        let mut received = vec![0; expected.len()];
        reader.read_exact(&mut received).unwrap();
        assert!(received == expected, "message {number}");
    }
}

/// Moving is no way round a ban.
#[test]
fn who_moves_to_a_banned_address_is_out() {
    let (node, at) = start(2);
    let ban = Ban {
        target: BanTarget::Address("127.0.0.9/32".parse().unwrap()),
        reason: "a test".into(),
        origin: BanOrigin::Operator,
        since: 0,
        until: tidegate_engine::Millis::NEVER,
    };
    node.handle().clients().ban(ban).unwrap();
    let mut stays = over(dial(at), "stays");
    let mut moves = dial(at);
    moves.write_all(&connect("moves")).unwrap();
    moves.read_exact(&mut [0; 4]).unwrap();
    moves.rebind([127, 0, 0, 9].into());
    moves.write_all(&PINGREQ).unwrap();
    moves.wait_lost();
    report_when(&node, |report| report.gauges.connections == 1);
    stays.send(&PINGREQ);
    stays.expect(&PINGRESP);
}
