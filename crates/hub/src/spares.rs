//! Messages and records that have ended: the next ones use their memory. Thousands of allocations that end out of order cost
//! more than all other work on a small message.

use std::sync::Arc;

use crate::format::Format;
use crate::message::Message;
use crate::record::{Content, Record, WholeMessage};

/// Limit of kept messages or records: the size of a usual window. More are freed.
const MAX_SPARES: usize = 1024;
/// Bytes of payload and texts that a message is kept with at most, together 1 MiB: one with more is freed.
const MAX_SPARE_BYTES: usize = 1024;

/// Messages to be filled again.
#[derive(Debug, Default)]
pub(crate) struct SpareMessages(Vec<Arc<Message>>);

impl SpareMessages {
    /// Keeps a message that has ended, unless another part still has it.
    pub(crate) fn put(&mut self, mut message: Arc<Message>) {
        let Some(own) = Arc::get_mut(&mut message).filter(|_| self.0.len() < MAX_SPARES) else { return };
        let texts = own.id.capacity() + own.topic.capacity() + own.client_id.as_ref().map_or(0, String::capacity);
        if texts + own.payload.capacity() > MAX_SPARE_BYTES {
            return;
        }
        (own.content_type, own.response_topic, own.correlation_data) = (None, None, None);
        own.user_properties = Vec::new();
        self.0.push(message);
    }

    /// A message, all of whose fields are to be set, if one is kept.
    pub(crate) fn pop(&mut self) -> Option<Arc<Message>> {
        self.0.pop()
    }
}

/// Records to be filled again.
#[derive(Debug, Default)]
pub(crate) struct SpareRecords {
    records: Vec<Arc<Record>>,
    /// The message of all of them.
    none: Arc<Message>,
}

impl SpareRecords {
    /// Keeps a record that has ended, unless another part still has it.
    pub(crate) fn put(&mut self, mut record: Arc<Record>) {
        if let Some(own) = Arc::get_mut(&mut record).filter(|_| self.records.len() < MAX_SPARES) {
            own.reset(Arc::clone(&self.none));
            self.records.push(record);
        }
    }

    /// The record of a message that is sent as it came, shared.
    pub(crate) fn share_whole(&mut self, message: &Arc<Message>, format: Format) -> Arc<Record> {
        let (message, content) = (Arc::clone(message), Content::Whole(WholeMessage::new(format)));
        let Some(mut place) = self.records.pop() else { return Arc::new(Record::new(message, content)) };
        match Arc::get_mut(&mut place) {
            // The others of its fields are empty.
            Some(own) => (own.message, own.content) = (message, content),
            None => place = Arc::new(Record::new(message, content)),
        }
        place
    }

    /// The record, shared.
    pub(crate) fn share(&mut self, record: Record) -> Arc<Record> {
        let Some(mut place) = self.records.pop() else { return Arc::new(record) };
        match Arc::get_mut(&mut place) {
            Some(own) => *own = record,
            None => place = Arc::new(record),
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_small_messages_that_have_ended_are_kept() {
        let mut spares = SpareMessages::default();
        let of = |payload: usize| Arc::new(Message { payload: Vec::with_capacity(payload), ..Message::default() });
        let held = of(8);
        spares.put(Arc::clone(&held));
        spares.put(of(MAX_SPARE_BYTES + 1));
        spares.put(Arc::new(Message {
            id: "i".into(),
            payload: Vec::with_capacity(MAX_SPARE_BYTES),
            ..Message::default()
        }));
        assert_eq!(spares.0.len(), 0);
        for _ in 0..=MAX_SPARES {
            spares.put(of(MAX_SPARE_BYTES));
        }
        assert_eq!(spares.0.len(), MAX_SPARES);
        assert_eq!(spares.pop().unwrap().payload.capacity(), MAX_SPARE_BYTES);
    }

    #[test]
    fn a_record_that_has_ended_lets_its_message_go() {
        let mut spares = SpareRecords::default();
        let message = Arc::new(Message { topic: "t".into(), ..Message::default() });
        let record = |topic: &str| Record {
            computed_topic: Some(topic.to_owned()),
            ..Record::new(Arc::clone(&message), Content::default())
        };
        let first = spares.share(record("a"));
        let (place, held) = (Arc::as_ptr(&first), Arc::clone(&first));
        spares.put(first);
        assert_eq!(Arc::strong_count(&message), 2, "a record that is held is not kept");
        spares.put(held);
        assert_eq!(Arc::strong_count(&message), 1);
        let next = spares.share(record("b"));
        assert_eq!((Arc::as_ptr(&next), next.topic()), (place, "b"), "in the same memory");
        spares.put(next);
        let whole = spares.share_whole(&message, Format::Json);
        assert_eq!((Arc::as_ptr(&whole), whole.topic(), whole.is_as_it_came()), (place, "t", true));
        spares.put(whole);
        assert_eq!(Arc::strong_count(&message), 1);
    }
}
