//! The reason codes that a server may put into each packet of MQTT 5, and their names.

/// CONNACK [MQTT-3.2.2-8].
pub(crate) const CONNACK: &[u8] = &[
    0x00, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x8c, 0x90, 0x95, 0x97, 0x99, 0x9a, 0x9b,
    0x9c, 0x9d, 0x9f,
];
/// PUBACK [MQTT-3.4.2-1] and PUBREC [MQTT-3.5.2-1].
pub(crate) const PUBACK: &[u8] = &[0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99];
/// PUBREL [MQTT-3.6.2-1] and PUBCOMP [MQTT-3.7.2-1].
pub(crate) const PUBREL: &[u8] = &[0x00, 0x92];
/// SUBACK [MQTT-3.9.3-2].
pub(crate) const SUBACK: &[u8] = &[0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8f, 0x91, 0x97, 0x9e, 0xa1, 0xa2];
/// UNSUBACK [MQTT-3.11.3-2].
pub(crate) const UNSUBACK: &[u8] = &[0x00, 0x11, 0x80, 0x83, 0x87, 0x8f, 0x91];
/// DISCONNECT from a server [MQTT-3.14.2-1].
pub(crate) const DISCONNECT: &[u8] = &[
    0x00, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8b, 0x8d, 0x8e, 0x8f, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99,
    0x9a, 0x9b, 0x9c, 0x9d, 0x9e, 0x9f, 0xa0, 0xa1, 0xa2,
];
/// AUTH [MQTT-3.15.2-1].
pub(crate) const AUTH: &[u8] = &[0x00, 0x18];

pub(crate) const MALFORMED_PACKET: u8 = 0x81;
pub(crate) const PROTOCOL_ERROR: u8 = 0x82;
pub(crate) const UNSUPPORTED_PROTOCOL_VERSION: u8 = 0x84;
pub(crate) const CLIENT_IDENTIFIER_NOT_VALID: u8 = 0x85;
pub(crate) const BAD_USER_NAME_OR_PASSWORD: u8 = 0x86;
pub(crate) const NOT_AUTHORIZED: u8 = 0x87;
pub(crate) const BAD_AUTHENTICATION_METHOD: u8 = 0x8c;
pub(crate) const KEEP_ALIVE_TIMEOUT: u8 = 0x8d;
pub(crate) const SESSION_TAKEN_OVER: u8 = 0x8e;
pub(crate) const TOPIC_FILTER_INVALID: u8 = 0x8f;
pub(crate) const TOPIC_NAME_INVALID: u8 = 0x90;
pub(crate) const PACKET_IDENTIFIER_NOT_FOUND: u8 = 0x92;
pub(crate) const RECEIVE_MAXIMUM_EXCEEDED: u8 = 0x93;
pub(crate) const TOPIC_ALIAS_INVALID: u8 = 0x94;
pub(crate) const PACKET_TOO_LARGE: u8 = 0x95;
pub(crate) const NO_SUBSCRIPTION_EXISTED: u8 = 0x11;
pub(crate) const RETAIN_NOT_SUPPORTED: u8 = 0x9a;
pub(crate) const QOS_NOT_SUPPORTED: u8 = 0x9b;
