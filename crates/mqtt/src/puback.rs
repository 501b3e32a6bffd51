//! PUBACK: answers a PUBLISH of QoS 1, either way (section 3.4).

crate::ack::ack_packet! {
    /// A PUBACK packet: the receiver of a PUBLISH of QoS 1 has taken it over, or, by a Reason Code of 0x80
    /// or greater, has not.
    PubAck
}
