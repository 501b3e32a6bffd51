//! The settings of addresses of an engine, from the configuration.

use tidegate_context::ContextTopics;
use tidegate_engine as engine;
use tidegate_mqtt::TopicName;

use super::Config;
use super::engine_settings::seconds;
use super::finding::Findings;
use super::origins::Origins;
use super::sections::address::Addresses;
use super::sections::orchestrator::Orchestrator;
use super::value::{Lifetime, Problem};

impl Config {
    /// Addresses of mobile nodes, if there are any.
    pub fn address_settings(&self, shards: u16) -> Option<engine::AddressSettings> {
        let addresses = &self.addresses;
        addresses.enabled.then(|| engine::AddressSettings {
            prefix: addresses.prefix.clone(),
            guarded: addresses.guarded,
            max_groups_per_node: addresses.max_groups_per_node,
            expiry_default_seconds: seconds(addresses.expiry_default),
            expiry_forced_seconds: seconds(addresses.expiry_forced),
            node_expiry_seconds: match addresses.node_expiry {
                Lifetime::Unlimited => u32::MAX,
                Lifetime::For(length) => seconds(length),
            },
            max_mailboxes: addresses.max_mailboxes.div_ceil(u32::from(shards.max(1))),
            keep_qos0: addresses.keep_qos0,
            records: crate::context::are_on_bus(self),
            reports: crate::context::topics(self).map(|topics| topics.filters()).unwrap_or_default(),
            unusable_report: self.context.enabled.then_some(engine::ReportCheck(ContextTopics::is_unusable)),
        })
    }
}

/// Whether a text can stand before all addresses.
fn is_prefix(text: &str) -> bool {
    TopicName::new(text).is_ok() && !text.starts_with('$') && text.split('/').all(|level| !level.is_empty())
}

/// Checks the prefix of addresses.
pub(super) fn check(addresses: &Addresses, orchestrator: &Orchestrator, origins: &Origins, findings: &mut Findings) {
    if !is_prefix(&addresses.prefix) {
        let problem = Problem::new(format!("`addresses.prefix` must be levels of a topic, not {:?}", addresses.prefix));
        let hint = "levels are separated by `/`, none is empty, none has `+` or `#`, and the first has no `$`";
        findings.push(problem.hint(hint), origins.source_of("addresses", "prefix").clone());
    }
    if addresses.enabled && orchestrator.enabled {
        check_orchestrator(orchestrator, origins, findings);
    }
}

/// Checks that an orchestrator reaches all nodes: messages to nodes do not go by way of brokers.
fn check_orchestrator(orchestrator: &Orchestrator, origins: &Origins, findings: &mut Findings) {
    if orchestrator.passes_clients_through() {
        let problem = Problem::new(
            "does not go with `orchestrator.identity = \"client\"`: clients of different users share only messages from brokers",
        );
        let hint = "leave `addresses.enabled` out, or set `orchestrator.identity = \"own\"`";
        findings.push(problem.hint(hint), origins.source_of("addresses", "enabled").clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Inputs;
    use crate::source::FileText;

    fn load(text: &str) -> Result<Config, String> {
        let file = FileText::new("tidegate.toml", text);
        Config::load(Inputs { file: Some(file), ..Inputs::default() }).map_err(|findings| findings.to_string())
    }

    #[test]
    fn there_are_none_unless_they_are_asked_for() {
        assert_eq!(Config::default().address_settings(1), None);
        let config = load("[addresses]\nenabled = true\n").unwrap();
        assert_eq!(config.address_settings(1), Some(engine::AddressSettings::default()));
        let text = "[addresses]\nenabled = true\nprefix = 'a/b'\n[[listener]]\nmobile_nodes = false\n";
        let config = load(text).unwrap();
        assert_eq!(config.address_settings(1).unwrap().prefix, "a/b");
        assert!(!config.engine_settings(1).listeners[0].mobile_nodes);
    }

    #[test]
    fn an_invalid_prefix_of_addresses_is_refused() {
        for prefix in ["", "/a", "a/", "a//b", "+", "a/#", "$SYS"] {
            let said = load(&format!("[addresses]\nprefix = '{prefix}'\n")).unwrap_err();
            assert!(said.contains("`addresses.prefix` must be levels"), "{said}");
        }
    }

    #[test]
    fn orchestrators_with_their_own_identity_have_addresses() {
        let alone = "[addresses]\nenabled = true\n[context]\nenabled = true\n[orchestrator]\nenabled = true\nbrokers = 'mqtt://localhost:1884'\n";
        assert!(load(alone).unwrap().address_settings(1).is_some());
        let member = load(&format!("{alone}[cluster]\nname = 'a'\nbus = 'nats://127.0.0.1'\n")).unwrap();
        assert!(member.address_settings(1).is_some());
        let said = load(&format!("{alone}identity = 'client'\n")).unwrap_err();
        assert!(said.contains("share only messages from brokers"), "{said}");
    }
}
