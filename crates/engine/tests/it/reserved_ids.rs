//! Client ids that only some listeners take.

use tidegate_engine::{ListenerSettings, QUEUE_CLIENT_PREFIX, Settings};
use tidegate_mqtt::ReasonCode;

use crate::harness::*;

/// The listener of HTTP is the second one, and that of other nodes the third.
fn with_http(settings: &mut Settings) {
    settings.listeners.push(ListenerSettings { name: "web".into(), for_http: true, ..ListenerSettings::default() });
    settings.listeners.push(ListenerSettings { name: "relay".into(), relayed: true, ..ListenerSettings::default() });
}

#[test]
fn client_ids_of_queues_are_for_http_listeners() {
    everywhere_with(with_http, |world| {
        let queue = format!("{QUEUE_CLIENT_PREFIX}/orders");
        let mqtt = world.try_connect(v5(&queue));
        mqtt.expect_refused(ReasonCode::ClientIdentifierNotValid);
        let mut web = world.try_connect(v5(&queue).through(1));
        web.expect_accepted();
        let mut other = world.try_connect(v5("http-7").through(1));
        other.expect_accepted();
    });
}

#[test]
fn drawn_client_ids_are_for_http_and_coap_listeners() {
    let with_both = |settings: &mut Settings| {
        with_http(settings);
        settings.listeners.push(ListenerSettings {
            name: "sensors".into(),
            for_coap: true,
            ..ListenerSettings::default()
        });
    };
    everywhere_with(with_both, |world| {
        for (start, listener) in [("http-", 1), ("coap-", 3)] {
            let drawn = format!("{start}0123456789abcdef0123456789ABCDEF");
            world.try_connect(v5(&drawn)).expect_refused(ReasonCode::ClientIdentifierNotValid);
            world.try_connect(v5(&drawn).through(listener)).expect_accepted();
            world.try_connect(v5(&format!("{start}gateway"))).expect_accepted();
        }
    });
}

// A node takes relayed clients whose home it is alone, so here there is one node.
#[test]
fn a_queue_is_for_the_user_that_the_client_has_proven() {
    let world = World::with(3, with_http);
    for listener in [1, 2] {
        for queue in ["ann/orders", "ann//orders", "orders"] {
            let stranger = world.try_connect(v5(&format!("{QUEUE_CLIENT_PREFIX}{queue}")).through(listener));
            stranger.expect_refused(ReasonCode::ClientIdentifierNotValid);
        }
        let mut owner = world.try_connect(v5(&format!("{QUEUE_CLIENT_PREFIX}/orders")).through(listener));
        owner.expect_accepted();
    }
}
