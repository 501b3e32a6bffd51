//! The file of pre-shared keys: a line `IDENTITY:KEY` for each client, with the key in hexadecimal digits.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// Shortest key, bytes: 128 bits, as the cipher has.
const MIN_KEY: usize = 16;
/// Longest key, bytes.
const MAX_KEY: usize = 64;
/// Longest identity, bytes [RFC 4279, 5.3].
const MAX_IDENTITY: usize = 128;
/// Longest file, bytes.
const MAX_FILE: u64 = 64 << 20;

/// Why a file of keys is refused.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// It cannot be read.
    #[error("cannot read the keys in {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// It is longer than 64 MiB.
    #[error("{} is longer than 64 MiB: give listeners files of their own", .0.display())]
    TooLong(PathBuf),
    /// A line is wrong.
    #[error("{}, line {line}: {why}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1 on.
        line: usize,
        /// The fault.
        why: &'static str,
    },
}

/// The size and the time of the last change of a file.
type Version = (u64, SystemTime);

struct Read {
    version: Version,
    keys: HashMap<String, Vec<u8>>,
    /// Why the present file is refused, so that the log has each reason once.
    error: Option<String>,
}

/// The keys of a listener. The file is read again when it has changed.
pub struct Keys {
    path: PathBuf,
    read: Mutex<Read>,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The keys are secret.
        f.debug_struct("Keys").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Keys {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, or a line is wrong.
    pub fn open(path: &Path) -> Result<Self, KeysError> {
        let version = version_of(path)?;
        let read = Read { version, keys: read(path)?, error: None };
        Ok(Self { path: path.to_owned(), read: Mutex::new(read) })
    }

    /// The key of an identity.
    pub(super) fn find(&self, identity: &str) -> Option<Vec<u8>> {
        self.present().keys.get(identity).cloned()
    }

    /// The keys of the file as it is now; the earlier keys while it cannot be read.
    fn present(&self) -> MutexGuard<'_, Read> {
        let mut known = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let version = version_of(&self.path);
        if version.as_ref().is_ok_and(|version| *version == known.version) {
            return known;
        }
        match version.and_then(|version| Ok((version, read(&self.path)?))) {
            Ok((version, keys)) => *known = Read { version, keys, error: None },
            Err(error) => {
                let error = error.to_string();
                if known.error.as_ref() != Some(&error) {
                    tracing::warn!("the keys of before hold: {error}");
                    known.error = Some(error);
                }
            }
        }
        known
    }
}

fn version_of(path: &Path) -> Result<Version, KeysError> {
    let found = fs::metadata(path).and_then(|it| Ok((it.len(), it.modified()?)));
    found.map_err(|source| KeysError::Read { path: path.to_owned(), source })
}

fn read(path: &Path) -> Result<HashMap<String, Vec<u8>>, KeysError> {
    let failed = |source| KeysError::Read { path: path.to_owned(), source };
    if fs::metadata(path).map_err(failed)?.len() > MAX_FILE {
        return Err(KeysError::TooLong(path.to_owned()));
    }
    let text = tidegate_setting_file::open(path).and_then(io::read_to_string).map_err(failed)?;
    parse(&text).map_err(|(line, why)| KeysError::Line { path: path.to_owned(), line, why })
}

/// The keys of a text, or the number of the wrong line and the reason.
fn parse(text: &str) -> Result<HashMap<String, Vec<u8>>, (usize, &'static str)> {
    let mut keys = HashMap::new();
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim_end();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let refuse = |why| Err((number, why));
        // The identity may have colons, the key cannot.
        let Some((identity, key)) = line.rsplit_once(':') else { return refuse("write IDENTITY:KEY") };
        if identity.is_empty() || identity.len() > MAX_IDENTITY {
            return refuse("the identity must have 1 to 128 bytes");
        }
        let Some(key) = bytes_of(key) else { return refuse("the key must be hexadecimal digits, two for each byte") };
        if !(MIN_KEY..=MAX_KEY).contains(&key.len()) {
            return refuse("the key must have 16 to 64 bytes");
        }
        if keys.insert(identity.to_owned(), key).is_some() {
            return refuse("the identity has a key already");
        }
    }
    Ok(keys)
}

/// The bytes of hexadecimal digits.
fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| match pair {
        [high, low] => {
            let digit = |byte: u8| char::from(byte).to_digit(16);
            u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()
        }
        _ => None,
    };
    pairs.map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "00112233445566778899aabbccddeeFF";

    #[test]
    fn each_line_has_an_identity_and_a_key() {
        let keys = parse(&format!("# pumps\n\npump:7:{KEY}\nh\u{e4}:{KEY}{KEY}\r\n")).unwrap();
        assert_eq!((keys["pump:7"].len(), keys["pump:7"][15], keys["h\u{e4}"].len()), (16, 0xFF, 32));
        for (text, line) in [
            ("a".to_owned(), 1),
            (format!("\n:{KEY}"), 2),
            (format!("a:{KEY}0"), 1),
            (format!("a:{KEY}0g"), 1),
            ("a:0011".to_owned(), 1),
            (format!("a:{KEY}{KEY}{KEY}{KEY}00"), 1),
            (format!("a:{KEY}\na:{KEY}"), 2),
            (format!("{}:{KEY}", "a".repeat(129)), 1),
        ] {
            assert_eq!(parse(&text).unwrap_err().0, line, "{text}");
        }
    }

    #[test]
    fn a_changed_file_is_read_again_and_a_wrong_one_is_not() {
        let folder = std::env::temp_dir().join(format!("tidegate-keys-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("keys");
        fs::write(&path, format!("a:{KEY}\n")).unwrap();
        let keys = Keys::open(&path).unwrap();
        assert!(keys.find("a").is_some() && keys.find("b").is_none());
        fs::write(&path, format!("a:{KEY}\nb:{KEY}\n")).unwrap();
        assert!(keys.find("b").is_some());
        fs::write(&path, "nonsense").unwrap();
        assert!(keys.find("b").is_some(), "the keys of before hold");
        fs::write(&path, format!("c:{KEY}\n")).unwrap();
        assert!(keys.find("c").is_some() && keys.find("a").is_none());
        fs::remove_dir_all(&folder).unwrap();
        assert!(keys.find("c").is_some());
    }
}
