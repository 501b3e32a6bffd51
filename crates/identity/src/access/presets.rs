//! Facts known of a client before its CONNECT, from its TLS session or from the node that relays it: its tenant and its
//! client id.

use tidegate_engine::{ListenerId, Preset, TenantId, Tenants};
use tidegate_node::proxy_protocol::{RelayedTenant, tenant_mark};
use tidegate_node::{ConnectionFacts, IdentityRole, Presets, TlsFacts};

use crate::access::Tenancy;
use crate::access::tenants::{TenantMap, Traits};
use tidegate_config::orchestrator::RELAY_LISTENER;

/// Longest client id that a packet can carry, bytes ([MQTT-1.5.4]).
const CLIENT_ID_MAX: usize = u16::MAX as usize;

/// Finds the known facts of a client.
pub fn presets(tenancy: Tenancy) -> Presets {
    let names = tenancy.clone();
    let find = move |listener: ListenerId, facts: &ConnectionFacts| {
        let name = tenancy.listener(listener);
        match (relayed_tenant(name, facts), facts.tls.as_deref()) {
            (Some(relayed), _) => of_relayed(&tenancy, relayed),
            (None, Some(tls)) => tenancy.ask(|tenants| preset(tenants, name, tls)),
            (None, None) => Preset { instead_of_listener: tenancy.of_listener(listener), ..Preset::default() },
        }
    };
    Presets::new(find).marking(move |tenant| mark_of(&names, tenant))
}

/// The mark of a tenant's name, equal in all processes; 0 for the default tenant.
fn mark_of(tenancy: &Tenancy, tenant: TenantId) -> u32 {
    tenancy.topic_level_of(tenant).map_or(0, tenant_mark)
}

/// The tenant that another node has found for a client that it relays. Other listeners believe no tenant in a header.
pub fn relayed_tenant(listener: &str, facts: &ConnectionFacts) -> Option<RelayedTenant> {
    facts.relayed_tenant.filter(|_| listener == RELAY_LISTENER)
}

/// A number of a tenant that no configuration reaches: nothing is in it.
const NOWHERE: TenantId = TenantId(u16::MAX - 1);

fn of_relayed(tenancy: &Tenancy, relayed: RelayedTenant) -> Preset {
    let RelayedTenant { tenant, settled, mark } = relayed;
    if mark != 0 && mark != mark_of(tenancy, tenant) {
        tracing::warn!(
            tenant = tenant.0,
            todo = "write the same [[tenant]] sections in the same order on all orchestrators",
            "a relayed client was refused: its tenant has another number here"
        );
        return Preset { settled: Some(NOWHERE), ..Preset::default() };
    }
    if settled {
        Preset { settled: Some(tenant), ..Preset::default() }
    } else {
        Preset { instead_of_listener: Some(tenant), ..Preset::default() }
    }
}

/// The identity and tenant that the TLS handshake of a client of this listener has shown.
fn preset(tenants: &TenantMap, listener: &str, tls: &TlsFacts) -> Preset {
    let identity = tls.identity.as_ref();
    let named = |role| identity.filter(|identity| identity.role == role).map(|identity| &*identity.value);
    let user_name = named(IdentityRole::Username);
    let certificate_cn = tls.client.as_ref().and_then(|client| client.common_name.as_deref());
    let shown = Traits { listener, sni: tls.server_name.as_deref(), user_name, certificate_cn, ..Traits::default() };
    // Nothing is dictated yet, so that no tenant is unknown.
    let tenant = tenants.resolve(&shown).ok();
    // The user is unknown so far, unless the certificate names it as well, or determines a tenant alone.
    let settled = user_name.is_some() || certificate_cn.is_some_and(|name| tenants.knows_certificate(name));
    Preset {
        instead_of_listener: tenant.filter(|_| !settled),
        settled: tenant.filter(|_| settled),
        client_id: named(IdentityRole::ClientId).filter(|name| can_be_client_id(name)).map(Box::from),
    }
}

/// True if a name can be a client id. With another one no client is let in: see the checks behind CONNECT.
fn can_be_client_id(name: &str) -> bool {
    !name.is_empty() && name.len() <= CLIENT_ID_MAX && !name.contains('\0')
}

#[cfg(test)]
mod tests {
    use tidegate_node::{ClientCertificate, Identity, TlsVersion};

    use super::*;
    use tidegate_config::source::FileText;
    use tidegate_config::{Config, Inputs};

    const TENANTS: &str = "\
[[listener]]
name = 'door'

[[tenant]]
name = 'acme'
sni = ['acme.example']
users = ['acme-*']

[[tenant]]
name = 'bolt'
listeners = ['door']
certificate_cn = ['bolt-*']

[[auth]]
file = 'users'

[access]
default = 'allow'
";

    fn map() -> TenantMap {
        let file = FileText::new("t.toml", TENANTS);
        let config = Config::load(Inputs { file: Some(file), ..Inputs::default() });
        TenantMap::of(&config.map_err(|findings| findings.to_string()).unwrap())
    }

    fn facts(sni: Option<&str>, certificate: Option<&str>, role: IdentityRole) -> TlsFacts {
        let client = certificate.map(|name| ClientCertificate {
            common_name: Some(name.into()),
            dns: Vec::new(),
            emails: Vec::new(),
            uris: Vec::new(),
            serial: Box::default(),
            not_after: 0,
            fingerprint_sha256: [0; 32],
        });
        let identity = certificate.filter(|_| role != IdentityRole::None);
        TlsFacts {
            version: TlsVersion::Tls13,
            server_name: sni.map(Box::from),
            alpn: None,
            client,
            identity: identity.map(|value| Identity { value: value.into(), role }),
        }
    }

    fn instead(tenant: u16) -> Preset {
        Preset { instead_of_listener: Some(TenantId(tenant)), ..Preset::default() }
    }

    fn settled(tenant: u16) -> Preset {
        Preset { settled: Some(TenantId(tenant)), ..Preset::default() }
    }

    #[test]
    fn a_user_overrides_a_server_name_but_no_certificate() {
        for (sni, certificate, role, expected) in [
            (None, None, IdentityRole::None, instead(2)),
            (Some("acme.example"), None, IdentityRole::None, instead(1)),
            (Some("acme.example"), Some("other"), IdentityRole::None, instead(1)),
            (Some("acme.example"), Some("bolt-1"), IdentityRole::None, settled(2)),
            (None, Some("acme-1"), IdentityRole::Username, settled(1)),
            (None, Some("other"), IdentityRole::Username, settled(2)),
            (Some("acme.example"), Some("bolt-1"), IdentityRole::Username, settled(2)),
        ] {
            assert_eq!(preset(&map(), "door", &facts(sni, certificate, role)), expected, "{sni:?} {certificate:?}");
        }
        assert_eq!(preset(&map(), "elsewhere", &facts(None, None, IdentityRole::None)), instead(0));
    }

    #[test]
    fn a_relayed_client_gets_into_a_tenant_of_the_same_name_only() {
        let file = FileText::new("t.toml", TENANTS);
        let config = Config::load(Inputs { file: Some(file), ..Inputs::default() });
        let tenancy = Tenancy::of(&config.map_err(|findings| findings.to_string()).unwrap());
        let of = |number, mark| of_relayed(&tenancy, RelayedTenant { tenant: TenantId(number), settled: true, mark });
        assert_eq!(of(1, tenant_mark("acme")), settled(1));
        assert_eq!(of(1, tenant_mark("bolt")), settled(NOWHERE.0));
        assert_eq!(of(3, tenant_mark("acme")), settled(NOWHERE.0));
        assert_eq!((of(0, 0), of(2, 0)), (settled(0), settled(2)), "of a node of a cluster, which shares its numbers");
    }

    #[test]
    fn a_listener_may_take_the_client_id_from_the_certificate() {
        let client_id = |name: &str, role| preset(&map(), "door", &facts(None, Some(name), role)).client_id;
        assert_eq!(client_id("device", IdentityRole::ClientId).as_deref(), Some("device"));
        assert_eq!(client_id("device", IdentityRole::Username), None);
        for name in ["", "a\0b", &"x".repeat(65_536)] {
            assert_eq!(client_id(name, IdentityRole::ClientId), None);
        }
    }
}
