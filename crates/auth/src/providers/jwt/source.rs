//! The sources of keys, and when they are fetched again.

use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::jwk::{self, Secrets};
use super::key::{Key, KeyProblem, KeysError, MIN_SECRET_LEN};
use super::material::Material;
use super::pem;
use crate::clock::Clock;
use crate::fetch::Server;
use crate::permits::Permits;
use crate::providers::ProviderError;
use crate::request::Secret;
use crate::settings::JwtKeys;

/// Largest file of keys, in bytes.
const MAX_FILE_LEN: u64 = 1024 * 1024;

/// How soon a server that failed is asked again for its keys.
const RETRY_MS: u64 = 1_000;

/// Keys, either for good or until they are fetched again.
#[derive(Debug)]
pub(super) enum Source {
    Fixed(Arc<[Key]>),
    Remote(Box<Remote>),
}

/// Keys of a server.
#[derive(Debug)]
pub(super) struct Remote {
    server: Server,
    refresh_ms: u64,
    min_refresh_ms: u64,
    timeout: Duration,
    clock: Arc<dyn Clock>,
    /// One fetches at a time.
    fetching: Permits,
    fetched: Mutex<Fetched>,
}

#[derive(Debug, Default)]
struct Fetched {
    keys: Option<Arc<[Key]>>,
    /// When fetching was last tried, and how that went.
    tried: Option<(u64, bool)>,
}

impl Source {
    /// Reads files; a server is asked when the first token comes.
    pub(super) fn make(keys: &JwtKeys, clock: &Arc<dyn Clock>) -> Result<Self, ProviderError> {
        let fixed = |keys: Vec<Key>| Self::Fixed(keys.into());
        Ok(match keys {
            JwtKeys::SecretFile(file) => fixed(load(file, secret)?),
            JwtKeys::PemFile(file) => fixed(load(file, |text| pem::parse(&text))?),
            JwtKeys::JwksFile(file) => fixed(load(file, |text| jwk::parse_set(&text, Secrets::Allowed))?),
            JwtKeys::JwksUrl { url, refresh, min_refresh, timeout, ca_file } => Self::Remote(Box::new(Remote {
                server: Server::new(url, ca_file.as_deref(), 1)?,
                refresh_ms: millis(*refresh),
                min_refresh_ms: millis(*min_refresh),
                timeout: *timeout,
                clock: Arc::clone(clock),
                fetching: Permits::new(1),
                fetched: Mutex::default(),
            })),
        })
    }

    /// The keys of a file. The keys of a server change while their tokens hold.
    pub(super) fn fixed(&self) -> Option<&[Key]> {
        match self {
            Self::Fixed(keys) => Some(keys),
            Self::Remote(_) => None,
        }
    }

    /// The keys; none when they could not be fetched yet. `unknown` says that those there are do not fit, so that a set
    /// that has changed meanwhile is found.
    pub(super) fn keys(&self, provider: &str, unknown: bool, left: Duration) -> Option<Arc<[Key]>> {
        match self {
            Self::Fixed(keys) => Some(Arc::clone(keys)),
            Self::Remote(remote) => remote.keys(provider, unknown, left),
        }
    }
}

impl Remote {
    fn keys(&self, provider: &str, unknown: bool, left: Duration) -> Option<Arc<[Key]>> {
        let (known, due) = {
            let fetched = self.lock();
            (fetched.keys.clone(), self.is_due(&fetched, unknown))
        };
        if !due {
            return known;
        }
        // While another thread fetches, a thread with keys continues with them; one without waits.
        let wait = if known.is_some() && !unknown { Duration::ZERO } else { left };
        let Some(_permit) = self.fetching.acquire(wait) else {
            return known;
        };
        if !self.is_due(&self.lock(), unknown) {
            return self.lock().keys.clone();
        }
        self.fetch(provider, left.min(self.timeout));
        self.lock().keys.clone()
    }

    fn is_due(&self, fetched: &Fetched, unknown: bool) -> bool {
        let Some((tried_ms, succeeded)) = fetched.tried else {
            return true;
        };
        let pause_ms = match (succeeded, unknown) {
            (false, _) => RETRY_MS.max(self.min_refresh_ms.min(self.refresh_ms)),
            (true, true) => self.min_refresh_ms,
            (true, false) => self.refresh_ms,
        };
        self.clock.monotonic_ms().saturating_sub(tried_ms) >= pause_ms
    }

    /// Fetches the keys. When that fails, those there are stay.
    fn fetch(&self, provider: &str, timeout: Duration) {
        let outcome = match self.server.get(timeout) {
            Ok(reply) if reply.status == 200 => {
                jwk::parse_set(&reply.body, Secrets::Skipped).map_err(|problem| problem.to_string())
            }
            Ok(reply) => Err(format!("the server answered with status {}", reply.status)),
            Err(error) => Err(error.to_string()),
        };
        let mut fetched = self.lock();
        fetched.tried = Some((self.clock.monotonic_ms(), outcome.is_ok()));
        match outcome {
            Ok(keys) => {
                tracing::debug!(provider, keys = keys.len(), "keys of tokens were fetched");
                fetched.keys = Some(keys.into());
            }
            Err(why) => tracing::warn!(provider, why, "cannot fetch the keys of tokens"),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Fetched> {
        self.fetched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn load(file: &Path, parse: impl FnOnce(Vec<u8>) -> Result<Vec<Key>, KeyProblem>) -> Result<Vec<Key>, KeysError> {
    let failed = |error| KeysError::Read { file: file.to_owned(), error };
    let mut text = Vec::new();
    tidegate_setting_file::open(file)
        .and_then(|file| file.take(MAX_FILE_LEN + 1).read_to_end(&mut text))
        .map_err(failed)?;
    let keys = if text.len() as u64 > MAX_FILE_LEN { Err(KeyProblem::Size) } else { parse(text) };
    keys.map_err(|problem| KeysError::File { file: file.to_owned(), problem })
}

/// The secret is the file, without a line feed that an editor has added.
fn secret(mut text: Vec<u8>) -> Result<Vec<Key>, KeyProblem> {
    if text.last() == Some(&b'\n') {
        text.pop();
    }
    if text.last() == Some(&b'\r') {
        text.pop();
    }
    let secret = Secret::new(text);
    if secret.expose().len() < MIN_SECRET_LEN {
        return Err(KeyProblem::ShortSecret);
    }
    Ok(vec![Key::of(Material::Secret(secret))])
}
