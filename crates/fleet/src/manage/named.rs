//! The endpoints that the entry point names, and those that it cannot name.

use std::collections::BTreeSet;

use super::book::Phase;
use super::command::{Command, Endpoint};
use super::machine::Manager;
use super::sight::Sight;
use crate::level::Level;
use crate::provider::ResourceName;

impl Manager {
    /// Gives the entry point the serving orchestrators; leaving and dead ones are removed at once. A failed change is
    /// requested again at each look.
    pub(super) fn set_endpoints(&mut self, sight: &Sight) {
        if sight.resources.is_none() {
            return;
        }
        let serving = self.book.names(Level::Orchestrator, &[Phase::Serving]);
        let living: BTreeSet<ResourceName> = serving.into_iter().filter(|name| !self.is_dead(name, sight)).collect();
        let endpoint = |name: ResourceName| {
            let view = sight.orchestrators.get(&name);
            if view.is_some_and(|view| view.draining) {
                return None;
            }
            let resource = &sight.resource(&name)?.resource;
            let (address, template) = (resource.address.clone(), resource.template.clone());
            Some(Endpoint { name, template, address, clients: view.map_or(0, |view| view.clients) })
        };
        let endpoints: Vec<Endpoint> = living.into_iter().filter_map(endpoint).collect();
        if self.published.as_ref() != Some(&endpoints) {
            self.command(Command::SetEndpoints(endpoints));
        }
    }

    /// The entry point names these, but for some that it cannot name yet, each with the reason.
    pub fn endpoints_set(&mut self, endpoints: &[Endpoint], unnamed: Vec<(ResourceName, String)>) {
        let named = endpoints.iter().filter(|endpoint| !unnamed.iter().any(|(name, _)| *name == endpoint.name));
        self.published = Some(named.cloned().collect());
        self.unnamed = unnamed.into_iter().collect();
    }

    /// The entry point has made no change: it still names the former endpoints.
    pub(super) fn endpoints_refused(&mut self, asked: &[Endpoint], problem: &str) {
        let missing = asked.iter().filter(|endpoint| !self.is_published(&endpoint.name));
        self.unnamed = missing.map(|endpoint| (endpoint.name.clone(), problem.to_owned())).collect();
    }

    /// Whether the entry point names an orchestrator.
    pub(super) fn is_published(&self, name: &ResourceName) -> bool {
        self.published.iter().flatten().any(|endpoint| endpoint.name == *name)
    }
}
