//! The origin of a message, for pipelines of the hub: its publisher's client id, its id and its time.
//!
//! It is a user property before all others. A shard sets it when a message to a topic of a pipeline comes in, and
//! removes it for all receivers except sessions of the hub. So it travels with the message through queues, the store,
//! and to other shards.

use crate::ids::TenantId;
use crate::settings::{HubFilter, PayloadCheck, Settings};
use tidegate_mqtt::topic::matches;

/// The name of the user property: id, Unix milliseconds and client id, with a blank between them.
pub const ORIGIN_PROPERTY: &str = "tidegate-hub";

/// The name of the user property with the number of pipelines that have published the message one after the other.
pub const HOPS_PROPERTY: &str = "tidegate-hub-hops";

/// The identifier of a user property, and the name with its length.
pub(crate) const HEAD: &[u8; 15] = b"\x26\x00\x0ctidegate-hub";

/// Whether pipelines get messages of a topic of a tenant.
pub(crate) fn is_for_hub(settings: &Settings, tenant: TenantId, topic: &str) -> bool {
    of_topic(settings, tenant, topic).next().is_some()
}

/// The checks of payloads of a topic of a tenant.
pub(crate) fn checks_of<'a>(
    settings: &'a Settings,
    tenant: TenantId,
    topic: &'a str,
) -> impl Iterator<Item = &'a dyn PayloadCheck> {
    of_topic(settings, tenant, topic).filter_map(|pipeline| pipeline.check.as_deref())
}

fn of_topic<'a>(settings: &'a Settings, tenant: TenantId, topic: &'a str) -> impl Iterator<Item = &'a HubFilter> {
    settings.hub_filters.iter().filter(move |it| it.tenant == tenant && matches(&it.filter, topic))
}

/// The properties for receivers other than the hub.
#[inline]
pub(crate) fn without_origin(properties: &[u8]) -> &[u8] {
    match properties.strip_prefix(HEAD) {
        None => properties,
        Some(rest) => {
            let Some((len, rest)) = rest.split_first_chunk::<2>() else { return properties };
            rest.get(usize::from(u16::from_be_bytes(*len))..).unwrap_or_default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_property_is_left_out() {
        let own = b"\x26\x00\x0ctidegate-hub\x00\x05a 1 b";
        let other = b"\x26\x00\x01a\x00\x01b";
        assert_eq!(without_origin(&[&own[..], other].concat()), other);
        assert_eq!(without_origin(&own[..]), b"");
        for kept in [&b""[..], other, &[other, &own[..]].concat(), &own[..15]] {
            assert_eq!(without_origin(kept), kept);
        }
    }
}
