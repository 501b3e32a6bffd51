//! The tenant of a client.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_engine::{TenantId, Tenants};
use tidegate_node::proxy_protocol::RelayedTenant;

use tidegate_config::Config;
use tidegate_config::hub::hub_listener;

/// The known facts of a client when its tenant is looked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traits<'a> {
    /// The name of the listener.
    pub listener: &'a str,
    /// The server name that a TLS client asked for.
    pub sni: Option<&'a str>,
    /// The user name that was authenticated; a claimed one does not count.
    pub user_name: Option<&'a str>,
    /// The common name of a certificate that was checked.
    pub certificate_cn: Option<&'a str>,
    /// The tenant that authentication dictates, such as a claim of a token.
    pub dictated: Option<&'a str>,
    /// The tenant that another node has found for a client that it relays.
    pub relayed: Option<RelayedTenant>,
}

/// The names of all tenants, by their numbers.
#[derive(Clone, Debug, Default)]
pub struct TenantNames(Arc<[String]>);

impl TenantNames {
    /// The names of a configuration. A tenant's number is its place in the configuration, counted from 1.
    pub fn of(config: &Config) -> Self {
        Self(config.tenants.iter().map(|tenant| tenant.name.clone()).collect())
    }

    /// The name of a tenant; empty for the default tenant and for an unknown tenant.
    pub fn name(&self, tenant: TenantId) -> &str {
        let place = usize::from(tenant.0).checked_sub(1);
        place.and_then(|place| self.0.get(place)).map_or("", String::as_str)
    }
}

/// Finds the tenant of a client. Pure; asked once per connection.
#[derive(Clone, Debug, Default)]
pub struct TenantMap {
    names: HashMap<String, TenantId>,
    certificates: Patterns,
    users: Patterns,
    hosts: Patterns,
    listeners: Patterns,
}

/// Values that lead to tenants.
#[derive(Clone, Debug, Default)]
struct Patterns {
    exact: HashMap<String, TenantId>,
    /// Beginnings, or endings for host names, the longest first.
    partial: Vec<(String, TenantId)>,
}

/// A tenant that authentication dictates and that is not configured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no tenant {0:?}; add a [[tenant]] of that name")]
pub struct UnknownTenant(pub String);

impl TenantMap {
    /// The tenants of a configuration.
    pub fn of(config: &Config) -> Self {
        let mut map = Self::default();
        for (number, tenant) in (1..).map(TenantId).zip(&config.tenants) {
            map.names.insert(tenant.name.clone(), number);
            map.certificates.add(&tenant.certificate_cn.0, number, prefix);
            map.users.add(&tenant.users.0, number, prefix);
            map.hosts.add(&lower(&tenant.sni.0), number, subdomain);
            map.listeners.add(&tenant.listeners.0, number, |_| None);
            // Pipelines of the tenant come in by a listener of their own, which no file names.
            map.listeners.add(&[hub_listener(&tenant.name)], number, |_| None);
        }
        let longest_first =
            |patterns: &mut Patterns| patterns.partial.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        longest_first(&mut map.certificates);
        longest_first(&mut map.users);
        longest_first(&mut map.hosts);
        map
    }

    /// The tenant of a client: the tenant that authentication dictates, else that of its certificate, its user name,
    /// its requested server name and its listener, in this order; else the default one. For a relayed client the other
    /// node's answer replaces the facts that only that node knows.
    ///
    /// # Errors
    /// When authentication dictates a tenant that does not exist: then the client belongs nowhere.
    pub fn resolve(&self, client: &Traits<'_>) -> Result<TenantId, UnknownTenant> {
        if let Some(name) = client.dictated {
            return self.names.get(name).copied().ok_or_else(|| UnknownTenant(name.to_owned()));
        }
        let by_prefix = |patterns: &Patterns, value: Option<&str>| patterns.by_prefix(value?);
        let host = client.sni.map(str::to_ascii_lowercase);
        let by_host =
            || self.hosts.find(host.as_deref()?, |host, part| host.len() > part.len() && host.ends_with(part));
        let relayed =
            |settled| client.relayed.filter(|relayed| relayed.settled == settled).map(|relayed| relayed.tenant);
        let found = by_prefix(&self.certificates, client.certificate_cn)
            .or_else(|| relayed(true))
            .or_else(|| by_prefix(&self.users, client.user_name))
            .or_else(|| relayed(false))
            .or_else(by_host)
            .or_else(|| by_prefix(&self.listeners, Some(client.listener)));
        Ok(found.unwrap_or(TenantId::DEFAULT))
    }
}

impl TenantMap {
    /// Whether the common name of a certificate leads to a tenant, whatever else is known.
    pub fn knows_certificate(&self, common_name: &str) -> bool {
        self.certificates.by_prefix(common_name).is_some()
    }
}

impl Tenants for TenantMap {
    fn of_user(&self, _listener: TenantId, user_name: &str) -> Option<TenantId> {
        self.users.by_prefix(user_name)
    }
}

impl Patterns {
    /// Adds values; `partial` gives the part to compare of a pattern.
    fn add(&mut self, values: &[String], tenant: TenantId, partial: fn(&str) -> Option<&str>) {
        for value in values {
            match partial(value) {
                Some(part) => self.partial.push((part.to_owned(), tenant)),
                None => drop(self.exact.insert(value.clone(), tenant)),
            }
        }
    }

    fn by_prefix(&self, value: &str) -> Option<TenantId> {
        self.find(value, |value, part| value.starts_with(part))
    }

    fn find(&self, value: &str, fits: impl Fn(&str, &str) -> bool) -> Option<TenantId> {
        let partly = || self.partial.iter().find(|(part, _)| fits(value, part));
        self.exact.get(value).copied().or_else(|| partly().map(|(_, tenant)| *tenant))
    }
}

fn prefix(value: &str) -> Option<&str> {
    value.strip_suffix('*')
}

/// `.example.org` of `*.example.org`.
fn subdomain(value: &str) -> Option<&str> {
    value.strip_prefix('*').filter(|rest| rest.starts_with('.'))
}

fn lower(values: &[String]) -> Vec<String> {
    values.iter().map(|value| value.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_config::Inputs;
    use tidegate_config::source::FileText;

    fn config(text: &str) -> Result<Config, String> {
        let file = FileText::new("t.toml", text);
        Config::load(Inputs { file: Some(file), ..Inputs::default() }).map_err(|findings| findings.to_string())
    }

    const TENANTS: &str = "\
[[listener]]
name = 'acme-tcp'

[[tenant]]
name = 'acme'
listeners = ['acme-tcp']
sni = ['mqtt.acme.example']
users = ['acme-*']
certificate_cn = ['acme gateway']

[[tenant]]
name = 'bolt'
sni = ['*.bolt.example']
users = ['acme-guest', 'bolt']

[[auth]]
file = 'users'

[access]
default = 'allow'
";

    fn resolve(client: &Traits<'_>) -> TenantId {
        TenantMap::of(&config(TENANTS).unwrap()).resolve(client).unwrap()
    }

    const PLAIN: Traits<'_> =
        Traits { listener: "other", sni: None, user_name: None, certificate_cn: None, dictated: None, relayed: None };
    const ACME: TenantId = TenantId(1);
    const BOLT: TenantId = TenantId(2);

    #[test]
    fn a_client_is_found_by_each_of_its_traits() {
        assert_eq!(resolve(&PLAIN), TenantId::DEFAULT);
        assert_eq!(resolve(&Traits { listener: "acme-tcp", ..PLAIN }), ACME);
        assert_eq!(resolve(&Traits { sni: Some("MQTT.acme.example"), ..PLAIN }), ACME);
        assert_eq!(resolve(&Traits { sni: Some("a.bolt.example"), ..PLAIN }), BOLT);
        assert_eq!(resolve(&Traits { user_name: Some("acme-7"), ..PLAIN }), ACME);
        assert_eq!(resolve(&Traits { certificate_cn: Some("acme gateway"), ..PLAIN }), ACME);
        assert_eq!(resolve(&Traits { dictated: Some("bolt"), ..PLAIN }), BOLT);
        let relayed = |settled| Some(RelayedTenant { tenant: BOLT, settled, mark: 0 });
        assert_eq!(resolve(&Traits { relayed: relayed(false), ..PLAIN }), BOLT);
        assert_eq!(resolve(&Traits { relayed: relayed(false), user_name: Some("acme-7"), ..PLAIN }), ACME);
        assert_eq!(resolve(&Traits { relayed: relayed(true), user_name: Some("acme-7"), ..PLAIN }), BOLT);
    }

    #[test]
    fn a_subdomain_has_a_label_and_any_rest_may_be_empty() {
        assert_eq!(resolve(&Traits { sni: Some("bolt.example"), ..PLAIN }), TenantId::DEFAULT);
        assert_eq!(resolve(&Traits { sni: Some("xbolt.example"), ..PLAIN }), TenantId::DEFAULT);
        assert_eq!(resolve(&Traits { sni: Some(".bolt.example"), ..PLAIN }), TenantId::DEFAULT);
        assert_eq!(resolve(&Traits { user_name: Some("acme-"), ..PLAIN }), ACME);
        assert_eq!(resolve(&Traits { user_name: Some("acme"), ..PLAIN }), TenantId::DEFAULT);
        assert_eq!(resolve(&Traits { certificate_cn: Some("acme gateway 2"), ..PLAIN }), TenantId::DEFAULT);
    }

    #[test]
    fn the_claim_that_is_harder_to_make_wins_and_exact_names_win() {
        let all = Traits {
            listener: "acme-tcp",
            sni: Some("a.bolt.example"),
            user_name: Some("bolt"),
            certificate_cn: Some("acme gateway"),
            dictated: None,
            relayed: None,
        };
        assert_eq!(resolve(&all), ACME);
        assert_eq!(resolve(&Traits { certificate_cn: None, ..all }), BOLT);
        assert_eq!(resolve(&Traits { certificate_cn: None, user_name: None, ..all }), BOLT);
        assert_eq!(resolve(&Traits { user_name: Some("acme-guest"), ..PLAIN }), BOLT);
        assert_eq!(resolve(&Traits { dictated: Some("bolt"), ..all }), BOLT);
    }

    #[test]
    fn a_dictated_tenant_that_does_not_exist_is_no_tenant() {
        let map = TenantMap::of(&config(TENANTS).unwrap());
        let client = Traits { dictated: Some("unknown"), listener: "acme-tcp", ..PLAIN };
        assert_eq!(map.resolve(&client), Err(UnknownTenant("unknown".to_owned())));
    }

    #[test]
    fn numbers_have_names() {
        let names = TenantNames::of(&config(TENANTS).unwrap());
        assert_eq!(
            [names.name(TenantId(0)), names.name(ACME), names.name(BOLT), names.name(TenantId(9))],
            ["", "acme", "bolt", ""]
        );
    }

    #[test]
    fn invalid_tenants_are_refused() {
        for (text, expected) in [
            ("[[tenant]]\nusers = ['x']\n", "a tenant has no name"),
            ("[[tenant]]\nname = 'a'\n[[tenant]]\nname = 'a'\n", "two tenants have the name `a`"),
            (
                "[[tenant]]\nname = 'a'\nusers = ['u']\n[[tenant]]\nname = 'b'\nusers = ['u']\n",
                "\"u\" leads to two tenants",
            ),
            ("[[tenant]]\nname = 'a'\nlisteners = ['x']\n", "there is no listener `x`"),
            ("[[tenant]]\nname = 'a'\nusers = ['u']\n", "no client has to prove a user name"),
        ] {
            let error = config(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
