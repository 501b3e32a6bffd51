//! The settings of a chain of providers, from the configuration.

use std::collections::HashMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use tidegate_auth::{
    CacheSettings, CertificateSettings, ChainSettings, FleetAsker, FleetSettings, HttpSettings, JwtKeys, JwtSettings,
    NameSource, ProviderKind, ProviderSettings, ScramSettings, Secret, TokenPlace, UserFileSettings, WhenUnreachable,
};

use crate::Config;
use crate::sections::auth::{Auth, AuthKind, CertificateField, TokenField, Unreachable};
use crate::value::Words;

/// Largest file with a bearer token, bytes.
const MAX_TOKEN_LEN: u64 = 16 * 1024;

/// A file with a bearer token cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the token in {}: {error}", file.display())]
pub struct TokenError {
    file: PathBuf,
    error: io::Error,
}

impl TokenError {
    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }
}

/// The settings of a chain of providers. Only bearer tokens are read from files here.
///
/// # Errors
/// When a bearer token cannot be read.
pub fn chain(config: &Config, asker: &FleetAsker) -> Result<ChainSettings, TokenError> {
    let authentication = &config.authentication;
    let defaults = ChainSettings::default();
    // If brokers are asked about the credentials of clients, they decide about them, unless another provider is
    // configured.
    let implied = Auth { kind: AuthKind::Fleet, ..Auth::default() };
    let implied = std::slice::from_ref(&implied);
    let auths =
        if config.auths.is_empty() && config.orchestrator.passes_clients_through() { implied } else { &config.auths };
    let providers = auths.iter().zip(names(auths)).map(|(auth, name)| {
        Ok(ProviderSettings { name, listeners: auth.listeners.0.clone(), kind: provider(auth, asker)? })
    });
    Ok(ChainSettings {
        providers: providers.collect::<Result<_, _>>()?,
        threads: usize::from(authentication.threads),
        hashing: match authentication.max_hashing {
            0 => defaults.hashing,
            some => usize::from(some),
        },
        hash_memory: config.hash_memory(),
        queue: narrow(authentication.max_waiting),
        queue_bytes: usize::try_from(authentication.max_waiting_bytes.0).unwrap_or(usize::MAX),
        deadline: authentication.timeout,
        cache: CacheSettings {
            entries: narrow(authentication.cache_entries),
            ttl: authentication.cache_ttl,
            refused_entries: narrow(authentication.refused_entries),
            refused_ttl: authentication.refused_ttl,
        },
    })
}

/// The name of each provider: the configured name, else that of its kind, numbered from the second on.
pub fn names(auths: &[Auth]) -> Vec<String> {
    let mut count: HashMap<&str, u32> = HashMap::new();
    let mut name = |auth: &Auth| {
        if !auth.name.is_empty() {
            return auth.name.clone();
        }
        let place = AuthKind::VALUES.iter().position(|kind| *kind == auth.kind);
        let kind = place.and_then(|place| AuthKind::WORDS.get(place)).map_or("provider", |(word, _)| *word);
        let number = count.entry(kind).and_modify(|number| *number += 1).or_insert(1);
        if *number == 1 { kind.to_owned() } else { format!("{kind}-{number}") }
    };
    auths.iter().map(&mut name).collect()
}

fn provider(auth: &Auth, asker: &FleetAsker) -> Result<ProviderKind, TokenError> {
    Ok(match auth.kind {
        AuthKind::PasswordFile => ProviderKind::PasswordFile(UserFileSettings { file: path(auth.file.as_deref()) }),
        AuthKind::ApiKey => ProviderKind::ApiKeys(UserFileSettings { file: path(auth.file.as_deref()) }),
        AuthKind::Scram => ProviderKind::Scram(ScramSettings { file: path(auth.file.as_deref()) }),
        AuthKind::Jwt => ProviderKind::Jwt(Box::new(jwt(auth))),
        AuthKind::Http => ProviderKind::Http(Box::new(http(auth)?)),
        AuthKind::Fleet => ProviderKind::Fleet(FleetSettings {
            asker: asker.clone(),
            timeout: auth.timeout,
            concurrency: usize::from(auth.concurrency),
            cache_ttl: auth.cache_ttl,
        }),
        AuthKind::Certificate => ProviderKind::Certificate(CertificateSettings {
            // The checks of the configuration refuse a provider without a name.
            user_name: name_source(auth.user_name_from).unwrap_or(NameSource::CommonName),
            client_id: name_source(auth.client_id_from),
        }),
    })
}

fn jwt(auth: &Auth) -> JwtSettings {
    let keys = match (&auth.secret_file, &auth.public_key_file, &auth.jwks_file) {
        (Some(file), ..) => JwtKeys::SecretFile(path(Some(file))),
        (_, Some(file), _) => JwtKeys::PemFile(path(Some(file))),
        (.., Some(file)) => JwtKeys::JwksFile(path(Some(file))),
        _ => JwtKeys::JwksUrl {
            url: auth.jwks_url.clone().unwrap_or_default(),
            refresh: auth.jwks_refresh,
            min_refresh: auth.jwks_refresh_min,
            timeout: auth.timeout,
            ca_file: auth.ca_file.as_ref().map(PathBuf::from),
        },
    };
    JwtSettings {
        keys,
        algorithms: auth.algorithms.0.clone(),
        token: match auth.token_from {
            TokenField::Password => TokenPlace::Password,
            TokenField::UserName => TokenPlace::UserName,
        },
        issuer: auth.issuer.clone(),
        audience: auth.audience.clone(),
        require_expiry: auth.require_expiry,
        leeway: auth.leeway,
        user_claim: auth.user_claim.clone(),
        client_id_claim: auth.client_id_claim.clone(),
        acl_claim: auth.acl_claim.clone(),
        tenant_claim: auth.tenant_claim.clone(),
        superuser_claim: auth.superuser_claim.clone(),
    }
}

fn http(auth: &Auth) -> Result<HttpSettings, TokenError> {
    let token = auth.bearer_token_file.as_ref().map(|file| bearer_token(path(Some(file)))).transpose()?;
    Ok(HttpSettings {
        url: auth.url.clone().unwrap_or_default(),
        headers: token.into_iter().map(|token| ("authorization".to_owned(), token)).collect(),
        timeout: auth.timeout,
        concurrency: usize::from(auth.concurrency),
        breaker_failures: u32::from(auth.breaker_failures),
        breaker_pause: auth.breaker_pause,
        unreachable: match auth.unreachable {
            Unreachable::Deny => WhenUnreachable::Deny,
            Unreachable::Ignore => WhenUnreachable::Ignore,
        },
        cache_ttl: auth.cache_ttl,
        ca_file: auth.ca_file.as_ref().map(PathBuf::from),
    })
}

/// The value of a header: the token without white space around it.
fn bearer_token(file: PathBuf) -> Result<Secret, TokenError> {
    let mut bytes = Vec::with_capacity(MAX_TOKEN_LEN as usize + 1);
    let read = tidegate_setting_file::open(&file).and_then(|from| from.take(MAX_TOKEN_LEN + 1).read_to_end(&mut bytes));
    let token = Secret::new(bytes);
    let error = match read {
        Err(error) => error,
        Ok(_) if token.expose().len() as u64 > MAX_TOKEN_LEN => io::Error::other("it is larger than 16 KiB"),
        Ok(_) if token.expose().trim_ascii().is_empty() => io::Error::other("it is empty"),
        Ok(_) => return Ok(Secret::new([b"Bearer ", token.expose().trim_ascii()].concat())),
    };
    Err(TokenError { file, error })
}

fn name_source(field: CertificateField) -> Option<NameSource> {
    Some(match field {
        CertificateField::None => return None,
        CertificateField::CommonName => NameSource::CommonName,
        CertificateField::Dns => NameSource::Dns,
        CertificateField::Email => NameSource::Email,
        CertificateField::Uri => NameSource::Uri,
        CertificateField::Fingerprint => NameSource::Fingerprint,
    })
}

fn path(file: Option<&str>) -> PathBuf {
    PathBuf::from(file.unwrap_or_default())
}

fn narrow(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_without_a_name_are_named_after_their_kind() {
        let of = |kind, name: &str| Auth { kind, name: name.to_owned(), ..Auth::default() };
        let auths = [
            of(AuthKind::Jwt, ""),
            of(AuthKind::PasswordFile, "people"),
            of(AuthKind::Jwt, ""),
            of(AuthKind::PasswordFile, ""),
        ];
        assert_eq!(names(&auths), ["jwt", "people", "jwt-2", "password-file"]);
    }

    #[test]
    fn a_bearer_token_is_the_content_of_its_file() {
        let file = std::env::temp_dir().join(format!("tidegate-token-{}", std::process::id()));
        std::fs::write(&file, " abc\n").unwrap();
        assert_eq!(bearer_token(file.clone()).unwrap().expose(), b"Bearer abc");
        std::fs::write(&file, "\n").unwrap();
        assert!(bearer_token(file.clone()).unwrap_err().to_string().contains("it is empty"));
        std::fs::remove_file(&file).unwrap();
        assert!(bearer_token(file).is_err());
    }
}
