//! The sections `[access]` and `[[tenant]]`: checks over several keys.

use tidegate_node::IdentityRole;

use crate::Config;
use crate::finding::Findings;
use crate::origins::Origins;
use crate::path::KeyPath;
use crate::sections::Listener;
use crate::sections::access::{AccessRules, DefaultAccess};
use crate::sections::tenant::Tenant;
use crate::value::Problem;

/// Tenants that a broker may have, besides the default one.
const MAX_TENANTS: usize = 1024;

impl AccessRules {
    /// Whether there are rules, be it none in an empty file.
    pub fn has_rules(&self) -> bool {
        self.rules.is_some() || self.rules_file.is_some() || self.acl_file.is_some()
    }
}

/// Checks the settings of rights.
pub fn check(config: &Config, findings: &mut Findings) {
    let access = &config.access;
    // If brokers get the credentials of clients, they decide.
    let asked_here = config.has_users() && !config.orchestrator.passes_clients_through();
    if asked_here && !access.has_rules() && access.default == DefaultAccess::Auto {
        let text = "there are users, and no rule sets their rights";
        let hint = "name rules in [access] with `rules_file` or `acl_file`, or write `default = \"allow\"` there if everybody \
                    who comes in may do everything; with `default = \"deny\"` only what tokens grant is allowed";
        findings.push(Problem::new(text).hint(hint), config.origins.source_of("access", "default").clone());
    }
    check_tenants(&config.tenants, &config.listeners, !config.auths.is_empty(), &config.origins, findings);
}

/// Whether names of tenants are unique, and each user and listener belongs to one.
fn check_tenants(
    tenants: &[Tenant],
    listeners: &[Listener],
    has_auths: bool,
    origins: &Origins,
    findings: &mut Findings,
) {
    let mut note = |index, key, text: String, hint: &str| {
        let source = origins.source(&KeyPath { section: "tenant", index, key }).clone();
        findings.push(Problem::new(text).hint(hint), source);
    };
    if tenants.len() > MAX_TENANTS {
        let text = format!("there are {} tenants; a broker has at most {MAX_TENANTS}", tenants.len());
        note(MAX_TENANTS, "name", text, "let several brokers share them");
    }
    // Without providers a user name is only claimed. A name that every client may claim gives no tenant.
    let proven = has_auths || listeners.iter().any(|listener| listener.identity_as == IdentityRole::Username);
    for (index, tenant) in tenants.iter().enumerate() {
        if !proven && !tenant.users.0.is_empty() {
            let text = "user names lead to a tenant, and no client has to prove a user name".to_owned();
            note(
                index,
                "users",
                text,
                "add an [[auth]], or say by listener, server name or certificate who belongs to it",
            );
        }
        if tenant.name.is_empty() {
            note(index, "name", "a tenant has no name".to_owned(), "add `name = \"...\"` to this [[tenant]]");
        }
        let before = tenants.get(..index).unwrap_or_default();
        if before.iter().any(|other| other.name == tenant.name) {
            note(index, "name", format!("two tenants have the name `{}`", tenant.name), "give each its own");
        }
        for (key, list) in LISTS {
            let values = list(tenant);
            if let Some(value) = values.iter().find(|value| before.iter().any(|other| list(other).contains(value))) {
                let text = format!("{value:?} leads to two tenants");
                note(index, key, text, "keep it in the list of one of them");
            }
        }
        let unknown = |name: &&String| !listeners.iter().any(|listener| listener.name == **name);
        if let Some(name) = tenant.listeners.0.iter().find(unknown) {
            note(index, "listeners", format!("there is no listener `{name}`"), "give a [[listener]] that `name`");
        }
    }
}

type List = (&'static str, fn(&Tenant) -> &[String]);

const LISTS: [List; 4] = [
    ("listeners", |tenant| &tenant.listeners.0),
    ("sni", |tenant| &tenant.sni.0),
    ("users", |tenant| &tenant.users.0),
    ("certificate_cn", |tenant| &tenant.certificate_cn.0),
];
