//! The endpoints that the entry point names, and endpoints that it cannot name.

use std::collections::BTreeMap;

use super::command::{Command, Endpoint};
use super::turn::FleetSeen;
use crate::provider::ResourceName;

/// Owns the endpoints of the entry point, as far as known.
#[derive(Debug, Default)]
pub(super) struct NamedEndpoints {
    /// The endpoints that it names, as far as known.
    published: Option<Vec<Endpoint>>,
    /// Orchestrators that it cannot name, and why.
    unnamed: BTreeMap<ResourceName, String>,
}

impl NamedEndpoints {
    /// Gives the entry point the serving orchestrators; leaving and dead ones are removed at once. A failed change is
    /// requested again at each look.
    pub(super) fn change(&self, fleet: FleetSeen<'_>) -> Option<Command> {
        let sight = fleet.sight;
        sight.resources.as_ref()?;
        let endpoint = |name: ResourceName| {
            let view = sight.orchestrators.get(&name);
            if view.is_some_and(|view| view.draining) {
                return None;
            }
            let resource = &sight.resource(&name)?.resource;
            let (address, template) = (resource.address.clone(), resource.template.clone());
            Some(Endpoint { name, template, address, clients: view.map_or(0, |view| view.clients) })
        };
        let mut living = fleet.living_orchestrators();
        living.sort();
        let endpoints: Vec<Endpoint> = living.into_iter().filter_map(endpoint).collect();
        (self.published.as_ref() != Some(&endpoints)).then_some(Command::SetEndpoints(endpoints))
    }

    /// The entry point names these, but for some that it cannot name yet, each with the reason.
    pub(super) fn set(&mut self, endpoints: &[Endpoint], unnamed: Vec<(ResourceName, String)>) {
        let named = endpoints.iter().filter(|endpoint| !unnamed.iter().any(|(name, _)| *name == endpoint.name));
        self.published = Some(named.cloned().collect());
        self.unnamed = unnamed.into_iter().collect();
    }

    /// The entry point has made no change: it still names the former endpoints.
    pub(super) fn refused(&mut self, asked: &[Endpoint], problem: &str) {
        let missing = asked.iter().filter(|endpoint| !self.names(&endpoint.name));
        self.unnamed = missing.map(|endpoint| (endpoint.name.clone(), problem.to_owned())).collect();
    }

    /// The endpoints that the entry point names.
    pub(super) fn named(&self) -> impl Iterator<Item = &Endpoint> {
        self.published.iter().flatten()
    }

    /// True if the entry point names an orchestrator.
    pub(super) fn names(&self, name: &ResourceName) -> bool {
        self.named().any(|endpoint| endpoint.name == *name)
    }

    /// Why the entry point cannot name an orchestrator.
    pub(super) fn problem_of(&self, name: &ResourceName) -> Option<&str> {
        self.unnamed.get(name).map(String::as_str)
    }

    /// How many orchestrators the entry point should name and cannot.
    pub(super) fn unnamed(&self) -> usize {
        self.unnamed.len()
    }
}
