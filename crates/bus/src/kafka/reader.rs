//! Reads one partition, on its own thread.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{Message, Offset, TopicPartitionList};

use super::client::{ANSWER_WITHIN, Common, bounds, client_error};
use super::message::{index_of, position_of, record_of};
use crate::backend::Target;
use crate::feed::Feed;
use crate::{BusError, Keep, Position, Tally};

/// The length of a poll without records: then it is checked whether a reader is left.
const POLL: Duration = Duration::from_millis(200);

pub(super) struct ReaderThread {
    pub(super) common: Arc<Common>,
    pub(super) target: Target,
    pub(super) feed: Arc<Feed>,
    /// Records whose headers cannot be read.
    pub(super) headless: Tally,
}

impl ReaderThread {
    pub(super) fn run(self) {
        let mut config = self.common.consumer();
        if self.target.spec.keep == Keep::All {
            // Records that an owner has stored stay, however its transaction ends.
            config.set("isolation.level", "read_uncommitted");
        }
        let consumer: BaseConsumer = match config.create() {
            Ok(consumer) => consumer,
            Err(error) => return self.fail(client_error(&error)),
        };
        let mut end = End::Unknown;
        if let Err(error) = self.assign(&consumer) {
            return self.fail(BusError::Refused { action: "read a log", reason: error.to_string() });
        }
        while !self.feed.has_ended() {
            if self.feed.has_room() {
                end = self.poll(&consumer, end);
            } else {
                std::thread::park_timeout(POLL);
            }
        }
    }

    fn fail(&self, error: BusError) {
        self.feed.fail(error);
        self.feed.wake();
    }

    /// The offset where reading continues.
    fn offset(&self) -> Offset {
        match self.feed.next() {
            Position::START => Offset::Beginning,
            Position(from) => Offset::Offset(i64::try_from(from).unwrap_or(i64::MAX)),
        }
    }

    fn assign(&self, consumer: &BaseConsumer) -> Result<(), KafkaError> {
        let mut partitions = TopicPartitionList::new();
        let topic = self.common.topic(&self.target.place.log);
        partitions.add_partition_offset(&topic, index_of(&self.target.place), self.offset())?;
        consumer.assign(&partitions)
    }

    fn poll(&self, consumer: &BaseConsumer, end: End) -> End {
        match consumer.poll(POLL) {
            None => return self.look(consumer, end),
            Some(Ok(message)) => {
                let position = position_of(message.offset());
                match record_of(position, &message, &self.headless) {
                    Some(record) => self.feed.push(record),
                    None => self.feed.pass(position.next()),
                }
            }
            Some(Err(KafkaError::PartitionEOF(_))) => {
                let End::Committed(next) = end else { return self.look(consumer, end) };
                self.feed.pass(next);
                self.feed.wake();
                return End::Passed;
            }
            Some(Err(KafkaError::MessageConsumption(RDKafkaErrorCode::AutoOffsetReset))) => {
                let first = self.common.bounds(&self.target.place).map_or(Position::START, |bounds| bounds.first);
                let (place, from) = (self.target.place.clone(), self.feed.next());
                self.feed.fail(BusError::Trimmed { place, from, first });
            }
            // The client connects again, and continues at its position.
            Some(Err(error)) => {
                tracing::debug!(place = %self.target.place, %error, "reading continues after an error");
                return end;
            }
        }
        self.feed.wake();
        end
    }

    /// At what looks like the end: sees whether all that was appended before is committed, and if so goes to the end
    /// once more.
    fn look(&self, consumer: &BaseConsumer, end: End) -> End {
        let next = match end {
            End::Unknown => match self.common.bounds(&self.target.place) {
                Ok(bounds) => bounds.next,
                Err(_) => return end,
            },
            End::Appended(next) => next,
            End::Committed(_) | End::Passed => return end,
        };
        let topic = self.common.topic(&self.target.place.log);
        let committed = bounds(consumer, &topic, &self.target.place);
        let is_committed = committed.is_ok_and(|bounds| bounds.next >= next);
        // Reading the end again reports again that it is reached.
        let seek = || consumer.seek(&topic, index_of(&self.target.place), self.offset(), ANSWER_WITHIN);
        if is_committed && seek().is_ok() { End::Committed(next) } else { End::Appended(next) }
    }
}

/// The known end: markers of transactions there are no records. It is passed once.
#[derive(Clone, Copy)]
enum End {
    Unknown,
    /// So far it was appended when it was asked for.
    Appended(Position),
    /// All of that is committed: when the end is reached now, it was given.
    Committed(Position),
    Passed,
}
