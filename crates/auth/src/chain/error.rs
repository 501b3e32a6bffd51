//! Why a chain cannot be created.

use crate::providers::ProviderError;

/// Why a chain cannot be created. No part of it takes effect.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// Two providers have the same name.
    #[error("two providers of authentication are named `{0}`; give each a name of its own")]
    SameName(String),
    /// A provider cannot be made.
    #[error("provider `{provider}`: {problem}")]
    Provider {
        /// Its name.
        provider: String,
        /// The problem, with its remedy.
        problem: ProviderError,
    },
    /// The system gives no random numbers.
    #[error("the system gives no random numbers")]
    Random,
    /// The threads cannot be started.
    #[error("cannot start the authentication threads: {0}")]
    Threads(#[from] std::io::Error),
}

impl SettingsError {
    /// The name of the provider that it is about, if it is about one.
    pub fn provider(&self) -> Option<&str> {
        match self {
            Self::SameName(name) | Self::Provider { provider: name, .. } => Some(name),
            Self::Random | Self::Threads(_) => None,
        }
    }
}
