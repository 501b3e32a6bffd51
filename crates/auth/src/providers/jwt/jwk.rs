//! Sets of keys as JSON (RFC 7517).

use data_encoding::BASE64URL_NOPAD;
use serde_json::{Map, Value};

use super::algorithm::Algorithm;
use super::key::{Key, KeyProblem, MIN_SECRET_LEN, checked, point};
use super::material::Material;
use crate::request::Secret;

/// Whether a set may contain shared secrets: a published one may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Secrets {
    Allowed,
    Skipped,
}

/// Reads a set. Keys that are not for signatures, or of unknown kinds, are skipped, as RFC 7517 (section 5) asks; an
/// invalid key of a known kind is an error.
pub(super) fn parse_set(text: &[u8], secrets: Secrets) -> Result<Vec<Key>, KeyProblem> {
    let value: Value = serde_json::from_slice(text).map_err(|_| KeyProblem::NoSet)?;
    let list = value.get("keys").and_then(Value::as_array).ok_or(KeyProblem::NoSet)?;
    let mut keys = Vec::new();
    for (number, value) in (1..).zip(list) {
        let fields = value.as_object().ok_or(KeyProblem::Broken(number))?;
        if is_for_signatures(fields) {
            keys.extend(key(fields, secrets).map_err(|Broken| KeyProblem::Broken(number))?);
        }
    }
    checked(keys)
}

struct Broken;

fn is_for_signatures(fields: &Map<String, Value>) -> bool {
    let for_verify = |list: &Vec<Value>| list.iter().any(|one| one == "verify");
    fields.get("use").is_none_or(|value| value == "sig")
        && fields.get("key_ops").and_then(Value::as_array).is_none_or(for_verify)
}

fn key(fields: &Map<String, Value>, secrets: Secrets) -> Result<Option<Key>, Broken> {
    let algorithm = match text(fields, "alg").map(Algorithm::parse) {
        // It is pinned to an algorithm that we do not have.
        Some(None) => return Ok(None),
        Some(known) => known,
        None => None,
    };
    let material = match (text(fields, "kty"), text(fields, "crv")) {
        (Some("oct"), _) if secrets == Secrets::Allowed => {
            let secret = bytes(fields, "k")?;
            if secret.len() < MIN_SECRET_LEN {
                return Err(Broken);
            }
            Material::Secret(Secret::new(secret))
        }
        (Some("RSA"), _) => Material::Rsa { modulus: bytes(fields, "n")?, exponent: bytes(fields, "e")? },
        (Some("EC"), Some("P-256")) => Material::P256(on_curve(fields, 32)?),
        (Some("EC"), Some("P-384")) => Material::P384(on_curve(fields, 48)?),
        (Some("OKP"), Some("Ed25519")) => Material::Ed25519(bytes(fields, "x")?),
        _ => return Ok(None),
    };
    if algorithm.is_some_and(|algorithm| !algorithm.fits(&material)) {
        return Err(Broken);
    }
    Ok(Some(Key { id: text(fields, "kid").map(str::to_owned), algorithm, material }))
}

fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    fields.get(name).and_then(Value::as_str)
}

fn bytes(fields: &Map<String, Value>, name: &str) -> Result<Vec<u8>, Broken> {
    let text = text(fields, name).ok_or(Broken)?;
    let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| Broken)?;
    if bytes.is_empty() { Err(Broken) } else { Ok(bytes) }
}

fn on_curve(fields: &Map<String, Value>, length: usize) -> Result<Vec<u8>, Broken> {
    point(&bytes(fields, "x")?, &bytes(fields, "y")?, length).ok_or(Broken)
}
