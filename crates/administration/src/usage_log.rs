//! The usage of tenants as records on a bus: for each hour and tenant one record with the sum so far.
//!
//! A record takes the place of the earlier one with the same key. So the sum over all keys is exact, also when records
//! are written again after a restart or a failure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::json;
use tidegate_bus::{
    Address, Append, Bus, BusError, Done, LogName, LogPartition, LogSpec, NameError, Position, Settings,
};
use tidegate_meter::{Amounts, Books};

const LOG: &str = "usage";
/// Records that it holds at most, and their bytes. Beyond it new ones are refused.
const MAX_RECORDS: u64 = 1_000_000;
const MAX_BYTES: u64 = 256 << 20;
/// Hours before the present one whose sums are written after a start: the last process may not have written them.
const HOURS_AGAIN: u64 = 48;
/// For how long records are kept.
const KEPT: Duration = Duration::from_secs(62 * 24 * 3600);
const HOUR_S: u64 = 3600;
/// How often a wait for the bus asks whether the turn lasts.
const ASKED_EVERY: Duration = Duration::from_millis(100);

/// The sum of a tenant in an hour that is not on the bus yet, with the hour in Unix seconds and the tenant.
pub(crate) type Sum = ((u64, String), Amounts);

/// A request to the bus that is not answered yet.
type Answer<T> = Receiver<Result<T, BusError>>;

struct UnderWay {
    sum: Sum,
    answer: Answer<Position>,
}

/// Writes sums of the books to the bus.
pub(crate) struct UsageLog {
    address: Address,
    settings: Settings,
    place: LogPartition,
    node: String,
    bus: Option<Bus>,
    /// The record that the bus has not confirmed yet. The next one waits for it, so that records of a key keep their order.
    under_way: Option<UnderWay>,
    /// The sums that the bus has, by the hour and the tenant.
    written: BTreeMap<(u64, String), Amounts>,
}

impl UsageLog {
    /// A log that is not opened yet. `node` separates the records of this process from other records.
    ///
    /// # Errors
    /// When the log has no name on this bus.
    pub(crate) fn new(address: Address, settings: Settings, node: String) -> Result<Self, NameError> {
        let place = LogPartition::new(LogName::new(LOG)?, 0);
        Ok(Self { address, settings, place, node, bus: None, under_way: None, written: BTreeMap::new() })
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

    /// Writes sums while the turn lasts. Returns whether the bus has them all: the others are missing, and are written
    /// in the next turn.
    ///
    /// # Errors
    /// When the bus does not take all. The sums are missing then, too.
    pub(crate) fn write(&mut self, sums: Vec<Sum>, may_continue: &mut dyn FnMut() -> bool) -> Result<bool, BusError> {
        if !self.settle(may_continue)? {
            return Ok(false);
        }
        let Some(bus) = self.open(may_continue)? else { return Ok(false) };
        for sum in sums {
            if self.written.get(&sum.0) == Some(&sum.1) {
                continue;
            }
            if !may_continue() {
                return Ok(false);
            }
            let ((hour, tenant), amounts) = &sum;
            let record = Append::new(record(&self.node, *hour, tenant, amounts))
                .with_key(format!("{}/{hour}/{tenant}", self.node));
            let answer = ask(|done| bus.append(&self.place, record, done)).inspect_err(|error| self.lose(error))?;
            self.under_way = Some(UnderWay { sum, answer });
            if !self.settle(may_continue)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits for the record that is under way. False when the turn ends before.
    fn settle(&mut self, may_continue: &mut dyn FnMut() -> bool) -> Result<bool, BusError> {
        let Some(UnderWay { sum, answer }) = self.under_way.take() else { return Ok(true) };
        match wait(&answer, may_continue) {
            None => {
                self.under_way = Some(UnderWay { sum, answer });
                Ok(false)
            }
            Some(outcome) => {
                outcome.inspect_err(|error| self.lose(error))?;
                self.written.insert(sum.0, sum.1);
                Ok(true)
            }
        }
    }

    /// If the servers have lost the log, it is made again, and all sums are written.
    fn lose(&mut self, error: &BusError) {
        if matches!(error, BusError::Unknown(_)) {
            (self.bus, self.written) = (None, BTreeMap::new());
        }
    }

    /// The bus with the log. Nothing when the turn ends before.
    fn open(&mut self, may_continue: &mut dyn FnMut() -> bool) -> Result<Option<Bus>, BusError> {
        if self.bus.is_some() {
            return Ok(self.bus.clone());
        }
        let bus = Bus::open(&self.address, self.settings.clone(), Arc::new(|_| {}))?;
        let spec = LogSpec {
            max_records: MAX_RECORDS,
            max_bytes: MAX_BYTES,
            keep_for: Some(KEPT),
            ..LogSpec::shared(self.place.log.clone(), 1).latest_of_key()
        };
        let answer = ask(|done| bus.create(spec, done))?;
        let Some(made) = wait(&answer, may_continue) else { return Ok(None) };
        made?;
        self.bus = Some(bus);
        Ok(self.bus.clone())
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

/// Makes a request to the bus.
fn ask<T: Send + 'static>(call: impl FnOnce(Done<T>) -> Result<(), BusError>) -> Result<Answer<T>, BusError> {
    let (tell, answer) = channel();
    // A receiver that has gone needs no answer.
    call(Box::new(move |result| drop(tell.send(result))))?;
    Ok(answer)
}

/// Waits for an answer of the bus. Nothing when the turn ends before.
fn wait<T>(answer: &Answer<T>, may_continue: &mut dyn FnMut() -> bool) -> Option<Result<T, BusError>> {
    loop {
        match answer.recv_timeout(ASKED_EVERY) {
            Ok(outcome) => return Some(outcome),
            Err(RecvTimeoutError::Disconnected) => return Some(Err(BusError::Stopped)),
            Err(RecvTimeoutError::Timeout) if !may_continue() => return None,
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tidegate_meter::Payers;

    use super::*;

    fn log() -> UsageLog {
        UsageLog::new(Address::Embedded, Settings::default(), "n".to_owned()).unwrap()
    }

    fn add(books: &mut Books, now_s: u64, tenant: &str, messages_in: u64) {
        books.add(now_s, &[(tenant.to_owned(), Amounts { messages_in, ..Amounts::default() })]).unwrap();
    }

    /// One turn.
    fn write(log: &mut UsageLog, books: &Books, may_continue: &mut dyn FnMut() -> bool) -> Result<bool, BusError> {
        let missing = log.missing(books, 3_600);
        log.write(missing, may_continue)
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
        let end = ask(|done| bus.bounds(&log.place, done)).unwrap().recv().unwrap().unwrap().next;
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
        let (mut books, mut log) = (Books::in_memory(Payers::Tenants), log());
        add(&mut books, 3_500, "a", 1);
        add(&mut books, 3_600, "a", 2);
        add(&mut books, 3_700, "b", 4);
        let missing = log.missing(&books, 3_700);
        assert_eq!(sums(&missing), [(0, "a", 1), (3_600, "a", 2), (3_600, "b", 4)]);
        assert!(log.write(missing, &mut || true).unwrap());
        assert!(log.missing(&books, 3_700).is_empty(), "nothing has changed");
        add(&mut books, 3_800, "a", 8);
        let missing = log.missing(&books, 3_800);
        assert_eq!(sums(&missing), [(3_600, "a", 10)]);
        assert!(log.write(missing, &mut || true).unwrap());
        let found = records(&log);
        let total: u64 = found.values().map(|record| record["messages_in"].as_u64().unwrap()).sum();
        assert_eq!((found.len(), total), (3, 15));
        assert_eq!(found["n/3600/a"]["to_s"], 7_200);
    }

    #[test]
    fn a_turn_that_is_over_leaves_records_to_the_next_one() {
        let (mut books, mut log) = (Books::in_memory(Payers::Tenants), log());
        for tenant in ["a", "b", "c"] {
            add(&mut books, 3_600, tenant, 1);
        }
        assert!(!write(&mut log, &books, &mut || false).unwrap());
        assert_eq!(log.missing(&books, 3_600).len(), 3);
        // Each turn ends after one question.
        let (mut asked, mut turns) = (0, 1);
        let mut may_continue = || {
            asked += 1;
            asked % 2 == 1
        };
        while !write(&mut log, &books, &mut may_continue).unwrap() {
            turns += 1;
        }
        assert!(turns >= 3, "{turns}");
        assert_eq!(records(&log).len(), 3);
    }

    #[test]
    fn a_silent_bus_holds_no_turn_up() {
        let (mut books, mut log) = (Books::in_memory(Payers::Tenants), log());
        add(&mut books, 3_600, "a", 1);
        let missing = log.missing(&books, 3_600);
        let (tell, answer) = channel();
        log.under_way = Some(UnderWay { sum: missing[0].clone(), answer });
        assert!(!log.write(missing, &mut || false).unwrap());
        add(&mut books, 3_600, "a", 2);
        tell.send(Ok(Position::START)).unwrap();
        // The record of the last turn is confirmed, and the newer sum comes behind it.
        assert!(write(&mut log, &books, &mut || true).unwrap());
        assert_eq!(records(&log)["n/3600/a"]["messages_in"], 3);
    }

    #[test]
    fn a_restart_writes_records_that_the_last_process_left_out() {
        let folder = std::env::temp_dir().join(format!("tidegate-usage-log-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let open = |folder: &Path| Books::open(folder, Payers::Tenants).unwrap();
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
