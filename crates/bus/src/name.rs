//! Names that every backend can carry.

use std::fmt;

/// Why a text is no name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {kind}: {rule}")]
pub struct NameError {
    text: String,
    kind: &'static str,
    rule: &'static str,
}

impl NameError {
    fn new(text: &str, kind: &'static str, rule: &'static str) -> Self {
        Self { text: text.chars().take(64).collect(), kind, rule }
    }
}

const RULE: &str = "use 1 to 64 ASCII letters, digits, `-` and `_`";

pub(crate) fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(String);

        impl $type {
            /// Checks a name.
            ///
            /// # Errors
            /// When it is not 1 to 64 ASCII letters, digits, `-` and `_`.
            pub fn new(text: &str) -> Result<Self, NameError> {
                if is_name(text) { Ok(Self(text.to_owned())) } else { Err(NameError::new(text, $kind, RULE)) }
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(
    /// The name of a log: on Kafka a topic, on NATS a stream for each partition, both behind the prefix.
    LogName,
    "name of a log"
);
impl LogName {
    /// The log in which a group keeps its table. No other log may have such a name.
    pub(crate) fn of_group(group: &GroupName) -> Self {
        Self(format!("{GROUP_LOGS}{group}"))
    }

    /// The name of a log, that of a group among them, as another process wrote it.
    pub(crate) fn received(text: &str) -> Option<Self> {
        is_name(text.strip_prefix(GROUP_LOGS).unwrap_or(text)).then(|| Self(text.to_owned()))
    }

    /// The name of a log in a directory that several deployments share: prefix and name with a dot between them.
    pub(crate) fn within(text: String) -> Self {
        Self(text)
    }

    pub(crate) fn is_of_group(&self) -> bool {
        self.0.starts_with(GROUP_LOGS)
    }
}

const GROUP_LOGS: &str = "group-";

name!(
    /// The name of a group whose members share partitions.
    GroupName,
    "name of a group"
);
name!(
    /// The name of a member of a group, unique within it: the name of a node.
    MemberName,
    "name of a member"
);

/// The subject of a live message: names with dots between them, at most 16.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject(String);

const SUBJECT_RULE: &str = "use 1 to 16 names of ASCII letters, digits, `-` and `_` with dots between them";

impl Subject {
    /// Checks a subject.
    ///
    /// # Errors
    /// When it is not made of 1 to 16 names with dots between them.
    pub fn new(text: &str) -> Result<Self, NameError> {
        let fits = text.split('.').count() <= 16 && text.split('.').all(is_name);
        if fits { Ok(Self(text.to_owned())) } else { Err(NameError::new(text, "subject", SUBJECT_RULE)) }
    }

    /// A subject behind a prefix, or without it.
    pub(crate) fn within(text: String) -> Self {
        Self(text)
    }

    /// The subject as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A filter of subjects: in it `*` matches one name, and `>` at the end one or more.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SubjectFilter(String);

impl SubjectFilter {
    /// Checks a filter.
    ///
    /// # Errors
    /// When it is not a subject with `*` or a last `>` in place of names.
    pub fn new(text: &str) -> Result<Self, NameError> {
        let levels = text.split('.').count();
        let fits =
            |(index, level): (usize, &str)| level == "*" || (level == ">" && index + 1 == levels) || is_name(level);
        if levels <= 16 && text.split('.').enumerate().all(fits) {
            Ok(Self(text.to_owned()))
        } else {
            Err(NameError::new(
                text,
                "filter of subjects",
                "use a subject with `*` for a name, or `>` for all at the end",
            ))
        }
    }

    /// A filter behind a prefix.
    pub(crate) fn within(text: String) -> Self {
        Self(text)
    }

    /// The filter as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the subject is wanted.
    pub fn matches(&self, subject: &Subject) -> bool {
        let (mut wanted, mut levels) = (self.0.split('.'), subject.0.split('.'));
        loop {
            match (wanted.next(), levels.next()) {
                (None, None) | (Some(">"), Some(_)) => return true,
                (Some(filter), Some(level)) if filter == "*" || filter == level => {}
                _ => return false,
            }
        }
    }
}

impl From<Subject> for SubjectFilter {
    fn from(subject: Subject) -> Self {
        Self(subject.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_no_dots_spaces_or_wildcards() {
        for good in ["inbox", "GroupReportTopic", "a-b_c", "0"] {
            assert_eq!(LogName::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "a.b", "a b", "*", ">", "ä", &"x".repeat(65)] {
            assert!(LogName::new(bad).is_err(), "{bad}");
        }
        assert!(LogName::new("a b").unwrap_err().to_string().starts_with("`a b` is not a name of a log: use 1 to 64"));
    }

    #[test]
    fn filters_match_as_their_wildcards_say() {
        let matches =
            |filter: &str, subject: &str| SubjectFilter::new(filter).unwrap().matches(&Subject::new(subject).unwrap());
        assert!(matches("a.b", "a.b") && matches("a.*", "a.b") && matches("a.>", "a.b.c") && matches(">", "a"));
        assert!(!matches("a.b", "a") && !matches("a.*", "a") && !matches("a.>", "a") && !matches("a.*", "a.b.c"));
        assert!(SubjectFilter::new("a.>.b").is_err() && SubjectFilter::new("a..b").is_err());
        assert!(Subject::new("a.*").is_err() && Subject::new(&["a"; 17].join(".")).is_err());
    }
}
