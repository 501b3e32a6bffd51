//! User names and passwords of a file.

use super::users::Users;
use super::{ProviderError, Workshop};
use crate::decision::{Decision, Identity};
use crate::mark::Mark;
use crate::password::PasswordHash;
use crate::provider::{Context, Provider};
use crate::request::Request;
use crate::settings::UserFileSettings;

/// A file of users. Who has no user name or no password, or is not in the file, is left to the next provider; who is in
/// it and gives another password is refused.
#[derive(Debug)]
pub(super) struct PasswordFile {
    users: Users,
}

impl PasswordFile {
    pub(super) fn load(name: &str, settings: &UserFileSettings, workshop: &Workshop) -> Result<Self, ProviderError> {
        // SCRAM keys verify a plain password, too, where a user has no other hash.
        let rank = |hash: &PasswordHash| Some(u8::from(hash.scram().is_some()));
        Ok(Self { users: Users::load(name, &settings.file, &workshop.hashing, rank)? })
    }
}

impl Provider for PasswordFile {
    fn decide(&self, request: &Request, context: Context) -> Decision {
        self.users.check(request, context)
    }

    fn mark(&self, identity: &Identity) -> Option<Mark> {
        self.users.mark(identity)
    }

    fn users(&self) -> Option<Vec<(String, u64)>> {
        Some(self.users.digests())
    }
}
