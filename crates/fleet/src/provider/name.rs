//! Names of resources.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The name of a resource: 1 to 63 of `a`–`z`, `0`–`9` and `-`, beginning with a letter. It is part of paths, host
/// names and URLs. Copies share their text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ResourceName(Arc<str>);

/// Why a text is no name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no name: write 1 to 63 of a-z, 0-9 and `-`, beginning with a letter")]
pub struct ResourceNameError(String);

impl ResourceName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ResourceName {
    type Err = ResourceNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let begins = text.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
        if begins && text.len() <= 63 && text.bytes().all(plain) {
            Ok(Self(text.into()))
        } else {
            Err(ResourceNameError(text.chars().take(80).collect()))
        }
    }
}

impl TryFrom<String> for ResourceName {
    type Error = ResourceNameError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<ResourceName> for String {
    fn from(name: ResourceName) -> Self {
        name.0.as_ref().to_owned()
    }
}

impl fmt::Display for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_nowhere_but_to_its_resource() {
        for name in ["broker-1", "a", "orchestrator-12"] {
            assert_eq!(name.parse::<ResourceName>().map(|name| name.to_string()).as_deref(), Ok(name));
        }
        for text in ["", "1", "-a", "A", "a/b", "..", "a b", "ä", &"a".repeat(64)] {
            assert!(text.parse::<ResourceName>().is_err(), "{text}");
        }
    }
}
