//! Topics of the broker itself.

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
