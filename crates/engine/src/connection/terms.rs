//! The limits that a CONNACK has promised.

use crate::connection::Connection;
use crate::settings::{ListenerSettings, Settings};
use crate::wire::{WireError, WireReader, WireWrite};
use tidegate_mqtt::QoS;

/// The limits that a client may use since its CONNACK, whatever listener its connection has come to since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PromisedTerms {
    /// Largest packet of the client, bytes.
    pub max_packet_size: u32,
    /// Unacknowledged messages of QoS 1 and 2 of the client.
    pub receive_maximum: u16,
    /// Highest topic alias of the client.
    pub topic_alias_maximum: u16,
    /// Highest QoS of a PUBLISH of the client.
    pub maximum_qos: QoS,
    /// Whether messages may be retained.
    pub retain_available: bool,
    /// Whether there are shared subscriptions.
    pub shared_available: bool,
}

impl PromisedTerms {
    /// The terms of a new connection of this listener.
    pub(crate) fn of(settings: &Settings, listener: &ListenerSettings) -> Self {
        Self {
            max_packet_size: listener.max_packet_size,
            receive_maximum: listener.receive_maximum,
            topic_alias_maximum: listener.topic_alias_maximum,
            maximum_qos: listener.maximum_qos,
            retain_available: settings.retained.available,
            shared_available: settings.shared.available,
        }
    }

    /// Whether a listener can keep them: limits of a connection are kept, parts that are switched off are not.
    pub(crate) fn can_be_kept(self, here: Self) -> bool {
        self.retain_available <= here.retain_available && self.shared_available <= here.shared_available
    }

    /// Whether new connections of the listener get as much.
    pub(crate) fn are_within(self, here: Self) -> bool {
        self.max_packet_size <= here.max_packet_size
            && self.receive_maximum <= here.receive_maximum
            && self.topic_alias_maximum <= here.topic_alias_maximum
            && self.maximum_qos <= here.maximum_qos
    }

    pub(crate) fn write(self, out: &mut Vec<u8>) {
        out.put_u32(self.max_packet_size);
        out.put_u16(self.receive_maximum);
        out.put_u16(self.topic_alias_maximum);
        out.put_u8(self.maximum_qos as u8);
        out.put_u8(u8::from(self.retain_available));
        out.put_u8(u8::from(self.shared_available));
    }

    pub(crate) fn read(reader: &mut WireReader<'_>) -> Result<Self, WireError> {
        Ok(Self {
            max_packet_size: reader.u32("a maximum packet size")?,
            receive_maximum: reader.u16("a receive maximum")?,
            topic_alias_maximum: reader.u16("a topic alias maximum")?,
            maximum_qos: match reader.u8("a maximum QoS")? {
                0 => QoS::AtMostOnce,
                1 => QoS::AtLeastOnce,
                2 => QoS::ExactlyOnce,
                _ => return Err(WireError { reading: "a maximum QoS" }),
            },
            retain_available: reader.flag("whether messages are retained")?,
            shared_available: reader.flag("whether there are shared subscriptions")?,
        })
    }
}

impl Connection {
    /// The terms of a connection that has come from another node, where these are wider than its listener's.
    #[cold]
    pub(crate) fn promised(&self) -> Option<&PromisedTerms> {
        self.extra.as_ref()?.promised.as_deref()
    }

    /// Whether its terms are wider than its listener's, and have this QoS.
    #[cold]
    pub(crate) fn was_promised(&self, qos: QoS) -> bool {
        self.promised().is_some_and(|terms| qos <= terms.maximum_qos)
    }

    /// Bytes of the largest packet that the client was promised, where that is more than its listener takes; else 0.
    #[cold]
    pub(crate) fn promised_size(&self) -> u32 {
        self.promised().map_or(0, |terms| terms.max_packet_size)
    }
}
