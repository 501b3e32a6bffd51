//! The usage of tenants is exact.

use tidegate_engine::{
    Accepted, AuthOutcome, Authentication, HUB_CLIENT_PREFIX, HubFilter, ListenerSettings, Reason, Settings, TenantId,
    Usage,
};
use tidegate_mqtt::QoS::{AtLeastOnce, AtMostOnce};
use tidegate_mqtt::ReasonCode;

use crate::harness::*;

const OTHER: TenantId = TenantId(7);

/// The second listener leads to another tenant, the third one is for pipelines.
fn three_listeners(settings: &mut Settings) {
    settings.hub_filters = vec![HubFilter::unchecked(TenantId::DEFAULT, "t")];
    settings.listeners.push(ListenerSettings { tenant: OTHER, name: "other".into(), ..Default::default() });
    settings.listeners.push(ListenerSettings { name: "hub".into(), for_hub: true, ..Default::default() });
}

#[test]
fn messages_count_for_the_tenant_of_their_client() {
    everywhere_with(three_listeners, |world| {
        let (a, b) = (world.connect(v5("a")), world.connect(v5("b").through(1)));
        let sum = |world: &World| {
            let (a, b) = (world.usage(TenantId::DEFAULT), world.usage(OTHER));
            (a.bytes_in + b.bytes_in, a.bytes_out + b.bytes_out)
        };
        // A node counts the CONNECT that it passes on to the client's home; no tenant pays for it twice.
        let (counted, used) = (world.counters(), sum(world));
        a.subscribe("t", AtLeastOnce);
        b.subscribe("t", AtMostOnce);
        for _ in 0..3 {
            a.publish(message("t", "x").qos1());
        }
        b.publish(message("t", "y"));
        assert_eq!((a.payloads().len(), b.payloads().len()), (3, 1));
        let (of_a, of_b) = (world.usage(TenantId::DEFAULT), world.usage(OTHER));
        assert_eq!((of_a.messages_in, of_a.messages_out, of_a.sessions), (3, 3, 1));
        assert_eq!((of_b.messages_in, of_b.messages_out, of_b.sessions), (1, 1, 1));
        let counters = world.counters();
        let now = sum(world);
        assert_eq!(now.0 - used.0, counters.bytes_in - counted.bytes_in);
        assert_eq!(now.1 - used.1, counters.bytes_out - counted.bytes_out);
        assert!(of_a.bytes_in > of_b.bytes_in && of_b.bytes_in > 0);
    });
}

#[test]
fn connection_time_is_added_up_over_connections() {
    everywhere_with(three_listeners, |world| {
        let (one, two) = (world.connect(v5("a").lasting().keep_alive(0)), world.connect(v5("b").keep_alive(0)));
        world.advance(60_000);
        two.disconnect();
        world.advance(30_000);
        let usage = world.usage(TenantId::DEFAULT);
        assert_eq!((usage.connection_ms, usage.connections, usage.sessions), (150_000, 1, 1));
        one.disconnect();
        world.advance(30_000);
        let usage = world.usage(TenantId::DEFAULT);
        assert_eq!((usage.connection_ms, usage.connections, usage.sessions), (150_000, 0, 1));
        assert_eq!(world.usage(OTHER).connection_ms, 0);
    });
}

#[test]
fn kept_bytes_count_for_their_tenant() {
    everywhere_with(three_listeners, |world| {
        let away = world.connect(v5("away").lasting().through(1));
        away.subscribe("t", AtLeastOnce);
        away.disconnect();
        let b = world.connect(v5("b").through(1));
        b.publish(message("t", "kept").qos1().retain());
        let usage = world.usage(OTHER);
        assert!(usage.retained_bytes >= 5 && usage.stored_bytes >= 5, "{usage:?}");
        assert_eq!(usage.sessions, 2);
        b.publish(message("t", "").qos1().retain());
        assert_eq!(world.usage(OTHER).retained_bytes, 0);
        assert_eq!(world.usage(TenantId::DEFAULT).stored_bytes, 0);
    });
}

#[test]
fn a_pipeline_uses_nothing_of_a_tenant() {
    everywhere_with(three_listeners, |world| {
        let client_id = format!("{HUB_CLIENT_PREFIX}hot");
        let mut hub = world.try_connect(v5(&client_id).lasting().through(2).accept_on(world.home_of(&client_id)));
        world.decide(AuthOutcome::Accept(Accepted::default()));
        hub.expect_accepted();
        hub.subscribe("#", AtLeastOnce);
        let a = world.connect(v5("a"));
        a.publish(message("t", "x").qos1());
        assert_eq!(hub.payloads(), ["x"]);
        world.advance(1000);
        let usage = world.usage(TenantId::DEFAULT);
        assert_eq!((usage.messages_in, usage.messages_out, usage.sessions), (1, 0, 1));
        assert_eq!((usage.connections, usage.connection_ms), (1, 1000));
    });
}

#[test]
fn only_an_accepted_client_costs_its_tenant() {
    let external = |settings: &mut Settings| settings.authentication = Authentication::External;
    everywhere_with(external, |world| {
        let refused = world.try_connect(v5("refused"));
        world.decide(AuthOutcome::Refuse(Reason::BadCredentials));
        refused.expect_refused(ReasonCode::BadUserNameOrPassword);
        assert_eq!(world.usage(TenantId::DEFAULT), Usage::default());
        for name in ["a", "abc"] {
            let before = world.usage(TenantId::DEFAULT).bytes_in;
            let mut accepted = world.try_connect(v5(name));
            world.decide(AuthOutcome::Accept(Accepted::default()));
            accepted.expect_accepted();
            // CONNECT without properties: fixed header, variable header, client id; then DISCONNECT.
            let connect = 2 + 11 + 2 + name.len() as u64;
            assert_eq!(world.usage(TenantId::DEFAULT).bytes_in - before, connect);
            accepted.disconnect();
            assert_eq!(world.usage(TenantId::DEFAULT).bytes_in - before, connect + 2);
        }
    });
}

#[test]
fn the_last_packets_of_a_client_count() {
    everywhere_with(three_listeners, |world| {
        let a = world.connect(v5("a"));
        let before = world.usage(TenantId::DEFAULT);
        // A PUBLISH of QoS 0 with an empty payload, and DISCONNECT.
        a.send_bytes(&[0x30, 4, 0, 1, b't', 0, 0xe0, 0]);
        world.run();
        let after = world.usage(TenantId::DEFAULT);
        assert_eq!((after.messages_in - before.messages_in, after.bytes_in - before.bytes_in), (1, 8));
        assert_eq!(after.connections, 0);
    });
}
