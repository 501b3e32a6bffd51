//! Variable Byte Integers.

use proptest::prelude::*;
use tidegate_mqtt::varint::{self, MAX_VARINT, VarintError};

use crate::wire::bytes;

/// The edges of each length, as section 1.5.5 lists them.
const EDGES: [(u32, &str); 10] = [
    (0, "00"),
    (1, "01"),
    (127, "7f"),
    (128, "80 01"),
    (16_383, "ff 7f"),
    (16_384, "80 80 01"),
    (2_097_151, "ff ff 7f"),
    (2_097_152, "80 80 80 01"),
    (268_435_454, "fe ff ff 7f"),
    (268_435_455, "ff ff ff 7f"),
];

#[test]
fn the_edges_of_each_length() {
    for (value, wire) in EDGES {
        let wire = bytes(wire);
        assert_eq!(varint::decode(&wire), Ok(Some((value, wire.len()))));
        assert_eq!(varint::encode(value).unwrap().as_bytes(), wire);
        assert_eq!(varint::len(value), wire.len());
    }
}

#[test]
fn later_bytes_are_not_read() {
    for (value, wire) in EDGES {
        let mut longer = bytes(wire);
        let len = longer.len();
        longer.extend([0xFF, 0xFF, 0xFF, 0xFF, 0xFF]);
        assert_eq!(varint::decode(&longer), Ok(Some((value, len))));
    }
}

#[test]
fn incomplete_integers_wait() {
    for wire in ["", "80", "ff ff", "80 80 80"] {
        assert_eq!(varint::decode(&bytes(wire)), Ok(None), "{wire}");
    }
}

/// [MQTT-1.5.5-1].
#[test]
fn the_fewest_bytes_are_asked_for() {
    for wire in ["80 00", "81 00", "ff 00", "80 80 00", "ff ff ff 00"] {
        assert_eq!(varint::decode(&bytes(wire)), Err(VarintError::NotMinimal), "{wire}");
    }
}

#[test]
fn there_are_four_bytes_at_most() {
    for wire in ["80 80 80 80", "ff ff ff ff 7f", "80 80 80 80 00"] {
        assert_eq!(varint::decode(&bytes(wire)), Err(VarintError::TooLong), "{wire}");
    }
    assert_eq!(varint::encode(MAX_VARINT + 1), None);
    assert_eq!(varint::encode(u32::MAX), None);
}

proptest! {
    #[test]
    fn values_survive(value in 0..=MAX_VARINT) {
        let encoded = varint::encode(value).unwrap();
        let bytes = encoded.as_bytes();
        prop_assert_eq!(varint::len(value), bytes.len());
        prop_assert_eq!(varint::decode(bytes), Ok(Some((value, bytes.len()))));
        for len in 0..bytes.len() {
            prop_assert_eq!(varint::decode(&bytes[..len]), Ok(None));
        }
    }

    #[test]
    fn decoded_bytes_are_encoded_alike(bytes in prop::collection::vec(any::<u8>(), 0..6)) {
        if let Ok(Some((value, len))) = varint::decode(&bytes) {
            let encoded = varint::encode(value).unwrap();
            prop_assert_eq!(encoded.as_bytes(), &bytes[..len]);
        }
    }
}
