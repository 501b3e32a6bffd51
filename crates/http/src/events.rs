//! Server-Sent Events: messages of a subscription as they come.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Map, Value, json};
use tidegate_client::{Event, Message};
use tokio::sync::{mpsc, watch};

use crate::session::Session;

/// Events that wait for the socket; further ones wait at the broker, in the client's queue.
pub(crate) const WAITING: usize = 16;
/// Silence after which a line is sent that says nothing, so that a lost client is noticed.
const BEAT: Duration = Duration::from_secs(15);
/// How long a client may not read before its stream ends.
const STALLED: Duration = Duration::from_secs(60);

/// Hands the messages of a session on until either side ends. A message is acknowledged to the broker when it is handed
/// on.
pub(crate) async fn pump(
    mut session: Session,
    early: Vec<Message>,
    events: mpsc::Sender<Bytes>,
    mut stop: watch::Receiver<bool>,
) {
    let mut number = 0;
    for message in early {
        number += 1;
        if !hand_on(&mut session, &message, number, &events).await {
            return;
        }
    }
    loop {
        tokio::select! {
            event = session.next() => match event {
                Event::Message(message) => {
                    number += 1;
                    if !hand_on(&mut session, &message, number, &events).await {
                        return;
                    }
                }
                Event::Disconnected(_) => return,
                _ => {}
            },
            () = events.closed() => return,
            _ = stop.changed() => return,
            () = tokio::time::sleep(BEAT) => {
                if !send(&events, Bytes::from_static(b":\n\n")).await {
                    return;
                }
            }
        }
    }
}

async fn hand_on(session: &mut Session, message: &Message, number: u64, events: &mpsc::Sender<Bytes>) -> bool {
    if !send(events, encode(message, number).into()).await {
        return false;
    }
    if let Some(delivery) = message.delivery {
        session.acknowledge(delivery);
    }
    true
}

async fn send(events: &mpsc::Sender<Bytes>, bytes: Bytes) -> bool {
    matches!(tokio::time::timeout(STALLED, events.send(bytes)).await, Ok(Ok(())))
}

/// A message as an event.
fn encode(message: &Message, number: u64) -> String {
    format!("event: message\nid: {number}\ndata: {}\n\n", Value::Object(object(message)))
}

fn object(message: &Message) -> Map<String, Value> {
    let properties = &message.properties;
    let mut object = Map::new();
    let mut add = |name: &str, value: Value| drop(object.insert(name.to_owned(), value));
    add("topic", message.topic.as_str().into());
    match std::str::from_utf8(&message.payload) {
        Ok(text) => add("payload", text.into()),
        Err(_) => add("payload_base64", STANDARD.encode(&message.payload).into()),
    }
    add("qos", (message.qos as u8).into());
    add("retain", message.retain.into());
    if let Some(seconds) = properties.message_expiry {
        add("expiry", seconds.into());
    }
    if let Some(content_type) = &properties.content_type {
        add("content_type", content_type.as_str().into());
    }
    if let Some(topic) = &properties.response_topic {
        add("response_topic", topic.as_str().into());
    }
    if let Some(data) = &properties.correlation_data {
        add("correlation_data", STANDARD.encode(data).into());
    }
    if !properties.user_properties.is_empty() {
        let pairs = properties.user_properties.iter().map(|(name, value)| json!([name, value]));
        add("user_properties", pairs.collect());
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_client::{MessageProperties, QoS, TopicNameBuf};

    #[test]
    fn an_event_is_one_line_of_data_whatever_the_payload() {
        let message = |payload: &[u8]| Message {
            topic: TopicNameBuf::new("a/b").unwrap(),
            payload: payload.to_vec(),
            qos: QoS::AtLeastOnce,
            retain: false,
            dup: false,
            packet_id: None,
            properties: MessageProperties {
                user_properties: vec![("k".to_owned(), "v".to_owned())],
                ..MessageProperties::default()
            },
            subscription_identifiers: Vec::new(),
            topic_alias: None,
            delivery: None,
        };
        let text = encode(&message(b"one\n\ntwo"), 7);
        assert_eq!(
            text,
            "event: message\nid: 7\ndata: {\"payload\":\"one\\n\\ntwo\",\"qos\":1,\"retain\":false,\"topic\":\"a/b\",\"user_properties\":[[\"k\",\"v\"]]}\n\n"
        );
        assert!(encode(&message(&[0xff]), 1).contains("\"payload_base64\":\"/w==\""));
    }
}
