//! Admission over real sockets: the effect of limits and bans on connections, and the release of every slot.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tidegate_client::net::{Address, Announce, Driver, SocketName, SocketOptions, Step};
use tidegate_client::{Event, Options};
use tidegate_engine::{
    Accepted, AuthOutcome, AuthRequest, Authentication, ListenerId, LogEvent, Millis, Reason, TenantId,
};
use tidegate_node::{
    Answer, Ban, BanOrigin, BanTarget, ConnectionFacts, FlightKind, FlightSubject, Inlet, LocalAddress, Node,
    NodeSettings, Observer, Occasion, OwnAddress, Rate, Threshold,
};

use crate::wire::*;
use crate::{addresses, settings};

fn client(name: &str) -> BanTarget {
    BanTarget::Client(TenantId::DEFAULT, name.into())
}

fn ban(target: BanTarget) -> Ban {
    Ban { target, reason: "a test".into(), origin: BanOrigin::Operator, since: 0, until: Millis::NEVER }
}

/// The kinds of all that is remembered about a client.
fn story(node: &Node, name: &str) -> Vec<(FlightKind, Option<Reason>)> {
    let answer = node.handle().clients().why(&FlightSubject::Client(name.into()), None).unwrap();
    answer.events.iter().map(|event| (event.kind, event.reason)).collect()
}

fn refused(node: &Node, reason: Reason) -> u64 {
    let report = node.handle().report().unwrap();
    report.shell.refused.by_reason().find(|(it, _)| *it == reason).unwrap().1
}

/// Every way for a connection to end gives its address the place back: a handed over one, too.
#[test]
fn an_address_keeps_its_limit_in_all_states_of_connections() {
    for shards in [1, 2] {
        let mut settings = settings(shards);
        settings.admission.max_connections_per_address = 3;
        let node = Node::start(settings).unwrap();
        let [tcp, unix, web, ..] = addresses(&node);
        for round in 0..20 {
            let clients: Vec<Client> =
                (0..3).map(|number| Client::connect([&tcp, &web][number % 2], &format!("{round}-{number}"))).collect();
            assert_eq!(Client::dial(&tcp).rest(), b"", "closed without a word");
            Client::connect(&unix, "without an address");
            drop(clients);
            while node.handle().report().unwrap().gauges.connections > 0 {
                std::thread::yield_now();
            }
        }
        assert_eq!(refused(&node, Reason::TooManyFromAddress), 20);
        let subject = FlightSubject::Address("127.0.0.0/8".parse().unwrap());
        let answer = node.handle().clients().why(&subject, None).unwrap();
        assert!(answer.events.iter().any(|event| event.reason == Some(Reason::TooManyFromAddress)));
    }
}

#[test]
fn an_address_and_a_listener_have_their_rate() {
    let mut settings = settings(1);
    settings.admission.address_rate = Rate { per_second: 1, burst: 2 };
    settings.admission.listener_rate = Rate { per_second: 1, burst: 1 };
    let node = Node::start(settings).unwrap();
    let [tcp, _, web, ..] = addresses(&node);
    let first = Client::connect(&tcp, "first");
    let mut refusals = 0;
    while refused(&node, Reason::ListenerRateExceeded) == 0 {
        drop(Client::dial(&tcp));
        refusals += 1;
        assert!(refusals < 10_000, "one connection per second is let in, not all");
    }
    while refused(&node, Reason::AddressRateExceeded) == 0 {
        drop(std::net::TcpStream::connect(web.socket().unwrap()).unwrap());
        refusals += 1;
        assert!(refusals < 10_000);
    }
    drop(first);
}

#[test]
fn a_ban_refuses_a_client_and_closes_a_connected_one() {
    for shards in [1, 2] {
        let mut settings = settings(shards);
        settings.admission.banned = vec![client("bad")];
        let node = Node::start(settings).unwrap();
        for address in &addresses(&node) {
            let mut bad = Client::dial(address);
            bad.send(&connect("bad"));
            // Not authorized
            bad.expect(&[0x20, 2, 0, 5]);
            let mut bad = Client::dial(address);
            bad.send(&connect_v5("bad"));
            let answer = bad.rest();
            assert_eq!((answer[0], answer[3]), (0x20, 0x8a), "{answer:02x?}");
        }
        let [tcp, ..] = addresses(&node);
        let mut worse = Client::dial(&tcp);
        worse.send(&connect_v5("worse"));
        let length = usize::from(worse.receive(2)[1]);
        worse.receive(length);
        assert_eq!(node.handle().clients().ban(ban(client("worse"))), Ok(1));
        let rest = worse.rest();
        assert_eq!((rest[0], rest[2]), (0xe0, 0x98), "{rest:02x?}");
        assert_eq!(node.handle().clients().unban(&client("worse")), Ok(true));
        Client::connect(&tcp, "worse");
        assert_eq!(
            story(&node, "worse")[..2],
            [(FlightKind::Connected, None), (FlightKind::Disconnected, Some(Reason::AdministrativeAction))]
        );
        assert_eq!(story(&node, "bad")[0], (FlightKind::Refused, Some(Reason::Banned)));
    }
}

#[test]
fn a_ban_refuses_an_address_and_closes_its_connections() {
    let node = Node::start(settings(2)).unwrap();
    let [tcp, unix, web, ..] = addresses(&node);
    let clients = [Client::connect(&tcp, "a"), Client::connect(&web, "b")];
    let here = BanTarget::Address("127.0.0.0/8".parse().unwrap());
    assert_eq!(node.handle().clients().ban(ban(here.clone())), Ok(2));
    for client in clients {
        assert_eq!(client.rest(), b"");
    }
    assert_eq!(Client::dial(&tcp).rest(), b"");
    Client::connect(&unix, "not from there");
    assert_eq!(node.handle().clients().unban(&here), Ok(true));
    Client::connect(&tcp, "a");
    assert_eq!(refused(&node, Reason::Banned), 1);
}

/// A bridge or a pipeline: its socket is announced to the node.
#[test]
fn bans_and_limits_of_addresses_do_not_hold_for_own_clients() {
    for shards in [1, 2] {
        let mut settings = settings(shards);
        settings.admission.max_connections_per_address = 1;
        settings.admission.flapping = Threshold { count: 2, within_ms: 3_600_000, ban_ms: 3_600_000 };
        let node = Node::start(settings).unwrap();
        let [tcp, unix, ..] = addresses(&node);
        let at = tcp.socket().unwrap();
        let LocalAddress::Unix(path) = unix else { unreachable!("a Unix socket") };
        let ways = [Address::Tcp { host: at.ip().to_string(), port: at.port() }, Address::Unix { path }];
        let handle = node.handle();
        let announce = Announce::to(move |name| {
            handle.admission().expect_own(match name {
                SocketName::Tcp(address) => OwnAddress::Tcp(address),
                SocketName::Unix(name) => OwnAddress::Unix(name),
            })
        });
        let sockets = SocketOptions { announce: Some(announce), ..SocketOptions::default() };
        let own = |client_id: &str, way: usize| {
            let mut driver = Driver::new(Options::new(client_id), ways[way].clone(), sockets.clone()).unwrap();
            driver.connect().unwrap();
            assert!(matches!(driver.next(None).unwrap(), Step::Event(Event::Connected(_))));
            driver
        };
        let here = BanTarget::Address("127.0.0.0/8".parse().unwrap());
        let (first, second, client) = (own("own 1", 0), own("own 2", 1), Client::connect(&tcp, "client"));
        assert_eq!(node.handle().clients().ban(ban(here)), Ok(1));
        assert_eq!(client.rest(), b"");
        // Each takes over from the one before: flapping, if it were a client.
        let again: Vec<Driver> = (0..8).map(|number| own(&format!("own {}", 1 + number % 2), number / 4)).collect();
        assert_eq!(node.handle().admission().bans(node.handle().now()).len(), 1);
        assert_eq!(Client::dial(&tcp).rest(), b"", "a client at the same address");
        drop((first, second, again));
    }
}

/// A client of CoAP may send from the UDP port that has the number of an own socket's TCP port.
#[test]
fn bans_hold_for_a_client_inside_at_the_port_of_an_own_socket() {
    let node = Node::start(settings(1)).unwrap();
    let at = "127.0.0.1:4711".parse().unwrap();
    let own = node.handle().admission().expect_own(OwnAddress::Tcp(at));
    node.handle().clients().ban(ban(BanTarget::Address("127.0.0.0/8".parse().unwrap()))).unwrap();
    let mut client = Inlet::new(node.handle()).connect(ListenerId(0), at, None).unwrap();
    assert_eq!(client.read_to_end(&mut Vec::new()).unwrap(), 0);
    assert_eq!(refused(&node, Reason::Banned), 1);
    drop(own);
}

/// Accepts clients with this name, and all clients while the door is open.
struct Doorkeeper {
    open: AtomicBool,
}

impl Observer for Doorkeeper {
    fn log(&self, _: &Occasion<'_>) {}

    fn authenticate(&self, _: AuthRequest, _: ConnectionFacts, answer: Answer) {
        let open = self.open.load(Ordering::Relaxed);
        let outcome =
            if open { AuthOutcome::Accept(Accepted::default()) } else { AuthOutcome::Refuse(Reason::BadCredentials) };
        answer.give(outcome);
    }
}

fn guarded(shards: u16) -> (NodeSettings, Arc<Doorkeeper>) {
    let keeper = Arc::new(Doorkeeper { open: AtomicBool::new(false) });
    let mut settings = settings(shards);
    settings.engine.authentication = Authentication::External;
    settings.observer = Arc::<Doorkeeper>::clone(&keeper);
    (settings, keeper)
}

#[test]
fn who_tries_credentials_is_banned_by_address_and_by_user_name() {
    let (mut settings, keeper) = guarded(2);
    let threshold = |count| Threshold { count, within_ms: 3_600_000, ban_ms: 3_600_000 };
    settings.admission.failed_logins_per_address = threshold(6);
    settings.admission.failed_logins_per_user = threshold(3);
    let node = Node::start(settings).unwrap();
    let [tcp, unix, ..] = addresses(&node);
    let attempt = |address, client_id: &str, user: &str| {
        let mut client = Client::dial(address);
        client.send(&connect_as(client_id, user));
        client.rest()
    };
    for number in 0..3 {
        assert_eq!(attempt(&tcp, &format!("c{number}"), "root"), [0x20, 2, 0, 4], "bad user name or password");
    }
    keeper.open.store(true, Ordering::Relaxed);
    assert_eq!(attempt(&unix, "c", "root"), [0x20, 2, 0, 5], "banned, although the door is open now");
    keeper.open.store(false, Ordering::Relaxed);
    for number in 0..3 {
        attempt(&tcp, "d", &format!("user {number}"));
    }
    assert_eq!(Client::dial(&tcp).rest(), b"");
    let bans = node.handle().admission().bans(node.handle().now());
    let targets: Vec<String> = bans.iter().map(|ban| ban.target.to_string()).collect();
    assert_eq!(targets, ["address 127.0.0.1", "user \"root\""]);
    let events = story(&node, "d");
    assert_eq!(events[0], (FlightKind::Refused, Some(Reason::BadCredentials)));
}

#[test]
fn a_user_has_its_limit_and_a_takeover_is_no_second_connection() {
    for shards in [1, 2] {
        let mut settings = settings(shards);
        settings.admission.max_connections_per_user = 2;
        let node = Node::start(settings).unwrap();
        let [tcp, ..] = addresses(&node);
        let connect = |client_id: &str, user: &str| {
            let mut client = Client::dial(&tcp);
            client.send(&connect_as(client_id, user));
            client
        };
        let (mut one, mut two) = (connect("one", "u"), connect("two", "u"));
        one.expect(&CONNACK);
        two.expect(&CONNACK);
        // Server unavailable: MQTT 3 has no code for a quota.
        assert_eq!(connect("three", "u").rest(), [0x20, 2, 0, 3]);
        for _ in 0..5 {
            let mut again = connect("one", "u");
            again.expect(&CONNACK);
            assert_eq!(std::mem::replace(&mut one, again).rest(), b"", "taken over");
        }
        connect("other", "v").expect(&CONNACK);
        two.send(&DISCONNECT);
        assert_eq!(two.rest(), b"");
        let mut three = connect("three", "u");
        three.expect(&CONNACK);
        assert_eq!(connect("four", "u").rest(), [0x20, 2, 0, 3]);
        assert_eq!(node.handle().clients().ban(ban(BanTarget::User(TenantId::DEFAULT, "u".into()))), Ok(2));
    }
}

#[test]
fn a_client_that_comes_too_often_stays_away_for_a_while() {
    let mut settings = settings(2);
    settings.admission.flapping = Threshold { count: 5, within_ms: 3_600_000, ban_ms: 3_600_000 };
    let node = Node::start(settings).unwrap();
    let [tcp, ..] = addresses(&node);
    for _ in 0..5 {
        Client::connect(&tcp, "flapping");
    }
    let mut client = Client::dial(&tcp);
    client.send(&connect("flapping"));
    assert_eq!(client.rest(), [0x20, 2, 0, 5]);
    assert!(story(&node, "flapping").contains(&(FlightKind::Banned, Some(Reason::Banned))));
}

/// Keeps the shard's thread at work for one client, to make turns long. A thread that only waits is not overloaded.
struct Sluggish;

impl Observer for Sluggish {
    fn log(&self, occasion: &Occasion<'_>) {
        if matches!(occasion.event, LogEvent::Connected { client_id, .. } | LogEvent::Denied { client_id, .. } if client_id == "heavy")
        {
            let began = Instant::now();
            while began.elapsed() < Duration::from_millis(450) {
                std::hint::spin_loop();
            }
        }
    }
}

/// Connected clients are served while others are refused, and the overload ends without an intervention.
#[test]
fn an_overloaded_shard_accepts_no_client_until_it_recovers() {
    let mut settings = settings(1);
    settings.admission.loop_lag_mark_ms = 20;
    settings.observer = Arc::new(Sluggish);
    let node = Node::start(settings).unwrap();
    let [tcp, ..] = addresses(&node);
    let mut heavy = Client::connect(&tcp, "heavy");
    assert_eq!(Client::dial(&tcp).rest(), b"", "refused");
    heavy.send(&PINGREQ);
    heavy.expect(&PINGRESP);
    assert!(refused(&node, Reason::LoopLag) > 0);
    while node.handle().report().unwrap().admission.overloaded {
        std::thread::yield_now();
    }
    Client::connect(&tcp, "light");
}

/// The clients that cause most work wait, are still answered, and lose no message.
#[test]
fn an_overloaded_shard_slows_its_busiest_clients() {
    let mut settings = settings(1);
    settings.admission.loop_lag_mark_ms = 20;
    settings.observer = Arc::new(Sluggish);
    let node = Node::start(settings).unwrap();
    let [tcp, ..] = addresses(&node);
    let mut flood = Client::connect(&tcp, "flood");
    let mut heavy = Client::connect(&tcp, "heavy");
    let counters = || node.handle().report().unwrap().counters;
    let mut sent = 0;
    while counters().held_for_lag == 0 {
        heavy.send(&publish("$SYS/mine", b"x"));
        heavy.send(&PINGREQ);
        heavy.expect(&PINGRESP);
        flood.send(&publish("t", &[b'x'; 100]).repeat(100));
        flood.send(&PINGREQ);
        flood.expect(&PINGRESP);
        sent += 101;
    }
    let answer = node.handle().clients().why(&FlightSubject::Client("flood".into()), None).unwrap();
    let delayed = answer.events.iter().find(|event| event.kind == FlightKind::Delayed).unwrap();
    assert!(delayed.detail.contains("the turns of the shard take too long"), "{}", delayed.detail);
    assert!(story(&node, "heavy").iter().all(|(kind, _)| *kind != FlightKind::Delayed));
    flood.send(&publish_qos1("t", b"last"));
    flood.expect(&PUBACK);
    assert_eq!(counters().messages_in[..2], [sent, 1]);
}
