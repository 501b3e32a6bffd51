//! Long poll on a retained message: an answer when it is another one than the client knows.

use std::sync::Arc;
use std::time::Duration;

use hyper::{HeaderMap, StatusCode};
use tidegate_client::{Event, Message, QoS, TopicFilterBuf};
use tokio::time::Instant;

use crate::RetainedMessage;
use crate::answer::{Answer, json, not_let_in, outcome, wrong};
use crate::routes::{Visitor, bad, retained};
use crate::session::{Session, Term};

/// How long a request may wait for a message.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(60);

/// Reads how long a request waits.
///
/// # Errors
/// In words for people.
pub(crate) fn wait_of(text: &str) -> Result<Duration, String> {
    let length = tidegate_units::duration::parse_length(text).filter(|length| *length <= MAX_WAIT);
    length.ok_or_else(|| format!("`wait` is a length of time such as 30s, 60s at most, not {text:?}"))
}

impl Visitor {
    /// The retained message, as soon as it is another one than `If-None-Match` says or until `wait` is over.
    pub(crate) async fn watch(&self, topic: &str, headers: &HeaderMap, wait: Duration) -> Result<Answer, Box<Answer>> {
        let until = Instant::now() + wait;
        let is_new = |message: &Option<RetainedMessage>| {
            let Some(message) = message else { return false };
            retained(message.clone(), headers).status() != StatusCode::NOT_MODIFIED
        };
        let known = self.fetch(topic, headers).await?;
        if wait.is_zero() || is_new(&known) {
            return Ok(shown(known, headers));
        }
        // A filter of a shared subscription is a topic name, too.
        let filter = TopicFilterBuf::new(topic).ok().filter(|_| !topic.starts_with('$'));
        let Some(filter) = filter else { return bad("`wait` is not for topics that begin with `$`") };
        let mut session = self.ring(headers, filter).await?;
        // The message may have changed before the subscription.
        let known = self.fetch(topic, headers).await?;
        if is_new(&known) {
            return Ok(shown(known, headers));
        }
        loop {
            let event = tokio::time::timeout_at(until, session.next()).await;
            match event {
                Ok(Event::Message(message)) if message.retain => return Ok(shown(published(*message), headers)),
                Ok(Event::Disconnected(why)) => return Err(Box::new(not_let_in(why.into()))),
                Ok(_) => {}
                Err(_) => return Ok(shown(known, headers)),
            }
        }
    }

    /// A session that gets each message of the topic.
    async fn ring(&self, headers: &HeaderMap, filter: TopicFilterBuf) -> Result<Session, Box<Answer>> {
        let credentials = self.credentials(headers)?;
        let gateway = Arc::clone(&self.gateway);
        let opened = Session::open(gateway, self.caller(&credentials), &credentials, Term::Connection).await;
        let mut session = opened.map_err(|failure| Box::new(not_let_in(failure)))?;
        // The QoS of a retained message is that of its PUBLISH, so none is lowered.
        match session.subscribe(filter, QoS::ExactlyOnce, false).await {
            Ok((granted, _)) if !granted.code.is_error() => Ok(session),
            Ok((refused, _)) => {
                let (status, value) = outcome(&Ok(refused));
                Err(Box::new(json(status, &value)))
            }
            Err(failure) => Err(Box::new(not_let_in(failure))),
        }
    }
}

/// The retained message that a PUBLISH has left behind.
fn published(message: Message) -> Option<RetainedMessage> {
    let Message { qos, payload, properties, .. } = message;
    (!payload.is_empty()).then_some(RetainedMessage { qos: qos as u8, payload, properties })
}

/// The answer with a retained message, or that there is none.
pub(crate) fn shown(message: Option<RetainedMessage>, headers: &HeaderMap) -> Answer {
    match message {
        Some(message) => retained(message, headers),
        None => wrong(StatusCode::NOT_FOUND, "the topic has no retained message"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_has_a_unit_and_a_bound() {
        assert_eq!(wait_of("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(wait_of("0"), Ok(Duration::ZERO));
        for wrong in ["61s", "30", "-1s", "", "forever"] {
            assert!(wait_of(wrong).is_err(), "{wrong}");
        }
    }
}
