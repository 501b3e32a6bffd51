//! The bytes of a key.

use crate::request::Secret;

/// The material of a key.
#[derive(Clone, Debug)]
pub(super) enum Material {
    /// A shared secret.
    Secret(Secret),
    /// Modulus and exponent, big-endian.
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    /// An uncompressed point on P-256.
    P256(Vec<u8>),
    /// An uncompressed point on P-384.
    P384(Vec<u8>),
    /// A key of Ed25519.
    Ed25519(Vec<u8>),
}
