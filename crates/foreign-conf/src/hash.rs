//! Hashes of other brokers in the forms of our password files.

use data_encoding::{BASE64, HEXLOWER_PERMISSIVE};

/// The place of the salt beside the password that is hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Salt {
    None,
    Prefix,
    Suffix,
}

/// How passwords are hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Plain,
    Sha256(Salt),
    Sha512(Salt),
    Pbkdf2Sha512 { rounds: u32 },
}

/// Why the password of a user cannot be carried over. The texts contain no part of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PasswordError {
    #[error("it has no password")]
    Missing,
    #[error("passwords that are not hashed are taken from files of the type plain alone")]
    NotHashed,
    /// The hash is not of this form.
    #[error("its hash is not of the form {0}")]
    Form(&'static str),
    #[error("its hash is neither hexadecimal digits nor Base64")]
    Digits,
    #[error("its hash is not Base64")]
    Base64,
    #[error("its hash has {found} bytes, not {wanted}")]
    Length { found: usize, wanted: usize },
    #[error("hashes of the kind {0} are not known here")]
    Kind(String),
    #[error("its hash has no salt")]
    NoSalt,
    #[error("its salt is not Base64")]
    Salt,
    #[error("a salt at {0:?} is not known")]
    SaltPlace(String),
    #[error("its iterations are no number")]
    Iterations,
}

/// A hash in hexadecimal digits or Base64 as a line of ours has it behind the user name.
///
/// # Errors
/// When ours has no such form.
pub(crate) fn hashed(algorithm: Algorithm, salt: &[u8], hash: &str) -> Result<String, PasswordError> {
    let (hash_len, form) = match algorithm {
        Algorithm::Plain => return Err(PasswordError::NotHashed),
        Algorithm::Sha256(place) => (32, digest("sha256", place)),
        Algorithm::Sha512(Salt::Suffix) => (64, "6".to_owned()),
        Algorithm::Sha512(place) => (64, digest("sha512", place)),
        Algorithm::Pbkdf2Sha512 { rounds } => (64, format!("7${rounds}")),
    };
    let hash = (HEXLOWER_PERMISSIVE.decode(hash.as_bytes())).or_else(|_| BASE64.decode(hash.as_bytes()));
    let hash = hash.map_err(|_| PasswordError::Digits)?;
    if hash.len() != hash_len {
        return Err(PasswordError::Length { found: hash.len(), wanted: hash_len });
    }
    let salted = !matches!(algorithm, Algorithm::Sha256(Salt::None) | Algorithm::Sha512(Salt::None));
    if salted && salt.is_empty() {
        return Err(PasswordError::NoSalt);
    }
    let salt = if salted { salt } else { &[] };
    Ok(format!("${form}${}${}", BASE64.encode(salt), BASE64.encode(&hash)))
}

fn digest(name: &str, salt: Salt) -> String {
    let place = match salt {
        Salt::None => "unsalted",
        Salt::Prefix => "prefix",
        Salt::Suffix => "suffix",
    };
    format!("digest-{name}-{place}")
}
