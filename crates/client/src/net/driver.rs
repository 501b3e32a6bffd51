//! Moves bytes between a client and its transport, and reads the clock for it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};

use super::link::{Link, Progress};
use super::{Address, ConnectError, SocketOptions, TransportError};
use crate::{Client, Event, Options};

/// How many bytes are read at once.
const READ_SIZE: usize = 64 << 10;

/// How many events or reads may pass before wakers are looked for, and before a deadline that has come is handled, be
/// there more to do or not.
const TURNS_BETWEEN_POLLS: u32 = 64;

/// How long the last bytes of a connection may take to be written, and the server to close its side.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

const LINK: Token = Token(0);
const WAKE: Token = Token(1);

/// A client, its transport and its clock. All work happens in [`Driver::next`] and [`Driver::connect`].
#[derive(Debug)]
pub struct Driver {
    client: Client,
    address: Address,
    socket_options: SocketOptions,
    link: Option<Link>,
    poll: Poll,
    ready: Events,
    waker: Waker,
    woken: bool,
    /// How many times the loop of [`Driver::next`] has run.
    turns: u32,
    /// By when the poller has reported all that had arrived.
    heard: Instant,
    /// How often a deadline of the client was put off since it had come.
    put_off: u32,
    scratch: Vec<u8>,
    /// When the transport is closed, be the server done or not; while the client wants it closed.
    close_by: Option<Instant>,
    transport_error: Option<TransportError>,
}

/// Why [`Driver::next`] has returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The client has news.
    Event(Event),
    /// A [`Waker`] was used, once or more.
    Woken,
    /// The time is up.
    Deadline,
}

/// Makes [`Driver::next`] return, and ends [`Driver::rest`], from any thread.
#[derive(Clone, Debug)]
pub struct Waker(Arc<Wakes>);

#[derive(Debug)]
struct Wakes {
    poll: mio::Waker,
    resting: Mutex<Option<Thread>>,
    /// Whether it was woken since its last rest.
    woken: AtomicBool,
}

impl Waker {
    /// Makes the present call of [`Driver::next`] return [`Step::Woken`], or else the next one.
    ///
    /// # Errors
    ///
    /// When the system fails.
    pub fn wake(&self) -> io::Result<()> {
        self.0.woken.store(true, Ordering::Release);
        let resting = self.0.resting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = &*resting {
            thread.unpark();
        }
        drop(resting);
        self.0.poll.wake()
    }
}

impl Driver {
    /// A client for the server at `address`, without a connection.
    ///
    /// # Errors
    ///
    /// When the system has no resources to wait for a socket.
    pub fn new(options: Options, address: Address, socket_options: SocketOptions) -> io::Result<Self> {
        let poll = Poll::new()?;
        let poll_waker = mio::Waker::new(poll.registry(), WAKE)?;
        let waker = Wakes { poll: poll_waker, resting: Mutex::default(), woken: AtomicBool::default() };
        Ok(Self {
            client: Client::new(options, Instant::now()),
            address,
            socket_options,
            link: None,
            poll,
            ready: Events::with_capacity(8),
            waker: Waker(Arc::new(waker)),
            woken: false,
            turns: 0,
            heard: Instant::now(),
            put_off: 0,
            scratch: vec![0; READ_SIZE],
            close_by: None,
            transport_error: None,
        })
    }

    /// The client, for requests. They leave with the next call of [`Driver::next`].
    pub fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// The address of the server.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// A handle that makes [`Driver::next`] return, for another thread.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Opens the transport, which may block for the time that [`SocketOptions`] allows, and begins the connection. The
    /// result is [`Event::Connected`] or [`Event::Disconnected`].
    ///
    /// # Errors
    ///
    /// When there is no transport, or there is a connection already.
    pub fn connect(&mut self) -> Result<(), ConnectError> {
        let failed = |source| ConnectError::Connect { address: self.address.to_string(), source };
        let mut link = Link::connect(&self.address, &self.socket_options)?;
        link.register(self.poll.registry(), LINK).map_err(failed)?;
        self.client.open(Instant::now())?;
        self.link = Some(link);
        self.close_by = None;
        self.transport_error = None;
        Ok(())
    }

    /// Works until the client has an event, a [`Waker`] was used, or `deadline` has come; without a deadline, for ever.
    /// Output is written only after the events have been taken. A deadline is reported before events, and a waker among
    /// them, so that a server that sends without end cannot delay them.
    ///
    /// # Errors
    ///
    /// When the system fails to wait. The end of a connection is an event.
    pub fn next(&mut self, deadline: Option<Instant>) -> io::Result<Step> {
        loop {
            self.turns = self.turns.wrapping_add(1);
            if self.turns.is_multiple_of(TURNS_BETWEEN_POLLS) {
                self.wait(Some(Duration::ZERO))?;
            }
            if std::mem::take(&mut self.woken) {
                return Ok(Step::Woken);
            }
            let now = Instant::now();
            if deadline.is_some_and(|deadline| now >= deadline) {
                return Ok(Step::Deadline);
            }
            if let Some(event) = self.client.poll_event() {
                return Ok(Step::Event(event));
            }
            if self.exchange(now) {
                continue;
            }
            let timers = [deadline, self.client.next_deadline(), self.close_by, self.link_deadline()];
            let until = timers.into_iter().flatten().min();
            self.wait(until.map(|until| until.saturating_duration_since(now)))?;
        }
    }

    /// The next event that is there already, after a look at the socket; nothing is waited for.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub fn ready(&mut self) -> io::Result<Option<Event>> {
        self.wait(Some(Duration::ZERO))?;
        loop {
            if let Some(event) = self.client.poll_event() {
                return Ok(Some(event));
            }
            if !self.exchange(Instant::now()) {
                return Ok(None);
            }
        }
    }

    /// The next event that is there already. Bytes of a server in this process are read for it; a look at a socket would
    /// cost more than a message, so they wait for [`Driver::next`].
    pub fn at_hand(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.client.poll_event() {
                return Some(event);
            }
            let is_pipe = self.link.as_mut().is_some_and(Link::is_pipe);
            if !is_pipe || !self.exchange(Instant::now()) {
                return None;
            }
        }
    }

    /// Does nothing until `until`, or until a [`Waker`] is used since the last rest. The server's packets are read
    /// together afterwards: a thread that is woken for each message costs more than its work.
    pub fn rest(&mut self, until: Instant) {
        let wakes = &self.waker.0;
        *wakes.resting.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread::current());
        while !wakes.woken.swap(false, Ordering::AcqRel) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            thread::park_timeout(left);
        }
        *wakes.resting.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Does all work that needs no waiting; false if there was no work.
    fn exchange(&mut self, now: Instant) -> bool {
        match self.client.next_deadline().filter(|due| now >= *due) {
            None => self.put_off = 0,
            Some(due) if self.has_heard(due) => {
                self.put_off = 0;
                self.client.handle_deadline(now);
                return true;
            }
            Some(_) => self.put_off += 1,
        }
        let Some(link) = &mut self.link else {
            return false;
        };
        if link.next_deadline().is_some_and(|due| now >= due) {
            link.handle_deadline(now);
            return true;
        }
        let progress = match link.write(&mut self.client, now) {
            Progress::Blocked if self.client.wants_close() => {
                let close_by = *self.close_by.get_or_insert(now + CLOSE_LIMIT);
                if now >= close_by {
                    return self.close(None);
                }
                if link.say_farewell(&self.client) {
                    link.discard(&mut self.scratch)
                } else {
                    // A farewell may have been put into words just now.
                    link.write(&mut self.client, now)
                }
            }
            Progress::Blocked => link.read(&mut self.client, now, &mut self.scratch),
            progress => progress,
        };
        match progress {
            Progress::Some => true,
            Progress::Blocked => false,
            Progress::Ended(error) => self.close(Some(error)),
        }
    }

    /// Whether all that had arrived by then was read. After a stop of the process the server's answer may wait in the
    /// socket, and the server is not silent. A server that sends without end does not put a deadline off for long.
    fn has_heard(&self, due: Instant) -> bool {
        let read = self.link.as_ref().is_none_or(|link| !link.is_readable());
        (self.heard >= due && read) || self.put_off >= TURNS_BETWEEN_POLLS
    }

    fn close(&mut self, error: Option<TransportError>) -> bool {
        if let Some(mut link) = self.link.take() {
            // A socket that is closed is no longer waited for, whatever this says.
            let _ = link.deregister(self.poll.registry());
        }
        self.close_by = None;
        self.transport_error = error;
        self.client.handle_closed();
        true
    }

    /// The error that ended the last transport, if the client did not end it.
    pub fn transport_error(&self) -> Option<&TransportError> {
        self.transport_error.as_ref()
    }

    /// Works until the transport is closed, for some seconds at most; only after [`Client::disconnect`] or when the
    /// client has given the connection up. News stay for [`Driver::next`].
    ///
    /// # Errors
    ///
    /// When the system fails to wait.
    pub fn finish(&mut self) -> io::Result<()> {
        while self.link.is_some() && self.client.wants_close() {
            let now = Instant::now();
            if !self.exchange(now) {
                let until = self.close_by.into_iter().chain(self.link_deadline()).min();
                self.wait(until.map(|until| until.saturating_duration_since(now)))?;
            }
        }
        Ok(())
    }

    fn link_deadline(&mut self) -> Option<Instant> {
        self.link.as_mut()?.next_deadline()
    }

    /// Continues from another local port, like a device whose network has changed; only over QUIC. Data in flight is
    /// not lost.
    ///
    /// # Errors
    ///
    /// When there is no QUIC connection, or the system has no other socket.
    pub fn rebind(&mut self) -> io::Result<()> {
        let Some(link) = &mut self.link else {
            return Err(io::Error::new(io::ErrorKind::NotConnected, "there is no connection to take to another port"));
        };
        link.rebind(self.poll.registry(), LINK)
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let asked = Instant::now();
        match self.poll.poll(&mut self.ready, timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            result => result?,
        }
        self.heard = asked;
        for event in &self.ready {
            match event.token() {
                WAKE => self.woken = true,
                _ => {
                    if let Some(link) = &mut self.link {
                        link.ready(
                            event.is_readable() || event.is_read_closed() || event.is_error(),
                            event.is_writable() || event.is_write_closed() || event.is_error(),
                        );
                    }
                }
            }
        }
        Ok(())
    }
}
