//! From nodes to applications.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use tidegate_bus::{Append, BusError, Position};

use super::ApplicationSettings;
use crate::partition::partition_of;
use crate::records::{NodeMessage, Packing, write_record};
use crate::register::Topic;
use crate::service::answer::Answer;
use crate::service::courier::{Courier, Told};
use crate::service::{Bell, CoreCounters, new_life};

/// The pause before a record that the bus did not accept is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// A record and who waits for it.
struct Waiting {
    partition: u32,
    append: Append,
    answer: Answer,
}

/// Puts messages of nodes on the bus.
pub(super) struct Outbound {
    gateway: String,
    packing: Packing,
    /// The beginning of the ids of records, unique to this process.
    life: String,
    next: u64,
    bell: Bell,
    failed: Receiver<Waiting>,
    fail: Sender<Waiting>,
    /// Messages to send again, in order, with the later ones.
    again: VecDeque<Waiting>,
    retry_at: Option<Instant>,
}

impl Outbound {
    pub(super) fn new(settings: &ApplicationSettings, bell: &Bell) -> Self {
        let (fail, failed) = channel();
        Self {
            gateway: settings.gateway.clone(),
            packing: settings.packing,
            life: format!("{}-{}-{}", settings.gateway, new_life(), std::process::id()),
            next: 0,
            bell: bell.clone(),
            failed,
            fail,
            again: VecDeque::new(),
            retry_at: None,
        }
    }

    /// Puts a message on the bus, behind messages that wait for another try.
    pub(super) fn send(&mut self, courier: &Courier, message: &NodeMessage, answer: Answer) {
        self.next += 1;
        let id = format!("{}-{}", self.life, self.next);
        let context = courier.contexts().get(&message.node);
        let append = write_record(message, self.packing, &self.gateway, &id, context.as_deref());
        let partition = partition_of(&append.key, courier.partitions());
        courier.counters().records_waiting.add(1);
        let waiting = Waiting { partition, append, answer };
        if self.again.is_empty() {
            self.append(courier, waiting);
        } else {
            self.again.push_back(waiting);
        }
    }

    fn append(&self, courier: &Courier, waiting: Waiting) {
        let Waiting { partition, append, answer } = waiting;
        let (copy, fail, bell) = (append.clone(), self.fail.clone(), self.bell.clone());
        let refused = answer.clone();
        let (counters, told) = (Arc::clone(courier.counters()), Arc::clone(courier.told()));
        let done = Box::new(move |outcome: Result<Position, BusError>| match outcome {
            Ok(_) => {
                counters.records_waiting.sub(1);
                counters.records_out.add(1);
                answer.done();
            }
            Err(BusError::Away { .. } | BusError::Unconfirmed { .. }) => {
                counters.records_retried.add(1);
                // When the service has ended, it is dropped, and so refused.
                let _ = fail.send(Waiting { partition, append: copy, answer });
                bell.ring();
            }
            Err(error) => refuse(&counters, &told, &error, answer),
        });
        if let Err(error) = courier.try_append(Topic::AppModel, partition, append, done) {
            refuse(courier.counters(), courier.told(), &error, refused);
        }
    }

    /// Sends due messages again; returns the time of the next try.
    pub(super) fn turn(&mut self, courier: &Courier) -> Option<Instant> {
        let failed: Vec<Waiting> = self.failed.try_iter().collect();
        if !failed.is_empty() {
            // They are older than all that waits behind them.
            for waiting in failed.into_iter().rev() {
                self.again.push_front(waiting);
            }
            self.retry_at.get_or_insert_with(|| Instant::now() + RETRY);
        }
        if self.retry_at.is_some_and(|at| at <= Instant::now()) {
            self.retry_at = None;
            for waiting in std::mem::take(&mut self.again) {
                self.append(courier, waiting);
            }
        }
        self.retry_at
    }
}

/// The bus refuses a message: counts it and answers its publisher.
fn refuse(counters: &CoreCounters, told: &Told, error: &BusError, answer: Answer) {
    counters.records_waiting.sub(1);
    counters.records_refused.add(1);
    if let Some(times) = told.refused.note() {
        tracing::warn!(%error, times, "a message for applications was rejected: the bus does not store it");
    }
    answer.refuse(error);
}
