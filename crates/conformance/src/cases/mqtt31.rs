//! Cases particular to MQTT 3.1. Most other cases run in it too.

use crate::case::Case;
use crate::outcome::{Outcome, ensure};
use crate::scenario::Scenario;
use crate::target::Feature;
use crate::version::Version;
use crate::wire::{PacketType, Publish};

pub(super) const CASES: &[Case] = &[
    Case::v31("mqtt31.persistent_session", persistent_session).needs(&[Feature::Qos1]),
    Case::v31("mqtt31.redelivery_has_the_same_packet_id", redelivery_has_the_same_packet_id).needs(&[Feature::Qos2]),
    Case::v31("mqtt31.flags_of_connect_are_not_used", flags_of_connect_are_not_used),
    Case::v31("mqtt31.every_version_side_by_side", every_version_side_by_side).needs(&[Feature::Qos2]),
];

/// CONNACK of 3.1 has no session present flag; the messages tell that the session was kept.
fn persistent_session(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut client, _) = s.connect_persistent("c")?;
    client.subscribe(&topic, 1)?;
    client.disconnect()?;
    let mut publisher = s.connect("publisher")?;
    publisher.publish(&Publish::new(&topic, "while away").qos(1))?;
    let (mut client, _) = s.connect_persistent("c")?;
    client.take_with("while away")?;
    publisher.publish(&Publish::new(&topic, "back again").qos(1))?;
    client.take_with("back again")?;
    Ok(())
}

fn redelivery_has_the_same_packet_id(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut client, _) = s.connect_persistent("c")?;
    client.subscribe(&topic, 2)?;
    let mut publisher = s.connect("publisher")?;
    publisher.publish(&Publish::new(&topic, "one").qos(1))?;
    publisher.publish(&Publish::new(&topic, "two").qos(2))?;
    let (one, two) = (client.message_with("one")?, client.message_with("two")?);
    client.receive_release(two.packet_id)?;
    client.drop_connection()?;
    let (mut client, _) = s.connect_persistent("c")?;
    client.expect_success(PacketType::Pubrel, two.packet_id)?;
    client.send_acknowledgement(PacketType::Pubcomp, two.packet_id)?;
    let again = client.message_with("one")?;
    ensure!(again.dup && again.packet_id == one.packet_id, "sent again as {again:?}");
    client.acknowledge(&again)?;
    s.fence(&mut publisher, &mut client)
}

fn every_version_side_by_side(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let mut clients = Vec::new();
    for version in s.target().capabilities.versions.clone() {
        let name = format!("c{}", version.token());
        let (mut client, _) = s.connect_with(&name, &s.connection_as(version, &name))?;
        client.subscribe(&topic, 2)?;
        clients.push(client);
    }
    for sender in 0..clients.len() {
        let Some(client) = clients.get_mut(sender) else { continue };
        let payload = format!("from {}", client.version);
        client.publish(&Publish::new(&topic, &payload).qos(2))?;
        for client in &mut clients {
            let publish = client.take_with(&payload)?;
            let plain = client.version != Version::V5 || publish.properties.is_empty();
            ensure!(publish.qos == 2 && plain, "`{payload}` came as {publish:?}");
        }
    }
    Ok(())
}

/// DUP, QoS and RETAIN in the first byte of CONNECT are "not used", so they may be anything.
fn flags_of_connect_are_not_used(s: &Scenario<'_>) -> Outcome {
    for flags in [0x04, 0x0f] {
        let connect = s.connection("c");
        let mut bytes = connect.encode();
        if let Some(first) = bytes.first_mut() {
            *first |= flags;
        }
        let mut client = s.open("c")?;
        client.link.note_connect(&connect);
        client.send(&bytes)?;
        client.expect_connack()?;
        client.ping()?;
    }
    Ok(())
}
