//! Connect Return Codes and their Reason Codes.

use tidegate_mqtt::{ConnectReturnCode, ReasonCode};

#[test]
fn a_return_code_survives_the_way_to_a_reason_and_back() {
    for byte in 0..=5 {
        let code = ConnectReturnCode::from_byte(byte).unwrap();
        assert_eq!(code as u8, byte);
        assert_eq!(ConnectReturnCode::from_reason(code.reason()), Some(code));
    }
    assert!((6..=u8::MAX).all(|byte| ConnectReturnCode::from_byte(byte).is_none()));
}

#[test]
fn reasons_have_the_return_code_that_says_the_same() {
    let cases = [
        (ReasonCode::Success, Some(0)),
        (ReasonCode::UnsupportedProtocolVersion, Some(1)),
        (ReasonCode::ClientIdentifierNotValid, Some(2)),
        (ReasonCode::ServerUnavailable, Some(3)),
        (ReasonCode::ServerBusy, Some(3)),
        (ReasonCode::ServerShuttingDown, Some(3)),
        (ReasonCode::QuotaExceeded, Some(3)),
        (ReasonCode::UseAnotherServer, Some(3)),
        (ReasonCode::ServerMoved, Some(3)),
        (ReasonCode::ConnectionRateExceeded, Some(3)),
        (ReasonCode::BadUserNameOrPassword, Some(4)),
        (ReasonCode::BadAuthenticationMethod, Some(4)),
        (ReasonCode::NotAuthorized, Some(5)),
        (ReasonCode::Banned, Some(5)),
        (ReasonCode::MalformedPacket, None),
        (ReasonCode::ProtocolError, None),
        (ReasonCode::UnspecifiedError, None),
        (ReasonCode::PacketTooLarge, None),
        (ReasonCode::TopicNameInvalid, None),
        (ReasonCode::RetainNotSupported, None),
        (ReasonCode::QosNotSupported, None),
    ];
    for (reason, byte) in cases {
        let code = ConnectReturnCode::from_reason(reason);
        assert_eq!(code.map(|code| code as u8), byte, "{reason:?}");
    }
}

#[test]
fn a_failure_is_never_taken_for_success() {
    for &reason in ReasonCode::ALL {
        let accepted = ConnectReturnCode::from_reason(reason) == Some(ConnectReturnCode::Accepted);
        assert_eq!(accepted, reason == ReasonCode::Success, "{reason:?}");
    }
}
