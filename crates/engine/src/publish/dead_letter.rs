//! Dead letters: dropped messages are published once more, below a topic of their own.

use crate::events::reason::Reason;
use crate::message::MessageRef;
use crate::now::Millis;
use crate::settings::DeadLetter;
use std::collections::VecDeque;
use std::rc::Rc;

/// Dropped messages that wait for the end of the current work; further ones are only counted.
const WAITING_MAX: usize = 1024;

/// Dropped messages before their new publication.
#[derive(Debug)]
pub(crate) struct DeadLetters {
    pub(crate) settings: DeadLetter,
    pub(crate) waiting: VecDeque<(Reason, MessageRef)>,
    /// The second in which `sent` were sent.
    second: u64,
    sent: u32,
}

impl DeadLetters {
    /// Whether dead letters wait to be published.
    #[inline]
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(crate) fn new(settings: DeadLetter) -> Self {
        Self { settings, waiting: VecDeque::new(), second: 0, sent: 0 }
    }

    /// Gives memory back after a peak.
    pub(crate) fn shrink(&mut self) {
        self.waiting.shrink_to_fit();
    }

    /// Notes a dropped message; returns whether it will be published. Drops of one message for several subscribers with
    /// the same reason make one letter.
    pub(crate) fn note(&mut self, reason: Reason, message: &MessageRef) -> Noted {
        if self.is_own(message.topic()) || !self.settings.reasons.contains(&reason) {
            return Noted::NotWanted;
        }
        if self.waiting.iter().rev().take(4).any(|(why, other)| *why == reason && Rc::ptr_eq(other, message)) {
            return Noted::Known;
        }
        if self.waiting.len() >= WAITING_MAX {
            return Noted::TooMany;
        }
        self.waiting.push_back((reason, Rc::clone(message)));
        Noted::Waits
    }

    /// True for a topic of dead letters: a dropped dead letter is not published again.
    fn is_own(&self, topic: &str) -> bool {
        topic.strip_prefix(&*self.settings.prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Whether one more may be sent in this second.
    pub(crate) fn may_send(&mut self, now: Millis) -> bool {
        let second = now.0 / 1000;
        if std::mem::replace(&mut self.second, second) != second {
            self.sent = 0;
        }
        let may = self.sent < self.settings.max_rate;
        self.sent += u32::from(may);
        may
    }
}

#[derive(PartialEq, Eq)]
pub(crate) enum Noted {
    NotWanted,
    Known,
    TooMany,
    Waits,
}

/// Appends a user property as it is encoded in a packet ([MQTT-3.3.2-17]). Neither part is longer than 65,535 bytes.
pub(crate) fn put_user_property(out: &mut Vec<u8>, name: &str, value: &str) {
    out.push(USER_PROPERTY);
    for text in [name, value] {
        out.extend_from_slice(&(text.len() as u16).to_be_bytes());
        out.extend_from_slice(text.as_bytes());
    }
}

/// Identifier of a user property.
const USER_PROPERTY: u8 = 0x26;
