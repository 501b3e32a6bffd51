//! Users with their hashes, as a provider looks them up.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Arc;

use crate::decision::{Decision, Identity, Refusal, RefusalKind};
use crate::mark::Mark;
use crate::password::{PasswordHash, UserFile, UserFileError};
use crate::permits::Permits;
use crate::provider::Context;
use crate::request::Request;

/// The users of a file, and how a plain password is checked against them.
#[derive(Debug)]
pub(super) struct Users {
    provider: String,
    table: HashMap<String, PasswordHash>,
    /// The same names in the order of the file.
    order: Vec<String>,
    hashing: Arc<Permits>,
}

impl Users {
    /// Reads a file and keeps the hashes that are wanted. Where a user has two, the first that comes out of `rank` as
    /// less is kept.
    pub(super) fn load(
        provider: &str,
        file: &Path,
        hashing: &Arc<Permits>,
        rank: fn(&PasswordHash) -> Option<u8>,
    ) -> Result<Self, UserFileError> {
        let read = UserFile::load(file)?;
        read.check_memory(file, hashing.bytes(), |hash| rank(hash).is_some())?;
        if read.is_open() {
            tracing::warn!(provider, file = %file.display(), "other users than its owner may write this user file, and so add themselves; set its mode to 600");
        } else if read.is_exposed() {
            tracing::warn!(provider, file = %file.display(), "other users than its owner may read this user file; set its mode to 600");
        }
        let mut found: HashMap<String, (u8, PasswordHash)> = HashMap::new();
        let mut order = Vec::new();
        for (name, hash) in read.users() {
            let Some(rank) = rank(hash) else {
                continue;
            };
            match found.get(name.as_str()) {
                Some((other, _)) if *other <= rank => continue,
                Some(_) => {}
                None => order.push(name.as_str().to_owned()),
            }
            found.insert(name.as_str().to_owned(), (rank, hash.clone()));
        }
        if found.is_empty() {
            tracing::warn!(provider, file = %file.display(), "this file has no users; the provider refuses all clients");
        }
        let table = found.into_iter().map(|(name, (_, hash))| (name, hash)).collect();
        Ok(Self { provider: provider.to_owned(), table, order, hashing: Arc::clone(hashing) })
    }

    pub(super) fn get(&self, name: &str) -> Option<&PasswordHash> {
        self.table.get(name)
    }

    /// The first user of the file.
    pub(super) fn first(&self) -> Option<&PasswordHash> {
        self.order.first().and_then(|name| self.table.get(name))
    }

    /// Checks user name and password. A user that is not there costs as much as a wrong password: some user's hash is
    /// worked out all the same, always the same one for the same name.
    pub(super) fn check(&self, request: &Request, context: Context) -> Decision {
        if self.table.is_empty() {
            // An empty file is more likely an accident than a wish to let the next provider decide (CVE-2018-12550).
            return self.deny(RefusalKind::NotAuthorized, "its file holds no user");
        }
        let (Some(name), Some(password)) = (&request.user_name, &request.password) else {
            return Decision::Ignore;
        };
        let user = self.table.get(name);
        let Some(hash) = user.or_else(|| self.stand_in(name)) else { return Decision::Ignore };
        let Some(permit) = self.hashing.acquire_bytes(hash.memory(), context.left) else {
            return self.deny(RefusalKind::Unavailable, "too many passwords are being hashed");
        };
        let verified = hash.verify(password.expose());
        drop(permit);
        match (user, verified) {
            (_, Err(error)) => self.deny(RefusalKind::Unavailable, &error.to_string()),
            (Some(_), Ok(true)) => Decision::Allow(Identity { user_name: Some(name.clone()), ..Identity::default() }),
            (Some(_), Ok(false)) => self.deny(RefusalKind::BadCredentials, "the password is wrong"),
            (None, Ok(_)) => Decision::Ignore,
        }
    }

    fn stand_in(&self, name: &str) -> Option<&PasswordHash> {
        let count = u64::try_from(self.order.len()).unwrap_or(u64::MAX).max(1);
        let place = usize::try_from(digest(name) % count).unwrap_or_default();
        self.order.get(place).and_then(|name| self.table.get(name))
    }

    fn deny(&self, kind: RefusalKind, why: &str) -> Decision {
        Decision::Deny(Refusal::new(kind, &self.provider, why))
    }

    /// The mark of a user's hash.
    pub(super) fn mark(&self, identity: &Identity) -> Option<Mark> {
        let hash = self.table.get(identity.user_name.as_deref()?)?;
        Some(Mark::of(hash.to_string().as_bytes()))
    }

    /// Each user with a digest of its hash.
    pub(super) fn digests(&self) -> Vec<(String, u64)> {
        self.table.iter().map(|(name, hash)| (name.clone(), digest(&hash.to_string()))).collect()
    }
}

fn digest(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
