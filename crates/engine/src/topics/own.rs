//! Topics of the broker itself, and topics that stay in the process.

use crate::settings::Settings;

/// True if only the broker itself publishes to a topic. Clients may to `$SYS/broker/connection/NAME/state`: there a
/// bridge tells both of its brokers whether it is connected, by its will, too, so that one that might not would never
/// come in.
#[inline]
pub(crate) fn is_own_topic(topic: &str) -> bool {
    (topic.starts_with("$SYS/") || topic == "$SYS") && !is_bridge_state(topic)
}

#[cold]
fn is_bridge_state(topic: &str) -> bool {
    let name = topic.strip_prefix("$SYS/broker/connection/").and_then(|rest| rest.strip_suffix("/state"));
    name.is_some_and(|name| !name.is_empty() && !name.contains('/'))
}

impl Settings {
    /// Whether a topic is one of addresses: their prefix, or below it. An orchestrator hands none of these to brokers, and
    /// takes none from them.
    #[inline]
    pub(crate) fn is_of_addresses(&self, topic: &[u8]) -> bool {
        let rest = self.addresses.as_ref().and_then(|addresses| topic.strip_prefix(addresses.prefix.as_bytes()));
        rest.is_some_and(|rest| rest.first().is_none_or(|byte| *byte == b'/'))
    }

    /// Whether a topic or filter never goes to brokers: `$SYS`, and topics of addresses.
    pub(crate) fn is_kept_from_brokers(&self, name: &str) -> bool {
        is_own_topic(name) || self.is_of_addresses(name.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::AddressSettings;

    #[test]
    fn topics_of_addresses_are_kept_from_brokers() {
        let addresses = Some(AddressSettings { prefix: "a/ctx".to_owned(), ..AddressSettings::default() });
        let settings = Settings { addresses, ..Settings::default() };
        for kept in ["a/ctx", "a/ctx/to/all", "a/ctx/#", "a/ctx/+/x", "$SYS/broker/uptime"] {
            assert!(settings.is_kept_from_brokers(kept), "{kept}");
            assert!(kept.starts_with('$') || !Settings::default().is_kept_from_brokers(kept), "{kept}");
        }
        for other in ["a", "a/#", "#", "a/ctxt/x", "ctx/to/all", "x/a/ctx"] {
            assert!(!settings.is_kept_from_brokers(other), "{other}");
        }
    }
}
