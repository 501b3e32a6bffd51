//! One run of a series, its failures, and its time axis.

use std::time::Instant;

use super::carry::CarryError;
use crate::drivers::TranslateError;
use crate::endpoint::EndpointError;
use crate::network::NetworkError;
use crate::peer::{Peer, PeerError};
use crate::platform::PlatformError;
use crate::results::Happened;
use crate::sample::LimitError;
use crate::scenario::{Case, ScenarioError};

/// One run of a series.
pub(super) struct Task<'a> {
    pub(super) id: String,
    pub(super) case: &'a Case,
    pub(super) peer: &'a Peer,
    pub(super) repetition: u32,
    pub(super) seed: u64,
}

/// Why there is no run.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExecuteError {
    #[error(transparent)]
    Peer(#[from] PeerError),
    #[error(transparent)]
    Platform(#[from] PlatformError),
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    #[error("{0}")]
    Carry(#[from] CarryError),
    #[error("the network of the case cannot be made: {0}")]
    Network(#[from] NetworkError),
    #[error("cannot apply the limits of the case here: {0}")]
    Limits(#[from] LimitError),
    #[error(
        "cannot apply the limits of the case here: the broker is an address; limits are for brokers that the lab starts"
    )]
    LimitsOfAddress,
    #[error("the brokers of a platform are started by the lab: name a template, not an address")]
    PlatformOfAddress,
    #[error("the parts of a platform have limits of their own: leave --board out")]
    BoardOfPlatform,
    #[error("{0} cannot be killed and started by this scenario: it is an address; use a template")]
    NotOurs(String),
    #[error("{peer} does not speak {protocol}")]
    Protocol { peer: String, protocol: String },
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    #[error(transparent)]
    Translate(#[from] TranslateError),
    #[error("this test speaks MQTT over TCP only")]
    OnlyTcp,
    #[error("the system gives no thread: {0}")]
    Thread(std::io::Error),
    #[error(
        "no client got into the broker at {address}: {dialled} have tried, {refused} were refused, {timed_out} had no answer in time; is it there, \
         and does it let them in?{said}"
    )]
    NotConnected { address: String, dialled: u64, refused: u64, timed_out: u64, said: String },
    #[error("the broker ended: {0}")]
    BrokerEnded(String),
    #[error("stopped")]
    Stopped,
}

impl ExecuteError {
    /// Whether the broker ended, or was killed by the limits of the case.
    pub(super) const fn is_end_of_broker(&self) -> bool {
        matches!(self, Self::BrokerEnded(_) | Self::Peer(PeerError::NotReady { ended: true, .. }))
    }
}

/// The events of a run, on its time axis.
pub(super) struct Timeline {
    begin: Instant,
    pub(super) happened: Vec<Happened>,
}

impl Timeline {
    pub(super) const fn new(begin: Instant) -> Self {
        Self { begin, happened: Vec::new() }
    }

    pub(super) fn note(&mut self, event: impl Into<String>) {
        self.happened.push(Happened { at_s: self.begin.elapsed().as_secs_f64(), event: event.into() });
    }
}
