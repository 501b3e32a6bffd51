//! The allowed values of a retained topic: the last confirmed one, or one that was sent after it.

use std::collections::VecDeque;

use super::{Ledger, MessageId};

/// The operation of a retained message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetainedOperation {
    /// Sets the value.
    Set,
    /// Removes it: an empty payload.
    Remove,
}

/// The operations on one topic from the last confirmed one on.
#[derive(Clone, Debug, Default)]
pub(super) struct RetainedTopic {
    confirmed: Option<(MessageId, RetainedOperation)>,
    /// Sent after the confirmed one, in order.
    later: VecDeque<(MessageId, RetainedOperation)>,
}

impl RetainedTopic {
    pub(super) fn sent(&mut self, id: MessageId, operation: RetainedOperation) {
        self.later.push_back((id, operation));
    }

    /// The broker has published the message, and with it all before.
    pub(super) fn confirmed(&mut self, id: MessageId) {
        if let Some(place) = self.later.iter().position(|(later, _)| *later == id) {
            self.confirmed = self.later.drain(..=place).next_back();
        }
    }

    pub(super) fn refused(&mut self, id: MessageId) {
        self.later.retain(|(later, _)| *later != id);
    }

    pub(super) fn latest(&self) -> Option<MessageId> {
        self.later.back().or(self.confirmed.as_ref()).map(|(id, _)| *id)
    }

    pub(super) fn unconfirmed(&self) -> usize {
        self.later.len()
    }

    /// Whether a message that comes live may be the present value. One from before the last confirmed operation is late: a
    /// fleet repeats unsettled messages after a death.
    fn may_be_present(&self, id: MessageId) -> bool {
        self.confirmed.is_none_or(|(confirmed, _)| id.number >= confirmed.number)
    }

    /// True when the topic cannot be empty.
    pub(super) fn must_have(&self) -> bool {
        let sets = |entry: &(MessageId, RetainedOperation)| entry.1 == RetainedOperation::Set;
        self.confirmed.as_ref().is_some_and(sets) && self.later.iter().all(sets)
    }

    /// Why a subscriber's value is impossible; `None` when all is well.
    pub(super) fn judge(&self, seen: Option<MessageId>) -> Option<String> {
        let Some(seen) = seen else {
            return self.must_have().then(|| {
                let last = self.confirmed.map_or(0, |(id, _)| id.number);
                format!("there is no value, but {last} was acknowledged")
            });
        };
        let allowed = |entry: &&(MessageId, RetainedOperation)| entry.0 == seen && entry.1 == RetainedOperation::Set;
        if self.confirmed.iter().chain(&self.later).any(|entry| allowed(&entry)) {
            return None;
        }
        Some(match self.confirmed {
            Some((id, RetainedOperation::Set)) => {
                format!("the value is {}, but {} was acknowledged", seen.number, id.number)
            }
            Some((id, RetainedOperation::Remove)) => {
                format!("the value is {}, but its removal by {} was acknowledged", seen.number, id.number)
            }
            None => format!("the value is {}, which was never sent", seen.number),
        })
    }
}

impl Ledger {
    /// A new subscriber has received a message of a retained topic. Says whether it counts as the topic's value: with RETAIN
    /// always, and live unless it is late.
    pub(crate) fn counts_as_value(
        &mut self,
        index: usize,
        name: &str,
        id: MessageId,
        is_retained: bool,
        who: &str,
    ) -> bool {
        let (clock, topic) = (self.tick(), self.topics.number(name));
        self.trace.note(topic, clock, id, if is_retained { "retained for" } else { "came live to" }, who);
        let counts = is_retained || self.retained.get(index).is_none_or(|topic| topic.may_be_present(id));
        self.findings.totals.repeated += u64::from(!counts);
        counts
    }
}
