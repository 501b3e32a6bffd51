//! AUTH and authentication methods, as far as a broker without any of them can be asked.

use crate::case::Case;
use crate::client::Arrival;
use crate::outcome::{Outcome, ensure, failed};
use crate::scenario::Scenario;
use crate::wire::reason_codes::{BAD_AUTHENTICATION_METHOD, MALFORMED_PACKET, NOT_AUTHORIZED, PROTOCOL_ERROR};
use crate::wire::{Bytes, Packet, Property, properties};

pub(super) const CASES: &[Case] = &[
    Case::v5("enhanced_auth.unknown_method_is_refused", unknown_method_is_refused).proves_5(&[
        "MQTT-4.12.0-1",
        "MQTT-3.1.4-2",
        "MQTT-3.2.2-6",
        "MQTT-3.2.2-7",
        "MQTT-3.2.2-8",
        "MQTT-4.13.2-1",
    ]),
    Case::v5("enhanced_auth.none_without_a_method", none_without_a_method).proves_5(&["MQTT-4.12.0-6"]),
    Case::v5("enhanced_auth.auth_without_a_method_closes", auth_without_a_method_closes)
        .proves_5(&["MQTT-4.12.0-7", "MQTT-4.13.1-1"]),
    Case::v5("enhanced_auth.flags", flags).proves_5(&["MQTT-3.15.1-1", "MQTT-2.1.3-1"]),
];

fn method() -> Property {
    Property::AuthenticationMethod("conformance-unknown".to_owned())
}

fn unknown_method_is_refused(s: &Scenario<'_>) -> Outcome {
    for data in [None, Some(vec![1, 2, 3])] {
        let mut connect = s.connection("c").with(method());
        connect.properties.extend(data.map(Property::AuthenticationData));
        let mut client = s.open("c")?;
        client.send_connect(&connect)?;
        let told = client.expect_refusal(&[BAD_AUTHENTICATION_METHOD, NOT_AUTHORIZED])?;
        ensure!(told.is_some() || !s.is_strict(), "closed without a CONNACK (strict)");
    }
    Ok(())
}

fn none_without_a_method(s: &Scenario<'_>) -> Outcome {
    let mut client = s.open("c")?;
    client.send_connect(&s.connection("c"))?;
    // The client's own checks fail on an AUTH packet.
    let Arrival::Packet(Packet::Connack { properties, .. }) = client.arrival()? else {
        return failed("expected CONNACK");
    };
    let told = properties.iter().any(|property| matches!(property, Property::AuthenticationMethod(_)));
    ensure!(!told, "MQTT-4.12.0-6: CONNACK has an authentication method although CONNECT had none");
    client.expect_nothing()
}

fn auth_without_a_method_closes(s: &Scenario<'_>) -> Outcome {
    let named = properties::encode(&[method()]);
    let packets = [
        vec![0xf0, 0],
        Bytes::new().byte(0x18).raw(&named).packet(0xf0),
        Bytes::new().byte(0x19).raw(&named).packet(0xf0),
    ];
    for packet in packets {
        let mut client = s.connect("c")?;
        client.send(&packet)?;
        client.expect_error_close(&[PROTOCOL_ERROR, MALFORMED_PACKET, BAD_AUTHENTICATION_METHOD])?;
    }
    Ok(())
}

fn flags(s: &Scenario<'_>) -> Outcome {
    for flags in [1, 2, 4, 8] {
        let mut client = s.connect("c")?;
        client.send(&[0xf0 | flags, 0])?;
        client.expect_error_close(&[MALFORMED_PACKET, PROTOCOL_ERROR])?;
    }
    Ok(())
}
