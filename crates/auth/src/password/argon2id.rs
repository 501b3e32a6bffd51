//! `$argon2id$v=19$m=KIB,t=PASSES,p=LANES$SALT$HASH`: Argon2id (RFC 9106) in the PHC string format.

use std::fmt;

use argon2::{Algorithm, Argon2, Params, Version};
use data_encoding::BASE64_NOPAD;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::blocks::Blocks;
use super::{HashError, from_base64, random, salt};

/// The cost of a new hash: the first choice of OWASP's cheat sheet for password storage where memory counts.
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
const LANES: u32 = 1;
const SALT_LEN: usize = 16;
const HASH_LEN: usize = 32;

/// The greatest accepted cost of a stored hash. A configured limit applies to memory, too.
const MEMORY_KIB_MAX: u32 = 4 * 1024 * 1024;
const PASSES_MAX: u32 = 64;
const LANES_MAX: u32 = 16;
const HASH_LEN_MAX: usize = 128;

/// Shortest salt and hash (RFC 9106, 3.1).
const SALT_LEN_MIN: usize = 8;
const HASH_LEN_MIN: usize = 4;

#[derive(Clone, PartialEq, Eq)]
pub(super) struct Argon2id {
    memory_kib: u32,
    passes: u32,
    lanes: u32,
    salt: Vec<u8>,
    hash: Vec<u8>,
}

impl Argon2id {
    pub(super) fn parse(text: &str) -> Result<Self, HashError> {
        let parts: Vec<&str> = text.split('$').collect();
        let ["v=19", costs, salted, hash] = parts.as_slice() else {
            return Err(HashError::Parts);
        };
        let costs: Vec<&str> = costs.split(',').collect();
        let [memory, passes, lanes] = costs.as_slice() else {
            return Err(HashError::Parts);
        };
        let read = Self {
            memory_kib: cost(memory, "m=", MEMORY_KIB_MAX)?,
            passes: cost(passes, "t=", PASSES_MAX)?,
            lanes: cost(lanes, "p=", LANES_MAX)?,
            salt: salt(salted)?,
            hash: from_base64(hash)?,
        };
        if read.salt.len() < SALT_LEN_MIN || !(HASH_LEN_MIN..=HASH_LEN_MAX).contains(&read.hash.len()) {
            return Err(HashError::Length);
        }
        // The library has bounds of its own between the costs.
        read.params()?;
        Ok(read)
    }

    pub(super) fn create(password: &[u8]) -> Result<Self, HashError> {
        let salt = random::<SALT_LEN>()?.to_vec();
        let empty = Self { memory_kib: MEMORY_KIB, passes: PASSES, lanes: LANES, salt, hash: vec![0; HASH_LEN] };
        let hash = empty.hash(password)?.to_vec();
        Ok(Self { hash, ..empty })
    }

    pub(super) fn verify(&self, password: &[u8]) -> Result<bool, HashError> {
        Ok(self.hash(password)?.as_slice().ct_eq(&self.hash).into())
    }

    /// Memory that verifying takes, bytes.
    pub(super) fn memory(&self) -> u64 {
        u64::from(self.memory_kib) * 1024
    }

    fn params(&self) -> Result<Params, HashError> {
        Params::new(self.memory_kib, self.passes, self.lanes, Some(self.hash.len())).map_err(|_| HashError::Cost)
    }

    fn hash(&self, password: &[u8]) -> Result<Zeroizing<Vec<u8>>, HashError> {
        let mut out = Zeroizing::new(vec![0; self.hash.len()]);
        let params = self.params()?;
        let blocks = Blocks::map(params.block_count()).map_err(|_| HashError::OutOfMemory)?;
        Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
            .hash_password_into_with_memory(password, &self.salt, &mut out, blocks)
            .map_err(|_| HashError::Cost)?;
        Ok(out)
    }
}

fn cost(text: &str, name: &str, max: u32) -> Result<u32, HashError> {
    let number = text.strip_prefix(name).and_then(|digits| digits.parse::<u32>().ok());
    number.filter(|number| (1..=max).contains(number)).ok_or(HashError::Cost)
}

impl fmt::Display for Argon2id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { memory_kib, passes, lanes, salt, hash } = self;
        let (salt, hash) = (BASE64_NOPAD.encode(salt), BASE64_NOPAD.encode(hash));
        write!(f, "$argon2id$v=19$m={memory_kib},t={passes},p={lanes}${salt}${hash}")
    }
}
