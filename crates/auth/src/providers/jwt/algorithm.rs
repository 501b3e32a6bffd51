//! Algorithms of tokens (RFC 7518, section 3.1, and RFC 8037). There is no `none`.

use ring::{hmac, signature};

use super::material::Material;

/// An algorithm that signs tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Hs256,
    Hs384,
    Hs512,
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

const NAMES: [(&str, Algorithm); 12] = [
    ("HS256", Algorithm::Hs256),
    ("HS384", Algorithm::Hs384),
    ("HS512", Algorithm::Hs512),
    ("RS256", Algorithm::Rs256),
    ("RS384", Algorithm::Rs384),
    ("RS512", Algorithm::Rs512),
    ("PS256", Algorithm::Ps256),
    ("PS384", Algorithm::Ps384),
    ("PS512", Algorithm::Ps512),
    ("ES256", Algorithm::Es256),
    ("ES384", Algorithm::Es384),
    ("EdDSA", Algorithm::EdDsa),
];

impl Algorithm {
    /// The algorithm of that name, if we take it.
    pub(super) fn parse(name: &str) -> Option<Self> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, algorithm)| *algorithm)
    }

    /// Whether a key is one for this algorithm. A public key is never a shared secret, whatever a token says.
    pub(super) fn fits(self, material: &Material) -> bool {
        match material {
            Material::Secret(_) => matches!(self, Self::Hs256 | Self::Hs384 | Self::Hs512),
            Material::Rsa { .. } => {
                matches!(self, Self::Rs256 | Self::Rs384 | Self::Rs512 | Self::Ps256 | Self::Ps384 | Self::Ps512)
            }
            Material::P256(_) => self == Self::Es256,
            Material::P384(_) => self == Self::Es384,
            Material::Ed25519(_) => self == Self::EdDsa,
        }
    }

    /// Whether the signature of a text is right. False, too, for a key that does not fit.
    pub(super) fn verify(self, material: &Material, text: &[u8], mac: &[u8]) -> bool {
        match material {
            Material::Secret(secret) => {
                self.hmac().is_some_and(|hash| hmac::verify(&hmac::Key::new(hash, secret.expose()), text, mac).is_ok())
            }
            Material::Rsa { modulus, exponent } => self.rsa().is_some_and(|parameters| {
                let key = signature::RsaPublicKeyComponents { n: modulus, e: exponent };
                key.verify(parameters, text, mac).is_ok()
            }),
            Material::P256(point) if self == Self::Es256 => {
                unparsed(&signature::ECDSA_P256_SHA256_FIXED, point, text, mac)
            }
            Material::P384(point) if self == Self::Es384 => {
                unparsed(&signature::ECDSA_P384_SHA384_FIXED, point, text, mac)
            }
            Material::Ed25519(point) if self == Self::EdDsa => unparsed(&signature::ED25519, point, text, mac),
            Material::P256(_) | Material::P384(_) | Material::Ed25519(_) => false,
        }
    }

    fn hmac(self) -> Option<hmac::Algorithm> {
        match self {
            Self::Hs256 => Some(hmac::HMAC_SHA256),
            Self::Hs384 => Some(hmac::HMAC_SHA384),
            Self::Hs512 => Some(hmac::HMAC_SHA512),
            _ => None,
        }
    }

    fn rsa(self) -> Option<&'static signature::RsaParameters> {
        match self {
            Self::Rs256 => Some(&signature::RSA_PKCS1_2048_8192_SHA256),
            Self::Rs384 => Some(&signature::RSA_PKCS1_2048_8192_SHA384),
            Self::Rs512 => Some(&signature::RSA_PKCS1_2048_8192_SHA512),
            Self::Ps256 => Some(&signature::RSA_PSS_2048_8192_SHA256),
            Self::Ps384 => Some(&signature::RSA_PSS_2048_8192_SHA384),
            Self::Ps512 => Some(&signature::RSA_PSS_2048_8192_SHA512),
            _ => None,
        }
    }
}

fn unparsed(algorithm: &'static dyn signature::VerificationAlgorithm, key: &[u8], text: &[u8], mac: &[u8]) -> bool {
    signature::UnparsedPublicKey::new(algorithm, key).verify(text, mac).is_ok()
}
