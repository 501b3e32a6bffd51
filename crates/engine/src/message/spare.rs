//! Memory of messages that nothing refers to any more, for the next ones.
//!
//! A busy shard keeps and forgets as many messages as pass it. Their memory goes around here: the allocator would take
//! several hundred instructions for each.

use crate::message::{Message, MessageRef};
use std::rc::Rc;

/// Bytes of topic, properties and payload come in multiples of this, so that messages of similar length share memory and
/// none holds much more than it counts for.
const STEP: usize = 32;

/// Longer messages are freed at once, bytes.
const LONGEST: usize = 512;

/// Messages whose memory waits, of all lengths together: with [`LONGEST`] about 600 KiB at most.
const MOST: usize = 1024;

/// Bytes of the counts of references to a message.
const COUNTS: usize = 2 * size_of::<usize>();

/// The memory of forgotten messages, by its length.
#[derive(Debug, Default)]
pub(crate) struct SpareMessages {
    by_steps: [Vec<MessageRef>; LONGEST / STEP + 1],
    count: usize,
    bytes: u64,
}

/// Bytes of a message's memory that holds this number of bytes.
fn bytes_of(capacity: usize) -> u64 {
    (capacity + size_of::<Message>() + COUNTS) as u64
}

/// The memory that this number of bytes takes.
pub(super) fn room_for(len: usize) -> usize {
    len.next_multiple_of(STEP)
}

impl SpareMessages {
    /// Memory for a message with this number of bytes.
    #[inline]
    pub(super) fn take(&mut self, len: usize) -> Option<MessageRef> {
        let spare = self.by_steps.get_mut(room_for(len) / STEP)?.pop()?;
        self.count -= 1;
        self.bytes -= bytes_of(spare.bytes.capacity());
        Some(spare)
    }

    /// Takes the memory of a message, if nothing else refers to it.
    #[inline]
    pub(crate) fn put(&mut self, mut message: MessageRef) {
        let Some(Message { bytes, shared: None, .. }) = Rc::get_mut(&mut message) else { return };
        let capacity = bytes.capacity();
        let steps = capacity / STEP;
        if self.count < MOST
            && capacity % STEP == 0
            && let Some(spare) = self.by_steps.get_mut(steps)
        {
            spare.push(message);
            self.count += 1;
            self.bytes += bytes_of(capacity);
        }
    }

    /// Bytes of the memory that waits.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Frees everything, after a peak.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::TenantId;
    use crate::message::Publication;
    use crate::now::Millis;
    use tidegate_mqtt::QoS;

    fn publication<'a>(topic: &'a str, payload: &'a [u8]) -> Publication<'a> {
        Publication::new(TenantId::DEFAULT, topic, QoS::AtLeastOnce, true, b"", Millis(7), payload, 9)
    }

    #[test]
    fn a_message_in_used_memory_has_nothing_of_the_last_one() {
        let mut spare = SpareMessages::default();
        let first = publication("a/long/topic", b"a payload").keep_in(&mut spare);
        let place = Rc::as_ptr(&first);
        spare.put(first);
        let second = publication("t", b"x").keep_in(&mut spare);
        assert_eq!(Rc::as_ptr(&second), place, "both take one step");
        let fresh = publication("t", b"x").keep();
        assert_eq!(format!("{second:?}"), format!("{fresh:?}"));
        assert_eq!(second.cost(), fresh.cost());
    }

    #[test]
    fn memory_in_use_is_not_given_away() {
        let mut spare = SpareMessages::default();
        let first = publication("t", b"x").keep_in(&mut spare);
        spare.put(Rc::clone(&first));
        let second = publication("u", b"y").keep_in(&mut spare);
        assert_eq!((first.topic(), second.topic()), ("t", "u"));
    }

    #[test]
    fn spare_memory_is_bounded_in_number_and_length() {
        let mut spare = SpareMessages::default();
        let kept: Vec<MessageRef> = (0..2 * MOST).map(|_| publication("t", b"x").keep()).collect();
        for message in kept {
            spare.put(message);
        }
        assert_eq!((spare.count, spare.bytes), (MOST, MOST as u64 * bytes_of(STEP)));
        let long = vec![0; LONGEST + 1];
        let before = spare.take(1).expect("there is memory");
        spare.put(publication("t", &long).keep());
        assert_eq!(spare.count, MOST - 1, "too long");
        spare.put(before);
        spare.clear();
        assert_eq!((spare.take(1).map(drop), spare.bytes), (None, 0));
    }
}
