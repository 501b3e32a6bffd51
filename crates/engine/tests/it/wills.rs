//! Wills: messages published when a connection ends without a DISCONNECT.

use tidegate_engine::{Reason, TenantId};
use tidegate_mqtt::QoS::{AtLeastOnce, AtMostOnce, ExactlyOnce};
use tidegate_mqtt::{Disconnect, PayloadFormat, ReasonCode};

use crate::harness::*;

fn watcher(world: &World) -> Client {
    let watcher = world.connect(v5("watcher"));
    watcher.subscribe("wills/#", ExactlyOnce);
    watcher
}

#[test]
fn a_lost_connection_publishes_the_will() {
    everywhere(|world| {
        let watcher = watcher(world);
        for connecting in [v31("a"), v311("b"), v5("c"), v5("d").lasting()] {
            let topic = format!("wills/{}", connecting.client_id);
            let client = world.connect(connecting.will(message(&topic, "gone").qos2()));
            watcher.expect_nothing();
            client.lose();
            assert_eq!(watcher.expect_publish(&topic, "gone").qos, ExactlyOnce);
        }
    });
}

#[test]
fn a_goodbye_takes_the_will_along() {
    everywhere(|world| {
        let watcher = watcher(world);
        for connecting in [v311("a"), v5("b"), v5("c").lasting()] {
            world.connect(connecting.will(message("wills/x", "gone"))).disconnect();
        }
        world.advance(minutes(120));
        watcher.expect_nothing();
    });
}

#[test]
fn a_goodbye_may_ask_for_the_will() {
    everywhere(|world| {
        let watcher = watcher(world);
        for code in [ReasonCode::DisconnectWithWillMessage, ReasonCode::UnspecifiedError] {
            let client = world.connect(v5("a").will(message("wills/a", "gone")));
            client.disconnect_with(&Disconnect::new(code));
            watcher.expect_publish("wills/a", "gone");
        }
    });
}

#[test]
fn every_way_to_lose_a_client_publishes_its_will() {
    everywhere(|world| {
        let watcher = watcher(world);
        let will = || message("wills/a", "gone");
        let silent = world.connect(v5("a").keep_alive(10).will(will()));
        world.advance(seconds(15));
        silent.expect_disconnect(ReasonCode::KeepAliveTimeout);
        watcher.expect_publish("wills/a", "gone");
        let wrong = world.connect(v5("a").will(will()));
        wrong.send_bytes(&[0, 0]);
        wrong.expect_disconnect(ReasonCode::MalformedPacket);
        watcher.expect_publish("wills/a", "gone");
        let expelled = world.connect(v5("a").will(will()));
        world.engine(world.home_of("a"), |engine, now| {
            engine.control().disconnect_client(now, TenantId::DEFAULT, "a", Reason::AdministrativeAction)
        });
        expelled.expect_disconnect(ReasonCode::AdministrativeAction);
        watcher.expect_publish("wills/a", "gone");
    });
}

#[test]
fn a_will_has_all_its_properties() {
    everywhere(|world| {
        let watcher = watcher(world);
        let will = message("wills/a", "gone")
            .qos1()
            .user("z", "1")
            .user("a", "2")
            .utf8()
            .content_type("text/plain")
            .response("answers", b"id")
            .expiry(60);
        world.connect(v5("a").will(will)).lose();
        let got = watcher.expect_publish("wills/a", "gone");
        let pairs = [("z", "1"), ("a", "2")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(got.user_properties, pairs);
        assert_eq!(got.payload_format, Some(PayloadFormat::Utf8));
        assert_eq!(got.content_type.as_deref(), Some("text/plain"));
        assert_eq!(got.response_topic.as_deref(), Some("answers"));
        assert_eq!(got.correlation_data.as_deref(), Some(&b"id"[..]));
        assert_eq!(got.expiry, Some(60));
    });
}

#[test]
fn a_will_is_delayed_and_a_return_stops_it() {
    everywhere(|world| {
        let watcher = watcher(world);
        let connecting = v5("a").lasting().will(message("wills/a", "gone").delay(30));
        world.connect(connecting.clone()).lose();
        world.advance(seconds(29));
        let client = world.connect(connecting.clone());
        assert!(client.session_present());
        world.advance(minutes(5));
        watcher.expect_nothing();
        client.lose();
        world.advance(seconds(30) - 1);
        watcher.expect_nothing();
        world.advance(1);
        watcher.expect_publish("wills/a", "gone");
        world.advance(minutes(5));
        watcher.expect_nothing();
        let client = world.connect(connecting);
        assert!(client.session_present(), "the will does not end the session");
    });
}

#[test]
fn a_will_does_not_wait_longer_than_its_session() {
    everywhere(|world| {
        let watcher = watcher(world);
        world.connect(v5("a").expiry(10).will(message("wills/a", "gone").delay(30))).lose();
        world.advance(seconds(10) - 1);
        watcher.expect_nothing();
        world.advance(1);
        watcher.expect_publish("wills/a", "gone");
        watcher.expect_nothing();
    });
}

#[test]
fn a_will_delay_does_not_apply_when_the_session_expiry_is_0() {
    everywhere(|world| {
        let watcher = watcher(world);
        world.connect(v5("a").will(message("wills/a", "gone").delay(30))).lose();
        watcher.expect_publish("wills/a", "gone");
        let client = world.connect(v5("b").expiry(60).will(message("wills/b", "gone").delay(30)));
        client.disconnect_with(&Disconnect {
            session_expiry_interval: Some(0),
            ..Disconnect::new(ReasonCode::DisconnectWithWillMessage)
        });
        watcher.expect_publish("wills/b", "gone");
    });
}

#[test]
fn the_expiry_of_a_will_begins_with_its_publication() {
    everywhere(|world| {
        let watcher = watcher(world);
        world.connect(v5("a").lasting().will(message("wills/a", "gone").delay(60).expiry(20))).lose();
        world.advance(seconds(60));
        assert_eq!(watcher.expect_publish("wills/a", "gone").expiry, Some(20));
    });
}

#[test]
fn a_will_may_be_retained() {
    everywhere(|world| {
        world.connect(v5("a").will(message("wills/a", "gone").retain())).lose();
        let late = watcher(world);
        let got = late.expect_publish("wills/a", "gone");
        assert!(got.retain);
        world.connect(v5("a").will(message("wills/a", "").retain())).lose();
        late.expect_publish("wills/a", "");
        let later = world.connect(v5("later"));
        later.subscribe("wills/#", AtMostOnce);
        later.expect_nothing();
    });
}

#[test]
fn a_retained_will_is_rejected_when_retain_is_unavailable() {
    everywhere_with(
        |settings| settings.retained.available = false,
        |world| {
            let connecting = v5("a").will(message("wills/a", "gone").retain());
            world.try_connect(connecting).expect_refused(ReasonCode::RetainNotSupported);
            world.connect(v5("a").will(message("wills/a", "gone")));
        },
    );
}

#[test]
fn the_disconnect_event_comes_before_the_will() {
    in_one_process(|world| {
        let watcher = watcher(world);
        watcher.subscribe("$SYS/brokers/+/clients/#", AtMostOnce);
        world.advance(0);
        let client = world.connect(v5("a").will(message("wills/a", "gone")));
        watcher.expect_message();
        client.lose();
        let topics: Vec<String> = watcher.messages().into_iter().map(|got| got.topic).collect();
        assert_eq!(topics, ["$SYS/brokers/tidegate/clients/a/disconnected", "wills/a"]);
    });
}

#[test]
fn a_client_gets_its_own_will_when_it_returns() {
    everywhere(|world| {
        world.absent_subscriber(v5("a").lasting().will(message("wills/a", "gone").qos1()), "wills/#", AtLeastOnce);
        let client = world.connect(v5("a").lasting());
        client.expect_publish("wills/a", "gone");
    });
}
