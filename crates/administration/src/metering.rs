//! Metering: reads the usage of tenants and users from the node, and writes it into the books.

mod kept;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tidegate_admin::{MeterBy, MeterRequest, TenantUsage};
use tidegate_config::Config;
use tidegate_config::bus_access::usage_bus;
use tidegate_console::Unavailable;
use tidegate_console::api::ControlError;
use tidegate_engine::{Durability, TenantId, Usage};
use tidegate_identity::access::Tenancy;
use tidegate_meter::{Amounts, Counted, Payers, Present, lasting_name};
use tidegate_node::{LeftRuns, LeftUsage, NodeHandle};

use self::kept::{Kept, Users};
use crate::usage_log::UsageLog;

/// Time between two entries in the books: a `kill -9` loses at most the usage of this time that no commit has carried.
const BOOKED_EVERY: Duration = Duration::from_secs(10);

/// The name of the tenant that clients without another one belong to.
const DEFAULT_TENANT: &str = "default";

/// The usage of users, by tenant and user name.
type UsageOfUsers = BTreeMap<(TenantId, Box<str>), Usage>;

/// Milliseconds in the shortest period of the books.
const MINUTE_MS: u64 = 60_000;

/// The books of this process, and the counters that they have.
pub struct Meter {
    tenancy: Tenancy,
    node: NodeHandle,
    sink_deliveries: Box<dyn Fn() -> BTreeMap<String, u64> + Send + Sync>,
    account: Mutex<Account>,
}

impl std::fmt::Debug for Meter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Meter")
    }
}

struct Account {
    tenants: Kept,
    users: Users,
    /// The usage of earlier processes in the store, until it is in the books.
    left: Vec<LeftUsage>,
}

impl Meter {
    /// The usage in some time, and whether the books outlive the process. The books have all usage so far by then.
    ///
    /// # Errors
    /// When the node does not answer, the books cannot be written, or there are no books of users.
    pub fn answer(&self, request: &MeterRequest) -> Result<(Vec<TenantUsage>, bool), ControlError> {
        self.book_now()?;
        let account = self.account.lock().unwrap_or_else(PoisonError::into_inner);
        let from_s = request.from_ms / MINUTE_MS * 60;
        let to_s = request.to_ms.div_ceil(MINUTE_MS) * 60;
        let kept = match request.by {
            MeterBy::Tenant => &account.tenants,
            MeterBy::User => account.users.counted().ok_or_else(no_books_of_users)?,
        };
        let sums = kept.books.sum(from_s, to_s).into_iter();
        let usage = match request.by {
            MeterBy::Tenant => sums.map(|(tenant, amounts)| usage_of(tenant, None, &amounts)).collect(),
            MeterBy::User => sums.filter_map(|(user, amounts)| usage_of_user(&user, &amounts)).collect(),
        };
        Ok((usage, kept.books.are_kept()))
    }

    /// Adds the usage since the last entry.
    fn book_now(&self) -> Result<(), ControlError> {
        let report = self.node.report_by_user().map_err(|_| Unavailable)?;
        self.book(&report.usage, &report.users)
    }

    fn book(&self, usage: &BTreeMap<TenantId, Usage>, users: &UsageOfUsers) -> Result<(), ControlError> {
        let now = readings(&self.tenancy, usage, &(self.sink_deliveries)());
        let mut account = self.account.lock().unwrap_or_else(PoisonError::into_inner);
        account.tenants.book(&now)?;
        account.users.book(|| readings_of_users(&self.tenancy, users))?;
        let settled = std::mem::take(&mut account.left);
        if !settled.is_empty() {
            self.node.forget_usage(settled);
        }
        Ok(())
    }

    /// Writes the sums of the books to the bus while the turn lasts. Returns whether the bus is away. `was_away` is the
    /// result of the last call.
    fn write_records(&self, records: &mut UsageLog, was_away: bool, may_continue: &mut dyn FnMut() -> bool) -> bool {
        let missing = {
            let account = self.account.lock().unwrap_or_else(PoisonError::into_inner);
            records.missing(&account.tenants.books, unix_seconds())
        };
        if missing.is_empty() {
            return was_away;
        }
        let written = records.write(missing, may_continue);
        match &written {
            Err(error) if !was_away => tracing::warn!(%error, "records of usage are not on the bus yet"),
            Ok(true) if was_away => tracing::info!("records of usage are on the bus again"),
            _ => {}
        }
        written.map_or(true, |is_all| was_away && !is_all)
    }
}

fn no_books_of_users() -> ControlError {
    ControlError::Refused(
        "there are no books of users; set `hub.usage_by_user = true` and restart the broker".to_owned(),
    )
}

/// The counters and gauges of each tenant by its name.
fn readings(
    tenancy: &Tenancy,
    usage: &BTreeMap<TenantId, Usage>,
    sink_deliveries: &BTreeMap<String, u64>,
) -> BTreeMap<String, (Counted, Present)> {
    let mut all: BTreeMap<String, (Counted, Present)> = BTreeMap::new();
    for (tenant, usage) in usage {
        // A configured tenant may have the name of the default tenant.
        add_usage(all.entry(tenant_name(tenancy, *tenant)).or_default(), usage);
    }
    for (tenant, deliveries) in sink_deliveries.iter().filter(|(_, deliveries)| **deliveries > 0) {
        let tenant = if tenant.is_empty() { DEFAULT_TENANT } else { tenant };
        all.entry(tenant.to_owned()).or_default().0.sink_deliveries += deliveries;
    }
    all
}

fn add_usage((counted, present): &mut (Counted, Present), usage: &Usage) {
    counted.messages_in += usage.messages_in;
    counted.messages_out += usage.messages_out;
    counted.bytes_in += usage.bytes_in;
    counted.bytes_out += usage.bytes_out;
    counted.connection_ms += usage.connection_ms;
    present.sessions += usage.sessions;
    present.retained_bytes += usage.retained_bytes;
    present.stored_bytes += usage.stored_bytes;
}

/// The counters and gauges of each user by its name in the books: tenant and user name as an array of JSON, which has
/// no line break.
fn readings_of_users(tenancy: &Tenancy, users: &UsageOfUsers) -> BTreeMap<String, (Counted, Present)> {
    let mut all: BTreeMap<String, (Counted, Present)> = BTreeMap::new();
    for ((tenant, user), usage) in users {
        let name = user_payer(&tenant_name(tenancy, *tenant), user);
        add_usage(all.entry(name).or_default(), usage);
    }
    all
}

fn user_payer(tenant: &str, user: &str) -> String {
    serde_json::json!([tenant, user]).to_string()
}

/// The name in the books of the clients of the same tenant without a user name; nothing for that name itself.
fn without_user(name: &str) -> Option<String> {
    let (tenant, user): (String, String) = serde_json::from_str(name).ok()?;
    (!user.is_empty()).then(|| user_payer(&tenant, ""))
}

fn usage_of_user(name: &str, amounts: &Amounts) -> Option<TenantUsage> {
    let (tenant, user) = serde_json::from_str(name).ok()?;
    Some(usage_of(tenant, Some(user), amounts))
}

/// The name of a tenant in the books and in metrics.
pub(crate) fn tenant_name(tenancy: &Tenancy, tenant: TenantId) -> String {
    if tenant == TenantId::DEFAULT {
        return DEFAULT_TENANT.to_owned();
    }
    let name = tenancy.name(tenant);
    if name.is_empty() { format!("tenant-{}", tenant.0) } else { name }
}

fn usage_of(tenant: String, user: Option<String>, amounts: &Amounts) -> TenantUsage {
    TenantUsage {
        tenant,
        user,
        messages_in: amounts.messages_in,
        messages_out: amounts.messages_out,
        bytes_in: amounts.bytes_in,
        bytes_out: amounts.bytes_out,
        connection_ms: amounts.connection_ms,
        sink_deliveries: amounts.sink_deliveries,
        session_ms: amounts.session_ms,
        retained_byte_seconds: amounts.retained_byte_seconds,
        stored_byte_seconds: amounts.stored_byte_seconds,
    }
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Why usage cannot be metered.
#[derive(Debug, thiserror::Error)]
pub enum MeteringError {
    /// The books cannot be opened.
    #[error("cannot open the books of usage in {directory}: {source}")]
    Books {
        /// The data directory.
        directory: String,
        /// The cause.
        source: io::Error,
    },
    /// The name for records of usage cannot be read or made.
    #[error("cannot read the name for records of usage in {directory}: {source}")]
    Name {
        /// The data directory.
        directory: String,
        /// The cause.
        source: io::Error,
    },
    /// The bus has no log for records of usage.
    #[error("the log of usage has no name on the bus: {0}")]
    Log(#[from] tidegate_bus::NameError),
    /// The system gives no thread.
    #[error("cannot start the thread that meters usage: {0}")]
    Thread(io::Error),
}

/// The records of usage on the bus, where the configuration has some.
fn usage_records(config: &Config, directory: &str) -> Result<Option<UsageLog>, MeteringError> {
    let Some((address, settings, name)) = usage_bus(&config.hub, &config.cluster, &config.orchestrator) else {
        return Ok(None);
    };
    let node = match name {
        Some(name) => name,
        None => lasting_name(Path::new(directory))
            .map_err(|source| MeteringError::Name { directory: directory.to_owned(), source })?,
    };
    Ok(Some(UsageLog::new(address, settings, node)?))
}

/// The thread that makes entries.
#[derive(Debug)]
pub struct Metering {
    meter: Arc<Meter>,
    running: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Metering {
    /// Opens the books, in the data directory where there is one, and makes an entry at once and after each pause.
    ///
    /// # Errors
    /// When the file cannot be read, or the system gives no thread.
    pub fn start(
        config: &Config,
        tenancy: Tenancy,
        (node, runs): (NodeHandle, LeftRuns),
        sink_deliveries: impl Fn() -> BTreeMap<String, u64> + Send + Sync + 'static,
    ) -> Result<Self, MeteringError> {
        let directory =
            config.store.directory.as_ref().filter(|_| config.store.engine_durability() != Durability::Memory);
        let of_tenant = |left: &LeftUsage| tenant_name(&tenancy, left.tenant);
        let tenants = Kept::open(directory, Payers::Tenants, &runs, of_tenant)?;
        let of_user = |left: &LeftUsage| user_payer(&tenant_name(&tenancy, left.tenant), &left.user);
        let payers = Payers::Users { unnamed: without_user };
        let users = Users::open(directory, payers, config.hub.usage_by_user, &runs, of_user)?;
        // Without a data directory the configuration has no records.
        let mut records = match directory {
            Some(directory) => usage_records(config, directory)?,
            None => None,
        };
        let account = Mutex::new(Account { tenants, users, left: runs.left });
        let meter = Arc::new(Meter { tenancy, node, sink_deliveries: Box::new(sink_deliveries), account });
        let (keeps_on, ended) = channel();
        let read = Arc::clone(&meter);
        let run = move || {
            let (mut failing, mut away) = (false, false);
            // Usage that an earlier process has left in the store does not wait.
            let mut next = Instant::now();
            while ended.recv_timeout(next.saturating_duration_since(Instant::now())) == Err(RecvTimeoutError::Timeout) {
                next = Instant::now() + BOOKED_EVERY;
                let booked = read.book_now();
                match &booked {
                    Err(error) if !failing => tracing::warn!(%error, "usage is not stored yet"),
                    Ok(()) if failing => tracing::info!("usage is stored again"),
                    _ => {}
                }
                failing = booked.is_err();
                if let Some(records) = &mut records {
                    // The books come first: entries that the bus has not accepted by then are written in the next turn.
                    let mut may_continue = || Instant::now() < next && ended.try_recv() == Err(TryRecvError::Empty);
                    away = read.write_records(records, away, &mut may_continue);
                }
            }
            // The last entry of a stop comes behind this: the next start writes it.
        };
        let thread = thread::Builder::new().name("meter".to_owned()).spawn(run);
        let thread = thread.map_err(MeteringError::Thread)?;
        Ok(Self { meter, running: Some((keeps_on, thread)) })
    }

    /// The books.
    pub fn meter(&self) -> Arc<Meter> {
        Arc::clone(&self.meter)
    }

    fn stop(&mut self) {
        if let Some((keeps_on, thread)) = self.running.take() {
            drop(keeps_on);
            // A panic has ended the process.
            let _ = thread.join();
        }
    }

    /// The last entry, with the counters of the node at its end.
    pub fn finish(mut self, usage: &BTreeMap<TenantId, Usage>, users: &UsageOfUsers) {
        self.stop();
        if let Err(error) = self.meter.book(usage, users) {
            tracing::warn!(%error, "the usage of the last seconds is not stored");
        }
    }
}

impl Drop for Metering {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_of_the_books_is_counted_without_its_name() {
        let unnamed = without_user(&user_payer("acme", "a \"b\"")).unwrap();
        assert_eq!(unnamed, user_payer("acme", ""));
        assert_eq!(without_user(&unnamed), None);
        assert_eq!(without_user("acme"), None, "that is a tenant");
    }
}
