//! Records as Kafka's records: key, payload and headers as they are; claims are marked by a header of ours.

use bytes::Bytes;
use rdkafka::Message;
use rdkafka::message::{Header as KafkaHeader, Headers, OwnedHeaders};

use crate::{Append, Header, Place, Position, Record};

/// On a claim, instead of a record.
const CLAIM: &str = "Tidegate-Claim";

pub(super) fn headers_of(append: &Append) -> OwnedHeaders {
    append.headers.iter().fold(OwnedHeaders::new(), |headers, header| {
        headers.insert(KafkaHeader { key: &header.name, value: Some(header.value.as_bytes()) })
    })
}

pub(super) fn claim_headers() -> OwnedHeaders {
    OwnedHeaders::new().insert(KafkaHeader { key: CLAIM, value: Some(b"1".as_slice()) })
}

/// The record that a message is; `None` for a claim.
pub(super) fn record_of(position: Position, message: &impl Message) -> Option<Record> {
    let mut headers = Vec::new();
    for header in message.headers().into_iter().flat_map(Headers::iter) {
        if header.key == CLAIM {
            return None;
        }
        // What others write need not be text.
        let value = String::from_utf8_lossy(header.value.unwrap_or_default()).into_owned();
        headers.push(Header { name: header.key.to_owned(), value });
    }
    let bytes = |part: Option<&[u8]>| part.map(Bytes::copy_from_slice).unwrap_or_default();
    Some(Record { position, key: bytes(message.key()), headers, payload: bytes(message.payload()) })
}

/// An offset as a position.
pub(super) fn position_of(offset: i64) -> Position {
    Position(u64::try_from(offset).unwrap_or_default())
}

/// Which partition it is in Kafka's numbers; there are at most 4,096.
pub(super) fn index_of(place: &Place) -> i32 {
    place.partition.0.cast_signed()
}
