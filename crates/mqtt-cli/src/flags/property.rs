//! `-D PACKET PROPERTY VALUE`: properties of MQTT 5.0.

use std::num::{NonZeroU16, NonZeroU32};

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use tidegate_client::{
    ConnectProperties, DisconnectRequest, MessageProperties, PayloadFormat, TopicError, TopicNameBuf,
};

use super::{Tool, UsageError, heading};

const NAME: &str = "property";

const HELP: &str = "Set a property of MQTT 5.0, such as -D publish content-type text/plain; repeatable";

/// The values of each `-D`, unread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PropertyFlags {
    groups: Vec<Vec<String>>,
}

// By hand, since each `-D` takes three or four values and the derived code would join the values of several.
impl Args for PropertyFlags {
    fn augment_args(command: Command) -> Command {
        command.arg(
            Arg::new(NAME)
                .short('D')
                .long("property")
                .num_args(3..=4)
                .value_names(["PACKET", "PROPERTY", "VALUE"])
                .allow_negative_numbers(true)
                .action(ArgAction::Append)
                .help_heading(heading::MQTT)
                .help(HELP),
        )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for PropertyFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let occurrences = matches.get_occurrences::<String>(NAME);
        let groups = occurrences.into_iter().flatten().map(|values| values.cloned().collect());
        Ok(Self { groups: groups.collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// All properties, by the packet that carries them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Properties {
    pub connect: ConnectProperties,
    pub publish: PublishProperties,
    pub subscribe: SubscribeProperties,
    pub unsubscribe: Vec<(String, String)>,
    pub disconnect: DisconnectRequest,
    pub will: WillProperties,
}

/// Properties of PUBLISH packets.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PublishProperties {
    pub message: MessageProperties,
    pub topic_alias: Option<NonZeroU16>,
}

/// Properties of SUBSCRIBE packets.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SubscribeProperties {
    pub identifier: Option<NonZeroU32>,
    pub user_properties: Vec<(String, String)>,
}

/// Properties of the will.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct WillProperties {
    pub message: MessageProperties,
    pub delay_interval: Option<u32>,
}

/// The packets that each command sends.
const fn packets(tool: Tool) -> &'static [&'static str] {
    match tool {
        Tool::Publish => &["connect", "publish", "disconnect", "will"],
        Tool::Subscribe => &["connect", "subscribe", "unsubscribe", "disconnect", "will"],
        Tool::Request => &["connect", "publish", "subscribe", "disconnect", "will"],
    }
}

impl PropertyFlags {
    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Reads the properties that `tool` can send.
    ///
    /// # Errors
    /// At the first that does not exist, or whose value is wrong.
    pub(crate) fn read(&self, tool: Tool) -> Result<Properties, UsageError> {
        let mut properties = Properties::default();
        for group in &self.groups {
            let wrong = |error: PropertyError| UsageError::new(format!("-D {}: {error}", group.join(" ")));
            let [packet, name, values @ ..] = group.as_slice() else {
                return Err(wrong(PropertyError::Words));
            };
            let packet = packet.to_lowercase();
            if !packets(tool).contains(&packet.as_str()) {
                return Err(wrong(PropertyError::Packet { tool: tool.name(), packets: packets(tool).join(", ") }));
            }
            properties.set(&packet, name, values).map_err(wrong)?;
        }
        if properties.connect.authentication_data.is_some() && properties.connect.authentication_method.is_none() {
            return Err(UsageError::new("authentication-data needs an authentication-method"));
        }
        Ok(properties)
    }
}

/// Why a property of `-D` is refused.
#[derive(Debug, thiserror::Error)]
enum PropertyError {
    /// A word is missing.
    #[error("it takes a packet, a property and a value")]
    Words,
    /// The command does not send this packet.
    #[error("`{tool}` sets properties of {packets}")]
    Packet {
        /// The name of the command.
        tool: &'static str,
        /// The packets that it sends.
        packets: String,
    },
    /// The packet has no such property.
    #[error("{0} has no such property")]
    Unknown(String),
    /// A user property has two values.
    #[error("user-property takes a name and a value")]
    UserProperty,
    /// Each other property has one.
    #[error("{0} takes one value")]
    OneValue(String),
    /// The number does not fit the property.
    #[error("the value is out of range")]
    Range,
    /// The property is true or false.
    #[error("the value is 0 or 1")]
    Flag,
    /// The property is a topic name.
    #[error("the topic {0}")]
    Topic(#[from] TopicError),
}

impl Properties {
    fn set(&mut self, packet: &str, name: &str, values: &[String]) -> Result<(), PropertyError> {
        if name == "user-property" {
            let [name, value] = values else {
                return Err(PropertyError::UserProperty);
            };
            self.user_properties(packet).push((name.clone(), value.clone()));
            return Ok(());
        }
        let [value] = values else {
            return Err(PropertyError::OneValue(name.to_owned()));
        };
        let known = match packet {
            "connect" => set_connect(&mut self.connect, name, value)?,
            "publish" if name == "topic-alias" => {
                self.publish.topic_alias = Some(number(value)?);
                true
            }
            "publish" => set_message(&mut self.publish.message, name, value)?,
            "will" if name == "will-delay-interval" => {
                self.will.delay_interval = Some(number(value)?);
                true
            }
            "will" => set_message(&mut self.will.message, name, value)?,
            "subscribe" if name == "subscription-identifier" => {
                self.subscribe.identifier = Some(number(value)?);
                true
            }
            "disconnect" if name == "session-expiry-interval" => {
                self.disconnect.session_expiry_interval = Some(number(value)?);
                true
            }
            "disconnect" if name == "reason-string" => {
                self.disconnect.reason_string = Some(value.clone());
                true
            }
            _ => false,
        };
        if known { Ok(()) } else { Err(PropertyError::Unknown(packet.to_owned())) }
    }

    fn user_properties(&mut self, packet: &str) -> &mut Vec<(String, String)> {
        match packet {
            "connect" => &mut self.connect.user_properties,
            "publish" => &mut self.publish.message.user_properties,
            "subscribe" => &mut self.subscribe.user_properties,
            "unsubscribe" => &mut self.unsubscribe,
            "disconnect" => &mut self.disconnect.user_properties,
            _ => &mut self.will.message.user_properties,
        }
    }
}

/// False when there is no such property.
fn set_connect(properties: &mut ConnectProperties, name: &str, value: &str) -> Result<bool, PropertyError> {
    match name {
        "session-expiry-interval" => properties.session_expiry_interval = Some(number(value)?),
        "receive-maximum" => properties.receive_maximum = Some(number(value)?),
        "maximum-packet-size" => properties.maximum_packet_size = Some(number(value)?),
        "topic-alias-maximum" => properties.topic_alias_maximum = Some(number(value)?),
        "request-response-information" => properties.request_response_information = Some(flag(value)?),
        "request-problem-information" => properties.request_problem_information = Some(flag(value)?),
        "authentication-method" => properties.authentication_method = Some(value.to_owned()),
        "authentication-data" => properties.authentication_data = Some(value.as_bytes().to_vec()),
        _ => return Ok(false),
    }
    Ok(true)
}

/// False when there is no such property.
fn set_message(properties: &mut MessageProperties, name: &str, value: &str) -> Result<bool, PropertyError> {
    match name {
        "payload-format-indicator" => {
            let utf8 = flag(value)?;
            let format = if utf8 { PayloadFormat::Utf8 } else { PayloadFormat::Unspecified };
            properties.payload_format = Some(format);
        }
        "message-expiry-interval" => properties.message_expiry = Some(number(value)?),
        "content-type" => properties.content_type = Some(value.to_owned()),
        "response-topic" => {
            let topic = TopicNameBuf::new(value)?;
            properties.response_topic = Some(topic);
        }
        "correlation-data" => properties.correlation_data = Some(value.as_bytes().to_vec()),
        _ => return Ok(false),
    }
    Ok(true)
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, PropertyError> {
    text.parse().map_err(|_| PropertyError::Range)
}

fn flag(text: &str) -> Result<bool, PropertyError> {
    match text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(PropertyError::Flag),
    }
}
