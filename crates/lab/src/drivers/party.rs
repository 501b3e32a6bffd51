//! The parties of an exchange.

use std::collections::VecDeque;
use std::io;

use super::Driver;
use super::datagrams::Datagrams;
use crate::load::core::Output;
use crate::load::schedule::Schedule;
use crate::load::shell::{Brought, Connection};

/// Bytes of output above which a publisher waits until its connection has taken some.
const FULL: usize = 256 * 1024;

/// The owner of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Member {
    Publisher(usize),
    Subscriber(usize),
}

/// The transport of a protocol.
pub(super) enum Carriage {
    /// TCP.
    Stream(Connection),
    /// UDP, which needs no connection.
    Datagrams(Datagrams),
}

impl Carriage {
    /// Reads once, after the incomplete bytes.
    pub(super) fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<Brought> {
        match self {
            Self::Stream(stream) => stream.read(buffer, usize::MAX),
            Self::Datagrams(datagrams) => datagrams.read(buffer),
        }
    }

    /// Keeps incomplete bytes; a datagram is always complete.
    pub(super) fn keep(&mut self, rest: &[u8]) {
        if let Self::Stream(stream) = self {
            stream.keep(rest);
        }
    }

    /// Whether the transport itself has output, such as an answer of TLS.
    pub(super) fn has_own_output(&self) -> bool {
        match self {
            Self::Stream(stream) => stream.has_own_output(),
            Self::Datagrams(_) => false,
        }
    }

    /// Writes as much as is taken.
    pub(super) fn flush(&mut self, output: &mut Output, keep: bool) -> io::Result<()> {
        match self {
            Self::Stream(stream) => stream.flush(output, keep),
            Self::Datagrams(datagrams) => datagrams.flush(output, keep),
        }
    }
}

/// A connection and its protocol.
pub(super) struct Party {
    pub(super) driver: Box<dyn Driver>,
    pub(super) connection: Option<Carriage>,
    pub(super) out: Output,
    pub(super) member: Member,
    /// Whether the connection was made, and its protocol has begun.
    is_begun: bool,
    /// Whether there was more to read than its turn allowed.
    pub(super) is_unread: bool,
}

impl Party {
    pub(super) fn new(driver: Box<dyn Driver>, connection: Carriage, member: Member) -> Self {
        Self { driver, connection: Some(connection), out: Output::default(), member, is_begun: false, is_unread: false }
    }

    pub(super) fn is_ready(&self) -> bool {
        self.connection.is_some() && self.driver.is_ready()
    }

    /// Whether its connection or its peer accepts no more for now.
    pub(super) fn is_crowded(&self) -> bool {
        self.out.len() >= FULL || self.driver.is_full()
    }

    /// Whether the connection is established.
    pub(super) fn has_connected(&self) -> bool {
        self.connection.is_none() || self.is_begun
    }

    /// Whether the connection has been made by now; its protocol begins then.
    pub(super) fn connect(&mut self) -> io::Result<bool> {
        let Some(connection) = &mut self.connection else { return Ok(false) };
        let is_connected = match connection {
            Carriage::Stream(stream) => stream.connect()?,
            Carriage::Datagrams(_) => true,
        };
        if is_connected {
            self.is_begun = true;
            self.driver.opened(&mut self.out.bytes);
        }
        Ok(is_connected)
    }

    pub(super) fn publish(&mut self, payload: &[u8]) {
        if self.is_ready() {
            self.driver.publish(payload, &mut self.out.bytes);
        }
    }
}

/// A client that publishes.
#[derive(Default)]
pub(super) struct Publisher {
    /// Its connections: one to a broker, or one from each subscriber.
    pub(super) parties: Vec<usize>,
    pub(super) schedule: Option<Schedule>,
    pub(super) sent: u64,
    /// Earlier messages, which are not counted.
    pub(super) warm_up: u64,
    /// Messages that were scheduled and never sent.
    pub(super) unsent: u64,
    /// When the messages were scheduled that are not acknowledged yet.
    pub(super) in_flight: VecDeque<u64>,
    pub(super) is_done: bool,
}

impl Publisher {
    /// Stops sending, and counts the messages that were scheduled until then and not sent.
    pub(super) fn offer_the_rest(&mut self, until_ns: u64, messages: u64) {
        self.is_done = true;
        let Some(schedule) = &mut self.schedule else { return };
        while schedule.next_ns() < until_ns && self.sent + self.unsent < messages {
            schedule.step();
            self.unsent += 1;
        }
    }
}
