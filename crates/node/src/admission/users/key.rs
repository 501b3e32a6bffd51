//! User names as nodes announce them.

use ring::digest::{SHA256, digest};

use super::UserName;

/// Bytes of a key: two names have the same one as seldom as two of 2^64.
pub(super) const KEY_BYTES: usize = 16;

/// The first bytes of the SHA-256 of a tenant's number and a user name: all nodes have the same key, all keys are equally
/// long, and peers cannot choose names of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct UserKey(pub(super) [u8; KEY_BYTES]);

impl UserKey {
    pub(super) fn of((tenant, name): &UserName) -> Self {
        let bytes = [&tenant.0.to_le_bytes(), name.as_bytes()].concat();
        let hash = digest(&SHA256, &bytes);
        let mut key = [0; KEY_BYTES];
        key.iter_mut().zip(hash.as_ref()).for_each(|(to, from)| *to = *from);
        Self(key)
    }

    /// The part of a table that it is in; parts are in the order of keys.
    pub(super) fn part(&self, parts: usize) -> usize {
        usize::from(self.0[0]) * parts / 256
    }
}
