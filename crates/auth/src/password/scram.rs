//! `$scram-sha-256$ROUNDS$SALT$STOREDKEY$SERVERKEY`: the keys that a server stores for SCRAM-SHA-256 (RFC 5802, section
//! 3). With them a server can verify a client, but cannot log in as the client.

use std::fmt;
use std::num::NonZeroU32;

use ring::{digest, hmac, pbkdf2};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::{HashError, HashKind, checked_rounds, from_base64, random, rounds, salt, to_base64};

/// Bytes of a fresh salt.
const SALT_LEN: usize = 16;

/// Bytes of SHA-256.
pub(crate) const KEY_LEN: usize = digest::SHA256_OUTPUT_LEN;

/// The stored keys of SCRAM-SHA-256.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramHash {
    pub(crate) rounds: NonZeroU32,
    pub(crate) salt: Vec<u8>,
    pub(crate) stored_key: [u8; KEY_LEN],
    pub(crate) server_key: [u8; KEY_LEN],
}

impl ScramHash {
    pub(super) fn parse(text: &str) -> Result<Self, HashError> {
        let parts: Vec<&str> = text.split('$').collect();
        let [count, salted, stored, server] = parts.as_slice() else {
            return Err(HashError::Parts);
        };
        let key = |text: &str| <[u8; KEY_LEN]>::try_from(from_base64(text)?).map_err(|_| HashError::Length);
        Ok(Self { rounds: rounds(count)?, salt: salt(salted)?, stored_key: key(stored)?, server_key: key(server)? })
    }

    pub(super) fn create(password: &[u8], rounds: u32) -> Result<Self, HashError> {
        if rounds < HashKind::SCRAM_ROUNDS_MIN {
            return Err(HashError::Cost);
        }
        Ok(Self::derive(password, checked_rounds(rounds)?, random::<SALT_LEN>()?.to_vec()))
    }

    /// Rounds of PBKDF2 that a client does at each login.
    pub fn rounds(&self) -> u32 {
        self.rounds.get()
    }

    /// The keys of a password (RFC 5802, section 3).
    pub(crate) fn derive(password: &[u8], rounds: NonZeroU32, salt: Vec<u8>) -> Self {
        let mut salted = Zeroizing::new([0; KEY_LEN]);
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, &salt, password, salted.as_mut_slice());
        let client_key = Zeroizing::new(hmac_sha256(salted.as_slice(), b"Client Key"));
        let stored_key = sha256(client_key.as_slice());
        let server_key = hmac_sha256(salted.as_slice(), b"Server Key");
        Self { rounds, salt, stored_key, server_key }
    }

    /// Keys shown to a client with an unknown user name. They look as much as possible like the first user's.
    pub(crate) fn stand_in(first: Option<&Self>, salt: &[u8; KEY_LEN], key: [u8; KEY_LEN]) -> Self {
        let usual = NonZeroU32::new(HashKind::SCRAM_ROUNDS).unwrap_or(NonZeroU32::MIN);
        let rounds = first.map_or(usual, |first| first.rounds);
        let length = first.map_or(SALT_LEN, |first| first.salt.len());
        let salt = salt.iter().copied().cycle().take(length).collect();
        Self { rounds, salt, stored_key: key, server_key: key }
    }

    pub(super) fn verify(&self, password: &[u8]) -> bool {
        let derived = Self::derive(password, self.rounds, self.salt.clone());
        derived.stored_key.ct_eq(&self.stored_key).into()
    }
}

/// HMAC-SHA-256.
pub(crate) fn hmac_sha256(key: &[u8], text: &[u8]) -> [u8; KEY_LEN] {
    take(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text).as_ref())
}

/// SHA-256.
pub(crate) fn sha256(bytes: &[u8]) -> [u8; KEY_LEN] {
    take(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn take(bytes: &[u8]) -> [u8; KEY_LEN] {
    let mut key = [0; KEY_LEN];
    for (to, from) in key.iter_mut().zip(bytes) {
        *to = *from;
    }
    key
}

impl fmt::Display for ScramHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (salt, stored, server) = (to_base64(&self.salt), to_base64(&self.stored_key), to_base64(&self.server_key));
        write!(f, "$scram-sha-256${}${salt}${stored}${server}", self.rounds)
    }
}

impl fmt::Debug for ScramHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScramHash").field("rounds", &self.rounds).finish_non_exhaustive()
    }
}
