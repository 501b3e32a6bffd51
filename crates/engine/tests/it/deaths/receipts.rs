//! Receipts for clients whose node dies.

use tidegate_engine::AddressSettings;
use tidegate_mqtt::QoS::AtLeastOnce;

use super::*;

#[test]
fn a_receipt_waits_for_the_takeover_of_its_receiver() {
    let world = World::cluster(3, 1, |settings| {
        settings.durability = Durability::Commit;
        settings.addresses = Some(AddressSettings { guarded: false, ..AddressSettings::default() });
    });
    let sender = steady(&world, 1, "sender-");
    let asks = world.connect(sender.clone());
    asks.subscribe("replies", AtLeastOnce);
    let truck = world.name_on(0, "truck-");
    let node = world.connect(v5(&truck).accept_on(0).manual());
    let topic = format!("ctx/to/node/{truck}");
    let asking = message(&topic, "x").qos1().user("receipt", "delivered").response("replies", b"1");
    asks.publish(asking);
    let got = node.expect_publish(&topic, "x");
    world.fall(1, 0, 0);
    world.run();
    node.puback(got.id.unwrap());
    world.run();
    world.take_over(1);
    let asks = world.connect(sender.accept_on(2));
    assert!(asks.session_present());
    let receipts: Vec<String> = asks.messages_among_others().iter().map(Delivered::text).collect();
    assert_eq!(receipts.len(), 1, "{receipts:?}");
    assert!(receipts[0].contains("\"delivered\"") && receipts[0].contains(&truck), "{receipts:?}");
}
