//! Messages between the clients of this broker and applications on the bus.

use super::CoreError;
use tidegate_context::name_of;
use tidegate_context::records::{Annotations, Delivery, NodeMessage, Packing};
use tidegate_context::service::{
    ApplicationEvent, ApplicationHost, ApplicationSettings, Bell, Courier, Running, Sharing, start_applications,
};
use tidegate_engine::{InnerPublication, Millis, ObservedMessage, TenantId};
use tidegate_mqtt::{PayloadFormat, PublishProperties, QoS};
use tidegate_node::{Node, NodeHandle, Observation, RecordEvent, Records};

use super::host::answer_of;
use tidegate_config::Config;
use tidegate_config::context::gateway_name;
use tidegate_config::sections::context::{DeliveryName, EnvelopeName};

/// Identifiers of the properties that a record can say.
const PAYLOAD_FORMAT: u8 = 0x01;
const CONTENT_TYPE: u8 = 0x03;
const RESPONSE_TOPIC: u8 = 0x08;
const CORRELATION_DATA: u8 = 0x09;
const USER_PROPERTY: u8 = 0x26;

/// Starts the service.
///
/// # Errors
/// When the bus cannot be used.
pub(super) fn start(config: &Config, node: &Node, courier: &Courier, member: &str) -> Result<Running, CoreError> {
    let context = &config.context;
    let bell = Bell::default();
    let (handle, prefix) = (node.handle(), config.addresses.prefix.clone());
    let records = handle.insiders().records(&bell.wake());
    let host = NodeApplications { node: handle, records, prefix };
    let shared = match context.delivery {
        // The nodes of a cluster reach each other's clients.
        DeliveryName::Auto => !config.cluster.name.is_empty(),
        DeliveryName::Shared => true,
        DeliveryName::Each => false,
    };
    let settings = ApplicationSettings {
        gateway: gateway_name(config),
        packing: match context.envelope {
            EnvelopeName::Plain => Packing::Plain,
            EnvelopeName::Json => Packing::Json,
            EnvelopeName::MessagePack => Packing::MessagePack,
        },
        sharing: if shared { Sharing::Shared(member.to_owned()) } else { Sharing::Each },
    };
    start_applications(courier.clone(), settings, Box::new(host), bell).map_err(CoreError::Applications)
}

/// This broker, as the service sees it.
struct NodeApplications {
    node: NodeHandle,
    records: Records,
    prefix: String,
}

impl ApplicationHost for NodeApplications {
    fn take(&mut self) -> Option<ApplicationEvent> {
        Some(match self.records.take()? {
            RecordEvent::Message(record) => self.message(record),
            RecordEvent::Taken { number, taken } => ApplicationEvent::Taken { number, taken },
        })
    }

    fn deliver(&mut self, delivery: &Delivery, number: u64) {
        let now = self.node.now().monotonic;
        let message = InnerPublication {
            tenant: TenantId::DEFAULT,
            topic: format!("{}/to/{}", self.prefix, delivery.address),
            qos: match delivery.qos {
                0 => QoS::AtMostOnce,
                1 => QoS::AtLeastOnce,
                _ => QoS::ExactlyOnce,
            },
            retain: false,
            properties: properties_of(&delivery.annotations),
            payload: delivery.payload.clone(),
            expires_at: delivery.expiry.map_or(Millis::NEVER, |seconds| now.plus_seconds(seconds)),
        };
        self.records.publish(message, number);
    }
}

impl NodeApplications {
    fn message(&self, record: Box<Observation>) -> ApplicationEvent {
        let now = self.node.now().monotonic;
        let message = message_of(record.message(), &self.prefix, now);
        ApplicationEvent::Message { message: Box::new(message), answer: answer_of(*record) }
    }
}

fn message_of(message: &ObservedMessage, prefix: &str, now: Millis) -> NodeMessage {
    let rest = message.topic.strip_prefix(prefix).and_then(|rest| rest.strip_prefix("/to/app/")).unwrap_or_default();
    let (application, topic) = rest.split_once('/').unwrap_or((rest, ""));
    let left =
        (message.expires_at != Millis::NEVER).then(|| message.expires_at.0.saturating_sub(now.0).div_ceil(1_000));
    NodeMessage {
        node: message.client_id.clone(),
        application: name_of(application),
        topic: topic.to_owned(),
        qos: message.qos as u8,
        retain: message.retain,
        expiry: left.map(|seconds| u32::try_from(seconds).unwrap_or(u32::MAX)),
        annotations: annotations_of(&message.properties),
        payload: message.payload.clone(),
    }
}

fn annotations_of(properties: &[u8]) -> Annotations {
    // The broker has checked them when they came in.
    let Ok(properties) = PublishProperties::decode(properties) else { return Annotations::default() };
    let pairs = properties.user_properties.iter();
    Annotations {
        content_type: properties.content_type.map(str::to_owned),
        is_text: properties.payload_format == Some(PayloadFormat::Utf8),
        response_topic: properties.response_topic.map(|topic| topic.as_str().to_owned()),
        correlation_data: properties.correlation_data.map(<[u8]>::to_vec),
        user_properties: pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
    }
}

/// The bytes of properties that are passed on. Their lengths have been checked.
fn properties_of(annotations: &Annotations) -> Vec<u8> {
    let mut out = Vec::new();
    let mut put = |identifier: Option<u8>, bytes: &[u8]| {
        let len = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
        out.extend(identifier);
        out.extend_from_slice(&len.to_be_bytes());
        out.extend_from_slice(bytes.get(..usize::from(len)).unwrap_or_default());
    };
    if let Some(text) = &annotations.content_type {
        put(Some(CONTENT_TYPE), text.as_bytes());
    }
    if let Some(topic) = &annotations.response_topic {
        put(Some(RESPONSE_TOPIC), topic.as_bytes());
    }
    if let Some(data) = &annotations.correlation_data {
        put(Some(CORRELATION_DATA), data);
    }
    for (name, value) in &annotations.user_properties {
        put(Some(USER_PROPERTY), name.as_bytes());
        put(None, value.as_bytes());
    }
    if annotations.is_text {
        out.extend_from_slice(&[PAYLOAD_FORMAT, 1]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_message_says_beside_its_payload_goes_both_ways() {
        let annotations = Annotations {
            content_type: Some("text/plain".to_owned()),
            is_text: true,
            response_topic: Some("ctx/to/app/a".to_owned()),
            correlation_data: Some(vec![0, 255]),
            user_properties: vec![("a".to_owned(), "1".to_owned()), ("a".to_owned(), String::new())],
        };
        assert_eq!(annotations_of(&properties_of(&annotations)), annotations);
        assert_eq!(annotations_of(&[]), Annotations::default());
    }

    #[test]
    fn a_topic_of_applications_has_a_name_and_a_rest() {
        let message = |topic: &str| ObservedMessage {
            ticket: tidegate_engine::ObservedTicket::default(),
            is_awaited: false,
            tenant: TenantId::DEFAULT,
            client_id: "n".to_owned(),
            topic: topic.to_owned(),
            qos: QoS::AtLeastOnce,
            retain: false,
            properties: Vec::new(),
            expires_at: Millis(2_001),
            payload: b"x".to_vec(),
        };
        let read = |topic: &str| {
            let message = message_of(&message(topic), "a/ctx", Millis(1_000));
            (message.application, message.topic, message.expiry)
        };
        assert_eq!(read("a/ctx/to/app/dis%2Fpatch/job/1"), ("dis/patch".to_owned(), "job/1".to_owned(), Some(2)));
        assert_eq!(read("a/ctx/to/app/dispatch"), ("dispatch".to_owned(), String::new(), Some(2)));
    }
}
