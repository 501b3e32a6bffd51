//! The order for a series of runs.

use std::path::PathBuf;
use std::time::Duration;

use crate::peer::{Peer, PeerPaths, Ports};
use crate::scenario::{Board, Scenario};

/// The runs to make.
#[derive(Clone, Debug)]
pub struct Order {
    /// The scenario.
    pub scenario: Scenario,
    /// The brokers.
    pub peers: Vec<Peer>,
    /// Only cases whose name contains this.
    pub only: Option<String>,
    /// Maximum number of cases.
    pub cases: Option<u32>,
    /// The board that this machine represents, by limits.
    pub board: Option<Board>,
    /// The directory of finished runs.
    pub out: PathBuf,
    /// The factor of all times of phases.
    pub time_scale: f64,
    /// Runs of each case and broker.
    pub repeat: u32,
    /// Duration of publishing; by default the scenario's.
    pub duration: Option<Duration>,
    /// Whether a stopped run is shown with its results so far, which is useful after hours.
    pub keep_stopped: bool,
    /// The base of ratios; by default Tidegate, or the first by name.
    pub base: Option<String>,
    /// The seed of all chance.
    pub seed: u64,
    /// Processes of the generator at least; a scenario, or the number of its clients, may want more.
    pub processes: u32,
    /// Addresses that clients connect from in turn, where the scenario names none.
    pub sources: Vec<std::net::IpAddr>,
    /// The directories of brokers' programs and files.
    pub place: PeerPaths,
    /// The host that brokers listen on.
    pub host: String,
    /// Ports that brokers may get.
    pub ports: Ports,
    /// The commit of this program, if it is known.
    pub commit: Option<String>,
}
