//! A file of users: `NAME:HASH` on each line. Empty lines and lines that begin with `#` are comments, and stay where
//! they are when the file is written.

use std::fmt::{self, Write as _};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::{HashError, HashKind, PasswordHash};

/// Largest file of users that is read, in bytes: room for more than half a million users.
const MAX_FILE_LEN: u64 = 128 * 1024 * 1024;

const MIB: u64 = 1024 * 1024;

/// The mode of a new file: for its owner alone.
const PRIVATE_MODE: u32 = 0o600;

/// Permission bits of others than the owner.
const OTHERS: u32 = 0o077;
/// The mode bits that allow other users to write.
const WRITE: u32 = 0o022;

/// A user name that a file can hold: not empty, at most 65535 bytes, without `:` and control characters, and not
/// beginning with `#` or white space.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UserName(String);

/// Why a text is no user name for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserNameError {
    /// It is empty.
    #[error("a user name must not be empty")]
    Empty,
    /// It is longer than MQTT can say.
    #[error("a user name must be at most 65535 bytes")]
    Length,
    /// The name cannot be written to a line of a file.
    #[error(
        "a user name must not contain `:` or control characters, nor begin with `#` or a space, nor end with a space"
    )]
    Character,
}

impl UserName {
    /// Checks a user name.
    ///
    /// # Errors
    /// When it cannot be written to a file.
    pub fn new(text: &str) -> Result<Self, UserNameError> {
        if text.is_empty() {
            return Err(UserNameError::Empty);
        }
        if text.len() > usize::from(u16::MAX) {
            return Err(UserNameError::Length);
        }
        let wrong = |character: char| character == ':' || character.is_control();
        if text.contains(wrong) || text.starts_with('#') || text.trim() != text {
            return Err(UserNameError::Character);
        }
        Ok(Self(text.to_owned()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a file of users cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UserFileError {
    /// It cannot be read.
    #[error("cannot read {}: {error}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It is larger than any file of users.
    #[error("{} is larger than 128 MiB, too large for a file of users", file.display())]
    Size {
        /// The file.
        file: PathBuf,
    },
    /// It is not UTF-8.
    #[error("{} is not UTF-8 text", file.display())]
    Text {
        /// The file.
        file: PathBuf,
    },
    /// A line is wrong.
    #[error("{}:{line}: {problem}", file.display())]
    Line {
        /// The file.
        file: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The fault of the line.
        problem: LineError,
    },
    /// It cannot be written.
    #[error("cannot write {}: {error}", file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// Faults of a line in a file of users.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// There is no colon.
    #[error("a line must be NAME:HASH")]
    NoColon,
    /// The name is invalid.
    #[error(transparent)]
    Name(#[from] UserNameError),
    /// The hash is invalid.
    #[error(transparent)]
    Hash(#[from] HashError),
    /// The file contains the user already, with a hash of this sort.
    #[error("the user is in line {0} already; delete one of them")]
    Again(usize),
    /// Verifying the hash takes more memory than there may be for it.
    #[error(
        "the hash needs {} MiB of memory, more than the {} MiB of `authentication.hash_memory`; raise that limit, or set the password again with `tidegate passwd`", needed.div_ceil(MIB), limit / MIB
    )]
    Memory {
        /// Bytes that it needs.
        needed: u64,
        /// Bytes that there may be.
        limit: u64,
    },
}

/// A line as it is kept.
#[derive(Clone, Debug)]
enum Line {
    /// A line without a user.
    Comment(String),
    /// A user.
    User(UserName, PasswordHash),
}

/// The content of a file of users.
#[derive(Clone, Debug, Default)]
pub struct UserFile {
    lines: Vec<Line>,
    /// Permission bits of others than the owner when the file was read; not 0 if others could read or write it.
    others: u32,
}

impl UserFile {
    /// Reads a file; symbolic links are followed.
    ///
    /// # Errors
    /// When it cannot be read, or any line of it is wrong. A file that is right in part is not used in part.
    pub fn load(path: &Path) -> Result<Self, UserFileError> {
        let (text, others) = read(path)?;
        let lines =
            parse(&text).map_err(|(line, problem)| UserFileError::Line { file: path.to_owned(), line, problem })?;
        Ok(Self { lines, others })
    }

    /// Reads a file that may contain plain passwords, and hashes them.
    ///
    /// # Errors
    /// As [`UserFile::load`], but for passwords that are not hashed; hashes of other tools are no passwords. Also gives
    /// how many were hashed.
    pub fn load_and_upgrade(path: &Path, kind: HashKind) -> Result<(Self, usize), UserFileError> {
        let (text, others) = read(path)?;
        let mut upgraded = 0;
        let mut hashed = String::with_capacity(text.len());
        for (number, line) in (1..).zip(text.lines()) {
            let refuse = |problem| UserFileError::Line { file: path.to_owned(), line: number, problem };
            match line.split_once(':') {
                Some((name, password)) if !is_comment(line) && !password.starts_with('$') => {
                    let password = password.trim_end_matches('\r');
                    if let Err(foreign @ HashError::Foreign(_)) = PasswordHash::parse(password) {
                        return Err(refuse(foreign.into()));
                    }
                    let hash = PasswordHash::create(kind, password.as_bytes()).map_err(|error| refuse(error.into()))?;
                    let _ = writeln!(hashed, "{name}:{hash}");
                    upgraded += 1;
                }
                _ => {
                    hashed.push_str(line);
                    hashed.push('\n');
                }
            }
        }
        let lines =
            parse(&hashed).map_err(|(line, problem)| UserFileError::Line { file: path.to_owned(), line, problem })?;
        Ok((Self { lines, others }, upgraded))
    }

    /// Whether others than its owner may read or write the file.
    pub fn is_exposed(&self) -> bool {
        self.others != 0
    }

    /// Whether others than its owner may write the file, and so let themselves in.
    pub fn is_open(&self) -> bool {
        self.others & WRITE != 0
    }

    /// Whether each of these hashes can be verified within this number of bytes; `wanted` says which are looked at.
    ///
    /// # Errors
    /// The first line whose hash needs more; `path` is named as the file.
    pub fn check_memory(
        &self,
        path: &Path,
        limit: u64,
        wanted: impl Fn(&PasswordHash) -> bool,
    ) -> Result<(), UserFileError> {
        for (line, content) in (1..).zip(&self.lines) {
            if let Line::User(_, hash) = content
                && wanted(hash)
                && hash.memory() > limit
            {
                let problem = LineError::Memory { needed: hash.memory(), limit };
                return Err(UserFileError::Line { file: path.to_owned(), line, problem });
            }
        }
        Ok(())
    }

    /// The users, in the order of the file. A user may occur twice: for SCRAM, and for passwords.
    pub fn users(&self) -> impl Iterator<Item = (&UserName, &PasswordHash)> {
        self.lines.iter().filter_map(|line| match line {
            Line::User(name, hash) => Some((name, hash)),
            Line::Comment(_) => None,
        })
    }

    /// Sets a user's hash: in place of the hash of the same sort (SCRAM or not), else at the end.
    pub fn set(&mut self, user: UserName, hash: PasswordHash) {
        let sort = hash.scram().is_some();
        for line in &mut self.lines {
            if let Line::User(name, old) = line
                && *name == user
                && old.scram().is_some() == sort
            {
                *old = hash;
                return;
            }
        }
        self.lines.push(Line::User(user, hash));
    }

    /// Removes a user with all its hashes; whether there was one.
    pub fn remove(&mut self, user: &UserName) -> bool {
        let before = self.lines.len();
        self.lines.retain(|line| !matches!(line, Line::User(name, _) if name == user));
        self.lines.len() < before
    }

    /// Writes a new file beside the old one and renames it, so that a reader finds either file complete. A
    /// new file is readable by its owner only; an existing one keeps its owner and mode.
    ///
    /// # Errors
    /// When it cannot be written; the old one is then as it was.
    pub fn save(&self, path: &Path) -> Result<(), UserFileError> {
        let failed = |error| UserFileError::Write { file: path.to_owned(), error };
        // The target of a link is replaced, not the link.
        let target = if path.exists() { fs::canonicalize(path).map_err(failed)? } else { path.to_owned() };
        let mut name = target.file_name().unwrap_or_default().to_owned();
        name.push(format!(".new-{}", std::process::id()));
        let fresh = target.with_file_name(name);
        let outcome = self.write_to(&fresh, &target).and_then(|()| fs::rename(&fresh, &target));
        if outcome.is_err() {
            let _ = fs::remove_file(&fresh);
        }
        outcome.map_err(failed)?;
        sync_folder(&target);
        Ok(())
    }

    fn write_to(&self, fresh: &Path, target: &Path) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(PRIVATE_MODE).open(fresh)?;
        if let Ok(old) = fs::metadata(target) {
            file.set_permissions(fs::Permissions::from_mode(old.mode() & 0o7777))?;
            let new = file.metadata()?;
            if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
                std::os::unix::fs::fchown(&file, Some(old.uid()), Some(old.gid()))?;
            }
        }
        file.write_all(self.to_string().as_bytes())?;
        file.sync_all()
    }
}

/// The new name is on the disk, too. Where a folder cannot be synced, the file is there all the same.
fn sync_folder(target: &Path) {
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
}

impl fmt::Display for UserFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            match line {
                Line::Comment(text) => writeln!(f, "{text}")?,
                Line::User(name, hash) => writeln!(f, "{}:{hash}", name.as_str())?,
            }
        }
        Ok(())
    }
}

/// The text of a file, and the permission bits of others than its owner.
fn read(path: &Path) -> Result<(String, u32), UserFileError> {
    let failed = |error| UserFileError::Read { file: path.to_owned(), error };
    let file = tidegate_setting_file::open(path).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.mode();
    let mut bytes = Vec::new();
    file.take(MAX_FILE_LEN + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_FILE_LEN {
        return Err(UserFileError::Size { file: path.to_owned() });
    }
    let text = String::from_utf8(bytes).map_err(|_| UserFileError::Text { file: path.to_owned() })?;
    // Some editors, of Windows above all, put a byte order mark before the text.
    let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
    Ok((text, mode & OTHERS))
}

fn is_comment(line: &str) -> bool {
    line.trim().is_empty() || line.starts_with('#')
}

fn parse(text: &str) -> Result<Vec<Line>, (usize, LineError)> {
    let mut lines = Vec::new();
    let mut seen = std::collections::HashMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        if is_comment(line) {
            lines.push(Line::Comment(line.trim_end().to_owned()));
            continue;
        }
        let (user, hash) = user(line).map_err(|problem| (number, problem))?;
        if let Some(earlier) = seen.insert((user.clone(), hash.scram().is_some()), number) {
            return Err((number, LineError::Again(earlier)));
        }
        lines.push(Line::User(user, hash));
    }
    Ok(lines)
}

fn user(line: &str) -> Result<(UserName, PasswordHash), LineError> {
    let (name, hash) = line.split_once(':').ok_or(LineError::NoColon)?;
    Ok((UserName::new(name)?, PasswordHash::parse(hash.trim_end())?))
}

#[cfg(test)]
pub(crate) fn parse_text(text: &str) -> Result<UserFile, (usize, LineError)> {
    parse(text).map(|lines| UserFile { lines, others: 0 })
}
