//! Tenants share a broker and see nothing of each other.

use std::sync::Arc;

use tidegate_engine::{
    Accepted, AuthOutcome, Durability, HUB_CLIENT_PREFIX, ListenerSettings, Preset, Reason, Settings, ShardId,
    ShardPosition, TenantId, TenantQuota, Tenants, partition_of,
};
use tidegate_mqtt::QoS::{AtLeastOnce, AtMostOnce};
use tidegate_mqtt::{ReasonCode, SubscriptionOptions};

use crate::harness::*;

fn two_tenants(settings: &mut Settings) {
    settings.listeners.push(ListenerSettings { tenant: TenantId(7), name: "other".into(), ..Default::default() });
}

#[test]
fn messages_stay_with_their_tenant() {
    everywhere_with(two_tenants, |world| {
        let (a, b) = (world.connect(v5("a")), world.connect(v5("b").through(1)));
        for client in [&a, &b] {
            client.subscribe("#", AtLeastOnce);
            client.subscribe("$share/g/t", AtLeastOnce);
        }
        let publisher = world.connect(v5("p").through(1));
        publisher.publish(message("t", "x").qos1());
        assert_eq!(b.payloads(), ["x", "x"]);
        a.expect_nothing();
        a.publish(message("t", "y").qos1());
        assert_eq!(a.payloads(), ["y", "y"]);
        b.expect_nothing();
    });
}

#[test]
fn client_ids_and_sessions_stay_with_their_tenant() {
    everywhere_with(two_tenants, |world| {
        let a = world.connect(v5("same").lasting());
        a.subscribe("t", AtLeastOnce);
        let b = world.connect(v5("same").lasting().through(1));
        assert!(!b.session_present());
        a.ping();
        b.ping();
        a.lose();
        assert!(!world.connect(v5("other").lasting().through(1)).session_present());
        assert!(world.connect(v5("same").lasting()).session_present());
        b.ping();
    });
}

#[test]
fn retained_values_stay_with_their_tenant() {
    everywhere_with(two_tenants, |world| {
        let (a, b) = (world.connect(v5("a")), world.connect(v5("b").through(1)));
        a.publish(message("t", "of a").qos1().retain());
        b.publish(message("t", "of b").qos1().retain());
        b.publish(message("u", "of b").qos1().retain());
        for (client, wanted) in [(&a, vec!["of a"]), (&b, vec!["of b", "of b"])] {
            client.subscribe("+", AtMostOnce);
            assert_eq!(client.payloads(), wanted);
        }
        b.publish(message("t", "").qos1().retain());
        b.messages();
        let late = world.connect(v5("late"));
        late.subscribe("t", AtMostOnce);
        late.expect_publish("t", "of a");
    });
}

#[test]
fn wills_stay_with_their_tenant() {
    everywhere_with(two_tenants, |world| {
        let (a, b) = (world.connect(v5("a")), world.connect(v5("b").through(1)));
        a.subscribe("#", AtLeastOnce);
        b.subscribe("#", AtLeastOnce);
        world.connect(v5("c").through(1).will(message("w", "gone"))).lose();
        b.expect_publish("w", "gone");
        a.expect_nothing();
    });
}

#[test]
fn another_tenants_subscribers_do_not_count_as_listeners() {
    everywhere_with(two_tenants, |world| {
        world.connect(v5("a")).subscribe("t", AtLeastOnce);
        let publisher = world.connect(v5("p").through(1));
        assert_eq!(publisher.publish(message("t", "x").qos1()), ReasonCode::NoMatchingSubscribers);
    });
}

#[test]
fn an_operator_names_the_tenant() {
    everywhere_with(two_tenants, |world| {
        let (a, b) = (world.connect(v5("same")), world.connect(v5("same").through(1)));
        let close = |shard: u16| {
            world.engine(shard, |engine, now| {
                engine.control().disconnect_client(
                    now,
                    TenantId(7),
                    "same",
                    tidegate_engine::Reason::AdministrativeAction,
                )
            })
        };
        assert_eq!((0..world.shards()).filter(|shard| close(*shard)).count(), 1);
        b.expect_disconnect(ReasonCode::AdministrativeAction);
        a.ping();
    });
}

// ---- the tenant of a client -----------------------------------------------------------------------------------------

/// Users whose name begins with `acme` belong to tenant 7, wherever they come in.
#[derive(Debug)]
struct ByUser;

impl Tenants for ByUser {
    fn of_user(&self, _listener: TenantId, user_name: &str) -> Option<TenantId> {
        user_name.starts_with("acme").then_some(TenantId(7))
    }
}

#[test]
fn a_tenant_is_preset_or_of_the_user_or_of_the_listener() {
    let by_user = |settings: &mut Settings| {
        two_tenants(settings);
        settings.tenants = Some(Arc::new(ByUser));
    };
    everywhere_with(by_user, |world| {
        let settled = |tenant| Preset { settled: Some(TenantId(tenant)), ..Preset::default() };
        let instead = |tenant| Preset { instead_of_listener: Some(TenantId(tenant)), ..Preset::default() };
        let of_seven = world.connect(v5("s").through(1));
        of_seven.subscribe("t", AtMostOnce);
        for (arrival, inside) in [
            (v5("p"), false),
            (v5("p").through(1), true),
            (v5("p").user("acme-1", ""), true),
            (v5("p").user("bolt-1", ""), false),
            (v5("p").known_as(instead(7)), true),
            (v5("p").through(1).known_as(instead(8)), false),
            (v5("p").user("acme-1", "").known_as(instead(8)), true),
            (v5("p").known_as(settled(7)), true),
            (v5("p").user("acme-1", "").through(1).known_as(settled(8)), false),
        ] {
            let case = format!("{:?}, {:?}, {:?}", arrival.user, arrival.listener, arrival.preset);
            world.connect(arrival).publish(message("t", "x"));
            assert_eq!(of_seven.payloads().len(), usize::from(inside), "{case}");
        }
    });
}

#[test]
fn a_preset_client_id_overrides_the_requested_one() {
    everywhere(|world| {
        let device = || Preset { client_id: Some("device".into()), ..Preset::default() };
        let first = world.connect(v5("anything").lasting().known_as(device()));
        let second = world.connect(v311("").lasting().known_as(device()));
        first.expect_disconnect(ReasonCode::SessionTakenOver);
        assert!(second.session_present(), "an empty client id may return where it is known before");
        let told = world.connect(v5("").clean(false).known_as(device()));
        assert!(told.connack(|packet| packet.properties.assigned_client_identifier == Some("device")));
        assert_eq!(world.gauges().sessions_connected, 1);
        world.connect(v5("anything"));
        told.ping();
    });
}

// ---- quotas ---------------------------------------------------------------------------------------------------------

/// Two tenants; the second has a quota.
fn with_quota(quota: TenantQuota) -> impl Fn(&mut Settings) {
    move |settings| {
        two_tenants(settings);
        settings.tenant_quotas.insert(TenantId(7), quota.clone());
    }
}

/// A name with its home on this shard: a quota holds for each shard, so clients that share it must be on one.
fn name_at(world: &World, shard: u16, stem: &str) -> String {
    let place = ShardPosition { shard: ShardId(shard), shards: world.shards() };
    let mut names = (0..).map(|number| format!("{stem}{number}"));
    names.find(|name| place.owns(partition_of(TenantId(7), name))).unwrap()
}

fn at_home(world: &World, stem: &str) -> String {
    name_at(world, 0, stem)
}

#[test]
fn a_tenant_has_a_limit_of_connected_clients() {
    let quota = with_quota(TenantQuota { max_connections: 2, ..TenantQuota::default() });
    everywhere_with(quota, |world| {
        let named = |stem: &str| v5(&at_home(world, stem)).lasting().through(1);
        let (first, _second) = (world.connect(named("a")), world.connect(named("b")));
        world.try_connect(named("c")).expect_refused(ReasonCode::QuotaExceeded);
        assert_eq!(world.counters().connects_refused[Reason::TenantConnections.number()], 1);
        let again = world.connect(named("a"));
        first.expect_disconnect(ReasonCode::SessionTakenOver);
        world.connect(v5(&at_home(world, "c")));
        again.lose();
        world.connect(named("c"));
        world.try_connect(named("a")).expect_refused(ReasonCode::QuotaExceeded);
    });
}

#[test]
fn a_tenant_has_a_limit_of_sessions() {
    let quota = with_quota(TenantQuota { max_sessions: 2, ..TenantQuota::default() });
    everywhere_with(quota, |world| {
        let named = |stem: &str| v5(&at_home(world, stem)).lasting().through(1);
        world.connect(named("a")).lose();
        let passing = world.connect(v5(&at_home(world, "b")).through(1));
        world.try_connect(named("c")).expect_refused(ReasonCode::QuotaExceeded);
        assert_eq!(world.counters().connects_refused[Reason::TenantSessions.number()], 1);
        assert!(world.connect(named("a")).session_present());
        assert!(!world.connect(named("a").clean(true)).session_present(), "one that takes another's place");
        world.connect(v5(&at_home(world, "c")));
        passing.disconnect();
        world.connect(named("c"));
    });
}

#[test]
fn a_tenant_has_a_limit_of_subscriptions() {
    let quota = with_quota(TenantQuota { max_subscriptions: 3, ..TenantQuota::default() });
    everywhere_with(quota, |world| {
        let (a, b) =
            (world.connect(v5(&at_home(world, "a")).through(1)), world.connect(v5(&at_home(world, "b")).through(1)));
        let ask = |client: &Client, filter: &str| {
            client.expect_sub_ack(client.send_subscribe(&[(filter, SubscriptionOptions::new(AtLeastOnce))], None))
        };
        for (client, filter) in [(&a, "x"), (&a, "$share/g/x"), (&b, "x")] {
            assert_eq!(ask(client, filter), [ReasonCode::GrantedQos1]);
        }
        for filter in ["y", "$share/g/x"] {
            assert_eq!(ask(&b, filter), [ReasonCode::QuotaExceeded]);
        }
        assert_eq!(world.counters().requests_refused[Reason::TenantSubscriptions.number()], 2);
        assert_eq!(ask(&a, "x"), [ReasonCode::GrantedQos1], "it has it already");
        let of_another = world.connect(v5(&at_home(world, "a")));
        for filter in ["1", "2", "3", "4"] {
            of_another.subscribe(filter, AtLeastOnce);
        }
        a.unsubscribe("$share/g/x");
        assert_eq!(ask(&b, "y"), [ReasonCode::GrantedQos1]);
        a.disconnect();
        assert_eq!(ask(&b, "z"), [ReasonCode::GrantedQos1], "the subscriptions of a session are free when it ends");
        assert_eq!(ask(&b, "zz"), [ReasonCode::QuotaExceeded]);
    });
}

#[test]
fn a_tenant_has_a_limit_of_retained_messages() {
    let quota = with_quota(TenantQuota { max_retained: 2, ..TenantQuota::default() });
    everywhere_with(quota, |world| {
        let (inside, outside) = (world.connect(v5("a").through(1)), world.connect(v5("a")));
        let retain = |client: &Client, stem: &str, payload: &str| {
            client.publish(message(&at_home(world, stem), payload).qos1().retain())
        };
        for stem in ["t", "u", "v"] {
            let inside = retain(&inside, stem, "old");
            assert_eq!(inside == ReasonCode::QuotaExceeded, stem == "v", "{stem}: {inside:?}");
            assert_ne!(retain(&outside, stem, "old"), ReasonCode::QuotaExceeded);
        }
        assert_eq!(world.dropped(Reason::TenantRetained), 1);
        assert_eq!(world.gauges().retained_messages, 5);
        retain(&inside, "t", "new");
        retain(&inside, "u", "");
        retain(&inside, "v", "new");
        inside.subscribe("#", AtMostOnce);
        assert_eq!(inside.payloads(), ["new", "new"]);
        assert_eq!(world.dropped(Reason::TenantRetained), 1);
    });
}

/// One place of each kind for clients of the second tenant, and a listener for its pipelines.
fn with_one_place(settings: &mut Settings) {
    let one = TenantQuota { max_connections: 1, max_sessions: 1, max_subscriptions: 1, ..TenantQuota::default() };
    with_quota(one)(settings);
    let hub = ListenerSettings { tenant: TenantId(7), name: "hub".into(), for_hub: true, ..Default::default() };
    settings.listeners.push(hub);
}

#[test]
fn a_quota_neither_counts_nor_refuses_pipelines() {
    everywhere_with(with_one_place, |world| {
        let pipeline = |stem: &str| {
            let client_id = at_home(world, &format!("{HUB_CLIENT_PREFIX}{stem}"));
            let mut client = world.try_connect(v5(&client_id).lasting().through(2).own().accept_on(0));
            world.decide(AuthOutcome::Accept(Accepted::default()));
            client.expect_accepted();
            client
        };
        let (one, two) = (pipeline("one"), pipeline("two"));
        for filter in ["a", "b", "$share/g/c"] {
            one.subscribe(filter, AtLeastOnce);
            two.subscribe(filter, AtLeastOnce);
        }
        let client = world.connect(v5(&at_home(world, "client")).lasting().through(1));
        client.subscribe("z", AtLeastOnce);
        world.try_connect(v5(&at_home(world, "other")).through(1)).expect_refused(ReasonCode::QuotaExceeded);
        one.lose();
        let one = pipeline("one");
        assert!(one.session_present());
        one.unsubscribe("b");
        two.disconnect();
        client.disconnect();
        world.connect(v5(&at_home(world, "client")).through(1));
        world.try_connect(v5(&at_home(world, "other")).through(1)).expect_refused(ReasonCode::QuotaExceeded);
    });
}

#[test]
fn a_quota_of_retained_messages_does_not_refuse_pipelines() {
    let one = |settings: &mut Settings| {
        with_one_place(settings);
        settings.tenant_quotas.insert(TenantId(7), TenantQuota { max_retained: 1, ..TenantQuota::default() });
    };
    everywhere_with(one, |world| {
        let client_id = at_home(world, &format!("{HUB_CLIENT_PREFIX}one"));
        let mut pipeline = world.try_connect(v5(&client_id).lasting().through(2).own().accept_on(0));
        world.decide(AuthOutcome::Accept(Accepted::default()));
        pipeline.expect_accepted();
        for number in 0..20 {
            pipeline.publish(message(&format!("t{number}"), "kept").qos1().retain());
        }
        assert_eq!((world.gauges().retained_messages, world.dropped(Reason::TenantRetained)), (20, 0));
        let client = world.connect(v5(&at_home(world, "client")).through(1));
        let topic = at_home(world, "client's");
        let refused = client.publish(message(&topic, "refused").qos1().retain());
        assert_eq!(refused, ReasonCode::QuotaExceeded, "values of pipelines count");
    });
}

#[test]
fn limits_for_clients_do_not_refuse_the_brokers_own_bridge() {
    let full = |settings: &mut Settings| {
        with_one_place(settings);
        settings.listeners[1].max_connections = 1;
        settings.limits.max_sessions = 1;
    };
    everywhere_with(full, |world| {
        let client = world.connect(v5(&at_home(world, "client")).lasting().through(1));
        client.subscribe("a", AtLeastOnce);
        let bridge = world.connect(v5(&at_home(world, "bridge")).lasting().through(1).own());
        bridge.subscribe("b", AtLeastOnce);
        bridge.lose();
        assert!(world.connect(v5(&at_home(world, "bridge")).lasting().through(1).own()).session_present());
    });
}

#[test]
fn retained_messages_stay_when_a_quota_shrinks() {
    let quota = with_quota(TenantQuota { max_retained: 1, ..TenantQuota::default() });
    let world = World::with(3, |settings| {
        settings.durability = Durability::Commit;
        quota(settings);
    });
    let publisher = world.connect(v5("p").through(1));
    for shard in 0..3 {
        publisher.publish(message(&name_at(&world, shard, "t"), "kept").qos1().retain());
    }
    assert_eq!(world.gauges().retained_messages, 3);
    world.crash(Crash::now(1));
    let late = world.connect(v5("late").through(1));
    late.publish(message("another", "refused").qos1().retain());
    late.subscribe("#", AtMostOnce);
    assert_eq!(late.payloads(), ["kept"; 3]);
}

#[test]
fn a_tenant_publishes_only_so_fast_and_loses_nothing() {
    let quota = with_quota(TenantQuota { max_message_rate: 10, ..TenantQuota::default() });
    everywhere_with(quota, |world| {
        let (a, b) =
            (world.connect(v5(&at_home(world, "a")).through(1)), world.connect(v5(&at_home(world, "b")).through(1)));
        let outside = world.connect(v5(&at_home(world, "a")));
        for client in [&a, &b, &outside] {
            for n in 0..40 {
                client.send_publish(message("t", n.to_string()).qos1());
            }
        }
        world.run();
        let answered = |clients: &[&Client]| clients.iter().map(|client| client.answers().len()).sum::<usize>();
        assert_eq!(answered(&[&outside]), 40);
        assert_eq!(answered(&[&a, &b]), 12, "a second's worth, and one above the limit of each");
        world.advance(seconds(2));
        let in_two = answered(&[&a, &b]);
        assert!((18..=22).contains(&in_two), "{in_two}");
        world.advance(seconds(10));
        assert_eq!(answered(&[&a, &b]), 80 - 12 - in_two);
        assert_eq!(world.counters().dropped_total(), 0);
    });
}

#[test]
fn a_tenant_sees_only_events_of_its_own_clients() {
    let quota = with_quota(TenantQuota { max_connections: 100, ..TenantQuota::default() });
    in_one_process_with(quota, |world| {
        let (inside, outside) = (world.connect(v5("watcher").through(1)), world.connect(v5("watcher")));
        for watcher in [&inside, &outside] {
            watcher.subscribe_later("$SYS/#");
        }
        world.advance(seconds(10));
        world.connect(v5("of-the-first"));
        world.connect(v5("of-the-second").through(1));
        world.advance(seconds(10));
        let topics = |client: &Client| -> Vec<String> {
            client.messages_among_others().into_iter().map(|got| got.topic).collect()
        };
        assert_eq!(topics(&inside), ["$SYS/brokers/tidegate/clients/of-the-second/connected"]);
        let of_default = topics(&outside);
        assert!(of_default.iter().any(|topic| topic.starts_with("$SYS/broker/clients/")));
        assert!(!of_default.iter().any(|topic| topic.contains("of-the-second")), "{of_default:?}");
    });
}
