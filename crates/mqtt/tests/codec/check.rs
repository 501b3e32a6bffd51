//! The checks that the tests of packets share.

use tidegate_mqtt::{
    DecodeError, EncodeError, MAX_PACKET_SIZE, Packet, PacketId, TopicError, TopicFilter, TopicName, Version,
    split_frame, varint,
};

use crate::wire::{bytes, hex};

pub(crate) const ALL: [Version; 3] = [Version::V31, Version::V311, Version::V5];
/// The versions without properties.
pub(crate) const BEFORE_5: [Version; 2] = [Version::V31, Version::V311];

/// Texts that are no Topic Filters, in the notation of [`bytes`], and why.
pub(crate) const INVALID_FILTERS: &[(&str, TopicError)] = &[
    ("<>", TopicError::Empty),
    ("<ab/+e>", TopicError::MisplacedSingleLevelWildcard),
    ("<a+/b>", TopicError::MisplacedSingleLevelWildcard),
    ("<a#>", TopicError::MisplacedMultiLevelWildcard),
    ("<#/a>", TopicError::MisplacedMultiLevelWildcard),
    ("<$share>", TopicError::EmptyShareName),
    ("<$share/>", TopicError::EmptyShareName),
    ("<$share//a>", TopicError::EmptyShareName),
    ("<$share/g>", TopicError::MissingSharedFilter),
    ("<$share/g/>", TopicError::MissingSharedFilter),
    ("<$share/g+/a>", TopicError::WildcardInShareName),
    ("<$share/g/a#>", TopicError::MisplacedMultiLevelWildcard),
];

pub(crate) fn id(number: u16) -> PacketId {
    PacketId::new(number).unwrap()
}

pub(crate) fn name(text: &str) -> TopicName<'_> {
    TopicName::new(text).unwrap()
}

pub(crate) fn filter(text: &str) -> TopicFilter<'_> {
    TopicFilter::new(text).unwrap()
}

/// Decodes `wire`, which consists of one packet.
pub(crate) fn decode(version: Version, wire: &[u8]) -> Result<Packet<'_>, DecodeError> {
    let frame = split_frame(wire, MAX_PACKET_SIZE).expect("a frame").expect("a whole frame");
    assert_eq!(frame.total_len, wire.len(), "one packet: {}", hex(wire));
    Packet::decode(version, &frame)
}

/// The bytes of a packet with this first byte and body.
pub(crate) fn framed(first_byte: u8, body: &[u8]) -> Vec<u8> {
    let mut wire = vec![first_byte];
    let len = varint::encode(body.len() as u32).unwrap();
    wire.extend_from_slice(len.as_bytes());
    wire.extend_from_slice(body);
    wire
}

/// The packet and the bytes are the same thing, either way; and no shorter body says the same.
pub(crate) fn packet(case: &str, version: Version, wire: &str, packet: Packet<'_>) {
    decodes(case, version, wire, packet);
    encodes(case, version, packet, wire);
    let wire = bytes(wire);
    let frame = split_frame(&wire, MAX_PACKET_SIZE).unwrap().unwrap();
    for len in 0..frame.body.len() {
        let shorter = framed(frame.first_byte, &frame.body[..len]);
        assert_ne!(decode(version, &shorter), Ok(packet), "{case} in {version}: {len} bytes of the body say the same");
    }
}

/// The bytes decode to the packet; encoding it may give others.
pub(crate) fn decodes(case: &str, version: Version, wire: &str, packet: Packet<'_>) {
    assert_eq!(decode(version, &bytes(wire)), Ok(packet), "{case} in {version}: decode {wire}");
}

/// The packet encodes to the bytes, after whatever is in the buffer.
pub(crate) fn encodes(case: &str, version: Version, packet: Packet<'_>, wire: &str) {
    let mut out = b"before".to_vec();
    assert_eq!(packet.encode(version, &mut out), Ok(()), "{case} in {version}");
    let encoded = out.strip_prefix(b"before").expect("earlier bytes stay");
    assert_eq!(hex(encoded), hex(&bytes(wire)), "{case} in {version}: encode");
}

/// The bytes are no packet, for this reason.
pub(crate) fn rejects(case: &str, version: Version, wire: &str, error: DecodeError) {
    assert_eq!(decode(version, &bytes(wire)), Err(error), "{case} in {version}: decode {wire}");
}

/// The packet has no encoding, for this reason, and nothing is appended.
pub(crate) fn refuses(case: &str, version: Version, packet: Packet<'_>, error: EncodeError) {
    let mut out = b"before".to_vec();
    assert_eq!(packet.encode(version, &mut out), Err(error), "{case} in {version}");
    assert_eq!(out, b"before", "{case} in {version}: nothing is appended");
}
