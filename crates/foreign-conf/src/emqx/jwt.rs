//! Signed tokens. EMQX takes the rights of a client from the claim `acl` and asks no rules of a superuser, as ours does.

use tidegate_conversion::{Setting, Value};

use crate::draft::Draft;
use crate::keys;
use crate::provider::{Provider, ProviderFile};

use super::ETC;
use super::authenticator::{Authenticator, Part};

const KNOWN: [&str; 16] = [
    "mechanism",
    "backend",
    "enable",
    "from",
    "use_jwks",
    "algorithm",
    "secret",
    "secret_base64_encoded",
    "public_key",
    "endpoint",
    "refresh_interval",
    "pool_size",
    "ssl.**",
    "headers.**",
    "verify_claims.**",
    "disconnect_after_expire",
];

/// The claim with the rights of a client.
const ACL_CLAIM: &str = "acl_claim_name";

/// Shortest shared secret of ours, bytes.
const MIN_SECRET_LEN: usize = 32;
/// Shortest and longest age of keys of a server, milliseconds.
const REFRESH_MS: (u64, u64) = (1_000, 7 * 24 * 3_600_000);

pub(super) fn take(one: &Authenticator, draft: &mut Draft) {
    let known: Vec<&str> = KNOWN.into_iter().chain([ACL_CLAIM]).collect();
    if !one.knows(draft, &known) {
        return;
    }
    let text = |key, text: &str| Setting::new(key, Value::Text(text.to_owned()), one.first());
    let mut settings = vec![text("kind", "jwt")];
    match one.find("from") {
        None => {}
        Some(part) if part.entry.value == "password" => {}
        Some(part) if part.entry.value == "username" => {
            settings.push(Setting::new("token_from", Value::Text("username".to_owned()), part.index));
        }
        Some(part) => return draft.closed_by(part.index, "it is neither password nor username"),
    }
    let Some((key, file)) = keys_of(one, draft) else { return };
    settings.extend(key);
    let Some(claims) = claims(one, draft) else { return };
    settings.extend(claims);
    // EMQX takes tokens without `exp`, and allows no difference of clocks.
    settings.push(Setting { key: "require_expiry", value: Value::Truth(false), line: None });
    settings.push(Setting { key: "leeway", value: Value::Text("0s".to_owned()), line: None });
    settings.push(Setting { key: "superuser_claim", value: Value::Text("is_superuser".to_owned()), line: None });
    if let Some(part) = one.find(ACL_CLAIM) {
        settings.push(Setting::new("acl_claim", Value::Text(part.entry.value.clone()), part.index));
    }
    if let Some(part) = one.find("disconnect_after_expire").filter(|part| part.entry.truth() != Some(true)) {
        draft.report.changed(part.index, "a connection ends with its token");
    }
    if !one.is_last {
        draft
            .report
            .changed(one.first(), "a client with an invalid token is refused, and no further provider is asked");
    }
    draft.providers.push(Provider::Other(settings, file));
}

/// The keys with which tokens are verified. `None` closes the result.
fn keys_of(one: &Authenticator, draft: &mut Draft) -> Option<(Vec<Setting>, Option<ProviderFile>)> {
    if one.find("use_jwks").is_some_and(|part| part.entry.truth() == Some(true)) {
        return from_server(one, draft).map(|settings| (settings, None));
    }
    for part in one.parts().iter().filter(|part| {
        ["endpoint", "refresh_interval", "pool_size"].contains(&part.key.as_str())
            || part.key.starts_with("ssl")
            || part.key.starts_with("headers")
    }) {
        draft.report.changed(part.index, "says nothing without `use_jwks = true`");
    }
    match one.value("algorithm") {
        Some("hmac-based") => secret(one, draft).map(|file| (Vec::new(), Some(file))),
        Some("public-key") => public_key(one, draft),
        _ => {
            let at = one.find("algorithm").map_or(one.first(), |part| part.index);
            draft.closed_by(at, "this kind of keys is not known");
            None
        }
    }
}

fn secret(one: &Authenticator, draft: &mut Draft) -> Option<ProviderFile> {
    let Some(part) = one.find("secret") else {
        draft.closed_by(one.first(), "it has no secret");
        return None;
    };
    let is_base64 = one.find("secret_base64_encoded").is_some_and(|part| part.entry.truth() == Some(true));
    let mut content = if is_base64 {
        let Ok(content) = data_encoding::BASE64.decode(part.entry.value.as_bytes()) else {
            draft.closed_by(part.index, "the secret is not Base64");
            return None;
        };
        content
    } else {
        part.entry.value.clone().into_bytes()
    };
    if content.len() < MIN_SECRET_LEN {
        let why = format!("the secret has {} bytes, and at least {MIN_SECRET_LEN} are taken", content.len());
        draft.closed_by(part.index, &why);
        return None;
    }
    if content.ends_with(b"\r") {
        draft.closed_by(part.index, "the secret ends with a carriage return, which a file of ours does not keep");
        return None;
    }
    // The reader leaves out one line feed at the end.
    content.push(b'\n');
    Some(ProviderFile { key: "secret_file", ending: "jwt-secret", content, line: part.index })
}

fn public_key(one: &Authenticator, draft: &mut Draft) -> Option<(Vec<Setting>, Option<ProviderFile>)> {
    const KEY: &str = "public_key_file";
    let Some(part) = one.find("public_key") else {
        draft.closed_by(one.first(), "it has no public key");
        return None;
    };
    let value = &part.entry.value;
    if value.trim_start().starts_with("-----BEGIN") {
        let content = format!("{}\n", value.trim()).into_bytes();
        return Some((Vec::new(), Some(ProviderFile { key: KEY, ending: "jwt-key.pem", content, line: part.index })));
    }
    let path = value.replace(ETC, "/etc/emqx");
    Some((vec![Setting::new(KEY, Value::Text(path), part.index)], None))
}

fn from_server(one: &Authenticator, draft: &mut Draft) -> Option<Vec<Setting>> {
    let Some(url) = one.find("endpoint") else {
        draft.closed_by(one.first(), "it names no server of keys");
        return None;
    };
    let authorities = one.authorities(draft, &url.entry.value).ok()?;
    let mut settings = vec![Setting::new("jwks_url", Value::Text(url.entry.value.clone()), url.index)];
    settings.extend(authorities.map(|(index, path)| Setting::new("ca_file", Value::Text(path), index)));
    for part in one.parts() {
        match part.key.as_str() {
            // A number counts seconds.
            "refresh_interval" => match keys::duration_in(&part.entry, 1_000, REFRESH_MS.0, REFRESH_MS.1) {
                Ok((value, why)) => {
                    settings.push(Setting::new("jwks_refresh", value, part.index));
                    draft.report.note_change(part.index, why);
                }
                Err(why) => {
                    draft.closed_by(part.index, &why);
                    return None;
                }
            },
            "pool_size" => draft.report.changed(part.index, "the keys are fetched by one connection"),
            "algorithm" | "secret" | "secret_base64_encoded" | "public_key" => {
                draft.report.changed(part.index, "says nothing with `use_jwks = true`");
            }
            key if key.starts_with("headers.") => draft
                .report
                .refused(part.index, "this header is not sent: no token is accepted if the server requires it"),
            _ => {}
        }
    }
    Some(settings)
}

/// The claims that a token must have. `None` closes the result.
fn claims(one: &Authenticator, draft: &mut Draft) -> Option<Vec<Setting>> {
    let mut user_claim = None;
    let mut settings: Vec<Setting> = Vec::new();
    for (part, claim, value) in named_claims(one) {
        let setting = |key, text: &str| Setting::new(key, Value::Text(text.to_owned()), part.index);
        let new = match (claim.as_str(), value.as_str()) {
            (_, "${username}") if one.value("from") != Some("username") && user_claim.is_none() => {
                draft.report.changed(part.index, "the claim is the user name, whatever CONNECT says");
                user_claim = Some(setting("user_claim", &claim));
                continue;
            }
            (_, "${clientid}") => setting("client_id_claim", &claim),
            ("iss", text) if !text.is_empty() && !text.contains("${") => setting("issuer", text),
            ("aud", text) if !text.is_empty() && !text.contains("${") => setting("audience", text),
            _ => {
                draft.closed_by(part.index, "a claim with this value is not asked for");
                return None;
            }
        };
        if settings.iter().any(|other| other.key == new.key) {
            draft.closed_by(part.index, "a second claim with this meaning is not asked for");
            return None;
        }
        settings.push(new);
    }
    // Without such a claim the user name is that of CONNECT.
    settings.push(user_claim.unwrap_or(Setting { key: "user_claim", value: Value::Text(String::new()), line: None }));
    Some(settings)
}

/// Claims with the values that they must have: an object, or a list of objects with `name` and `value`.
fn named_claims(one: &Authenticator) -> Vec<(&Part, String, String)> {
    let mut claims = Vec::new();
    for part in one.parts() {
        let Some(name) = part.key.strip_prefix("verify_claims.") else { continue };
        let text = part.entry.value.clone();
        match name.split_once('.') {
            Some((number, "name")) if number.parse::<usize>().is_ok() => {
                let value = one.value(&format!("verify_claims.{number}.value")).unwrap_or_default();
                claims.push((part, text, value.to_owned()));
            }
            Some((number, "value"))
                if number.parse::<usize>().is_ok() && one.find(&format!("verify_claims.{number}.name")).is_some() => {}
            _ => claims.push((part, name.to_owned(), text)),
        }
    }
    // A list of texts has another form in no version of EMQX.
    if let Some(part) = one.find("verify_claims").filter(|part| !part.entry.items.is_empty()) {
        claims.push((part, String::new(), part.entry.value.clone()));
    }
    claims
}
