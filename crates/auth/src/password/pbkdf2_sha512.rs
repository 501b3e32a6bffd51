//! `$7$ROUNDS$SALT$HASH`: PBKDF2 with HMAC-SHA-512, as Mosquitto writes it since 2.0.

use std::fmt;
use std::num::NonZeroU32;

use ring::{digest, pbkdf2};

use super::{HashError, checked_rounds, from_base64, random, rounds, salt, to_base64};

/// Bytes of a fresh salt; Mosquitto reads salts of this length since 2.0.
const SALT_LEN: usize = 12;

#[derive(Clone, PartialEq, Eq)]
pub(super) struct Pbkdf2Sha512 {
    rounds: NonZeroU32,
    salt: Vec<u8>,
    hash: Vec<u8>,
}

impl Pbkdf2Sha512 {
    pub(super) fn parse(text: &str) -> Result<Self, HashError> {
        let parts: Vec<&str> = text.split('$').collect();
        let [count, salted, hash] = parts.as_slice() else {
            return Err(HashError::Parts);
        };
        let (rounds, salt, hash) = (rounds(count)?, salt(salted)?, from_base64(hash)?);
        if hash.len() != digest::SHA512_OUTPUT_LEN {
            return Err(HashError::Length);
        }
        Ok(Self { rounds, salt, hash })
    }

    pub(super) fn create(password: &[u8], rounds: u32) -> Result<Self, HashError> {
        let rounds = checked_rounds(rounds)?;
        let salt = random::<SALT_LEN>()?.to_vec();
        let mut hash = vec![0; digest::SHA512_OUTPUT_LEN];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA512, rounds, &salt, password, &mut hash);
        Ok(Self { rounds, salt, hash })
    }

    pub(super) fn verify(&self, password: &[u8]) -> bool {
        pbkdf2::verify(pbkdf2::PBKDF2_HMAC_SHA512, self.rounds, &self.salt, password, &self.hash).is_ok()
    }
}

impl fmt::Display for Pbkdf2Sha512 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "$7${}${}${}", self.rounds, to_base64(&self.salt), to_base64(&self.hash))
    }
}
