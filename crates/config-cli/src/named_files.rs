//! Checks the files that a configuration names: rules, users, groups, passwords of bridges, the admin token, the data
//! directory, and the directories of Unix sockets.

use std::path::Path;

use tidegate_admin::read_listener_token;
use tidegate_config::Config;
use tidegate_config::address::{AdminAddress, check_socket_path};
use tidegate_config::authentication::settings::names;
use tidegate_config::context::read_definitions;
use tidegate_config::finding::Findings;
use tidegate_config::path::KeyPath;
use tidegate_config::source::Source;
use tidegate_config::store::check_directory;
use tidegate_config::value::Problem;
use tidegate_engine::Durability;
use tidegate_identity::access::{self, AccessError};
use tidegate_identity::authentication::{self, ProvidersError};

/// The keys of a provider that name its files, and then the keys that name its server.
const PROVIDER_KEYS: [&str; 7] =
    ["file", "secret_file", "public_key_file", "jwks_file", "bearer_token_file", "url", "jwks_url"];

/// Reads these files, without the files of listeners and pipelines.
///
/// # Errors
/// The fault of each, at the key that names the file.
pub(crate) fn check(config: &Config) -> Result<(), Findings> {
    let origins = &config.origins;
    let mut findings = Findings::about(origins.file().cloned());
    let mut note = |text: String, place: Source| findings.push(Problem::new(text), place);
    if let Err(error) = access::load(config) {
        note(error.to_string(), place_of_rules(config, &error));
    }
    if let Err(error) = authentication::check_files(config) {
        note(error.to_string(), place_of_provider(config, &error));
    }
    let served = matches!(config.admin.address, AdminAddress::At(_));
    let token_file = config.admin.token_file.as_deref().filter(|_| served);
    if let Some(Err(error)) = token_file.map(|file| read_listener_token(Path::new(file))) {
        note(error.to_string(), origins.source_of("admin", "token_file").clone());
    }
    if let Err(error) = read_definitions(&config.context) {
        note(error.to_string(), origins.source_of("context", "groups").clone());
    }
    let on_disk = config.store.engine_durability() != Durability::Memory;
    if let Some(Err(error)) = config.store.directory.as_deref().filter(|_| on_disk).map(check_directory) {
        note(error.to_string(), origins.source_of("store", "directory").clone());
    }
    for (index, checked) in tidegate_config::bridges::check_files(&config.bridges).enumerate() {
        if let Err(error) = checked {
            note(error.to_string(), origins.place("bridge", index, "password_file").clone());
        }
    }
    for (index, listener) in config.listeners.iter().enumerate() {
        if let Err(error) = check_socket_path(&listener.address) {
            note(format!("listener `{}`: {error}", listener.name), origins.place("listener", index, "address").clone());
        }
    }
    if findings.is_empty() { Ok(()) } else { Err(findings) }
}

/// The key of a file that cannot be read. A wrong file has its own line in the text of the error.
fn place_of_rules(config: &Config, error: &AccessError) -> Source {
    let AccessError::Read { key, .. } = error else { return Source::Default };
    let key = if *key == "access.acl_file" { "acl_file" } else { "rules_file" };
    config.origins.source_of("access", key).clone()
}

/// The key of a provider that an error is about.
fn place_of_provider(config: &Config, error: &ProvidersError) -> Source {
    let index = match error {
        ProvidersError::Token(error) => {
            let is_named = |name: &String| std::path::Path::new(name) == error.file();
            config.auths.iter().position(|auth| auth.bearer_token_file.as_ref().is_some_and(is_named))
        }
        ProvidersError::Settings(error) => {
            error.provider().and_then(|provider| names(&config.auths).iter().position(|name| name == provider))
        }
    };
    let Some(index) = index else { return Source::Default };
    let sources = PROVIDER_KEYS.map(|key| config.origins.source(&KeyPath { section: "auth", index, key }));
    let named = sources.into_iter().find(|source| **source != Source::Default);
    named.unwrap_or_else(|| config.origins.place("auth", index, "kind")).clone()
}
