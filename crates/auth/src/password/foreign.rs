//! Hashes of other tools: they are recognised, so that they are never hashed as passwords.

/// Prefixes of hashes that other tools write, without regard to case, and their names.
const BEGINNINGS: &[(&str, &str)] = &[
    ("pbkdf2", "PBKDF2 as mosquitto-go-auth, Django or Werkzeug write it"),
    ("scram-sha-", "SCRAM as PostgreSQL writes it"),
    ("bcrypt", "bcrypt as Django writes it"),
    ("argon2", "Argon2 as Django writes it"),
    ("scrypt", "scrypt"),
    ("sha1", "SHA-1"),
    ("sha224", "SHA-2"),
    ("sha256", "SHA-2"),
    ("sha384", "SHA-2"),
    ("sha512", "SHA-2"),
    ("md5", "MD5"),
    ("crypt", "crypt"),
    ("unsalted_", "an unsalted digest of Django"),
];

/// Lengths of digests in hexadecimal digits: MD5, SHA-1, SHA-2.
const DIGESTS: [usize; 6] = [32, 40, 56, 64, 96, 128];

/// The name of another tool's hash; `None` for a text that may be a password.
pub(super) fn kind(text: &str) -> Option<&'static str> {
    // LDAP: {SSHA}...
    if text
        .strip_prefix('{')
        .and_then(|rest| rest.split_once('}'))
        .is_some_and(|(scheme, hash)| is_word(scheme) && !hash.is_empty())
    {
        return Some("a hash of an LDAP directory");
    }
    if DIGESTS.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Some("a digest in hexadecimal digits");
    }
    // A scheme, and at least one part behind it: PBKDF2$sha512$..., pbkdf2:sha256:1000$..., sha1$salt$hash.
    let (scheme, rest) = text.split_once(['$', ':'])?;
    if !is_word(scheme) || !rest.contains('$') {
        return None;
    }
    let scheme = scheme.to_ascii_lowercase();
    BEGINNINGS.iter().find(|(beginning, _)| scheme.starts_with(beginning)).map(|&(_, kind)| kind)
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}
