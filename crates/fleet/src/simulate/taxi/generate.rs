//! Records of the same kind, made up.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::calendar::days_since_1970;
use super::record::TaxiRecord;
use crate::simulate::random::Random;

/// Mean seconds between two records of a taxi.
const CADENCE_S: f64 = 7.0;
/// The most taxis that are made up.
const TAXIS_MAX: u32 = 1_000_000;
/// The box within which others have looked at the data set: latitudes and longitudes.
const BOX: [(f64, f64); 2] = [(41.75, 42.05), (12.3, 12.7)];

/// Numbers that make no taxis.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{taxis} taxis cannot be made up: choose 1 to {TAXIS_MAX}")]
pub struct TaxisError {
    /// The given value.
    pub taxis: u32,
}

/// Records of taxis, interleaved in the order of time, from 2014-02-01 00:00 in Rome on, without an end. Each taxi has
/// its own cadence, up to twice as slow or as fast as 7 s, rests now and then, and moves a little between records.
/// The same seed gives the same records.
#[derive(Clone, Debug)]
pub struct Taxis {
    random: Random,
    states: Vec<Taxi>,
    next: BinaryHeap<Reverse<(i64, u32)>>,
}

#[derive(Clone, Copy, Debug)]
struct Taxi {
    cadence_s: f64,
    latitude: f64,
    longitude: f64,
}

impl Taxis {
    /// The number of taxis: the data set has about 316.
    ///
    /// # Errors
    /// When there are no taxis or too many.
    pub fn new(taxis: u32, seed: u64) -> Result<Self, TaxisError> {
        if taxis == 0 || taxis > TAXIS_MAX {
            return Err(TaxisError { taxis });
        }
        let mut random = Random::new(seed);
        let start_us = (days_since_1970(2014, 2, 1) * 86_400 - 3600) * 1_000_000;
        let mut made = Vec::new();
        let mut next = BinaryHeap::new();
        for number in 0..taxis {
            let within = |random: &mut Random, (from, to): (f64, f64)| from + (to - from) * random.fraction();
            made.push(Taxi {
                cadence_s: CADENCE_S * 2_f64.powf(2.0 * random.fraction() - 1.0),
                latitude: within(&mut random, BOX[0]),
                longitude: within(&mut random, BOX[1]),
            });
            next.push(Reverse((start_us + microseconds(CADENCE_S * random.fraction()), number)));
        }
        Ok(Self { random, states: made, next })
    }

    /// The pause until the next record: the cadence give or take a fifth, and now and then a rest of up to an hour.
    fn pause_s(&mut self, cadence_s: f64) -> f64 {
        if self.random.fraction() < 0.001 {
            return 3600.0 * self.random.fraction();
        }
        cadence_s * (0.8 + 0.4 * self.random.fraction())
    }
}

impl Iterator for Taxis {
    type Item = TaxiRecord;

    fn next(&mut self) -> Option<TaxiRecord> {
        let Reverse((time_us, number)) = self.next.pop()?;
        let mut taxi = *self.states.get(number as usize)?;
        let (north, east) = (0.001 * self.random.normal(), 0.001 * self.random.normal());
        taxi.latitude = (taxi.latitude + north).clamp(BOX[0].0, BOX[0].1);
        taxi.longitude = (taxi.longitude + east).clamp(BOX[1].0, BOX[1].1);
        let pause = microseconds(self.pause_s(taxi.cadence_s)).max(1);
        self.next.push(Reverse((time_us + pause, number)));
        if let Some(place) = self.states.get_mut(number as usize) {
            *place = taxi;
        }
        Some(TaxiRecord { taxi: number + 1, time_us, latitude: taxi.latitude, longitude: taxi.longitude })
    }
}

fn microseconds(seconds: f64) -> i64 {
    (seconds * 1e6).round() as i64
}

#[cfg(test)]
mod tests {
    use super::super::import::Import;
    use super::*;

    #[test]
    fn made_up_records_read_as_real_ones_do() {
        let records: Vec<TaxiRecord> = Taxis::new(20, 1).unwrap().take(5000).collect();
        assert!(records.is_sorted_by_key(|record| record.time_us));
        let mut import = Import::new();
        for record in &records {
            assert_eq!(TaxiRecord::parse(&record.to_string()), Ok(*record));
            import.push(&record.to_string());
        }
        let imported = import.finish(1.0, 60).unwrap();
        assert_eq!((imported.records, imported.taxis, imported.bad), (5000, 20, 0));
        // Uneven: the busiest taxi has well above the mean of 250.
        let of = |taxi: u32| records.iter().filter(|record| record.taxi == taxi).count();
        assert!((1..=20).map(of).max().unwrap() > 350);
    }

    #[test]
    fn a_seed_repeats_itself() {
        let first: Vec<TaxiRecord> = Taxis::new(5, 7).unwrap().take(100).collect();
        assert!(Taxis::new(5, 7).unwrap().take(100).eq(first.iter().copied()));
        assert!(!Taxis::new(5, 8).unwrap().take(100).eq(first));
        assert_eq!(Taxis::new(0, 7).unwrap_err(), TaxisError { taxis: 0 });
    }
}
