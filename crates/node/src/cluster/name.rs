//! The name of a node of a cluster.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Longest name of a node, bytes.
pub const MAX_NODE_NAME: usize = 64;

/// The name of a node: 1 to [`MAX_NODE_NAME`] bytes of `a-z`, `A-Z`, `0-9`, `.`, `_` and `-`, so that it can stand in a
/// topic, in a subject of a bus and in a log. The order of names says which of two nodes connects to the other.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName(Arc<str>);

/// A text that is no name of a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeNameError {
    /// Nothing.
    #[error("a node needs a name: give it 1 to {MAX_NODE_NAME} letters, digits, dots, underscores or hyphens")]
    Empty,
    /// More than [`MAX_NODE_NAME`] bytes.
    #[error("the name of a node has {0} bytes: use at most {MAX_NODE_NAME}")]
    TooLong(usize),
    /// A character that is not possible.
    #[error("the name of a node cannot have {0:?} in it: use letters, digits, dots, underscores and hyphens")]
    Character(char),
}

impl NodeName {
    /// Checks a name.
    ///
    /// # Errors
    /// When it is empty, too long, or has other characters in it.
    pub fn new(name: &str) -> Result<Self, NodeNameError> {
        if name.is_empty() {
            return Err(NodeNameError::Empty);
        }
        if name.len() > MAX_NODE_NAME {
            return Err(NodeNameError::TooLong(name.len()));
        }
        let possible = |character: char| character.is_ascii_alphanumeric() || matches!(character, '.' | '_' | '-');
        match name.chars().find(|character| !possible(*character)) {
            Some(character) => Err(NodeNameError::Character(character)),
            None => Ok(Self(name.into())),
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for NodeName {
    type Err = NodeNameError;

    fn from_str(name: &str) -> Result<Self, NodeNameError> {
        Self::new(name)
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_and_has_nothing_in_it_that_needs_quoting() {
        let longest = "n".repeat(MAX_NODE_NAME);
        for name in ["a", "node-1.eu_west", &longest] {
            assert_eq!(NodeName::new(name).map(|name| name.to_string()), Ok(name.to_owned()));
        }
        assert_eq!(NodeName::new(""), Err(NodeNameError::Empty));
        assert_eq!(NodeName::new(&format!("{longest}n")), Err(NodeNameError::TooLong(MAX_NODE_NAME + 1)));
        for (name, character) in [("a/b", '/'), ("a b", ' '), ("é", 'é'), ("a\n", '\n'), ("#", '#')] {
            assert_eq!(NodeName::new(name), Err(NodeNameError::Character(character)));
        }
    }
}
