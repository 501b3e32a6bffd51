//! Splits a stream into frames. An input is the Maximum Packet Size (one byte, in units of 16 bytes), the
//! length of the chunks in which the stream arrives (one byte), and the stream.

use tidegate_mqtt::{Frame, FrameError, MAX_PACKET_SIZE, frame_len, split_frame};

/// Chunks do not matter, and what is said about a length agrees with the frame.
///
/// # Panics
///
/// When one of these does not hold.
pub fn fuzz_one(data: &[u8]) {
    let [max, chunk, stream @ ..] = data else {
        return;
    };
    let max = match max {
        0xFF => MAX_PACKET_SIZE,
        units => u32::from(*units) * 16,
    };
    let whole = split(stream, stream.len().max(1), max);
    let chunked = split(stream, usize::from(*chunk).max(1), max);
    assert_eq!(whole, chunked, "frames depend on how the stream arrives");
}

/// The sizes of the frames of a stream that arrives in chunks, and how it ends.
fn split(stream: &[u8], chunk: usize, max: u32) -> (Vec<usize>, Result<usize, FrameError>) {
    let mut sizes = Vec::new();
    let mut start = 0;
    let mut arrived = 0;
    while arrived < stream.len() {
        arrived = stream.len().min(arrived + chunk);
        loop {
            let buf = &stream[start..arrived];
            match split_frame(buf, max) {
                Ok(Some(frame)) => {
                    check(buf, &frame, max);
                    start += frame.total_len;
                    sizes.push(frame.total_len);
                }
                Ok(None) => break,
                Err(error) => return (sizes, Err(error)),
            }
        }
    }
    (sizes, Ok(stream.len() - start))
}

fn check(buf: &[u8], frame: &Frame<'_>, max: u32) {
    assert_eq!(frame_len(buf), Ok(Some(frame.total_len)), "two ways to the length");
    assert!(frame.total_len <= max as usize, "the limit holds");
    let header_len = frame.total_len - frame.body.len();
    assert!((2..=5).contains(&header_len), "a fixed header of {header_len} bytes");
    assert_eq!(buf[header_len..frame.total_len], *frame.body, "the body follows the header");
    assert_eq!(buf[0], frame.first_byte, "the first byte is the first");
}
