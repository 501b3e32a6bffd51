//! Frames between the nodes of a cluster.

use tidegate_node::cluster::wire::{Frame, MAX_FRAME_BYTES, MAX_GREETING_BYTES, put_frame, split_frame};

/// Reads any bytes as a stream of frames, and every beginning of them: what is decided stays decided, whatever follows.
///
/// # Panics
/// When something does not hold.
pub fn fuzz_one(data: &[u8]) {
    for limit in [MAX_GREETING_BYTES, MAX_FRAME_BYTES] {
        let mut rest = data;
        while let Ok(Some((frame, length))) = split_frame(rest, limit) {
            assert!((5..=limit + 4).contains(&length) && length <= rest.len(), "a frame of {length} bytes");
            for part in [0, 3, 4, 5, length - 1] {
                if part < length {
                    assert_eq!(
                        split_frame(&rest[..part], limit),
                        Ok(None),
                        "{part} bytes of {length} are a whole frame"
                    );
                }
            }
            let mut again = Vec::new();
            put_frame(&frame, &mut again);
            // A refusal for a reason of a later version is read as one that is known; all else has one form.
            if !matches!(frame, Frame::Refusal(_)) {
                assert_eq!(again, &rest[..length], "it is written as it was read");
            }
            rest = &rest[length..];
        }
    }
}
