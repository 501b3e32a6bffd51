//! Topics of rules, filled in for one client.

use crate::class::names_messages;
use crate::effect::{Effect, RuleId};
use crate::filter::matches;
use crate::pattern::{Filled, Pattern};
use crate::subject::Subject;
use crate::subscription::Topics;

/// A topic that was filled in for a client.
#[derive(Clone, Debug)]
pub(crate) struct Own {
    pub(crate) rule: RuleId,
    pub(crate) topics: OwnTopics,
}

#[derive(Clone, Debug)]
pub(crate) enum OwnTopics {
    Matched(Box<str>),
    Exactly(Box<str>),
    Everything,
}

impl OwnTopics {
    pub(crate) fn fill(pattern: &Pattern, subject: &Subject<'_>, effect: Effect) -> Option<Self> {
        let text: Box<str> = match pattern.fill(|it| subject.value(it), effect) {
            Filled::Plain(text) => text.into(),
            Filled::Own(text) => text.into(),
            Filled::Everything => return Some(Self::Everything),
            Filled::Nothing => return None,
        };
        Some(if pattern.exact { Self::Exactly(text) } else { Self::Matched(text) })
    }

    pub(crate) fn as_topics(&self) -> Topics<'_> {
        match self {
            Self::Matched(text) => Topics::Matched(text),
            Self::Exactly(text) => Topics::Exactly(text),
            Self::Everything => Topics::Everything,
        }
    }
}

/// Whether a topic name is among some topics.
pub(crate) fn names(topics: Topics<'_>, topic: &str, publishing: bool, effect: Effect) -> bool {
    match topics {
        Topics::Matched(filter) => matches(filter, topic),
        Topics::Exactly(filter) => names_messages(filter, publishing, effect) && matches(filter, topic),
        Topics::Everything => true,
    }
}
