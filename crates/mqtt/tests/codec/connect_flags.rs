//! The Connect Flags: every combination, in every version.

use tidegate_mqtt::{Connect, DecodeError, Version};

use crate::check::ALL;
use crate::wire::bytes;

/// A body with these flags, and exactly the fields that they announce.
fn body(version: Version, flags: u8) -> Vec<u8> {
    let mut body = bytes(match version {
        Version::V31 => "<MQIsdp> 03",
        Version::V311 => "<MQTT> 04",
        Version::V5 => "<MQTT> 05",
    });
    body.push(flags);
    body.extend(bytes(if version.is_v5() { "003c 00 <c>" } else { "003c <c>" }));
    if flags & 0x04 != 0 {
        body.extend(bytes(if version.is_v5() { "00 <t> <m>" } else { "<t> <m>" }));
    }
    if flags & 0x80 != 0 {
        body.extend(bytes("<u>"));
    }
    if flags & 0x40 != 0 {
        body.extend(bytes("<p>"));
    }
    body
}

/// The rules of the specification for the flags.
fn decode_flags(version: Version, flags: u8) -> Result<(), DecodeError> {
    let strict = version != Version::V31;
    let will = flags & 0x04 != 0;
    // [MQTT-3.1.2-3]
    if strict && flags & 0x01 != 0 {
        return Err(DecodeError::ReservedBits { field: "connect flags" });
    }
    // [MQTT-3.1.2-11], [MQTT-3.1.2-13]; [MQTT-3.1.2-13], [MQTT-3.1.2-15] of 3.1.1
    if strict && !will && flags & 0x38 != 0 {
        return Err(DecodeError::WillFlagsWithoutWill);
    }
    // [MQTT-3.1.2-12], [MQTT-3.1.2-14] of 3.1.1
    if will && flags & 0x18 == 0x18 {
        return Err(DecodeError::InvalidQos { field: "will QoS" });
    }
    // [MQTT-3.1.2-22] of 3.1.1
    if !version.is_v5() && flags & 0xC0 == 0x40 {
        return Err(DecodeError::PasswordWithoutUserName);
    }
    Ok(())
}

#[test]
fn every_combination() {
    for version in ALL {
        for flags in 0..=u8::MAX {
            let body = body(version, flags);
            let decoded = Connect::decode(0x10, &body);
            let case = format!("flags {flags:#010b} in {version}");
            if let Err(error) = decode_flags(version, flags) {
                assert_eq!(decoded, Err(error), "{case}");
                continue;
            }
            let connect = decoded.expect(&case);
            assert_eq!(connect.version, version, "{case}");
            assert_eq!(connect.clean_start, flags & 0x02 != 0, "{case}");
            assert_eq!(connect.will.is_some(), flags & 0x04 != 0, "{case}");
            assert_eq!(connect.username.is_some(), flags & 0x80 != 0, "{case}");
            assert_eq!(connect.password.is_some(), flags & 0x40 != 0, "{case}");
            if let Some(will) = connect.will {
                assert_eq!(will.qos.bits(), flags >> 3 & 0b11, "{case}");
                assert_eq!(will.retain, flags & 0x20 != 0, "{case}");
            }
            let mut again = Vec::new();
            connect.encode(&mut again).expect(&case);
            // MQTT 3.1 accepts bits without a meaning; they are not encoded again.
            let meaning = if flags & 0x04 == 0 { 0xC2 } else { 0xFE };
            let canonical = self::body(version, flags & meaning);
            assert_eq!(again[2..], canonical, "{case}");
        }
    }
}
