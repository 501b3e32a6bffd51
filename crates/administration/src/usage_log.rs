//! The usage of tenants as records on a bus: for each hour and tenant one record with the sum so far.
//!
//! A record takes the place of the earlier one with the same key. So the sum over all keys is exact, also when records
//! are written again after a restart or a failure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use serde_json::json;
use tidegate_bus::{Address, Append, Bus, BusError, Done, LogName, LogSpec, NameError, Place, Settings};
use tidegate_meter::{Amounts, Books};

/// The log.
const LOG: &str = "usage";
/// Records that it holds at most, and their bytes. Beyond it new ones are refused.
const MAX_RECORDS: u64 = 1_000_000;
const MAX_BYTES: u64 = 256 << 20;
/// Hours before the present one whose sums are written after a start: the last process may not have written them.
const HOURS_AGAIN: u64 = 48;
/// For how long records are kept.
const KEPT: Duration = Duration::from_secs(62 * 24 * 3600);
const HOUR_S: u64 = 3600;

/// The sum of a tenant in an hour that is not on the bus yet, with the hour in Unix seconds and the tenant.
pub(crate) type Sum = ((u64, String), Amounts);

/// Writes sums of the books to the bus.
pub(crate) struct UsageLog {
    address: Address,
    settings: Settings,
    place: Place,
    node: String,
    bus: Option<Bus>,
    /// The sums that the bus has, by the hour and the tenant.
    written: BTreeMap<(u64, String), Amounts>,
}

impl UsageLog {
    /// A log that is not opened yet. `node` separates the records of this process from other records.
    ///
    /// # Errors
    /// When the log has no name on this bus.
    pub(crate) fn new(address: Address, settings: Settings, node: String) -> Result<Self, NameError> {
        let place = Place::new(LogName::new(LOG)?, 0);
        Ok(Self { address, settings, place, node, bus: None, written: BTreeMap::new() })
    }

    /// The sums of the books that the bus does not have.
    pub(crate) fn missing(&mut self, books: &Books, now_s: u64) -> Vec<Sum> {
        let present = now_s - now_s % HOUR_S;
        let first = present.saturating_sub(HOURS_AGAIN * HOUR_S);
        self.written.retain(|(hour, _), _| *hour >= first);
        let hours = (first..=present).step_by(usize::try_from(HOUR_S).unwrap_or(usize::MAX));
        let of = |hour: u64| {
            let sums = books.sum(hour, hour + HOUR_S).into_iter();
            sums.map(move |(tenant, amounts)| ((hour, tenant), amounts))
        };
        hours.flat_map(of).filter(|(key, amounts)| self.written.get(key) != Some(amounts)).collect()
    }

    /// Writes sums, and waits until the bus has them.
    ///
    /// # Errors
    /// When the bus does not take all. The sums are missing then, and are written with the next ones.
    pub(crate) fn write(&mut self, sums: Vec<Sum>) -> Result<(), BusError> {
        let bus = self.open()?;
        for (key, amounts) in sums {
            let (hour, tenant) = &key;
            let record = Append::new(record(&self.node, *hour, tenant, &amounts))
                .with_key(format!("{}/{hour}/{tenant}", self.node));
            wait(|done| bus.append(&self.place, record, done)).inspect_err(|error| {
                if matches!(error, BusError::Unknown(_)) {
                    // The servers have lost the log: it is made again, and all sums are written.
                    (self.bus, self.written) = (None, BTreeMap::new());
                }
            })?;
            self.written.insert(key, amounts);
        }
        Ok(())
    }

    fn open(&mut self) -> Result<Bus, BusError> {
        if let Some(bus) = &self.bus {
            return Ok(bus.clone());
        }
        let bus = Bus::open(&self.address, self.settings.clone(), Arc::new(|_| {}))?;
        let spec = LogSpec {
            max_records: MAX_RECORDS,
            max_bytes: MAX_BYTES,
            keep_for: Some(KEPT),
            ..LogSpec::shared(self.place.log.clone(), 1).latest_of_key()
        };
        wait(|done| bus.create(spec, done))?;
        self.bus = Some(bus.clone());
        Ok(bus)
    }
}

/// The content of a record.
fn record(node: &str, hour: u64, tenant: &str, amounts: &Amounts) -> String {
    let value = json!({
        "node": node,
        "from_s": hour,
        "to_s": hour + HOUR_S,
        "tenant": tenant,
        "messages_in": amounts.messages_in,
        "messages_out": amounts.messages_out,
        "bytes_in": amounts.bytes_in,
        "bytes_out": amounts.bytes_out,
        "connection_ms": amounts.connection_ms,
        "sink_deliveries": amounts.sink_deliveries,
        "session_ms": amounts.session_ms,
        "retained_byte_seconds": amounts.retained_byte_seconds,
        "stored_byte_seconds": amounts.stored_byte_seconds,
    });
    value.to_string()
}

/// Waits for the end of a request to the bus, which the bus bounds in time.
fn wait<T: Send + 'static>(call: impl FnOnce(Done<T>) -> Result<(), BusError>) -> Result<T, BusError> {
    let (tell, outcome) = channel();
    // A receiver that has gone needs no outcome.
    call(Box::new(move |result| drop(tell.send(result))))?;
    outcome.recv().unwrap_or(Err(BusError::Stopped))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tidegate_bus::Position;

    use super::*;

    fn log() -> UsageLog {
        UsageLog::new(Address::Embedded, Settings::default(), "n".to_owned()).unwrap()
    }

    fn add(books: &mut Books, now_s: u64, tenant: &str, messages_in: u64) {
        books.add(now_s, &[(tenant.to_owned(), Amounts { messages_in, ..Amounts::default() })]).unwrap();
    }

    fn sums(missing: &[Sum]) -> Vec<(u64, &str, u64)> {
        missing.iter().map(|((hour, tenant), amounts)| (*hour, tenant.as_str(), amounts.messages_in)).collect()
    }

    /// The newest record of each key.
    fn records(log: &UsageLog) -> BTreeMap<String, serde_json::Value> {
        let (rung, bell) = channel();
        let rung = std::sync::Mutex::new(rung);
        let wake = Arc::new(move || rung.lock().unwrap().send(()).unwrap_or_default());
        let bus = log.bus.clone().unwrap();
        let end = wait(|done| bus.bounds(&log.place, done)).unwrap().next;
        let mut reader = bus.read(&log.place, Position::START, wake).unwrap();
        let mut found = BTreeMap::new();
        loop {
            let taken = reader.take(100).unwrap();
            for record in &taken.records {
                let key = String::from_utf8(record.key.to_vec()).unwrap();
                found.insert(key, serde_json::from_slice(&record.payload).unwrap());
            }
            if taken.next >= end {
                return found;
            }
            bell.recv().unwrap();
        }
    }

    #[test]
    fn the_bus_has_one_sum_for_each_hour_and_tenant() {
        let (mut books, mut log) = (Books::in_memory(), log());
        add(&mut books, 3_500, "a", 1);
        add(&mut books, 3_600, "a", 2);
        add(&mut books, 3_700, "b", 4);
        let missing = log.missing(&books, 3_700);
        assert_eq!(sums(&missing), [(0, "a", 1), (3_600, "a", 2), (3_600, "b", 4)]);
        log.write(missing).unwrap();
        assert!(log.missing(&books, 3_700).is_empty(), "nothing has changed");
        add(&mut books, 3_800, "a", 8);
        let missing = log.missing(&books, 3_800);
        assert_eq!(sums(&missing), [(3_600, "a", 10)]);
        log.write(missing).unwrap();
        let found = records(&log);
        let total: u64 = found.values().map(|record| record["messages_in"].as_u64().unwrap()).sum();
        assert_eq!((found.len(), total), (3, 15));
        assert_eq!(found["n/3600/a"]["to_s"], 7_200);
    }

    #[test]
    fn a_restart_writes_what_the_last_process_may_have_left_out() {
        let folder = std::env::temp_dir().join(format!("tidegate-usage-log-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let open = |folder: &Path| Books::open(folder).unwrap();
        let now = 100 * HOUR_S;
        let mut books = open(&folder);
        add(&mut books, 10 * HOUR_S, "old", 1);
        add(&mut books, now - HOUR_S, "a", 2);
        add(&mut books, now, "a", 3);
        drop(books);
        // The last process has ended before it wrote to the bus.
        let missing = log().missing(&open(&folder), now);
        assert_eq!(sums(&missing), [(now - HOUR_S, "a", 2), (now, "a", 3)]);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
