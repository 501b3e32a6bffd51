//! Nodes that start while another one is dead.

use tidegate_engine::Reason;
use tidegate_mqtt::QoS::{AtLeastOnce, AtMostOnce, ExactlyOnce};
use tidegate_mqtt::ReasonCode;

use super::*;

#[test]
fn a_node_started_beside_a_dead_one_acknowledges_nothing_of_it() {
    for qos in [AtLeastOnce, ExactlyOnce] {
        let world = three();
        let subscriber = steady(&world, 1, "there ");
        let client = world.connect(subscriber.clone());
        client.subscribe("t", qos);
        // The other one starts with nothing, and the first has died meanwhile.
        world.fall(2, 0, 0);
        world.take_over(2);
        world.fall(1, 0, 0);
        world.rejoin(2);
        world.run();
        world.give_some(2);
        let publisher = steady(&world, 2, "publisher ");
        let client = world.connect(publisher.clone());
        client.send_publish(message("t", "lost").qos(AtMostOnce));
        client.send_publish(message("t", "x").qos(qos));
        world.run();
        client.expect_disconnect(ReasonCode::ServerBusy);
        assert_eq!(client.expect_closed(), Reason::NodeLost);
        world.take_over(1);
        world.connect(publisher.clean(true)).publish(message("t", "x").qos(qos));
        assert_eq!(world.connect(subscriber.accept_on(0)).payloads(), ["x"]);
    }
}
