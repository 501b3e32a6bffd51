//! Messages that the bus does not keep.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::{Settings, Subject, SubjectFilter, Wake};

/// A message that came by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveMessage {
    /// Its subject.
    pub subject: Subject,
    /// As it was published.
    pub payload: Bytes,
}

/// Messages for a filter that were not taken yet.
pub(crate) struct Mailbox {
    filter: SubjectFilter,
    wake: Wake,
    max: usize,
    max_bytes: usize,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    messages: VecDeque<LiveMessage>,
    bytes: usize,
    dropped: u64,
}

impl Mailbox {
    pub(crate) fn new(filter: SubjectFilter, wake: Wake, settings: &Settings) -> Arc<Self> {
        let (max, max_bytes) = (settings.max_ahead, settings.max_ahead_bytes);
        Arc::new(Self { filter, wake, max, max_bytes, inner: Mutex::default() })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Messages found no room before they came here.
    pub(crate) fn lost(&self, count: u64) {
        self.inner().dropped += count;
        (self.wake)();
    }

    /// Puts a message in if it is wanted; when there is no room it is dropped and counted.
    pub(crate) fn offer(&self, message: &LiveMessage) {
        if !self.filter.matches(&message.subject) {
            return;
        }
        {
            let mut inner = self.inner();
            let size = message.payload.len() + message.subject.as_str().len();
            if inner.messages.len() >= self.max || (inner.bytes + size > self.max_bytes && inner.bytes > 0) {
                inner.dropped += 1;
                return;
            }
            inner.bytes += size;
            inner.messages.push_back(message.clone());
        }
        (self.wake)();
    }
}

/// A subscription to live messages. Dropping it ends it.
pub struct Subscription {
    mailbox: Arc<Mailbox>,
    /// Ends the backend's part of it.
    end: Option<Box<dyn FnOnce() + Send>>,
}

impl Subscription {
    pub(crate) fn new(mailbox: Arc<Mailbox>, end: Box<dyn FnOnce() + Send>) -> Self {
        Self { mailbox, end: Some(end) }
    }

    /// Takes the next messages, at most `max`. Messages of one publisher and subject are in order.
    pub fn take(&self, max: usize) -> Vec<LiveMessage> {
        let mut inner = self.mailbox.inner();
        let count = max.min(inner.messages.len());
        let taken: Vec<LiveMessage> = inner.messages.drain(..count).collect();
        let bytes: usize = taken.iter().map(|message| message.payload.len() + message.subject.as_str().len()).sum();
        inner.bytes -= bytes;
        taken
    }

    /// How many messages found no room, as far as this side knows.
    pub fn dropped(&self) -> u64 {
        self.mailbox.inner().dropped
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_without_room_are_dropped_and_counted() {
        let settings = Settings { max_ahead: 3, max_ahead_bytes: 20, ..Settings::default() };
        let mailbox = Mailbox::new(SubjectFilter::new("a.*").unwrap(), Arc::new(|| {}), &settings);
        let subscription = Subscription::new(Arc::clone(&mailbox), Box::new(|| {}));
        let message =
            |size: usize| LiveMessage { subject: Subject::new("a.b").unwrap(), payload: vec![0; size].into() };
        mailbox.offer(&LiveMessage { subject: Subject::new("b").unwrap(), payload: Bytes::new() });
        mailbox.offer(&message(100));
        mailbox.offer(&message(1));
        assert_eq!((subscription.take(9).len(), subscription.dropped()), (1, 1));
        for _ in 0..4 {
            mailbox.offer(&message(1));
        }
        assert_eq!((subscription.take(2).len(), subscription.take(9).len(), subscription.dropped()), (2, 1, 2));
    }
}
