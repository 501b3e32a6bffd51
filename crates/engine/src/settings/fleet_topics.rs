//! Tenants of a fleet: at brokers, each tenant's topics and filters lie below `$tenant/NAME/`. The default tenant has no
//! prefix.
//!
//! On its way to brokers and back a message has the topic that it has there, in [`TenantId::BROKER_LINK`]. `#` and `+` at the
//! first level match no topic that begins with `$`, so filters of the default tenant bring nothing of other tenants.
//!
//! Topics of addresses stay in the process, in the tenant of their publisher.

use std::borrow::Cow;

use crate::ids::TenantId;
use crate::settings::Settings;

/// The first level of tenants' topics at brokers.
const PREFIX: &str = "$tenant/";

/// The name at brokers of a topic or filter of a tenant. `None` for a tenant whose name is not known, and for a topic of
/// the default tenant that would be another tenant's.
pub(crate) fn at_brokers<'a>(settings: &Settings, tenant: TenantId, name: &'a str) -> Option<Cow<'a, str>> {
    if tenant == TenantId::DEFAULT {
        return (!is_of_tenant(name)).then_some(Cow::Borrowed(name));
    }
    let level = settings.tenants.as_ref()?.topic_level_of(tenant)?;
    Some(Cow::Owned(format!("{PREFIX}{level}/{name}")))
}

/// Whether a filter of a tenant is longer behind the tenant's name than a packet can carry ([MQTT-1.5.4], 65,535 bytes).
pub(crate) fn is_too_long_at_brokers(settings: &Settings, tenant: TenantId, filter: &str) -> bool {
    tenant != TenantId::DEFAULT
        && at_brokers(settings, tenant, filter).is_some_and(|name| name.len() > usize::from(u16::MAX))
}

/// The tenant and the topic of a topic at brokers; `None` for that of a tenant which is not known here.
pub(crate) fn of_brokers<'a>(settings: &Settings, topic: &'a str) -> Option<(TenantId, &'a str)> {
    let Some(rest) = topic.strip_prefix(PREFIX) else { return Some((TenantId::DEFAULT, topic)) };
    let (level, topic) = rest.split_once('/').filter(|(_, topic)| !topic.is_empty())?;
    Some((settings.tenants.as_ref()?.of_topic_level(level)?, topic))
}

/// The tenant whose topic it is in the end, and the topic there: a message to a fleet has the topic that it has at
/// brokers.
#[inline]
pub(crate) fn owner_of<'a>(settings: &Settings, tenant: TenantId, topic: &'a str) -> (TenantId, &'a str) {
    if tenant != TenantId::BROKER_LINK {
        return (tenant, topic);
    }
    of_brokers(settings, topic).unwrap_or((TenantId::BROKER_LINK, topic))
}

/// Whether a topic at brokers is not the default tenant's.
#[inline]
pub(crate) fn is_of_tenant(topic: impl AsRef<[u8]>) -> bool {
    topic.as_ref().starts_with(PREFIX.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::settings::Tenants;

    #[derive(Debug)]
    struct Acme;

    impl Tenants for Acme {
        fn of_user(&self, _listener: TenantId, _user_name: &str) -> Option<TenantId> {
            None
        }

        fn topic_level_of(&self, tenant: TenantId) -> Option<&str> {
            (tenant == TenantId(1)).then_some("acme")
        }

        fn of_topic_level(&self, level: &str) -> Option<TenantId> {
            (level == "acme").then_some(TenantId(1))
        }
    }

    #[test]
    fn topics_of_tenants_lie_below_their_name_at_brokers() {
        let settings = Settings { tenants: Some(Arc::new(Acme)), ..Settings::default() };
        let there = |tenant, name| at_brokers(&settings, TenantId(tenant), name).map(Cow::into_owned);
        assert_eq!(there(0, "a/+").as_deref(), Some("a/+"));
        assert_eq!(there(1, "a/#").as_deref(), Some("$tenant/acme/a/#"));
        assert_eq!((there(2, "a"), there(0, "$tenant/acme/a")), (None, None));
        assert_eq!(of_brokers(&settings, "a"), Some((TenantId::DEFAULT, "a")));
        assert_eq!(of_brokers(&settings, "$tenant/acme/a/b"), Some((TenantId(1), "a/b")));
        for unknown in ["$tenant/acme", "$tenant/acme/", "$tenant/bolt/a", "$tenant/"] {
            assert_eq!(of_brokers(&settings, unknown), None, "{unknown}");
        }
        assert_eq!(owner_of(&settings, TenantId(1), "$tenant/acme/a"), (TenantId(1), "$tenant/acme/a"));
        assert_eq!(owner_of(&settings, TenantId::BROKER_LINK, "$tenant/acme/a"), (TenantId(1), "a"));
    }
}
