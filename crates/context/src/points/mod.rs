//! The manager of points of access (`CTX-36`): its knowledge of the gateways, and its messages to them. It has no clock
//! and no bus; times are since any fixed moment and passed to each call.

mod balance;
mod nodes;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
mod travelling;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::gateways::{LoadTable, ReportRefused};
use crate::latency::ConnectionStatistics;
use crate::messages::{ConnectionReport, GWList, Handover, HelloPoA, LoadReport, PingConfig};
use crate::ping_reconfig::{PingReconfig, ReconfigError, ReconfigSettings};
use crate::ranking::Ranking;
use crate::reallocation::{Reallocation, ReallocationError, ReallocationSettings};

use nodes::GatewayNodes;
use travelling::Travelling;

/// After how long in silence a gateway is forgotten altogether.
const FORGET_AFTER: Duration = Duration::from_secs(3_600);

/// How much later than it should a load report may come to a manager that begins.
const LATE: Duration = Duration::from_millis(500);

/// How long a manager that begins waits for reports at the most, however seldom a gateway says that it reports.
const MAX_LISTENING: Duration = Duration::from_secs(10);

/// How the manager works.
#[derive(Clone, Debug, PartialEq)]
pub struct PointsSettings {
    /// A gateway is inactive after this number of missing load reports in a row (`CTX-47`).
    pub missed_windows: u32,
    /// How often gateways ping at first; zero for no pings (`CTX-37`).
    pub ping_interval: Duration,
    /// How long pongs count at first.
    pub ping_window: Duration,
    /// How the window follows the ping rate.
    pub reconfig: ReconfigSettings,
    /// How nodes are moved.
    pub reallocation: ReallocationSettings,
    /// Whether nodes are moved at all.
    pub balance: bool,
    /// How much of a new score enters the smoothed one in a cycle, above 0 and up to 1.
    pub smoothing: f64,
    /// How long a node that was handed over counts for its new gateway before it has been seen there.
    pub travel_time: Duration,
    /// How often the list is published without a change.
    pub list_period: Duration,
}

impl Default for PointsSettings {
    fn default() -> Self {
        Self {
            missed_windows: 3,
            ping_interval: Duration::from_secs(30),
            ping_window: Duration::from_secs(2),
            reconfig: ReconfigSettings::default(),
            reallocation: ReallocationSettings::default(),
            balance: true,
            smoothing: 0.1,
            travel_time: Duration::from_secs(15),
            list_period: Duration::from_secs(30),
        }
    }
}

/// Why settings were refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PointsError {
    /// Of the window.
    #[error(transparent)]
    Reconfig(#[from] ReconfigError),
    /// Of handovers.
    #[error(transparent)]
    Reallocation(#[from] ReallocationError),
    /// Of scores.
    #[error("the smoothing of scores must be above 0 and at most 1; 1 means no smoothing")]
    Smoothing,
}

/// A message that the manager wants to send.
#[derive(Clone, Debug, PartialEq)]
pub enum PointsAction {
    /// A gateway is to ping like this.
    Configure(PingConfig),
    /// All are to know these gateways.
    List(GWList),
    /// A node is to go elsewhere.
    HandOver(Handover),
}

/// Counters of the manager, for logs and metrics; all but `nodes` only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PointsCounters {
    /// Handovers sent.
    pub handovers: u64,
    /// Reports that were refused or outdated.
    pub refused: u64,
    /// Times that the ping window was changed.
    pub reconfigured: u64,
    /// Nodes of all active gateways now.
    pub nodes: u64,
}

/// The manager.
pub struct Points {
    settings: PointsSettings,
    ranking: Box<dyn Ranking>,
    table: LoadTable,
    /// The connection reports, by gateway.
    connections: BTreeMap<String, GatewayNodes>,
    reallocation: Reallocation,
    reconfig: PingReconfig,
    window: Duration,
    /// When the window was looked at last.
    reconfigured_at: Option<Duration>,
    /// The configuration sent to each life of a gateway.
    configured: BTreeMap<String, (u64, PingConfig)>,
    /// Smoothed shares of the active gateways.
    shares: BTreeMap<String, f64>,
    /// Smoothed scores of the same.
    scores: BTreeMap<String, f64>,
    travelling: Travelling,
    listed: GWList,
    listed_at: Option<Duration>,
    counters: PointsCounters,
}

impl Points {
    /// Checks the settings.
    ///
    /// # Errors
    /// When one is out of its range.
    pub fn new(settings: PointsSettings, ranking: Box<dyn Ranking>) -> Result<Self, PointsError> {
        if !(settings.smoothing > 0.0 && settings.smoothing <= 1.0) {
            return Err(PointsError::Smoothing);
        }
        Ok(Self {
            ranking,
            table: LoadTable::new(settings.missed_windows),
            connections: BTreeMap::new(),
            reallocation: Reallocation::new(settings.reallocation)?,
            reconfig: PingReconfig::new(settings.reconfig.clone())?,
            window: settings.ping_window,
            reconfigured_at: None,
            configured: BTreeMap::new(),
            shares: BTreeMap::new(),
            scores: BTreeMap::new(),
            travelling: Travelling::default(),
            listed: GWList::default(),
            listed_at: None,
            counters: PointsCounters::default(),
            settings,
        })
    }

    /// A gateway has started: it gets its configuration for pings.
    pub fn hello(&mut self, hello: &HelloPoA) -> Option<PointsAction> {
        if hello.gateway.is_empty() || hello.gateway.len() > crate::messages::MAX_NAME_BYTES {
            self.counters.refused += 1;
            return None;
        }
        if self.configured.get(&hello.gateway).is_some_and(|(known, _)| *known > hello.life) {
            return None;
        }
        self.configure(&hello.gateway, hello.life)
    }

    /// The load report of a gateway; `arrived` is `None` for a report from before this manager listened.
    pub fn load(&mut self, arrived: Option<Duration>, report: LoadReport) -> Option<PointsAction> {
        let (gateway, life) = (report.gateway.clone(), report.life);
        match self.table.report(arrived, report) {
            Ok(()) => arrived.and_then(|_| self.configure(&gateway, life)),
            Err(refused) => {
                self.counters.refused += u64::from(refused == ReportRefused::Invalid);
                None
            }
        }
    }

    /// The configuration of a gateway has not reached the bus: its next report is answered with it again.
    pub fn not_configured(&mut self, gateway: &str) {
        self.configured.remove(gateway);
    }

    /// Whether a manager that has listened for so long must have received the reports of all gateways, by the periods
    /// known so far. Before that, a gateway without a report would seem to be lost, and be missing in the list.
    pub fn has_listened(&self, listened: Duration) -> bool {
        let longest = self.table.longest_period();
        longest.is_some_and(|period| listened >= period.min(MAX_LISTENING) + LATE)
    }

    /// A gateway says who is connected to it.
    pub fn connected(&mut self, now: Duration, report: ConnectionReport) {
        if !self.table.knows(&report.gateway) {
            self.counters.refused += 1;
            return;
        }
        self.connections.entry(report.gateway.clone()).or_default().take(now, report);
    }

    /// A handover that an earlier manager sent, so long ago: the node's cool-down continues.
    pub fn remember(&mut self, now: Duration, age: Duration, handover: &Handover) {
        if let Some(at) = now.checked_sub(age) {
            self.reallocation.note(at, &handover.node);
        }
    }

    /// Statistics of the last round of a gateway.
    pub fn statistics(&self, gateway: &str) -> ConnectionStatistics {
        self.connections.get(gateway).map(|nodes| nodes.statistics).unwrap_or_default()
    }

    /// The counters so far.
    pub fn counters(&self) -> PointsCounters {
        self.counters
    }

    /// Sends a gateway its configuration for pings, unless it has it.
    fn configure(&mut self, gateway: &str, life: u64) -> Option<PointsAction> {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let config = PingConfig {
            gateway: gateway.to_owned(),
            interval_ms: millis(self.settings.ping_interval),
            window_ms: millis(self.window.min(self.longest_window())),
        };
        let wanted = (life, config);
        if self.configured.get(gateway) == Some(&wanted) {
            return None;
        }
        self.configured.insert(gateway.to_owned(), wanted.clone());
        Some(PointsAction::Configure(wanted.1))
    }

    /// A window that is longer than the interval would never close.
    fn longest_window(&self) -> Duration {
        if self.settings.ping_interval.is_zero() { Duration::MAX } else { self.settings.ping_interval }
    }

    /// Adapts the window once in each interval of pings, to the ping rate of the whole network (`CTX-51`).
    fn adapt_window(&mut self, now: Duration) -> Vec<PointsAction> {
        let last = *self.reconfigured_at.get_or_insert(now);
        if self.settings.ping_interval.is_zero() || now.saturating_sub(last) < self.settings.ping_interval {
            return Vec::new();
        }
        let rounds = self.connections.values().filter(|nodes| nodes.round_ended > last);
        let (pinged, answered) = rounds.fold((0, 0), |(pinged, answered), nodes| {
            // Any client of the bus may write any number.
            let (more, of_them) = (nodes.statistics.pinged, nodes.statistics.answered);
            (u64::saturating_add(pinged, more), u64::saturating_add(answered, of_them))
        });
        self.reconfigured_at = Some(now);
        let rate = ConnectionStatistics { pinged, answered, ..ConnectionStatistics::default() }.ping_rate();
        let window = self.reconfig.next(self.window, rate).min(self.longest_window());
        if window == self.window {
            return Vec::new();
        }
        tracing::info!(?rate, from = ?self.window, to = ?window, "the ping window changes");
        self.window = window;
        self.counters.reconfigured += 1;
        let gateways: Vec<_> = self.configured.iter().map(|(gateway, (life, _))| (gateway.clone(), *life)).collect();
        gateways.into_iter().filter_map(|(gateway, life)| self.configure(&gateway, life)).collect()
    }
}
