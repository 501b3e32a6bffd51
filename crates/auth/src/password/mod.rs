//! Hashes of passwords, and files of users.
//!
//! Mosquitto's hashes are read unchanged: `$6$` (SHA-512 with a salt), `$7$` (PBKDF2 with SHA-512) and `$argon2id$`.
//! `$digest-...$` are hashes of EMQX and RabbitMQ, which `config convert` carries over.
//! New hashes are `$argon2id$`, `$7$` for files that an older Mosquitto shares, and `$scram-sha-256$`, which contains
//! only the keys that a server needs for SCRAM (as in RFC 5803).

mod argon2id;
mod blocks;
mod digest;
mod foreign;
mod pbkdf2_sha512;
mod scram;
mod sha512;
mod user_file;

#[cfg(test)]
mod tests;

use std::fmt;

use data_encoding::{BASE64, BASE64_NOPAD};
use ring::rand::{SecureRandom, SystemRandom};

pub use scram::ScramHash;
pub(crate) use scram::{hmac_sha256, sha256};
pub use user_file::{LineError, UserFile, UserFileError, UserName, UserNameError};

use argon2id::Argon2id;
use digest::Digest;
use pbkdf2_sha512::Pbkdf2Sha512;
use sha512::SaltedSha512;

/// Longest password that is hashed, in bytes; the limit of MQTT (MQTT 5, 1.5.6).
pub const MAX_PASSWORD_LEN: usize = 65_535;

/// Longest salt that is read, in bytes.
const MAX_SALT_LEN: usize = 128;

/// Most rounds of PBKDF2 that are read: beyond, a line of a file would occupy a thread for seconds.
const MAX_ROUNDS: u32 = 10_000_000;

/// A password as a file keeps it.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash(Kind);

#[derive(Clone, PartialEq, Eq)]
enum Kind {
    Sha512(SaltedSha512),
    Digest(Digest),
    Pbkdf2(Pbkdf2Sha512),
    Argon2id(Argon2id),
    Scram(ScramHash),
}

/// Kinds of hashes that are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HashKind {
    /// Argon2id (RFC 9106) with 19 MiB, two passes and one lane.
    #[default]
    Argon2id,
    /// PBKDF2 with SHA-512, which Mosquitto reads since 2.0.
    Pbkdf2Sha512 {
        /// Rounds, 1 to 10,000,000.
        rounds: u32,
    },
    /// The server's keys for SCRAM-SHA-256.
    ScramSha256 {
        /// Rounds, 4096 to 10,000,000. The client has to do them at each login.
        rounds: u32,
    },
}

impl HashKind {
    /// Default rounds of PBKDF2 with SHA-512.
    pub const PBKDF2_ROUNDS: u32 = 210_000;
    /// Default rounds of SCRAM-SHA-256; RFC 7677 recommends as many where clients are small.
    pub const SCRAM_ROUNDS: u32 = 15_000;
    /// Fewest rounds of SCRAM-SHA-256 (RFC 7677, section 4).
    pub const SCRAM_ROUNDS_MIN: u32 = 4_096;
}

/// Why a hash is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HashError {
    /// It does not look like a hash at all.
    #[error("the password is not hashed; `tidegate passwd -U FILE` hashes all passwords of a file")]
    Plain,
    /// It is a hash of another tool.
    #[error("unsupported hash ({0}); give the user a password with `tidegate passwd FILE NAME`")]
    Foreign(&'static str),
    /// Its kind is unknown.
    #[error("unknown kind of hash; supported are $6$, $7$, $argon2id$, $scram-sha-256$ and $digest-...$")]
    UnknownKind,
    /// A part is missing, or there is one too many.
    #[error("the hash is incomplete or has too many parts")]
    Parts,
    /// A part is no Base64.
    #[error("a part of the hash is not Base64")]
    Encoding,
    /// A field has the wrong length.
    #[error("a part of the hash has the wrong length")]
    Length,
    /// A cost parameter is invalid or above the limit.
    #[error("a cost of the hash is missing, zero or too high")]
    Cost,
    /// The password cannot be hashed.
    #[error("the password is longer than 65535 bytes")]
    PasswordLength,
    /// The system gives no random numbers.
    #[error("the system gives no random numbers")]
    Random,
    /// The system gives no memory for hashing.
    #[error("the system gives no memory for hashing")]
    OutOfMemory,
}

impl PasswordHash {
    /// Reads the hash after a user name in a file.
    ///
    /// # Errors
    /// When it is no hash of a known kind.
    pub fn parse(text: &str) -> Result<Self, HashError> {
        let Some(rest) = text.strip_prefix('$') else {
            return Err(foreign::kind(text).map_or(HashError::Plain, HashError::Foreign));
        };
        let (kind, rest) = rest.split_once('$').ok_or(HashError::UnknownKind)?;
        Ok(Self(match kind {
            "6" => Kind::Sha512(SaltedSha512::parse(rest)?),
            "7" => Kind::Pbkdf2(Pbkdf2Sha512::parse(rest)?),
            "argon2id" => Kind::Argon2id(Argon2id::parse(rest)?),
            "scram-sha-256" => Kind::Scram(ScramHash::parse(rest)?),
            _ => match kind.strip_prefix(digest::BEGINNING) {
                Some(kind) => Kind::Digest(Digest::parse(kind, rest)?),
                None => return Err(HashError::UnknownKind),
            },
        }))
    }

    /// Hashes a password with a fresh salt. It takes as long as it is meant to.
    ///
    /// # Errors
    /// When the password is too long, a number of rounds is out of range, or the system gives no random numbers.
    pub fn create(kind: HashKind, password: &[u8]) -> Result<Self, HashError> {
        if password.len() > MAX_PASSWORD_LEN {
            return Err(HashError::PasswordLength);
        }
        Ok(Self(match kind {
            HashKind::Argon2id => Kind::Argon2id(Argon2id::create(password)?),
            HashKind::Pbkdf2Sha512 { rounds } => Kind::Pbkdf2(Pbkdf2Sha512::create(password, rounds)?),
            HashKind::ScramSha256 { rounds } => Kind::Scram(ScramHash::create(password, rounds)?),
        }))
    }

    /// Hashes a secret of at least 256 random bits. Such a secret cannot be guessed, so a fast hash protects it.
    pub(crate) fn of_random(secret: &[u8]) -> Self {
        Self(Kind::Digest(Digest::of_random(secret)))
    }

    /// Whether this is the password. The time depends on the parameters, not on the compared bytes.
    ///
    /// # Errors
    /// When the system has no memory for it.
    pub fn verify(&self, password: &[u8]) -> Result<bool, HashError> {
        if password.len() > MAX_PASSWORD_LEN {
            return Ok(false);
        }
        Ok(match &self.0 {
            Kind::Sha512(hash) => hash.verify(password),
            Kind::Digest(hash) => hash.verify(password),
            Kind::Pbkdf2(hash) => hash.verify(password),
            Kind::Argon2id(hash) => hash.verify(password)?,
            Kind::Scram(hash) => hash.verify(password),
        })
    }

    /// Memory that [`PasswordHash::verify`] needs while it runs, bytes; 0 if it needs only its stack.
    pub fn memory(&self) -> u64 {
        match &self.0 {
            Kind::Argon2id(hash) => hash.memory(),
            Kind::Sha512(_) | Kind::Digest(_) | Kind::Pbkdf2(_) | Kind::Scram(_) => 0,
        }
    }

    /// The SCRAM keys, if it is of that kind.
    pub fn scram(&self) -> Option<&ScramHash> {
        match &self.0 {
            Kind::Scram(hash) => Some(hash),
            _ => None,
        }
    }
}

impl fmt::Display for PasswordHash {
    /// The form used in a file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Sha512(hash) => hash.fmt(f),
            Kind::Digest(hash) => hash.fmt(f),
            Kind::Pbkdf2(hash) => hash.fmt(f),
            Kind::Argon2id(hash) => hash.fmt(f),
            Kind::Scram(hash) => hash.fmt(f),
        }
    }
}

impl fmt::Debug for PasswordHash {
    /// Names the kind alone: who has a hash can guess at leisure.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            Kind::Sha512(_) => "PasswordHash($6$)",
            Kind::Digest(_) => "PasswordHash($digest$)",
            Kind::Pbkdf2(_) => "PasswordHash($7$)",
            Kind::Argon2id(_) => "PasswordHash($argon2id$)",
            Kind::Scram(_) => "PasswordHash($scram-sha-256$)",
        })
    }
}

/// Reads Base64 with or without padding: the PHC string format leaves it out, Mosquitto writes it.
fn from_base64(text: &str) -> Result<Vec<u8>, HashError> {
    BASE64_NOPAD.decode(text.trim_end_matches('=').as_bytes()).map_err(|_| HashError::Encoding)
}

fn to_base64(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

/// A salt as it may be: some bytes, but not any number of them.
fn salt(text: &str) -> Result<Vec<u8>, HashError> {
    let salt = from_base64(text)?;
    if salt.is_empty() || salt.len() > MAX_SALT_LEN { Err(HashError::Length) } else { Ok(salt) }
}

/// The number of rounds, if it is in range.
fn rounds(text: &str) -> Result<std::num::NonZeroU32, HashError> {
    let rounds = text.parse::<u32>().map_err(|_| HashError::Cost)?;
    checked_rounds(rounds)
}

fn checked_rounds(rounds: u32) -> Result<std::num::NonZeroU32, HashError> {
    std::num::NonZeroU32::new(rounds).filter(|rounds| rounds.get() <= MAX_ROUNDS).ok_or(HashError::Cost)
}

/// Random bytes.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], HashError> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| HashError::Random)?;
    Ok(bytes)
}
