//! The TLS listeners of a node: their settings, and the configuration of new connections.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;

use super::configuration::{Built, ListDue, Listing, build};
use super::error::TlsError;
use super::files::Stamp;
use super::settings::{OutdatedLists, TlsSettings};
use super::time;

/// The protocols that a client may select by ALPN.
pub(crate) const ALPN_MQTT: &[u8] = b"mqtt";
pub(crate) const ALPN_HTTP: &[u8] = b"http/1.1";

/// A TLS listener, shared by the shards.
#[derive(Debug)]
pub(crate) struct TlsListener {
    alpn: &'static [u8],
    current: RwLock<Current>,
    /// Handshakes under way.
    handshakes: AtomicU32,
}

#[derive(Clone, Debug)]
struct Current {
    settings: Arc<TlsSettings>,
    config: Arc<ServerConfig>,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    lists: Arc<[ListDue]>,
    /// Whether the warning about an outdated list was logged.
    warned: Arc<AtomicBool>,
}

impl Current {
    fn read(settings: Arc<TlsSettings>, alpn: &[u8]) -> Result<Self, TlsError> {
        let Built { config, verifier, lists } = build(&settings, alpn, Listing::Admits)?;
        let read = Self { settings, config, verifier, lists: lists.into(), warned: Arc::default() };
        read.tell_of_outdated_lists(time::now());
        Ok(read)
    }

    /// Warns once of lists that are outdated.
    fn tell_of_outdated_lists(&self, now: i64) {
        let mut outdated = self.lists.iter().filter(|list| list.next_update < now).peekable();
        if outdated.peek().is_none() || self.warned.swap(true, Ordering::Relaxed) {
            return;
        }
        for list in outdated {
            let (file, since_s) = (list.file.display(), now - list.next_update);
            if self.settings.crl_outdated == OutdatedLists::Refuse {
                tracing::error!(%file, since_s, "this certificate revocation list is outdated: clients of its authority are refused until a newer list is provided");
            } else {
                tracing::warn!(%file, since_s, "this certificate revocation list is outdated: certificates revoked since then are accepted; provide a newer list");
            }
        }
    }
}

/// How the lists of revoked certificates of all listeners are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RevocationLists {
    /// Lists that are in use.
    pub lists: u64,
    /// Number of lists that are older than their own next update.
    pub outdated: u64,
    /// When the first of them is outdated or has been, seconds since 1970; 0 without any.
    pub next_update: u64,
}

/// A place among the handshakes under way; free again when this is dropped.
#[derive(Debug)]
pub(crate) struct HandshakeSlot(Arc<TlsListener>);

impl Drop for HandshakeSlot {
    fn drop(&mut self) {
        self.0.handshakes.fetch_sub(1, Ordering::Relaxed);
    }
}

impl TlsListener {
    /// Reads the files.
    pub(crate) fn new(settings: TlsSettings, alpn: &'static [u8]) -> Result<Self, TlsError> {
        let current = RwLock::new(Current::read(Arc::new(settings), alpn)?);
        Ok(Self { alpn, current, handshakes: AtomicU32::new(0) })
    }

    fn current(&self) -> Current {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Its current settings.
    pub(crate) fn settings(&self) -> Arc<TlsSettings> {
        self.current().settings
    }

    /// Whether a client may show this chain of certificates now, its own one first.
    pub(crate) fn accepts_client(&self, chain: &[Box<[u8]>]) -> bool {
        let Some(verifier) = self.current().verifier else { return false };
        let chain: Vec<CertificateDer<'_>> = chain.iter().map(|one| CertificateDer::from(&**one)).collect();
        let Some((own, between)) = chain.split_first() else { return false };
        verifier.verify_client_cert(own, between, UnixTime::now()).is_ok()
    }

    /// The current configuration of new connections.
    #[cfg(feature = "quic")]
    pub(crate) fn configuration(&self) -> Arc<ServerConfig> {
        self.current().config
    }

    /// Handshakes that are under way.
    #[cfg(feature = "quic")]
    pub(crate) fn handshakes_under_way(&self) -> u32 {
        self.handshakes.load(Ordering::Relaxed)
    }

    /// The configuration of a new connection, if one more handshake may begin.
    pub(crate) fn begin(self: &Arc<Self>) -> Option<(Arc<ServerConfig>, HandshakeSlot)> {
        let Current { settings, config, .. } = self.current();
        let before = self.handshakes.fetch_add(1, Ordering::Relaxed);
        // From here on, dropping the slot gives the place back.
        let slot = HandshakeSlot(Arc::clone(self));
        (settings.max_handshakes == 0 || before < settings.max_handshakes).then_some((config, slot))
    }
}

/// All TLS listeners of a node, by the position of their address in its settings.
#[derive(Debug, Default)]
pub(crate) struct TlsListeners {
    by_position: BTreeMap<usize, Arc<TlsListener>>,
    /// The files as they were when they were read last, well or not.
    seen: Mutex<Vec<Stamp>>,
}

/// New configurations of TLS listeners, read and checked, and not yet in use.
#[derive(Debug)]
#[must_use = "nothing changes before it is applied"]
pub struct PreparedTls {
    changes: Vec<(Arc<TlsListener>, Current)>,
}

impl PreparedTls {
    /// Activates them for later connections. Connected clients keep their session. Returns the number of listeners.
    pub fn apply(self) -> usize {
        let count = self.changes.len();
        for (listener, current) in self.changes {
            *listener.current.write().unwrap_or_else(PoisonError::into_inner) = current;
        }
        count
    }
}

impl TlsListeners {
    pub(crate) fn new(by_position: BTreeMap<usize, Arc<TlsListener>>) -> Self {
        let listeners = Self { by_position, seen: Mutex::default() };
        listeners.note_files();
        listeners
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_position.is_empty()
    }

    pub(crate) fn get(&self, position: usize) -> Option<&Arc<TlsListener>> {
        self.by_position.get(&position)
    }

    /// The current settings of each.
    pub(crate) fn settings(&self) -> BTreeMap<usize, TlsSettings> {
        self.by_position.iter().map(|(position, listener)| (*position, (*listener.settings()).clone())).collect()
    }

    /// Reads the files of these settings. Settings for a position without a TLS listener wait for a restart.
    pub(crate) fn prepare(&self, settings: &BTreeMap<usize, TlsSettings>) -> Result<PreparedTls, TlsError> {
        let mut changes = Vec::new();
        for (position, settings) in settings {
            if let Some(listener) = self.by_position.get(position) {
                changes.push((Arc::clone(listener), Current::read(Arc::new(settings.clone()), listener.alpn)?));
            }
        }
        Ok(PreparedTls { changes })
    }

    /// Reads all files again.
    pub(crate) fn reload(&self) -> Result<usize, TlsError> {
        // Noted first: a change during the read is seen by the next check.
        self.note_files();
        Ok(self.prepare(&self.settings())?.apply())
    }

    /// Warns of lists of revoked certificates that have become outdated.
    pub(crate) fn tell_of_outdated_lists(&self) {
        let now = time::now();
        self.by_position.values().for_each(|listener| listener.current().tell_of_outdated_lists(now));
    }

    /// How the lists of revoked certificates are now.
    pub(crate) fn revocation_lists(&self) -> RevocationLists {
        let now = time::now();
        let mut found = RevocationLists::default();
        for listener in self.by_position.values() {
            for list in &*listener.current().lists {
                let due = u64::try_from(list.next_update).unwrap_or(0);
                found.next_update = if found.lists == 0 { due } else { found.next_update.min(due) };
                found.lists += 1;
                found.outdated += u64::from(list.next_update < now);
            }
        }
        found
    }

    fn stamps(&self) -> Vec<Stamp> {
        let mut stamps = Vec::new();
        for listener in self.by_position.values() {
            let settings = listener.settings();
            let mut add = |file: &Path| stamps.push(Stamp::of(file));
            for files in &settings.certificates {
                add(&files.certificate);
                add(&files.key);
            }
            settings.client_ca.iter().chain(&settings.crl).for_each(|file| add(file));
        }
        stamps
    }

    fn note_files(&self) {
        let stamps = self.stamps();
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = stamps;
    }

    /// Whether a file has changed since it was read.
    pub(crate) fn have_changed(&self) -> bool {
        let stamps = self.stamps();
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) != stamps
    }
}
