//! Why a sink or a source cannot be made of its settings.

use std::io;
use std::path::PathBuf;

use crate::log::NamesError;

/// Why a sink or a source cannot be made of its settings.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The value of a key is of no use.
    #[error("{why}")]
    Setting {
        /// The key in the configuration.
        key: &'static str,
        /// Why, and the remedy.
        why: String,
    },
    /// The authorities for TLS cannot be used.
    #[error(transparent)]
    Tls(#[from] TrustError),
    /// The name of the pipeline cannot be used on the bus.
    #[error(transparent)]
    Names(#[from] NamesError),
    /// The system gives no thread, socket or event loop.
    #[error("{0}")]
    System(#[from] io::Error),
    /// A part that it needs cannot be opened.
    #[error("{part}: {why}")]
    Part {
        /// The part.
        part: String,
        /// Why.
        why: String,
    },
}

/// Why servers cannot be trusted by their certificates.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The file of authorities cannot be read.
    #[error("cannot read certificates from {}: {error}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The reader's error.
        error: rustls::pki_types::pem::Error,
    },
    /// There is no authority.
    #[error("there are no certificate authorities to trust; name a file with `ca`")]
    NoAuthorities,
    /// TLS cannot be configured.
    #[error("{0}")]
    Configuration(#[from] rustls::Error),
}

impl OpenError {
    /// The value of a key is of no use.
    pub(crate) fn setting(key: &'static str, why: impl Into<String>) -> Self {
        Self::Setting { key, why: why.into() }
    }

    /// A part that it needs cannot be opened.
    pub(crate) fn part(part: impl Into<String>, why: &dyn ToString) -> Self {
        Self::Part { part: part.into(), why: why.to_string() }
    }
}

impl From<(&'static str, String)> for OpenError {
    fn from((key, why): (&'static str, String)) -> Self {
        Self::Setting { key, why }
    }
}
