//! Amounts from the counters of a process: the usage since the last reading, never twice.

use std::collections::BTreeMap;

use crate::record::Amounts;

/// Counters of a payer since the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Messages received.
    pub messages_in: u64,
    /// Messages sent.
    pub messages_out: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Connection time, milliseconds.
    pub connection_ms: u64,
    /// Messages that sinks have confirmed.
    pub sink_deliveries: u64,
}

impl Counted {
    /// By how much the counters are above amounts.
    pub(crate) fn beyond(&self, booked: &Amounts) -> Amounts {
        Amounts {
            messages_in: self.messages_in.saturating_sub(booked.messages_in),
            messages_out: self.messages_out.saturating_sub(booked.messages_out),
            bytes_in: self.bytes_in.saturating_sub(booked.bytes_in),
            bytes_out: self.bytes_out.saturating_sub(booked.bytes_out),
            connection_ms: self.connection_ms.saturating_sub(booked.connection_ms),
            sink_deliveries: self.sink_deliveries.saturating_sub(booked.sink_deliveries),
            ..Amounts::default()
        }
    }
}

/// Sessions and bytes of a payer at the time of a reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Present {
    /// Sessions.
    pub sessions: u64,
    /// Bytes of retained messages.
    pub retained_bytes: u64,
    /// Bytes of messages that wait.
    pub stored_bytes: u64,
}

/// The readings so far: for each counter the highest number that is in the books. A sum over parts of a process may
/// fall for a moment, when a part does not answer; its usage does not count once more when it is back.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    booked: BTreeMap<String, Counted>,
}

impl Reading {
    /// The usage since the readings that were booked `elapsed_ms` ago, and the reading to book with it.
    pub fn since(&self, now: &BTreeMap<String, (Counted, Present)>, elapsed_ms: u64) -> (Self, Vec<(String, Amounts)>) {
        let mut next = self.clone();
        let mut amounts = Vec::new();
        for (payer, (counted, present)) in now {
            let booked = next.booked.entry(payer.clone()).or_default();
            let used = Amounts {
                messages_in: rise(&mut booked.messages_in, counted.messages_in),
                messages_out: rise(&mut booked.messages_out, counted.messages_out),
                bytes_in: rise(&mut booked.bytes_in, counted.bytes_in),
                bytes_out: rise(&mut booked.bytes_out, counted.bytes_out),
                connection_ms: rise(&mut booked.connection_ms, counted.connection_ms),
                sink_deliveries: rise(&mut booked.sink_deliveries, counted.sink_deliveries),
                session_ms: present.sessions.saturating_mul(elapsed_ms),
                retained_byte_seconds: byte_seconds(present.retained_bytes, elapsed_ms),
                stored_byte_seconds: byte_seconds(present.stored_bytes, elapsed_ms),
            };
            if !used.is_nothing() {
                amounts.push((payer.clone(), used));
            }
        }
        (next, amounts)
    }
}

/// By how much a counter is above the highest number so far, which it then is.
fn rise(highest: &mut u64, now: u64) -> u64 {
    let risen = now.saturating_sub(*highest);
    *highest = now.max(*highest);
    risen
}

fn byte_seconds(bytes: u64, elapsed_ms: u64) -> u64 {
    u64::try_from(u128::from(bytes) * u128::from(elapsed_ms) / 1000).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(messages_in: u64, sessions: u64) -> BTreeMap<String, (Counted, Present)> {
        let counted = Counted { messages_in, ..Counted::default() };
        let present = Present { sessions, retained_bytes: 2 * sessions, ..Present::default() };
        BTreeMap::from([("a".to_owned(), (counted, present))])
    }

    #[test]
    fn a_counter_that_falls_and_rises_counts_once() {
        let mut booked = Reading::default();
        let mut total = 0;
        for counter in [100, 60, 100, 130] {
            let (next, amounts) = booked.since(&reading(counter, 0), 1000);
            booked = next;
            total += amounts.iter().map(|(_, amounts)| amounts.messages_in).sum::<u64>();
        }
        assert_eq!(total, 130);
    }

    #[test]
    fn a_reading_that_is_not_booked_is_part_of_the_next() {
        let booked = Reading::default();
        let (_, lost) = booked.since(&reading(5, 1), 1000);
        let (_, amounts) = booked.since(&reading(7, 1), 2000);
        assert_eq!((lost[0].1.messages_in, amounts[0].1.messages_in), (5, 7));
        assert_eq!((amounts[0].1.session_ms, amounts[0].1.retained_byte_seconds), (2000, 4));
    }
}
