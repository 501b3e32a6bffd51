//! On any input from a server, the client does not panic, and stops after an error.

use proptest::prelude::*;

use tidegate_client::{Acknowledgement, Event, Options, QoS, Version};

use crate::script::{Script, accepted, message, options};

fn version() -> impl Strategy<Value = Version> {
    prop_oneof![Just(Version::V31), Just(Version::V311), Just(Version::V5)]
}

/// Packets that look right at first: a type, a length that fits, small numbers inside.
fn packet() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0_u8), 0..8_u8, any::<u8>()];
    (any::<u8>(), prop::collection::vec(byte, 0..12)).prop_map(|(first_byte, body)| {
        let mut packet = vec![first_byte, body.len() as u8];
        packet.extend(body);
        packet
    })
}

proptest! {
    #[test]
    fn any_packets_in_any_pieces(
        version in version(),
        manual in any::<bool>(),
        packets in prop::collection::vec(packet(), 0..40),
        piece in 1..20_usize,
    ) {
        let own = Options {
            acknowledgement: if manual { Acknowledgement::Manual } else { Acknowledgement::Automatic },
            trace: true,
            ..options(version)
        };
        let mut script = Script::new(own);
        script.client.open(script.now).unwrap();
        script.receive(accepted(version));
        for qos in [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce] {
            script.client.publish(script.now, message("t", "x", qos)).unwrap();
        }
        let mut ends = 0;
        for bytes in packets.concat().chunks(piece) {
            script.receive(bytes);
            script.sent();
            while let Some(event) = script.client.poll_event() {
                match event {
                    Event::Message(message) => if let Some(delivery) = message.delivery {
                        script.client.acknowledge(script.now, delivery);
                    },
                    Event::Disconnected(_) => ends += 1,
                    _ => prop_assert!(ends == 0 || matches!(event, Event::Published(_) | Event::Trace(_))),
                }
            }
        }
        prop_assert!(ends <= 1);
        prop_assert_eq!(ends == 1, script.client.wants_close());
        script.client.handle_closed();
        script.client.open(script.now).unwrap();
    }
}
