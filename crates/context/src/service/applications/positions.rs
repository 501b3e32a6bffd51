//! How far records of applications have been delivered, kept on the bus.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tidegate_bus::{Append, BusError, Position};

use crate::register::Topic;
use crate::service::Bell;
use crate::service::courier::{Courier, Following, key_of};

/// Records that are taken at once.
const TAKEN_AT_ONCE: usize = 1_024;

/// A partition of a topic.
pub(super) type Stream = (Topic, u32);

/// The noted position of a stream.
#[derive(Serialize, Deserialize)]
struct Noted {
    /// Everything below was delivered.
    next: u64,
}

/// Positions of one consumer.
pub(super) struct Positions {
    consumer: String,
    following: Following,
    known: BTreeMap<Stream, Position>,
    /// To be noted.
    dirty: BTreeMap<Stream, Position>,
    /// Being noted.
    sent: BTreeMap<Stream, Position>,
    outstanding: Arc<AtomicU64>,
    failed: Arc<AtomicBool>,
}

impl Positions {
    pub(super) fn new(courier: &Courier, consumer: String, bell: &Bell) -> Self {
        let following = Following::new(courier, Topic::DeliveryPositions, 0, Position::START, bell);
        Self {
            consumer,
            following,
            known: BTreeMap::new(),
            dirty: BTreeMap::new(),
            sent: BTreeMap::new(),
            outstanding: Arc::default(),
            failed: Arc::default(),
        }
    }

    /// Reads the noted positions, also of other processes of this consumer.
    pub(super) fn read(&mut self, courier: &Courier, bell: &Bell) {
        for record in self.following.take(courier, bell, TAKEN_AT_ONCE) {
            let stream = key_of(&record).and_then(|key| self.stream_of(key));
            let noted = serde_json::from_slice::<Noted>(&record.payload);
            if let (Some(stream), Ok(noted)) = (stream, noted) {
                self.known.insert(stream, Position(noted.next));
            }
        }
    }

    /// Whether everything below was read.
    pub(super) fn has_read(&self, until: Position) -> bool {
        self.following.next() >= until
    }

    /// The position where delivery continues, if it was ever begun.
    pub(super) fn of(&self, stream: Stream) -> Option<Position> {
        self.known.get(&stream).copied()
    }

    /// Everything below was delivered.
    pub(super) fn advance(&mut self, stream: Stream, next: Position) {
        self.dirty.insert(stream, next);
    }

    /// Another process delivers a partition: unwritten notes of this one must not replace its notes.
    pub(super) fn forget(&mut self, partition: u32) {
        self.dirty.retain(|(_, number), _| *number != partition);
        self.sent.retain(|(_, number), _| *number != partition);
    }

    /// Whether nothing of a stream is still to be noted.
    pub(super) fn is_noted(&self, stream: Stream) -> bool {
        !self.dirty.contains_key(&stream) && !self.sent.contains_key(&stream)
    }

    /// Notes changed positions, once the earlier notes are stored.
    pub(super) fn write(&mut self, courier: &Courier, bell: &Bell) {
        if self.outstanding.load(Ordering::Acquire) > 0 {
            return;
        }
        let sent = std::mem::take(&mut self.sent);
        if self.failed.swap(false, Ordering::AcqRel) {
            for (stream, next) in sent {
                self.dirty.entry(stream).or_insert(next);
            }
        }
        self.sent = std::mem::take(&mut self.dirty);
        self.outstanding.store(self.sent.len() as u64, Ordering::Release);
        for ((topic, partition), next) in &self.sent {
            let key = format!("{}/{}/{partition}", self.consumer, topic.name());
            let payload = serde_json::to_vec(&Noted { next: next.0 }).unwrap_or_default();
            let append = Append::new(payload).with_key(Bytes::from(key));
            let (outstanding, failed, bell) = (Arc::clone(&self.outstanding), Arc::clone(&self.failed), bell.clone());
            let told = Arc::clone(courier.told());
            let settle = move |outcome: Result<(), BusError>| {
                if let Err(error) = outcome {
                    if let Some(times) = told.not_noted.note() {
                        tracing::warn!(%error, times, "cannot store the delivered position of application records; retrying");
                    }
                    failed.store(true, Ordering::Release);
                }
                outstanding.fetch_sub(1, Ordering::AcqRel);
                bell.ring();
            };
            let late = settle.clone();
            let done = Box::new(move |outcome: Result<Position, BusError>| late(outcome.map(drop)));
            if let Err(error) = courier.try_append(Topic::DeliveryPositions, 0, append, done) {
                settle(Err(error));
            }
        }
    }

    fn stream_of(&self, key: &str) -> Option<Stream> {
        let rest = key.strip_prefix(&self.consumer)?.strip_prefix('/')?;
        let (name, partition) = rest.split_once('/')?;
        let topic = Topic::TO_NODES.into_iter().find(|topic| topic.name() == name)?;
        Some((topic, partition.parse().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use tidegate_bus::{Address, Bus, Settings};

    use super::*;

    #[test]
    fn a_lost_partition_is_not_noted_any_more() {
        let courier = Courier::new(Bus::open(&Address::Embedded, Settings::default(), Arc::new(|_| {})).unwrap(), 2);
        let bell = Bell::default();
        let mut positions = Positions::new(&courier, "shared".to_owned(), &bell);
        let streams = [0, 1].map(|partition| (Topic::PrivateMessageTopic, partition));
        positions.advance(streams[0], Position(7));
        // There is no such log yet, so the note fails at once.
        positions.write(&courier, &bell);
        positions.advance(streams[1], Position(8));
        assert!(!streams.iter().any(|stream| positions.is_noted(*stream)));
        positions.forget(0);
        positions.write(&courier, &bell);
        assert_eq!(streams.map(|stream| positions.is_noted(stream)), [true, false]);
        positions.forget(1);
        assert!(positions.is_noted(streams[1]));
    }
}
