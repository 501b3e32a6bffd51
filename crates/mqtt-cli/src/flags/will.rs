//! The will.

use clap::Args;
use tidegate_client::{QoS, TopicNameBuf, Will};

use super::property::WillProperties;
use super::{UsageError, heading, parse_qos};
use crate::quoted::Quoted;

/// Flags that describe the message which the server publishes when the connection breaks.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct WillFlags {
    /// Have the server publish a message to this topic when the connection breaks
    #[arg(id = "will-topic", long, value_name = "TOPIC", allow_hyphen_values = true, help_heading = heading::WILL)]
    topic: Option<String>,

    /// The payload of that message [default: empty]
    #[arg(id = "will-payload", long, value_name = "TEXT", allow_hyphen_values = true, help_heading = heading::WILL)]
    payload: Option<String>,

    /// The QoS of that message [default: 0]
    #[arg(id = "will-qos", long, value_name = "QOS", value_parser = parse_qos, help_heading = heading::WILL)]
    qos: Option<QoS>,

    /// Have that message retained
    #[arg(id = "will-retain", long, help_heading = heading::WILL)]
    retain: bool,
}

impl WillFlags {
    /// # Errors
    /// When the topic is invalid, or a flag for a will comes without a topic.
    pub(super) fn will(&self, properties: &WillProperties) -> Result<Option<Will>, UsageError> {
        let Some(topic) = &self.topic else {
            let said = self.payload.is_some() || self.qos.is_some() || self.retain;
            if said || *properties != WillProperties::default() {
                return Err(UsageError::new("a will needs a topic: add --will-topic TOPIC"));
            }
            return Ok(None);
        };
        let topic = TopicNameBuf::new(topic.clone())
            .map_err(|error| UsageError::new(format!("--will-topic {} {error}", Quoted(topic))))?;
        let payload = self.payload.clone().unwrap_or_default();
        Ok(Some(Will {
            qos: self.qos.unwrap_or_default(),
            retain: self.retain,
            delay_interval: properties.delay_interval,
            properties: properties.message.clone(),
            ..Will::new(topic, payload)
        }))
    }
}
