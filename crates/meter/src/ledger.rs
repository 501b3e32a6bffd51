//! The records in memory. Old periods are merged to longer ones, so that their number is bounded.

use std::collections::BTreeMap;

use crate::period::{DAYS_KEPT_S, HOURS_KEPT_S, Lengths, MINUTE_S, MINUTES_KEPT_S, Period};
use crate::record::{Amounts, Record};

/// Most records of minutes, all payers together: beyond that, minutes are merged to hours at once.
const MAX_MINUTES: usize = 200_000;

/// How many records a ledger may have.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// Records of all payers and periods.
    pub records: usize,
    /// The payer with which another one is counted beyond that; nothing where it stays as it is.
    pub unnamed: fn(&str) -> Option<String>,
}

impl Bound {
    /// There may be any number of records.
    pub const NONE: Self = Self { records: usize::MAX, unnamed: |_| None };
}

/// The outcome for the records beyond a bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Excess {
    /// Records that were counted with the payer without a name.
    pub unnamed: usize,
    /// Records whose usage is forgotten.
    pub forgotten: usize,
}

/// The usage of each payer in each period.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    of: BTreeMap<(Period, String), Amounts>,
}

impl Ledger {
    /// Adds a record to the amounts of its period and payer.
    pub fn add(&mut self, record: Record) {
        self.of.entry((record.period, record.payer)).or_default().add(&record.amounts);
    }

    /// The usage of each payer in the periods that begin at `from_s` or later and before `to_s`, Unix seconds.
    pub fn sum(&self, from_s: u64, to_s: u64) -> BTreeMap<String, Amounts> {
        let mut sums: BTreeMap<String, Amounts> = BTreeMap::new();
        let first = (Period { start_s: from_s, length_s: 0 }, String::new());
        for ((_, payer), amounts) in self.of.range(first..).take_while(|((period, _), _)| period.start_s < to_s) {
            sums.entry(payer.clone()).or_default().add(amounts);
        }
        sums
    }

    /// Merges old periods to longer ones, and forgets the oldest. Beyond the bound, hours before the present one are
    /// merged to days at once, then the oldest records are counted without their names, and then the oldest are
    /// forgotten.
    pub fn merge(&mut self, now_s: u64, bound: Bound) -> Excess {
        let minutes = self.of.keys().filter(|(period, _)| period.length_s == MINUTE_S).count();
        let by_minute = if minutes > MAX_MINUTES { 0 } else { MINUTES_KEPT_S };
        self.keep(now_s, Lengths { by_minute, by_hour: HOURS_KEPT_S, in_all: DAYS_KEPT_S });
        if self.of.len() > bound.records {
            self.keep(now_s, Lengths { by_minute: 0, by_hour: 0, in_all: DAYS_KEPT_S });
        }
        let unnamed = self.unname(bound);
        let forgotten = self.of.len().saturating_sub(bound.records);
        for _ in 0..forgotten {
            self.of.pop_first();
        }
        Excess { unnamed, forgotten }
    }

    /// Counts the oldest records beyond the bound without their names. Returns how many.
    fn unname(&mut self, bound: Bound) -> usize {
        if self.of.len() <= bound.records {
            return 0;
        }
        let (mut excess, mut count) = (self.of.len() - bound.records, 0);
        for ((period, payer), amounts) in std::mem::take(&mut self.of) {
            let unnamed = if excess > 0 { (bound.unnamed)(&payer) } else { None };
            let payer = match unnamed {
                Some(unnamed) => {
                    count += 1;
                    unnamed
                }
                None => payer,
            };
            let kept = self.of.len();
            self.add(Record { period, payer, amounts });
            // The record joins another one, unless it is the first without a name in its period.
            excess = excess.saturating_sub(usize::from(self.of.len() == kept));
        }
        count
    }

    fn keep(&mut self, now_s: u64, lengths: Lengths) {
        for ((period, payer), amounts) in std::mem::take(&mut self.of) {
            if let Some(period) = period.kept_as(now_s, lengths) {
                self.add(Record { period, payer, amounts });
            }
        }
    }

    /// All records, oldest first.
    pub fn records(&self) -> impl Iterator<Item = Record> {
        self.of.iter().map(|((period, payer), amounts)| Record {
            period: *period,
            payer: payer.clone(),
            amounts: *amounts,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::period::DAY_S;

    fn used(time_s: u64, tenant: &str, messages_in: u64) -> Record {
        let amounts = Amounts { messages_in, ..Amounts::default() };
        Record { period: Period::minute_of(time_s), payer: tenant.to_owned(), amounts }
    }

    fn messages(ledger: &Ledger, from_s: u64, to_s: u64) -> u64 {
        ledger.sum(from_s, to_s).values().map(|amounts| amounts.messages_in).sum()
    }

    #[test]
    fn a_period_counts_where_it_begins() {
        let mut ledger = Ledger::default();
        for second in [59, 60, 119, 120] {
            ledger.add(used(second, "a", 1));
        }
        assert_eq!([messages(&ledger, 0, 60), messages(&ledger, 60, 120), messages(&ledger, 0, 121)], [1, 2, 4]);
        assert_eq!(messages(&ledger, 61, 120), 0);
    }

    #[test]
    fn merging_changes_no_sum_until_the_oldest_are_forgotten() {
        let mut ledger = Ledger::default();
        for minute in 0..3 * 24 * 60 {
            ledger.add(used(minute * 60, ["a", "b"][(minute % 2) as usize], 1));
        }
        let (all, now) = (3 * 24 * 60, 3 * DAY_S);
        ledger.merge(now, Bound::NONE);
        assert_eq!(messages(&ledger, 0, now), all);
        // The last day and its first minute by the minute for one tenant each, the others by the hour for two.
        assert_eq!(ledger.records().count(), 24 * 60 + 2 * 48);
        assert_eq!(messages(&ledger, DAY_S, 2 * DAY_S), 24 * 60);
        ledger.merge(now + HOURS_KEPT_S, Bound::NONE);
        assert_eq!((messages(&ledger, 0, now), ledger.records().count()), (all, 6));
        ledger.merge(now + DAYS_KEPT_S, Bound::NONE);
        assert_eq!(messages(&ledger, 0, now), 0);
    }
    #[test]
    fn records_beyond_the_bound_are_merged_then_forgotten() {
        let mut ledger = Ledger::default();
        let now = 10 * DAY_S;
        for minute in 0..10 * 24 * 60 {
            ledger.add(used(minute * 60, "a", 1));
        }
        let all = 10 * 24 * 60;
        ledger.merge(now, Bound { records: 10, ..Bound::NONE });
        assert_eq!((messages(&ledger, 0, now), ledger.records().count()), (all, 10));
        assert_eq!(ledger.merge(now, Bound { records: 4, ..Bound::NONE }), Excess { unnamed: 0, forgotten: 6 });
        assert_eq!((messages(&ledger, 0, now), ledger.records().count()), (4 * 24 * 60, 4), "the last days stay");
    }

    #[test]
    fn usage_beyond_the_bound_is_counted_without_names() {
        let unnamed = |payer: &str| (!payer.is_empty()).then(String::new);
        let mut ledger = Ledger::default();
        for user in 0..100 {
            for time_s in [0, DAY_S] {
                ledger.add(used(time_s, &format!("user {user:02}"), 1));
            }
        }
        let excess = ledger.merge(DAY_S, Bound { records: 60, unnamed });
        assert_eq!(ledger.records().count(), 60);
        assert_eq!((messages(&ledger, 0, DAY_S), messages(&ledger, DAY_S, 2 * DAY_S)), (100, 100), "nothing is lost");
        assert_eq!(excess, Excess { unnamed: 142, forgotten: 0 });
        let days = [ledger.sum(0, DAY_S), ledger.sum(DAY_S, 2 * DAY_S)];
        assert_eq!(days.map(|sums| (sums.len(), sums[""].messages_in)), [(1, 100), (59, 42)], "the oldest come first");
    }
}
