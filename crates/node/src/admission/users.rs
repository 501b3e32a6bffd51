//! How many connections each user name has.

use std::collections::HashMap;
use std::sync::Mutex;

use tidegate_engine::TenantId;

use super::{Parts, lock};

/// A user name of a tenant.
pub(crate) type UserName = (TenantId, Box<str>);

/// The user names with connections; there are never more than connections.
#[derive(Debug)]
pub(crate) struct Users {
    parts: Parts<HashMap<UserName, u32>>,
}

impl Users {
    pub(crate) fn new() -> Self {
        Self { parts: Parts::new(HashMap::new) }
    }

    fn part(&self, user: &UserName) -> &Mutex<HashMap<UserName, u32>> {
        self.parts.of(user).1
    }

    /// Counts one more connection; false when the user has `limit` already and 0 does not lift it.
    pub(crate) fn claim(&self, user: &UserName, limit: u32) -> bool {
        let mut part = lock(self.part(user));
        let count = part.get(user).copied().unwrap_or_default();
        if limit != 0 && count >= limit {
            return false;
        }
        part.insert(user.clone(), count + 1);
        true
    }

    /// One connection of the user has ended.
    pub(crate) fn release(&self, user: &UserName) {
        let mut part = lock(self.part(user));
        if let Some(count) = part.get_mut(user) {
            *count -= 1;
            if *count == 0 {
                part.remove(user);
            }
        }
    }

    /// User names with connections.
    pub(crate) fn len(&self) -> usize {
        self.parts.all().map(|part| lock(part).len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_its_limit_and_is_forgotten_without_connections() {
        let users = Users::new();
        let (one, other) = ((TenantId(0), "u".into()), (TenantId(1), "u".into()));
        assert!(users.claim(&one, 2) && users.claim(&one, 2) && !users.claim(&one, 2));
        assert!(users.claim(&other, 2), "another tenant's user is another");
        assert!(users.claim(&one, 0), "a takeover counts without being refused");
        for _ in 0..3 {
            users.release(&one);
        }
        users.release(&one);
        assert_eq!(users.len(), 1);
        assert!(users.claim(&one, 1) && !users.claim(&one, 1));
    }
}
