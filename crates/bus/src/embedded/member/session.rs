//! The thread of a member: it sends requests and receives answers, on one connection after the other.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tokio::net::UnixStream;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::sleep_until;

use super::asked::Pending;
use super::connect::{Connected, Connector};
use super::{LocalReading, Order};
use crate::connection::Link;
use crate::embedded::frame::{Ask, Tell, next_frame};
use crate::live::Mailbox;
use crate::{LiveMessage, Settings, SubjectFilter};

/// Largest frame of a server, bytes: the largest record that can be set, and records read ahead.
const MAX_FRAME: usize = 128 << 20;
/// Bytes that wait for the socket before no more requests are put behind them, and live messages are dropped.
const MAX_OUTPUT: usize = 4 << 20;
/// Bytes that are read at once.
const READ_AT_ONCE: usize = 64 << 10;
/// How often the server is asked whether it is there.
const PING_EVERY: Duration = Duration::from_secs(2);
/// A server that says nothing for so long is away.
const SILENT_AFTER: Duration = Duration::from_secs(10);

struct LocalSubscription {
    filter: SubjectFilter,
    mailbox: Arc<Mailbox>,
    /// Messages that this server has dropped on their way, as far as is known.
    dropped: u64,
}

pub(super) struct Session {
    orders: UnboundedReceiver<Order>,
    link: Arc<Link>,
    settings: Arc<Settings>,
    pending: Pending,
    readings: HashMap<u64, LocalReading>,
    subscriptions: HashMap<u64, LocalSubscription>,
    output: Vec<u8>,
    /// Bytes of the output that are sent.
    sent: usize,
    input: BytesMut,
    max_record_bytes: usize,
    heard: Instant,
    next_ping: Instant,
}

/// An event that a session waits for.
enum SessionTurn {
    Order(Order),
    Input,
    Output,
    Late,
    End,
}

impl Session {
    pub(super) fn new(orders: UnboundedReceiver<Order>, link: Arc<Link>, settings: Arc<Settings>) -> Self {
        let now = Instant::now();
        Self {
            orders,
            link,
            pending: Pending::new(settings.max_waiting_time),
            readings: HashMap::new(),
            subscriptions: HashMap::new(),
            output: Vec::new(),
            sent: 0,
            input: BytesMut::new(),
            max_record_bytes: settings.max_record_bytes,
            settings,
            heard: now,
            next_ping: now,
        }
    }

    /// Serves this process until its bus has gone.
    pub(super) async fn run(mut self, mut connector: Connector) {
        while let Some(connected) = self.wait(&mut connector).await {
            let stream = self.begin(connected);
            match self.talk(&stream).await {
                Ok(()) => return,
                Err(error) => {
                    tracing::debug!(%error, "the process that serves the bus is away");
                    self.link.lost();
                }
            }
        }
    }

    /// Waits for a connection, and takes orders meanwhile. Nothing when the bus has gone.
    async fn wait(&mut self, connector: &mut Connector) -> Option<Connected> {
        let connecting = connector.connect();
        tokio::pin!(connecting);
        loop {
            let deadline = self.pending.deadline();
            tokio::select! {
                connected = &mut connecting => return Some(connected),
                order = self.orders.recv() => self.note(order?),
                () = until(deadline) => {
                    let reason = self.link.failure().unwrap_or_else(|| "no process serves it".to_owned());
                    self.pending.expire(Instant::now(), &reason);
                }
            }
        }
    }

    /// Sends a new server the subscriptions, and forgets the last server's state.
    fn begin(&mut self, connected: Connected) -> UnixStream {
        let Connected { stream, max_record_bytes, input } = connected;
        (self.max_record_bytes, self.input) = (max_record_bytes, input);
        self.output.clear();
        self.sent = 0;
        self.heard = Instant::now();
        self.next_ping = self.heard + PING_EVERY;
        self.pending.unsend();
        for (&id, subscription) in &mut self.subscriptions {
            subscription.dropped = 0;
            Ask::Subscribe { id, filter: subscription.filter.clone() }.put(&mut self.output);
        }
        self.link.connected();
        stream
    }

    /// Talks to the server until the bus has gone, or the connection is lost.
    async fn talk(&mut self, stream: &UnixStream) -> io::Result<()> {
        let readings: Vec<u64> = self.readings.keys().copied().collect();
        for id in readings {
            self.read(id);
        }
        loop {
            while let Ok(order) = self.orders.try_recv() {
                self.take(order);
            }
            self.pending.send(&mut self.output, MAX_OUTPUT, self.max_record_bytes);
            self.write(stream)?;
            let (has_output, deadline) = (self.sent < self.output.len(), self.pending.deadline());
            let turn = tokio::select! {
                order = self.orders.recv() => order.map_or(SessionTurn::End, SessionTurn::Order),
                ready = stream.readable() => ready.map(|()| SessionTurn::Input)?,
                ready = stream.writable(), if has_output => ready.map(|()| SessionTurn::Output)?,
                () = until(deadline.map_or(Some(self.next_ping), |deadline| Some(deadline.min(self.next_ping)))) => {
                    SessionTurn::Late
                }
            };
            match turn {
                SessionTurn::Order(order) => self.take(order),
                SessionTurn::Input => self.hear(stream)?,
                SessionTurn::Output => {}
                SessionTurn::Late => self.late()?,
                SessionTurn::End => return Ok(()),
            }
        }
    }

    /// Takes an order while there is no connection.
    fn note(&mut self, order: Order) {
        match order {
            Order::Ask(asked, on_bus) => self.pending.push(asked, on_bus),
            // It was published just before the connection was lost.
            Order::Publish(_, room) => drop(room),
            Order::Subscribe(id, filter, mailbox) => {
                self.subscriptions.insert(id, LocalSubscription { filter, mailbox, dropped: 0 });
            }
            Order::EndSubscribe(id) => drop(self.subscriptions.remove(&id)),
            Order::Read(id, reading) => drop(self.readings.insert(id, reading)),
            Order::Room(id) => {
                if self.readings.get(&id).is_some_and(|reading| reading.feed.has_ended()) {
                    self.readings.remove(&id);
                }
            }
        }
    }

    /// Takes an order while there is a connection.
    fn take(&mut self, order: Order) {
        match order {
            Order::Publish(LiveMessage { subject, payload }, room) => {
                // Beyond it the message is dropped: it arrives at most once.
                if self.output.len() - self.sent < MAX_OUTPUT {
                    Ask::Publish { subject, payload }.put(&mut self.output);
                }
                drop(room);
            }
            Order::Subscribe(id, filter, mailbox) => {
                Ask::Subscribe { id, filter: filter.clone() }.put(&mut self.output);
                self.subscriptions.insert(id, LocalSubscription { filter, mailbox, dropped: 0 });
            }
            Order::EndSubscribe(id) => {
                Ask::EndSubscribe { id }.put(&mut self.output);
                self.subscriptions.remove(&id);
            }
            Order::Read(id, reading) => {
                self.readings.insert(id, reading);
                self.read(id);
            }
            Order::Room(id) => self.pull(id),
            Order::Ask(asked, on_bus) => self.pending.push(asked, on_bus),
        }
    }

    fn read(&mut self, id: u64) {
        let Some(reading) = self.readings.get(&id) else { return };
        let place = reading.target.place.clone();
        Ask::Read { id, place, from: reading.feed.next() }.put(&mut self.output);
        self.pull(id);
    }

    /// Asks for as many records as there is room for.
    fn pull(&mut self, id: u64) {
        let Some(reading) = self.readings.get(&id) else { return };
        if reading.feed.has_ended() {
            Ask::EndRead { id }.put(&mut self.output);
            self.readings.remove(&id);
            return;
        }
        let mut room = reading.feed.room();
        if room == 0 {
            reading.starved.store(true, Ordering::Release);
            // Room may have come before it was said that it is wanted.
            room = reading.feed.room();
            if room == 0 || !reading.starved.swap(false, Ordering::AcqRel) {
                return;
            }
        }
        let (records, bytes) = (self.settings.max_ahead, room);
        let as_u32 = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Ask::Pull { id, records: as_u32(records), bytes: as_u32(bytes) }.put(&mut self.output);
    }

    fn write(&mut self, stream: &UnixStream) -> io::Result<()> {
        while self.sent < self.output.len() {
            match stream.try_write(&self.output[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.output.clear();
        self.sent = 0;
        // Room for a large record is not kept for small ones.
        self.output.shrink_to(READ_AT_ONCE);
        Ok(())
    }

    fn hear(&mut self, stream: &UnixStream) -> io::Result<()> {
        self.input.reserve(READ_AT_ONCE);
        match stream.try_read_buf(&mut self.input) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => self.heard = Instant::now(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
        let strange = |length: usize| io::Error::other(format!("a frame of {length} bytes"));
        while let Some(body) = next_frame(&mut self.input, MAX_FRAME).map_err(strange)? {
            self.handle(Tell::decode(body).ok_or(io::ErrorKind::InvalidData)?);
        }
        Ok(())
    }

    fn handle(&mut self, tell: Tell) {
        match tell {
            Tell::Done { id, first, second } => self.pending.answer(id, Ok((first, second))),
            Tell::Failed { id, failure } => self.pending.answer(id, Err(failure)),
            Tell::Records { id, next, records } => {
                let Some(reading) = self.readings.get(&id) else { return };
                for record in records {
                    reading.feed.push(record);
                }
                reading.feed.pass(next);
                reading.feed.wake();
                self.pull(id);
            }
            Tell::ReadFailed { id, failure } => {
                let Some(reading) = self.readings.remove(&id) else { return };
                let from = reading.feed.next();
                reading.feed.fail(failure.into_error(&reading.target.place, None, from));
                reading.feed.wake();
            }
            Tell::Live { id, dropped, messages } => self.live(id, dropped, messages),
            Tell::Refused { why } => tracing::warn!(why, "the process that serves the bus refused this process"),
            Tell::Welcome { .. } | Tell::Pong => {}
        }
    }

    fn live(&mut self, id: u64, dropped: u64, messages: Vec<(crate::Subject, Bytes)>) {
        let Some(subscription) = self.subscriptions.get_mut(&id) else { return };
        for (subject, payload) in messages {
            subscription.mailbox.offer(&LiveMessage { subject, payload });
        }
        if dropped > subscription.dropped {
            subscription.mailbox.lost(dropped - subscription.dropped);
            subscription.dropped = dropped;
        }
    }

    /// Ends requests that are too late, and asks the server whether it is there.
    fn late(&mut self) -> io::Result<()> {
        let now = Instant::now();
        self.pending.expire(now, "the process that serves the bus does not answer");
        if now >= self.next_ping {
            if now.saturating_duration_since(self.heard) > SILENT_AFTER {
                return Err(io::ErrorKind::TimedOut.into());
            }
            Ask::Ping.put(&mut self.output);
            self.next_ping = now + PING_EVERY;
        }
        Ok(())
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Subject;
    use crate::budget::Budget;

    #[test]
    fn live_messages_are_dropped_while_the_output_is_full() {
        let settings = Arc::new(Settings::default());
        let (_orders, inbox) = tokio::sync::mpsc::unbounded_channel();
        let link = Link::new("embedded".to_owned(), Arc::new(|_| {}));
        let mut session = Session::new(inbox, link, Arc::clone(&settings));
        let budget = Budget::new(&settings);
        let payload = Bytes::from(vec![0; 1 << 20]);
        for _ in 0..100 {
            let message = LiveMessage { subject: Subject::within("s".to_owned()), payload: payload.clone() };
            // The room of a message that is dropped is given back.
            session.take(Order::Publish(message, budget.take(payload.len()).unwrap()));
        }
        assert!(session.output.len() < MAX_OUTPUT + 2 * payload.len(), "{}", session.output.len());
    }
}
