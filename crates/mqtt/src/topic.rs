//! Topic Names and Topic Filters.

use crate::string::{self, StringError};

/// The longest Topic Name or Topic Filter, in bytes ([MQTT-4.7.3-3]).
pub const MAX_TOPIC_LEN: usize = 65_535;

/// How many levels a Topic Name or Topic Filter may have before [`check_levels`] objects. Valid topics can
/// have 65,536 levels, which a server that walks a tree of levels need not bear.
pub const MAX_TOPIC_LEVELS: usize = 128;

/// Why text is not a Topic Name or not a Topic Filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum TopicError {
    /// It has no character ([MQTT-4.7.3-1]).
    #[error("is empty")]
    Empty,
    /// It is longer than [`MAX_TOPIC_LEN`] ([MQTT-4.7.3-3]).
    #[error("is longer than 65,535 bytes")]
    TooLong,
    /// It is not well-formed UTF-8 ([MQTT-1.5.4-1]).
    #[error("is not well-formed UTF-8")]
    IllFormed,
    /// It holds U+0000 ([MQTT-4.7.3-2]).
    #[error("holds the null character")]
    Null,
    /// A Topic Name holds `+` or `#` ([MQTT-3.3.2-2], [MQTT-4.7.0-1]).
    #[error("holds a wildcard, which only a topic filter may")]
    Wildcard,
    /// `#` is not alone in its level, or not in the last one ([MQTT-4.7.1-1]).
    #[error("holds '#' elsewhere than alone in the last level")]
    MisplacedMultiLevelWildcard,
    /// `+` is not alone in its level ([MQTT-4.7.1-2]).
    #[error("holds '+' beside other characters of a level")]
    MisplacedSingleLevelWildcard,
    /// A shared subscription has no share name ([MQTT-4.8.2-1]); `$share` alone is one, too.
    #[error("names no group after '$share/'")]
    EmptyShareName,
    /// The share name of a shared subscription holds a wildcard ([MQTT-4.8.2-2]).
    #[error("holds a wildcard in the group after '$share/'")]
    WildcardInShareName,
    /// No Topic Filter follows the share name ([MQTT-4.8.2-2]).
    #[error("has no filter after '$share/' and its group")]
    MissingSharedFilter,
    /// The Topic Filter after the share name is itself one of a shared subscription.
    #[error("shares a filter that is shared already")]
    NestedShare,
    /// There are more than [`MAX_TOPIC_LEVELS`] levels; reported by [`check_levels`] only.
    #[error("has more than 128 levels")]
    TooManyLevels,
}

impl From<StringError> for TopicError {
    fn from(error: StringError) -> Self {
        match error {
            StringError::IllFormed => Self::IllFormed,
            StringError::Null => Self::Null,
        }
    }
}

/// Checks the limit of [`MAX_TOPIC_LEVELS`] on the text of a Topic Name or Topic Filter. The limit is ours; the
/// standard has none.
///
/// # Errors
///
/// [`TopicError::TooManyLevels`].
pub fn check_levels(text: &str) -> Result<(), TopicError> {
    let separators = text.bytes().filter(|&byte| byte == b'/').count();
    if separators < MAX_TOPIC_LEVELS { Ok(()) } else { Err(TopicError::TooManyLevels) }
}

/// Checks the rules for both Topic Names and Topic Filters: 1 to 65,535 bytes and no U+0000. Text is never normalised
/// ([MQTT-4.7.3-4]).
fn check_text(text: &str) -> Result<(), TopicError> {
    if text.is_empty() {
        return Err(TopicError::Empty);
    }
    if text.len() > MAX_TOPIC_LEN {
        return Err(TopicError::TooLong);
    }
    if text.as_bytes().contains(&0) {
        return Err(TopicError::Null);
    }
    Ok(())
}

/// Whether a Topic Name may contain the byte.
#[inline]
const fn is_plain(byte: u8) -> bool {
    !matches!(byte, 0 | b'+' | b'#')
}

/// A valid Topic Name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicName<'a>(&'a str);

impl<'a> TopicName<'a> {
    /// Checks `text`.
    ///
    /// # Errors
    ///
    /// When it is empty, too long, holds U+0000 or a wildcard.
    #[inline]
    pub fn new(text: &'a str) -> Result<Self, TopicError> {
        // Compilers turn this loop into vector instructions, since it looks at every byte and never leaves early.
        let plain = text.bytes().fold(true, |plain, byte| plain & is_plain(byte));
        if plain && (1..=MAX_TOPIC_LEN).contains(&text.len()) {
            return Ok(Self(text));
        }
        check_text(text)?;
        Err(TopicError::Wildcard)
    }

    /// Checks `bytes` as UTF-8 and as a Topic Name.
    ///
    /// # Errors
    ///
    /// As [`TopicName::new`], and for ill-formed UTF-8.
    #[inline]
    pub fn from_utf8(bytes: &'a [u8]) -> Result<Self, TopicError> {
        Self::new(std::str::from_utf8(bytes).map_err(|_| TopicError::IllFormed)?)
    }

    /// The text.
    #[inline]
    pub const fn as_str(self) -> &'a str {
        self.0
    }

    /// The levels, from the first; there is always one, and levels may be empty.
    #[inline]
    pub fn levels(self) -> std::str::Split<'a, char> {
        self.0.split('/')
    }

    /// Whether the name starts with `$`, and so escapes filters that start with a wildcard
    /// ([MQTT-4.7.2-1]).
    #[inline]
    pub fn is_dollar(self) -> bool {
        self.0.starts_with('$')
    }
}

impl std::fmt::Display for TopicName<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

/// A valid Topic Filter, `$share/GROUP/FILTER` included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicFilter<'a> {
    text: &'a str,
    /// The filter proper: the end of `text` after `$share/GROUP/`, all of it when it is not shared.
    proper: &'a str,
}

impl<'a> TopicFilter<'a> {
    /// Checks `text`.
    ///
    /// # Errors
    ///
    /// When it is empty, too long, contains U+0000 or a misplaced wildcard, or starts with `$share/` without a valid
    /// group and filter.
    pub fn new(text: &'a str) -> Result<Self, TopicError> {
        check_text(text)?;
        let proper = proper_filter(text)?;
        check_wildcards(proper)?;
        Ok(Self { text, proper })
    }

    /// A text that [`TopicFilter::new`] has accepted before. It is not checked again.
    #[must_use]
    pub fn checked(text: &'a str) -> Self {
        Self { text, proper: proper_filter(text).unwrap_or(text) }
    }

    /// Checks `bytes` as UTF-8 and as a Topic Filter.
    ///
    /// # Errors
    ///
    /// As [`TopicFilter::new`], and for ill-formed UTF-8.
    pub fn from_utf8(bytes: &'a [u8]) -> Result<Self, TopicError> {
        Self::new(string::from_utf8(bytes)?)
    }

    /// The whole text, with `$share/GROUP/` for a shared subscription. It identifies the subscription
    /// ([MQTT-3.10.4-1]).
    #[inline]
    pub const fn as_str(self) -> &'a str {
        self.text
    }

    /// The group (the share name) and the filter proper, when this is the filter of a shared subscription.
    pub fn shared(self) -> Option<(&'a str, TopicFilter<'a>)> {
        let group = self.text.strip_suffix(self.proper)?;
        let group = group.strip_prefix(SHARE_PREFIX)?.strip_suffix('/')?;
        Some((group, self.proper()))
    }

    /// The filter that Topic Names are compared with: without `$share/GROUP/`.
    #[inline]
    #[must_use]
    pub fn proper(self) -> Self {
        Self { text: self.proper, proper: self.proper }
    }

    /// Whether there is a `+` or `#` in the filter proper.
    #[inline]
    pub fn has_wildcards(self) -> bool {
        self.proper.bytes().any(|byte| matches!(byte, b'+' | b'#'))
    }

    /// The levels of the filter without `$share/GROUP/`, from the first; `+` and `#` are levels of their own.
    #[inline]
    pub fn levels(self) -> std::str::Split<'a, char> {
        self.proper.split('/')
    }

    /// Whether the filter proper matches the name, level by level and byte by byte. A filter that starts
    /// with a wildcard does not match a name that starts with `$` ([MQTT-4.7.2-1]).
    pub fn matches(self, name: TopicName<'_>) -> bool {
        matches(self.proper, name.0)
    }
}

/// Whether a filter matches a topic name. Both texts are valid, the filter is without `$share/GROUP/`: on the path of a
/// message they are not checked again.
pub fn matches(filter: &str, name: &str) -> bool {
    let (mut filter, mut name) = (filter.as_bytes(), name.as_bytes());
    if name.starts_with(b"$") && matches!(filter, [b'+' | b'#', ..]) {
        return false;
    }
    loop {
        // A name has no wildcard, so the first difference is one, or shows that they do not match.
        let same = filter.iter().zip(name).take_while(|(one, other)| one == other).count();
        (filter, name) = (filter.get(same..).unwrap_or_default(), name.get(same..).unwrap_or_default());
        match filter {
            b"#" => return true,
            // `#` matches its parent level, too.
            [] | b"/#" => return name.is_empty(),
            [b'+', behind @ ..] => {
                filter = behind;
                name = name.get(level_len(name)..).unwrap_or_default();
            }
            _ => return false,
        }
    }
}

/// Bytes of the first level.
#[inline]
fn level_len(text: &[u8]) -> usize {
    text.iter().position(|byte| *byte == b'/').unwrap_or(text.len())
}

/// Whether there is a topic name that both filters match. The text is that of valid filters, without `$share/GROUP/`.
pub fn overlaps(one: &str, other: &str) -> bool {
    let (mut ones, mut others) = (one.split('/'), other.split('/'));
    let mut first = true;
    loop {
        match (ones.next(), others.next()) {
            (Some("#" | "+"), Some(level)) | (Some(level), Some("#" | "+")) if first && level.starts_with('$') => {
                return false;
            }
            // `#` matches its parent level, too.
            (Some("#"), _) | (_, Some("#")) | (None, None) => return true,
            (Some("+"), Some(_)) | (Some(_), Some("+")) => {}
            (Some(one), Some(other)) if one == other => {}
            _ => return false,
        }
        first = false;
    }
}

impl std::fmt::Display for TopicFilter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.text)
    }
}

const SHARE_PREFIX: &str = "$share/";

/// The first level of the same.
const SHARE: &str = "$share";

/// The filter proper: all of the text unless it is a shared subscription's
/// ([MQTT-4.8.2-1], [MQTT-4.8.2-2]).
fn proper_filter(text: &str) -> Result<&str, TopicError> {
    let Some(rest) = text.strip_prefix(SHARE_PREFIX) else {
        return if is_shared(text) { Err(TopicError::EmptyShareName) } else { Ok(text) };
    };
    let (group, filter) = rest.split_once('/').unwrap_or((rest, ""));
    if group.is_empty() {
        return Err(TopicError::EmptyShareName);
    }
    if group.contains(['+', '#']) {
        return Err(TopicError::WildcardInShareName);
    }
    if filter.is_empty() {
        return Err(TopicError::MissingSharedFilter);
    }
    if is_shared(filter) {
        return Err(TopicError::NestedShare);
    }
    Ok(filter)
}

/// Whether the first level marks the text as a shared subscription's filter (section 4.8.2).
fn is_shared(text: &str) -> bool {
    text.starts_with(SHARE_PREFIX) || text == SHARE
}

/// A wildcard must fill its level, and `#` must be the last level ([MQTT-4.7.1-1], [MQTT-4.7.1-2]).
fn check_wildcards(filter: &str) -> Result<(), TopicError> {
    let mut levels = filter.split('/').peekable();
    while let Some(level) = levels.next() {
        if level.contains('#') && (level.len() > 1 || levels.peek().is_some()) {
            return Err(TopicError::MisplacedMultiLevelWildcard);
        }
        if level.contains('+') && level.len() > 1 {
            return Err(TopicError::MisplacedSingleLevelWildcard);
        }
    }
    Ok(())
}
