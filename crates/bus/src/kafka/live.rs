//! Live messages: a topic that everybody reads from its end, since Kafka keeps all that it carries.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{Message, Offset, TopicPartitionList};

use super::client::{Common, client_error};
use crate::live::Mailbox;
use crate::{BusError, LiveMessage, Subject};

/// The length of a poll without messages: then it is checked whether a listener is left.
const POLL: Duration = Duration::from_millis(200);

/// All listeners of this process.
#[derive(Default)]
pub(super) struct Listeners(Mutex<Vec<Weak<Mailbox>>>);

impl Listeners {
    /// Adds one. Returns whether it is the first ever.
    pub(super) fn add(&self, mailbox: &Arc<Mailbox>) -> bool {
        let mut listeners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = listeners.capacity() == 0;
        listeners.push(Arc::downgrade(mailbox));
        is_first
    }

    fn offer(&self, message: &LiveMessage) {
        let mailboxes: Vec<Arc<Mailbox>> = {
            let mut listeners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            listeners.retain(|mailbox| mailbox.strong_count() > 0);
            listeners.iter().filter_map(Weak::upgrade).collect()
        };
        for mailbox in mailboxes {
            mailbox.offer(message);
        }
    }
}

/// A consumer of messages from now on.
pub(super) fn consumer(common: &Common) -> Result<BaseConsumer, BusError> {
    let mut config = common.consumer();
    config.set("auto.offset.reset", "latest");
    let consumer: BaseConsumer = config.create().map_err(|error| client_error(&error))?;
    let mut partitions = TopicPartitionList::new();
    let assigned = partitions
        .add_partition_offset(&common.live_topic(), 0, Offset::End)
        .and_then(|()| consumer.assign(&partitions));
    assigned.map_err(|error| client_error(&error))?;
    Ok(consumer)
}

/// Hands messages on until the bus has gone.
pub(super) fn run(consumer: &BaseConsumer, listeners: &Weak<Listeners>) {
    while let Some(listeners) = listeners.upgrade() {
        let Some(Ok(message)) = consumer.poll(POLL) else { continue };
        let subject =
            message.key().and_then(|key| std::str::from_utf8(key).ok()).and_then(|key| Subject::new(key).ok());
        if let Some(subject) = subject {
            let payload = message.payload().map(Bytes::copy_from_slice).unwrap_or_default();
            listeners.offer(&LiveMessage { subject, payload });
        }
    }
}
