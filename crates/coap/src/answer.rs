//! Answers, before they are messages.

use std::hash::{DefaultHasher, Hash, Hasher};

use tidegate_client::{MessageProperties, ReasonCode};

use crate::block::Block;
use crate::fields::Shown;
use crate::format::{self, JSON};
use crate::message::{Code, Kind, Message, Token, option, shortest};
use crate::{Failure, Outcome};

/// Longest text of an error, bytes.
const MAX_DIAGNOSTIC: usize = 120;

/// The code, the options and the payload of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) code: Code,
    pub(crate) options: Vec<(u16, Vec<u8>)>,
    pub(crate) payload: Vec<u8>,
}

impl Answer {
    /// Whether it has the first of several blocks.
    pub(crate) fn has_more(&self) -> bool {
        let blocks = self.options.iter().filter(|(number, _)| *number == option::BLOCK2);
        blocks.filter_map(|(_, value)| Block::read(value)).any(|block| block.more)
    }

    pub(crate) const fn new(code: Code) -> Self {
        Self { code, options: Vec::new(), payload: Vec::new() }
    }

    /// An error with a text for people [RFC 7252, 5.5.2].
    pub(crate) fn refusal(code: Code, why: impl AsRef<str>) -> Self {
        let why = why.as_ref();
        let end = (0..=MAX_DIAGNOSTIC).rev().find(|end| why.is_char_boundary(*end)).unwrap_or_default();
        let why = if why.len() > MAX_DIAGNOSTIC { why.get(..end).unwrap_or_default() } else { why };
        Self { payload: why.as_bytes().to_vec(), ..Self::new(code) }
    }

    pub(crate) fn with(mut self, option: u16, value: Vec<u8>) -> Self {
        self.options.push((option, value));
        self
    }

    /// The answer as a message.
    pub(crate) fn message(self, kind: Kind, id: u16, token: Token) -> Message {
        Message { kind, code: self.code, id, token, options: self.options, payload: self.payload }
    }

    /// Whether its payload is a text for people, which may be cut.
    pub(crate) const fn is_refusal(&self) -> bool {
        self.code.class() >= 4
    }
}

/// The code that says the same as a reason of MQTT.
const fn code_of(reason: ReasonCode) -> Code {
    match reason {
        reason if !reason.is_error() => Code::CHANGED,
        ReasonCode::BadUserNameOrPassword | ReasonCode::BadAuthenticationMethod => Code::UNAUTHORIZED,
        ReasonCode::NotAuthorized | ReasonCode::Banned => Code::FORBIDDEN,
        ReasonCode::QuotaExceeded | ReasonCode::ConnectionRateExceeded | ReasonCode::MessageRateTooHigh => {
            Code::TOO_MANY
        }
        ReasonCode::PacketTooLarge => Code::TOO_LARGE,
        ReasonCode::TopicNameInvalid
        | ReasonCode::TopicFilterInvalid
        | ReasonCode::PayloadFormatInvalid
        | ReasonCode::QosNotSupported
        | ReasonCode::RetainNotSupported
        | ReasonCode::WildcardSubscriptionsNotSupported
        | ReasonCode::SharedSubscriptionsNotSupported => Code::BAD_REQUEST,
        ReasonCode::UnspecifiedError | ReasonCode::ImplementationSpecificError => Code::UNPROCESSABLE,
        _ => Code::UNAVAILABLE,
    }
}

/// The answer of the broker to a request.
pub(crate) fn outcome(outcome: &Outcome) -> Answer {
    let why = outcome.why.as_deref().unwrap_or(outcome.code.text());
    match code_of(outcome.code) {
        Code::CHANGED => Answer::new(Code::CHANGED),
        code => Answer::refusal(code, why),
    }
}

/// Why the broker does not carry a request out.
pub(crate) fn failure(failure: &Failure) -> Answer {
    match failure {
        Failure::Refused(refused) => outcome(refused),
        // Rules end no connection; credentials that are no longer valid do.
        Failure::Ended(ended) if ended.code == ReasonCode::NotAuthorized => {
            Answer::refusal(Code::UNAUTHORIZED, ended.why.as_deref().unwrap_or(ended.code.text()))
        }
        Failure::Ended(ended) => outcome(ended),
        Failure::Closed => Answer::refusal(Code::UNAVAILABLE, "the broker has closed the connection"),
        Failure::Invalid(why) => Answer::refusal(Code::BAD_REQUEST, why),
        Failure::TooMany => Answer::refusal(Code::UNAVAILABLE, "the listener has too many sessions"),
    }
}

/// A message as the body of answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Body {
    pub(crate) bytes: Vec<u8>,
    pub(crate) format: Option<u16>,
    pub(crate) tag: Vec<u8>,
    expiry: Option<u32>,
}

impl Body {
    /// The body that shows a message: its payload, or all its fields.
    pub(crate) fn of(message: Shown, event: bool) -> Self {
        let mut hasher = DefaultHasher::new();
        let lasting = MessageProperties { message_expiry: None, ..message.properties.clone() };
        (event, message.qos, message.retain, &message.topic, &message.payload, format!("{lasting:?}"))
            .hash(&mut hasher);
        let tag = hasher.finish().to_be_bytes().to_vec();
        let expiry = message.properties.message_expiry;
        if event {
            return Self { bytes: message.event(), format: Some(JSON), tag, expiry };
        }
        let format = message.properties.content_type.as_deref().and_then(format::format);
        Self { bytes: message.payload, format, tag, expiry }
    }

    /// An answer with a block of the body. `known` are the versions that the client has.
    pub(crate) fn answer(&self, block: Option<Block>, known: &[Vec<u8>]) -> Answer {
        let fresh = |answer: Answer| match self.expiry {
            Some(seconds) => answer.with(option::MAX_AGE, shortest(seconds)),
            None => answer,
        };
        if known.contains(&self.tag) {
            return fresh(Answer::new(Code::VALID).with(option::ETAG, self.tag.clone()));
        }
        let Some((cut, part)) = block.unwrap_or(Block::FIRST).cut(&self.bytes) else {
            return Answer::refusal(Code::BAD_REQUEST, "the body has no such block");
        };
        let mut answer = fresh(Answer::new(Code::CONTENT).with(option::ETAG, self.tag.clone()));
        if let Some(format) = self.format {
            answer = answer.with(option::CONTENT_FORMAT, shortest(format.into()));
        }
        if block.is_some() || cut.more {
            answer = answer.with(option::BLOCK2, cut.value());
            if cut.number == 0 {
                answer = answer.with(option::SIZE2, shortest(u32::try_from(self.bytes.len()).unwrap_or(u32::MAX)));
            }
        }
        answer.payload = part.to_vec();
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let answer = Answer::refusal(Code::BAD_REQUEST, "ä".repeat(100));
        assert_eq!(String::from_utf8(answer.payload).unwrap(), "ä".repeat(MAX_DIAGNOSTIC / 2));
    }

    #[test]
    fn a_session_that_ends_without_rights_asks_for_credentials() {
        let outcome = |code| Outcome { code, why: None };
        let code = |why: &Failure| failure(why).code;
        assert_eq!(code(&Failure::Ended(outcome(ReasonCode::NotAuthorized))), Code::UNAUTHORIZED);
        assert_eq!(code(&Failure::Refused(outcome(ReasonCode::NotAuthorized))), Code::FORBIDDEN);
        assert_eq!(code(&Failure::Ended(outcome(ReasonCode::AdministrativeAction))), Code::UNAVAILABLE);
    }

    #[test]
    fn the_tag_changes_with_the_message_and_not_with_its_age() {
        let body = |payload: &str, expiry, event| {
            let properties = MessageProperties { message_expiry: expiry, ..MessageProperties::default() };
            Body::of(Shown { payload: payload.into(), properties, ..Shown::default() }, event)
        };
        let first = body("a", Some(60), false);
        assert_eq!(first.tag, body("a", Some(9), false).tag);
        assert_ne!(first.tag, body("b", Some(60), false).tag);
        assert_ne!(first.tag, body("a", Some(60), true).tag);
        let known = first.answer(None, &[vec![1], first.tag.clone()]);
        assert_eq!((known.code, known.payload.len()), (Code::VALID, 0));
        assert!(known.options.contains(&(option::MAX_AGE, vec![60])));
        assert_eq!(first.answer(None, &[]).payload, b"a");
    }
}
