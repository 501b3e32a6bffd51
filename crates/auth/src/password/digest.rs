//! `$digest-ALGORITHM-PLACE$SALT$HASH`: SHA-256 or SHA-512 over a password and a salt, as EMQX and RabbitMQ keep them.
//! Read, never written by `tidegate passwd`: it can be guessed too fast. `config convert` carries such hashes over.

use std::fmt;

use ring::digest;
use subtle::ConstantTimeEq;

use super::{HashError, from_base64, salt, to_base64};

/// The beginning of the kind.
pub(super) const BEGINNING: &str = "digest-";

/// The place of the salt.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SaltPosition {
    /// No salt.
    Nowhere,
    /// Before the password.
    Before,
    /// Behind the password.
    Behind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Function {
    Sha256,
    Sha512,
}

impl Function {
    fn algorithm(self) -> &'static digest::Algorithm {
        match self {
            Self::Sha256 => &digest::SHA256,
            Self::Sha512 => &digest::SHA512,
        }
    }
}

#[derive(Clone, PartialEq, Eq)]
pub(super) struct Digest {
    function: Function,
    place: SaltPosition,
    salt: Vec<u8>,
    hash: Vec<u8>,
}

impl Digest {
    /// Reads the text behind [`BEGINNING`].
    pub(super) fn parse(kind: &str, text: &str) -> Result<Self, HashError> {
        let (function, place) = kind.split_once('-').ok_or(HashError::UnknownKind)?;
        let function = match function {
            "sha256" => Function::Sha256,
            "sha512" => Function::Sha512,
            _ => return Err(HashError::UnknownKind),
        };
        let place = match place {
            "unsalted" => SaltPosition::Nowhere,
            "prefix" => SaltPosition::Before,
            "suffix" => SaltPosition::Behind,
            _ => return Err(HashError::UnknownKind),
        };
        let (salted, hash) = text.split_once('$').ok_or(HashError::Parts)?;
        if hash.contains('$') {
            return Err(HashError::Parts);
        }
        let salt = match place {
            SaltPosition::Nowhere if salted.is_empty() => Vec::new(),
            SaltPosition::Nowhere => return Err(HashError::Parts),
            SaltPosition::Before | SaltPosition::Behind => salt(salted)?,
        };
        let hash = from_base64(hash)?;
        if hash.len() != function.algorithm().output_len() {
            return Err(HashError::Length);
        }
        Ok(Self { function, place, salt, hash })
    }

    /// The hash of a secret that needs no salt.
    pub(super) fn of_random(secret: &[u8]) -> Self {
        let hash = digest::digest(&digest::SHA256, secret).as_ref().to_vec();
        Self { function: Function::Sha256, place: SaltPosition::Nowhere, salt: Vec::new(), hash }
    }

    pub(super) fn verify(&self, password: &[u8]) -> bool {
        let mut context = digest::Context::new(self.function.algorithm());
        if self.place == SaltPosition::Before {
            context.update(&self.salt);
        }
        context.update(password);
        if self.place == SaltPosition::Behind {
            context.update(&self.salt);
        }
        context.finish().as_ref().ct_eq(&self.hash).into()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let function = match self.function {
            Function::Sha256 => "sha256",
            Function::Sha512 => "sha512",
        };
        let place = match self.place {
            SaltPosition::Nowhere => "unsalted",
            SaltPosition::Before => "prefix",
            SaltPosition::Behind => "suffix",
        };
        write!(f, "${BEGINNING}{function}-{place}${}${}", to_base64(&self.salt), to_base64(&self.hash))
    }
}
