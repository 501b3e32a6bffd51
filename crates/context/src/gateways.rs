//! The table of load reports (LR table) and which gateways are active (`CTX-46`, `CTX-47`).

use std::collections::BTreeMap;
use std::time::Duration;

use crate::messages::{LoadReport, MAX_NAME_BYTES};

/// Most gateways that are kept in mind; reports of further ones are refused.
pub const MAX_GATEWAYS: usize = 1_024;

/// Why a report was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportRefused {
    /// Too many gateways, an invalid name, or a period of 0.
    Invalid,
    /// One of an earlier life, or that came before.
    Outdated,
}

/// A gateway as its reports show it.
#[derive(Clone, Debug)]
pub struct GatewayLoad {
    /// The newest report.
    pub report: LoadReport,
    /// When the first report of this life of the gateway arrived.
    pub began: Duration,
    /// When it arrived; `None` for a report from before this service listened, which says nothing about the present.
    pub arrived: Option<Duration>,
}

/// The state of a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It reports and takes nodes.
    Active,
    /// It reports that it is about to leave: it accepts no nodes, and its nodes are moved.
    Draining,
    /// It has missed more windows than allowed, or was never heard.
    Inactive,
}

/// The load reports of all gateways with the times of their arrival.
#[derive(Debug)]
pub struct LoadTable {
    gateways: BTreeMap<String, GatewayLoad>,
    missed_windows: u32,
}

impl LoadTable {
    /// A gateway is inactive when no report came for this many of its periods, at least 1.
    pub fn new(missed_windows: u32) -> Self {
        Self { gateways: BTreeMap::new(), missed_windows: missed_windows.max(1) }
    }

    /// Takes a report.
    ///
    /// # Errors
    /// When it is not valid or not new; the table stays as it is.
    pub fn report(&mut self, arrived: Option<Duration>, report: LoadReport) -> Result<(), ReportRefused> {
        let named = (1..=MAX_NAME_BYTES).contains(&report.gateway.len());
        let known = self.gateways.get(&report.gateway);
        if !named || report.period_ms == 0 || (known.is_none() && self.gateways.len() >= MAX_GATEWAYS) {
            return Err(ReportRefused::Invalid);
        }
        if known.is_some_and(|known| self.is_outdated(known, arrived, &report)) {
            return Err(ReportRefused::Outdated);
        }
        let same_life = known.filter(|known| known.report.life == report.life && known.arrived.is_some());
        let began = same_life.map_or_else(|| arrived.unwrap_or_default(), |known| known.began);
        self.gateways.insert(report.gateway.clone(), GatewayLoad { report, began, arrived });
        Ok(())
    }

    /// Whether a report is from an earlier life. Lives are numbered by the clock of the gateway, which may have been
    /// set back before a restart. So an earlier number counts as a new life if the known life is silent.
    fn is_outdated(&self, known: &GatewayLoad, arrived: Option<Duration>, report: &LoadReport) -> bool {
        let other_life = known.report.life != report.life;
        let is_silent = arrived.is_some_and(|arrived| self.judge(arrived, known) == Standing::Inactive);
        (known.report.life, known.report.number) >= (report.life, report.number) && !(other_life && is_silent)
    }

    /// Whether a gateway has reported.
    pub fn knows(&self, gateway: &str) -> bool {
        self.gateways.contains_key(gateway)
    }

    /// The current state of a gateway.
    pub fn standing(&self, now: Duration, gateway: &str) -> Standing {
        self.gateways.get(gateway).map_or(Standing::Inactive, |load| self.judge(now, load))
    }

    fn judge(&self, now: Duration, load: &GatewayLoad) -> Standing {
        let window = Duration::from_millis(load.report.period_ms);
        let silent = load.arrived.map(|arrived| now.saturating_sub(arrived));
        match silent {
            Some(silent) if silent <= window.saturating_mul(self.missed_windows) => {
                if load.report.draining {
                    Standing::Draining
                } else {
                    Standing::Active
                }
            }
            _ => Standing::Inactive,
        }
    }

    /// All gateways with their states, by name.
    pub fn all(&self, now: Duration) -> impl Iterator<Item = (&GatewayLoad, Standing)> {
        self.gateways.values().map(move |load| (load, self.judge(now, load)))
    }

    /// The longest time between two reports of a gateway, by their own statements; `None` before the first report.
    pub fn longest_period(&self) -> Option<Duration> {
        self.gateways.values().map(|load| Duration::from_millis(load.report.period_ms)).max()
    }

    /// Forgets gateways that have been silent for so long; those never heard as well.
    pub fn forget(&mut self, now: Duration, silent: Duration) {
        self.gateways.retain(|_, load| load.arrived.is_some_and(|arrived| now.saturating_sub(arrived) < silent));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn report(name: &str, life: u64, number: u64) -> LoadReport {
        LoadReport { gateway: name.into(), life, number, period_ms: 1_000, ..LoadReport::default() }
    }

    #[test]
    fn a_gateway_is_inactive_after_the_missed_windows() {
        let mut table = LoadTable::new(3);
        table.report(Some(s(10)), report("a", 1, 1)).unwrap();
        assert_eq!((table.standing(s(13), "a"), table.standing(s(14), "a")), (Standing::Active, Standing::Inactive));
        table.report(Some(s(20)), report("a", 1, 2)).unwrap();
        assert_eq!(table.standing(s(20), "a"), Standing::Active);
        assert_eq!(table.standing(s(20), "b"), Standing::Inactive);
    }

    #[test]
    fn reports_from_before_the_start_do_not_count() {
        let mut table = LoadTable::new(3);
        table.report(None, report("a", 1, 1)).unwrap();
        assert_eq!(table.standing(s(0), "a"), Standing::Inactive);
        table.report(Some(s(1)), report("a", 1, 2)).unwrap();
        assert_eq!(table.standing(s(1), "a"), Standing::Active);
    }

    #[test]
    fn an_old_life_does_not_return() {
        let mut table = LoadTable::new(3);
        table.report(Some(s(1)), report("a", 2, 1)).unwrap();
        assert_eq!(table.report(Some(s(2)), report("a", 1, 9)), Err(ReportRefused::Outdated));
        assert_eq!(table.report(Some(s(2)), report("a", 2, 1)), Err(ReportRefused::Outdated));
        assert_eq!(table.report(Some(s(2)), report("", 2, 1)), Err(ReportRefused::Invalid));
    }

    #[test]
    fn a_restart_with_an_earlier_clock_is_accepted_after_silence() {
        let mut table = LoadTable::new(3);
        table.report(Some(s(1)), report("a", 5_000, 9)).unwrap();
        assert_eq!(table.report(Some(s(4)), report("a", 70, 1)), Err(ReportRefused::Outdated));
        table.report(Some(s(5)), report("a", 70, 2)).unwrap();
        assert_eq!(table.standing(s(5), "a"), Standing::Active);
        assert_eq!(table.report(Some(s(6)), report("a", 70, 2)), Err(ReportRefused::Outdated));
        table.report(Some(s(6)), report("a", 70, 3)).unwrap();
    }

    #[test]
    fn the_table_is_bounded_and_forgets() {
        let mut table = LoadTable::new(3);
        for number in 0..MAX_GATEWAYS {
            table.report(Some(s(1)), report(&number.to_string(), 1, 1)).unwrap();
        }
        assert_eq!(table.report(Some(s(1)), report("more", 1, 1)), Err(ReportRefused::Invalid));
        table.report(Some(s(50)), report("7", 1, 2)).unwrap();
        table.forget(s(61), s(60));
        assert_eq!(table.all(s(61)).count(), 1);
    }

    #[test]
    fn one_that_drains_says_so() {
        let mut table = LoadTable::new(3);
        table.report(Some(s(1)), LoadReport { draining: true, ..report("a", 1, 1) }).unwrap();
        assert_eq!(table.standing(s(1), "a"), Standing::Draining);
    }
}
