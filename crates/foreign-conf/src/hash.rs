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

/// A hash in hexadecimal digits or Base64 as a line of ours has it behind the user name.
///
/// # Errors
/// When ours has no such form.
pub(crate) fn hashed(algorithm: Algorithm, salt: &[u8], hash: &str) -> Result<String, String> {
    let (hash_len, form) = match algorithm {
        Algorithm::Plain => {
            return Err("passwords that are not hashed are taken from files of the type plain alone".to_owned());
        }
        Algorithm::Sha256(place) => (32, digest("sha256", place)),
        Algorithm::Sha512(Salt::Suffix) => (64, "6".to_owned()),
        Algorithm::Sha512(place) => (64, digest("sha512", place)),
        Algorithm::Pbkdf2Sha512 { rounds } => (64, format!("7${rounds}")),
    };
    let hash = (HEXLOWER_PERMISSIVE.decode(hash.as_bytes())).or_else(|_| BASE64.decode(hash.as_bytes()));
    let hash = hash.map_err(|_| "its hash is neither hexadecimal digits nor Base64".to_owned())?;
    if hash.len() != hash_len {
        return Err(format!("its hash has {} bytes, not {hash_len}", hash.len()));
    }
    let salted = !matches!(algorithm, Algorithm::Sha256(Salt::None) | Algorithm::Sha512(Salt::None));
    if salted && salt.is_empty() {
        return Err("its hash has no salt".to_owned());
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
