//! The section `[store]`: the data directory.

use std::io;
use std::path::Path;

use tidegate_store::RealDisk;

/// A data directory that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the store in {directory}: {source}")]
pub struct DataDirectoryError {
    /// The directory, as it is configured.
    pub directory: String,
    /// The cause.
    pub source: io::Error,
}

/// Checks whether the data directory exists and is writable, or could be made. It is not made.
///
/// # Errors
/// When it is not a directory, or cannot be written.
pub fn check_directory(directory: &str) -> Result<(), DataDirectoryError> {
    RealDisk::check(Path::new(directory))
        .map_err(|source| DataDirectoryError { directory: directory.to_owned(), source })
}
