//! Connections to the brokers of a fleet: dialed on their own threads, then served by a shard like any other.

mod ask;
mod brokers;
mod dialer;
mod tls;

use std::sync::mpsc::Sender;

use tidegate_engine::{
    AdoptError, BrokerLinkError, BrokerLinkImage, BrokerLinkOptions, BrokerLinkReport, Brought, Continued, Evicted,
    ImageError, ListenerId, Settling,
};

use crate::address::HostPort;
use crate::transport::Transport;

pub use ask::{BrokerWord, NoBrokerWord, Question};
pub use brokers::Brokers;
pub(crate) use dialer::{BrokerEndpoint, DialError, Dialer};
pub use tls::BrokerLinkTls;

/// Used in the table in place of the listener of an incoming connection.
pub(crate) const NO_LISTENER: ListenerId = ListenerId(u16::MAX);
/// A broker of a fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerSettings {
    /// Its name in this fleet.
    pub name: String,
    /// Its address; a name is resolved again with each attempt to connect.
    pub at: HostPort,
    /// How TLS is spoken to it; `None` for plain TCP.
    pub tls: Option<BrokerLinkTls>,
    /// The options of its connection.
    pub options: BrokerLinkOptions,
}

/// How a fleet is, as one orchestrator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetReport {
    /// Its brokers, in their order of arrival.
    pub brokers: Vec<BrokerReport>,
    /// Filters that the clients of this process want.
    pub filters: u64,
    /// Whether the fleet takes messages.
    pub open: bool,
    /// Users whose own credentials are used for the brokers; their pending messages and counters are included in the
    /// brokers' numbers.
    pub identities: u64,
}

impl FleetReport {
    /// Messages accepted from clients and not settled.
    pub fn owed(&self) -> u64 {
        self.brokers.iter().map(|broker| broker.broker_link.owed()).sum()
    }
}

/// How one broker is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerReport {
    /// Where it listens.
    pub at: HostPort,
    /// Whether TLS is spoken to it.
    pub secure: bool,
    /// The broker link to it.
    pub broker_link: BrokerLinkReport,
}

/// An order of the control plane for the shard with the broker links.
#[derive(Debug)]
pub(crate) enum FleetOrder {
    /// Add a broker, or change one.
    Set { name: String, options: BrokerLinkOptions, done: Sender<Result<(), BrokerLinkError>> },
    /// Drain a broker: give it no more messages.
    Drain { name: String, done: Sender<Result<(), BrokerLinkError>> },
    /// Connect to a broker with the session of a dead orchestrator; answers with the name of that connection.
    Adopt {
        of: String,
        broker_link: Box<BrokerLinkImage>,
        transfer: u64,
        options: BrokerLinkOptions,
        answer: Sender<Result<String, AdoptError>>,
    },
    /// Keep the session of a dead orchestrator at a broker that is not in the fleet.
    Keep { of: String, broker_link: Box<BrokerLinkImage>, answer: Sender<Result<String, ImageError>> },
    /// Say whether all messages have arrived that a broker sent before the first such order.
    Settle { name: String, settling: Option<Settling>, answer: Sender<Option<Settling>> },
    /// Give out the messages that the connection of a dead orchestrator has delivered.
    TakeBrought { name: String, answer: Sender<Brought> },
    /// Other members have stored this number of its messages.
    ConfirmBrought { name: String, messages: usize },
    /// The dead orchestrator of this connection is back, and continues its session.
    HandBack { name: String },
    /// Take a broker out.
    Remove { name: String, force: bool, done: Sender<Result<(), BrokerLinkError>> },
    /// Keep the sessions of these connections of dead orchestrators.
    Continue { continued: Continued, done: Sender<Result<(), BrokerLinkError>> },
    /// Reassign the pending messages of brokers that are no longer in the fleet.
    ForgetOthers { done: Sender<Result<(), BrokerLinkError>> },
    /// Send clients elsewhere from now on, or no more.
    Redirect { begin: bool, reference: Option<String>, done: Sender<()> },
    /// End the connections of up to this number of clients and return their number.
    Evict { clients: usize, which: Evicted, answer: Sender<usize> },
    /// Say how the fleet is.
    Report(Sender<(Vec<BrokerLinkReport>, u64, bool)>),
}

/// A broker was dialed.
#[derive(Debug)]
pub(crate) struct Dialed {
    pub name: String,
    /// The connection, or the error.
    pub outcome: Result<Transport, DialError>,
}
