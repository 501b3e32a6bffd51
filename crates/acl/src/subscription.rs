//! Whether a filter may be subscribed to: it is compared with one rule after another.

use tidegate_mqtt::topic::overlaps;

use crate::effect::{Effect, RuleId, Subscribing};
use crate::filter::covers;
use crate::request::{DecidedBy, Decision};

/// The topics of a pattern, filled in for a client.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Topics<'a> {
    /// The topics that this filter matches.
    Matched(&'a str),
    /// A subscription to this filter.
    Exactly(&'a str),
    /// All topics.
    Everything,
}

/// A rule, as applied to a subscription.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Saying<'a> {
    pub(crate) effect: Effect,
    pub(crate) topics: Topics<'a>,
    /// Whether it is about subscribing, with the requested QoS.
    pub(crate) subscribes: bool,
    /// Whether it is about receiving.
    pub(crate) receives: bool,
    pub(crate) subscribing: Subscribing,
}

/// The results so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk<'a> {
    asked: &'a str,
    /// Whether an earlier rule denies some of the messages.
    filtered: bool,
    /// The first rule that allows some of the messages.
    some: Option<RuleId>,
}

/// The effect of a rule on a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It allows the subscription. With `filtered`, rules also decide about each message.
    Allowed { filtered: bool },
    /// It denies the subscription.
    Denied,
    /// It applies to a part of the topics that the filter can match: the next rule decides.
    Some,
    /// It does not apply to the subscription.
    Nothing,
}

impl<'a> Walk<'a> {
    /// Begins with a filter.
    pub(crate) const fn new(asked: &'a str) -> Self {
        Self { asked, filtered: false, some: None }
    }

    /// Asks the next rule.
    pub(crate) fn step(&mut self, rule: RuleId, says: Saying<'_>) -> Step {
        let whole = match says.topics {
            Topics::Matched(filter) => covers(filter, self.asked),
            Topics::Exactly(filter) => filter == self.asked,
            Topics::Everything => true,
        };
        let partly = match says.topics {
            Topics::Matched(filter) => overlaps(filter, self.asked),
            // A denial of one subscription denies no topic; a topic allowed by one subscription is still delivered.
            Topics::Exactly(filter) => says.effect == Effect::Allow && overlaps(filter, self.asked),
            Topics::Everything => true,
        };
        match (says.effect, says.subscribing) {
            (Effect::Allow, _) if says.subscribes && whole => Step::Allowed { filtered: self.filtered },
            (Effect::Allow, Subscribing::ByMessage) if says.subscribes && partly => {
                self.some = self.some.or(Some(rule));
                Step::Some
            }
            (Effect::Deny, Subscribing::Whole) if says.subscribes && (partly || whole) => Step::Denied,
            (Effect::Deny, Subscribing::ByMessage) if says.subscribes && whole && self.some.is_none() => Step::Denied,
            (Effect::Deny, _) if says.receives && partly => {
                self.filtered = true;
                Step::Some
            }
            _ => Step::Nothing,
        }
    }

    /// The decision if no rule decided.
    pub(crate) fn end(&self, default: Effect) -> Decision {
        match self.some {
            Some(rule) => Decision { filtered: true, ..Decision::allow(DecidedBy::Rule(rule)) },
            None if default == Effect::Allow => {
                Decision { filtered: self.filtered, ..Decision::allow(DecidedBy::Default) }
            }
            None => Decision::deny(DecidedBy::Default),
        }
    }
}
