//! Records as messages of NATS: the payload as it is, headers as headers, and what NATS has no place for in headers of
//! ours.

use async_nats::HeaderMap;
use bytes::Bytes;

use super::naming::{hex, unhex};
use crate::{Append, Header, Position, Record};

/// The key, in hexadecimal digits.
const KEY: &str = "Tidegate-Key";
/// The names of the headers in their order, which NATS keeps within a name only.
const ORDER: &str = "Tidegate-Order";
/// On a claim, instead of a record.
const CLAIM: &str = "Tidegate-Claim";

pub(super) fn headers_of(append: &Append) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if !append.key.is_empty() {
        headers.insert(KEY, hex(&append.key));
    }
    if !append.headers.is_empty() {
        let names: Vec<&str> = append.headers.iter().map(|header| header.name.as_str()).collect();
        headers.insert(ORDER, names.join(","));
    }
    for header in &append.headers {
        headers.append(header.name.as_str(), header.value.as_str());
    }
    headers
}

pub(super) fn claim_headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CLAIM, "1");
    headers
}

/// Whether a header is NATS's or ours.
fn is_reserved(name: &str) -> bool {
    let begins = |prefix: &str| name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    begins("nats-") || begins("tidegate-")
}

/// The record that a message is; `None` for a claim.
pub(super) fn record_of(position: Position, headers: Option<&HeaderMap>, payload: Bytes) -> Option<Record> {
    let get = |name: &str| headers.and_then(|headers| headers.get(name)).map(|value| value.as_str().to_owned());
    if get(CLAIM).is_some() {
        return None;
    }
    let key = get(KEY).and_then(|key| unhex(&key)).unwrap_or_default();
    let mut ordered: Vec<Header> = Vec::new();
    for name in get(ORDER).unwrap_or_default().split(',').filter(|name| !name.is_empty()) {
        let before = ordered.iter().filter(|header| header.name == name).count();
        let value = headers.and_then(|headers| headers.get_all(name).nth(before));
        if let Some(value) = value {
            ordered.push(Header { name: name.to_owned(), value: value.as_str().to_owned() });
        }
    }
    if let Some(headers) = headers.filter(|_| get(ORDER).is_none()) {
        // Others than us need not say an order.
        for (name, values) in headers.iter().filter(|(name, _)| !is_reserved(name.as_ref())) {
            let name: &str = name.as_ref();
            ordered
                .extend(values.iter().map(|value| Header { name: name.to_owned(), value: value.as_str().to_owned() }));
        }
    }
    Some(Record { position, key: key.into(), headers: ordered, payload })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_keep_their_order_within_and_between_names() {
        let append = Append::new("x").with_header("b", "1").with_header("a", "2").with_header("b", "3").with_key("k");
        let record = record_of(Position(1), Some(&headers_of(&append)), Bytes::new()).unwrap();
        assert_eq!((record.headers, record.key), (append.headers, append.key));
        assert_eq!(record_of(Position(1), Some(&claim_headers()), Bytes::new()), None);
        assert_eq!(record_of(Position(1), None, Bytes::from("x")).unwrap().payload, "x");
        let mut theirs = HeaderMap::new();
        for (name, value) in [("recipient", "n1"), ("Nats-Msg-Id", "7"), (KEY, "6b")] {
            theirs.insert(name, value);
        }
        let record = record_of(Position(1), Some(&theirs), Bytes::new()).unwrap();
        assert_eq!((record.headers.len(), record.headers[0].value.as_str(), &record.key[..]), (1, "n1", &b"k"[..]));
    }
}
