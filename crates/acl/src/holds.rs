//! Whether a rule holds for a client.

use crate::rule::{More, Name, Who};
use crate::subject::Subject;

fn one_of(names: Option<&[Name]>, value: Option<&str>) -> bool {
    names.is_none_or(|names| value.is_some_and(|value| names.iter().any(|name| name.is(value))))
}

/// Whether a name contains a wildcard of topic filters.
fn is_wild(name: &str) -> bool {
    name.contains(['+', '#'])
}

impl Who {
    /// The client's quality that the rule asks for and that it does not have, for people; `None` when the rule holds
    /// for it.
    pub(crate) fn lacks(&self, subject: &Subject<'_>) -> Option<&'static str> {
        if !one_of(self.users.as_deref(), subject.user_name) {
            return Some("it is for another user name");
        }
        if self.anonymous.is_some_and(|wanted| wanted != subject.user_name.is_none()) {
            return Some(if subject.user_name.is_none() {
                "it is for clients with a user name"
            } else {
                "it is for clients without a user name"
            });
        }
        if self.wild_name && !is_wild(subject.client_id) && !subject.user_name.is_some_and(is_wild) {
            return Some("neither client id nor user name holds a wildcard");
        }
        self.more.as_ref().and_then(|more| more.lacks(subject))
    }
}

impl More {
    fn lacks(&self, subject: &Subject<'_>) -> Option<&'static str> {
        if !one_of(self.clients.as_deref(), Some(subject.client_id)) {
            return Some("it is for another client id");
        }
        if !one_of(self.listeners.as_deref(), Some(subject.listener)) {
            return Some("it is for another listener");
        }
        if !one_of(self.tenants.as_deref(), Some(subject.tenant)) {
            return Some("it is for another tenant");
        }
        if !one_of(self.certificates.as_deref(), subject.certificate_cn) {
            return Some("it is for another certificate");
        }
        let has = |name: &str, values: &[Name]| {
            subject.attributes.iter().any(|(known, value)| known == name && values.iter().any(|it| it.is(value)))
        };
        let missing = self.attributes.iter().any(|(name, values)| !has(name, values));
        missing.then_some("an attribute that it asks for is missing or has another value")
    }
}
