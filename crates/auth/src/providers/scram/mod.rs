//! SCRAM-SHA-256 (RFC 5802, RFC 7677) as enhanced authentication of MQTT 5. The password never crosses the wire, and
//! the keys stored by the server are not enough to log in with.

mod exchange;
mod message;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use ring::rand::{SecureRandom, SystemRandom};

use super::users::Users;
use super::{ProviderError, Workshop};
use crate::decision::{Decision, Identity};
use crate::mark::Mark;
use crate::password::{PasswordHash, ScramHash, hmac_sha256};
use crate::provider::{Context, Mechanism, Provider};
use crate::request::Request;
use crate::settings::ScramSettings;

use exchange::Conversation;

/// The Authentication Method.
const METHOD: &str = "SCRAM-SHA-256";

/// Users who log in with SCRAM. Who sends a plain password instead is checked against the same keys.
#[derive(Debug)]
pub(super) struct Scram {
    name: Arc<str>,
    users: Arc<ScramUsers>,
}

impl Scram {
    pub(super) fn load(name: &str, settings: &ScramSettings, workshop: &Workshop) -> Result<Self, ProviderError> {
        let wanted = |hash: &PasswordHash| hash.scram().map(|_| 0);
        let users = Users::load(name, &settings.file, &workshop.hashing, wanted)?;
        let users = ScramUsers::new(users).ok_or(ProviderError::Random)?;
        Ok(Self { name: name.into(), users: Arc::new(users) })
    }
}

impl Provider for Scram {
    fn decide(&self, request: &Request, context: Context) -> Decision {
        if request.enhanced.is_some() {
            return Decision::Ignore;
        }
        self.users.users.check(request, context)
    }

    fn begin(&self, request: &Request) -> Option<Box<dyn Mechanism>> {
        let method = &request.enhanced.as_ref()?.method;
        (method == METHOD).then(|| {
            let conversation = Conversation::new(Arc::clone(&self.name), Arc::clone(&self.users));
            Box::new(conversation) as Box<dyn Mechanism>
        })
    }

    fn mark(&self, identity: &Identity) -> Option<Mark> {
        self.users.users.mark(identity)
    }

    fn users(&self) -> Option<Vec<(String, u64)>> {
        Some(self.users.users.digests())
    }
}

/// The users of a conversation.
#[derive(Debug)]
struct ScramUsers {
    users: Users,
    /// From this the salts of users come that are not there. It does not change with a restart, since the salts of
    /// users that are there do not change either.
    secret: [u8; 32],
}

impl ScramUsers {
    /// `None` when the system has no random numbers.
    fn new(users: Users) -> Option<Self> {
        let secret = if let Some(first) = users.first().and_then(PasswordHash::scram) {
            hmac_sha256(&first.server_key, b"salts of users that are not there")
        } else {
            let mut secret = [0; 32];
            SystemRandom::new().fill(&mut secret).ok()?;
            secret
        };
        Some(Self { users, secret })
    }

    /// The keys of a user, and whether the user exists. An unknown user looks like an existing one: the same salt each
    /// time, the usual rounds, and keys that no password matches.
    fn find(&self, name: &str) -> (ScramHash, bool) {
        if let Some(hash) = self.users.get(name).and_then(PasswordHash::scram) {
            return (hash.clone(), true);
        }
        let salt = hmac_sha256(&self.secret, name.as_bytes());
        let key = hmac_sha256(&self.secret, &salt);
        let first = self.users.first().and_then(PasswordHash::scram);
        (ScramHash::stand_in(first, &salt, key), false)
    }
}
