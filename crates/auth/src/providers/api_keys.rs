//! API keys of a file.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use super::ProviderError;
use crate::api_key::{KeyFile, KeyName};
use crate::decision::{Decision, Identity, Refusal, RefusalKind};
use crate::mark::Mark;
use crate::password::PasswordHash;
use crate::provider::{Context, Provider};
use crate::request::{Request, Secret};
use crate::settings::UserFileSettings;

/// The attribute with the id of the key.
const KEY_ATTRIBUTE: &str = "key";

/// A file of keys. A client whose password is no key is left to the next provider. A client with a key gets the user
/// name of the key, and gives no other one.
#[derive(Debug)]
pub(super) struct ApiKeys {
    provider: String,
    /// By `USER.ID`.
    table: HashMap<String, PasswordHash>,
    /// Each user with a digest of its keys.
    users: HashMap<String, u64>,
}

impl ApiKeys {
    pub(super) fn load(name: &str, settings: &UserFileSettings) -> Result<Self, ProviderError> {
        let file = KeyFile::load(&settings.file)?;
        if file.is_exposed() {
            tracing::warn!(provider = name, file = %settings.file.display(), "other users than its owner may read or write this key file; set its mode to 600");
        }
        let mut users: HashMap<String, DefaultHasher> = HashMap::new();
        for (key, hash) in file.entries() {
            (key.id, hash.to_string()).hash(users.entry(key.user.to_owned()).or_default());
        }
        let users = users.into_iter().map(|(name, hasher)| (name, hasher.finish())).collect();
        let table = file.entries().map(|(key, hash)| (key.entry(), hash.clone())).collect();
        Ok(Self { provider: name.to_owned(), table, users })
    }

    fn deny(&self, why: &str) -> Decision {
        Decision::Deny(Refusal::new(RefusalKind::BadCredentials, &self.provider, why))
    }
}

impl Provider for ApiKeys {
    fn decide(&self, request: &Request, _: Context) -> Decision {
        let Some(key) = request.password.as_ref().map(Secret::expose) else { return Decision::Ignore };
        let Some(name) = KeyName::of_key(key) else { return Decision::Ignore };
        if request.user_name.as_deref().is_some_and(|user| user != name.user) {
            return self.deny("the key is of another user");
        }
        match self.table.get(&name.entry()).map(|hash| hash.verify(key)) {
            Some(Ok(true)) => Decision::Allow(Identity {
                user_name: Some(name.user.to_owned()),
                attributes: vec![(KEY_ATTRIBUTE.to_owned(), name.id.to_owned())],
                ..Identity::default()
            }),
            _ => self.deny("there is no such key, or it was revoked"),
        }
    }

    fn mark(&self, identity: &Identity) -> Option<Mark> {
        let (_, id) = identity.attributes.iter().find(|(name, _)| name == KEY_ATTRIBUTE)?;
        let name = KeyName { user: identity.user_name.as_deref()?, id };
        Some(Mark::of(self.table.get(&name.entry())?.to_string().as_bytes()))
    }

    fn users(&self) -> Option<Vec<(String, u64)>> {
        Some(self.users.iter().map(|(name, digest)| (name.clone(), *digest)).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::scratch::Scratch;

    fn ask(provider: &ApiKeys, user_name: Option<&str>, password: &str) -> Decision {
        let request = Request {
            user_name: user_name.map(str::to_owned),
            password: Some(Secret::from(password)),
            ..Request::default()
        };
        provider.decide(&request, Context { left: Duration::from_secs(1) })
    }

    #[test]
    fn a_key_lets_its_user_in_until_it_is_revoked() {
        let scratch = Scratch::new();
        let file = scratch.path("keys");
        let mut keys = KeyFile::default();
        let key = keys.add("acme").unwrap();
        keys.save(&file).unwrap();
        assert!(!std::fs::read_to_string(&file).unwrap().contains(&key), "the file has no key");
        let settings = UserFileSettings { file: file.clone() };
        let provider = ApiKeys::load("keys", &settings).unwrap();
        for user_name in [None, Some("acme")] {
            let Decision::Allow(identity) = ask(&provider, user_name, &key) else { panic!("refused") };
            assert_eq!(identity.user_name.as_deref(), Some("acme"));
        }
        assert!(matches!(ask(&provider, Some("bolt"), &key), Decision::Deny(_)));
        assert!(matches!(ask(&provider, None, &format!("{key}x")), Decision::Deny(_)));
        assert_eq!(ask(&provider, None, "a password"), Decision::Ignore);
        let before = provider.users().unwrap();
        let id = KeyName::of_key(key.as_bytes()).unwrap().id.to_owned();
        assert!(keys.revoke(&id));
        keys.add("acme").unwrap();
        keys.save(&file).unwrap();
        let provider = ApiKeys::load("keys", &settings).unwrap();
        assert!(matches!(ask(&provider, None, &key), Decision::Deny(_)));
        assert_ne!(provider.users().unwrap(), before, "a reload ends the connections of the user");
    }
}
