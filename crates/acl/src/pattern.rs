//! The topic of a rule, with placeholders that are filled in for each client.

use tidegate_mqtt::topic::check_levels;
use tidegate_mqtt::{TopicError, TopicFilter};

use crate::effect::Effect;
use crate::limits::MAX_PATTERN_BYTES;
use crate::subscription::Topics;

/// A topic filter with placeholders for values of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    pieces: Pieces,
    /// Whether it is about a subscription to exactly this filter, not about the topics that it matches.
    pub(crate) exact: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Pieces {
    /// A filter without placeholders.
    Plain(Box<str>),
    /// Text and values in turn.
    Filled(Box<[Piece]>),
    /// All topics, those below `$` included, which no filter matches at once.
    Everything,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(Box<str>),
    Value(Placeholder),
}

/// The value of a placeholder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Placeholder {
    ClientId,
    UserName,
    Tenant,
    Listener,
    CertificateCn,
    /// The attribute of this name.
    Claim(Box<str>),
}

/// A pattern filled in for one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Filled<'a> {
    /// This filter, the same for all clients.
    Plain(&'a str),
    /// This filter.
    Own(String),
    /// All topics, those below `$` included.
    Everything,
    /// No topic.
    Nothing,
}

/// Why text is no pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatternError {
    #[error("the topic {0}")]
    Topic(#[from] TopicError),
    #[error("the topic has more than {MAX_PATTERN_BYTES} bytes")]
    TooLong,
    #[error("the topic begins with `$share/`")]
    Shared,
    #[error("the topic has a `${{` without a `}}`")]
    Unclosed,
    #[error("the topic has a placeholder that is not known")]
    Unknown,
}

impl PatternError {
    /// The proposed correction.
    pub(crate) const fn fix(self) -> &'static str {
        match self {
            Self::Topic(_) => "write a topic filter, with `+` and `#` alone in their levels",
            Self::TooLong => "shorten it",
            Self::Shared => "write the filter behind the group: a right to it holds for shared subscriptions, too",
            Self::Unclosed => "close the placeholder, as in `${username}`",
            Self::Unknown => {
                "the placeholders are ${clientid}, ${username}, ${tenant}, ${listener}, ${cert.cn} and ${claim.NAME}"
            }
        }
    }
}

impl Pattern {
    /// A filter as it is.
    ///
    /// # Errors
    /// When it is no valid one.
    pub(crate) fn plain(text: &str) -> Result<Self, PatternError> {
        check(text, text)?;
        Ok(Self { pieces: Pieces::Plain(text.into()), exact: false })
    }

    /// All topics.
    pub(crate) const fn everything() -> Self {
        Self { pieces: Pieces::Everything, exact: false }
    }

    /// Reads a topic of a rules file: `a/${username}/#`, and with `eq ` before it a filter that is meant as such.
    ///
    /// # Errors
    /// When it is no valid filter or has a placeholder that is not known.
    pub(crate) fn parse(text: &str) -> Result<Self, PatternError> {
        let (text, exact) = text.strip_prefix("eq ").map_or((text, false), |rest| (rest, true));
        Self::of(text, pieces(text)?, exact)
    }

    /// Reads a topic that a token grants: the same placeholders, and `%c` and `%u` anywhere.
    ///
    /// # Errors
    /// When it is no valid filter or has a placeholder that is not known.
    pub(crate) fn granted(text: &str, exact: bool) -> Result<Self, PatternError> {
        let written = text.replace("%c", "${clientid}").replace("%u", "${username}");
        Self::of(text, pieces(&written)?, exact)
    }

    /// Reads a pattern of Mosquitto's, in which a level `%c` is the client id and a level `%u` the user name.
    ///
    /// # Errors
    /// When it is no valid filter.
    pub(crate) fn mosquitto(text: &str) -> Result<Self, PatternError> {
        let mut pieces = Vec::new();
        for (number, level) in text.split('/').enumerate() {
            if number > 0 {
                push_text(&mut pieces, "/");
            }
            match level {
                "%c" => pieces.push(Piece::Value(Placeholder::ClientId)),
                "%u" => pieces.push(Piece::Value(Placeholder::UserName)),
                level => push_text(&mut pieces, level),
            }
        }
        Self::of(text, pieces, false)
    }

    fn of(text: &str, pieces: Vec<Piece>, exact: bool) -> Result<Self, PatternError> {
        // Filled with a harmless value the pattern must be a valid filter; later values contain no `/`, `+` or `#`.
        let sample: String = pieces
            .iter()
            .map(|piece| match piece {
                Piece::Text(text) => text,
                Piece::Value(_) => "v",
            })
            .collect();
        check(text, &sample)?;
        let plain = pieces.iter().all(|piece| matches!(piece, Piece::Text(_)));
        let pieces = if plain { Pieces::Plain(sample.into()) } else { Pieces::Filled(pieces.into()) };
        Ok(Self { pieces, exact })
    }

    /// Whether it is the same for all clients.
    pub(crate) fn is_plain(&self) -> bool {
        !matches!(self.pieces, Pieces::Filled(_))
    }

    /// The topics of a pattern that is the same for all clients.
    pub(crate) fn topics(&self) -> Option<Topics<'_>> {
        match &self.pieces {
            Pieces::Plain(text) if self.exact => Some(Topics::Exactly(text)),
            Pieces::Plain(text) => Some(Topics::Matched(text)),
            Pieces::Everything => Some(Topics::Everything),
            Pieces::Filled(_) => None,
        }
    }

    /// Fills the pattern in with the values of a client. When a value is missing, empty or dangerous, an allowing pattern matches no
    /// topic and a denying one matches all topics that it could mean.
    pub(crate) fn fill<'v>(&self, value: impl Fn(&Placeholder) -> Option<&'v str>, effect: Effect) -> Filled<'_> {
        let pieces = match &self.pieces {
            Pieces::Plain(text) => return Filled::Plain(text),
            Pieces::Everything => return Filled::Everything,
            Pieces::Filled(pieces) => pieces,
        };
        let mut text = String::new();
        for piece in pieces {
            match piece {
                Piece::Text(piece) => text.push_str(piece),
                Piece::Value(placeholder) => {
                    match value(placeholder).filter(|value| is_harmless(value, text.is_empty())) {
                        Some(value) => text.push_str(value),
                        None => return unfillable(&text, effect),
                    }
                }
            }
        }
        if TopicFilter::new(&text).is_ok() { Filled::Own(text) } else { unfillable("", effect) }
    }
}

/// Whether a value has no special meaning in a filter. `first` is set where the filter begins with the value: there a
/// `$` would lead to topics that wildcards do not match.
fn is_harmless(value: &str, first: bool) -> bool {
    let means_more = value.contains(['+', '#', '/', '\0']) || (first && value.starts_with('$'));
    !value.is_empty() && !means_more
}

/// The result for a pattern whose text is known only up to `before`.
fn unfillable(before: &str, effect: Effect) -> Filled<'static> {
    match (effect, before.rfind('/')) {
        (Effect::Allow, _) => Filled::Nothing,
        (Effect::Deny, Some(end)) => Filled::Own(format!("{}/#", &before[..end])),
        (Effect::Deny, None) => Filled::Everything,
    }
}

/// Text and `${...}` in turn.
fn pieces(text: &str) -> Result<Vec<Piece>, PatternError> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("${") {
        let (name, after) = behind.split_once('}').ok_or(PatternError::Unclosed)?;
        push_text(&mut pieces, before);
        pieces.push(Piece::Value(Placeholder::named(name).ok_or(PatternError::Unknown)?));
        rest = after;
    }
    push_text(&mut pieces, rest);
    Ok(pieces)
}

fn push_text(pieces: &mut Vec<Piece>, text: &str) {
    if text.is_empty() {
        return;
    }
    if let Some(Piece::Text(last)) = pieces.last_mut() {
        *last = format!("{last}{text}").into();
    } else {
        pieces.push(Piece::Text(text.into()));
    }
}

fn check(text: &str, sample: &str) -> Result<(), PatternError> {
    if text.len() > MAX_PATTERN_BYTES {
        return Err(PatternError::TooLong);
    }
    if text.starts_with("$share/") {
        return Err(PatternError::Shared);
    }
    check_levels(sample)?;
    TopicFilter::new(sample)?;
    Ok(())
}

impl Placeholder {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "clientid" => Self::ClientId,
            "username" => Self::UserName,
            "tenant" => Self::Tenant,
            "listener" => Self::Listener,
            "cert.cn" => Self::CertificateCn,
            _ => Self::Claim(name.strip_prefix("claim.").filter(|claim| !claim.is_empty())?.into()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(pattern: &str, client: &str, effect: Effect) -> String {
        let value = |it: &Placeholder| (*it == Placeholder::ClientId).then_some(client);
        match Pattern::parse(pattern).unwrap().fill(value, effect) {
            Filled::Plain(text) => text.to_owned(),
            Filled::Own(text) => text,
            Filled::Everything => "EVERYTHING".to_owned(),
            Filled::Nothing => "NOTHING".to_owned(),
        }
    }

    #[test]
    fn values_are_filled_in_anywhere_in_a_level() {
        assert_eq!(filled("a/${clientid}/#", "c", Effect::Allow), "a/c/#");
        assert_eq!(filled("a/x-${clientid}-y", "c", Effect::Allow), "a/x-c-y");
        assert_eq!(filled("${clientid}", "c", Effect::Allow), "c");
        assert_eq!(filled("a/$%", "c", Effect::Allow), "a/$%");
    }

    #[test]
    fn dangerous_values_shrink_permissions_and_grow_denials() {
        for value in ["+", "#", "a/b", "a+", "#b", "", "\0"] {
            assert_eq!(filled("a/${clientid}/x", value, Effect::Allow), "NOTHING");
            assert_eq!(filled("a/${clientid}/x", value, Effect::Deny), "a/#");
            assert_eq!(filled("a/b-${clientid}/x", value, Effect::Deny), "a/#");
            assert_eq!(filled("${clientid}/x", value, Effect::Deny), "EVERYTHING");
        }
        assert_eq!(filled("a/${username}", "c", Effect::Allow), "NOTHING");
        assert_eq!(filled("a/${claim.x}", "c", Effect::Deny), "a/#");
    }

    #[test]
    fn a_dollar_at_the_beginning_opens_no_system_topics() {
        assert_eq!(filled("${clientid}/#", "$SYS", Effect::Allow), "NOTHING");
        assert_eq!(filled("a/${clientid}/#", "$SYS", Effect::Allow), "a/$SYS/#");
        assert_eq!(filled("x${clientid}/#", "$SYS", Effect::Allow), "x$SYS/#");
    }

    #[test]
    fn an_invalid_topic_is_refused_with_a_fix() {
        for (text, error) in [
            ("", PatternError::Topic(TopicError::Empty)),
            ("a/#/b", PatternError::Topic(TopicError::MisplacedMultiLevelWildcard)),
            ("a/+${clientid}", PatternError::Topic(TopicError::MisplacedSingleLevelWildcard)),
            ("$share/g/a", PatternError::Shared),
            ("a/${clientid", PatternError::Unclosed),
            ("a/${client_id}", PatternError::Unknown),
            ("a/${claim.}", PatternError::Unknown),
            (&"a".repeat(MAX_PATTERN_BYTES + 1), PatternError::TooLong),
        ] {
            let found = Pattern::parse(text).unwrap_err();
            assert_eq!(found, error);
            assert!(!found.fix().is_empty());
        }
    }

    #[test]
    fn mosquitto_replaces_a_placeholder_only_as_a_whole_level() {
        let value = |it: &Placeholder| Some(if *it == Placeholder::ClientId { "c" } else { "u" });
        for (text, expected) in [("%c/%u/x", "c/u/x"), ("a/x%c/%cc", "a/x%c/%cc"), ("%u", "u"), ("a//%c", "a//c")] {
            let pattern = Pattern::mosquitto(text).unwrap();
            let filled = pattern.fill(value, Effect::Allow);
            assert!(filled == Filled::Plain(expected) || filled == Filled::Own(expected.to_owned()), "{filled:?}");
        }
    }
}
