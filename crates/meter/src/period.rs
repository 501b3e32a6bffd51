//! Periods, and how long usage is known by each length.

pub(crate) const MINUTE_S: u64 = 60;
pub(crate) const HOUR_S: u64 = 3600;
pub(crate) const DAY_S: u64 = 24 * HOUR_S;

/// For how long usage is known by the minute, seconds; then by the hour.
pub const MINUTES_KEPT_S: u64 = DAY_S;
/// For how long usage is known by the hour, seconds; then by the day.
pub const HOURS_KEPT_S: u64 = 62 * DAY_S;
/// For how long usage is known at all, seconds.
pub const DAYS_KEPT_S: u64 = 800 * DAY_S;

/// For how long usage is known by each length, seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lengths {
    /// Then by the hour.
    pub(crate) by_minute: u64,
    /// Then by the day.
    pub(crate) by_hour: u64,
    /// Then it is forgotten.
    pub(crate) in_all: u64,
}

/// A period: a minute, an hour or a day of UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Period {
    /// Its start, Unix seconds.
    pub start_s: u64,
    /// Its length, seconds.
    pub length_s: u64,
}

impl Period {
    /// The minute of a time in Unix seconds.
    pub const fn minute_of(time_s: u64) -> Self {
        Self::of(time_s, MINUTE_S)
    }

    pub(crate) const fn of(time_s: u64, length_s: u64) -> Self {
        Self { start_s: time_s - time_s % length_s, length_s }
    }

    /// The hour of a time in Unix seconds.
    pub const fn hour_of(time_s: u64) -> Self {
        Self::of(time_s, HOUR_S)
    }

    /// The period into which this one is merged at a time; `None` when it is so old that it is not kept. A period is not
    /// merged before its end.
    pub(crate) fn kept_as(self, now_s: u64, lengths: Lengths) -> Option<Self> {
        let age = now_s.saturating_sub(self.start_s);
        if age > lengths.in_all {
            None
        } else if age > lengths.by_hour && age >= self.length_s {
            Some(Self::of(self.start_s, DAY_S.max(self.length_s)))
        } else if age > lengths.by_minute {
            Some(Self::of(self.start_s, HOUR_S.max(self.length_s)))
        } else {
            Some(self)
        }
    }
}
