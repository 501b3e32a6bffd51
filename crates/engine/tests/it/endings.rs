//! Sessions with many subscriptions and messages end in steps: a turn removes a bounded part, and nothing reaches them
//! meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tidegate_engine::{
    Holding, ListenerSettings, OverflowPolicy, Reason, ShardId, ShardPosition, TenantId, TenantLedger, TenantQuota,
    partition_of,
};
use tidegate_mqtt::{Disconnect, Packet, PacketType, QoS, ReasonCode, SubscriptionOptions};

use crate::harness::*;

const FILTERS: usize = 1000;
const MESSAGES: usize = 3000;
/// The largest work of a turn for one ended session: the share of the packet that ends it, and the share of the turn's
/// timers. A share is 64, and more by a part of the waiting work.
const PER_TURN: u64 = 2 * (66 + FILTERS as u64 / 64);

/// A client with this number of subscriptions at QoS 1, made from their numbers.
fn subscriber(world: &World, connecting: Connecting, filter: impl Fn(usize) -> String) -> Client {
    let client = world.connect(connecting);
    let names: Vec<_> = (0..FILTERS).map(filter).collect();
    let filters: Vec<_> =
        names.iter().map(|name| (name.as_str(), SubscriptionOptions::new(QoS::AtLeastOnce))).collect();
    let id = client.send_subscribe(&filters, None);
    assert_eq!(client.expect_sub_ack(id).len(), FILTERS);
    client
}

/// Sends CONNECT and takes no turn.
fn open(world: &World, connecting: &Connecting) -> Client {
    let client = world.open(connecting);
    client.send_bytes(&connecting.encode());
    client
}

/// Sends DISCONNECT and takes one turn.
fn leave(world: &World, client: &Client) {
    client.send(&Packet::Disconnect(Disconnect::new(ReasonCode::Success)));
    world.turns();
}

/// Takes turns until a gauge is 0, by at most `most` in each; says how many it took.
fn turns_until_none(world: &World, gauge: impl Fn(&World) -> u64, most: u64) -> usize {
    for turn in 0..FILTERS {
        let before = gauge(world);
        if before == 0 {
            return turn;
        }
        world.turns();
        let done = before - gauge(world);
        assert!(done > 0 && done <= most, "{done} in a turn");
    }
    panic!("no end");
}

#[test]
fn a_session_with_many_filters_ends_in_steps() {
    let world = World::with(1, |_| ());
    let client = subscriber(&world, v5("many"), |number| format!("s/{number}/+"));
    leave(&world, &client);
    assert!(world.gauges().subscriptions >= FILTERS as u64 - PER_TURN);
    assert!(turns_until_none(&world, |world| world.gauges().subscriptions, PER_TURN) > 5);
    assert!(world.engine(0, |engine, _| engine.questions().audit()).is_empty());
}

#[test]
fn long_filters_of_an_ended_session_take_more_turns() {
    let world = World::with(1, |_| ());
    let client = subscriber(&world, v5("many"), |number| format!("{}{number}/+", "l/".repeat(96)));
    leave(&world, &client);
    assert!(turns_until_none(&world, |world| world.gauges().subscriptions, PER_TURN / 6) > 50);
}

#[test]
fn many_memberships_of_an_ended_session_go_in_steps() {
    let world = World::with(1, |_| ());
    let client = subscriber(&world, v5("many"), |number| format!("$share/g/s/{number}"));
    leave(&world, &client);
    assert!(turns_until_none(&world, |world| world.gauges().shared_subscriptions, PER_TURN) > 5);
}

#[test]
fn many_messages_of_an_ended_session_go_in_steps() {
    let world = World::with(1, |_| ());
    let client = world.connect(v5("many").lasting());
    client.subscribe("q", QoS::AtLeastOnce);
    client.lose();
    let publisher = world.connect(v5("p"));
    for number in 0..MESSAGES {
        publisher.publish(message("q", number.to_string()).qos1());
    }
    let again = open(&world, &v5("many"));
    world.turns();
    assert!(turns_until_none(&world, |world| world.gauges().queued_messages, PER_TURN * 8) > 1);
    assert_eq!(world.dropped(Reason::SessionDiscarded), MESSAGES as u64);
    again.expect_open();
}

#[test]
fn a_new_session_of_the_same_name_has_its_own_filters() {
    everywhere(|world| {
        let first = subscriber(world, v5("many").lasting(), |number| format!("s/{number}/+"));
        first.lose();
        let mut again = open(world, &v5("many").expiry(100));
        again.expect_accepted();
        assert!(!again.session_present());
        again.subscribe("s/1/+", QoS::AtLeastOnce);
        let publisher = world.connect(v5("p"));
        publisher.publish(message("s/1/x", "once").qos1());
        publisher.publish(message("s/2/x", "gone").qos1());
        assert_eq!(again.payloads(), ["once"]);
        assert_eq!(world.gauges().subscriptions, 1);
    });
}

#[test]
fn a_client_back_at_once_keeps_its_new_subscriptions() {
    let world = World::with(1, |_| ());
    let first = subscriber(&world, v5("many"), |number| format!("s/{number}/+"));
    leave(&world, &first);
    let again = open(&world, &v5("many"));
    again.send_subscribe(&[("s/1/+", SubscriptionOptions::new(QoS::AtLeastOnce))], None);
    world.turns();
    assert!(world.gauges().subscriptions > 1, "both sessions have subscriptions");
    let publisher = open(&world, &v5("p"));
    publisher.send_publish(message("s/1/x", "early"));
    world.run();
    assert_eq!(world.gauges().subscriptions, 1);
    assert_eq!(again.messages_among_others().len(), 1);
}

#[test]
fn no_message_of_a_group_goes_to_an_ended_member() {
    let world = World::with(1, |_| ());
    let leaver = subscriber(&world, v5("leaver"), |number| format!("$share/g/s/{number}"));
    let stays = world.connect(v5("stays"));
    let publisher = world.connect(v5("p"));
    for number in 0..50 {
        stays.subscribe(&format!("$share/g/s/{number}"), QoS::AtLeastOnce);
    }
    leave(&world, &leaver);
    assert!(world.gauges().shared_subscriptions > 50);
    for number in 0..50 {
        publisher.send_publish(message(&format!("s/{number}"), "x").qos1());
    }
    world.run();
    assert_eq!(stays.messages().len(), 50);
}

#[test]
fn an_ended_session_rejects_nothing() {
    let world = World::with(1, |settings| settings.queue.overflow = OverflowPolicy::Reject);
    let leaver = subscriber(&world, v5("leaver"), |number| format!("s/{number}/+"));
    let publisher = world.connect(v5("p"));
    leave(&world, &leaver);
    assert!(world.gauges().subscriptions > 0);
    let answer = publisher.publish(message("s/999/x", "x").qos1());
    assert_ne!(answer, ReasonCode::QuotaExceeded);
}

#[test]
fn a_tenant_may_subscribe_again_while_a_session_ends() {
    let world = World::with(1, |settings| {
        settings.tenant_quotas.insert(TenantId::DEFAULT, quota(FILTERS));
    });
    let first = subscriber(&world, v5("many"), |number| format!("s/{number}/+"));
    leave(&world, &first);
    assert!(world.gauges().subscriptions > 0);
    let other = open(&world, &v5("other"));
    let id = other.send_subscribe(&[("t", SubscriptionOptions::new(QoS::AtMostOnce))], None);
    world.run();
    assert_eq!(other.take_arrival().map(|arrival| arrival.packet_type()), Some(PacketType::ConnAck));
    assert_eq!(other.expect_sub_ack(id), [ReasonCode::Success]);
}

/// A ledger that counts subscriptions alone, for all shards.
#[derive(Debug)]
struct SubscriptionLedger {
    max: u64,
    count: AtomicU64,
}

impl TenantLedger for SubscriptionLedger {
    fn claim(&self, _: TenantId, holding: Holding) -> bool {
        let is_free = |count: u64| (count < self.max).then_some(count + 1);
        holding != Holding::Subscriptions || self.count.fetch_update(Relaxed, Relaxed, is_free).is_ok()
    }

    fn add(&self, _: TenantId, holding: Holding, count: u64) {
        if holding == Holding::Subscriptions {
            self.count.fetch_add(count, Relaxed);
        }
    }

    fn release(&self, _: TenantId, holding: Holding, count: u64) {
        if holding == Holding::Subscriptions {
            self.count.fetch_sub(count, Relaxed);
        }
    }

    fn limits_rates(&self) -> bool {
        false
    }

    fn take_message(&self, _: TenantId, _: u64) -> Option<u64> {
        None
    }
}

#[test]
fn an_ended_session_refuses_no_filter_on_another_shard() {
    let ledger = Arc::new(SubscriptionLedger { max: FILTERS as u64, count: AtomicU64::new(0) });
    let world = World::with(2, |settings| settings.tenant_ledger = Some(Arc::clone(&ledger) as Arc<dyn TenantLedger>));
    let name_at = |shard: u16| {
        let place = ShardPosition { shard: ShardId(shard), shards: world.shards() };
        let mut names = (0..).map(|number| format!("client{number}"));
        names.find(|name| place.owns(partition_of(TenantId::DEFAULT, name))).unwrap()
    };
    let many = subscriber(&world, v5(&name_at(0)), |number| format!("s/{number}/+"));
    let other = world.connect(v5(&name_at(1)));
    leave(&world, &many);
    assert!(world.gauges().subscriptions > 0, "subscriptions of the ended session are left");
    let id = other.send_subscribe(&[("t", SubscriptionOptions::new(QoS::AtMostOnce))], None);
    world.run();
    assert_eq!(other.expect_sub_ack(id), [ReasonCode::Success]);
    assert_eq!(ledger.count.load(Relaxed), 1);
}

#[test]
fn messages_of_an_ended_session_hold_no_filter_back() {
    let world = World::with(1, |settings| {
        settings.tenant_quotas.insert(TenantId::DEFAULT, quota(FILTERS + 1));
    });
    let queued = world.connect(v5("queued").lasting());
    queued.subscribe("q", QoS::AtLeastOnce);
    queued.lose();
    let publisher = world.connect(v5("p"));
    for number in 0..MESSAGES {
        publisher.publish(message("q", number.to_string()).qos1());
    }
    let many = subscriber(&world, v5("many"), |number| format!("s/{number}/+"));
    // The first session that ends has messages alone after one step.
    open(&world, &v5("queued"));
    world.turns();
    many.send(&Packet::Disconnect(Disconnect::new(ReasonCode::Success)));
    let other = open(&world, &v5("other"));
    let names: Vec<_> = (0..FILTERS).map(|number| format!("o/{number}/+")).collect();
    let filters: Vec<_> =
        names.iter().map(|name| (name.as_str(), SubscriptionOptions::new(QoS::AtLeastOnce))).collect();
    let id = other.send_subscribe(&filters, None);
    assert!(world.gauges().queued_messages > 0);
    world.run();
    other.expect(PacketType::ConnAck);
    let refused = other.expect_sub_ack(id).iter().filter(|code| code.is_error()).count();
    assert_eq!(refused, 0, "of {FILTERS} filters");
    assert!(world.engine(0, |engine, _| engine.questions().audit()).is_empty());
}

fn quota(max_subscriptions: usize) -> TenantQuota {
    TenantQuota { max_subscriptions: max_subscriptions as u32, ..TenantQuota::default() }
}

/// Clients that subscribe to this number of filters at the same time and then leave, again and again. Says how many
/// subscriptions there were at most.
fn come_and_go(world: &World, clients: usize, rounds: usize) -> u64 {
    let mut most = 0;
    for round in 0..rounds {
        let all: Vec<_> = (0..clients).map(|number| open(world, &v5(&format!("{round}-{number}")))).collect();
        let subscribe = |client: &Client, number: usize| {
            let names: Vec<_> = (0..FILTERS).map(|filter| format!("{round}/{number}/{filter}")).collect();
            let filters: Vec<_> =
                names.iter().map(|name| (name.as_str(), SubscriptionOptions::new(QoS::AtLeastOnce))).collect();
            client.send_subscribe(&filters, None)
        };
        let ids: Vec<_> = all.iter().enumerate().map(|(number, client)| subscribe(client, number)).collect();
        for _ in 0..clients * FILTERS / 32 {
            world.turns();
            most = most.max(world.gauges().subscriptions);
        }
        for (client, id) in all.iter().zip(ids) {
            client.expect(PacketType::ConnAck);
            assert_eq!(client.expect_sub_ack(id), vec![ReasonCode::GrantedQos1; FILTERS]);
            leave(world, client);
        }
    }
    most
}

#[test]
fn ended_subscriptions_stay_bounded_under_a_quota() {
    let world = World::with(1, |settings| {
        settings.tenant_quotas.insert(TenantId::DEFAULT, quota(16 * FILTERS));
    });
    assert_eq!(come_and_go(&world, 16, 3), 16 * FILTERS as u64);
    assert!(world.engine(0, |engine, _| engine.questions().audit()).is_empty());
}

#[test]
fn sessions_that_come_and_go_leave_no_more_than_lived() {
    let world = World::with(1, |_| ());
    assert_eq!(come_and_go(&world, 16, 3), 16 * FILTERS as u64);
}

#[test]
fn a_turn_removes_more_while_more_waits() {
    let world = World::with(1, |_| ());
    let all: Vec<_> =
        (0..20).map(|of| subscriber(&world, v5(&format!("c{of}")), |number| format!("{of}/{number}/+"))).collect();
    for client in &all {
        client.send(&Packet::Disconnect(Disconnect::new(ReasonCode::Success)));
    }
    world.turns();
    let before = world.gauges().subscriptions;
    world.turns();
    let done = before - world.gauges().subscriptions;
    assert!(done > 300 && done < 1024 + 66, "{done} in a turn");
}

#[test]
fn tenants_have_their_ended_sessions_removed_by_turns() {
    const FEW: usize = 100;
    let world = World::with(1, |settings| {
        settings.listeners.push(ListenerSettings { tenant: TenantId(7), name: "other".into(), ..Default::default() });
    });
    let many = subscriber(&world, v5("many"), |number| format!("s/{number}/+"));
    let few = world.connect(v5("few").through(1));
    for number in 0..FEW {
        few.subscribe(&format!("$share/g/{number}"), QoS::AtLeastOnce);
    }
    many.send(&Packet::Disconnect(Disconnect::new(ReasonCode::Success)));
    few.send(&Packet::Disconnect(Disconnect::new(ReasonCode::Success)));
    while world.gauges().shared_subscriptions > 0 {
        world.turns();
    }
    assert!(world.gauges().subscriptions > FILTERS as u64 / 2, "the first sessions wait still");
}
