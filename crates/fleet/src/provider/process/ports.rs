//! Free ports.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::ops::RangeInclusive;
use std::path::Path;

use super::claims::{Claims, meet};
use super::record::Record;
use super::{Hosts, ListenRange, Processes};
use crate::level::Level;
use crate::provider::{ProviderError, ResourceName};

/// This number of free ports of a range that are not `taken` by processes that may not listen yet, looked for from the
/// place
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
    /// Gives a process another address before it starts, where its level has its present one no more. It keeps its ports
    /// where they are free.
    ///
    /// # Errors
    /// When no address or port is free, or the disk refuses.
    pub(super) fn follow_hosts(&mut self, name: &ResourceName) -> Result<(), ProviderError> {
        let Some(record) = self.records.get(name) else { return Ok(()) };
        let (level, before) = (record.wanted.level, self.settings.host(record));
        if self.settings.place(level).hosts.contains(&before) {
            return Ok(());
        }
        let (directory, names) = (self.directory(name), record.ports.keys().cloned().collect::<Vec<_>>());
        // Held until the record names the ports: a claim without one is no longer good.
        let (host, chosen, claims) = self.claim_place(level, &directory, &names)?;
        if let Some(record) = self.records.get_mut(name) {
            tracing::info!(%name, before, host, "the process starts at another address, since `host` of the fleet file has changed");
            let ports = std::mem::replace(&mut record.ports, names.into_iter().zip(chosen).collect());
            record.host = Some(host);
            record.write(&directory)?;
            claims.give_back_at(&before, ports.into_values(), &directory);
        }
        Ok(())
    }

    /// A note for people about a process whose address the fleet file has no more.
    pub(super) fn moves_later(&self, record: &Record) -> Option<String> {
        let (host, hosts) = (self.settings.host(record), self.settings.place(record.wanted.level).hosts);
        let note = || format!("it listens on {host} until its next start, then on {hosts} as in the fleet file");
        (record.process.is_some() && !hosts.contains(&host)).then(note)
    }

    /// Chooses an address and ports with these names, and claims them for the resource in a directory, whose record has
    /// to name them before the claims are let go.
    ///
    /// # Errors
    /// When there are too few, or they cannot be claimed.
    pub(super) fn claim_place(
        &self,
        level: Level,
        directory: &Path,
        names: &[String],
    ) -> Result<(String, Vec<u16>, Claims), ProviderError> {
        let hosts = self.settings.place(level).hosts;
        let mut claims = Claims::hold(&self.settings.claims)?;
        let used: BTreeSet<String> = self.records.values().map(|record| self.settings.host(record)).collect();
        let preferred = self.preferred(level, directory, names);
        let mut failure = ProviderError::NoHosts(hosts.to_string());
        for host in hosts.all().into_iter().filter(|host| hosts.are_shared() || !used.contains(host)) {
            let busy = preferred.iter().flatten().find(|port| !self.is_free(&host, **port, directory, &claims));
            let claimed = match (&preferred, busy) {
                (Some(ports), None) => Self::claim_all(&host, ports, directory, &mut claims).map(|()| ports.clone()),
                (Some(_), Some(port)) if !hosts.are_shared() => {
                    Err(ProviderError::PortTaken { host: host.clone(), port: *port })
                }
                _ => self.claim_ports(level, &host, directory, names.len(), &mut claims),
            };
            match claimed {
                Ok(chosen) => return Ok((host, chosen, claims)),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// The ports that a process shall have: with an address for each, the ports of the others of its level; else its own
    /// ones. `None` where there are none yet, or the fleet file has other ports.
    fn preferred(&self, level: Level, directory: &Path, names: &[String]) -> Option<Vec<u16>> {
        let place = self.settings.place(level);
        let counts = |(name, record): (&ResourceName, &Record)| {
            let is_own = self.directory(name) == directory;
            record.wanted.level == level
                && if place.hosts.are_shared() {
                    is_own
                } else {
                    !is_own && place.hosts.contains(&self.settings.host(record))
                }
        };
        let ports = |(_, record): (&ResourceName, &Record)| {
            let ports: Option<Vec<u16>> = names.iter().map(|name| record.ports.get(name).copied()).collect();
            ports.filter(|ports| ports.iter().all(|port| place.ports.contains(port)))
        };
        self.records.iter().filter(|it| counts(*it)).find_map(ports)
    }

    /// Whether a process may have a port: no other one of this fleet or another one has it, and no program listens there.
    fn is_free(&self, host: &str, port: u16, directory: &Path, claims: &Claims) -> bool {
        self.is_unclaimed(host, port, directory, claims) && TcpListener::bind((host, port)).is_ok()
    }

    fn is_unclaimed(&self, host: &str, port: u16, directory: &Path, claims: &Claims) -> bool {
        let has = |record: &Record| record.ports.values().any(|own| *own == port);
        let is_in_the_way = |(name, record): (&ResourceName, &Record)| {
            has(record) && self.directory(name) != directory && meet(host, &self.settings.host(record))
        };
        !self.records.iter().any(is_in_the_way) && claims.is_free(host, port, directory)
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
        let own: BTreeSet<u16> = self.ports_at(host, directory);
        let taken = |port| own.contains(&port) || !self.is_unclaimed(host, port, directory, claims);
        let chosen = choose(host, &place.ports, self.settings.first_port(&place), taken, wanted)?;
        Self::claim_all(host, &chosen, directory, claims)?;
        Ok(chosen)
    }

    /// The ports that a process has already at an address.
    fn ports_at(&self, host: &str, directory: &Path) -> BTreeSet<u16> {
        let is_meant = |(name, record): &(&ResourceName, &Record)| {
            self.directory(name) == directory && self.settings.host(record) == host
        };
        self.records.iter().filter(is_meant).flat_map(|(_, record)| record.ports.values().copied()).collect()
    }

    fn claim_all(host: &str, ports: &[u16], directory: &Path, claims: &mut Claims) -> Result<(), ProviderError> {
        ports.iter().try_for_each(|port| claims.claim(host, *port, directory))
    }

    /// Claims the ports of resources from an earlier manager, which may have had no claims, and finds the addresses that
    /// earlier versions did not record.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(super) fn claim_known(&mut self) -> Result<(), ProviderError> {
        if self.records.is_empty() {
            return Ok(());
        }
        let mut claims = Claims::hold(&self.settings.claims)?;
        let (settings, records) = (&self.settings, &mut self.records);
        for (name, record) in records {
            let directory = settings.directory.join(name.as_str());
            if record.host.is_none() {
                record.host =
                    Some(earlier_host(record, &directory, &settings.place(record.wanted.level).hosts, &claims));
                record.write(&directory)?;
            }
            let host = settings.host(record);
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

/// The host of a process whose record has no address: that of its claimed ports; without claims, the one address
/// of its level. Before there were ranges, a level had one address.
fn earlier_host(record: &Record, directory: &Path, hosts: &Hosts, claims: &Claims) -> String {
    let claimed: Vec<&str> = record.ports.values().flat_map(|port| claims.hosts_of(*port, directory)).collect();
    let found = claimed.iter().find(|host| hosts.contains(host)).or(claimed.first());
    match (found, hosts) {
        (Some(host), _) => (*host).to_owned(),
        (None, Hosts::Shared(host)) => host.clone(),
        (None, Hosts::Own { .. }) => ListenRange::default().hosts.to_string(),
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
