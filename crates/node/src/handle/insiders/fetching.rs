//! Retained messages of topics whose home is another node of a cluster: the node that is asked fetches them from there.

use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use tidegate_engine::{Millis, Now, Principal, PrincipalKind, Reason, RetainedValue, TenantId, partition_of};
use tidegate_mqtt::QoS;

use super::inlet::Inlet;
use crate::cluster::{AskError, MAX_QUESTION_BYTES};

/// The first byte of the question for the retained message of a topic. Other questions of nodes do not begin with it.
pub const RETAINED_QUESTION: u8 = 4;

/// How long another node may take to answer.
const PATIENCE: Duration = Duration::from_secs(4);
/// The first byte of an answer with a message.
const FOUND: u8 = 1;
/// The answer that the topic has no message.
const NONE: u8 = 0;
/// The answer that the message is too long for a link.
const TOO_LONG: u8 = 2;
/// The answer that the node is not the home of the topic, or not any more.
const NOT_HOME: u8 = 3;
/// The remaining milliseconds of a message without an end.
const ENDLESS: u64 = u64::MAX;

/// The home of a topic did not give its retained message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotFetched {
    /// No node serves the topic at the moment.
    #[error("the topic moves")]
    Moving,
    /// The named node does not answer.
    #[error("node {0} does not answer")]
    Silent(String),
    /// The other node answers too many questions already.
    #[error("the other node answers no questions at the moment")]
    Busy,
    /// The message at the named node is longer than a link takes, 4 MiB.
    #[error("the message at node {0} is too long for a link")]
    TooLong(String),
}

/// The answer of the home of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
enum HomeAnswer {
    /// The retained message, if there is one.
    Message(Option<RetainedValue>),
    /// A message that is too long for a link.
    TooLong,
    /// Another node has the topic.
    NotHome,
}

impl Inlet {
    /// Fetches the retained message of a topic from the other node that has it. The caller has checked the rights.
    ///
    /// # Errors
    /// When the other node does not answer in time or has not a short time ago, is busy, or is not the home any more, or
    /// when the message is too long for a link.
    pub fn fetch_retained(&self, tenant: TenantId, topic: &str) -> Result<Option<RetainedValue>, NotFetched> {
        let home = self.node.node_of(partition_of(tenant, topic)).ok_or(NotFetched::Moving)?;
        let silent = || NotFetched::Silent(home.to_string());
        if self.silent.has(self.now().monotonic, &home) {
            return Err(silent());
        }
        let asked = self.node.ask_node(&home, question(tenant, topic)).map_err(|_| silent())?;
        let bytes = match asked.recv_timeout(PATIENCE) {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(AskError::Busy)) => return Err(NotFetched::Busy),
            Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => return Err(silent()),
            Err(RecvTimeoutError::Timeout) => {
                self.silent.note(self.now().monotonic, home.clone());
                return Err(silent());
            }
        };
        match read_answer(&bytes, self.now()) {
            Some(HomeAnswer::Message(message)) => Ok(message),
            Some(HomeAnswer::TooLong) => Err(NotFetched::TooLong(home.to_string())),
            Some(HomeAnswer::NotHome) => Err(NotFetched::Moving),
            None => Err(silent()),
        }
    }

    /// The answer to such a question of another node, which begins with [`RETAINED_QUESTION`]. It is empty if a shard does
    /// not answer.
    pub fn answer_retained(&self, body: &[u8]) -> Vec<u8> {
        let Some((tenant, topic)) = read_question(body) else { return Vec::new() };
        // The asking node has checked the rights of its client.
        let principal = Principal {
            kind: PrincipalKind::Broker,
            tenant,
            name: String::new(),
            identity: None,
            listener: None,
            max_held_messages: 0,
            max_held_bytes: 0,
            unobserved_by: Vec::new(),
        };
        match self.retained(&principal, topic) {
            Ok(Ok(value)) => answer(value.as_ref(), self.now()),
            Ok(Err(Reason::NotServedHere)) => vec![NOT_HOME],
            Ok(Err(_)) | Err(_) => Vec::new(),
        }
    }
}

fn question(tenant: TenantId, topic: &str) -> Vec<u8> {
    [&[RETAINED_QUESTION][..], &tenant.0.to_be_bytes(), topic.as_bytes()].concat()
}

fn read_question(body: &[u8]) -> Option<(TenantId, &str)> {
    let (tenant, topic) = body.strip_prefix(&[RETAINED_QUESTION])?.split_first_chunk()?;
    Some((TenantId(u16::from_be_bytes(*tenant)), std::str::from_utf8(topic).ok()?))
}

fn answer(value: Option<&RetainedValue>, now: Now) -> Vec<u8> {
    let Some(RetainedValue { qos, properties, expires_at, payload }) = value else { return vec![NONE] };
    let left = if *expires_at == Millis::NEVER { ENDLESS } else { expires_at.since(now.monotonic) };
    let length = u32::try_from(properties.len()).unwrap_or(u32::MAX);
    let head = [&[FOUND, *qos as u8][..], &left.to_be_bytes(), &length.to_be_bytes()].concat();
    if head.len() + properties.len() + payload.len() > MAX_QUESTION_BYTES {
        return vec![TOO_LONG];
    }
    [&head, &properties[..], payload].concat()
}

/// Reads an answer; `None` if it is not one.
fn read_answer(bytes: &[u8], now: Now) -> Option<HomeAnswer> {
    match bytes.split_first()? {
        (&NONE, []) => Some(HomeAnswer::Message(None)),
        (&TOO_LONG, []) => Some(HomeAnswer::TooLong),
        (&NOT_HOME, []) => Some(HomeAnswer::NotHome),
        (&FOUND, rest) => {
            let (qos, rest) = rest.split_first()?;
            let qos = match qos {
                0 => QoS::AtMostOnce,
                1 => QoS::AtLeastOnce,
                2 => QoS::ExactlyOnce,
                _ => return None,
            };
            let (left, rest) = rest.split_first_chunk()?;
            let (length, rest) = rest.split_first_chunk()?;
            let (properties, payload) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
            let left = u64::from_be_bytes(*left);
            let expires_at = if left == ENDLESS { Millis::NEVER } else { Millis(now.monotonic.0.saturating_add(left)) };
            let (properties, payload) = (properties.to_vec(), payload.to_vec());
            Some(HomeAnswer::Message(Some(RetainedValue { qos, properties, expires_at, payload })))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Now = Now { monotonic: Millis(1_000), unix: 0 };

    #[test]
    fn a_retained_message_crosses_between_two_clocks() {
        let later = Now { monotonic: Millis(50), unix: 0 };
        for (ends, there) in [(Millis::NEVER, Millis::NEVER), (Millis(1_700), Millis(750)), (Millis(900), Millis(50))] {
            let value = |expires_at| RetainedValue {
                qos: QoS::ExactlyOnce,
                properties: vec![1, 0],
                expires_at,
                payload: b"21.5".to_vec(),
            };
            let read = read_answer(&answer(Some(&value(ends)), NOW), later);
            assert_eq!(read, Some(HomeAnswer::Message(Some(value(there)))));
        }
        assert_eq!(read_answer(&answer(None, NOW), later), Some(HomeAnswer::Message(None)));
    }

    #[test]
    fn a_message_beyond_the_bound_of_a_link_is_called_so() {
        let value = |bytes| RetainedValue {
            qos: QoS::AtMostOnce,
            properties: vec![0],
            expires_at: Millis::NEVER,
            payload: vec![b'x'; bytes],
        };
        let most = MAX_QUESTION_BYTES - answer(Some(&value(0)), NOW).len();
        let longest = answer(Some(&value(most)), NOW);
        assert_eq!(longest.len(), MAX_QUESTION_BYTES);
        assert_eq!(read_answer(&longest, NOW), Some(HomeAnswer::Message(Some(value(most)))));
        assert_eq!(read_answer(&answer(Some(&value(most + 1)), NOW), NOW), Some(HomeAnswer::TooLong));
    }

    #[test]
    fn a_node_that_is_not_the_home_says_so() {
        assert_eq!(read_answer(&[NOT_HOME], NOW), Some(HomeAnswer::NotHome));
        assert_eq!(read_answer(&[NOT_HOME, 0], NOW), None);
        assert_eq!(read_answer(&[], NOW), None, "a node that has no answer");
    }

    #[test]
    fn other_bytes_are_no_answer_and_no_question() {
        let whole = [&[FOUND, 1][..], &[0; 8], &[0, 0, 0, 2], b"ab"].concat();
        assert!(read_answer(&whole, NOW).is_some());
        for cut in 0..whole.len() {
            assert_eq!(read_answer(&whole[..cut], NOW), None, "{cut} bytes");
        }
        for wrong in
            [&b"{\"refused\":\"\"}"[..], &[NONE, 1], &[TOO_LONG, 1], &[FOUND, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]]
        {
            assert_eq!(read_answer(wrong, NOW), None, "{wrong:?}");
        }
        assert_eq!(read_question(&question(TenantId(7), "a/b")), Some((TenantId(7), "a/b")));
        for wrong in [&[RETAINED_QUESTION][..], &[RETAINED_QUESTION, 0], &[RETAINED_QUESTION, 0, 1, 0xff], b"{}"] {
            assert_eq!(read_question(wrong), None, "{wrong:?}");
        }
    }
}
