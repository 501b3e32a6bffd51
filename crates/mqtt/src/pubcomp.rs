//! PUBCOMP: answers a PUBREL, either way (section 3.7).

crate::ack::ack_packet! {
    /// A PUBCOMP packet: the last of the four packets of a message of QoS 2.
    PubComp
}
