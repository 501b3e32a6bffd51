//! Appends to one partition by its owner, on a thread of its own: all that has piled up in one transaction. Kafka lets only the
//! newest producer with a transactional id write, so each partition has such an id, and to own it is to begin as that producer.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rdkafka::error::KafkaError;
use rdkafka::producer::Producer as _;
use rdkafka::util::Timeout;

use super::client::{Common, client_error, is_fenced, remaining};
use super::message::{claim_headers, headers_of, index_of};
use super::producer::{Outgoing, Producer, Report, producer, send};
use crate::bus::Target;
use crate::completion::Completion;
use crate::{Append, BusError, Epoch, Position};

/// Appends of one transaction.
const BATCH: usize = 1_024;
/// Kafka aborts a transaction after this, milliseconds; brokers take no more unless set otherwise.
const MAX_TRANSACTION_MS: u128 = 900_000;

/// How long is waited before something is tried again that may pass.
const AGAIN_AFTER: Duration = Duration::from_millis(50);

/// How long the marker of a transaction that was committed may take to stand in its partition, before another one is made.
const MARKER_WITHIN: Duration = Duration::from_secs(2);
/// How long after the first look for it the second one comes; then each pause is twice the one before.
const FIRST_LOOK_AFTER: Duration = Duration::from_millis(1);

/// What is asked of a partition's owner.
pub(super) enum Request {
    Own(Completion<Epoch>),
    Append(Append, Completion<Position>),
}

pub(super) struct Owner {
    pub(super) common: Arc<Common>,
    pub(super) target: Target,
    pub(super) owned: Option<(Producer, Epoch)>,
}

type Batch = Vec<(Append, Completion<Position>)>;

impl Owner {
    /// Works until the bus has gone.
    pub(super) fn run(mut self, inbox: &Receiver<Request>) {
        while let Ok(request) = inbox.recv() {
            let mut next = Some(request);
            while let Some(request) = next.take() {
                match request {
                    Request::Own(completion) => {
                        let outcome = self.own(completion.deadline());
                        completion.finish(outcome);
                    }
                    Request::Append(append, completion) => {
                        let mut batch = vec![(append, completion)];
                        next = fill(&mut batch, inbox);
                        self.append(batch);
                    }
                }
            }
        }
    }

    fn own(&mut self, deadline: Instant) -> Result<Epoch, BusError> {
        // Two producers of one id in one process would shut each other out.
        self.owned = None;
        self.common.connected(deadline)?;
        let (place, settings) = (&self.target.place, &self.common.settings);
        let timeout = (settings.max_waiting_time.as_millis() * 2).clamp(10_000, MAX_TRANSACTION_MS);
        let mut config = self.common.producer();
        config.set("transactional.id", format!("{}.{}.{}", settings.prefix, place.log, place.partition));
        config.set("transaction.timeout.ms", timeout.to_string());
        let producer = producer(&config).map_err(|error| client_error(&error))?;
        let outcome = again(deadline, || producer.init_transactions(until(deadline)));
        outcome.map_err(|error| self.common.away(&error))?;
        let claim = Append::new("");
        let positions =
            self.commit(&producer, &[(&claim, true)], deadline).map_err(|error| self.common.away(&error))?;
        let epoch = Epoch(positions.first().copied().unwrap_or(Position::START));
        self.owned = Some((producer, epoch));
        Ok(epoch)
    }

    fn append(&mut self, batch: Batch) {
        let Some((producer, epoch)) = self.owned.take() else { return self.refuse(batch) };
        let (batch, others): (Batch, Batch) = batch.into_iter().partition(|(append, _)| append.epoch == Some(epoch));
        self.refuse(others);
        let Some(deadline) = batch.first().map(|(_, completion)| completion.deadline()) else {
            self.owned = Some((producer, epoch));
            return;
        };
        if let Err(error) = self.common.connected(deadline) {
            // Nothing was sent. What follows the first is refused since the first is missing.
            let mut batch = batch.into_iter();
            if let Some((_, completion)) = batch.next() {
                completion.finish(Err(error));
            }
            return self.refuse(batch.collect());
        }
        let records: Vec<(&Append, bool)> = batch.iter().map(|(append, _)| (append, false)).collect();
        match self.commit(&producer, &records, deadline) {
            Ok(positions) => {
                self.owned = Some((producer, epoch));
                for ((_, completion), position) in batch.into_iter().zip(positions) {
                    completion.finish(Ok(position));
                }
            }
            Err(error) => {
                tracing::warn!(place = %self.target.place, %error, "an owner's appends failed; it has to own the partition again");
                let fenced = is_fenced(&error);
                for (append, completion) in batch {
                    completion.finish(Err(if fenced { self.fenced(&append) } else { self.unconfirmed() }));
                }
            }
        }
    }

    /// Refuses appends of somebody who is not the owner.
    fn refuse(&self, batch: Batch) {
        for (append, completion) in batch {
            completion.finish(Err(self.fenced(&append)));
        }
    }

    fn fenced(&self, append: &Append) -> BusError {
        let epoch = append.epoch.unwrap_or(Epoch(Position::START));
        BusError::Fenced { place: self.target.place.clone(), epoch }
    }

    fn unconfirmed(&self) -> BusError {
        BusError::Unconfirmed { place: self.target.place.clone(), waited: self.common.settings.max_waiting_time }
    }

    /// Stores records, all or none, so that they can be read. Those that are marked are claims.
    fn commit(
        &self,
        producer: &Producer,
        records: &[(&Append, bool)],
        deadline: Instant,
    ) -> Result<Vec<Position>, KafkaError> {
        let positions = self.transact(producer, records, deadline)?;
        let Some(last) = positions.last().copied() else { return Ok(positions) };
        if !self.is_readable_by(last, deadline.min(Instant::now() + MARKER_WITHIN)) {
            tracing::warn!(place = %self.target.place, "the marker of a transaction is missing; another transaction closes it");
            // Where it fails since another owner has begun, that one has closed it.
            if let Err(error) = self.transact(producer, &[(&Append::new(""), true)], deadline) {
                tracing::debug!(place = %self.target.place, %error, "no other transaction was made");
            }
            if !self.is_readable_by(last, deadline) {
                return Err(KafkaError::Canceled);
            }
        }
        Ok(positions)
    }

    /// Waits until readers get what was committed. A coordinator answers before its marker stands in the partition, and one that
    /// is killed in between can lose the marker: a broker that is alone and starts again takes the partition for deleted. Then the
    /// records stay open, nobody can read on, and an abort of a later transaction would take them along. So nothing is told to be
    /// stored before its marker is.
    fn is_readable_by(&self, last: Position, deadline: Instant) -> bool {
        let mut pause = FIRST_LOOK_AFTER;
        loop {
            if self.common.committed_bounds(&self.target.place).is_ok_and(|bounds| bounds.next > last) {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::park_timeout(pause);
            pause = (pause * 2).min(AGAIN_AFTER);
        }
    }

    fn transact(
        &self,
        producer: &Producer,
        records: &[(&Append, bool)],
        deadline: Instant,
    ) -> Result<Vec<Position>, KafkaError> {
        producer.begin_transaction()?;
        let (reports, outcomes) = channel();
        let topic = self.common.topic(&self.target.place.log);
        for (append, is_claim) in records {
            let reports = reports.clone();
            let report = Report::new(move |outcome| {
                let _ = reports.send(outcome);
            });
            let headers = if *is_claim { claim_headers() } else { headers_of(append) };
            let partition = index_of(&self.target.place);
            // Where the latest of each key is kept, a claim needs a key, too: none of a record's is empty.
            let key: &[u8] = if *is_claim { b"\0tidegate-claim" } else { &append.key };
            send(producer, Outgoing { topic: &topic, partition, key, payload: &append.payload, headers }, report);
        }
        drop(reports);
        let committed = again(deadline, || producer.commit_transaction(until(deadline)));
        if let Err(error) = committed {
            // Without an answer the owner does not know whether it was committed; the next owner's beginning decides it.
            let _ = producer.abort_transaction(until(deadline));
            return Err(error);
        }
        // Each report comes in the order of its record, and all have come once the transaction is committed.
        records
            .iter()
            .map(|_| outcomes.recv_timeout(remaining(deadline)).unwrap_or(Err(KafkaError::Canceled)))
            .collect()
    }
}

/// Takes what has piled up; what is no append is left for after it.
fn fill(batch: &mut Batch, inbox: &Receiver<Request>) -> Option<Request> {
    while batch.len() < BATCH {
        match inbox.try_recv() {
            Ok(Request::Append(append, completion)) => batch.push((append, completion)),
            Ok(own) => return Some(own),
            Err(_) => return None,
        }
    }
    None
}

fn until(deadline: Instant) -> Timeout {
    Timeout::After(remaining(deadline))
}

/// Repeats what failed in a way that may pass.
fn again(deadline: Instant, mut call: impl FnMut() -> Result<(), KafkaError>) -> Result<(), KafkaError> {
    loop {
        match call() {
            Err(KafkaError::Transaction(error)) if error.is_retriable() && Instant::now() < deadline => {
                std::thread::park_timeout(AGAIN_AFTER);
            }
            outcome => return outcome,
        }
    }
}
