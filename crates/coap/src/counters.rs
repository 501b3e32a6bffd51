//! The counters of a listener.

use crate::message::Code;

/// The counters of a listener, and its present clients and sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams from clients.
    pub datagrams_in: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Datagrams to clients.
    pub datagrams_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Answered requests that read or subscribe.
    pub reads: Outcomes,
    /// Answered requests that publish.
    pub publishes: Outcomes,
    /// Answered requests with another method.
    pub others: Outcomes,
    /// Messages sent to observers; a repetition counts in `repeated`.
    pub notifications: u64,
    /// Messages of QoS 0 that were left out, since too many waited for an observer.
    pub left_out: u64,
    /// Confirmable messages that were sent again.
    pub repeated: u64,
    /// Confirmable messages that no client has acknowledged.
    pub unacknowledged: u64,
    /// Datagrams of new clients without a place.
    pub without_place: u64,
    /// Datagrams that cannot be understood.
    pub malformed: u64,
    /// Datagrams that were not sent, since the client has not proven its address and has sent too few bytes.
    pub withheld: u64,
    /// Handshakes of DTLS that have failed.
    pub handshakes_failed: u64,
    /// Clients that are remembered now.
    pub clients: u64,
    /// Their sessions at the broker.
    pub sessions: u64,
}

/// Outcomes of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Answered with a code of class 2.
    pub answered: u64,
    /// Answered with a code of class 4.
    pub refused: u64,
    /// Answered with a code of class 5.
    pub failed: u64,
}

impl Outcomes {
    const fn count(&mut self, answer: Code) {
        match answer.class() {
            4 => self.refused += 1,
            5 => self.failed += 1,
            _ => self.answered += 1,
        }
    }

    const fn add(&mut self, other: Self) {
        self.answered += other.answered;
        self.refused += other.refused;
        self.failed += other.failed;
    }
}

impl Counters {
    pub(crate) const fn count_answer(&mut self, method: Code, answer: Code) {
        match method {
            Code::GET => self.reads.count(answer),
            Code::PUT | Code::POST => self.publishes.count(answer),
            _ => self.others.count(answer),
        }
    }

    /// Adds the numbers of another listener.
    pub const fn add(&mut self, other: &Self) {
        self.datagrams_in += other.datagrams_in;
        self.bytes_in += other.bytes_in;
        self.datagrams_out += other.datagrams_out;
        self.bytes_out += other.bytes_out;
        self.reads.add(other.reads);
        self.publishes.add(other.publishes);
        self.others.add(other.others);
        self.notifications += other.notifications;
        self.left_out += other.left_out;
        self.repeated += other.repeated;
        self.unacknowledged += other.unacknowledged;
        self.without_place += other.without_place;
        self.malformed += other.malformed;
        self.withheld += other.withheld;
        self.handshakes_failed += other.handshakes_failed;
        self.clients += other.clients;
        self.sessions += other.sessions;
    }
}
