//! Sessions of one node, without its thread: the state that each end of a session leaves behind.

use std::net::{SocketAddr, TcpListener as Listener};
use std::sync::Arc;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Poll, Waker};
use tidegate_engine::{Millis, ShardId};

use super::handshake::PeerInfo;
use super::indirect::Indirect;
use super::links::Links;
use super::loss::Loss;
use super::session::{Phase, Session};
use super::slots::SessionId;
use super::to_links::{LinksSender, WAKER};
use super::wire::{Frame, MAX_FRAME_BYTES, Part, Portion, put_frame, split_frame};
use super::{ClusterSettings, ClusterView, NodeName, PeerNode};
use crate::clock::Clock;
use crate::inbox::inbox;
use crate::secret::Secret;

fn name(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

fn who(node: &str) -> PeerInfo {
    PeerInfo { name: name(node), incarnation: 1, shards: 1, shift: 0, skew: 0, continues: 0 }
}

/// The links of the node `a`, without other nodes.
pub(super) fn links() -> (Links, LinksSender) {
    let poll = Poll::new().unwrap();
    let (sender, inbox) = inbox(Waker::new(poll.registry(), WAKER).unwrap());
    let any = "127.0.0.1:0".parse().unwrap();
    let secret = Secret::new(b"a secret of the tests").unwrap();
    let settings = ClusterSettings::new(name("a"), 1, any, secret);
    let listener = TcpListener::bind(any).unwrap();
    (Links::new(poll, inbox, listener, settings, Clock::start(), Vec::new()), sender)
}

/// The node `a` of a cluster with `b` and `c`. Connections to them are taken by the system, and nothing answers.
struct World {
    links: Links,
    address: SocketAddr,
    _others: Listener,
}

impl World {
    fn new() -> Self {
        let others = Listener::bind("127.0.0.1:0").unwrap();
        let address = others.local_addr().unwrap();
        let (mut links, _) = links();
        let peers = ["b", "c"].map(|node| PeerNode { name: name(node), incarnation: 1, address });
        links.set_view(Arc::new(ClusterView { peers: peers.to_vec(), ..ClusterView::alone() }));
        Self { links, address, _others: others }
    }

    fn admit(&mut self, node: &str, mut session: Session) -> SessionId {
        session.phase = Phase::Seating(who(node));
        let id = self.links.table.next_number();
        self.links.meet(id, &who(node)).unwrap();
        self.links.take_seats(id, &mut session).unwrap();
        assert!(matches!(session.phase, Phase::Open(_)));
        self.links.table.sessions.insert(id, session);
        id
    }

    /// An open session over a connection.
    fn link(&mut self, node: &str) -> SessionId {
        let stream = TcpStream::connect(self.address).unwrap();
        let session = Session::new(stream, None, self.address, Phase::Merging(who(node)), Millis::NEVER);
        self.admit(node, session)
    }

    /// An open session that another node carries.
    fn link_through(&mut self, node: &str, through: &str, number: u64) -> SessionId {
        let carrier = self.links.table.peers[&name(through)].session.unwrap();
        let indirect = Indirect::new(carrier, name(through), name(node), number);
        let session = Session::carried(indirect, self.address, Phase::Merging(who(node)), Millis::NEVER);
        self.admit(node, session)
    }

    fn turn(&mut self) {
        self.links.turn(&Events::with_capacity(1));
    }

    /// The session with a node, and the attempt at a direct connection.
    fn of(&self, node: &str) -> (Option<SessionId>, Option<SessionId>) {
        let peer = &self.links.table.peers[&name(node)];
        (peer.session, peer.probe)
    }

    /// `b` with an indirect session, and an attempt at a direct connection.
    fn probing() -> (Self, SessionId, SessionId) {
        let mut world = Self::new();
        world.link("c");
        let indirect = world.link_through("b", "c", 7);
        world.turn();
        let (session, probe) = world.of("b");
        assert_eq!(session, Some(indirect));
        (world, indirect, probe.unwrap())
    }

    /// Works frames of a session that is out of the table meanwhile.
    fn work<T>(&mut self, id: SessionId, work: impl FnOnce(&mut Links, &mut Session) -> T) -> T {
        let mut session = self.links.table.sessions.remove(&id).unwrap();
        let outcome = work(&mut self.links, &mut session);
        self.links.table.sessions.insert(id, session);
        outcome
    }
}

#[test]
fn a_probe_becomes_the_attempt_when_its_session_ends() {
    let (mut world, indirect, probe) = World::probing();
    world.links.lose_session(indirect, &Loss::Closed);
    assert_eq!(world.of("b"), (Some(probe), None));
    world.turn();
    assert_eq!(world.of("b"), (Some(probe), None), "one attempt at a time");
    assert_eq!(world.links.table.sessions.len(), 2);
    world.links.lose_session(probe, &Loss::Closed);
    assert_eq!(world.of("b"), (None, None));
    assert!(world.links.table.peers[&name("b")].goes_around);
}

#[test]
fn a_probe_that_becomes_the_session_is_no_probe_any_more() {
    let (mut world, indirect, probe) = World::probing();
    world.work(probe, |links, session| {
        links.meet(probe, &who("b")).unwrap();
        session.phase = Phase::Seating(who("b"));
    });
    assert_eq!(world.of("b"), (Some(probe), None));
    assert!(!world.links.table.sessions.contains_key(&indirect));
    world.links.lose_session(probe, &Loss::Numbers(1));
    assert_eq!(world.of("b"), (None, None), "it is dialed again");
}

#[test]
fn another_session_of_a_node_ends_the_probe_too() {
    let (mut world, indirect, probe) = World::probing();
    let session = world.link("b");
    assert_eq!(world.of("b"), (Some(session), None));
    for id in [indirect, probe] {
        assert!(!world.links.table.sessions.contains_key(&id));
    }
}

#[test]
fn own_messages_that_wait_leave_carried_sessions_alone() {
    let mut world = World::new();
    let (from, to) = (world.link("b"), world.link("c"));
    let limit = 4_000;
    let Phase::Open(open) = &world.links.table.sessions[&to].phase else { panic!("it is open") };
    open.outbox.note_added(3_000);
    let portion = Portion { node: name("c"), number: 7, part: Part::Data, body: &[0; 600] };
    let carry = |world: &mut World| {
        world.work(from, |links, session| {
            links.table.carry(session, &portion, limit).unwrap();
            session.counters.carried_bytes
        })
    };
    let carried: Vec<u64> = (0..4).map(|_| carry(&mut world)).collect();
    assert_eq!(carried, [600, 1_200, 1_200, 1_200], "a quarter of the limit is for carried bytes");
    let said = world.links.table.sessions[&from].left().to_vec();
    let (frame, _) = split_frame(&said, MAX_FRAME_BYTES).unwrap().unwrap();
    assert_eq!(frame, Frame::Carried(Portion::empty(name("c"), 7, Part::NoRoom)));
    let target = world.links.table.sessions.get_mut(&to).unwrap();
    target.advance(Millis(0), target.left().len());
    assert_eq!(carry(&mut world), 1_800, "there is room again");
}

#[test]
fn a_carrier_without_room_is_not_asked_again_at_once() {
    let mut world = World::new();
    let carrier = world.link("c");
    world.link_through("b", "c", 7);
    let portion = Portion::empty(name("b"), 7, Part::NoRoom);
    world.work(carrier, |links, session| {
        let own = name("a");
        links.table.take_carried(carrier, session, &portion, &own, 1_000, Millis::NEVER).unwrap();
    });
    world.links.with_sessions(|_, _, _| Ok(()));
    assert_eq!(world.of("b"), (None, None), "the session has ended");
    let (now, wait) = (world.links.now.monotonic, world.links.limits.retry_longest.as_millis() as u64);
    let carriers = |at: Millis| world.links.table.carriers(&name("b"), at);
    assert_eq!(carriers(now), []);
    assert_eq!(carriers(now.plus(wait)), [(carrier, name("c"))]);
}

#[test]
fn a_session_that_is_worked_is_not_left_out_when_another_ends() {
    let mut world = World::new();
    let carrier = world.link("c");
    let indirect = world.link_through("b", "c", 7);
    for part in [Part::End, Part::Unreachable] {
        let portion = Portion::empty(name("b"), 7, part);
        let rosters = world.links.rosters.last();
        world.work(carrier, |links, session| {
            let own = name("a");
            links.table.take_carried(carrier, session, &portion, &own, 1_000, Millis::NEVER).unwrap();
            assert_eq!(links.rosters.last(), rosters, "rosters without the worked session are not given");
        });
        assert!(world.links.table.sessions.contains_key(&indirect) && !world.links.may_sleep());
    }
    world.links.with_sessions(|_, _, _| Ok(()));
    assert!(!world.links.table.sessions.contains_key(&indirect));
    assert_eq!(world.links.slots.holder(ShardId(0)), Some(carrier));
}

#[test]
fn carried_bytes_are_read_before_the_end_counts() {
    let mut world = World::new();
    let carrier = world.link("c");
    let indirect = world.link_through("b", "c", 7);
    let mut said = Vec::new();
    put_frame(&Frame::Goodbye, &mut said);
    for (part, body) in [(Part::Data, &said[..]), (Part::End, &[])] {
        let portion = Portion { body, ..Portion::empty(name("b"), 7, part) };
        world.work(carrier, |links, session| {
            let own = name("a");
            links.table.take_carried(carrier, session, &portion, &own, 1_000, Millis::NEVER).unwrap();
        });
    }
    world.links.with_sessions(|_, _, _| Ok(()));
    assert!(world.links.table.sessions.contains_key(&indirect) && !world.links.may_sleep());
    let read = world.work(indirect, |_, session| session.read(&mut [0; 100]).unwrap());
    assert_eq!(read, Some(said.len()));
    world.links.with_sessions(Links::serve);
    assert!(!world.links.table.sessions.contains_key(&indirect), "it ends behind its last byte");
}

#[test]
fn a_node_carries_a_link_once_the_link_is_open() {
    let mut world = World::new();
    world.link("c");
    let indirect = world.link_through("b", "c", 7);
    let through =
        |world: &mut World| world.links.status().peers.into_iter().find(|peer| peer.name == name("b")).unwrap().through;
    assert_eq!(through(&mut world), Some(name("c")));
    world.work(indirect, |_, session| session.phase = Phase::Seating(who("b")));
    assert_eq!(through(&mut world), None, "an attempt is no link");
}
