//! Checks of the keys of `[[auth]]` together.

use tidegate_auth::is_algorithm;
use tidegate_node::ClientCertificates;

use super::settings;
use crate::finding::Findings;
use crate::key::Section;
use crate::origins::Origins;
use crate::path::KeyPath;
use crate::sections::Listener;
use crate::sections::auth::{AUTH, Auth, AuthKind, CertificateField};
use crate::sections::orchestrator::Orchestrator;
use crate::source::Source;
use crate::value::Problem;

/// Providers that a broker may have.
const MAX_PROVIDERS: usize = 32;

/// Keys of every provider.
const GENERAL: &[&str] = &["kind", "name", "listeners"];

/// The keys of a kind.
fn keys(kind: AuthKind) -> &'static [&'static str] {
    match kind {
        AuthKind::PasswordFile | AuthKind::Scram | AuthKind::ApiKey => &["file"],
        AuthKind::Http => &[
            "url",
            "bearer_token_file",
            "unreachable",
            "concurrency",
            "breaker_failures",
            "breaker_pause",
            "cache_ttl",
            "timeout",
            "ca_file",
        ],
        AuthKind::Jwt => &[
            "secret_file",
            "public_key_file",
            "jwks_file",
            "jwks_url",
            "jwks_refresh",
            "jwks_refresh_min",
            "timeout",
            "ca_file",
            "algorithms",
            "token_from",
            "issuer",
            "audience",
            "require_expiry",
            "leeway",
            "user_claim",
            "client_id_claim",
            "acl_claim",
            "superuser_claim",
            "tenant_claim",
        ],
        AuthKind::Certificate => &["user_name_from", "client_id_from"],
        AuthKind::Fleet => &["concurrency", "cache_ttl", "timeout"],
    }
}

/// Checks the settings of providers.
pub fn check(
    auths: &[Auth],
    listeners: &[Listener],
    orchestrator: &Orchestrator,
    origins: &Origins,
    findings: &mut Findings,
) {
    if auths.len() > MAX_PROVIDERS {
        let text = format!("there are {} providers; a broker has at most {MAX_PROVIDERS}", auths.len());
        findings.push(Problem::new(text), source(origins, MAX_PROVIDERS, "kind"));
    }
    let names = settings::names(auths);
    for (index, auth) in auths.iter().enumerate() {
        let name = names.get(index).map_or("", String::as_str);
        if names.iter().take(index).any(|other| other == name) {
            let text = format!("two providers have the name `{name}`");
            findings.push(Problem::new(text), source(origins, index, "name"));
        }
        for (key, problem) in problems(auth, listeners, orchestrator) {
            findings.push(problem, source(origins, index, key));
        }
    }
}

/// The source of a key's value; for the provider as a whole, of any of its keys that was given.
fn source(origins: &Origins, index: usize, key: &'static str) -> Source {
    let path = |key| KeyPath { section: "auth", index, key };
    let given = |key| Some(origins.source(&path(key))).filter(|source| **source != Source::Default);
    given(key).or_else(|| AUTH.keys.iter().find_map(|key| given(key.name))).cloned().unwrap_or(Source::Default)
}

fn problems(auth: &Auth, listeners: &[Listener], orchestrator: &Orchestrator) -> Vec<(&'static str, Problem)> {
    let mut found = foreign_keys(auth);
    for listener in &auth.listeners.0 {
        if !listeners.iter().any(|other| other.name == *listener) {
            found.push(("listeners", Problem::new(format!("there is no listener `{listener}`"))));
        }
    }
    match auth.kind {
        AuthKind::PasswordFile | AuthKind::Scram if auth.file.is_none() => {
            let problem = Problem::new("this provider needs a file of users");
            found.push((
                "kind",
                problem.hint("write `file = \"PATH\"`, and make it with `tidegate passwd -c PATH USER`"),
            ));
        }
        AuthKind::ApiKey if auth.file.is_none() => {
            let problem = Problem::new("this provider needs a file of keys");
            found
                .push(("kind", problem.hint("write `file = \"PATH\"`, and make it with `tidegate key add PATH USER`")));
        }
        AuthKind::Http if auth.url.is_none() => {
            let problem = Problem::new("this provider needs the server that it asks");
            found.push(("kind", problem.hint("write `url = \"https://HOST/PATH\"`")));
        }
        AuthKind::Jwt => found.extend(tokens(auth)),
        AuthKind::Certificate => found.extend(certificates(auth, listeners)),
        AuthKind::Fleet if !orchestrator.enabled => {
            let problem = Problem::new("this provider asks the brokers of a fleet, and this is no orchestrator");
            found.push(("kind", problem.hint("run `tidegate orchestrator`, or choose another kind")));
        }
        AuthKind::PasswordFile | AuthKind::Scram | AuthKind::ApiKey | AuthKind::Http | AuthKind::Fleet => {}
    }
    found
}

/// Keys of other kinds have no effect, unless they repeat the setting in force.
fn foreign_keys(auth: &Auth) -> Vec<(&'static str, Problem)> {
    let own = |name: &str| GENERAL.contains(&name) || keys(auth.kind).contains(&name);
    let foreign = AUTH.keys.iter().filter(|key| !own(key.name) && auth.show(key.name) != (key.default)());
    let problem = |name| Problem::new(format!("`{name}` is no key of this kind of provider"));
    foreign.map(|key| (key.name, problem(key.name))).collect()
}

fn tokens(auth: &Auth) -> Vec<(&'static str, Problem)> {
    let sources = [&auth.secret_file, &auth.public_key_file, &auth.jwks_file, &auth.jwks_url];
    let mut found = Vec::new();
    if sources.into_iter().flatten().count() != 1 {
        let problem = Problem::new("this provider needs one source of keys");
        found.push(("kind", problem.hint("write one of `secret_file`, `public_key_file`, `jwks_file` and `jwks_url`")));
    }
    if let Some(wrong) = auth.algorithms.0.iter().find(|name| !is_algorithm(name)) {
        let problem = Problem::new(format!("there is no algorithm {wrong:?} of tokens"));
        let hint = "there are HS256, HS384, HS512, RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384 and EdDSA";
        found.push(("algorithms", problem.hint(hint)));
    }
    found
}

fn certificates(auth: &Auth, listeners: &[Listener]) -> Vec<(&'static str, Problem)> {
    let mut found = Vec::new();
    if auth.user_name_from == CertificateField::None {
        let problem = Problem::new("this provider needs a user name");
        found.push(("user_name_from", problem.hint("write another part of the certificate than \"none\"")));
    }
    let serves = |name: &String| auth.listeners.0.is_empty() || auth.listeners.0.contains(name);
    let shown = listeners
        .iter()
        .any(|listener| serves(&listener.name) && listener.client_certificate != ClientCertificates::None);
    if !shown {
        let problem = Problem::new("no listener of this provider asks clients for a certificate");
        found.push((
            "kind",
            problem.hint("write `client_certificate = \"required\"` or `\"optional\"` to a [[listener]]"),
        ));
    }
    found
}
