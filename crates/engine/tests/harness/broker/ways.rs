//! How a broker behaves.

use tidegate_mqtt::{QoS, ReasonCode};

/// How a broker without MQTT 5 answers a CONNECT of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoV5 {
    /// With a CONNACK of MQTT 3.1.1.
    OldConnAck,
    /// With a CONNACK of MQTT 5.
    NewConnAck,
    /// It closes the connection.
    Silence,
}

/// How a broker behaves.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a habit of its own")]
pub(crate) struct Ways {
    /// It takes connections.
    pub reachable: bool,
    /// Its answer to MQTT 5, if it does not speak it.
    pub no_v5: Option<NoV5>,
    /// The code with which it refuses connections.
    pub refuses: Option<ReasonCode>,
    /// It does not read its input.
    pub hangs: bool,
    /// The code with which it answers messages above QoS 0.
    pub answers: ReasonCode,
    /// Its PUBACK, PUBREC and PUBCOMP wait.
    pub withholds_acknowledgements: bool,
    /// Its SUBACK and UNSUBACK wait.
    pub withholds_sub_acks: bool,
    /// It acknowledges messages and throws them away.
    pub loses: bool,
    /// It keeps back the messages for subscribers.
    pub withholds_messages: bool,
    /// The client id for which all output waits.
    pub holds_up: Option<String>,
    /// Messages go to their subscribers before they are acknowledged.
    pub delivers_first: bool,
    /// A message comes once for each subscription that it matches.
    pub copies: bool,
    /// Subscriptions may have identifiers.
    pub identifies: bool,
    /// Its Receive Maximum.
    pub receive_maximum: Option<u16>,
    /// Its Maximum QoS.
    pub maximum_qos: Option<QoS>,
    /// It takes messages with RETAIN.
    pub retains: bool,
    /// Its Maximum Packet Size.
    pub max_packet: Option<u32>,
    /// The longest PUBLISH that it takes, without having said so.
    pub hidden_limit: Option<u32>,
    /// The longest payload that it takes, without having said so.
    pub hidden_payload_limit: Option<u32>,
    /// It answers one that is longer with PUBACK and 0x95, as Mosquitto does; otherwise it closes with this code.
    pub answers_too_large: bool,
    /// A filter that it refuses.
    pub refuses_filter: Option<String>,
    /// It closes the connection that brings a packet with this in a topic or filter, as Mosquitto does.
    pub closes_on: Option<&'static str>,
    /// The code of the DISCONNECT that it sends first, if it sends one.
    pub closes_with: Option<ReasonCode>,
}

impl Default for Ways {
    fn default() -> Self {
        Self {
            reachable: true,
            no_v5: None,
            refuses: None,
            hangs: false,
            answers: ReasonCode::Success,
            withholds_acknowledgements: false,
            withholds_sub_acks: false,
            loses: false,
            withholds_messages: false,
            holds_up: None,
            delivers_first: false,
            copies: false,
            identifies: true,
            receive_maximum: None,
            maximum_qos: None,
            retains: true,
            max_packet: None,
            hidden_limit: None,
            hidden_payload_limit: None,
            answers_too_large: false,
            refuses_filter: None,
            closes_on: None,
            closes_with: None,
        }
    }
}
