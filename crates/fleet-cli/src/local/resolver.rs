//! Addresses of names, looked up beside the manager's loop: a caller gets the known ones, and never waits.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Time after which a known address is looked up again.
const FRESH: Duration = Duration::from_secs(30);
/// Time after which a name is looked up again that could not be found.
const RETRY: Duration = Duration::from_secs(1);

/// Why the addresses of a name are unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum LookupError {
    /// The lookup failed, for this reason.
    #[error("cannot find {name}: {reason}")]
    NotFound {
        /// The name.
        name: String,
        /// The answer of the system.
        reason: String,
    },
    /// The name exists and has no address.
    #[error("{0} has no address")]
    NoAddress(String),
    /// The first lookup has not ended.
    #[error("{0} is being looked up")]
    Pending(String),
}

type Lookup = Result<Vec<SocketAddr>, LookupError>;

/// The known addresses of a name.
#[derive(Debug, Default)]
struct Known {
    /// Its last known addresses, also when it could not be found since.
    addresses: Vec<SocketAddr>,
    /// Why it could not be found.
    problem: Option<LookupError>,
    /// When its newest lookup ended; `None` while there was none.
    at: Option<Instant>,
    /// Whether it is being looked up.
    asked: bool,
}

/// A thread that looks names up, one after the other.
#[derive(Debug)]
pub(super) struct Resolver {
    known: BTreeMap<String, Known>,
    wanted: Sender<String>,
    found: Receiver<(String, Lookup)>,
}

impl Resolver {
    /// Starts the thread; it ends with this.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(super) fn start() -> std::io::Result<Self> {
        Self::with(|name| {
            let found = name.to_socket_addrs();
            let found =
                found.map_err(|error| LookupError::NotFound { name: name.to_owned(), reason: error.to_string() })?;
            Ok(found.collect())
        })
    }

    fn with(look: impl Fn(&str) -> Lookup + Send + 'static) -> std::io::Result<Self> {
        let (wanted, names) = channel::<String>();
        let (told, found) = channel();
        thread::Builder::new().name("fleet-names".to_owned()).spawn(move || {
            for name in names {
                let lookup = look(&name);
                if told.send((name, lookup)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { known: BTreeMap::new(), wanted, found })
    }

    /// The known addresses of `HOST:PORT`; unknown ones are looked up for a later call.
    ///
    /// # Errors
    /// Why nothing is known.
    pub(super) fn addresses(&mut self, name: &str) -> Lookup {
        if let Ok(address) = name.parse() {
            return Ok(vec![address]);
        }
        self.take_found();
        let known = self.known.entry(name.to_owned()).or_default();
        let rest = if known.problem.is_some() { RETRY } else { FRESH };
        if !known.asked && known.at.is_none_or(|at| at.elapsed() >= rest) {
            known.asked = self.wanted.send(name.to_owned()).is_ok();
        }
        match (&known.problem, known.addresses.as_slice()) {
            // The last known addresses are better than none while it cannot be found.
            (_, addresses) if !addresses.is_empty() => Ok(addresses.to_vec()),
            (Some(problem), _) => Err(problem.clone()),
            (None, _) => Err(LookupError::Pending(name.to_owned())),
        }
    }

    /// Forgets all names but these.
    pub(super) fn keep(&mut self, names: &BTreeSet<&str>) {
        self.known.retain(|known, _| names.contains(known.as_str()));
    }

    fn take_found(&mut self) {
        for (name, lookup) in self.found.try_iter() {
            let Some(known) = self.known.get_mut(&name) else { continue };
            (known.asked, known.at) = (false, Some(Instant::now()));
            match lookup {
                Ok(addresses) if !addresses.is_empty() => (known.addresses, known.problem) = (addresses, None),
                Ok(_) => known.problem = Some(LookupError::NoAddress(name)),
                Err(problem) => known.problem = Some(problem),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn not_found(name: &str) -> LookupError {
        LookupError::NotFound { name: name.to_owned(), reason: "no such host".to_owned() }
    }

    /// Asks until something is known.
    fn asked(resolver: &mut Resolver, name: &str) -> Lookup {
        loop {
            let lookup = resolver.addresses(name);
            if !lookup.as_ref().is_err_and(|problem| matches!(problem, LookupError::Pending(_))) {
                return lookup;
            }
            thread::yield_now();
        }
    }

    #[test]
    fn names_resolve_without_blocking_and_do_not_affect_each_other() {
        let (release, held) = channel::<()>();
        let mut resolver = Resolver::with(move |name| {
            let _ = held.recv();
            if name == "good:1" { Ok(vec!["192.0.2.1:1".parse().unwrap()]) } else { Err(not_found(name)) }
        })
        .unwrap();
        assert!(resolver.addresses("bad:1").unwrap_err().to_string().contains("being looked up"));
        assert!(resolver.addresses("good:1").unwrap_err().to_string().contains("being looked up"));
        assert_eq!(resolver.addresses("192.0.2.7:1883").unwrap(), ["192.0.2.7:1883".parse().unwrap()]);
        drop(release);
        assert_eq!(asked(&mut resolver, "bad:1"), Err(not_found("bad:1")));
        assert_eq!(asked(&mut resolver, "good:1").unwrap(), ["192.0.2.1:1".parse().unwrap()]);
        resolver.keep(&BTreeSet::from(["good:1"]));
        assert_eq!(resolver.known.len(), 1);
    }
}
