//! The records in memory. Old periods are merged to longer ones, so that their number is bounded.

use std::collections::BTreeMap;

use crate::period::{DAYS_KEPT_S, HOURS_KEPT_S, Lengths, MINUTE_S, MINUTES_KEPT_S, Period};
use crate::record::{Amounts, Record};

/// Most records of minutes, all payers together: beyond that, minutes are merged to hours at once.
const MAX_MINUTES: usize = 200_000;

/// What each payer has used in each period.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    of: BTreeMap<(Period, String), Amounts>,
}

impl Ledger {
    /// Adds a record to the amounts of its period and payer.
    pub fn add(&mut self, record: Record) {
        self.of.entry((record.period, record.payer)).or_default().add(&record.amounts);
    }

    /// What each payer has used in the periods that begin at `from_s` or later and before `to_s`, Unix seconds.
    pub fn sum(&self, from_s: u64, to_s: u64) -> BTreeMap<String, Amounts> {
        let mut sums: BTreeMap<String, Amounts> = BTreeMap::new();
        let first = (Period { start_s: from_s, length_s: 0 }, String::new());
        for ((_, payer), amounts) in self.of.range(first..).take_while(|((period, _), _)| period.start_s < to_s) {
            sums.entry(payer.clone()).or_default().add(amounts);
        }
        sums
    }

    /// Merges old periods to longer ones, and forgets the oldest. Beyond `max_records`, hours before the present one are
    /// merged to days at once, and then the oldest records are forgotten.
    pub fn merge(&mut self, now_s: u64, max_records: usize) {
        let minutes = self.of.keys().filter(|(period, _)| period.length_s == MINUTE_S).count();
        let minutes_s = if minutes > MAX_MINUTES { 0 } else { MINUTES_KEPT_S };
        self.keep(now_s, Lengths { minutes_s, hours_s: HOURS_KEPT_S, days_s: DAYS_KEPT_S });
        if self.of.len() > max_records {
            self.keep(now_s, Lengths { minutes_s: 0, hours_s: 0, days_s: DAYS_KEPT_S });
        }
        while self.of.len() > max_records {
            self.of.pop_first();
        }
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
        ledger.merge(now, usize::MAX);
        assert_eq!(messages(&ledger, 0, now), all);
        // The last day and its first minute by the minute for one tenant each, the others by the hour for two.
        assert_eq!(ledger.records().count(), 24 * 60 + 2 * 48);
        assert_eq!(messages(&ledger, DAY_S, 2 * DAY_S), 24 * 60);
        ledger.merge(now + HOURS_KEPT_S, usize::MAX);
        assert_eq!((messages(&ledger, 0, now), ledger.records().count()), (all, 6));
        ledger.merge(now + DAYS_KEPT_S, usize::MAX);
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
        ledger.merge(now, 10);
        assert_eq!((messages(&ledger, 0, now), ledger.records().count()), (all, 10));
        ledger.merge(now, 4);
        assert_eq!((messages(&ledger, 0, now), ledger.records().count()), (4 * 24 * 60, 4), "the last days stay");
    }
}
