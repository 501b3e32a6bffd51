//! A token in its three parts (RFC 7515, section 3.1).

use data_encoding::BASE64URL_NOPAD;
use serde_json::{Map, Value};

use super::algorithm::Algorithm;
use super::key::Key;

/// A well-formed token. Its content is not verified yet.
#[derive(Debug)]
pub(super) struct Token<'a> {
    header: Map<String, Value>,
    payload: Vec<u8>,
    signature: Vec<u8>,
    /// Header and payload as they were signed.
    signed: &'a str,
}

impl<'a> Token<'a> {
    /// Takes a token apart; none when it is no token.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let (signed, signature) = text.rsplit_once('.')?;
        let (header, payload) = signed.split_once('.')?;
        let decode = |part: &str| BASE64URL_NOPAD.decode(part.as_bytes()).ok();
        let header = serde_json::from_slice(&decode(header)?).ok()?;
        Some(Self { header, payload: decode(payload)?, signature: decode(signature)?, signed })
    }

    /// The algorithm that the token names. [`Key::may_verify`] ensures that the key decides how it is verified.
    ///
    /// # Errors
    /// When the algorithm is unknown, or the token uses a critical extension that is not supported (RFC 7515, section
    /// 4.1.11).
    pub(super) fn algorithm(&self) -> Result<Algorithm, &'static str> {
        if self.header.contains_key("crit") {
            return Err("the token has critical extensions");
        }
        let name = self.header.get("alg").and_then(Value::as_str).ok_or("the token names no algorithm")?;
        Algorithm::parse(name).ok_or("the token names an algorithm that is not taken")
    }

    /// The name of the key that has signed it.
    pub(super) fn key_id(&self) -> Option<&str> {
        self.header.get("kid").and_then(Value::as_str)
    }

    /// Whether this key has signed it with this algorithm.
    pub(super) fn is_signed_by(&self, key: &Key, algorithm: Algorithm) -> bool {
        key.may_verify(algorithm, self.key_id())
            && algorithm.verify(&key.material, self.signed.as_bytes(), &self.signature)
    }

    /// The claims. To be used only after the signature was verified.
    pub(super) fn claims(&self) -> Option<Map<String, Value>> {
        serde_json::from_slice(&self.payload).ok()
    }
}
