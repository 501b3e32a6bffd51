//! The claims of a token, and whether they are valid here and now (RFC 7519, section 4.1).

use serde_json::{Map, Value};

use crate::decision::{Identity, RefusalKind};
use crate::providers::acl_claims;
use crate::settings::JwtSettings;

/// Claims about the token, not about its bearer.
const REGISTERED: [&str; 6] = ["exp", "nbf", "iat", "jti", "iss", "aud"];

/// Longest claim that becomes an attribute, in bytes.
const MAX_ATTRIBUTE_LEN: usize = 1024;

/// Why a token is invalid here: the reason for the client, and the text for the log.
pub(super) type Fault = (RefusalKind, String);

/// Checks the claims of a token whose signature is right, and reads who its bearer is.
pub(super) fn identity(
    claims: &Map<String, Value>,
    settings: &JwtSettings,
    client_id: &str,
    now_ms: u64,
) -> Result<Identity, Fault> {
    let expires_at = check_times(claims, settings, now_ms)?;
    check_issuer(claims, settings)?;
    if let Some(name) = &settings.client_id_claim
        && required(claims, name)? != client_id
    {
        return Err((RefusalKind::NotAuthorized, format!("the client id is not what the claim `{name}` says")));
    }
    let user_name = settings.user_claim.as_ref().map(|name| required(claims, name)).transpose()?;
    let tenant = settings.tenant_claim.as_ref().map(|name| required(claims, name)).transpose()?;
    let superuser = settings.superuser_claim.as_ref().and_then(|name| find(claims, name));
    let rules = settings.acl_claim.as_ref().and_then(|name| find(claims, name)).map(acl_claims::parse).transpose();
    Ok(Identity {
        user_name,
        tenant,
        superuser: superuser == Some(&Value::Bool(true)),
        attributes: attributes(claims),
        rules: rules.map_err(|why| (RefusalKind::NotAuthorized, why.to_string()))?,
        expires_at,
        ..Identity::default()
    })
}

fn bad(why: impl Into<String>) -> Fault {
    (RefusalKind::BadCredentials, why.into())
}

/// When the token ends, with the leeway.
fn check_times(claims: &Map<String, Value>, settings: &JwtSettings, now_ms: u64) -> Result<Option<u64>, Fault> {
    let leeway_ms = u64::try_from(settings.leeway.as_millis()).unwrap_or(u64::MAX);
    let expiry = moment(claims, "exp")?;
    if expiry.is_none() && settings.require_expiry {
        return Err(bad("the token has no `exp`"));
    }
    let end = expiry.map(|expiry| expiry.saturating_add(leeway_ms));
    if end.is_some_and(|end| end <= now_ms) {
        return Err(bad("the token has expired"));
    }
    for name in ["nbf", "iat"] {
        if moment(claims, name)?.is_some_and(|from| from > now_ms.saturating_add(leeway_ms)) {
            return Err(bad(format!("the token's `{name}` lies in the future")));
        }
    }
    Ok(end)
}

/// A `NumericDate` in milliseconds; it may have a fraction (RFC 7519, section 2).
fn moment(claims: &Map<String, Value>, name: &str) -> Result<Option<u64>, Fault> {
    let Some(value) = claims.get(name) else {
        return Ok(None);
    };
    if let Some(seconds) = value.as_u64() {
        return Ok(Some(seconds.saturating_mul(1000)));
    }
    match value.as_f64() {
        // The cast saturates; times beyond 64 bits of milliseconds are never reached.
        #[expect(clippy::cast_sign_loss, reason = "it is not negative here")]
        Some(seconds) if seconds >= 0.0 => Ok(Some((seconds * 1000.0) as u64)),
        _ => Err(bad(format!("the token's `{name}` is no date"))),
    }
}

fn check_issuer(claims: &Map<String, Value>, settings: &JwtSettings) -> Result<(), Fault> {
    if let Some(issuer) = &settings.issuer
        && claims.get("iss").and_then(Value::as_str) != Some(issuer)
    {
        return Err(bad("the token is by another issuer"));
    }
    let Some(audience) = &settings.audience else {
        return Ok(());
    };
    let meant = match claims.get("aud") {
        Some(Value::String(one)) => one == audience,
        Some(Value::Array(several)) => several.iter().any(|one| one.as_str() == Some(audience)),
        _ => false,
    };
    if meant { Ok(()) } else { Err(bad("the token is for another audience")) }
}

/// A claim by its name, or by a path with dots.
fn find<'a>(claims: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    if let Some(value) = claims.get(name) {
        return Some(value);
    }
    let mut parts = name.split('.');
    let first = claims.get(parts.next()?)?;
    parts.try_fold(first, |value, part| value.get(part))
}

/// A claim that must be there as text that can be a name in MQTT.
fn required(claims: &Map<String, Value>, name: &str) -> Result<String, Fault> {
    let text = find(claims, name).and_then(Value::as_str);
    let fits = |text: &&str| !text.is_empty() && u16::try_from(text.len()).is_ok() && !text.contains(char::is_control);
    text.filter(fits).map(str::to_owned).ok_or_else(|| bad(format!("the token's claim `{name}` is missing or no name")))
}

/// Claims about the bearer that are one value.
fn attributes(claims: &Map<String, Value>) -> Vec<(String, String)> {
    let scalar = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        _ => None,
    };
    claims
        .iter()
        .filter(|(name, _)| !REGISTERED.contains(&name.as_str()))
        .filter_map(|(name, value)| Some((name.clone(), scalar(value)?)))
        .filter(|(name, value)| name.len() + value.len() <= MAX_ATTRIBUTE_LEN)
        .take(Identity::MAX_ATTRIBUTES)
        .collect()
}
