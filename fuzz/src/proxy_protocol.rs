//! Headers of the PROXY protocol.

use tidegate_node::proxy_protocol::{HEADER_MAX, Progress, begins_header, parse};

/// Reads any bytes, and every beginning of them: what is decided stays decided, whatever follows.
///
/// # Panics
/// When something does not hold.
pub fn fuzz_one(data: &[u8]) {
    let data = data.get(..HEADER_MAX + 64).unwrap_or(data);
    let whole = parse(data);
    let mut decided = None;
    for length in 0..=data.len() {
        let part = &data[..length];
        let now = parse(part);
        if let Ok(Progress::Complete(header)) = now {
            assert!((15..=length.min(HEADER_MAX)).contains(&header.length), "a header of {} bytes", header.length);
            assert_eq!(begins_header(part), Some(true), "a header begins as one");
        }
        match &decided {
            Some(before) => assert_eq!(&now, before, "more bytes change the outcome"),
            None if now == Ok(Progress::Partial) => assert!(length < HEADER_MAX, "it waits for ever"),
            None => decided = Some(now),
        }
    }
    assert_eq!(decided.unwrap_or(Ok(Progress::Partial)), whole, "the outcome is the same");
}
