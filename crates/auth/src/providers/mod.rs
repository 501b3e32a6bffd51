//! The providers, one file or folder each.

mod acl_claims;
mod api_keys;
mod certificate;
mod fleet;
mod http;
mod jwt;
mod password_file;
mod scram;
mod users;

use std::sync::Arc;

use crate::api_key::KeyFileError;
use crate::clock::Clock;
use crate::fetch::FetchError;
use crate::password::UserFileError;
use crate::permits::Permits;
use crate::provider::Provider;
use crate::settings::{JwtKeys, ProviderKind, ProviderSettings};

pub use jwt::{KeyProblem, KeysError, is_algorithm};

/// Shared parts that providers are created with.
#[derive(Debug)]
pub(crate) struct Workshop {
    pub(crate) clock: Arc<dyn Clock>,
    /// Bounds the concurrent hashing of all providers.
    pub(crate) hashing: Arc<Permits>,
}

/// Why a provider cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// Its file of users is missing or wrong.
    #[error(transparent)]
    Users(#[from] UserFileError),
    /// Its file of API keys is missing or wrong.
    #[error(transparent)]
    ApiKeys(#[from] KeyFileError),
    /// Its keys are missing or wrong.
    #[error(transparent)]
    Keys(#[from] KeysError),
    /// Its server cannot be asked.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// It asks for an algorithm that there is not.
    #[error(
        "there is no algorithm `{0}` of tokens; there are HS256, HS384, HS512, RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384 and EdDSA"
    )]
    Algorithm(String),
    /// The system gives no random numbers.
    #[error("the system gives no random numbers")]
    Random,
}

pub(crate) fn make(settings: &ProviderSettings, workshop: &Workshop) -> Result<Arc<dyn Provider>, ProviderError> {
    let name = settings.name.as_str();
    Ok(match &settings.kind {
        ProviderKind::PasswordFile(file) => Arc::new(password_file::PasswordFile::load(name, file, workshop)?),
        ProviderKind::Jwt(jwt) => Arc::new(jwt::Jwt::make(name, jwt, workshop)?),
        ProviderKind::Http(http) => Arc::new(http::Http::make(name, http, workshop)?),
        ProviderKind::Certificate(certificate) => Arc::new(certificate::Certificate::new(name, certificate)),
        ProviderKind::Fleet(fleet) => Arc::new(fleet::Fleet::new(name, fleet)),
        ProviderKind::ApiKeys(file) => Arc::new(api_keys::ApiKeys::load(name, file)?),
        ProviderKind::Scram(file) => Arc::new(scram::Scram::load(name, file, workshop)?),
    })
}

/// Whether a provider whose settings stay the same is kept at a reload, because it knows more than its settings say:
/// keys that were fetched, a server that does not answer.
pub(crate) fn outlives_reload(kind: &ProviderKind) -> bool {
    match kind {
        ProviderKind::Http(settings) => settings.ca_file.is_none(),
        ProviderKind::Jwt(settings) => matches!(settings.keys, JwtKeys::JwksUrl { ca_file: None, .. }),
        ProviderKind::Fleet(_) => true,
        ProviderKind::PasswordFile(_)
        | ProviderKind::ApiKeys(_)
        | ProviderKind::Certificate(_)
        | ProviderKind::Scram(_) => false,
    }
}
