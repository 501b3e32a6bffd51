//! Keys of updates, in files as `tsig-keygen` of BIND writes them.

use data_encoding::BASE64;
use hickory_proto::rr::{Name, TSigner, rdata::tsig::TsigAlgorithm};

/// Difference of the clocks of both ends that is allowed, seconds (RFC 8945, section 10).
const FUDGE_S: u16 = 300;

/// Why a file is not a key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// A part is missing.
    #[error(
        "the key has no {0}; write key \"NAME\" {{ algorithm hmac-sha256; secret \"BASE64\"; }};, as `tsig-keygen NAME` does"
    )]
    Missing(&'static str),
    /// The algorithm.
    #[error("the algorithm `{0}` is not supported; use hmac-sha256, hmac-sha384 or hmac-sha512")]
    Algorithm(String),
    /// The secret.
    #[error("the secret is not base64")]
    Secret,
    /// The name.
    #[error("`{0}` cannot be the name of a key")]
    Name(String),
}

/// A key that a DNS server shares with this process.
#[derive(Clone)]
pub struct UpdateKey(TSigner);

impl std::fmt::Debug for UpdateKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("UpdateKey").field(&self.0.signer_name().to_ascii()).finish()
    }
}

impl UpdateKey {
    /// Reads `key "NAME" { algorithm hmac-sha256; secret "BASE64"; };`.
    ///
    /// # Errors
    /// The missing or wrong part.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        // A secret may have slashes, so only whole lines are comments.
        let is_code = |line: &&str| !line.trim_start().starts_with('#') && !line.trim_start().starts_with("//");
        let text: Vec<&str> = text.lines().filter(is_code).collect();
        let text = text.join("\n");
        let words: Vec<&str> =
            text.split(|c: char| c.is_whitespace() || "{};\"".contains(c)).filter(|word| !word.is_empty()).collect();
        let after = |word: &'static str| {
            let found = words.iter().position(|found| *found == word).and_then(|at| words.get(at + 1));
            found.copied().ok_or(KeyError::Missing(word))
        };
        let (name, algorithm, secret) = (after("key")?, after("algorithm")?, after("secret")?);
        let algorithm = match algorithm.trim_end_matches('.').to_ascii_lowercase().as_str() {
            "hmac-sha256" => TsigAlgorithm::HmacSha256,
            "hmac-sha384" => TsigAlgorithm::HmacSha384,
            "hmac-sha512" => TsigAlgorithm::HmacSha512,
            other => return Err(KeyError::Algorithm(other.to_owned())),
        };
        let secret = BASE64.decode(secret.as_bytes()).map_err(|_| KeyError::Secret)?;
        let wrong = || KeyError::Name(name.to_owned());
        let signer = Name::from_ascii(name).map_err(|_| wrong())?;
        TSigner::new(secret, algorithm, signer, FUDGE_S).map(Self).map_err(|_| wrong())
    }

    pub(super) fn signer(&self) -> &TSigner {
        &self.0
    }
}
