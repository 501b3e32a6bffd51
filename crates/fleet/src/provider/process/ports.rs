//! Ports that nobody listens on.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::ops::RangeInclusive;

use super::Processes;
use crate::provider::{ProviderError, ResourceName};

/// So many free ports of a range that are not `taken` by processes that may not listen yet, looked for from the place `first` on.
/// Somebody else may be faster: then the process does not come up, and is replaced like any that has died.
///
/// # Errors
/// When there are too few.
pub(super) fn choose(
    host: &str,
    range: &RangeInclusive<u16>,
    first: usize,
    taken: &BTreeSet<u16>,
    wanted: usize,
) -> Result<Vec<u16>, ProviderError> {
    let free = |port: &u16| !taken.contains(port) && TcpListener::bind((host, *port)).is_ok();
    let from_first = range.clone().skip(first).chain(range.clone().take(first));
    let chosen: Vec<u16> = from_first.filter(free).take(wanted).collect();
    if chosen.len() == wanted {
        return Ok(chosen);
    }
    Err(ProviderError::NoPorts { wanted, from: *range.start(), to: *range.end() })
}

impl Processes {
    /// Chooses the ports that a template has got since a process was planned, so that it can start anew.
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
        let taken = self.records.values().flat_map(|record| record.ports.values().copied()).collect();
        let place = self.settings.place(record.wanted.level);
        let chosen = choose(&place.host, &place.ports, self.first_port(&place), &taken, missing.len())?;
        let directory = self.directory(name);
        if let Some(record) = self.records.get_mut(name) {
            record.ports.extend(missing.into_iter().zip(chosen));
            record.write(&directory)?;
        }
        Ok(())
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
        assert!(matches!(choose("127.0.0.1", &only, 0, &BTreeSet::new(), 1), Err(ProviderError::NoPorts { .. })));
        drop(listener);
        assert!(matches!(
            choose("127.0.0.1", &only, 0, &BTreeSet::from([port]), 1),
            Err(ProviderError::NoPorts { .. })
        ));
        assert_eq!(choose("127.0.0.1", &only, 0, &BTreeSet::new(), 1).unwrap(), [port]);
    }
}
