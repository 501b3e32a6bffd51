//! The bytes of a home: packets for the client, and frames for the relay between them.

use tidegate_engine::{Output, RELAY_FRAME_MAX};

use super::follower::Follower;
use super::frame::RelayFrame;
use super::goodbye::Goodbye;

/// Separates the frames of a home from its packets. Packets are neither kept nor changed.
#[derive(Debug, Default)]
pub(crate) struct Sieve {
    follower: Follower,
    /// The incomplete frame.
    partial: Vec<u8>,
    /// Complete frames that were not taken yet.
    frames: Vec<RelayFrame>,
}

impl Sieve {
    /// For a home at which an accepted client continues.
    pub(crate) fn of_accepted() -> Self {
        Self { follower: Follower::of_accepted(), ..Self::default() }
    }

    /// True if a DISCONNECT may come next.
    pub(crate) fn is_between_packets(&self) -> bool {
        self.follower.is_between_packets()
    }

    /// Takes the next frame out.
    pub(crate) fn take_frame(&mut self) -> Option<RelayFrame> {
        (!self.frames.is_empty()).then(|| self.frames.remove(0))
    }

    /// Appends the packets among some bytes to the output of the client, up to the goodbye once it is due. Returns true
    /// if no more bytes may follow: after the goodbye, after the frame of a connection that has left, and after an
    /// invalid frame.
    pub(crate) fn sift(&mut self, bytes: &[u8], out: &mut Output, goodbye: &mut Goodbye) -> bool {
        let (mut at, mut from) = (0, 0);
        while at < bytes.len() {
            if self.is_between_packets()
                && let Some(last) = goodbye.take_due()
            {
                out.append(bytes.get(from..at).unwrap_or_default());
                out.append(&last);
                return true;
            }
            let length = self.follower.step(bytes.get(at..).unwrap_or_default()).max(1);
            if self.follower.was_in_frame() {
                out.append(bytes.get(from..at).unwrap_or_default());
                self.partial.extend_from_slice(bytes.get(at..at + length).unwrap_or_default());
                from = at + length;
                if self.partial.len() > RELAY_FRAME_MAX || self.follower.is_at_beginning() && self.end_frame() {
                    return true;
                }
            }
            at += length;
        }
        out.append(bytes.get(from..).unwrap_or_default());
        if self.is_between_packets()
            && let Some(last) = goodbye.take_due()
        {
            out.append(&last);
            return true;
        }
        false
    }

    /// A frame is complete; returns true if it is the last one.
    fn end_frame(&mut self) -> bool {
        let frame = RelayFrame::read(&std::mem::take(&mut self.partial));
        let is_last = matches!(frame, None | Some(RelayFrame::Left(_)));
        self.frames.extend(frame);
        is_last
    }
}

#[cfg(test)]
mod tests {
    use tidegate_engine::{CONTINUED, PartitionId};

    use super::super::frame::{LEAVE, Parcel};
    use super::*;

    #[test]
    fn frames_are_taken_out_however_the_stream_is_cut() {
        let parcel = Parcel { partition: PartitionId(5), proven: vec![0; 200], tail: vec![0, 1] };
        let (connack, publish) = (&[0x20, 2, 0, 0][..], &[0x30, 5, 0, 1, b't', 0, 0][..]);
        let bytes = [connack, &LEAVE, publish, &CONTINUED, publish, &parcel.to_edge()].concat();
        for cut in 0..bytes.len() {
            let (mut sieve, mut out, mut goodbye) = (Sieve::default(), Output::default(), Goodbye::Never);
            assert!(!sieve.sift(&bytes[..cut], &mut out, &mut goodbye), "{cut}");
            assert!(sieve.sift(&bytes[cut..], &mut out, &mut goodbye), "{cut}");
            let frames: Vec<RelayFrame> = std::iter::from_fn(|| sieve.take_frame()).collect();
            assert_eq!(frames, [RelayFrame::Leave, RelayFrame::Continued, RelayFrame::Left(parcel.clone())], "{cut}");
            let mut slices = [std::io::IoSlice::new(&[]); 1];
            out.slices(&mut slices);
            assert_eq!(&*slices[0], [connack, publish, publish].concat(), "{cut}");
        }
    }

    #[test]
    fn a_frame_beyond_the_limit_ends_the_stream() {
        let (mut sieve, mut out) = (Sieve::default(), Output::default());
        // A frame of 2 MiB begins.
        assert!(!sieve.sift(&[0, 0x80, 0x80, 0x80, 0x01], &mut out, &mut Goodbye::Never));
        let part = vec![7; 64 * 1024];
        let most = RELAY_FRAME_MAX / part.len() + 1;
        assert!((0..most).any(|_| sieve.sift(&part, &mut out, &mut Goodbye::Never)), "it ends at the limit");
        assert!(out.is_empty());
        assert_eq!(sieve.take_frame(), None);
    }

    #[test]
    fn an_unknown_frame_ends_the_stream() {
        let (mut sieve, mut out) = (Sieve::default(), Output::default());
        assert!(sieve.sift(&[0, 1, 99, 0x20], &mut out, &mut Goodbye::Never));
        assert!(out.is_empty());
        assert_eq!(sieve.take_frame(), None);
    }
}
