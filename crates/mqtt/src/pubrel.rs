//! PUBREL: answers a PUBREC, either way (section 3.6).

crate::ack::ack_packet! {
    /// A PUBREL packet: the sender of a PUBLISH of QoS 2 gives its Packet Identifier free. Its flags are
    /// 0b0010 ([MQTT-3.6.1-1]).
    PubRel
}
