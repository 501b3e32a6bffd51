//! PUBREC: answers a PUBLISH of QoS 2, either way (section 3.5).

crate::ack::ack_packet! {
    /// A PUBREC packet: the receiver of a PUBLISH of QoS 2 has taken it over, or, by a Reason Code of 0x80
    /// or greater, has not.
    PubRec
}
