//! Records as Kafka's records: key, payload and headers as they are; claims are marked by a header of ours.

use bytes::Bytes;
use rdkafka::Message;
use rdkafka::message::{Header as KafkaHeader, Headers, OwnedHeaders};
use tidegate_panics::contain;

use crate::{Append, Header, LogPartition, Position, Record, Tally};

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

/// The record that a message is; `None` for a claim. `headless` counts those whose headers cannot be read.
pub(super) fn record_of(position: Position, message: &impl Message, headless: &Tally) -> Option<Record> {
    let headers = read_headers(message.headers(), message.topic(), position, headless)?;
    let bytes = |part: Option<&[u8]>| part.map(Bytes::copy_from_slice).unwrap_or_default();
    Some(Record { position, key: bytes(message.key()), headers, payload: bytes(message.payload()) })
}

/// The headers of a record, empty if they cannot be read; `None` for a claim.
fn read_headers(
    of_message: Option<&impl Headers>,
    topic: &str,
    position: Position,
    headless: &Tally,
) -> Option<Vec<Header>> {
    texts(of_message).unwrap_or_else(|NoText| {
        if let Some(times) = headless.note() {
            let position = position.0;
            tracing::warn!(
                topic,
                position,
                times,
                "the name of a header is not UTF-8; reading the record without headers"
            );
        }
        Some(Vec::new())
    })
}

/// The name of a header is no text.
#[derive(Debug, PartialEq, Eq)]
struct NoText;

/// Headers as texts; `None` for a claim.
fn texts(of_message: Option<&impl Headers>) -> Result<Option<Vec<Header>>, NoText> {
    let read = || {
        let mut headers = Vec::new();
        for header in of_message.into_iter().flat_map(Headers::iter) {
            if header.key == CLAIM {
                return None;
            }
            // Headers of other programs need not be text.
            let value = String::from_utf8_lossy(header.value.unwrap_or_default()).into_owned();
            headers.push(Header { name: header.key.to_owned(), value });
        }
        Some(headers)
    };
    // The client panics at such a name, and the reader would end with it.
    contain(read).map_err(|_| NoText)
}

/// An offset as a position.
pub(super) fn position_of(offset: i64) -> Position {
    Position(u64::try_from(offset).unwrap_or_default())
}

/// The partition in Kafka's numbers; there are at most 4,096.
pub(super) fn index_of(place: &LogPartition) -> i32 {
    place.partition.0.cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Most headers that the client reads.
    struct Theirs(usize);

    impl Headers for Theirs {
        fn count(&self) -> usize {
            2
        }

        fn try_get(&self, at: usize) -> Option<KafkaHeader<'_, &[u8]>> {
            assert!(at < self.0, "the client says so of a name that is no text");
            Some(KafkaHeader { key: "h", value: Some(b"\xff") })
        }
    }

    #[test]
    fn of_headers_that_are_no_text_the_log_hears_now_and_then() {
        let headless = Tally::default();
        for _ in 0..20 {
            assert_eq!(read_headers(Some(&Theirs(1)), "t", Position(1), &headless), Some(Vec::new()));
        }
        let later = std::time::Instant::now() + std::time::Duration::from_secs(60);
        assert_eq!(headless.note_at(later), Some(20), "one was logged, and this is one more");
    }

    #[test]
    fn a_header_name_that_is_no_text_ends_no_reader() {
        assert_eq!(texts(Some(&Theirs(1))), Err(NoText));
        let read = texts(Some(&Theirs(2))).unwrap().unwrap();
        assert_eq!(read.iter().map(|header| header.value.as_str()).collect::<Vec<_>>(), ["\u{fffd}"; 2]);
        assert_eq!(texts(None::<&OwnedHeaders>), Ok(Some(Vec::new())));
        assert_eq!(texts(Some(&claim_headers())), Ok(None));
    }
}
