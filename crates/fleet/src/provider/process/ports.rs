//! Free ports.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::ops::RangeInclusive;
use std::path::Path;

use super::Processes;
use super::claims::{Claims, meet};
use crate::level::Level;
use crate::provider::{ProviderError, ResourceName};

/// So many free ports of a range that are not `taken` by processes that may not listen yet, looked for from the place
/// `first` on. A program that is of no fleet may still be faster: then the process does not come up, and is replaced
/// like any that has died.
///
/// # Errors
/// When there are too few.
pub(super) fn choose(
    host: &str,
    range: &RangeInclusive<u16>,
    first: usize,
    taken: impl Fn(u16) -> bool,
    wanted: usize,
) -> Result<Vec<u16>, ProviderError> {
    let free = |port: &u16| !taken(*port) && TcpListener::bind((host, *port)).is_ok();
    let from_first = range.clone().skip(first).chain(range.clone().take(first));
    let chosen: Vec<u16> = from_first.filter(free).take(wanted).collect();
    if chosen.len() == wanted {
        return Ok(chosen);
    }
    Err(ProviderError::NoPorts { wanted, from: *range.start(), to: *range.end() })
}

impl Processes {
    /// Chooses ports that were added to a template since a process was planned, so that it can be restarted.
    ///
    /// # Errors
    /// When there are too few.
    pub(super) fn add_ports(&mut self, name: &ResourceName) -> Result<(), ProviderError> {
        let Some(record) = self.records.get(name) else { return Ok(()) };
        let template = self.template_of(&record.wanted.template)?;
        let missing: Vec<String> =
            template.ports.iter().filter(|port| !record.ports.contains_key(*port)).cloned().collect();
        if missing.is_empty() {
            return Ok(());
        }
        let (level, directory, host) = (record.wanted.level, self.directory(name), self.settings.host(record));
        // Held until the record names the ports: a claim without one is no longer good.
        let mut claims = Claims::hold(&self.settings.claims)?;
        let chosen = self.claim_ports(level, &host, &directory, missing.len(), &mut claims)?;
        if let Some(record) = self.records.get_mut(name) {
            record.ports.extend(missing.into_iter().zip(chosen));
            record.write(&directory)?;
        }
        Ok(())
    }
}

impl Processes {
    /// Chooses an address and ports, and claims them for the resource in a directory, whose record has to name them
    /// before the claims are let go.
    ///
    /// # Errors
    /// When there are too few, or they cannot be claimed.
    pub(super) fn claim_place(
        &self,
        level: Level,
        directory: &Path,
        wanted: usize,
    ) -> Result<(String, Vec<u16>, Claims), ProviderError> {
        let hosts = self.settings.place(level).hosts;
        let mut claims = Claims::hold(&self.settings.claims)?;
        let used: BTreeSet<String> = self.records.values().map(|record| self.settings.host(record)).collect();
        let mut failure = ProviderError::NoHosts(hosts.to_string());
        for host in hosts.all().into_iter().filter(|host| hosts.are_shared() || !used.contains(host)) {
            match self.claim_ports(level, &host, directory, wanted, &mut claims) {
                Ok(chosen) => return Ok((host, chosen, claims)),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    fn claim_ports(
        &self,
        level: Level,
        host: &str,
        directory: &Path,
        wanted: usize,
        claims: &mut Claims,
    ) -> Result<Vec<u16>, ProviderError> {
        let place = self.settings.place(level);
        let beside = self.records.values().filter(|record| meet(host, &self.settings.host(record)));
        let own: BTreeSet<u16> = beside.flat_map(|record| record.ports.values().copied()).collect();
        let taken = |port| own.contains(&port) || !claims.is_free(host, port, directory);
        let chosen = choose(host, &place.ports, self.first_port(&place), taken, wanted)?;
        for port in &chosen {
            claims.claim(host, *port, directory)?;
        }
        Ok(chosen)
    }

    /// Claims the ports of resources from an earlier manager, which may have had no claims.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(super) fn claim_known(&self) -> Result<(), ProviderError> {
        if self.records.is_empty() {
            return Ok(());
        }
        let mut claims = Claims::hold(&self.settings.claims)?;
        for (name, record) in &self.records {
            let (host, directory) = (self.settings.host(record), self.directory(name));
            for port in record.ports.values() {
                if claims.is_free(&host, *port, &directory) {
                    claims.claim(&host, *port, &directory)?;
                } else {
                    tracing::warn!(%name, port, "another fleet on this machine uses the same port; one of the two will not start");
                }
            }
        }
        Ok(())
    }

    /// Releases the ports of a removed resource.
    pub(super) fn give_ports_back(&self, name: &ResourceName) {
        let Some(record) = self.records.get(name) else { return };
        match Claims::hold(&self.settings.claims) {
            Ok(claims) => claims.give_back(record.ports.values().copied(), &self.directory(name)),
            // The claim is invalid: its directory does not exist.
            Err(error) => tracing::debug!(%name, %error, "the claims of a resource that is gone stay"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_with_a_listener_or_a_reservation_is_passed_over() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let only = port..=port;
        assert!(matches!(choose("127.0.0.1", &only, 0, |_| false, 1), Err(ProviderError::NoPorts { .. })));
        drop(listener);
        assert!(matches!(choose("127.0.0.1", &only, 0, |taken| taken == port, 1), Err(ProviderError::NoPorts { .. })));
        assert_eq!(choose("127.0.0.1", &only, 0, |_| false, 1).unwrap(), [port]);
    }
}
