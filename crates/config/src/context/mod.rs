//! The section `[context]`: its bus, its topics, its points of access.

mod check;
mod groups;
mod points;

use tidegate_bus::Address;
use tidegate_context::ContextTopics;

pub use check::check;
pub use groups::{GroupsError, read_definitions};
pub use points::{WrongKey, points, ranking, ranking_of_nodes};

use crate::Config;

/// The bus of the core: its own, or that of the cluster; nothing is one within this process.
pub fn bus_of(config: &Config) -> Option<&str> {
    config.context.bus.as_deref().or(config.cluster.bus.as_deref())
}

/// Whether the bus of the core is shared with other processes.
pub fn has_shared_bus(config: &Config) -> bool {
    bus_of(config).and_then(|bus| bus.parse::<Address>().ok()).is_some_and(|bus| bus != Address::Embedded)
}

/// The topics under which nodes publish their contexts; `None` if the broker is no gateway.
pub fn topics(config: &Config) -> Option<ContextTopics> {
    let context = &config.context;
    let topics = || ContextTopics::new(&config.addresses.prefix, &context.topics.0, &context.property_topics.0);
    // The configuration was refused if a pattern is invalid.
    if context.enabled { topics().ok() } else { None }
}

/// The name of this gateway: its own, that of the node of the cluster, or that of the broker.
pub fn gateway_name(config: &Config) -> String {
    let names = [&config.context.name, &config.cluster.name, &config.node.name];
    names.into_iter().find(|name| !name.is_empty()).cloned().unwrap_or_default()
}

/// Whether messages for applications go to a bus that other processes can read.
pub fn are_on_bus(config: &Config) -> bool {
    let context = &config.context;
    context.enabled && context.applications && has_shared_bus(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_embedded_bus_has_no_applications() {
        let mut config = Config::default();
        config.context.enabled = true;
        assert!(!are_on_bus(&config));
        config.cluster.bus = Some("nats://127.0.0.1:1".to_owned());
        assert!(are_on_bus(&config), "the bus of the cluster is the bus of its core");
        config.context.bus = Some("embedded".to_owned());
        assert!(!are_on_bus(&config));
    }
}
