//! From bytes to packets: finding frames, sending each to its handler, and holding back a publisher that has to wait.

use crate::ids::ShardId;
use tidegate_mqtt::frame_len;

/// Whether the next frame of the same connection may be taken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Go on.
    Next,
    /// Go on behind the bytes of further packets that were taken with the frame, which follow it.
    NextBehind(usize),
    /// The frame and the bytes behind it stay: their turn has not come.
    Hold,
    /// The client's home is another shard, where this frame and all behind it go.
    HandOver(ShardId),
}

impl Flow {
    /// Go on behind the bytes of further packets that were taken with a frame.
    #[inline]
    pub(crate) fn next_behind(bytes: usize) -> Self {
        if bytes == 0 { Self::Next } else { Self::NextBehind(bytes) }
    }
}

/// Bytes of a fixed header, at most.
const FIXED_HEADER_MAX: usize = 5;

/// How many of the bytes behind an incomplete packet belong to it; all, where that is not known. The packets behind it need
/// not be copied.
pub(crate) fn len_to_complete(packet: &[u8], behind: &[u8]) -> usize {
    let mut header = [0; FIXED_HEADER_MAX];
    let mut known = 0;
    for (place, byte) in header.iter_mut().zip(packet.iter().chain(behind)) {
        *place = *byte;
        known += 1;
    }
    match frame_len(&header[..known]) {
        Ok(Some(len)) if len > packet.len() => (len - packet.len()).min(behind.len()),
        _ => behind.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_rest_of_an_incomplete_packet_belongs_to_it() {
        // A body of 300 bytes: its length takes two bytes.
        let packet = [&[0x30, 0xAC, 0x02][..], &[b'x'; 300]].concat();
        let input = [&packet[..], b"\xC0\0"].concat();
        for at in 1..packet.len() {
            let (tail, behind) = input.split_at(at);
            assert_eq!(len_to_complete(tail, behind), packet.len() - at, "cut at {at}");
            let short = &behind[..behind.len() / 2];
            assert_eq!(len_to_complete(tail, short), short.len().min(packet.len() - at), "incomplete, cut at {at}");
        }
        assert_eq!(len_to_complete(&packet, b"\xC0\0"), 2, "it is complete, and waits");
        assert_eq!(len_to_complete(b"\0", b"abc"), 3, "no packet begins like this");
    }
}
