//! Appends to one partition by its owner, on its own thread. Kafka lets only the newest producer with a
//! transactional id write, so each partition has such an id, and to own it is to begin as that producer.
//!
//! A log that keeps all is written in a transaction that stays open (`owner/open.rs`): a record is stored when all
//! replicas have it. Where the latest of each key is kept, Kafka discards records without a committed transaction:
//! there all that has piled up is one transaction.

mod open;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rdkafka::error::KafkaError;
use rdkafka::producer::Producer as _;
use rdkafka::util::Timeout;

use self::open::{Open, Turn};
use super::client::{Common, client_error, is_fenced, remaining};
use super::message::{claim_headers, headers_of, index_of};
use super::producer::{Outgoing, Producer, Report, producer, send};
use crate::backend::Target;
use crate::completion::Completion;
use crate::{Append, BusError, Epoch, Keep, Position};

/// Appends of one transaction.
const BATCH: usize = 1_024;
/// Kafka aborts a transaction after this, milliseconds; brokers take no more unless set otherwise.
const MAX_TRANSACTION_MS: u128 = 900_000;

/// How long is waited before something is tried again that may pass.
const AGAIN_AFTER: Duration = Duration::from_millis(50);

/// How long the marker of a transaction that was committed may take to stand in its partition, before another one is
/// made.
const MARKER_WITHIN: Duration = Duration::from_secs(2);
/// Pause between the first and the second look for it; each further pause is twice as long.
const FIRST_LOOK_AFTER: Duration = Duration::from_millis(1);

/// A request to a partition's owner.
pub(super) enum Request {
    Own(Completion<Epoch>),
    Append(Append, Completion<Position>),
}

pub(super) struct Owner {
    pub(super) common: Arc<Common>,
    pub(super) target: Target,
    pub(super) owned: Option<Owned>,
    /// An ownership that ended without a waiter and without another owner, and why.
    pub(super) unsaid: Option<(Epoch, String)>,
}

/// This bus as an owner.
pub(super) struct Owned {
    producer: Producer,
    epoch: Epoch,
    /// The transaction that stays open, in a log that keeps all.
    open: Option<Open>,
}

type Batch = Vec<(Append, Completion<Position>)>;

impl Owner {
    /// Works until the bus has gone.
    pub(super) fn run(mut self, inbox: &Receiver<Request>) {
        loop {
            let pause = self.owned.as_ref().and_then(|owned| owned.open.as_ref()).and_then(Open::pause);
            let request = match pause {
                None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(pause) => inbox.recv_timeout(pause),
            };
            match request {
                Ok(request) => self.work(request, inbox),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.tend();
        }
    }

    fn work(&mut self, request: Request, inbox: &Receiver<Request>) {
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

    /// Looks after the transaction that stays open.
    fn tend(&mut self) {
        let Some(Owned { producer, open: Some(open), .. }) = &mut self.owned else { return };
        let error = match open.turn(producer, self.common.up.is_up()) {
            Turn::Goes => return,
            Turn::Failed(reason) => reason,
            Turn::Due => match open.end(producer) {
                Ok(()) => return,
                Err(error) => error.to_string(),
            },
        };
        self.give_up(&error);
    }

    /// Ends the producer: unconfirmed records fail with it, and nothing is sent after it. Without a waiter the next
    /// append fails: its owner must not look for a successor.
    fn give_up(&mut self, error: &str) {
        if let Some(owned) = self.owned.take() {
            if owned.open.as_ref().is_some_and(Open::is_over_unsaid) {
                self.unsaid = Some((owned.epoch, error.to_owned()));
            }
            tracing::warn!(place = %self.target.place, error, "appends of a partition's owner failed; it must acquire the partition again");
        }
    }

    fn own(&mut self, deadline: Instant) -> Result<Epoch, BusError> {
        // Two producers of one id in one process would shut each other out.
        (self.owned, self.unsaid) = (None, None);
        self.common.connected(deadline)?;
        let (place, settings) = (&self.target.place, &self.common.settings);
        let stays_open = self.target.spec.keep == Keep::All;
        let timeout = (settings.max_waiting_time.as_millis() * 2).clamp(10_000, MAX_TRANSACTION_MS);
        let mut config = self.common.producer();
        config.set("transactional.id", format!("{}.{}.{}", settings.prefix, place.log, place.partition));
        config.set("transaction.timeout.ms", timeout.to_string());
        if stays_open {
            // The owner gives up a late record with all later ones; a client that dropped single records would leave
            // gaps.
            config.set("message.timeout.ms", timeout.to_string());
            config.set("linger.ms", "0");
        }
        let producer = producer(&config).map_err(|error| client_error(&error))?;
        let outcome = again(deadline, || producer.init_transactions(until(deadline)));
        outcome.map_err(|error| self.common.away(&error))?;
        let mut open = stays_open.then(|| Open::new(Duration::from_millis(timeout as u64)));
        let claimed = match &mut open {
            Some(open) => self.claim(open, &producer, deadline),
            None => self
                .commit(&producer, &[(&Append::new(""), true)], deadline)
                .map(|positions| positions.first().copied()),
        };
        let epoch = Epoch(claimed.map_err(|error| self.common.away(&error))?.unwrap_or(Position::START));
        self.owned = Some(Owned { producer, epoch, open });
        Ok(epoch)
    }

    /// Stores a claim as the first record of a transaction that stays open. Kafka has ended that of the owner before,
    /// whose records stay, and takes nothing of that one any more.
    fn claim(&self, open: &mut Open, producer: &Producer, deadline: Instant) -> Result<Option<Position>, KafkaError> {
        let (told, outcome) = channel();
        open.begin(producer, deadline)?;
        self.send(
            producer,
            (&Append::new(""), true),
            open.report(deadline, move |outcome, _| drop(told.send(outcome))),
        );
        outcome.recv_timeout(remaining(deadline)).unwrap_or(Err(KafkaError::Canceled)).map(Some)
    }

    fn append(&mut self, batch: Batch) {
        let Some(mut owned) = self.owned.take() else { return self.refuse(batch) };
        let epoch = owned.epoch;
        let (batch, others): (Batch, Batch) = batch.into_iter().partition(|(append, _)| append.epoch == Some(epoch));
        self.refuse(others);
        let Some(deadline) = batch.first().map(|(_, completion)| completion.deadline()) else {
            self.owned = Some(owned);
            return;
        };
        let waits = owned.open.as_ref().and_then(Open::deadline).map_or(deadline, |oldest| oldest.min(deadline));
        if let Err(error) = self.common.connected(waits) {
            // Nothing was sent. Later records are refused since the first is missing.
            let mut batch = batch.into_iter();
            if let Some((_, completion)) = batch.next() {
                completion.finish(Err(error));
            }
            return self.refuse(batch.collect());
        }
        let sent = match &mut owned.open {
            Some(open) => self.append_open(open, &owned.producer, batch, waits),
            None => self.append_whole(&owned.producer, batch, deadline),
        };
        if sent {
            self.owned = Some(owned);
        }
    }

    /// Sends records into the transaction that stays open; each completes when it is stored. Returns true if this bus
    /// is still the owner.
    fn append_open(&mut self, open: &mut Open, producer: &Producer, batch: Batch, deadline: Instant) -> bool {
        let mut batch = batch.into_iter();
        if let Err(error) = open.begin(producer, deadline) {
            tracing::warn!(place = %self.target.place, %error, "appends of a partition's owner failed; it must acquire the partition again");
            if let Some((append, completion)) = batch.next() {
                let fenced = open.is_fenced_by(&error);
                completion.finish(Err(if fenced { self.fenced(&append) } else { self.common.away(&error) }));
            }
            self.refuse(batch.collect());
            return false;
        }
        for (append, completion) in batch.by_ref() {
            let (place, epoch) = (self.target.place.clone(), append.epoch);
            let waited = self.common.settings.max_waiting_time;
            let report = open.report(completion.deadline(), move |outcome, is_fenced| {
                completion.finish(outcome.map_err(|_| match epoch.filter(|_| is_fenced) {
                    Some(epoch) => BusError::Fenced { place, epoch },
                    None => BusError::Unconfirmed { place, waited },
                }));
            });
            self.send(producer, (&append, false), report);
            if open.has_failed() {
                // The client has not taken it: nothing may be stored behind the gap.
                break;
            }
        }
        self.refuse(batch.collect());
        true
    }

    /// Stores records in a transaction of their own. Says whether this bus is the owner still.
    fn append_whole(&self, producer: &Producer, batch: Batch, deadline: Instant) -> bool {
        let records: Vec<(&Append, bool)> = batch.iter().map(|(append, _)| (append, false)).collect();
        match self.commit(producer, &records, deadline) {
            Ok(positions) => {
                for ((_, completion), position) in batch.into_iter().zip(positions) {
                    completion.finish(Ok(position));
                }
                true
            }
            Err(error) => {
                tracing::warn!(place = %self.target.place, %error, "appends of a partition's owner failed; it must acquire the partition again");
                let fenced = is_fenced(&error);
                for (append, completion) in batch {
                    completion.finish(Err(if fenced { self.fenced(&append) } else { self.unconfirmed() }));
                }
                false
            }
        }
    }

    /// Refuses appends of a former owner.
    fn refuse(&mut self, batch: Batch) {
        for (append, completion) in batch {
            let unsaid = self.unsaid.take_if(|(epoch, _)| append.epoch == Some(*epoch));
            completion
                .finish(Err(unsaid.map_or_else(|| self.fenced(&append), |(_, reason)| self.common.away(&reason))));
        }
    }

    fn fenced(&self, append: &Append) -> BusError {
        let epoch = append.epoch.unwrap_or(Epoch(Position::START));
        BusError::Fenced { place: self.target.place.clone(), epoch }
    }

    fn unconfirmed(&self) -> BusError {
        BusError::Unconfirmed { place: self.target.place.clone(), waited: self.common.settings.max_waiting_time }
    }

    /// Stores records, all or none, so that they can be read. The marked ones are claims.
    fn commit(
        &self,
        producer: &Producer,
        records: &[(&Append, bool)],
        deadline: Instant,
    ) -> Result<Vec<Position>, KafkaError> {
        let positions = self.transact(producer, records, deadline)?;
        let Some(last) = positions.last().copied() else { return Ok(positions) };
        if !self.is_readable_by(last, deadline.min(Instant::now() + MARKER_WITHIN)) {
            tracing::warn!(place = %self.target.place, "the marker of a transaction is missing; another transaction completes it");
            // If it fails because another owner has begun, that one has closed it.
            if let Err(error) = self.transact(producer, &[(&Append::new(""), true)], deadline) {
                tracing::debug!(place = %self.target.place, %error, "no other transaction was made");
            }
            if !self.is_readable_by(last, deadline) {
                return Err(KafkaError::Canceled);
            }
        }
        Ok(positions)
    }

    /// Waits until readers get the committed records. A coordinator answers before its marker is in the partition, and
    /// a coordinator that is killed in between can lose the marker: a lone broker that starts again takes the partition
    /// for deleted. Then the records stay open, no reader can pass them, and an abort of a later transaction would
    /// remove them. So no record counts as stored before its marker is.
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
        for record in records {
            let reports = reports.clone();
            let report = Report::new(move |outcome| {
                let _ = reports.send(outcome);
            });
            self.send(producer, *record, report);
        }
        drop(reports);
        let committed = again(deadline, || producer.commit_transaction(until(deadline)));
        if let Err(error) = committed {
            // Without an answer the owner does not know whether it was committed; the next owner's beginning decides
            // it.
            let _ = producer.abort_transaction(until(deadline));
            return Err(error);
        }
        // Each report comes in the order of its record, and all have come once the transaction is committed.
        records
            .iter()
            .map(|_| outcomes.recv_timeout(remaining(deadline)).unwrap_or(Err(KafkaError::Canceled)))
            .collect()
    }

    /// Gives a record to the producer, or a claim.
    fn send(&self, producer: &Producer, (append, is_claim): (&Append, bool), report: Report) {
        let topic = self.common.topic(&self.target.place.log);
        let headers = if is_claim { claim_headers() } else { headers_of(append) };
        let partition = index_of(&self.target.place);
        // If the latest of each key is kept, a claim needs a key, too: none of a record's is empty.
        let key: &[u8] = if is_claim { b"\0tidegate-claim" } else { &append.key };
        send(producer, Outgoing { topic: &topic, partition, key, payload: &append.payload, headers }, report);
    }
}

/// Takes waiting appends; another request is left for after them.
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

/// Repeats a request that failed for a passing cause.
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
