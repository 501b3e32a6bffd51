//! Keys that verify tokens.

use std::path::PathBuf;

use super::algorithm::Algorithm;
use super::material::Material;

/// Keys of a set at most.
pub(super) const MAX_KEYS: usize = 64;

/// Fewest bytes of a shared secret (RFC 7518, section 3.2, for HS256).
pub(super) const MIN_SECRET_LEN: usize = 32;

/// Why keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// A file cannot be read.
    #[error("cannot read {}: {error}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// A file holds no usable keys.
    #[error("{}: {problem}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// The fault.
        problem: KeyProblem,
    },
}

/// Faults of keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyProblem {
    /// The file is too large.
    #[error("the file is larger than 1 MiB")]
    Size,
    /// A secret can be guessed.
    #[error("a shared secret must have at least 32 bytes; `openssl rand -base64 48` makes one")]
    ShortSecret,
    /// There is no key.
    #[error("there is no key that tokens can be verified with")]
    None,
    /// There are too many.
    #[error("there are more than 64 keys")]
    TooMany,
    /// A key is not public.
    #[error("the file has a private key; give the public key only")]
    Private,
    /// A key is broken.
    #[error("key {0} cannot be read")]
    Broken(usize),
    /// A key has an unknown type.
    #[error("key {0} has an unknown type; supported are RSA, EC on P-256 and P-384, and Ed25519")]
    Unknown(usize),
    /// It is no set of keys.
    #[error("it is no JWK set: an object with a list `keys` is expected")]
    NoSet,
}

/// A key, and the algorithms it is for.
#[derive(Clone, Debug)]
pub(super) struct Key {
    /// Its name, if it has one.
    pub(super) id: Option<String>,
    /// The one algorithm that it is for; `None` for all of its kind.
    pub(super) algorithm: Option<Algorithm>,
    pub(super) material: Material,
}

impl Key {
    /// A key without a name, for all algorithms of its kind.
    pub(super) fn of(material: Material) -> Self {
        Self { id: None, algorithm: None, material }
    }

    /// Appends the key without its name, for a digest.
    pub(super) fn append_to(&self, bytes: &mut Vec<u8>) {
        match &self.material {
            Material::Secret(secret) => bytes.extend_from_slice(secret.expose()),
            Material::Rsa { modulus, exponent } => bytes.extend([modulus.as_slice(), exponent].concat()),
            Material::P256(key) | Material::P384(key) | Material::Ed25519(key) => bytes.extend_from_slice(key),
        }
    }

    /// Whether a token that names this algorithm and this key may be verified with it.
    pub(super) fn may_verify(&self, algorithm: Algorithm, id: Option<&str>) -> bool {
        let named = match (&self.id, id) {
            (Some(own), Some(other)) => own == other,
            _ => true,
        };
        named && self.algorithm.is_none_or(|own| own == algorithm) && algorithm.fits(&self.material)
    }
}

/// As many keys as there may be, and at least one.
pub(super) fn checked(keys: Vec<Key>) -> Result<Vec<Key>, KeyProblem> {
    match keys.len() {
        0 => Err(KeyProblem::None),
        1..=MAX_KEYS => Ok(keys),
        _ => Err(KeyProblem::TooMany),
    }
}

/// A point as `04 X Y`, when both are as long as the curve says.
pub(super) fn point(x: &[u8], y: &[u8], length: usize) -> Option<Vec<u8>> {
    (x.len() == length && y.len() == length).then(|| [&[4], x, y].concat())
}
