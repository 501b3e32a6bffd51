//! The payload of CONNECT: client identifiers, will fields and credentials.

use crate::case::Case;
use crate::client::Connack;
use crate::outcome::{Outcome, ensure, failed, skipped};
use crate::scenario::Scenario;
use crate::wire::reason_codes::{
    BAD_AUTHENTICATION_METHOD, BAD_USER_NAME_OR_PASSWORD, CLIENT_IDENTIFIER_NOT_VALID, MALFORMED_PACKET,
    NOT_AUTHORIZED, PROTOCOL_ERROR, TOPIC_NAME_INVALID,
};
use crate::wire::{Bytes, Property, Will};

pub(super) const CASES: &[Case] = &[
    Case::both("connect_payload.client_id_alphabet_and_lengths", client_id_alphabet_and_lengths)
        .proves_311(&["MQTT-3.1.3-5"])
        .proves_5(&["MQTT-3.1.3-5"]),
    Case::both("connect_payload.client_id_ill_formed", client_id_ill_formed)
        .proves_311(&["MQTT-3.1.3-4", "MQTT-1.5.3-1", "MQTT-1.5.3-2"])
        .proves_5(&["MQTT-3.1.3-4", "MQTT-1.5.4-1", "MQTT-1.5.4-2"]),
    Case::both("connect_payload.empty_client_id", empty_client_id).proves_311(&["MQTT-3.1.3-6"]).proves_5(&[
        "MQTT-3.1.3-6",
        "MQTT-3.1.3-7",
        "MQTT-3.2.2-16",
    ]),
    Case::v311("connect_payload.empty_client_id_with_clean_session_0", empty_client_id_with_clean_session_0)
        .proves_311(&["MQTT-3.1.3-7", "MQTT-3.1.3-8", "MQTT-3.1.3-9", "MQTT-3.2.2-4", "MQTT-3.2.2-5"]),
    Case::v5("connect_payload.assigned_client_id_works_like_any", assigned_client_id_works_like_any).proves_5(&[
        "MQTT-3.1.3-7",
        "MQTT-3.1.3-8",
        "MQTT-3.2.2-16",
    ]),
    Case::both("connect_payload.will_fields_missing", will_fields_missing)
        .proves_311(&["MQTT-3.1.2-9"])
        .proves_5(&["MQTT-3.1.2-9"]),
    Case::both("connect_payload.will_topic_invalid", will_topic_invalid)
        .proves_311(&["MQTT-3.1.3-10", "MQTT-1.5.3-1", "MQTT-1.5.3-2"])
        .proves_5(&["MQTT-3.1.3-11", "MQTT-1.5.4-1", "MQTT-1.5.4-2", "MQTT-4.7.0-1", "MQTT-4.7.3-1", "MQTT-4.7.3-2"]),
    Case::both("connect_payload.user_name_and_its_flag", user_name_and_its_flag)
        .proves_311(&["MQTT-3.1.2-18", "MQTT-3.1.2-19"])
        .proves_5(&["MQTT-3.1.2-16", "MQTT-3.1.2-17"]),
    Case::both("connect_payload.password_and_its_flag", password_and_its_flag)
        .proves_311(&["MQTT-3.1.2-20", "MQTT-3.1.2-21"])
        .proves_5(&["MQTT-3.1.2-18", "MQTT-3.1.2-19"]),
    Case::v311("connect_payload.password_needs_a_user_name", password_needs_a_user_name).proves_311(&["MQTT-3.1.2-22"]),
    Case::v5("connect_payload.password_without_user_name_is_well_formed", password_alone_is_well_formed),
    Case::both("connect_payload.user_name_ill_formed", user_name_ill_formed)
        .proves_311(&["MQTT-3.1.3-11", "MQTT-1.5.3-1"])
        .proves_5(&["MQTT-3.1.3-12", "MQTT-1.5.4-1"]),
    Case::v5("connect_payload.will_properties_malformed", will_properties_malformed).proves_5(&["MQTT-3.1.4-1"]),
];

const BROKEN: &[u8] = &[MALFORMED_PACKET, PROTOCOL_ERROR];
const LETTERS_AND_DIGITS: &str = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
const CLIENT_ID_LENGTH: usize = 23;

fn client_id_alphabet_and_lengths(s: &Scenario<'_>) -> Outcome {
    let own = s.client_id("");
    let room = CLIENT_ID_LENGTH - own.len();
    let mut ids = Vec::new();
    // The whole alphabet in identifiers of the full length, then each shorter length that stays unique.
    for letters in LETTERS_AND_DIGITS.as_bytes().chunks(room) {
        ids.push(format!("{own}{}", String::from_utf8_lossy(letters)));
    }
    ids.extend((0..room).map(|length| format!("{own}{}", "z".repeat(length))));
    // A single letter cannot be unique; it differs at least from run to run and by version.
    let sum = s.client_id("").bytes().map(usize::from).sum::<usize>();
    ids.extend(LETTERS_AND_DIGITS.chars().nth(sum % LETTERS_AND_DIGITS.len()).map(String::from));
    for id in ids {
        let mut connect = s.connection("");
        connect.client_id.clone_from(&id);
        let (client, connack) = s.connect_with("c", &connect)?;
        ensure!(assigned(&connack).is_none_or(|other| other == id), "another client identifier than {id} is assigned");
        client.disconnect()?;
    }
    Ok(())
}

fn client_id_ill_formed(s: &Scenario<'_>) -> Outcome {
    for client_id in super::utf8::ILL_FORMED {
        let connect = s.connection("c");
        let packet = connect.head(connect.flags()).binary(client_id).packet(0x10);
        refused(s, &packet, &[MALFORMED_PACKET, PROTOCOL_ERROR, CLIENT_IDENTIFIER_NOT_VALID])?;
    }
    Ok(())
}

fn empty_client_id(s: &Scenario<'_>) -> Outcome {
    let mut connect = s.connection("");
    connect.client_id.clear();
    let mut first = s.open("first")?;
    first.send_connect(&connect)?;
    let connack = first.accepted_or_skip("an empty client identifier")?;
    let (mut second, other) = s.connect_with("second", &connect)?;
    if s.is_v5() {
        let (Some(id), Some(other)) = (assigned(&connack), assigned(&other)) else {
            return failed("MQTT-3.2.2-16: CONNACK has no Assigned Client Identifier");
        };
        ensure!(!id.is_empty() && id != other, "MQTT-3.2.2-16: `{id}` is assigned to two clients at the same time");
    }
    // Two unnamed clients are two clients: neither takes the other over.
    first.expect_nothing()?;
    second.expect_nothing()
}

fn empty_client_id_with_clean_session_0(s: &Scenario<'_>) -> Outcome {
    let mut connect = s.connection("").clean(false);
    connect.client_id.clear();
    let mut client = s.open("c")?;
    client.send_connect(&connect)?;
    let told = client.expect_refusal(&[0x02])?;
    ensure!(told.is_some(), "MQTT-3.1.3-8: closed without CONNACK 0x02");
    Ok(())
}

fn assigned_client_id_works_like_any(s: &Scenario<'_>) -> Outcome {
    let mut connect = s.connection("").persistent();
    connect.client_id.clear();
    let mut client = s.open("unnamed")?;
    client.send_connect(&connect)?;
    let connack = match client.expect(crate::wire::PacketType::Connack)? {
        crate::wire::Packet::Connack { code: 0, properties, .. } => properties,
        crate::wire::Packet::Connack { code: CLIENT_IDENTIFIER_NOT_VALID, .. } => {
            client.expect_close()?;
            return skipped("the broker refuses an empty client identifier with clean start 0");
        }
        other => return failed(format!("an empty client identifier is answered with {other:?}")),
    };
    let id = connack.iter().find_map(|property| match property {
        Property::AssignedClientIdentifier(id) => Some(id.clone()),
        _ => None,
    });
    let Some(id) = id else {
        return failed("MQTT-3.2.2-16: CONNACK has no Assigned Client Identifier");
    };
    client.disconnect()?;
    connect.client_id = id;
    let (client, connack) = s.connect_with("named", &connect)?;
    ensure!(connack.session_present, "MQTT-3.1.3-7: the session of the assigned client identifier is not there");
    client.disconnect()
}

fn will_fields_missing(s: &Scenario<'_>) -> Outcome {
    let connect = s.connection("c");
    let payload = Bytes::new().text(&connect.client_id);
    let payload = if s.is_v5() { payload.byte(0) } else { payload };
    let no_fields = Bytes::new().text(&connect.client_id);
    let no_payload = payload.text(&s.topic("will"));
    for fields in [no_fields, no_payload] {
        refused(s, &connect.head(0x06).raw(&fields.into_vec()).packet(0x10), BROKEN)?;
    }
    Ok(())
}

fn will_topic_invalid(s: &Scenario<'_>) -> Outcome {
    let connect = s.connection("c");
    let topics = [&b"\xc0\x80"[..], b"\xed\xa0\x80", b"nul\0", b"wild/+", b"wild/#", b""];
    for topic in topics {
        let payload = Bytes::new().text(&connect.client_id);
        let payload = if s.is_v5() { payload.byte(0) } else { payload };
        let payload = payload.binary(topic).text("will").into_vec();
        let packet = connect.head(0x06).raw(&payload).packet(0x10);
        refused(s, &packet, &[MALFORMED_PACKET, PROTOCOL_ERROR, TOPIC_NAME_INVALID])?;
    }
    Ok(())
}

fn user_name_and_its_flag(s: &Scenario<'_>) -> Outcome {
    let plain = s.connection("c");
    let (mut without, mut with) = (plain.clone(), plain);
    (without.user_name, without.password) = (None, None);
    (with.user_name, with.password) = (Some("user".to_owned()), None);
    refused(s, &without.encode_with_flags(0x82), BROKEN)?;
    refused(s, &with.encode_with_flags(0x02), BROKEN)
}

fn password_and_its_flag(s: &Scenario<'_>) -> Outcome {
    let mut connect = s.connection("c");
    connect.user_name = Some("user".to_owned());
    connect.password = None;
    refused(s, &connect.encode_with_flags(0xc2), BROKEN)?;
    connect.password = Some(b"password".to_vec());
    refused(s, &connect.encode_with_flags(0x82), BROKEN)
}

fn password_needs_a_user_name(s: &Scenario<'_>) -> Outcome {
    let mut connect = s.connection("c");
    connect.user_name = None;
    connect.password = Some(b"password".to_vec());
    refused(s, &connect.encode(), BROKEN)
}

/// MQTT 5 allows a password alone. A broker may dislike it, but as credentials, not as a malformed packet.
fn password_alone_is_well_formed(s: &Scenario<'_>) -> Outcome {
    let mut connect = s.connection("c");
    connect.user_name = None;
    connect.password = Some(b"password".to_vec());
    let mut client = s.open("c")?;
    client.send_connect(&connect)?;
    match client.expect(crate::wire::PacketType::Connack)? {
        crate::wire::Packet::Connack { code, .. } => ensure!(
            [0, BAD_USER_NAME_OR_PASSWORD, NOT_AUTHORIZED, BAD_AUTHENTICATION_METHOD].contains(&code),
            "a password without a user name is answered with 0x{code:02x}"
        ),
        other => return failed(format!("expected CONNACK, got {other:?}")),
    }
    Ok(())
}

fn user_name_ill_formed(s: &Scenario<'_>) -> Outcome {
    for user_name in super::utf8::ILL_FORMED {
        let connect = s.connection("c");
        let packet = connect.head(0x82).text(&connect.client_id).binary(user_name).packet(0x10);
        refused(s, &packet, &[MALFORMED_PACKET, PROTOCOL_ERROR, BAD_USER_NAME_OR_PASSWORD])?;
    }
    Ok(())
}

fn will_properties_malformed(s: &Scenario<'_>) -> Outcome {
    let broken = [
        vec![Property::WillDelayInterval(1), Property::WillDelayInterval(1)],
        vec![Property::TopicAlias(1)],
        vec![Property::SessionExpiryInterval(1)],
    ];
    for properties in broken {
        let mut will = Will::new(&s.topic("will"), "x");
        will.properties = properties;
        let codes = &[MALFORMED_PACKET, PROTOCOL_ERROR, TOPIC_NAME_INVALID];
        refused(s, &s.connection("c").will(will).encode(), codes)?;
    }
    Ok(())
}

fn assigned(connack: &Connack) -> Option<&str> {
    connack.properties.iter().find_map(|property| match property {
        Property::AssignedClientIdentifier(id) => Some(id.as_str()),
        _ => None,
    })
}

fn refused(s: &Scenario<'_>, bytes: &[u8], codes: &[u8]) -> Outcome {
    let mut client = s.open("c")?;
    client.send_anyway(bytes);
    client.expect_malformed_connect(codes)
}
