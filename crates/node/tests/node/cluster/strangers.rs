//! A stranger is not admitted to the cluster, and no node of the cluster suffers from it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use tidegate_node::cluster::wire::{Frame, Hello, put_frame};
use tidegate_node::{ClusterView, LinkLimits, LinkState, Node, PeerNode, Secret};

use super::world::*;

fn peer(node: &str, incarnation: u64, address: SocketAddr) -> PeerNode {
    PeerNode { name: name(node), incarnation, address }
}

fn view(peers: Vec<PeerNode>) -> Arc<ClusterView> {
    Arc::new(ClusterView { peers, ..ClusterView::alone() })
}

/// Waits until the attempts of a node have failed in this way.
fn expect_failure(node: &Node, with: &str) {
    loop {
        let status = node.handle().cluster();
        assert_eq!(status.peers[0].state, LinkState::Dialing);
        match &status.peers[0].last_failure {
            Some(failure) if failure.contains(with) => return,
            _ => std::thread::yield_now(),
        }
    }
}

#[test]
fn a_node_with_another_secret_does_not_come_in() {
    let world = World::apart(&[("b", 1)], hasty());
    let mut settings = settings_of("a", 1, 1);
    let cluster = settings.cluster.as_mut().unwrap();
    cluster.secret = Secret::new(b"another secret of the tests").unwrap();
    cluster.limits = hasty();
    let a = Node::start(settings).unwrap();
    let (at_a, at_b) = (a.handle().cluster_address().unwrap(), world.nodes["b"].handle().cluster_address().unwrap());
    world.nodes["b"].handle().set_cluster(view(vec![peer("a", 1, at_a)])).unwrap();
    a.handle().set_cluster(view(vec![peer("b", 1, at_b)])).unwrap();
    expect_failure(&a, "another secret");
    world.wait("b", |status| status.refused > 0);
    assert_eq!((world.status("b").total.sessions, a.handle().cluster().total.sessions), (0, 0));
    world.expect_well();
}

#[test]
fn a_node_with_another_name_or_life_is_refused() {
    let world = World::apart(&[("a", 1), ("b", 1)], hasty());
    let at = |node: &str| world.nodes[node].handle().cluster_address().unwrap();
    let a = &world.nodes["a"];
    // It does not know who asks.
    a.handle().set_cluster(view(vec![peer("b", 1, at("b"))])).unwrap();
    expect_failure(a, "does not know this node");
    // It knows an earlier life of who asks.
    world.nodes["b"].handle().set_cluster(view(vec![peer("a", 7, at("a"))])).unwrap();
    expect_failure(a, "another process of this node");
    // The caller means another node.
    a.handle().set_cluster(view(vec![peer("c", 1, at("b"))])).unwrap();
    expect_failure(a, "another node answers");
    // Or another life of it.
    world.nodes["b"].handle().set_cluster(view(vec![peer("a", 1, at("a"))])).unwrap();
    a.handle().set_cluster(view(vec![peer("b", 2, at("b"))])).unwrap();
    expect_failure(a, "incarnation 1");
    a.handle().set_cluster(view(vec![peer("b", 1, at("b"))])).unwrap();
    world.settle();
}

#[test]
fn bytes_that_no_node_sends_end_the_connection_and_nothing_else() {
    let world = World::of(&[("a", 1), ("b", 1)]);
    let at = world.nodes["b"].handle().cluster_address().unwrap();
    let mut hello = Vec::new();
    put_frame(
        &Frame::Hello(Hello {
            nonce: [0; 32],
            name: name("a"),
            to: name("b"),
            incarnation: 1,
            shards: 1,
            monotonic: 0,
            unix: 0,
            continues: 0,
        }),
        &mut hello,
    );
    let mut proof = Vec::new();
    put_frame(&Frame::Proof([0; 32]), &mut proof);
    let garbage: [Vec<u8>; 6] = [
        b"GET / HTTP/1.1\r\nHost: b\r\n\r\n".to_vec(),
        crate::wire::connect("a"),
        vec![0; 1000],
        vec![0xff; 1000],
        [&hello[..], &proof].concat(),
        [&hello[..], &hello].concat(),
    ];
    // The other node may have connected before this one knew of it.
    let before = world.status("b").refused;
    for bytes in &garbage {
        let mut socket = TcpStream::connect(at).unwrap();
        socket.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        // It may be reset: not everything was read.
        let _ = socket.read_to_end(&mut answer);
    }
    world.wait("b", |status| status.refused == before + garbage.len() as u64);
    assert_eq!((world.link("a", "b").state, world.link("b", "a").state), (LinkState::Settled, LinkState::Settled));
    let mut subscriber = world.connect("b", "subscriber");
    subscribe_at(&mut subscriber, "t", 1);
    publish_and_wait(&mut world.connect("a", "publisher"), "t", b"x", 1, false);
    assert_eq!(receive_message(&mut subscriber).payload, "x");
    assert_eq!(world.status("b").total.resets, 0);
}

#[test]
fn who_says_nothing_is_not_waited_for() {
    let world = World::apart(&[("b", 1)], hasty());
    let at = world.nodes["b"].handle().cluster_address().unwrap();
    let mut silent: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(at).unwrap()).collect();
    for socket in &mut silent {
        let mut answer = Vec::new();
        // At once when there are too many, and otherwise when its time is over.
        let _ = socket.read_to_end(&mut answer);
        assert_eq!(answer, b"");
    }
    assert_eq!(world.status("b").refused, 40);
}

#[test]
fn an_unused_address_is_tried_again_and_again() {
    let world = World::apart(&[("a", 1)], hasty());
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    world.nodes["a"].handle().set_cluster(view(vec![peer("b", 1, unused)])).unwrap();
    world.wait("a", |status| status.total.failures >= 3);
    // It is there after all, elsewhere.
    let mut settings = settings_of("b", 1, 3);
    settings.cluster.as_mut().unwrap().limits = hasty();
    let b = Node::start(settings).unwrap();
    let at = |node: &Node| node.handle().cluster_address().unwrap();
    b.handle().set_cluster(view(vec![peer("a", 1, at(&world.nodes["a"]))])).unwrap();
    world.nodes["a"].handle().set_cluster(view(vec![peer("b", 1, at(&b))])).unwrap();
    world.wait("a", |status| status.peers[0].state == LinkState::Settled);
    let link = world.link("a", "b");
    assert_eq!((link.shards, link.counters.sessions), (Some(3), 1));
    world.wait("a", |status| status.peers[0].rtt_us.is_some());
    assert!(b.stop(Duration::from_secs(120)).drained);
}

#[test]
fn silent_connections_do_not_keep_a_node_out() {
    let limits = LinkLimits { handshake_timeout: Duration::from_secs(3_600), ..LinkLimits::default() };
    let mut world = World::apart(&[("a", 1), ("b", 1)], limits);
    let at = |node: &str| world.nodes[node].handle().cluster_address().unwrap();
    let addresses = [at("a"), at("b")];
    let _silent: Vec<_> =
        addresses.into_iter().flat_map(|at| (0..100).map(move |_| TcpStream::connect(at).unwrap())).collect();
    world.introduce();
    world.settle();
    world.expect_well();
}
