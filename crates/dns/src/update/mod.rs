//! Dynamic updates of a zone at another DNS server (RFC 2136), signed with a shared key (RFC 8945).
//!
//! The other server still answers when this process ends: it keeps the records of the last update.

mod exchange;
mod key;
mod message;

pub use exchange::UpdateError;
pub use key::{KeyError, UpdateKey};

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::endpoint::{Endpoint, EndpointName};
use crate::settings::{Ttl, ZoneName};

/// Pause before the first repetition of a failed update; each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause between repetitions.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The records of a fleet at another DNS server.
#[derive(Clone, Debug)]
pub struct UpdateSettings {
    /// The primary server of the zone.
    pub server: SocketAddr,
    /// The zone at that server.
    pub zone: ZoneName,
    /// The name that clients ask for, in that zone. Its records belong to the fleet alone.
    pub name: ZoneName,
    /// How long others may keep an answer.
    pub ttl: Ttl,
    /// The key that the server knows.
    pub key: UpdateKey,
}

/// Numbers of an updater.
#[derive(Debug, Default)]
pub struct UpdateCounters {
    done: AtomicU64,
    failed: AtomicU64,
}

impl UpdateCounters {
    /// Updates that the server has accepted.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Updates that failed; each is repeated.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }
}

/// The newest endpoints, for the thread that sends them.
#[derive(Debug, Default)]
struct UpdateState {
    endpoints: Option<Vec<Endpoint>>,
    /// Names in the last update that the server accepted.
    accepted: BTreeSet<EndpointName>,
    is_stopping: bool,
}

#[derive(Debug, Default)]
struct Mailbox {
    wanted: Mutex<UpdateState>,
    changed: Condvar,
}

/// A thread that keeps the records at the other server equal to the endpoints.
#[derive(Debug)]
pub struct Updater {
    mailbox: Arc<Mailbox>,
    counters: Arc<UpdateCounters>,
    thread: Option<JoinHandle<()>>,
}

impl Updater {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the operating system has no thread.
    pub fn start(settings: UpdateSettings) -> std::io::Result<Self> {
        let (mailbox, counters) = (Arc::new(Mailbox::default()), Arc::new(UpdateCounters::default()));
        let (of_thread, counted) = (Arc::clone(&mailbox), Arc::clone(&counters));
        let thread = thread::Builder::new()
            .name("dns-update".to_owned())
            .spawn(move || work(&settings, &of_thread, &counted))?;
        Ok(Self { mailbox, counters, thread: Some(thread) })
    }

    /// Publishes these endpoints. An empty list changes nothing: names stay until there are others.
    pub fn set_endpoints(&self, endpoints: Vec<Endpoint>) {
        let mut wanted = self.mailbox.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        if !endpoints.is_empty() {
            wanted.endpoints = Some(endpoints);
            self.mailbox.changed.notify_all();
        }
    }

    /// Names in the last update that the server accepted; empty before the first.
    pub fn accepted(&self) -> BTreeSet<EndpointName> {
        self.mailbox.wanted.lock().unwrap_or_else(PoisonError::into_inner).accepted.clone()
    }

    /// Waits until the server has answered this number of updates.
    #[cfg(test)]
    fn wait_for_answers(&self, count: u64) {
        let wanted = self.mailbox.wanted.lock().unwrap();
        drop(self.mailbox.changed.wait_while(wanted, |_| self.counters.done() < count).unwrap());
    }

    /// Its numbers.
    pub fn counters(&self) -> Arc<UpdateCounters> {
        Arc::clone(&self.counters)
    }
}

impl Drop for Updater {
    fn drop(&mut self) {
        self.mailbox.wanted.lock().unwrap_or_else(PoisonError::into_inner).is_stopping = true;
        self.mailbox.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn work(settings: &UpdateSettings, mailbox: &Mailbox, counters: &UpdateCounters) {
    let mut published: Option<Vec<Endpoint>> = None;
    let mut pause = None;
    let mut complaint = String::new();
    // Labels that may have records of their own from earlier updates of this process.
    let mut labels = BTreeSet::new();
    while let Some(endpoints) = next(mailbox, published.as_deref(), pause) {
        labels.extend(endpoints.iter().map(|endpoint| endpoint.name.clone()));
        match exchange::send(settings, &endpoints, &labels) {
            Ok(()) => {
                labels = endpoints.iter().map(|endpoint| endpoint.name.clone()).collect();
                let mut wanted = mailbox.wanted.lock().unwrap_or_else(PoisonError::into_inner);
                wanted.accepted.clone_from(&labels);
                counters.done.fetch_add(1, Ordering::Relaxed);
                mailbox.changed.notify_all();
                drop(wanted);
                (published, pause) = (Some(endpoints), None);
                complaint.clear();
            }
            Err(error) => {
                counters.failed.fetch_add(1, Ordering::Relaxed);
                pause = Some(pause.map_or(FIRST_PAUSE, |pause: Duration| (pause * 2).min(LONGEST_PAUSE)));
                let text = error.to_string();
                if text != complaint {
                    tracing::warn!(server = %settings.server, error = text, "DNS update failed; retrying");
                    complaint = text;
                }
            }
        }
    }
}

/// Waits for endpoints that are not published, and for the end of a pause. `None` at the end.
fn next(mailbox: &Mailbox, published: Option<&[Endpoint]>, pause: Option<Duration>) -> Option<Vec<Endpoint>> {
    let mut wanted = mailbox.wanted.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(pause) = pause {
        let waiting = mailbox.changed.wait_timeout_while(wanted, pause, |wanted| !wanted.is_stopping);
        wanted = waiting.unwrap_or_else(PoisonError::into_inner).0;
    }
    loop {
        if wanted.is_stopping {
            return None;
        }
        match &wanted.endpoints {
            Some(endpoints) if !is_same(endpoints, published) => return Some(endpoints.clone()),
            _ => wanted = mailbox.changed.wait(wanted).unwrap_or_else(PoisonError::into_inner),
        }
    }
}

/// True if two lists have the same records; the load of an endpoint is in none.
fn is_same(endpoints: &[Endpoint], published: Option<&[Endpoint]>) -> bool {
    published.is_some_and(|published| message::records_of(endpoints) == message::records_of(published))
}

#[cfg(test)]
mod tests;
