//! PUBACK: answers a PUBLISH of QoS 1, either way (section 3.4).

crate::ack::ack_packet! {
    /// A PUBACK packet: the receiver of a PUBLISH of QoS 1 has taken it over, or, by a Reason Code of 0x80
    /// or greater, has not.
    PubAck
}

#[cfg(test)]
mod tests {
    use super::PubAck;
    use crate::{ReasonCode, Version};

    #[test]
    fn a_server_may_send_any_reason_code() {
        let of_server = |body: &[u8]| PubAck::decode_of_server(Version::V5, 0x40, body).map(|ack| ack.reason_code);
        for (code, meaning) in [
            (0x00, ReasonCode::Success),
            (0x01, ReasonCode::GrantedQos1),
            (0x05, ReasonCode::Success),
            (0x87, ReasonCode::NotAuthorized),
            (0x95, ReasonCode::PacketTooLarge),
            (0xff, ReasonCode::UnspecifiedError),
        ] {
            assert_eq!(of_server(&[0, 7, code]), Ok(meaning), "{code:#x}");
            assert_eq!(meaning.is_error(), code >= 0x80);
        }
        assert_eq!(of_server(&[0, 7, 1, 0]), Ok(ReasonCode::GrantedQos1));
        assert!(of_server(&[0, 7, 1, 1]).is_err(), "its properties are checked");
        assert!(PubAck::decode(Version::V5, 0x40, &[0, 7, 1]).is_err(), "a client may not");
    }
}
