//! Functions of SQL with a regular expression, by the names that they have in EMQX. The expression is a text of the statement,
//! so it is read once and not for each message.

use regex::{Regex, RegexBuilder};
use serde_json::Value;

use super::error::{ComputeError, MAX_RESULT};

/// Most bytes of a regular expression that is ready.
const MAX_BYTES: usize = 1 << 20;

/// The use of the regular expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Match,
    Extract,
    Replace,
}

/// Each with its name.
const NAMES: [(&str, How); 3] =
    [("regex_match", How::Match), ("regex_extract", How::Extract), ("regex_replace", How::Replace)];

/// A regular expression that is ready, and what takes the place of its matches.
#[derive(Debug)]
pub(super) struct Regular {
    how: How,
    pattern: Regex,
    with: String,
}

/// Why a function with a regular expression cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum RegularError {
    #[error("write `{name}(TEXT, 'PATTERN')`")]
    Texts { name: String },
    #[error("write `regex_replace(TEXT, 'PATTERN', 'REPLACEMENT')`")]
    Replace,
    #[error("the regular expression `{pattern}` cannot be read: {source}")]
    Pattern { pattern: String, source: regex::Error },
}

/// Whether a function has this name.
pub(super) fn is_name(name: &str) -> bool {
    NAMES.iter().any(|(known, _)| *known == name)
}

impl Regular {
    /// Reads the values behind the first one.
    ///
    /// # Errors
    /// When they are not the texts that the function takes.
    pub(super) fn new(name: &str, texts: &[Option<&str>]) -> Result<Self, RegularError> {
        let how = NAMES.iter().find(|(known, _)| *known == name).map_or(How::Match, |(_, how)| *how);
        let (pattern, with) = match (how, texts) {
            (How::Replace, [Some(pattern), Some(with)]) => (*pattern, *with),
            (How::Match | How::Extract, [Some(pattern)]) => (*pattern, ""),
            (How::Replace, _) => return Err(RegularError::Replace),
            _ => return Err(RegularError::Texts { name: name.to_owned() }),
        };
        let read = RegexBuilder::new(pattern).size_limit(MAX_BYTES).build();
        let pattern = read.map_err(|source| RegularError::Pattern { pattern: pattern.to_owned(), source })?;
        Ok(Self { how, pattern, with: with.to_owned() })
    }

    /// Its result for a text. An extraction gives the groups of the first match, or null.
    ///
    /// # Errors
    /// When the result is too long.
    pub(super) fn apply(&self, text: &str) -> Result<Value, ComputeError> {
        Ok(match self.how {
            How::Match => self.pattern.is_match(text).into(),
            How::Extract => match self.pattern.captures(text) {
                None => Value::Null,
                Some(found) => {
                    let group = |group: Option<regex::Match<'_>>| group.map_or("", |group| group.as_str()).into();
                    Value::Array(found.iter().skip(1).map(group).collect())
                }
            },
            How::Replace => {
                let (mut result, mut end) = (String::new(), 0);
                for found in self.pattern.find_iter(text) {
                    result.push_str(&text[end..found.start()]);
                    result.push_str(&self.with);
                    end = found.end();
                    // A long text has many matches: the bound holds before the end.
                    if result.len() > MAX_RESULT {
                        return Err(ComputeError::TooLong);
                    }
                }
                result.push_str(&text[end..]);
                result.into()
            }
        })
    }
}
