//! Loads the configuration from its sources: a file, the environment and the command line.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::finding::Findings;
use crate::overrides::Flags;
use crate::source::FileText;
use crate::{Config, Inputs};

/// Size limit of a configuration file, bytes. A larger file is refused.
const MAX_FILE_SIZE: u64 = 4 * 1024 * 1024;

/// The sources of a configuration, beside the environment of the process.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The configuration file.
    pub file: Option<PathBuf>,
    /// The flags of the command line.
    pub flags: Flags,
}

/// Why a configuration cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Keys or values are wrong.
    #[error("{0}")]
    Wrong(Findings),
}

impl Sources {
    /// Loads and checks the configuration.
    ///
    /// # Errors
    /// When the file cannot be read, or a source has a key or a value that is wrong.
    pub fn load(&self) -> Result<Config, LoadError> {
        let file = self.file.as_deref().map(read_file).transpose()?;
        Config::load(Inputs { file, environment: environment(), flags: self.flags.clone() }).map_err(LoadError::Wrong)
    }
}

/// Reads a configuration file.
///
/// # Errors
/// When it cannot be read, is larger than 4 MiB, or is not UTF-8.
pub fn read_file(path: &Path) -> Result<FileText, LoadError> {
    let text = read_bounded(path).map_err(|source| LoadError::Read { path: path.to_owned(), source })?;
    Ok(FileText::new(path.display().to_string(), text))
}

/// Reads a text file of at most 4 MiB. A pipe and a device have no length to ask for beforehand.
///
/// # Errors
/// When it cannot be read, is larger, or is not UTF-8.
pub fn read_bounded(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let mut file = File::open(path)?.take(MAX_FILE_SIZE + 1);
    file.read_to_string(&mut text).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => io::Error::new(error.kind(), "it is no UTF-8 text; save it as UTF-8"),
        _ => error,
    })?;
    if file.limit() == 0 {
        let text = format!("it is larger than {MAX_FILE_SIZE} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    Ok(text)
}

/// The variables of the environment. Variables with a name that is not Unicode are ignored; values that are not Unicode are refused later.
fn environment() -> Vec<(String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            Some((name, value.to_string_lossy().into_owned()))
        })
        .collect()
}
