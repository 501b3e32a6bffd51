//! A broker that runs out of files. In its own process, since the limit is the whole process's.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::TcpStream;

use socket2::{Domain, Socket, Type};
use tidegate_node::{Node, NodeSettings};

const CONNECT: &[u8] = b"\x10\x0c\0\x04MQTT\x04\x02\0\0\0\0";
const CONNACK: [u8; 4] = [0x20, 2, 0, 0];

/// The limit that leaves room for this number of further files. It bounds the highest descriptor, not the count.
fn limit_for(files: usize) -> u64 {
    let open: HashSet<u64> = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|file| file.unwrap().file_name().to_str()?.parse().ok())
        .collect();
    // Listing the folder opens it, and its number is free again afterwards; the limit itself is the first that is not.
    let free = (0..).filter(|number| !open.contains(number));
    free.take(files).last().unwrap()
}

fn try_connect(stream: &mut TcpStream) -> bool {
    let mut answer = [0; 4];
    let answered = stream.write_all(CONNECT).and_then(|()| stream.read_exact(&mut answer)).is_ok();
    assert!(!answered || answer == CONNACK);
    answered
}

/// Clients beyond the limit are refused or wait; connected ones are not affected, and when some leave, others are
/// accepted.
#[test]
fn accepting_survives_the_limit_of_open_files() {
    let node = Node::start(NodeSettings::new("127.0.0.1:0".parse().unwrap())).unwrap();
    let address = node.local_addresses()[0].socket().unwrap();
    // A shard that answers has opened all that it needs.
    node.handle().report().unwrap();
    // Room for three connections and for the client's ends of six.
    let limit = limit_for(3 + 6);
    rlimit::setrlimit(rlimit::Resource::NOFILE, limit, limit).unwrap();
    // All of the clients' sockets exist before the first one is accepted, so that just three places are left.
    let sockets: Vec<Socket> = (0..6).map(|_| Socket::new(Domain::IPV4, Type::STREAM, None).unwrap()).collect();
    let connected = |socket: Socket| {
        socket.connect(&address.into()).unwrap();
        TcpStream::from(socket)
    };
    let mut clients: Vec<TcpStream> = sockets.into_iter().map(connected).collect();
    let mut inside: Vec<TcpStream> = Vec::new();
    let mut outside = Vec::new();
    // The first three come in; the fourth is turned away.
    for mut client in clients.drain(..4) {
        if try_connect(&mut client) {
            inside.push(client);
        } else {
            outside.push(client);
        }
    }
    assert_eq!((inside.len(), outside.len()), (3, 1));
    assert!(node.handle().report().unwrap().shell.accept_exhausted >= 1);
    for client in &mut inside {
        client.write_all(&[0xc0, 0]).unwrap();
        let mut answer = [0; 2];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(answer, [0xd0, 0]);
    }
    // Waiting clients get the slots of departed ones.
    inside.truncate(1);
    for mut client in clients {
        assert!(try_connect(&mut client));
    }
}
