//! Refusals of a broker, by the refused request and the reason.

use std::collections::BTreeMap;

use tidegate_mqtt::ReasonCode;

use crate::load::outcome::LoadOutcome;

/// Characters of a reason in the broker's own words that are kept.
const WORDS_MOST: usize = 200;

/// The refused request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Refused {
    /// A client, in CONNACK.
    Client,
    /// A subscription, in SUBACK.
    Subscription,
    /// A message, in PUBACK or PUBREC.
    Message,
    /// To keep a connection, in DISCONNECT.
    Connection,
}

/// How often one thing was refused for one reason.
#[derive(Debug)]
struct Tally {
    code: ReasonCode,
    times: u64,
    /// The broker's reason string, the first one.
    words: Option<String>,
}

/// The refusals of a broker.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    tallies: BTreeMap<(Refused, u8), Tally>,
}

impl Refusals {
    /// Counts a refusal. A success is not counted.
    pub(super) fn note(&mut self, refused: Refused, code: ReasonCode, words: Option<&str>) {
        if !code.is_error() {
            return;
        }
        let tally = self.tallies.entry((refused, code.byte())).or_insert_with(|| Tally { code, times: 0, words: None });
        tally.times += 1;
        if tally.words.is_none() {
            tally.words = words.map(|words| words.chars().take(WORDS_MOST).collect());
        }
    }

    /// Adds all refusals to the problems of a run.
    pub(super) fn tell(&self, outcome: &mut LoadOutcome) {
        for ((refused, _), tally) in &self.tallies {
            outcome.note_problem(&sentence(*refused, tally), tally.times);
        }
    }
}

fn sentence(refused: Refused, tally: &Tally) -> String {
    let event = match refused {
        Refused::Client => "the broker refused a client",
        Refused::Subscription => "the broker refused a subscription",
        Refused::Message => "the broker refused a message",
        Refused::Connection => "the broker ended a connection",
    };
    let words = tally.words.as_ref().map(|words| format!(", \"{words}\"")).unwrap_or_default();
    let code = tally.code;
    format!("{event}: {} (0x{:02X}{words}); {}", code.text(), code.byte(), advice(refused, code))
}

/// A remedy.
fn advice(refused: Refused, code: ReasonCode) -> &'static str {
    match (refused, code) {
        (_, ReasonCode::BadUserNameOrPassword | ReasonCode::BadAuthenticationMethod) => {
            "check the user name and the password of the address"
        }
        (Refused::Client | Refused::Connection, ReasonCode::NotAuthorized) => {
            "name a user in the address, or let clients in without one"
        }
        (_, ReasonCode::NotAuthorized) => "give the user of the address the right to these topics",
        (_, ReasonCode::Banned) => "lift the broker's ban of this address or user",
        (_, ReasonCode::UnsupportedProtocolVersion) => "choose another `protocol` for the load",
        (_, ReasonCode::ClientIdentifierNotValid) => {
            "choose another `client_id` for the group, or let the broker take it"
        }
        (_, ReasonCode::ServerUnavailable | ReasonCode::ServerBusy) => {
            "look whether the broker is at its limit of connections, memory or files"
        }
        (_, ReasonCode::ConnectionRateExceeded) => {
            "let clients come more slowly with `ramp`, or raise the broker's limit of new connections"
        }
        (Refused::Message | Refused::Connection, ReasonCode::MessageRateTooHigh) => {
            "send less, or raise the broker's limit of messages"
        }
        (_, ReasonCode::QuotaExceeded) => "raise the broker's quota, or ask for less",
        (_, ReasonCode::PacketTooLarge) => "send smaller payloads, or raise the broker's greatest packet",
        (_, ReasonCode::TopicFilterInvalid | ReasonCode::TopicNameInvalid) => {
            "check topics and filters of the load against what the broker takes"
        }
        (
            _,
            ReasonCode::QosNotSupported
            | ReasonCode::RetainNotSupported
            | ReasonCode::SharedSubscriptionsNotSupported
            | ReasonCode::SubscriptionIdentifiersNotSupported
            | ReasonCode::WildcardSubscriptionsNotSupported,
        ) => "the broker does not offer it: leave it out of the load",
        (_, ReasonCode::UseAnotherServer | ReasonCode::ServerMoved) => "name the other node in the address",
        (Refused::Subscription, ReasonCode::UnspecifiedError) => {
            "look into the broker's log; before MQTT 5 this is all that is said where a right is missing"
        }
        _ => "look into the broker's log",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_reported_with_reason_count_and_remedy() {
        let mut refusals = Refusals::default();
        refusals.note(Refused::Message, ReasonCode::NoMatchingSubscribers, None);
        refusals.note(Refused::Client, ReasonCode::NotAuthorized, None);
        refusals.note(Refused::Client, ReasonCode::NotAuthorized, Some("no such user"));
        refusals.note(Refused::Subscription, ReasonCode::NotAuthorized, Some(&"é".repeat(300)));
        refusals.note(Refused::Subscription, ReasonCode::UnspecifiedError, None);
        let mut outcome = LoadOutcome::default();
        refusals.tell(&mut outcome);
        let reported: Vec<_> = outcome.problems.iter().map(|(event, times)| (event.as_str(), *times)).collect();
        let long = format!(
            "the broker refused a subscription: not authorized (0x87, \"{}\"); give the user of the address the right to these topics",
            "é".repeat(WORDS_MOST)
        );
        assert_eq!(
            reported,
            [
                (
                    "the broker refused a client: not authorized (0x87, \"no such user\"); name a user in the address, or let clients in without one",
                    2
                ),
                (long.as_str(), 1),
                (
                    "the broker refused a subscription: unspecified error (0x80); look into the broker's log; before MQTT 5 this is all that is said where a right is missing",
                    1
                ),
            ]
        );
    }
}
