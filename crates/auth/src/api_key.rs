//! API keys of users, such as programs of a customer: `tg.USER.ID.SECRET`.
//!
//! A file of keys has the form of a file of users: `USER.ID:HASH` on each line. The secret has 256 random bits, so
//! its SHA-256 without a salt cannot be guessed, and a key is checked in a microsecond.

use std::path::{Path, PathBuf};

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};

use crate::password::{HashError, PasswordHash, UserFile, UserFileError, UserName, random};

/// The beginning of each key.
const BEGINNING: &str = "tg.";
/// Longest user name of a key, bytes.
const MAX_USER_LEN: usize = 64;
/// Bytes of an id.
const ID_LEN: usize = 6;
/// Bytes of a secret.
const SECRET_LEN: usize = 32;

/// Why a file of keys is not used or not changed.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// The file is missing or wrong.
    #[error(transparent)]
    File(#[from] UserFileError),
    /// A name in the file is no `USER.ID`.
    #[error("{}: `{name}` is not an entry USER.ID:HASH of a key file; create keys with `tidegate key add`", file.display())]
    Entry {
        /// The file.
        file: PathBuf,
        /// The name.
        name: String,
    },
    /// The user name cannot be in a key.
    #[error("the user of a key has 1 to 64 letters, digits, `-` and `_`")]
    User,
    /// The key cannot be made.
    #[error(transparent)]
    Hash(#[from] HashError),
}

/// The public parts of a key: its user and its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyName<'a> {
    /// The user name of the clients that show the key.
    pub user: &'a str,
    /// The name of the key among the keys of its user.
    pub id: &'a str,
}

impl<'a> KeyName<'a> {
    /// The parts of a key that a client shows; `None` when the bytes are no key.
    pub fn of_key(key: &'a [u8]) -> Option<Self> {
        let parts = std::str::from_utf8(key).ok()?.strip_prefix(BEGINNING)?;
        let (name, secret) = parts.rsplit_once('.')?;
        Self::of_entry(name).filter(|_| !secret.is_empty())
    }

    /// The parts of an entry of a file.
    fn of_entry(name: &'a str) -> Option<Self> {
        let (user, id) = name.split_once('.')?;
        (is_user(user) && is_user(id)).then_some(Self { user, id })
    }

    /// The name of its entry in a file.
    pub(crate) fn entry(&self) -> String {
        format!("{}.{}", self.user, self.id)
    }
}

fn is_user(text: &str) -> bool {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=MAX_USER_LEN).contains(&text.len()) && text.bytes().all(is_fine)
}

/// A file of keys.
#[derive(Clone, Debug, Default)]
pub struct KeyFile(UserFile);

impl KeyFile {
    /// Reads a file.
    ///
    /// # Errors
    /// When the file cannot be read, or an entry is wrong. A file that is right in part is not used in part.
    pub fn load(path: &Path) -> Result<Self, KeyFileError> {
        let file = UserFile::load(path)?;
        if let Some((name, _)) = file.users().find(|(name, _)| KeyName::of_entry(name.as_str()).is_none()) {
            return Err(KeyFileError::Entry { file: path.to_owned(), name: name.as_str().to_owned() });
        }
        Ok(Self(file))
    }

    /// Replaces the file as a whole.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), KeyFileError> {
        Ok(self.0.save(path)?)
    }

    /// Makes a key for a user. The text is in no file: it cannot be shown again.
    ///
    /// # Errors
    /// When the user name cannot be in a key, or the system gives no random numbers.
    pub fn add(&mut self, user: &str) -> Result<String, KeyFileError> {
        if !is_user(user) {
            return Err(KeyFileError::User);
        }
        let id = HEXLOWER.encode(&random::<ID_LEN>()?);
        let entry = KeyName { user, id: &id }.entry();
        let key = format!("{BEGINNING}{entry}.{}", BASE64URL_NOPAD.encode(&random::<SECRET_LEN>()?));
        let name = UserName::new(&entry).map_err(|_| KeyFileError::User)?;
        self.0.set(name, PasswordHash::of_random(key.as_bytes()));
        Ok(key)
    }

    /// Removes the key with this id; false when no key has it.
    pub fn revoke(&mut self, id: &str) -> bool {
        let found = self.0.users().map(|(name, _)| name.clone());
        let found = found.into_iter().find(|name| KeyName::of_entry(name.as_str()).is_some_and(|key| key.id == id));
        found.is_some_and(|name| self.0.remove(&name))
    }

    /// The keys, in the order of the file.
    pub fn names(&self) -> impl Iterator<Item = KeyName<'_>> {
        self.0.users().filter_map(|(name, _)| KeyName::of_entry(name.as_str()))
    }

    /// The keys with their hashes.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (KeyName<'_>, &PasswordHash)> {
        self.0.users().filter_map(|(name, hash)| Some((KeyName::of_entry(name.as_str())?, hash)))
    }

    /// Whether others than its owner may read or write the file.
    pub fn is_exposed(&self) -> bool {
        self.0.is_exposed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_named_and_revoked() {
        let mut keys = KeyFile::default();
        let one = keys.add("acme").unwrap();
        let other = keys.add("acme").unwrap();
        let name = KeyName::of_key(one.as_bytes()).unwrap();
        assert_eq!((name.user, name.id.len(), one.len()), ("acme", 12, 3 + 4 + 1 + 12 + 1 + 43));
        assert_ne!(one, other);
        assert_eq!(keys.names().count(), 2);
        assert!(keys.revoke(name.id) && !keys.revoke(name.id));
        let left: Vec<_> = keys.names().collect();
        assert_eq!(left, [KeyName::of_key(other.as_bytes()).unwrap()]);
    }

    #[test]
    fn other_texts_are_no_keys() {
        for text in ["", "tg.", "tg.acme", "tg.acme.1", "tg.acme.1.", "tg..1.x", "ey.a.b.c", "tg.a b.1.x", "tg.a.b.c.d"]
        {
            assert_eq!(KeyName::of_key(text.as_bytes()), None, "{text}");
        }
        assert!(KeyName::of_key(&[0xff]).is_none());
        for user in ["", "a.b", "a:b", "ä", &"x".repeat(65)] {
            assert!(matches!(KeyFile::default().add(user), Err(KeyFileError::User)), "{user}");
        }
    }
}
