//! Messages that their owner has given back: the next ones use their memory.

use crate::{Message, MessageProperties, TopicNameBuf};

/// Most messages that are kept: about the number in one read. Further messages are freed.
const MAX_SPARES: usize = 256;
/// Bytes of texts and payload that a message is kept with at most, together 256 KiB: one with more is freed.
const MAX_SPARE_BYTES: usize = 1024;

/// Messages to be filled again.
#[derive(Debug, Default)]
pub(crate) struct Spares(
    #[expect(clippy::vec_box, reason = "events hold boxes, and the boxes are the memory to keep")] Vec<Box<Message>>,
);

impl Spares {
    /// Keeps a message that its owner does not need any more.
    pub(crate) fn put(&mut self, mut message: Box<Message>) {
        let texts = message.topic.capacity() + message.marked.as_ref().map_or(0, String::capacity);
        if self.0.len() >= MAX_SPARES || texts + message.payload.capacity() > MAX_SPARE_BYTES {
            return;
        }
        message.properties = MessageProperties::default();
        message.subscription_identifiers = Vec::new();
        self.0.push(message);
    }

    /// A message, all of whose fields are to be set.
    pub(crate) fn take(&mut self) -> Box<Message> {
        self.0.pop().unwrap_or_else(|| Box::new(Message::new(TopicNameBuf::unset(), Vec::new())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_small_messages_are_kept() {
        let mut spares = Spares::default();
        let of =
            |payload: usize| Box::new(Message { payload: Vec::with_capacity(payload), ..*Spares::default().take() });
        spares.put(of(MAX_SPARE_BYTES + 1));
        spares.put(Box::new(Message { marked: Some("m".into()), ..*of(MAX_SPARE_BYTES) }));
        assert_eq!(spares.0.len(), 0);
        for _ in 0..=MAX_SPARES {
            spares.put(of(MAX_SPARE_BYTES));
        }
        assert_eq!(spares.0.len(), MAX_SPARES);
        assert_eq!(spares.take().payload.capacity(), MAX_SPARE_BYTES);
    }
}
