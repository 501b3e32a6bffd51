//! `$6$SALT$HASH`: SHA-512 over password and salt, as Mosquitto wrote it before 2.0. Read, never written: it can be
//! guessed too fast.

use std::fmt;

use ring::digest;
use subtle::ConstantTimeEq;

use super::{HashError, from_base64, salt, to_base64};

#[derive(Clone, PartialEq, Eq)]
pub(super) struct SaltedSha512 {
    salt: Vec<u8>,
    hash: Vec<u8>,
}

impl SaltedSha512 {
    pub(super) fn parse(text: &str) -> Result<Self, HashError> {
        let (salted, hash) = text.split_once('$').ok_or(HashError::Parts)?;
        if hash.contains('$') {
            return Err(HashError::Parts);
        }
        let (salt, hash) = (salt(salted)?, from_base64(hash)?);
        if hash.len() != digest::SHA512_OUTPUT_LEN {
            return Err(HashError::Length);
        }
        Ok(Self { salt, hash })
    }

    pub(super) fn verify(&self, password: &[u8]) -> bool {
        let mut context = digest::Context::new(&digest::SHA512);
        context.update(password);
        context.update(&self.salt);
        context.finish().as_ref().ct_eq(&self.hash).into()
    }
}

impl fmt::Display for SaltedSha512 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "$6${}${}", to_base64(&self.salt), to_base64(&self.hash))
    }
}
